"""Aligned reader: a slow reference of its scores, what may and may not change them, the commands on made-up files."""

import hashlib
import itertools
import json
from typing import Any

import numpy as np
import pytest
import torch
from hydra.utils import instantiate
from torch.nn import functional as F

from data.choice import ChoiceData
from data.errors import InputError
from data.evidence import CHANNELS, STYLE_SIZE, EvidenceSettings, stem
from data.records import TASKS
from data.text import Doc2VecSettings
from data.vocabulary import Word2VecSettings
from models.aligned_reader import POOLS, AlignedReader, arrangements
from models.losses import CrossEntropy
from tests.made_up import image_names, made_up_questions, write_file, write_images
from tests.runs import SMALL_READER, composed, run
from tests.test_alignment import brute
from tests.test_resume import _contents, _same, _stop_after

VISUAL = TASKS[1:]
SIZES = {"vector_size": 5, "image_size": 6, "projection_size": 7, "dropout": 0.0, "indicators": 9}
# Steps of the questions of a batch; 0 is an empty step. One step, fewer than elements, as many, empty ones, many.
STEPS = [(1,), (1, 1, 1), (1, 1, 1, 1), (0, 1, 0, 1, 1), (1, 1, 0, 1, 1, 1, 1, 1), (1, 0)]


def make_batch(task, steps=STEPS, seed=0):
    """A batch as the data hand it over, of random numbers."""
    g = torch.Generator().manual_seed(seed)
    n, longest, size = len(steps), max(map(len, steps)), 40
    text, image = torch.randn(size, 5, generator=g), torch.randn(30, 6, generator=g)
    text[0], image[0] = 0, 0
    document = torch.zeros(n, longest, dtype=torch.long)
    step, mask = torch.full((n, longest), -1), torch.zeros(n, longest, dtype=torch.bool)
    for b, spoken in enumerate(steps):
        mask[b, : len(spoken)] = True
        step[b, : len(spoken)] = torch.tensor([sum(spoken[:t]) if s else -1 for t, s in enumerate(spoken)])
        document[b, : sum(spoken)] = torch.randint(1, size, (sum(spoken),), generator=g)
    low, high = (1, size) if task == "textual_cloze" else (size + 1, size + len(image))

    def rows(*shape):
        return low + torch.rand(*shape, high - low, generator=g).argsort(-1)[..., :4]

    query, choices = rows(n), rows(n)[:, :, None]
    blank = torch.zeros(n, 4, dtype=torch.bool)
    if task.endswith("cloze"):
        blank[torch.arange(n), torch.randint(4, (n,), generator=g)] = True
        query[blank] = low - 1  # row 0 of its table
    if task == "visual_coherence":
        choices = query[:, :, None]
    if task == "visual_ordering":
        orders = torch.tensor(list(itertools.permutations(range(4))))
        choices = torch.stack([row[orders[torch.randperm(24, generator=g)[:4]]] for row in query])
        query = torch.zeros_like(query)
    evidence = 2 * torch.rand(n, len(CHANNELS), 8, longest, generator=g) * mask[:, None, None]
    evidence[:, :, :4] *= ~blank[:, None, :, None]
    indicators = torch.randint(0, 10, (n, 4, 3), generator=g)
    return {
        "task": task, "text": text, "image": image, "document": document, "document_mask": document > 0,
        "query": query, "placeholder": blank, "choices": choices, "evidence": evidence, "step": step,
        "step_mask": mask, "style": torch.randn(n, 4, STYLE_SIZE, generator=g), "indicators": indicators,
        "answer": torch.randint(4, (n,), generator=g), "twins": torch.zeros(n, 4, dtype=torch.bool),
    }  # fmt: skip


def alone(batch, b):
    """One question of a batch without the padding that others brought."""
    shared = ("task", "text", "image")
    part = {key: value if key in shared else value[b : b + 1] for key, value in batch.items()}
    length = int(part["step_mask"].sum())
    spoken = max(1, int(part["document_mask"].sum()))
    part |= {key: part[key][..., :length] for key in ("evidence", "step", "step_mask")}
    return part | {key: part[key][:, :spoken] for key in ("document", "document_mask")}


