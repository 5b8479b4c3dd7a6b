"""The messages that the troubleshooting page quotes are those of the source."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
MESSAGES = re.findall(r"^### `(.+)`$", PAGE, re.MULTILINE)
GAP = "…"  # for what a message inserts


def text_of(node):
    """The text of a string, with a gap for each value that is inserted."""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else GAP for part in node.values)
    return node.value


@cache
def strings():
    """All texts in the source except docstrings."""
    texts = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        nodes = list(ast.walk(tree))
        skipped = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        skipped |= {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
        texts += [
            text_of(node)
            for node in nodes
            if id(node) not in skipped
            and (isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str)))
        ]
    return texts


def test_there_are_messages():
    assert len(MESSAGES) >= 25
    assert len(set(MESSAGES)) == len(MESSAGES)


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_is_in_the_source(message):
    assert any(message in text for text in strings()), f"{message!r} is no longer a message: correct the page"


def test_an_invented_message_is_not():
    assert not any("is not a message of this package" in text for text in strings())
