"""The time for a fit with default settings, including tuning, and its growth with the size of the table."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pandas as pd
from measure import Finding, Row, Say, Section, run_alone

from bayespatch import PatchworkClassifier, datasets

N_HEART = 240  # training cases of a fold
SIZES = ((250, 10), (500, 10), (1000, 10), (500, 20))  # cases, which are all parents, and features


def simulated(n_cases: int, n_features: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Numeric columns; the first three are informative about the outcome."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n_cases, n_features))
    y = x[:, :3].sum(axis=1) + rng.normal(size=n_cases) > 0
    return pd.DataFrame(x, columns=[f"x{j}" for j in range(n_features)]), y.astype(int)


def seconds_of(X: pd.DataFrame, y: np.ndarray, draws: int) -> tuple[float, float]:
    """Wall-clock and processor seconds."""
    clf = PatchworkClassifier(draws=draws, warmup=draws, random_state=0, n_jobs=2)
    wall, processor = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf.fit(X, y)
    return time.perf_counter() - wall, time.process_time() - processor


def main(quick: bool, tell: Say) -> Section:
    """Heart on two cores, and simulated tables of several sizes."""
    section = Section("fitting")
    draws = 10 if quick else 250
    X, y = datasets.load_heart()
    seconds_of(X[:60], y[:60].to_numpy(), 5)  # kernels are loaded
    wall, _ = seconds_of(X[:N_HEART], y[:N_HEART].to_numpy(), draws)
    section.findings.append(Finding(f"Default fit on {N_HEART} heart cases, two cores", wall, 20.0, True, " s"))
    tell(f"    heart: {wall:.1f} s")
    rows: list[Row] = []
    for n_cases, n_features in SIZES[: 2 if quick else None]:
        wall, processor = seconds_of(*simulated(n_cases, n_features), draws)
        size = n_cases**2 * n_features
        rows.append(
            {
                "cases": n_cases,
                "features": n_features,
                "seconds": wall,
                "processor time, s": processor,
                "processor ns / (N S P sweeps)": 1e9 * processor / (size * 4 * 2 * draws),
            }
        )
        tell(f"    {n_cases} cases, {n_features} features: {wall:.1f} s")
    section.tables["fitting_growth"] = rows
    each = [float(row["processor ns / (N S P sweeps)"]) for row in rows]
    section.findings.append(
        Finding(
            "Cost of a fit per N*S*P, largest table relative to the smallest",
            each[min(2, len(each) - 1)] / each[0],
            1.2,
            True,
        )
    )
    return section


if __name__ == "__main__":
    run_alone(main, __doc__)
