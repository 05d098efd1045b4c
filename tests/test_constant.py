"""Trivial systems: what they choose, that they never see the answer they are scored on, and that they repeat."""

from dataclasses import replace
from typing import Any

import pytest
from hydra.utils import instantiate
from hypothesis import given, settings
from hypothesis import strategies as st

from data.errors import InputError
from data.records import LETTERS, FoodQuestion
from models.backend import Request
from models.constant import Trivial
from tests.runs import ROOT, composed

ORDERS = [tuple((i + k) % 4 for i in range(4)) for k in range(4)]


def question(row: int, answer: int = 0, kind: str = "flavor", cluster: str = "", **changes: Any) -> FoodQuestion:
    made = FoodQuestion(
        task="textqa",
        row=row,
        record_hash=f"{row:032x}",
        question_id=f"textqa-{row}",
        language="zh",
        question=f"示例{row}是什么味道?",
        choices=("辣", "清淡", "酸甜可口", "咸鲜"),
        images=(),
        answer=answer,
        question_type=kind,
        cluster=cluster,
    )
    return replace(made, **changes)


def asked(questions: list[FoodQuestion]) -> list[Request]:
    return [Request(f"key{i}", q, "score") for i, q in enumerate(questions)]


def scores(model: Trivial, questions: list[FoodQuestion]) -> list[dict[str, float]]:
    replies = dict(model.answer(asked(questions)))
    assert len(replies) == len(questions) and all(reply.error is None for reply in replies.values())
    found = [replies[request].scores or {} for request in asked(questions)]
    assert all(tuple(item) == tuple(LETTERS) for item in found)
    return found


def best(found: dict[str, float]) -> str:
    return "".join(letter for letter in LETTERS if found[letter] == max(found.values()))


@pytest.mark.parametrize(("position", "letters"), [(0, "A"), (3, "D"), (None, "ABCD")])
def test_always_the_same_place_or_all_alike(position, letters):
    shown = [question(0).reordered(order) for order in ORDERS]
    assert [best(found) for found in scores(Trivial("position", position), shown)] == [letters] * 4


def test_length_is_that_of_the_text_without_outer_space_and_ties_stay_ties():
    texts = question(0, choices=(" 辣   ", "清淡", "酸甜可口", "咸"))
    assert best(scores(Trivial("shortest"), [texts])[0]) == "AD"
    assert best(scores(Trivial("longest"), [texts])[0]) == "C"
    photos = question(0, choices=(), images=("/a.jpg", "/bb.jpg", "/ccc.jpg", "/d.jpg"), task="mivqa")
    for rule in ("shortest", "longest"):
        assert best(scores(Trivial(rule), [photos])[0]) == "ABCD"


def test_random_draws_depend_on_the_question_and_seed_only():
    questions = [question(row, choices=(f"{row}a", "b", "c", "d")) for row in range(400)]
    drawn = [best(found) for found in scores(Trivial("random"), questions)]
    assert drawn == [best(found) for found in scores(Trivial("random"), questions[::-1])][::-1]
    assert drawn[7:9] == [best(found) for found in scores(Trivial("random"), questions[7:9])]
    assert drawn != [best(found) for found in scores(Trivial("random", seed=1), questions)]
    assert all(70 <= drawn.count(letter) <= 130 for letter in LETTERS)
    # The right answer has no part in it, and rotated options are another draw.
    assert drawn == [best(found) for found in scores(Trivial("random"), [replace(q, answer=3) for q in questions])]
    rotated = [best(found) for found in scores(Trivial("random"), [q.reordered(ORDERS[1]) for q in questions])]
    assert 250 <= sum(a != b for a, b in zip(drawn, rotated, strict=True)) <= 350


def test_random_draws_of_photos_do_not_depend_on_their_folder():
    rows = [question(row, choices=(), images=tuple(f"/here/{row}_{i}.jpg" for i in range(4))) for row in range(40)]
    moved = [replace(q, images=tuple(path.replace("/here", "/there") for path in q.images)) for q in rows]
    assert scores(Trivial("random"), rows) == scores(Trivial("random"), moved)


def test_majority_counts_other_clusters_of_the_type():
    rows = [question(row, answer=1, cluster=f"dish{row}") for row in range(5)]
    rows += [question(row, answer=2, kind="region-2", cluster=f"dish{row}") for row in range(5, 14)]
    by_type = scores(Trivial("majority", by_type=True), rows)
    assert [best(found) for found in by_type] == ["B"] * 5 + ["C"] * 9
    assert by_type[0] == {"A": 0.0, "B": 4.0, "C": 0.0, "D": 0.0}  # without its own
    assert {best(found) for found in scores(Trivial("majority"), rows)} == {"C"}
    tasks = [*rows, *(replace(q, task="sivqa", answer=3) for q in rows)]
    assert best(scores(Trivial("majority"), tasks)[0]) == "C"  # another task has its own letters


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["flavor", "present"]), st.integers(0, 4)), min_size=1),
    by_type=st.booleans(),
    data=st.data(),
)
def test_no_answer_of_a_questions_cluster_changes_its_scores(rows, by_type, data):
    questions = [question(i, a, kind, f"dish{c}" if c else "") for i, (a, kind, c) in enumerate(rows)]
    chosen = data.draw(st.integers(0, len(rows) - 1))
    cluster = questions[chosen].cluster
    mates = [i for i, q in enumerate(questions) if i == chosen or (cluster and q.cluster == cluster)]
    changed = [replace(q, answer=(q.answer + 1 + i % 3) % 4) if i in mates else q for i, q in enumerate(questions)]
    model = Trivial("majority", by_type=by_type)
    assert scores(model, questions)[chosen] == scores(model, changed)[chosen]


def test_rotated_questions_count_once_in_their_own_order():
    own = [question(row, answer=1) for row in range(6)]
    rotated = [q.reordered(order) for q in own for order in ORDERS]
    found = scores(Trivial("majority"), rotated)
    assert found[0] == scores(Trivial("majority"), own)[0] == {"A": 0.0, "B": 5.0, "C": 0.0, "D": 0.0}
    assert {best(item) for item in found} == {"B"}


def test_settings_that_cannot_be_are_refused():
    for choose, position in (("oracle", None), ("position", 4), ("position", -1)):
        with pytest.raises(InputError, match="model"):
            Trivial(choose, position)
    with pytest.raises(InputError, match=r"asking\.method=generate"):
        Trivial("random").check("generate")
    Trivial("random").check("score")


def test_every_config_is_a_system_of_its_own():
    names = sorted(path.stem for path in (ROOT / "conf" / "model" / "trivial").glob("*.yaml"))
    identities = []
    for name in names:
        cfg = composed("evaluate", [f"model=trivial/{name}"]).model
        assert cfg.name == name
        model = instantiate({key: value for key, value in cfg.items() if key != "name"})
        assert not model.capabilities().prompted and model.kind == "trivial"
        assert len(scores(model, [question(0), question(1)])) == 2
        identities.append(str(model.identity()))
        model.close()
    assert len(set(identities)) == len(names) == 10