def drawn_net(seed=0, **settings):
    """A network with random weights everywhere: untrained, nearly all of it is zero."""
    net = AlignedReader(**{**SIZES, **settings}).eval()
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=g))
        net.words.weight[0] = 0
    return net


def scores(net, batch):
    with torch.no_grad():
        return net(batch)["scores"]


def reference(net, batch, b):
    """Scores (K,) and attention (4, T) of a textual question, from the description of the model, in loops."""
    state = {name: value.double().numpy() for name, value in net.state_dict().items()}
    steps, blank = int(batch["step_mask"][b].sum()), int(batch["placeholder"][b].int().argmax())
    text = batch["text"].double().numpy()
    elements = [*batch["query"][b].tolist(), *batch["choices"][b, :, 0].tolist()]

    def cosine(i, t):
        place = int(batch["step"][b, t])
        one, other = text[elements[i]], text[int(batch["document"][b, place])] if place >= 0 else np.zeros(5)
        lengths = np.linalg.norm(one) * np.linalg.norm(other)
        return one @ other / lengths if lengths else 0.0

    evidence = np.zeros((len(CHANNELS) + 1, 8, steps))
    evidence[:-1] = batch["evidence"][b, :, :, :steps].double().numpy()
    evidence[-1] = [[4 * cosine(i, t) for t in range(steps)] for i in range(8)]
    evidence *= state["kept"][:, None, None]
    weight = state["start"] + state["emission"]
    emission = np.sum([weight[c] * evidence[c] for c in range(len(weight))], axis=0)
    if "alignment" in net.without:
        emission = 0 * emission
    shown = emission[:4].copy()
    shown[blank] = 0
    _, share = brute(shown)
    taken = np.sum([share[i] for i in range(4) if i != blank], axis=0)
    allowed = [t for t in range(steps) if blank <= t < steps - (3 - blank)] or list(range(steps))
    found = []
    for k in range(4):
        score = 0.0
        for c in range(len(weight)):
            row = evidence[c, 4 + k]
            pools = {
                "blank": share[blank] @ row,
                "allowed": max(row[t] for t in allowed),
                "anywhere": max(row),
                "taken": taken @ row / 3,
                "mean": sum(row) / steps,
                "first": row[0],
                "last": row[-1],
            }
            score += sum(state["pools"][c, p] * pools[name] for p, name in enumerate(POOLS))
        score += state["fit"][0] * np.log(sum(share[blank][t] * np.exp(emission[4 + k, t]) for t in range(steps)))
        if "style" not in net.without:
            score += state["style"] @ batch["style"][b, k].double().numpy()
        if "choice_words" not in net.without:
            score += net.word_scale * sum(state["words.weight"][row, 0] for row in batch["indicators"][b, k].tolist())
        found.append(score)
    return np.asarray(found), share


@pytest.mark.parametrize("without", [(), ("alignment",), ("words", "doc2vec"), ("style",), ("choice_words", "opening")])
def test_textual_scores_and_attention_equal_the_reference(without):
    net, batch = drawn_net(without=without), make_batch("textual_cloze")
    output = net(batch)
    for b, steps in enumerate(STEPS):
        expected, share = reference(net, batch, b)
        assert np.allclose(output["scores"][b].detach(), expected, atol=1e-4), (b, output["scores"][b], expected)
        assert np.allclose(output["attention"][b, :, : len(steps)].detach(), share, atol=1e-5)
        assert not output["attention"][b, :, len(steps) :].any()


@pytest.mark.parametrize("task", TASKS)
def test_padding_and_the_other_questions_of_a_batch_change_no_score(task):
    net, batch = drawn_net(), make_batch(task)
    together = scores(net, batch)
    order = [4, 0, 3]
    some = {k: v if k in ("task", "text", "image") else v[order] for k, v in batch.items()}
    assert torch.allclose(scores(net, some), together[order], atol=1e-5)
    for b in range(len(STEPS)):
        assert torch.allclose(scores(net, alone(batch, b))[0], together[b], atol=1e-5)


