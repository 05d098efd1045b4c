import math

import numpy as np
import pytest
import torch
from torch import Tensor

from data.errors import InputError
from data.records import TASKS
from models.impatient_reader import ImpatientReader
from models.losses import CosineHinge
from models.metrics import expected_correct

SIZES = {"vector_size": 6, "hidden_size": 5, "attention_size": 7, "candidate_size": 6}


def make_batch(lengths, task="textual_cloze", seed=0, k=4, vector_size=6, image_size=6, dtype=torch.float32):
    """Random vectors, every element its own; images only in the visual tasks' queries and choices."""
    g = torch.Generator().manual_seed(seed)
    n, longest, e = len(lengths), max(lengths), 4 if task == "visual_ordering" else 1
    text = torch.randn(1 + n * (longest + 8), vector_size, generator=g, dtype=dtype)
    image = torch.randn(1 + n * 12 * k, image_size, generator=g, dtype=dtype)
    text[0] = image[0] = 0
    mask = torch.arange(longest) < torch.tensor(lengths)[:, None]
    document = torch.randint(1, len(text), (n, longest), generator=g) * mask
    visual = task != "textual_cloze"
    low, high = (len(text) + 1, len(text) + len(image)) if visual else (1, len(text))
    query = torch.randint(low, high, (n, 4), generator=g)
    placeholder = torch.zeros(n, 4, dtype=torch.bool)
    choices = torch.randint(low, high, (n, k, e), generator=g)
    if task.endswith("cloze"):
        placeholder[torch.arange(n), torch.randint(4, (n,), generator=g)] = True
        query = query.masked_fill(placeholder, len(text) if visual else 0)
    if task == "visual_coherence":
        choices = query[:, :, None]
    if task == "visual_ordering":
        query = torch.zeros_like(query)
        order = torch.stack([torch.randperm(4, generator=g) for _ in range(n * k)]).view(n, k, 4)
        choices = choices[:, :1].expand(-1, k, -1).gather(2, order)
    return {
        "text": text,
        "image": image,
        "document": document,
        "document_mask": mask,
        "query": query,
        "placeholder": placeholder,
        "choices": choices,
        "twins": torch.zeros(n, k, dtype=torch.bool),
        "answer": torch.randint(k, (n,), generator=g),
        "index": torch.arange(n),
    }


def rows_of(batch, rows, width=None):
    """The questions `rows` alone; the document cut or padded to `width`."""
    part = {key: value if key in ("text", "image") else value[rows] for key, value in batch.items()}
    if width is not None:
        for key in ("document", "document_mask"):
            old = part[key][:, :width]
            part[key] = torch.nn.functional.pad(old, (0, width - old.shape[1]))
    return part


# The slow reference: one question, one step, one gate at a time, written from the equations.


def sigmoid(x):
    return 1 / (1 + torch.exp(-x))


def reference_lstm(weights, prefix, inputs, layers):
    """States of the last layer for a list of vectors; gates in the order input, forget, cell, output."""
    stacked = f"{prefix}.stack.1.weight_ih_l0" in weights
    for layer in range(layers):
        where, which = (f"{prefix}.stack.{layer}", 0) if stacked else (f"{prefix}.stack.0", layer)
        w_x, w_h = weights[f"{where}.weight_ih_l{which}"], weights[f"{where}.weight_hh_l{which}"]
        b = weights[f"{where}.bias_ih_l{which}"] + weights[f"{where}.bias_hh_l{which}"]
        h = c = torch.zeros(w_h.shape[1], dtype=w_h.dtype)
        states = []
        for x in inputs:
            i, f, g, o = (w_x @ x + w_h @ h + b).chunk(4)
            c = sigmoid(f) * c + sigmoid(i) * torch.tanh(g)
            h = sigmoid(o) * torch.tanh(c)
            states.append(h)
        inputs = states
    return inputs


def reference_pass(weights, document, query, layers, tanh_output):
    """g, u and the attention for one document and one query, lists of vectors."""
    bias = {
        name: weights.get(f"{name}.bias", torch.tensor(0.0, dtype=torch.float64)) for name in ("w_dm", "w_rr", "w_rg")
    }
    w = {name: weights[f"{name}.weight"] for name in ("w_dm", "w_rm", "w_qm", "w_ms", "w_rr", "w_rg", "w_qg")}
    y_d = reference_lstm(weights, "document_encoder", document, layers)
    y_q = reference_lstm(weights, "query_encoder", query, layers)
    r = torch.zeros_like(y_d[0])
    attention = []
    for i in range(len(y_q)):
        e = []
        for t in range(len(y_d)):
            m = torch.tanh(w["w_dm"] @ y_d[t] + w["w_rm"] @ r + w["w_qm"] @ y_q[i] + bias["w_dm"])
            e.append(torch.exp(w["w_ms"][0] @ m))
        s = [value / sum(e) for value in e]
        read = torch.zeros_like(r)
        for t in range(len(y_d)):
            read = read + s[t] * y_d[t]
        r = read + torch.tanh(w["w_rr"] @ r + bias["w_rr"])
        attention.append(torch.stack(s))
    g = w["w_rg"] @ r + w["w_qg"] @ y_q[-1] + bias["w_rg"]
    return (torch.tanh(g) if tanh_output else g), y_q[-1], torch.stack(attention)


