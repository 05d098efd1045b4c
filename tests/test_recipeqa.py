"""The released schema: what is read, what is refused and in which words, reports, splits, images, official scoring."""

import copy
import gzip
import json
import os
import random
from pathlib import Path

import pytest
from made_up import image_names, made_up_questions, write_file, write_images

from data.errors import InputError
from data.recipeqa import (
    OFFICIAL_COUNTS,
    OFFICIAL_TOTALS,
    data_report,
    export_official,
    find_images,
    official_score,
    published_rows,
    question_images,
    read_questions,
    report_text,
    split_by_recipe,
    to_record,
    twins,
    write_questions,
)
from data.records import PLACEHOLDER, TASKS

TWINS_OF_VAL_OPEN = [
    "1000-4654-1-5-6-10",
    "1000-14008-0-1-2-3",
    "1000-7489-0-1-2-4",
    "1000-15401-0-1-3-4",
    "1000-742-0-2-3-5",
    "1000-3424-0-1-3-4",
    "1000-429-0-1-4-5",
    "1000-5787-1-3-4-6",
    "1000-12249-0-1-2-3",
    "1000-14613-0-1-2-3",
]


def all_tasks(n: int = 3, seed: int = 0, **settings) -> list[dict]:
    return [record for task in TASKS for record in made_up_questions(task, n, seed, **settings)]


def refusal(path: Path, **settings) -> str:
    with pytest.raises(InputError) as caught:
        read_questions(path, **settings)
    message = str(caught.value)
    assert "\n" not in message and str(path) in message
    return message


# --- reading what is right ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["val.json", "val.json.gz"])
def test_round_trip(tmp_path: Path, name: str) -> None:
    records = all_tasks(5, per_recipe=2)
    questions, report = read_questions(write_file(tmp_path / name, records))
    assert [to_record(q) for q in questions] == records
    assert (report.records, report.read, report.skipped) == (20, 20, ())
    assert report.tasks == dict.fromkeys(TASKS, 5) and report.splits == {"val": 20}
    again, _ = read_questions(write_questions(tmp_path / "again" / name, questions))
    assert again == questions
    first = (tmp_path / "again" / name).read_bytes()
    assert write_questions(tmp_path / "other" / name, questions).read_bytes() == first
    assert [p.name for p in (tmp_path / "again").iterdir()] == [name], "no part file is left"


def test_write_that_fails_keeps_the_old_file(tmp_path: Path) -> None:
    questions, _ = read_questions(write_file(tmp_path / "in.json", all_tasks()))
    out = write_questions(tmp_path / "out.json", questions)
    before = out.read_bytes()

    def broken():
        yield questions[0]
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        write_questions(out, broken())
    assert out.read_bytes() == before and sorted(p.name for p in tmp_path.iterdir()) == ["in.json", "out.json"]


def test_tasks_and_split(tmp_path: Path) -> None:
    path = write_file(tmp_path / "val.json", all_tasks())
    questions, report = read_questions(path, tasks=["visual_cloze", "visual_ordering"], split="train")
    assert [q.task for q in questions] == ["visual_cloze"] * 3 + ["visual_ordering"] * 3
    assert {q.split for q in questions} == {"train"} and report.splits == {"val": 12} and report.records == 12
    with pytest.raises(InputError, match="task 'cloze' is unknown"):
        read_questions(path, tasks=["cloze"])
    with pytest.raises(InputError, match="split='dev' is unknown"):
        read_questions(path, split="dev")
    with pytest.raises(InputError, match="on_bad_record='ignore' is unknown"):
        read_questions(path, on_bad_record="ignore")


def test_bad_records_of_other_tasks_do_not_stand_in_the_way(tmp_path: Path) -> None:
    records = all_tasks()
    records[-1]["answer"] = 9
    path = write_file(tmp_path / "val.json", records)
    assert len(read_questions(path, tasks=["textual_cloze"])[0]) == 3
    assert "answer is 9" in refusal(path)