@pytest.mark.parametrize("task", ["textual_cloze", "visual_cloze", "visual_ordering"])
def test_permuting_the_choices_permutes_the_scores(task):
    net, batch, order = drawn_net(), make_batch(task), [2, 0, 3, 1]
    other = dict(batch)
    for key in ("choices", "style", "indicators"):
        other[key] = batch[key][:, order]
    other["evidence"] = batch["evidence"][:, :, [0, 1, 2, 3, *(4 + k for k in order)]]
    assert torch.allclose(scores(net, other), scores(net, batch)[:, order], atol=1e-5)


@pytest.mark.parametrize("task", VISUAL)
def test_arrangements_are_what_choosing_a_choice_would_show(task):
    batch = make_batch(task)
    found = arrangements(batch)
    for b in range(len(STEPS)):
        for k in range(4):
            choice, shown = batch["choices"][b, k].tolist(), batch["query"][b].tolist()
            if task == "visual_ordering":
                expected = choice
            elif task == "visual_cloze":
                expected = [choice[0] if batch["placeholder"][b, i] else row for i, row in enumerate(shown)]
            else:
                expected = [row for row in shown if row != choice[0]]
            assert found[b, k].tolist() == expected


@pytest.mark.parametrize("task", TASKS)
def test_an_untrained_network_has_finite_scores_and_all_that_it_reads_gets_a_finite_gradient(task):
    batch = make_batch(task)
    for net in (AlignedReader(**SIZES), drawn_net()):
        output = net(batch)
        assert output["scores"].shape == (len(STEPS), 4) and torch.isfinite(output["scores"]).all()
        CrossEntropy(temperature=1.0)(output, batch).backward()
        assert all(p.grad is None or torch.isfinite(p.grad).all() for p in net.parameters())
    visual = task != "textual_cloze"
    missing = [
        name
        for name, parameter in net.named_parameters()
        if name.startswith("pictures.") is visual and (parameter.grad is None or not parameter.grad.any())
    ]
    assert missing == []
    slope = net.words.weight.grad
    assert (slope is None) is visual and (slope is None or not slope[0].any())  # row 0 is no word


@pytest.mark.parametrize("name", [*CHANNELS, "doc2vec", "style", "choice_words"])
def test_evidence_that_is_left_out_changes_no_score(name):
    batch = make_batch("textual_cloze")
    other = dict(batch)
    if name in CHANNELS:
        other["evidence"] = batch["evidence"].clone()
        other["evidence"][:, CHANNELS.index(name)] = torch.rand_like(batch["evidence"][:, 0])
    else:
        key = {"doc2vec": "text", "style": "style", "choice_words": "indicators"}[name]
        other[key] = batch[key].flip(0)
    assert torch.equal(scores(drawn_net(without=(name,)), other), scores(drawn_net(without=(name,)), batch))
    assert not torch.allclose(scores(drawn_net(), other), scores(drawn_net(), batch), atol=1e-3)


def test_without_alignment_no_evidence_moves_the_blank():
    batch = make_batch("textual_cloze")
    other = batch | {"evidence": batch["evidence"].clone()}
    other["evidence"][:, :, :4] = torch.rand_like(other["evidence"][:, :, :4])
    net = drawn_net(without=("alignment",))
    assert torch.equal(scores(net, other), scores(net, batch))
    assert not torch.allclose(scores(drawn_net(), other), scores(drawn_net(), batch), atol=1e-3)


@pytest.mark.parametrize("task", VISUAL)
@pytest.mark.parametrize("name", ["alignment", "order", "likeness"])
def test_each_evidence_of_the_visual_tasks_counts(task, name):
    batch = make_batch(task)
    assert not torch.allclose(scores(drawn_net(without=(name,)), batch), scores(drawn_net(), batch), atol=1e-3)


