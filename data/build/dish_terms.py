"""What the words of the dish table mean to each other: synonyms, wider and narrower, not to be told apart.

A wrong option must be wrong. The paper draws wrong options at random (Li et al. 2024, section 3.5 and appendix A) and
has people drop the bad questions; here a table of relations (`conf/templates/places.yaml`, `terms.yaml`) answers
"could this be true of the dish as well?" before a question is made.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Any

import yaml

from data.dish_table import FIELDS, DishFacts, normal
from data.errors import InputError

FOLDER = Path(__file__).resolve().parents[2] / "conf" / "templates"
MAX_BYTES = 1 << 20
_KEYS = {
    "same", "contains", "overlap", "near", "never_asked", "endings", "atoms", "atoms_of", "groups", "suspected",
    "hints", "all_placed", "shares",
}  # fmt: skip


@dataclass(frozen=True)
class Vocabulary:
    """The relations between the values of one field, or of fields that share their values.

    All comparisons are made on the normalised text (`normal`), each name standing for its synonyms.
    """

    name: str
    same: tuple[tuple[str, ...], ...] = ()
    contains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    overlap: tuple[tuple[str, ...], ...] = ()
    near: tuple[tuple[str, ...], ...] = ()
    never_asked: tuple[str, ...] = ()
    endings: tuple[str, ...] = ()
    atoms: str = ""
    atoms_of: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    suspected: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # value -> kinds of ingredient
    all_placed: bool = False  # every value ought to stand under `contains`, so one that does not may be of any kind
    hints: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)

    def key(self, text: str) -> str:
        """The one form that stands for a value and all its synonyms."""
        plain = normal(text)
        return self._representative.get(plain, plain)

    def is_same(self, one: str, other: str) -> bool:
        """Whether two values are one, spelled alike or not."""
        return self.key(one) == self.key(other)

    def is_within(self, value: str, kind: str) -> bool:
        """Whether `value` is `kind` or lies inside it, at any depth."""
        return self.key(kind) in self._upward(self.key(value))

    def is_kind(self, value: str) -> bool:
        """Whether other values lie inside this one."""
        return self.key(value) in self._kinds

    def is_known(self, value: str) -> bool:
        """Whether the table places the value under or over another one."""
        return len(self._upward(self.key(value))) > 1 or self.is_kind(value)

    def conflicts(self, one: str, other: str) -> bool:
        """Whether one value may hold where the other does: equal, wider, narrower, overlapping, or inside its text."""
        if (one, other) not in self._conflicts:
            self._conflicts[one, other] = self._conflict(one, other)
        return self._conflicts[one, other]

    def _conflict(self, one: str, other: str) -> bool:
        a, b = self.key(one), self.key(other)
        return (
            a == b
            or a in self._upward(b)
            or b in self._upward(a)
            or frozenset((a, b)) in self._overlapping
            or not self._atoms(a).isdisjoint(self._atoms(b))
            or normal(one) in normal(other)
            or normal(other) in normal(one)
        )

    def is_near(self, one: str, other: str) -> bool:
        """Whether two values are neighbours: listed as such, or parts of one wider value that is not the widest."""
        a, b = self.key(one), self.key(other)
        together = (self._upward(a) & self._upward(b)) - {a, b}
        return frozenset((a, b)) in self._neighbouring or any(kind in self._parents for kind in together)

    def asked_share(self, value: str) -> float:
        """The part of the dishes with this value that is asked for it."""
        return self._shares.get(self.key(value), 1.0)

    def may_be_asked(self, value: str, group: str | None = None) -> bool:
        """Whether a value makes an option: not on the list of silent ones, and in the group if one is asked for."""
        key = self.key(value)
        return key not in self._silent and (group is None or self.group(value) == group)

    def group(self, value: str) -> str | None:
        """The group of a value; the first group holds what is listed in none."""
        return self._groups.get(self.key(value), next(iter(self.groups), None))

    def tells(self, value: str) -> list[str]:
        """The words that give a value away where a dish's name holds one of them."""
        if value not in self._tells:
            self._tells[value] = self._words_of(value)
        return self._tells[value]

    def _words_of(self, value: str) -> list[str]:
        key = self.key(value)
        words = {normal(value), *(plain for plain, other in self._representative.items() if other == key)}
        for ending in self.endings:
            words |= {word.removesuffix(ending) for word in words}
        for hinted, hints in self.hints.items():
            if self.key(hinted) == key:
                words |= set(map(normal, hints))
        return sorted(words - {""})

    @cached_property
    def _representative(self) -> dict[str, str]:
        return {normal(name): normal(names[0]) for names in self.same for name in names}

    @cached_property
    def _parents(self) -> dict[str, set[str]]:
        parents: dict[str, set[str]] = {}
        for kind, members in self.contains.items():
            for member in members:
                parents.setdefault(self.key(member), set()).add(self.key(kind))
        return parents

    @cached_property
    def _kinds(self) -> frozenset[str]:
        return frozenset(map(self.key, self.contains))

    @cached_property
    def _conflicts(self) -> dict[tuple[str, str], bool]:
        return {}

    @cached_property
    def _tells(self) -> dict[str, list[str]]:
        return {}

    @cached_property
    def _closure(self) -> dict[str, frozenset[str]]:
        return {}

    def _upward(self, key: str) -> frozenset[str]:
        """A value and all that it lies in."""
        if key not in self._closure:
            found, open_ends = {key}, [key]
            while open_ends:
                for parent in self._parents.get(open_ends.pop(), ()):
                    if parent not in found:
                        found.add(parent)
                        open_ends.append(parent)
            self._closure[key] = frozenset(found)
        return self._closure[key]

    @cached_property
    def _overlapping(self) -> frozenset[frozenset[str]]:
        return self._pairs(self.overlap)

    @cached_property
    def _neighbouring(self) -> frozenset[frozenset[str]]:
        return self._pairs(self.near)

    @cached_property
    def _groups(self) -> dict[str, str]:
        return {self.key(member): group for group, members in self.groups.items() for member in members}

    @cached_property
    def _shares(self) -> dict[str, float]:
        return {self.key(value): share for value, share in self.shares.items()}

    @cached_property
    def _listed_atoms(self) -> dict[str, frozenset[str]]:
        return {self.key(value): frozenset(atoms) for value, atoms in self.atoms_of.items()}

    @cached_property
    def _silent(self) -> frozenset[str]:
        return frozenset(map(self.key, self.never_asked))

    def _pairs(self, sets: Iterable[tuple[str, ...]]) -> frozenset[frozenset[str]]:
        return frozenset(frozenset(pair) for names in sets for pair in combinations(map(self.key, names), 2))

    def _atoms(self, key: str) -> frozenset[str]:
        return self._listed_atoms.get(key, frozenset(key) & frozenset(self.atoms))


