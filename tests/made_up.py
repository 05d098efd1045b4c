"""Made-up questions in the released RecipeQA schema, for every test that needs valid records without real data."""

import gzip
import itertools
import json
import random
from pathlib import Path

from data.records import ORDERING_SENTENCE, PLACEHOLDER, QUESTION_TEXT, TASK_NUMBERS

ACTIONS = ["slice", "whisk", "bake", "fold", "boil", "grate", "knead", "toast", "simmer", "drain", "season", "chill"]
THINGS = [
    "butter",
    "lemon",
    "flour",
    "onion",
    "pepper",
    "dough",
    "potato",
    "cream",
    "bacon",
    "garlic",
    "sugar",
    "basil",
]
VESSELS = ["bowl", "pan", "oven", "pot", "tray", "jar", "skillet"]


def made_up_recipe(number: int) -> dict:
    """Recipe `number`: 4 to 9 steps with title, body and 1 to 3 images each; always the same for one number."""
    rng = random.Random(f"recipe {number}")
    recipe_id = f"{rng.choice(THINGS)}-{rng.choice(VESSELS)}-{number}"
    steps = []
    for i in range(rng.randint(4, 9)):
        sentences = []
        for _ in range(rng.randint(1, 4)):
            sentences.append(
                f"{rng.choice(ACTIONS).title()} the {rng.choice(THINGS)} in the {rng.choice(VESSELS)}"
                f" for {rng.randint(2, 40)} minutes."
            )
        images = [f"{recipe_id}_{i + 1}_{k}.jpg" for k in range(rng.randint(1, 3))]
        title = f"{rng.choice(ACTIONS).title()} {rng.choice(THINGS)} {rng.choice(VESSELS)} {i + 1}"
        steps.append({"body": " ".join(sentences), "title": title, "images": images})
    return {"recipe_id": recipe_id, "number": number, "steps": steps}


def made_up_questions(task: str, n: int, seed: int = 0, per_recipe: int = 1, split: str = "val") -> list[dict]:
    """Make `n` valid records of one task. One seed uses the same recipes in all tasks, two seeds share no recipe.

    A recipe yields up to `per_recipe` questions on different steps. Distractors come from recipes no question is
    built on; in the visual tasks the first of them is an introduction (step 0) image.
    """
    rng = random.Random(f"{task} {seed}")
    textual = task == "textual_cloze"
    records: list[dict] = []
    number = seed * 1_000_000
    while len(records) < n:
        recipe = made_up_recipe(number)
        subsets = list(itertools.combinations(range(len(recipe["steps"])), 4))
        for chosen in rng.sample(subsets, min(per_recipe, len(subsets), n - len(records))):
            question, choices, answer = _ask(task, recipe, chosen, rng)
            context = []
            for i, step in enumerate(recipe["steps"]):
                shown = {"images": list(step["images"])} if textual else {"title": step["title"]}
                context.append({"body": step["body"], "id": i + 1, "videos": [], **shown})
            record = {
                "recipe_id": recipe["recipe_id"],
                "context_modality": ["body", "images" if textual else "title", "videos"],
                "split": split,
                "context": context,
                "choice_list": choices,
                "answer": answer,
                "qid": "-".join(map(str, [TASK_NUMBERS[task], number, *chosen])),
                "question_modality": ["title" if textual else "images"],
                "question": question,
                "task": task,
                "question_text": QUESTION_TEXT[task],
            }
            records.append(record)
        number += 1
    return records


def _ask(task: str, recipe: dict, chosen: tuple, rng: random.Random) -> tuple[list, list, int]:
    """Question, choices and answer of one record built on the steps `chosen`."""
    steps, answer, place = recipe["steps"], rng.randrange(4), rng.randrange(4)
    million = recipe["number"] // 1_000_000 * 1_000_000
    others = [made_up_recipe(million + 500_000 + i) for i in rng.sample(range(400_000), 3)]
    images = [rng.choice(steps[i]["images"]) for i in chosen]
    if task == "visual_ordering":
        orders = [list(order) for order in itertools.permutations(images)]
        choices = rng.sample(orders[1:], 3)  # orders[0] is the right one
        return [ORDERING_SENTENCE], [*choices[:answer], orders[0], *choices[answer:]], answer
    if task == "textual_cloze":
        elements, distractors = [steps[i]["title"] for i in chosen], [rng.choice(o["steps"])["title"] for o in others]
        for i in range(3):  # a made-up file has no twins and no equal distractors unless a test puts them there
            while distractors[i] in elements + distractors[:i]:
                distractors[i] = f"{rng.choice(ACTIONS).title()} {distractors[i]}"
    else:
        elements, distractors = images, [o["steps"][1]["images"][0] for o in others]
        distractors[0] = f"{others[0]['recipe_id']}_0_0.jpg"
    if task == "visual_coherence":
        shown = [*images[:answer], distractors[0], *images[answer + 1 :]]
        return shown, list(shown), answer
    question = [*elements[:place], PLACEHOLDER, *elements[place + 1 :]]
    return question, [*distractors[:answer], elements[place], *distractors[answer:]], answer


def write_file(path: str | Path, records: list) -> Path:
    """Write `records` as a released file, compressed where the name ends in .gz; the folder is made."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"data": records}).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)
    return path


def image_names(records: list[dict]) -> list[str]:
    """Every image name of `records`, in order of appearance, once."""
    names: dict[str, None] = {}
    for record in records:
        for step in record["context"]:
            names.update(dict.fromkeys(step.get("images", ())))
        if record["task"] == "textual_cloze":
            continue
        for choice in record["choice_list"]:
            names.update(dict.fromkeys([choice] if isinstance(choice, str) else choice))
        names.update(dict.fromkeys(q for q in record["question"] if q.endswith(".jpg")))
    return list(names)


def write_images(folder: str | Path, names: list[str], size: int = 24) -> Path:
    """Write one small JPEG for each name, its colours drawn from the name; the folder is made."""
    from PIL import Image

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        rng = random.Random(name)
        image = Image.new("RGB", (size, size), tuple(rng.randrange(256) for _ in range(3)))
        image.paste(tuple(rng.randrange(256) for _ in range(3)), (0, 0, size // 2, size))
        image.save(folder / name, quality=90)
    return folder
