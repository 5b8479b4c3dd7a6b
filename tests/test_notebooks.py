"""The stored notebooks are executed, small, and part of the documentation; tests/statistical executes them again."""

import json
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
LARGEST = 1_000_000  # bytes
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)")


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return request.param


def cells(notebook, kind):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == kind]


def test_there_are_three():
    assert [path.stem for path in NOTEBOOKS] == ["case-base", "heart", "own-data"]


def test_a_notebook_is_stored_with_its_outputs(notebook):
    code = cells(notebook, "code")
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1)), "run make pages"
    outputs = [output for cell in code for output in cell["outputs"]]
    assert len(outputs) >= 5
    assert not [output for output in outputs if output["output_type"] == "error"]


def test_a_notebook_is_small_and_names_no_machine(notebook):
    assert notebook.stat().st_size < LARGEST
    assert str(DOCS.parent) not in notebook.read_text(encoding="utf-8")


def test_links_of_a_notebook_lead_somewhere(notebook):
    targets = [target for cell in cells(notebook, "markdown") for target in _LINK.findall("".join(cell["source"]))]
    assert targets
    assert not [target for target in targets if not (notebook.parent / target).exists()]


def test_a_notebook_is_in_the_navigation(notebook):
    assert f"notebooks/{notebook.stem}.md" in (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
