"""Writes the measured figures into README.md, between the marks, from what the benchmarks have left behind.

``make pages GENERATORS=readme`` after ``benchmarks/second_opinion.py``. A test fails where README.md is stale.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- quality -->", "<!-- /quality -->"
NAMES = ("pool", "precedents", "additive", "logistic regression")


def block(results: Path) -> str:
    """The log loss of both opinions, of their pool and of logistic regression, table by table."""
    path = results / "second_opinion.json"
    if not path.exists():
        return "The comparison has not been run for this version: `python benchmarks/second_opinion.py`."
    rows = json.loads(path.read_text(encoding="utf-8"))["tables"]["log loss"]
    lines = [
        "Log loss in ten-fold cross-validation, two seeds, the same folds for all (lower is better). *Precedents* uses",
        "similar patients alone, *additive* the risk score alone, and *pool* both (the default).",
        "",
        f"| table | {' | '.join(NAMES)} |",
        f"|{' --- |' * (len(NAMES) + 1)}",
    ]
    lines += [f"| {row['table']} | {' | '.join(format(float(row[name]), '.3f') for name in NAMES)} |" for row in rows]
    more = "With AUC, calibration and several classes: [the second opinion](docs/second-opinion.md#measured)."
    return "\n".join([*lines, "", more])


def filled(readme: str, results: Path) -> str:
    """README.md with the text between the marks replaced."""
    if readme.count(BEGIN) != 1 or readme.count(END) != 1:
        raise ValueError(f"README.md must have {BEGIN} and {END} once each; put them where the figures belong")
    head, _, rest = readme.partition(BEGIN)
    return f"{head}{BEGIN}\n\n{block(results)}\n\n{END}{rest.partition(END)[2]}"


def main() -> None:
    """Replace README.md atomically."""
    readme, beside = ROOT / "README.md", ROOT / f".README.md.{os.getpid()}"
    beside.write_text(filled(readme.read_text(encoding="utf-8"), ROOT / "benchmarks" / "results"), encoding="utf-8")
    beside.replace(readme)


if __name__ == "__main__":
    main()
