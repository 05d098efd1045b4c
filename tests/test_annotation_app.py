"""The annotation pages in a real browser: several people at once, the keyboard, a phone, a killed server.

`ANNOTATION_SHOTS=<folder>` keeps a picture of every page, wide and 390 pixels wide.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
CHROMIUM = next((path for path in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if path), None)
SHOTS = os.environ.get("ANNOTATION_SHOTS")

pytestmark = pytest.mark.slow
gradio = pytest.importorskip("gradio", reason="needs the extra `annotate` (gradio)")
playwright = pytest.importorskip("playwright.sync_api", reason="needs the extra `annotate` (playwright)")
if CHROMIUM is None:
    pytest.skip("needs a Chromium, such as Debian's package chromium", allow_module_level=True)


# ---- a server that can be killed -------------------------------------------------------------------------------------


class Server:
    """`python annotate.py` on a free port."""

    def __init__(self, folder: Path, *overrides: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.folder, self.overrides = folder, overrides
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder.parent / "server.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start and wait until the sign-in page answers."""
        command = [sys.executable, "annotate.py", f"folder={self.folder}", f"port={self.port}", *self.overrides]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "HOME": str(self.folder.parent)}
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, env=environment)
        for _ in range(600):
            assert self.process.poll() is None, self.log.read_text(encoding="utf-8")
            try:
                with urllib.request.urlopen(f"{self.url}/sign-in", timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise AssertionError(self.log.read_text(encoding="utf-8"))

    def kill(self) -> None:
        """`kill -9`."""
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def setup_code(self) -> str:
        """What the administrator's first sign-in needs."""
        found = re.search(r"setup code for its first sign-in: (\w+)", self.log.read_text(encoding="utf-8"))
        assert found
        return found[1]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "store")
    server.start()
    yield server
    server.kill()


@pytest.fixture
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


# ---- people ----------------------------------------------------------------------------------------------------------


