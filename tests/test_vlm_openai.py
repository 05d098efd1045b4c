"""The HTTP client against a server that behaves as it is told to: order, retries, limits, secrets, messages."""

import gc
import json
import logging
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from data.errors import InputError
from data.records import LETTERS, FoodQuestion
from models.backend import Reply, Request, Turn
from models.chat_server import one_line
from models.vlm_openai import OpenAIModel, letter_scores
from tests.food_server import FAULTS, FoodServer, turn_images, turn_texts
from tests.runs import composed

KEY = "sk-secret-0123456789abcdef"
COLOURS = {"red": (200, 30, 30), "green": (30, 180, 40), "blue": (30, 40, 200), "yellow": (220, 210, 40)}
NO_QUESTION = FoodQuestion("textqa", 0, "0" * 32, "q", "zh", "?", ("a", "b", "c", "d"), (), 0, "flavor")


def text_requests(n: int, method: str = "generate") -> list[Request]:
    return [Request(f"key{i}", NO_QUESTION, method, (Turn("user", (f"question {i} 答案为（",)),)) for i in range(n)]


def model_of(server: FoodServer, /, **changes: Any) -> OpenAIModel:
    given: dict[str, Any] = {"base_url": server.base_url, "model": "tiny", "api_key_env": None, "backoff": 0.001}
    return OpenAIModel(**(given | changes))


def answers(model: OpenAIModel, requests: Sequence[Request]) -> dict[str, Reply]:
    """Replies by key; every request is answered exactly once."""
    try:
        pairs = list(model.answer(requests))
    finally:
        model.close()
    assert Counter(request.key for request, _ in pairs) == Counter(request.key for request in requests)
    return {request.key: reply for request, reply in pairs}


def refusal(server: FoodServer, requests: Sequence[Request] | None = None, /, **changes: Any) -> str:
    """The one line a run ends with."""
    with pytest.raises(InputError) as caught:
        answers(model_of(server, **changes), text_requests(40) if requests is None else requests)
    text = str(caught.value)
    assert "\n" not in text and KEY not in text and len(text) < 700
    return text


def echo(messages: list[dict[str, Any]]) -> str:
    return f"B of {turn_texts(messages[-1])[0]}"


# ---- answers ---------------------------------------------------------------------------------------------------------


def test_every_request_gets_its_own_answer_and_at_most_so_many_are_asked_at_once():
    with FoodServer(echo, delay=0.01) as server:
        found = answers(model_of(server, concurrency=5), text_requests(60))
    assert {key: reply.response for key, reply in found.items()} == {
        f"key{i}": f"B of question {i} 答案为（" for i in range(60)
    }
    assert server.peak == 5
    reply = found["key0"]
    assert reply.finish_reason == "stop" and reply.attempts == 1 and reply.error is None and reply.seconds > 0
    assert reply.usage and set(reply.usage) == {"prompt_tokens", "completion_tokens"}


def test_what_is_sent_is_what_the_config_says():
    with FoodServer(echo, kind="hosted") as server:
        answers(
            model_of(
                server,
                max_tokens=7,
                max_tokens_key="max_completion_tokens",
                temperature=None,
                seed=3,
                stop="\n",
                extra_body={"chat_template_kwargs": {"enable_thinking": False}},
                headers={"X-Team": "food"},
                api_key=KEY,
            ),
            text_requests(1),
        )
        answers(model_of(server), text_requests(1, "logprob"))
    first, second = server.bodies
    assert first == {
        "model": "tiny",
        "max_completion_tokens": 7,
        "seed": 3,
        "stop": ["\n"],
        "messages": [{"role": "user", "content": "question 0 答案为（"}],
        "chat_template_kwargs": {"enable_thinking": False},
    }
    assert server.headers[0]["x-team"] == "food" and server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert second["logprobs"] is True and second["top_logprobs"] == 20 and second["max_tokens"] == 1
    assert "authorization" not in server.headers[1]


def test_reasoning_comes_apart_and_an_empty_answer_is_one():
    said = iter(
        [
            {"content": "B", "reasoning_content": "thinks"},
            {"content": None, "reasoning": "never ends", "finish_reason": "length"},
            {"content": [{"type": "thinking", "thinking": [{"text": "hm"}]}, {"type": "text", "text": "C"}]},
            {"content": None, "refusal": "I cannot."},
            {"content": "", "finish_reason": "content_filter"},
        ]
    )
    with FoodServer(lambda messages: next(said)) as server:
        found = list(answers(model_of(server, concurrency=1), text_requests(5)).values())
    assert [(r.response, r.reasoning, r.finish_reason) for r in found] == [
        ("B", "thinks", "stop"),
        ("", "never ends", "length"),
        ("C", "hm", "stop"),
        ("I cannot.", None, "stop"),
        ("", None, "content_filter"),
    ]
    assert all(r.error is None for r in found) and found[4].flags == ("content_filter",)


