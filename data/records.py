"""The records of the two problems, choose 1 of K and rank N, as every reader and builder hands them on."""

from dataclasses import dataclass, replace

TASKS = ("textual_cloze", "visual_cloze", "visual_coherence", "visual_ordering")
PLACEHOLDER = "@placeholder"

# Question sentence of each task in the released files. It is constant, so it carries no information; dispatch on
# `task`, because one sentence differs between releases.
QUESTION_TEXT = {
    "textual_cloze": "Choose the best title for the missing blank to correctly complete the recipe.",
    "visual_cloze": "Choose the best image for the missing blank to correctly complete the recipe.",
    "visual_coherence": "Select the incoherent image in the following sequence of images.",
    "visual_ordering": "What is the correct order of the images?",
}
ORDERING_SENTENCE = "Choose the correct order of images to make a story"
TASK_NUMBERS = {"textual_cloze": 1000, "visual_cloze": 2000, "visual_coherence": 3000, "visual_ordering": 4000}


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a recipe as the question shows it; None where the task hides the field."""

    body: str
    title: str | None = None
    images: tuple[str, ...] | None = None

    @property
    def is_empty(self) -> bool:
        """True where neither title nor body holds anything but white space."""
        return not self.body.strip() and not (self.title or "").strip()


@dataclass(frozen=True, slots=True)
class Question:
    """One multiple-choice question.

    `qid` and the image names leak the answer (spec of the benchmark, section 10): they are keys for files and
    reports, never an input of a model, a sort order or a tie-break.
    """

    qid: str
    recipe_id: str
    task: str
    split: str
    context: tuple[Step, ...]
    question: tuple[str, ...]  # titles or image names, with PLACEHOLDER in the cloze tasks; one sentence in ordering
    choices: tuple[tuple[str, ...], ...]  # K choices of E elements: E = 4 image names in ordering, else 1
    answer: int  # index into choices


@dataclass(frozen=True, slots=True)
class SourceStep:
    """One step of a recipe before any question is made of it; image and video names in file order."""

    body: str
    title: str = ""
    images: tuple[str, ...] = ()
    videos: tuple[str, ...] = ()  # never asked for; a recipe that has nothing else is left out


@dataclass(frozen=True, slots=True)
class SourceRecipe:
    """A whole recipe, the material of the question builder."""

    recipe_id: str
    title: str
    category: str
    steps: tuple[SourceStep, ...]
    ingredients: tuple[str, ...] = ()
    attribution: str = ""


@dataclass(frozen=True, slots=True)
class Recipe:
    """One recipe of the *rank N* problem, with its photos; the query and the answer of image–recipe retrieval.

    `recipe_id` and image names are keys for files and reports, never an input of a model.
    """

    recipe_id: str
    title: str
    ingredients: tuple[str, ...]  # raw lines
    instructions: tuple[str, ...]
    images: tuple[str, ...] = ()  # file names in file order
    partition: str = "train"  # train | val | test
    detected: tuple[str, ...] = ()  # ingredient names found in the lines, one for each line, or empty: not detected
    valid: tuple[bool, ...] = ()  # whether `detected` is a name; where False it is the raw line
    class_id: int = 0  # semantic class, 0 = background
    attribution: str = ""


LETTERS = "ABCD"
FOOD_TASKS = ("mivqa", "sivqa", "textqa")  # multi-image, single-image, text


@dataclass(frozen=True, slots=True)
class FoodQuestion:
    """One FoodieQA-style question with four options, in one language.

    `question_id` repeats in the multi-image file of the release, so the key of a question is (task, row) with
    `record_hash`. `food_name`, `cluster` and the image paths are for files and reports, never part of a prompt.
    """

    task: str  # one of FOOD_TASKS
    row: int  # place in its file, from 0
    record_hash: str  # 32 hexadecimal digits of the raw record's content
    question_id: str
    language: str  # zh | en
    question: str
    choices: tuple[str, ...]  # four texts; empty where the options are the four images
    images: tuple[str, ...]  # absolute paths: four, one, or none
    answer: int  # 0 to 3
    question_type: str  # as the file spells it
    food_name: str = ""
    cuisine: str = ""  # as the file spells it; empty where the file gives none
    category: str = ""  # food category, multi-image only: exclusive with `cuisine`
    cluster: str = ""  # questions of one cluster share their photo, their set of photos, or their dish

    @property
    def image_options(self) -> bool:
        """Whether the four images are the options; else the options are the texts in `choices`."""
        return not self.choices

    def reordered(self, order: tuple[int, ...]) -> "FoodQuestion":
        """The same question with option `order[i]` shown at place i: texts or images move, and the answer with them."""
        choices = tuple(self.choices[i] for i in order) if self.choices else ()
        images = self.images if self.choices else tuple(self.images[i] for i in order)
        return replace(self, choices=choices, images=images, answer=order.index(self.answer))
