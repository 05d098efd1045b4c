"""Builds a benchmark of the four tasks from any recipes: reads, cleans, splits, asks, finds wrong choices, writes.

Yagcioglu et al. 2018 (EMNLP), sections 2 and 3. What the paper leaves open is a field of `SetSettings`. The finished
folder depends on recipes and settings alone: not on the engine, the number of workers, the order of the recipes, or how
often the build was killed on its way.
"""

import hashlib
import itertools
import json
import math
import os
import random
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console

from data.build import assignment, neighbours, questions
from data.build.cleaning import CleaningSettings, clean
from data.build.engines import Arrays, Engine, finished
from data.build.fields import check_fields
from data.build.questions import (
    BALANCED_HUBS,
    SPLITS,
    TEXT_FIELDS,
    Asked,
    Candidate,
    Distractors,
    HubLimit,
    Offer,
    Plan,
    collection_distractors,
    complete_questions,
    draws,
    lenders,
    own_keys,
    plan_questions,
    random_distractors,
    write_questions,
)
from data.build.sources import Source
from data.checksums import write_sums
from data.errors import InputError
from data.files import atomic_file
from data.records import TASKS, SourceRecipe
from data.store import build_once, digest_of, file_digest, read_manifest, write_manifest

if TYPE_CHECKING:
    from data.images import Extractor, ImageVectors
    from data.text import Doc2VecEncoder, Doc2VecSettings

FORMAT = 1  # raised when the files of a set change their meaning
RULES = ("random", "collection", "neighbourhood")
POOLS = ("steps", "asked")
SPARE = 14  # neighbours beyond the band, for those that turn out equal or are given out already
TEXTS, IMAGES = 64, 1024  # queries in a shard: part of the result's key, as a matrix product may round by its shape
FEATURES = 8192  # pictures between two points at which a killed build goes on

Question = dict[str, Any]
# Adds files to the set before it is complete: (folder, kept recipes with splits, questions by split, report).
Describe = Callable[[Path, Sequence[tuple[SourceRecipe, str]], Mapping[str, Sequence[Question]], dict[str, Any]], None]


@dataclass(frozen=True)
class SetSettings:
    """Every choice the paper leaves open; see `RELEASED` and `BALANCED` for two consistent sets of them.

    Args:
        tasks: any of the four.
        text_field: textual cloze asks for the `title` of a step, its `body`, or `both`; `auto`: for titles where most
            recipes have four steps with one, else for bodies.
        distractors: `neighbourhood`: the adaptive neighbourhood; `collection`: uniform over all steps; `random`: the
            right choices of three other questions, each text equally often.
        k_lo, k_hi: wrong choices are drawn uniformly from these ranks of the nearest texts or images of other recipes,
            1 being the nearest; what equals the right choice has no rank.
        pool: what `neighbourhood` and `collection` draw from: all `steps`, or what is `asked` by other questions.
        count_copies: a text that stands in a hundred steps takes a hundred ranks, and not one.
        same_split: wrong choices come from the question's own split; the release draws from the whole collection.
        hub_limit: a text or image is a wrong choice at most so often; `balanced`: three times as often as it is right
            (coherence: once), which needs pool=asked; null: no limit.
        length_matched: the right text is equally often the shortest, second, third and longest, as far as it goes.
        step0_images: images of the dropped first step may be wrong choices; in the release 15 % are, and never right.
        questions_per_recipe: at most so many for a recipe and task.
        fractions: of train, val and test.
        split_salt: another salt gives another split; adding recipes moves none.
        max_text_repeats: a text that stands in more recipes is never asked for; null: all are.
        max_shared_steps: a recipe with a larger part of its longer steps in another split is left out.
        images: link the images of the questions into the folder of the set.
        seed: of all choices but the split.
        cleaning: see `data.build.cleaning`.
    """

    tasks: Sequence[str] = TASKS
    text_field: str = "title"
    distractors: str = "neighbourhood"
    k_lo: int = 5
    k_hi: int = 50
    pool: str = "steps"
    count_copies: bool = False
    same_split: bool = True
    hub_limit: HubLimit = None
    length_matched: bool = False
    step0_images: bool = False
    questions_per_recipe: int = 1
    fractions: Sequence[float] = (0.8, 0.1, 0.1)
    split_salt: str = "food-understanding"
    max_text_repeats: int | None = None
    max_shared_steps: float = 0.5
    images: bool = True
    seed: int = 1234
    cleaning: CleaningSettings = field(default_factory=CleaningSettings)

    def __post_init__(self) -> None:
        check_fields(self, "questions")
        for name in ("tasks", "fractions"):  # a configuration's lists are no tuples
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name, value, known in (
            ("distractors", self.distractors, RULES),
            ("pool", self.pool, POOLS),
            ("text_field", self.text_field, (*TEXT_FIELDS, "auto")),
            *(("tasks", task, TASKS) for task in self.tasks),
        ):
            if value not in known:
                raise InputError(f"questions.{name}={value}: is unknown; choose one of {', '.join(known)}")
        for name, lowest in (("questions_per_recipe", 1), ("max_text_repeats", 1), ("hub_limit", 1)):
            value = getattr(self, name)
            if isinstance(value, int) and value < lowest:
                raise InputError(f"questions.{name}={value}: must be at least {lowest}")
        if isinstance(self.hub_limit, str) and self.hub_limit != BALANCED_HUBS:
            raise InputError(f"questions.hub_limit={self.hub_limit}: must be a number, {BALANCED_HUBS}, or null")
        if not 0 <= self.max_shared_steps <= 1:
            raise InputError(f"questions.max_shared_steps={self.max_shared_steps}: must be from 0 to 1")
        if len(self.fractions) != 3 or min(self.fractions) < 0 or not math.isclose(sum(self.fractions), 1):
            raise InputError(
                f"questions.fractions={list(self.fractions)}: must be three numbers of at least 0 that sum to 1"
            )
        if self.k_lo < 1 or self.k_hi < self.k_lo + 2:
            raise InputError(
                f"questions.k_lo={self.k_lo}, questions.k_hi={self.k_hi}: ranks start at 1, and three wrong "
                "choices need three of them; set k_hi to at least k_lo + 2"
            )
        if self.hub_limit == BALANCED_HUBS and self.distractors != "random" and self.pool != "asked":
            raise InputError(
                "questions.hub_limit=balanced: lends only what is right elsewhere; set questions.pool=asked"
            )
        if not self.tasks:
            raise InputError(f"questions.tasks=[]: is empty; choose from {', '.join(TASKS)}")