class Person:
    """Somebody at a browser of their own; every request that leaves this machine is an error."""

    def __init__(self, browser: Any, server: Server, name: str, phrase: str, language: str = "zh", **view: Any) -> None:
        self.server, self.name, self.phrase, self.language = server, name, phrase, language
        size = {"width": 1200, "height": 900}
        self.context = browser.new_context(viewport=view.pop("viewport", size), locale="zh-CN", **view)
        self.outside: list[str] = []
        self.faults: list[str] = []
        self.asked: list[str] = []
        self.open: set[Any] = set()  # streams on which answers of the server are due
        self.changed = time.monotonic()
        self.page = self.new_page()

    def new_page(self) -> Any:
        page = self.context.new_page()
        page.set_default_timeout(20_000)
        page.on("request", self._note)
        page.on("requestfinished", self._end)
        page.on("requestfailed", self._end)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        return page

    def _note(self, request: Any) -> None:
        if not request.url.startswith((self.server.url, "data:", "blob:")):
            self.outside.append(request.url)
        if "/queue/data" in request.url:
            self.open.add(request)
        if "/queue/" in request.url:
            self.asked.append(f"{time.monotonic():.2f} {request.url[-40:]} {(request.post_data or '')[-160:]}")
        self.changed = time.monotonic()

    def _end(self, request: Any) -> None:
        self.open.discard(request)
        self.changed = time.monotonic()

    def idle(self) -> None:
        """Wait until the server has answered what was asked of it; a stream that stays open for long is none."""
        while time.monotonic() - self.changed < (4.0 if self.open else 0.3):
            self.page.wait_for_timeout(50)
        self.open.clear()

    def sign_in(self, phrase: str | None = None) -> None:
        self.page.goto(f"{self.server.url}/sign-in?language={self.language}")
        self.page.fill("#name", self.name)
        self.page.fill("#phrase", phrase or self.phrase)
        self.page.click("button")
        self.page.wait_for_selector("#collect-send")
        self.page.wait_for_selector("#header .who")

    def tab(self, name: str, page: Any = None) -> None:
        words = {
            "collect": ("上传照片", "Photos"), "review": ("审核照片", "Review"), "dish": ("菜品信息", "Dishes"),
            "group": ("图片分组", "Group"), "write": ("编写问题", "Write"), "verify": ("核验问题", "Verify"),
            "admin": ("管理", "Admin"),
        }  # fmt: skip
        page = page or self.page
        label = words[name][self.language == "en"]
        tab = page.get_by_role("tab", name=label, exact=True)
        more = page.locator("#tabs .overflow-menu > button")
        wait_for(lambda: tab.first.is_visible() or more.is_visible(), f"the tab {label}")
        if not tab.first.is_visible():  # on a phone the last tabs lie in a menu
            more.click()
            page.locator("#tabs .overflow-dropdown").get_by_role("button", name=label, exact=True).click()
        else:
            tab.first.click()
        page.wait_for_selector(f"#{name}-page", state="visible")
        self.idle()

    def pick(self, field: str, option: str) -> None:
        """Choose from a drop-down list."""
        box = self.page.locator(f"#{field} input")
        box.click()
        self.page.get_by_role("option", name=option).first.click()

    def type(self, field: str, text: str, page: Any = None) -> None:
        box = (page or self.page).locator(f"#{field} textarea, #{field} input").first
        box.fill(text)

    def note(self, page_id: str, kind: str = "good", page: Any = None) -> str:
        """What the page says."""
        line = (page or self.page).locator(f"#{page_id}-status .note.{kind}").first
        try:
            line.wait_for()
        except playwright.TimeoutError:  # what was asked of the server, and whether its answers were still due
            log = self.server.log.read_text(encoding="utf-8")[-2000:]
            raise AssertionError(f"{page_id} says nothing; open {self.open}; asked {self.asked[-6:]}; {log}") from None
        return line.inner_text()

    def shot(self, name: str) -> None:
        if SHOTS:
            time.sleep(0.6)
            Path(SHOTS).mkdir(parents=True, exist_ok=True)
            self.page.screenshot(path=f"{SHOTS}/{name}.png", full_page=True)

    def done(self) -> None:
        assert self.outside == []
        assert self.faults == []
        self.context.close()


def made_up_photos(folder: Path, count: int = 5) -> list[Path]:
    """Photos of plates, each of another colour, turned by EXIF and with a place in it."""
    from PIL import Image, ImageDraw

    folder.mkdir(exist_ok=True)
    paths = []
    for i in range(count):
        photo = Image.new("RGB", (640, 480), (228, 222, 214))
        draw = ImageDraw.Draw(photo)
        draw.ellipse((110, 50, 530, 430), fill="white", outline=(190, 190, 190), width=4)
        draw.ellipse(
            (180, 110, 460, 370),
            fill=((200, 60, 40), (60, 140, 60), (220, 170, 60), (120, 80, 50), (90, 60, 120))[i % 5],
        )
        exif = photo.getexif()
        exif[0x0112] = 6  # turned
        exif[0x010E] = "SECRET KITCHEN"
        paths.append(folder / f"secret_dish_{i}.jpg")
        photo.save(paths[-1], exif=exif, quality=92)
    return paths


FACTS = {
    "food_category": "豆制品", "dish_name": "麻婆豆腐", "main_ingredient": "豆腐", "main_ingredient_traits": "嫩滑",
    "key_ingredients": "豆瓣酱、花椒、牛肉末", "flavor": "麻辣；鲜香", "presentation_style": "盛在深盘里，撒葱花",
    "color": "红色", "dishware": "深盘", "region": "川渝", "province": "四川", "cuisine_type": "川菜",
    "cooking_techniques": "焯；炒；勾芡", "reference_links": "https://example.org/mapo",
}  # fmt: skip


def events(server: Server) -> list[dict[str, Any]]:
    lines = (server.folder / "events.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line]


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.1)


# ---- the tests -------------------------------------------------------------------------------------------------------


