"""Demo questions on Chinese dishes in FoodieQA's tidy schema, so that everything runs without the gated data.

Two sets, built once each and kept in the cache: over the dish table (98 dishes, pictures rendered by a program), or
over a folder of real photos whose labels were read off their names. Neither is FoodieQA, both say so in README.md.
"""

import hashlib
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from PIL import Image
from tqdm import tqdm

from data.build.dish_questions import GeneratedSet, Settings, Templates, generate, read_templates
from data.build.dish_terms import FOLDER as TEMPLATES
from data.dish_table import Bilingual, DishFacts, normal, read_dishes
from data.errors import InputError
from data.files import atomic_file
from data.records import FOOD_TASKS
from data.store import build_once, digest_of, file_digest, read_manifest, write_manifest

TABLE = Path(__file__).with_name("dishes.csv")
SIZE = 320  # pixels, edge of a rendered picture
JPEG_QUALITY = 90
SECOND_PICTURE_OF = 3  # one dish in so many has a second picture
BATCH = "demo_rendered"  # stands where the release has the folder of a survey batch
PHOTO_BATCH = "demo_photos"

MAX_TABLE_BYTES = 4 << 20
MAX_PHOTOS = 5_000
MAX_PHOTO_BYTES = 32 << 20
_SOURCES = ("demo_dishes.py", "dish_questions.py", "dish_terms.py", "../dish_table.py")
_NOT_FOODIEQA = (
    "**This is not FoodieQA.** FoodieQA (Li et al. 2024, arXiv 2406.11030) is gated and nothing of it is in here; "
    "only its file layout is followed. A score on these questions says nothing about a score on FoodieQA."
)


def build_demo(cache: Path | str, photos: Path | str | None = None) -> Path:
    """The folder of a demo set, after building it where it is not there yet.

    It holds `mivqa_tidy.json`, `sivqa_tidy.json`, `textqa_tidy.json`, `images/<batch>/*.jpg`, `README.md`,
    `ATTRIBUTION`, `REPORT.md` and `manifest.json`. Its name hangs on the content of all that goes into it: the tables,
    the templates, the code; a stale set is never read. Two processes may ask for it at once. A damaged file is noticed
    by its checksum and the set is built anew.

    Args:
        cache: the folder of everything computed.
        photos: a folder with `dishes.json` and the photos that it names; None for rendered pictures.

    Raises:
        InputError: the dish table, the templates or the folder of photos is wrong, or the cache cannot be written.
    """
    made = _RenderedSet() if photos is None else _PhotoSet(Path(photos))
    target = Path(cache) / "demo" / f"{made.name}-{digest_of(made.ingredients())[:16]}"
    return build_once(target, _verified, made.write)


def _verified(folder: Path) -> Path:
    sums = read_manifest(folder).get("sha256")
    if not isinstance(sums, dict) or not sums:
        raise InputError(f"{folder / 'manifest.json'}: lists no files; delete the folder {folder} and prepare it again")
    for name, digest in sums.items():
        path = folder / name
        if not path.is_file() or file_digest(path) != digest:
            raise InputError(f"{path}: is absent or damaged; delete the folder {folder} and prepare it again")
    return folder


def _finish(folder: Path, made: GeneratedSet, readme: str, attribution: str) -> None:
    """Writes the questions and the texts beside them, and the manifest of all files."""
    empty = [task for task in FOOD_TASKS if not made.records(task)]
    if empty:
        raise InputError(f"demo set: no {empty[0]} question can be made of these dishes; give more of them, or labels")
    made.write(folder)
    for name, text in (("README.md", readme), ("ATTRIBUTION", attribution)):
        with atomic_file(folder / name) as partial:
            partial.write_text(text, encoding="utf-8")
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    sums = {path.relative_to(folder).as_posix(): file_digest(path) for path in files}
    write_manifest(folder, {"kind": "demo questions on dishes", "sha256": sums})


def _sources() -> dict[str, str]:
    """Digests of the code and of the templates."""
    return _code() | {path.name: file_digest(path) for path in sorted(TEMPLATES.glob("*.yaml"))}


@cache
def _code() -> dict[str, str]:  # once: what runs is what was loaded
    here = Path(__file__).parent
    return {name: file_digest(here / name) for name in _SOURCES}