def reference(reader, batch, layers=3, tanh_output=True):
    """Scores (B, K) in float64 as a function of leaf copies of the weights, the copies, and attentions as a list."""
    weights = {name: p.detach().double().requires_grad_() for name, p in reader.named_parameters()}
    text, image = batch["text"].double(), batch["image"].double()
    if "image_reducer.weight" in weights:
        image = image @ weights["image_reducer.weight"].T + weights["image_reducer.bias"]
    vectors = [*text, *image]
    scores, attentions = [], []
    for b in range(len(batch["answer"])):
        steps = int(batch["document_mask"][b].sum())
        document = [vectors[i] for i in batch["document"][b, :steps].tolist()]
        choices = batch["choices"][b].tolist()
        queries = choices if len(choices[0]) > 1 else [batch["query"][b].tolist()]
        passes = []
        for indices in queries:
            query = [vectors[i] for i in indices]
            if "placeholder" in weights and len(choices[0]) == 1:
                hidden = batch["placeholder"][b].tolist()
                query = [weights["placeholder"] if h else v for h, v in zip(hidden, query, strict=True)]
            passes.append(reference_pass(weights, document, query, layers, tanh_output))
        row = []
        for c, choice in enumerate(choices):
            g, u, _ = passes[c if len(choices[0]) > 1 else 0]
            if len(choice) > 1:
                candidate = weights["order_encoder.weight"] @ u + weights["order_encoder.bias"]
            else:
                candidate = vectors[choice[0]]
                if "candidate_encoder.weight" in weights:
                    candidate = weights["candidate_encoder.weight"] @ candidate + weights["candidate_encoder.bias"]
            length = math.sqrt(float((g @ g).detach())) * math.sqrt(float((candidate @ candidate).detach()))
            row.append(g @ candidate / ((g @ g).sqrt() * (candidate @ candidate).sqrt()) if length else g.sum() * 0)
        scores.append(torch.stack(row))
        attentions.append([a for _, _, a in passes])
    return torch.stack(scores), weights, attentions


def reference_loss(scores: Tensor, batch, margin=1.5):
    total = torch.zeros((), dtype=scores.dtype)
    for b in range(len(scores)):
        right = int(batch["answer"][b])
        for k in range(scores.shape[1]):
            if k != right and not batch["twins"][b, k]:
                total = total + torch.relu(margin - scores[b, right] + scores[b, k])
    return total / len(scores)


VARIANTS = [
    {},
    {"layers": 1},
    {"layers": 2, "attention_bias": True, "tanh_output": False},
    {"placeholder": "learned"},
    {"candidate_encoder": "linear", "candidate_size": 9},
    {"image_size": 11, "image_reducer": "linear"},
    {
        "image_size": 3,
        "image_reducer": "linear",
        "placeholder": "learned",
        "candidate_encoder": "linear",
        "dropout": 0.3,
    },
]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: "-".join(map(str, v)) or "default")
def test_equations_against_the_slow_reference(variant, task):
    torch.manual_seed(1)
    reader = ImpatientReader(**{**SIZES, **variant}, task=task).eval()
    batch = make_batch([3, 1, 6], task, seed=5, image_size=variant.get("image_size", 6))
    batch["twins"][0, (int(batch["answer"][0]) + 1) % 4] = True
    output = reader(batch)
    CosineHinge()(output, batch).backward()
    scores, weights, attentions = reference(reader, batch, variant.get("layers", 3), variant.get("tanh_output", True))
    reference_loss(scores, batch).backward()

    torch.testing.assert_close(output["scores"].double(), scores, atol=1e-6, rtol=0)
    for name, p in reader.named_parameters():
        assert p.grad is not None, name
        expected = weights[name].grad if weights[name].grad is not None else torch.zeros_like(weights[name])
        torch.testing.assert_close(
            p.grad.double(), expected, atol=1e-5, rtol=1e-4, msg=lambda m, name=name: f"{name}: {m}"
        )
    for b, length in enumerate((3, 1, 6)):
        own = output["attention"][b]  # (Q, T), or (K, Q, T)
        own = own if task == "visual_ordering" else own[None]
        assert own[..., length:].abs().sum() == 0
        torch.testing.assert_close(own[..., :length].double(), torch.stack(attentions[b]), atol=1e-6, rtol=0)