@dataclass(frozen=True)
class Terms:
    """All vocabularies, and which field of the dish table uses which."""

    vocabularies: Mapping[str, Vocabulary]
    fields: Mapping[str, str]  # field -> name of its vocabulary

    def of(self, field_name: str) -> Vocabulary:
        """The vocabulary of a field that `fields` lists."""
        return self.vocabularies[self.fields[field_name]]

    def holds(self, dish: DishFacts, fields: Iterable[str], value: str) -> bool | None:
        """Whether a value is true of a dish in any of the fields: surely, surely not (False), or not to be told (None).

        A kind is true where one of its members is.
        """
        fields = tuple(fields)
        words = self.of(fields[0])
        true = [item.zh for name in fields for item in dish.values(name)]
        if any(words.is_within(item, value) for item in true):
            return True
        doubtful = self._suspected(dish, words)
        if any(words.conflicts(item, value) for item in (*true, *doubtful)):
            return None
        unplaced = words.all_placed and words.is_kind(value) and not all(map(words.is_known, true))
        return None if unplaced else False

    def _suspected(self, dish: DishFacts, words: Vocabulary) -> list[str]:
        """Values that may be true because of what is in the dish, though its row does not name them."""
        if not words.suspected:
            return []
        ingredients = self.of("main_ingredient")
        inside = [item.zh for item in (*dish.main_ingredient, *dish.key_ingredients)]
        return [
            value
            for value, kinds in words.suspected.items()
            if any(ingredients.is_within(item, kind) for kind in kinds for item in inside)
        ]


