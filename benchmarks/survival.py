"""Times to an event: the patchwork, ridge Cox, a random survival forest and gradient boosting.

    python benchmarks/survival.py --folds 10 --out benchmarks/results/survival.json

The data and the other methods come from scikit-survival. For each data set: concordance (Harrell) and integrated Brier
score, means over the folds of one stratified cross-validation, and for the patchwork its calibration at three times:
the mean predicted probability of the event and the Kaplan-Meier estimate of all held-out cases.

    python benchmarks/survival.py --coverage 40

simulates tables with 0, 30 and 60% censoring and measures how often 90% intervals contain the survival function.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sksurv.datasets import load_flchain, load_gbsg2, load_veterans_lung_cancer, load_whas500
from sksurv.ensemble import GradientBoostingSurvivalAnalysis, RandomSurvivalForest
from sksurv.linear_model import CoxPHSurvivalAnalysis
from sksurv.metrics import concordance_index_censored, integrated_brier_score

from bayespatch import PatchworkSurvival
from bayespatch.survival import kaplan_meier

RIDGE = [0.1, 1.0, 10.0, 100.0]
CALIBRATED_AT = (0.25, 0.5, 0.75)  # quantiles of the times of events


def tables(rows):
    """Features, and structured outcomes with the event first."""
    loaders = {"GBSG2": load_gbsg2, "WHAS500": load_whas500, "veterans": load_veterans_lung_cancer}
    found = {name: load() for name, load in loaders.items()}
    X, y = load_flchain()
    chosen = np.random.default_rng(0).permutation(len(X))[:rows]
    # The chapter is that of the cause of death: it is known only afterwards.
    found["FLCHAIN"] = X.iloc[chosen].reset_index(drop=True).drop(columns="chapter"), y[chosen]
    return found


def as_numbers(X):
    """The input of the other methods: numbers, indicators of categories, medians for missing values."""
    numbers = pd.get_dummies(X, drop_first=True).astype(float)
    return numbers.fillna(numbers.median())


def rivals(seed):
    cox = make_pipeline(StandardScaler(), CoxPHSurvivalAnalysis(n_iter=200))
    return {
        "ridge Cox": GridSearchCV(cox, {"coxphsurvivalanalysis__alpha": RIDGE}, cv=5),
        "forest": RandomSurvivalForest(100, min_samples_leaf=10, random_state=seed),
        "boosting": GradientBoostingSurvivalAnalysis(n_estimators=100, learning_rate=0.1, random_state=seed),
    }


def times_of(y, train, test):
    """Times at which the predictions of a fold are scored: within the follow-up of both parts."""
    event, time = y.dtype.names
    happened = y[time][train][y[event][train]]
    grid = np.unique(np.quantile(happened, np.linspace(0.05, 0.95, 40)))
    last = min(y[time][train].max(), y[time][test].max())
    return grid[(grid > y[time][test].min()) & (grid < last)]


def judged(y, train, test, risk, curves, times):
    event, time = y.dtype.names
    known = y[time][test] < y[time][train].max()  # the censoring distribution is known up to there
    brier = integrated_brier_score(y[train], y[test][known], np.clip(curves[known], 1e-9, 1.0), times)
    return [concordance_index_censored(y[event][test], y[time][test], risk)[0], brier]


def compare(X, y, folds, seed):
    event, time = y.dtype.names
    scores, calibration, weights, seconds = {}, [], [], []
    for train, test in StratifiedKFold(folds, shuffle=True, random_state=seed).split(X, y[event]):
        times, numbers = times_of(y, train, test), as_numbers(X)
        for name, model in rivals(seed).items():
            model.fit(numbers.iloc[train], y[train])
            best = getattr(model, "best_estimator_", model)
            curves = np.vstack([curve(times) for curve in best.predict_survival_function(numbers.iloc[test])])
            scores.setdefault(name, []).append(judged(y, train, test, model.predict(numbers.iloc[test]), curves, times))
        began = perf_counter()
        model = PatchworkSurvival(random_state=seed).fit(X.iloc[train].reset_index(drop=True), y[train])
        seconds.append(perf_counter() - began)
        opinions = model.predict_opinions(X.iloc[test], times)
        risks = {"patchwork": model.predict(X.iloc[test])}
        risks["precedents alone"] = -opinions["precedents"].sum(axis=1)
        for name, risk in risks.items():
            curves = opinions["pool" if name == "patchwork" else "precedents"]
            scores.setdefault(name, []).append(judged(y, train, test, risk, curves, times))
        weights.append(model.pool_.weight)
        at = np.quantile(y[time][y[event]], CALIBRATED_AT)
        calibration.append(1.0 - model.predict_opinions(X.iloc[test], at)["pool"])
    curve = kaplan_meier(y[time].astype(float), y[event])
    return {
        "rows": len(X),
        "events": int(y[event].sum()),
        "scores": {
            name: dict(zip(("concordance", "brier"), np.mean(s, axis=0), strict=True)) for name, s in scores.items()
        },
        "calibration": [
            {"time": float(t), "predicted": float(p), "observed": float(1.0 - curve.at([t])[0, 0])}
            for t, p in zip(at, np.concatenate(calibration).mean(axis=0), strict=True)
        ],
        "cox_weight": float(np.mean(weights)),
        "seconds": float(np.mean(seconds)),
    }


def simulated(n, censored, rng):
    """Weibull times with an interaction, with this share of the rows censored."""
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.choice(["yes", "no"], n), "c": rng.normal(size=n)})
    log_rate = 0.8 * X.a + 0.8 * (X.b == "yes") * (X.c > 0)
    rate = np.exp(log_rate.to_numpy())
    time = (rng.exponential(size=n) / rate) ** (1 / 1.3)
    if not censored:
        return X, rate, time, np.ones(n, bool)
    end = rng.exponential(size=n)
    low, high = 1e-3, 1e3
    for _ in range(60):
        middle = np.sqrt(low * high)
        low, high = (middle, high) if (middle * end < time).mean() > censored else (low, middle)
    return X, rate, np.minimum(time, low * end), time <= low * end


def coverage(n_tables, n, seed):
    found = {}
    for censored in (0.0, 0.3, 0.6):
        rng, hits, width = np.random.default_rng([seed, int(100 * censored)]), [], []
        for _ in range(n_tables):
            X, _, time, event = simulated(n, censored, rng)
            y = np.array(list(zip(event, time, strict=True)), dtype=[("event", bool), ("time", float)])
            model = PatchworkSurvival(random_state=seed, draws=50).fit(X, y)
            new, rate, _, _ = simulated(100, 0.0, rng)
            times = np.quantile(time[event], CALIBRATED_AT)
            truth = np.exp(-(times**1.3) * rate[:, None])
            ends = model.predict_survival_interval(new, times)
            hits.append((ends[..., 0] <= truth) & (truth <= ends[..., 1]))
            width.append(ends[..., 1] - ends[..., 0])
        by_time = np.mean(hits, axis=(0, 1))
        found[f"{censored:.0%}"] = {
            "coverage": float(np.mean(hits)),
            "by_time": by_time.tolist(),
            "width": float(np.mean(width)),
        }
        print(f"{censored:.0%} censored: 90 % intervals cover {np.mean(hits):.1%} {by_time.round(3)}", flush=True)
    return found


def shown(name, found):
    print(f"\n{name}: {found['rows']} rows, {found['events']} events, {found['seconds']:.1f} s a fit")
    for method, score in found["scores"].items():
        print(f"  {method:<18} concordance {score['concordance']:.4f}  integrated Brier score {score['brier']:.4f}")
    for one in found["calibration"]:
        print(f"  at {one['time']:g}: predicted {one['predicted']:.3f}, observed {one['observed']:.3f}")
    print(f"  weight of the Cox model {found['cox_weight']:.2f}", flush=True)


def write(path, found):
    if path:
        path.write_text(json.dumps(found, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folds", type=int, default=10)
    parser.add_argument("--rows", type=int, default=500, help="rows of FLCHAIN")
    parser.add_argument("--sets", nargs="*", default=["GBSG2", "WHAS500", "veterans", "FLCHAIN"])
    parser.add_argument(
        "--coverage",
        type=int,
        default=0,
        metavar="TABLES",
        help="measure coverage on this many simulated tables instead",
    )
    parser.add_argument("--size", type=int, default=400, help="rows of a simulated table")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.coverage:
        write(given.out, coverage(given.coverage, given.size, given.seed))
        return
    found = {}
    for name, (X, y) in tables(given.rows).items():
        if name in given.sets:
            found[name] = compare(X, y, given.folds, given.seed)
            shown(name, found[name])
            write(given.out, found)


if __name__ == "__main__":
    main()
