"""A page on which people check the English of generated questions, and what becomes of their verdicts.

FoodieQA's English was made by a translation service and checked by two PhD students (Li et al. 2024, section 3.4).
Here the page is one HTML file without anything from elsewhere: open it in a browser, read Chinese and English side by
side, correct, judge, save the verdicts as JSON, and apply that file to the set.
"""

import hashlib
import html
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template
from typing import Any, Literal

from data.build.dish_questions import OPTIONS, GeneratedSet
from data.dish_table import normal
from data.errors import InputError
from data.files import atomic_file
from data.records import FOOD_TASKS, LETTERS

FORMAT = "translation checks"
FORMAT_VERSION = 1
VERDICTS = ("ok", "corrected", "bad")
MAX_BYTES = 64 << 20
MAX_LENGTH = 1000  # characters of one text


@dataclass(frozen=True, slots=True)
class TranslationCheck:
    """One person's verdict on the English of one question."""

    question_id: str
    source: str  # digest of the wording that was judged
    verdict: Literal["ok", "corrected", "bad"]
    question_en: str
    choices_en: tuple[str, ...]  # none where the options are pictures
    note: str = ""


def write_translation_page(records: Iterable[Mapping[str, Any]], path: str | Path, title: str = "") -> None:
    """Writes the page for all records that have English.

    Verdicts stay in the browser (local storage) until "Save" downloads them as JSON for `read_translation_checks`; a
    saved file can be loaded again to go on. Correcting an option corrects it in all questions where it was translated
    alike, unless that is switched off.

    Raises:
        InputError: no record has English.
    """
    rows = [record for record in records if record.get("question_en")]
    if not rows:
        raise InputError(f"{path}: no question has an English text to check: generate with translate='table' or others")
    mark = hashlib.sha256("\0".join(source_of(row) for row in rows).encode()).hexdigest()[:16]
    head = title or "Translation check"
    types = sorted({row["question_type"] for row in rows})
    page = _PAGE.substitute(
        title=html.escape(head),
        mark=mark,
        count=str(len(rows)),
        types="".join(f'<option value="{html.escape(kind)}">{html.escape(kind)}</option>' for kind in types),
        rows="\n".join(map(_row, rows)),
    )
    with atomic_file(path) as partial:
        partial.write_text(page, encoding="utf-8")


def source_of(record: Mapping[str, Any]) -> str:
    """Digest of a question's wording in both languages: a verdict holds for what was read, nothing else."""
    parts = [record["question"], record["question_en"], list(record["choices"]), list(record.get("choices_en") or [])]
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()[:16]


def read_translation_checks(path: str | Path) -> dict[str, TranslationCheck]:
    """The verdicts that the page saved, by question id.

    Raises:
        InputError: no such file, not saved by the page, a record with other keys or values; one line with the remedy.
    """
    path = Path(path)
    again = "save the verdicts from the page again"
    try:
        if path.stat().st_size > MAX_BYTES:
            raise InputError(f"{path}: larger than {MAX_BYTES >> 20} MiB: {again}")
        content = json.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}): give the JSON file saved from the page"
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not JSON ({' '.join(str(error).split())[:100]}): {again}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT or content.get("version") != FORMAT_VERSION:
        raise InputError(f"{path}: is no file of translation checks, version {FORMAT_VERSION}: {again}")
    items = content.get("checks")
    if not isinstance(items, list):
        raise InputError(f"{path}: 'checks' is no list: {again}")
    checks: dict[str, TranslationCheck] = {}
    for row, item in enumerate(items):
        check = _check(f"{path}: check {row}", item, again)
        if check.question_id in checks:
            raise InputError(f"{path}: {check.question_id} stands there twice: leave one out")
        checks[check.question_id] = check
    return checks


def apply_translation_checks(
    generated: GeneratedSet, checks: Mapping[str, TranslationCheck], on_bad: Literal["drop", "chinese_only"] = "drop"
) -> GeneratedSet:
    """The set with corrections taken over.

    Args:
        generated: the set that the page was written for.
        checks: as `read_translation_checks` gives them; questions without a check stay as they are.
        on_bad: what becomes of questions whose English was judged bad: left out, or left without English.

    Raises:
        InputError: a verdict on a question the set does not hold, or on other wording; corrected options that are
            equal.
    """
    left = dict(checks)
    parts: dict[str, tuple[dict[str, Any], ...]] = {}
    for task in FOOD_TASKS:
        records = []
        for record in generated.records(task):
            check = left.pop(record["question_id"], None)
            if check is None or (check.verdict == "ok" and check.source == _source_or_none(record)):
                records.append(record)
            elif check.source != _source_or_none(record):
                raise InputError(
                    f"{check.question_id}: was checked in other wording than the set has: write the page anew and "
                    "check it there"
                )
            elif check.verdict == "corrected":
                records.append(_corrected(record, check))
            elif on_bad == "chinese_only":
                records.append(
                    {key: value for key, value in record.items() if key not in ("question_en", "choices_en")}
                )
        parts[task] = tuple(records)
    if left:
        raise InputError(f"{next(iter(left))}: is checked but not in the set: apply the checks to the set they are of")
    return replace(generated, **parts)