def _counts(made: GeneratedSet) -> str:
    return ", ".join(f"{len(made.records(task))} {task}" for task in FOOD_TASKS)


# ------------------------------------------------------------------------------------------------- rendered pictures


def photo_names(dish: DishFacts) -> list[str]:
    """Image names of a dish in the set, below `images/`: hashes, so that a name says nothing about its dish."""
    draw = int.from_bytes(hashlib.sha256(f"second picture of {dish.dish_id}".encode()).digest()[:8])
    variants = 2 if draw % SECOND_PICTURE_OF == 0 else 1
    return [
        f"{BATCH}/{hashlib.sha256(f'{dish.dish_id} {variant}'.encode()).hexdigest()[:20]}.jpg"
        for variant in range(variants)
    ]


class _RenderedSet:
    """The set over the dish table."""

    name = "dishes"

    def ingredients(self) -> dict[str, Any]:
        from data.chinese_dishes import drawing_version

        settings = {"size": SIZE, "quality": JPEG_QUALITY, "second": SECOND_PICTURE_OF}
        return settings | {"table": file_digest(TABLE), "drawings": drawing_version(), "sources": _sources()}

    def write(self, folder: Path) -> None:
        from data.chinese_dishes import draw_food, drawing_version

        dishes = read_dishes(TABLE)
        made = generate(dishes, read_templates(), Settings(), photo_names)
        (folder / "images" / BATCH).mkdir(parents=True)
        jobs = [(dish, variant, name) for dish in dishes for variant, name in enumerate(photo_names(dish))]
        for dish, variant, name in tqdm(jobs, desc="drawing dishes", unit="picture"):
            draw_food(dish, SIZE, variant).save(folder / "images" / name, "JPEG", quality=JPEG_QUALITY)
        readme = (
            f"# Demo questions on {len(dishes)} Chinese dishes\n\n{_NOT_FOODIEQA}\n\n"
            f"Questions: {_counts(made)}, made by rule from facts on the dishes (REPORT.md says which types, how they "
            "are biased, and what was not asked).\n\n"
            f"Pictures: {len(jobs)}, **rendered**, no photographs: drawn by a program from the same facts "
            f"(data/chinese_dishes.py, version {drawing_version()}). They show dishware, arrangement, colour and main "
            "ingredients; where a dish comes from can be told only by knowing it. A third of the dishes has a second "
            "picture; its single-image questions are further items of the same dish.\n\n"
            "The files follow FoodieQA's layout: `mivqa_tidy.json`, `sivqa_tidy.json`, `textqa_tidy.json`, `images/`.\n"
        )
        attribution = (
            "Facts on the dishes: written down for this project in its own words (data/build/dishes.md).\n"
            "Pictures: drawn by this project's code, after these facts.\n"
            "Question templates: those of the FoodieQA paper (Li et al. 2024, EMNLP, appendix A) and this project's "
            "own, each marked in conf/templates/dishes.yaml.\n"
            "Licence of facts and pictures: the project's.\n"
        )
        _finish(folder, made, readme, attribution)


# ------------------------------------------------------------------------------------------------------ real photos

