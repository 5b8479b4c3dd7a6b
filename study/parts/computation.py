"""Time per sweep (``fig:cpu1``) of Models I, II, III and BCM, by number of parents and features."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import numpy as np

from bayespatch.model import Hyperparameters
from bayespatch.sampling.diagnostics import MixingWarning
from bayespatch.sampling.sampler import sample
from study.bcm import CaseModel, start, sweep
from study.cohorts import Cohort
from study.parts.context import Context
from study.protocol import MODELS
from study.tables import Table

N_PARENTS = (20, 40, 60, 80, 100)
N_FEATURES = (4, 7, 10, 13)
SHORT, LONG = 2, 12  # sweeps; time per sweep comes from the difference, which excludes setup time
N_REPEATS = 3  # the fastest counts, because other load on the machine only adds time


def time_per_sweep(context: Context) -> list[Table]:
    """Milliseconds per sweep on one thread; BCM has as many prototypes as our models have parents.

    Because these are measured times, this is the only table that differs between runs.
    """
    cohort = context.both[0]
    n_parents, n_features = (N_PARENTS, N_FEATURES) if context.sizes.scan_all else (N_PARENTS[:2], N_FEATURES[-2:])
    records = []
    cases = [("S", s, s, 13) for s in n_parents] + [("P", p, n_parents[-2], p) for p in n_features]
    for varied, value, s, p in cases:
        context.tell(f"S={s}, P={p}")
        for method in (*MODELS, "BCM"):
            took = _milliseconds(cohort, method, s, p)
            records.append(
                {"varied": varied, "value": value, "S": s, "P": p, "method": _name(method), "ms per sweep": took}
            )
    return [Table.of_records("time", "Milliseconds per sweep, one thread, heart disease", records)]


def _name(method: str) -> str:
    return method if method == "BCM" else f"Model {method}"


def _milliseconds(cohort: Cohort, method: str, n_parents: int, n_features: int) -> float:
    codes = np.column_stack([cohort.X[name].cat.codes for name in cohort.X.columns])[:, :n_features].astype(np.int64)
    n_values = np.maximum(codes.max(axis=0) + 1, 2)
    run: Callable[[int], object]
    if method == "BCM":
        model, rng = CaseModel(n_parents, 1.0), np.random.default_rng(0)
        state = start(codes[n_parents:], model, rng)

        def run(n_sweeps: int) -> None:
            now = state
            for _ in range(n_sweeps):
                now = sweep(now, codes[n_parents:], n_values, model, rng)
    else:

        def run(n_sweeps: int) -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MixingWarning)
                sample(
                    codes[n_parents:],
                    cohort.y[n_parents:],
                    codes[:n_parents],
                    cohort.y[:n_parents],
                    n_values=n_values,
                    n_classes=2,
                    hyper=Hyperparameters.paper(),
                    model=method,
                    chains=1,
                    warmup=0,
                    draws=n_sweeps,
                    n_threads=1,
                )

    run(1)  # compiles
    took = {}
    for n_sweeps in (SHORT, LONG):
        times = []
        for _ in range(N_REPEATS):
            begun = time.perf_counter()
            run(n_sweeps)
            times.append(time.perf_counter() - begun)
        took[n_sweeps] = min(times)
    return 1000.0 * (took[LONG] - took[SHORT]) / (LONG - SHORT)
