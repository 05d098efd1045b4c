"""PRN and BiDAF against a slow reference: one question, word and gate at a time, from the equations in docs/prn.md."""

import numpy as np
import pytest
import torch

from data.errors import InputError
from data.words import BEGIN, END
from models.losses import CosineHinge
from models.metrics import expected_correct
from models.prn import PRN, RelationalMemory

VISUAL = ("visual_cloze", "visual_coherence", "visual_ordering")
SIZES = {
    "hidden_size": 3,
    "word_size": 2,
    "character_filters": 4,
    "image_size": 5,
    "output_sizes": (7, 4),
    "image_sizes": (6, 4),
    "heads": 2,
}
# Steps of each recipe in words, and how many entities: no words, one step, a step longer than others, no entity.
RECIPES = [((3, 1, 4), 3), ((), 2), ((2,), 0), ((1, 7), 1)]


def make_batch(task, recipes=RECIPES, seed=0, word_size=2, image_size=5, dtype=torch.float32):
    """Random words, spellings and images for questions whose recipes have steps of the given lengths."""
    g = torch.Generator().manual_seed(seed)
    n, known, elements = len(recipes), 12, 4 if task == "visual_ordering" else 1
    word = torch.randn(known, word_size, generator=g, dtype=dtype)
    character = torch.zeros(known, 9, dtype=torch.long)
    for i in range(1, known):
        spelling = torch.randint(1, 257, (int(torch.randint(1, 8, (1,), generator=g)),), generator=g).tolist()
        character[i, : len(spelling) + 2] = torch.tensor([BEGIN, *spelling, END])
    word[0] = 0
    counts = [max(sum(steps), 1) for steps, _ in recipes]
    entity_counts = [max(entities, 1) for _, entities in recipes]
    recipe_mask = torch.arange(max(counts)) < torch.tensor(counts)[:, None]
    entity_mask = torch.arange(max(entity_counts)) < torch.tensor(entity_counts)[:, None]
    recipe = torch.randint(1, known, recipe_mask.shape, generator=g) * recipe_mask
    entities = torch.randint(1, known, entity_mask.shape, generator=g) * entity_mask
    most = max(1, *(len(steps) for steps, _ in recipes))
    step_start, step_length = torch.zeros(n, most, dtype=torch.long), torch.zeros(n, most, dtype=torch.long)
    for b, (steps, entity_count) in enumerate(recipes):
        step_length[b, : len(steps)] = torch.tensor(steps)
        step_start[b, : len(steps)] = torch.tensor([0, *np.cumsum(steps)[:-1]][: len(steps)])
        recipe[b] *= bool(steps)
        entities[b] *= bool(entity_count)
    text = torch.zeros(3, 4)
    image = torch.randn(1 + 20 * n, image_size, generator=g, dtype=dtype)
    image[0] = 0
    query = torch.randint(len(text) + 1, len(text) + len(image), (n, 4), generator=g)
    choices = torch.randint(len(text) + 1, len(text) + len(image), (n, 4, elements), generator=g)
    if task == "visual_cloze":
        query[torch.arange(n), torch.randint(4, (n,), generator=g)] = len(text)
    if task == "visual_coherence":
        choices = query[:, :, None]
    if task == "visual_ordering":
        order = torch.stack([torch.randperm(4, generator=g) for _ in range(4 * n)]).view(n, 4, 4)
        choices, query = choices[:, :1].expand(-1, 4, -1).gather(2, order), torch.zeros_like(query)
    return {
        "task": task, "text": text, "image": image, "query": query, "choices": choices,
        "word": word, "character": character, "recipe": recipe, "recipe_mask": recipe_mask,
        "step_start": step_start, "step_length": step_length, "entities": entities, "entity_mask": entity_mask,
        "twins": torch.zeros(n, 4, dtype=torch.bool), "answer": torch.randint(4, (n,), generator=g),
    }  # fmt: skip


