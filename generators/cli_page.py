"""Write docs/cli.md, the command reference, from the commands.

``make pages GENERATORS=cli_page``. A test fails if the page is out of date.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from textwrap import fill
from typing import Any, Literal, get_args, get_origin, get_type_hints

from typer.models import ArgumentInfo

from bayespatch.cli.app import command_name, help_of
from bayespatch.cli.commands import ABOUT, COMMANDS, GROUPS

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
BEFORE = f"""# The command line

<!-- Written by generators/cli_page.py: change the commands, not this page. -->

`pip install "bayespatch[cli]"` installs the program `bayespatch`.

{fill(ABOUT, 120)}

Results go to standard output; notes, progress and errors go to standard error. With `--json`, standard output contains
one JSON document. Output files are complete or absent, even after Ctrl-C. Existing files are replaced only with
`--force`.

| exit code | meaning |
|---|---|
| 0 | success |
| 1 | invalid input or a failed operation; one sentence on standard error states the problem and the remedy |
| 2 | usage error: unknown command or option, or a missing argument |
| 130 | interrupted by Ctrl-C |

A table can be a CSV file (comma, semicolon, tab or `|`; UTF-8, UTF-16 or Windows-1252), a Parquet or Arrow (Feather)
file, or a database: `sqlite:///FILE`, `postgresql://USER@HOST/NAME` or `duckdb:///FILE`, each with `--query`. Parquet
and Arrow need `pip install "bayespatch[parquet]"`, PostgreSQL and DuckDB `pip install "bayespatch[sql]"`. Databases are
opened read-only.

`bayespatch --install-completion` adds shell completion for commands and options. [Sample sessions](cli-transcripts.md)
show the commands with their output.
"""


def page() -> str:
    """The whole page."""
    grouped = [
        part
        for name, group in GROUPS.items()
        for part in (
            f"## bayespatch {name}\n\n{fill(group.about, 120)}\n",
            *(section(one, f"{name} ") for one in group.commands),
        )
    ]
    return "\n".join([BEFORE, *map(section, COMMANDS), *grouped])


def section(command: Callable[..., Any], group: str = "") -> str:
    """A command: description, examples, arguments and options."""
    text, examples = help_of(command)
    kinds = get_type_hints(command, include_extras=True)
    rows = [row(name, kinds[name], param.default) for name, param in inspect.signature(command).parameters.items()]
    title = f"{'###' if group else '##'} bayespatch {group}{command_name(command)}"
    parts = [title, text, "```\n" + "\n".join(examples) + "\n```"]
    return "\n\n".join([*parts, "\n".join(["| | | default |", "|---|---|---|", *rows])]) + "\n"


def row(name: str, kind: Any, default: Any) -> str:
    """An argument or an option."""
    base, about = get_args(kind)
    if get_origin(base) is not Literal:
        [base] = [one for one in get_args(base) or (base,) if one is not type(None)]
    if isinstance(about, ArgumentInfo):
        return f"| `{about.metavar}` | {cell(about.help)} | |"
    given = [decl for decl in (about.default, *(about.param_decls or ())) if isinstance(decl, str)]  # as typer does
    called = "`, `".join(given or [f"--{name.replace('_', '-')}"])
    if default is inspect.Parameter.empty:
        usual = "required"
    else:
        usual = "" if default is None or default is False or default in ("", []) else str(default)
    return f"| `{called}`{value(base, about)} | {cell(about.help)} | {usual} |"


def value(base: Any, about: Any) -> str:
    """The placeholder after the name of an option."""
    if base is bool:
        return ""
    if get_origin(base) is Literal:
        return " " + "\\|".join(get_args(base))
    return f" {about.metavar or {str: 'TEXT', int: 'NUMBER', float: 'NUMBER'}[base]}"


def cell(text: str) -> str:
    """Text escaped for a table."""
    return text.replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