def test_empty_and_non_ascii_texts_are_legal_and_hidden_fields_stay_hidden(tmp_path: Path) -> None:
    records = all_tasks(1)
    records[0]["context"][0].update(body="", title="the title a textual question hides")
    records[1]["context"][0].update(body="Crème brûlée 焼き \U0001f370", images=["hidden_1_0.jpg"])
    records[1]["context"][1].update(body="  ", title="")
    records[0]["choice_list"][(records[0]["answer"] + 1) % 4] = ""
    for record in records:
        for key in ("context_modality", "question_modality", "question_text"):
            del record[key]
        for step in record["context"]:
            del step["videos"]
    questions, _ = read_questions(write_file(tmp_path / "x.json", records))
    assert questions[0].context[0].body == "" and questions[0].context[0].title is None
    assert questions[1].context[0].body == "Crème brûlée 焼き \U0001f370" and questions[1].context[0].images is None
    assert questions[1].context[1].is_empty


def test_equal_texts_are_kept_once(tmp_path: Path) -> None:
    questions, _ = read_questions(write_file(tmp_path / "x.json", made_up_questions("visual_cloze", 6, per_recipe=3)))
    same = [q for q in questions if q.recipe_id == questions[-1].recipe_id]
    assert len(same) > 1 and all(q.context is same[0].context for q in same)


# --- refusing files ----------------------------------------------------------------------------------------------


def test_bad_files(tmp_path: Path) -> None:
    whole = json.dumps({"data": all_tasks()}).encode()
    cases = {
        "empty.json": (b"", "the file is empty; fetch it again"),
        "space.json": (b" \n", "the file is empty"),
        "cut.json": (whole[:-100], "not valid JSON"),
        "html.json": (b"<html>404</html>", "not valid JSON"),
        "latin.json": (b'{"data": "\xe9\xff"}', "not valid JSON"),
        "number.json": (b'{"data": ' + b"9" * 5000 + b"}", "not valid JSON"),
        "deep.json": (b"[" * 200_000, "nested too deeply"),
        "list.json": (b"[]", 'has no top-level "data"'),
        "null.json": (b"null", 'has no top-level "data"'),
        "other.json": (b'{"questions": []}', 'has no top-level "data"'),
        "object.json": (b'{"data": {}}', '"data" is no list of records but an object'),
        "cut.json.gz": (gzip.compress(whole)[:-40], "truncated or damaged gzip file"),
        "head.json.gz": (gzip.compress(whole)[:5], "truncated or damaged gzip file"),
        "plain.json.gz": (whole, "truncated or damaged gzip file"),
        "crc.json.gz": (gzip.compress(whole)[:-8] + b"\0" * 8, "truncated or damaged gzip file"),
        "body.json.gz": (gzip.compress(whole)[:40] + b"\xff" * 40 + gzip.compress(whole)[80:], "damaged gzip file"),
        "empty.json.gz": (gzip.compress(b""), "the file is empty"),
    }
    for name, (content, expected) in cases.items():
        (tmp_path / name).write_bytes(content)
        assert expected in refusal(tmp_path / name), name
    assert "no such file" in refusal(tmp_path / "absent.json")
    assert "cannot be read" in refusal(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        read_questions("a\0b.json")


def test_gzip_is_recognised_without_its_suffix(tmp_path: Path) -> None:
    path = tmp_path / "val.json"
    path.write_bytes(gzip.compress(json.dumps({"data": all_tasks()}).encode()))
    assert len(read_questions(path)[0]) == 12


def test_decompression_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b" " * 30_000_000))
    assert "larger than 5,000,000 bytes" in refusal(path, max_bytes=5_000_000)
    small = write_file(tmp_path / "x.json", all_tasks())
    size = small.stat().st_size
    assert read_questions(small, max_bytes=size)[1].read == 12
    assert "raise max_bytes" in refusal(small, max_bytes=size - 1)


# --- refusing records --------------------------------------------------------------------------------------------


