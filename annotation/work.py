"""Who verifies what, and the answers: two verifiers for each question, never its author, loads even, options shuffled.

Verifiers answer on their own (Li et al. 2024, sections 3.4.1 and 4): the page shows neither the right answer nor what
others said, and an answer's record holds neither; `annotation.export` joins the truth when it scores.
"""

import hashlib
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from annotation.forms import Reading, Settings, save_draft
from annotation.store import Event, Refused, State, Store, new_event
from data.records import LETTERS

DONT_KNOW = "?"
OUTCOMES: tuple[str, ...] = ("open", "partly", "agree", "disagree", "unknown", "bad")


def may_verify(state: State, settings: Settings, question: str, annotator: str) -> bool:
    """Whether a person may verify a question: not its author, nor (`blind`) who knows the dishes on its photos."""
    record = state.questions[question]
    if record["annotator"] == annotator:
        return False
    if settings.blind:
        for photo in record.get("photos", []):
            review = state.reviews.get(photo)
            if state.photos.get(photo, {}).get("annotator") == annotator or (review and review.annotator == annotator):
                return False
    return True


def plan(state: State, settings: Settings, now: datetime | None = None) -> dict[str, list[str]]:
    """Assignments that should change: question -> its verifiers from now on.

    Free places go to the eligible person with the least work. Then work moves from the busiest to the least busy until
    their loads differ by one at most, or nothing can move: what was opened or answered stays where it is, except with
    people not seen for `active_days`, whose unanswered share is given away.
    """
    now = now or datetime.now(UTC)
    limit = (now - timedelta(days=settings.active_days)).isoformat(timespec="milliseconds")
    active = [who for who, seen in state.verifiers.items() if seen >= limit]
    questions = state.live_questions()
    assigned: dict[str, list[str]] = {}
    load = dict.fromkeys(active, 0)
    for question in questions:
        answered = state.current_answers(question)
        # whoever has answered stays, also where an import or an older setting brought them here
        kept = [who for who in state.assigned.get(question, []) if who in answered or who in load]
        kept += [who for who in answered if who not in kept]
        kept = [who for who in kept if who in answered or may_verify(state, settings, question, who)]
        assigned[question] = kept
        for who in kept:
            if who in load:
                load[who] += 1
    for question in questions:
        places = assigned[question]
        while len(places) < settings.verifiers:
            free = [w for w in active if w not in places and may_verify(state, settings, question, w)]
            if not free:
                break
            chosen = min(free, key=lambda who: (load[who], _lot(question, who)))
            places.append(chosen)
            load[chosen] += 1
    movable: dict[str, list[str]] = {who: [] for who in active}
    for question in questions:
        answered = state.current_answers(question)
        for who in assigned[question]:
            if who in movable and who not in answered and (question, who) not in state.opened:
                movable[who].append(question)
    for busy, idle, question in _moves(load, movable, assigned, lambda q, who: may_verify(state, settings, q, who)):
        assigned[question] = [idle if who == busy else who for who in assigned[question]]
    return {question: who for question, who in assigned.items() if who != state.assigned.get(question, [])}


def _moves(load: dict[str, int], movable: dict[str, list[str]], assigned: dict[str, list[str]], eligible: Any) -> Any:
    """Moves (from, to, question) that even out `load`, which is kept up to date; the last of a pile goes first."""
    while True:
        order = sorted(load, key=lambda who: load[who])
        move = None
        for busy in reversed(order):
            for idle in order:
                if load[busy] - load[idle] < 2:
                    break
                fits = (q for q in reversed(movable[busy]) if idle not in assigned[q] and eligible(q, idle))
                question = next(fits, None)
                if question is not None:
                    move = busy, idle, question
                    break
            if move:
                break
        if move is None:
            return
        busy, idle, question = move
        load[busy] -= 1
        load[idle] += 1
        movable[busy].remove(question)
        movable[idle].append(question)
        yield move


def _lot(*parts: str) -> str:
    """A lot that falls alike every time: ties must not all go to the first account."""
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()


def join_and_assign(store: Store, settings: Settings, annotator: str) -> None:
    """Somebody comes to the verification page: they are a verifier, and the work is dealt out anew."""

    def build(state: State) -> list[Event]:
        now = datetime.now(UTC)
        seen = state.verifiers.get(annotator)
        events = []
        # once an hour is enough to be known as active
        if seen is None or seen < (now - timedelta(hours=1)).isoformat(timespec="milliseconds"):
            events.append(new_event(annotator, "verifier", {}))
            state.verifiers[annotator] = events[0].time  # what the event will do, ahead of the plan
        changes = plan(state, settings, now)
        if changes:
            events.append(new_event("", "assign", {"assigned": changes}))
        return events

    store.transact(build)


