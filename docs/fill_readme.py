"""Writes the measured figures into README.md, between the marks, from what the benchmarks have left behind.

``python docs/fill_readme.py`` after ``make bench`` or ``benchmarks/quality.py``. A test fails where README.md is stale.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- quality -->", "<!-- /quality -->"
COLUMNS = ("model", "AUC", "log loss", "accuracy", "calibration error", "fit, s", "predict, s")
REASONS = {  # what a model shows for a single prediction
    "patchwork": "past cases and the features that matter, with probabilities",
    "KNN": "past cases, all features alike",
    "logistic regression": "coefficients",
    "naive Bayes": "factors per value",
    "EBM": "a curve per feature",
    "decision tree": "a path of rules",
}
# Result file -> the beginnings of the findings that are told here.
TOLD = {
    "prediction": ("predict_proba of 1000",),
    "explaining": ("Explaining",),
    "mixing": ("Model I, heart, N=20",),
    "startup": ("a later process",),
}


def block(results: Path) -> str:
    """What stands between the marks."""
    quality = results / "quality.json"
    parts = _comparison(json.loads(quality.read_text(encoding="utf-8"))) if quality.exists() else [
        "The comparison with other classifiers has not been run for this version: `python benchmarks/quality.py`."
    ]  # fmt: skip
    lines = []
    for name, beginnings in TOLD.items():
        path = results / f"{name}.json"
        findings = json.loads(path.read_text(encoding="utf-8"))["findings"] if path.exists() else []
        lines += [f"- {what}: {value:.3g}{unit}" for what, value, _, _, unit in findings if what.startswith(beginnings)]
    if lines:
        parts += ["", "Measured on one machine ([conditions](benchmarks/README.md)):", "", *lines]
    return "\n".join(parts)


def _comparison(quality: dict[str, Any]) -> list[str]:
    """Means over the tables, model by model."""
    tables = quality["tables"]
    rows = tables["mean over the tables"]
    ours = [row["model"] for row in rows].index("patchwork")
    compared = next((found[0] for name, found in tables.items() if name.startswith("AUC of others") and found), {})
    names = [name for name in compared if name not in ("model", "mean")]
    among = f" over {len(names)} tables ({', '.join(names)})" if names else ""
    lines = [f"Cross-validated on the same folds, one thread each, means{among}:", ""]
    columns = [column for column in COLUMNS if column in rows[0]]
    lines += [f"| {' | '.join([*columns, 'reasons'])} |", f"|{' --- |' * (len(columns) + 1)}"]
    for row in [rows[ours], *rows[:ours], *rows[ours + 1 :]]:
        reasons = REASONS.get(row["model"], "none of its own")
        lines.append(f"| {' | '.join([*(str(row[column]) for column in columns), reasons])} |")
    return [*lines, "", "Table by table, with standard errors: [docs/quality.md](docs/quality.md)."]


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