def _source_or_none(record: Mapping[str, Any]) -> str | None:
    return source_of(record) if record.get("question_en") else None


def _corrected(record: dict[str, Any], check: TranslationCheck) -> dict[str, Any]:
    corrected = record | {"question_en": check.question_en}
    if "choices_en" in record:
        if len(check.choices_en) != OPTIONS or len({normal(text) for text in check.choices_en}) < OPTIONS:
            raise InputError(f"{check.question_id}: its corrected English options are not four different ones: reword")
        corrected["choices_en"] = list(check.choices_en)
    return corrected


def _check(where: str, item: Any, again: str) -> TranslationCheck:
    fields = ("question_id", "source", "verdict", "question_en", "note")
    if not isinstance(item, dict) or not all(isinstance(item.get(key), str) for key in fields):
        raise InputError(f"{where}: needs the texts {', '.join(fields)}: {again}")
    choices = item.get("choices_en")
    if not isinstance(choices, list) or len(choices) not in (0, OPTIONS):
        raise InputError(f"{where} ({item['question_id'][:40]}): choices_en must be a list of none or four: {again}")
    texts = [item["question_en"], *choices]
    if not all(isinstance(text, str) and text.strip() and len(text) <= MAX_LENGTH for text in texts):
        raise InputError(f"{where} ({item['question_id'][:40]}): an English text is empty or too long: correct it")
    if item["verdict"] not in VERDICTS:
        raise InputError(f"{where} ({item['question_id'][:40]}): verdict must be one of {', '.join(VERDICTS)}: {again}")
    clean = [" ".join(text.split()) for text in texts]
    return TranslationCheck(
        item["question_id"], item["source"], item["verdict"], clean[0], tuple(clean[1:]), item["note"].strip()
    )


# -------------------------------------------------------------------------------------------------------------- page


def _row(record: Mapping[str, Any]) -> str:
    escape = html.escape
    question_id, answer = escape(record["question_id"]), int(record["answer"])
    options = ""
    if record["choices"]:
        for place, (zh, en) in enumerate(zip(record["choices"], record["choices_en"], strict=True)):
            right = ' class="right"' if place == answer else ""
            options += (
                f'<tr{right}><th scope="row">{LETTERS[place]}</th><td lang="zh">{escape(zh)}</td>'
                f'<td><input lang="en" data-zh="{escape(zh)}" value="{escape(en)}" maxlength="{MAX_LENGTH}" '
                f'aria-label="English of option {LETTERS[place]}, {question_id}"></td></tr>'
            )
    else:
        options = '<tr><th></th><td colspan="2" class="hint">the options are pictures</td></tr>'
    buttons = "".join(
        f'<label><input type="radio" name="v-{question_id}" value="{verdict}"><span>{text}</span></label>'
        for verdict, text in (("ok", "OK"), ("corrected", "Corrected"), ("bad", "Bad"))
    )
    kind = escape(record["question_type"])
    return (
        f'<article tabindex="0" data-id="{question_id}" data-source="{source_of(record)}" data-type="{kind}">'
        f"<header><b>{question_id}</b><i>{kind}</i></header>"
        f'<table><tr class="question"><th scope="row">Q</th><td lang="zh">{escape(record["question"])}</td>'
        f'<td><textarea lang="en" rows="1" maxlength="{MAX_LENGTH}" aria-label="English question, {question_id}">'
        f"{escape(record['question_en'])}</textarea></td></tr>{options}</table>"
        f'<footer><fieldset><legend class="away">Verdict on {question_id}</legend>{buttons}</fieldset>'
        f'<input class="note" placeholder="Note" maxlength="{MAX_LENGTH}" aria-label="Note on {question_id}"></footer>'
        "</article>"
    )


_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
      content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>$title</title>
<style>
:root { --ink: #22262b; --faint: #6b7280; --line: #dfe3e8; --paper: #f5f6f8; --ok: #1f7a4d; --fix: #a35c00;
        --bad: #b3261e; --accent: #2457c5; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
       font: 15px/1.45 system-ui, "Noto Sans", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif; }
