"""Every cell of the notebooks runs, and shows the same kinds of outputs as stored."""

import nbformat
import pytest

from generators.notebooks import NOTEBOOKS, executed

PATHS = sorted(NOTEBOOKS.glob("*.ipynb"))


def kinds(notebook):
    """For each cell of code, what its outputs can be shown as."""
    return [
        [sorted(output.get("data", {"text": ""})) for output in cell.outputs if output.get("name") != "stderr"]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path):
    assert kinds(executed(path, tmp_path)) == kinds(nbformat.read(path, as_version=4))
