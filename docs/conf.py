"""Settings of the pages' site: `make docs` builds it from README.md, docs/ and the notices beside them."""

from pathlib import Path

from sphinx.application import Sphinx

project = "Multimodal food understanding"
author = "The maintainers of this project"
extensions = ["myst_parser"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = project
html_copy_source = False
html_show_copyright = False

# The source folder is the repository, so that links between README.md and the pages work here as they do in a checkout.
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "benchmarks/README.md"]
exclude_patterns = [".*", "runs", "cache", "wandb", "mlruns", "docs/_build"]

_ROOT = Path(__file__).resolve().parents[1]
_PAGES = {
    "Start": ["docs/tutorial", "docs/faq"],
    "Benchmarks": [
        "docs/recipeqa",
        "docs/aligned_reader",
        "docs/prn",
        "docs/retrieval",
        "docs/foodieqa",
        "docs/foodieqa_models",
    ],
    "Add your own": ["docs/own_model", "docs/own_data", "docs/own_benchmark", "docs/annotation"],
    "Run": ["docs/sweeps", "docs/clusters", "docs/trackers"],
    "Results": ["docs/results", "docs/reproducing", "docs/log", "benchmarks/README"],
    "Project": ["CHANGELOG", "CONTRIBUTING", "SECURITY"],
}
# Pages that have no place above yet.
_REST = {f"docs/{path.stem}" for path in (_ROOT / "docs").glob("*.md")} - {
    page for pages in _PAGES.values() for page in pages
}
_PAGES["Project"] += sorted(_REST)


def _add_navigation(app: Sphinx, page: str, source: list[str]) -> None:
    """The side bar. It stands here because elsewhere README.md would show the directive as text."""
    if page == root_doc:
        for caption, pages in _PAGES.items():
            source[0] += "\n".join(["\n\n```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```\n"])


def _add_front_page(app: Sphinx, error: Exception | None) -> None:
    """Web servers look for index.html."""
    if error is None and app.builder.format == "html":
        page = '<!doctype html><title>…</title><meta http-equiv="refresh" content="0; url=README.html">'
        (Path(app.outdir) / "index.html").write_text(page, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _add_navigation)
    app.connect("build-finished", _add_front_page)
