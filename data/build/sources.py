"""Where the recipes of a benchmark come from: the embedded cookbook, a folder of JSONL, Recipe1M, released questions.

A source gives whole recipes as they are; `data.build.cleaning` decides which of them stay. Recipes come in the order of
their ids, whatever the order of files and lines. A picture's name is `<recipe_id>_<step>_<k>.jpg`, the step counted
from 1 and k from 0, as in the released files; `image_path` says where it lies.
"""

import gzip
import hashlib
import json
import re
import reprlib
import unicodedata
import warnings
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Protocol

from PIL import Image
from tqdm import tqdm

from data import wikibooks
from data.errors import InputError
from data.files import unpacked
from data.recipeqa import SPLITS, find_images, read_questions
from data.records import PLACEHOLDER, Question, SourceRecipe, SourceStep
from data.store import file_digest

MAX_LINE = 4 << 20  # bytes of one recipe; a long one has some ten thousand
MAX_DOCUMENT = 256 << 20  # bytes of a recipes.json
MAX_STEPS = 1000
MAX_FILES = 100  # pictures, and videos, of one step
MAX_ID = 200  # bytes; a file name has at most 255
MAX_PIXELS = 50_000_000  # as in data.images, which loads torch
FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP")

# `_header_fault` refuses a picture of too many pixels itself.
warnings.filterwarnings("ignore", category=Image.DecompressionBombWarning)
_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 60


class Source(Protocol):
    """What the builder asks of a source."""

    name: str
    first_step_is_narrative: bool  # the first step tells a story: the cleaning drops it

    def recipes(self) -> Iterator[SourceRecipe]:
        """Whole recipes with different ids, in the order of the ids. InputError for wrong input."""
        ...

    def prepare_images(self, names: Collection[str]) -> None:
        """Draw the pictures that are drawn, check those that lie there; InputError names the first bad one."""
        ...

    def image_path(self, name: str) -> Path:
        """The file of a picture that a recipe names. InputError where there is none."""
        ...

    def image_key(self, name: str) -> Hashable:
        """Equal for pictures that look alike, so that they are never offered side by side."""
        ...

    def provenance(self) -> dict[str, Any]:
        """Plain values: where the recipes are from, their licence, and what was counted while they were read."""
        ...


class _Bad(Exception):
    """What is wrong with one record and its remedy; the reader adds file and line."""


# ---- the embedded cookbook -------------------------------------------------------------------------------------------


class Wikibooks:
    """The English Wikibooks Cookbook that is installed with the project, with one rendered picture for each step.

    Args:
        cache: folder of the rendered pictures.
        max_recipes: only so many recipes, chosen by a hash of their id; None takes all.
    """

    name = "wikibooks"
    first_step_is_narrative = False

    def __init__(self, cache: str | Path = "cache", max_recipes: int | None = None) -> None:
        from data import illustrations

        self.max_recipes = _checked_limit(max_recipes)
        self.folder = Path(cache) / "rendered" / illustrations.drawing_version()

    @cached_property
    def _recipes(self) -> list[SourceRecipe]:
        from data import illustrations

        recipes = wikibooks.read_recipes()
        chosen = _chosen([recipe.recipe_id for recipe in recipes], self.max_recipes)
        return illustrations.illustrated(
            sorted((r for r in recipes if r.recipe_id in chosen), key=lambda recipe: recipe.recipe_id)
        )

    @cached_property
    def _owner(self) -> dict[str, SourceRecipe]:
        return {image: recipe for recipe in self._recipes for step in recipe.steps for image in step.images}

    @cached_property
    def _keys(self) -> dict[str, tuple[object, ...]]:
        from data import illustrations

        return illustrations.scene_keys(self._recipes)

    def recipes(self) -> Iterator[SourceRecipe]:
        """The recipes, each step with the name of its rendered picture."""
        return iter(self._recipes)

    def prepare_images(self, names: Collection[str]) -> None:
        """Draw those of the named pictures that are not drawn yet, beside a README that says what they are."""
        from data import illustrations

        for name in names:
            self._known(name)
        illustrations.render_images(self._recipes, self.folder, names, notice=wikibooks.notice())

    def image_path(self, name: str) -> Path:
        """The file of a rendered picture; drawn now, with the others of its recipe, where it is not there yet."""
        from data import illustrations

        recipe = self._known(name)
        path = self.folder / name
        if not path.is_file():
            illustrations.render_images([recipe], self.folder, notice=wikibooks.notice())
        return path

    def image_key(self, name: str) -> Hashable:
        """What is drawn: equal keys are equal scenes."""
        self._known(name)
        return self._keys[name]

    def provenance(self) -> dict[str, Any]:
        """Digest of the text file, digest of the drawing code, licence and notice."""
        return {
            "source": self.name,
            "files": {wikibooks.FILE: wikibooks.SHA256},
            "recipes": len(self._recipes),
            "max_recipes": self.max_recipes,
            "pictures": f"rendered from the texts, no photographs (drawing version {self.folder.name})",
            "licence": wikibooks.LICENCE,
            "notice": wikibooks.notice(),
            "counts": {},
        }

    def _known(self, name: str) -> SourceRecipe:
        if name not in self._owner:
            raise InputError(f"{self.name}: no step has the picture {_short.repr(name)}; prepare the questions again")
        return self._owner[name]