# Label -> the word of a question's option with its English. None: the label is too vague for an option.
_INGREDIENTS: dict[str, Bilingual | None] = {
    "鸡": Bilingual("鸡肉", "chicken"), "鸭": Bilingual("鸭肉", "duck"), "鹅": Bilingual("鹅肉", "goose"),
    "鱼": Bilingual("鱼", "fish"), "虾": Bilingual("虾", "shrimp"), "蟹": Bilingual("螃蟹", "crab"),
    "牛肉": Bilingual("牛肉", "beef"), "牛腩": Bilingual("牛肉", "beef"), "羊排": Bilingual("羊肉", "lamb"),
    "羊肉": Bilingual("羊肉", "lamb"), "肉": Bilingual("猪肉", "pork"), "猪肉": Bilingual("猪肉", "pork"),
    "猪蹄": Bilingual("猪肉", "pork"), "五花肉": Bilingual("五花肉", "pork belly"),
    "排骨": Bilingual("排骨", "pork ribs"), "豆腐": Bilingual("豆腐", "tofu"), "蛋": Bilingual("鸡蛋", "egg"),
    "鸡蛋": Bilingual("鸡蛋", "egg"), "土豆": Bilingual("土豆", "potato"), "冬瓜": Bilingual("冬瓜", "winter melon"),
    "茄子": Bilingual("茄子", "eggplant"), "白菜": Bilingual("大白菜", "napa cabbage"),
    "面": None,  # noodles, dough or bread
}  # fmt: skip
_SKILLS: dict[str, Bilingual | None] = {
    "炒": Bilingual("炒", "stir-frying"), "烤": Bilingual("烤", "roasting"), "煎": Bilingual("煎", "pan-frying"),
    "炸": Bilingual("炸", "deep-frying"), "炖": Bilingual("炖", "stewing"), "煮": Bilingual("煮", "boiling"),
    "红烧": Bilingual("红烧", "braising in soy sauce"), "烧": Bilingual("烧", "braising"),
    "蒸": Bilingual("蒸", "steaming"), "清蒸": Bilingual("清蒸", "plain steaming"),
    "焖": Bilingual("焖", "slow-cooking under a lid"), "凉拌": Bilingual("凉拌", "dressing cold"),
    "卤": Bilingual("卤", "simmering in spiced stock"),
}  # fmt: skip
_CUISINES: dict[str, Bilingual | None] = {
    "川菜": Bilingual("川菜", "Sichuan cuisine"), "粤菜": Bilingual("粤菜", "Cantonese cuisine"),
    "湘菜": Bilingual("湘菜", "Hunan cuisine"), "鲁菜": Bilingual("鲁菜", "Shandong cuisine"),
    "豫菜": Bilingual("豫菜", "Henan cuisine"), "苏菜": Bilingual("苏菜", "Jiangsu cuisine"),
    "浙菜": Bilingual("浙菜", "Zhejiang cuisine"), "闽菜": Bilingual("闽菜", "Fujian cuisine"),
    "徽菜": Bilingual("徽菜", "Anhui cuisine"), "黔菜": Bilingual("黔菜", "Guizhou cuisine"),
    "西北菜": Bilingual("西北菜", "Northwestern cuisine"), "东北菜": Bilingual("东北菜", "Northeastern cuisine"),
    "新疆菜": Bilingual("新疆菜", "Xinjiang cuisine"), "其他中式风味": None,
}  # fmt: skip
_CATEGORIES: dict[str, Bilingual | None] = {
    "meat": Bilingual("肉菜", "meat dish"), "seafood": Bilingual("水产菜", "seafood dish"),
    "vegetable": Bilingual("素菜", "vegetable dish"), "dessert": Bilingual("甜点", "dessert"),
    "soup": Bilingual("汤羹", "soup"), "staple": Bilingual("主食", "staple food"), "breakfast": None, "drink": None,
    "semi-finished": None,
}  # fmt: skip
# Label of dishes.json, field of the dish table, its words, templates of the field whose answer one label settles.
_LABELS: list[tuple[str, str, dict[str, Bilingual | None], tuple[str, ...]]] = [
    ("main_ingredient", "main_ingredient", _INGREDIENTS,
     ("main-ingredient-1", "main-ingredient-2", "main-ingredient-3", "ingredients-1")),
    ("cooking_skills", "cooking_techniques", _SKILLS,
     ("cooking-skills-1", "cooking-skills-2", "cooking-skills-3", "cooking-skills-m2")),
    ("cuisine", "cuisine_type", _CUISINES, ("cuisine_type-1", "cuisine_type-2", "cuisine_type-3")),
    ("category", "food_category", _CATEGORIES, ("food-type-1",)),
]  # fmt: skip
_UNKNOWN = Bilingual("", "")


@dataclass(frozen=True)
class Photographed:
    """A dish with a photo; a label that is not known, or too vague to ask, is absent from `labels`."""

    food_name: str
    photo: str  # file name in the folder
    labels: Mapping[str, Bilingual]  # name of the label in dishes.json -> the option's words


