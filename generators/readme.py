"""Write the benchmark results into README.md, between the markers.

Run ``make pages GENERATORS=readme`` after ``benchmarks/second_opinion.py``. A test fails if README.md is out of date.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- quality -->", "<!-- /quality -->"
NAMES = ("pool", "precedents", "additive", "logistic regression")


def block(results: Path) -> str:
    """Log loss of both opinions, their pool and logistic regression, as a Markdown table."""
    path = results / "second_opinion.json"
    if not path.exists():
        return "The comparison has not been run for this version: `python benchmarks/second_opinion.py`."
    rows = json.loads(path.read_text(encoding="utf-8"))["tables"]["log loss"]
    lines = [
        "Log loss in ten-fold cross-validation with two seeds and the same folds for every method (lower is better;",
        "`python benchmarks/second_opinion.py`). *Precedents* uses only similar patients, *additive* only the risk",
        "score, and *pool* both (the default). More: [calibration, several classes](docs/second-opinion.md#measured).",
        "",
        f"| table | {' | '.join(NAMES)} |",
        f"|{' --- |' * (len(NAMES) + 1)}",
    ]
    lines += [f"| {row['table']} | {' | '.join(format(float(row[name]), '.3f') for name in NAMES)} |" for row in rows]
    return "\n".join(lines)


def filled(readme: str, results: Path) -> str:
    """Return the text of README.md with the part between the markers replaced."""
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
