"""Writes docs/cli.md: what every command takes, from the commands themselves.

``make pages GENERATORS=cli_page``; a test fails where the page is not what this would write.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_type_hints

from typer.models import ArgumentInfo

from bayespatch.cli.app import command_name, help_of
from bayespatch.cli.commands import ABOUT, COMMANDS, GROUPS

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
BEFORE = f"""# The command line

<!-- Written by generators/cli_page.py: change the commands, not this page. -->

`pip install "bayespatch[cli]"` gives the program `bayespatch`. {ABOUT}

Results go to stdout, everything else (notes, progress, errors) to stderr. With `--json` stdout has one JSON document
and nothing else. Files are written whole or not at all, also after
Ctrl-C, and never over another one without `--force`.

| exit code | meaning |
|---|---|
| 0 | done |
| 1 | something is wrong with what it was given; one sentence on stderr says what, and the remedy |
| 2 | it was called in a way that it does not know |
| 130 | interrupted by Ctrl-C |

Tables come from a CSV file (comma, semicolon, tab or `|`; UTF-8, UTF-16 or Windows-1252), a Parquet or Arrow (Feather)
file, or a database: `sqlite:///FILE`, `postgresql://USER@HOST/NAME`, `duckdb:///FILE`, each with `--query`. Parquet and
Arrow need `pip install "bayespatch[parquet]"`, PostgreSQL and DuckDB `pip install "bayespatch[sql]"`. A database is
only ever read.

`bayespatch --install-completion` teaches the shell to complete commands and options. Real sessions are in
[transcripts](cli-transcripts.md).
"""


def page() -> str:
    """The whole page."""
    grouped = [
        part
        for name, group in GROUPS.items()
        for part in (f"## bayespatch {name}\n\n{group.about}\n", *(section(one, f"{name} ") for one in group.commands))
    ]
    return "\n".join([BEFORE, *map(section, COMMANDS), *grouped])


def section(command: Callable[..., Any], group: str = "") -> str:
    """One command: what it does, its examples, what it takes."""
    text, examples = help_of(command)
    kinds = get_type_hints(command, include_extras=True)
    rows = [row(name, kinds[name], param.default) for name, param in inspect.signature(command).parameters.items()]
    title = f"{'###' if group else '##'} bayespatch {group}{command_name(command)}"
    parts = [title, text, "```\n" + "\n".join(examples) + "\n```"]
    return "\n\n".join([*parts, "\n".join(["| | | default |", "|---|---|---|", *rows])]) + "\n"


def row(name: str, kind: Any, default: Any) -> str:
    """An argument or an option."""
    base, about = get_args(kind)
    [base] = [one for one in get_args(base) or (base,) if one is not type(None)]
    if isinstance(about, ArgumentInfo):
        return f"| `{about.metavar}` | {cell(about.help)} | |"
    given = [decl for decl in (about.default, *(about.param_decls or ())) if isinstance(decl, str)]  # as typer reads it
    called = "`, `".join(given or [f"--{name.replace('_', '-')}"])
    if default is inspect.Parameter.empty:
        usual = "required"
    else:
        usual = "" if default is None or default is False or default == "" else plain(default)
    return f"| `{called}`{value(base, about)} | {cell(about.help)} | {usual} |"


def value(base: Any, about: Any) -> str:
    """What follows the name of an option."""
    if base is bool:
        return ""
    if isinstance(base, type) and issubclass(base, Enum):
        return " " + "\\|".join(plain(choice) for choice in base)
    return f" {about.metavar or {str: 'TEXT', int: 'NUMBER', float: 'NUMBER'}[base]}"


def plain(value: Any) -> str:
    """A value as it is typed."""
    return str(getattr(value, "value", value))


def cell(text: str) -> str:
    """A text in a table."""
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
