"""Aligned reader: elements of the question are put on the recipe's steps in order; a choice fits where the blank lies."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.alignment import log_partition, posterior

POOLS = ("blank", "allowed", "anywhere", "taken", "mean", "first", "last")


class AlignedReader(nn.Module):
    """Scores choices by an exact monotone alignment of the question with the recipe. Ours; not a published system.

    Textual cloze. Each kind of evidence is a number for every title and step (`data.evidence`, plus the cosine of their
    Doc2Vec vectors). A weighted sum of them is the emission with which the three titles that are shown are aligned; the
    posterior of the blank says which steps the missing title may stand for. A choice is scored by each evidence at
    those steps, at all that the order allows, at any, at those which the shown titles take, by how the choice is written
    and by its words. The scores are linear in what is learned, apart from the emission.

    Visual tasks. The emission is the cosine of an element and a step after one linear map each, plus how far the step
    lies from where such a picture usually lies in a recipe. A choice is an arrangement of pictures: the question with the
    choice in the blank, the pictures without the intruder, the order itself; its score is the log partition of its
    alignments, plus how alike its pictures are, as neighbours and in all pairs.

    Args:
        vector_size: D of the text vectors.
        image_size: D of the image vectors; None where no image is shown.
        channels: kinds of evidence in a batch.
        style_size: numbers on how a choice is written.
        indicators: rows of the table of the choices' words, without the row 0 of none.
        projection_size: of the space in which pictures and steps are compared.
        dropout: on the two vectors before they are compared.
        word_scale: how much faster the words' weights move than the others; with L2, how much less they are held back.
        use: kinds of evidence to keep, for ablations: words, characters, coverage, opening, distinctive, doc2vec, order,
            style, choice_words; None keeps all.
    """

    def __init__(
        self,
        vector_size: int = 100,
        image_size: int | None = None,
        channels: int = 5,
        style_size: int = 40,
        indicators: int = 0,
        projection_size: int = 128,
        dropout: float = 0.2,
        word_scale: float = 3.0,
    ) -> None:
        super().__init__()
        self.word_scale = word_scale
        # Evidence comes in units of its deviation, so 0.5 of words and characters each is the untrained aligner.
        self.register_buffer("prior", torch.tensor([0.5, 0.5] + [0.0] * (channels - 1)))
        self.emission = nn.Parameter(torch.zeros(channels + 1))
        self.order = nn.Parameter(torch.zeros(1))
        self.pools = nn.Parameter(torch.zeros(channels + 1, len(POOLS)))
        self.fit = nn.Parameter(torch.zeros(1))
        self.style = nn.Parameter(torch.zeros(style_size))
        self.words = nn.Embedding(indicators + 1, 1, padding_idx=0)
        nn.init.zeros_(self.words.weight)
        if image_size is not None:
            self.pictures = _Pictures(vector_size, image_size, projection_size, dropout)

    def forward(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        """Scores (B, K); in textual cloze also attention (B, 4, T), the posterior of the titles over the steps."""
        if batch["task"] == "textual_cloze":
            return self._textual(batch)
        return {"scores": self.pictures(batch)}

    def _textual(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        evidence, mask = self._evidence(batch), batch["step_mask"]
        blank = batch["placeholder"]  # (B, 4)
        weight = self.prior + self.emission
        emission = torch.einsum("c,bcet->bet", weight, evidence)
        shown = emission[:, :4].masked_fill(blank[:, :, None], 0.0)
        place = posterior(shown, mask)  # (B, 4, T)
        log_blank = place[blank]  # (B, T)
        pools = _pool(evidence[:, :, 4:], log_blank.exp(), (place.exp() * ~blank[:, :, None]).sum(1), blank, mask)
        scores = torch.einsum("bckp,cp->bk", pools, self.pools)
        fits = torch.logsumexp(log_blank[:, None] + emission[:, 4:].masked_fill(~mask[:, None], -1e4), dim=2)  # (B, K)
        scores = scores + self.fit * fits + batch["style"] @ self.style
        words = self.words(batch["words"]).squeeze(-1).sum(dim=2)  # (B, K)
        return {"scores": scores + self.word_scale * words, "attention": place.exp()}

    def _evidence(self, batch: dict[str, Any]) -> Tensor:
        """(B, C + 1, 4 + K, T): the batch's evidence and the cosine of the vectors."""
        table = (
            torch.cat([batch["text"], batch["image"]])
            if batch["image"].shape[1] == batch["text"].shape[1]
            else batch["text"]
        )
        titles = table[torch.cat([batch["query"], batch["choices"].squeeze(2)], dim=1)]  # (B, 4 + K, D)
        steps = table[batch["document"].gather(1, batch["step"].clamp(min=0))]  # (B, T, D)
        steps = steps * (batch["step"] >= 0)[:, :, None]
        cosine = torch.bmm(F.normalize(titles, dim=2), F.normalize(steps, dim=2).transpose(1, 2))
        return torch.cat([batch["evidence"], 4.0 * cosine[:, None]], dim=1)


def _pool(evidence: Tensor, blank: Tensor, taken: Tensor, place: Tensor, mask: Tensor) -> Tensor:
    """(B, C, K, P) each evidence of each choice at the steps that matter; the pools are named in `POOLS`.

    evidence (B, C, K, T); blank, taken (B, T): how likely the blank, how many of the shown titles stand on a step;
    place (B, 4): where the blank is among the titles.
    """
    steps = mask.sum(1)
    at = torch.arange(mask.shape[1], device=mask.device)
    index = place.int().argmax(1)
    after = place.shape[1] - 1 - index
    allowed = mask & (at >= index[:, None]) & (at < (steps - after)[:, None])
    allowed = torch.where(allowed.any(1, keepdim=True), allowed, mask)
    hidden = -1e4
    every = mask[:, None, None]
    last = (steps - 1)[:, None, None, None].expand(*evidence.shape[:3], 1)
    return torch.stack(
        [
            (evidence * blank[:, None, None]).sum(3),
            evidence.masked_fill(~allowed[:, None, None], hidden).amax(3),
            evidence.masked_fill(~every, hidden).amax(3),
            (evidence * taken[:, None, None]).sum(3) / 3,
            (evidence * every).sum(3) / steps[:, None, None],
            evidence[..., 0],
            evidence.gather(3, last).squeeze(3),
        ],
        dim=3,
    )
