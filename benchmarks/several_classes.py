"""Tables with several classes: the additive opinion, the precedents and their pool beside tuned logistic regression.

    python benchmarks/several_classes.py --suite FOLDER --readmission FILE

Stratified 5-fold cross-validation, two seeds. Results of each fold are kept under ``--work`` (build/several_classes),
so that an interrupted run continues where it stopped. Delete the folder after a change to how precedents are learned;
the additive opinion and the pool are computed anew in every run.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from baselines import logistic_regression
from measure import Finding, Row, Section, say
from quality import write
from scores import Result, by_repeat
from second_opinion import Precedents, precedents_of, second
from sets import Table, from_file, heart, multiclass, table
from sklearn.datasets import load_diabetes, load_digits, load_iris, load_wine
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from bayespatch import metrics
from bayespatch.datasets import load_readmission
from bayespatch.pool import Pool
from bayespatch.second_opinion import AdditiveScore

ROOT = Path(__file__).parents[1]
N_FOLDS, SEEDS = 5, (0, 1)
N_READMISSION = 1500  # patients
RIVAL = "logistic regression"
MODELS = (RIVAL, "additive", "precedents", "pool")
ORDERED = ("diabetes quarters", "stages")  # classes 0..M-1 in order


def bundled(load: Callable[..., Any], name: str) -> Table:
    """A table of scikit-learn's own."""
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
    """Simulated: 11 classes of unequal size, 40 yes-or-no columns, of which each class has a few of its own."""
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
    """Simulated: 4 classes whose log odds are weak sums over 12 numbers, all of which matter a little."""
    rng = np.random.default_rng(5)
    x = rng.standard_normal((400, 12))
    eta = x @ rng.normal(0, 0.35, (12, 4))
    y = (eta + rng.gumbel(size=eta.shape)).argmax(axis=1)
    return table("weak sum", pd.DataFrame(x).add_prefix("x"), y)


def stages() -> Table:
    """Simulated: 5 ordered stages, along which a sum over 10 numbers moves a case."""
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
    """One stay each of 1,500 patients: back within 30 days, later, or never; the paper's 19 features."""
    X, outcome = load_readmission(path)
    binned, _ = load_readmission(path, discretize="paper")
    first = X.index.to_frame(index=False).sort_values("encounter_id").drop_duplicates("patient_nbr").index.to_numpy()
    rows = np.sort(np.random.default_rng(0).choice(first, N_READMISSION, replace=False))
    return table("readmission, three ways", binned.iloc[rows], outcome.to_numpy()[rows])


def tables(suite: Path | None, readmission: Path | None) -> dict[str, Callable[[], Table]]:
    """Each table by name, made when it is called for."""
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


# One fold


def splits(y: np.ndarray, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return list(StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed).split(y[:, None], y))