def read_terms(folder: str | Path = FOLDER) -> Terms:
    """Reads `places.yaml` and `terms.yaml` of a folder.

    Raises:
        InputError: a file that is absent or no YAML, an unknown key, a cycle in `contains`, a name in two sets of
            synonyms, an unknown field or vocabulary.
    """
    folder = Path(folder)
    found: dict[str, Vocabulary] = {}
    fields: Mapping[str, str] = {}
    for name in ("places.yaml", "terms.yaml"):
        path = folder / name
        content = load_yaml(path)
        if name == "terms.yaml":
            fields = content.pop("fields", {})
            if not isinstance(fields, dict) or not all(isinstance(value, str) for value in fields.values()):
                raise InputError(
                    f"{path}: 'fields' must name a vocabulary for each field of the dish table: correct it"
                )
        for vocabulary, entries in content.items():
            if vocabulary in found:
                raise InputError(f"{path}: vocabulary {vocabulary} is in two files: join them")
            found[vocabulary] = _vocabulary(path, vocabulary, entries)
    for field_name, vocabulary in fields.items():
        if field_name not in FIELDS or vocabulary not in found:
            raise InputError(f"{folder / 'terms.yaml'}: fields: {field_name}: {vocabulary} is unknown: correct it")
    return Terms(found, fields)


def load_yaml(path: Path) -> dict[str, Any]:
    """The mapping a YAML file holds.

    Raises:
        InputError: no such file, too large, no YAML, or no mapping.
    """
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path}: larger than {MAX_BYTES >> 20} MiB: give a file of templates or terms")
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}): restore it from the repository") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise InputError(f"{path}: no YAML ({' '.join(str(error).split())[:160]}): correct it") from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: holds no mapping: restore it from the repository")
    return content


def _vocabulary(path: Path, name: str, entries: Any) -> Vocabulary:
    where = f"{path}: {name}"
    if not isinstance(entries, dict) or not _KEYS.issuperset(entries):
        unknown = sorted(map(str, set(entries) - _KEYS)) if isinstance(entries, dict) else ["no mapping"]
        raise InputError(f"{where}: unknown key {unknown[0]}: the keys are {', '.join(sorted(_KEYS))}")
    clean: dict[str, Any] = {}
    for key, value in entries.items():
        if key in ("same", "overlap", "near"):
            clean[key] = tuple(_names(f"{where}: {key}", item) for item in _list(f"{where}: {key}", value))
        elif key in ("never_asked", "endings"):
            clean[key] = _names(f"{where}: {key}", value)
        elif key == "all_placed":
            if not isinstance(value, bool):
                raise InputError(f"{where}: {key}: must be true or false: correct it")
            clean[key] = value
        elif key == "atoms":
            clean[key] = _text(f"{where}: {key}", value)
        else:
            if not isinstance(value, dict):
                raise InputError(f"{where}: {key}: must be a mapping: correct it")
            convert = {"atoms_of": _text, "shares": _share}.get(key, _names)
            clean[key] = {_text(f"{where}: {key}", k): convert(f"{where}: {key}: {k}", v) for k, v in value.items()}
    vocabulary = Vocabulary(name, **clean)
    owners: dict[str, tuple[str, ...]] = {}
    for names in vocabulary.same:
        for item in names:
            if owners.setdefault(normal(item), names) is not names:
                raise InputError(f"{where}: same: {item} stands in two sets: join them")
    for kind in vocabulary.contains:
        for member in vocabulary.contains[kind]:
            if vocabulary.is_within(kind, member):
                raise InputError(f"{where}: contains: {kind} and {member} lie in each other: remove one")
    return vocabulary


def _list(where: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(f"{where}: must be a list: correct it")
    return value


def _names(where: str, value: Any) -> tuple[str, ...]:
    return tuple(_text(where, item) for item in _list(where, value))


def _text(where: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{where}: {value!r} is no text: put it in quotes")
    return value


def _share(where: str, value: Any) -> float:
    if not isinstance(value, int | float) or not 0 < value <= 1:
        raise InputError(f"{where}: {value!r}: give a number above 0, at most 1")
    return float(value)
