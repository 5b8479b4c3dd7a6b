"""Execute the notebooks of the documentation and store their outputs.

``make pages GENERATORS=notebooks``
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
NOTEBOOKS = ROOT / "docs" / "notebooks"
SECONDS = 300  # limit of one cell
LONGEST = 2000  # characters of plain text for which there is also HTML


def executed(path: Path, folder: Path) -> nbformat.NotebookNode:
    """Run a notebook in a folder and return it with new outputs."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": str(folder)}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times of day
        for output in cell.get("outputs", ()):
            tidy(output)
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def tidy(output: nbformat.NotebookNode) -> None:
    """Remove paths of this machine, and long plain text for which there is also HTML."""
    if output.output_type == "stream":
        output.text = output.text.replace(f"{ROOT / 'src'}{os.sep}", "")
    elif "text/html" in output.get("data", {}) and len(output.data.get("text/plain", "")) > LONGEST:
        del output.data["text/plain"]


def main() -> None:
    """Rewrite the notebooks."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        print(path.name, file=sys.stderr)
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(executed(path, Path(folder)), path)


if __name__ == "__main__":
    main()