# ---- a folder of recipes ---------------------------------------------------------------------------------------------

_RECIPE_KEYS = ("recipe_id", "title", "category", "steps", "ingredients", "licence", "license", "attribution")
_STEP_KEYS = ("title", "body", "images", "videos")


@dataclass(frozen=True)
class _Line:
    where: str  # file and line
    recipe: SourceRecipe
    images: dict[str, Path]


class Jsonl:
    """Recipes of your own: `recipes.jsonl`, or any number of `*.jsonl` and `*.jsonl.gz` in one folder.

    One recipe a line; docs/own_benchmark.md describes the keys and shows ten recipes. Where a folder has no such file
    but a `recipes.json`, {"recipes": [recipe, ...]} with the same keys is read. Pictures are named relative to the
    folder, or to its folder `images`. A recipe without `recipe_id` gets one from its title and content. Keys that are
    unknown are counted, not read.

    Args:
        root: the folder, or one file; then its pictures are beside it.
        first_step_is_narrative: the first step of each recipe tells a story (crawled sites).
        on_bad_record: "raise" stops at the first bad line, "skip" leaves such recipes out and counts them.
        check_images: open each picture's header while reading; switch it off for texts alone.
    """

    name = "jsonl"

    def __init__(
        self,
        root: str | Path | None,
        first_step_is_narrative: bool = False,
        on_bad_record: str = "raise",
        check_images: bool = True,
    ) -> None:
        if root is None:
            raise InputError("source.root: give the folder of your recipes.jsonl (docs/own_benchmark.md)")
        self.root = Path(root)
        self.first_step_is_narrative = first_step_is_narrative
        self.on_bad_record = _checked_choice("on_bad_record", on_bad_record, ("raise", "skip"))
        self.check_images = check_images
        self.files = _recipe_files(self.root)
        self.folder = self.root if self.root.is_dir() else self.root.parent
        self.skipped: list[str] = []  # what was wrong with the recipes left out
        self.counts: Counter[str] = Counter()
        self.licences: Counter[str] = Counter()
        self._keys: dict[Path, str] = {}

    @cached_property
    def _read(self) -> tuple[list[SourceRecipe], dict[str, Path]]:
        return self._read_all()

    def recipes(self) -> Iterator[SourceRecipe]:
        """The recipes of all files. InputError names file, line and remedy, or the recipe is skipped and counted.

        Of lines with equal content one stays. Lines that give one id to different recipes are bad; when bad ones are
        skipped, the one whose content has the smallest hash stays.
        """
        return iter(self._read[0])

    def prepare_images(self, names: Collection[str]) -> None:
        """Check that each picture is there and has a header that can be read."""
        for name in tqdm(sorted(names), desc="check pictures", unit=" pictures"):
            if fault := _header_fault(path := self.image_path(name)):
                raise InputError(f"{path}: {fault}; replace it")

    def image_path(self, name: str) -> Path:
        """The file that a recipe gave for this name. InputError where it is gone."""
        path = self._read[1].get(name)
        if path is None or not path.is_file():
            raise InputError(f"{self.folder}: has no picture {_short.repr(name)}; put it back or read the folder again")
        return path

    def image_key(self, name: str) -> Hashable:
        """Sha256 of the file: copies of a picture look alike."""
        return _file_key(self._keys, self.image_path(name))

    def provenance(self) -> dict[str, Any]:
        """Digests of the files, settings, licences and their counts, and what was left out."""
        recipes = self._read[0]
        return {
            "source": self.name,
            "files": {path.name: file_digest(path) for path in self.files},
            "recipes": len(recipes),
            "first_step_is_narrative": self.first_step_is_narrative,
            "licences": dict(sorted(self.licences.items())[:100]),
            "counts": dict(sorted(self.counts.items())),
            "skipped": self.skipped[:1000],
        }

    def _read_all(self) -> tuple[list[SourceRecipe], dict[str, Path]]:
        found: defaultdict[str, dict[str, _Line]] = defaultdict(dict)  # id -> content -> first line that has it
        for path in self.files:
            for where, raw in _raw_records(path):
                try:
                    if isinstance(raw, _Bad):
                        raise raw
                    line = _Line(where, *self._recipe(raw))
                    same_id = found[line.recipe.recipe_id]
                    content = _content(raw)
                    if content in same_id:
                        self.counts["recipes repeated word for word"] += 1
                        continue
                    same_id[content] = line
                    if len(same_id) > 1:
                        other = next(iter(same_id.values())).where
                        raise _Bad(f"has the recipe_id of the recipe at {other}; give one of the two another one")
                except _Bad as bad:
                    message = f"{where}: {bad}"
                    if self.on_bad_record == "raise":
                        raise InputError(
                            f"{message}, or set source.on_bad_record=skip to leave such recipes out"
                        ) from None
                    self.counts["bad recipes left out"] += 1
                    self.skipped.append(message)
        # Of different recipes with one id the one with the smallest hash stays, whichever line comes first.
        kept = [lines[min(lines)] for _, lines in sorted(found.items()) if lines]
        if not kept:
            why = f" ({len(self.skipped)} left out; the first: {self.skipped[0]})" if self.skipped else ""
            raise InputError(
                f"{self.root}: holds no usable recipe{why}; each line must be one, see docs/own_benchmark.md"
            )
        return [line.recipe for line in kept], {name: path for line in kept for name, path in line.images.items()}

    def _recipe(self, raw: Any) -> tuple[SourceRecipe, dict[str, Path]]:
        if not isinstance(raw, dict):
            raise _Bad(f"is {_kind(raw)} and must be an object")
        title, category = _text(raw, "title"), _text(raw, "category")
        raw_steps = _list(raw, "steps", MAX_STEPS, required=True)
        if not raw_steps:
            raise _Bad("has no steps; add them or remove the recipe")
        recipe_id = _recipe_id(raw, title)
        files: dict[str, Path] = {}
        steps = []
        for number, raw_step in enumerate(raw_steps, 1):
            where = f"step {number}: "
            if not isinstance(raw_step, dict):
                raise _Bad(f"{where}is {_kind(raw_step)} and must be an object with title, body and images")
            names = []
            for k, image in enumerate(_strings(raw_step, "images", MAX_FILES, where)):
                names.append(f"{recipe_id}_{number}_{k}.jpg")
                files[names[-1]] = self._image(image, where)
            videos = _strings(raw_step, "videos", MAX_FILES, where)
            body, step_title = _text(raw_step, "body", where), _text(raw_step, "title", where)
            steps.append(SourceStep(body, step_title, tuple(names), tuple(videos)))
        licence = _text(raw, "licence") or _text(raw, "license")
        self.licences[licence or "none given"] += 1
        attribution = "; ".join(text for text in (_text(raw, "attribution"), licence) if text)
        ingredients = tuple(_strings(raw, "ingredients", 10 * MAX_STEPS))
        unknown = [key for key in raw if key not in _RECIPE_KEYS]
        unknown += [f"steps.{key}" for step in raw_steps for key in step if key not in _STEP_KEYS]
        self.counts.update(f"recipes with the key {_short.repr(key)}, which is not read" for key in set(unknown))
        return SourceRecipe(recipe_id, title, category, tuple(steps), ingredients, attribution), files

    def _image(self, name: str, where: str) -> Path:
        """The file of a picture named by a recipe, inside the folder."""
        parts = name.split("/")
        if "\\" in name or not name.isprintable() or name.startswith("/") or any(p in ("", ".", "..") for p in parts):
            raise _Bad(
                f"{where}picture {_short.repr(name)} is no path inside the folder, such as images/soup.jpg; correct it"
            )
        path = next((path for path in (self.folder / name, self.folder / "images" / name) if _is_file(path)), None)
        if path is None:
            raise _Bad(f"{where}picture {_short.repr(name)} is not in the folder; add it or remove its name")
        if not path.resolve().is_relative_to(self.folder.resolve()):
            raise _Bad(
                f"{where}picture {_short.repr(name)} is a link that leaves the folder; put the file itself there"
            )
        if self.check_images and (fault := _header_fault(path)):
            raise _Bad(f"{where}picture {_short.repr(name)} {fault}; replace it")
        return path