def rows_of(batch, rows, cut=True):
    """The questions `rows` alone, without the padding that others brought."""
    shared = ("task", "text", "image", "word", "character")
    part = {key: value if key in shared else value[rows] for key, value in batch.items()}
    if cut:
        words, entities = int(part["recipe_mask"].sum(1).max()), int(part["entity_mask"].sum(1).max())
        steps = max(1, int((part["step_length"] > 0).sum(1).max()))
        for key, width in (
            *((key, words) for key in ("recipe", "recipe_mask")),
            *((key, entities) for key in ("entities", "entity_mask")),
            *((key, steps) for key in ("step_start", "step_length")),
        ):
            part[key] = part[key][:, :width]
    return part


# ---- the slow reference ----------------------------------------------------------------------------------------------


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(np.asarray(x) - np.max(x))
    return e / e.sum()


def lstm(w, prefix, inputs):
    """States for a list of vectors; gates in the order input, forget, cell, output."""
    w_x, w_h = w[f"{prefix}.weight_ih_l0"], w[f"{prefix}.weight_hh_l0"]
    bias = w[f"{prefix}.bias_ih_l0"] + w[f"{prefix}.bias_hh_l0"]
    h = c = np.zeros(w_h.shape[1])
    states = []
    for x in inputs:
        i, f, g, o = np.split(w_x @ x + w_h @ h + bias, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        states.append(h)
    return states


def bilstm(w, prefix, inputs, layers=1):
    """States of the last layer, and the last state of each direction."""
    states = ahead = behind = inputs
    for layer in range(layers):
        ahead = lstm(w, f"{prefix}.onward.{layer}", states)
        behind = lstm(w, f"{prefix}.back.{layer}", states[::-1])[::-1]
        states = [np.concatenate(pair) for pair in zip(ahead, behind, strict=True)]
    return states, np.concatenate([ahead[-1], behind[0]])


def linear(w, name, x):
    return w[f"{name}.weight"] @ x + w.get(f"{name}.bias", 0.0)


def norm(w, name, x):
    centred = x - x.mean()
    return centred / np.sqrt((centred**2).mean() + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]


def spelled(w, characters):
    """A word from its characters: windows of five that begin at a character."""
    length = int((characters != 0).sum())
    filters = w["characters.convolution.weight"]  # (F, 16, 5)
    best = np.zeros(len(filters))
    rows = [w["characters.embedding.weight"][c] for c in characters[:length]] + [np.zeros(filters.shape[1])] * 4
    for start in range(length):
        window = np.stack(rows[start : start + 5], axis=1)  # (16, 5)
        for f in range(len(filters)):
            best[f] = max(best[f], (filters[f] * window).sum() + w["characters.convolution.bias"][f])
    return best


def highway(w, x):
    for layer in range(2):
        both = linear(w, f"highway.layers.{layer}", x)
        new, gate = both[: len(x)], sigmoid(both[len(x) :])
        x = gate * np.maximum(new, 0) + (1 - gate) * x
    return x


def flow(w, name, context, query):
    """Every g, one for each context element."""
    s = np.zeros((len(context), len(query)))
    for i, h in enumerate(context):
        for j, u in enumerate(query):
            s[i, j] = w[f"{name}.context.weight"][0] @ h + w[f"{name}.query.weight"][0] @ u
            s[i, j] += w[f"{name}.product"] @ (h * u)
    strongest = softmax([row.max() for row in s])
    summary = sum(b * h for b, h in zip(strongest, context, strict=True))
    found = []
    for h, row in zip(context, s, strict=True):
        seen = sum(a * u for a, u in zip(softmax(row), query, strict=True))
        found.append(np.concatenate([h, seen, h * seen, h * summary]))
    return found


def remember(w, cells, steps, heads):
    """The cells after all steps."""
    for step in steps:
        x = linear(w, "memory.input", step)
        rows = [*cells, x]
        q, k, v = ([linear(w, f"memory.{name}", row) for row in rows] for name in ("query", "key", "value"))
        d = len(x) // heads
        new = []
        for e, cell in enumerate(cells):
            read = []
            for head in range(heads):
                part = slice(head * d, (head + 1) * d)
                a = softmax([q[e][part] @ key[part] / np.sqrt(d) for key in k])
                read.append(sum(weight * value[part] for weight, value in zip(a, v, strict=True)))
            b = norm(w, "memory.first_norm", cell + np.concatenate(read))
            c = norm(
                w, "memory.second_norm", b + linear(w, "memory.mlp.2", np.maximum(linear(w, "memory.mlp.0", b), 0))
            )
            i, f = np.split(
                linear(w, "memory.gates_of_input", x) + linear(w, "memory.gates_of_memory", np.tanh(cell)), 2
            )
            new.append(sigmoid(f) * cell + sigmoid(i) * np.tanh(c))
        cells = new
    return cells


def image_vector(w, x, layers):
    for i in range(layers):
        x = linear(w, f"image.{1 + 3 * i}", np.tanh(x) if i else x)
    return x


def cosine(a, b):
    return a @ b / (np.sqrt(a @ a) * np.sqrt(b @ b))


def reference(net, batch, memory, ordering, layers=2, heads=2):
    """(B, K) scores."""
    w = {name: p.detach().double().numpy() for name, p in net.named_parameters()}
    n_text = len(batch["text"])
    image, character = batch["image"].double().numpy(), batch["character"].numpy()
    word = [np.concatenate([v, spelled(w, c)]) for v, c in zip(batch["word"].double().numpy(), character, strict=True)]
    high = [highway(w, x) for x in word]
    scores = []
    for b in range(len(batch["answer"])):
        recipe = [high[i] for i in batch["recipe"][b][batch["recipe_mask"][b]].tolist()]
        context, _ = bilstm(w, "contextual", recipe)
        cells = [word[i] for i in batch["entities"][b][batch["entity_mask"][b]].tolist()]
        if memory == "relational":
            steps = []
            for start, length in zip(batch["step_start"][b].tolist(), batch["step_length"][b].tolist(), strict=True):
                if length:
                    part = recipe[start : start + length]
                    ahead, behind = lstm(w, "steps.onward.lstm", part), lstm(w, "steps.back.lstm", part[::-1])
                    steps.append(np.concatenate([ahead[-1], behind[-1]]))
            cells = remember(w, cells, steps, heads)
        choices = [[image[i - n_text] for i in choice] for choice in batch["choices"][b].tolist()]
        queries = choices if len(choices[0]) > 1 else [[image[i - n_text] for i in batch["query"][b].tolist()]]
        outputs = []
        for query in queries:
            seen, _ = bilstm(w, "contextual", [highway(w, x) for x in bilstm(w, "question", query)[0]])
            parts = [bilstm(w, "recipe_model", flow(w, "recipe_flow", context, seen), layers)[1]]
            if memory != "none":
                parts.append(bilstm(w, "memory_model", flow(w, "memory_flow", cells, seen), layers)[1])
            o = np.concatenate(parts)
            for i in range(len(SIZES["output_sizes"])):
                o = np.tanh(linear(w, f"output.{3 * i}", o))
            outputs.append(o)
        row = []
        for k, choice in enumerate(choices):
            candidate = [image_vector(w, x, len(SIZES["image_sizes"])) for x in choice]
            a = sum(lstm(w, "order", candidate)) if len(choice) > 1 else candidate[0]
            asked = [outputs[k]] if ordering == "own" and len(choice) > 1 else outputs
            row.append(np.mean([cosine(o, a) for o in asked]))
        scores.append(row)
    return np.asarray(scores)


# ---- tests -----------------------------------------------------------------------------------------------------------

MODELS = [("none", "mean"), ("static", "mean"), ("relational", "mean"), ("relational", "own")]


@pytest.mark.parametrize("task", VISUAL)
@pytest.mark.parametrize(("memory", "ordering"), MODELS)
def test_equations_against_the_slow_reference(memory, ordering, task):
    torch.manual_seed(1)
    net = PRN(**SIZES, memory=memory, ordering=ordering, task=task).eval()
    batch = make_batch(task, seed=5)
    expected = reference(net, batch, memory, ordering)
    assert np.abs(net(batch)["scores"].detach().double().numpy() - expected).max() < 2e-6
    exact = {
        key: v.double() if isinstance(v, torch.Tensor) and v.is_floating_point() else v for key, v in batch.items()
    }
    assert np.abs(net.double()(exact)["scores"].detach().numpy() - expected).max() < 1e-12
    assert expected.std(axis=1).min() > 1e-4  # the four choices differ


@pytest.mark.parametrize("task", [*VISUAL, "all"])
@pytest.mark.parametrize("memory", ["none", "static", "relational"])
def test_every_weight_of_a_single_task_network_is_used(memory, task):
    """Unused weights make distributed training fail."""
    torch.manual_seed(0)
    net = PRN(**SIZES, memory=memory, task=task)
    batch = make_batch("visual_ordering" if task == "all" else task)
    CosineHinge(0.5)(net(batch), batch).backward()
    for name, p in net.named_parameters():
        assert p.grad is not None and p.grad.isfinite().all() and p.grad.abs().sum() > 0, name
    if task != "all":
        assert (net.order is not None) == (task == "visual_ordering")


@pytest.mark.parametrize("task", VISUAL)
@pytest.mark.parametrize("memory", ["none", "static", "relational"])
def test_padding_and_batch_do_not_show(memory, task):
    """Random mixes of lengths: scores 1e-6, gradients 1e-5; what stands in the padding is not read."""
    torch.manual_seed(2)
    net = PRN(**SIZES, memory=memory, task=task).eval()
    rng = np.random.default_rng(3)
    hinge = CosineHinge(0.5, reduction="sum")
    for trial in range(3):
        recipes = [
            (tuple(rng.integers(1, 9, size=rng.integers(0, 5)).tolist()), int(rng.integers(0, 6))) for _ in range(5)
        ]
        batch = make_batch(task, recipes, seed=trial)
        output = net(batch)
        together = torch.autograd.grad(hinge(output, batch), list(net.parameters()))
        loss = torch.zeros(())
        for b in range(len(recipes)):
            alone = rows_of(batch, [b])
            answer = net(alone)
            torch.testing.assert_close(answer["scores"][0], output["scores"][b], atol=1e-6, rtol=0)
            loss = loss + hinge(answer, alone)
        for mine, theirs in zip(together, torch.autograd.grad(loss, list(net.parameters())), strict=True):
            torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-4)
        wide = dict(batch)
        for key in ("recipe", "recipe_mask", "entities", "entity_mask", "step_start", "step_length"):
            wide[key] = torch.nn.functional.pad(batch[key], (0, 3))
        for key in ("recipe", "entities"):
            mask = wide["recipe_mask" if key == "recipe" else "entity_mask"]
            wide[key] = wide[key].where(mask, torch.tensor(5))
        wide["character"] = torch.nn.functional.pad(batch["character"], (0, 4))
        torch.testing.assert_close(net(wide)["scores"], output["scores"], atol=1e-6, rtol=0)