def test_a_filtered_question_is_answered_and_not_asked_again():
    with FoodServer(refuse=(400, "The prompt was filtered", "content_filter")) as server:
        [reply] = answers(model_of(server, server="hosted"), text_requests(1)).values()
    assert (reply.response, reply.finish_reason, reply.error) == ("", "content_filter", None)
    assert len(server.bodies) == 1


# ---- order of texts and pictures -------------------------------------------------------------------------------------


def write_tiles(folder: Path, size: int = 28) -> dict[str, str]:
    generator = np.random.default_rng(0)
    for name, colour in COLOURS.items():
        noise = generator.integers(-25, 25, size=(size, size, 3))
        Image.fromarray(np.clip(np.asarray(colour) + noise, 0, 255).astype(np.uint8)).save(folder / f"{name}.png")
    return {name: str(folder / f"{name}.png") for name in COLOURS}


def tile_requests(tiles: dict[str, str], n: int, method: str = "generate") -> list[tuple[Request, str]]:
    """Tiles in drawn orders, each followed by its label, and the letter of the colour that is asked for."""
    generator, made = np.random.default_rng(1), []
    for i in range(n):
        order = [str(name) for name in generator.permutation(list(tiles))]
        asked = order[int(generator.integers(4))]
        parts: list[str | int] = []
        for place, letter in enumerate(LETTERS):
            parts += [place, f"图{letter}"]
        parts.append(f"{asked}? 答案为：图")
        images = tuple(tiles[name] for name in order)
        question = replace(NO_QUESTION, task="mivqa", row=i, images=images, choices=(), answer=order.index(asked))
        request = Request(f"tile{i}", question, method, (Turn("user", tuple(parts)),), images, "none", "图")
        made.append((request, LETTERS[order.index(asked)]))
    return made


def sees(messages: list[dict[str, Any]]) -> str:
    """Answers as a model that looks at the pictures: each belongs to the label right after it."""
    seen: dict[str, str] = {}
    for message in messages:
        for part, after in zip(message["content"], message["content"][1:], strict=False):
            if part["type"] == "image_url" and after["type"] == "text":
                mean = np.asarray(turn_images({"content": [part]})[0], dtype=float).mean(axis=(0, 1))
                colour = min(COLOURS, key=lambda name: float(np.abs(mean - COLOURS[name]).sum()))
                seen[colour] = after["text"].removeprefix("图")
    return seen[turn_texts(messages[-1])[-1].split("?")[0]]


@pytest.mark.parametrize("size", [28, 300], ids=["png", "jpeg"])
def test_a_server_that_sees_answers_every_tile(tmp_path: Path, size: int):
    made = tile_requests(write_tiles(tmp_path, size), 40)
    with FoodServer(sees, faults={"500": 0.1, "drop": 0.1}) as server:
        found = answers(model_of(server), [request for request, _ in made])
    assert [found[request.key].response for request, _ in made] == [letter for _, letter in made]


def test_texts_and_pictures_keep_their_order_to_the_byte(tmp_path: Path):
    tiles = write_tiles(tmp_path)
    parts: tuple[str | int, ...] = (" 图A：", "\t\n", 1, "“四川”\u3000\u200b", 0, 0, "(", "")
    turns = (
        Turn("system", ("be brief ", "或 not")),
        Turn("user", parts),
        Turn("user", (" second\r\n",)),
        Turn("assistant", ("答案为：图",)),
    )
    request = Request("k", NO_QUESTION, "generate", turns, (tiles["red"], tiles["blue"]), "continue", "图")
    with FoodServer() as server:
        answers(model_of(server), [request])
    system, user, second, assistant = server.bodies[0]["messages"]
    assert system == {"role": "system", "content": "be brief 或 not"}
    assert second == {"role": "user", "content": " second\r\n"}
    assert assistant == {"role": "assistant", "content": "答案为：图"}
    shown = [part["text"] if part["type"] == "text" else part["type"] for part in user["content"]]
    assert shown == [part if isinstance(part, str) else "image_url" for part in parts]
    pixels = [np.asarray(picture)[14, 14].argmax() for picture in turn_images(user)]
    assert pixels == [2, 0, 0]


def test_pictures_are_made_small_first(tmp_path: Path):
    Image.new("RGB", (2000, 500), (10, 200, 30)).save(tmp_path / "wide.png")
    request = Request("k", NO_QUESTION, "generate", (Turn("user", (0, "?")),), (str(tmp_path / "wide.png"),))
    with FoodServer() as server:
        answers(model_of(server, image_longest_side=400), [request])
    assert turn_images(server.bodies[0]["messages"][0])[0].size == (400, 100)


