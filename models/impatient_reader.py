"""Impatient Reader with a choice among K candidates in place of the softmax over entities."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from data.errors import InputError
from data.records import TASKS


class StateEncoder(nn.Module):
    """Uni-directional LSTM that returns the states of its last layer, (B, T, D) -> (B, T, H).

    Sequences are padded on the right and never packed: a state depends on what came before it only, so the states
    of the real elements are those of the sequence alone. Dropout acts between the layers and outside `nn.LSTM`,
    because the dropout inside it is not reproducible on a GPU even when seeded.
    """

    def __init__(self, input_size: int, hidden_size: int, layers: int, dropout: float) -> None:
        super().__init__()
        if dropout == 0:
            self.stack = nn.ModuleList([nn.LSTM(input_size, hidden_size, layers, batch_first=True)])
        else:
            sizes = [input_size] + [hidden_size] * (layers - 1)
            self.stack = nn.ModuleList([nn.LSTM(size, hidden_size, batch_first=True) for size in sizes])
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: Tensor) -> Tensor:
        """States of the last layer for every element, padding included."""
        states, _ = self.stack[0](inputs)
        for lstm in list(self.stack)[1:]:
            states, _ = lstm(self.dropout(states))
        return states


class ImpatientReader(nn.Module):
    """Impatient Reader (Hermann et al. 2015, section 2.2) as RecipeQA adapts it (Yagcioglu et al. 2018).

    The document is the sequence of a recipe's element vectors (step texts, step images), the query the sequence of
    the question's four elements. With y_d(t), y_q(i) the encoder states, u the last query state and r(0) = 0:

        m(i,t) = tanh(W_dm y_d(t) + W_rm r(i-1) + W_qm y_q(i))
        s(i,t) = softmax over t of w_ms . m(i,t)
        r(i)   = sum over t of s(i,t) y_d(t) + tanh(W_rr r(i-1))
        g      = tanh(W_rg r(Q) + W_qg u)

    and the score of a candidate is its cosine with g. Candidates are the vectors of the choices. In visual ordering
    each of the K permutations is a query of its own, and its candidate is the last state of the same query encoder
    projected to G. Right and wrong candidates pass through the same weights.

    Args:
        vector_size: D, size of the element vectors once images are reduced.
        hidden_size: H of both encoders.
        attention_size: M.
        candidate_size: G. With `candidate_encoder="identity"` it has to equal `vector_size`.
        layers: LSTM layers of each encoder.
        dropout: between LSTM layers. The weights of a model with dropout carry other names than without.
        attention_bias: adds one bias each to the sums inside m, r and g. The published equations have none.
        tanh_output: False leaves out the outer tanh of g.
        image_size: size of the image vectors in the batch; needed by `image_reducer="linear"` only.
        image_reducer: "none" where images come in at D, "linear" for a map image_size -> D that is trained along.
        placeholder: "zeros" keeps the vector the batch brings; "learned" puts a trained vector in its place.
        candidate_encoder: "identity", or "linear" for a trained map D -> G.
        task: one of the four tasks, or "all". A model for one task builds no weights that only another task uses,
            so that distributed training meets no parameter without a gradient.
    """

    def __init__(
        self,
        *,
        vector_size: int = 100,
        hidden_size: int = 256,
        attention_size: int = 256,
        candidate_size: int = 100,
        layers: int = 3,
        dropout: float = 0.0,
        attention_bias: bool = False,
        tanh_output: bool = True,
        image_size: int | None = None,
        image_reducer: str = "none",
        placeholder: str = "zeros",
        candidate_encoder: str = "identity",
        task: str = "all",
    ) -> None:
        super().__init__()
        _one_of("task", task, (*TASKS, "all"))
        _one_of("image_reducer", image_reducer, ("none", "linear"))
        _one_of("placeholder", placeholder, ("zeros", "learned"))
        _one_of("candidate_encoder", candidate_encoder, ("identity", "linear"))
        if layers < 1 or not 0 <= dropout < 1:
            raise InputError(f"model: layers={layers} must be at least 1 and dropout={dropout} in [0, 1)")
        if image_reducer == "linear" and not image_size:
            raise InputError("model: image_reducer=linear needs image_size, the size of the raw image vectors")
        if candidate_encoder == "identity" and candidate_size != vector_size and task != "visual_ordering":
            raise InputError(
                f"model: candidate_encoder=identity compares vectors of size {vector_size} with candidate_size="
                f"{candidate_size}; make them equal or set candidate_encoder=linear"
            )
        self.vector_size = vector_size
        self.tanh_output = tanh_output
        self.image_reducer = nn.Linear(image_size, vector_size) if image_reducer == "linear" and image_size else None

        self.document_encoder = StateEncoder(vector_size, hidden_size, layers, dropout)
        self.query_encoder = StateEncoder(vector_size, hidden_size, layers, dropout)
        # One bias for each sum is enough: W_dm, W_rr and W_rg carry it. A bias on w_ms would cancel in the softmax.
        self.w_dm = nn.Linear(hidden_size, attention_size, bias=attention_bias)
        self.w_rm = nn.Linear(hidden_size, attention_size, bias=False)
        self.w_qm = nn.Linear(hidden_size, attention_size, bias=False)
        self.w_ms = nn.Linear(attention_size, 1, bias=False)
        self.w_rr = nn.Linear(hidden_size, hidden_size, bias=attention_bias)
        self.w_rg = nn.Linear(hidden_size, candidate_size, bias=attention_bias)
        self.w_qg = nn.Linear(hidden_size, candidate_size, bias=False)

        cloze = task.endswith("cloze") or task == "all"
        self.placeholder = nn.Parameter(0.1 * torch.randn(vector_size)) if placeholder == "learned" and cloze else None
        picks_element = task != "visual_ordering" and candidate_encoder == "linear"
        self.candidate_encoder = nn.Linear(vector_size, candidate_size) if picks_element else None
        picks_order = task in ("visual_ordering", "all")
        self.order_encoder = nn.Linear(hidden_size, candidate_size) if picks_order else None

    def forward(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        """Score the K choices of each question.

        Args:
            batch: `text` (N_t, D), `image` (N_i, D or image_size), `document` (B, T), `document_mask` (B, T),
                `query` (B, Q), `placeholder` (B, Q), `choices` (B, K, E); indices point into text, then image.

        Returns:
            `scores` (B, K), cosines in [-1, 1], and `attention` (B, Q, T), or (B, K, Q, T) where E > 1.

        Raises:
            ValueError: a row of the document mask has no real element.
        """
        mask = batch["document_mask"]  # (B, T)
        if not torch.compiler.is_compiling() and not bool(mask.any(dim=1).all()):
            rows = (~mask.any(dim=1)).nonzero().flatten().tolist()
            raise ValueError(f"questions without any document element in rows {rows} of the batch")

        vectors = self._vectors(batch)  # (N, D)
        document = self.document_encoder(F.embedding(batch["document"], vectors))  # (B, T, H)
        choices = F.embedding(batch["choices"], vectors)  # (B, K, E, D)
        n, _, elements, _ = choices.shape

        # P queries for each document: one, or in ordering one for each permutation; the document is encoded once.
        if elements > 1:
            query = choices.flatten(0, 1)  # (B*K, E, D)
        else:
            query = F.embedding(batch["query"], vectors)  # (B, Q, D)
            if self.placeholder is not None:
                query = torch.where(batch["placeholder"][..., None], self.placeholder.to(query.dtype), query)
        query = self.query_encoder(query)
        query = query.view(n, -1, *query.shape[1:])  # (B, P, Q, H)
        last = query[:, :, -1]  # u, (B, P, H)

        r, attention = self._read(document, mask, query)
        g = self.w_rg(r) + self.w_qg(last)  # (B, P, G)
        if self.tanh_output:
            g = torch.tanh(g)

        if elements > 1:
            if self.order_encoder is None:
                raise ValueError("this reader was built for another task than visual_ordering")
            candidates = self.order_encoder(last)  # (B, K, G)
        else:
            candidates = choices[:, :, 0]  # (B, K, G)
            if self.candidate_encoder is not None:
                candidates = self.candidate_encoder(candidates)

        # Half precision would tie scores that differ; the eps keeps zero vectors (empty titles) at cosine 0.
        exact = torch.promote_types(g.dtype, torch.float32)
        scores = F.cosine_similarity(g.to(exact), candidates.to(exact), dim=-1, eps=1e-6)  # (B, K)
        return {"scores": scores, "attention": attention if elements > 1 else attention[:, 0]}

    def _vectors(self, batch: dict[str, Any]) -> Tensor:
        """All element vectors of the batch at size D, texts first."""
        text, image = batch["text"], batch["image"]
        if self.image_reducer is not None:
            image = self.image_reducer(image)
        elif image.numel() == 0:
            return text
        for name, rows in (("text", text), ("image", image)):
            if rows.shape[1] != self.vector_size:
                raise InputError(
                    f"model: {name} vectors have size {rows.shape[1]}, the reader vector_size={self.vector_size}; "
                    "set vector_size to it or reduce the features"
                )
        return torch.cat([text, image.to(text.dtype)])

    def _read(self, document: Tensor, mask: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
        """r(Q) and the attention of every pass, for P queries to each document.

        Shapes: document (B, T, H), mask (B, T), query (B, P, Q, H) -> (B, P, H), (B, P, Q, T).
        """
        from_document = self.w_dm(document)[:, None]  # (B, 1, T, M); the same for every i
        from_query = self.w_qm(query)  # (B, P, Q, M)
        hidden = ~mask[:, None]  # (B, 1, T)
        r = document.new_zeros(query.shape[0], query.shape[1], document.shape[2])
        attention = []
        for i in range(query.shape[2]):
            m = torch.tanh(from_document + (self.w_rm(r) + from_query[:, :, i])[:, :, None])  # (B, P, T, M)
            s = self.w_ms(m).squeeze(-1).masked_fill(hidden, float("-inf")).softmax(dim=-1)  # (B, P, T)
            r = torch.bmm(s.to(document.dtype), document) + torch.tanh(self.w_rr(r))
            attention.append(s)
        return r, torch.stack(attention, dim=2)


def _one_of(key: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(f"model: {key}={value} is none of {', '.join(allowed)}")
