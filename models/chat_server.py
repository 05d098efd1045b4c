"""A server of the OpenAI-compatible kind: many requests at once, retried, with the key kept out of sight."""

import asyncio
import ipaddress
import json
import logging
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

import httpx

from data.errors import InputError

MAX_REPLY = 16 << 20  # bytes of a reply; what is longer is no answer to a multiple-choice question
MAX_WAIT = 60.0  # seconds before a retry, whatever the server asks for
MAX_BACKOFF = 30.0
RETRIED = (408, 409, 425, 429)  # and every 5xx
_IDLE = 3.0  # seconds a connection is kept: less than the 5 after which uvicorn closes it
_SECRET = 8  # shorter keys are placeholders such as EMPTY, and cutting them out would maim texts
_GLANCE = 0.5  # seconds: a wait without end cannot be interrupted on every system

Item = TypeVar("Item")
Value = TypeVar("Value")

# Both would write addresses and headers, key included, into whatever log the program has.
for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.WARNING)


@dataclass(frozen=True, slots=True)
class Exchange(Generic[Value]):
    """What became of a request: a value, or an error in one line without secrets."""

    value: Value | None = None
    error: str | None = None
    status: int | None = None  # of the last reply; None where none came
    code: str = ""  # the server's own code of the error
    kind: str = ""  # of the error: http_500 | timeout | unreachable | connection | certificate | malformed
    attempts: int = 1
    seconds: float = 0.0  # from the first sending on, waits included
    failures: dict[str, int] = field(default_factory=dict)  # failed attempts by kind


class _Failure(Exception):
    """One failed attempt."""

    def __init__(
        self, kind: str, text: str, retry: bool, status: int | None = None, code: str = "", wait: float | None = None
    ) -> None:
        super().__init__(text)
        self.kind, self.retry, self.status, self.code, self.wait = kind, retry, status, code, wait