@pytest.mark.parametrize("task", VISUAL)
@pytest.mark.parametrize("ordering", ["mean", "own"])
def test_order_of_choices_and_names_of_rows_do_not_show(ordering, task):
    torch.manual_seed(4)
    net = PRN(**SIZES, ordering=ordering, task=task).eval()
    batch = make_batch(task, seed=9)
    scores = net(batch)["scores"]
    g = torch.Generator().manual_seed(0)
    for _ in range(5):
        order = torch.stack([torch.randperm(4, generator=g) for _ in range(len(RECIPES))])
        moved = {**batch, "choices": batch["choices"].gather(1, order[..., None].expand_as(batch["choices"]))}
        torch.testing.assert_close(net(moved)["scores"], scores.gather(1, order), atol=1e-6, rtol=0)
    # Words and images in other rows of their tables; row 0 is kept for what is absent.
    n_text = len(batch["text"])
    renamed = dict(batch)
    new = torch.cat([torch.zeros(1, dtype=torch.long), 1 + torch.randperm(len(batch["image"]) - 1, generator=g)])
    names = torch.cat([torch.arange(n_text), n_text + new])
    renamed["image"] = torch.empty_like(batch["image"])
    renamed["image"][new] = batch["image"]
    renamed |= {key: names[batch[key]] for key in ("query", "choices")}
    new = torch.cat([torch.zeros(1, dtype=torch.long), 1 + torch.randperm(len(batch["word"]) - 1, generator=g)])
    for key in ("word", "character"):
        renamed[key] = torch.empty_like(batch[key])
        renamed[key][new] = batch[key]
    renamed |= {key: new[batch[key]] for key in ("recipe", "entities")}
    torch.testing.assert_close(net(renamed)["scores"], scores, atol=1e-6, rtol=0)


