"""The server of the annotation pages, and what `annotate.py` does beside serving: export, agreement, import.

One gate in front of everything: without a signed cookie there are the sign-in page and the style of the pages, and no
more. The browser is told to load nothing from anywhere else, so the pages work with no network.
"""

import hmac
import os
import shutil
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from omegaconf import DictConfig

from annotation import export
from annotation.forms import Settings, read_settings
from annotation.store import (
    MAX_UPLOAD,
    Refused,
    Store,
    name_key,
    read_cookie,
    sign_cookie,
    sign_in,
)
from annotation.words import LANGUAGES, escape, message, say
from data.errors import InputError
from data.records import FOOD_TASKS

COOKIE = "annotator"
COOKIE_DAYS = 90
TRIES, TRY_SECONDS = 10, 300.0  # wrong pass-phrases of one name, before it has to wait
# Gradio builds its pages with inline scripts and styles; everything else must come from this server.
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; media-src 'self' blob:; worker-src 'self' blob:; "
    "frame-ancestors 'none'; form-action 'self'; base-uri 'self'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
}


def annotate(cfg: DictConfig) -> None:
    """Run one of the tasks of `annotate.py`.

    Raises:
        InputError: a setting is wrong, the store or a file cannot be used, the port is taken, Gradio is not installed.
    """
    settings = read_settings(cfg)
    tasks: dict[str, Callable[[Store, Settings, DictConfig], None]] = {
        "serve": _serve,
        "export": _export,
        "agreement": _agreement,
        "import": _import,
        "import_ui": _import,
        "import_val_ui": _import,
    }
    if cfg.task not in tasks:
        raise InputError(f"task={cfg.task}: is unknown; use {', '.join(tasks)}")
    store = Store(cfg.folder)
    for note in store.notes:
        print(f"note: {note}", flush=True)
    tasks[cfg.task](store, settings, cfg)


# ---- tasks beside serving --------------------------------------------------------------------------------------------


def _export(store: Store, settings: Settings, cfg: DictConfig) -> None:
    name = time.strftime("%Y-%m-%d_%H-%M-%S", time.gmtime())
    target = Path(cfg.target) if cfg.target else store.folder / "exports" / name
    manifest = export.export(store, settings, target)
    print(f"{target}: questions {manifest['questions']}, answers {manifest['answers']}, dishes {manifest['dishes']}")


def _agreement(store: Store, settings: Settings, cfg: DictConfig) -> None:
    from models.agreement import render

    parts = export.agreement(store)
    if not parts:
        raise InputError(f"{store.folder}: no question has been answered by two people yet; verify some first")
    for report in parts.values():
        print(f"\n{render(report)}")


def _import(store: Store, settings: Settings, cfg: DictConfig) -> None:
    if not cfg.records:
        raise InputError(f"task={cfg.task}: needs records=, a file of the released schema or the folder of the records")
    source, images = Path(cfg.records), Path(cfg.images) if cfg.images else None
    if cfg.task == "import_ui":
        if images is None:
            raise InputError("task=import_ui: needs images=, the folder of the pictures")
        print(f"{source}: {export.import_ui(store, source, images)} questions are new")
        return
    if cfg.question_task not in FOOD_TASKS:
        raise InputError(f"question_task={cfg.question_task}: give the task of the questions, {', '.join(FOOD_TASKS)}")
    if cfg.task == "import":
        added = export.import_tidy(store, source, cfg.question_task, cfg.question_language, images)
        print(f"{source}: {added} questions are new")
    else:
        added, answers = export.import_val_ui(store, source, cfg.question_task, images)
        print(f"{source}: {added} questions and {answers} answers are new")


# ---- the server ------------------------------------------------------------------------------------------------------


def _serve(store: Store, settings: Settings, cfg: DictConfig) -> None:
    import socket

    if not isinstance(cfg.port, int) or not 0 <= cfg.port <= 65535:
        raise InputError(f"port={cfg.port}: must be from 1 to 65535; 7860 is usual")
    app = make_app(store, settings)
    import uvicorn

    try:
        family = socket.AF_INET6 if ":" in str(cfg.host) else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((str(cfg.host), cfg.port))
    except OSError as error:
        raise InputError(f"host={cfg.host} port={cfg.port}: cannot be used ({error.strerror}); set another") from None
    port = listener.getsockname()[1]
    shown = "127.0.0.1" if cfg.host in ("0.0.0.0", "::") else cfg.host
    print(f"annotation pages: http://{shown}:{port}/  (store: {store.folder}; stop with Ctrl-C)", flush=True)
    code = setup_code(store, settings)
    if code:
        print(
            f"the account {settings.admin!r} does not exist yet; setup code for its first sign-in: {code}", flush=True
        )
    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, timeout_keep_alive=30)
    uvicorn.Server(config).run(sockets=[listener])


def setup_code(store: Store, settings: Settings) -> str | None:
    """What the administrator's first sign-in needs beside a pass-phrase; None once the account exists, or without PINs.

    Without it whoever comes first could become the administrator.
    """
    with store.reading() as state:
        if settings.auth == "none" or state.account_by_name(settings.admin):
            return None
    return hmac.new(store.secret(), b"setup", "sha256").hexdigest()[:8]


