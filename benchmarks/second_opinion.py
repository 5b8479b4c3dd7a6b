"""Precedents, an additive score, and the pool of both: how well each predicts, on the same folds in one run.

    python benchmarks/second_opinion.py --suite FOLDER --readmission FILE

Stratified 10-fold cross-validation, two seeds. The precedents of each fold take a while; they are kept under ``--work``
(build/second_opinion) as soon as they are there, so that an interrupted run goes on where it ended and the second
opinion can be looked at again in a minute.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from measure import say
from sets import Table, breast, from_file, heart, table
from sklearn.model_selection import StratifiedKFold

from bayespatch import PatchworkClassifier
from bayespatch.datasets import load_readmission

ROOT = Path(__file__).parents[1]
N_FOLDS, SEEDS = 10, (0, 1)
N_READMISSION = 4000  # patients in the sample of the readmission file
# All 3,600 as parents of one another would take an hour a fold.
SHORTER = {"readmission": dict(parents="balanced", n_parents=200, chains=2, draws=100, warmup=100)}


class Precedents(NamedTuple):
    """What the precedents say in one fold: of the test rows, and of training rows (leave-one-out)."""

    test: np.ndarray  # (n_test, M)
    interval: np.ndarray  # (n_test, M, 2), at the level .9
    rows: np.ndarray  # training rows, places in `train`
    loo: np.ndarray  # (n_rows, M)
    seconds: float


def readmission_sample(path: Path) -> Table:
    """One stay each of 4,000 patients drawn at random, with the paper's 19 features in its bins."""
    X, outcome = load_readmission(path, discretize="paper")
    first = X.index.to_frame(index=False).sort_values("encounter_id").drop_duplicates("patient_nbr").index.to_numpy()
    rows = np.sort(np.random.default_rng(0).choice(first, N_READMISSION, replace=False))
    return table("readmission", X.iloc[rows], (outcome == "readmitted").to_numpy()[rows])


def shown_tables(suite: Path | None, readmission: Path | None) -> dict[str, Callable[[], Table]]:
    """Heart and breast, every CSV file of a folder, and a sample of the readmission file."""
    found: dict[str, Callable[[], Table]] = {"heart": heart, "breast": breast}
    if suite is not None:
        found |= {path.stem: partial(from_file, path) for path in sorted(suite.glob("*.csv"))}
    if readmission is not None:
        found["readmission"] = partial(readmission_sample, readmission)
    return found


def splits(y: np.ndarray, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return list(StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed).split(y[:, None], y))


def precedents(found: Table, seed: int, fold: int, work: Path) -> Precedents:
    """Of one fold: read, or computed and kept."""
    path = work / f"{found.name}-{found.digest}-{seed}-{fold}.npz"
    if path.exists():
        with np.load(path) as kept:
            return Precedents(**{name: kept[name] for name in Precedents._fields})
    train, test = splits(found.y, seed)[fold]
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = PatchworkClassifier(random_state=seed, n_jobs=1, **SHORTER.get(found.name, {}))
        clf.fit(found.X.iloc[train], found.y[train])
        result = Precedents(
            clf.predict_proba(found.X.iloc[test]),
            clf.predict_interval(found.X.iloc[test]),
            clf.review_.rows,
            clf.calibration_.apply(clf.review_.votes),
            time.perf_counter() - began,
        )
    work.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new.npz")
    np.savez(beside, **result._asdict())
    beside.replace(path)
    say(f"precedents of {found.name}, seed {seed}, fold {fold}: {result.seconds:.0f} s")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", type=Path, metavar="FOLDER", help="further tables: CSV, target last, blank missing")
    parser.add_argument("--readmission", type=Path, metavar="FILE", help="UCI's diabetic_data.csv, also compressed")
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="these tables only")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "second_opinion", metavar="FOLDER")
    parser.add_argument("--precedents", action="store_true", help="only compute the precedents")
    options = parser.parse_args()
    tables = shown_tables(options.suite, options.readmission)
    for name in options.sets or tables:
        found = tables[name]()
        for seed in SEEDS:
            for fold in range(N_FOLDS):
                precedents(found, seed, fold, options.work)


if __name__ == "__main__":
    main()