def test_every_weight_of_a_single_task_reader_is_used():
    """Unused weights make distributed training fail."""
    for task in TASKS:
        learned = "learned" if task.endswith("cloze") else "zeros"
        reader = ImpatientReader(**SIZES, placeholder=learned, candidate_encoder="linear", task=task)
        batch = make_batch([2, 4], task)
        CosineHinge()(reader(batch), batch).backward()
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in reader.parameters())


def test_text_only_and_two_modes_of_weights():
    torch.manual_seed(0)
    batch = make_batch([2, 5])
    batch["image"] = torch.zeros(0, 0)
    reader = ImpatientReader(**SIZES, task="textual_cloze")
    scores = reader(batch)["scores"]
    torch.testing.assert_close(
        scores.double(), reference(reader, {**batch, "image": torch.zeros(0, 6)})[0], atol=1e-6, rtol=0
    )
    # Dropout acts in training only, and never on one layer.
    wet = ImpatientReader(**SIZES, dropout=0.5)
    assert not torch.equal(wet(batch)["scores"], wet(batch)["scores"])
    assert torch.equal(wet.eval()(batch)["scores"], wet(batch)["scores"])
    single = ImpatientReader(**SIZES, dropout=0.5, layers=1)
    assert torch.equal(single(batch)["scores"], single(batch)["scores"])


@pytest.mark.parametrize("mixes", [10, pytest.param(50, marks=pytest.mark.slow)])
@pytest.mark.parametrize("task", TASKS)
def test_padding_and_batch_do_not_show(task, mixes):
    """Random mixes of lengths, length 1 in each: forward 1e-6, gradients 1e-5."""
    torch.manual_seed(2)
    reader = ImpatientReader(**SIZES, task=task)
    rng = np.random.default_rng(mixes)
    hinge = CosineHinge(reduction="sum")
    for trial in range(mixes):
        lengths = [1, *rng.integers(1, 21, size=rng.integers(1, 6)).tolist()]
        rng.shuffle(lengths)
        batch = make_batch(lengths, task, seed=trial)
        output = reader(batch)
        together = torch.autograd.grad(hinge(output, batch), list(reader.parameters()))
        loss = torch.zeros(())
        for b, length in enumerate(lengths):
            alone = rows_of(batch, [b], length)
            answer = reader(alone)
            torch.testing.assert_close(answer["scores"][0], output["scores"][b], atol=1e-6, rtol=0)
            torch.testing.assert_close(answer["attention"][0], output["attention"][b][..., :length], atol=1e-6, rtol=0)
            loss = loss + hinge(answer, alone)
        for mine, theirs in zip(together, torch.autograd.grad(loss, list(reader.parameters())), strict=True):
            torch.testing.assert_close(mine, theirs, atol=1e-5, rtol=1e-5)
        wide = rows_of(batch, list(range(len(lengths))), max(lengths) + 3)
        wide["document"] = wide["document"].where(wide["document_mask"], torch.tensor(1))  # padding is not read
        torch.testing.assert_close(reader(wide)["scores"], output["scores"], atol=1e-6, rtol=0)


@pytest.mark.parametrize("task", TASKS)
def test_order_of_candidates_and_names_of_rows_do_not_show(task):
    torch.manual_seed(4)
    reader = ImpatientReader(**SIZES, task=task)
    batch = make_batch([4, 1, 7, 2, 3], task, seed=9)
    scores = reader(batch)["scores"]
    g = torch.Generator().manual_seed(0)
    for _ in range(10):
        order = torch.stack([torch.randperm(4, generator=g) for _ in range(5)])
        moved = {**batch, "choices": batch["choices"].gather(1, order[..., None].expand_as(batch["choices"]))}
        torch.testing.assert_close(reader(moved)["scores"], scores.gather(1, order), atol=1e-6, rtol=0)
    # Images in other rows of the table: a permutation of row numbers, row 0 kept for the absent picture.
    new = torch.cat([torch.zeros(1, dtype=torch.long), 1 + torch.randperm(len(batch["image"]) - 1, generator=g)])
    n_text = len(batch["text"])
    names = torch.cat([torch.arange(n_text), n_text + new])
    image = torch.empty_like(batch["image"])
    image[new] = batch["image"]
    renamed = {**batch, "image": image} | {key: names[batch[key]] for key in ("document", "query", "choices")}
    torch.testing.assert_close(reader(renamed)["scores"], scores, atol=1e-6, rtol=0)


