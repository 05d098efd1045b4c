"""The log keeps what was acknowledged, whatever happens to the process that wrote it."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from data.errors import InputError
from engine.answer_log import AnswerLog, difference
from models.backend import Reply, Request
from tests.runs import ROOT
from tests.test_prompts import question

IDENTITY = {"model": "m", "generation": {"max_new_tokens": 16}}


def request(key):
    return Request(key, question("textqa"), "generate")


def write(path, *replies, identity=IDENTITY):
    log = AnswerLog(path, identity)
    for key, reply in replies:
        log.append(request(key), reply, {"prompt_id": "p"})
    log.close()


def test_what_is_written_is_read_back(tmp_path):
    path = tmp_path / "deep" / "log.jsonl"
    reply = Reply(
        response="图B\u2028\ud83c",  # a line separator and half a character
        reasoning="r",
        finish_reason="stop",
        usage={"prompt_tokens": 3},
        scores={"A": -0.5, "B": -math.inf},
        letter_mass=0.6,
        flags=("not_in_top_k",),
        attempts=2,
        seconds=0.5,
    )
    write(path, ("k", reply))
    assert AnswerLog(path, IDENTITY).read(["k", "absent"]).replies == {"k": reply}
    assert len(path.read_bytes().splitlines()) == 2


def test_errors_are_no_answers_and_the_last_good_line_counts(tmp_path):
    path = tmp_path / "log.jsonl"
    write(path, ("a", Reply(error="timed out")), ("b", Reply(response="A")), ("b", Reply(response="B")))
    write(path, ("b", Reply(error="late")), ("c", Reply(response="")))
    found = AnswerLog(path, IDENTITY).read("abc")
    assert found.failed == {"a"} and found.replies["b"].response == "B"
    assert found.replies["c"].response == "", "an empty text is an answer"


@pytest.mark.parametrize("cut", [1, 20, 90])
def test_a_torn_line_is_ignored_and_swallows_nothing(tmp_path, cut):
    path = tmp_path / "log.jsonl"
    write(path, ("a", Reply(response="A")), ("b", Reply(response="B")))
    path.write_bytes(path.read_bytes()[:-cut])
    found = AnswerLog(path, IDENTITY).read("ab")
    assert set(found.replies) == {"a"} and found.torn == 1
    write(path, ("c", Reply(response="C")))
    assert set(AnswerLog(path, IDENTITY).read("abc").replies) == {"a", "c"} | ({"b"} if cut == 1 else set())


@pytest.mark.parametrize("line", [b"[]\n", b"\xff\n", b'{"key": "a"}\n', b'{"key": "a", "scores": 3}\n', b"\n"])
def test_lines_of_others_are_counted_not_used(tmp_path, line):
    path = tmp_path / "log.jsonl"
    write(path, ("b", Reply(response="B")))
    with open(path, "ab") as file:
        file.write(line)
    found = AnswerLog(path, IDENTITY).read("ab")
    assert set(found.replies) == {"b"} and found.torn == 1


def test_a_log_of_other_settings_is_refused_with_the_difference(tmp_path):
    path = tmp_path / "log.jsonl"
    write(path, ("a", Reply(response="A")))
    other = {**IDENTITY, "generation": {"max_new_tokens": 500}}
    with pytest.raises(InputError, match=r"generation.max_new_tokens is 16 there and 500 here"):
        AnswerLog(path, other).read("a")
    (tmp_path / "x.jsonl").write_text('{"some": "file"}\n')
    with pytest.raises(InputError, match="no log of answers"):
        AnswerLog(tmp_path / "x.jsonl", IDENTITY).read("a")
    assert difference({"a": 1}, {"a": 1}) == "" and "b is None there" in difference({"a": 1}, {"a": 1, "b": 2})


def test_several_writers_share_a_log(tmp_path):
    path = tmp_path / "log.jsonl"

    def many(worker):
        write(path, *((f"{worker}-{i}", Reply(response="x" * 5000)) for i in range(50)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(many, range(4)))
    found = AnswerLog(path, IDENTITY).read([f"{w}-{i}" for w in range(4) for i in range(50)])
    assert len(found.replies) == 200 and found.torn == 0
    headers = [line for line in path.read_bytes().splitlines() if "identity" in json.loads(line)]
    assert len(headers) == 1


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write(tmp_path / "file" / "log.jsonl", ("a", Reply(response="A")))


def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path):
    path, note = tmp_path / "log.jsonl", tmp_path / "acknowledged"
    code = f"""
from tests.test_answer_log import *
log = AnswerLog(__import__("pathlib").Path({str(path)!r}), IDENTITY)
note = open({str(note)!r}, "ab", buffering=0)
i = 0
while True:
    log.append(request(str(i)), Reply(response="x" * 3000), {{}})
    note.write(b"%d\\n" % i)
    i += 1
"""
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    deadline = time.monotonic() + 60
    while (not note.exists() or note.stat().st_size < 500) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    acknowledged = note.read_text().split()
    assert len(acknowledged) > 100
    assert set(AnswerLog(path, IDENTITY).read(acknowledged).replies) == set(acknowledged)