def test_entities_are_a_set_and_steps_a_sequence():
    """In the memory, the order of the cells is no input of an update, the order of the steps is."""
    torch.manual_seed(5)
    memory = RelationalMemory(6, heads=2)
    cells, steps = torch.randn(1, 4, 6), torch.randn(1, 3, 6)
    mask, real = torch.ones(1, 4, dtype=torch.bool), torch.ones(1, 3, dtype=torch.bool)
    after = memory(cells, mask, steps, real)
    torch.testing.assert_close(memory(cells.flip(1), mask, steps, real).flip(1), after, atol=1e-6, rtol=0)
    assert (memory(cells, mask, steps.flip(1), real) - after).abs().max() > 1e-3
    assert torch.equal(memory(cells, mask, steps, ~real), cells)  # no step, no update


def test_what_each_row_reads():
    """BiDAF reads no entity; a static memory reads entities, and steps only as the words of the recipe."""
    torch.manual_seed(6)
    batch = make_batch("visual_cloze", seed=2)
    other = {**batch, "entities": batch["entities"].roll(1, 0).where(batch["entity_mask"], torch.tensor(0))}
    parted = {**batch, "step_length": batch["step_length"].clamp(max=1)}
    for memory, entities_show, steps_show in (("none", 0, 0), ("static", 1, 0), ("relational", 1, 1)):
        net = PRN(**SIZES, memory=memory, task="visual_cloze").eval()
        scores = net(batch)["scores"]
        assert (not torch.equal(net(other)["scores"], scores)) == entities_show
        assert (not torch.equal(net(parted)["scores"], scores)) == steps_show


