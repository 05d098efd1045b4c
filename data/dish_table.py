"""Meta-information on dishes: the seventeen fields of Li et al. 2024 (FoodieQA, section 3.3) as a typed table."""

import csv
import difflib
import io
import json
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from data.errors import InputError
from data.files import atomic_file

MAX_BYTES = 16 * 2**20
MAX_ROWS = 20_000
MAX_LENGTH = 300  # characters of one text; a list may hold MAX_ITEMS of them
MAX_ITEMS = 12
MAX_URL_LENGTH = 1000

Temperature = Literal["cold", "warm"]
_TEMPERATURES: dict[str, Temperature] = {
    **dict.fromkeys(("冷", "冷食", "冷菜", "凉", "凉食", "凉菜", "cold"), "cold"),
    **dict.fromkeys(("热", "热食", "热菜", "温", "温热", "warm", "hot"), "warm"),
}
TEMPERATURE_NAMES: dict[Temperature, "Bilingual"]


class Bilingual(NamedTuple):
    """A text in Chinese with its English counterpart, which may be empty."""

    zh: str
    en: str = ""


TEMPERATURE_NAMES = {"cold": Bilingual("冷", "cold"), "warm": Bilingual("热", "warm")}


@dataclass(frozen=True, slots=True)
class DishFacts:
    """What is known of one dish: the paper's seventeen fields, and the row of the table they stand in.

    Fields with several true values are tuples. Where the origin of a dish is contested, `region`, `province` and
    `cuisine_type` name every claim, the commonest first, so that no question takes a side.
    """

    food_category: Bilingual
    dish_name: Bilingual
    alternative_names: tuple[Bilingual, ...]
    main_ingredient: tuple[Bilingual, ...]
    main_ingredient_traits: Bilingual
    key_ingredients: tuple[Bilingual, ...]  # three, beside the main ingredient
    flavor: tuple[Bilingual, ...]  # taste first, then texture
    presentation_style: Bilingual
    color: tuple[Bilingual, ...]  # the prevailing one first
    serving_temperature: Temperature
    dishware: Bilingual
    region: tuple[Bilingual, ...]
    province: tuple[Bilingual, ...]
    cuisine_type: tuple[Bilingual, ...]
    cooking_techniques: tuple[Bilingual, ...]  # three, in the order of cooking
    eating_habits: tuple[Bilingual, ...]
    reference_links: tuple[str, ...]
    row: int = field(default=0, compare=False)  # as a spreadsheet counts (the header is row 1); in JSON from 1

    @property
    def dish_id(self) -> str:
        """The normalised name: the key of a dish, whatever its place in the table."""
        return normal(self.dish_name.zh)

    @property
    def names(self) -> tuple[Bilingual, ...]:
        """The name and the alternative names."""
        return (self.dish_name, *self.alternative_names)

    def values(self, name: str) -> tuple[Bilingual, ...]:
        """The values of any field but `reference_links`, as a tuple whether it holds one text or several."""
        value = getattr(self, name)
        if name == "serving_temperature":
            return (TEMPERATURE_NAMES[value],)
        return (value,) if isinstance(value, Bilingual) else value


SINGLE = ("food_category", "dish_name", "main_ingredient_traits", "presentation_style", "dishware")
SEVERAL = (
    "alternative_names", "main_ingredient", "key_ingredients", "flavor", "color", "region", "province", "cuisine_type",
    "cooking_techniques", "eating_habits",
)  # fmt: skip
FIELDS = tuple(name for name in DishFacts.__dataclass_fields__ if name != "row")  # the paper's seventeen, in order
OPTIONAL = ("alternative_names", "eating_habits")  # a dish may have none
THREE = ("key_ingredients", "cooking_techniques")
COLUMNS = tuple(
    column
    for name in FIELDS
    for column in ((name, f"{name}_en") if name in SINGLE or name in SEVERAL else (name,))
)  # fmt: skip


