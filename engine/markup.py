"""Tables as Markdown and LaTeX, in which no text, whoever wrote it, becomes markup."""

from collections.abc import Sequence

from engine.food_report import Sheet


def markdown(sheet: Sheet, level: int = 2) -> list[str]:
    """A table as Markdown; names of others' runs can neither break it nor bring in HTML."""
    marks = ["---" if i in sheet.left else "--:" for i in range(len(sheet.columns))]
    lines = [f"{'#' * level} {escape_markdown(sheet.title)}", "", _line(sheet.columns), "|" + "|".join(marks) + "|"]
    lines += [_line(cells) for _, cells in sheet.rows]
    return [*lines, *(["", escape_markdown(sheet.remark)] if sheet.remark else [])]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(escape_markdown, cells)) + " |"


def escape_markdown(text: str) -> str:
    """Text that Markdown shows as it is, in a table too."""
    text = " ".join(text.split())
    for mark in "\\`*_[]<>|#~":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("&", "&amp;").replace("](", "]\\(")


_LATEX = {
    "\\": r"\textbackslash{}",
    **{c: f"\\{c}" for c in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "–": "--",
    "—": "---",
    "−": "$-$",
    "±": r"$\pm$",
    "→": r"$\rightarrow$",
    "†": r"\dag{}",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "×": r"$\times$",
    "…": r"\ldots{}",
    "κ": r"$\kappa$",
    "‘": "`",
    "’": "'",
    "“": "``",
    "”": "''",
}


def escape_latex(text: str) -> str:
    """Text for pdfLaTeX; letters beyond Latin, which its fonts lack, become their code points."""
    parts = []
    for c in " ".join(text.split()):
        if c in _LATEX:
            parts.append(_LATEX[c])
        elif c.isascii() or "À" <= c <= "ÿ":
            parts.append(c)
        else:
            parts.append(f"[U+{ord(c):04X}]")
    return "".join(parts)


def latex(sheet: Sheet) -> str:
    """One `table` with booktabs rules; kinds of rows are set apart by a rule."""
    spec = "".join("l" if i in sheet.left else "r" for i in range(len(sheet.columns)))
    kept = [i for i, name in enumerate(sheet.columns) if name != "remarks"]  # sentences fit no column
    spec = "".join(spec[i] for i in kept)
    lines = [r"\begin{table}[p]", r"\centering\footnotesize", r"\caption{" + escape_latex(sheet.title) + "}"]
    lines += [r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%", r"\begin{tabular}{" + spec + "}"]
    lines += [r"\toprule", _latex_line([sheet.columns[i] for i in kept]), r"\midrule"]
    last = sheet.rows[0][0] if sheet.rows else ""
    for kind, cells in sheet.rows:
        lines += [r"\midrule"] if kind != last else []
        lines.append(_latex_line([cells[i] for i in kept]))
        last = kind
    lines += [r"\bottomrule", r"\end{tabular}}"]
    lines += [r"\par\smallskip{\scriptsize " + escape_latex(sheet.remark) + "}"] if sheet.remark else []
    return "\n".join([*lines, r"\end{table}"])


def _latex_line(cells: Sequence[str]) -> str:
    return (
        " & ".join("{" + escape_latex(cell) + "}" if cell[:1] == "[" else escape_latex(cell) for cell in cells) + r" \\"
    )


def latex_document(sheets: Sequence[Sheet]) -> str:
    """A document that compiles as it is; its tables can be copied into a paper (they need booktabs and graphicx)."""
    head = [
        r"\documentclass{article}",
        r"\usepackage[T1]{fontenc}",
        r"\usepackage[utf8]{inputenc}",
        r"\usepackage{textcomp,booktabs,graphicx}",
        r"\usepackage[margin=2cm]{geometry}",
        r"\extrafloats{200}",
        r"\begin{document}",
    ]
    tables = []
    for i, sheet in enumerate(sheets):
        tables += [latex(sheet), *([r"\clearpage"] if i % 10 == 9 else [])]
    return "\n".join([*head, *tables, r"\end{document}"]) + "\n"