def setter(*keys_and_value):
    """A change of a record: follow the keys, set the value at the last."""
    *keys, last, value = keys_and_value

    def change(record):
        for key in keys:
            record = record[key]
        record[last] = value

    return change


def swap_orders(record):
    record["choice_list"][0] = [*record["choice_list"][0][:3], "elsewhere_1_0.jpg"]


def empty_all(record):
    for step in record["context"]:
        step.update({"body": " \n", **({"title": "\t"} if "title" in step else {})})


BAD_RECORDS = [
    *[(t, lambda r, k=k: r.pop(k), f"has no key '{k}'; restore it") for t in TASKS
      for k in ("recipe_id", "split", "context", "choice_list", "answer", "qid", "question", "task")],
    *[(t, lambda r: r["context"][1].pop("body"), "step 2: has no key 'body'") for t in TASKS],
    ("textual_cloze", lambda r: r["context"][2].pop("images"), "step 3: has no key 'images'"),
    ("visual_cloze", lambda r: r["context"][2].pop("title"), "step 3: has no key 'title'"),
    ("visual_ordering", setter("recipe_id", 5), "'recipe_id' is a number and must be a string"),
    ("visual_ordering", setter("qid", None), "'qid' is null and must be a string"),
    ("visual_ordering", setter("qid", " "), "qid is empty"),
    ("visual_ordering", setter("recipe_id", ""), "recipe_id is empty"),
    ("visual_ordering", setter("split", "dev"), "split 'dev' is unknown"),
    ("visual_ordering", setter("context", {}), "'context' is an object and must be a list"),
    ("visual_ordering", setter("context", []), "context has no steps"),
    ("visual_ordering", setter("context", 1, "text"), "step 2 is a string and must be an object"),
    ("visual_ordering", setter("context", 0, "body", None), "step 1: 'body' is null and must be a string"),
    ("visual_ordering", setter("context", 0, "body", 3.5), "step 1: 'body' is a number and must be a string"),
    ("visual_ordering", setter("context", 0, "title", ["x"]), "step 1: 'title' is a list and must be a string"),
    ("visual_ordering", setter("context", 0, "body", "x\ud800"), "step 1: 'body' holds half a surrogate pair"),
    ("visual_ordering", setter("context", 0, "id", 0), "step 1 of the context has id 0; number the steps 1, 2, 3"),
    ("visual_ordering", setter("context", 0, "id", True), "step 1 of the context has id True"),
    ("visual_ordering", setter("context", 2, "id", 4), "step 3 of the context has id 4"),
    ("visual_ordering", setter("context", 2, "id", "3"), "step 3 of the context has id '3'"),
    ("textual_cloze", empty_all, "every step of the context is empty"),
    ("visual_cloze", empty_all, "every step of the context is empty"),
    ("textual_cloze", setter("choice_list", ["a", "b", "c", "d", "e"]), "choice_list has 5 choices and must have 4"),
    ("textual_cloze", setter("choice_list", []), "choice_list has 0 choices"),
    ("textual_cloze", setter("choice_list", 1, None), "choice_list holds null and must hold strings"),
    ("visual_cloze", setter("choice_list", 1, ["a_1_0.jpg"]), "choice_list holds a list and must hold strings"),
    *[("textual_cloze", setter("answer", a), f"answer is {a!r} and must be one of the integers 0, 1, 2, 3")
      for a in (4, -1, True, "2", None, 1.0, 10**30)],
    ("textual_cloze", setter("task", "cloze"), "task 'cloze' is unknown; it must be one of textual_cloze,"),
    ("textual_cloze", setter("task", 7), "'task' is a number and must be a string"),
    ("textual_cloze", setter("question", ["a", "b", "c", "d"]), "question holds 0 @placeholder and must hold 1"),
    ("textual_cloze", setter("question", [PLACEHOLDER, "b", "c", PLACEHOLDER]), "question holds 2 @placeholder"),
    ("visual_cloze", setter("question", [PLACEHOLDER]), "question has 1 elements and must have 4 in visual_cloze"),
    ("visual_cloze", setter("question", 0, 7), "question holds a number and must hold strings"),
    ("visual_cloze", setter("question", [PLACEHOLDER, "b", "c_1_0.jpg", "d_1_0.jpg"]), "image name 'b' is not"),
    ("visual_coherence", setter("question", 0, PLACEHOLDER), "question holds 1 @placeholder and must hold 0"),
    ("visual_coherence", lambda r: r["question"].reverse(), "question and choice_list differ"),
    ("visual_ordering", setter("question", [PLACEHOLDER]), "question holds 1 @placeholder and must hold 0"),
    ("visual_ordering", setter("question", ["a", "b"]), "question has 2 elements and must have 1 in visual_ordering"),
    ("visual_ordering", setter("choice_list", 2, "a_1_0.jpg"), "choice_list holds a string and must hold lists of 4"),
    ("visual_ordering", swap_orders, "choice_list must hold 4 orders of the same 4 images"),
    ("visual_ordering", lambda r: r["choice_list"][3].pop(), "choice_list must hold 4 orders of the same 4 images"),
    ("visual_ordering", setter("choice_list", [["a_1_0.jpg"] * 4] * 4), "4 orders of the same 4 images"),
    ("visual_ordering", setter("choice_list", 0, 0, 4), "choice_list holds a number and must hold strings"),
    *[("visual_cloze", setter("choice_list", 0, name), "is not <recipe_id>_<step>_<k>.jpg")
      for name in ("a.jpg", "a_1.jpg", "a_1_0.png", "a_1_0.jpgx", "a_١_0.jpg", "", "x" * 300 + "_1_0.jpg")],
    *[("textual_cloze", setter("context", 0, "images", [name]), "is no plain file name")
      for name in ("../a_1_0.jpg", "/etc/a_1_0.jpg", "b\\a_1_0.jpg", "a..b_1_0.jpg", "a\0_1_0.jpg", "a_1_0.jpg\n")],
    ("textual_cloze", setter("context", 0, "images", "a_1_0.jpg"), "step 1: 'images' is a string and must be a list"),
    ("textual_cloze", setter("context", 0, "images", [1]), "step 1: images holds a number and must hold strings"),
]  # fmt: skip


