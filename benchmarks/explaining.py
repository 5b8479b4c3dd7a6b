"""The time for an explanation, in seconds and relative to predicting the same cases."""

from __future__ import annotations

import time

import numpy as np
from measure import Finding, Row, Say, Section, interleaved, ratio, run_alone
from prediction import fitted

from bayespatch import datasets


def main(quick: bool, tell: Say) -> Section:
    """One heart case and 300 of them, with the default settings, on two threads."""
    section = Section("explaining")
    X, _ = datasets.load_heart()
    clf = fitted("I", len(X), 10 if quick else 250).set_params(n_jobs=2)
    rows: list[Row] = []
    for n_cases, limit in ((1, 1.0), (20 if quick else 300, 60.0)):
        some = X.iloc[:n_cases]
        clf.explain_all(some[:1])
        tasks = {
            "explain": lambda some=some: clf.explain_all(some),
            "predict": lambda some=some: clf.predict_proba(some),
        }
        seconds = interleaved(tasks, 2 if quick else 5, time.perf_counter)
        explain = float(np.median(seconds["explain"]))
        times = ratio(seconds["explain"], seconds["predict"])
        rows.append({"cases": n_cases, "parents": len(X), "explain, s": explain, "relative to predict_proba": times})
        section.findings.append(
            Finding(f"Explaining {n_cases} heart case{'s' * (n_cases > 1)}", explain, limit, at_most=True, unit=" s")
        )
        tell(f"    {n_cases} cases: {explain:.2f} s, {times:.1f} times a prediction")
    section.tables["explaining_seconds"] = rows
    return section


if __name__ == "__main__":
    run_alone(main, __doc__)
