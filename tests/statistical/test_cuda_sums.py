"""Sums over w, and w drawn afresh, against all settings of w enumerated with the model itself."""

import math

import numpy as np
import pytest
from scipy.special import logsumexp

from bayespatch.engine.compiling import compiled
from bayespatch.engine.cuda.summary import summarise_case
from bayespatch.engine.cuda.sums import MAX_SUMMED, compare_settings, redraw_settings
from bayespatch.model import KINDS, class_votes, log_likelihood_features, log_likelihood_labels
from tests.engine.gpu_layout import blank_settings, hand, latent_of, log_settings, settings, w_of

SEEDS = range(6)
N_DRAWS = 20_000


def compare(at, j):
    scratch = blank_settings(at.c), np.zeros(2, np.uint64)
    return compare_settings(at.c.kind, at.c, at.table, at.old, at.new, at.entries, *scratch, np.uint64(7), 0, j)


@compiled
def count_settings(c, table, importance, entries, scratch, j, n_draws, counts):
    """How often each setting of w_0:j is drawn, always from where `entries` are."""
    rng = np.zeros(2, np.uint64)
    for draw in range(n_draws):
        changes = redraw_settings(c.kind, c, table, importance, entries, scratch, rng, np.uint64(draw), 0, j)
        setting = 0
        for s in range(entries.n[0]):
            setting = 2 * setting + int(entries.bits[0, s, j >> 5] >> np.uint32(j & 31) & np.uint32(1))
        for r in range(MAX_SUMMED):
            if (changes >> r) & 1:
                setting ^= 1 << int(entries.n[0] - 1 - scratch.entry[r])
        counts[setting] += 1


def check_draws(at, j, expected):
    """Settings of w_0:j, of three entries, are drawn with these probabilities."""
    counts = np.zeros(8)
    count_settings(at.c, at.table, at.new, at.entries, blank_settings(at.c), j, N_DRAWS, counts)
    error = np.sqrt(expected * (1 - expected) / N_DRAWS)
    # 112 comparisons in all: 4.5 standard errors are exceeded by chance once in a thousand such tests.
    assert np.all(np.abs(counts / N_DRAWS - expected) <= 4.5 * error + 1e-9)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["II", "III"])
def test_log_ratio_is_that_of_the_enumerated_sums(kind, seed):
    at = hand(kind, seed)
    for j in range(3):
        before, after = (sum(settings(at, q, j, [0, 1, 2]).values()) for q in (at.old, at.new))
        assert compare(at, j) == pytest.approx(math.log(after / before), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["II", "III"])
def test_w_is_drawn_in_proportion_to_the_enumerated_weights(kind, seed):
    at = hand(kind, seed)
    j = seed % 3
    weights = np.array(list(settings(at, at.new, j, [0, 1, 2]).values()))
    check_draws(at, j, weights / weights.sum())


@pytest.mark.parametrize("kind", ["II", "III"])
def test_where_few_may_be_summed_the_others_count_through_their_prior(kind):
    at = hand(kind, seed=3, max_summed=2)
    possible = []
    for start in range(3):
        summed = sorted({start, (start + 1) % 3})
        w = w_of(at.entries, 0, 3)
        before, after = (sum(settings(at, q, 1, summed).values()) for q in (at.old, at.new))
        possible.append(math.log(after / before))
        assert (w_of(at.entries, 0, 3) == w).all()
    assert min(abs(compare(at, 1) - value) for value in possible) < 1e-9


@pytest.mark.parametrize("kind", ["II", "III"])
def test_where_few_may_be_summed_the_others_stay_as_they_are(kind):
    at = hand(kind, seed=3, max_summed=2)
    w = w_of(at.entries, 0, 3)
    expected = np.zeros(8)
    for start in range(3):
        summed = [start, (start + 1) % 3]
        weights = settings(at, at.new, 1, summed)
        for setting, weight in weights.items():
            w[summed, 1] = setting
            expected[int(w[:, 1] @ [4, 2, 1])] += weight / sum(weights.values()) / 3
        w = w_of(at.entries, 0, 3)
    check_draws(at, 1, expected)


@pytest.mark.parametrize("n_neighbors", [4, 5])
@pytest.mark.parametrize("kind", ["II", "III"])
def test_however_many_features_nothing_leaves_the_range_of_a_double(kind, n_neighbors):
    at = hand(kind, seed=5, n_neighbors=n_neighbors, n_features=150)
    for j in (0, 40, 149):
        found = compare(at, j)
        possible = []
        for start in range(n_neighbors):
            summed = sorted((start + r) % n_neighbors for r in range(4))
            before, after = (logsumexp(list(log_settings(at, q, j, summed).values())) for q in (at.old, at.new))
            possible.append(after - before)
        assert min(abs(found - value) for value in possible) < 1e-9


@pytest.mark.parametrize("kind", KINDS)
def test_votes_and_log_likelihood_are_those_of_the_model(kind):
    at = hand(kind, seed=1, n_features=11)
    shares = np.zeros((2, 2))
    log = summarise_case(at.c.kind, at.c, at.table, at.entries, np.zeros((2, 11)), np.zeros(2), shares, 0)
    latent = latent_of(at, w_of(at.entries, 0, 11))
    expected = log_likelihood_features(at.data, at.model, latent)[0].sum()
    expected += log_likelihood_labels(at.data, at.model, latent)[0]
    assert log == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(shares[0], class_votes(at.data, at.model, latent)[0], rtol=1e-12)
