"""Kinds of textual-cloze questions, for the analysis of errors: what is missing, and what the recipe says of it."""

from collections.abc import Sequence

from data.evidence import stems
from data.recipeqa import twins
from data.records import PLACEHOLDER, Question

YES, NO = "yes", "no"
# Each way to part the questions, and its kinds in the order of a table.
KINDS: dict[str, tuple[str, ...]] = {
    "missing title": ("first", "middle", "last"),
    "steps": ("up to 4", "5 or 6", "7 or more"),
    "a word of a title is in a step": ("right one only", "right and wrong", "wrong one only", "neither"),
    "words of the right title": ("none", "1", "2 or 3", "4 or more"),
    "right title is generic": (NO, YES),
    "right title is offered twice": (NO, YES),
    "a choice is empty": (NO, YES),
}
_FUNCTION_WORDS = frozenset(
    stem
    for stem in stems(
        "a an the and or of to in into on onto at by for from with without up out off it its it's this that these "
        "those your you my our we i all as is are be will then now so some what how let's"
    )
)
# A title of nothing but such words could stand over a step of any recipe.
_GENERIC = frozenset(
    stems(
        "ingredients tools materials supplies equipment utensils things stuff need needed list gather get ready start "
        "started begin introduction intro overview prepare preparation prep method instructions directions recipe step "
        "steps enjoy enjoying eat eating serve serving served finish finished finishing final done end finally last "
        "conclusion notes tips result results thanks first second third next bon appetit"
    )
)


def kinds_of(question: Question) -> dict[str, str]:
    """One kind for each key of `KINDS`, of a question of textual cloze.

    Words are compared by their stems, function words left out. A title is generic where it has words and all of them
    could stand over a step of any recipe, such as "Ingredients" or "Serve and Enjoy". Titles are read alike where they
    differ in case and outer white space only.
    """
    right = question.choices[question.answer][0]
    place, steps = question.question.index(PLACEHOLDER), len(question.context)
    said = {stem for step in question.context for stem in stems(step.body)}
    shared = [bool(said & set(_content(choice[0]))) for choice in question.choices]
    own, others = shared.pop(question.answer), any(shared)
    words, content = len(right.split()), _content(right)
    return {
        "missing title": "first" if place == 0 else "last" if place == len(question.question) - 1 else "middle",
        "steps": "up to 4" if steps <= 4 else "5 or 6" if steps <= 6 else "7 or more",
        "a word of a title is in a step": ("right and wrong" if others else "right one only")
        if own
        else ("wrong one only" if others else "neither"),
        "words of the right title": "none"
        if not words
        else "1"
        if words == 1
        else "2 or 3"
        if words <= 3
        else "4 or more",
        "right title is generic": _yes(bool(content) and all(w in _GENERIC or w.isdigit() for w in content)),
        "right title is offered twice": _yes(any(twins(question))),
        "a choice is empty": _yes(any(not choice[0].strip() for choice in question.choices)),
    }


def _content(text: str) -> Sequence[str]:
    return [stem for stem in stems(text) if stem not in _FUNCTION_WORDS]


def _yes(value: bool) -> str:
    return YES if value else NO