def test_an_order_differs_from_its_permutations():
    torch.manual_seed(5)
    net = PRN(**SIZES, task="visual_ordering").eval()
    batch = make_batch("visual_ordering", RECIPES[:1])
    images = batch["choices"][0, 0]
    batch["choices"] = torch.stack([images, images.flip(0), images[[1, 0, 2, 3]], images])[None]
    scores = net(batch)["scores"][0].detach()
    assert len({round(float(s), 6) for s in scores}) == 3
    assert abs(float(scores[0] - scores[3])) < 1e-6


def test_dropout_acts_in_training_only_and_follows_the_seed():
    net = PRN(**SIZES)
    batch = make_batch("visual_ordering")
    drawn = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        drawn.append(net(batch)["scores"])
    assert torch.equal(drawn[0], drawn[1]) and not torch.equal(drawn[0], drawn[2])
    assert torch.equal(net.eval()(batch)["scores"], net(batch)["scores"])


@pytest.mark.parametrize("task", VISUAL)
def test_zero_vectors_give_numbers_and_gradients(task):
    torch.manual_seed(6)
    net = PRN(**SIZES, task=task)
    batch = make_batch(task, [((), 0), ((), 0)])
    batch["image"] = torch.zeros_like(batch["image"])
    output = net(batch)
    CosineHinge()(output, batch).backward()
    assert output["scores"].isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in net.parameters())