def test_from_photos_to_agreement(server: Server, browser: Any, tmp_path: Path) -> None:
    """Two collect, review and write; two others verify at once; the server is killed in between; the export is read."""
    photos = made_up_photos(tmp_path / "camera")
    ann = Person(browser, server, "小王", "1234")
    ann.shot("signin") if SHOTS else None
    ann.sign_in()
    bob = Person(browser, server, "Bob", "a long phrase", language="en")
    bob.sign_in()

    # upload: everything that is missing is said at once
    ann.page.click("#collect-send")
    said = ann.note("collect", "fault")
    for word in ("菜名", "菜系", "用餐地点", "同意", "张照片"):
        assert word in said
    ann.page.set_input_files("#collect-files input[type=file]", photos[:4])
    ann.page.wait_for_selector("#collect-files .file-preview")
    ann.type("collect-dish", "绝密麻婆豆腐")
    ann.pick("collect-cuisine", "川菜")
    ann.pick("collect-place", "餐馆")
    ann.page.check("#collect-consent input")
    ann.shot("collect")
    ann.page.click("#collect-send")
    assert "4" in ann.note("collect")
    assert not [
        path for path in (server.folder / "tmp").rglob("*") if path.is_file() and path.stat().st_size
    ]  # no EXIF
    kept = [path.read_bytes() for path in (server.folder / "photos").iterdir()]
    assert len(kept) == 4
    assert not any(b"SECRET" in data or b"Exif" in data for data in kept)
    # the same photo again is known; a text is no photo
    ann.page.set_input_files("#collect-files input[type=file]", photos[0])
    ann.page.wait_for_selector("#collect-files .file-preview")
    ann.type("collect-dish", "又一次")
    ann.page.check("#collect-consent input")
    ann.page.click("#collect-send")
    ann.page.locator("#collect-status .note", has_text="以前").wait_for()
    ann.shot("collect_done")

    # review: never one's own
    ann.tab("review")
    ann.page.locator("#review-card .empty").wait_for()
    bob.tab("review")
    for i in range(4):
        bob.page.locator("#review-card img").wait_for()
        before = bob.page.locator("#review-current textarea, #review-current input").input_value()
        if i == 0:
            bob.page.click("#review-accept")
            assert "Food category" in bob.note("review", "fault")
            bob.shot("review")
        bob.page.get_by_label("Tofu", exact=True).check()
        bob.page.click("#review-accept")
        field = "#review-current textarea, #review-current input"
        wait_for(lambda before=before, field=field: bob.page.locator(field).input_value() != before, "the next photo")

    # dish facts, with a draft that outlives a reload
    ann.tab("dish")
    ann.type("dish-dish_name", "麻婆豆腐")
    ann.page.click("#dish-save")
    assert "口味" in ann.note("dish", "fault")
    wait_for(lambda: any(e["kind"] == "draft" and "dish/" in e["payload"]["form"] for e in events(server)), "a draft")
    ann.page.reload()
    ann.tab("dish")
    typed = ann.page.locator("#dish-dish_name textarea, #dish-dish_name input")
    wait_for(lambda: typed.input_value() == "麻婆豆腐", "the draft of the dish")
    for field, value in FACTS.items():
        ann.type(f"dish-{field}", value)
    ann.page.locator("#dish-serving_temperature input").nth(1).check()
    ann.shot("dish")
    ann.page.click("#dish-save")
    ann.page.locator("#dish-status .note.good", has_text="麻婆豆腐").wait_for()

    # group
    ann.tab("group")
    ann.page.locator("#group-grid .pick").first.wait_for()
    for i in range(3):
        ann.page.locator("#group-grid .pick").nth(i).click()
    ann.page.click("#group-make")
    assert "3" in ann.note("group", "fault")
    ann.page.locator("#group-grid .pick").nth(3).click()
    ann.shot("group")
    ann.page.click("#group-make")
    ann.note("group")

    # write: an empty slot is dropped, what is missing is said
    ann.tab("write")
    ann.page.locator("#write-card img").nth(3).wait_for()
    ann.type("write-1-question", "哪一道菜是红色的？")
    ann.page.click("#write-save")
    said = ann.note("write", "fault")
    for word in ("正确答案", "问题类型", "2"):
        assert word in said
    ann.page.locator("#write-1-answer input").nth(1).check()
    ann.pick("write-1-type", "颜色")
    ann.type("write-2-question", "这四道菜中颜色最深的一道用了什么做法？")
    ann.page.locator("#write-2-kind input").nth(1).check()
    for letter, text in zip("ABCD", ("红烧", "清蒸", "凉拌", "红烧 "), strict=True):
        ann.type(f"write-2-{letter}", text)
    ann.page.locator("#write-2-answer input").nth(0).check()
    ann.pick("write-2-type", "烹饪方法")
    ann.page.click("#write-save")
    ann.page.locator("#write-status .note.fault", has_text="互不相同").wait_for()
    ann.type("write-2-D", "油炸")
    ann.shot("write")
    ann.page.click("#write-save")
    ann.page.locator("#write-status .note.good", has_text="2").wait_for()

    # verify: the author and those who know the dish have nothing to do
    ann.tab("verify")
    ann.page.locator("#verify-card .empty").wait_for()
    bob.tab("verify")
    bob.page.locator("#verify-card .empty").wait_for()

    # two others, at the same time, by keyboard alone; one of them with a phone
    eve = Person(browser, server, "Eve", "0000", language="en")
    eve.sign_in()
    phone = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True, "device_scale_factor": 2}
    dan = Person(browser, server, "老丹", "9999", **phone)
    dan.sign_in()
    for person in (eve, dan):
        person.tab("verify")
        person.page.locator("#verify-card .question").wait_for()
        shown = person.page.content()
        for secret in ("绝密", "secret_dish", "小王", str(server.folder)):
            assert secret not in shown  # no dish name, no file name, no author, no path
    eve.shot("verify")
    eve.page.locator("#verify-card .picture img").first.click()  # enlarged, and Escape goes back
    eve.page.locator("#zoom img").wait_for()
    eve.page.keyboard.press("Escape")
    eve.page.locator("#zoom").wait_for(state="detached")
    dan.shot("phone_verify")
    token = "#verify-token textarea, #verify-token input"

    def press(person: Person, *keys: str) -> None:
        for key in keys:
            person.page.keyboard.press(key)

    def settled(person: Person, before: str) -> None:
        wait_for(lambda: person.page.locator(token).input_value() != before, "the next question")

    # what is missing is said, and the earlier letters stay
    before = eve.page.locator(token).input_value()
    press(eve, "b", "Enter")
    said = eve.note("verify", "fault")
    assert "Rationale" in said and "Steps" in said
    settled(eve, before)
    for person in (eve, dan):
        person.before = person.page.locator(token).input_value()  # type: ignore[attr-defined]
        press(person, "b", "m", "r")
        person.page.keyboard.type("reason one")
    for person in (eve, dan):  # both send within a moment
        press(person, "Enter")
    for person in (eve, dan):
        settled(person, person.before)  # type: ignore[attr-defined]
    given = [e for e in events(server) if e["kind"] == "answer"]
    assert {e["payload"]["shown"] for e in given} == {"B"} and len(given) == 2

    # "I don't know", with a guess kept apart; a draft; then the server is killed
    dan.before = dan.page.locator(token).input_value()  # type: ignore[attr-defined]
    press(dan, "0", "3", "Enter")
    settled(dan, dan.before)  # type: ignore[attr-defined]
    press(eve, "c", "s", "r")
    eve.page.keyboard.type("half a thought")
    wait_for(
        lambda: any(
            e["kind"] == "draft" and e["payload"]["fields"].get("rationale") == "half a thought" for e in events(server)
        ),
        "the draft",
    )
    before_kill = events(server)
    server.kill()
    server.start()
    assert events(server)[: len(before_kill)] == before_kill

    # the same people are still signed in; the draft and the earlier answers are there
    eve.page.reload()
    eve.tab("verify")
    rationale = eve.page.locator("#verify-rationale textarea")
    wait_for(lambda: rationale.input_value() == "half a thought", "the draft after the restart")
    eve.shot("verify_draft")
    eve.before = eve.page.locator(token).input_value()  # type: ignore[attr-defined]
    press(eve, "Enter")
    settled(eve, eve.before)  # type: ignore[attr-defined]
    eve.page.locator("#verify-status .note", has_text="All done").wait_for()
    dan.page.reload()
    dan.tab("verify")
    dan.page.locator("#verify-status .note", has_text="全部完成").wait_for()
    dan.shot("phone_verify_done")

    # free navigation: back to the first answer, which is filled in, and another opinion
    answered = dan.page.locator("#verify-choice input").nth(4).is_checked()
    dan.before = dan.page.locator(token).input_value()  # type: ignore[attr-defined]
    press(dan, "ArrowLeft")
    settled(dan, dan.before)  # type: ignore[attr-defined]
    wait_for(lambda: dan.page.locator("#verify-choice input").nth(4).is_checked() != answered, "the other answer")

    # the administrator exports; the truth is joined there and nowhere else
    root = Person(browser, server, "admin", "root phrase")
    root.page.goto(f"{server.url}/sign-in")
    root.page.fill("#name", "admin")
    root.page.fill("#phrase", "root phrase")
    root.page.click("button")
    root.page.locator(".fault").wait_for()  # without the setup code nobody becomes the administrator
    root.sign_in(f"root phrase {server.setup_code()}")
    root.tab("admin")
    root.page.locator("#admin-overview .tile").first.wait_for()
    root.page.click("#admin-agreement")
    root.page.locator("#admin-report table").first.wait_for()
    root.shot("admin")
    with root.page.expect_download() as download:
        root.page.click("#admin-export")
        root.page.locator("#admin-status a").click()
    archive = tmp_path / "export.zip"
    download.value.save_as(archive)
    shutil.unpack_archive(archive, tmp_path / "export")
    (folder,) = (tmp_path / "export").iterdir()
    from data.foodieqa import read_file

    report = read_file(folder / "mivqa_tidy.json", "mivqa", "zh")
    assert [q.answer for q in report.questions] == [1, 0]
    assert report.questions[1].choices == ("红烧", "清蒸", "凉拌", "油炸")
    answers = [json.loads(line) for line in (folder / "answers.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(answers) == 4
    unsure = [a for a in answers if a["dont_know"]]
    assert len(unsure) == 1 and unsure[0]["choice"] is None and unsure[0]["guess"] is not None
    for answer in answers:
        if answer["choice"] is not None:
            assert answer["order"]["ABCD".index(answer["shown"])] == answer["choice"]
    assert not any("answer" in e["payload"] or "right" in e["payload"] for e in events(server) if e["kind"] == "answer")

    # phone pictures of the other pages, and nothing wider than the phone
    for name in ("collect", "review", "dish", "group", "write", "verify"):
        dan.tab(name)
        time.sleep(0.8)
        wide = dan.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390, f"{name} is {wide} pixels wide"
        dan.shot(f"phone_{name}")
    for person in (ann, bob, eve, dan, root):
        person.done()


def test_imported_questions_in_two_tabs(browser: Any, tmp_path: Path) -> None:
    """Single-image and text questions; one person in two tabs at once; a bad question; both languages; no phrases."""
    from annotation.export import import_tidy
    from annotation.store import Store
    from tests.made_up_foodieqa import write_release

    files = write_release(tmp_path / "set", {"sivqa": 2, "textqa": 2})
    server = Server(tmp_path / "store", "auth=none", "language=en")
    store = Store(server.folder)
    for task in ("sivqa", "textqa"):
        assert import_tidy(store, files / f"{task}_tidy.json", task) == 2
    server.start()
    try:
        eve = Person(browser, server, "Eve", "", language="en")
        eve.page.goto(server.url)
        assert not eve.page.locator("#phrase").count()
        eve.page.fill("#name", "Eve")
        eve.page.keyboard.press("Enter")
        eve.page.wait_for_selector("#collect-send")
        other = eve.new_page()
        other.goto(f"{server.url}/zh/")
        eve.tab("verify")
        eve.language = "zh"
        eve.tab("verify", other)
        token = "#verify-token textarea, #verify-token input"
        for page in (eve.page, other):
            page.locator("#verify-card .option").nth(3).wait_for()
        eve.shot("verify_single")
        # the same question in both tabs: the later answer counts, both are in the log
        for page, key in ((eve.page, "a"), (other, "d")):
            before = page.locator(token).input_value()
            page.keyboard.press(key)
            page.keyboard.press("m")
            page.keyboard.press("r")
            page.keyboard.type(f"because {key}")
            page.keyboard.press("Enter")
            wait_for(lambda page=page, before=before: page.locator(token).input_value() != before, "the next question")
        given = [e["payload"] for e in events(server) if e["kind"] == "answer"]
        assert [(g["shown"], g["rationale"]) for g in given] == [("A", "because a"), ("D", "because d")]
        assert given[0]["question"] == given[1]["question"]
        # the option can be clicked; F flags a bad question and goes to the reason
        eve.page.locator("#verify-card .option").nth(2).click()
        wait_for(lambda: eve.page.locator("#verify-choice input").nth(2).is_checked(), "the option")
        eve.page.keyboard.press("f")
        eve.page.locator("#verify-why").wait_for()
        wait_for(lambda: bool(eve.page.evaluate("document.activeElement.closest('#verify-why')")), "the reason")
        eve.page.keyboard.type("two right options")
        eve.shot("verify_bad")
        before = eve.page.locator(token).input_value()
        eve.page.keyboard.press("Enter")
        wait_for(lambda: eve.page.locator(token).input_value() != before, "the next question")  # keys count again
        flagged = [e["payload"] for e in events(server) if e["kind"] == "answer"][-1]
        assert flagged["bad"] and flagged["bad_reason"] == "two right options"
        # no path of a photo, and no name of its file, comes to the browser
        with store.reading() as state:
            records = [state.questions[question]["record"] for question in state.live_questions()]
        names = [Path(record["food_meta"]["food_file"]).name for record in records if "food_meta" in record]
        assert len(names) == 2 and not any(name in eve.page.content() for name in names)
        # withdraw: the mark goes, the log keeps it
        eve.page.keyboard.press("ArrowLeft")
        eve.page.locator("#verify-progress .done").wait_for()
        eve.page.click("#verify-retract")
        eve.page.locator("#verify-progress .done").wait_for(state="detached")
        assert [e["kind"] for e in events(server)].count("answer") == 3
        eve.done()
    finally:
        server.kill()


def _ask(url: str, cookie: str = "", data: bytes | None = None, kind: str = "") -> tuple[int, Any, bytes]:
    """Status, headers and content of one request; redirections are not followed."""
    headers = {"Cookie": cookie} if cookie else {}
    if kind:
        headers["Content-Type"] = kind

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *args: Any, **values: Any) -> None:
            return None

    request = urllib.request.Request(url, data=data, headers=headers)
    try:
        with urllib.request.build_opener(Stay).open(request, timeout=20) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def _enter(server: Server, name: str, phrase: str) -> tuple[int, str]:
    form = urllib.parse.urlencode({"name": name, "phrase": phrase, "language": "en"}).encode()
    status, headers, _ = _ask(f"{server.url}/sign-in", data=form)
    return status, (headers.get("Set-Cookie") or "").split(";")[0]


def test_the_gate(server: Server, tmp_path: Path) -> None:
    """Nothing without a cookie, nothing of the store's files with one, and exports for the administrator alone."""
    from annotation.store import Store

    store = Store(server.folder)
    photo, _, _ = store.keep_photo(made_up_photos(tmp_path / "camera", 1)[0].read_bytes())
    (server.folder / "exports").mkdir()
    (server.folder / "exports" / "one.zip").write_bytes(b"zip")
    inside = (f"/photos/{photo}", "/exports/one.zip", "/zh/config", "/zh/gradio_api/info", "/zh/gradio_api/file=x")
    forged = "annotator=a123456789abc." + "0" * 64
    for cookie in ("", forged):
        for path in inside:
            status, headers, _ = _ask(server.url + path, cookie)
            assert status == 401, path
            assert "default-src 'self'" in headers["content-security-policy"]
        assert _ask(f"{server.url}/zh/gradio_api/upload", cookie, b"x", "text/plain")[0] == 401
        for path in ("/", "/zh/", "/en"):
            status, headers, _ = _ask(server.url + path, cookie)
            assert status == 303 and headers["Location"].startswith("/sign-in")
    assert _enter(server, "Eve", "123")[0] == 400
    status, eve = _enter(server, "Eve", "1234")
    assert status == 303 and eve
    assert _ask(f"{server.url}/photos/{photo}", eve)[0] == 200
    for path in ("/photos/..%2F.secret", "/photos/%2e%2e/events.jsonl", "/photos/" + "0" * 32, "/exports/one.zip"):
        assert _ask(server.url + path, eve)[0] == 404, path
    for name in ("events.jsonl", ".secret", f"photos/{photo}.jpg", "exports/one.zip"):
        status, _, content = _ask(f"{server.url}/zh/gradio_api/file={server.folder / name}", eve)
        assert status in (403, 404), name
        assert b"phrase" not in content
    status, _, page = _ask(f"{server.url}/zh/", eve)
    assert status == 200
    for host in (b"googleapis", b"gstatic", b"cdnjs", b"huggingface.co"):
        assert host not in page.replace(b"https://huggingface.co/spaces", b"")
    # the administrator, and guessing
    assert _enter(server, "ADMIN", "1234")[0] == 400
    status, admin = _enter(server, "Admin", f"1234 {server.setup_code()}")
    assert status == 303
    assert _ask(f"{server.url}/exports/one.zip", admin)[0] == 200
    assert _ask(f"{server.url}/exports/..%2F.secret", admin)[0] == 404
    for _ in range(10):
        assert _enter(server, "admin", "wrong phrase")[0] == 400
    assert _enter(server, "admin", "1234")[0] == 400  # too many: even the right one waits


def test_the_server_checks_what_browsers_send(server: Server) -> None:
    """Calls around the pages: somebody who is no administrator asks for its functions and for others' questions."""
    _, eve = _enter(server, "Eve", "1234")
    config = json.loads(_ask(f"{server.url}/zh/config", eve)[2])
    components = {component["id"]: component for component in config["components"]}
    before = events(server)
    for number in range(len(config["dependencies"])):
        data = [_nonsense(components[one]) for one in config["dependencies"][number]["inputs"]]
        body = {"data": data, "fn_index": number, "session_hash": f"s{number}", "trigger_id": None}
        _ask(f"{server.url}/zh/gradio_api/queue/join", eve, json.dumps(body).encode(), "application/json")
        _ask_stream(f"{server.url}/zh/gradio_api/queue/data?session_hash=s{number}", eve)
    added = events(server)[len(before) :]
    # what a stranger can do with nonsense: be known as a verifier, keep a draft of a dish
    assert {event["kind"] for event in added} <= {"verifier", "draft"}
    assert not (server.folder / "exports").exists()
    assert "Traceback" not in server.log.read_text(encoding="utf-8")


def _nonsense(component: dict[str, Any]) -> Any:
    """A value that Gradio lets through and no form should."""
    if component["type"] in ("radio", "dropdown") and component["props"].get("choices"):
        return component["props"]["choices"][-1][1]
    return {"file": None, "checkbox": True}.get(component["type"], "../x" * 20)


def _ask_stream(url: str, cookie: str) -> bytes:
    request = urllib.request.Request(url, headers={"Cookie": cookie})
    content = b""
    with urllib.request.urlopen(request, timeout=20) as answer:
        for line in answer:
            content += line
            if b"process_completed" in line or b"close_stream" in line:
                return content
    return content
