"""Language and vision–language models behind an OpenAI-compatible server: vLLM, SGLang, llama.cpp, Ollama, hosted ones.

What a server can do differs and is often not said: a begun answer is continued by some and closed by others,
log-probabilities are left out without a word, pictures are moved before the text. So it is declared by the kind of
server, or asked for once before the first question.
"""

import asyncio
import json
import math
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from data.errors import InputError
from data.food_images import data_uri
from data.records import LETTERS
from models.backend import Capabilities, Reply, Request, Turn
from models.chat_server import ChatServer, Exchange, one_line

# kind of server -> continues a begun answer, keeps texts and pictures in order
SERVERS = {
    "vllm": (True, True),
    "sglang": (True, True),
    "llamacpp": (True, True),
    "ollama": (False, False),  # pictures hang on the message (ollama/ollama#2213)
    "transformers": (False, True),  # `transformers serve` opens a new turn, whatever the last one was
    "hosted": (False, True),
}
# Servers that want to be told; llama.cpp continues a trailing assistant turn without.
_CONTINUE = {"continue_final_message": True, "add_generation_prompt": False}
_OWNERS = {"vllm": "vllm", "sglang": "sglang", "llamacpp": "llamacpp", "library": "ollama"}
_HOSTED = ("openai", "openai-internal", "system", "anthropic", "google")
_VERSIONS = {
    "ollama": ("/api/version",),
    "vllm": ("/version",),
    "llamacpp": ("/props",),
    "sglang": ("/server_info", "/get_server_info"),
}
_PROBE = "A, B, C or D? Answer with one letter."
# The letter as one token may spell it: A, ` A`, `（A`, `(A)`, `A.`; not a, An or Answer.
_SPELLING = re.compile(r"[\s(\[【「\"'*_#:]*([ABCD])[\s)\]】」\"'*_.:,、。]*")


def _refuses(field: str) -> re.Pattern[str]:
    """An error that says a field of the request is not taken; not one that merely names it."""
    no = "unsupported|not supported|not support|unrecognized|unknown|unexpected|not permitted|not allowed|extra|invalid"
    return re.compile(rf"(?:{no}).{{0,80}}(?:{field})|(?:{field}).{{0,80}}(?:{no})", re.I)


_FEWER_IMAGES = re.compile(r"at most \d+ image", re.I)
_NO_IMAGES = re.compile(
    r"image input is not supported|mmproj|not a multimodal model|missing data required for image"
    r"|(?:does not|doesn't|do not|cannot) (?:support|accept|process) (?:images?|vision)"
    r"|unknown variant .?image_url|image_url.{0,60}(?:only supported|not supported|unsupported)"
    r"|no endpoints.{0,40}image input|multimodal.{0,30}not (?:supported|enabled)",
    re.I,
)
_CONTEXT = re.compile(
    r"context (?:length|window|size)|maximum (?:context|input|prompt)|prompt is too long|too many tokens", re.I
)
# What errors say that every other question would meet too, and the remedy.
_REMEDIES = (
    (
        _FEWER_IMAGES,
        "a question shows more; start vLLM with --limit-mm-per-prompt '{\"image\": 4}', or choose data=foodieqa/text",
    ),
    (
        _NO_IMAGES,
        "serve a model that sees (llama.cpp: with --mmproj), or choose data=foodieqa/text",
    ),
    (re.compile(r"use .?max_completion_tokens", re.I), "set model.max_tokens_key=max_completion_tokens"),
    (_refuses("temperature"), "set model.temperature=null, so that none is sent"),
    (_refuses(r"\bseed\b"), "set model.seed=null, so that none is sent"),
    (
        _refuses("prefill|continue_final_message|add_generation_prompt"),
        "this server does not continue a begun answer; set model.prefill=false",
    ),
    (
        re.compile(r"roles must alternate|alternate user/assistant", re.I),
        "the model's chat template takes no two turns of one role in a row; choose another prompts.variant",
    ),
)


