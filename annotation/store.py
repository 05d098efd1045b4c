"""The append-only store of the annotation pages: one event a line, replayed to the present state; photos by content.

Nothing is ever changed in place. Answering again adds an event, and the last one of a person for an item counts. An
append holds a lock of the whole store, goes to the end of the log, and returns only when the disk has the line: what
was acknowledged survives `kill -9`, and two processes or threads never write over each other.
"""

import hashlib
import hmac
import io
import json
import os
import re
import secrets
import stat
import struct
import threading
import unicodedata
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from data.errors import InputError
from data.files import atomic_file

TOOL_VERSION = "1"  # raised when the meaning of an event changes
LOG, LOCK, SECRET = "events.jsonl", ".lock", ".secret"
MAX_LINE = 256 * 1024  # bytes of one event: a form is a few kilobytes
MAX_UPLOAD = 25 * 1024 * 1024  # bytes of one photo as it arrives
MAX_PIXELS = 50_000_000
PHOTO_SIDE, THUMB_SIDE = 2048, 480  # pixels of the longer side, as kept
FORMATS = ("JPEG", "PNG", "WEBP")
_PHOTO_ID = re.compile(r"[0-9a-f]{32}")
_SCRYPT = {"n": 2**14, "r": 8, "p": 1, "dklen": 32}  # 16 MiB and some 50 ms a guess