def test_without_anything_that_knows_an_order_all_orders_are_alike():
    found = scores(drawn_net(without=("alignment", "order", "likeness")), make_batch("visual_ordering"))
    assert torch.allclose(found, found[:, :1].expand(-1, 4), atol=1e-4)


def test_unknown_evidence_to_leave_out_is_said_in_one_line():
    with pytest.raises(InputError, match=r"^model\.net\.without: wrods is none of alignment, ") as error:
        AlignedReader(without=("style", "wrods"))
    assert "\n" not in str(error.value)


def test_data_without_evidence_are_refused_in_one_line():
    batch = {key: value for key, value in make_batch("visual_cloze").items() if not key.startswith("step")}
    with pytest.raises(InputError, match=r"^data\.evidence=null: [^\n]*$"):
        drawn_net()(batch)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_overfitting_a_handful_of_questions(task):
    torch.manual_seed(0)
    net, batch = AlignedReader(**SIZES), make_batch(task, seed=3)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.03)
    for _ in range(200):
        optimizer.zero_grad()
        CrossEntropy(temperature=1.0)(net(batch), batch).backward()
        optimizer.step()
    assert torch.equal(scores(net, batch).argmax(1), batch["answer"])
    assert F.cross_entropy(scores(net, batch), batch["answer"]) < 0.3


# -- the commands


def _mixed(n, seed, split):
    """Records of a recipe's textual and visual questions, in turn."""
    parts = [made_up_questions(task, n, seed=seed, split=split) for task in ("textual_cloze", "visual_coherence")]
    return [record for pair in zip(*parts, strict=True) for record in pair]


def _files(folder):
    """Training and test files; of the test file's visual records none is well formed."""
    write_file(folder / "train.json", _mixed(30, 0, "train"))
    test = _mixed(12, 2, "test")
    for i, record in enumerate(r for r in test if r["task"] != "textual_cloze"):
        spoiled = {"choice_list": [1, None], "context": "none", "answer": 9, "question": {}}
        key = list(spoiled)[i % 4]
        record[key] = spoiled[key]
    test[0]["context"][1]["body"] = " "  # a step that says nothing
    write_file(folder / "test.json", test)
    return [
        "experiment=recipeqa/aligned_reader",
        f"data.train_file={folder}/train.json",
        f"data.test_file={folder}/test.json",
        f"cache={folder}/cache",
        *SMALL_READER,
    ]