class OpenAIModel:
    """A model asked by `POST {base_url}/chat/completions`. Building it sends nothing.

    Args:
        base_url: address of the server, such as http://127.0.0.1:8000/v1.
        model: name of the model; None: the one the server lists, if it lists one.
        api_key_env: environment variable with the key; without it none is sent.
        api_key: the key itself, in place of the variable. It never leaves this object but to the server.
        concurrency: most requests at once. Pictures of no more requests than these are held.
        timeout: seconds for one attempt.
        connect_timeout: seconds to reach the server.
        retries: further attempts after 429, 5xx, time-outs, lost connections and unreadable replies.
        backoff: seconds before the first retry, doubled each time.
        max_tokens: longest answer of method `generate`; `logprob` asks for one token.
        max_tokens_key: its name in the request: max_tokens | max_completion_tokens.
        temperature: None: not sent, which some hosted reasoning models demand.
        seed: of the sampling; None: not sent.
        top_logprobs: how many tokens method `logprob` asks for; most servers allow 20.
        image_longest_side: pictures are made smaller than this many pixels.
        jpeg_quality: of the pictures sent.
        server: one of SERVERS, or auto: recognised by how it answers.
        prefill: whether it continues a begun answer; auto: by the kind of server.
        logprobs: whether it gives log-probabilities; auto: asked for once.
        interleaved: whether texts and pictures keep their order; auto: by the kind of server.
        max_images: most pictures in a request; None: no limit is known, and a server that has one says so.
        extra_body: further fields of every request, such as chat_template_kwargs.
        headers: further headers. Their values are secrets like the key.
        stop: texts that end an answer.

    Raises:
        InputError: a setting that cannot be.
    """

    kind = "openai"

    def __init__(
        self,
        base_url: str,
        model: str | None = None,
        api_key_env: str | None = "OPENAI_API_KEY",
        api_key: str | None = None,
        concurrency: int = 16,
        timeout: float = 120.0,
        connect_timeout: float = 10.0,
        retries: int = 6,
        backoff: float = 0.5,
        max_tokens: int = 16,
        max_tokens_key: str = "max_tokens",
        temperature: float | None = 0.0,
        seed: int | None = 0,
        top_logprobs: int = 20,
        image_longest_side: int = 1024,
        jpeg_quality: int = 90,
        server: str = "auto",
        prefill: bool | str = "auto",
        logprobs: bool | str = "auto",
        interleaved: bool | str = "auto",
        max_images: int | None = None,
        extra_body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        stop: Sequence[str] | str | None = None,
    ) -> None:
        _at_least("concurrency", concurrency, 1)
        _at_least("retries", retries, 0)
        _at_least("backoff", backoff, 0)
        _at_least("max_tokens", max_tokens, 1)
        _at_least("top_logprobs", top_logprobs, 1)
        for name, seconds in (("timeout", timeout), ("connect_timeout", connect_timeout)):
            if not seconds > 0:
                raise InputError(f"model.{name}={seconds}: must be more than 0 seconds")
        if max_images is not None:
            _at_least("max_images", max_images, 0)
        _one_of("max_tokens_key", max_tokens_key, ("max_tokens", "max_completion_tokens"))
        _one_of("server", server, ("auto", *SERVERS))
        for name, value in (("prefill", prefill), ("logprobs", logprobs), ("interleaved", interleaved)):
            _one_of(name, value, ("auto", True, False))
        self.model, self.api_key_env = model or None, api_key_env
        self.max_tokens, self.max_tokens_key = max_tokens, max_tokens_key
        self.temperature, self.seed, self.top_logprobs = temperature, seed, top_logprobs
        self.image_longest_side, self.jpeg_quality = image_longest_side, jpeg_quality
        self.server, self.prefill, self.logprobs, self.interleaved = server, prefill, logprobs, interleaved
        self.max_images = max_images
        self.extra_body: dict[str, Any] = _plain(extra_body or {})
        taken = sorted(set(self.extra_body) & {"model", "messages", "stream", "n"})
        if taken:
            raise InputError(f"model.extra_body: must not hold {', '.join(taken)}; leave it out")
        self.header_names = sorted(headers or {})
        self.stop: list[str] | None = [stop] if isinstance(stop, str) else _plain(stop) if stop else None
        self.version: str | None = None  # of the server, where it says so
        self.failures: Counter[str] = Counter()  # failed attempts by kind, over all questions
        self.connection = ChatServer(
            str(base_url),
            self._key(api_key),
            _plain(headers or {}),
            concurrency,
            timeout,
            connect_timeout,
            retries,
            backoff,
            final=_is_final,
        )
        self._capabilities: Capabilities | None = None
        self._server: str | None = None if server == "auto" else server
        self._names: list[str] | None = None
        self._no_logprobs = ""  # why there are none
        self._answered = 0
        self._lost_in_a_row = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}(model={self.model!r}, base_url={self.connection.url!r})"

    # ---- what it is and can do ---------------------------------------------------------------------------------------

    def identity(self) -> dict[str, Any]:
        """All that may change an answer; asks the server for its kind and model where the config leaves them open.

        The address is part of it, without what is secret in it: two servers may serve different weights by one name,
        and nobody else could tell them apart. Weights that change behind one address need asking.fresh=true.
        """
        self._recognise()
        return {
            "kind": self.kind,
            "backend": f"{self.kind}/{self._server}",
            "version": self.version,
            "model": self.model,
            "revision": None,
            "address": self.connection.url,
            "generation": {
                "max_tokens": self.max_tokens,
                "temperature": self.temperature,
                "seed": self.seed,
                "stop": self.stop,
                "top_logprobs": self.top_logprobs,
                "extra_body": self.extra_body,
                "headers": self.header_names,
            },
            "images": {"longest_side": self.image_longest_side, "jpeg_quality": self.jpeg_quality},
        }

    def capabilities(self) -> Capabilities:
        """By the kind of server and the config; log-probabilities are asked for once, of a question without picture.

        Raises:
            InputError: the server cannot be reached, does not know the model or the key, or refuses that question.
        """
        if self._capabilities is None:
            self._recognise()
            prefill, interleaved = SERVERS[self._server or "hosted"]
            self._capabilities = Capabilities(
                prefill=prefill if self.prefill == "auto" else bool(self.prefill),
                logprobs=self._gives_logprobs() if self.logprobs == "auto" else bool(self.logprobs),
                max_images=len(LETTERS) if self.max_images is None else self.max_images,
                interleaved=interleaved if self.interleaved == "auto" else bool(self.interleaved),
            )
        return self._capabilities

    def check(self, method: str) -> None:
        """InputError if the server cannot answer by `method`."""
        if method == "score":
            raise InputError("model=vlm/openai: answers by asking.method=generate or logprob, not by score")
        if method == "logprob" and not self.capabilities().logprobs:
            why = self._no_logprobs or "model.logprobs=false"
            raise InputError(f"asking.method=logprob: no log-probabilities from {why}; use asking.method=generate")

    def _key(self, given: str | None) -> str | None:
        """The key, or None; checked here because what it holds must not come up in anybody else's message."""
        source = "model.api_key" if given else f"the environment variable {self.api_key_env}"
        key = given or (os.environ.get(self.api_key_env) if self.api_key_env else None)
        key = (key or "").strip()
        if not (key.isascii() and key.isprintable() and " " not in key):
            raise InputError(f"{source}: the key holds white space or letters that no key has; set it again")
        return key or None

    def _recognise(self) -> None:
        """Find the kind and version of the server, and the model where the config names none."""
        if self._server is not None and self.model is not None:
            return
        found = self.connection.get(f"{self.connection.url}/models")
        if found.error is not None and (found.status is None or found.status not in (400, 404, 405, 501)):
            self.connection.wait(self._stop_if_hopeless(found))
            raise InputError(f"{found.error}; check model.base_url and the server's log")
        entries = _entries(found.value)
        self._names = [entry["id"] for entry in entries]
        if self._server is None:
            server = self._kind_of(entries)
            self.version = self._version(server)
            self._server = server
        if self.model is None:
            if len(self._names) != 1:
                raise InputError(f"{self.connection.url}: model.name: name a model; {self._listed()}")
            self.model = self._names[0]

    def _kind_of(self, entries: list[dict[str, Any]]) -> str:
        owners = {str(entry.get("owned_by")) for entry in entries}
        for owner, server in _OWNERS.items():
            if owner in owners:
                return server
        if owners & set(_HOSTED):
            return "hosted"
        if any(isinstance(entry.get("status"), dict) for entry in entries):
            return "transformers"  # tells in its list which models are in memory
        for server in ("ollama", "vllm", "llamacpp"):  # those whose list names other owners, or that have none
            if self._version(server, retries=0) is not None:
                return server
        return "hosted"

    def _version(self, server: str, retries: int | None = None) -> str | None:
        for path in _VERSIONS.get(server, ()):
            value = self.connection.get(f"{self.connection.root}{path}", retries).value
            version = (value.get("version") or value.get("build_info")) if isinstance(value, dict) else None
            if isinstance(version, str):
                return one_line(version, 80)
        return None

    def _listed(self) -> str:
        if not self._names:
            return "the server lists none"
        more = f" and {len(self._names) - 20} more" if len(self._names) > 20 else ""
        return f"the server has {self.connection.hidden(one_line(', '.join(self._names[:20]), 500))}{more}"

    def _gives_logprobs(self) -> bool:
        """Ask for the log-probabilities of one token and see whether they come."""
        body = self._settings("logprob") | {"messages": [{"role": "user", "content": _PROBE}]} | self.extra_body
        asked = self.connection.post("chat/completions", json.dumps(body).encode(), _read_probe)
        if asked.error is None:
            if not asked.value:
                self._no_logprobs = f"{self.connection.url}, which leaves them out without a word"
            return bool(asked.value)
        if asked.status is not None and re.search("logprob", asked.error, re.I):
            remedy = "" if self.top_logprobs <= 5 else "; fewer may be allowed: model.top_logprobs=5"
            self._no_logprobs = f"{asked.error}{remedy}"
            return False
        self.connection.wait(self._stop_if_hopeless(asked))
        raise InputError(f"{asked.error}; the server refuses a plain question, see its log")

    # ---- asking ------------------------------------------------------------------------------------------------------

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[Request, Reply]]:
        """Answer all, as the replies come. What no retry helped with is a reply with `error`.

        Raises:
            InputError: what would meet every other question too: an unknown key or model, a server that cannot be
                reached or takes no pictures, or as many questions lost in a row as twice `concurrency`, at least 20.
        """
        self._recognise()
        yield from self.connection.map(self._ask, requests)

    def close(self) -> None:
        """End the connections."""
        self.connection.close()

    async def _ask(self, request: Request) -> Reply:
        # Pictures are decoded beside the loop, which goes on sending and receiving.
        body = await asyncio.to_thread(self._body, request) if request.images else self._body(request)
        read = _read_logprob if request.method == "logprob" else _read_text
        exchange = await self.connection.post_async("chat/completions", body, read)
        self.failures.update(exchange.failures)
        extra: dict[str, Any] = {"failures": exchange.failures} if exchange.failures else {}
        told = {"attempts": exchange.attempts, "seconds": exchange.seconds}
        if exchange.value is None and exchange.code in ("content_filter", "content_policy_violation"):
            # An answer, not an error: asked again, the service would refuse again.
            self._answered, self._lost_in_a_row = self._answered + 1, 0
            flags = ("content_filter",)
            return Reply(response="", finish_reason="content_filter", flags=flags, extra=extra, **told)
        if exchange.value is None:
            await self._stop_if_hopeless(exchange)
            error = _with_remedy(exchange.error or "no reply", exchange.kind)
            self._lost_in_a_row += 1
            if self._lost_in_a_row >= max(2 * self.connection.concurrency, 20):
                raise InputError(
                    f"{self._lost_in_a_row} questions in a row got no answer, the last for: {error}; what was answered "
                    "is kept, the same command goes on there"
                )
            return Reply(error=error, extra=extra, **told)
        self._answered, self._lost_in_a_row = self._answered + 1, 0
        found = exchange.value
        for key, name in (("model", "served_model"), ("system_fingerprint", "system_fingerprint")):
            if found.get(key) and found[key] != self.model:
                extra[name] = found[key]
        scores, mass, flags = found.get("scores"), found.get("letter_mass"), found.get("flags", ())
        response = found["response"]
        if request.prefill == "continue" and self._server == "llamacpp":
            # It gives the begun answer back with what follows it; what follows is the response (measured, b11549).
            begun = request.turns[-1].text
            response = response.removeprefix(begun if response.startswith(begun) else begun.strip())
        return Reply(
            response=self.connection.hidden(response),
            reasoning=None if found["reasoning"] is None else self.connection.hidden(found["reasoning"]),
            finish_reason=found["finish_reason"],
            usage=found["usage"],
            scores=scores,
            letter_mass=mass,
            flags=flags,
            extra=extra,
            **told,
        )

    def _body(self, request: Request) -> bytes:
        """The request as it is sent, written once so that each attempt sends the same."""
        if request.method not in ("generate", "logprob"):
            raise InputError(f"model=vlm/openai: cannot answer by {request.method}")
        body = self._settings(request.method)
        body["messages"] = [self._message(turn, request.images) for turn in request.turns]
        if request.prefill == "continue" and self._server in ("vllm", "sglang"):
            body |= _CONTINUE
        if request.prefill == "closed_turn" and self._server == "llamacpp":
            raise InputError(
                "asking.prefill=closed_turn: llama.cpp continues every begun answer; use continue or inline"
            )
        return json.dumps(body | self.extra_body, allow_nan=False).encode()

    def _settings(self, method: str) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model}
        body[self.max_tokens_key] = 1 if method == "logprob" else self.max_tokens
        if method == "logprob":
            body |= {"logprobs": True, "top_logprobs": self.top_logprobs}
        given = {"temperature": self.temperature, "seed": self.seed, "stop": self.stop}
        return body | {key: value for key, value in given.items() if value is not None}

    def _message(self, turn: Turn, images: Sequence[str]) -> dict[str, Any]:
        """Texts and pictures in their order; a plain string where there is no picture, as some templates demand."""
        if all(isinstance(part, str) for part in turn.parts):
            return {"role": turn.role, "content": turn.text}
        content: list[dict[str, Any]] = []
        for part in turn.parts:
            if isinstance(part, str):
                content.append({"type": "text", "text": part})
            else:
                uri = data_uri(images[part], self.image_longest_side, self.jpeg_quality)
                content.append({"type": "image_url", "image_url": {"url": uri}})
        return {"role": turn.role, "content": content}

    async def _stop_if_hopeless(self, exchange: Exchange[Any]) -> None:
        """InputError for what would meet every other question too."""
        error, status = exchange.error or "", exchange.status
        if exchange.kind == "certificate":
            raise InputError(f"{error}; name the authority's file in the environment variable SSL_CERT_FILE")
        if status is None:
            if not self._answered and exchange.kind == "unreachable":
                raise InputError(f"{error}; start the server, or correct model.base_url")
            return
        if status == 401 or (status == 403 and not self._answered):
            place = f"the environment variable {self.api_key_env}" if self.api_key_env else "model.api_key"
            raise InputError(f"{error}; set {place} to a key that is valid there")
        if status == 404:
            if self._names is None:
                listed = await self.connection.get_async(f"{self.connection.url}/models", retries=0)
                self._names = [entry["id"] for entry in _entries(listed.value)]
            raise InputError(f"{error}; model.name={self.model}, and {self._listed()}; or correct model.base_url")
        if exchange.code == "insufficient_quota":
            raise InputError(f"{error}; what was answered is kept, the same command goes on there")
        if 300 <= status < 400:
            raise InputError(f"{error}; give that address as model.base_url")
        if status == 429:
            return
        for pattern, remedy in _REMEDIES:
            if pattern.search(error):
                raise InputError(f"{error}; {remedy}")
        if status == 422 and not self._answered:
            raise InputError(f"{error}; the server does not take a field of the request, see model.extra_body")


