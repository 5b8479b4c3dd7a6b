"""Each opinion, their pool and tuned multinomial logistic regression on tables with several classes.

    python benchmarks/several_classes.py --suite FOLDER --readmission FILE --jobs 16

Stratified 5-fold cross-validation, two seeds. Logistic regression gets scaled and one-hot columns; its strength is
chosen by cross-validated log loss. Ordered tables are also predicted with their order declared.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from measure import Finding, Row, Section, write
from opinions import (
    RIVAL,
    Fold,
    chosen_tables,
    common_options,
    cross_validated,
    largest_excess,
    log_losses,
    score_tables,
)
from sets import Table, from_file, heart, multiclass, table
from sklearn.datasets import load_diabetes, load_digits, load_iris, load_wine

from bayespatch import metrics
from bayespatch.datasets import load_readmission

N_READMISSION = 1500  # patients
ORDERED = ("diabetes quarters", "stages")  # classes 0..M-1 in order


def bundled(load: Callable[..., Any], name: str) -> Table:
    """A table from scikit-learn."""
    X, y = load(return_X_y=True, as_frame=True)
    return table(name, X, y)


def digits() -> Table:
    """600 handwritten digits, 10 classes; 8 x 8 pixels averaged to 4 x 4."""
    images, y = load_digits().images, load_digits().target
    rows = np.sort(np.random.default_rng(0).choice(len(y), 600, replace=False))
    small = images[rows].reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(len(rows), 16)
    return table("digits", pd.DataFrame(small).add_prefix("x"), y[rows])


def digit_pixels() -> Table:
    """300 handwritten digits, the five classes 3, 5, 6, 8 and 9; 64 columns."""
    images, y = load_digits().images, load_digits().target
    rows = np.flatnonzero(np.isin(y, (3, 5, 6, 8, 9)))
    rows = np.sort(np.random.default_rng(1).choice(rows, 300, replace=False))
    pixels = images[rows].reshape(len(rows), 64)
    return table("digit pixels", pd.DataFrame(pixels).add_prefix("x").loc[:, pixels.std(axis=0) > 0], y[rows])


def diabetes_quarters() -> Table:
    """Diabetes progression (scikit-learn's), in four ordered quarters."""
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    return table("diabetes quarters", X, pd.qcut(y, 4, labels=False))


def symptoms() -> Table:
    """Simulated: 11 classes of unequal size, 40 binary columns, a few of them typical of each class."""
    rng = np.random.default_rng(2)
    y = rng.choice(11, 400, p=np.arange(15, 4, -1) / 110)
    rates = np.where(rng.random((11, 40)) < 0.2, 0.8, 0.08)
    X = pd.DataFrame(np.where(rng.random((400, 40)) < rates[y], "yes", "no")).add_prefix("x")
    return table("symptoms", X, y)


def grades() -> Table:
    """Simulated: 6 classes, 30 columns of levels 0 to 3, nearly separable, as in a dermatological record."""
    rng = np.random.default_rng(3)
    y = rng.choice(6, 360, p=[0.3, 0.2, 0.2, 0.13, 0.12, 0.05])
    means = np.where(rng.random((6, 30)) < 0.25, 2.2, 0.4)
    X = pd.DataFrame(np.clip(rng.normal(means[y], 0.8).round(), 0, 3)).add_prefix("x")
    return table("grades", X, y)


def formants() -> Table:
    """Simulated: 8 classes of 10 correlated numbers, normal within a class."""
    rng = np.random.default_rng(4)
    y = rng.integers(0, 8, 500)
    mix = rng.normal(0, 0.4, (10, 10)) + np.eye(10)
    x = rng.normal(0, 1.3, (8, 10))[y] + rng.standard_normal((500, 10)) @ mix
    return table("formants", pd.DataFrame(x).add_prefix("x"), y)


def weak_sum() -> Table:
    """Simulated: 4 classes whose log odds are sums over 12 numbers with weak effects."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((400, 12))
    eta = x @ rng.normal(0, 0.35, (12, 4))
    y = (eta + rng.gumbel(size=eta.shape)).argmax(axis=1)
    return table("weak sum", pd.DataFrame(x).add_prefix("x"), y)


def stages() -> Table:
    """Simulated: 5 ordered stages, determined by a sum over 10 numbers."""
    rng = np.random.default_rng(6)
    x = rng.standard_normal((300, 10))
    latent = x @ rng.normal(0, 0.5, 10) + rng.logistic(size=300)
    return table("stages", pd.DataFrame(x).add_prefix("x"), np.digitize(latent, [-1.5, -0.3, 0.5, 1.8]))


def crossed(source: Callable[[], Table], column: str, n_parts: int, name: str) -> Table:
    """The outcome crossed with the quantiles of a column, which is left out of the features."""
    found = source()
    known = found.X[column].notna().to_numpy()
    X, y = found.X[known], found.y[known]
    parts = pd.qcut(X[column].astype(float), n_parts, labels=False).to_numpy()
    return table(name, X.drop(columns=column), y * n_parts + parts)


def readmission_three(path: Path) -> Table:
    """One stay each of 1,500 patients: readmitted within 30 days, later, or never; the paper's 19 features."""
    X, outcome = load_readmission(path)
    binned, _ = load_readmission(path, discretize="paper")
    first = X.index.to_frame(index=False).sort_values("encounter_id").drop_duplicates("patient_nbr").index.to_numpy()
    rows = np.sort(np.random.default_rng(0).choice(first, N_READMISSION, replace=False))
    return table("readmission, three ways", binned.iloc[rows], outcome.to_numpy()[rows])


def tables(suite: Path | None, readmission: Path | None) -> dict[str, Callable[[], Table]]:
    """Functions that create each table, by name."""
    found: dict[str, Callable[[], Table]] = {
        "iris": partial(bundled, load_iris, "iris"),
        "wine": partial(bundled, load_wine, "wine"),
        "digits": digits,
        "digit pixels": digit_pixels,
        "diabetes quarters": diabetes_quarters,
        "multiclass": multiclass,
        "symptoms": symptoms,
        "grades": grades,
        "formants": formants,
        "weak sum": weak_sum,
        "stages": stages,
        "heart x rate": partial(crossed, heart, "thalach", 2, "heart x rate"),
    }
    if suite is not None:
        for name, column in (("pima_diabetes", "age"), ("mammographic", "Age")):
            label = f"{name} x age"
            found[label] = partial(crossed, partial(from_file, suite / f"{name}.csv"), column, 3, label)
    if readmission is not None:
        found["readmission, three ways"] = partial(readmission_three, readmission)
    return found


def ordered_scores(found: dict[str, list[Fold]]) -> list[Row]:
    """Log loss and ranked probability score of tables whose classes have an order, with and without it."""
    rows: list[Row] = []
    for name in (name for name in found if name in ORDERED):
        row: Row = {"table": name}
        for model in ("additive", "additive, ordered", "pool", "pool, ordered"):
            own = [(r["p"], r["y"]) for fold in found[name] for r in fold.results if r["model"] == model]
            loss, ranked = (
                np.mean([score(p, y) for p, y in own]) for score in (metrics.log_loss, metrics.ranked_probability_score)
            )
            row[model] = f"{loss:.4f}, {ranked:.4f}"
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    common_options(parser, folds=5)
    options = parser.parse_args()
    chosen = chosen_tables(parser, options.sets, tables(options.suite, options.readmission))
    section = Section("several classes")
    found = cross_validated(chosen, options.folds, options.seeds, options.jobs, ORDERED)
    scores = score_tables(section, found)
    section.tables["ordered classes: log loss, ranked probability score"] = ordered_scores(found)
    rival = log_losses(scores, RIVAL, found)
    for model in ("additive", "pool"):
        own = log_losses(scores, model, found)
        section.findings.append(largest_excess(f"{model}: largest log loss above {RIVAL}", own, rival, 0.01))
        mean = float(np.mean([own[name] - rival[name] for name in own]))
        section.findings.append(Finding(f"{model}: mean log loss above {RIVAL}", mean, 0.0, True))
    section.show()
    write(options.out / "several_classes.json", section.to_json())


if __name__ == "__main__":
    main()
