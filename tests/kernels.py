"""The CPU's kernels, compiled once for all processes of a test run: in a fresh clone that takes a minute.

Each process compiles another half first. Numba keeps on disk what is compiled, so that the other half is there when its
turn comes; without this every process would compile everything, all at the same time.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
from filelock import FileLock

from bayespatch.engine.cpu import CpuEngine
from bayespatch.importances import LeaveOneOut
from bayespatch.model import Model
from bayespatch.predict import predict_cases
from bayespatch.sampling.sampler import sample
from tests.problems import random_data

KEY = np.uint64(1)
FEATURE = np.arange(1)


def updates() -> None:
    """Updates of the cases, and w redrawn."""
    engine = CpuEngine(random_data(0, 6, 5, 2), Model())
    state = engine.start(0, 0)
    engine.update_cases(state, KEY)
    engine.prepare_comparison(state)
    engine.redraw_features(state, KEY, FEATURE)
    engine.draw_importance(state, KEY)
    engine.observe(state)


def comparisons_and_votes() -> None:
    """Proposed importances against present ones, votes on new cases, and leave-one-out."""
    data = random_data(0, 6, 5, 2)
    engine = CpuEngine(data, Model())
    state = engine.start(0, 0)
    engine.prepare_comparison(state)
    used = engine.count_cases(state)
    engine.carry_along(state, KEY, state.logit_q, used, 0, 2)
    engine.compare_importance(state, KEY, KEY, state.logit_q, 0, 2)
    engine.accept_importance(state, used, FEATURE)
    LeaveOneOut(data, Model(), np.full(data.n_classes, 1 / data.n_classes)).shape()
    sizes = {"n_values": data.n_values, "n_classes": data.n_classes, "missing": "ignore"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two draws say nothing
        posterior = sample(
            data.x, data.y, data.x_parents, data.y_parents, **sizes, engine="paper", chains=1, draws=2, warmup=0
        )
        predict_cases(posterior, data)


HALVES = (updates, comparisons_and_votes)


def compile_kernels(folder: Path, number: int) -> None:
    """All kernels; process `number` begins with a half of its own, and waits for what another is compiling."""
    for half in (HALVES[number % 2], HALVES[1 - number % 2]):
        with FileLock(folder / f"{half.__name__}.lock"):
            half()