@pytest.mark.parametrize(("task", "change", "expected"), BAD_RECORDS)
def test_bad_records(tmp_path: Path, task: str, change, expected: str) -> None:
    records = made_up_questions(task, 3)
    change(records[1])
    path = write_file(tmp_path / "val.json", records)
    message = refusal(path)
    qid = records[1].get("qid")
    shown = qid if isinstance(qid, str) and qid.strip() else "unknown"
    if qid != " ":
        assert f"{path}: record 2 (qid {shown}): " in message
    assert expected in message and "on_bad_record=skip" in message

    questions, report = read_questions(path, on_bad_record="skip")
    assert [q.qid for q in questions] == [records[0]["qid"], records[2]["qid"]]
    assert [s.record for s in report.skipped] == [2] and expected in report.skipped[0].reason
    assert (report.records, report.read) == (3, 2)


def test_records_that_are_no_objects(tmp_path: Path) -> None:
    good = made_up_questions("visual_cloze", 1)
    for odd, kind in ((None, "null"), (3, "a number"), ("x", "a string"), ([], "a list"), (True, "a boolean")):
        path = write_file(tmp_path / "val.json", [*good, odd])
        assert f"record 2 (qid unknown): the record is {kind} and must be an object" in refusal(path)
        assert read_questions(path, on_bad_record="skip")[1].skipped[0].record == 2


def test_duplicate_qid(tmp_path: Path) -> None:
    records = made_up_questions("visual_cloze", 3)
    path = write_file(tmp_path / "val.json", [*records, copy.deepcopy(records[0])])
    assert f"record 4 (qid {records[0]['qid']}): its qid is that of record 1" in refusal(path)
    questions, report = read_questions(path, on_bad_record="skip")
    assert len(questions) == 3 and report.skipped[0].record == 4