# As the release seems to have been made: wrong choices of any split, introductions among them, hubs without a limit.
RELEASED: dict[str, Any] = {"same_split": False, "step0_images": True, "count_copies": True}
# Nothing about a choice alone tells whether it is right: each text is three times wrong for once that it is right, and
# of any length.
BALANCED: dict[str, Any] = {"pool": "asked", "hub_limit": BALANCED_HUBS, "length_matched": True}


def build_set(
    source: Source,
    out: Path,
    settings: SetSettings,
    cache: Path,
    engine: Engine,
    console: Console,
    *,
    text: "Doc2VecSettings | None" = None,
    extractor: "Extractor | None" = None,
    on_bad_image: str = "raise",
    describe: Describe | None = None,
) -> dict[str, Any]:
    """Writes train.json, val.json and test.json in the released schema, report.json and manifest.json to `out`.

    `out` takes its name when all files are complete and on disk; a set that is there for the same recipes and settings
    is checked against its checksums and left alone. Vectors and finished shards of neighbours are kept in `cache`.

    Args:
        source: the recipes and their images.
        out: a folder that does not exist, is empty, or holds this very set.
        settings: all choices.
        cache: folder for what a later build may use again.
        engine: where neighbours are looked for.
        console: for messages.
        text: of the Doc2Vec whose word vectors compare texts; it is trained on the training split.
        extractor: of the image features that compare images; only needed for neighbourhoods of images.
        on_bad_image: `raise`, or `skip`: an image without features, as it cannot be read, is taken out of its recipe.
        describe: adds files before the set is complete.

    Returns:
        the report: questions and recipes by split, counts by rule.

    Raises:
        InputError: what is wrong with recipes, images, settings or `out`; too few recipes, and how many are needed.
    """
    out, cache = Path(out), Path(cache)
    console.print(f"» {source.name}: reading and cleaning the recipes", markup=False, soft_wrap=True)
    recipes, introductions, cleaned = _read(source, settings)
    if settings.text_field == "auto":
        titled = sum(sum(bool(step.title.strip()) for step in recipe.steps) >= 4 for recipe in recipes)
        settings = replace(settings, text_field="title" if 2 * titled >= len(recipes) else "body")
    key = {
        "format": FORMAT,
        "recipes": _recipes_digest(recipes, introductions),
        "settings": asdict(settings),
        "text": asdict(text) if text else None,
        "features": extractor.settings() if extractor else None,
        "skip": on_bad_image,
        "code": [file_digest(Path(str(module.__file__))) for module in (questions, assignment, neighbours)],
        "builder": file_digest(Path(__file__)),
    }
    key = {**key, "settings": json.loads(json.dumps(key["settings"]))}  # as a manifest gives it back: lists, no tuples
    _check_out(out, digest_of(key))

    def write(folder: Path) -> None:
        needs_features = settings.distractors == "neighbourhood" and {"visual_cloze", "visual_coherence"} & {
            *settings.tasks
        }
        vectors = None
        kept_recipes = recipes
        if needs_features:
            vectors = _features(source, recipes, introductions, extractor, cache, on_bad_image)
            kept_recipes = _without(recipes, {name for name, _ in vectors.bad})
            if vectors.bad:
                cleaned["images left out: cannot be read"] = len(vectors.bad)
        bad = {name for name, _ in vectors.bad} if vectors else set()
        plan = plan_questions(
            kept_recipes,
            settings.tasks,
            same_split=settings.same_split,
            questions_per_recipe=settings.questions_per_recipe,
            text_field=settings.text_field,
            seed=settings.seed,
            fractions=settings.fractions,
            split_salt=settings.split_salt,
            min_steps=0,
            max_steps=10**9,  # the cleaning has seen to the number of steps
            max_text_repeats=settings.max_text_repeats,
            max_shared_steps=settings.max_shared_steps,
            content_key=source.image_key,
            introductions={k: [name for name in names if name not in bad] for k, names in introductions.items()},
        )
        rule = _rule(plan, settings, text, vectors, cache, engine, console)
        made, report = complete_questions(
            plan, rule, hub_limit=settings.hub_limit, length_matched=settings.length_matched
        )
        _check_made(source.name, plan, made, settings)
        report["cleaning"] = dict(sorted(cleaned.items()))
        report["rules"] |= getattr(rule, "notes", {})
        write_questions(made, folder)
        _write_json(folder / "report.json", report)
        _write_attribution(folder, plan)
        count = _link_images(source, folder / "images", made) if settings.images else 0
        if describe:
            describe(folder, plan.kept, made, report)
        names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        write_sums(folder)  # after the names: who copies the set may list its files anew
        write_manifest(
            folder,
            {
                "kind": "question set",
                "digest": digest_of(key),
                "key": key,
                "source": {"name": source.name, **source.provenance()},
                "counts": report["questions"],
                "images": count,
                "sha256": {name: file_digest(folder / name) for name in names if not name.startswith("images/")},
            },
        )

    def load(folder: Path) -> dict[str, Any]:
        verify(folder)
        return json.loads((folder / "report.json").read_bytes())

    return build_once(out, load, write)


