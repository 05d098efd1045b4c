"""Made-up outcomes of food questions for tests of reports."""

from collections.abc import Callable, Sequence

from data.records import FoodQuestion
from models.answers import Outcome

IDENTITY = (0, 1, 2, 3)


def question(row: int, task: str = "sivqa", **given) -> FoodQuestion:
    """A question whose right answer is row mod 4; four rows share a cluster."""
    values = {
        "task": task,
        "row": row,
        "record_hash": f"{row:032x}",
        "question_id": f"q{row // 2}",
        "language": "zh",
        "question": "哪一个?",
        "choices": () if task == "mivqa" else ("甲", "乙乙", "丙丙丙", "丁丁丁丁"),
        "images": tuple(f"/photos/{row}_{i}.jpg" for i in range({"mivqa": 4, "sivqa": 1, "textqa": 0}[task])),
        "answer": row % 4,
        "question_type": "flavor",
        "cuisine": "川菜",
        "cluster": f"photo {row // 4}",
    }
    return FoodQuestion(**{**values, **given})


def outcome(
    q: FoodQuestion, shown: int | None, prompt: str = "sivqa.zh.0.code", order: Sequence[int] = IDENTITY, **given
) -> Outcome:
    """The outcome of choosing the place `shown`; the credit follows from it."""
    order = tuple(order)
    right = shown is not None and order[shown] == q.answer
    values = {
        "question": q,
        "prompt": prompt,
        "index": int(prompt.split(".")[2]) if prompt.count(".") > 2 else 0,
        "order": order,
        "method": "generate",
        "shown": shown,
        "credit": float(right),
        "reason": "no_candidate" if shown is None else "prefill_letter",
        "response": "不知道" if shown is None else "ABCD"[shown],
        "finish_reason": "stop",
    }
    return Outcome(**{**values, **given})


def outcomes(
    questions: Sequence[FoodQuestion],
    choose: Callable[[FoodQuestion, tuple[int, ...]], int | None],
    prompts: Sequence[str] = ("sivqa.zh.0.code",),
    orders: Sequence[tuple[int, ...]] = (IDENTITY,),
    **given,
) -> list[Outcome]:
    """Outcomes of a system that shows `choose(question, order)` for every prompt and order."""
    return [
        outcome(q, choose(q, order), prompt, order, **given)
        for q in questions
        for order in orders
        for prompt in prompts
    ]


def right_place(q: FoodQuestion, order: tuple[int, ...]) -> int:
    """Where the right option is shown."""
    return order.index(q.answer)
