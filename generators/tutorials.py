"""Run the console blocks of the tutorials and insert the output of each command.

``make pages GENERATORS=tutorials``
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from generators.console import install_program, printed, shown

PAGES = ("tutorial-own-table", "tutorial-clinic", "survival", "follow-up")
COMMAND = re.compile(r"^\$ (?:.*\\\n)*.*$", re.MULTILINE)  # a backslash continues a command on the next line
BLOCK = re.compile(r"^```console\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
INSTALL = "pip install"  # shown, not run


def commands_of(block: str) -> list[str]:
    """The command lines of a console block."""
    return [command.removeprefix("$ ") for command in COMMAND.findall(block)]


def run_page(text: str, folder: Path) -> list[list[tuple[str, str]]]:
    """Run the console blocks of a page in order in a folder; return their commands with the output."""
    (folder / "bin").exists() or install_program(folder)
    return [
        [(line, "" if line.startswith(INSTALL) else printed(line, folder)) for line in commands_of(block)]
        for block in BLOCK.findall(text)
    ]


def main() -> None:
    """Rewrite the pages."""
    for name in PAGES:
        path = ROOT / "docs" / f"{name}.md"
        text = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as temporary:
            sessions = iter(run_page(text, Path(temporary)))
        path.write_text(BLOCK.sub(lambda _, sessions=sessions: shown(next(sessions)), text), encoding="utf-8")


if __name__ == "__main__":
    main()
