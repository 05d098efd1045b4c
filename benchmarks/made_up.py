"""Made-up questions and image features at the size of RecipeQA, for the benchmarks."""

import json
import pickle
import string
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from data.recipeqa import write_questions
from data.records import ORDERING_SENTENCE, PLACEHOLDER, Question, Step

# Questions with 4, 5, ... 20 steps among the textual-cloze validation questions of RecipeQA: 6.7 in the mean.
STEPS = (88, 144, 111, 64, 62, 33, 24, 9, 20, 6, 5, 4, 0, 0, 2, 1, 1)
WORDS_PER_STEP, IMAGES_PER_STEP, VOCABULARY = 75, 2.37, 30_000
# Questions of each task in the three files of RecipeQA. How the training file's visual coherence and visual ordering
# share what is left of its 29,657 is not published; here equally.
RECIPEQA = {
    "train": {"textual_cloze": 7837, "visual_cloze": 7144, "visual_coherence": 7338, "visual_ordering": 7338},
    "val": {"textual_cloze": 961, "visual_cloze": 842, "visual_coherence": 830, "visual_ordering": 929},
    "test": {"textual_cloze": 963, "visual_cloze": 848, "visual_coherence": 851, "visual_ordering": 905},
}
RECIPES_PER_VISUAL_QUESTION = 0.37  # RecipeQA's 19,779 recipes, less one for each textual-cloze question


def write_splits(folder: Path, counts: dict[str, dict[str, int]], images: int = 0, seed: int = 0) -> list[str]:
    """Write train.json, val.json and test.json in the released schema; returns the name of each picture they show.

    A recipe has 4 to 20 steps (6.7 in the mean), 75 words and 2.37 pictures a step. Wrong choices of the visual tasks
    are pictures that no question shows yet, until `images` different ones are shown in all splits together.
    """
    rng = np.random.default_rng(seed)
    letters = np.array(list(string.ascii_lowercase))
    words = ["".join(rng.choice(letters, n)) for n in np.clip(1 + rng.poisson(4, VOCABULARY), 2, 12)]
    seen: dict[str, None] = {}
    written, total = 0, sum(sum(tasks.values()) for tasks in counts.values())
    for split, tasks in counts.items():
        written += sum(tasks.values())
        textual = tasks.get("textual_cloze", 0)
        visual = [task for task in tasks if task != "textual_cloze" for _ in range(tasks[task])]
        pool = round(len(visual) * RECIPES_PER_VISUAL_QUESTION) + 4
        recipes = list(_recipes(rng, words, split, textual + pool))
        questions = [_textual_cloze(rng, split, recipes, i) for i in range(textual)]
        seen |= {name: None for recipe in recipes[:textual] for step in recipe for name in step.images or ()}
        drawn = [recipes[textual + int(i)] for i in rng.integers(pool, size=len(visual))]
        own = [_pictures(rng, recipe) for recipe in drawn]
        seen |= {name: None for names in own for name in names}
        every = [name for recipe in recipes[textual:] for step in recipe for name in step.images or ()]
        fresh = (every[i] for i in rng.permutation(len(every)))
        for i, (task, recipe, names) in enumerate(zip(visual, drawn, own, strict=True)):
            wrong = []
            for _ in range({"visual_cloze": 3, "visual_coherence": 1, "visual_ordering": 0}[task]):
                name = next((n for n in fresh if n not in seen), None) if len(seen) < images * written / total else None
                wrong.append(name or every[int(rng.integers(len(every)))])
                seen[wrong[-1]] = None
            questions.append(_visual(rng, split, task, i, recipe, names, wrong))
        write_questions(folder / f"{split}.json", questions)
    return list(seen)


