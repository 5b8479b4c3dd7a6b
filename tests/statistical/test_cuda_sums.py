"""Sums over w, and w drawn afresh, against all settings of w enumerated with the model itself."""

import math

import numpy as np
import pytest
from bayespatch_cuda.summary import summarise_case
from bayespatch_cuda.sums import begin_redraw, draw_w, find_tilt, likelihood_of, log_of_silent, log_others
from scipy.special import logsumexp

from bayespatch.engine.compiling import compiled
from bayespatch.model import KINDS, class_votes, log_likelihood_features, log_likelihood_labels
from tests.cuda.gpu_layout import hand, latent_of, log_of_others, log_settings, rules, settings, w_of

SEEDS = range(6)
N_DRAWS = 20_000


def compare(at, j):
    before, after = (
        likelihood_of(at.c.kind, at.c, at.table, rules(at, 5), q, at.entries, 0, j) for q in (at.old, at.new)
    )
    log = math.log(after / before)
    if at.c.kind == 2:
        log += log_of_silent(at.table, at.new, at.entries, 0, j) - log_of_silent(at.table, at.old, at.entries, 0, j)
    return log


@compiled
def draw_column(kind, c, table, nodes, importance, entries, rng, key, j):
    """A setting of w_0:j, drawn from where `entries` are."""
    node, source = begin_redraw(kind, c, table, nodes, importance, entries, rng, key, 0, j)
    setting = 0
    for r in range(entries.n[0]):
        on = draw_w(kind, c, table, nodes, importance, entries, rng, node, source, r, 0, j)
        setting = 2 * setting + int(on)
    return setting


@compiled
def count_settings(kind, c, table, nodes, importance, entries, j, n_draws, counts):
    """How often each setting of w_0:j is drawn."""
    rng = np.zeros(2, np.uint64)
    for draw in range(n_draws):
        counts[draw_column(kind, c, table, nodes, importance, entries, rng, np.uint64(draw), j)] += 1


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["II", "III"])
def test_log_ratio_is_that_of_the_enumerated_sums(kind, seed):
    at = hand(kind, seed)
    for j in range(3):
        before, after = (sum(settings(at, q, j, [0, 1, 2]).values()) for q in (at.old, at.new))
        assert compare(at, j) == pytest.approx(math.log(after / before), rel=1e-9, abs=2e-10)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["II", "III"])
def test_w_is_drawn_in_proportion_to_the_enumerated_weights(kind, seed):
    at = hand(kind, seed)
    j = seed % 3
    weights = np.array(list(settings(at, at.new, j, [0, 1, 2]).values()))
    expected = weights / weights.sum()
    counts = np.zeros(8)
    count_settings(at.c.kind, at.c, at.table, rules(at, 3), at.new, at.entries, j, N_DRAWS, counts)
    error = np.sqrt(expected * (1 - expected) / N_DRAWS)
    # 96 comparisons in all: 4.5 standard errors are exceeded by chance once in a thousand such tests.
    assert np.all(np.abs(counts / N_DRAWS - expected) <= 4.5 * error + 1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_drawn_w_does_to_the_others_is_what_the_model_says(seed):
    at = hand("II", seed, n_features=20)
    nodes = rules(at, 5)
    w = w_of(at.entries, 0, 20)
    found = set()
    for draw in range(30):
        j, key, rng = draw % 20, np.uint64(draw), np.zeros(2, np.uint64)
        votes, class_votes = np.zeros((2, 2, 20)), np.zeros((2, 2))
        log = log_others(at.c, at.table, nodes, at.new, at.entries, votes, class_votes, rng, key, 0, j)
        setting = draw_column(at.c.kind, at.c, at.table, nodes, at.new, at.entries, rng, key, j)
        after = w.copy()
        after[:, j] = [bool(setting >> (2 - r) & 1) for r in range(3)]
        linear = (after[:, j].astype(int) - w[:, j]) @ np.log(at.entries.tilt[0, :3])
        expected = log_of_others(at, after, j) - log_of_others(at, w, j)
        assert log == pytest.approx(expected - linear, abs=1e-9)
        found.add(expected != 0.0)
    assert True in found


@pytest.mark.parametrize("seed", SEEDS)
def test_the_tilt_is_how_the_others_change_to_first_order(seed):
    """With a step so small that the second order does not show, from where w is half on."""
    at = hand("II", seed, n_features=20)
    j = 2 * seed
    find_tilt(at.c, at.table, at.entries, np.zeros((2, 2, 20)), np.zeros((2, 2)), 0, j)
    w = w_of(at.entries, 0, 20)
    half = np.delete(w, j, axis=1).sum(axis=1) + 0.5
    for r in range(3):
        ends = []
        for step in (-1e-5, 1e-5):
            kappa = half.copy()
            kappa[r] += step
            ends.append(log_of_others(at, w, j, kappa))
        assert math.log(at.entries.tilt[0, r]) == pytest.approx((ends[1] - ends[0]) / 2e-5, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("n_neighbors", [4, 5])
@pytest.mark.parametrize("kind", ["II", "III"])
def test_however_many_features_nothing_leaves_the_range_of_a_double(kind, n_neighbors):
    at = hand(kind, seed=5, n_neighbors=n_neighbors, n_features=150)
    for j in (0, 40, 149):
        everyone = list(range(n_neighbors))
        before, after = (logsumexp(list(log_settings(at, q, j, everyone).values())) for q in (at.old, at.new))
        assert compare(at, j) == pytest.approx(after - before, abs=1e-9)


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