def _recipe_files(root: Path) -> list[Path]:
    """The files of a root, sorted by name; InputError where there are none."""
    if root.is_file():
        return [root]
    if not root.is_dir():
        raise InputError(f"{root}: no such folder; set source.root to the folder of your recipes.jsonl")
    files = sorted(p for p in root.iterdir() if p.name.endswith((".jsonl", ".jsonl.gz")) and p.is_file())
    whole = root / "recipes.json"
    if not files and whole.is_file():
        files = [whole]
    if not files:
        raise InputError(
            f"{root}: has no recipes.jsonl, no other *.jsonl or *.jsonl.gz and no recipes.json; "
            "write one recipe a line, see docs/own_benchmark.md"
        )
    return files


def _raw_records(path: Path) -> Iterator[tuple[str, Any]]:
    """(place, parsed record or what is wrong with it) of one file."""
    try:
        with open(path, "rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            file = unpacked(raw, path) if packed else raw
            yield from _document(path, file) if path.name == "recipes.json" else _lines(path, file)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path}: truncated or damaged gzip file ({error}); write it again") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from None


def _lines(path: Path, file: IO[bytes]) -> Iterator[tuple[str, Any]]:
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        where = f"{path}: line {number}"
        if len(line) > MAX_LINE:
            while line and not line.endswith(b"\n"):
                line = file.readline(MAX_LINE)
            yield where, _Bad(f"is longer than {MAX_LINE >> 20} MiB; write one recipe a line")
            continue
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if line.strip():
            yield where, _parsed(line)


