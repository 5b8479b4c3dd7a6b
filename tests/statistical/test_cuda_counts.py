"""Model II: weights and draws by the number of features that are on, against all settings of w enumerated."""

import itertools

import numpy as np
import pytest
from bayespatch_cuda.layout import Importance
from bayespatch_cuda.update import Case, Change, begin_case, refresh_labels
from bayespatch_cuda.weigh import (
    Pair,
    choose_count,
    next_coefficient,
    prepare_count,
    prepare_feature,
    weight_of_count,
)

from bayespatch.engine.compiling import compiled
from bayespatch.engine.votes import ON
from bayespatch.model import Latent, log_likelihood_features, log_likelihood_labels
from tests.cuda.gpu_layout import B, hand, w_of

N_DRAWS = 20_000


def prepared(seed):
    at = hand("II", seed)
    importance = Importance(at.new, np.zeros(0, np.float32), 1)
    rows = [np.zeros(shape, np.float32) for shape in ((2, 3), (3, 2), (2, 3))]
    case = Case(*rows, np.zeros(2, np.float32), np.zeros(2, np.float32), np.zeros((2, 2), np.float32))
    begin_case(2, at.c, at.table, at.entries, case, 0, 0, 1)
    refresh_labels(2, at.c, at.table, case, 0, 0, 1)
    change = Change(np.zeros(1, np.uint32), at.table.same[:, 0, B].copy())
    pair = Pair(*(np.zeros(3, np.float32) for _ in range(6)))
    for j in range(3):
        prepare_feature(at.c, at.table, importance, case, change, pair, 0, B, j)
    poly = np.zeros(4, np.float32)
    weight = np.array([weight_of_count(at.c, case, pair, poly, at.table.y_parents[B], k) for k in range(4)], np.float32)
    return at, pair, weight


def weights_by_setting(at):
    """Every w of parent B -> its probability times the likelihood of case 0 with it as a neighbor."""
    z = np.zeros((2, 5), bool)
    w = np.zeros((2, 5, 3), bool)
    z[0, [0, 1, 2, B]] = True
    w[0, :3] = w_of(at.entries, 0, 3)
    weights = {}
    for setting in itertools.product([False, True], repeat=3):
        w[0, B] = setting
        latent = Latent(np.full(3, 0.5), z, w, np.zeros((2, 5)))
        log = log_likelihood_features(at.data, at.model, latent)[0].sum()
        log += log_likelihood_labels(at.data, at.model, latent)[0]
        on = at.new[ON, B]
        weights[setting] = np.exp(log) * np.prod(np.where(setting, on, 1 - on))
    return weights


@pytest.mark.parametrize("seed", range(6))
def test_weights_of_counts_are_sums_over_settings(seed):
    at, _, found = prepared(seed)
    expected = np.zeros(4)
    for setting, weight in weights_by_setting(at).items():
        expected[sum(setting)] += weight
    np.testing.assert_allclose(found / found.sum(), expected / expected.sum(), rtol=2e-5)


@pytest.mark.parametrize("seed", range(3))
def test_the_odds_are_those_of_the_sum_over_all_settings(seed):
    at, pair, weight = prepared(seed)
    z = np.zeros((2, 5), bool)
    z[0, :3] = True
    w = np.zeros((2, 5, 3), bool)
    w[0, :3] = w_of(at.entries, 0, 3)
    without = Latent(np.full(3, 0.5), z, w, np.zeros((2, 5)))
    log = log_likelihood_features(at.data, at.model, without)[0].sum()
    log += log_likelihood_labels(at.data, at.model, without)[0]
    odds = at.c.prior_odds * sum(weights_by_setting(at).values()) / np.exp(log)
    limit = odds / (1 + odds)
    for u, yes in ((limit * (1 - 1e-5), True), (limit * (1 + 1e-5), False)):
        assert (choose_count(at.c, pair, weight, np.uint64(int(u * 2**53)) << np.uint64(11)) >= 0) == yes


@compiled
def count_settings(c, off, on, pair, k, n_draws, counts):
    poly = np.zeros(4, np.float32)
    above = np.zeros(4, np.float32)
    decided = np.zeros((3, 4), np.bool_)
    for draw in range(n_draws):
        pair.off[:] = off
        pair.on[:] = on
        poly[:] = 0.0
        poly[0] = 1.0
        for j in range(3):
            prepare_count(c, pair, np.uint64(draw), j, k)
        for j in range(3):
            for degree in range(4):
                above[degree], decided[j, degree] = next_coefficient(pair, poly, j, degree)
            poly[:] = above
        left = k
        setting = 0
        for j in range(2, -1, -1):
            if decided[j, left]:
                setting += 4 >> j
                left -= 1
        counts[setting] += 1


@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_w_given_their_number_is_drawn_in_proportion_to_the_weights(k):
    at, pair, _ = prepared(seed=k)
    weights = weights_by_setting(at)
    expected = np.array([weight if sum(setting) == k else 0.0 for setting, weight in weights.items()])
    expected /= expected.sum()
    counts = np.zeros(8)
    count_settings(at.c, pair.off.copy(), pair.on.copy(), pair, k, N_DRAWS, counts)
    error = np.sqrt(expected * (1 - expected) / N_DRAWS)
    assert np.all(np.abs(counts / N_DRAWS - expected) <= 4.5 * error + 1e-9)
