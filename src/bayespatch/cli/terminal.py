"""What people and programs read: notes and progress on stderr, results on stdout."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any


def say(text: str) -> None:
    """A line for the person at the terminal."""
    print(text, file=sys.stderr, flush=True)


def width() -> int:
    """Columns of the terminal; a wide one where nobody watches."""
    return shutil.get_terminal_size((120, 24)).columns


def as_json(document: Any) -> str:
    """A document for programs."""
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)


def show(document: Mapping[str, Any], as_document: bool, text: str) -> None:
    """The result of a command, for a program or for a person."""
    print(as_json(document) if as_document else text)


@contextmanager
def working(text: str) -> Iterator[None]:
    """Says what is being done, with something that moves where a person watches."""
    if not sys.stderr.isatty():
        say(f"{text} ...")
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"{text} ..."):
        yield


@contextmanager
def counting(text: str) -> Iterator[Callable[[int, int, str], None]]:
    """A bar that is told how far it is: (done, in all, what is being done)."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as shown:
        task = shown.add_task(text, total=None)
        yield lambda done, total, what: shown.update(task, completed=done, total=total, description=what)


def table_text(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as wide as it needs to be; all but the first column are set to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(*headings, box=box.SIMPLE_HEAD, show_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        table.add_row(*(text.replace("[", r"\[") for text in row))
    console = Console(width=max(width(), 60), color_system=None)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().rstrip().splitlines())


def facts_text(facts: Mapping[str, str]) -> str:
    """Names and values, one below the other."""
    longest = max(map(len, facts))
    return "\n".join(f"{name:<{longest}}  {value}" for name, value in facts.items())