def read_photos(folder: Path) -> list[Photographed]:
    """Reads `dishes.json` of a folder of photos: one array of objects with `food_name`, `photo`, and the labels
    `main_ingredient`, `cooking_skills`, `cuisine` and `category`, each a text or null (not known, so not asked).

    Raises:
        InputError: naming file, record and remedy: what is missing, malformed, unknown or unsafe, or no picture.
    """
    path = folder / "dishes.json"
    if not path.is_file():
        raise InputError(f"{path}: no such file; data.photos needs a folder with dishes.json and the photos it names")
    if path.stat().st_size > MAX_TABLE_BYTES:
        raise InputError(f"{path}: larger than {MAX_TABLE_BYTES >> 20} MiB; split it")
    try:
        records = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({error}); correct it") from None
    if not isinstance(records, list) or not records:
        raise InputError(f"{path}: must hold one array of dishes and holds {type(records).__name__}; correct it")
    if len(records) > MAX_PHOTOS:
        raise InputError(f"{path}: {len(records):,} dishes, more than the {MAX_PHOTOS:,} read at most; split it")
    dishes = [_photographed(f"{path}, record {number}", folder, record) for number, record in enumerate(records)]
    for what, keys in (("food_name", [normal(d.food_name) for d in dishes]), ("photo", [d.photo for d in dishes])):
        for key, count in Counter(keys).items():
            if count > 1:
                raise InputError(f"{path}: {what} {key!r} stands there {count} times; keep one record for each dish")
    return dishes


def _photographed(where: str, folder: Path, record: Any) -> Photographed:
    if not isinstance(record, dict):
        raise InputError(f"{where}: is {type(record).__name__} and must be an object; correct it")
    for key in ("food_name", "photo"):
        if not isinstance(record.get(key), str) or not record[key].strip():
            raise InputError(f"{where}: '{key}' must be a text; fill it in")
    name = record["photo"]
    path = folder / name
    if Path(name).name != name or name.startswith(".") or "\\" in name or "\0" in name:
        raise InputError(f"{where}: photo {name[:80]!r} must be the name of a file in the folder; correct it")
    if not path.is_file() or not path.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"{where}: photo {name[:80]!r} is not in the folder {folder}; add it, or remove the record")
    _check_photo(f"{where}: photo {name[:80]!r}", path)
    labels = {}
    for label, _, words, _ in _LABELS:
        value = record.get(label)
        if value is None:
            continue
        if not isinstance(value, str) or value not in words:
            raise InputError(
                f"{where}: {label} {str(value)[:40]!r} is unknown; use null or one of {', '.join(sorted(words))}"
            )
        option = words[value]
        if option is not None:
            labels[label] = option
    return Photographed(" ".join(record["food_name"].split()), name, labels)


def _check_photo(where: str, path: Path) -> None:
    """Decodes a photo once, small and bounded, so that no run meets a damaged one."""
    if path.stat().st_size > MAX_PHOTO_BYTES:
        raise InputError(f"{where}: larger than {MAX_PHOTO_BYTES >> 20} MiB; make it smaller")
    try:
        with Image.open(path, formats=("JPEG", "PNG", "WEBP")) as picture:
            if picture.width * picture.height > 50_000_000:
                raise InputError(f"{where}: {picture.width} x {picture.height} pixels are too many; make it smaller")
            picture.draft("RGB", (256, 256))
            picture.load()
    except InputError:
        raise
    except Exception as error:  # a damaged file makes Pillow raise nearly anything
        raise InputError(f"{where}: cannot be decoded ({str(error)[:120]}); replace it, or remove the record") from None