def test_a_damaged_picture_ends_the_run_with_its_name(tmp_path: Path):
    (tmp_path / "bad.jpg").write_bytes(b"no picture")
    request = Request("k", NO_QUESTION, "generate", (Turn("user", (0, "?")),), (str(tmp_path / "bad.jpg"),))
    with FoodServer() as server:
        assert "bad.jpg" in refusal(server, [request])
    assert not server.bodies


# ---- what a server can do --------------------------------------------------------------------------------------------

BEGUN = (Turn("user", ("选项 A 到 D",)), Turn("assistant", ("答案为：图",)))


@pytest.mark.parametrize(
    ("kind", "prefill", "logprobs", "interleaved", "version"),
    [
        ("vllm", True, True, True, "0.99.0"),
        ("sglang", True, True, True, "0.99.0"),
        ("llamacpp", True, True, True, "b9999-abcdef"),
        ("ollama", False, True, False, "0.99.0"),
        ("transformers", False, False, True, None),
        ("hosted", False, True, True, None),
    ],
)
def test_servers_are_recognised(kind, prefill, logprobs, interleaved, version):
    with FoodServer(kind=kind, logprobs="given" if logprobs else "ignored") as server:
        model = model_of(server, model=None)
        assert "/v1/chat/completions" not in server.paths and not server.bodies  # building sends nothing
        can = model.capabilities()
        assert model.capabilities() is can and len(server.bodies) == 1  # asked once
        identity = model.identity()
        declared = model_of(server, server=kind, logprobs=logprobs)
        before = sum(server.paths.values())
        assert declared.capabilities() == can
        assert declared.identity() | {"version": version} == identity
        assert sum(server.paths.values()) == before  # all was declared
        model.close()
    assert (can.prefill, can.logprobs, can.interleaved) == (prefill, logprobs, interleaved)
    assert identity["model"] == "tiny" and identity["version"] == version and identity["backend"] == f"openai/{kind}"
    assert can.prompted and can.max_images == 4
    json.dumps(identity)
    assert identity["address"] == server.base_url, "two servers may serve different weights by one name"


@pytest.mark.parametrize("kind", ["vllm", "sglang", "llamacpp"])
def test_a_begun_answer_is_continued(kind):
    def last(messages):
        return f"{messages[-1]['role']}:{messages[-1]['content']}"

    begun = Request("k", NO_QUESTION, "generate", BEGUN, (), "continue", "图")
    with FoodServer(last, kind=kind) as server:
        assert answers(model_of(server), [begun])["k"].response == "assistant:答案为：图"
        closed = replace(begun, prefill="closed_turn")
        if kind == "llamacpp":
            assert "closed_turn" in refusal(server, [closed])
        else:
            assert answers(model_of(server), [closed])["k"].response == "assistant:"
    asked_to = server.bodies[0].get("continue_final_message"), server.bodies[0].get("add_generation_prompt")
    assert asked_to == ((None, None) if kind == "llamacpp" else (True, False))


@pytest.mark.parametrize("status", [400, 422])
def test_a_refused_prefill_says_what_to_set(status):
    begun = Request("k", NO_QUESTION, "generate", BEGUN, (), "continue", "图")
    with FoodServer(refuse_prefill=status) as server:
        assert "model.prefill=false" in refusal(server, [begun])


def test_unknown_fields_stop_the_run():
    with FoodServer(kind="transformers") as server:
        message = refusal(server, extra_body={"min_p": 0.1})
    assert "Unexpected fields in the request: min_p" in message and "model.extra_body" in message


@pytest.mark.parametrize("logprobs", ["ignored", "refused"])
def test_log_probabilities_that_do_not_come_are_noticed_before_the_first_question(logprobs):
    with FoodServer(logprobs=logprobs) as server:
        model = model_of(server)
        assert not model.capabilities().logprobs
        model.check("generate")
        with pytest.raises(InputError, match=r"asking\.method=logprob: no log-probabilities .*asking\.method=generate"):
            model.check("logprob")
        with pytest.raises(InputError, match="score"):
            model.check("score")
        model.close()
    assert len(server.bodies) == 1