def kept(path: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Arrays that were computed before, or that are computed and stored now."""
    if not path.exists():
        beside = path.with_suffix(".new.npz")
        np.savez(beside, **make())
        beside.replace(path)
    with np.load(path) as stored:
        return {name: stored[name] for name in stored.files}


def precedents(found: Table, seed: int, fold: int, work: Path) -> Precedents:
    train, test = splits(found.y, seed)[fold]

    def make() -> dict[str, Any]:
        result = precedents_of(found.X.iloc[train], found.y[train], found.X.iloc[test], seed)
        say(f"precedents of {found.name}, seed {seed}, fold {fold}: {result.seconds:.0f} s")
        return result._asdict()

    return Precedents(**kept(work / f"{found.name}-{found.digest}-{seed}-{fold}.npz", make))


def rival(found: Table, seed: int, fold: int, work: Path) -> np.ndarray:
    """Multinomial logistic regression on scaled and one-hot columns; its strength by cross-validated log loss."""
    train, test = splits(found.y, seed)[fold]

    def make() -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = logistic_regression(found.X.iloc[train], seed).fit(found.X.iloc[train], found.y[train])
            return {"p": model.predict_proba(found.X.iloc[test])}

    return np.asarray(kept(work / f"{found.name}-{found.digest}-{seed}-{fold}-rival.npz", make)["p"])


# Comparison


def fold_results(found: Table, seed: int, fold: int, work: Path) -> tuple[list[Result], Pool, AdditiveScore]:
    """What each model says of the test rows of one fold."""
    train, test = splits(found.y, seed)[fold]
    past = precedents(found, seed, fold, work)
    began = time.process_time()
    schema, score = second(found, train)
    seconds = time.process_time() - began
    additive = score.predict_proba(schema.encode(found.X.iloc[test]).values)
    pool = Pool.learn(score.loo[past.rows], past.loo, found.y[train][past.rows])
    stated = {
        RIVAL: rival(found, seed, fold, work),
        "additive": additive,
        "precedents": past.test,
        "pool": pool.combine(additive, past.test),
    }
    if found.name in ORDERED:
        train_values = schema.encode(found.X.iloc[train]).values
        order = np.arange(int(found.y.max()) + 1)
        ordered = AdditiveScore.learn(schema, train_values, found.y[train], len(order), order=order)
        stated["additive, ordered"] = ordered.predict_proba(schema.encode(found.X.iloc[test]).values)
    results: list[Result] = [
        {"table": found.name, "repeat": seed, "fold": fold, "model": model, "seconds": [seconds, 0.0],
         "y": found.y[test], "p": p} for model, p in stated.items()
    ]  # fmt: skip
    return results, pool, score


def comparison(section: Section, chosen: dict[str, Callable[[], Table]], work: Path) -> None:
    """Log loss of each model on each table, the pool's weight and sharpness, and the additive opinion's moderation."""
    results: list[Result] = []
    learned: list[Row] = []
    for name, make in chosen.items():
        found, numbers = make(), []
        for seed in SEEDS:
            for fold in range(N_FOLDS):
                stated, pool, score = fold_results(found, seed, fold, work)
                results += stated
                numbers.append([pool.weight, pool.sharpness, score.moderation, stated[0]["seconds"][0]])
        names = ("weight", "sharpness", "moderation", "additive, s")
        means = np.mean(numbers, axis=0)
        row: Row = {"table": name, "rows": len(found.y), "columns": found.X.shape[1], "classes": int(found.y.max()) + 1}
        learned.append(row | {key: f"{value:.2f}" for key, value in zip(names, means, strict=True)})
        say(f"{name}: done")
    section.tables["tables, and what was learned"] = learned
    scores = by_repeat(results)
    for what in ("log loss", "AUC", "calibration error"):
        section.tables[what] = [
            {"table": t, **{m: f"{scores[t, m][what].mean():.4f}" for m in MODELS}} for t in chosen
        ] + [{"table": "mean", **{m: f"{np.mean([scores[t, m][what].mean() for t in chosen]):.4f}" for m in MODELS}}]
    section.tables["ordered classes: log loss, ranked probability score"] = _ordered(results)
    _targets(section, {key: float(value["log loss"].mean()) for key, value in scores.items()}, list(chosen))


def _ordered(results: list[Result]) -> list[Row]:
    """Tables whose classes have an order: the additive opinion with and without it."""
    rows: list[Row] = []
    for name in dict.fromkeys(result["table"] for result in results if result["model"] == "additive, ordered"):
        row: Row = {"table": name}
        for model in ("additive", "additive, ordered"):
            own = [(r["p"], r["y"]) for r in results if r["table"] == name and r["model"] == model]
            loss, ranked = (
                np.mean([score(p, y) for p, y in own]) for score in (metrics.log_loss, metrics.ranked_probability_score)
            )
            row[model] = f"{loss:.4f}, {ranked:.4f}"
        rows.append(row)
    return rows


def _targets(section: Section, losses: dict[tuple[str, str], float], names: list[str]) -> None:
    for model in ("additive", "pool"):
        gaps = {name: losses[name, model] - losses[name, RIVAL] for name in names}
        worst = max(gaps, key=lambda name: gaps[name])
        section.findings.append(Finding(f"{model}: largest log loss above {RIVAL} ({worst})", gaps[worst], 0.01, True))
        section.findings.append(
            Finding(f"{model}: mean log loss above {RIVAL}", float(np.mean(list(gaps.values()))), 0.0, True)
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--suite", type=Path, metavar="FOLDER", help="pima_diabetes.csv and mammographic.csv: more tables"
    )
    parser.add_argument("--readmission", type=Path, metavar="FILE", help="UCI's diabetic_data.csv, also compressed")
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="these tables only")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "several_classes", metavar="FOLDER")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results", metavar="FOLDER")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    every = tables(options.suite, options.readmission)
    unknown = sorted(set(options.sets or ()) - set(every))
    if unknown:
        parser.error(f"--sets {', '.join(unknown)}: there is no such table; choose from {', '.join(every)}")
    section = Section("several classes")
    with threadpool_limits(1):
        comparison(section, {name: every[name] for name in options.sets or every}, options.work)
    section.show()
    write(options.out / "several_classes.json", section.to_json())


if __name__ == "__main__":
    main()
