"""What a command says while it runs."""

import os
from pathlib import Path

from rich.console import Console
from rich.markup import escape


def make_console() -> Console:
    """Terminal output; where there is no terminal (a log file) lines are wide enough for the tables."""
    if os.environ.get("LOCAL_RANK", "0") != "0" or os.environ.get("SLURM_PROCID", "0") != "0":
        return Console(quiet=True)  # of several processes of a training the first speaks
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=110)


def say(console: Console, line: str) -> None:
    """One line of progress."""
    console.print(f"[dim]»[/dim] {escape(line)}", soft_wrap=True)


def folder_name(folder: Path) -> str:
    """The folder relative to where the command was given, where that is shorter."""
    try:
        return str(folder.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(folder)