def test_letters_are_scored_over_their_spellings(tmp_path: Path):
    letters = {"A": -1.0, " A": -2.0, "（A": -3.0, "(B": -1.5, "B)": -4.0, "Answer": -0.7, "C": -6.0, "a": -1.2}
    with FoodServer(letters=lambda messages: letters) as server:
        model = model_of(server)
        model.check("logprob")
        reply = answers(model, text_requests(1, "logprob"))["key0"]
    assert reply.scores is not None and reply.response == "Answer" and reply.error is None
    assert reply.scores["A"] == pytest.approx(math.log(math.exp(-1) + math.exp(-2) + math.exp(-3)))
    assert reply.scores["B"] == pytest.approx(math.log(math.exp(-1.5) + math.exp(-4)))
    assert reply.scores["C"] == -6.0
    assert -6.001 < reply.scores["D"] < -6.0  # below what came back
    assert reply.flags == ("not_in_top_k",)
    assert reply.letter_mass == pytest.approx(sum(math.exp(x) for x in (-1, -2, -3, -1.5, -4, -6)))


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.text(max_size=4), st.floats(-40, -1e-6), min_size=1, max_size=20))
def test_scores_are_never_missing_nor_above_their_bound(entries):
    scores, mass, flags = letter_scores(list(entries.items()))
    assert list(scores) == list(LETTERS) and all(math.isfinite(value) for value in scores.values())
    assert 0 <= mass <= 1
    missing = [letter for letter in LETTERS if scores[letter] < min(entries.values())]
    assert bool(missing) == (flags == ("not_in_top_k",))
    assert all(scores[letter] >= entries[letter] - 1e-9 for letter in LETTERS if letter in entries)


def test_values_that_are_no_numbers_are_left_out():
    scores, _, flags = letter_scores([("A", -0.5), ("B", -math.inf), ("C", math.nan), ("D", -2.0)])
    assert scores["A"] == -0.5 and scores["B"] == scores["C"] < scores["D"] and flags
    with pytest.raises(ValueError, match="no log-probabilities"):
        letter_scores([("A", -math.inf)])


# ---- a server that fails ---------------------------------------------------------------------------------------------


def test_a_server_that_fails_three_times_in_ten_answers_everything_and_failures_are_counted():
    faults = {"500": 0.06, "503": 0.04, "429": 0.05, "drop": 0.05, "garbage": 0.03, "half": 0.03, "empty": 0.03}
    faults["timeout"] = 0.004
    with FoodServer(echo, faults=faults, retry_after="0", hang=30) as server:
        model = model_of(server, timeout=3, retries=12)
        found = answers(model, text_requests(600))
    assert [found[f"key{i}"].response for i in range(600)] == [f"B of question {i} 答案为（" for i in range(600)]
    assert set(server.failures) == set(faults) and sum(server.failures.values()) > 180
    assert server.answered == 600 and server.peak <= 16
    made = server.failures
    assert model.failures["http_500"] == made["500"] and model.failures["http_429"] == made["429"]
    assert model.failures["timeout"] == made["timeout"]
    assert model.failures["malformed"] == made["garbage"] + made["empty"]
    assert model.failures["connection"] == made["drop"] + made["half"]
    assert sum(reply.attempts - 1 for reply in found.values()) == sum(made.values())
    per_reply = Counter()
    for reply in found.values():
        per_reply.update(reply.extra.get("failures", {}))
    assert per_reply == model.failures


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_that_never_ends_is_an_error_and_no_answer(fault):
    with FoodServer(faults={fault: 1.0}, retry_after="0", hang=2) as server:
        [reply] = answers(model_of(server, retries=2, timeout=0.2, server="hosted"), text_requests(1)).values()
    assert reply.response is None and reply.scores is None and reply.attempts == 3 == len(server.bodies)
    assert reply.error and "\n" not in reply.error and server.base_url in reply.error
    assert len(set(server.raw)) == 1  # each attempt sends the same bytes


def test_refusals_are_not_repeated():
    with FoodServer(refuse=(400, "This model's maximum context length is 2048 tokens.")) as server:
        [reply] = answers(model_of(server, retries=5, server="vllm"), text_requests(1)).values()
    assert len(server.bodies) == 1 and reply.attempts == 1
    assert reply.error and "maximum context length" in reply.error and "model.image_longest_side" in reply.error


def test_waits_double_and_are_drawn_from_a_seed(monkeypatch):
    import models.chat_server as chat

    def waits() -> list[float]:
        seen: list[float] = []
        sleep = chat.asyncio.sleep

        async def noted(seconds: float) -> None:
            seen.append(seconds)
            await sleep(0)

        with FoodServer(faults={"500": 1.0}) as server, monkeypatch.context() as patch:
            patch.setattr(chat.asyncio, "sleep", noted)
            answers(model_of(server, retries=9, backoff=0.5, server="hosted"), text_requests(1))
        return [seconds for seconds in seen if seconds > 0]

    first = waits()
    assert len(first) == 9 and first == waits()
    for i, seconds in enumerate(first):
        full = min(0.5 * 2**i, 30)
        assert full / 2 <= seconds <= full