#bar { position: sticky; top: 0; z-index: 1; background: #fff; border-bottom: 1px solid var(--line);
       padding: 10px max(16px, calc(50vw - 520px)); display: flex;
       flex-wrap: wrap; gap: 6px 12px; align-items: center; }
h1 { font-size: 17px; margin: 0; flex: 1 1 220px; }
#bar p { margin: 0; color: var(--faint); flex-basis: 100%; font-size: 13px; }
progress { width: 150px; height: 10px; accent-color: var(--ok); }
select, button, .file { font: inherit; padding: 5px 10px; border: 1px solid var(--line); border-radius: 6px;
       background: #fff; color: var(--ink); cursor: pointer; }
#save { background: var(--accent); border-color: var(--accent); color: #fff; }
.file input { position: absolute; opacity: 0; width: 1px; }
.file:focus-within { outline: 2px solid var(--accent); }
main { max-width: 1040px; margin: 16px auto; padding: 0 16px; display: grid; gap: 12px; }
article { background: #fff; border: 1px solid var(--line); border-left: 5px solid var(--line); border-radius: 8px;
          padding: 10px 14px; scroll-margin-top: 110px; }
article:focus { outline: 2px solid var(--accent); }
article[data-verdict=ok] { border-left-color: var(--ok); }
article[data-verdict=corrected] { border-left-color: var(--fix); }
article[data-verdict=bad] { border-left-color: var(--bad); }
article header { display: flex; gap: 10px; font-size: 13px; }
article i { color: var(--faint); font-style: normal; }
table { width: 100%; border-collapse: collapse; margin: 6px 0; table-layout: fixed; }
th { width: 36px; white-space: nowrap; text-align: left; color: var(--faint); font-weight: 500;
     vertical-align: top; padding: 4px 0; }
td { padding: 2px 6px 2px 0; vertical-align: top; overflow-wrap: anywhere; }
td[lang=zh] { width: 45%; padding-top: 4px; }
.question td[lang=zh] { font-weight: 600; }
.right th, .right td { color: var(--ok); font-weight: 600; }
.right th::after { content: " \\2713"; }
td input, textarea, .note { width: 100%; font: inherit; color: inherit; padding: 2px 6px; border: 1px solid transparent;
       border-radius: 4px; background: #f8f9fb; resize: vertical; }
textarea { display: block; field-sizing: content; }
td input:focus, textarea:focus, .note:focus, td input:hover, textarea:hover, .note:hover {
       border-color: var(--accent); background: #fff; }
.changed { background: #fff4e0; }
.hint { color: var(--faint); }
footer { display: flex; gap: 12px; align-items: center; }
fieldset { border: 0; padding: 0; margin: 0; display: flex; gap: 6px; }
fieldset input { position: absolute; opacity: 0; }
fieldset span { display: inline-block; padding: 3px 12px; border: 1px solid var(--line); border-radius: 14px;
       cursor: pointer; }
fieldset input:focus-visible + span { outline: 2px solid var(--accent); }
fieldset input:checked + span { color: #fff; border-color: transparent; }
input[value=ok]:checked + span { background: var(--ok); }
input[value=corrected]:checked + span { background: var(--fix); }
input[value=bad]:checked + span { background: var(--bad); }
.away { position: absolute; left: -9999px; }
[hidden] { display: none !important; }
@media (max-width: 640px) { td, td[lang=zh] { display: block; width: 100%; } footer { flex-wrap: wrap; }
       #bar { position: static; } }
</style>
</head>
<body>
<div id="bar" data-set="$mark">
<h1>$title</h1>
<progress id="progress" max="$count" value="0" aria-label="checked"></progress><span id="count">0 of $count</span>
<select id="show" aria-label="which verdicts to show"><option value="">all verdicts</option>
<option value="none">not checked</option><option value="ok">OK</option>
<option value="corrected">corrected</option><option value="bad">bad</option></select>
<select id="type" aria-label="which types to show"><option value="">all types</option>$types</select>
<label><input type="checkbox" id="alike" checked> change an option everywhere</label>
<label class="file">Load<input type="file" id="load" accept=".json,application/json"></label>
<button id="save">Save verdicts</button>
<p>Read Chinese against English; the right option is green. Edit what is wrong, then judge. With a question in focus:
1 OK, 2 corrected, 3 bad; the next one follows. Verdicts stay in this browser until they are saved.</p>
</div>
<main>
$rows
</main>
<script>
"use strict";
const bar = document.getElementById("bar"), key = "translation checks " + bar.dataset.set;
const rows = [...document.querySelectorAll("article")];
const fields = row => [...row.querySelectorAll("textarea, td input")];
const verdict = row => row.querySelector("fieldset input:checked")?.value || "";
const original = field => field.defaultValue;

function check(row) {
  const [question, ...choices] = fields(row).map(field => field.value.trim());
  return { question_id: row.dataset.id, source: row.dataset.source, verdict: verdict(row), question_en: question,
           choices_en: choices, note: row.querySelector(".note").value };
}
function restore(row, saved) {
  if (saved.source !== row.dataset.source) return false;
  const texts = [saved.question_en, ...saved.choices_en], inputs = fields(row);
  if (texts.length !== inputs.length) return false;
  inputs.forEach((field, place) => { field.value = texts[place]; });
  row.querySelector(".note").value = saved.note;
  const button = [...row.querySelectorAll("fieldset input")].find(input => input.value === saved.verdict);
  row.querySelectorAll("fieldset input").forEach(input => { input.checked = input === button; });
  return true;
}
function touched(row) {
  return verdict(row) || row.querySelector(".note").value || differs(row);
}
function keep() {
  try {
    localStorage.setItem(key, JSON.stringify(rows.filter(touched).map(check)));
  } catch (error) { /* a private window keeps nothing */ }
}
function paint() {
  let done = 0;
  const show = document.getElementById("show").value, type = document.getElementById("type").value;
  for (const row of rows) {
    const now = verdict(row);
    row.dataset.verdict = now;
    done += now !== "";
    fields(row).forEach(field => field.classList.toggle("changed", field.value !== original(field)));
    row.hidden = row !== document.activeElement && !row.contains(document.activeElement) &&
      ((show && show !== (now || "none")) || (type && type !== row.dataset.type));
  }
  document.getElementById("progress").value = done;
  document.getElementById("count").textContent = `$${done} of $${rows.length}`;
}
function changed() { keep(); paint(); }
function judge(row, value) {
  row.querySelector(`fieldset input[value=$${value}]`).checked = true;
  const next = rows.slice(rows.indexOf(row) + 1).find(other => !other.hidden && !verdict(other));
  if (next) { next.focus(); next.scrollIntoView({ block: "nearest" }); }
  changed();
}
document.querySelector("main").addEventListener("change", event => {
  const row = event.target.closest("article"), field = event.target;
  if (field.dataset.zh !== undefined && document.getElementById("alike").checked) {
    for (const other of rows) for (const twin of fields(other)) {
      if (twin.dataset.zh === field.dataset.zh && original(twin) === original(field) && twin.value !== field.value) {
        twin.value = field.value;
        if (verdict(other)) mark(other);
      }
    }
  }
  if (field.matches("textarea, td input")) mark(row);
  changed();
});
function differs(row) { return fields(row).some(field => field.value !== original(field)); }
function mark(row) {
  const now = verdict(row);
  if (differs(row) && now !== "bad") row.querySelector("fieldset input[value=corrected]").checked = true;
  if (!differs(row) && now === "corrected") row.querySelector("fieldset input:checked").checked = false;
}
document.querySelector("main").addEventListener("keydown", event => {
  const value = { 1: "ok", 2: "corrected", 3: "bad" }[event.key];
  if (value && event.target.matches("article")) { event.preventDefault(); judge(event.target, value); }
});
for (const id of ["show", "type"]) document.getElementById(id).addEventListener("change", paint);
function checked() {  // a question of which an option was corrected elsewhere is saved, though nobody judged it here
  return rows.filter(row => verdict(row) || differs(row)).map(check)
    .map(item => ({ ...item, verdict: item.verdict || "corrected" }));
}
document.getElementById("save").addEventListener("click", () => {
  const checks = checked();
  const text = JSON.stringify({ format: "translation checks", version: 1, set: bar.dataset.set, checks }, null, 1);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = "translation_checks.json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
});
function take(saved) {
  const byId = new Map(saved.map(item => [item.question_id, item]));
  return rows.filter(row => byId.has(row.dataset.id) && restore(row, byId.get(row.dataset.id))).length;
}
document.getElementById("load").addEventListener("change", async event => {
  try {
    const content = JSON.parse(await event.target.files[0].text());
    alert(`$${take(content.checks)} of $${content.checks.length} verdicts are for this page and were loaded.`);
  } catch (error) { alert("This is no file of verdicts saved from such a page."); }
  event.target.value = "";
  changed();
});
try { take(JSON.parse(localStorage.getItem(key) || "[]")); } catch (error) { /* nothing to restore */ }
paint();
</script>
</body>
</html>
""")