class Tries:
    """Wrong pass-phrases of each name in the last minutes."""

    def __init__(self) -> None:
        self._wrong: dict[str, deque[float]] = defaultdict(deque)
        self._lock = threading.Lock()

    def check(self, name: str) -> None:
        """Refused where there were too many."""
        with self._lock:
            wrong, now = self._wrong[name_key(name)[:80]], time.monotonic()
            while wrong and now - wrong[0] > TRY_SECONDS:
                wrong.popleft()
            if len(wrong) >= TRIES:
                raise Refused("wait")
            if len(self._wrong) > 10_000:  # names that somebody makes up
                self._wrong.clear()

    def count(self, name: str) -> None:
        """One more wrong one."""
        with self._lock:
            self._wrong[name_key(name)[:80]].append(time.monotonic())


def make_app(store: Store, settings: Settings) -> Any:
    """The whole application: sign-in, photos and exports by FastAPI, the pages by Gradio, the gate around them."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # read when Gradio is imported
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["GRADIO_TEMP_DIR"] = str(_upload_folder(store))
    try:
        import gradio as gr
    except ImportError:
        raise InputError("annotate.py: Gradio is not installed; run pip install gradio (extra `annotate`)") from None
    from fastapi import FastAPI, Form, Request
    from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response

    from annotation import pages

    secret, tries = store.secret(), Tries()

    def account(request: Request) -> str | None:
        annotator = read_cookie(secret, request.cookies.get(COOKIE))
        with store.reading() as state:
            return annotator if annotator in state.accounts else None

    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)

    def chosen(language: str | None) -> str:
        return language if language in LANGUAGES else settings.language

    @app.get("/")
    def home() -> Response:
        return RedirectResponse(f"/{settings.language}/", 303)

    @app.get("/sign-in")
    def ask(request: Request, language: str | None = None) -> Response:
        if account(request):
            return RedirectResponse(f"/{chosen(language)}/", 303)
        return HTMLResponse(sign_in_page(store, settings, chosen(language)))

    @app.post("/sign-in")
    def enter(
        request: Request, name: str = Form(""), phrase: str = Form(""), language: str = Form("")
    ) -> Response:  # a plain function: hashing takes its time in a thread of its own
        try:
            tries.check(name)
            code = setup_code(store, settings) if name_key(name) == name_key(settings.admin) else None
            annotator = sign_in(store, name[:200], phrase[:400], settings.auth, code)
        except Refused as refused:
            if refused.key in ("phrase_wrong", "setup_code"):
                tries.count(name)
            page = sign_in_page(store, settings, chosen(language), name[:200], message(refused, chosen(language)))
            return HTMLResponse(page, 400)
        response = RedirectResponse(f"/{chosen(language)}/", 303)
        response.set_cookie(
            COOKIE, sign_cookie(secret, annotator), max_age=COOKIE_DAYS * 86_400, httponly=True, samesite="strict",
            secure=request.url.scheme == "https",
        )  # fmt: skip
        return response

    @app.get("/sign-out")
    def leave() -> Response:
        response = RedirectResponse("/sign-in", 303)
        response.delete_cookie(COOKIE)
        return response

    @app.get("/photos/{identity}")
    def photo(identity: str, thumb: int = 0) -> Response:
        try:
            path = store.photo_path(identity, thumb=bool(thumb))
        except KeyError:
            return JSONResponse({"detail": "no such photo"}, 404)
        # content never changes under an id; private, since only those who are signed in may see it
        return FileResponse(path, media_type="image/jpeg", headers={"cache-control": "private, max-age=31536000"})

    @app.get("/exports/{name}")
    def exported(request: Request, name: str) -> Response:
        with store.reading() as state:
            allowed = pages.is_admin(state, settings, account(request) or "")
        known = {path.name: path for path in (store.folder / "exports").glob("*.zip")}
        if not allowed or name not in known:
            return JSONResponse({"detail": "no such export"}, 404)
        return FileResponse(known[name], media_type="application/zip", filename=name)

    @app.get("/favicon.ico")
    def icon() -> Response:
        return Response(_ICON, media_type="image/svg+xml")

    for language in LANGUAGES:
        blocks = pages.build(store, settings, language)
        blocks.queue(default_concurrency_limit=8, api_open=False)
        gr.mount_gradio_app(
            app, blocks, path=f"/{language}", auth_dependency=account, show_error=False, ssr_mode=False,
            max_file_size=MAX_UPLOAD, footer_links=[], theme=pages.theme(), css=pages.styles(), head=pages.head(),
            enable_monitoring=False, blocked_paths=[str(store.folder / "photos"), str(store.folder / export.EXPORTS)],
        )  # fmt: skip
    return Gate(app, account, settings.language)


def _upload_folder(store: Store) -> Path:
    """Where uploads lie on their way: removed once a photo is kept; what a killed server left, at the next start."""
    for left in (store.folder / "tmp").iterdir():
        if not left.name.isdecimal() or not _alive(int(left.name)):
            shutil.rmtree(left, ignore_errors=True)
    folder = store.folder / "tmp" / str(os.getpid())
    folder.mkdir(exist_ok=True)
    return folder


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return pid != os.getpid()


class Gate:
    """ASGI: lets only signed-in people past the sign-in page, and adds the headers that keep the browser here."""

    def __init__(self, app: Any, account: Callable[[Any], str | None], language: str) -> None:
        self.app, self.account, self.language = app, account, language

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """See ASGI."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return  # no page uses websockets
        from starlette.concurrency import run_in_threadpool
        from starlette.requests import Request
        from starlette.responses import JSONResponse, RedirectResponse

        async def with_headers(event: dict[str, Any]) -> None:
            if event["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
                event = {**event, "headers": [*event.get("headers", []), *own]}
            await send(event)

        path, request = scope["path"], Request(scope)
        # the account looks into the log, which a writer may hold for a moment: not on the loop
        if path not in ("/sign-in", "/favicon.ico") and await run_in_threadpool(self.account, request) is None:
            parts = path.strip("/").split("/")
            language = parts[0] if parts[0] in LANGUAGES else self.language
            if scope["method"] == "GET" and len(parts) == 1:
                response: Any = RedirectResponse(f"/sign-in?language={quote(language)}", 303)
            else:
                response = JSONResponse({"detail": say("reload", language)}, 401)
            await response(scope, receive, with_headers)
            return
        await self.app(scope, receive, with_headers)


# ---- the sign-in page ------------------------------------------------------------------------------------------------

_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="8" fill="#ea580c"/>'
    '<path d="M6 15h20a10 9 0 0 1-20 0z" fill="#fff"/><path d="M12 11q-2-2 0-4M17 11q-2-2 0-4M22 11q-2-2 0-4" '
    'stroke="#fff" stroke-width="2" fill="none" stroke-linecap="round"/></svg>'
)

