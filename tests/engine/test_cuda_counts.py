"""Model II: weights and draws by the number of features that are on, against all settings of w enumerated."""

import itertools

import numpy as np
import pytest

from bayespatch.engine.cuda_case import Case, Importance, begin_case
from bayespatch.engine.cuda_counts import Pair, draw_features_given_count, prepare_feature, weight_of_count
from bayespatch.engine.streams import compiled
from bayespatch.engine.votes import ON
from bayespatch.model import Latent, log_likelihood_features, log_likelihood_labels
from tests.engine.card_at_hand import hand, w_of

N_DRAWS = 20_000
B = 4  # the parent that may become a neighbor of case 0, which has parents 0, 1, 2


def prepared(seed):
    at = hand("II", seed)
    importance = Importance(at.new, at.new.astype(np.float32))
    case = Case(
        np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32), np.zeros(2), np.zeros(2, np.float32),
        np.zeros(1, np.uint32), np.zeros(1, np.uint32),
    )  # fmt: skip
    begin_case(2, at.c, at.table, at.entries, case, 0)
    case.same[0] = at.table.same[0, 0, B]
    return at, importance, case


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
    at, importance, case = prepared(seed)
    pair = Pair(*(np.zeros(3, np.float32) for _ in range(5)))
    for j in range(3):
        prepare_feature(at.c, at.table, importance, case, pair, 0, B, j)
    poly = np.zeros(4, np.float32)
    found = np.array([weight_of_count(at.c, at.table, case, pair, poly, 0, B, k) for k in range(4)])
    expected = np.zeros(4)
    for setting, weight in weights_by_setting(at).items():
        expected[sum(setting)] += weight
    np.testing.assert_allclose(found / found.sum(), expected / expected.sum(), rtol=2e-5)


@compiled
def count_settings(c, table, importance, case, k, n_draws, counts):
    rng = np.array([1, 2], np.uint64)
    prefix = np.zeros((4, 4), np.float32)
    flags = np.zeros(3, np.int32)
    for _ in range(n_draws):
        draw_features_given_count(c, table, importance, case, rng, prefix, flags, 0, 4, k)
        counts[4 * flags[0] + 2 * flags[1] + flags[2]] += 1


@pytest.mark.parametrize("k", [0, 1, 2, 3])
def test_w_given_their_number_is_drawn_in_proportion_to_the_weights(k):
    at, importance, case = prepared(seed=k)
    weights = weights_by_setting(at)
    expected = np.array([weight if sum(setting) == k else 0.0 for setting, weight in weights.items()])
    expected /= expected.sum()
    counts = np.zeros(8)
    count_settings(at.c, at.table, importance, case, k, N_DRAWS, counts)
    error = np.sqrt(expected * (1 - expected) / N_DRAWS)
    assert np.all(np.abs(counts / N_DRAWS - expected) <= 4.5 * error + 1e-9)
