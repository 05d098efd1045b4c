"""Procedural Reasoning Networks (Amac et al. 2019) and the BiDAF rows beside them, for the visual tasks."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from data.errors import InputError
from data.records import TASKS
from models.bidaf import AttentionFlow, BiLSTM, CharacterCNN, Highway
from models.im2recipe import LastStates

MEMORIES = ("none", "static", "relational")


class RelationalMemory(nn.Module):
    """Memory cells that attend to each other and to an input (Santoro et al. 2018, section 3), one cell an entity.

    With M the cells (E, D), x the input of a time step, [M; x] the cells and one row more:

        A = softmax(M Wq ([M; x] Wk)' / sqrt(d)) [M; x] Wv        in each head, heads side by side
        B = norm(M + A)
        C = norm(B + MLP(B))                                      row by row
        i, f = Wi x + Ui tanh(M) + bi,  Wf x + Uf tanh(M) + bf
        M' = sigmoid(f) * M + sigmoid(i) * tanh(C)

    The norm is of each row alone, so neither the number of cells nor the padding matters.
    """

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        if heads < 1 or size % heads:
            raise InputError(f"model: heads={heads} must divide the size of a memory cell, {size}")
        self.heads = heads
        self.input = nn.Linear(size, size)
        self.query, self.key, self.value = (nn.Linear(size, size, bias=False) for _ in range(3))
        self.first_norm, self.second_norm = nn.LayerNorm(size), nn.LayerNorm(size)
        self.mlp = nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, size))
        self.gates_of_input = nn.Linear(size, 2 * size)
        self.gates_of_memory = nn.Linear(size, 2 * size, bias=False)
        nn.init.constant_(self.gates_of_input.bias[size:], 1.0)  # remember at first  # pyright: ignore[reportArgumentType]

    def forward(self, memory: Tensor, mask: Tensor, inputs: Tensor, real: Tensor) -> Tensor:
        """Cells after all steps. memory (B, E, D), mask (B, E), inputs (B, S, D), real (B, S) -> (B, E, D)."""
        seen = F.pad(mask, (0, 1), value=True)[:, None, None]  # (B, 1, 1, E + 1); the input is always seen
        inputs = self.input(inputs)
        gates = self.gates_of_input(inputs)  # (B, S, 2 D)
        for t in range(inputs.shape[1]):
            rows = torch.cat([memory, inputs[:, t : t + 1]], dim=1)  # (B, E + 1, D)
            key, value = self._heads(self.key(rows)), self._heads(self.value(rows))
            attended = F.scaled_dot_product_attention(self._heads(self.query(memory)), key, value, attn_mask=seen)
            mixed = self.first_norm(memory + attended.transpose(1, 2).flatten(2))
            new = self.second_norm(mixed + self.mlp(mixed))
            take, keep = (gates[:, t : t + 1] + self.gates_of_memory(torch.tanh(memory))).chunk(2, dim=2)
            updated = torch.sigmoid(keep) * memory + torch.sigmoid(take) * torch.tanh(new)
            memory = torch.where(real[:, t, None, None], updated, memory)
        return memory

    def _heads(self, rows: Tensor) -> Tensor:
        return rows.unflatten(2, (self.heads, -1)).transpose(1, 2)  # (B, heads, E, d)


class PRN(nn.Module):
    """Procedural Reasoning Network (Amac et al. 2019, ACL K19-1041), or BiDAF without or with a static memory.

    A recipe is a sequence of words, a question a sequence of four images, an entity one word. All equations and what
    differs from the released code: docs/prn.md.

    - Words: given vectors and a character CNN side by side; two highway layers; BiLSTM.
    - Question: BiLSTM over image vectors; the same highway layers and the same BiLSTM as the words.
    - Memory: a cell for each entity. `none`; `static`: as the entities' words; `relational`: updated after each
      step by the BiLSTM's last states over the step's words.
    - Attention flow of recipe and question, and of memory and question; a two-layer BiLSTM over each; the last states
      together through a tanh MLP are o.
    - Choices: an MLP of the image; in visual ordering an LSTM over the MLP's outputs, its states summed.
    - Scores: cosines of o and the choices.

    In visual ordering each of the orders is a question in turn, and the cosines of a choice with all of their o are
    averaged, or, with `ordering="own"`, each choice is compared with the o of its own order.

    Args:
        memory: `none` (BiDAF), `static`, or `relational` (PRN).
        hidden_size: H of each direction of the BiLSTMs. Twice it is the size of a word, vector and characters.
        character_filters: of the character CNN.
        layers: of the BiLSTMs after the attention.
        heads: of the memory's attention.
        output_sizes: layers of the MLP that gives o; the last is G.
        image_sizes: layers of the MLP of an image; the last must be G.
        dropout: after each encoder and each layer of the output MLP, and on the characters of words.
        image_dropout: before each layer of the image MLP.
        ordering: `mean` or `own`.
        word_size: of the word vectors in the batch.
        image_size: of the image vectors in the batch.
        task: one of the visual tasks, or "all". A model for one task builds no weights that only another task uses.
    """

    def __init__(
        self,
        *,
        memory: str = "relational",
        hidden_size: int = 100,
        character_filters: int = 100,
        layers: int = 2,
        heads: int = 2,
        output_sizes: tuple[int, ...] = (512, 512, 256, 128),
        image_sizes: tuple[int, ...] = (1024, 512, 256, 128),
        dropout: float = 0.2,
        image_dropout: float = 0.1,
        ordering: str = "mean",
        word_size: int | None = None,
        image_size: int | None = None,
        task: str = "all",
    ) -> None:
        super().__init__()
        for key, value, allowed in (
            ("memory", memory, MEMORIES),
            ("ordering", ordering, ("mean", "own")),
            ("task", task, (*TASKS, "all")),
        ):
            if value not in allowed:
                raise InputError(f"model: {key}={value} is none of {', '.join(allowed)}")
        if task == "textual_cloze" or not image_size:
            raise InputError(
                "model: this network answers the visual tasks only; choose data=recipeqa/visual or one of its tasks"
            )
        if word_size is None:
            raise InputError("model: this network reads words; leave data.words as conf/model/prn.yaml sets it")
        if word_size + character_filters != 2 * hidden_size:
            raise InputError(
                f"model: word vectors of size {word_size} and character_filters={character_filters} must together have "
                f"the size of a BiLSTM's state, 2 * hidden_size={2 * hidden_size}; change one of them"
            )
        if min(layers, hidden_size, character_filters) < 1 or not (0 <= dropout < 1 and 0 <= image_dropout < 1):
            raise InputError("model: layers, hidden_size and character_filters must be 1 or more, dropout in [0, 1)")
        if not output_sizes or not image_sizes or output_sizes[-1] != image_sizes[-1]:
            raise InputError("model: output_sizes and image_sizes must end in the same size")
        size = 2 * hidden_size
        self.ordering, self.dropout = ordering, nn.Dropout(dropout)
        self.characters = CharacterCNN(character_filters)
        self.highway = Highway(size)
        self.contextual = BiLSTM(size, hidden_size)
        self.question = BiLSTM(image_size, hidden_size)
        self.recipe_flow = AttentionFlow(size)
        self.recipe_model = BiLSTM(4 * size, hidden_size, layers, dropout)
        self.steps = self.memory = self.memory_flow = self.memory_model = None
        if memory == "relational":
            self.steps, self.memory = LastStates(size, hidden_size), RelationalMemory(size, heads)
        if memory != "none":
            self.memory_flow, self.memory_model = AttentionFlow(size), BiLSTM(4 * size, hidden_size, layers, dropout)
        self.output = nn.Sequential()
        width = size if memory == "none" else 2 * size
        for wide in output_sizes:
            self.output.extend([nn.Linear(width, wide), nn.Tanh(), nn.Dropout(dropout)])
            width = wide
        self.image = nn.Sequential()
        width = image_size
        for i, wide in enumerate(image_sizes):
            self.image.extend([*([nn.Tanh()] if i else []), nn.Dropout(image_dropout), nn.Linear(width, wide)])
            width = wide
        self.order = nn.LSTM(width, width, batch_first=True) if task in ("visual_ordering", "all") else None

    def forward(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        """Score the K choices of each question.

        Args:
            batch: of `data.encoding`, with the words of `data.words`. Query and choices are rows of images.

        Returns:
            `scores` (B, K), cosines or means of cosines, in [-1, 1].
        """
        if batch.get("task") == "textual_cloze":
            raise InputError("model: this network answers the visual tasks only; choose data=recipeqa/visual")
        choices = batch["choices"] - len(batch["text"])  # (B, K, E) rows of the images
        ordering = choices.shape[2] > 1
        query = choices if ordering else (batch["query"] - len(batch["text"]))[:, None]  # (B, P, J)
        n, queries, _ = query.shape

        words = torch.cat([batch["word"], self.dropout(self.characters(batch["character"]))], dim=1)  # (V, 2 H)
        embedded = self.highway(words)
        count = batch["recipe_mask"].sum(dim=1)
        recipe = self.dropout(self.contextual(F.embedding(batch["recipe"], embedded), count)[0])  # (B, T, 2 H)

        images = F.embedding(query, batch["image"]).flatten(0, 1)  # (B P, J, D)
        full = torch.full((len(images),), images.shape[1], device=images.device)
        question = self.dropout(self.contextual(self.highway(self.question(images, full)[0]), full)[0])
        question = question.unflatten(0, (n, queries))  # (B, P, J, 2 H)

        found = self.recipe_flow(recipe, batch["recipe_mask"], question).flatten(0, 1)  # (B P, T, 8 H)
        parts = [self.recipe_model(found, count.repeat_interleave(queries))[1]]
        if self.memory_flow is not None and self.memory_model is not None:
            memory, mask = F.embedding(batch["entities"], words), batch["entity_mask"]  # (B, E, 2 H), (B, E)
            if self.memory is not None:
                memory = self.memory(memory, mask, self._steps(batch, embedded), batch["step_length"] > 0)
            found = self.memory_flow(memory, mask, question).flatten(0, 1)  # (B P, E, 8 H)
            parts.append(self.memory_model(found, mask.sum(dim=1).repeat_interleave(queries))[1])
        o = self.output(self.dropout(torch.cat(parts, dim=1))).unflatten(0, (n, queries))  # (B, P, G)

        # Dropout after the look-up: the order of the table's rows follows names, which must not steer its draws.
        candidates = self.image(F.embedding(choices, batch["image"]))  # (B, K, E, G)
        if ordering:
            if self.order is None:
                raise ValueError("this network was built for another task than visual_ordering")
            states, _ = self.order(candidates.flatten(0, 1))
            candidates = self.dropout(states).sum(dim=1).unflatten(0, choices.shape[:2])  # (B, K, G)
        else:
            candidates = candidates[:, :, 0]
        # Half precision would tie scores that differ, and a product of matrices would fall back to it.
        o, candidates = (part.to(torch.promote_types(part.dtype, torch.float32)) for part in (o, candidates))
        cosines = F.cosine_similarity(o[:, :, None], candidates[:, None], dim=3, eps=1e-6)  # (B, P, K)
        if ordering and self.ordering == "own":
            return {"scores": cosines.diagonal(dim1=1, dim2=2)}
        return {"scores": cosines.mean(dim=1)}

    def _steps(self, batch: dict[str, Any], embedded: Tensor) -> Tensor:
        """Vectors of the steps, zeros in the padding, (B, S, 2 H)."""
        assert self.steps is not None
        start, length = batch["step_start"], batch["step_length"]  # (B, S)
        real = length > 0
        vectors = embedded.new_zeros(*length.shape, self.steps.size)
        if not bool(real.any()):
            return vectors
        owner, count = real.nonzero()[:, 0], length[real]  # (N,)
        place = start[real][:, None] + torch.arange(int(count.max()), device=start.device)  # (N, W)
        rows = batch["recipe"][owner[:, None], place.clamp(max=batch["recipe"].shape[1] - 1)]
        vectors[real] = self.steps(F.embedding(rows, embedded), count).to(vectors.dtype)
        return vectors