class ChatServer:
    """One server, reached by at most `concurrency` connections of a thread of its own, which starts at first use.

    Args:
        base_url: such as http://127.0.0.1:8000/v1; without a path `/v1` is meant. `user:password@` is sent as basic
            authentication and shown nowhere.
        key: sent as bearer token; None: none is sent.
        headers: further headers; their values are taken for secrets.
        concurrency: most requests at once.
        timeout: seconds for one attempt, all in all.
        connect_timeout: seconds to reach the server.
        retries: further attempts after 408, 409, 425, 429, 5xx, time-outs, lost connections and unreadable replies.
        backoff: seconds before the first retry; doubled each time, less up to a half of it drawn from `seed`. A
            Retry-After of the server counts instead, up to MAX_WAIT.
        final: of code and text of an error: whether it will not pass, though its status says it may.

    Raises:
        InputError: an address, key or header that cannot be sent.
    """

    def __init__(
        self,
        base_url: str,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        concurrency: int = 16,
        timeout: float = 120.0,
        connect_timeout: float = 10.0,
        retries: int = 6,
        backoff: float = 0.5,
        seed: int = 0,
        final: Callable[[str, str], bool] = lambda code, text: False,
    ) -> None:
        parts = _address(base_url)
        self.concurrency, self.timeout, self.connect_timeout = concurrency, timeout, connect_timeout
        self.retries, self.backoff, self._final = retries, backoff, final
        host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else str(parts.hostname)
        where = f"{host}:{parts.port}" if parts.port else host
        self.url = urlunsplit((parts.scheme, where, parts.path, "", ""))  # without user and password
        self.root = urlunsplit((parts.scheme, where, "", "", ""))
        self._sent = {str(name): str(value) for name, value in (headers or {}).items()}
        for name, value in self._sent.items():
            if not (re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name) and _is_printable(value)):
                raise InputError(f"model.headers: {name!r} or its value holds what no header may hold")
        self._secrets = [value for value in self._sent.values() if len(value) >= _SECRET]
        self._short = [key] if key is not None and 3 < len(key) < _SECRET else []
        self._user: tuple[str, str] | None = None
        if parts.username is not None:
            self._user = unquote(parts.username), unquote(parts.password or "")
            self._secrets += [text for text in (parts.password, self._user[1]) if text]
        if key is not None:
            if len(key) >= _SECRET:
                self._secrets.append(key)
            if "authorization" not in {name.lower() for name in self._sent}:
                self._sent["Authorization"] = f"Bearer {key}"
        self._loopback = _is_loopback(str(parts.hostname))
        self._random = random.Random(seed)
        self._reached = False  # whether anything ever came back; before that an address is taken to be wrong
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    # ---- calls -------------------------------------------------------------------------------------------------------

    def get(self, address: str, retries: int | None = None) -> Exchange[Any]:
        """GET a JSON document from an absolute address of this server."""
        return self.wait(self.get_async(address, retries))

    async def get_async(self, address: str, retries: int | None = None) -> Exchange[Any]:
        """The same, within the thread of the connections."""
        return await self._exchange("GET", address, b"", lambda data: data, retries)

    def post(self, path: str, body: bytes, read: Callable[[Any], Value]) -> Exchange[Value]:
        """POST a JSON document below the base address and wait; see `post_async`."""
        return self.wait(self.post_async(path, body, read))

    async def post_async(self, path: str, body: bytes, read: Callable[[Any], Value]) -> Exchange[Value]:
        """POST a JSON document below the base address; `read` makes the value of the reply.

        A ValueError of `read` says that the reply is malformed: it is retried.
        """
        return await self._exchange("POST", f"{self.url}/{path}", body, read, None)

    def wait(self, coroutine: Coroutine[Any, Any, Value]) -> Value:
        """Run a coroutine in the thread of the connections and wait for its result."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._start())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def map(
        self, function: Callable[[Item], Coroutine[Any, Any, Value]], items: Iterable[Item]
    ) -> Iterator[tuple[Item, Value]]:
        """Results of a coroutine function, as they come; at most `concurrency` are in work or waiting to be taken.

        An exception ends it, after the results that were there by then. Closing the iterator cancels what is in work.
        """
        loop = self._start()
        done: SimpleQueue[Future[Value]] = SimpleQueue()
        source = iter(items)
        running: dict[Future[Value], Item] = {}

        def start() -> None:
            for item in source:
                future = asyncio.run_coroutine_threadsafe(function(item), loop)
                running[future] = item
                future.add_done_callback(done.put)
                return

        try:
            for _ in range(self.concurrency):
                start()
            while running:
                try:
                    future = done.get(timeout=_GLANCE)
                except Empty:
                    continue
                item = running.pop(future)
                error = future.exception()
                if error is not None:
                    while not done.empty():
                        other = done.get()
                        item = running.pop(other)
                        if other.exception() is None:
                            yield item, other.result()
                    raise error
                start()
                yield item, future.result()
        finally:
            for future in running:
                future.cancel()

    def close(self) -> None:
        """Cancel what is in work and end the thread; a later call starts anew."""
        if self._loop is None:
            return
        loop, self._loop = self._loop, None
        asyncio.run_coroutine_threadsafe(self._finish(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        self._thread.join()
        loop.close()

    def hidden(self, text: str) -> str:
        """A text without key, passwords and header values."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def _hidden_message(self, text: str) -> str:
        """The same of what a server says about an error, where short keys go too, as words of their own."""
        for secret in self._short:
            text = re.sub(rf"(?<![\w-]){re.escape(secret)}(?![\w-])", "***", text)
        return self.hidden(text)

    # ---- the thread --------------------------------------------------------------------------------------------------

    def _start(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="chat-server", daemon=True)
            self._thread.start()
            self._client = httpx.AsyncClient(
                auth=self._user if "authorization" not in {name.lower() for name in self._sent} else None,
                headers={"Accept": "application/json", "Content-Type": "application/json", **self._sent},
                timeout=httpx.Timeout(None, connect=self.connect_timeout),
                limits=httpx.Limits(
                    max_connections=self.concurrency,
                    max_keepalive_connections=self.concurrency,
                    keepalive_expiry=_IDLE,
                ),
                trust_env=not self._loopback,  # a proxy does not reach this machine's own servers
                verify=not (self._loopback and self.url.startswith("http:")),  # certificates take time to read
            )
        return self._loop

    async def _finish(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._client.aclose()
        await asyncio.get_running_loop().shutdown_default_executor()

    async def _exchange(
        self, method: str, address: str, body: bytes, read: Callable[[Any], Value], retries: int | None
    ) -> Exchange[Value]:
        began = time.monotonic()
        failures: Counter[str] = Counter()
        attempt = 0
        while True:
            attempt += 1
            try:
                value = await self._attempt(method, address, body, read)
                return Exchange(value, None, 200, "", "", attempt, time.monotonic() - began, dict(failures))
            except _Failure as failure:
                failures[failure.kind] += 1
                if not failure.retry or attempt > (self.retries if retries is None else retries):
                    spent = time.monotonic() - began
                    text = one_line(self._hidden_message(str(failure)))
                    return Exchange(
                        None, text, failure.status, failure.code, failure.kind, attempt, spent, dict(failures)
                    )
                wait = failure.wait
            if wait is None:
                wait = min(self.backoff * 2 ** (attempt - 1), MAX_BACKOFF) * self._random.uniform(0.5, 1.0)
            await asyncio.sleep(wait)

    async def _attempt(self, method: str, address: str, body: bytes, read: Callable[[Any], Value]) -> Value:
        try:
            async with asyncio.timeout(self.timeout):
                status, headers, data = await self._send(method, address, body)
        except TimeoutError:
            raise _Failure("timeout", f"{self.url}: no reply within {self.timeout:g} s", True) from None
        except httpx.ConnectTimeout:
            text = f"{self.url}: no connection within {self.connect_timeout:g} s"
            raise _Failure("unreachable", text, self._reached) from None
        except httpx.ConnectError as error:
            certificate = "CERTIFICATE_VERIFY_FAILED" in str(error)
            kind = "certificate" if certificate else "unreachable"
            text = f"{self.url}: cannot be reached ({_reason(error)})"
            raise _Failure(kind, text, self._reached and not certificate) from None
        except httpx.HTTPError as error:
            raise _Failure("connection", f"{self.url}: the connection was lost ({_reason(error)})", True) from None
        self._reached = True
        if not 200 <= status < 300:
            raise self._refusal(status, headers, data)
        try:
            document = json.loads(data)
        except (ValueError, RecursionError):
            raise _Failure("malformed", f"{self.url}: the reply is no JSON", True, status) from None
        if isinstance(document, dict) and document.get("error") and not document.get("choices"):
            code = document["error"].get("code") if isinstance(document["error"], dict) else None
            number = code if isinstance(code, int) and 400 <= code < 600 else 500
            raise self._refusal(number, headers, data)  # some gateways pass errors on with status 200
        try:
            return read(document)
        except ValueError as error:
            raise _Failure("malformed", f"{self.url}: {error}", True, status) from None

    async def _send(self, method: str, address: str, body: bytes) -> tuple[int, httpx.Headers, bytes]:
        async with self._client.stream(method, address, content=body or None) as response:
            data = bytearray()
            async for chunk in response.aiter_bytes():
                data += chunk
                if len(data) > MAX_REPLY:
                    text = f"{self.url}: the reply is longer than {MAX_REPLY >> 20} MiB"
                    raise _Failure("malformed", text, False, response.status_code)
        # Response and stream refer to each other, and would hold the request's pictures until Python looks for cycles.
        response.stream = httpx.ByteStream(b"")
        return response.status_code, response.headers, bytes(data)

    def _refusal(self, status: int, headers: httpx.Headers, data: bytes) -> _Failure:
        code, message = _server_message(data)
        text = f"{self.url}: HTTP {status}"
        if 300 <= status < 400:
            text += f", the server sends on to {headers.get('Location', 'another address')}"
        if message:
            text += f": {message}"
        retry = (status in RETRIED or status >= 500) and not self._final(code, text)
        return _Failure(f"http_{status}", text, retry, status, code, _retry_after(headers, self._random))


def one_line(text: str, limit: int = 300) -> str:
    """A text on one line, without pictures, at most so long."""
    text = re.sub(r"data:[\w/+.;=-]*base64,[A-Za-z0-9+/=_-]*", "data:...", text)
    text = re.sub(r"[A-Za-z0-9+/=_-]{120,}", "...", text)
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _address(base_url: str) -> SplitResult:
    remedy = "it must read like http://127.0.0.1:8000/v1"
    try:
        parts = urlsplit(str(base_url).strip())
        port = parts.port
    except ValueError:  # of a port that is none, and the message would repeat the address
        raise InputError(f"model.base_url: the address cannot be read; {remedy}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise InputError(f"model.base_url: no address of a server; {remedy}")
    if parts.query or parts.fragment:
        raise InputError(f"model.base_url: must not hold ? or #; {remedy}")
    path = parts.path.rstrip("/").removesuffix("/chat/completions")
    return parts._replace(path=path or "/v1")


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_printable(text: str) -> bool:
    return text.isascii() and text.isprintable()


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


def _retry_after(headers: httpx.Headers, generator: random.Random) -> float | None:
    """Seconds the server asks to wait, at most MAX_WAIT, with a little jitter; None where it does not say."""
    text = headers.get("Retry-After")
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    if not seconds >= 0:  # NaN too
        return None
    return min(seconds, MAX_WAIT) * generator.uniform(1.0, 1.1)


def _server_message(data: bytes) -> tuple[str, str]:
    """Code and text of an error, in any of the shapes servers use; never the request that some send back."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        text = data[:2000].decode("utf-8", "replace")
        return "", re.sub(r"<[^>]*>", " ", text) if "<" in text else text
    if isinstance(document, list) and document:  # Gemini
        document = document[0]
    if not isinstance(document, dict):
        return "", str(document)[:2000]
    error = document.get("error", document)
    if not isinstance(error, dict):
        return "", str(error)[:2000]
    code = str(error.get("code") or error.get("type") or "")
    for key in ("message", "detail", "error", "msg"):
        found = error.get(key)
        if isinstance(found, list):  # FastAPI: one entry for each field; `input` would repeat the request
            entries = [entry for entry in found if isinstance(entry, dict)]
            places = [(".".join(map(str, entry.get("loc", ()))), entry.get("msg", "")) for entry in entries]
            found = "; ".join(f"{place}: {text}" for place, text in places)
        if found:
            return code, str(found)[:2000]
    return code, ""
