"""More training questions of textual cloze, from the training recipes whose titles the visual tasks show."""

import random
from collections.abc import Sequence

from data.records import PLACEHOLDER, Question, Step


def more_cloze(questions: Sequence[Question], per_recipe: int, seed: int) -> list[Question]:
    """Make `per_recipe` questions of each recipe of which some question shows titles; the order of recipes is kept.

    Four steps with titles are drawn, in increasing order, and one of them is asked. Wrong choices are drawn from the
    wrong choices of the questions given, with repeats, so that they are texts of the kind that the benchmark offers;
    none is a title of the recipe. Hand over training questions only: titles of a recipe that is scored would tell the
    answers that its own questions hide.

    Draws depend on the seed and the recipe's id alone, and on the pool of wrong choices.
    """
    pool = [
        choice[0]
        for q in questions
        if q.task == "textual_cloze"
        for k, choice in enumerate(q.choices)
        if k != q.answer and choice[0].strip()
    ]
    offered = {_plain(text) for text in pool}
    shown: dict[str, tuple[Step, ...]] = {}
    for q in questions:
        if q.task != "textual_cloze":
            shown.setdefault(q.recipe_id, q.context)
    made = []
    for recipe, steps in shown.items():
        titled = [i for i, step in enumerate(steps) if (step.title or "").strip() not in ("", PLACEHOLDER)]
        own = {_plain(step.title or "") for step in steps}
        if len(titled) < 4 or len(offered) - len(offered & own) < 3:
            continue
        draw = random.Random(f"{seed} {recipe}")
        context = tuple(Step(body=step.body) for step in steps)
        for number in range(per_recipe):
            chosen = sorted(draw.sample(titled, 4))
            asked = draw.randrange(4)
            titles = [steps[i].title or "" for i in chosen]
            taken, choices = set(own), []
            while len(choices) < 3:
                text = draw.choice(pool)
                if _plain(text) not in taken:
                    taken.add(_plain(text))
                    choices.append((text,))
            answer = draw.randrange(4)
            choices.insert(answer, (titles[asked],))
            made.append(
                Question(
                    qid=f"generated {number} of {recipe}",
                    recipe_id=recipe,
                    task="textual_cloze",
                    split="train",
                    context=context,
                    question=tuple(PLACEHOLDER if i == asked else title for i, title in enumerate(titles)),
                    choices=tuple(choices),
                    answer=answer,
                )
            )
    return made


def _plain(text: str) -> str:
    return " ".join(text.lower().split())