class Refused(Exception):
    """A person's input cannot be taken, for one or more reasons.

    Each reason is the key of a message in `annotation.words` and the values for its gaps.
    """

    def __init__(self, key: str, **values: Any) -> None:
        super().__init__(key)
        self.key = key
        self.reasons: list[tuple[str, dict[str, Any]]] = [(key, values)]

    @classmethod
    def of(cls, reasons: Sequence[tuple[str, dict[str, Any]]]) -> "Refused":
        """All that is wrong with a form, at once."""
        refused = cls(reasons[0][0])
        refused.reasons = list(reasons)
        return refused


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the log."""

    id: str
    time: str  # ISO 8601, UTC, milliseconds
    annotator: str  # id of the account; "" for the server itself
    kind: str
    payload: dict[str, Any]
    tool: str = TOOL_VERSION

    def line(self) -> bytes:
        """The event as one line of UTF-8 JSON with its line feed."""
        values = {name: getattr(self, name) for name in ("id", "time", "annotator", "kind", "tool", "payload")}
        return json.dumps(values, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace") + b"\n"


def new_event(annotator: str, kind: str, payload: Mapping[str, Any]) -> Event:
    """An event of this moment."""
    time = datetime.now(UTC).isoformat(timespec="milliseconds")
    return Event(uuid.uuid4().hex, time, annotator, kind, dict(payload))


@dataclass
class State:
    """What the log amounts to. Every table is keyed by the item's id; values are the payloads that count now.

    `answers[question][annotator]` and `reviews[photo]` are whole events, since time and order of them matter.
    """

    accounts: dict[str, dict[str, Any]] = field(default_factory=dict)  # name, hash, salt
    photos: dict[str, dict[str, Any]] = field(default_factory=dict)
    reviews: dict[str, Event] = field(default_factory=dict)
    dishes: dict[str, dict[str, Any]] = field(default_factory=dict)
    groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    questions: dict[str, dict[str, Any]] = field(default_factory=dict)
    assigned: dict[str, list[str]] = field(default_factory=dict)  # question -> annotators
    opened: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)  # (question, annotator) -> order, time
    answers: dict[str, dict[str, Event]] = field(default_factory=dict)
    drafts: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)  # (annotator, form) -> fields
    verifiers: dict[str, str] = field(default_factory=dict)  # annotator -> time last seen at the verification page
    withdrawn: set[str] = field(default_factory=set)  # items that no longer count
    unknown: int = 0  # events of a kind that this version does not know
    events: int = 0

    def apply(self, event: Event) -> None:
        """Let one event take effect. Events of kinds that this version does not know are counted and skipped."""
        self.events += 1
        reducer = _REDUCERS.get(event.kind)
        if reducer is None:
            self.unknown += 1
        else:
            reducer(self, event)

    def account_by_name(self, name: str) -> str | None:
        """Id of the account of that name, however it is cased or composed."""
        key = name_key(name)
        return next((one for one, account in self.accounts.items() if account["key"] == key), None)

    def name(self, annotator: str) -> str:
        """Chosen name of an account; the id itself where it came in with imported records."""
        return self.accounts.get(annotator, {}).get("name", annotator)

    def verdict(self, photo: str) -> str:
        """`pending`, `accept` or `reject`."""
        review = self.reviews.get(photo)
        return review.payload["verdict"] if review else "pending"

    def live_photos(self, verdict: str | None = None) -> list[str]:
        """Ids of photos that were not withdrawn, oldest first; of one verdict where it is given."""
        return [p for p in self.photos if p not in self.withdrawn and verdict in (None, self.verdict(p))]

    def live_groups(self) -> list[str]:
        """Ids of groups that stand: not taken apart, and none of their photos withdrawn or rejected since."""

        def stands(group: str) -> bool:
            photos = self.groups[group]["photos"]
            return group not in self.withdrawn and all(
                p not in self.withdrawn and self.verdict(p) == "accept" for p in photos
            )

        return [group for group in self.groups if stands(group)]

    def live_questions(self) -> list[str]:
        """Ids of questions that stand, oldest first: not taken back, and no photo of theirs withdrawn or rejected."""

        def stands(question: str) -> bool:
            own = [photo for photo in self.questions[question].get("photos", []) if photo in self.photos]
            gone = any(photo in self.withdrawn or self.verdict(photo) == "reject" for photo in own)
            return question not in self.withdrawn and not gone

        return [question for question in self.questions if stands(question)]

    def current_answers(self, question: str) -> dict[str, Event]:
        """The answer of each verifier that counts: not withdrawn, and given to the question as it stands now."""
        version = self.questions[question]["version"]
        given = self.answers.get(question, {})
        return {who: event for who, event in given.items() if event.payload.get("version") == version}


# ---- events to state -------------------------------------------------------------------------------------------------


def _account(state: State, event: Event) -> None:
    state.accounts[event.annotator] = event.payload


def _photo(state: State, event: Event) -> None:
    payload = event.payload
    state.photos[payload["photo"]] = {**payload, "annotator": event.annotator, "time": event.time}
    state.withdrawn.discard(payload["photo"])


def _review(state: State, event: Event) -> None:
    state.reviews[event.payload["photo"]] = event


def _dish(state: State, event: Event) -> None:
    before = state.dishes.get(event.payload["dish"])
    owner = before["annotator"] if before else event.annotator
    state.dishes[event.payload["dish"]] = {**event.payload, "annotator": owner, "time": event.time}
    state.withdrawn.discard(event.payload["dish"])


def _group(state: State, event: Event) -> None:
    state.groups[event.payload["group"]] = {**event.payload, "annotator": event.annotator}


def _question(state: State, event: Event) -> None:
    before = state.questions.get(event.payload["question_id"])
    author = before["annotator"] if before else event.annotator  # who edits a question does not become its author
    state.questions[event.payload["question_id"]] = {**event.payload, "annotator": author, "time": event.time}
    state.withdrawn.discard(event.payload["question_id"])


def _assign(state: State, event: Event) -> None:
    for question, annotators in event.payload["assigned"].items():
        state.assigned[question] = list(annotators)


def _open(state: State, event: Event) -> None:
    state.opened[event.payload["question"], event.annotator] = {**event.payload, "time": event.time}


def _answer(state: State, event: Event) -> None:
    state.answers.setdefault(event.payload["question"], {})[event.annotator] = event
    state.drafts.pop((event.annotator, f"verify/{event.payload['question']}"), None)


def _retract(state: State, event: Event) -> None:
    state.answers.get(event.payload["question"], {}).pop(event.annotator, None)


def _draft(state: State, event: Event) -> None:
    key = event.annotator, event.payload["form"]
    if event.payload["fields"]:
        state.drafts[key] = event.payload["fields"]
    else:
        state.drafts.pop(key, None)


def _verifier(state: State, event: Event) -> None:
    state.verifiers[event.annotator] = event.time


def _withdraw(state: State, event: Event) -> None:
    state.withdrawn.add(event.payload["item"])


def _restore(state: State, event: Event) -> None:
    state.withdrawn.discard(event.payload["item"])


_REDUCERS: dict[str, Callable[[State, Event], None]] = {
    "account": _account,
    "photo": _photo,
    "review": _review,
    "dish": _dish,
    "group": _group,
    "question": _question,
    "assign": _assign,
    "open": _open,
    "answer": _answer,
    "retract": _retract,
    "draft": _draft,
    "verifier": _verifier,
    "withdraw": _withdraw,
    "restore": _restore,
}


# ---- the log ---------------------------------------------------------------------------------------------------------


class Store:
    """A folder with the log, its lock, the photos and the server's secret.

    Safe with several threads and several processes at once. `notes` says what replay had to leave out.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).absolute()
        try:
            for part in ("", "photos", "thumbs", "tmp"):
                (self.folder / part).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"folder={folder}: the store cannot be made ({error.strerror}); give another") from None
        self.notes: list[str] = []
        self._state = State()
        self._offset = self._line = 0
        self._thread_lock = threading.RLock()
        path = self.folder / LOG
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise InputError(f"{path}: is no plain file; give folder= an annotation store or an empty folder")
        with self._locked():
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
            _flush_folder(self.folder)
        self.refresh()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """The store for this thread of this process alone."""
        import fcntl

        with self._thread_lock, open(self.folder / LOCK, "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # given back by closing, also when the process is killed
            yield

    @contextmanager
    def reading(self) -> Iterator[State]:
        """The present state, held still while the block reads it."""
        with self._thread_lock:
            self.refresh()
            yield self._state

    def refresh(self) -> None:
        """Read what others have appended. A last line without its line feed is being written, or was torn."""
        with self._thread_lock, open(self.folder / LOG, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            if size < self._offset:
                raise InputError(f"{self.folder / LOG}: has become shorter; put the whole log back and start again")
            file.seek(self._offset)
            while True:
                line = file.readline(4 * MAX_LINE)
                if not line.endswith(b"\n"):
                    if len(line) < 4 * MAX_LINE:
                        return
                    raise InputError(f"{self.folder / LOG}: line {self._line + 1} never ends; is it an event log?")
                self._offset += len(line)
                self._line += 1
                self._read(line)

    def _read(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            values = json.loads(line)
            event = Event(**{name: values[name] for name in ("id", "time", "annotator", "kind", "payload", "tool")})
            if not all(isinstance(getattr(event, name), str) for name in ("id", "time", "annotator", "kind")):
                raise TypeError("a field is no text")
            self._state.apply(event)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self.notes.append(f"{LOG}: line {self._line} is no whole event (torn by a stop in the middle?); left out")

    def append(
        self, annotator: str, kind: str, payload: Mapping[str, Any], check: Callable[[State], None] | None = None
    ) -> Event:
        """Add one event; returns when it is on the disk.

        `check(state)` sees everything that was appended before, under the lock; what it raises leaves the log as it
        was. Raises Refused where the event is too large or the disk does not take it.
        """

        def build(state: State) -> list[Event]:
            if check:
                check(state)
            return [new_event(annotator, kind, payload)]

        return self.transact(build)[0]

    def transact(self, build: Callable[[State], Sequence[Event]]) -> Sequence[Event]:
        """Add the events that `build` makes of the present state, in one write, under the lock of the store."""
        with self._locked():
            self.refresh()
            events = build(self._state)
            if not events:
                return events
            lines = [event.line() for event in events]
            if max(map(len, lines)) > MAX_LINE:
                raise Refused("too_long")
            path = self.folder / LOG
            try:
                with open(path, "r+b", buffering=0) as file:
                    end = file.seek(0, os.SEEK_END)
                    if end > self._offset:  # the torn line of a killed writer: ended, so that ours begins a new one
                        # and spoilt: where only its line feed was missing, it would come to count now, unchecked
                        _write_all(file, b" #torn\n")
                    _write_all(file, b"".join(lines))
                    os.fsync(file.fileno())
            except OSError:
                raise Refused("disk") from None
            self.refresh()
            return events

    def secret(self) -> bytes:
        """32 bytes that sign the cookies: made once for each store, so that a sign-in outlives a restart."""
        path = self.folder / SECRET
        with self._locked():
            if not path.exists():
                with atomic_file(path) as partial:
                    partial.write_text(secrets.token_hex(32), encoding="ascii")
                os.chmod(path, stat.S_IRUSR | stat.S_IWUSR)
            return bytes.fromhex(path.read_text(encoding="ascii"))

    # ---- photos ------------------------------------------------------------------------------------------------------

    def keep_photo(self, data: bytes, least: int = 1) -> tuple[str, int, int]:
        """Put a photo into the store; returns its id, width and height. See `clean_photo`.

        The id is a digest of the upright, bounded pixels, so the same photo has the same id whatever its EXIF says.
        """
        photo, thumb, identity, size = clean_photo(data, least)
        for folder, content in (("photos", photo), ("thumbs", thumb)):
            path = self.folder / folder / f"{identity}.jpg"
            if not path.exists():
                try:
                    with atomic_file(path) as partial:
                        partial.write_bytes(content)
                except OSError:
                    raise Refused("disk") from None
        return identity, *size

    def photo_path(self, identity: str, thumb: bool = False) -> Path:
        """File of a photo; KeyError where there is none, or where the id is not one."""
        if not _PHOTO_ID.fullmatch(identity):
            raise KeyError(identity)
        path = self.folder / ("thumbs" if thumb else "photos") / f"{identity}.jpg"
        if not path.is_file() or path.is_symlink():
            raise KeyError(identity)
        return path


def _write_all(file: Any, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _flush_folder(path: Path) -> None:
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def clean_photo(data: bytes, least: int = 1) -> tuple[bytes, bytes, str, tuple[int, int]]:
    """An uploaded picture as (JPEG, thumbnail JPEG, id, (width, height)): upright, bounded, without any metadata.

    Raises Refused: too large, a side of less than `least` pixels, no picture, damaged.
    """
    from PIL import Image, ImageOps

    if len(data) > MAX_UPLOAD:
        raise Refused("photo_bytes", limit=MAX_UPLOAD // 2**20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        try:
            with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
                if picture.width * picture.height > MAX_PIXELS:  # before anything is decoded
                    raise Refused("photo_pixels", limit=MAX_PIXELS // 10**6)
                if min(picture.size) < least:
                    raise Refused("photo_small", limit=least)
                # JPEG decodes smaller at once; a photo of the same pixels takes the same way, so the id stays the same
                picture.draft("RGB", (PHOTO_SIDE, PHOTO_SIDE))
                picture.load()  # what is damaged shows itself here
                try:
                    upright = ImageOps.exif_transpose(picture)
                except Exception:  # of damaged EXIF Pillow raises half a dozen types; the photo itself is whole
                    upright = picture
                if upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info:
                    upright = upright.convert("RGBA")
                    ground = Image.new("RGBA", upright.size, "white")
                    upright = Image.alpha_composite(ground, upright)
                upright = upright.convert("RGB")
        except Image.DecompressionBombError:
            raise Refused("photo_pixels", limit=MAX_PIXELS // 10**6) from None
        except Refused:
            raise
        except (OSError, SyntaxError, ValueError, struct.error, KeyError, IndexError, TypeError, ZeroDivisionError):
            raise Refused("photo_kind", kinds=", ".join(FORMATS)) from None
    upright.thumbnail((PHOTO_SIDE, PHOTO_SIDE))
    clean = Image.frombytes("RGB", upright.size, upright.tobytes())  # pixels alone: no EXIF, profile or comment
    identity = hashlib.sha256(f"{clean.width}x{clean.height} ".encode() + clean.tobytes()).hexdigest()[:32]
    small = clean.copy()
    small.thumbnail((THUMB_SIDE, THUMB_SIDE))
    return _jpeg(clean, 90), _jpeg(small, 80), identity, clean.size


def _jpeg(picture: Any, quality: int) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


# ---- accounts --------------------------------------------------------------------------------------------------------


def name_key(name: str) -> str:
    """A name for comparison: NFKC, case folded, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def clean_name(name: str) -> str:
    """A chosen name as it is kept: 1 to 40 printable characters; Refused otherwise."""
    name = " ".join(unicodedata.normalize("NFKC", name or "").split())
    if not 1 <= len(name) <= 40 or not name.isprintable():
        raise Refused("name")
    return name


def sign_in(store: Store, name: str, phrase: str, auth: str, setup_code: str | None = None) -> str:
    """Id of the account of that name; a new name makes an account.

    `auth` is `pin` (name with PIN or pass-phrase of 4 to 200 characters, kept as scrypt hash) or `none` (name only).
    `setup_code`: where given, `phrase` of a *new* account must be followed by it (the administrator's first sign-in).
    Raises Refused: bad name, short phrase, wrong phrase.
    """
    name = clean_name(name)
    phrase = unicodedata.normalize("NFKC", phrase or "")
    if auth == "pin" and not 4 <= len(phrase) <= 200:
        raise Refused("phrase_length")
    with store.reading() as state:
        known = state.account_by_name(name)
        account = state.accounts[known] if known else None
    if account is None:
        if setup_code is not None:
            chosen, gap, code = phrase.rpartition(" ")
            if not gap or len(chosen) < 4 or not hmac.compare_digest(code.encode(), setup_code.encode()):
                raise Refused("setup_code")
            phrase = chosen
        account = {"name": name, "key": name_key(name), "salt": "", "hash": ""}
        if auth == "pin":
            account["salt"] = secrets.token_hex(16)
            account["hash"] = _hash(phrase, account["salt"])
        identity = "a" + uuid.uuid4().hex[:12]

        def free(state: State) -> None:
            if state.account_by_name(name):
                raise Refused("name_taken")

        try:
            store.append(identity, "account", account, free)
            return identity
        except Refused as refused:
            if refused.key != "name_taken":
                raise
        return sign_in(store, name, phrase, auth)  # somebody made it in between: then the phrase must be theirs
    assert known is not None
    if auth == "pin" and not account["hash"]:
        raise Refused("no_phrase")
    if auth == "pin" and not hmac.compare_digest(_hash(phrase, account["salt"]), account["hash"]):
        raise Refused("phrase_wrong")
    return known


def _hash(phrase: str, salt: str) -> str:
    return hashlib.scrypt(phrase.encode(), salt=bytes.fromhex(salt), **_SCRYPT).hex()


def sign_cookie(secret: bytes, annotator: str) -> str:
    """`annotator` with its signature."""
    return f"{annotator}.{hmac.new(secret, annotator.encode(), 'sha256').hexdigest()}"


def read_cookie(secret: bytes, cookie: str | None) -> str | None:
    """The annotator whose cookie this is; None where it was not made with `secret`."""
    annotator = (cookie or "").rpartition(".")[0]
    good = annotator and hmac.compare_digest(sign_cookie(secret, annotator).encode(), (cookie or "").encode())
    return annotator if good else None