def test_messages_stay_one_short_line(tmp_path: Path) -> None:
    records = made_up_questions("visual_cloze", 1)
    records[0].update(qid="a\nb" * 5000, answer="x\n" * 5000)
    message = refusal(write_file(tmp_path / "val.json", records))
    assert len(message) < 600


def test_mutated_files_are_read_or_refused(tmp_path: Path) -> None:
    """200 damaged files: each is read or raises InputError, in both modes; nothing else ever comes out."""
    records = all_tasks(2)
    plain = json.dumps({"data": records}, ensure_ascii=False).encode()
    outcomes = {"read": 0, "refused": 0}
    odd_values = [None, True, -1, 1e400, "", "\ud800", [], {}, [[]], "x" * 100_000, 10**400, [None] * 4, {"data": 1}]

    def places(value, found):
        """Every (container, key) of a JSON value."""
        for key in value if isinstance(value, dict) else range(len(value)):
            found.append((value, key))
            if isinstance(value[key], dict | list):
                places(value[key], found)
        return found

    for i in range(200):
        rng = random.Random(i)
        kind = ("truncate", "flip", "drop", "replace", "gzip")[i % 5]
        content, name = bytearray(plain), "x.json"
        if kind == "truncate":
            del content[rng.randrange(len(content)) :]
        elif kind == "flip":
            for _ in range(rng.choice([1, 1, 20])):
                content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        elif kind == "gzip":
            name, content = "x.json.gz", bytearray(gzip.compress(plain, mtime=0))
            if i % 2:
                content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
            else:
                del content[rng.randrange(len(content)) :]
        else:
            top = copy.deepcopy({"data": records})
            container, key = rng.choice(places(top, []))
            if kind == "drop":
                del container[key]
            else:
                container[key] = rng.choice(odd_values)
            content = json.dumps(top).encode()
        path = tmp_path / name
        path.write_bytes(content)
        for mode in ("raise", "skip"):
            try:
                questions, report = read_questions(path, on_bad_record=mode)
            except InputError as error:
                assert "\n" not in str(error) and str(path) in str(error) and len(str(error)) < 700
                outcomes["refused"] += 1
            else:
                outcomes["read"] += 1
                assert len(questions) + len(report.skipped) == report.records
                write_questions(tmp_path / "out.json", questions)
                assert read_questions(tmp_path / "out.json")[0] == questions
                report_text(data_report(questions))
    assert min(outcomes.values()) > 40, outcomes


# --- the real questions ------------------------------------------------------------------------------------------


def test_real_questions(shared: Path) -> None:
    path = shared / "data" / "recipeqa" / "val_open.json.gz"
    questions, report = read_questions(path)
    assert report.read == report.records == 2163 and report.official_split is None
    raw = json.loads(gzip.decompress(path.read_bytes()))["data"]
    assert [to_record(q) for q in questions] == raw

    counts = data_report(questions)
    json.dumps(counts)
    assert (counts["questions"], counts["recipes"]) == (2163, 603)
    textual, ordering = counts["tasks"]["textual_cloze"], counts["tasks"]["visual_ordering"]
    assert textual["twins"] == TWINS_OF_VAL_OPEN
    assert len(textual["equal_distractors"]) == 4 and len(textual["empty_choice"]) == 4
    assert (textual["questions"], textual["recipes"], textual["answers"]) == (574, 414, [145, 145, 135, 149])
    assert (ordering["questions"], ordering["repeated_permutation"], ordering["twins"]) == (565, 81, [])
    assert (
        counts["tasks"]["visual_cloze"]["repeated_image"] == counts["tasks"]["visual_coherence"]["repeated_image"] == 0
    )
    assert (counts["empty_bodies"], counts["questions_with_empty_body"], counts["empty_titles"]) == (131, 72, 10)
    text = report_text(counts)
    assert "right choice occurs twice          10 (1000-4654-1-5-6-10, " in text and "offered twice        81" in text

    train, val = split_by_recipe(questions, 0.15, 1234)
    assert not {q.recipe_id for q in train} & {q.recipe_id for q in val}
    assert len(train) + len(val) == 2163 and 0.10 < len(val) / 2163 < 0.20


