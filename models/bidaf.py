"""Layers of BiDAF (Seo et al. 2017, arXiv 1611.01603, section 2) over words and the vectors of a question.

Every sequence is right-padded, and what stands in the padding changes nothing.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from data.words import CHARACTERS


class CharacterCNN(nn.Module):
    """A word from its characters: convolution, ReLU, maximum over the places of the word (Kim 2014), (V, C) -> (V, F).

    A place is where a window begins, so there are as many as characters, whatever the padding; a word without
    characters is zeros.
    """

    def __init__(self, filters: int = 100, embedding_size: int = 16, width: int = 5) -> None:
        super().__init__()
        self.embedding = nn.Embedding(CHARACTERS, embedding_size, padding_idx=0)
        self.convolution = nn.Conv1d(embedding_size, filters, width)

    def forward(self, characters: Tensor) -> Tensor:
        """Vectors (V, F) of words given as characters (V, C), 0 in the padding."""
        inputs = self.embedding(characters).transpose(1, 2)  # (V, 16, C)
        places = F.relu(self.convolution(F.pad(inputs, (0, self.convolution.kernel_size[0] - 1))))  # (V, F, C)
        return places.masked_fill((characters == 0)[:, None], 0.0).amax(dim=2)


class Highway(nn.Module):
    """Layers y = t * relu(W x + b) + (1 - t) * x with t = sigmoid(W' x + b') (Srivastava et al. 2015), any (..., D).

    They start near the identity: b' = -1.
    """

    def __init__(self, size: int, layers: int = 2) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(size, 2 * size) for _ in range(layers)])
        for layer in self.layers:
            nn.init.constant_(layer.bias[size:], -1.0)  # pyright: ignore[reportIndexIssue, reportArgumentType]

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        for layer in self.layers:
            new, gate = layer(x).chunk(2, dim=-1)
            gate = torch.sigmoid(gate)
            x = gate * F.relu(new) + (1 - gate) * x
        return x


class BiLSTM(nn.Module):
    """Bi-directional LSTM, (N, T, D) and counts (N,) -> its states (N, T, 2 H), the last of both directions (N, 2 H).

    The second direction is an LSTM over each sequence turned round within its own length. That needs no packing, which
    took three times as long on a CPU. Dropout acts between the layers.
    """

    def __init__(self, input_size: int, hidden_size: int, layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        sizes = [input_size] + [2 * hidden_size] * (layers - 1)
        self.onward = nn.ModuleList([nn.LSTM(size, hidden_size, batch_first=True) for size in sizes])
        self.back = nn.ModuleList([nn.LSTM(size, hidden_size, batch_first=True) for size in sizes])
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
        """States of the last layer, and of it the last ones; counts are at least 1."""
        place = torch.arange(inputs.shape[1], device=inputs.device)
        turned = torch.where(place < count[:, None], count[:, None] - 1 - place, place)[..., None]  # (N, T, 1)
        states = ahead = behind = inputs
        for i, (onward, back) in enumerate(zip(self.onward, self.back, strict=True)):
            states = self.dropout(states) if i else states
            ahead, _ = onward(states)  # (N, T, H)
            behind, _ = back(states.gather(1, turned.expand_as(states)))
            behind = behind.gather(1, turned.expand_as(behind))
            states = torch.cat([ahead, behind], dim=2)
        last = ahead.gather(1, (count - 1)[:, None, None].expand(-1, 1, ahead.shape[2]))[:, 0]
        return states, torch.cat([last, behind[:, 0]], dim=1)


class AttentionFlow(nn.Module):
    """Attention of a context and a query in both directions (section 2.4), for P queries to each context.

    With h_i the context and u_j the query:

        s(i,j) = w . [h_i; u_j; h_i * u_j]
        u~_i   = sum over j of softmax over j of s(i,j), u_j
        h~     = sum over i of softmax over i of (max over j of s(i,j)), h_i
        g_i    = [h_i; u~_i; h_i * u~_i; h_i * h~]
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.context = nn.Linear(size, 1, bias=False)
        self.query = nn.Linear(size, 1, bias=False)
        self.product = nn.Parameter(torch.empty(size))
        nn.init.uniform_(self.product, -(size**-0.5), size**-0.5)

    def forward(self, context: Tensor, mask: Tensor, query: Tensor) -> Tensor:
        """All g, (B, P, T, 4 D), of context (B, T, D), mask (B, T) with one True a row, unpadded query (B, P, J, D)."""
        from_both = torch.einsum("btd,bpjd->bptj", context * self.product, query)
        similarity = self.context(context)[:, None] + self.query(query).transpose(2, 3) + from_both  # (B, P, T, J)
        to_query = similarity.softmax(dim=3).to(query.dtype) @ query  # (B, P, T, D)
        strongest = similarity.amax(dim=3).masked_fill(~mask[:, None], float("-inf"))
        summary = strongest.softmax(dim=2).to(context.dtype) @ context  # (B, P, D)
        context = context[:, None].expand_as(to_query)
        return torch.cat([context, to_query, context * to_query, context * summary[:, :, None]], dim=3)