def _predictions(folder):
    return [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("aligned")
    files = _files(folder)
    run("train", folder / "run", files)
    return folder, files


@pytest.mark.slow
def test_the_command_trains_tests_and_reads_of_the_test_file_its_textual_questions_alone(trained):
    folder, _ = trained
    records = [r for r in json.loads((folder / "test.json").read_text())["data"] if r["task"] == "textual_cloze"]
    rows = _predictions(folder / "run")
    assert [row["qid"] for row in rows] == [r["qid"] for r in records] and len(rows) == 12
    metrics = json.loads((folder / "run" / "metrics.json").read_text())
    assert metrics["test/accuracy"] == pytest.approx(np.mean([r["prediction"] == r["answer"] for r in rows]))
    assert set(metrics["tasks"]) == {"textual_cloze"} and metrics["tasks"]["textual_cloze"]["n"] == 12
    assert any("15% of the training recipes" in note for note in metrics["notes"])
    assert not any("bad record" in note for note in metrics["notes"])
    assert np.isfinite([row["scores"] for row in rows]).all() and len({str(row["scores"]) for row in rows}) == 12
    # Where all records are read, the same file stops the run.
    with pytest.raises(InputError, match=r"test\.json"):
        run("train", folder / "strict", [*trained[1], "data.read_others=true"])


@pytest.mark.slow
def test_scoring_one_question_alone_equals_scoring_it_among_all(trained, tmp_path):
    folder, _ = trained
    rows = {row["qid"]: row for row in _predictions(folder / "run")}
    records = [r for r in json.loads((folder / "test.json").read_text())["data"] if r["task"] == "textual_cloze"]
    best = f"ckpt_path={folder}/run/checkpoints/best.ckpt"
    for number, record in enumerate(records[:3]):
        (tmp_path / "one.json").write_text(json.dumps(record))
        run("evaluate", tmp_path / str(number), [best, f"question={tmp_path}/one.json", f"cache={tmp_path}/c"])
        answer = json.loads((tmp_path / str(number) / "answer.json").read_text())
        assert answer["scores"] == pytest.approx(rows[record["qid"]]["scores"], abs=1e-6)
        assert np.shape(answer["attention"]) == (4, len(record["context"]))
        assert np.allclose(np.sum(answer["attention"], 1), 1)
    write_file(tmp_path / "few.json", records[7:2:-2])
    overrides = [best, f"data.test_file={tmp_path}/few.json", "sanity=false", "logger=[]", f"cache={tmp_path}/d"]
    run("evaluate", tmp_path / "few", overrides)
    few = _predictions(tmp_path / "few")
    assert len(few) == 3
    for row in few:
        assert row["scores"] == pytest.approx(rows[row["qid"]]["scores"], abs=1e-6)


@pytest.mark.slow
def test_a_checkpoint_scores_a_new_file_by_itself_and_names_of_recipes_reach_nothing(trained, tmp_path):
    folder, _ = trained
    records = [r for r in json.loads((folder / "test.json").read_text())["data"] if r["task"] == "textual_cloze"]
    for i, record in enumerate(records):
        record |= {"qid": f"other {i}", "recipe_id": f"flour-{i}"}
    write_file(tmp_path / "new.json", records)
    away = folder / "train.json"
    away.rename(folder / "moved.json")
    try:
        overrides = [f"ckpt_path={folder}/run/checkpoints/best.ckpt", f"data.test_file={tmp_path}/new.json"]
        overrides += ["data.train_file=null", "sanity=false", "logger=[]", f"cache={tmp_path}/c"]
        run("evaluate", tmp_path / "e", overrides)
    finally:
        (folder / "moved.json").rename(away)
    again = [row["scores"] for row in _predictions(tmp_path / "e")]
    assert np.allclose(again, [row["scores"] for row in _predictions(folder / "run")], atol=1e-6)


@pytest.mark.slow
def test_training_on_renamed_images_and_qids_gives_the_same_scores(trained, tmp_path):
    folder, files = trained

    def digest(name):
        return hashlib.sha256(name.encode()).hexdigest()[:12]

    def renamed(value):
        if isinstance(value, dict):
            return {k: digest(v) if k == "qid" else renamed(v) for k, v in value.items()}
        if isinstance(value, list):
            return [renamed(v) for v in value]
        return f"{digest(value)}_7_7.jpg" if isinstance(value, str) and value.endswith(".jpg") else value

    for split in ("train", "test"):
        write_file(tmp_path / f"{split}.json", renamed(json.loads((folder / f"{split}.json").read_text())["data"]))
    moved = [f.replace(str(folder), str(tmp_path)) for f in files]
    run("train", tmp_path / "run", moved)
    a, b = ([row["scores"] for row in _predictions(x / "run")] for x in (folder, tmp_path))
    assert np.allclose(a, b, atol=1e-6)


@pytest.mark.slow
def test_a_resumed_run_ends_like_one_that_was_not_stopped(trained, tmp_path, monkeypatch):
    from engine.callbacks import Stopped

    folder, files = trained
    _stop_after(monkeypatch, [4])
    with pytest.raises(Stopped):
        run("train", tmp_path / "run", files)
    run("train", tmp_path / "run", [*files, f"ckpt_path={tmp_path}/run/checkpoints/last.ckpt"])
    a, b = _contents(folder / "run"), _contents(tmp_path / "run")
    assert _same(a[0]["state_dict"], b[0]["state_dict"]) and _same(a[1]["state_dict"], b[1]["state_dict"])
    assert _same(a[0]["optimizer_states"], b[0]["optimizer_states"])
    assert a[3] == b[3]


@pytest.mark.slow
def test_all_four_tasks_together(tmp_path):
    for seed, split in enumerate(("train", "test")):
        n = 16 if split == "train" else 4
        write_file(
            tmp_path / f"{split}.json",
            [r for task in TASKS for r in made_up_questions(task, n, seed=2 * seed, split=split)],
        )
        write_images(tmp_path / "images", image_names(json.loads((tmp_path / f"{split}.json").read_text())["data"]))
    overrides = ["data=recipeqa/all", "model=aligned_reader", f"data.train_file={tmp_path}/train.json", *SMALL_READER]
    overrides += [f"data.test_file={tmp_path}/test.json", f"data.images={tmp_path}/images", "data.generate=1"]
    run("train", tmp_path / "run", [*overrides, "features=efficientnet_lite0", f"cache={tmp_path}/cache"])
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert {task: part["n"] for task, part in metrics["tasks"].items()} == dict.fromkeys(TASKS, 4)
    rows = {row["qid"]: row["scores"] for row in _predictions(tmp_path / "run")}
    assert np.isfinite(list(rows.values())).all()
    best = f"ckpt_path={tmp_path}/run/checkpoints/best.ckpt"
    for record in json.loads((tmp_path / "test.json").read_text())["data"][::5]:
        (tmp_path / "one.json").write_text(json.dumps(record))
        run("evaluate", tmp_path / "one", [best, f"question={tmp_path}/one.json"])
        answer = json.loads((tmp_path / "one" / "answer.json").read_text())
        assert answer["scores"] == pytest.approx(rows[record["qid"]], abs=1e-5)


# -- folds


def letters(number):
    """A word that no other recipe has and no ending is cut from."""
    return "xq" + "".join("bcdfghjkmn"[int(digit)] for digit in str(number)) + "vo"


def _planted(folder, recipes=10):
    """A file in which each recipe has a word of its own, in every text that it shows; recipe id -> that word."""
    records, words = _mixed(recipes, 0, "train"), {}
    for record in records:
        word = words.setdefault(record["recipe_id"], letters(len(words)))
        for step in record["context"]:
            step["body"] += f" {word}"
            if "title" in step:
                step["title"] += f" {word}t"
        if record["task"] == "textual_cloze":
            record["question"] = [q if q.startswith("@") else f"{q} {word}q" for q in record["question"]]
            record["choice_list"] = [f"{choice} {word}c" for choice in record["choice_list"]]
    write_file(folder / "train.json", records)
    return words


def _data(folder, *overrides):
    files = ["experiment=recipeqa/aligned_reader", f"data.train_file={folder}/train.json", f"cache={folder}/cache"]
    cfg = composed("train", [*files, *SMALL_READER, "data.evidence.min_choices=1", *overrides])
    return instantiate(cfg.data, _convert_="all")


def test_the_tested_fold_is_in_no_statistic_and_folds_part_the_recipes(tmp_path):
    words = _planted(tmp_path)
    tested = []
    for fold in range(3):
        data = _data(tmp_path, "data.folds=3", f"data.fold={fold}")
        recipes = {split: {q.recipe_id for q in data.read(split)} for split in ("train", "val", "test")}
        assert recipes["train"] and recipes["val"] and len(recipes["test"]) in (3, 4)
        assert sum(map(len, recipes.values())) == len(set().union(*recipes.values())) == 10
        tested += recipes["test"]
        data.prepare()
        known = " ".join([*data.evidence.idf, *data.evidence.vocabulary, *data.encoder.words])
        for recipe, word in words.items():
            assert (stem(word) in known) is (recipe in recipes["train"]), (fold, recipe)
        assert {q.recipe_id for q in data.questions["test"]} == recipes["test"]
        assert len(data.encoded["train"]) == 3 * len(recipes["train"])  # its own, and two that are made of its titles
        assert any(f"fold {fold} of 3" in note for note in data.notes)
    assert sorted(tested) == sorted(words)


def test_a_fold_trains_alike_whatever_its_tested_recipes_say(tmp_path):
    _planted(tmp_path)
    data = _data(tmp_path, "data.folds=3", "data.fold=1")
    held = {q.recipe_id for q in data.read("test")}
    data.prepare()
    records = json.loads((tmp_path / "train.json").read_text())["data"]
    for record in records:
        if record["recipe_id"] in held:
            for step in record["context"]:
                step["body"] = "Flour butter lemon"
            if record["task"] == "textual_cloze":
                record["choice_list"] = ["Bake", "Boil", "Fold", "Chill"]
    write_file(tmp_path / "train.json", records)
    again = _data(tmp_path, "data.folds=3", "data.fold=1")
    again.prepare()
    assert again.evidence.digest() == data.evidence.digest() and again.encoder.digest() == data.encoder.digest()
    assert again.facts() == data.facts()


def test_a_generated_question_is_named_and_a_limit_holds_for_them_too(tmp_path):
    _planted(tmp_path)
    data = _data(tmp_path)
    data.prepare(("train",))
    count = len(data.encoded["train"])
    (name,) = data.names("train", [count - 1])
    assert name.startswith("generated ")
    few = _data(tmp_path, "data.limit=3")
    few.prepare(("train",))
    assert len(few.encoded["train"]) == 6 < count


def test_text_vectors_of_retrieval_and_a_word_for_a_switch_are_refused():
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"text": Word2VecSettings()}, "need text=doc2vec"),
        ({"text": Doc2VecSettings(), "read_others": "maybe"}, "read_others=maybe: must be true or false"),
    ]
    for settings, message in wrong:
        with pytest.raises(InputError, match=message):
            ChoiceData("x", ["textual_cloze"], **settings)


