"""A page to look at: the pictures and questions of a set in FoodieQA's schema, with the right options marked."""

import base64
import html
import io
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image

from data.errors import InputError
from data.files import atomic_file
from data.records import FOOD_TASKS, LETTERS

OVERVIEW = "overview.html"

_STYLE = """
:root { --ink: #2b2622; --soft: #7a7068; --line: #e6ddd0; --card: #fff; --good: #2f8a4e; }
* { box-sizing: border-box; }
body { margin: 0; background: #fbf8f3; color: var(--ink); font: 15px/1.45 system-ui, -apple-system, "Segoe UI",
  "Noto Sans", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif; }
main { max-width: 1280px; margin: 0 auto; padding: 28px 24px 80px; }
h1 { font-size: 27px; margin: 0 0 6px; }
h2 { font-size: 20px; margin: 40px 0 12px; }
h2 small { font-weight: 400; color: var(--soft); font-size: 14px; margin-left: 8px; }
.note { background: #fff5e0; border: 1px solid #f0d9a8; border-radius: 10px; padding: 12px 16px; margin: 14px 0 20px; }
.stats { display: flex; gap: 12px; flex-wrap: wrap; }
.stat, .card, .dish { background: var(--card); border: 1px solid var(--line); border-radius: 11px; }
.stat { padding: 10px 16px; }
.stat b { display: block; font-size: 21px; }
.stat span { color: var(--soft); font-size: 13px; }
.grid { display: grid; gap: 12px; grid-template-columns: repeat(auto-fill, minmax(132px, 1fr)); }
.dish { overflow: hidden; font-size: 13px; }
.dish p { margin: 6px 9px 8px; }
.dish i { display: block; color: var(--soft); font-style: normal; font-size: 12px; }
.pic { width: 100%; aspect-ratio: 1; background-size: cover; background-position: center; }
.cards { display: grid; gap: 14px; grid-template-columns: repeat(auto-fill, minmax(380px, 1fr)); }
.card { padding: 14px 16px; }
.card h3 { font-size: 15px; margin: 0 0 2px; }
.card .en { color: var(--soft); font-size: 13px; margin: 0 0 10px; }
.tag { float: right; font-size: 11px; color: var(--soft); border: 1px solid var(--line); border-radius: 99px;
  padding: 1px 8px; margin-left: 8px; white-space: nowrap; }
.four { display: grid; grid-template-columns: repeat(4, 1fr); gap: 6px; }
.four div { position: relative; }
.four > div { border: 3px solid transparent; border-radius: 9px; overflow: hidden; }
.four > .right { border-color: var(--good); }
.four b { position: absolute; left: 4px; top: 4px; background: #ffffffe6; border-radius: 5px; padding: 0 6px;
  font-size: 12px; }
.four .right b { background: var(--good); color: #fff; }
.one { display: grid; grid-template-columns: 128px 1fr; gap: 12px; align-items: start; }
.one .pic { border-radius: 8px; }
ol { list-style: none; margin: 0; padding: 0; font-size: 13.5px; }
li { padding: 2px 8px; border-radius: 6px; }
li.right { background: #e9f6ec; color: var(--good); font-weight: 600; }
li span { color: var(--soft); font-weight: 400; }
li.right span { color: inherit; }
select { font-family: inherit; font-size: 14px; font-weight: 400; padding: 3px 8px; border-radius: 8px;
  border: 1px solid var(--line); background: #fff; margin-left: 10px; }
.id { color: #b3a99d; font-size: 11px; }
.hide { display: none; }
"""
_SCRIPT = """
for (const select of document.querySelectorAll('select'))
  select.onchange = () => {
    for (const card of document.querySelectorAll('#' + select.dataset.of + ' .card'))
      card.classList.toggle('hide', select.value && card.dataset.type !== select.value);
  };
"""
_HEADS = {
    "mivqa": ("Multi-image questions", "which of four pictures; the right one is framed"),
    "sivqa": ("Single-image questions", "one picture, four texts"),
    "textqa": ("Text questions", "no picture"),
}