@lru_cache(maxsize=1 << 16)
def normal(text: str) -> str:
    """The form in which two texts are compared: NFKC, no outer white space, inner runs as one blank, case folded."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def read_dishes(path: str | Path) -> list[DishFacts]:
    """Reads a table of dishes in file order.

    CSV (UTF-8, a byte order mark is tolerated) has the columns `COLUMNS`; the English ones, ending in `_en`, may be
    left out. Lists are separated by `；` or `;`. JSON is one array of objects with the same keys; lists may be arrays.

    Raises:
        InputError: on the first thing that is wrong, naming file, row, field and remedy.
    """
    path = Path(path)
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise InputError(f"{path}: {size:,} bytes, more than the {MAX_BYTES:,} read at most: split the table")
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}): give a CSV or JSON file of dishes") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8: save the table as UTF-8 (CSV UTF-8)") from error
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".json"):
        raise InputError(f"{path}: unknown kind of table '{suffix}': give a .csv or .json file")
    rows = _csv_rows(path, text) if suffix == ".csv" else _json_rows(path, text)
    if not rows:
        raise InputError(f"{path}: holds no dish: add one row for each dish")
    if len(rows) > MAX_ROWS:
        raise InputError(f"{path}: {len(rows):,} rows, more than the {MAX_ROWS:,} read at most: split the table")
    dishes = [_dish(path, row, cells) for row, cells in rows]
    _check_unique(path, dishes)
    return dishes


def write_dishes(dishes: Iterable[DishFacts], path: str | Path) -> None:
    """Writes a table as CSV (UTF-8), the form that `read_dishes` reads back unchanged."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for dish in dishes:
        cells = {"serving_temperature": TEMPERATURE_NAMES[dish.serving_temperature].zh}
        cells["reference_links"] = "；".join(dish.reference_links)
        for name in SINGLE + SEVERAL:
            values = dish.values(name)
            cells[name] = "；".join(value.zh for value in values)
            cells[f"{name}_en"] = "; ".join(value.en for value in values) if any(v.en for v in values) else ""
        writer.writerow(cells)
    with atomic_file(path) as partial:
        partial.write_text(buffer.getvalue(), encoding="utf-8")


# ------------------------------------------------------------------------------------------------------------- rows


