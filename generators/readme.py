"""Writes the measured figures into README.md, between the marks, from what the benchmarks have left behind.

``make pages GENERATORS=readme`` after ``benchmarks/against.py``. A test fails where README.md is stale.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- quality -->", "<!-- /quality -->"
NAMES = ("pool", "precedents", "additive", "logistic regression", "version 0.2")


def block(results: Path) -> str:
    """What stands between the marks: log loss of both opinions and their pool, table by table."""
    path = results / "against.json"
    if not path.exists():
        return "The comparison has not been run for this version: `python benchmarks/against.py`."
    found = json.loads(path.read_text(encoding="utf-8"))
    lines = [
        "Log loss, ten folds, the same for all (`python benchmarks/against.py`):",
        "",
    ]
    lines += [f"| table | {' | '.join(NAMES)} |", f"|{' --- |' * (len(NAMES) + 1)}"]
    for table, part in found.items():
        lines.append(f"| {table} | {' | '.join(format(part['log_loss'][name], '.3f') for name in NAMES)} |")
    return "\n".join([*lines, "", "With AUC, calibration error and times: [docs/against.md](docs/against.md)."])


def filled(readme: str, results: Path) -> str:
    """README.md with what is between the marks written anew."""
    if readme.count(BEGIN) != 1 or readme.count(END) != 1:
        raise ValueError(f"README.md must have {BEGIN} and {END} once each; put them where the figures should stand")
    head, _, rest = readme.partition(BEGIN)
    return f"{head}{BEGIN}\n\n{block(results)}\n\n{END}{rest.partition(END)[2]}"


def main() -> None:
    """Write README.md, all of it or nothing."""
    readme, beside = ROOT / "README.md", ROOT / f".README.md.{os.getpid()}"
    beside.write_text(filled(readme.read_text(encoding="utf-8"), ROOT / "benchmarks" / "results"), encoding="utf-8")
    beside.replace(readme)


if __name__ == "__main__":
    main()
