"""Run commands at a terminal and show their output, for pages with sample sessions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROGRAM = f"""#!{sys.executable}
import sys
sys.argv[0] = "bayespatch"
from bayespatch.cli import main
main()
"""


def install_program(folder: Path) -> None:
    """Install the program ``bayespatch`` of this checkout in ``bin`` inside the folder."""
    (folder / "bin").mkdir()
    (folder / "bin" / "bayespatch").write_text(PROGRAM)
    (folder / "bin" / "bayespatch").chmod(0o755)


def printed(line: str, folder: Path, **variables: str) -> str:
    """Run a line in the folder and return its output, with both streams as a terminal shows them."""
    print(line, file=sys.stderr)
    path = os.pathsep.join([str(folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "118", **variables}
    return subprocess.run(
        line, shell=True, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ).stdout


def shown(lines: list[tuple[str, str]]) -> str:
    """Lines with their output, as Markdown."""
    return "```console\n" + "\n\n".join(f"$ {line}\n{output}".rstrip() for line, output in lines) + "\n```\n"
