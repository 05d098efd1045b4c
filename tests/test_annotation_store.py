"""The annotation store, its forms, the dealing out of work, exports and imports; no browser and no server."""

import io
import json
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from PIL import Image

from annotation import export, forms, work
from annotation.forms import Settings, read_settings
from annotation.store import LOG, Refused, Store, clean_photo, read_cookie, sign_cookie, sign_in
from annotation.words import _WORDS, message, say
from data.dish_table import read_dishes
from data.errors import InputError
from data.foodieqa import read_file
from data.verification import read_records
from models.agreement import validate
from tests.made_up_foodieqa import write_release
from tests.runs import ROOT, composed


@pytest.fixture(scope="module")
def settings() -> Settings:
    return read_settings(composed("annotate", []))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def photo(seed: int = 0, size: tuple[int, int] = (96, 80), kind: str = "PNG", **save: Any) -> bytes:
    colour = tuple(random.Random(seed).randrange(256) for _ in range(3))
    picture = Image.new("RGB", size, colour)
    picture.paste((255 - colour[0], 0, 0), (0, 0, size[0] // 3, size[1] // 4))
    buffer = io.BytesIO()
    picture.save(buffer, kind, **save)
    return buffer.getvalue()


def person(store: Store, name: str) -> str:
    return sign_in(store, name, "", "none")


def upload(store: Store, settings: Settings, who: str, seeds: list[int], **fields: Any) -> list[str]:
    given = {"cuisine": "川菜", "dish_name": "样品菜", "place": "餐馆", "consent": True, **fields}
    return forms.submit_photos(store, settings, who, [photo(seed) for seed in seeds], given)[0]


def accepted(store: Store, settings: Settings, who: str, reviewer: str, seeds: list[int]) -> list[str]:
    photos = upload(store, settings, who, seeds)
    for one in photos:
        forms.review_photo(store, settings, reviewer, one, {"verdict": "accept", "category": "meat"})
    return photos


SLOT = {"question": "哪一道是红色？", "kind": "images", "answer": "B", "question_type": "color"}
TEXTS = {
    "question": "左上角的菜怎么做？", "kind": "texts", "choices": ["蒸", "炒", "炖", "炸"], "answer": "D",
    "question_type": "cooking-skills", "question_en": "How is it cooked?",
}  # fmt: skip
REASONED = {"rationale": "看颜色", "hops": "single"}


def written(store: Store, settings: Settings) -> tuple[str, str, list[str]]:
    """An author and a reviewer with one group of four photos and two questions."""
    author, reviewer = person(store, "author"), person(store, "reviewer")
    photos = accepted(store, settings, author, reviewer, [1, 2, 3, 4])
    group = forms.make_group(store, author, "cuisine", "川菜", photos)
    return author, reviewer, forms.write_questions(store, settings, author, group, [SLOT, {}, TEXTS])


def textqa_file(folder: Path, n: int) -> Path:
    records = [
        {
            "question": f"样品{i}是什么口味?", "choices": ["酸", "甜", "苦", "辣"], "answer": str(i % 4),
            "question_type": "flavor", "food_name": f"样品{i}", "cuisine_type": "川菜", "question_id": f"textqa-{i}",
        }
        for i in range(n)
    ]  # fmt: skip
    path = folder / "textqa_tidy.json"
    path.write_text(json.dumps(records, ensure_ascii=False), encoding="utf-8")
    return path


def answers_of(store: Store) -> list[dict[str, Any]]:
    lines = (store.folder / LOG).read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["payload"] for line in lines if '"kind": "answer"' in line]


# ---- the log ---------------------------------------------------------------------------------------------------------


def _append_many(folder: Path, number: int, count: int) -> None:
    store = Store(folder)
    threads = [
        threading.Thread(
            target=lambda part=part: [
                store.append(f"p{number}", "draft", {"form": f"{number}/{part}/{i}", "fields": {"text": "字" * 40}})
                for i in range(count)
            ]
        )
        for part in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_processes_and_threads_append_at_once(tmp_path: Path) -> None:
    """Four processes of two threads each: every event is there, whole, once, and everybody replays the same."""
    folder = tmp_path / "store"
    watching = Store(folder)
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_append_many, args=(folder, number, 25)) for number in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    events = [json.loads(line) for line in (folder / LOG).read_text(encoding="utf-8").splitlines()]
    forms_seen = {event["payload"]["form"] for event in events}
    assert forms_seen == {f"{n}/{part}/{i}" for n in range(4) for part in range(2) for i in range(25)}
    assert len(events) == len({event["id"] for event in events}) == 200
    assert watching.notes == []
    with watching.reading() as state, Store(folder).reading() as fresh:
        assert state.drafts == fresh.drafts
        assert state.events == 200


_WRITER = """
import sys
from annotation.store import Store
store = Store(sys.argv[1])
for i in range(100000):
    event = store.append("w" + sys.argv[2], "draft", {"form": str(i), "fields": {"text": "x" * (i * 37 % 3000)}})
    sys.stdout.write(event.id + "\\n")
    sys.stdout.flush()
"""


def test_kill_loses_no_acknowledged_event(tmp_path: Path) -> None:
    """Two writers are killed (-9) at a random moment, three times over the same store."""
    folder, acknowledged = tmp_path / "store", set()
    for round_ in range(3):
        command = [sys.executable, "-c", _WRITER, str(folder)]
        writers = [
            subprocess.Popen([*command, f"{round_}{n}"], cwd=ROOT, stdout=subprocess.PIPE, text=True) for n in range(2)
        ]
        for writer in writers:
            assert writer.stdout is not None
            acknowledged.add(writer.stdout.readline().strip())
        time.sleep(random.Random(round_).uniform(0.05, 0.4))
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
        for writer in writers:
            assert writer.stdout is not None
            # a line that was cut in the pipe was not read by anybody either
            acknowledged |= {line.strip() for line in writer.stdout if line.endswith("\n")}
            writer.wait()
    store = Store(folder)
    kept = set()
    for line in (folder / LOG).read_bytes().splitlines():
        try:
            kept.add(json.loads(line)["id"])
        except ValueError:
            assert store.notes  # a torn line is told of
    assert len(acknowledged) > 6
    assert acknowledged <= kept


def test_torn_last_line_is_left_out_and_closed(store: Store) -> None:
    store.append("a", "draft", {"form": "one", "fields": {"x": 1}})
    with open(store.folder / LOG, "ab") as file:
        file.write(b'{"id": "half", "time": "2026-01-01T00:00:00')
    again = Store(store.folder)
    with again.reading() as state:
        assert list(state.drafts) == [("a", "one")]
    assert again.notes == []  # it may still be being written by another process
    again.append("a", "draft", {"form": "two", "fields": {"x": 2}})
    assert len(again.notes) == 1 and "line 2" in again.notes[0]
    last = Store(store.folder)
    with last.reading() as state, store.reading() as first:
        assert set(state.drafts) == set(first.drafts) == {("a", "one"), ("a", "two")}
    assert len(last.notes) == 1


@given(cut=st.integers(0, 400))
@profile(max_examples=25, deadline=None)
def test_a_log_cut_anywhere_replays_its_whole_lines(cut: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    store = Store(tmp_path_factory.mktemp("cut"))
    for i in range(3):
        store.append("谁", "draft", {"form": str(i), "fields": {"text": "汉字"}})
    path = store.folder / LOG
    data = path.read_bytes()[:-cut] if cut else path.read_bytes()
    path.write_bytes(data)
    again = Store(store.folder)
    with again.reading() as state:
        assert len(state.drafts) == data.count(b"\n")
    again.append("谁", "draft", {"form": "new", "fields": {"text": "字"}})
    with Store(store.folder).reading() as state:
        assert len(state.drafts) == data.count(b"\n") + 1


def test_a_refused_check_leaves_the_log_as_it_was(store: Store) -> None:
    before = (store.folder / LOG).read_bytes()

    def no(state: Any) -> None:
        raise Refused("gone")

    with pytest.raises(Refused):
        store.append("a", "draft", {"form": "x", "fields": {"y": 1}}, no)
    with pytest.raises(Refused):
        store.append("a", "draft", {"form": "x", "fields": {"y": "z" * 300_000}})
    assert (store.folder / LOG).read_bytes() == before


def test_a_full_disk_is_no_acknowledgement(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.append("a", "draft", {"form": "one", "fields": {"x": 1}})

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(Refused) as refused:
            store.append("a", "draft", {"form": "two", "fields": {"x": 1}})
    assert refused.value.key == "disk"
    store.append("a", "draft", {"form": "three", "fields": {"x": 1}})
    with store.reading() as state, Store(store.folder).reading() as fresh:
        assert state.drafts == fresh.drafts
        assert ("a", "three") in state.drafts


def test_unknown_kinds_and_broken_lines_are_skipped(store: Store) -> None:
    store.append("a", "dance", {"x": 1})
    with open(store.folder / LOG, "ab") as file:
        file.write(b'[1]\n\xff\xfe\n{"id": 1}\n' + b"[" * 100_000 + b"\n")
    again = Store(store.folder)
    with again.reading() as state:
        assert state.unknown == 1
    assert len(again.notes) == 4


def test_a_log_that_shrank_stops_the_store(store: Store) -> None:
    store.append("a", "draft", {"form": "one", "fields": {"x": 1}})
    (store.folder / LOG).write_bytes(b"")
    with pytest.raises(InputError, match="shorter"):
        store.refresh()


# ---- photos ----------------------------------------------------------------------------------------------------------


def test_photos_are_upright_bounded_and_without_metadata(store: Store) -> None:
    exif = Image.Exif()
    exif[0x0112], exif[0x010E], exif[0x8825] = 6, "SECRET PLACE", {1: "N"}
    picture = Image.new("RGB", (3000, 1000), "red")
    picture.paste("blue", (0, 0, 1500, 1000))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", exif=exif, comment=b"SECRET COMMENT")
    identity, width, height = store.keep_photo(buffer.getvalue())
    path = store.photo_path(identity)
    with Image.open(path) as kept:
        assert kept.size == (width, height)
        assert width < height <= 2048
        assert not kept.getexif()
        assert kept.getpixel((width // 2, 10))[2] > 200  # type: ignore[index] (the left half is on top now)
    assert b"SECRET" not in path.read_bytes()
    assert store.photo_path(identity, thumb=True).stat().st_size < path.stat().st_size


def test_the_same_photo_has_the_same_id(store: Store) -> None:
    picture = Image.open(io.BytesIO(photo(5)))
    exif = Image.Exif()
    exif[0x010E] = "another description"
    buffer = io.BytesIO()
    picture.save(buffer, "PNG", exif=exif)
    assert store.keep_photo(photo(5))[0] == store.keep_photo(buffer.getvalue())[0]
    assert store.keep_photo(photo(6))[0] != store.keep_photo(photo(5))[0]
    assert len(list((store.folder / "photos").iterdir())) == 2


@pytest.mark.parametrize(
    ("data", "key"),
    [
        (b"", "photo_kind"),
        (b"<svg onload=alert(1)>", "photo_kind"),
        (photo(1)[:200], "photo_kind"),
        (photo(1, kind="BMP"), "photo_kind"),
        (photo(1, (20, 400)), "photo_small"),
        (b"x" * (25 * 2**20 + 1), "photo_bytes"),
    ],
)
def test_what_is_no_photo_is_refused(data: bytes, key: str) -> None:
    with pytest.raises(Refused) as refused:
        clean_photo(data, least=64)
    assert refused.value.key == key


def test_a_bomb_is_refused_by_its_header() -> None:
    buffer = io.BytesIO()
    Image.new("1", (9000, 9000)).save(buffer, "PNG")
    with pytest.raises(Refused) as refused:
        clean_photo(buffer.getvalue())
    assert refused.value.key == "photo_pixels"


@pytest.mark.parametrize("identity", ["../../etc/passwd", "..", "", "a" * 32, "A" * 32, "/etc/passwd", "0" * 31 + "\n"])
def test_only_ids_name_photos(store: Store, identity: str) -> None:
    (store.folder / "passwd").write_text("x")
    with pytest.raises(KeyError):
        store.photo_path(identity)


def test_uploads_are_checked_on_the_server(store: Store, settings: Settings) -> None:
    who = person(store, "上传者")
    with pytest.raises(Refused) as refused:
        forms.submit_photos(store, settings, who, [], {"cuisine": "nowhere", "consent": "yes"})
    text = message(refused.value, "en")
    for word in ("Cuisine", "Dish name", "Where it was served", "photos", "consent"):
        assert word in text
    fresh, known = forms.submit_photos(
        store, settings, who, [photo(1), photo(2), photo(1)],
        {"cuisine": "其他", "cuisine_other": "客家", "dish_name": "样品", "place": "外卖", "consent": True},
    )  # fmt: skip
    assert (len(fresh), known) == (2, 1)
    assert upload(store, settings, person(store, "another"), [2]) == []
    with store.reading() as state:
        assert state.photos[fresh[1]]["annotator"] == who  # a duplicate changes nothing
    with pytest.raises(Refused, match="not_yours"):
        forms.withdraw_photo(store, person(store, "another"), fresh[0])
    forms.withdraw_photo(store, who, fresh[0])
    with store.reading() as state:
        assert state.live_photos() == [fresh[1]]
    assert upload(store, settings, who, [1]) == [fresh[0]]  # may come back


def test_reviews(store: Store, settings: Settings) -> None:
    who, other = person(store, "a"), person(store, "b")
    (one,) = upload(store, settings, who, [1])
    with pytest.raises(Refused, match="own_photo"):
        forms.review_photo(store, settings, who, one, {"verdict": "accept", "category": "meat"})
    for fields in ({"verdict": "accept"}, {"verdict": "reject"}, {"verdict": "reject", "reason": "other"}, {}):
        with pytest.raises(Refused):
            forms.review_photo(store, settings, other, one, fields)
    forms.review_photo(store, settings, other, one, {"verdict": "reject", "reason": "blurry"})
    forms.review_photo(store, settings, other, one, {"verdict": "accept", "category": "tofu"})
    with store.reading() as state:
        assert state.verdict(one) == "accept"


# ---- accounts --------------------------------------------------------------------------------------------------------


def test_accounts_are_stable_and_phrases_are_hashed(store: Store) -> None:
    one = sign_in(store, " 王 小明 ", "口令1234", "pin")
    again = Store(store.folder)
    assert sign_in(again, "王　小明", "口令1234", "pin") == one  # full-width blank
    with pytest.raises(Refused, match="phrase_wrong"):
        sign_in(again, "王 小明", "口令12345", "pin")
    for name, phrase, key in (
        ("", "1234", "name"),
        ("x" * 41, "1234", "name"),
        ("a\x00", "1234", "name"),
        ("b", "123", "phrase_length"),
    ):
        with pytest.raises(Refused, match=key):
            sign_in(again, name, phrase, "pin")
    log = (store.folder / LOG).read_text(encoding="utf-8")
    assert "1234" not in log.replace(one, "")


def test_two_with_the_same_new_name_become_one_or_are_refused(store: Store) -> None:
    results: list[Any] = []

    def enter(phrase: str) -> None:
        try:
            results.append(sign_in(Store(store.folder), "Twin", phrase, "pin"))
        except Refused as refused:
            results.append(refused.key)

    threads = [threading.Thread(target=enter, args=(phrase,)) for phrase in ("1111", "2222", "1111")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with store.reading() as state:
        assert len(state.accounts) == 1
        (account,) = state.accounts
    assert set(results) <= {account, "phrase_wrong"} and account in results


def test_cookies_are_signed(store: Store) -> None:
    secret = store.secret()
    assert secret == Store(store.folder).secret()
    assert (store.folder / ".secret").stat().st_mode & 0o077 == 0
    cookie = sign_cookie(secret, "a123")
    assert read_cookie(secret, cookie) == "a123"
    for forged in (
        None,
        "",
        "a123",
        "a124" + cookie[4:],
        cookie[:-1],
        cookie + "0",
        "é.é",
        sign_cookie(b"x" * 32, "a123"),
    ):
        assert read_cookie(secret, forged) is None


def test_the_administrator_needs_the_setup_code(store: Store) -> None:
    for phrase in ("1234", "1234 wrong", "code99", " code99"):
        with pytest.raises(Refused, match="setup_code"):
            sign_in(store, "admin", phrase, "pin", "code99")
    one = sign_in(store, "admin", "12 34 code99", "pin", "code99")
    assert sign_in(store, "admin", "12 34", "pin") == one


# ---- dishes, groups, questions ---------------------------------------------------------------------------------------

TOFU = {
    "food_category": "豆制品", "dish_name": "麻婆豆腐", "alternative_names": "", "main_ingredient": "豆腐",
    "main_ingredient_traits": "嫩滑", "key_ingredients": "豆瓣酱、花椒、牛肉末", "flavor": "麻辣；鲜香",
    "presentation_style": "深盘", "color": "红", "serving_temperature": "热", "dishware": "深盘", "region": "川渝",
    "province": "四川", "cuisine_type": "川菜", "cooking_techniques": "焯；炒；勾芡", "eating_habits": "",
    "reference_links": "https://example.org/a\nhttps://example.org/b",
}  # fmt: skip


def test_dishes_are_checked_and_exported_as_the_table(store: Store, settings: Settings, tmp_path: Path) -> None:
    who = person(store, "a")
    with pytest.raises(Refused) as refused:
        forms.save_dish(store, who, None, {"dish_name": "麻婆豆腐", "key_ingredients": "盐"})
    assert "口味" in message(refused.value, "zh") and "现在是 1 个" in message(refused.value, "zh")
    forms.save_draft(store, who, "dish/new", {"dish_name": "麻"})
    one = forms.save_dish(store, who, None, TOFU)
    with pytest.raises(Refused, match="dish_known"):
        forms.save_dish(store, who, None, {**TOFU, "dish_name": "麻辣豆腐", "alternative_names": "麻婆豆腐"})
    for wrong in ({"serving_temperature": "luke"}, {"reference_links": "javascript:alert(1)"}):
        with pytest.raises(Refused, match="fact_wrong"):
            forms.save_dish(store, who, None, {**TOFU, "dish_name": "另一道", **wrong})
    forms.save_dish(store, person(store, "b"), one, {**TOFU, "color": "红；白"})
    with store.reading() as state:
        assert state.drafts == {}
        assert state.dishes[one]["annotator"] == who
    export.export(store, settings, tmp_path / "out")
    for name in ("dishes.csv", "dishes.json"):
        (dish,) = read_dishes(tmp_path / "out" / name)
        assert [c.zh for c in dish.color] == ["红", "白"]
        assert [k.zh for k in dish.key_ingredients] == ["豆瓣酱", "花椒", "牛肉末"]
        assert len(dish.reference_links) == 2


def test_groups_hold_four_free_accepted_photos(store: Store, settings: Settings) -> None:
    author, reviewer = person(store, "a"), person(store, "b")
    photos = accepted(store, settings, author, reviewer, [1, 2, 3, 4, 5])
    (waiting,) = upload(store, settings, author, [6])
    for chosen in (photos[:3], [*photos[:3], photos[0]], photos, [*photos[:3], waiting], [*photos[:3], "f" * 32]):
        with pytest.raises(Refused):
            forms.make_group(store, author, "cuisine", "川菜", chosen)
    group = forms.make_group(store, author, "cuisine", "川菜", photos[:4])
    with store.reading() as state:
        assert forms.ungrouped(state, "cuisine", "川菜") == [photos[4]]
        assert len(forms.ungrouped(state, "category", "meat")) == 5  # the other kind of group is apart
    with pytest.raises(Refused, match="not_yours"):
        forms.split_group(store, reviewer, group)
    forms.split_group(store, author, group)
    group = forms.make_group(store, author, "category", "meat", photos[1:])
    forms.write_questions(store, settings, author, group, [SLOT, TEXTS])
    with pytest.raises(Refused, match="group_used"):
        forms.split_group(store, author, group)


def test_pages_of_questions(store: Store, settings: Settings) -> None:
    author, _, questions = written(store, settings)
    assert [question[-2:] for question in questions] == ["_0", "_2"]  # the empty slot is dropped
    with store.reading() as state:
        group = next(iter(state.groups))
        slots = forms.written_page(state, group, author)
    assert slots[0]["answer"] == "B" and slots[1] == {} and slots[2]["choices"] == TEXTS["choices"]
    bad = [
        ([SLOT], "at least|Write 2"),
        ([SLOT, {**TEXTS, "answer": "AB"}], "Question 2: Missing: Right answer"),
        ([SLOT, {**TEXTS, "choices": ["蒸", "炒", "炖", " 炒"]}], "must differ"),
        ([SLOT, {**TEXTS, "choices": ["Ａ", "a", "b", "c"]}], "must differ"),  # equal after NFKC and case folding
        ([SLOT, {**TEXTS, "choices": ["蒸", "炒", "炖"]}], "Missing: Option D"),
        ([SLOT, {**TEXTS, "question_type": "magic"}], "Missing: Question type"),
        ([SLOT, {**SLOT, "answer": "C"}], "the same"),
        ([SLOT, {"question": "", "answer": "A"}], "Missing: Question"),
        ([SLOT, {**TEXTS, "question": "长" * 2001}], "too long"),
    ]
    for page, text in bad:
        with pytest.raises(Refused) as refused:
            forms.write_questions(store, settings, author, group, page)
        assert re.search(text, message(refused.value, "en")), message(refused.value, "en")
    # a draft is shown in place of what was saved, until the page is saved again
    forms.save_draft(store, author, f"write/{group}", {"slots": [{"question": "草稿"}]})
    with store.reading() as state:
        assert forms.written_page(state, group, author)[0] == {"question": "草稿"}
    forms.write_questions(store, settings, author, group, [TEXTS, {**SLOT, "answer": "A"}])
    with store.reading() as state:
        assert state.drafts == {}
        assert state.live_questions() == [questions[0], questions[0][:-1] + "1"]  # slot 3 was emptied


def test_a_late_draft_does_not_come_back_after_saving(store: Store, settings: Settings) -> None:
    author, _, questions = written(store, settings)
    with store.reading() as state:
        group = next(iter(state.groups))
    late = [{**SLOT, "question": SLOT["question"] + " "}, {}, TEXTS]

    def finished(state: Any) -> bool:
        return forms.same_slots(late, forms.saved_page(state, group, author))

    assert not forms.save_draft(store, author, f"write/{group}", {"slots": late}, finished)
    verifier = person(store, "v")
    work.join_and_assign(store, settings, verifier)
    fields = {"choice": "A", **REASONED}
    assert work.draft_answer(store, verifier, questions[0], fields)
    work.save_answer(store, settings, verifier, questions[0], fields)
    assert not work.draft_answer(store, verifier, questions[0], {**fields, "guess": "B"})
    with store.reading() as state:
        assert state.drafts == {}


# ---- dealing out work ------------------------------------------------------------------------------------------------


def test_two_verifiers_never_the_author_nor_who_knows_the_dish(store: Store, settings: Settings) -> None:
    author, reviewer, questions = written(store, settings)
    others = [person(store, name) for name in ("c", "d", "e")]
    for who in (author, reviewer, *others):
        work.join_and_assign(store, settings, who)
    with store.reading() as state:
        for question in questions:
            assert len(set(state.assigned[question])) == 2
            assert set(state.assigned[question]) <= set(others)
        assert work.queue_of(state, author) == work.queue_of(state, reviewer) == []
    with pytest.raises(Refused, match="not_assigned"):
        work.save_answer(store, settings, author, questions[0], {"choice": "A", **REASONED})


@given(
    authors=st.lists(st.integers(0, 4), min_size=1, max_size=40),
    order=st.permutations(range(5)),
    done=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 39)), max_size=30),
)
@profile(max_examples=30, deadline=None)
def test_loads_are_even_whoever_comes_when(
    authors: list[int], order: list[int], done: list[tuple[int, int]], settings: Settings,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    """Every question gets two people who did not write it; loads differ by one where nobody is bound by authorship."""
    store = Store(tmp_path_factory.mktemp("even"))
    people = [person(store, f"p{i}") for i in range(5)]
    records = [
        {
            "question_id": f"q{i}", "task": "textqa", "photos": [], "question": f"?{i}", "choices": list("1234"),
            "answer": 0, "question_type": "flavor", "version": f"v{i}",
        }
        for i in range(len(authors))
    ]  # fmt: skip
    for i, author in enumerate(authors):
        store.append(people[author], "question", records[i])
    todo = list(done)
    for place, number in enumerate(order):
        work.join_and_assign(store, settings, people[number])
        for who, question in todo[place * 6 : place * 6 + 6]:
            with store.reading() as state:
                mine = work.queue_of(state, people[who])
            if f"q{question}" in mine:
                work.save_answer(store, settings, people[who], f"q{question}", {"choice": "A", "hops": "single"})
    with store.reading() as state:
        assert work.plan(state, settings) == {}  # settled
        loads = dict.fromkeys(people, 0)
        for i, author in enumerate(authors):
            verifiers = state.assigned[f"q{i}"]
            assert len(set(verifiers)) == len(verifiers) == 2
            assert people[author] not in verifiers
            for who in verifiers:
                loads[who] += 1
        for question, answers in state.answers.items():
            assert set(answers) <= set(state.assigned[question])  # who has answered keeps the question
        if not done:
            movable = [w for w in people]
            for busy in movable:
                for idle in movable:
                    if loads[busy] - loads[idle] > 1:  # then every one of its questions is barred to the other
                        mine = [q for q, who in state.assigned.items() if busy in who]
                        assert all(
                            idle in state.assigned[q] or not work.may_verify(state, settings, q, idle) for q in mine
                        )


def test_who_stays_away_gives_the_share_back(store: Store, settings: Settings, tmp_path: Path) -> None:
    export.import_tidy(store, textqa_file(tmp_path, 8), "textqa")
    gone, here, late = (person(store, name) for name in "xyz")
    for who in (gone, here):
        work.join_and_assign(store, settings, who)
    with store.reading() as state:
        queue = work.queue_of(state, gone)
        assert len(queue) == 8
    work.open_question(store, gone, queue[0])
    work.save_answer(store, settings, gone, queue[1], {"choice": "A", "hops": "single"})
    work.join_and_assign(store, settings, late)
    with store.reading() as state:
        assert queue[0] in work.queue_of(state, gone) and queue[1] in work.queue_of(state, gone)
        later = datetime.now(UTC) + timedelta(days=settings.active_days + 1)
        state.verifiers[here] = state.verifiers[late] = later.isoformat(timespec="milliseconds")
        after = {**state.assigned, **work.plan(state, settings, later)}
        assert [q for q, who in after.items() if gone in who] == [queue[1]]  # the answered one alone
        assert all(len(who) == 2 for who in after.values())


# ---- answers ---------------------------------------------------------------------------------------------------------


def test_answers_are_mapped_back_and_hold_no_truth(store: Store, settings: Settings) -> None:
    _, _, questions = written(store, settings)
    verifiers = [person(store, f"v{i}") for i in range(2)]
    for who in verifiers:
        work.join_and_assign(store, settings, who)
    for who in verifiers:
        for question in questions:
            sheet = work.open_question(store, who, question)
            assert sheet.order == work.order_for(question, who)
            with store.reading() as state:
                record = state.questions[question]
            right = "ABCD"[sheet.order.index(record["answer"])]
            if record["choices"]:
                assert sheet.options["ABCD".index(right)] == record["choices"][record["answer"]]
                assert list(sheet.photos) == record["photos"]
            else:
                assert sheet.photos["ABCD".index(right)] == record["photos"][record["answer"]]
            work.save_answer(store, settings, who, question, {"choice": right, **REASONED}, 3.14159, sheet.version)
            again = work.open_question(store, who, question)
            assert again.fields["choice"] == right and again.answered
    payloads = answers_of(store)
    assert len(payloads) == 4
    for payload in payloads:
        assert payload["choice"] == {0: 1, 2: 3}[int(payload["question"][-1])]
        assert payload["seconds"] == 3.1
        assert not {"answer", "gt", "right", "truth"} & set(payload)
    with store.reading() as state:
        assert work.standing(state, settings)["agree"] == 2


def test_orders_differ_between_people_and_stay(settings: Settings) -> None:
    orders = {work.order_for("q", f"a{i}") for i in range(60)}
    assert len(orders) > 15
    firsts = [work.order_for(f"q{i}", "a")[0] for i in range(400)]
    assert all(70 <= firsts.count(option) <= 130 for option in range(4))
    assert work.order_for("q", "a") == work.order_for("q", "a")


def test_what_an_answer_needs(store: Store, settings: Settings, tmp_path: Path) -> None:
    export.import_tidy(store, textqa_file(tmp_path, 1), "textqa")
    who = person(store, "v")
    work.join_and_assign(store, settings, who)
    with store.reading() as state:
        (question,) = work.queue_of(state, who)

    def save(**fields: Any) -> dict[str, Any]:
        return dict(work.save_answer(store, settings, who, question, fields).payload)

    for fields in (
        {},
        {"choice": "A"},
        {"choice": "E", "hops": "single"},
        {"choice": "AB", "hops": "single"},
        {"bad": True},
    ):
        with pytest.raises(Refused):
            save(**fields)
    assert save(choice="?")["dont_know"]
    unsure = save(choice="?", guess="C")
    assert unsure["choice"] is None and unsure["guess"] == work.order_for(question, who)[2]
    flagged = save(bad=True, bad_reason="两个都对")
    assert flagged["choice"] is None and flagged["bad"]
    assert save(choice="A", guess="B", hops="multiple")["guess"] is None
    work.retract_answer(store, who, question)
    with pytest.raises(Refused, match="no_answer"):
        work.retract_answer(store, who, question)
    with store.reading() as state:
        assert work.first_open(state, who) == question
    assert len(answers_of(store)) == 4  # every one is still in the log


def test_a_changed_question_is_asked_again(store: Store, settings: Settings) -> None:
    author, _, questions = written(store, settings)
    who = person(store, "v")
    work.join_and_assign(store, settings, who)
    sheet = work.open_question(store, who, questions[0])
    with store.reading() as state:
        group = next(iter(state.groups))
    work.save_answer(store, settings, who, questions[0], {"choice": "A", **REASONED}, None, sheet.version)
    forms.write_questions(store, settings, author, group, [{**SLOT, "answer": "C"}, {}, TEXTS])
    with store.reading() as state:
        assert who in state.current_answers(questions[0])  # only the key was corrected
    forms.write_questions(store, settings, author, group, [{**SLOT, "question": "哪一道是绿色？"}, {}, TEXTS])
    with store.reading() as state:
        assert state.current_answers(questions[0]) == {}
        assert work.first_open(state, who) is not None
    with pytest.raises(Refused, match="question_changed"):
        work.save_answer(store, settings, who, questions[0], {"choice": "A", **REASONED}, None, sheet.version)


def test_two_tabs_and_two_people_lose_nothing(store: Store, settings: Settings, tmp_path: Path) -> None:
    export.import_tidy(store, textqa_file(tmp_path, 6), "textqa")
    people = [person(store, name) for name in ("v", "w")]
    for who in people:
        work.join_and_assign(store, settings, who)

    def answer(who: str, letter: str) -> None:
        own = Store(store.folder)  # as another process would
        with own.reading() as state:
            queue = work.queue_of(state, who)
        for question in queue:
            work.save_answer(own, settings, who, question, {"choice": letter, "hops": "single"})

    threads = [threading.Thread(target=answer, args=(who, letter)) for who in people for letter in "AB"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers_of(store)) == 2 * 2 * 6
    with store.reading() as state:
        assert all(len(state.current_answers(question)) == 2 for question in state.live_questions())


class Verifying(RuleBasedStateMachine):
    """Random deeds of a few people; whatever they do, replay from the log gives the same state."""

    settings: Settings
    folder: Path

    def __init__(self) -> None:
        super().__init__()
        self.store = Store(self.folder / f"{time.monotonic_ns()}")
        self.people = [person(self.store, f"p{i}") for i in range(3)]
        for i in range(3):
            record = {"question_id": f"q{i}", "task": "textqa", "photos": [], "question": "?", "choices": list("1234")}
            record |= {"answer": 0, "question_type": "flavor", "version": f"v{i}"}
            self.store.append(self.people[i], "question", record)

    @rule(who=st.integers(0, 2))
    def come(self, who: int) -> None:
        work.join_and_assign(self.store, self.settings, self.people[who])

    @rule(who=st.integers(0, 2), question=st.integers(0, 2), letter=st.sampled_from("ABCD?"), draft=st.booleans())
    def answer(self, who: int, question: int, letter: str, draft: bool) -> None:
        fields = {"choice": letter, "hops": "single"}
        try:
            if draft:
                work.draft_answer(self.store, self.people[who], f"q{question}", fields)
            else:
                work.save_answer(self.store, self.settings, self.people[who], f"q{question}", fields)
        except Refused as refused:
            assert refused.key == "not_assigned"

    @rule(who=st.integers(0, 2), question=st.integers(0, 2))
    def withdraw(self, who: int, question: int) -> None:
        try:
            forms.withdraw_question(self.store, self.people[who], f"q{question}")
        except Refused as refused:
            assert refused.key in ("not_yours", "gone")

    @invariant()
    def replays(self) -> None:
        with self.store.reading() as state, Store(self.store.folder).reading() as fresh:
            assert state == fresh
            for question, answers in state.answers.items():
                author = state.questions[question]["annotator"]
                assert author not in answers


def test_replay_is_the_state(tmp_path: Path, settings: Settings) -> None:
    machine = type("Machine", (Verifying,), {"settings": settings, "folder": tmp_path})
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(machine, settings=profile(max_examples=8, stateful_step_count=12, deadline=None))


# ---- export and import -----------------------------------------------------------------------------------------------


def test_export_is_read_as_the_released_schema(store: Store, settings: Settings, tmp_path: Path) -> None:
    _, _, questions = written(store, settings)
    for name in ("v", "w"):
        who = person(store, name)
        work.join_and_assign(store, settings, who)
        for question in questions:
            fields = {"choice": "?", "guess": "A"} if name == "w" else {"choice": "B", **REASONED}
            work.save_answer(store, settings, who, question, fields)
    manifest = export.export(store, settings, tmp_path / "out")
    assert manifest["questions"] == {"mivqa": 2} and manifest["answers"] == 4
    report = read_file(tmp_path / "out" / "mivqa_tidy.json", "mivqa", "zh")
    assert [(q.answer, q.cuisine, q.image_options) for q in report.questions] == [(1, "川", True), (3, "川", False)]
    records = [
        json.loads(path.read_text()) for path in sorted((tmp_path / "out/verification/mivqa").glob("vqa_0_*.json"))
    ]
    keys = ["question", "choices", "user-answer", "gt", "rationale", "bad_q", "num_hops", "question_id", "session_id"]
    for record in records:
        assert list(record) == [*keys, "ann_group", "images"]
        assert record["gt"] == "1" and record["session_id"].startswith("val-")
    unsure = next(record for record in records if record["rationale"].startswith("I don't know"))
    assert unsure["user-answer"] in tuple("0123")
    with pytest.raises(InputError, match="exists"):
        export.export(store, settings, tmp_path / "out")
    archive = export.zip_folder(tmp_path / "out")
    assert archive.stat().st_size > 1000


def test_sets_of_the_schema_come_in_once_and_go_out_alike(store: Store, settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "set"
    write_release(folder)
    counts = {}
    for task in ("mivqa", "sivqa", "textqa"):
        before = read_file(folder / f"{task}_tidy.json", task, "zh")
        counts[task] = export.import_tidy(store, folder / f"{task}_tidy.json", task)
        assert counts[task] > 0
        assert export.import_tidy(store, folder / f"{task}_tidy.json", task) == 0
        assert counts[task] == len({q.record_hash for q in before.questions})
    export.export(store, settings, tmp_path / "out")
    for task in counts:
        before = read_file(folder / f"{task}_tidy.json", task, "zh").questions
        after = read_file(tmp_path / "out" / f"{task}_tidy.json", task, "zh").questions
        unique = list({q.record_hash: q for q in before}.values())
        assert [(q.question, q.choices, q.answer, q.question_id) for q in after] == [
            (q.question, q.choices, q.answer, q.question_id) for q in unique
        ]


def test_records_of_the_published_tools_come_in(store: Store, settings: Settings, tmp_path: Path) -> None:
    images = tmp_path / "images" / "batch"
    images.mkdir(parents=True)
    for i in range(4):
        (images / f"{i}.png").write_bytes(photo(i))
    pages = tmp_path / "ui"
    pages.mkdir()
    names = [f"/home/somebody/data/batch/{i}.png" for i in range(4)]
    slots = [
        {"question": "哪个最红?", "choices": "", "answer": "2", "question_type": "color"},
        {"question": "怎么做?", "choices": "蒸，炒,炖,炸", "answer": "0", "question_type": "cooking-skills"},
        {"question": "", "choices": "", "answer": "", "question_type": ""},
    ]
    (pages / "image_data_0_ab.json").write_text(json.dumps({"images": names, "image_qa": slots, "session_id": "ab"}))
    assert export.import_ui(store, pages, tmp_path / "images") == 2
    assert export.import_ui(store, pages, tmp_path / "images") == 0

    checked = tmp_path / "val"
    checked.mkdir()
    base = {
        "question": "哪个最红?", "choices": "", "gt": "2", "bad_q": "No", "num_hops": "single", "question_id": "x_0",
        "ann_group": "川", "images": [f"batch/{i}.png" for i in range(4)],
    }  # fmt: skip
    for i, (session, answer, rationale) in enumerate(
        [("val-1", "2", "红"), ("val-2", "1", "I don’t know"), ("val-1", "3", "改")]
    ):
        path = checked / f"vqa_{i}_{session}.json"
        path.write_text(json.dumps({**base, "user-answer": answer, "rationale": rationale, "session_id": session}))
        os.utime(path, (1000 + i, 1000 + i))
    assert export.import_val_ui(store, checked, "mivqa", tmp_path / "images") == (0, 2)  # the question is known
    assert export.import_val_ui(store, checked, "mivqa", tmp_path / "images") == (0, 0)
    with store.reading() as state:
        records = export.verification_records(state, "mivqa")
        assert {(r["session_id"], r["user-answer"]) for r in records} == {("val-1", "3"), ("val-2", "1")}
        assert work.standing(state, settings)["unknown"] == 1


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"images": ["../../etc/passwd"] * 4}, "is not under"),
        ({"image_qa": "x"}, "no page"),
        ({"image_qa": [{"question": "?", "choices": "a,b", "answer": "0"}]}, "four options"),
        ({"image_qa": [{"question": "?", "choices": "", "answer": "7"}]}, "must be 0 to 3"),
        ({"image_qa": [{"question": "?", "choices": "", "answer": ""}]}, "no answer"),
    ],
)
def test_bad_records_of_the_published_tools(store: Store, tmp_path: Path, change: dict[str, Any], text: str) -> None:
    (tmp_path / "images").mkdir()
    for i in range(4):
        (tmp_path / "images" / f"{i}.png").write_bytes(photo(i))
    page = {"images": [f"{i}.png" for i in range(4)], "image_qa": [], "session_id": "a", **change}
    (tmp_path / "image_data_0_a.json").write_text(json.dumps(page))
    with pytest.raises(InputError, match=text) as error:
        export.import_ui(store, tmp_path, tmp_path / "images")
    assert "\n" not in str(error.value)


def test_agreement_counts_and_does_not_depend_on_who_is_first(store: Store, settings: Settings, tmp_path: Path) -> None:
    """Hand-made answers: six alike (all right), two apart, one unknown, one flagged."""
    export.import_tidy(store, textqa_file(tmp_path, 10), "textqa")
    assert export.agreement(store) == {}
    people = [person(store, name) for name in "vw"]
    for who in people:
        work.join_and_assign(store, settings, who)
    with store.reading() as state:
        truth = {question: state.questions[question]["answer"] for question in state.live_questions()}
    for number, (question, answer) in enumerate(truth.items()):
        for place, who in enumerate(people):
            wrong = number in (6, 7) and place == number - 6  # each is the wrong one once
            option = (answer + 1) % 4 if wrong else answer
            fields: dict[str, Any] = {"choice": "ABCD"[work.order_for(question, who).index(option)], "hops": "single"}
            if number == 8 and place == 0:
                fields = {"choice": "?"}
            if number == 9 and place == 1:
                fields = {"bad": True, "bad_reason": "两个都对"}
            work.save_answer(store, settings, who, question, fields)
    report = export.agreement(store)["textqa"].report
    assert (report["two_answers"], report["bad"], report["unknown_answers"]) == (10, 1, 1)
    # known questions: truths 0 1 2 3 0 1 2 3; the pairs apart are (3, 2) and (3, 0), counted in both orders
    marginal = [5, 4, 3, 4]
    expected = sum((count / 16) ** 2 for count in marginal)
    known = report["scopes"]["both_know"]
    assert known["n"] == 8 and known["accuracy"] == pytest.approx(14 / 16)
    assert known["kappa"] == pytest.approx((0.75 - expected) / (1 - expected))
    # the export's records, read from their files, tell the same
    export.export(store, settings, tmp_path / "out")
    questions = read_file(tmp_path / "out" / "textqa_tidy.json", "textqa", "zh").questions
    again = validate(read_records(tmp_path / "out" / "verification" / "textqa"), questions).report
    assert again["scopes"]["both_know"]["kappa"] == known["kappa"]
    assert (again["two_answers"], again["bad"]) == (10, 1)
    assert (tmp_path / "out" / "agreement" / "textqa" / "agreement.md").is_file()


# ---- settings and words ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "override",
    ["language=fr", "auth=open", "verifiers=0", "active_days=0", "admin=''", "rationale=[x]", "places={a: {zh: b}}"],
)
def test_wrong_settings_name_their_key(override: str) -> None:
    with pytest.raises(InputError, match=override.split("=")[0]) as error:
        cfg = composed("annotate", [override] if "{" not in override else [])
        if "{" in override:
            cfg.places = {"a": {"zh": "b"}}
        read_settings(cfg)
    assert "\n" not in str(error.value)


def test_every_sentence_has_both_languages_and_the_same_gaps() -> None:
    for key, (chinese, english) in _WORDS.items():
        assert chinese and english, key
        gaps = [set(re.findall(r"\{(\w+)\}", text)) for text in (chinese, english)]
        assert gaps[0] == gaps[1], key
        assert say(key, "en", **dict.fromkeys(gaps[0], "x"))
