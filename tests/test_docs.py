"""The pages: links lead somewhere, named files exist, every command composes, the site builds."""

import importlib.util
import re
import shlex
import subprocess
import sys
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from string import Template

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Glob, IntervalSweep

import engine.launch  # noqa: F401 (registers the resolvers of the configs)
from tests.runs import ROOT

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), ROOT / "benchmarks" / "README.md"]
FENCE = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1\s*$", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(
    r"(?:\S*/)?(?:python3?|torchrun)\s(?:.*?\s)?(train|evaluate|prepare|report|annotate)\.py\b(.*)", re.DOTALL
)
# What no config of the repository can say, by a word of the command, and why.
NOT_COMPOSED = {
    "--help": "prints the choices",
    "--config-dir": "the experiment lies in the folder of a sweep",
    "model=bag": "docs/own_model.md tells how to add it; tests/test_embedded.py trains it",
}
# Words that stand for one of many configs; others, as DIR and …, are values like any other.
STANDS_FOR = {"<task>": "textual_cloze", "foodieqa/NAME": "foodieqa/idefics2_multi_image_zh"}
NEEDS = {
    "cluster=ray": "hydra_plugins.hydra_ray_launcher",
    "cluster=slurm": "hydra_plugins.hydra_submitit_launcher",
    "sweep=optuna": "hydra_plugins.hydra_optuna_sweeper",
}


def _prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


@cache
def _anchors(page: Path) -> set[str]:
    """Anchors of the headings as GitHub, and the site, make them."""
    headings = re.findall(r"^#+ +(.+?) *$", _prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_anchors_and_named_files_exist(page):
    prose = _prose(page)
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", prose)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{page.name}: {target} does not exist"
        assert not anchor or anchor in _anchors(linked), f"{page.name}: {target}: no such heading"
    folders = "annotation|benchmarks|conf|data|docs|engine|models|tests"
    for name in re.findall(rf"`((?:{folders})/[\w/]+\.(?:py|yaml|csv|md))\b[^`]*`", prose):
        assert (ROOT / name).is_file(), f"{page.name} names {name}, which does not exist"


def _commands(text: str) -> list[str]:
    """Command lines of code blocks and code spans, in one line each, the variables of a block filled in."""
    found = []
    for _, language, block in FENCE.findall(text):
        if language not in ("", "bash"):
            continue
        block = block.replace("\\\n", " ")
        variables = dict(re.findall(r'^(\w+)="(.*?)"$', block, re.MULTILINE))
        for line in block.splitlines():
            found.append(Template(line).safe_substitute(variables))
    return found + [span.replace("\n", " ") for span in re.findall(r"`([^`]+)`", FENCE.sub("", text))]


def _composable() -> list[tuple[str, str, list[str]]]:
    """(page, script, overrides) of every different command of the pages."""
    found: dict[tuple[str, ...], tuple[str, str, list[str]]] = {}
    for page in PAGES:
        for line in _commands(page.read_text(encoding="utf-8")):
            match = COMMAND.match(line.strip())
            if match is None or any(word in line for word in NOT_COMPOSED):
                continue
            rest = match[2]
            for name, value in STANDS_FOR.items():
                rest = rest.replace(name, value)
            words = shlex.split(re.sub(r"<[^>]*>", "x", rest), comments=True)
            words = [
                re.sub(r"^\[(\S+=\S+)\]$", r"\1", w).replace("…", "x")
                for w in words
                if w not in ("-m", "…") and not w.endswith("=…")
            ]
            found.setdefault((match[1], *words), (page.name, match[1], words))
    return list(found.values())


COMMANDS = _composable()


def _values(override: str) -> list[str]:
    """`key=value` for each value of a sweep over a key; the override itself where it is none."""
    parsed = OverridesParser.create().parse_override(override)
    if not parsed.is_sweep_override():
        return [override]
    key, value = parsed.get_key_element(), parsed.value()
    if isinstance(value, Glob):
        folder = ROOT / "conf" / key
        names = sorted(str(path.relative_to(folder).with_suffix("")) for path in folder.rglob("*.yaml"))
        kept = [n for n in names if any(fnmatch(n, p) for p in value.include)]
        names = [n for n in kept if not any(fnmatch(n, p) for p in value.exclude)]
        assert names, f"{override} matches no config"
        return [f"{key}={name}" for name in names[:2]]
    if isinstance(value, IntervalSweep):
        return [f"{key}={value.start}"]
    return [f"{key}={text}" for text in parsed.sweep_string_iterator()]


def test_commands_were_found_in_every_page_that_has_some():
    pages = {page for page, *_ in COMMANDS}
    assert {"README.md", "tutorial.md", "reproducing.md", "retrieval.md", "foodieqa.md", "sweeps.md"} <= pages
    assert len(COMMANDS) > 80
    assert {script for _, script, _ in COMMANDS} == {"train", "evaluate", "prepare", "report", "annotate"}


@pytest.mark.parametrize("page", sorted({page for page, *_ in COMMANDS}))
def test_commands_compose(page):
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        for _, script, words in (command for command in COMMANDS if command[0] == page):
            missing = [p for w, p in NEEDS.items() if any(word.startswith(w) for word in words) and not _installed(p)]
            if missing:
                continue  # an extra that is not installed
            values = [_values(word) for word in words]
            for k in range(max(map(len, values), default=1)):  # every value of a sweep once, not their product
                overrides = [options[k % len(options)] for options in values]
                try:
                    compose(script, overrides=overrides)
                except Exception as error:
                    pytest.fail(f"{page}: {script}.py {' '.join(words)}: {error}")


@cache
def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("myst_parser", reason="needs the extra docs")
    pytest.importorskip("furo", reason="needs the extra docs")
    arguments = ["-q", "-W", "--keep-going", "-c", str(ROOT / "docs"), "-b", "html", "-d", str(tmp_path / "trees")]
    command = [sys.executable, "-m", "sphinx", *arguments, str(ROOT), str(tmp_path / "site")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "docs/tutorial.html" in (tmp_path / "site" / "README.html").read_text(encoding="utf-8")
    assert (tmp_path / "site" / "index.html").is_file()