@pytest.mark.parametrize(
    ("header", "low", "high"),
    [
        ("7", 7, 7.7),
        ("100000", 60, 66),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.25, 0.5),
        ("soon", 0.25, 0.5),
        ("-1", 0.25, 0.5),
    ],
)
def test_the_servers_wish_to_wait_counts_within_bounds(monkeypatch, header, low, high):
    import models.chat_server as chat

    seen: list[float] = []
    sleep = chat.asyncio.sleep

    async def noted(seconds: float) -> None:
        seen.append(seconds)
        await sleep(0)

    with FoodServer(faults={"429": 1.0}, retry_after=header) as server, monkeypatch.context() as patch:
        patch.setattr(chat.asyncio, "sleep", noted)
        answers(model_of(server, retries=1, backoff=0.5, server="hosted"), text_requests(1))
    [wait] = [seconds for seconds in seen if seconds > 0]
    assert low <= wait <= high


# ---- runs that end ---------------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_no_server_ends_the_run_at_once():
    model = OpenAIModel(f"http://127.0.0.1:{free_port()}/v1", api_key_env=None, backoff=100)
    for call in (model.capabilities, model.identity, lambda: list(model.answer(text_requests(3)))):
        with pytest.raises(InputError, match=r"cannot be reached .*start the server, or correct model\.base_url"):
            call()
    model.close()
    declared = OpenAIModel(
        f"http://127.0.0.1:{free_port()}", "tiny", api_key_env=None, backoff=100, server="vllm", logprobs=False
    )
    declared.capabilities()
    with pytest.raises(InputError, match="start the server"):
        answers(declared, text_requests(3))


def test_a_wrong_key_names_the_variable_and_not_the_key(monkeypatch):
    monkeypatch.setenv("FOOD_KEY", "sk-other-9876543210")
    with FoodServer(key=KEY) as server:
        for changes in ({}, {"server": "hosted", "logprobs": False}):
            message = refusal(server, api_key_env="FOOD_KEY", **changes)
            assert "HTTP 401" in message and "FOOD_KEY" in message and "sk-other" not in message
        monkeypatch.setenv("FOOD_KEY", KEY)
        assert answers(model_of(server, api_key_env="FOOD_KEY"), text_requests(1))["key0"].response == "A"


def test_an_unknown_model_lists_those_there_are():
    with FoodServer(models=("qwen", "llava")) as server:
        for changes in ({}, {"server": "vllm"}):
            message = refusal(server, **changes)
            assert "HTTP 404" in message and "qwen, llava" in message and "model.name=tiny" in message
        message = refusal(server, model=None)
        assert "qwen, llava" in message and "model.name" in message
    with FoodServer(models=()) as server:
        assert "lists none" in refusal(server, model=None)


@pytest.mark.parametrize(
    ("most", "remedy"), [(0, "--mmproj"), (1, "--limit-mm-per-prompt"), (3, "--limit-mm-per-prompt")]
)
def test_a_server_that_refuses_pictures_ends_the_run_at_the_first(tmp_path: Path, most: int, remedy: str):
    requests = [request for request, _ in tile_requests(write_tiles(tmp_path), 30)]
    with FoodServer(max_images=most) as server:
        assert remedy in refusal(server, requests, concurrency=4, backoff=100)
    assert len(server.bodies) <= 8


