"""Precedents, an additive score, and the pool of both: how well each predicts, on the same folds in one run.

    python benchmarks/second_opinion.py --suite FOLDER --readmission FILE

Stratified 10-fold cross-validation, two seeds. The precedents of each fold take a while; they are kept under ``--work``
(build/second_opinion) as soon as they are there, so that an interrupted run goes on where it ended and the second
opinion can be looked at again in a minute. After a change to how precedents are learned, delete that folder.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from baselines import logistic_regression
from measure import Finding, Row, Section, say
from quality import write
from readmission import cohorts, split
from scipy.special import softmax
from scores import Result, by_repeat, calibration_errors, fold_scores
from sets import Table, breast, from_file, heart, table
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from bayespatch import PatchworkClassifier
from bayespatch.datasets import load_readmission
from bayespatch.encode import Schema
from bayespatch.pool import Pool
from bayespatch.second_opinion import AdditiveScore

ROOT = Path(__file__).parents[1]
PARTS = ("comparison", "whole", "speed")
N_FOLDS, SEEDS = 10, (0, 1)
N_READMISSION = 4000  # patients in the sample of the readmission file
# All 3,600 as parents of one another would take an hour a fold; even so its precedents are of a short run.
SHORTER = {"readmission": dict(parents="balanced", n_parents=100, chains=1, draws=60, warmup=60)}


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


def precedents_of(X: pd.DataFrame, y: np.ndarray, new: pd.DataFrame, seed: int, **shorter: Any) -> Precedents:
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = PatchworkClassifier(second_opinion=None, random_state=seed, n_jobs=1, **shorter).fit(X, y)
        return Precedents(
            clf.predict_proba(new),
            clf.predict_interval(new),
            clf.loo_.rows,
            clf.calibration_.apply(clf.loo_.votes),
            time.perf_counter() - began,
        )


def precedents(found: Table, seed: int, fold: int, work: Path) -> Precedents:
    """Of one fold: read, or computed and kept."""
    path = work / f"{found.name}-{found.digest}-{seed}-{fold}.npz"
    if path.exists():
        with np.load(path) as kept:
            return Precedents(**{name: kept[name] for name in Precedents._fields})
    train, test = splits(found.y, seed)[fold]
    shorter = SHORTER.get(found.name, {})
    result = precedents_of(found.X.iloc[train], found.y[train], found.X.iloc[test], seed, **shorter)
    work.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new.npz")
    np.savez(beside, **result._asdict())
    beside.replace(path)
    say(f"precedents of {found.name}, seed {seed}, fold {fold}: {result.seconds:.0f} s")
    return result


def second(found: Table, train: np.ndarray) -> tuple[Schema, AdditiveScore]:
    """The additive score of the training rows."""
    schema = Schema.learn(found.X.iloc[train])
    values = schema.encode(found.X.iloc[train]).values
    return schema, AdditiveScore.learn(schema, values, found.y[train], int(found.y.max()) + 1)


def logistic_baseline(found: Table, seed: int, fold: int, work: Path) -> np.ndarray:
    """What logistic regression says, as in benchmarks/quality.py: read, or computed and kept."""
    path = work / f"{found.name}-{found.digest}-{seed}-{fold}-logistic.npy"
    if not path.exists():
        train, test = splits(found.y, seed)[fold]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = logistic_regression(found.X.iloc[train], seed).fit(found.X.iloc[train], found.y[train])
            p = model.predict_proba(found.X.iloc[test])
        beside = path.with_suffix(".new.npy")
        np.save(beside, p)
        beside.replace(path)
    return np.asarray(np.load(path))


def log_score(p: np.ndarray, y: np.ndarray) -> float:
    return float(np.log(np.maximum(p[np.arange(len(y)), y], 1e-7)).mean())


def log_linear(a: float, additive: np.ndarray, precedents: np.ndarray) -> np.ndarray:
    """The other pool: probabilities in proportion to additive^a precedents^(1 - a)."""
    return softmax(a * np.log(additive) + (1.0 - a) * np.log(precedents), axis=1)


def log_linear_weight(additive: np.ndarray, precedents: np.ndarray, y: np.ndarray) -> float:
    """Learned as that of the linear pool is, from a uniform prior."""
    grid = (np.arange(100) + 0.5) / 100
    scores = np.array([len(y) * log_score(log_linear(a, additive, precedents), y) for a in grid])
    mass = np.exp(scores - scores.max())
    return float(mass @ grid / mass.sum())


def comparison(section: Section, tables: dict[str, Callable[[], Table]], work: Path) -> None:
    """Log loss, AUC and calibration error of each opinion and of the pool; and which pool the training rows prefer."""
    results: list[Result] = []
    forms: list[Row] = []
    for name, make in tables.items():
        found, weights, losses, seconds = make(), [], [], []
        for seed in SEEDS:
            for fold, (train, test) in enumerate(splits(found.y, seed)):
                past = precedents(found, seed, fold, work)
                began = time.perf_counter()
                schema, score = second(found, train)
                seconds.append(time.perf_counter() - began)
                additive = score.predict_proba(schema.encode(found.X.iloc[test]).values)
                known = found.y[train][past.rows]
                pool = Pool.learn(score.loo[past.rows], past.loo, known)
                weights.append(pool.weight)
                a = log_linear_weight(score.loo[past.rows], past.loo, known)
                losses.append([*pool.log_loss, -log_score(log_linear(a, score.loo[past.rows], past.loo), known)])
                said = {
                    "logistic regression": logistic_baseline(found, seed, fold, work),
                    "additive": additive,
                    "precedents": past.test,
                    "pool": pool.combine(additive, past.test),
                    "pool, log-linear": log_linear(a, additive, past.test),
                }
                results += [
                    {"table": name, "repeat": seed, "fold": fold, "model": model, "seconds": [0.0, 0.0],
                     "y": found.y[test], "p": p} for model, p in said.items()
                ]  # fmt: skip
        mean = np.mean(losses, axis=0)
        forms.append(
            {"table": name, "additive": mean[0], "precedents": mean[1], "linear pool": mean[2],
             "log-linear pool": mean[3], "weight": float(np.mean(weights)), "sd of weight": float(np.std(weights)),
             "additive, s": float(np.median(seconds))}
        )  # fmt: skip
        say(f"{name}: done")
    scores = by_repeat(results)
    models = list(dict.fromkeys(result["model"] for result in results))
    for what in ("log loss", "AUC", "calibration error", "debiased"):
        rows: list[Row] = [
            {"model": model, **{t: f"{scores[t, model][what].mean():.4f}" for t in tables},
             "mean": f"{np.mean([scores[t, model][what].mean() for t in tables]):.4f}"} for model in models
        ]  # fmt: skip
        section.tables[what] = rows
    section.tables["leave-one-out log loss of the training rows"] = [
        {k: v if isinstance(v, str) else f"{v:.4f}" for k, v in row.items()} for row in forms
    ]
    _targets(section, scores, list(tables))


def _targets(section: Section, scores: dict[tuple[str, str], dict[str, np.ndarray]], names: list[str]) -> None:
    def mean(model: str, what: str) -> float:
        return float(np.mean([scores[t, model][what].mean() for t in names]))

    for rival in ("logistic regression", "precedents"):
        section.findings.append(
            Finding(f"mean log loss, beside {rival}", mean("pool", "log loss"), mean(rival, "log loss"), True)
        )
        section.findings.append(Finding(f"mean AUC, beside {rival}", mean("pool", "AUC"), mean(rival, "AUC"), False))
    for what, sign in (("log loss", 1.0), ("AUC", -1.0)):
        worst = max(
            float(sign * scores[t, "pool"][what].mean())
            - min(float(sign * scores[t, m][what].mean()) for m in ("logistic regression", "precedents"))
            for t in names
        )
        section.findings.append(Finding(f"{what}: largest gap to the better of the two", worst, 0.01, True))
    section.findings.append(Finding("mean calibration error", mean("pool", "calibration error"), 0.035, True))


# The whole readmission file


def whole_readmission(section: Section, path: Path) -> None:
    """The additive score alone, one stay a patient, on the split of benchmarks/readmission.py."""
    cohort = cohorts(path)[0]
    train, test = split(cohort, None)
    began = time.perf_counter()
    schema, score = second(Table(cohort.name, cohort.X, cohort.y), train)
    fitted = time.perf_counter() - began
    p = score.predict_proba(schema.encode(cohort.X.iloc[test]).values)
    found = fold_scores(cohort.y[test], p)
    section.tables["whole readmission file, additive score alone"] = [
        {"patients": len(cohort.y), "held out": len(test), "AUC": f"{found['AUC']:.4f}",
         "log loss": f"{found['log loss']:.4f}", "calibration error": f"{calibration_errors(cohort.y[test], p)[0]:.4f}",
         "fit, s": f"{fitted:.1f}"}
    ]  # fmt: skip
    section.findings.append(Finding("AUC, whole readmission file", found["AUC"], 0.605, False))
    section.findings.append(
        Finding("log loss, whole readmission file, beside regression", found["log loss"], 0.2964, True)
    )


def speed(section: Section) -> None:
    """Seconds to learn the additive score, on heart and on 100,000 rows of 30 columns."""
    found = heart()
    took = []
    for _ in range(5):
        began = time.perf_counter()
        second(found, np.arange(len(found.y)))
        took.append(time.perf_counter() - began)
    section.findings.append(Finding("heart: seconds", float(np.median(took)), 1.0, True, " s"))
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.standard_normal((100_000, 20)), rng.integers(0, 5, (100_000, 10))], axis=1)
    eta = x[:, :20] @ rng.normal(0, 0.3, 20) + np.abs(x[:, 0]) - 1.5
    y = (rng.random(100_000) < 1.0 / (1.0 + np.exp(-eta))).astype(int)
    schema = Schema.learn(x)
    values = schema.encode(x).values
    began = time.perf_counter()
    AdditiveScore.learn(schema, values, y, 2)
    took_large = time.perf_counter() - began
    section.findings.append(Finding("100,000 rows x 30 columns: seconds", took_large, 60.0, True, " s"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", type=Path, metavar="FOLDER", help="further tables: CSV, target last, blank missing")
    parser.add_argument("--readmission", type=Path, metavar="FILE", help="UCI's diabetic_data.csv, also compressed")
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="these tables only")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="run these parts only")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "second_opinion", metavar="FOLDER")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results", metavar="FOLDER")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    tables = shown_tables(options.suite, options.readmission)
    chosen = {name: tables[name] for name in options.sets or tables}
    section = Section("second opinion")
    with threadpool_limits(1):
        if "comparison" in options.parts:
            comparison(section, chosen, options.work)
        if "whole" in options.parts and options.readmission is not None:
            whole_readmission(section, options.readmission)
        if "speed" in options.parts:
            speed(section)
    section.show()
    write(options.out / "second_opinion.json", section.to_json())


if __name__ == "__main__":
    main()