def test_published_examples_of_an_older_build(shared: Path) -> None:
    questions, _ = read_questions(shared / "data" / "recipeqa" / "official_schema_examples.json")
    assert [q.task for q in questions] == ["visual_coherence", "visual_cloze", "visual_ordering"]


# --- reports, splits, images -------------------------------------------------------------------------------------


def test_defects_are_counted(tmp_path: Path) -> None:
    records = all_tasks(4)
    first = records[0]
    right = first["answer"]
    first["choice_list"][(right + 1) % 4] = f" {first['choice_list'][right].upper()}"
    second = records[1]["choice_list"]
    wrong = [i for i in range(4) if i != records[1]["answer"]]
    second[wrong[0]] = second[wrong[1]] = " "
    third = records[2]
    third["choice_list"][third["answer"]] = "Go"
    last = records[-1]
    wrong = [i for i in range(4) if i != last["answer"]]
    last["choice_list"][wrong[0]] = list(last["choice_list"][wrong[1]])
    records[5]["context"][0].update(body="", title=" ")
    questions, _ = read_questions(write_file(tmp_path / "x.json", records))
    assert [any(twins(q)) for q in questions] == [True] + [False] * 15
    assert twins(questions[0])[(right + 1) % 4] and sum(twins(questions[0])) == 1
    report = data_report(questions)
    textual = report["tasks"]["textual_cloze"]
    assert textual["twins"] == [first["qid"]] and textual["equal_distractors"] == [records[1]["qid"]]
    assert textual["empty_choice"] == [records[1]["qid"]]
    assert (textual["short_choices"], textual["short_right_choices"]) == (3, 1)
    assert report["tasks"]["visual_ordering"]["repeated_permutation"] == 1
    assert (report["empty_bodies"], report["questions_with_empty_body"], report["empty_titles"]) == (1, 1, 1)
    assert data_report([])["questions"] == 0 and report_text(data_report([]))


def test_split_by_recipe(tmp_path: Path) -> None:
    questions, _ = read_questions(write_file(tmp_path / "x.json", all_tasks(300)))
    train, val = split_by_recipe(questions, 0.15, 7)
    assert 0.09 < len(val) / len(questions) < 0.21 and len(train) + len(val) == 1200
    textual = [q for q in questions if q.task == "textual_cloze"]
    assert split_by_recipe(textual, 0.15, 7)[1] == [q for q in val if q.task == "textual_cloze"], "tasks part alike"
    assert split_by_recipe(questions[::-1], 0.15, 7)[1] == val[::-1], "the order of the file has no say"
    assert split_by_recipe(questions, 0.15, 8)[1] != val
    larger = split_by_recipe(questions, 0.5, 7)[1]
    assert {q.qid for q in val} < {q.qid for q in larger}
    for few in (questions[:2], questions[:3]):
        for fraction in (0.001, 0.999):
            assert all(split_by_recipe(few, fraction, 1))
    for fraction in (0, 1, -0.5, 1.5, float("nan")):
        with pytest.raises(InputError, match="val_fraction"):
            split_by_recipe(questions, fraction, 1)
    with pytest.raises(InputError, match="cannot be split"):
        split_by_recipe(questions[:1], 0.5, 1)


