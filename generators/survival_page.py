"""Write the results of benchmarks/survival.py into docs/survival.md, between the markers.

Run ``make pages GENERATORS=survival_page`` after ``benchmarks/survival.py``. A test fails if the page is out of date.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGE, RESULTS = ROOT / "docs" / "survival.md", ROOT / "benchmarks" / "results"
METHODS = {
    "patchwork": "patchwork",
    "precedents alone": "similar patients alone",
    "ridge Cox": "ridge Cox",
    "forest": "random survival forest",
    "boosting": "gradient boosting",
}


def scores(results: Path) -> str:
    """Concordance, integrated Brier score and calibration by data set."""
    found = read(results / "survival.json")
    names = [f"{name}, {one['rows']} rows, {one['events']} events" for name, one in found.items()]
    lines = [f"| | {' | '.join(names)} |", f"|{' --- |' * (len(names) + 1)}"]
    for method, called in METHODS.items():
        each = [one["scores"][method] for one in found.values()]
        pairs = [f"{score['concordance']:.3f}, {score['brier']:.3f}" for score in each]
        lines.append(f"| {called} | {' | '.join(pairs)} |")
    lines += ["", "| predicted, observed | at the first quartile | at the median | at the third quartile |"]
    lines.append(f"|{' --- |' * 4}")
    for name, one in found.items():
        pairs = [f"{point['predicted']:.3f}, {point['observed']:.3f}" for point in one["calibration"]]
        lines.append(f"| {name} | {' | '.join(pairs)} |")
    return "\n".join(lines)


def intervals(results: Path) -> str:
    """Share of true survival probabilities inside 90% intervals, by censoring and time."""
    lines = ["| censored | at the first quartile | at the median | at the third quartile | mean width |"]
    lines.append(f"|{' --- |' * 5}")
    for censored, one in read(results / "survival_intervals.json").items():
        cells = [f"{share:.1%}" for share in one["by_time"]]
        lines.append(f"| {censored} | {' | '.join(cells)} | {one['width']:.2f} |")
    return "\n".join(lines)


def read(path: Path) -> dict[str, Any]:
    """A table of results."""
    return json.loads(path.read_text(encoding="utf-8"))


def filled(page: str, results: Path) -> str:
    """Return the page with new tables between the markers."""
    for name, text in {"scores": scores(results), "intervals": intervals(results)}.items():
        begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
        if page.count(begin) != 1 or page.count(end) != 1:
            raise ValueError(f"docs/survival.md must have {begin} and {end} once each; put them around the table")
        head, _, rest = page.partition(begin)
        page = f"{head}{begin}\n\n{text}\n\n{end}{rest.partition(end)[2]}"
    return page


def main() -> None:
    """Write the page."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), RESULTS), encoding="utf-8")


if __name__ == "__main__":
    main()
