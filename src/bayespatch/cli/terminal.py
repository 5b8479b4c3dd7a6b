"""Output: notes and progress on stderr, results on stdout."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict

NARROWEST = 60  # columns
# Control characters except line ends, lone surrogates, separators, bidirectional controls, tag characters
_UNSEEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    r"""Text that is safe for a terminal: control and invisible characters, except line ends, are escaped.

    Control characters can move the cursor, set colors and titles, or run stored commands; characters that reverse the
    text direction can disguise text.

    Examples
    --------
    >>> print(visible("\x1b[31mred, \u202efdp.exe"))
    \x1b[31mred, \u202efdp.exe
    """
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def say(text: str) -> None:
    """Print a note on stderr."""
    if sys.stderr is not None:
        print(visible(text), file=sys.stderr, flush=True)


def width() -> int:
    """The width of the terminal, with a minimum for tables; large if the output is not a terminal."""
    return max(NARROWEST, shutil.get_terminal_size((120, 24)).columns)


def as_json(document: object) -> str:
    """Format a document as indented JSON."""
    text = json.dumps(document, default=asdict, indent=2, ensure_ascii=False, allow_nan=False)
    return _UNSEEN.sub(lambda match: json.dumps(match[0])[1:-1].replace("\x7f", r"\u007f"), text)


def show(document: object, as_document: bool, text: str) -> None:
    """Print the result of a command, as JSON or as text."""
    print(as_json(document) if as_document else visible(text))


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show the current step, with a spinner on a terminal."""
    if not sys.stderr.isatty():
        say(f"{text} ...")
        yield
        return
    from rich.console import Console
    from rich.text import Text

    with Console(stderr=True).status(Text(f"{visible(text)} ...")):  # Text, so that brackets are not markup
        yield


@contextmanager
def counting(text: str) -> Iterator[Callable[[int, int, str], None]]:
    """A progress bar with the remaining time, as a function of (done, total, description)."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as shown:
        task = shown.add_task(text, total=None)
        yield lambda done, total, what: shown.update(task, completed=done, total=total, description=what)


def table_text(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as wide as its content; all columns except the first are right-aligned."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    table = Table(*(escape(visible(heading)) for heading in headings), box=box.SIMPLE_HEAD, show_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in rows:
        table.add_row(*(Text(visible(text)) for text in row))
    console = Console(width=width(), color_system=None)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().rstrip().splitlines())


def facts_text(facts: Mapping[str, str]) -> str:
    """Names and values, one pair per line."""
    longest = max(map(len, facts))
    return "\n".join(f"{name:<{longest}}  {value}" for name, value in facts.items())
