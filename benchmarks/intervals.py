"""Coverage of 90% intervals on simulated tables with known true probabilities.

    python benchmarks/intervals.py --jobs 16

Three true models (a sum over features, an interaction, groups of cases), with two and four classes. Coverage is
measured for the mean true risk of patients with similar predictions, which the interval is meant to contain
(`among_similar`), and for the true risk of each patient. A bootstrap of the whole fit is measured for comparison.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from measure import Finding, Row, Section, say, write
from scipy.special import softmax
from threadpoolctl import threadpool_limits

from bayespatch import PatchworkClassifier

ROOT = Path(__file__).parents[1]
KINDS = ("sum", "interaction", "groups")
N_NEW = 1000  # cases on which coverage is counted
N_SIMILAR = 51  # new cases that share a prediction, about
LEVEL, TARGET = 0.9, 0.85


class Task(NamedTuple):
    """One simulated table."""

    kind: str
    n_classes: int
    n: int
    seed: int
    bootstraps: int


def truth(kind: str, n_classes: int, x: np.ndarray) -> np.ndarray:
    """The probabilities of the classes, (n, M), of rows of six numbers.

    "sum": each class has a sum over the features, one of them curved. "interaction": a linear term, and the sign of
    a product that decides between two halves of the classes. "groups": six groups with separate probabilities.
    """
    rng = np.random.default_rng(n_classes)
    if kind == "sum":
        eta = x @ rng.normal(0, 0.7, (6, n_classes)) + np.outer(x[:, 3] ** 2 - 1.0, rng.normal(0, 0.4, n_classes))
    elif kind == "interaction":
        side = np.where(np.arange(n_classes) < n_classes / 2, -0.75, 0.75)
        eta = np.outer(np.sign(x[:, 1] * x[:, 2]), side) + np.outer(x[:, 0], rng.normal(0, 0.5, n_classes))
    else:
        centers = rng.normal(0, 1.2, (6, 6))
        nearest = ((x[:, None, :] - centers) ** 2).sum(axis=2).argmin(axis=1)
        eta = rng.normal(0, 1.2, (6, n_classes))[nearest]
    return np.asarray(softmax(eta, axis=1))


def simulate(kind: str, n_classes: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, probabilities and classes; the last N_NEW rows are new cases."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 6))
    p = truth(kind, n_classes, x)
    return x, p, (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1)


def fitted(x: np.ndarray, y: np.ndarray, seed: int) -> PatchworkClassifier:
    return PatchworkClassifier(random_state=seed, n_jobs=1).fit(pd.DataFrame(x).add_prefix("x"), y)


def among_similar(stated: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The mean true probability of the cases with the nearest predicted probabilities, (n, M), class by class."""
    found = np.empty_like(p)
    for m in range(p.shape[1]):
        order = np.argsort(stated[:, m], kind="stable")
        for place, row in enumerate(order):
            found[row, m] = p[order[max(0, place - N_SIMILAR // 2) : place + N_SIMILAR // 2 + 1], m].mean()
    return found


def counted(ends: np.ndarray, p: np.ndarray) -> float:
    """The share of intervals that contain the probability."""
    return float(np.mean((ends[..., 0] <= p) & (p <= ends[..., 1])))


def run(task: Task) -> dict[str, float]:
    """Coverage and width of the intervals for the new cases of one table."""
    n = task.n
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        x, p, y = simulate(task.kind, task.n_classes, n + N_NEW, task.seed)
        new, p = pd.DataFrame(x[n:]).add_prefix("x"), p[n:]
        clf = fitted(x[:n], y[:n], task.seed)
        said = clf.predict_all(new, LEVEL)
        ends, similar = said.intervals, among_similar(said.probabilities, p)
        found = {
            "error of the prediction": float(np.abs(said.probabilities - p).mean()),
            "width": float(np.mean(ends[..., 1] - ends[..., 0])),
            "patients with such predictions": counted(ends, similar),
            "one patient": counted(ends, p),
        }
        rng, drawn = np.random.default_rng(task.seed), []
        while len(drawn) < task.bootstraps:
            rows = rng.integers(0, n, n)
            if len(np.unique(y[rows])) == task.n_classes:
                drawn.append(fitted(x[rows], y[rows], task.seed).predict_proba(new))
    if drawn:
        tails = (1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0
        refitted = np.moveaxis(np.quantile(drawn, tails, axis=0), 0, -1)
        found["bootstrap: width"] = float(np.mean(refitted[..., 1] - refitted[..., 0]))
        found["bootstrap: one patient"] = counted(refitted, p)
    return found


def coverage(section: Section, options: argparse.Namespace) -> None:
    """Coverage and width by true model, number of classes and number of rows."""
    cells = [(kind, m, n) for kind in KINDS for m in options.classes for n in options.sizes]
    tasks = [
        Task(*cell, seed, options.bootstraps if seed < options.bootstrapped else 0)
        for cell in cells
        for seed in range(options.tables)
    ]
    found = dict(zip(tasks, Parallel(n_jobs=options.jobs)(delayed(run)(task) for task in tasks), strict=True))
    rows: list[Row] = []
    for kind, m, n in cells:
        runs = [found[task] for task in tasks if task[:3] == (kind, m, n)]
        means = {name: float(np.mean([r[name] for r in runs if name in r])) for name in runs[0]}
        rows.append({"truth": kind, "classes": m, "rows": n, **{name: f"{value:.3f}" for name, value in means.items()}})
        what = f"{kind}, {m} classes, {n} rows: coverage of patients with such predictions"
        section.findings.append(Finding(what, means["patients with such predictions"], TARGET, False))
        say(f"{kind}, {m} classes, {n} rows: done")
    section.tables["coverage of 90 % intervals"] = rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=[200, 500, 2000], metavar="N", help="training rows")
    parser.add_argument("--classes", nargs="+", type=int, default=[2, 4], metavar="M")
    parser.add_argument("--tables", type=int, default=8, metavar="N", help="simulated tables of each kind")
    parser.add_argument("--bootstraps", type=int, default=20, metavar="N", help="refits of a table; 0: no bootstrap")
    parser.add_argument("--bootstrapped", type=int, default=2, metavar="N", help="tables of each kind with a bootstrap")
    parser.add_argument("--jobs", type=int, default=1, help="tables at a time")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results", metavar="FOLDER")
    options = parser.parse_args()
    section = Section("intervals")
    coverage(section, options)
    section.show()
    write(options.out / "intervals.json", section.to_json())


if __name__ == "__main__":
    main()
