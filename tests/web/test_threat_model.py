"""The tests that the threat model names exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_named_test_exists():
    page = (ROOT / "docs" / "threat-model.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page)
    assert len(named) > 50
    missing = [
        (file, name)
        for file, name in named
        if not (ROOT / file).exists() or f"def {name}" not in (ROOT / file).read_text(encoding="utf-8")
    ]
    assert missing == []