class _PhotoSet:
    """The set over a folder of real photos."""

    name = "photos"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.dishes = read_photos(folder)
        self._names = {
            normal(dish.food_name): f"{PHOTO_BATCH}/{file_digest(folder / dish.photo)[:20]}"
            f"{Path(dish.photo).suffix.lower() or '.jpg'}"
            for dish in self.dishes
        }
        for name, count in Counter(self._names.values()).items():
            if count > 1:
                same = [dish.photo for dish in self.dishes if self._names[normal(dish.food_name)] == name]
                raise InputError(
                    f"{folder / 'dishes.json'}: photos {', '.join(same)} are one picture; keep one of them"
                )

    def ingredients(self) -> dict[str, Any]:
        dishes = [
            [dish.food_name, self._names[normal(dish.food_name)], sorted(dish.labels.items())] for dish in self.dishes
        ]
        return {"dishes": dishes, "sources": _sources()}

    def write(self, folder: Path) -> None:
        place = folder / "images"
        (place / PHOTO_BATCH).mkdir(parents=True)
        for dish in tqdm(self.dishes, desc="copying photos", unit="photo"):
            shutil.copyfile(self.folder / dish.photo, place / self._names[normal(dish.food_name)])
        made = self._questions()
        readme = (
            f"# Demo questions on {len(self.dishes)} photographed dishes\n\n{_NOT_FOODIEQA}\n\n"
            f"Questions: {_counts(made)}, made by rule from labels of the photos: main ingredient, cooking skill, "
            "cuisine and kind of dish, each only where it is known.\n\n"
            "**The labels are heuristic and unchecked** (read off the dish names by fixed lists): some are wrong, some "
            "wrong options are right. Good for trying things out on real photos, **never for a reported number**.\n\n"
            "The photos are copies for local use; ATTRIBUTION says where they are from.\n"
        )
        attribution = (
            f"Photos: copied from the folder {self.folder.name}, which its user supplied; its own notice says who made "
            "them and under which licence (Anduin2017/HowToCook, dishes/**: The Unlicense, public domain, where it is "
            "the folder howtocook_dishes).\n"
            "Question templates: those of the FoodieQA paper (Li et al. 2024, EMNLP, appendix A) and this project's "
            "own, each marked in conf/templates/dishes.yaml.\n"
        )
        _finish(folder, made, readme, attribution)

    def _questions(self) -> GeneratedSet:
        """Questions on each label, asked of and offered among the dishes whose label is known: elsewhere a wrong
        option might be right.
        """
        templates = read_templates()
        sets = []
        for label, name, _, chosen in _LABELS:
            known = [
                self._facts(number, dish, label, name)
                for number, dish in enumerate(self.dishes)
                if label in dish.labels
            ]
            if known:
                sets.append(generate(known, _only(templates, chosen), Settings(), self._photo_of))
        if not sets:
            raise InputError(f"{self.folder / 'dishes.json'}: no dish has a label that can be asked; fill some in")
        tasks = {task: _merged(made.records(task) for made in sets) for task in FOOD_TASKS}
        for record in tasks["textqa"]:  # dish names have no English here
            record.pop("question_en", None)
            record.pop("choices_en", None)
        not_asked = tuple(item for made in sets for item in made.not_asked)
        return replace(sets[0], **{task: tuple(records) for task, records in tasks.items()}, not_asked=not_asked,
                       dishes=len(self.dishes))  # fmt: skip

    def _photo_of(self, dish: DishFacts) -> list[str]:
        return [self._names[dish.dish_id]]

    @staticmethod
    def _facts(number: int, dish: Photographed, label: str, name: str) -> DishFacts:
        """The one known fact in the form of the dish table; all other fields are empty and never asked."""
        single, several = dish.labels[label], (dish.labels[label],)
        cuisine = dish.labels.get("cuisine", Bilingual("其他", "other"))
        empty = DishFacts(
            food_category=_UNKNOWN,
            dish_name=Bilingual(dish.food_name, f"photo {number}"),
            alternative_names=(),
            main_ingredient=(),
            main_ingredient_traits=_UNKNOWN,
            key_ingredients=(),
            flavor=(),
            presentation_style=_UNKNOWN,
            color=(),
            serving_temperature="warm",
            dishware=_UNKNOWN,
            region=(),
            province=(),
            cuisine_type=(cuisine,),
            cooking_techniques=(),
            eating_habits=(),
            reference_links=(),
            row=number,
        )
        return replace(empty, **{name: single if name == "food_category" else several})


def _only(templates: Templates, chosen: Sequence[str]) -> Templates:
    """The templates of some ids; values that need a kind of ingredient are not used, a label being one word."""
    return replace(
        templates,
        questions=tuple(template for template in templates.questions if template.template_id in chosen),
        multi_image=tuple(template for template in templates.multi_image if template.template_id in chosen),
    )


def _merged(lists: Iterable[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Records of several runs of the generator, sorted by their number; of two equal numbers one moves on."""
    taken: set[int] = set()
    numbered = []
    for record in (record for records in lists for record in records):
        prefix, number = record["question_id"].rsplit("-", 1)
        place = int(number)
        while place in taken:
            place += 1
        taken.add(place)
        numbered.append((place, record | {"question_id": f"{prefix}-{place}"}))
    return [record for _, record in sorted(numbered, key=lambda pair: pair[0])]
