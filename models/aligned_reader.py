"""Aligned reader: elements of the question are put on the recipe's steps in order; a choice fits where the blank is."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from data.errors import InputError
from data.evidence import CHANNELS, ENCODER, STYLE_SIZE
from models.alignment import NEVER, log_partition, posterior

_PARTS = ("style", "choice_words", "alignment", "order", "likeness")
POOLS = ("blank", "allowed", "anywhere", "taken", "mean", "first", "last")


class AlignedReader(nn.Module):
    """Scores choices by an exact monotone alignment of the question with the recipe. Ours, not a published system.

    Textual cloze. Each kind of evidence is a number for every title and step (`data.evidence`, and the cosine of their
    Doc2Vec vectors). A weighted sum of them is the emission with which the three titles that are shown are aligned; the
    posterior of the blank says which steps the missing title may stand for. A choice is scored by each evidence at
    those steps, at all that the order allows, at any, and at those which the shown titles take; by how it is written;
    and by its words. All but the emission is linear in what is learned.

    Visual tasks. The emission is the cosine of a picture and a step after one linear map each, less how far the step
    lies from where such pictures usually are in a recipe. A choice stands for an arrangement of pictures: the question
    with the choice in its blank, the pictures without the intruder, or the order itself. Its score is the log
    partition of its alignments, plus how alike its pictures are, as neighbours and in all pairs.

    Args:
        vector_size: D of the text vectors.
        image_size: D of the image vectors; None where no image is shown.
        channels: names of the kinds of evidence in a batch.
        style_size: numbers on how a choice is written.
        indicators: rows of the table of the choices' words, without row 0, of none.
        projection_size: of the spaces in which pictures are compared with steps and with each other.
        dropout: on the vectors before they are compared.
        word_scale: how much less L2 holds back the weights of the choices' words than the others.
        picture_lr, picture_weight_decay: of the parameters for pictures, ten times as many as the others.
        without: evidence to leave out, for ablations: names of `channels`, or doc2vec, style, choice_words, alignment,
            order, likeness.
        task: the one that is trained, or "all". What a single visual task leaves unused is not trained: processes that
            train together wait for every gradient.
    """

    def __init__(
        self,
        vector_size: int = 100,
        image_size: int | None = None,
        channels: Sequence[str] | None = None,
        style_size: int = STYLE_SIZE,
        indicators: int = 0,
        projection_size: int = 128,
        dropout: float = 0.2,
        word_scale: float = 2.0,
        picture_lr: float = 0.003,
        picture_weight_decay: float = 0.001,
        without: Sequence[str] = (),
        task: str = "all",
    ) -> None:
        super().__init__()
        channels = CHANNELS if channels is None else channels
        names = [*channels, "doc2vec"]
        known = {*CHANNELS, ENCODER, "doc2vec", *_PARTS}
        if isinstance(without, str):
            raise InputError(f"model.net.without={without}: must be a list; write model.net.without=[{without}]")
        if isinstance(word_scale, bool) or not isinstance(word_scale, int | float) or not 0 < word_scale < math.inf:
            raise InputError(f"model.net.word_scale={word_scale}: must be a number above 0")
        for name in without:
            if name not in known:
                raise InputError(f"model.net.without: {name} is none of {', '.join(sorted(known))}")
        self.without, self.word_scale = frozenset(without), word_scale
        self.picture_lr, self.picture_weight_decay = picture_lr, picture_weight_decay
        # Evidence comes in units of its deviation; half of words and of characters is the aligner before training, and
        # what L2 pulls it back to.
        self.start: Tensor
        self.kept: Tensor
        self.register_buffer("start", torch.tensor([0.5 if n in ("words", "characters") else 0.0 for n in names]))
        self.register_buffer("kept", torch.tensor([float(n not in self.without) for n in names]))
        self.emission = nn.Parameter(torch.zeros(len(names)))
        self.pools = nn.Parameter(torch.zeros(len(names), len(POOLS)))
        self.fit = nn.Parameter(torch.zeros(1))
        self.style = nn.Parameter(torch.zeros(style_size))
        self.words = nn.Embedding(indicators + 1, 1, padding_idx=0)
        nn.init.zeros_(self.words.weight)
        self.pictures = None
        if image_size is not None:
            self.pictures = Pictures(
                vector_size, image_size, projection_size, dropout, self.without, ENCODER in channels
            )

        if task not in ("textual_cloze", "all"):
            for name, parameter in self.named_parameters():
                parameter.requires_grad_(name.startswith("pictures."))

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Parameters for an optimizer: those for titles as it is set, those for pictures with settings of their own."""
        groups: list[dict[str, Any]] = [{"params": [p for n, p in self.named_parameters() if "pictures." not in n]}]
        if self.pictures is not None:
            own = {"lr": self.picture_lr, "weight_decay": self.picture_weight_decay}
            groups.append({"params": list(self.pictures.parameters()), **own})
        return groups

    def forward(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        """Scores (B, K); in textual cloze also attention (B, 4, T), where the titles and the blank stand."""
        if "step" not in batch:
            raise InputError("data.evidence=null: model=aligned_reader weighs evidence; leave the setting out")
        if batch["task"] == "textual_cloze":
            return self._textual(batch)
        assert self.pictures is not None
        return {"scores": self.pictures(batch)}

    def _textual(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        evidence, mask = self._evidence(batch), batch["step_mask"]
        blank = batch["placeholder"]  # (B, 4)
        emission = torch.einsum("c,bcet->bet", self.start + self.emission, evidence)
        if "alignment" in self.without:
            emission = torch.zeros_like(emission)
        place = posterior(emission[:, :4].masked_fill(blank[:, :, None], 0.0), mask)  # (B, 4, T)
        log_blank, at = place[blank], place.exp()  # (B, T), (B, 4, T)
        pools = _pool(evidence[:, :, 4:], log_blank.exp(), at.masked_fill(blank[:, :, None], 0.0).sum(1), blank, mask)
        scores = torch.einsum("bckp,cp->bk", pools, self.pools)
        # log of the factor by which the choice in the blank's place multiplies the sum over all alignments.
        fits = torch.logsumexp(
            (log_blank[:, None] + emission[:, 4:]).masked_fill(~mask[:, None], NEVER), dim=2
        )  # (B, K)
        scores = scores + self.fit * fits
        if "style" not in self.without:
            scores = scores + batch["style"] @ self.style
        if "choice_words" not in self.without:
            scores = scores + self.word_scale * self.words(batch["indicators"]).squeeze(-1).sum(dim=2)
        return {"scores": scores, "attention": at}

    def _evidence(self, batch: dict[str, Any]) -> Tensor:
        """(B, C + 1, 4 + K, T): the batch's evidence, and the cosine of the vectors in like units."""
        titles = batch["text"][torch.cat([batch["query"], batch["choices"].squeeze(2)], dim=1)]  # (B, 4 + K, D)
        steps = _steps(batch["text"], batch)  # (B, T, D)
        cosine = torch.bmm(F.normalize(titles, dim=2), F.normalize(steps, dim=2).transpose(1, 2))
        evidence = torch.cat([batch["evidence"], 4.0 * cosine[:, None]], dim=1)
        return evidence * self.kept[:, None, None]


class Pictures(nn.Module):
    """Scores of arrangements of pictures, (B, K), for the visual tasks; see `AlignedReader`."""

    def __init__(
        self,
        vector_size: int,
        image_size: int,
        size: int,
        dropout: float,
        without: frozenset[str] = frozenset(),
        encoder: bool = False,
    ) -> None:
        super().__init__()
        self.without = without
        self.of_step, self.of_picture = nn.Linear(vector_size, size), nn.Linear(image_size, size)
        self.of_dish = nn.Linear(
            image_size, size
        )  # pictures of one recipe are alike in another way than picture and step
        self.place = nn.Sequential(nn.Linear(image_size, size), nn.ReLU(), nn.Linear(size, 1), nn.Sigmoid())
        self.dropout = nn.Dropout(dropout)
        self.sharpness = nn.Parameter(torch.tensor(10.0))
        self.encoder = nn.Parameter(torch.tensor(1.0)) if encoder else None
        self.order = nn.Parameter(torch.tensor(1.0))
        self.likeness = nn.Parameter(torch.tensor([1.0, 1.0, 1.0, 1.0]))

    def forward(self, batch: dict[str, Any]) -> Tensor:
        """(B, K)."""
        text, image = self.dropout(batch["text"]), self.dropout(batch["image"])
        shown = arrangements(batch) - len(text)  # (B, K, L) rows of the images
        picture = F.normalize(self.of_picture(image), dim=1)[shown]  # (B, K, L, S)
        steps = F.normalize(_steps(self.of_step(text), batch), dim=2)  # (B, T, S)
        emission = self.sharpness * torch.einsum("bkls,bts->bklt", picture, steps)
        if self.encoder is not None and ENCODER not in self.without:
            emission = emission + self.encoder * _of_arrangements(batch["evidence"][:, -1], batch)
        mask = batch["step_mask"]
        if "order" not in self.without:
            reach = (mask.sum(1) - 1).clamp(min=1)[:, None]
            at = torch.arange(mask.shape[1], device=mask.device) / reach  # (B, T) from 0 to 1 over the steps
            away = self.place(image).squeeze(1)[shown][..., None] - at[:, None, None]
            emission = emission - self.order * 5.0 * away**2
        b, k, length, t = emission.shape
        flat, masks = emission.reshape(b * k, length, t), mask.repeat_interleave(k, 0)
        if "alignment" in self.without:
            scores = flat.masked_fill(~masks[:, None], NEVER).amax(2).sum(1).view(b, k)
        else:
            scores = log_partition(flat, masks).view(b, k)
        if "likeness" in self.without:
            return scores
        alike = []
        for vectors in (self.of_dish(image), batch["image"]):
            unit = F.normalize(vectors, dim=1)[shown]
            pairs = unit @ unit.transpose(2, 3)  # (B, K, L, L)
            alike.append(pairs.diagonal(offset=1, dim1=2, dim2=3).mean(2))  # neighbours
            alike.append((pairs.sum((2, 3)) - pairs.diagonal(dim1=2, dim2=3).sum(2)) / (length * (length - 1)))
        return scores + 5.0 * torch.stack(alike, dim=2) @ self.likeness


def arrangements(batch: dict[str, Any]) -> Tensor:
    """(B, K, L) rows of the pictures in the order that choosing a choice would give them.

    Cloze: the question with the choice in its blank; coherence: the pictures without the choice; ordering: the choice.
    """
    choices = batch["choices"]  # (B, K, E)
    k = choices.shape[1]
    if batch["task"] == "visual_ordering":
        return choices
    if batch["task"] == "visual_cloze":
        shown = batch["query"][:, None].expand(-1, k, -1)
        return torch.where(batch["placeholder"][:, None], choices, shown)
    others = torch.tensor([[j for j in range(k) if j != i] for i in range(k)], device=choices.device)  # (K, K - 1)
    return choices.squeeze(2)[:, others]


def _of_arrangements(evidence: Tensor, batch: dict[str, Any]) -> Tensor:
    """(B, K, L, T) a kind of evidence (B, E, T) of each arrangement's pictures."""
    b, k, e = batch["choices"].shape
    numbers = torch.arange(evidence.shape[1], device=evidence.device)
    rows = arrangements(
        {**batch, "query": numbers[:4].expand(b, -1), "choices": numbers[4:].view(k, e).expand(b, -1, -1)}
    )
    length = rows.shape[2]
    at = rows.reshape(b, k * length, 1).expand(-1, -1, evidence.shape[2])
    return evidence.gather(1, at).view(b, k, length, -1)


def _steps(table: Tensor, batch: dict[str, Any]) -> Tensor:
    """(B, T, D) vector of each step, zeros for an empty one."""
    rows = batch["document"].gather(1, batch["step"].clamp(min=0))
    return table[rows] * (batch["step"] >= 0)[:, :, None]


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
    every = mask[:, None, None]
    last = (steps - 1)[:, None, None, None].expand(*evidence.shape[:3], 1)
    return torch.stack(
        [
            (evidence * blank[:, None, None]).sum(3),
            evidence.masked_fill(~allowed[:, None, None], NEVER).amax(3),
            evidence.masked_fill(~every, NEVER).amax(3),
            (evidence * taken[:, None, None]).sum(3) / 3,
            (evidence * every).sum(3) / steps[:, None, None],
            evidence[..., 0],
            evidence.gather(3, last).squeeze(3),
        ],
        dim=3,
    )