def demo_page(folder: Path | str, thumbnail: int = 168) -> Path:
    """Writes an overview of a demo set for people to look at: its pictures, all questions, the right options marked.

    One HTML file without anything from outside, `overview.html` in the folder. `thumbnail` is the edge of a picture in
    pixels. InputError where the folder holds no set.
    """
    folder = Path(folder)
    questions: dict[str, list[dict[str, Any]]] = {}
    for task in FOOD_TASKS:
        path = folder / f"{task}_tidy.json"
        try:
            questions[task] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: cannot be read ({error}); build the demo set again") from None
    readme = folder / "README.md"
    title = readme.read_text(encoding="utf-8").split("\n", 1)[0].lstrip("# ") if readme.is_file() else folder.name
    dishes = {
        record["food_meta"]["food_file"]: (record["food_name"], record["food_meta"].get("food_type", ""))
        for record in questions["sivqa"]
    }
    names = dishes.keys() | {name for record in questions["mivqa"] for name in record["images"]}
    number = {name: i for i, name in enumerate(sorted(names, key=lambda name: (dishes.get(name, ("~", "")), name)))}
    rules = "\n".join(
        f".p{i} {{ background-image: url({_thumbnail(folder, name, thumbnail)}) }}" for name, i in number.items()
    )
    stats = [(len({name for name, _ in dishes.values()}), "dishes"), (len(number), "pictures")]
    stats += [(len(questions[task]), _HEADS[task][0].lower()) for task in FOOD_TASKS]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>",
        f"<title>{html.escape(title)}</title><style>{_STYLE}{rules}</style><main><h1>{html.escape(title)}</h1>",
        "<p class=note><b>Demo set, not FoodieQA.</b> Nothing of the gated data set is in here; a score on these ",
        "questions says nothing about a score on FoodieQA. README.md says where pictures and labels are from.</p>",
        "<div class=stats>",
        *(f"<div class=stat><b>{count:,}</b><span>{what}</span></div>" for count, what in stats),
        f"</div><h2>Pictures<small>{len(number)}</small></h2><div class=grid>",
        *(_dish(i, *dishes.get(name, ("", ""))) for name, i in number.items()),
        "</div>",
    ]
    for task in FOOD_TASKS:
        head, hint = _HEADS[task]
        types = Counter(html.escape(record["question_type"], quote=True) for record in questions[task])
        choice = "".join(f"<option value='{kind}'>{kind} ({n})</option>" for kind, n in types.most_common())
        parts += [
            f"<h2>{head}<small>{len(questions[task])}, {hint}</small>",
            f"<select data-of={task}><option value=''>all types</option>{choice}</select></h2>",
            f"<div class=cards id={task}>",
            *(_card(record, number) for record in questions[task]),
            "</div>",
        ]
    parts.append(f"</main><script>{_SCRIPT}</script></html>\n")
    target = folder / OVERVIEW
    with atomic_file(target) as partial:
        partial.write_text("\n".join(parts), encoding="utf-8")
    return target


def _dish(i: int, name: str, cuisine: str) -> str:
    caption = f"{html.escape(name)}<i>{html.escape(cuisine)}</i>"
    return f"<div class=dish><div class='pic p{i}'></div><p>{caption}</p></div>"


def _card(record: dict[str, Any], number: Mapping[str, int]) -> str:
    kind = html.escape(record["question_type"], quote=True)
    english, identifier = html.escape(record.get("question_en", "")), html.escape(record["question_id"])
    head = (
        f"<div class=card data-type='{kind}'><span class=tag>{kind}</span><h3>{html.escape(record['question'])}</h3>"
        f"<p class=en>{english} <span class=id>{identifier}</span></p>"
    )
    marks = ["", "", "", ""]
    marks[int(record["answer"])] = " class=right"
    if record.get("images") and not record["choices"]:
        shown = zip(marks, LETTERS, record["images"], strict=True)
        four = "".join(f"<div{mark}><div class='pic p{number[name]}'></div><b>{a}</b></div>" for mark, a, name in shown)
        return f"{head}<div class=four>{four}</div></div>"
    texts = zip(marks, LETTERS, record["choices"], record.get("choices_en") or [""] * 4, strict=True)
    options = "".join(
        f"<li{mark}>{a}. {html.escape(zh)} <span>{html.escape(en)}</span></li>" for mark, a, zh, en in texts
    )
    if "food_meta" not in record:
        return f"{head}<ol>{options}</ol></div>"
    picture = f"<div class='pic p{number[record['food_meta']['food_file']]}'></div>"
    return f"{head}<div class=one>{picture}<ol>{options}</ol></div></div>"


def _thumbnail(folder: Path, name: str, edge: int) -> str:
    path = folder / "images" / name
    try:
        with Image.open(path, formats=("JPEG", "PNG", "WEBP")) as picture:
            small = picture.convert("RGB")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error}); build the demo set again") from None
    side = min(small.size)
    left, top = (small.width - side) // 2, (small.height - side) // 2
    small = small.resize((edge, edge), Image.Resampling.LANCZOS, (left, top, left + side, top + side))
    content = io.BytesIO()
    small.save(content, "JPEG", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(content.getvalue()).decode()
