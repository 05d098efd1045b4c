"""The seven pages, built once for each language. Every rule is on the server: `annotation.forms`, `annotation.work`."""

import inspect
import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import gradio as gr
from gradio import themes

from annotation import export, forms, work
from annotation.facts import FACTS, TEMPERATURES
from annotation.forms import Labels, Settings
from annotation.store import Refused, State, Store
from annotation.words import escape, message, say
from data.errors import InputError
from data.records import LETTERS

HERE = Path(__file__).parent
FONTS = ("system-ui", "-apple-system", "Segoe UI", "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", "sans-serif")
MINE_SHOWN = 200  # photos of one's own that are listed


def theme() -> themes.Base:
    """Colours and spacing; fonts of the machine only, since nothing may come from outside."""
    base = themes.Soft(
        primary_hue="orange", secondary_hue="amber", neutral_hue="stone", font=FONTS, font_mono=("monospace",)
    )
    return base.set(
        input_border_width="1px",
        input_border_color="*neutral_300",
        input_border_color_dark="*neutral_600",
        input_shadow="none",
        block_title_background_fill="transparent",
        block_title_background_fill_dark="transparent",
        block_title_text_color="*body_text_color",
        block_title_text_color_dark="*body_text_color",
        block_title_padding="0",
        block_label_background_fill="transparent",
        block_label_background_fill_dark="transparent",
        block_label_text_color="*body_text_color",
        block_label_text_color_dark="*body_text_color",
        body_text_color_subdued="*neutral_600",
        body_text_color_subdued_dark="*neutral_400",
        button_primary_background_fill="*primary_700",
        button_primary_background_fill_hover="*primary_800",
        button_primary_background_fill_dark="*primary_700",
        button_secondary_border_color="*neutral_300",
        button_border_width="1px",
        checkbox_border_width="1px",
        checkbox_border_color="*neutral_400",
    )


def styles() -> str:
    """The style sheet of the pages."""
    return (HERE / "pages.css").read_text(encoding="utf-8")


def head() -> str:
    """The script of the pages: keyboard, choosing photos, enlarging them, saving drafts while people type."""
    script = (HERE / "pages.js").read_text(encoding="utf-8")
    return f'<meta name="robots" content="noindex"><script>{script}</script>'


class Pages:
    """What all pages of one language share: the store, the settings, the words."""

    def __init__(self, store: Store, settings: Settings, language: str) -> None:
        self.store, self.settings, self.language = store, settings, language
        self.on_load: list[tuple[Callable[..., Any], list[Any]]] = []

    def say(self, key: str, **values: Any) -> str:
        """The sentence of that key in the language of these pages."""
        return say(key, self.language, **values)

    def choices(self, labels: Labels) -> list[tuple[str, str]]:
        """(shown name, stored value) of one list of the configuration."""
        return [(names[self.language], value) for value, names in labels.items()]

    def shown(self, labels: Labels, value: str) -> str:
        """Shown name of a stored value."""
        return labels.get(value, {}).get(self.language, value)

    def is_admin(self, annotator: str) -> bool:
        """Whether this is the administrator's account."""
        with self.store.reading() as state:
            return is_admin(state, self.settings, annotator)

    def handler(self, status: gr.HTML, function: Callable[..., dict[Any, Any]]) -> Callable[..., dict[Any, Any]]:
        """`function(annotator, *inputs)` as Gradio calls it, with what it refuses said in `status`."""
        count = len(inspect.signature(function).parameters) - 1

        def run(request: gr.Request, *values: Any) -> dict[Any, Any]:
            try:
                annotator = request.username
                if not annotator:
                    raise Refused("reload")
                return function(annotator, *values)
            except Refused as refused:
                return {status: fault(message(refused, self.language))}

        # Gradio reads the number of inputs from the signature.
        request = inspect.Parameter("request", inspect.Parameter.POSITIONAL_ONLY, annotation=gr.Request)
        rest = [inspect.Parameter(f"value{i}", inspect.Parameter.POSITIONAL_ONLY) for i in range(count)]
        run.__signature__ = inspect.Signature([request, *rest])  # type: ignore[attr-defined]
        run.__annotations__ = {"request": gr.Request}
        return run


def is_admin(state: State, settings: Settings, annotator: str) -> bool:
    """Whether an account is the administrator's."""
    return state.account_by_name(settings.admin) == annotator


def good(text: str) -> str:
    """A line that says that all is well."""
    return f'<div class="note good" role="status">{escape(text)}</div>' if text else ""


def fault(text: str) -> str:
    """A line that says what is missing."""
    return f'<div class="note fault" role="alert">{escape(text)}</div>'


def help_text(text: str) -> str:
    """The guideline at the head of a page."""
    return f'<p class="help">{escape(text)}</p>'


def picture(photo: str, letter: str = "", thumb: bool = True) -> str:
    """A photo by its id, to be enlarged by a click; with its letter where it is an option."""
    badge = f'<b class="letter">{letter}</b>' if letter else ""
    name = f"{letter}" if letter else "photo"
    source = f"/photos/{photo}" + ("?thumb=1" if thumb else "")
    return (
        f'<figure class="picture" data-letter="{letter}">{badge}'
        f'<img src="{source}" data-full="/photos/{photo}" alt="{name}" loading="lazy" tabindex="-1"></figure>'
    )


def picker(photos: Sequence[str], captions: Mapping[str, str], empty: str) -> str:
    """Photos that can be chosen by a click or the space bar; the script writes their ids into the hidden field."""
    if not photos:
        return f'<p class="empty">{escape(empty)}</p>'
    cells = "".join(
        f'<button type="button" class="pick" data-id="{photo}" aria-pressed="false">'
        f'<img src="/photos/{photo}?thumb=1" alt="" loading="lazy">'
        + (f"<span>{escape(captions[photo])}</span>" if photo in captions else "")
        + "</button>"
        for photo in photos
    )
    return f'<div class="picker">{cells}</div>'