def test_validation_on_training_recipes_is_said(tmp_path):
    _planted(tmp_path)
    data = _data(tmp_path, f"data.val_file={tmp_path}/train.json")
    data.prepare(("train", "val"))
    assert "10 of the validation recipes also occur in training: nothing is chosen on unseen recipes" in data.notes


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"without": "words"}, r"model.net.without=words: must be a list; write model.net.without=\[words\]"),
        ({"word_scale": "x"}, "model.net.word_scale=x: must be a number above 0"),
        ({"word_scale": 0}, "model.net.word_scale=0: must be a number above 0"),
    ],
)
def test_settings_of_the_network_are_checked(settings, message):
    with pytest.raises(InputError, match=message):
        AlignedReader(**settings)


def test_no_question_is_made_where_none_is_asked_for(tmp_path):
    _planted(tmp_path)
    data = _data(tmp_path, "data.generate=0")
    data.prepare(("train",))
    assert len(data.encoded["train"]) == sum(q.task == "textual_cloze" for q in data.read("train"))
    other = ChoiceData("x", ["visual_coherence"], Doc2VecSettings(), train_file=f"{tmp_path}/train.json", generate=2)
    assert other.generate == 0


@pytest.mark.parametrize(
    ("folds", "fold", "message"),
    [
        (3, 3, "data.fold=3: there are 3 folds, numbered from 0"),
        (3, -1, "data.fold=-1: there are 3 folds, numbered from 0"),
        (3, 0.5, "data.fold=0.5: there are 3 folds"),
        (1, 0, "data.folds=1: must be a whole number of at least 2"),
        (11, 0, "data.folds=11: the file holds 10 recipes; ask for fewer folds"),
    ],
)
def test_wrong_folds_are_said_in_one_line(folds, fold, message, tmp_path):
    _planted(tmp_path)
    with pytest.raises(InputError) as error:
        path = f"{tmp_path}/train.json"
        ChoiceData("x", ["textual_cloze"], Doc2VecSettings(), train_file=path, folds=folds, fold=fold).read("test")
    assert message in str(error.value) and "\n" not in str(error.value)


def test_evidence_beside_pictures_in_the_document_is_refused():
    with pytest.raises(InputError, match=r"^data\.modality=multimodal: .*choose data\.modality=text$"):
        ChoiceData("x", TASKS, Doc2VecSettings(), modality="multimodal", evidence=EvidenceSettings())
