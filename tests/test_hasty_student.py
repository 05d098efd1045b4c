import math
from itertools import pairwise

import numpy as np
import pytest

from data.errors import InputError
from data.records import PLACEHOLDER, TASKS, Question, Step
from models.hasty_student import HastyStudent
from models.metrics import expected_correct


class Table:
    """Vectors by name; remembers what it was asked for."""

    def __init__(self, rows):
        self.rows, self.asked = rows, []

    def text(self, texts):
        self.asked.append(("text", list(texts)))
        return np.array([self.rows[t] for t in texts], dtype=np.float32)

    def image(self, names):
        self.asked.append(("image", list(names)))
        return np.array([self.rows[n] for n in names], dtype=np.float32)


def make(task, question, choices, answer=0):
    choices = tuple(c if isinstance(c, tuple) else (c,) for c in choices)
    return Question("1000-7-0-1-2-3", "soup", task, "val", (Step("Boil."),), tuple(question), choices, answer)


@pytest.mark.parametrize("task", ["textual_cloze", "visual_cloze"])
def test_cloze_by_hand(task):
    table = Table({"x": (2, 0), "y": (0, 5), "xy": (3, 3), "minus x": (-1, 0), "": (0, 0), PLACEHOLDER: (9, 9)})
    q = make(task, ["x", PLACEHOLDER, "y", "x"], ["x", "xy", "minus x", ""])
    half = math.sqrt(0.5)
    # Cosines with x, y, x: (1, 0, 1), (0.707, 0.707, 0.707), (-1, 0, -1), and 0 for a zero vector.
    assert HastyStudent().score([q], table)[0] == pytest.approx([2 / 3, half, -2 / 3, 0])
    assert HastyStudent("max").score([q], table)[0] == pytest.approx([1, half, 0, 0])
    assert all(kind == ("text" if task == "textual_cloze" else "image") for kind, _ in table.asked)
    assert all(PLACEHOLDER not in names for _, names in table.asked)


def test_coherence_by_hand():
    table = Table({"a": (0, 0), "b": (0, 3), "c": (4, 0), "d": (4, 3)})
    names = ["a", "b", "c", "d"]
    scores = HastyStudent().score([make("visual_coherence", names, names)], table)
    assert scores[0] == pytest.approx([4, 4, 4, 4])  # a rectangle: 3 + 4 + 5 over 3 from each corner
    table = Table({"a": (0, 0), "b": (0, 3), "c": (4, 0), "d": (40, 30)})
    scores = HastyStudent().score([make("visual_coherence", names, names)], table)[0]
    assert scores.argmax() == 3
    assert scores[0] == pytest.approx((3 + 4 + 50) / 3)


def test_ordering_by_hand():
    table = Table({"1": (0,), "2": (1,), "3": (3,), "4": (7,)})
    orders = [tuple("1234"), tuple("4321"), tuple("1324"), tuple("4123")]
    scores = HastyStudent().score([make("visual_ordering", ["Choose"], orders)], table)[0]
    assert scores.tolist() == [-7, -7, -11, -10]  # 1+2+4; 3+2+6; 7+1+2
    assert float(expected_correct(scores[None], np.array([0]))[0]) == 0.5  # the reverse cannot be told from it


def test_an_order_and_its_reverse_tie_to_the_last_bit():
    rng = np.random.default_rng(0)
    images = [f"i{n}" for n in range(400)]
    # Scales far apart, so that a sum in another order would round differently.
    table = Table({name: rng.normal(size=33) * 10.0 ** rng.integers(-3, 4) for name in images})
    questions = []
    for n in range(100):
        four = images[4 * n : 4 * n + 4]
        order = [four[i] for i in rng.permutation(4)]
        questions.append(
            make("visual_ordering", ["Choose"], [tuple(order), tuple(order[::-1]), tuple(four), tuple(order)])
        )
    scores = HastyStudent().score(questions, table)
    assert (scores[:, 0] == scores[:, 1]).all() and (scores[:, 0] == scores[:, 3]).all()
    assert (scores[:, 0] != scores[:, 2]).any()