def _document(path: Path, file: IO[bytes]) -> Iterator[tuple[str, Any]]:
    content = file.read(MAX_DOCUMENT + 1)
    if len(content) > MAX_DOCUMENT:
        raise InputError(f"{path}: is larger than {MAX_DOCUMENT >> 20} MiB; write one recipe a line as recipes.jsonl")
    document = _parsed(content.removeprefix(b"\xef\xbb\xbf"))
    if isinstance(document, _Bad):
        raise InputError(f"{path}: {document}")
    if not isinstance(document, dict) or not isinstance(document.get("recipes"), list):
        raise InputError(f'{path}: must be {{"recipes": [recipe, ...]}}; see docs/own_benchmark.md')
    of_all = {key: document[key] for key in ("attribution", "licence", "license") if document.get(key) is not None}
    for number, record in enumerate(document["recipes"], 1):
        # What is said of all recipes holds for those that say nothing else.
        yield f"{path}: recipe {number}", {**of_all, **record} if isinstance(record, dict) else record


def _parsed(line: bytes) -> Any:
    try:
        record = json.loads(line.decode("utf-8"), parse_constant=_no_number)
        json.dumps(record)  # deep enough to be read and too deep to be written: the encoder's limit is the lower one
        return record
    except UnicodeDecodeError:
        return _Bad("is no UTF-8; save the file as UTF-8")
    except RecursionError:
        return _Bad("is nested too deeply; correct it")
    except ValueError as error:
        return _Bad(f"is no JSON ({' '.join(str(error).split())[:80]}); write the recipe as one JSON object")


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _content(raw: Mapping[str, Any]) -> str:
    """Sha256 of a record, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(raw, sort_keys=True).encode()).hexdigest()


def _recipe_id(raw: Mapping[str, Any], title: str) -> str:
    """The id of a recipe; without one, a slug of its title and twelve digits of a hash of its content."""
    if raw.get("recipe_id") is None:
        slug = (
            re.sub(r"[\W_]+", "-", unicodedata.normalize("NFC", title).lower()).strip("-")[:40].strip("-") or "recipe"
        )
        return f"{slug}-{_content(raw)[:12]}"
    value = _text(raw, "recipe_id")
    plain = value == value.strip() and value.isprintable() and not re.search(r"[/\\]|\.\.", value)
    if not value or not plain or len(value.encode()) > MAX_ID:
        raise _Bad(
            f"recipe_id {_short.repr(value)} must be 1 to {MAX_ID} bytes without slash, two dots or outer space; "
            "correct it or leave it out"
        )
    return value


def _text(raw: Mapping[str, Any], key: str, where: str = "") -> str:
    value = raw.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _Bad(f"{where}{key!r} is {_kind(value)} and must be a string; correct it")
    return _encodable(value, f"{where}{key!r}")


def _encodable(text: str, what: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _Bad(f"{what} holds half a surrogate pair, which is no character; correct the encoding") from None
    return text


def _list(raw: Mapping[str, Any], key: str, most: int, where: str = "", required: bool = False) -> list[Any]:
    value = raw.get(key)
    if value is None and not required:
        return []
    if not isinstance(value, list):
        has = f"{key!r} is {_kind(value)} and must be a list" if key in raw else f"has no key {key!r}"
        raise _Bad(f"{where}{has}; correct it")
    if len(value) > most:
        raise _Bad(f"{where}{key!r} has {len(value):,} entries, more than {most:,}; divide the recipe")
    return value


def _strings(raw: Mapping[str, Any], key: str, most: int, where: str = "") -> list[str]:
    values = _list(raw, key, most, where)
    for value in values:
        if not isinstance(value, str) or not value:
            raise _Bad(f"{where}{key!r} holds {_kind(value)} and must hold strings; correct it")
        _encodable(value, f"{where}{key!r}")
    return values


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return "an empty string" if value == "" else names.get(type(value), "a number")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that is too long
        return False


def _header_fault(path: Path) -> str:
    """What is wrong with a picture by its header, or nothing; no pixel is decoded."""
    try:
        with Image.open(path, formats=FORMATS) as picture:
            width, height = picture.size
    except Image.DecompressionBombError:
        return f"has more than {MAX_PIXELS // 1_000_000} million pixels"
    except Exception:  # a decoder given damaged bytes may fail with anything
        return f"cannot be opened as {', '.join(FORMATS)}"
    return f"has more than {MAX_PIXELS // 1_000_000} million pixels" if width * height > MAX_PIXELS else ""


# ---- Recipe1M --------------------------------------------------------------------------------------------------------


class Recipe1M:
    """The texts of Recipe1M's `layer1.json`: each instruction is the body of a step without a title.

    Its photos belong to whole recipes and to no step, so only textual cloze about bodies can be made. The partitions
    of the release are not taken over: the builder splits by recipe itself.

    Args:
        root: folder of the released layers; see `data.recipe1m.find_files`.
        cache: folder of the table that is read once.
        categories: `none`, or the semantic classes: `file` (classes1M.pkl), `bigrams` of the titles, `auto`.
        max_recipes: only so many recipes, chosen by a hash of their id; None takes all.
        on_bad_record: "raise" or "skip", see `data.recipe1m.build_recipe1m`.
    """

    name = "recipe1m"
    first_step_is_narrative = False

    def __init__(
        self,
        root: str | Path | None,
        cache: str | Path = "cache",
        categories: str = "none",
        max_recipes: int | None = None,
        on_bad_record: str = "raise",
    ) -> None:
        if root is None:
            raise InputError("source.root: give the folder of layer1.json and layer2.json of Recipe1M")
        self.root, self.cache, self.categories = Path(root), Path(cache), categories
        self.max_recipes = _checked_limit(max_recipes)
        self.on_bad_record = _checked_choice("on_bad_record", on_bad_record, ("raise", "skip"))
        _checked_choice("categories", categories, ("auto", "file", "bigrams", "none"))

    @cached_property
    def _table(self) -> Any:
        from data.recipe1m import build_recipe1m

        return build_recipe1m(
            self.root,
            self.cache,
            ingredients="raw",
            classes=self.categories,
            on_bad_record=self.on_bad_record,
        )

    def recipes(self) -> Iterator[SourceRecipe]:
        """The recipes, streamed from the table."""
        table = self._table
        names = table.class_names
        chosen = _chosen(table.ids.tolist(), self.max_recipes)
        for recipe in table.iter([row for row, name in enumerate(table.ids) if name in chosen]):
            yield SourceRecipe(
                recipe.recipe_id,
                recipe.title,
                names[recipe.class_id] if recipe.class_id else "",
                tuple(SourceStep(text) for text in recipe.instructions),
                recipe.ingredients,
                f"Recipe1M {recipe.recipe_id}" + (f", {recipe.attribution}" if recipe.attribution else ""),
            )

    def prepare_images(self, names: Collection[str]) -> None:
        """Nothing for no names; InputError for any."""
        for name in names:
            self.image_path(name)

    def image_path(self, name: str) -> Path:
        """Always an InputError: no step has a picture."""
        raise InputError(
            f"{self.root}: no step has the picture {_short.repr(name)}; Recipe1M's photos show whole dishes. Ask for "
            "tasks=[textual_cloze]"
        )

    def image_key(self, name: str) -> Hashable:
        """The name; no step has a picture."""
        return name

    def provenance(self) -> dict[str, Any]:
        """Digests of the released files, settings, and what was left out."""
        from data.recipe1m import find_files

        files = find_files(self.root, ingredients="raw")
        return {
            "source": self.name,
            "files": {path.name: file_digest(path) for key, path in files.items() if key in ("layer1", "layer2")},
            "recipes": min(len(self._table), self.max_recipes or len(self._table)),
            "categories": self.categories,
            "max_recipes": self.max_recipes,
            "licence": "research use; Recipe1M is handed out on request and may not be passed on",
            "counts": {what: count for what, count in sorted(self._table.extra["skipped"].items()) if count},
        }


# ---- released questions ----------------------------------------------------------------------------------------------

_QID = re.compile(r"[1-4]000-(\d+)-(\d+)-(\d+)-(\d+)-(\d+)")


_CONTRADICTIONS = (
    "contradictions: number of steps",
    "contradictions: bodies",
    "contradictions: titles",
    "contradictions: image lists",
    "contradictions: an image of a visual record is not in the step's list",
    "contradictions: an image of a visual record is named for another step",
    "records whose qid names no four steps of the recipe",
)


@dataclass
class _Joined:
    """What the records of one recipe say of it: value -> number of records, for each step."""

    records: Counter[str] = field(default_factory=Counter)  # by task
    lengths: Counter[int] = field(default_factory=Counter)
    bodies: defaultdict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    titles: defaultdict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))  # visual contexts
    asked: defaultdict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))  # textual questions
    images: defaultdict[int, Counter[tuple[str, ...]]] = field(default_factory=lambda: defaultdict(Counter))
    shown: defaultdict[int, set[str]] = field(default_factory=lambda: defaultdict(set))  # visual questions


class Released:
    """Whole recipes put together again from RecipeQA's question files, all tasks' records of a recipe joined.

    Every record shows all bodies. Titles come from the contexts of the visual records; without one, the titles that a
    textual record shows and its right choice are put at the steps that its qid names. Images come from the contexts of
    the textual records; without one, the images of visual records that belong to the recipe are put likewise. The
    narrative first step is gone from the release. Neither titles nor categories of recipes are in it: the title is
    read off the id. Where contexts contradict each other, most records win, then the smaller value; each is counted.

    Args:
        root: one released file, or a folder of `train`, `val` and `test` (`.json` or `.json.gz`; else all such files).
        images: folder of the unpacked images, or None: then questions can be built and no picture can be shown.
        ingredients: JSON file {recipe id: [ingredient, ...]}, or None.
        on_bad_record: "raise", or "skip": bad records are left out and counted.
    """

    name = "recipeqa"
    first_step_is_narrative = False

    def __init__(
        self,
        root: str | Path | None,
        images: str | Path | None = None,
        ingredients: str | Path | None = None,
        on_bad_record: str = "raise",
    ) -> None:
        if root is None:
            raise InputError("source.root: give a RecipeQA file or the folder of train.json, val.json and test.json")
        self.root = Path(root)
        self.images = Path(images) if images is not None else None
        self.on_bad_record = _checked_choice("on_bad_record", on_bad_record, ("raise", "skip"))
        self.files = _question_files(self.root)
        self._ingredients = Path(ingredients) if ingredients is not None else None
        self.counts: Counter[str] = Counter(dict.fromkeys(_CONTRADICTIONS, 0))
        self._keys: dict[Path, str] = {}

    @cached_property
    def _recipes(self) -> tuple[list[SourceRecipe], dict[str, dict[str, Any]]]:
        joined: defaultdict[str, _Joined] = defaultdict(_Joined)
        for path in self.files:
            questions, report = read_questions(path, on_bad_record=self.on_bad_record)
            self.counts["records read"] += report.read
            self.counts["bad records left out"] += len(report.skipped)
            for question in questions:
                _join(joined[question.recipe_id], question, self.counts)
        lists = _ingredient_lists(self._ingredients) if self._ingredients is not None else {}
        recipes, origins = [], {}
        for recipe_id in sorted(joined):
            recipe, origins[recipe_id] = self._recipe(recipe_id, joined[recipe_id], lists.get(recipe_id, ()))
            recipes.append(recipe)
        return recipes, origins

    @property
    def origins(self) -> dict[str, dict[str, Any]]:
        """Recipe id -> records by task and, for each step, where its title and its images are from.

        `title`: context (of a visual record), question (of a textual record) or none; `images`: context (of a textual
        record), questions (of visual records: a part of the step's images, perhaps) or none.
        """
        return self._recipes[1]

    def recipes(self) -> Iterator[SourceRecipe]:
        """The recipes; the first call reads the files."""
        return iter(self._recipes[0])

    def _recipe(
        self, recipe_id: str, joined: _Joined, ingredients: Sequence[str]
    ) -> tuple[SourceRecipe, dict[str, Any]]:
        counts = self.counts
        counts["recipes"] += 1
        counts["contradictions: number of steps"] += len(joined.lengths) > 1
        length = _winner(joined.lengths)
        steps, origins = [], []
        for index in range(length):
            titles, asked, images = joined.titles[index], joined.asked[index], joined.images[index]
            counts["contradictions: bodies"] += len(joined.bodies[index]) > 1
            counts["contradictions: titles"] += len(titles.keys() | asked.keys()) > 1
            counts["contradictions: image lists"] += len(images) > 1
            body = _winner(joined.bodies[index])
            title = _winner(titles or asked) if titles or asked else ""
            shown = joined.shown[index]
            names = _winner(images) if images else tuple(sorted(shown, key=lambda name: (len(name), name)))
            counts["contradictions: an image of a visual record is not in the step's list"] += bool(
                images and not shown.issubset(names)
            )
            title_from = "context" if titles else "question" if asked else "none"
            images_from = "context" if images else "questions" if shown else "none"
            counts["steps"] += 1
            counts["steps with a body"] += bool(body.strip())
            counts["steps with a title"] += bool(title.strip())
            counts["steps with an image"] += bool(names)
            counts[f"step titles from: {title_from}"] += 1
            counts[f"step images from: {images_from}"] += 1
            steps.append(SourceStep(body, title, names))
            origins.append({"title": title_from, "images": images_from})
        attribution = f"RecipeQA (Yagcioglu et al. 2018), recipe {recipe_id} of instructables.com"
        title = " ".join(recipe_id.replace("-", " ").split())
        recipe = SourceRecipe(recipe_id, title, "", tuple(steps), tuple(ingredients), attribution)
        return recipe, {"records": dict(sorted(joined.records.items())), "steps": origins}

    @cached_property
    def _folders(self) -> Any:
        if self.images is None:
            raise InputError(
                f"{self.root}: holds names of images and no images; set source.images to the folder of images.zip, or "
                "ask for tasks=[textual_cloze]"
            )
        return find_images(self.images)

    def prepare_images(self, names: Collection[str]) -> None:
        """Check that each picture is there and has a header that can be read."""
        for name in tqdm(sorted(names), desc="check pictures", unit=" pictures"):
            if fault := _header_fault(path := self.image_path(name)):
                raise InputError(f"{path}: {fault}; unpack images.zip again")

    def image_path(self, name: str) -> Path:
        """The file of an image. InputError where no folder of images is set or it is not there."""
        return self._folders(name)

    def image_key(self, name: str) -> Hashable:
        """Sha256 of the file; the name where no folder of images is set."""
        return name if self.images is None else _file_key(self._keys, self.image_path(name))

    def provenance(self) -> dict[str, Any]:
        """Digests of the files, how many steps got title, body and images, and contradictions."""
        return {
            "source": self.name,
            "files": {path.name: file_digest(path) for path in self.files},
            "recipes": len(self._recipes[0]),
            "licence": "research use with attribution; the licence of each recipe is in the authors' recipes.json",
            "counts": dict(sorted(self.counts.items())),
        }


def _question_files(root: Path) -> list[Path]:
    if root.is_file():
        return [root]
    if not root.is_dir():
        raise InputError(f"{root}: no such file or folder; set source.root to the released question files")
    named = [root / f"{split}.json{end}" for split in SPLITS for end in ("", ".gz")]
    files = [path for path in named if path.is_file()]
    if not files:
        files = sorted(path for path in root.iterdir() if path.name.endswith((".json", ".json.gz")) and path.is_file())
    if not files:
        raise InputError(f"{root}: has no .json or .json.gz; put train.json, val.json or test.json there")
    return files


def _join(joined: _Joined, question: Question, counts: Counter[str]) -> None:
    """Add what one record says of its recipe."""
    joined.records[question.task] += 1
    joined.lengths[len(question.context)] += 1
    for index, step in enumerate(question.context):
        joined.bodies[index][step.body] += 1
        if step.title is not None:
            joined.titles[index][step.title] += 1
        if step.images is not None:
            joined.images[index][step.images] += 1
    match = _QID.fullmatch(question.qid)
    places = tuple(map(int, match.groups()[1:])) if match else ()
    if not places or places != tuple(sorted(set(places))) or places[-1] >= len(question.context):
        counts["records whose qid names no four steps of the recipe"] += 1
        return
    for index, element in zip(places, _own_elements(question), strict=True):
        if element is None:
            continue
        if question.task == "textual_cloze":
            joined.asked[index][element] += 1
        elif element.rsplit("_", 2)[:2] == [question.recipe_id, str(index + 1)]:
            joined.shown[index].add(element)
        else:
            counts["contradictions: an image of a visual record is named for another step"] += 1


def _own_elements(question: Question) -> list[str | None]:
    """The four titles or images of the question's own recipe, in order; None where the intruder stands."""
    right = question.choices[question.answer]
    if question.task == "visual_ordering":
        return list(right)
    if question.task == "visual_coherence":
        return [None if i == question.answer else name for i, name in enumerate(question.question)]
    return [right[0] if element == PLACEHOLDER else element for element in question.question]


def _winner(values: Counter[Any]) -> Any:
    """The value that most records give; of equally many the smallest."""
    return min(values, key=lambda value: (-values[value], value))


def _ingredient_lists(path: Path) -> dict[str, list[str]]:
    try:
        lists = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())[:80]
        raise InputError(f"source.ingredients={path}: cannot be read ({reason}); give a JSON file or null") from None
    if not isinstance(lists, dict) or not all(
        isinstance(names, list) and all(isinstance(name, str) for name in names) for names in lists.values()
    ):
        raise InputError(f"source.ingredients={path}: must hold {{recipe id: [ingredient, ...]}}")
    return lists


# ---- shared ----------------------------------------------------------------------------------------------------------


def _checked_choice(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise InputError(f"source.{name}={value}: is unknown; use one of {', '.join(known)}")
    return value


def _file_key(known: dict[Path, str], path: Path) -> str:
    """Sha256 of a file, read once."""
    if path not in known:
        known[path] = file_digest(path)
    return known[path]


def _checked_limit(value: int | None) -> int | None:
    if value is not None and value < 1:
        raise InputError(f"source.max_recipes={value}: must be at least 1, or null for all")
    return value


def _chosen(ids: Iterable[str], count: int | None) -> set[str]:
    """So many of the ids, those with the smallest hashes: other recipes change the choice as little as can be."""
    if count is None:
        return set(ids)
    return set(sorted(ids, key=lambda name: hashlib.sha256(name.encode()).digest())[:count])