@pytest.mark.parametrize(
    ("status", "said", "remedy"),
    [
        (400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", "model.max_tokens_key"),
        (400, "Unsupported value: 'temperature' does not support 0 with this model.", "model.temperature=null"),
        (400, "seed: Extra inputs are not permitted", "model.seed=null"),
        (400, "Conversation roles must alternate user/assistant/user", "prompts.variant"),
        (403, "Forbidden", "model.api_key"),
        (307, "moved", "model.base_url"),
    ],
)
def test_what_meets_every_question_ends_the_run_with_a_remedy(status, said, remedy):
    with FoodServer(refuse=(status, said)) as server:
        assert remedy in refusal(server, server="hosted")
        if status == 400:
            with pytest.raises(InputError, match=remedy):
                model = model_of(server)
                model.capabilities()


def test_a_model_called_seed_is_no_complaint_about_the_seed():
    with FoodServer(refuse=(400, "doubao-seed-1.6: maximum context length exceeded")) as server:
        [reply] = answers(model_of(server, server="hosted"), text_requests(1)).values()
    assert reply.error and "image_longest_side" in reply.error


def test_a_server_that_is_gone_ends_the_run_and_answers_are_kept():
    with FoodServer(echo) as server:
        model = model_of(server, concurrency=4, retries=1, server="vllm")
        got = []
        with pytest.raises(InputError, match="20 questions in a row got no answer"):
            for _, reply in model.answer(text_requests(5000)):
                got.append(reply)
                if len(got) == 50:
                    server.faults["drop"] = 1.0
        model.close()
    good = [reply for reply in got if reply.error is None]
    assert len(good) >= 50 and len(got) < 5000


def test_errors_between_answers_do_not_end_a_run():
    def broken(messages):
        return echo(messages)

    class Half(FoodServer):
        def refusal(self, body, headers):
            number = int(body["messages"][0]["content"].split()[1])
            return (400, "context length") if number % 2 else None

    with Half(broken) as server:
        found = answers(model_of(server, server="vllm"), text_requests(200))
    assert sum(reply.error is not None for reply in found.values()) == 100


def test_an_iterator_that_is_closed_stops_asking_and_the_model_can_go_on():
    with FoodServer(echo, delay=0.05) as server:
        model = model_of(server, concurrency=3, server="vllm")
        running = cast(Generator[Any, None, None], model.answer(text_requests(500)))
        for _ in range(4):
            next(running)
        running.close()
        sent = len(server.bodies)
        assert sent <= 4 + 3
        time.sleep(0.2)
        assert len(server.bodies) <= sent + 3
        assert len(list(model.answer(text_requests(5)))) == 5
        model.close()
        model.close()


def test_closing_the_model_first_leaves_nothing_behind(caplog):
    before = set(threading.enumerate())
    with FoodServer(echo, delay=0.2) as server:
        model = model_of(server, concurrency=3, server="vllm")
        running = model.answer(text_requests(50))
        next(running)
        model.close()
        del running
        gc.collect()
    assert not caplog.records
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name == "chat-server"]


def test_a_proxy_does_not_stand_between_a_machine_and_its_own_server(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    with FoodServer(echo) as server:
        assert answers(model_of(server), text_requests(1))["key0"].error is None


def test_an_interrupt_ends_promptly_while_a_server_hangs():
    before = set(threading.enumerate())
    with FoodServer(faults={"timeout": 1.0}, hang=600) as server:
        model = model_of(server, timeout=600, server="vllm")
        main = threading.main_thread().ident
        assert main is not None
        # A shell starts what runs in its background deaf to this signal.
        before_it = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT)).start()
            with pytest.raises(KeyboardInterrupt):
                next(model.answer(text_requests(20)))
        finally:
            signal.signal(signal.SIGINT, before_it)
        model.close()
    assert not [thread for thread in set(threading.enumerate()) - before if thread.name == "chat-server"]


def test_unread_results_hold_the_next_requests_back():
    with FoodServer(echo) as server:
        model = model_of(server, concurrency=4, server="vllm")
        running = model.answer(text_requests(100))
        next(running)
        time.sleep(0.3)
        assert len(server.bodies) == 5  # four ahead of the one that was taken
        assert len(list(running)) == 99
        model.close()


def test_pictures_of_requests_to_come_are_not_held(tmp_path: Path, monkeypatch):
    """At most `concurrency` bodies exist at once, whatever the number of requests."""
    alive, most, lock = 0, 0, threading.Lock()

    class Body(bytes):
        def __new__(cls, data: bytes):
            nonlocal alive, most
            with lock:
                alive += 1
                most = max(most, alive)
            return super().__new__(cls, data)

        def __del__(self):
            nonlocal alive
            with lock:
                alive -= 1

    requests = [request for request, _ in tile_requests(write_tiles(tmp_path), 80)]
    body = OpenAIModel._body
    monkeypatch.setattr(OpenAIModel, "_body", lambda self, request: Body(body(self, request)))
    with FoodServer(sees, faults={"500": 0.2}) as server:
        answers(model_of(server, concurrency=4, server="vllm"), requests)
    gc.collect()
    assert 2 <= most <= 6 and alive == 0  # one or two more for what httpx lets go late