# ---- replies ---------------------------------------------------------------------------------------------------------


def letter_scores(entries: Sequence[tuple[str, float]]) -> tuple[dict[str, float], float, tuple[str, ...]]:
    """Log-probability of each letter from the most probable tokens, over all spellings of the letter.

    A letter that is not among them gets a bound instead: just below the smallest value returned, flag `not_in_top_k`.

    Args:
        entries: tokens and their log-probabilities.

    Returns:
        Scores by letter; total probability of the letters returned, a lower bound of the true one; flags.

    Raises:
        ValueError: no finite value.
    """
    finite = [(token, value) for token, value in entries if math.isfinite(value)]
    if not finite:
        raise ValueError("the reply holds no log-probabilities")
    found: dict[str, list[float]] = {letter: [] for letter in LETTERS}
    for token, value in finite:
        match = _SPELLING.fullmatch(unicodedata.normalize("NFKC", token.replace("▁", " ").replace("Ġ", " ")))
        if match:
            found[match[1]].append(value)
    bound = math.nextafter(min(value for _, value in finite), -math.inf)
    scores = {letter: _log_sum(values) if values else bound for letter, values in found.items()}
    mass = min(sum(math.exp(value) for values in found.values() for value in values), 1.0)
    return scores, mass, () if all(found.values()) else ("not_in_top_k",)


