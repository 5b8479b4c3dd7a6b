"""Coverage of prediction intervals: how often a 90 % interval holds the true probability, on simulated tables.

    python benchmarks/intervals.py --sizes 200 500 2000 --tables 4 --bootstraps 20

Three kinds of truth (a sum over features, an interaction, groups of cases), two and four classes. True probabilities
are known, so that coverage and width can be measured for `PatchworkClassifier.predict_interval`, for each opinion
alone, for Venn-Abers bounds (Vovk and Petej 2014; two classes), and for a bootstrap of the whole fit: its width is what
refitting on resampled rows would say. The last column counts how often the pool's interval holds the mean true
probability of the cases that were given about the same one: this is what leave-one-out can tell, and what one case adds
to it may be out of reach. Results of each table are kept under ``--work`` (build/intervals); delete that
folder after a change to how intervals are made.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from measure import Finding, Row, Section, say
from quality import write
from scipy.special import softmax
from several_classes import kept
from sklearn.isotonic import IsotonicRegression
from threadpoolctl import threadpool_limits

from bayespatch import PatchworkClassifier

ROOT = Path(__file__).parents[1]
KINDS = ("sum", "interaction", "groups")
N_NEW = 300  # cases on which coverage is counted
N_SIMILAR = 51  # new cases that share a stated probability, about
LEVEL, TARGET = 0.9, 0.85


def truth(kind: str, n_classes: int, x: np.ndarray) -> np.ndarray:
    """The probabilities of the classes, (n, M), of rows of six numbers.

    "sum": each class has a sum over the features, one of them curved. "interaction": the sign of a product decides
    between two halves of the classes, beside a straight line. "groups": six groups, each with probabilities of its own.
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
    """Rows, probabilities and classes; every class occurs among the first n - N_NEW rows."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 6))
    p = truth(kind, n_classes, x)
    return x, p, (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1)


def venn_abers(past: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Bounds of the probability of the second class, (n, 2), from leave-one-out probabilities of past cases.

    A new case is given each class in turn; isotonic regression on the past cases and this one says what its score is
    then worth.
    """
    ends = np.empty((len(new), 2))
    for i, score in enumerate(new):
        for label in (0, 1):
            fitted = IsotonicRegression(out_of_bounds="clip").fit(np.append(past, score), np.append(y, label))
            ends[i, label] = fitted.predict([score])[0]
    return ends


def fitted(x: np.ndarray, y: np.ndarray, seed: int) -> PatchworkClassifier:
    return PatchworkClassifier(random_state=seed, n_jobs=1).fit(pd.DataFrame(x).add_prefix("x"), y)


def one_table(kind: str, n_classes: int, n: int, seed: int, bootstraps: int) -> dict[str, Any]:
    """Intervals of all kinds for the new cases of one table, (n, M, 2), beside the true probabilities."""
    x, p, y = simulate(kind, n_classes, n + N_NEW, seed)
    past, new = slice(0, n), pd.DataFrame(x[n:]).add_prefix("x")
    began = time.perf_counter()
    clf = fitted(x[past], y[past], seed)
    stated = clf.predict_opinions(new)
    alone = clf.opinion_.predict_interval(clf.schema_.encode(new).values, LEVEL)
    found: dict[str, Any] = {
        "truth": p[n:],
        "stated": stated["pool"],
        "pool": clf.predict_interval(new, LEVEL),
        "additive": alone,
        "weight": clf.pool_.weight,
    }
    if n_classes == 2:
        rows = clf.loo_.rows
        loo = clf.pool_.combine(clf.opinion_.loo[rows], clf.calibration_.apply(clf.loo_.votes))[:, 1]
        second = venn_abers(loo, y[past][rows], stated["pool"][:, 1])
        found["Venn-Abers"] = np.stack([1.0 - second[:, ::-1], second], axis=1)
    if bootstraps:
        rng, drawn = np.random.default_rng(seed), []
        while len(drawn) < bootstraps:
            rows = rng.integers(0, n, n)
            if len(np.unique(y[rows])) == n_classes:
                drawn.append(fitted(x[rows], y[rows], seed).predict_proba(new))
        tails = (1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0
        found["bootstrap"] = np.moveaxis(np.quantile(drawn, tails, axis=0), 0, -1)
    say(f"{kind}, {n_classes} classes, {n} rows, seed {seed}: {time.perf_counter() - began:.0f} s")
    return found


def counted(ends: np.ndarray, p: np.ndarray) -> tuple[float, float]:
    """The share of true probabilities that intervals hold, and their mean width."""
    return float(np.mean((ends[..., 0] <= p) & (p <= ends[..., 1]))), float(np.mean(ends[..., 1] - ends[..., 0]))


def among_similar(stated: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The mean true probability among the cases whose stated one is nearest, (n, M), class by class."""
    found = np.empty_like(p)
    for m in range(p.shape[1]):
        order = np.argsort(stated[:, m], kind="stable")
        for place, row in enumerate(order):
            found[row, m] = p[order[max(0, place - N_SIMILAR // 2) : place + N_SIMILAR // 2 + 1], m].mean()
    return found


def coverage(
    section: Section, sizes: list[int], classes: list[int], n_tables: int, bootstraps: int, work: Path
) -> None:
    """Coverage and width of each kind of interval, by kind of truth, number of classes and number of rows."""
    rows: list[Row] = []
    for kind in KINDS:
        for n_classes in classes:
            for n in sizes:
                runs = [
                    kept(
                        work / f"{kind}-{n_classes}-{n}-{seed}-{bootstraps}.npz",
                        lambda seed=seed: one_table(kind, n_classes, n, seed, bootstraps),  # noqa: B023
                    )
                    for seed in range(n_tables)
                ]
                row: Row = {"truth": kind, "classes": n_classes, "rows": n}
                gaps = [np.abs(run["stated"] - run["truth"]).mean() for run in runs]
                row["mean error"] = f"{np.mean(gaps):.3f}"
                for name in ("pool", "additive", "Venn-Abers", "bootstrap"):
                    if name in runs[0]:
                        held, width = np.mean([counted(run[name], run["truth"]) for run in runs], axis=0)
                        row[name] = f"{held:.2f} (width {width:.2f})"
                        if name == "pool":
                            what = f"{kind}, {n_classes} classes, {n} rows: coverage"
                            section.findings.append(Finding(what, float(held), TARGET, False))
                    else:
                        row[name] = ""
                similar = [counted(run["pool"], among_similar(run["stated"], run["truth"]))[0] for run in runs]
                row["pool, mean of similar cases"] = f"{np.mean(similar):.2f}"
                rows.append(row)
    section.tables["coverage of 90 % intervals"] = rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=[200, 500, 2000], metavar="N", help="training rows")
    parser.add_argument("--classes", nargs="+", type=int, default=[2, 4], metavar="M")
    parser.add_argument("--tables", type=int, default=4, metavar="N", help="simulated tables of each kind")
    parser.add_argument("--bootstraps", type=int, default=20, metavar="N", help="refits; 0 leaves the bootstrap out")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "intervals", metavar="FOLDER")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results", metavar="FOLDER")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    section = Section("intervals")
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        coverage(section, options.sizes, options.classes, options.tables, options.bootstraps, options.work)
    section.show()
    write(options.out / "intervals.json", section.to_json())


if __name__ == "__main__":
    main()