# ---- recipes ---------------------------------------------------------------------------------------------------------


def _read(source: Source, settings: SetSettings) -> tuple[list[SourceRecipe], dict[str, tuple[str, ...]], Counter[str]]:
    """Clean recipes, the images of their dropped first steps, and counts of what the cleaning did."""
    first: dict[str, tuple[str, ...]] = {}

    def read() -> Iterator[SourceRecipe]:
        for recipe in source.recipes():
            if settings.step0_images and source.first_step_is_narrative and recipe.steps:
                first[recipe.recipe_id] = recipe.steps[0].images
            yield recipe

    cleaning = replace(settings.cleaning, first_step_is_narrative=source.first_step_is_narrative)
    recipes, counts = clean(read(), cleaning)
    if not recipes:
        done = ", ".join(f"{rule}: {n}" for rule, n in counts.items() if n)
        raise InputError(f"{source.name}: the cleaning left none of its recipes ({done}); check questions.cleaning")
    introductions = {}
    for recipe in recipes:
        shown = {image for step in recipe.steps for image in step.images}
        if images := tuple(name for name in first.get(recipe.recipe_id, ()) if name not in shown):
            introductions[recipe.recipe_id] = images
    return recipes, introductions, counts


def _recipes_digest(recipes: Sequence[SourceRecipe], introductions: Mapping[str, Sequence[str]]) -> str:
    content = hashlib.sha256()
    for recipe in sorted(recipes, key=lambda recipe: recipe.recipe_id):
        content.update(digest_of([asdict(recipe), list(introductions.get(recipe.recipe_id, ()))]).encode())
    return content.hexdigest()