def _log_sum(values: Sequence[float]) -> float:
    top = max(values)
    return top + math.log(sum(math.exp(value - top) for value in values))


def _read_text(document: Any) -> dict[str, Any]:
    """Response, reasoning, finish reason and usage of a reply. ValueError: it is none."""
    choice, message = _choice(document)
    response, thoughts = _texts(message.get("content"))
    reasoning = next(
        (message[key] for key in ("reasoning_content", "reasoning") if isinstance(message.get(key), str)), None
    )
    if not response and isinstance(message.get("refusal"), str):
        response = message["refusal"]
    finish = choice.get("finish_reason")
    return {
        "response": response,
        "reasoning": reasoning or thoughts or None,
        "finish_reason": finish if isinstance(finish, str) else None,
        "usage": _usage(document.get("usage")),
        "model": document.get("model") if isinstance(document.get("model"), str) else None,
        "system_fingerprint": document.get("system_fingerprint"),
        "flags": ("content_filter",) if finish == "content_filter" else (),
    }


def _read_logprob(document: Any) -> dict[str, Any]:
    """The same with the letters' log-probabilities. ValueError: there are none."""
    choice, _ = _choice(document)
    scores, mass, flags = letter_scores(_first_token(choice))
    found = _read_text(document)
    return found | {"scores": scores, "letter_mass": mass, "flags": (*found["flags"], *flags)}


