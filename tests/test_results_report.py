"""The files of a report: whole, escaped, and the same numbers in each."""

import csv
import io
import random
import shutil
import subprocess
from types import SimpleNamespace
from unittest import mock

import pytest
from hydra.types import RunMode
from omegaconf import OmegaConf
from rich.console import Console

from data.errors import InputError
from engine.food_report import Sheet
from engine.launch import guarded
from engine.markup import escape_latex, escape_markdown, latex_document, markdown
from engine.results import sections_of
from engine.results_report import new_folder, report, sheets_of, terminal
from engine.run_records import find_runs, read_runs
from tests.made_up_runs import choice_run, config, food_run, retrieval_run
from tests.runs import composed
from tests.test_run_records import SPOILERS

HOSTILE = (
    r"=cmd|'/C calc'!A0 <script>alert(1)</script> [x](javascript:y) \input{/etc/passwd} $x^2_3$ 100% & # ~ {} | `a`"
)


def made(runs, out, **given):
    return OmegaConf.create({"runs": runs, "out": str(out), "tables": "auto", "seed": 1} | given)


def bits(n, share, seed):
    rng = random.Random(seed)
    return [float(rng.random() < share) for _ in range(n)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    for seed in (1, 2):
        choice_run(place / f"a{seed}", bits(40, 0.6, seed), seed=seed)
    table = [{"system": "chance", "kind": "baseline", "accuracy": 0.25, "n": 40, "interval": None, "note": ""}]
    choice_run(place / "hostile", bits(40, 0.2, 5), system=HOSTILE, table=table)
    retrieval_run(place / "r", [(1 + i % 7, 1 + i % 5) for i in range(30)])
    food_run(place / "f", [bits(40, 0.5, i) for i in range(4)])
    bad = choice_run(place / "bad", [1, 0, 1, 0])
    SPOILERS["truncated"](bad)
    return place


@pytest.fixture(scope="module")
def written(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    report(made(str(folder), out))
    return out


def test_everything_is_written(written):
    names = {path.name for path in written.iterdir()}
    assert {"report.md", "report.csv", "comparisons.csv", "report.tex"} <= names
    assert {"1_made_textual_cloze_textual_cloze_test.png", "1_made_textual_cloze_textual_cloze_test.pdf"} <= names
    assert {n for n in names if n.endswith("differences.png")} == {
        "1_made_textual_cloze_textual_cloze_test_differences.png"
    }
    assert all(path.stat().st_size > 100 for path in written.iterdir()) and len(names) == 12


def test_markdown_names_runs_left_out_figures_and_missing_cells(written):
    text = (written / "report.md").read_text()
    assert "5 runs, 1 left out." in text and "bad/metrics.json: cannot be read" in text
    assert "](1_made_textual_cloze_textual_cloze_test.png)" in text
    assert "`python evaluate.py experiment=foodieqa/gpt4o_multi_image_zh data.root=DIR`" in text
    assert "source: hucvl/hucvl.github.io" in text
    assert "Holm-corrected for 1 pairs" in text


def test_no_name_breaks_out_of_markdown(written):
    text = (written / "report.md").read_text()
    assert "<script>" not in text and "](javascript" not in text
    tables = [line for line in text.splitlines() if line.startswith("| ")]
    row = next(line for line in tables if "cmd" in line)
    assert row.replace("\\|", "").count("|") == 9


def test_no_name_gets_into_a_command(written):
    commands = [line for line in (written / "report.md").read_text().splitlines() if "`python " in line]
    assert commands and not [line for line in commands if "cmd" in line]


def test_csv_has_the_numbers_and_no_formula(written):
    with open(written / "report.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    own = next(row for row in rows if row["system"] == "reader")
    shares = [sum(bits(40, 0.6, seed)) / 40 for seed in (1, 2)]
    assert float(own["value"]) == pytest.approx(sum(shares) / 2) and own["seeds"] == "2"
    assert float(own["low"]) < float(own["value"]) < float(own["high"])
    assert not [row for row in rows for value in row.values() if value[:1] in ("=", "@")]
    assert {row["kind"] for row in rows} == {"run", "baseline", "published"}
    assert {row["metric"] for row in rows if row["problem"] == "retrieval"} >= {"all/image_to_recipe/medR"}
    with open(written / "comparisons.csv", newline="") as file:
        (pair,) = csv.DictReader(file)
    assert float(pair["low"]) <= float(pair["difference"]) <= float(pair["high"]) and pair["holm_p"] == pair["p"]


def test_one_number_in_all_tables(folder):
    (section, *_) = sections_of(read_runs(find_runs(str(folder))).results)
    (sheet,) = sheets_of(section)
    row = next(cells for _, cells in sheet.rows if cells[0] == "reader")
    mean = f"{sum(sum(bits(40, 0.6, s)) for s in (1, 2)) / 80 * 100:.2f}"
    assert row[1:3] == ["2", mean] and any(mean in line for line in markdown(sheet))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("50% of a_b & c#d $5 {x}", r"50\% of a\_b \& c\#d \$5 \{x\}"),
        ("\\input{x}", r"\textbackslash{}input\{x\}"),
        ("a~b^c <x>", r"a\textasciitilde{}b\textasciicircum{}c \textless{}x\textgreater{}"),
        ("1–2 ± 3 → −4 †", r"1--2 $\pm$ 3 $\rightarrow$ $-$4 \dag{}"),
        ("豆腐 café", "[U+8C46][U+8150] café"),
        ("two\nlines", "two lines"),
    ],
)
def test_latex_escapes(text, wanted):
    assert escape_latex(text) == wanted


def test_markdown_escapes():
    assert escape_markdown("a|b_c*d<e>") == "a\\|b\\_c\\*d\\<e\\>"
    assert escape_markdown("x & y\nz") == "x &amp; y z"


def test_latex_keeps_every_column_but_the_remarks(written):
    text = (written / "report.tex").read_text()
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == text.count(r"\toprule") > 6
    assert r"\input{/" not in text and "hucvl" not in text.split(r"\begin{document}")[1]
    lines = [line for line in text.splitlines() if line.endswith(r"\\") and "cmd" in line]
    assert lines and all(line.replace(r"\&", "").count("&") == 6 for line in lines[:1])


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_latex_compiles(written, tmp_path):
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-output-directory", str(tmp_path)]
    done = subprocess.run([*command, str(written / "report.tex")], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "report.pdf").stat().st_size > 10_000 and "Overfull" not in done.stdout


def test_an_empty_table_is_a_document_too():
    text = latex_document([Sheet("t", ("a", "b"), (0,))])
    assert text.count(r"\midrule") == 1


def test_the_command_runs_as_its_entry_point_does(folder, tmp_path, capsys):
    cfg = composed("report", [f"runs=[{folder / 'a1'},{folder / 'hostile'}]", f"out={tmp_path / 'out'}", "tables=none"])
    assert cfg.seed == 1234
    guarded("engine.results_report", "report", cfg)
    assert "2 runs read, 0 left out" in capsys.readouterr().out and (tmp_path / "out" / "report.md").is_file()


def test_settings_are_checked(folder, tmp_path):
    for given, wanted in (
        ({"tables": "some"}, "tables=some: choose"),
        ({"runs": ""}, "runs=: is empty"),
        ({"seed": "x"}, "seed=x"),
        ({"seed": -1}, "seed=-1"),
        ({"runs": str(tmp_path / "no")}, "no such folder"),
    ):
        with pytest.raises(InputError, match=wanted):
            report(made(**({"runs": str(folder), "out": tmp_path / "o"} | given)))
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is no folder"):
        report(made(str(folder), tmp_path / "file"))


def test_a_table_of_nine_columns_names_its_systems_on_a_narrow_terminal():
    tasks = [
        f"visual {task}, {side}" for task in ("cloze", "coherence", "ordering", "all") for side in ("published", "here")
    ]
    sheet = Sheet("t", ("system", *tasks), (0,))
    sheet.add("published", "Hasty Student, 2018", *["73.60"] * 8)
    console = Console(width=110, record=True, quiet=False, file=io.StringIO())
    console.print(terminal(sheet))
    shown = console.export_text()
    assert "Hasty" in shown and shown.count("73.60") == 8


def test_report_is_no_sweep(folder, tmp_path, capsys):
    mode = SimpleNamespace(initialized=lambda: True, get=lambda: SimpleNamespace(mode=RunMode.MULTIRUN))
    cfg = composed("report", [f"runs={folder}", f"out={tmp_path / 'out'}"])
    with mock.patch("hydra.core.hydra_config.HydraConfig", mode), pytest.raises(SystemExit):
        guarded("engine.results_report", "report", cfg)
    assert "error: -m: this command is no sweep" in capsys.readouterr().err


def test_only_spoiled_runs_are_an_input_error(tmp_path, capsys):
    SPOILERS["empty"](choice_run(tmp_path / "bad", [1, 0]))
    with pytest.raises(InputError, match="none of the 1 runs can be read"):
        report(made(str(tmp_path), tmp_path / "out"))
    assert "left out: " in capsys.readouterr().out and not (tmp_path / "out").exists()


def test_reports_of_the_same_moment_have_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = [new_folder(None) for _ in range(20)]
    assert len(set(folders)) == 20


def test_reports_are_no_runs(written, tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder, tmp_path / "runs")
    shutil.copytree(written, tmp_path / "runs" / "reports" / "x")
    assert len(find_runs("runs")) == 6


@pytest.mark.slow
def test_a_report_of_damaged_runs_never_fails(tmp_path):
    rng = random.Random(3)
    for i in range(45):
        place = tmp_path / "runs" / f"{i}"
        if i % 3 == 0:
            choice_run(place, bits(6, 0.5, i), system=f"s{i % 4}", seed=i % 5, cfg=config(i % 5))
        elif i % 3 == 1:
            retrieval_run(
                place, [(1 + j % 4, 1 + j % 3) for j in range(6)], seed=i % 5, pools=("all", "1k")[: 1 + i % 2]
            )
        else:
            food_run(place, [bits(6, 0.5, i + k) for k in range(1 + i % 4)], model=f"m{i % 4}")
        path = rng.choice(sorted(p for p in place.iterdir()))
        content = bytearray(path.read_bytes())
        at = rng.randrange(len(content))
        content[at : at + rng.randint(0, 8)] = rng.choice([b"", b"9", b'"', b"null", b"-", b"\xff"])
        path.write_bytes(bytes(content))
    report(made(str(tmp_path / "runs"), tmp_path / "out", tables="all"))
    assert (tmp_path / "out" / "report.md").is_file()
