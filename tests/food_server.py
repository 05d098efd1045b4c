"""An OpenAI-compatible chat server on 127.0.0.1 for tests: answers by a function, fails as it is told to.

with FoodServer(answer=lambda messages: "B", faults={"500": 0.1, "drop": 0.1}) as server:
    ...  # server.base_url, server.bodies, server.peak, server.failures
"""

import base64
import hashlib
import io
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from PIL import Image

KINDS = ("vllm", "sglang", "llamacpp", "ollama", "transformers", "hosted")
CONTINUING = ("vllm", "sglang", "llamacpp")  # those that can leave an assistant turn open
FAULTS = ("500", "503", "429", "timeout", "drop", "garbage", "half", "empty")
_FIELDS = {  # all that `transformers serve` takes; anything else is HTTP 422
    *("model", "messages", "max_tokens", "max_completion_tokens", "temperature", "top_p", "seed", "stop", "stream"),
    *("logprobs", "top_logprobs", "n", "chat_template_kwargs"),
}
_OWNERS = {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llamacpp", "ollama": "library", "transformers": "local"}


class FoodServer:
    """A server that runs while the `with` block does.

    Args:
        answer: what the model says to the messages of a request: a text, or a dict merged into the reply's message
            (`content`, `reasoning_content`, ...) with an optional `finish_reason`. Where the last turn is the
            assistant's and is not continued, the messages end with an assistant turn of its own, as a model sees it.
        letters: log-probabilities of the first token, by token text; the most probable is generated when one token is
            asked for. None: derived from `answer`, which gets all but 1 % of the probability.
        kind: which server it behaves like: how it names itself, and what it does with prefill and unknown fields.
        models: names it serves; another one is HTTP 404.
        key: what a request must carry as bearer token, else HTTP 401 (whose text repeats what was sent).
        faults: share of the requests that fail, by kind of FAULTS. Whether an attempt fails is a function of its body,
            the number of the attempt and `seed` only, so it does not depend on the order of arrival.
        retry_after: value of that header in replies 429 and 503.
        max_images: most images in one request; 0 refuses images as llama.cpp does, others as vLLM does.
        logprobs: given | ignored (accepted, and nothing comes back) | refused (HTTP 400).
        refuse_prefill: HTTP status for a request that ends with an assistant turn, such as 400 or 422.
        refuse: (status, message), or with a code of the error, for every chat request.
        delay: seconds before each answer.
        hang: seconds a `timeout` fault holds the connection before it closes it.
    """

    def __init__(
        self,
        answer: Callable[[list[dict[str, Any]]], str | dict[str, Any]] = lambda messages: "A",
        letters: Callable[[list[dict[str, Any]]], Mapping[str, float]] | None = None,
        *,
        kind: str = "vllm",
        models: tuple[str, ...] = ("tiny",),
        key: str | None = None,
        faults: Mapping[str, float] | None = None,
        seed: int = 0,
        retry_after: str | None = None,
        max_images: int = 16,
        logprobs: str = "given",
        refuse_prefill: int | None = None,
        refuse: tuple[int, str] | tuple[int, str, str] | None = None,
        delay: float = 0.0,
        hang: float = 30.0,
    ) -> None:
        assert kind in KINDS and logprobs in ("given", "ignored", "refused")
        assert not set(faults or {}) - set(FAULTS), f"faults are {', '.join(FAULTS)}"
        self.answer, self.letters = answer, letters
        self.kind, self.models, self.key = kind, models, key
        self.faults, self.seed, self.retry_after = dict(faults or {}), seed, retry_after
        self.max_images, self.logprobs, self.refuse_prefill, self.refuse = max_images, logprobs, refuse_prefill, refuse
        self.delay, self.hang = delay, hang
        self.bodies: list[dict[str, Any]] = []  # of every chat request, in order of arrival, failed ones too
        self.headers: list[dict[str, str]] = []  # of the same requests, names in lower case
        self.raw: list[bytes] = []  # the same requests as they came
        self.times: list[float] = []  # when they came, monotonic seconds
        self.paths: Counter[str] = Counter()  # of all requests
        self.failures: Counter[str] = Counter()  # faults made on purpose, by kind
        self.answered = 0  # chat requests with a whole reply and status 200
        self.peak = 0  # most chat requests in progress at once
        self._now = 0
        self._attempts: Counter[bytes] = Counter()
        self._lock = threading.Lock()
        self._stopping = threading.Event()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def __enter__(self) -> "FoodServer":
        handler = type("Handler", (_Handler,), {"food": self})
        self._http = _Listener(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    # What follows runs in the threads of the connections.

    def began(self, raw: bytes, headers: Mapping[str, str]) -> str | None:
        """Note a chat request; returns the fault it is to suffer."""
        digest = hashlib.sha256(raw).digest()
        with self._lock:
            self._now += 1
            self.peak = max(self.peak, self._now)
            self.raw.append(raw)
            self.bodies.append(json.loads(raw))
            self.headers.append({name.lower(): value for name, value in headers.items()})
            self.times.append(time.monotonic())
            self._attempts[digest] += 1
            attempt = self._attempts[digest]
        drawn = hashlib.sha256(digest + f"/{attempt}/{self.seed}".encode()).digest()
        share = int.from_bytes(drawn[:8], "big") / 2**64
        for fault, probability in self.faults.items():
            if share < probability:
                with self._lock:
                    self.failures[fault] += 1
                return fault
            share -= probability
        return None

    def ended(self, answered: bool = False) -> None:
        with self._lock:
            self._now -= 1
            self.answered += answered

    def wait(self, seconds: float) -> None:
        """Sleep, unless the server stops."""
        if seconds > 0:
            self._stopping.wait(seconds)

    def refusal(self, body: dict[str, Any], headers: Mapping[str, str]) -> tuple[Any, ...] | None:
        """Status, message and perhaps code where a request is refused."""
        sent = headers.get("Authorization", "")
        if self.key is not None and sent != f"Bearer {self.key}":
            return 401, f"Incorrect API key provided: {sent.removeprefix('Bearer ')}"
        if self.refuse:
            return self.refuse
        if body.get("model") not in self.models:
            return 404, f"The model `{body.get('model')}` does not exist."
        if self.kind == "transformers" and (unknown := sorted(set(body) - _FIELDS)):
            return 422, f"Unexpected fields in the request: {', '.join(unknown)}"
        images = sum(len(turn_images(message)) for message in body["messages"])
        if images and not self.max_images:
            return 500, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"
        if images > self.max_images:
            return 400, f"At most {self.max_images} image(s) may be provided in one prompt."
        if self.logprobs == "refused" and body.get("logprobs"):
            return 400, "logprobs is not supported by this model"
        if self.refuse_prefill and body["messages"][-1]["role"] == "assistant":
            return self.refuse_prefill, "This model does not support assistant message prefill."
        if body.get("continue_final_message") and body.get("add_generation_prompt", True):
            return 400, "Cannot set both `continue_final_message` and `add_generation_prompt` to True."
        return None

    def reply(self, body: dict[str, Any]) -> dict[str, Any]:
        """The body of a good reply."""
        messages, echoed = list(body["messages"]), ""
        if messages[-1]["role"] == "assistant":
            left_open = self.kind == "llamacpp" or (self.kind in CONTINUING and body.get("continue_final_message"))
            if self.kind == "llamacpp":
                echoed = messages[-1]["content"]  # the real one repeats the begun answer
            if not left_open:
                messages.append({"role": "assistant", "content": ""})
        said = self.answer(messages)
        message: dict[str, Any] = {"role": "assistant"} | ({"content": said} if isinstance(said, str) else said)
        finish = message.pop("finish_reason", "stop")
        choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": finish, "logprobs": None}
        limit = body.get("max_tokens", body.get("max_completion_tokens", 1000))
        if body.get("logprobs") and self.logprobs == "given":
            text = str(message.get("content") or "")
            letters = self.letters(messages) if self.letters else {text[:1] or " ": -0.01, "\n": -4.7}
            ranked = sorted(letters.items(), key=lambda item: -item[1])[: body.get("top_logprobs", 0)]
            entries = [_entry(token, value) for token, value in ranked]
            first = max(letters.items(), key=lambda item: item[1])
            choice["logprobs"] = {"content": [_entry(*first) | {"top_logprobs": entries}]}
            if limit == 1:
                message["content"], choice["finish_reason"] = first[0], "length"
        if echoed:
            message["content"] = echoed + str(message.get("content") or "")
        usage = {"prompt_tokens": len(str(messages)) // 4, "completion_tokens": min(limit, 4)}
        usage["total_tokens"] = sum(usage.values())
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": body["model"],
            "choices": [choice],
            "usage": usage,
        }


def turn_texts(message: dict[str, Any]) -> list[str]:
    """The texts of a message in order; one for a plain string."""
    content = message["content"]
    return [content] if isinstance(content, str) else [part["text"] for part in content if part["type"] == "text"]


def turn_images(message: dict[str, Any]) -> list[Image.Image]:
    """The pictures of a message in order, decoded from their `data:` addresses."""
    content = message["content"]
    parts = [] if isinstance(content, str) else [part for part in content if part["type"] == "image_url"]
    return [picture(part["image_url"]["url"]) for part in parts]


def picture(uri: str) -> Image.Image:
    """A picture from its `data:` address."""
    match = re.fullmatch(r"data:image/(jpeg|png);base64,([A-Za-z0-9+/]+=*)", uri)
    assert match, uri[:60]
    return Image.open(io.BytesIO(base64.b64decode(match[2], validate=True))).convert("RGB")


def _encoded(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


def _entry(token: str, logprob: float) -> dict[str, Any]:
    return {"token": token, "logprob": logprob, "bytes": list(token.encode())}


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    food: FoodServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # a reply leaves in one packet

    def version_string(self) -> str:
        return {"llamacpp": "llama.cpp", "hosted": "cloud"}.get(self.food.kind, "uvicorn")

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        food = self.food
        with food._lock:
            food.paths[self.path] += 1
        if self.path == "/v1/models":
            if food.key is not None and self.headers.get("Authorization") != f"Bearer {food.key}":
                return self._error(401, "Incorrect API key provided")
            owner = _OWNERS.get(food.kind, "system")
            entries: list[dict[str, Any]] = [{"id": name, "object": "model", "owned_by": owner} for name in food.models]
            if food.kind == "transformers":
                entries = [entry | {"status": {"value": "loaded"}} for entry in entries]
            return self._json(200, {"object": "list", "data": entries})
        if self.path == "/version" and food.kind == "vllm":
            return self._json(200, {"version": "0.99.0"})
        if self.path == "/api/version" and food.kind == "ollama":
            return self._json(200, {"version": "0.99.0"})
        if self.path == "/props" and food.kind == "llamacpp":
            return self._json(200, {"build_info": "b9999-abcdef", "chat_template": ""})
        if self.path in ("/server_info", "/get_server_info") and food.kind == "sglang":
            return self._json(200, {"version": "0.99.0"})
        return self._error(404, "Not Found")

    def do_POST(self) -> None:
        food = self.food
        raw = self.rfile.read(int(self.headers["Content-Length"]))
        with food._lock:
            food.paths[self.path] += 1
        if self.path != "/v1/chat/completions":
            return self._error(404, "Not Found")
        fault = food.began(raw, dict(self.headers.items()))
        self._chat(json.loads(raw), fault)

    def _chat(self, body: dict[str, Any], fault: str | None) -> None:
        """Answer. A request is over before its reply is sent: the next one may come before this thread goes on."""
        food = self.food
        if fault == "timeout":  # over at once: the client gives up at a time of its own
            food.ended()
            food.wait(food.hang)
            self.close_connection = True
            return
        food.wait(food.delay)
        refused = None if fault else food.refusal(body, dict(self.headers.items()))
        try:
            data = b"" if refused or fault not in (None, "half") else _encoded(food.reply(body))
        finally:
            food.ended(answered=not fault and not refused)
        if fault == "drop":
            self.close_connection = True
        elif fault in ("500", "503", "429"):
            self._error(int(fault), f"made to fail ({fault})")
        elif fault == "garbage":
            self._send(200, b"<html>Bad Gateway \xff</html>", "text/html")
        elif fault == "empty":
            self._json(200, {"choices": []})
        elif fault == "half":
            self._send(200, data[: len(data) // 2], length=len(data))
            self.close_connection = True
        elif refused:
            self._error(*refused)
        else:
            self._send(200, data)

    def _error(self, status: int, message: str, code: str | int | None = None) -> None:
        if self.food.kind in ("transformers", "ollama") and status == 422:
            return self._json(status, {"detail": message})
        self._json(status, {"error": {"message": message, "type": "error", "code": code or status}})

    def _json(self, status: int, value: dict[str, Any]) -> None:
        self._send(status, _encoded(value))

    def _send(self, status: int, data: bytes, kind: str = "application/json", length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data) if length is None else length))
        if status in (429, 503) and self.food.retry_after is not None:
            self.send_header("Retry-After", self.food.retry_after)
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()