def queue_of(state: State, annotator: str) -> list[str]:
    """The questions a person verifies, in an order of their own that stays as it is."""
    live = set(state.live_questions())
    mine = [q for q, who in state.assigned.items() if annotator in who and q in live]
    return sorted(mine, key=lambda question: _lot(annotator, question))


def first_open(state: State, annotator: str) -> str | None:
    """Where a person goes on: the first question without their answer, else the last one."""
    queue = queue_of(state, annotator)
    open_ones = (question for question in queue if annotator not in state.current_answers(question))
    return next(open_ones, queue[-1] if queue else None)


def order_for(question: str, annotator: str) -> tuple[int, ...]:
    """Option `order[i]` is shown at place i: another order for each person, the same whenever it is asked for."""
    places = list(range(4))
    random.Random(_lot("order", question, annotator)).shuffle(places)
    return tuple(places)


@dataclass(frozen=True, slots=True)
class Sheet:
    """One question as its verifier sees it: no truth, no dish name, no author, no path."""

    question: str  # id
    task: str
    text: str
    options: tuple[str, ...]  # four texts as shown; empty where the photos are the options
    photos: tuple[str, ...]  # ids, as shown
    order: tuple[int, ...]
    version: str
    fields: dict[str, Any]  # draft, else the earlier answer: choice (A-D, ? or ""), guess, rationale, hops, bad, ...
    answered: bool
    place: int  # in the queue, from 0
    total: int


def open_question(store: Store, annotator: str, question: str) -> Sheet:
    """Show a question to one of its verifiers; the first time is recorded with the order of its options."""
    with store.reading() as state:
        queue = queue_of(state, annotator)
        if question not in queue:
            raise Refused("not_assigned")
        order = order_for(question, annotator)
        record = state.questions[question]
        known = state.opened.get((question, annotator), {}).get("version") == record["version"]
        answer = state.current_answers(question).get(annotator)
        fields: dict[str, Any] = {}
        if answer is not None:
            fields = _fields_of(answer.payload)
        draft = state.drafts.get((annotator, f"verify/{question}"))
        if draft is not None and draft.get("version") == record["version"]:
            fields = {name: value for name, value in draft.items() if name != "version"}
        photos = tuple(record.get("photos", []))
        if not record["choices"]:
            photos = tuple(photos[i] for i in order)
        options = tuple(record["choices"][i] for i in order) if record["choices"] else ()
        sheet = Sheet(
            question=question,
            task=record["task"],
            text=record["question"],
            options=options,
            photos=photos,
            order=order,
            version=record["version"],
            fields=fields,
            answered=answer is not None,
            place=queue.index(question),
            total=len(queue),
        )
    if not known:
        store.append(annotator, "open", {"question": question, "order": list(order), "version": sheet.version})
    return sheet


def _fields_of(payload: Mapping[str, Any]) -> dict[str, Any]:
    """An answer as the form shows it: options as letters of the order shown."""
    order = payload["order"]

    def letter(option: int | None) -> str:
        return "" if option is None else LETTERS[order.index(option)]

    return {
        "choice": DONT_KNOW if payload["dont_know"] else letter(payload["choice"]),
        "guess": letter(payload["guess"]),
        "rationale": payload["rationale"],
        "hops": payload["hops"],
        "bad": payload["bad"],
        "bad_reason": payload["bad_reason"],
    }


def draft_answer(store: Store, annotator: str, question: str, fields: Mapping[str, Any]) -> bool:
    """Keep what a verifier has typed so far; returns whether it was new."""
    kept = {
        name: str(fields.get(name) or "").strip() for name in ("choice", "guess", "rationale", "hops", "bad_reason")
    }
    bad = fields.get("bad") is True
    kept["guess"] = kept["guess"] if kept["choice"] == DONT_KNOW else ""  # what the page hides does not count
    kept["bad_reason"] = kept["bad_reason"] if bad else ""
    with store.reading() as state:
        if question not in queue_of(state, annotator):
            raise Refused("not_assigned")
        version = state.questions[question]["version"]

    def finished(state: State) -> bool:
        answer = state.current_answers(question).get(annotator)
        before = _fields_of(answer.payload) if answer else {**dict.fromkeys(kept, ""), "bad": False}
        return before == {**kept, "bad": bad}

    return save_draft(store, annotator, f"verify/{question}", {**kept, "bad": bad, "version": version}, finished)