# ---- secrets and messages --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["api_key", "variable", "header", "address"])
def test_the_key_is_nowhere(where, monkeypatch, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    texts: list[str] = []
    with FoodServer(
        lambda messages: f"the key is {KEY}", refuse=(400, f"bad request of {KEY}: data:image/png;base64,{'A' * 500}")
    ) as server:
        changes: dict[str, Any] = {"server": "vllm"}
        if where == "api_key":
            changes["api_key"] = KEY
        elif where == "variable":
            monkeypatch.setenv("FOOD_KEY", KEY)
            changes["api_key_env"] = "FOOD_KEY"
        elif where == "header":
            changes["headers"] = {"api-key": KEY}
        else:
            changes["base_url"] = server.base_url.replace("//", f"//user:{KEY}@")
        model = model_of(server, **changes)
        replies = list(answers(model, text_requests(3)).values())
        texts += [str(reply) for reply in replies]
        assert all(reply.error for reply in replies)
        server.refuse = None
        for reply in answers(model, text_requests(3)).values():
            texts.append(str(reply))
            assert reply.response == "the key is ***"
        with pytest.raises(InputError) as caught:
            model.check("score")
        server.refuse = (401, f"no such key: {KEY}")
        with pytest.raises(InputError) as refused:
            answers(model, text_requests(1))
        texts += [str(caught.value), str(refused.value), repr(refused.value)]
        if where == "address":
            assert server.headers[0]["authorization"].startswith("Basic ")
        texts += [repr(model), repr(model.connection), json.dumps(model.identity()), json.dumps(model.failures)]
        assert any(KEY in str(headers) for headers in server.headers) or where == "address"
    out, err = capfd.readouterr()
    everything = "\n".join([*texts, out, err, caplog.text])
    assert KEY not in everything and "A" * 100 not in everything


@pytest.mark.parametrize("key", ["sk-with\nbreak", "sk-ключ", "two words"])
def test_a_key_that_cannot_be_sent_is_not_repeated(key, monkeypatch):
    monkeypatch.setenv("FOOD_KEY", key)
    with pytest.raises(InputError, match="FOOD_KEY") as caught:
        OpenAIModel("http://127.0.0.1:1/v1", "tiny", api_key_env="FOOD_KEY")
    assert key not in str(caught.value)
    with pytest.raises(InputError, match=r"model\.headers"):
        OpenAIModel("http://127.0.0.1:1/v1", "tiny", api_key_env=None, headers={"X-Key": key.replace(" ", "\n")})


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1"),
        ("http://127.0.0.1:8000/v1/chat/completions", "http://127.0.0.1:8000/v1"),
        ("https://a.example/openai/v1beta", "https://a.example/openai/v1beta"),
        ("http://u:p%40x@[::1]:80/v1", "http://[::1]:80/v1"),
    ],
)
def test_addresses(given, url):
    assert OpenAIModel(given, "m", api_key_env=None).connection.url == url


@pytest.mark.parametrize(
    "given", ["", "127.0.0.1:8000", "ftp://x/v1", "http://", "http://h:99999/v1", "http://h/v1?a=b"]
)
def test_addresses_that_are_none(given):
    with pytest.raises(InputError, match=r"model\.base_url.*http://127\.0\.0\.1:8000/v1"):
        OpenAIModel(given, "m", api_key_env=None)


@pytest.mark.parametrize(
    "changes",
    [
        {"concurrency": 0},
        {"timeout": 0},
        {"retries": -1},
        {"max_tokens": 0},
        {"max_tokens_key": "tokens"},
        {"server": "tgi"},
        {"prefill": "maybe"},
        {"max_images": -1},
        {"extra_body": {"stream": True}},
    ],
)
def test_settings_that_cannot_be(changes):
    with pytest.raises(InputError, match=f"model.{next(iter(changes))}"):
        OpenAIModel("http://127.0.0.1:1/v1", "m", api_key_env=None, **changes)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=600))
def test_messages_are_one_line(text):
    line = one_line(text)
    assert len(line) <= 300 and len(line.splitlines()) <= 1 and line == line.strip()


@pytest.mark.parametrize(
    "body",
    [
        b'{"error": {"message": "said so", "code": 5}}',
        b'{"error": "said so"}',
        b'{"object": "error", "message": "said so", "code": 400}',
        b'[{"error": {"message": "said so", "status": "INVALID"}}]',
        b'{"detail": "said so"}',
        b'{"detail": [{"loc": ["body", "x"], "msg": "said so", "input": {"messages": "AAAA"}}]}',
        b"<html><body>said so</body></html>",
        b"said so",
    ],
)
def test_errors_are_read_in_every_shape(body):
    from models.chat_server import _server_message

    message = _server_message(body)[1]
    assert "said so" in message and "AAAA" not in message and "<" not in message


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"[" * 100_000, b"null", b"3", b"{}", b'{"error": []}'])
def test_no_error_body_raises(body):
    from models.chat_server import _server_message

    assert isinstance(_server_message(body)[1], str)


def test_the_config_builds_it():
    from hydra.utils import instantiate
    from omegaconf import OmegaConf

    cfg = composed("evaluate", ["model=vlm/openai", "model.base_url=http://127.0.0.1:8000/v1", "model.name=tiny"])
    given = OmegaConf.to_container(cfg.model, resolve=True)
    assert isinstance(given, dict)
    model = instantiate({key: value for key, value in given.items() if key != "name"})
    assert isinstance(model, OpenAIModel) and model.model == "tiny" and model.seed == cfg.seed
    assert model.connection.concurrency == 16 and model.connection.retries == 6