_SIGN_IN_STYLE = """
:root { color-scheme: light dark; --ground: #faf7f4; --card: #fff; --ink: #292524; --soft: #6b645f; --line: #ddd5cf; }
@media (prefers-color-scheme: dark) { :root { --ground: #1c1917; --card: #292524; --ink: #f5f5f4; --soft: #b5aea8;
  --line: #57504b; } }
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; background: var(--ground); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC",
  sans-serif; }
main { width: min(420px, calc(100vw - 24px)); background: var(--card); border: 1px solid var(--line);
  border-radius: 18px; padding: 28px 28px 30px; margin: 24px 0; }
.top { display: flex; justify-content: space-between; align-items: center; }
svg { width: 44px; height: 44px; }
h1 { font-size: 1.45rem; margin: 14px 0 0; } .sub { color: var(--soft); margin: 0 0 14px; }
label { display: block; font-weight: 600; margin: 14px 0 4px; font-size: .95rem; }
input { width: 100%; font: inherit; padding: 11px 13px; border: 1px solid var(--line); border-radius: 10px;
  background: transparent; color: inherit; }
input:focus { outline: 2px solid #ea580c; border-color: transparent; }
button { width: 100%; font: inherit; font-weight: 650; margin-top: 20px; padding: 12px; border: 0; border-radius: 10px;
  background: #c2410c; color: #fff; cursor: pointer; } button:hover { background: #9a3412; }
p { margin: 8px 0; } .hint { color: var(--soft); font-size: .9rem; }
.fault { background: #fdecea; color: #8c1d18; border-left: 4px solid #d93025; padding: 9px 14px; border-radius: 10px; }
a { color: #c2410c; } @media (prefers-color-scheme: dark) { a { color: #fb923c; } }
"""


def sign_in_page(store: Store, settings: Settings, language: str, name: str = "", fault: str = "") -> str:
    """The sign-in page; works without scripts."""
    other = "en" if language == "zh" else "zh"

    def word(key: str, **values: Any) -> str:
        return escape(say(key, language, **values))

    fault = f'<p class="fault" role="alert">{escape(fault)}</p>' if fault else ""
    phrase = hint = ""
    if settings.auth == "pin":
        phrase = (
            f'<label for="phrase">{word("phrase_label")}</label>'
            '<input id="phrase" name="phrase" type="password" autocomplete="current-password" maxlength="300" required>'
        )
        if setup_code(store, settings):
            hint = f'<p class="hint">{word("setup_hint", name=settings.admin)}</p>'
    return f"""<!doctype html><html lang="{language}"><head><meta charset="utf-8"><title>{word("title")}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_SIGN_IN_STYLE}</style></head><body><main>
<div class="top">{_ICON}<a href="/sign-in?language={other}" lang="{other}">{word("other_language")}</a></div>
<h1>{word("title")}</h1><p class="sub">{word("subtitle")}</p>{fault}<p>{word("sign_in_intro")}</p>
<form method="post" action="/sign-in"><input type="hidden" name="language" value="{language}">
<label for="name">{word("name_label")}</label>
<input id="name" name="name" value="{escape(name)}" maxlength="60" autocomplete="username" required autofocus>
{phrase}<button>{word("sign_in")}</button></form>{hint}</main></body></html>"""
