"""Calibration of the importances' error bars, and stability of the answers.

``python benchmarks/stability.py [--suite FOLDER] [--parts halves coverage steady base speed]`` measures on heart
(and the CSV files of the folder, target last, for base rates):

halves     fits to two random halves of the table: |difference of mean q_j| over the root of the summed variances;
coverage   outcomes drawn from the voting model with known importances: share of 90% intervals that contain the truth;
steady     60 held-out patients, several seeds: differences of the probabilities, compared with the stated error;
base       a row of missing values: the base rates, with and without class weights;
speed      predict_proba of 1,000 heart-sized cases, and a fit of 3,000 rows of 20 columns.

Results are kept in results/stability.json, and docs/stability.md is written from them.
"""

from __future__ import annotations

import argparse
import json
import textwrap
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sets import Table, breast, from_file, heart

from bayespatch import PatchworkClassifier, datasets
from bayespatch.importances import (
    APART_SD,
    COMMON_MEAN,
    COMMON_SD,
    LOG_SLOPE_MEAN,
    LOG_SLOPE_SD,
    LeaveOneOut,
    draw_importances,
)
from bayespatch.model import Data, Model
from bayespatch.tune import constants

HOME = Path(__file__).parent
N_ROUNDS = 150  # of a tenth of the outcomes each, before they follow from each other
RESULTS, PAGE = HOME / "results" / "stability.json", HOME.parent / "docs" / "stability.md"


def halves(n_splits: int = 10) -> dict[str, Any]:
    """Compare fits to disjoint halves, whose importances should differ as much as their posteriors imply."""
    X, y = datasets.load_heart()
    ratios = []
    for split in range(n_splits):
        order = np.random.default_rng(split).permutation(len(y))
        draws = []
        for rows in np.array_split(order, 2):
            clf = PatchworkClassifier(random_state=split, bins="quantile").fit(X.iloc[rows], y.iloc[rows])
            draws.append(clf.posterior_.q.reshape(-1, X.shape[1]))
        mean, variance = (np.array([getattr(q, name)(axis=0) for q in draws]) for name in ("mean", "var"))
        ratios.append(np.abs(mean[0] - mean[1]) / np.sqrt(variance.sum(axis=0)))
    flat = np.concatenate(ratios)
    return {
        "splits": n_splits,
        "median": float(np.median(flat)),
        "share_below_3": float((flat < 3).mean()),
        "largest": float(flat.max()),
        "posterior_sd": [float(np.sqrt(v)) for v in np.quantile(variance, [0.1, 0.5, 0.9])],
    }