def _csv_rows(path: Path, text: str) -> list[tuple[int, Mapping[str, Any]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[tuple[int, Mapping[str, Any]]] = []
    header: list[str] | None = None
    try:
        for number, cells in enumerate(reader, start=1):
            if not any(cell.strip() for cell in cells):
                continue
            if header is None:
                header = [cell.strip() for cell in cells]
                _check_columns(f"{path}, row {number}", header)
            elif len(cells) != len(header):
                raise InputError(
                    f"{path}, row {number}: {len(cells)} cells under {len(header)} columns: "
                    "put quotes around cells that hold a comma"
                )
            else:
                rows.append((number, dict(zip(header, cells, strict=True))))
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}: not CSV ({error}): check its quotes") from error
    return rows


def _json_rows(path: Path, text: str) -> list[tuple[int, Mapping[str, Any]]]:
    try:
        records = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({error}): give one array of objects, one for each dish") from error
    if not isinstance(records, list):
        raise InputError(f"{path}: holds a {type(records).__name__}: give one array of objects, one for each dish")
    for number, record in enumerate(records, start=1):
        if not isinstance(record, dict):
            raise InputError(f"{path}, row {number}: a {type(record).__name__}: give an object with the dish's fields")
        _check_columns(f"{path}, row {number}", list(record))
    return list(enumerate(records, start=1))


def _check_columns(where: str, columns: list[str]) -> None:
    for column in columns:
        if column not in COLUMNS:
            near = difflib.get_close_matches(column, COLUMNS, n=1)
            raise InputError(
                f"{where}: unknown field '{column[:60]}': " + (f"did you mean {near[0]}?" if near else "leave it out")
            )
        if columns.count(column) > 1:
            raise InputError(f"{where}: field {column} stands there twice: leave one out")
    for name in FIELDS:
        if name not in columns and name not in OPTIONAL:
            raise InputError(f"{where}: field {name} is missing: add it (the fields are {', '.join(FIELDS)})")


# ----------------------------------------------------------------------------------------------------------- fields


def _dish(path: Path, row: int, cells: Mapping[str, Any]) -> DishFacts:
    where = f"{path}, row {row}"
    fields: dict[str, Any] = {}
    for name in SINGLE + SEVERAL:
        chinese = _texts(f"{where}, field {name}", cells.get(name, ""), whole=name in SINGLE)
        english = _texts(f"{where}, field {name}_en", cells.get(f"{name}_en", ""), whole=name in SINGLE)
        if not chinese and name not in OPTIONAL:
            raise InputError(f"{where}, field {name}: missing: fill it in")
        if english and len(english) != len(chinese):
            raise InputError(
                f"{where}, field {name}_en: {len(english)} texts for {len(chinese)} in {name}: "
                "give one for each, or leave it empty"
            )
        if name in THREE and len(chinese) != 3:
            raise InputError(f"{where}, field {name}: {len(chinese)} values: give three, separated by ；")
        if len({normal(text) for text in chinese}) < len(chinese):
            raise InputError(f"{where}, field {name}: a value stands there twice: leave one out")
        pairs = tuple(map(Bilingual, chinese, english or [""] * len(chinese)))
        fields[name] = pairs[0] if name in SINGLE else pairs
    fields["serving_temperature"] = _temperature(where, cells["serving_temperature"])
    links = _texts(f"{where}, field reference_links", cells["reference_links"], limit=MAX_URL_LENGTH)
    if not links:
        raise InputError(f"{where}, field reference_links: missing: give at least one address")
    for link in links:
        _check_link(f"{where}, field reference_links", link)
    return DishFacts(**fields, reference_links=tuple(links), row=row)


def _texts(where: str, value: Any, whole: bool = False, limit: int = MAX_LENGTH) -> list[str]:
    """The texts of one cell; `whole` where the field holds one text, in which a semicolon is only a semicolon."""
    if value is None:
        return []
    parts = value if isinstance(value, list) else [value]
    if not all(isinstance(part, str) for part in parts):
        raise InputError(f"{where}: not a text: put it in quotes")
    if not isinstance(value, list) and not whole:
        parts = value.replace("；", ";").split(";")
    texts = [" ".join(part.split()) for part in parts if part.strip()]
    if whole and len(texts) > 1:
        raise InputError(f"{where}: {len(texts)} values: give one")
    if len(texts) > MAX_ITEMS:
        raise InputError(f"{where}: {len(texts)} values: give at most {MAX_ITEMS}")
    for text in texts:
        if len(text) > limit:
            raise InputError(f"{where}: {len(text):,} characters: shorten it to at most {limit}")
        if any(unicodedata.category(character) in ("Cc", "Cs", "Co", "Cn") for character in text) or "\ufffd" in text:
            raise InputError(f"{where}: holds a control or replacement character: type the text anew, save as UTF-8")
    return texts


def _temperature(where: str, value: Any) -> Temperature:
    try:
        return _TEMPERATURES[normal(value)]
    except (KeyError, TypeError, AttributeError):
        raise InputError(
            f"{where}, field serving_temperature: unknown temperature {str(value)[:40]!r}: "
            "write 冷 or 热 (cold or warm)"
        ) from None


def _check_link(where: str, link: str) -> None:
    try:
        parts = urlsplit(link)
        host, _ = parts.hostname or "", parts.port
        well_formed = parts.scheme in ("http", "https") and "." in host.strip(".") and "@" not in parts.netloc
    except ValueError:
        well_formed = False
    if not well_formed or any(character.isspace() or character in '<>"\\`' for character in link):
        raise InputError(f"{where}: {link[:60]!r} is no web address: write it whole, https://…")


def _check_unique(path: Path, dishes: list[DishFacts]) -> None:
    """No dish twice, not even under one of its other names; no English name for two dishes."""
    owners: dict[tuple[str, str], DishFacts] = {}
    for dish in dishes:
        keys = [("dish_name" if name is dish.dish_name else "alternative_names", name.zh) for name in dish.names]
        for column, name in [*keys, ("dish_name_en", dish.dish_name.en)]:
            key = ("en" if column.endswith("_en") else "zh", normal(name))
            other = owners.setdefault(key, dish)
            if name and other is not dish:
                raise InputError(
                    f"{path}, row {dish.row}, field {column}: {name} is a dish of row {other.row} already "
                    f"({other.dish_name.zh}): keep one row for each dish"
                )
