"""Documentation keeps to its line length."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINE_LENGTH = 140
WRITTEN = [ROOT / "docs" / "study"]  # python -m study writes one line per paragraph
PAGES = sorted(
    page
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if not any(page.is_relative_to(folder) for folder in WRITTEN)
)
CODE = re.compile(r"^( *)```.*?^\1```", re.DOTALL | re.MULTILINE)
ONE_LINE = ("|", "![")  # Markdown cannot break a row of a table; pictures have long paths


def blank(pattern, text):
    """The text without the matches, its line numbers unchanged."""
    return pattern.sub(lambda match: "\n" * match[0].count("\n"), text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_are_short(page):
    lines = blank(CODE, page.read_text(encoding="utf-8")).split("\n")
    assert not [
        f"{page.name}:{k}: {len(line)} characters"
        for k, line in enumerate(lines, 1)
        if len(line) > LINE_LENGTH and not line.startswith(ONE_LINE)
    ]
