"""The study's parts at the smallest size that still runs: real tables for tests of what is made from them."""

from dataclasses import replace
from functools import cache, cached_property

import numpy as np
import pytest

from bayespatch.predict import sampled as predict
from study import baselines, cohorts
from study.parts import PARTS, Context, computation, prediction
from study.protocol import QUICK

N_PATIENTS = 40  # of each cohort
TINY = replace(
    QUICK,
    n_parents=8,
    warmup=1,
    draws=2,
    scan_warmup=1,
    scan_draws=2,
    importance_warmup=2,
    importance_draws=6,
    prediction_draws=2,
    case_sweeps=4,
    readmission=40,
)


class TinyContext(Context):
    """Few sweeps, few patients."""

    @cached_property
    def both(self):
        return few(cohorts.heart()), few(cohorts.breast(self.seed))


def few(cohort):
    """Some patients of each class."""
    rows = np.concatenate([np.flatnonzero(cohort.y == outcome)[: N_PATIENTS // 2] for outcome in (0, 1)])
    return replace(cohort, X=cohort.X.iloc[rows], y=cohort.y[rows])


CONTEXT = TinyContext(seed=0, sizes=TINY)


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
        patch.setattr(computation, "N_PARENTS", (10, 20, 30))
        patch.setattr(computation, "LONG", computation.SHORT + 1)
        patch.setattr(computation, "N_REPEATS", 1)
        # Draws so few say little, however often they are used.
        patch.setitem(predict.predict_batches.__kwdefaults__, "max_passes", 1)
        full = few(cohorts.full_heart()), few(cohorts.full_breast())
        patch.setattr(cohorts, "full_heart", lambda: full[0])
        patch.setattr(cohorts, "full_breast", lambda: full[1])
        return {table.name: table for table in part(name).compute(CONTEXT)}