def voting_data(rng: np.random.Generator, n: int, n_features: int, together: bool) -> tuple[Data, np.ndarray]:
    """Random features, importances from their prior, and outcomes drawn from the votes of other cases.

    With separate parents and cases, the posterior is exactly that of the model that generated the data. `together`:
    every case is a candidate parent of every other, as in a fit with all parents. Outcomes are then redrawn repeatedly,
    some at a time, each given all others, until each follows its leave-one-out prediction.
    """
    x = rng.integers(0, 3, (2 * n, n_features)).astype(np.float64)
    logits = rng.normal(COMMON_MEAN, COMMON_SD) + rng.normal(0.0, APART_SD, n_features)
    position = np.append(logits, rng.normal(LOG_SLOPE_MEAN, LOG_SLOPE_SD))
    # At first outcomes follow a hidden pattern, so that there is something to find.
    score = rng.normal(0.0, 1.0, (3, n_features))[x.astype(int), np.arange(n_features)].sum(axis=1)
    y = (score > np.median(score)).astype(np.int64)
    base = np.array([0.5, 0.5])
    n_values, windows = np.full(n_features, 3.0), np.zeros(n_features)

    def density(data: Data) -> LeaveOneOut:
        return LeaveOneOut(data, Model(hyper=constants(data, base)), base)

    def probability(data: Data) -> np.ndarray:
        """Probability of the second class for each case, from the votes of its parents."""
        return np.exp(density(data._replace(y=np.ones_like(data.y))).predict(position, False)[0])

    if not together:
        data = Data(x[n:], y[n:], x[:n], y[:n], n_values, 2, windows, np.full(n, -1))
        return data._replace(y=(rng.random(n) < probability(data)).astype(np.int64)), density(data).importance(logits)
    for _ in range(N_ROUNDS):
        some = rng.choice(2 * n, 2 * n // 10, replace=False)
        p = probability(Data(x[some], y[some], x, y, n_values, 2, windows, some))
        y[some] = rng.random(len(some)) < p
    data = Data(x, y, x, y, n_values, 2, windows, np.arange(2 * n))
    return data, density(data).importance(logits)


def coverage(n_tables: int = 50) -> dict[str, Any]:
    """How often 90% and 50% intervals contain the importance from which the outcomes were drawn."""
    found: dict[str, Any] = {}
    for together in (False, True):
        inside: dict[float, list[float]] = {0.9: [], 0.5: []}
        for table in range(n_tables):
            rng = np.random.default_rng([7, table])
            data, q = voting_data(rng, 150, 8, together)
            base = np.array([0.5, 0.5])
            density = LeaveOneOut(data, Model(hyper=constants(data, base)), base)
            drawn = draw_importances(density, density.shape(), chains=4, warmup=20, draws=60, seed=table)
            draws = drawn.given[:, 20:].reshape(-1, len(q))
            for level, hits in inside.items():
                low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
                hits.append(float(((low <= q) & (q <= high)).mean()))
        name = "all past cases predict each other" if together else "parents and cases apart"
        found[name] = {
            f"{level:.0%}": {"share": float(np.mean(hits)), "error": float(np.std(hits, ddof=1) / np.sqrt(n_tables))}
            for level, hits in inside.items()
        }
    return {"tables": n_tables, **found}


def steady(n_seeds: int = 4) -> dict[str, Any]:
    """The same patients and training table, with different seeds."""
    X, y = datasets.load_heart()
    order = np.random.default_rng(0).permutation(len(y))
    new, past = order[:60], order[60:]
    found: dict[str, Any] = {}
    for second in ("auto", None):
        p, errors, tops = [], [], []
        for seed in range(n_seeds):
            clf = PatchworkClassifier(random_state=seed, second_opinion=second).fit(X.iloc[past], y.iloc[past])
            parts = list(clf._predictions(clf.fitted_, X.iloc[new], detail="shares")[1])
            weight = 1.0 if clf.pool_ is None else 1.0 - clf.pool_.weight
            errors.append(weight * clf.calibration_.error(np.concatenate([part.votes_by_batch for part in parts])))
            p.append(clf.predict_proba(X.iloc[new])[:, 1])
            share = np.concatenate([part.neighbors.share for part in parts if part.neighbors is not None])
            tops.append([set(np.argsort(-row)[:4].tolist()) for row in share])
        pairs = [(a, b) for a in range(n_seeds) for b in range(a)]
        gaps = np.array([np.abs(p[a] - p[b]) for a, b in pairs])
        within = np.array([np.sqrt(errors[a] ** 2 + errors[b] ** 2) for a, b in pairs])
        shared = [len(one & other) / 4 for a, b in pairs for one, other in zip(tops[a], tops[b], strict=True)]
        found["with the second opinion" if second else "precedents alone"] = {
            "mean_difference": float(gaps.mean()),
            "largest_difference": float(gaps.max()),
            "stated_error": float(np.mean(errors)),
            "largest_stated_error": float(np.max(errors)),
            "difference_over_stated": float(np.sqrt(np.mean((gaps / within) ** 2))),
            "same_four_neighbors": float(np.mean(shared)),
        }
    row = X.iloc[[-1]]
    demo = [
        float(PatchworkClassifier(random_state=seed).fit(X.iloc[:-1], y.iloc[:-1]).explain(row).probabilities[name])
        for seed in range(10)
        for name in ["heart disease"]
    ]
    return {"patients": 60, "seeds": n_seeds, **found, "demo_patient": demo, "demo_range": max(demo) - min(demo)}


def base(tables: list[Table]) -> dict[str, Any]:
    """A row of missing values, compared with the class frequencies."""
    found = {}
    for table in tables:
        unknown = pd.DataFrame({name: pd.Series([np.nan], dtype=table.X[name].dtype) for name in table.X})
        frequencies = np.bincount(table.y) / len(table.y)
        gaps = {}
        for weight, expected in ((None, frequencies), ("balanced", np.full(len(frequencies), 1 / len(frequencies)))):
            clf = PatchworkClassifier(random_state=0, class_weight=weight).fit(table.X, table.y)
            gaps["weighted" if weight else "plain"] = float(np.abs(clf.predict_proba(unknown)[0] - expected).max())
        found[table.name] = gaps
    return found


def speed() -> dict[str, Any]:
    """Wall-clock and processor seconds, with all cores."""
    X, y = datasets.load_heart()
    rows = X.iloc[np.random.default_rng(0).integers(0, len(X), 1000)]
    clf = PatchworkClassifier(random_state=0).fit(X, y)
    alone = PatchworkClassifier(random_state=0, second_opinion=None).fit(X, y)
    found: dict[str, Any] = {}
    rng = np.random.default_rng(0)
    many = rng.normal(size=(3000, 20))
    outcome = (many[:, 0] + many[:, 1] * many[:, 2] + rng.normal(size=3000) > 0).astype(int)
    tasks: dict[str, Callable[[], object]] = {
        "predict_proba of 1,000 heart-sized cases": lambda: clf.predict_proba(rows),
        "the same, precedents alone": lambda: alone.predict_proba(rows),
        "explain one heart case": lambda: clf.explain(X.iloc[0]),
        "fit of heart": lambda: PatchworkClassifier(random_state=0).fit(X, y),
        "fit of heart, precedents alone": lambda: PatchworkClassifier(random_state=0, second_opinion=None).fit(X, y),
        "fit of 3,000 rows, 20 columns": lambda: PatchworkClassifier(random_state=0).fit(many, outcome),
    }
    for name, task in tasks.items():
        began, cpu = time.perf_counter(), time.process_time()
        task()
        found[name] = {"seconds": time.perf_counter() - began, "processor_seconds": time.process_time() - cpu}
    return found


def page(found: dict[str, Any]) -> str:
    """docs/stability.md."""
    parts = [
        (
            "# Calibration and stability",
            "This page shows how well the error bars of the importances are calibrated, how much answers change with "
            "the random seed, and what is predicted for a patient without any known value. `python "
            "benchmarks/stability.py` writes it and `benchmarks/results/stability.json`.",
        ),
        *(_halves(found["halves"]) if "halves" in found else ()),
        *(_coverage(found["coverage"]) if "coverage" in found else ()),
        *(_steady(found["steady"]) if "steady" in found else ()),
        *(_base(found["base"]) if "base" in found else ()),
        *(_speed(found["speed"]) if "speed" in found else ()),
    ]
    blocks = [block if block.startswith("|") else textwrap.fill(block, 120) for part in parts for block in part]
    return "\n\n".join(blocks) + "\n"


def _halves(part: dict[str, Any]) -> list[tuple[str, ...]]:
    low, middle, high = part["posterior_sd"]
    text = (
        f"The heart data are split into two random halves {part['splits']} times, and a model is fitted to each half. "
        "For each feature, the difference of the two posterior means is divided by the square root of the sum of "
        f"their posterior variances. The absolute ratios have a median of **{part['median']:.2f}** (0.67 for normal "
        "posteriors with correct error bars; shrinkage lowers it), "
        f"**{part['share_below_3']:.1%}** are below 3, and the largest is {part['largest']:.2f}. Posterior standard "
        f"deviations range from {low:.2f} to {high:.2f} (10% and 90% quantiles), with a median of {middle:.2f}."
    )
    return [("## Error bars of the importances", text)]


def _coverage(part: dict[str, Any]) -> list[tuple[str, ...]]:
    text = (
        f"Coverage is measured on {part['tables']} simulated tables of 8 features, with outcomes drawn from the voting "
        "model (one neighbor, one slope) with known importances. The table states the share of intervals that contain "
        "the true importance."
    )
    lines = ["| | 90% intervals | 50% intervals |", "|---|---|---|"]
    names = {
        "parents and cases apart": "voters and predicted cases are separate",
        "all past cases predict each other": "",
    }
    for name, shown in names.items():
        cells = [f"{part[name][level]['share']:.1%} ± {part[name][level]['error']:.1%}" for level in ("90%", "50%")]
        lines.append(f"| {shown or name} | {cells[0]} | {cells[1]} |")
    return [(text, "\n".join(lines))]


def _steady(part: dict[str, Any]) -> list[tuple[str, ...]]:
    text = (
        f"Heart data, {part['patients']} held-out patients, {part['seeds']} fits that differ only in the seed. All "
        "pairs of fits are compared; the differences are between predicted probabilities."
    )
    lines = [
        "| | mean difference | largest | stated error | largest | rms difference / stated | same four neighbors |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in ("with the second opinion", "precedents alone"):
        row = part[name]
        lines.append(
            f"| {name} | {row['mean_difference']:.4f} | {row['largest_difference']:.4f} "
            f"| {row['stated_error']:.4f} | {row['largest_stated_error']:.4f} "
            f"| {row['difference_over_stated']:.2f} | {row['same_four_neighbors']:.0%} |"
        )
    demo = part["demo_patient"]
    spread = (
        f"With seeds 0 to 9, the probability of heart disease for one patient lies between {min(demo):.3f} and "
        f"{max(demo):.3f} (a range of {100 * part['demo_range']:.1f} percentage points)."
    )
    return [("## Other seeds", text, "\n".join(lines), spread)]


def _base(part: dict[str, Any]) -> list[tuple[str, ...]]:
    lines = ['| table | default | class_weight="balanced" |', "|---|---|---|"]
    lines += [f"| {name} | {gap['plain']:.4f} | {gap['weighted']:.4f} |" for name, gap in part.items()]
    text = (
        "If all values are missing, the prediction is the (weighted) class frequency. The table shows the largest "
        "difference from it:"
    )
    return [("## A patient without known values", text, "\n".join(lines))]


def _speed(part: dict[str, Any]) -> list[tuple[str, ...]]:
    lines = ["| | wall-clock time, s | processor time, s |", "|---|---|---|"]
    lines += [f"| {name} | {t['seconds']:.2f} | {t['processor_seconds']:.2f} |" for name, t in part.items()]
    return [("## Speed", "\n".join(lines))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ("halves", "coverage", "steady", "base", "speed")
    parser.add_argument("--parts", nargs="*", choices=names, default=names)
    parser.add_argument("--suite", type=Path, help="folder with more tables, for the base rates")
    wanted = parser.parse_args()
    tables = [heart(), breast()]
    if wanted.suite is not None:
        tables += [from_file(path) for path in sorted(wanted.suite.glob("*.csv"))]
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    run = {"halves": halves, "coverage": coverage, "steady": steady, "base": lambda: base(tables), "speed": speed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in wanted.parts:
            began = time.perf_counter()
            found[name] = run[name]()
            print(f"{name} ({time.perf_counter() - began:.0f} s): {json.dumps(found[name])[:600]}", flush=True)
            RESULTS.write_text(json.dumps(found, indent=1) + "\n")
            PAGE.write_text(page(found))


if __name__ == "__main__":
    main()