def _without(recipes: Sequence[SourceRecipe], bad: set[str]) -> list[SourceRecipe]:
    if not bad:
        return list(recipes)
    return [
        replace(
            recipe,
            steps=tuple(replace(step, images=tuple(n for n in step.images if n not in bad)) for step in recipe.steps),
        )
        for recipe in recipes
    ]


def _check_made(name: str, plan: Plan, made: Mapping[str, Sequence[Question]], settings: SetSettings) -> None:
    """InputError where a split that shall have questions of a task has none."""
    recipes = Counter(split for _, split in plan.kept)
    for task, (split, fraction) in itertools.product(plan.asked, zip(SPLITS, settings.fractions, strict=True)):
        if fraction <= 0 or any(record["task"] == task for record in made[split]):
            continue
        usable = {item.recipe.recipe_id for item in plan.asked[task]}
        if not usable and plan.kept:
            what = "texts" if task == "textual_cloze" else "images"
            raise InputError(
                f"{name}: none of {len(plan.kept)} recipes has four steps with different {what} to ask for, as {task} "
                "needs; leave it out of questions.tasks" + (" or set questions.text_field" if what == "texts" else "")
            )
        here = sum(item.split == split for item in plan.asked[task])
        group = _needed(plan, task, settings) if settings.same_split else 1
        share = min(fraction for fraction in settings.fractions if fraction > 0) * len(usable) / max(1, len(plan.kept))
        need = max(_recipes_for(group, share), _needed(plan, task, settings))
        why = " for wrong choices from other recipes of the split" if settings.same_split else ""
        also = ", set questions.same_split=false," if settings.same_split else ""
        few = f"{name}: {len(plan.kept)} {_recipes(len(plan.kept))} too few for {task}: "
        if here >= group:  # the split has its questions, and what lends to them is exhausted
            least = _needed(plan, task, settings)
            more = f"at least {least}" if least > len(plan.kept) else "more"
            hubs = "" if settings.hub_limit is None else " or set questions.hub_limit=null"
            raise InputError(f"{few}they lend {split} too few wrong choices; give {more} recipes{also}{hubs}")
        raise InputError(
            f"{few}{split} has {recipes[split]} of them, {here} with steps to ask for, and {group} are "
            f"needed{why}; give about {need} recipes{also} or give the split a larger "
            "part by questions.fractions"
        )


def _recipes(count: int) -> str:
    return "recipe is" if count == 1 else "recipes are"


def _needed(plan: Plan, task: str, settings: SetSettings) -> int:
    """Recipes that must lend each other wrong choices for a question of a task to have them."""
    wanted = {"textual_cloze": 3, "visual_cloze": 3, "visual_coherence": 1, "visual_ordering": 0}[task]
    if wanted == 0:
        return 1
    nearest = wanted + (settings.k_lo - 1 if settings.distractors == "neighbourhood" else 0)
    if settings.distractors == "random" or settings.pool == "asked" or not plan.asked[task]:
        return nearest + 1
    each = len(lenders(plan, plan.asked[task], False)) / len(plan.kept)
    return math.ceil(nearest / max(1.0, each)) + 1


def _recipes_for(count: int, share: float) -> int:
    """So many recipes that a split of this share has `count` of them, with two deviations to spare."""
    expected = (1 + math.sqrt(1 + count)) ** 2  # x - 2 sqrt(x) = count
    return math.ceil(expected / max(share, 1e-9))


# ---- wrong choices ---------------------------------------------------------------------------------------------------


def _rule(
    plan: Plan,
    settings: SetSettings,
    text: "Doc2VecSettings | None",
    vectors: "ImageVectors | None",
    cache: Path,
    engine: Engine,
    console: Console,
) -> Distractors:
    if settings.distractors == "random":
        return random_distractors
    if settings.distractors == "collection":
        return collection_distractors(plan, settings.pool == "asked")
    encoder = _encoder(plan, text, cache) if "textual_cloze" in settings.tasks else None
    return Neighbourhood(plan, settings, encoder, vectors, cache / "question_set", engine, console)


