"""Cross-validation of each opinion, their pool and tuned logistic regression; folds run in parallel."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from baselines import logistic_regression
from joblib import Parallel, delayed
from measure import Finding, Row, Section, say
from scores import Result, by_repeat
from sets import Table
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from bayespatch import PatchworkClassifier

HOME = Path(__file__).parent
RIVAL = "logistic regression"
MODELS = (RIVAL, "additive", "precedents", "pool")
SCORES = ("log loss", "AUC", "calibration error")
Tables = dict[str, Callable[[], Table]]


class Fold(NamedTuple):
    """One fold of a table: the predictions of each model for the test rows, and what the fit learned."""

    results: list[Result]
    learned: dict[str, float]


def run_fold(table: Table, folds: int, seed: int, fold: int, ordered: bool) -> Fold:
    """Fit on all other folds and predict this one."""
    splitter = StratifiedKFold(folds, shuffle=True, random_state=seed)
    train, test = list(splitter.split(table.y[:, None], table.y))[fold]
    X, y, new = table.X.iloc[train], table.y[train], table.X.iloc[test]
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        began = time.process_time()
        clf = PatchworkClassifier(random_state=seed, n_jobs=1).fit(X, y)
        seconds = time.process_time() - began
        stated = clf.predict_opinions(new)
        stated[RIVAL] = logistic_regression(X, seed).fit(X, y).predict_proba(new)
        if ordered:
            labels = pd.Series(pd.Categorical(y, ordered=True))
            of_order = PatchworkClassifier(random_state=seed, n_jobs=1).fit(X, labels).predict_opinions(new)
            stated |= {f"{name}, ordered": of_order[name] for name in ("additive", "pool")}
    results: list[Result] = [
        {"table": table.name, "repeat": seed, "fold": fold, "model": model, "seconds": [seconds, 0.0],
         "y": table.y[test], "p": p} for model, p in stated.items()
    ]  # fmt: skip
    losses = dict(zip(("additive", "precedents", "pool"), clf.pool_.log_loss, strict=True))
    learned = {"weight": clf.pool_.weight, "sharpness": clf.pool_.sharpness, "slope": clf.calibration_.slope}
    learned["compared in parts"] = float(clf.posterior_.settings.feature_subsets)
    return Fold(results, learned | {f"held out, {name}": loss for name, loss in losses.items()} | {"fit, s": seconds})


def cross_validated(
    tables: Tables, folds: int, seeds: Iterable[int], jobs: int, ordered: tuple[str, ...] = ()
) -> dict[str, list[Fold]]:
    """The folds of each table."""
    made = {name: make() for name, make in tables.items()}
    tasks = [(name, seed, fold) for name in made for seed in seeds for fold in range(folds)]
    found = Parallel(n_jobs=jobs, return_as="generator")(
        delayed(run_fold)(made[name], folds, seed, fold, name in ordered) for name, seed, fold in tasks
    )
    by_table: dict[str, list[Fold]] = {name: [] for name in made}
    for (name, seed, fold), result in zip(tasks, found, strict=True):
        by_table[name].append(result)
        if fold == folds - 1:
            say(f"{name}, seed {seed}: done")
    return by_table


def score_tables(section: Section, found: dict[str, list[Fold]]) -> dict[tuple[str, str], Any]:
    """Tables of scores, and of what was learned; the scores by table and model."""
    scores = by_repeat(result for folds in found.values() for fold in folds for result in fold.results)
    for what in SCORES:
        rows: list[Row] = [{"table": t, **{m: f"{scores[t, m][what].mean():.4f}" for m in MODELS}} for t in found]
        means: Row = {m: f"{np.mean([scores[t, m][what].mean() for t in found]):.4f}" for m in MODELS}
        section.tables[what] = [*rows, {"table": "mean", **means}]
    section.tables["learned"] = [
        {"table": name, **{key: f"{np.mean([fold.learned[key] for fold in folds]):.3f}" for key in folds[0].learned}}
        for name, folds in found.items()
    ]
    return scores


def log_losses(scores: dict[tuple[str, str], Any], model: str, tables: Iterable[str]) -> dict[str, float]:
    """Mean log loss of a model on each table."""
    return {table: float(scores[table, model]["log loss"].mean()) for table in tables}


def largest_excess(what: str, model: dict[str, float], other: dict[str, float], limit: float) -> Finding:
    """The largest excess of a model's log loss over another's."""
    gaps = {table: model[table] - other[table] for table in model}
    worst = max(gaps, key=lambda table: gaps[table])
    return Finding(f"{what} ({worst})", gaps[worst], limit, True)


def common_options(parser: argparse.ArgumentParser, folds: int) -> None:
    """Options of both programs."""
    parser.add_argument(
        "--suite", type=Path, metavar="FOLDER", help="additional tables: CSV, target last, blank cells are missing"
    )
    parser.add_argument(
        "--readmission", type=Path, metavar="FILE", help="UCI's diabetic_data.csv, optionally compressed"
    )
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="run these tables only")
    parser.add_argument("--folds", type=int, default=folds)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--jobs", type=int, default=1, help="folds to run in parallel")
    parser.add_argument("--out", type=Path, default=HOME / "results", metavar="FOLDER")


def chosen_tables(parser: argparse.ArgumentParser, names: list[str] | None, tables: Tables) -> Tables:
    """The tables that --sets names, or all."""
    unknown = sorted(set(names or ()) - set(tables))
    if unknown:
        parser.error(f"--sets {', '.join(unknown)}: no such table; choose from {', '.join(tables)}")
    return {name: tables[name] for name in names or tables}