def save_answer(
    store: Store,
    settings: Settings,
    annotator: str,
    question: str,
    fields: Mapping[str, Any],
    seconds: float | None = None,
    version: str | None = None,
) -> Event:
    """Record a verifier's answer, new or changed.

    `choice` is a letter as shown, or `?` for "I don't know" with an optional `guess`; a bad question needs a reason and
    nothing else. `seconds`: time on the page. `version`: of the question that was shown; where its author has changed
    it since, the answer is refused and the verifier sees the new text.
    """
    with store.reading() as state:
        if question not in queue_of(state, annotator):
            raise Refused("not_assigned")
        task, current = state.questions[question]["task"], state.questions[question]["version"]
    if version is not None and version != current:
        raise Refused("question_changed")
    order = order_for(question, annotator)
    read = Reading()
    bad = fields.get("bad") is True
    choice = read.one_of(fields.get("choice"), (*LETTERS, DONT_KNOW), "choice", required=not bad)
    guess = read.one_of(fields.get("guess"), LETTERS, "guess", required=False)
    known = bool(choice) and choice != DONT_KNOW and not bad
    rationale = read.text(fields.get("rationale"), "rationale", required=known and task in settings.rationale)
    hops = read.one_of(fields.get("hops"), ("single", "multiple"), "hops", required=known and task in settings.hops)
    reason = read.text(fields.get("bad_reason"), "bad_reason", required=bad)
    read.done()

    def option(letter: str) -> int | None:
        return order[LETTERS.index(letter)] if letter in LETTERS and letter else None

    payload = {
        "question": question,
        "version": current,
        "order": list(order),
        "shown": choice,  # the letter that was pressed
        "choice": option(choice) if choice != DONT_KNOW else None,  # the option in the question's own order
        "dont_know": choice == DONT_KNOW,
        "guess": option(guess) if choice == DONT_KNOW else None,
        "rationale": rationale,
        "hops": hops,
        "bad": bad,
        "bad_reason": reason if bad else "",
        "seconds": None if seconds is None else round(min(max(seconds, 0.0), 86_400.0), 1),
    }

    def check(state: State) -> None:
        if question not in queue_of(state, annotator):
            raise Refused("not_assigned")
        if state.questions[question]["version"] != current:
            raise Refused("question_changed")

    return store.append(annotator, "answer", payload, check)


def retract_answer(store: Store, annotator: str, question: str) -> None:
    """Take an answer back; it stays in the log and no longer counts."""

    def check(state: State) -> None:
        if annotator not in state.answers.get(question, {}):
            raise Refused("no_answer")

    store.append(annotator, "retract", {"question": question}, check)


# ---- progress --------------------------------------------------------------------------------------------------------


def progress(state: State) -> list[dict[str, Any]]:
    """One row for each account: photos sent, photos judged, dishes, questions written, verified, assigned."""
    live_questions, live_photos = state.live_questions(), state.live_photos()
    rows = []
    people = [
        *state.accounts,
        *sorted({who for given in state.answers.values() for who in given} - set(state.accounts)),
    ]
    for who in people:
        queue = queue_of(state, who)
        rows.append(
            {
                "annotator": who,
                "name": state.name(who),
                "photos": sum(state.photos[photo]["annotator"] == who for photo in live_photos),
                "reviews": sum(review.annotator == who for review in state.reviews.values()),
                "dishes": sum(d["annotator"] == who and k not in state.withdrawn for k, d in state.dishes.items()),
                "questions": sum(state.questions[q]["annotator"] == who for q in live_questions),
                "verified": sum(who in state.current_answers(q) for q in queue),
                "assigned": len(queue),
            }
        )
    return rows


def standing(state: State, settings: Settings, questions: Iterable[str] | None = None) -> dict[str, int]:
    """How many questions wait for verifiers, are under way, agree, disagree, or are flagged as bad."""
    counts: dict[str, int] = dict.fromkeys(OUTCOMES, 0)
    for question in state.live_questions() if questions is None else questions:
        counts[outcome(state, settings, question)] += 1
    return counts


def outcome(state: State, settings: Settings, question: str) -> str:
    """`open`, `partly`, `bad` (flagged by any), `unknown` (somebody does not know), `agree` or `disagree`."""
    payloads = [event.payload for event in state.current_answers(question).values()]
    if any(payload["bad"] for payload in payloads):
        return "bad"
    if len(payloads) < settings.verifiers:
        return "partly" if payloads else "open"
    if any(payload["dont_know"] for payload in payloads):
        return "unknown"
    return "agree" if len({payload["choice"] for payload in payloads}) == 1 else "disagree"