def bar(done: int, total: int) -> str:
    """A bar of progress."""
    share = 100 * done / total if total else 0
    state = f'role="progressbar" aria-valuenow="{done}" aria-valuemax="{total}"'
    return f'<div class="bar" {state}><i style="width:{share:.1f}%"></i></div>'


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A plain table; cells that are HTML already are passed as `gr.HTML` would show them."""
    head_row = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    rows_of = f"<thead><tr>{head_row}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="scroll"><table class="plain">{rows_of}</table></div>'


def hidden(elem_id: str) -> gr.Textbox:
    """A field for the script or the server, kept in the browser so that a restart of the server loses nothing."""
    return gr.Textbox(visible="hidden", elem_id=elem_id, container=False)


def build(store: Store, settings: Settings, language: str) -> gr.Blocks:
    """All pages in one language."""
    pages = Pages(store, settings, language)
    blocks = gr.Blocks(title=pages.say("title"), analytics_enabled=False, delete_cache=(600, 3600))
    with blocks:
        header = gr.HTML(elem_id="header")
        with gr.Tabs(elem_id="tabs"):
            _collect(pages)
            _review(pages)
            _dish(pages)
            _group(pages)
            _write(pages)
            _verify(pages)
            admin_tab = _admin(pages)

        def load(annotator: str) -> dict[Any, Any]:
            with store.reading() as state:
                name, admin = state.name(annotator), is_admin(state, settings, annotator)
            other = "en" if language == "zh" else "zh"
            line = (
                f"<header><h1>{escape(pages.say('title'))}<small>{escape(pages.say('subtitle'))}</small></h1>"
                f'<nav><span class="who">{escape(name)}</span>'
                f'<a href="/{other}/" lang="{other}">{escape(pages.say("other_language"))}</a>'
                f'<a href="/sign-out">{escape(pages.say("sign_out"))}</a></nav></header>'
            )
            return {header: line, admin_tab: gr.update(visible=admin)}

        blocks.load(pages.handler(header, load), None, [header, admin_tab], **QUIET)
        for function, outputs in pages.on_load:
            blocks.load(function, None, outputs, **QUIET)
    return blocks


# `multiple`: where an answer of the server never arrives, the button can be pressed again; every form may come twice.
QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "trigger_mode": "multiple"}


# ---- collect ---------------------------------------------------------------------------------------------------------


def _collect(pages: Pages) -> None:
    store, settings = pages.store, pages.settings
    with gr.Tab(pages.say("tab_collect"), id="collect", elem_id="collect-page") as tab:
        gr.HTML(help_text(pages.say("collect_help", limit=forms.PHOTOS_AT_ONCE)))
        files = gr.File(
            label=pages.say("files"), file_count="multiple", file_types=[".jpg", ".jpeg", ".png", ".webp"],
            elem_id="collect-files", height=150,
        )  # fmt: skip
        with gr.Row():
            dish = gr.Textbox(label=pages.say("dish_name"), max_length=200, elem_id="collect-dish")
            cuisine = gr.Dropdown(
                pages.choices(settings.cuisines), value=None, label=pages.say("cuisine"), elem_id="collect-cuisine"
            )
            other = gr.Textbox(label=pages.say("cuisine_other"), visible=False, elem_id="collect-other")
            place = gr.Dropdown(
                pages.choices(settings.places), value=None, label=pages.say("place"), elem_id="collect-place"
            )
        consent = gr.Checkbox(label=pages.say("consent_box"), value=False, elem_id="collect-consent")
        gr.HTML(f'<p class="small">{escape(pages.say("privacy"))}</p>')
        status = gr.HTML(elem_id="collect-status")
        send = gr.Button(pages.say("upload"), variant="primary", elem_id="collect-send")
        gr.HTML(f"<h2>{escape(pages.say('my_photos'))}</h2>")
        mine = gr.HTML(elem_id="collect-mine")
        picked = hidden("collect-picked")
        withdraw = gr.Button(pages.say("withdraw_picked"), size="sm", elem_id="collect-withdraw")

        def listing(annotator: str) -> str:
            marks = {"pending": "pending", "accept": "accepted", "reject": "rejected"}
            with store.reading() as state:
                photos = [p for p in reversed(state.live_photos()) if state.photos[p]["annotator"] == annotator]
                captions = {}
                for photo in photos[:MINE_SHOWN]:
                    verdict = state.verdict(photo)
                    line = f"{state.photos[photo]['dish_name']} · {pages.say(marks[verdict])}"
                    if verdict == "reject":
                        line += f" ({pages.shown(settings.rejections, state.reviews[photo].payload['reason'])})"
                    captions[photo] = line
            return picker(list(captions), captions, pages.say("none_yet"))

        def upload(annotator: str, paths: list[str] | None, dish_name: str, value: str, named: str, where: str,
                   agreed: bool) -> dict[Any, Any]:  # fmt: skip
            paths = paths or []
            data = []
            for path in paths[: forms.PHOTOS_AT_ONCE + 1]:
                with open(path, "rb") as file:
                    data.append(file.read(export.MAX_UPLOAD + 1))
            fields = {"dish_name": dish_name, "cuisine": value, "cuisine_other": named, "place": where}
            fresh, known = forms.submit_photos(store, settings, annotator, data, {**fields, "consent": agreed})
            for path in paths:
                Path(path).unlink(missing_ok=True)  # the file as it came still has its EXIF
            said = [pages.say("upload_done", count=len(fresh))] if fresh else []
            said += [pages.say("upload_known", count=known)] if known else []
            return {
                status: good(" ".join(said)), files: None, dish: "", consent: False, mine: listing(annotator),
                picked: "",
            }  # fmt: skip

        def take_back(annotator: str, chosen: str) -> dict[Any, Any]:
            photos = _ids(chosen)
            if not photos:
                raise Refused("pick_photo")
            for photo in photos:
                forms.withdraw_photo(store, annotator, photo)
            return {status: good(pages.say("withdrawn")), mine: listing(annotator), picked: ""}

        def show(annotator: str) -> dict[Any, Any]:
            return {mine: listing(annotator), status: ""}

        cuisine.input(lambda value: gr.update(visible=value == "其他"), cuisine, other, **QUIET)
        send.click(
            pages.handler(status, upload), [files, dish, cuisine, other, place, consent],
            [status, files, dish, consent, mine, picked], api_visibility="private",
        )  # fmt: skip
        withdraw.click(pages.handler(status, take_back), picked, [status, mine, picked], **QUIET)
        shown = pages.handler(status, show)
        tab.select(shown, None, [mine, status], **QUIET)
        pages.on_load.append((shown, [mine, status]))


def _ids(text: str) -> list[str]:
    """Ids that the script has written into a hidden field."""
    return [part for part in str(text or "").split(",") if part][:100]


# ---- review ----------------------------------------------------------------------------------------------------------


def _review(pages: Pages) -> None:
    store, settings = pages.store, pages.settings
    with gr.Tab(pages.say("tab_review"), id="review", elem_id="review-page") as tab:
        gr.HTML(help_text(pages.say("review_help")))
        which = gr.Radio(
            [(pages.say("review_pending"), "pending"), (pages.say("review_done_ones"), "done")], value="pending",
            label=pages.say("review_what"), show_label=False, elem_id="review-which",
        )  # fmt: skip
        left = gr.HTML()
        with gr.Row():
            with gr.Column(scale=3, min_width=320):
                card = gr.HTML(elem_id="review-card")
            with gr.Column(scale=2, min_width=300, visible=False, elem_id="review-form") as form:
                category = gr.Radio(
                    pages.choices(settings.categories), label=pages.say("category"), elem_id="review-category"
                )
                accept = gr.Button(pages.say("accept"), variant="primary", elem_id="review-accept")
                reason = gr.Radio(
                    pages.choices(settings.rejections), label=pages.say("reason"), elem_id="review-reason"
                )
                note = gr.Textbox(label=pages.say("note"), max_length=500, elem_id="review-note")
                with gr.Row():
                    reject = gr.Button(pages.say("reject"), elem_id="review-reject")
                    skip = gr.Button(pages.say("skip"), elem_id="review-skip")
        status = gr.HTML(elem_id="review-status")
        current = hidden("review-current")
        outputs = [left, card, form, category, reason, note, status, current]

        def show(annotator: str, mode: str, after: str = "", said: str = "") -> dict[Any, Any]:
            with store.reading() as state:
                admin = is_admin(state, settings, annotator)
                mine = [p for p in state.live_photos() if admin or state.photos[p]["annotator"] != annotator]
                waiting = [p for p in mine if state.verdict(p) == "pending"]
                photos = waiting if mode == "pending" else [p for p in mine if state.verdict(p) != "pending"]
                order = state.live_photos()
                place = order.index(after) if after in order else -1
                # the next one behind `after`, then from the front
                later = [p for p in photos if order.index(p) > place and p != after]
                photo = next(iter(later or [p for p in photos if p != after] or photos), None)
                line = f'<p class="small">{escape(pages.say("review_left", count=len(waiting)))}</p>'
                if photo is None:
                    empty = f'<p class="empty">{escape(pages.say("review_none"))}</p>'
                    return {left: line, card: empty, form: gr.update(visible=False), status: said, current: "",
                            category: None, reason: None, note: ""}  # fmt: skip
                about = state.photos[photo]
                before = state.reviews[photo].payload if photo in state.reviews else {}
            facts = [
                (pages.say("dish_name"), about["dish_name"]),
                (pages.say("cuisine"), about["cuisine_other"] or pages.shown(settings.cuisines, about["cuisine"])),
                (pages.say("place"), pages.shown(settings.places, about["place"])),
            ]
            rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
            return {
                left: line,
                card: f'<div class="large">{picture(photo, thumb=False)}</div><dl class="facts">{rows}</dl>',
                form: gr.update(visible=True),
                category: before.get("category") or None,
                reason: before.get("reason") or None,
                note: before.get("note", ""),
                status: said,
                current: photo,
            }

        def judge(verdict: str) -> Callable[..., dict[Any, Any]]:
            def run(annotator: str, photo: str, mode: str, value: str, why: str, remark: str) -> dict[Any, Any]:
                fields = {
                    "verdict": verdict,
                    "category": value,
                    "reason": why if verdict == "reject" else "",
                    "note": remark,
                }
                forms.review_photo(store, settings, annotator, photo, fields, pages.is_admin(annotator))
                return show(annotator, mode, photo, good(pages.say("saved")))

            return run

        def first(annotator: str, mode: str) -> dict[Any, Any]:
            return show(annotator, mode)

        def following(annotator: str, mode: str, photo: str) -> dict[Any, Any]:
            return show(annotator, mode, photo)

        given = [current, which, category, reason, note]
        accept.click(pages.handler(status, judge("accept")), given, outputs, **QUIET)
        reject.click(pages.handler(status, judge("reject")), given, outputs, **QUIET)
        skip.click(pages.handler(status, following), [which, current], outputs, **QUIET)
        which.input(pages.handler(status, first), which, outputs, **QUIET)
        tab.select(pages.handler(status, first), which, outputs, **QUIET)


# ---- dish facts ------------------------------------------------------------------------------------------------------


def _dish(pages: Pages) -> None:
    store = pages.store
    with gr.Tab(pages.say("tab_dish"), id="dish", elem_id="dish-page") as tab:
        gr.HTML(help_text(pages.say("dish_help")))
        chosen = gr.Dropdown(
            [(pages.say("dish_new"), "new")], value="new", label=pages.say("dish_choose"), allow_custom_value=True,
            elem_id="dish-choose",
        )  # fmt: skip
        fields: list[Any] = []
        with gr.Row(elem_classes="facts-form"):
            for fact in FACTS:
                label = (fact.zh if pages.language == "zh" else fact.en) + (" *" if fact.required else "")
                hint = fact.hint_zh if pages.language == "zh" else fact.hint_en
                name = f"dish-{fact.name}"
                if fact.name == "serving_temperature":
                    options = [(zh if pages.language == "zh" else en, value) for value, zh, en in TEMPERATURES]
                    fields.append(gr.Radio(options, value=None, label=label, elem_id=name, min_width=280))
                    continue
                fields.append(
                    gr.Textbox(
                        label=label, placeholder=hint, max_length=forms.MAX_TEXT, elem_id=name, min_width=280, lines=1
                    )
                )
        status = gr.HTML(elem_id="dish-status")
        kept = gr.HTML(elem_id="dish-kept")
        with gr.Row():
            save = gr.Button(pages.say("dish_save"), variant="primary", elem_id="dish-save")
            remove = gr.Button(pages.say("dish_withdraw"), elem_id="dish-withdraw")

        def listed() -> list[tuple[str, str]]:
            with store.reading() as state:
                live = [(k, d) for k, d in state.dishes.items() if k not in state.withdrawn]
                names = [(d["typed"].get("dish_name") or k, k) for k, d in live]
            return [(pages.say("dish_new"), "new"), *names]

        def show(annotator: str, dish: str, said: str = "") -> dict[Any, Any]:
            with store.reading() as state:
                if dish != "new" and (dish not in state.dishes or dish in state.withdrawn):
                    dish = "new"
                typed = state.drafts.get((annotator, f"dish/{dish}"))
                if typed is None:
                    typed = state.dishes[dish]["typed"] if dish != "new" else {}
            values: dict[Any, Any] = {
                field: str(typed.get(fact.name) or "") for field, fact in zip(fields, FACTS, strict=True)
            }
            values = {field: value or (None if isinstance(field, gr.Radio) else "") for field, value in values.items()}
            return {**values, chosen: gr.update(choices=listed(), value=dish), status: said, kept: ""}

        def read(values: Sequence[Any]) -> dict[str, str]:
            return {fact.name: str(value or "").strip() for fact, value in zip(FACTS, values, strict=True)}

        def keep(annotator: str, dish: str, typed: dict[str, str]) -> dict[Any, Any]:
            dish = dish or "new"

            def finished(state: State) -> bool:
                if dish != "new":
                    return typed == state.dishes.get(dish, {}).get("typed")
                return not any(typed.values()) or any(d["typed"] == typed for d in state.dishes.values())

            fresh = forms.save_draft(store, annotator, f"dish/{dish}", typed, finished)
            return {kept: good(pages.say("draft_kept")) if fresh else gr.skip()}

        def submit(annotator: str, dish: str, typed: dict[str, str]) -> dict[Any, Any]:
            forms.save_dish(store, annotator, None if dish in ("new", "", None) else dish, typed)
            return show(annotator, "new", good(pages.say("dish_saved", name=typed["dish_name"])))

        def drop(annotator: str, dish: str) -> dict[Any, Any]:
            forms.withdraw_dish(store, annotator, dish, pages.is_admin(annotator))
            return show(annotator, "new", good(pages.say("withdrawn")))

        def first(annotator: str, dish: str) -> dict[Any, Any]:
            return show(annotator, dish or "new")

        given = [chosen, *fields]
        outputs = [chosen, *fields, status, kept]
        save.click(_many(pages, status, submit, read, given), given, outputs, **QUIET)
        remove.click(pages.handler(status, drop), chosen, outputs, **QUIET)
        chosen.input(pages.handler(status, first), chosen, outputs, **QUIET)
        tab.select(pages.handler(status, first), chosen, outputs, **QUIET)
        for field in fields:
            event = field.blur if isinstance(field, gr.Textbox) else field.input
            event(_many(pages, kept, keep, read, given), given, [kept], **QUIET)


def _many(
    pages: Pages,
    status: gr.HTML,
    function: Callable[[str, str, Any], dict[Any, Any]],
    read: Callable[[Sequence[Any]], Any],
    inputs: Sequence[Any],
) -> Callable[..., dict[Any, Any]]:
    """A handler of many fields, `function(annotator, first, read(others))`; its signature tells Gradio how many."""

    def run(annotator: str, *values: Any) -> dict[Any, Any]:
        return function(annotator, values[0], read(values[1:]))

    names = ["annotator", *(f"value{i}" for i in range(len(inputs)))]
    run.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in names]
    )
    return pages.handler(status, run)


# ---- group -----------------------------------------------------------------------------------------------------------


def _group(pages: Pages) -> None:
    store, settings = pages.store, pages.settings
    tables = {"cuisine": settings.cuisines, "category": settings.categories}
    with gr.Tab(pages.say("tab_group"), id="group", elem_id="group-page") as tab:
        gr.HTML(help_text(pages.say("group_help")))
        with gr.Row():
            by = gr.Radio(
                [(pages.say("by_cuisine"), "cuisine"), (pages.say("by_category"), "category")], value="cuisine",
                label=pages.say("group_by"), elem_id="group-by",
            )  # fmt: skip
            value = gr.Dropdown([], label=pages.say("group_value"), allow_custom_value=True, elem_id="group-value")
        grid = gr.HTML(elem_id="group-grid")
        picked = hidden("group-picked")
        status = gr.HTML(elem_id="group-status")
        make = gr.Button(pages.say("group_make"), variant="primary", elem_id="group-make")
        gr.HTML(f"<h2>{escape(pages.say('group_list'))}</h2>")
        made = gr.HTML(elem_id="group-made")
        with gr.Row():
            which = gr.Dropdown([], label=pages.say("group_choose"), allow_custom_value=True, elem_id="group-choose")
            split = gr.Button(pages.say("group_split"), size="sm", elem_id="group-split")
        outputs = [value, grid, picked, status, made, which]

        def show(kind: str, chosen: str | None, said: str = "") -> dict[Any, Any]:
            kind = kind if kind in tables else "cuisine"
            with store.reading() as state:
                counts = {name: len(forms.ungrouped(state, kind, name)) for name in tables[kind]}
                if chosen not in tables[kind]:  # where most photos wait
                    chosen = max(counts, key=lambda name: counts[name])
                photos = forms.ungrouped(state, kind, chosen)
                groups = [(group, group_name(pages, state, group), state.groups[group]["photos"])
                          for group in reversed(state.live_groups())]  # fmt: skip
            options = [(f"{pages.shown(tables[kind], name)} ({counts[name]})", name) for name in tables[kind]]
            line = f'<p class="small">{escape(pages.say("ungrouped", count=len(photos), picked="§"))}</p>'
            line = line.replace("§", '<b class="picked-count">0</b>')
            rows = "".join(
                f'<div class="strip"><span>{escape(name)}</span>{"".join(picture(p) for p in four)}</div>'
                for _, name, four in groups
            )
            return {
                value: gr.update(choices=options, value=chosen),
                grid: line + picker(photos, {}, pages.say("none_yet")),
                picked: "",
                status: said,
                made: rows or f'<p class="empty">{escape(pages.say("none_yet"))}</p>',
                which: gr.update(choices=[(name, group) for group, name, _ in groups], value=None),
            }

        def first(annotator: str, kind: str, chosen: str) -> dict[Any, Any]:
            return show(kind, chosen)

        def group(annotator: str, kind: str, chosen: str, photos: str) -> dict[Any, Any]:
            forms.make_group(store, annotator, kind, chosen, _ids(photos))
            return show(kind, chosen, good(pages.say("group_made")))

        def take_apart(annotator: str, kind: str, chosen: str, one: str) -> dict[Any, Any]:
            forms.split_group(store, annotator, one, pages.is_admin(annotator))
            return show(kind, chosen, good(pages.say("saved")))

        make.click(pages.handler(status, group), [by, value, picked], outputs, **QUIET)
        split.click(pages.handler(status, take_apart), [by, value, which], outputs, **QUIET)
        for event in (by.input, value.input, tab.select):
            event(pages.handler(status, first), [by, value], outputs, **QUIET)


def group_name(pages: Pages, state: State, group: str) -> str:
    """Cuisine or category of a group with its number among those."""
    record = state.groups[group]
    same = [
        g for g in state.groups if (state.groups[g]["by"], state.groups[g]["value"]) == (record["by"], record["value"])
    ]
    tables = {"cuisine": pages.settings.cuisines, "category": pages.settings.categories}
    return f"{pages.shown(tables[record['by']], record['value'])} #{same.index(group) + 1}"


# ---- write -----------------------------------------------------------------------------------------------------------


def _write(pages: Pages) -> None:
    store, settings = pages.store, pages.settings
    with gr.Tab(pages.say("tab_write"), id="write", elem_id="write-page") as tab:
        gr.HTML(help_text(pages.say("write_help")))
        chosen = gr.Dropdown([], label=pages.say("write_group"), allow_custom_value=True, elem_id="write-group")
        card = gr.HTML(elem_id="write-card")
        fields: list[Any] = []
        with gr.Column(visible=False, elem_id="write-form") as form:
            for number in range(1, forms.SLOTS + 1):
                with gr.Group(elem_classes="slot", elem_id=f"slot-{number}"):
                    gr.HTML(f"<h3>{escape(pages.say('slot', number=number))}</h3>")
                    fields += _slot(pages, number)
            status = gr.HTML(elem_id="write-status")
            kept = gr.HTML(elem_id="write-kept")
            with gr.Row():
                save = gr.Button(pages.say("write_save"), variant="primary", elem_id="write-save")
                withdraw = gr.Button(pages.say("write_withdraw"), elem_id="write-withdraw")
        width = len(fields) // forms.SLOTS

        def read(values: Sequence[Any]) -> list[dict[str, Any]]:
            slots = []
            for start in range(0, len(values), width):
                question, english, kind, a, b, c, d, answer, type_ = values[start : start + width]
                slot = {"question": question or "", "question_en": english or "", "kind": kind or "images"}
                slot |= {"choices": [text or "" for text in (a, b, c, d)], "answer": answer or ""}
                slots.append(slot | {"question_type": type_ or ""})
            return slots

        def show(annotator: str, group: str | None, said: str = "") -> dict[Any, Any]:
            with store.reading() as state:
                groups = state.live_groups()
                written = {g: forms.page_id(g, annotator) for g in groups}
                done = {g for g in groups if any(f"{written[g]}_{i}" in state.questions and f"{written[g]}_{i}"
                                                 not in state.withdrawn for i in range(forms.SLOTS))}  # fmt: skip
                if group not in groups:
                    group = next((g for g in groups if g not in done), groups[0] if groups else None)
                options = [(group_name(pages, state, g) + (" ✓" if g in done else ""), g) for g in groups]
                slots = forms.written_page(state, group, annotator) if group else [{}] * forms.SLOTS
                photos = state.groups[group]["photos"] if group else []
            values: dict[Any, Any] = {}
            for i, slot in enumerate(slots):
                choices = [*(slot.get("choices") or ()), "", "", "", ""][:4]
                row = [slot.get("question", ""), slot.get("question_en", ""), slot.get("kind") or "images", *choices]
                row += [slot.get("answer") or None, slot.get("question_type") or None]
                values |= dict(zip(fields[i * width : (i + 1) * width], row, strict=True))
            four = "".join(picture(photo, LETTERS[i]) for i, photo in enumerate(photos))
            empty = f'<p class="empty">{escape(pages.say("write_none"))}</p>'
            return {
                **values,
                chosen: gr.update(choices=options, value=group),
                card: f'<div class="four">{four}</div>' if photos else empty,
                form: gr.update(visible=bool(photos)),
                status: said,
                kept: "",
            }

        def first(annotator: str, group: str) -> dict[Any, Any]:
            return show(annotator, group)

        def keep(annotator: str, group: str, slots: list[dict[str, Any]]) -> dict[Any, Any]:
            with store.reading() as state:
                if group not in state.live_groups():
                    raise Refused("gone")
            plain = [{} if forms.is_empty(slot) else slot for slot in slots]

            def finished(state: State) -> bool:
                return forms.same_slots(plain, forms.saved_page(state, group, annotator))

            fresh = forms.save_draft(store, annotator, f"write/{group}", {"slots": plain}, finished)
            return {kept: good(pages.say("draft_kept")) if fresh else gr.skip()}

        def submit(annotator: str, group: str, slots: list[dict[str, Any]]) -> dict[Any, Any]:
            made = forms.write_questions(store, settings, annotator, group, slots)
            return show(annotator, group, good(pages.say("write_saved", count=len(made))))

        def drop(annotator: str, group: str) -> dict[Any, Any]:
            page, count = forms.page_id(group, annotator), 0
            with store.reading() as state:
                mine = [f"{page}_{i}" for i in range(forms.SLOTS) if f"{page}_{i}" in state.live_questions()]
            for question in mine:
                forms.withdraw_question(store, annotator, question)
                count += 1
            if not count:
                raise Refused("gone")
            return show(annotator, group, good(pages.say("withdrawn")))

        given = [chosen, *fields]
        outputs = [chosen, card, form, *fields, status, kept]
        save.click(_many(pages, status, submit, read, given), given, outputs, **QUIET)
        withdraw.click(pages.handler(status, drop), chosen, outputs, **QUIET)
        chosen.input(pages.handler(status, first), chosen, outputs, **QUIET)
        tab.select(pages.handler(status, first), chosen, outputs, **QUIET)
        for field in fields:
            event = field.blur if isinstance(field, gr.Textbox) else field.input
            event(_many(pages, kept, keep, read, given), given, [kept], **QUIET)


def _slot(pages: Pages, number: int) -> list[Any]:
    """The fields of one question, in the order in which `read` takes them."""
    question = gr.Textbox(label=pages.say("question"), max_length=forms.MAX_TEXT, elem_id=f"write-{number}-question")
    english = gr.Textbox(label=pages.say("question_en"), max_length=forms.MAX_TEXT, elem_id=f"write-{number}-english")
    kinds = [(pages.say("kind_images"), "images"), (pages.say("kind_texts"), "texts")]
    kind = gr.Radio(kinds, value="images", label=pages.say("kind"), elem_id=f"write-{number}-kind", elem_classes="kind")
    with gr.Row(elem_classes="texts"):
        texts = [
            gr.Textbox(label=pages.say(f"option_{x}"), max_length=500, min_width=140, elem_id=f"write-{number}-{x}")
            for x in LETTERS
        ]
    with gr.Row():
        answer = gr.Radio(
            list(LETTERS), value=None, label=pages.say("answer"), elem_id=f"write-{number}-answer", min_width=220
        )
        type_ = gr.Dropdown(
            pages.choices(pages.settings.question_types), value=None, label=pages.say("question_type"),
            elem_id=f"write-{number}-type", min_width=220,
        )  # fmt: skip
    return [question, english, kind, *texts, answer, type_]


# ---- verify ----------------------------------------------------------------------------------------------------------


def _verify(pages: Pages) -> None:
    store, settings = pages.store, pages.settings
    with gr.Tab(pages.say("tab_verify"), id="verify", elem_id="verify-page") as tab:
        gr.HTML(help_text(pages.say("verify_help")))
        progress = gr.HTML(elem_id="verify-progress")
        card = gr.HTML(elem_id="verify-card")
        with gr.Column(visible=False, elem_id="verify-form") as form:
            choice = gr.Radio(
                [*((x, x) for x in LETTERS), (pages.say("dont_know"), work.DONT_KNOW)], value=None,
                label=pages.say("choice"), elem_id="verify-choice",
            )  # fmt: skip
            guess = gr.Radio(list(LETTERS), value=None, label=pages.say("guess"), elem_id="verify-guess")
            rationale = gr.Textbox(
                label=pages.say("rationale"), lines=2, max_length=forms.MAX_TEXT, elem_id="verify-rationale"
            )
            hops = gr.Radio(
                [(pages.say("hops_single"), "single"), (pages.say("hops_multiple"), "multiple")], value=None,
                label=pages.say("hops"), elem_id="verify-hops",
            )  # fmt: skip
            bad = gr.Checkbox(label=pages.say("bad"), value=False, elem_id="verify-bad")
            why = gr.Textbox(label=pages.say("bad_reason"), max_length=500, elem_id="verify-why")
            status = gr.HTML(elem_id="verify-status")
            kept = gr.HTML(elem_id="verify-kept")
            with gr.Row(elem_classes="steps"):
                back = gr.Button(pages.say("previous"), min_width=80, elem_id="verify-back")
                save = gr.Button(pages.say("verify_save"), variant="primary", min_width=140, elem_id="verify-save")
                ahead = gr.Button(pages.say("next"), min_width=80, elem_id="verify-ahead")
            with gr.Row(elem_classes="jump"):
                jump = gr.Dropdown([], label=pages.say("verify_jump"), allow_custom_value=True, elem_id="verify-jump")
                retract = gr.Button(pages.say("verify_retract"), size="sm", elem_id="verify-retract")
            gr.HTML(f'<p class="keys">{pages.say("verify_keys")}</p>')
        token = hidden("verify-token")  # which question the form belongs to; in the browser, so that it outlives us
        inputs = [token, choice, guess, rationale, hops, bad, why]
        outputs = [progress, card, form, choice, guess, rationale, hops, bad, why, status, kept, jump, token]

        def show(annotator: str, question: str | None, said: str = "") -> dict[Any, Any]:
            with store.reading() as state:
                queue = work.queue_of(state, annotator)
                answered = {q for q in queue if annotator in state.current_answers(q)}
            if question is None or question not in queue:
                with store.reading() as state:
                    question = work.first_open(state, annotator)
            if question is None:
                nothing = f'<p class="empty">{escape(pages.say("verify_none"))}</p>'
                return {progress: "", card: nothing, form: gr.update(visible=False), token: "", status: said}
            sheet = work.open_question(store, annotator, question)
            fields = sheet.fields
            line = pages.say("verify_progress", place=sheet.place + 1, total=sheet.total, done=len(answered))
            mark = f' <b class="done">{escape(pages.say("answered_mark"))}</b>' if sheet.answered else ""
            if len(answered) == len(queue):
                said = said + good(pages.say("all_done"))
            names = [(f"{i + 1}{' ✓' if q in answered else ''}", q) for i, q in enumerate(queue)]
            stamp = {"question": question, "version": sheet.version, "time": time.time(), "new": time.monotonic_ns()}
            return {
                progress: f'<p class="small">{escape(line)}{mark}</p>' + bar(len(answered), len(queue)),
                card: sheet_html(sheet),
                form: gr.update(visible=True),
                choice: fields.get("choice") or None,
                guess: fields.get("guess") or None,
                rationale: fields.get("rationale", ""),
                hops: fields.get("hops") or None,
                bad: fields.get("bad") is True,
                why: fields.get("bad_reason", ""),
                status: said,
                kept: "",
                jump: gr.update(choices=names, value=question),
                token: json.dumps(stamp),
            }

        def fields_of(values: Sequence[Any]) -> dict[str, Any]:
            names = ("choice", "guess", "rationale", "hops", "bad", "bad_reason")
            return dict(zip(names, values, strict=True))

        def first(annotator: str) -> dict[Any, Any]:
            work.join_and_assign(store, settings, annotator)
            return show(annotator, None)

        def submit(annotator: str, stamp: str, values: Sequence[Any]) -> dict[Any, Any]:
            at = read_token(stamp)
            try:
                work.save_answer(
                    store,
                    settings,
                    annotator,
                    at["question"],
                    fields_of(values),
                    time.time() - at["time"],
                    at["version"],
                )
            except Refused as refused:
                said = fault(message(refused, pages.language))
                if refused.key == "question_changed":
                    return show(annotator, at["question"], said)
                return {status: said, token: json.dumps(at | {"new": time.monotonic_ns()})}
            work.join_and_assign(store, settings, annotator)
            return show(annotator, _behind(store, annotator, at["question"]), good(pages.say("saved")))

        def keep(annotator: str, stamp: str, values: Sequence[Any]) -> dict[Any, Any]:
            at = read_token(stamp)
            fresh = work.draft_answer(store, annotator, at["question"], fields_of(values))
            return {kept: good(pages.say("draft_kept")) if fresh else gr.skip()}

        def step(by: int) -> Callable[[str, str, Sequence[Any]], dict[Any, Any]]:
            def run(annotator: str, stamp: str, values: Sequence[Any]) -> dict[Any, Any]:
                at = read_token(stamp)
                work.draft_answer(store, annotator, at["question"], fields_of(values))
                with store.reading() as state:
                    queue = work.queue_of(state, annotator)
                place = queue.index(at["question"]) if at["question"] in queue else 0
                return show(annotator, queue[(place + by) % len(queue)] if queue else None)

            return run

        def go(annotator: str, question: str) -> dict[Any, Any]:
            return show(annotator, question)

        def take_back(annotator: str, stamp: str) -> dict[Any, Any]:
            at = read_token(stamp)
            work.retract_answer(store, annotator, at["question"])
            return show(annotator, at["question"], good(pages.say("withdrawn")))

        def same(values: Sequence[Any]) -> Sequence[Any]:
            return values

        # One at a time for each browser: the script waits for a new token before it takes the next key.
        save.click(_many(pages, status, submit, same, inputs), inputs, outputs, **QUIET)
        back.click(_many(pages, status, step(-1), same, inputs), inputs, outputs, **QUIET)
        ahead.click(_many(pages, status, step(1), same, inputs), inputs, outputs, **QUIET)
        jump.input(pages.handler(status, go), jump, outputs, **QUIET)
        retract.click(pages.handler(status, take_back), token, outputs, **QUIET)
        tab.select(pages.handler(card, first), None, outputs, **QUIET)
        for field in (choice, guess, hops, bad):
            field.input(_many(pages, kept, keep, same, inputs), inputs, [kept], **QUIET)
        for field in (rationale, why):
            field.blur(_many(pages, kept, keep, same, inputs), inputs, [kept], **QUIET)


def read_token(text: str) -> dict[str, Any]:
    """The question a form belongs to, from its hidden field; Refused where it was tampered with."""
    try:
        at = json.loads(text or "")
        return {"question": str(at["question"]), "version": str(at["version"]), "time": float(at["time"])}
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Refused("gone") from None


def _behind(store: Store, annotator: str, question: str) -> str | None:
    """The next question without an answer, behind this one first; else the one that follows."""
    with store.reading() as state:
        queue = work.queue_of(state, annotator)
        if question not in queue:
            return work.first_open(state, annotator)
        place = queue.index(question)
        turned = queue[place + 1 :] + queue[:place]
        waiting = (q for q in turned if annotator not in state.current_answers(q))
        return next(waiting, turned[0] if turned else question)


def sheet_html(sheet: work.Sheet) -> str:
    """A question with its photos and options, which can be clicked; nothing but what a verifier may see."""
    image_options = not sheet.options
    photos = "".join(
        picture(photo, LETTERS[i] if image_options else "", thumb=len(sheet.photos) > 1)
        for i, photo in enumerate(sheet.photos)
    )
    kind = "four" if len(sheet.photos) == 4 else "large"
    photos = f'<div class="{kind}">{photos}</div>' if photos else ""
    options = "".join(
        f'<li><button type="button" class="option" data-letter="{LETTERS[i]}"><b>{LETTERS[i]}</b>'
        f"<span>{escape(text)}</span></button></li>"
        for i, text in enumerate(sheet.options)
    )
    options = f'<ol class="options">{options}</ol>' if options else ""
    return f'<div class="sheet"><h2 class="question">{escape(sheet.text)}</h2>{photos}{options}</div>'


# ---- admin -----------------------------------------------------------------------------------------------------------


def _admin(pages: Pages) -> gr.Tab:
    store, settings = pages.store, pages.settings
    with gr.Tab(pages.say("tab_admin"), id="admin", elem_id="admin-page", visible=False) as tab:
        refresh = gr.Button(pages.say("admin_refresh"), size="sm", elem_id="admin-refresh")
        overview = gr.HTML(elem_id="admin-overview")
        with gr.Row():
            out = gr.Button(pages.say("admin_export"), variant="primary", elem_id="admin-export")
            count = gr.Button(pages.say("admin_agreement"), elem_id="admin-agreement")
        status = gr.HTML(elem_id="admin-status")
        report = gr.Markdown(elem_id="admin-report")
        disputes = gr.HTML(elem_id="admin-disputes")
        outputs = [overview, status, report, disputes]

        def check(annotator: str) -> None:
            if not pages.is_admin(annotator):
                raise Refused("admin_only")

        def show(annotator: str) -> dict[Any, Any]:
            check(annotator)
            with store.reading() as state:
                return {overview: _overview(pages, state), disputes: _disputes(pages, state), status: "", report: ""}

        def save(annotator: str) -> dict[Any, Any]:
            check(annotator)
            name = datetime.now(UTC).strftime("%Y-%m-%d_%H-%M-%S-%f")
            folder = store.folder / "exports" / name
            try:
                manifest = export.export(store, settings, folder)
                path = export.zip_folder(folder)
            except InputError as error:
                return {status: fault(str(error))}
            link = f'<a href="/exports/{path.name}" download>{path.name}</a>'
            size = f"{path.stat().st_size / 1e6:.1f} MB"
            sums = ", ".join(f"{task} {n}" for task, n in manifest["questions"].items())
            line = f"{escape(pages.say('admin_exported'))}{link} ({size}) {escape(sums)}"
            return {status: f'<div class="note good" role="status">{line}</div>'}

        def agreement(annotator: str) -> dict[Any, Any]:
            check(annotator)
            return {report: agreement_text(store, pages)}

        refresh.click(pages.handler(status, show), None, outputs, **QUIET)
        tab.select(pages.handler(status, show), None, outputs, **QUIET)
        out.click(pages.handler(status, save), None, [status], api_visibility="private")
        count.click(pages.handler(status, agreement), None, [status, report], api_visibility="private")
    return tab


def _overview(pages: Pages, state: State) -> str:
    names = ("photos", "reviews", "dishes", "questions")
    rows = []
    for person in work.progress(state):
        done = f"{person['verified']} / {person['assigned']}{bar(person['verified'], person['assigned'])}"
        rows.append([escape(person["name"]), *(person[name] for name in names), done])
    columns = [pages.say(name) for name in ("annotator", *names, "verified")]
    labels = {"bad": "bad_state"}
    tiles = "".join(
        f'<div class="tile {key}"><b>{number}</b><span>{escape(pages.say(labels.get(key, key)))}</span></div>'
        for key, number in work.standing(state, pages.settings).items()
    )
    notes = "".join(f"<li>{escape(note)}</li>" for note in pages.store.notes[-10:])
    notes = f"<h2>{escape(pages.say('admin_notes'))}</h2><ul>{notes}</ul>" if notes else ""
    return (
        f"<h2>{escape(pages.say('admin_standing'))}</h2><div class='tiles'>{tiles}</div>"
        f"<h2>{escape(pages.say('admin_progress'))}</h2>{table(columns, rows)}{notes}"
    )


def _disputes(pages: Pages, state: State) -> str:
    rows = []
    for question in state.live_questions():
        if work.outcome(state, pages.settings, question) not in ("disagree", "bad"):
            continue
        record = state.questions[question]

        def option(index: int | None, record: Mapping[str, Any] = record) -> str:
            if index is None:
                return pages.say("dont_know")
            return f"{LETTERS[index]} {record['choices'][index] if record['choices'] else ''}".strip()

        said = []
        for who, event in state.current_answers(question).items():
            payload = event.payload
            text = f"⚑ {payload['bad_reason']}" if payload["bad"] else option(payload["choice"])
            said.append(
                f"<b>{escape(state.name(who))}</b>: {escape(text)}<br><small>{escape(payload['rationale'])}</small>"
            )
        letters = [""] * 4 if record["choices"] else list(LETTERS)
        photos = "".join(picture(p, letters[i]) for i, p in enumerate(record.get("photos", [])))
        rows.append(
            [
                f'{escape(record["question"])}<div class="mini">{photos}</div>',
                escape(option(record["answer"])),
                "<hr>".join(said),
            ]
        )
    title = f"<h2>{escape(pages.say('admin_disagreements'))}</h2>"
    if not rows:
        return title + f'<p class="empty">{escape(pages.say("none_yet"))}</p>'
    return title + table([pages.say("question"), pages.say("truth"), pages.say("given")], rows)


def agreement_text(store: Store, pages: Pages) -> str:
    """The reports on agreement as Markdown, each task that two people have verified."""
    from models.agreement import render

    reports = [render(report) for report in export.agreement(store).values()]
    return "\n\n".join(reports) or pages.say("no_agreement")