def naive_scores(q, rows, aggregate):
    """One number at a time, from the definition."""

    def vector(name):
        return [float(np.float32(v)) for v in rows[name]]

    def dot(a, b):
        return sum(x * y for x, y in zip(vector(a), vector(b), strict=True))

    def cosine(a, b):
        length = math.sqrt(dot(a, a)) * math.sqrt(dot(b, b))
        return dot(a, b) / length if length else 0.0

    def distance(a, b):
        return math.sqrt(sum((x - y) ** 2 for x, y in zip(vector(a), vector(b), strict=True)))

    scores = []
    for choice in q.choices:
        if q.task.endswith("cloze"):
            values = [cosine(choice[0], e) for e in q.question if e != PLACEHOLDER]
            scores.append(max(values) if aggregate == "max" else sum(values) / len(values))
        elif q.task == "visual_coherence":
            scores.append(sum(distance(choice[0], e) for e in q.question) / 3)
        else:
            scores.append(-sum(distance(a, b) for a, b in pairwise(choice)))
    return scores


@pytest.mark.parametrize("aggregate", ["mean", "max"])
def test_all_tasks_mixed_against_the_definition(aggregate):
    rng = np.random.default_rng(1)
    rows = {f"n{i}": rng.normal(size=9) for i in range(40)} | {"": np.zeros(9)}
    names = list(rows)
    questions = []
    for i in range(61):
        task = TASKS[i % 4]
        four = [str(n) for n in rng.choice(names, size=4, replace=False)]
        if task.endswith("cloze"):
            question = [*four[:3], PLACEHOLDER] if i % 3 else [PLACEHOLDER, four[0], four[1]]  # three elements, or two
            questions.append(make(task, question, [str(n) for n in rng.choice(names, size=4)]))
        elif task == "visual_coherence":
            questions.append(make(task, four, four))
        else:
            orders = [tuple(four[j] for j in rng.permutation(4)) for _ in range(4)]
            questions.append(make(task, ["Choose"], orders))
    table = Table(rows)
    scores = HastyStudent(aggregate).score(questions, table)
    assert scores.dtype == np.float64 and np.isfinite(scores).all()
    np.testing.assert_allclose(scores, [naive_scores(q, rows, aggregate) for q in questions], atol=1e-12)
    assert len(table.asked) == 4  # once for each task, whatever the number of questions
    # Alone, and with its choices moved, a question gets the same numbers to the last bit.
    for q, row in zip(questions[:12], scores, strict=False):
        order = rng.permutation(4)
        moved = make(q.task, q.question, [q.choices[j] for j in order])
        np.testing.assert_array_equal(HastyStudent(aggregate).score([moved], table)[0], row[order])


def test_equal_choices_tie_and_names_do_not_matter():
    rng = np.random.default_rng(2)
    rows = {name: rng.normal(size=50) for name in "abcdefg"}
    q = make("textual_cloze", ["a", "b", PLACEHOLDER, "c"], ["d", "e", "d", "f"])
    scores = HastyStudent().score([q], Table(rows))[0]
    assert scores[0] == scores[2]
    renamed = make("textual_cloze", ["z9", "b", PLACEHOLDER, "c"], ["k_0_0", "e", "k_0_0", "f"])
    other = HastyStudent().score([renamed], Table(rows | {"z9": rows["a"], "k_0_0": rows["d"]}))[0]
    np.testing.assert_array_equal(other, scores)


def test_pairs_in_several_blocks():
    rng = np.random.default_rng(3)
    rows = {f"n{i}": rng.normal(size=70_000) for i in range(48)}  # 59 pairs fill a block
    names = list(rows)
    questions = [make("visual_coherence", names[i : i + 4], names[i : i + 4]) for i in range(0, 48, 4)]
    scores = HastyStudent().score(questions, Table(rows))
    alone = np.concatenate([HastyStudent().score([q], Table(rows)) for q in questions])
    np.testing.assert_array_equal(scores, alone)


def test_wrong_input_takes_one_line():
    table = Table({"a": (1.0,), "b": (2.0,)})
    with pytest.raises(InputError, match=r"^model: aggregate=sum[^\n]+$"):
        HastyStudent("sum")
    with pytest.raises(InputError, match=r"^question 1000-7-0-1-2-3: nothing[^\n]+$"):
        HastyStudent().score([make("textual_cloze", [PLACEHOLDER], ["a", "b"])], table)
    with pytest.raises(InputError, match=r"^question 1000-7-0-1-2-3: 3 choices[^\n]+$"):
        HastyStudent().score(
            [make("textual_cloze", ["a"], ["a", "b"]), make("textual_cloze", ["a"], ["a", "b", "a"])], table
        )
    assert HastyStudent().score([], table).size == 0
