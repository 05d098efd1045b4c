"""Ask a model every question by every prompt, go on where an earlier run stopped, and score what came back."""

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from tqdm import tqdm

from data.errors import InputError
from data.files import atomic_file
from data.foodieqa import FoodieQAData
from data.records import LETTERS, FoodQuestion
from data.store import digest_of, file_digest
from engine.answer_log import AnswerLog
from engine.build import answers_requests, seed_all, tracking
from engine.console import folder_name, make_console, say
from engine.food_compare import compare_runs, render_comparison, verdict_line
from engine.food_report import publish_food
from engine.food_scores import summarise
from engine.launch import command_overrides, file_label
from engine.runfolder import plain, redact, write_json, write_provenance
from models import extraction
from models.answers import Outcome
from models.backend import METHODS, Backend, Reply, Request
from models.prompts import ABLATIONS, PREFILLS, SHOWN_DISH, Prompt, read_prompts, render

PERMUTATIONS = ("off", "circular", "all")
EXTRACTIONS = ("cascade", "first_letter_random")
KEY_FORMAT = 1  # raised when the same key would mean another request
IDENTITY = (0, 1, 2, 3)
MAX_REPLY = 100_000  # characters that are looked at
# Words that tie a question to places of options; rotating those would change what it asks. 以上 alone means the photos.
_NAMES_A_PLACE = re.compile(
    r"图\s*[A-Da-d1-4一二三四]|选项\s*[A-Da-d]|第[一二三四1-4][张幅个道]|以上(?:都|皆|均)|"
    r"\b(?:option|picture|image|photo|dish)\s*\(?[A-D1-4]\b|\b(?:first|second|third|fourth|last)\s+(?:picture|image|photo|option|dish)|"
    r"\b(?:none|all) of the above\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request with what the log and the report say about it."""

    request: Request
    source: FoodQuestion  # options in the file's own order
    order: tuple[int, ...]
    prompt_id: str
    index: int
    about: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Failure:
    """A request that got no answer."""

    prompt: str
    row: int
    order: tuple[int, ...]
    error: str


def evaluate(cfg: DictConfig) -> float | None:
    """`evaluate.py data=foodieqa/...`: score a model, or a trivial system; writes the report and the answers.

    Returns the mean over the prompts of the accuracy in the file's own order.

    Raises:
        InputError: wrong data, model or settings; a server that cannot be reached; at the end, after all is written, if
            some requests got no answer.
    """
    console, overrides = make_console(), command_overrides()
    for key in ("ckpt_path", "embeddings", "folds", "released", "question", "export", "query", "gallery"):
        if cfg[key]:
            raise InputError(f"{key}={cfg[key]}: is nothing for data={cfg.data.name}; leave it out")
    check_asking(cfg)
    if cfg.asking.against and not (Path(cfg.asking.against) / "predictions.jsonl").is_file():
        raise InputError(f"asking.against={cfg.asking.against}: holds no predictions.jsonl; give the folder of a run")
    seed_all(cfg)
    data: FoodieQAData = instantiate(cfg.data)
    backend = build_backend(cfg)
    try:
        data.prepare()
        for note in data.notes:
            say(console, f"note: {note}")
        method = str(cfg.asking.method)
        capabilities = backend.capabilities()
        if not capabilities.prompted:
            method = "score"
        backend.check(method)
        asked, notes, left_out = plan(cfg, data, backend, method)
        replies, log = collect(cfg, backend, asked, console)
    finally:
        backend.close()
    outcomes, failures = score(asked, replies, cfg)
    folder = Path(cfg.output_dir)
    config = plain(cfg)
    write_provenance(folder, config, overrides, data.provenance())
    _keep_answers(folder, log, asked)
    summary = summarise(
        outcomes,
        data.questions,
        [(f.prompt, f.row, f.order, f.error) for f in failures],
        identity=identity_of(backend),
        settings={
            "method": method,
            "prompt_variant": str(cfg.prompts.variant) if capabilities.prompted else None,
            "prefill": sorted({a.request.prefill for a in asked}),
            "ablation": str(cfg.asking.ablation),
            "permutation": str(cfg.asking.permutation),
            "left_out_of_rotation": left_out,
            "extraction": str(cfg.asking.extraction),
            "extractor_version": extraction.VERSION,
            "seed": int(cfg.seed),
            "min_n": int(cfg.asking.min_n),
            "is_release": data.is_release,
            "system": str(_shown_name(cfg, backend)),
        },
        data_title=data.title,
        is_demo=data.is_demo,
        notes=[*data.notes, *notes],
    )
    with tracking(cfg, config) as loggers:
        metrics = publish_food(folder, summary, outcomes, loggers, console)
    if failures:
        count = f"{len(failures)} of {len(asked)} requests"
        raise InputError(f"{count} got no answer ({failures[0].error}); the same command asks them again")
    if cfg.asking.against:
        compare_with(folder, Path(cfg.asking.against), console)
    return metrics["test/accuracy"]


def identity_of(backend: Backend) -> dict[str, Any]:
    """What the backend says of itself, without secrets that its settings may hold."""
    return redact(backend.identity())


def _shown_name(cfg: DictConfig, backend: Backend) -> str:
    """How tables call the model: the folder's last part, the hub's or the server's name."""
    name = cfg.model.name or identity_of(backend).get("model") or backend.kind
    return Path(name).absolute().name if Path(str(name)).is_dir() else str(name)


def compare_with(folder: Path, other: Path, console: Console) -> None:
    """Write and print the paired comparison of this run with an earlier one."""
    found = compare_runs(folder, other)
    write_json(folder / "comparison.json", found)
    with atomic_file(folder / "comparison.md") as partial:
        partial.write_text(render_comparison(found), encoding="utf-8")
    say(console, verdict_line(found))
    say(console, f"wrote comparison.json comparison.md into {folder_name(folder)}")


def check_asking(cfg: DictConfig) -> None:
    """InputError for a setting of `asking` that does not exist."""
    for key, allowed in (
        ("method", [m for m in METHODS if m != "score"]),
        ("prefill", PREFILLS),
        ("ablation", ABLATIONS),
        ("permutation", PERMUTATIONS),
        ("extraction", EXTRACTIONS),
    ):
        if cfg.asking[key] not in allowed:
            raise InputError(f"asking.{key}={cfg.asking[key]}: choose {', '.join(allowed)}")
    if not isinstance(cfg.asking.fresh, bool):
        raise InputError(f"asking.fresh={cfg.asking.fresh}: must be true or false")
    if cfg.asking.log is not None and not isinstance(cfg.asking.log, str):
        raise InputError(f"asking.log={cfg.asking.log}: must be the name of a file")
    if not isinstance(cfg.asking.min_n, int) or cfg.asking.min_n < 0:
        raise InputError(f"asking.min_n={cfg.asking.min_n}: must be a whole number of at least 0")


# What a model cannot do without, and how to give it.
_NEEDED = {
    "path": "model.name=FOLDER, or a name on the hub",
    "base_url": "model.base_url=ADDRESS of a server, such as http://127.0.0.1:8000/v1",
    "ckpt": "model.ckpt=runs/.../checkpoints/best.ckpt of a retrieval run",
}


def build_backend(cfg: DictConfig) -> Backend:
    """The model of the config, if it is one that answers questions."""
    if not answers_requests(cfg):
        raise InputError(
            f"data={cfg.data.name}: model={cfg.model.name} cannot answer these questions; use model=vlm/transformers, "
            "vlm/openai, clip, trained_dual_encoder or trivial/always_a"
        )
    settings = OmegaConf.to_container(cfg.model, resolve=True)
    assert isinstance(settings, dict)
    for key, remedy in _NEEDED.items():
        if key in settings and settings[key] is None:
            raise InputError(f"model: give {remedy}")
    try:
        return instantiate({key: value for key, value in settings.items() if key != "name"})
    except (TypeError, ValueError, InstantiationException) as error:
        cause = error.__cause__ if isinstance(error.__cause__, InputError) else None
        raise cause or InputError(f"model: a setting does not fit ({' '.join(str(error).split())[:300]})") from None


def plan(cfg: DictConfig, data: FoodieQAData, backend: Backend, method: str) -> tuple[list[Asked], list[str], int]:
    """Every request of the run, question by question; notes; how many questions are left out of the rotation.

    Requests on one question stand together: its photos are decoded once, and servers find their prefix cached.
    """
    asking, identity = cfg.asking, identity_of(backend)
    capabilities = backend.capabilities()
    prompts: list[Prompt] | list[None] = _prompts(cfg, data) if capabilities.prompted else [None]
    ablation = str(asking.ablation)
    if not capabilities.prompted and ablation not in ("none", "blank_image", "other_image"):
        raise InputError(f"asking.ablation={ablation}: changes prompts, and model={cfg.model.name} reads none")
    questions = _with_other_images(data.questions, ablation, Path(str(cfg.cache)), data.notes)
    prefill = str(asking.prefill)
    if prefill == "auto":
        prefill = "continue" if capabilities.prefill else "inline"
    elif prefill == "continue" and not capabilities.prefill:
        raise InputError(f"asking.prefill=continue: model={cfg.model.name} cannot continue a begun answer; use inline")
    digests = _Digests()
    planned, left_out, notes = [], 0, []
    for source, shown in zip(data.questions, questions, strict=True):
        orders = _orders(str(asking.permutation))
        if len(orders) > 1 and names_a_place(source):
            orders, left_out = orders[:1], left_out + 1
        for order in orders:
            question = shown.reordered(order)
            for prompt in prompts:
                planned.append(_request(prompt, question, source, order, prefill, ablation, method, identity, digests))
    if ablation.startswith("dish_name"):
        unnamed = sum(SHOWN_DISH not in question.question for question in data.questions)
        if unnamed == len(data.questions):
            raise InputError(f"asking.ablation={ablation}: no question says {SHOWN_DISH}, so no name can be shown")
        if unnamed:
            notes.append(f"{unnamed} questions do not say {SHOWN_DISH}: asked without the dish's name")
    if left_out:
        notes.append(f"{left_out} questions name a position or 'the above': asked in their own order only")
    _check_images(cfg, planned, capabilities)
    return planned, notes, left_out


def names_a_place(question: FoodQuestion) -> bool:
    """Whether question or options name a position (图A, the first picture, 以上都不是), so that rotating would lie."""
    return any(_NAMES_A_PLACE.search(text) for text in (question.question, *question.choices))


def _orders(permutation: str) -> list[tuple[int, ...]]:
    if permutation == "off":
        return [IDENTITY]
    if permutation == "circular":
        return [tuple((i + k) % 4 for i in range(4)) for k in range(4)]
    return list(itertools.permutations(range(4)))


def _prompts(cfg: DictConfig, data: FoodieQAData) -> list[Prompt]:
    section: Any = OmegaConf.to_container(cfg.prompts, resolve=True) if cfg.prompts else None
    if not isinstance(section, dict):
        raise InputError(f"prompts: none chosen; use prompts={data.task}, or a file of your own in conf/prompts/")
    if cfg.asking.ablation == "dish_name_only_textqa":
        if "textqa" not in section:
            raise InputError("asking.ablation=dish_name_only_textqa: needs the text prompts; use prompts=sivqa")
        chosen = {key: section[key] for key in ("index", "options_line", "system", "chat_form") if key in section}
        return read_prompts(section["textqa"] | chosen, "textqa", data.language)
    return read_prompts(section, data.task, data.language)


def _request(
    prompt: Prompt | None,
    question: FoodQuestion,
    source: FoodQuestion,
    order: tuple[int, ...],
    prefill: str,
    ablation: str,
    method: str,
    identity: dict[str, Any],
    digests: "_Digests",
) -> Asked:
    if prompt is None:
        turns, images, used, opening, name, index = (), question.images, "none", "", "none", 0
    else:
        shown = render(prompt, question, prefill, ablation)
        turns, images, used, opening = shown.turns, shown.images, shown.prefill, shown.opening
        name, index = prompt.id, prompt.index
    about = {
        "prompt_id": name,
        "prompt_variant": None if prompt is None else prompt.variant,
        "ablation": ablation,
        "order": list(order),
        "model": identity.get("model"),
        "model_revision": identity.get("revision"),
        "backend": identity.get("backend"),
        "backend_version": identity.get("version"),
        "generation": identity.get("generation"),
        "prompt": [[turn.role, *turn.parts] for turn in turns],
        "prompt_hash": digest_of([[turn.role, list(turn.parts)] for turn in turns])[:32],
        "image_hashes": [digests.of(path) for path in images],
    }
    content = {
        "format": KEY_FORMAT,
        "task": question.task,
        "row": question.row,
        "record": question.record_hash,
        "language": question.language,
        "prefill": used,
        "method": method,
        "identity": identity,
        "choices": list(question.choices),
        "asked": question.question,
        **{k: about[k] for k in ("prompt_id", "ablation", "order", "prompt_hash", "image_hashes")},
    }
    request = Request(digest_of(content)[:32], question, method, turns, images, used, opening)
    return Asked(request, source, order, name, index, about)


class _Digests:
    """Sha256 of pictures, each read once."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, path: str) -> str:
        if path not in self._known:
            if not Path(path).is_file():  # a pipe would be waited for
                raise InputError(f"{path}: is no file; put the picture there")
            try:
                self._known[path] = file_digest(Path(path))[:32]
            except OSError as error:
                raise InputError(f"{path}: cannot be read ({error.strerror}); put the picture there") from None
        return self._known[path]


def _check_images(cfg: DictConfig, planned: Sequence[Asked], capabilities: Any) -> None:
    most = max((len(a.request.images) for a in planned), default=0)
    name = cfg.model.name
    if not capabilities.prompted:
        return
    if most > capabilities.max_images:
        can = (
            "reads no pictures" if not capabilities.max_images else f"takes {capabilities.max_images} pictures at most"
        )
        raise InputError(
            f"data={cfg.data.name}: {most} pictures a question, and model={name} {can}; choose data=foodieqa/text, "
            "another model, or for single images asking.ablation=dish_name_only"
        )
    if not capabilities.interleaved:
        mixed = next((a for a in planned if _interleaves(a.request)), None)
        if mixed is not None:
            raise InputError(
                f"prompt {mixed.prompt_id}: sets text between or before pictures, and model={name} moves all pictures "
                "to the front; choose prompts.index=0, or say model.interleaved=true if your server keeps the order"
            )


def _interleaves(request: Request) -> bool:
    kinds = [
        isinstance(part, int)
        for turn in request.turns
        if turn.role != "system"
        for part in turn.parts
        if not (isinstance(part, str) and not part.strip(" ,\n"))
    ]
    return kinds != sorted(kinds, reverse=True)


def _with_other_images(
    questions: Sequence[FoodQuestion], ablation: str, cache: Path, notes: list[str]
) -> Sequence[FoodQuestion]:
    """The questions with their photos replaced, for the ablations that do so."""
    if ablation in ("blank_image", "other_image") and not any(question.images for question in questions):
        raise InputError(f"asking.ablation={ablation}: these questions have no photos; leave it out")
    if ablation == "blank_image":
        blank = _blank_picture(cache)
        return [replace(q, images=(str(blank),) * len(q.images)) for q in questions]
    if ablation != "other_image":
        return questions
    found = []
    for question in questions:
        others = [
            q
            for q in questions
            if q.cluster != question.cluster and (not q.food_name or q.food_name != question.food_name)
        ]
        if not others:
            raise InputError("asking.ablation=other_image: there is no question about other photos; leave it out")
        donor = min(others, key=lambda q: digest_of([question.record_hash, q.record_hash, q.row]))
        found.append(replace(question, images=donor.images))
    return found


def _same_dish(a: FoodQuestion, b: FoodQuestion) -> bool:
    return bool(a.food_name) and a.food_name == b.food_name


def _blank_picture(cache: Path) -> Path:
    from PIL import Image

    path = (cache / "blank.png").absolute()
    with atomic_file(path) as partial:
        Image.new("RGB", (512, 512), (128, 128, 128)).save(partial, format="PNG")
    return path


def collect(
    cfg: DictConfig, backend: Backend, asked: Sequence[Asked], console: Console
) -> tuple[dict[str, Reply], AnswerLog]:
    """Replies to all requests by key: those of the log, and those asked for now, which go into the log at once."""
    identity = identity_of(backend)
    log = AnswerLog(_log_path(cfg, asked, identity), identity)
    keys = {a.request.key: a for a in asked}
    known = log.read(keys)
    # Trivial systems cost nothing, and one that counts over all questions must see all of them.
    fresh = bool(cfg.asking.fresh) or backend.kind == "trivial"
    replies = {} if fresh else dict(known.replies)
    todo = [a.request for key, a in keys.items() if key not in replies]
    if known.torn:
        say(console, f"{log.path.name}: {known.torn} half-written lines of a killed run ignored")
    if replies or known.failed:
        again = f", {len(known.failed)} of them failed before" if known.failed else ""
        say(
            console,
            f"{len(replies)} of {len(keys)} requests were answered before ({log.path}); {len(todo)} to ask{again}",
        )
    failed = 0
    try:
        with tqdm(total=len(todo), desc="asking", unit=" requests", smoothing=0.05, disable=not todo) as bar:
            for request, reply in backend.answer(todo) if todo else ():
                _check_numbers(reply, request.key)
                log.append(request, reply, keys[request.key].about)
                replies[request.key] = reply
                if reply.error is not None:
                    failed += 1
                    bar.set_postfix_str(f"{failed} failed", refresh=False)
                bar.update()
    finally:
        log.close()
    missing = len(keys) - len(replies)
    if missing:
        raise RuntimeError(f"{backend.kind}: left {missing} requests without a reply")
    return replies, log


def _check_numbers(reply: Reply, key: str) -> None:
    values = [*(reply.scores or {}).values(), 0.0 if reply.letter_mass is None else reply.letter_mass]
    if any(math.isnan(value) for value in values):
        raise InputError(f"request {key}: the model gave a score that is no number; try model.dtype=float32")


def _log_path(cfg: DictConfig, asked: Sequence[Asked], identity: dict[str, Any]) -> Path:
    if cfg.asking.log:
        return Path(cfg.asking.log)
    first = asked[0].request.question
    return (
        Path(cfg.cache)
        / "answers"
        / f"{first.task}.{first.language}.{file_label(cfg.model.name)}.{digest_of(identity)[:12]}.jsonl"
    )


def score(asked: Sequence[Asked], replies: dict[str, Reply], cfg: DictConfig) -> tuple[list[Outcome], list[Failure]]:
    """Outcomes in the order of the requests, whatever the order in which they were answered; failures apart."""
    outcomes, failures = [], []
    for a in asked:
        reply = replies[a.request.key]
        if reply.error is not None:
            failures.append(Failure(a.prompt_id, a.source.row, a.order, reply.error))
            continue
        outcomes.append(_outcome(a, reply, str(cfg.asking.extraction), int(cfg.seed)))
    return outcomes, failures


def _outcome(a: Asked, reply: Reply, extractor: str, seed: int) -> Outcome:
    question = a.request.question
    flags: tuple[str, ...] = tuple(reply.flags)
    # Half a character is no text that a file could hold; an answer stands at the start or the end of a reply.
    text = None if reply.response is None else reply.response.encode("utf-8", "replace").decode("utf-8")
    if text is not None and len(text) > MAX_REPLY:
        text, flags = f"{text[: MAX_REPLY // 2]}\n{text[-MAX_REPLY // 2 :]}", (*flags, "shortened")
    if a.request.method != "generate":
        shown, credit, tied = best_letter(reply.scores or {}, question.answer, a.request.key)
        reason = "scores"
        flags += ("tie",) if tied else ()
    elif extractor == "cascade":
        found = extraction.extract(
            text,
            question.choices,
            image_options=question.image_options,
            opening=a.request.opening,
            prompt="".join(turn.text for turn in a.request.turns),
            finish_reason=reply.finish_reason,
        )
        shown, reason, flags = found.answer, found.reason, flags + found.flags
        credit = float(shown == question.answer)
    else:
        # A seed for each answer, so that a resumed run guesses as an uninterrupted one does.
        shown, guessed = extraction.first_letter_random(text or "", seed=int(digest_of([seed, a.request.key])[:8], 16))
        reason = "guessed" if guessed else "first_letter"
        credit = float(shown == question.answer)
    return Outcome(
        question=a.source,
        prompt=a.prompt_id,
        index=a.index,
        order=a.order,
        method=a.request.method,
        shown=shown,
        credit=credit,
        reason=reason,
        flags=flags,
        response=text,
        finish_reason=reply.finish_reason if a.request.method == "generate" else None,  # one token is all there is
        letter_mass=reply.letter_mass,
    )


def best_letter(scores: dict[str, float], answer: int, key: str) -> tuple[int | None, float, bool]:
    """The place with the highest score, its expected credit, and whether several tie; ties are broken by a hash."""
    values = [float(scores.get(letter, -math.inf)) for letter in LETTERS]
    if any(math.isnan(v) for v in values):
        raise InputError(f"request {key}: the model gave a score that is no number; try model.dtype=float32")
    top = max(values)
    if top == -math.inf:
        return None, 0.0, False
    best = [i for i, value in enumerate(values) if value == top]
    chosen = best[int(digest_of(["tie", key])[:8], 16) % len(best)]
    return chosen, (answer in best) / len(best), len(best) > 1


def _keep_answers(folder: Path, log: AnswerLog, asked: Sequence[Asked]) -> None:
    """The run's own copy of the lines of the log that it scores, in the order of its requests."""
    import json

    wanted = {a.request.key for a in asked}
    lines: dict[str, bytes] = {}
    with open(log.path, "rb") as file:
        for line in file:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            key = record.get("key") if isinstance(record, dict) else None
            if key in wanted and (record["error"] is None or key not in lines):
                lines[key] = line
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_file(folder / "answers.jsonl") as partial, open(partial, "wb") as file:
        for a in asked:
            if a.request.key in lines:
                file.write(lines.pop(a.request.key))
