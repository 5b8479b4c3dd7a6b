"""Model III: candidates for kappa, weighed quickly and exactly."""

import numpy as np
import pytest
from bayespatch_cuda.layout import Importance
from bayespatch_cuda.weigh import draw_kappa, factor_given_kappa, largest_odds, likely_odds, weight_of_kappa

from bayespatch.engine.paper import N_CANDIDATES
from tests.cuda.gpu_layout import GROUP, B, begun, chances


@pytest.mark.parametrize("n_features", [5, 70])
@pytest.mark.parametrize("seed", range(5))
def test_the_quick_odds_of_model_iii_are_the_exact_ones_and_within_the_bound(seed, n_features):
    at, case, own, change = begun("III", seed, n_features)
    chance, start = chances(at)
    label = at.table.y_parents[B]
    own.candidate[:] = [draw_kappa(at.c, np.zeros(2, np.uint64), np.uint64(9), r) for r in range(N_CANDIDATES)]
    weights = []
    for kappa in own.candidate.astype(float):
        importance = Importance(at.new, chance, GROUP)
        factor = np.array(
            [[factor_given_kappa(at.c, at.table, importance, case, change, 0, B, j, kappa) for j in range(n_features)]]
        )
        weights.append(weight_of_kappa(at.c, at.table, case, factor, 0, B, 0, kappa))
    bound = largest_odds(at.c, chance, own, case, case.label[label], start, GROUP, 8)
    quick = likely_odds(at.c, chance, own, case, label, start, GROUP, bound)
    assert quick == pytest.approx(1.001 * at.c.prior_odds * np.mean(weights), rel=2e-5)
    assert quick <= 1.0011 * bound
