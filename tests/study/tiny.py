"""The study's parts at the smallest size that still runs: real tables for tests of what is made from them."""

from dataclasses import replace
from functools import cache

import pytest

from bayespatch.study import baselines
from bayespatch.study.parts import PARTS, Context, computation, prediction
from bayespatch.study.protocol import QUICK

TINY = replace(
    QUICK,
    n_parents=8,
    warmup=1,
    draws=2,
    scan_warmup=1,
    scan_draws=2,
    importance_draws=6,
    prediction_draws=2,
    case_sweeps=4,
    readmission=40,
)


def part(name):
    return next(found for found in PARTS if found.name == name)


@cache
def tables_of(name):
    """The tables of a part by name; ensembles are kept small, and BCM has fewer variants."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(baselines, "N_BOOSTED", (5,))
        patch.setattr(baselines, "N_TREES", (5,))
        patch.setattr(prediction, "CASE_CLUSTERS", (4, 8))
        patch.setattr(prediction, "CASE_ALPHAS", (0.01, 0.1))
        patch.setattr(computation, "LONG", computation.SHORT + 1)
        return {table.name: table for table in part(name).compute(Context(seed=0, sizes=TINY))}