def test_an_order_differs_from_its_permutations():
    torch.manual_seed(5)
    reader = ImpatientReader(**SIZES, task="visual_ordering")
    batch = make_batch([5], "visual_ordering")
    images = batch["choices"][0, 0]
    batch["choices"] = torch.stack([images, images.flip(0), images[[1, 0, 2, 3]], images])[None]
    scores = reader(batch)["scores"][0].detach()
    assert len({round(float(s), 6) for s in scores}) == 3
    assert abs(float(scores[0] - scores[3])) < 1e-6


@pytest.mark.parametrize("task", TASKS)
def test_zero_vectors_give_numbers_and_gradients(task):
    torch.manual_seed(6)
    reader = ImpatientReader(**SIZES, task=task)
    batch = make_batch([2, 3], task)
    batch["text"] = torch.zeros_like(batch["text"])
    batch["image"] = torch.zeros_like(batch["image"])
    output = reader(batch)
    CosineHinge()(output, batch).backward()
    assert output["scores"].isfinite().all() and output["attention"].isfinite().all()
    assert all(p.grad is None or p.grad.isfinite().all() for p in reader.parameters())
    if task != "visual_ordering":
        assert (output["scores"] == 0).all()


def test_twins_have_equal_scores():
    reader = ImpatientReader(**SIZES)
    batch = make_batch([2, 3, 9, 4])
    batch["choices"][:, 3] = batch["choices"][:, 1]
    scores = reader(batch)["scores"]
    assert torch.equal(scores[:, 3], scores[:, 1])


def test_half_precision_keeps_scores_apart():
    torch.manual_seed(0)
    reader = ImpatientReader(**SIZES)
    # oneDNN has no bfloat16 LSTM for processors without AVX-512; PyTorch's own has.
    with torch.backends.mkldnn.flags(enabled=False):
        for task in TASKS:
            batch = make_batch([2, 3], task)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                output = reader(batch)
                CosineHinge()(output, batch).backward()
            assert output["scores"].dtype == torch.float32
            torch.testing.assert_close(output["scores"], reader(batch)["scores"], atol=0.05, rtol=0)


@pytest.mark.gpu
@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: "-".join(map(str, v)) or "default")
def test_a_gpu_gives_the_same_scores(variant, task):
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    torch.manual_seed(1)
    reader = ImpatientReader(**{**SIZES, **variant}, task=task).eval()
    batch = make_batch([3, 1, 6], task, image_size=variant.get("image_size", 6))
    expected = reader(batch)["scores"]
    reader.cuda().train(variant.get("dropout", 0) == 0)
    batch = {key: value.cuda() for key, value in batch.items()}
    found = reader(batch)
    torch.testing.assert_close(found["scores"].cpu(), expected, atol=1e-3, rtol=0)  # cuDNN may use TF32
    if reader.training:
        CosineHinge()(found, batch).backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in reader.parameters())


def test_an_empty_document_is_named():
    batch = make_batch([2, 3, 1])
    batch["document_mask"][1] = False
    with pytest.raises(ValueError, match=r"rows \[1\]"):
        ImpatientReader(**SIZES)(batch)


@pytest.mark.parametrize(
    "wrong",
    [
        {"task": "cloze"},
        {"image_reducer": "linear"},
        {"image_reducer": "pca"},
        {"placeholder": "ones"},
        {"candidate_size": 5},
        {"layers": 0},
        {"dropout": 1.0},
    ],
    ids=str,
)
def test_wrong_settings_take_one_line(wrong):
    with pytest.raises(InputError, match=r"^model: [^\n]+$"):
        ImpatientReader(**{**SIZES, **wrong})


def test_vectors_of_another_size_take_one_line():
    with pytest.raises(InputError, match=r"image vectors have size 8.*vector_size=6"):
        ImpatientReader(**SIZES)(make_batch([2, 3], image_size=8))


@pytest.mark.parametrize("task", TASKS)
def test_sixteen_questions_can_be_learnt_by_heart(task):
    torch.manual_seed(7)
    # The published depth and width would do it in minutes; two narrow layers show the same in seconds.
    reader = ImpatientReader(vector_size=20, candidate_size=20, hidden_size=32, attention_size=32, layers=2, task=task)
    batch = make_batch([4 + i % 5 for i in range(16)], task, seed=1, vector_size=20, image_size=20)
    if task == "visual_ordering":  # four different orders for each question
        base = batch["choices"][:, :1]
        orders = torch.tensor([[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]])
        batch["choices"] = base.expand(-1, 4, -1).gather(2, orders.expand(16, 4, 4))
    hinge = CosineHinge()
    optimizer = torch.optim.Adam(reader.parameters(), lr=5e-3)
    for _step in range(400):
        output = reader(batch)
        if expected_correct(output["scores"].detach(), batch["answer"]).mean() == 1:
            break
        optimizer.zero_grad()
        hinge(output, batch).backward()
        optimizer.step()
    assert expected_correct(reader(batch)["scores"].detach(), batch["answer"]).mean() == 1