def test_half_precision_keeps_scores_apart():
    torch.manual_seed(0)
    net = PRN(**SIZES).eval()
    with torch.backends.mkldnn.flags(enabled=False):  # oneDNN has no bfloat16 LSTM for some processors
        for task in VISUAL:
            batch = make_batch(task)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                output = net(batch)
                CosineHinge()(output, batch).backward()
            assert output["scores"].dtype == torch.float32
            torch.testing.assert_close(output["scores"], net(batch)["scores"], atol=0.05, rtol=0)


@pytest.mark.gpu
@pytest.mark.parametrize("task", VISUAL)
def test_a_gpu_gives_the_same_scores(task):
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    torch.manual_seed(1)
    net = PRN(**SIZES, task=task).eval()
    batch = make_batch(task)
    expected = net(batch)["scores"]
    batch = {key: value.cuda() if isinstance(value, torch.Tensor) else value for key, value in batch.items()}
    found = net.cuda().train()(batch)
    CosineHinge()(found, batch).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in net.parameters())
    torch.testing.assert_close(net.eval()(batch)["scores"].cpu(), expected, atol=1e-3, rtol=0)  # cuDNN may use TF32


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"memory": "dynamic"}, "memory=dynamic"),
        ({"ordering": "first"}, "ordering=first"),
        ({"task": "textual_cloze"}, "visual tasks only"),
        ({"image_size": None}, "visual tasks only"),
        ({"word_size": None}, "data.words"),
        ({"word_size": 300}, "hidden_size"),
        ({"heads": 4}, "heads=4"),
        ({"output_sizes": (5, 3)}, "same size"),
        ({"dropout": 1.0}, "dropout"),
    ],
    ids=str,
)
def test_wrong_settings_take_one_line(wrong, message):
    with pytest.raises(InputError, match=rf"^model: [^\n]*{message}[^\n]*$"):
        PRN(**{**SIZES, **wrong})


def test_a_textual_question_is_refused():
    with pytest.raises(InputError, match="visual tasks only"):
        PRN(**SIZES)(make_batch("visual_cloze") | {"task": "textual_cloze"})


@pytest.mark.slow
@pytest.mark.parametrize("task", VISUAL)
@pytest.mark.parametrize("memory", ["none", "static", "relational"])
def test_twelve_questions_can_be_learnt_by_heart(memory, task):
    torch.manual_seed(7)
    net = PRN(
        hidden_size=12, word_size=10, character_filters=14, image_size=16, output_sizes=(32, 16), image_sizes=(32, 16),
        memory=memory, task=task, layers=1, dropout=0.0, image_dropout=0.0,
    )  # fmt: skip
    recipes = [((2 + i % 3, 3, 1 + i % 4), i % 4) for i in range(12)]
    batch = make_batch(task, recipes, seed=1, word_size=10, image_size=16)
    if task == "visual_ordering":  # four different orders for each question
        orders = torch.tensor([[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]])
        batch["choices"] = batch["choices"][:, :1].expand(-1, 4, -1).gather(2, orders.expand(12, 4, 4))
    hinge = CosineHinge(0.1)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    for _step in range(300):
        output = net(batch)
        if expected_correct(output["scores"].detach(), batch["answer"]).mean() == 1:
            break
        optimizer.zero_grad()
        hinge(output, batch).backward()
        optimizer.step()
    assert expected_correct(net(batch)["scores"].detach(), batch["answer"]).mean() == 1