LAYOUTS = [
    "images-qa/{split}/images-qa",
    "images/images-qa/{split}/images-qa",
    "{split}/images-qa",
    "images-qa",
    "images",
    ".",
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_images_are_found_in_every_layout(tmp_path: Path, layout: str) -> None:
    records = all_tasks(1)
    names = image_names(records)
    questions, _ = read_questions(write_file(tmp_path / "x.json", records))
    assert list(dict.fromkeys(n for q in questions for n in question_images(q))) == names
    for i, name in enumerate(names):  # spread over the splits: distractors live anywhere
        write_images(tmp_path / "root" / layout.format(split=("train", "val", "test")[i % 3]), [name], size=4)
    find = find_images(tmp_path / "root", "val")
    for name in names:
        assert find(name).name == name and find(name).is_file()


def test_own_split_comes_first_and_nothing_leaves_the_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for split in ("train", "val", "test"):
        write_images(root / "images-qa" / split / "images-qa", ["a_1_0.jpg"], size=4)
    assert find_images(root, "test")("a_1_0.jpg").parts[-3] == "test"
    write_images(tmp_path / "outside", ["b_1_0.jpg"], size=4)
    os.symlink(tmp_path / "outside" / "b_1_0.jpg", root / "b_1_0.jpg")
    with pytest.raises(InputError, match=r"b_1_0\.jpg: a link that leaves .* \(qid 2000-1\)"):
        find_images(root)("b_1_0.jpg", "2000-1")
    os.symlink(tmp_path / "outside", root / "images")
    with pytest.raises(InputError):
        find_images(root)("b_1_0.jpg")
    for name in ("../outside/b_1_0.jpg", str(tmp_path / "outside" / "b_1_0.jpg"), "", "x.jpg", "a\0_1_0.jpg"):
        with pytest.raises(InputError, match="image name"):
            find_images(root)(name)


def test_absent_images(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such folder; set data\.images"):
        find_images(tmp_path / "absent")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="no such folder"):
        find_images(tmp_path / "file")
    with pytest.raises(InputError, match=r"has no image a_1_0\.jpg \(qid 2000-5\) in any of 1 folders; unpack"):
        find_images(tmp_path)("a_1_0.jpg", "2000-5")


# --- official counts, scorer, export, published ------------------------------------------------------------------


def test_official_files_are_recognised_by_their_counts(tmp_path: Path) -> None:
    assert {s: sum(c.values()) for s, c in OFFICIAL_COUNTS.items() if s != "train"} == {"val": 3562, "test": 3567}
    assert OFFICIAL_TOTALS["train"] + OFFICIAL_TOTALS["val"] + OFFICIAL_TOTALS["test"] == 36786
    records = [
        {"task": t, "split": "test", "qid": f"{t}{i}"} for t, n in OFFICIAL_COUNTS["test"].items() for i in range(n)
    ]
    path = write_file(tmp_path / "test.json", records)
    report = read_questions(path, on_bad_record="skip")[1]
    assert report.official_split == "test" and report.read == 0 and len(report.skipped) == 3567
    for records_of_another_file in (
        records[1:],
        [{**records[0], "split": "val"}, *records[1:]],
        records[1:] + records[:0],
    ):
        write_file(path, records_of_another_file)
        assert read_questions(path, on_bad_record="skip")[1].official_split is None


def naive_official(truth, predictions):
    scores = {}
    for task in TASKS:
        right, of = 0, [r["answer"] for r in truth if r["task"] == task]
        for i in range(len(of)):
            given = predictions.get(task, [])
            if i < len(given) and given[i] == of[i]:
                right += 1
        scores[task] = right / len(of)
    return scores


def test_official_score() -> None:
    truth = all_tasks(7)
    random.Random(3).shuffle(truth)
    rng = random.Random(4)
    for _ in range(20):
        predictions = {t: [rng.randrange(4) for _ in range(rng.randrange(12))] for t in TASKS if rng.random() < 0.8}
        assert official_score(truth, predictions) == naive_official(truth, predictions)
    right = [r["answer"] for r in truth if r["task"] == "visual_cloze"]
    assert official_score(truth, {"visual_cloze.mine": right})["visual_cloze"] == 1.0
    assert official_score(truth, {"visual_cloze": [str(a) for a in right]})["visual_cloze"] == 0.0
    assert official_score(truth, {"visual_cloze": right[:2]})["visual_cloze"] == pytest.approx(2 / 7)
    assert official_score(truth, {"visual_cloze": [*right, 0, 1, 2]})["visual_cloze"] == 1.0
    assert official_score(truth, {}) == dict.fromkeys(TASKS, 0.0)
    with pytest.raises(InputError, match="'cloze'"):
        official_score(truth, {"cloze": [1]})


def test_export_scores_as_the_predictions_by_qid(tmp_path: Path) -> None:
    truth = all_tasks(9, per_recipe=2)
    random.Random(1).shuffle(truth)
    path = write_file(tmp_path / "val.json", truth)
    rng = random.Random(2)
    predictions = {r["qid"]: rng.choice([0, 1, 2, 3, None]) for r in rng.sample(truth, len(truth))}
    exported = export_official(predictions, path)
    json.dumps(exported)
    assert list(exported) == list(TASKS) and {len(v) for v in exported.values()} == {9}
    for task in TASKS:
        own = [r for r in truth if r["task"] == task]
        expected = sum(predictions[r["qid"]] == r["answer"] for r in own) / 9
        assert official_score(truth, exported)[task] == pytest.approx(expected)
        assert exported[task] == [-1 if predictions[r["qid"]] is None else predictions[r["qid"]] for r in own]
    one = {r["qid"]: 0 for r in truth if r["task"] == "visual_cloze"}
    assert export_official(one, path) == {"visual_cloze": [0] * 9}
    with pytest.raises(InputError, match="27 missing and 0 extra of 36"):
        export_official(one, path, tasks=TASKS)
    one.pop(next(iter(one)))
    one["nobody"] = 1
    with pytest.raises(InputError, match=r"val\.json: .* 1 missing and 1 extra of 9"):
        export_official(one, path)
    for odd in (4, -2, "1", 1.0):
        with pytest.raises(InputError, match="give an integer"):
            export_official({**predictions, truth[0]["qid"]: odd}, path)
    with pytest.raises(InputError):
        export_official({}, path)


def test_official_score_on_real_questions(shared: Path) -> None:
    path = shared / "data" / "recipeqa" / "val_open.json.gz"
    truth = json.loads(gzip.decompress(path.read_bytes()))["data"]
    rng = random.Random(0)
    predictions = {r["qid"]: rng.randrange(4) for r in truth}
    scores = official_score(truth, export_official(predictions, path))
    for task in TASKS:
        own = [r for r in truth if r["task"] == task]
        assert scores[task] == sum(predictions[r["qid"]] == r["answer"] for r in own) / len(own)
    everything_right = export_official({r["qid"]: r["answer"] for r in truth}, path)
    assert set(official_score(truth, everything_right).values()) == {1.0}


def test_published_rows() -> None:
    for task in TASKS:
        rows = published_rows(task)
        assert len(rows) >= 9
        for row in rows:
            assert {"system", "year", "accuracy", "split", "n", "source", "confirmed"} <= row.keys()
            assert 0 < row["accuracy"] <= 100 and isinstance(row["confirmed"], bool)
            assert row["split"] != "test" or row["n"] in (None, 700, OFFICIAL_COUNTS["test"][task])
    by_system = {r["system"]: r["accuracy"] for r in published_rows("visual_coherence")}
    assert by_system["Hasty Student"] == 65.8 and by_system["Impatient Reader (multimodal)"] == 28.08
    published_rows("textual_cloze")[0]["accuracy"] = 0
    assert published_rows("textual_cloze")[0]["accuracy"] == 73.6, "a caller's change stays with the caller"
    with pytest.raises(InputError, match="no published results"):
        published_rows("cloze")


def test_published_rows_are_those_of_the_collected_facts(shared: Path) -> None:
    facts = json.loads((shared / "published" / "recipeqa.json").read_text())
    for task in (*TASKS, "average"):
        keys = {"system": "system", "year": "year", "accuracy": "value", "split": "split", "n": "n_questions"}
        keys |= {"source": "source", "confirmed": "confirmed"}
        expected = [{k: fact[v] for k, v in keys.items()} for fact in facts if fact["task"] == task]
        assert [{k: row[k] for k in keys} for row in published_rows(task)] == expected
