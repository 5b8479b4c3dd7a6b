"""Each opinion, their pool and tuned logistic regression on tables with two classes.

    python benchmarks/second_opinion.py --suite FOLDER --readmission FILE --jobs 16

"comparison": stratified 10-fold cross-validation, two seeds. "whole": the additive score alone on the whole readmission
file. "speed": seconds that the additive score takes to learn.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path

import numpy as np
from measure import Finding, Section, write
from opinions import (
    RIVAL,
    Fold,
    Tables,
    chosen_tables,
    common_options,
    cross_validated,
    largest_excess,
    log_losses,
    score_tables,
)
from readmission import cohorts, split
from scores import calibration_errors, fold_scores
from sets import Table, breast, from_file, heart, table
from threadpoolctl import threadpool_limits

from bayespatch.datasets import load_readmission
from bayespatch.encode import Schema
from bayespatch.second_opinion import AdditiveScore

PARTS = ("comparison", "whole", "speed")
N_READMISSION = 4000  # patients in the sample of the readmission file
N_DRAWS = 100  # of the outcomes of all cases


def readmission_sample(path: Path) -> Table:
    """One stay each of 4,000 random patients, with the paper's 19 features in its bins."""
    X, outcome = load_readmission(path, discretize="paper")
    first = X.index.to_frame(index=False).sort_values("encounter_id").drop_duplicates("patient_nbr").index.to_numpy()
    rows = np.sort(np.random.default_rng(0).choice(first, N_READMISSION, replace=False))
    return table("readmission", X.iloc[rows], (outcome == "readmitted").to_numpy()[rows])


def shown_tables(suite: Path | None, readmission: Path | None) -> Tables:
    """Heart and breast, every CSV file of a folder, and a sample of the readmission file."""
    found: Tables = {"heart": heart, "breast": breast}
    if suite is not None:
        found |= {path.stem: partial(from_file, path) for path in sorted(suite.glob("*.csv"))}
    if readmission is not None:
        found["readmission"] = partial(readmission_sample, readmission)
    return found


def second(found: Table, train: np.ndarray) -> tuple[Schema, AdditiveScore]:
    """The additive score of the training rows."""
    schema = Schema.learn(found.X.iloc[train])
    values = schema.encode(found.X.iloc[train]).values
    return schema, AdditiveScore.learn(schema, values, found.y[train], int(found.y.max()) + 1)


def comparison(section: Section, tables: Tables, options: argparse.Namespace) -> None:
    """Scores of each opinion and of the pool."""
    found = cross_validated(tables, options.folds, options.seeds, options.jobs)
    scores = score_tables(section, found)
    pool, additive, past, rival = (log_losses(scores, m, found) for m in ("pool", "additive", "precedents", RIVAL))
    better = {name: min(additive[name], past[name]) for name in found}
    section.findings += [
        largest_excess("pool: largest log loss above the better opinion", pool, better, 0.004),
        largest_excess(f"pool: largest log loss above {RIVAL}", pool, rival, 0.01),
        Finding(f"pool: mean log loss above {RIVAL}", float(np.mean([pool[t] - rival[t] for t in found])), 0.0, True),
    ]
    errors = [float(scores[name, "pool"]["calibration error"].mean()) for name in found]
    section.findings.append(Finding("pool: mean calibration error", float(np.mean(errors)), 0.035, True))
    chance = [error_by_chance(folds) for folds in found.values()]
    section.tables["calibration error of the pool, and by chance if its probabilities were correct"] = [
        {"table": name, "pool": f"{error:.4f}", "by chance": f"{expected:.4f}"}
        for name, error, expected in zip(
            [*found, "mean"], [*errors, np.mean(errors)], [*chance, np.mean(chance)], strict=True
        )
    ]


def error_by_chance(folds: list[Fold]) -> float:
    """Mean calibration error of the pool's probabilities for outcomes that are drawn from them."""
    rng, errors = np.random.default_rng(0), []
    of_pool = [result for fold in folds for result in fold.results if result["model"] == "pool"]
    for seed in sorted({result["repeat"] for result in of_pool}):
        p = np.concatenate([result["p"] for result in of_pool if result["repeat"] == seed])
        draws = rng.random((N_DRAWS, len(p))) < p[:, 1]
        errors += [calibration_errors(y.astype(int), p)[0] for y in draws]
    return float(np.mean(errors))


# The whole readmission file


def whole_readmission(section: Section, path: Path) -> None:
    """The additive score alone, one stay per patient, on the split of benchmarks/readmission.py."""
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
    common_options(parser, folds=10)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="run these parts only")
    options = parser.parse_args()
    tables = chosen_tables(parser, options.sets, shown_tables(options.suite, options.readmission))
    section = Section("second opinion")
    if "comparison" in options.parts:
        comparison(section, tables, options)
    with threadpool_limits(1):
        if "whole" in options.parts and options.readmission is not None:
            whole_readmission(section, options.readmission)
        if "speed" in options.parts:
            speed(section)
    section.show()
    write(options.out / "second_opinion.json", section.to_json())


if __name__ == "__main__":
    main()
