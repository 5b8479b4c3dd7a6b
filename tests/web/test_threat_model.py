"""The threat model has a line for every requirement of ASVS 5.0, level 2, with tests that exist or an exception."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
ROWS = re.findall(
    r"^\| (?!requirement|-)([^|]+) \|([^|]*)\|([^|]*)\|$", PAGE.partition("## Requirements")[2], re.MULTILINE
)
# The requirements of levels 1 and 2 of ASVS 5.0.0: section, and the last number of each.
REQUIREMENTS = """
1.1: 1-2, 1.2: 1-9, 1.3: 1-11, 1.4: 1-3, 1.5: 1-2, 2.1: 1-3, 2.2: 1-3, 2.3: 1-4, 2.4: 1-1,
3.2: 1-2, 3.3: 1-4, 3.4: 1-6, 3.5: 1-5, 3.7: 1-2, 4.1: 1-3, 4.2: 1-1, 4.3: 1-2, 4.4: 1-4,
5.1: 1-1, 5.2: 1-3, 5.3: 1-2, 5.4: 1-3, 6.1: 1-3, 6.2: 1-12, 6.3: 1-4, 6.4: 1-4, 6.5: 1-5, 6.6: 1-3, 6.8: 1-4,
7.1: 1-3, 7.2: 1-4, 7.3: 1-2, 7.4: 1-5, 7.5: 1-2, 7.6: 1-2, 8.1: 1-2, 8.2: 1-3, 8.3: 1-1, 8.4: 1-1,
9.1: 1-3, 9.2: 1-4, 10.1: 1-2, 10.2: 1-2, 10.3: 1-4, 10.4: 1-11, 10.5: 1-5, 10.6: 1-2, 10.7: 1-3,
11.1: 1-2, 11.2: 1-3, 11.3: 1-3, 11.4: 1-4, 11.5: 1-1, 11.6: 1-1, 12.1: 1-3, 12.2: 1-2, 12.3: 1-4,
13.1: 1-1, 13.2: 1-5, 13.3: 1-2, 13.4: 1-5, 14.1: 1-2, 14.2: 1-4, 14.3: 1-3, 15.1: 1-3, 15.2: 1-3, 15.3: 1-7,
16.1: 1-1, 16.2: 1-5, 16.3: 1-4, 16.4: 1-3, 16.5: 1-3, 17.1: 1-1, 17.2: 1-4, 17.3: 1-2
"""


def ranges(text, pattern):
    """Numbers such as 1.2.5, from the first to the last of each range."""
    for section, first, last in re.findall(pattern, text):
        yield from (f"{section}.{n}" for n in range(int(first), int(last or first) + 1))


def test_every_requirement_has_a_line():
    required = set(ranges(REQUIREMENTS, r"(\d+\.\d+): (\d+)-(\d+)"))
    assert len(required) == 253
    lines = set()
    for requirement, _, _ in ROWS:
        lines |= set(ranges(requirement, r"(\d+\.\d+)\.(\d+)(?: to \d+\.\d+\.(\d+))?"))
        whole = re.findall(r"(?<![\d.])V?(\d+(?:\.\d+)?)(?=[, ]|$)(?! to)", requirement)
        lines |= {one for one in required for section in whole if one.startswith(f"{section}.")}
    assert sorted(required - lines) == []


def test_every_line_has_a_test_or_an_exception():
    stated = ("exception", "not applicable", "not tested here")
    assert [
        row[0] for row in ROWS if "`tests/" not in row[2] and not any(one in "".join(row).lower() for one in stated)
    ] == []


def test_every_named_test_exists():
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)
    assert len(named) > 100
    missing = [
        (file, name)
        for file, name in named
        if not (ROOT / file).exists() or (name and f"def {name}(" not in (ROOT / file).read_text(encoding="utf-8"))
    ]
    assert missing == []
