import numpy as np
import pytest
import torch

from data.encoding import encode, step_text, visible_images, visible_texts
from data.recipeqa import read_questions
from data.records import PLACEHOLDER, TASKS
from tests.made_up import made_up_questions, write_file

D_TEXT, D_IMAGE = 5, 3


def _vector(key: str, size: int) -> np.ndarray:
    return np.random.default_rng(abs(int.from_bytes(key.encode()[-7:], "big"))).normal(size=size).astype(np.float32)


class Table:
    """Rows in an order of its own, as a store has them."""

    def __init__(self, keys, size, seed=0):
        keys = sorted(set(keys))
        order = np.random.default_rng(seed).permutation(len(keys))
        self.row = {key: int(order[i]) for i, key in enumerate(keys)}
        self.array = np.zeros((len(keys), size), np.float32)
        for key, row in self.row.items():
            self.array[row] = _vector(key, size)

    def rows(self, keys):
        return np.asarray([self.row[key] for key in keys], np.int64)


def _encoded(questions, multimodal=False, seed=0, **kwargs):
    texts = Table([t for q in questions for t in visible_texts(q)], D_TEXT, seed)
    images = Table([n for q in questions for n in visible_images(q, multimodal)], D_IMAGE, seed)
    absent = np.full(D_IMAGE, 9.0, np.float32)
    return encode(questions, texts.rows, images.rows, texts.array, images.array, absent, multimodal, **kwargs)


@pytest.fixture(scope="module", params=TASKS)
def questions(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("q") / "q.json"
    write_file(path, made_up_questions(request.param, 13, seed=3, per_recipe=2))
    return read_questions(path)[0]


@pytest.mark.parametrize("multimodal", [False, True])
def test_batch_holds_what_the_questions_say(questions, multimodal):
    """Every element of every question, looked up the slow way."""
    encoded = _encoded(questions, multimodal)
    rows = [4, 0, 12, 7]
    batch = encoded.batch(rows)
    # Texts are compared on the first columns, images on theirs: the two tables have different widths.
    text, image = batch["text"], batch["image"]

    def element(index):
        return ("text", text[index]) if index < len(text) else ("image", image[index - len(text)])

    def check(index, key, textual):
        kind, vector = element(int(index))
        assert kind == ("text" if textual else "image")
        assert np.array_equal(vector.numpy(), _vector(key, D_TEXT if textual else D_IMAGE))

    for b, row in enumerate(rows):
        q = questions[row]
        textual = q.task == "textual_cloze"
        document = []
        for step in q.context:
            document.append((step_text(step), True))
            if multimodal and textual:
                document += [(name, False) for name in step.images]
        assert int(batch["document_mask"][b].sum()) == len(document)
        assert batch["document_mask"][b, : len(document)].all()
        for t, (key, is_text) in enumerate(document):
            check(batch["document"][b, t], key, is_text)
        assert not batch["document"][b, len(document) :].any()
        if q.task != "visual_ordering":
            for i, key in enumerate(q.question):
                assert bool(batch["placeholder"][b, i]) == (key == PLACEHOLDER)
                if key == PLACEHOLDER:
                    expected = torch.zeros(D_TEXT) if textual else torch.full((D_IMAGE,), 9.0)
                    assert torch.equal(element(int(batch["query"][b, i]))[1], expected)
                else:
                    check(batch["query"][b, i], key, textual)
        for k, choice in enumerate(q.choices):
            assert batch["choices"].shape[2] == len(choice)
            for e, key in enumerate(choice):
                check(batch["choices"][b, k, e], key, textual)
        assert int(batch["answer"][b]) == q.answer and int(batch["index"][b]) == row


def test_row_order_of_the_tables_does_not_matter(questions):
    batches = [_encoded(questions, True, seed=s).batch(range(len(questions))) for s in (0, 1)]
    gathered = []
    for batch in batches:
        width = max(D_TEXT, D_IMAGE)
        table = torch.zeros(len(batch["text"]) + len(batch["image"]), width)
        table[: len(batch["text"]), :D_TEXT] = batch["text"]
        table[len(batch["text"]) :, :D_IMAGE] = batch["image"]
        gathered.append([table[batch[key]] for key in ("document", "query", "choices")])
    assert all(torch.equal(a, b) for a, b in zip(*gathered, strict=True))


def test_empty_texts_are_zeros_and_empty_steps_leave_the_document(tmp_path):
    records = made_up_questions("textual_cloze", 3, seed=1)
    records[0]["context"][1]["body"] = " "
    records[0]["choice_list"][(records[0]["answer"] + 1) % 4] = "  "
    records[1]["choice_list"][(records[1]["answer"] + 1) % 4] = records[1]["choice_list"][records[1]["answer"]].upper()
    write_file(tmp_path / "q.json", records)
    questions = read_questions(tmp_path / "q.json")[0]
    batch = _encoded(questions).batch([0, 1, 2])
    assert int(batch["document_mask"][0].sum()) == len(questions[0].context) - 1
    assert int(batch["choices"][0, (questions[0].answer + 1) % 4, 0]) == 0 and not batch["text"][0].any()
    assert batch["twins"].sum(1).tolist() == [0, 1, 0]
    assert bool(batch["twins"][1, (questions[1].answer + 1) % 4])


def test_first_image_of_a_step_only(tmp_path):
    write_file(tmp_path / "q.json", made_up_questions("textual_cloze", 4, seed=1))
    questions = read_questions(tmp_path / "q.json")[0]
    encoded = _encoded(questions, True, images_per_step="first")
    assert encoded.lengths.tolist() == [2 * len(q.context) for q in questions]