def _read_probe(document: Any) -> bool:
    """Whether a reply holds log-probabilities of more than the token that was said."""
    choice, _ = _choice(document)
    return len(_first_token(choice)) > 1


def _choice(document: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    choices = document.get("choices") if isinstance(document, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise ValueError("the reply holds no choice with a message")
    return choice, message


def _texts(content: Any) -> tuple[str, str]:
    """Text, and thoughts where they come as parts of the content (Mistral)."""
    if isinstance(content, str):
        return content, ""
    texts: list[str] = []
    thoughts: list[str] = []
    for part in content if isinstance(content, list) else []:
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif isinstance(part, dict) and "thinking" in part:
            thoughts.append(_texts(part["thinking"])[0])
    return "".join(texts), "".join(thoughts)


def _first_token(choice: dict[str, Any]) -> list[tuple[str, float]]:
    """The most probable first tokens with their log-probabilities; empty where none came."""
    held = choice.get("logprobs")
    content = held.get("content") if isinstance(held, dict) else None
    first = content[0] if isinstance(content, list) and content else None
    if not isinstance(first, dict):
        return []
    top = first.get("top_logprobs")
    entries = [_entry(item) for item in top] if isinstance(top, list) else []
    said = _entry(first)
    pairs = [entry for entry in entries if entry is not None]
    if said is not None and said[0] not in {token for token, _ in pairs}:
        pairs.append(said)
    return pairs


def _entry(item: Any) -> tuple[str, float] | None:
    if not isinstance(item, dict) or not isinstance(item.get("token"), str):
        return None
    value = item.get("logprob")
    return (item["token"], float(value)) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _usage(value: Any) -> dict[str, int] | None:
    if not isinstance(value, dict):
        return None
    usage = {key: value[key] for key in ("prompt_tokens", "completion_tokens") if type(value.get(key)) is int}
    details = value.get("completion_tokens_details")
    if isinstance(details, dict) and type(details.get("reasoning_tokens")) is int:
        usage["reasoning_tokens"] = details["reasoning_tokens"]
    return usage or None


def _entries(document: Any) -> list[dict[str, Any]]:
    """The models of a server's list."""
    data = document.get("data") if isinstance(document, dict) else None
    entries = data if isinstance(data, list) else []
    return [entry for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), str)]


# ---- errors and settings ---------------------------------------------------------------------------------------------


def _is_final(code: str, text: str) -> bool:
    """Errors that servers send with a status that promises they pass (llama.cpp: 500 for a picture)."""
    return code == "insufficient_quota" or bool(_FEWER_IMAGES.search(text) or _NO_IMAGES.search(text))


def _with_remedy(error: str, kind: str) -> str:
    if kind == "timeout":
        return f"{error}; raise model.timeout, or lower model.concurrency"
    if _CONTEXT.search(error):
        return f"{error}; lower model.image_longest_side, or start the server with a longer context"
    return error


def _plain(value: Any) -> Any:
    """Dicts and lists of a config as Python's own."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [_plain(item) for item in value]
    return value


def _one_of(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        raise InputError(f"model.{name}={value}: choose {', '.join(str(item).lower() for item in allowed)}")


def _at_least(name: str, value: float, least: int) -> None:
    if not value >= least:
        raise InputError(f"model.{name}={value}: must be at least {least}")
