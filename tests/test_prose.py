"""The prose that users see: short lines in the documentation, and none of the phrases that read as translated."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINE_LENGTH = 140
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "benchmarks" / "README.md"])
FOLDERS = ("src", "cuda/src", "study", "benchmarks", "examples", "generators")
MODULES = sorted(
    path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if "tests" not in path.relative_to(ROOT).parts
)
CODE = re.compile(r"^( *)```.*?^\1```", re.DOTALL | re.MULTILINE)
ONE_LINE = ("|", "![")  # Markdown cannot break a row of a table; pictures have long paths

# Phrase -> what to write instead.
PHRASES = {
    r"anew": "again",
    r"(of|about|to) whom": "who, or rephrase",
    r"that which": "what",
    r"whoever": "anyone who",
    r"so many of|so many at a time|at most so many|about so many": "name the number",
    r"give or take": "90% interval",
    r"(what )?(became|becomes) of": "outcome",
    r"to be had|may be had|can be had": "available",
    r"has (no|a) say": "influence",
    r"is there twice": "occurs twice",
    r"(is|are|was|were) not there": "missing",
    r"goes? on (where|with|only)": "continues",
    r"of which nothing": "without",
    r"as it was (shown|written|stored|made)": "as shown",
    r"(lies|lie) in parts": "partitioned",
    r"outside of": "outside",
    r"stays? as (it|they) (is|are|was|were)": "does not change",
    r"taken for": "treated as, mistaken for",
    r"(is|are|be) told": "state",
    r"holds? (the|a|it|them|what) [^.;]{0,40} against": "compare",
    r"stands? (against|below|beside)": "protection, below, next to",
    r"were worth": "outcomes",
    r"half[- ](done|written)": "incomplete",
    r"(?<!there )(is|are) no (text|number|list|share|level|range|class|file|table|case|column)": "is not a ...",
    r"nothing is said|is said": "not assessed, states",
    r"nobody's": "no one's, or rephrase",
    r"all alike": "equally",
    r"knows? nothing": "independent",
    r"of one's own": "your own",
    r"read as (a )?probabilit(y|ies)": "calibrated",
    r"the very (same|one|model|draws|bytes)": "the same",
    r"where there (is|are) (one|none|some)": "if any",
    r"had (absence|presence) of": "had, had no",
    r", also (if|when|where|censored|compressed)": "even if, including",
    r"each next one": "each",
    r"further ones": "any others, additional",
    r"stays? so": "does not change",
    r"says? no": "does not define",
    r"creates? an equal": "restores",
    r"wanted (answer|class|value)": "desired, requested",
    r"the same of": "the same for, the same one of",
    r"(only|not) (this|that) time": "once",
}
BAD = re.compile("|".join(rf"\b(?:{phrase})\b" for phrase in PHRASES), re.IGNORECASE)


def blank(pattern, text):
    """The text without the matches, its line numbers unchanged."""
    return pattern.sub(lambda match: "\n" * match[0].count("\n"), text)


def texts_of(source):
    """Docstrings, messages and other texts of a module, with the lines on which they begin."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, " ".join(node.value.split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_are_short(page):
    lines = blank(CODE, page.read_text(encoding="utf-8")).split("\n")
    assert not [
        f"{page.name}:{k}: {len(line)} characters"
        for k, line in enumerate(lines, 1)
        if len(line) > LINE_LENGTH and not line.startswith(ONE_LINE)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_reads_as_translated(page):
    paragraphs = blank(CODE, page.read_text(encoding="utf-8")).split("\n\n")
    assert not [match[0] for text in paragraphs for match in BAD.finditer(" ".join(text.split()))]


def test_no_text_of_the_source_reads_as_translated():
    found = [
        f"{path.relative_to(ROOT)}:{line}: {match[0]}"
        for path in MODULES
        for line, text in texts_of(path.read_text(encoding="utf-8"))
        for match in BAD.finditer(text)
    ]
    assert not found, "\n".join(["", *found])


@pytest.mark.parametrize(
    "text",
    [
        "This is no list of features; pass names.",
        "What is there twice is refused.",
        "A case of which nothing is known gets the base rates.",
        "Learn the schema anew from the table.",
        "votes on past cases were worth this",
        "Whoever can write to it can do everything.",
        "bins=3 says no bins; pass edges",
        "Each next one is drawn from the others.",
    ],
)
def test_a_translated_phrase_is_found(text):
    assert BAD.search(text)


@pytest.mark.parametrize("text", ["there is no column 'age'", "No past case has this value.", "It stands for a class."])
def test_a_plain_sentence_passes(text):
    assert not BAD.search(text)