def _recipes(rng: np.random.Generator, words: list[str], split: str, count: int) -> Iterator[tuple[Step, ...]]:
    """Recipes whose steps have body, title and pictures; a question hides what its task hides."""
    rank = np.arange(1, VOCABULARY + 1)
    zipf = np.cumsum(1 / rank) / np.sum(1 / rank)
    lengths = 4 + rng.choice(len(STEPS), count, p=np.array(STEPS) / sum(STEPS))
    for recipe, length in enumerate(lengths):
        steps = []
        for step in range(length):
            chosen = np.searchsorted(zipf, rng.random(4 + int(rng.gamma(2, WORDS_PER_STEP / 2 - 2))))
            text = [words[i] for i in chosen]
            names = tuple(f"{split}-{recipe}_{step + 1}_{k}.jpg" for k in range(1 + rng.poisson(IMAGES_PER_STEP - 1)))
            steps.append(Step(" ".join(text[3:]), " ".join(text[:3]), names))
        yield tuple(steps)


def _pictures(rng: np.random.Generator, recipe: tuple[Step, ...]) -> list[str]:
    """One picture of each of four steps, in order."""
    steps = [recipe[i].images or () for i in np.sort(rng.permutation(len(recipe))[:4])]
    return [names[int(rng.integers(len(names)))] for names in steps]


def _textual_cloze(rng: np.random.Generator, split: str, recipes: list[tuple[Step, ...]], number: int) -> Question:
    recipe, (answer, place) = recipes[number], rng.integers(4, size=2).tolist()
    titles = [recipe[i].title or "" for i in np.sort(rng.permutation(len(recipe))[:4])]
    others = [(number + 1 + int(i)) % len(recipes) for i in rng.permutation(min(len(recipes) - 1, 100))[:3]]
    choices = [(recipes[i][0].title or "",) for i in others]
    choices.insert(answer, (titles[place],))
    titles[place] = PLACEHOLDER
    context = tuple(Step(step.body, images=step.images) for step in recipe)
    qid = f"1000-{split}-{number}"
    return Question(qid, f"{split}-{number}", "textual_cloze", split, context, tuple(titles), tuple(choices), answer)


def _visual(
    rng: np.random.Generator,
    split: str,
    task: str,
    number: int,
    recipe: tuple[Step, ...],
    names: list[str],
    wrong: list[str],
) -> Question:
    answer, place = rng.integers(4, size=2).tolist()
    if task == "visual_ordering":
        choices = [tuple(np.roll(names, k).tolist()) for k in range(1, 4)]
        choices.insert(answer, tuple(names))
        question = (ORDERING_SENTENCE,)
    elif task == "visual_coherence":
        question = (*names[:answer], wrong[0], *names[answer + 1 :])
        choices = [(name,) for name in question]
    else:
        question = (*names[:place], PLACEHOLDER, *names[place + 1 :])
        choices = [(name,) for name in wrong]
        choices.insert(answer, (names[place],))
    context = tuple(Step(step.body, step.title) for step in recipe)
    recipe_id = (recipe[0].images or ("",))[0].split("_")[0]
    return Question(f"{task}-{split}-{number}", recipe_id, task, split, context, question, tuple(choices), answer)


def write_features(path: Path, names: list[str], size: int, kind: str, seed: int = 0) -> Path:
    """A feature file as `data.images.ReleasedFeatures` reads it: {name: `size` numbers}.

    `kind` is `arrays` (a pickle of float32 arrays), `lists` (a pickle of lists of floats) or `json`.
    """
    rng = np.random.default_rng(seed)
    # Non-negative and partly zero, as pooled features are; few distinct rows would make the reducer degenerate.
    vectors = np.maximum(rng.standard_normal((len(names), size), np.float32), 0)
    if kind == "arrays":
        with open(path, "wb") as file:
            pickle.dump(dict(zip(names, vectors, strict=True)), file, protocol=4)
    elif kind == "lists":
        with open(path, "wb") as file:
            pickle.dump(dict(zip(names, vectors.tolist(), strict=True)), file, protocol=2)
    else:
        path.write_text(json.dumps(dict(zip(names, vectors.tolist(), strict=True))))
    return path