class Neighbourhood:
    """The adaptive neighbourhood: wrong choices that are near the right one, but not so near that they are right too.

    Texts by Word Mover's Distance, images by the Euclidean distance of their features. Wrong choices are drawn
    uniformly from ranks `k_lo` to `k_hi` of the other recipes' texts or images that do not equal the right one; where
    these are given out already or are too few, from farther ranks, then from anywhere but nearer ones. A text without
    a known word has no neighbours: its wrong choices are drawn from anywhere. `notes` counts those.
    """

    def __init__(
        self,
        plan: Plan,
        settings: SetSettings,
        encoder: "Doc2VecEncoder | None",
        vectors: "ImageVectors | None",
        work: Path,
        engine: Engine,
        console: Console,
    ) -> None:
        self.plan, self.settings, self.encoder, self.vectors = plan, settings, encoder, vectors
        self.work, self.engine, self.console = work, engine, console
        self.notes: Counter[str] = Counter()

    def __call__(self, asked: Sequence[Asked], seed: int) -> Iterator[Offer]:
        """See `data.build.questions.Distractors`."""
        task = asked[0].task
        everything = lenders(self.plan, asked, self.settings.pool == "asked")
        keys = [self.plan.key(task, content) for _, content in everything]
        key_of = dict(zip(everything, keys, strict=True))
        if self.settings.count_copies:
            pool, groups = everything, [recipe_id for recipe_id, _ in everything]
        else:
            pool, groups = _distinct(everything, keys)
        shared = {key_of[candidate] for candidate, group in zip(pool, groups, strict=True) if group is None}
        own = [own_keys(self.plan, item) for item in asked]
        k = min(len(pool), self.settings.k_hi + SPARE + max(len(keys & shared) for keys in own))
        description = f"{task}, {asked[0].split if self.plan.same_split else 'all splits'}"
        search = self._texts if task == "textual_cloze" else self._images
        ids, distances = search(asked, pool, groups, k, description)
        for item, mine, places, far in zip(asked, own, ids.tolist(), distances.tolist(), strict=True):
            if places[0] < 0:
                self.notes[f"{task}: right choices without neighbours"] += 1
            equal, ranked = set(mine), []
            for place, distance in zip(places, far, strict=True):
                if place >= 0 and distance <= 0:
                    equal.add(key_of[pool[place]])
                elif place >= 0 and key_of[pool[place]] not in equal:
                    ranked.append(pool[place])
            yield self._offer(item, ranked, everything, key_of, equal, seed)

    def _offer(
        self,
        item: Asked,
        ranked: Sequence[Candidate],
        everything: Sequence[Candidate],
        key_of: Mapping[Candidate, Hashable],
        equal: set[Hashable],
        seed: int,
    ) -> Offer:
        low, high = self.settings.k_lo - 1, self.settings.k_hi
        band = [*ranked[low:high]]
        _generator(seed, item).shuffle(band)
        nearer = equal | {key_of[candidate] for candidate in ranked[:low]}
        anywhere = (candidate for candidate in draws(item, everything, seed) if key_of[candidate] not in nearer)
        band = [candidate for candidate in band if key_of[candidate] not in nearer]  # another copy of a nearer text
        return Offer(band, itertools.chain(ranked[high:], anywhere))

    def _texts(
        self, asked: Sequence[Asked], pool: Sequence[Candidate], groups: Sequence[Hashable], k: int, description: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ids in the pool (Q, k), -1 where there are fewer, and distances (Q, k)."""
        encoder = self.encoder
        assert encoder is not None
        tokens: dict[str, list[str]] = {}
        for content in itertools.chain((content for _, content in pool), (item.content for item in asked)):
            if content not in tokens:
                tokens[content] = encoder.tokens(content)
        queries = [tokens[item.content] for item in asked]
        own = [item.recipe.recipe_id for item in asked]
        texts, copies = [tokens[content] for _, content in pool], self.settings.count_copies
        key = {
            "queries": digest_of([queries, own]),
            "pool": digest_of([texts, groups]),
            "words": encoder.digest(),
            "k": k,
            "copies": copies,
            "shard": TEXTS,
            "code": file_digest(Path(str(neighbours.__file__))),
        }

        def shared() -> tuple[neighbours.TextPool, int, bool]:
            words = neighbours.WordVectors(encoder.words, encoder.word_vectors)
            return neighbours.TextPool(texts, words, groups), k, copies

        shards = [(queries[i : i + TEXTS], own[i : i + TEXTS]) for i in range(0, len(asked), TEXTS)]
        folder = self.work / f"texts-{digest_of(key)[:16]}"
        found = finished(self.engine, near_texts, shared, shards, folder, f"nearest texts: {description}", self.console)
        return _joined(found)

    def _images(
        self, asked: Sequence[Asked], pool: Sequence[Candidate], groups: Sequence[Hashable], k: int, description: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ids in the pool (Q, k), -1 where there are fewer, and distances (Q, k)."""
        vectors = self.vectors
        assert vectors is not None
        rows, own_rows = vectors.rows([name for _, name in pool]), vectors.rows([item.content for item in asked])
        own = [item.recipe.recipe_id for item in asked]
        key = {
            "features": vectors.store.manifest["settings"],
            "queries": [hashlib.sha256(vectors.store.digests[own_rows].tobytes()).hexdigest(), digest_of(own)],
            "pool": [hashlib.sha256(vectors.store.digests[rows].tobytes()).hexdigest(), digest_of(groups)],
            "k": k,
            "shard": IMAGES,
            "code": file_digest(Path(str(neighbours.__file__))),
        }
        folder = self.work / f"images-{digest_of(key)[:16]}"

        def shared() -> tuple[Path, list[Hashable], int]:
            path = folder / "pool.npy"
            if not path.is_file():
                with atomic_file(path) as partial:
                    _gather(vectors.array, rows, partial)
            return path.resolve(), list(groups), k

        shards = [(vectors.array[own_rows[i : i + IMAGES]], own[i : i + IMAGES]) for i in range(0, len(asked), IMAGES)]
        found = finished(
            self.engine, near_images, shared, shards, folder, f"nearest images: {description}", self.console
        )
        (folder / "pool.npy").unlink(missing_ok=True)
        return _joined(found)


def near_texts(shared: tuple[neighbours.TextPool, int, bool], shard: tuple[list[list[str]], list[str]]) -> Arrays:
    """Nearest texts of a shard of queries; see `data.build.engines.Function`."""
    for backend in ("PYTORCH", "JAX", "TENSORFLOW", "CUPY"):  # POT would load each that is installed, and needs none
        os.environ[f"POT_BACKEND_DISABLE_{backend}"] = "1"
    pool, k, copies = shared
    queries, groups = shard
    found = pool.nearest(queries, k, groups, copies=copies)
    return {"ids": found.ids, "distances": found.distances}


def near_images(shared: tuple[Path, list[Hashable], int], shard: tuple[np.ndarray, list[str]]) -> Arrays:
    """Nearest images of a shard of queries; see `data.build.engines.Function`."""
    path, groups, k = shared
    queries, own = shard
    pool = np.load(path, mmap_mode="r")
    found = neighbours.nearest_images(queries, pool, k, (own, groups))
    return {"ids": found.ids, "distances": found.distances}


def _joined(found: Sequence[Arrays]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate([part["ids"] for part in found]), np.concatenate([part["distances"] for part in found])


def _distinct(pool: Sequence[Candidate], keys: Sequence[Hashable]) -> tuple[list[Candidate], list[Hashable]]:
    """The first candidate of each key, and its recipe; None where several recipes hold the key."""
    holders: defaultdict[Hashable, set[str]] = defaultdict(set)
    first: dict[Hashable, Candidate] = {}
    for candidate, key in zip(pool, keys, strict=True):
        holders[key].add(candidate[0])
        first.setdefault(key, candidate)
    return list(first.values()), [next(iter(holders[key])) if len(holders[key]) == 1 else None for key in first]


def _generator(seed: int, item: Asked) -> random.Random:
    name = f"band {seed} {item.task} {item.serial} {item.recipe.recipe_id}"
    return random.Random(int.from_bytes(hashlib.sha256(name.encode()).digest()))


# ---- vectors ---------------------------------------------------------------------------------------------------------


def _encoder(plan: Plan, text: "Doc2VecSettings | None", cache: Path) -> "Doc2VecEncoder":
    """Doc2Vec of the titles and bodies of the training split (of all recipes where there is none)."""
    from data.text import Doc2VecEncoder, ingredient_names

    training = [recipe for recipe, split in plan.kept if split == "train"] or [recipe for recipe, _ in plan.kept]
    texts = [part for recipe in training for step in recipe.steps for part in (step.title, step.body) if part.strip()]
    ingredients = ingredient_names(line for recipe in training for line in recipe.ingredients)
    return Doc2VecEncoder.fit_cached(cache, texts, text, ingredients)


def _features(
    source: Source,
    recipes: Sequence[SourceRecipe],
    introductions: Mapping[str, Sequence[str]],
    extractor: "Extractor | None",
    cache: Path,
    on_bad: str,
) -> "ImageVectors":
    from data.images import image_vectors

    if extractor is None:
        raise InputError(
            "questions.distractors=neighbourhood: the visual tasks need image features; set "
            "features=efficientnet_lite0 or another of conf/features, or questions.tasks=[textual_cloze]"
        )
    names = {name for recipe in recipes for step in recipe.steps for name in step.images}
    ordered = sorted(names.union(*introductions.values()), key=digest_of)
    if on_bad == "raise":
        source.prepare_images(ordered)
    for start in range(0, len(ordered) if len(ordered) > FEATURES else 0, FEATURES):
        image_vectors(extractor, ordered[start : start + FEATURES], source.image_path, cache, on_bad=on_bad)
    return image_vectors(extractor, ordered, source.image_path, cache, on_bad=on_bad)


def _gather(array: np.ndarray, rows: np.ndarray, path: Path) -> None:
    """Some rows of an array as a file of their own, a block at a time."""
    with open(path, "wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (len(rows), array.shape[1])}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, len(rows), 8192):
            file.write(np.ascontiguousarray(array[rows[start : start + 8192]], "<f4").tobytes())


# ---- files -----------------------------------------------------------------------------------------------------------


def _check_out(out: Path, digest: str) -> None:
    """InputError where building into `out` would cost somebody something; an empty folder goes."""
    if out.is_dir() and not any(out.iterdir()):
        out.rmdir()
    if not out.exists():
        if file := next((parent for parent in out.parents if parent.is_file()), None):
            raise InputError(f"out={out}: {file} is a file; give a folder somewhere else")
        return
    if not (out / "manifest.json").is_file():
        raise InputError(f"out={out}: exists and is no question set; give the name of a new folder")
    manifest = read_manifest(out)
    if manifest.get("kind") != "question set":
        raise InputError(f"out={out}: holds something else than a question set; give the name of a new folder")
    if manifest.get("digest") != digest:
        raise InputError(
            f"out={out}: holds a set of other recipes, settings or another version; delete it or give another folder"
        )


def verify(folder: Path) -> dict[str, Any]:
    """The manifest of a set whose files have their checksums; InputError with the first that has not."""
    manifest = read_manifest(folder)
    if manifest.get("kind") != "question set" or not isinstance(manifest.get("sha256"), dict):
        raise InputError(f"{folder / 'manifest.json'}: is not of a question set; give the folder of one")
    for name, digest in manifest["sha256"].items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file() or file_digest(path) != digest:
            raise InputError(
                f"{path}: is absent or does not have its checksum; delete {folder} and build the set again"
            )
    return manifest


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _write_attribution(folder: Path, plan: Plan) -> None:
    lines = sorted(
        f"{recipe.title or recipe.recipe_id} ({recipe.recipe_id}): {recipe.attribution}"
        for recipe, _ in plan.kept
        if recipe.attribution
    )
    if lines:
        (folder / "ATTRIBUTION.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _link_images(source: Source, folder: Path, made: Mapping[str, Sequence[Question]]) -> int:
    """Hard links, or copies where the disk is another, of all images that questions show; returns their number."""
    names: set[str] = set()
    for record in itertools.chain(*made.values()):
        names.update(name for step in record["context"] for name in step.get("images", ()))
        if record["task"] != "textual_cloze":
            choices = record["choice_list"]
            names.update(itertools.chain(*choices) if record["task"] == "visual_ordering" else choices)
            names.update(record["question"] if record["task"] == "visual_cloze" else ())
    names -= {"@placeholder"}
    for name in sorted(names):
        if Path(name).name != name:
            raise InputError(f"{source.name}: image {name!r} is no plain file name; rename it")
    if names:
        folder.mkdir()
        source.prepare_images(names)
    for name in sorted(names):
        path = source.image_path(name)
        if not path.is_file():
            raise InputError(f"{path}: the image is absent; restore it, or set questions.images=false")
        try:
            os.link(path.resolve(), folder / name)
        except OSError:
            shutil.copyfile(path, folder / name)
    return len(names)