# ---- models that are real --------------------------------------------------------------------------------------------


class SeeingModel:
    """The tiny model that sees colours, as a server runs it: messages in; a text, or the first token's values, out."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModelForImageTextToText, AutoProcessor

        self.processor: Any = AutoProcessor.from_pretrained(folder)
        self.model: Any = AutoModelForImageTextToText.from_pretrained(folder).eval()
        self.lock = threading.Lock()

    def generate(self, messages: list[dict[str, Any]]) -> str:
        inputs = self._inputs(messages)
        with self.lock:
            out = self.model.generate(**inputs, max_new_tokens=1, do_sample=False)
        return self.processor.decode(out[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)

    def letters(self, messages: list[dict[str, Any]]) -> dict[str, float]:
        import torch

        inputs = self._inputs(messages)
        with self.lock, torch.inference_mode():
            values = self.model(**inputs).logits[0, -1].log_softmax(-1)
        top = values.topk(20)
        found: dict[str, float] = {}
        for token, value in zip(top.indices, top.values, strict=True):
            found.setdefault(self.processor.decode([int(token)]), float(value))
        return found

    def _inputs(self, messages: list[dict[str, Any]]) -> Any:
        conversation = []
        for message in messages:
            images = iter(turn_images(message))
            content = [
                part if part["type"] == "text" else {"type": "image", "image": next(images)}
                for part in message["content"]
            ]
            conversation.append({"role": message["role"], "content": content})
        return self.processor.apply_chat_template(
            [conversation], tokenize=True, return_dict=True, return_tensors="pt", add_generation_prompt=True
        )


def right(found: dict[str, Reply], made: list[tuple[Request, str]]) -> int:
    """Right answers: the text itself, or the letter of the best score."""
    count = 0
    for request, letter in made:
        reply = found[request.key]
        assert reply.error is None
        said = max((value, key) for key, value in reply.scores.items())[1] if reply.scores else reply.response
        count += said == letter
    return count


@pytest.mark.slow
def test_a_model_that_sees_is_right_over_http_and_at_chance_without_the_right_order(shared: Path, tmp_path: Path):
    seeing = SeeingModel(shared / "fixtures" / "tiny_seeing")
    tiles = write_tiles(tmp_path)
    made = tile_requests(tiles, 60)
    with FoodServer(seeing.generate, seeing.letters, faults={"500": 0.1}) as server:
        assert right(answers(model_of(server), [request for request, _ in made]), made) == 60
        scored = tile_requests(tiles, 60, "logprob")
        found = answers(model_of(server), [request for request, _ in scored])
        assert right(found, scored) == 60
        assert all(0.25 < (reply.letter_mass or 0) <= 1 for reply in found.values())  # it is small and not sure

        def changed(change) -> int:
            other = [(change(request), letter) for request, letter in made]
            return right(answers(model_of(server), [request for request, _ in other]), other)

        def images_first(request: Request) -> Request:
            parts = sorted(request.turns[0].parts, key=lambda part: isinstance(part, str))
            return replace(request, turns=(Turn("user", tuple(parts)),))

        assert changed(lambda request: replace(request, images=request.images[1:] + request.images[:1])) == 0
        assert changed(images_first) < 30


def _installed(*names: str) -> None:
    for name in names:
        pytest.importorskip(name, reason=f"needs the package {name}, which the tests do not install")


@pytest.mark.slow
def test_transformers_serve_answers_the_tiles(shared: Path, tmp_path: Path):
    _installed("fastapi", "uvicorn", "openai", "accelerate")
    folder, port = str(shared / "fixtures" / "tiny_seeing"), free_port()
    command = [str(Path(sys.executable).with_name("transformers")), "serve", "--host", "127.0.0.1"]
    with subprocess.Popen(
        [*command, "--port", str(port), "--device", "cpu"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
    ) as process:
        try:
            _until_up(port, process)
            model = OpenAIModel(f"http://127.0.0.1:{port}", folder, api_key_env=None, concurrency=2, max_tokens=1)
            can = model.capabilities()
            assert (can.prefill, can.logprobs) == (False, False)
            made = tile_requests(write_tiles(tmp_path), 12)
            assert right(answers(model, [request for request, _ in made]), made) == 12
            with pytest.raises(InputError, match=r"Unexpected|min_p"):
                answers(
                    OpenAIModel(f"http://127.0.0.1:{port}/v1", folder, api_key_env=None, extra_body={"no_field": 1}),
                    text_requests(1),
                )
        finally:
            process.terminate()


def _until_up(port: int, process: subprocess.Popen) -> None:
    for _ in range(600):
        assert process.poll() is None, "the server stopped"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError("the server did not come up")
