"""Model I's sums over w by quadrature, and w drawn from the mixture, against the sums themselves."""

import itertools

import numpy as np
import pytest
from bayespatch_cuda.layout import words_of
from bayespatch_cuda.sums import begin_redraw, draw_w, likelihood_of, sum_over_nodes

from bayespatch.engine.compiling import compiled
from bayespatch.engine.quadrature import HANDFUL, make_nodes, make_rates
from bayespatch.engine.votes import VOTE_OFF, VOTE_ON
from tests.cuda.gpu_layout import hand, model_one, settings

SEEDS = range(6)
N_DRAWS = 20_000
BETAS = np.array([1e-3, 0.05, 0.9, 1.0, 7.0, 300.0, 1e4])


def mixture(nodes, n, j):
    """Nodes and weights for a case with n neighbors."""
    rows = slice(*nodes.span[:, n])
    return nodes.place[rows, j], nodes.weight[rows, j]


def long_list(n, seed):
    """Case 0 with n neighbors, and one feature for each beta: constants, table, entries, importance (2, 4, n, P)."""
    rng = np.random.default_rng(seed)
    at = hand("I", seed)
    n_features = len(BETAS)
    same = words_of(rng.random((n, n_features)) < 0.4).T
    entries = at.entries._replace(
        n=np.array([n], np.int32),
        parent=rng.permutation(n).astype(np.int32)[None],
        bits=np.zeros((1, n, 1), np.uint32),
        same=np.ascontiguousarray(same[None]),
    )
    everything = np.ones((n, n_features), bool)
    table = at.table._replace(observed=words_of(everything[:1]), votes=words_of(everything))
    on = rng.random((2, n, n_features)) ** 3
    importance = np.stack([on, 1 - on, on, 1 - on], axis=1)
    return at.c._replace(n_features=n_features), table, entries, importance


def sum_over_counts(c, c2, importance, entries, j):
    """p(x_0j | z_0, q~), by polynomials in the number of w that are on."""
    count, copied = np.ones(1), np.zeros(1)
    for r, b in enumerate(entries.parent[0]):
        factor = importance[[VOTE_OFF, VOTE_ON], b, j]
        agrees = entries.same[0, r, 0] >> j & 1
        copied = np.convolve(copied, factor) + np.convolve(count, [0.0, agrees * factor[1]])
        count = np.convolve(count, factor)
    return np.sum((c.c1 * count + c.lam * copied) / (c2 + c.lam * np.arange(len(count))))


@compiled
def count_settings(c, table, nodes, importance, entries, j, n_draws, counts):
    """How often each setting of w_0:j is drawn."""
    rng = np.zeros(2, np.uint64)
    for draw in range(n_draws):
        node, source = begin_redraw(1, c, table, nodes, importance, entries, rng, np.uint64(draw), 0, j)
        setting = 0
        for r in range(entries.n[0]):
            setting = 2 * setting + int(draw_w(1, c, table, nodes, importance, entries, rng, node, source, r, 0, j))
        counts[setting] += 1


@pytest.mark.parametrize("capacity", [1, 7, 8, 40, 1000])
def test_the_mixture_is_what_it_stands_for(capacity):
    lam = 1.7
    nodes = make_nodes(BETAS * lam, lam, capacity)
    for j, beta in enumerate(BETAS):
        for n in {1, capacity // 2, capacity}:
            place, weight = mixture(nodes, n, j)
            assert (weight >= 0).all()
            assert place.min() >= 0
            assert place.max() <= 1
            t = np.arange(n + 1)
            np.testing.assert_allclose(weight @ place[:, None] ** t, 1 / (lam * (beta + t)), rtol=1e-12)
    n_nodes = nodes.span[1, capacity] - nodes.span[0, capacity]
    assert n_nodes < max(2 * HANDFUL, 0.5 * capacity + 1 + HANDFUL)
    assert n_nodes % HANDFUL == 0
    if capacity == 1000:
        assert n_nodes < 120


@pytest.mark.parametrize("capacity", [1, 7, 40, 300])
@pytest.mark.parametrize(("lightest", "heaviest"), [(0, 1), (0, 20), (1, 20)])
def test_rates_are_what_they_stand_for(capacity, lightest, heaviest):
    """Whatever the weights, whole numbers or not."""
    c2, lam = np.array([0.003, 0.05, 1.0, 4.0]), 1.7
    rates = make_rates(c2, lam, lightest, heaviest, capacity)
    assert (rates.weight >= 0.0).all()
    for n in {0, 1, capacity // 2, capacity}:
        rows = slice(*rates.span[:, n])
        assert (rows.stop - rows.start) % HANDFUL == 0
        for j in range(len(c2)):
            votes = np.append(np.geomspace(max(1e-6, lightest), heaviest * max(n, 1), 300), 0.0)
            found = np.exp(-np.outer(votes * lam, rates.place[rows, 0])) @ rates.weight[rows, j]
            np.testing.assert_allclose(found, 1 / (c2[j] + lam * votes), rtol=1e-10)
    longer = make_rates(c2, lam, lightest, heaviest, 2 * capacity)
    np.testing.assert_array_equal(longer.span[:, : capacity + 1], rates.span)
    np.testing.assert_array_equal(longer.place[: len(rates.place)], rates.place)


def test_rules_do_not_depend_on_the_capacity_nor_on_the_order_of_features():
    short, long = make_nodes(BETAS, 2.0, 20), make_nodes(np.append(BETAS, BETAS)[::-1], 2.0, 64)
    np.testing.assert_array_equal(short.span, long.span[:, :21])
    np.testing.assert_array_equal(short.place, long.place[: len(short.place), ::-1][:, : len(BETAS)])
    np.testing.assert_array_equal(short.weight, long.weight[: len(short.weight), ::-1][:, : len(BETAS)])


@pytest.mark.parametrize("n", [1, 2, 7, 8, 15, 16, 23, 40])
def test_sums_are_those_of_polynomials(n):
    c, table, entries, importance = long_list(n, seed=n)
    nodes = model_one(make_nodes(BETAS * c.lam, c.lam, 2 * n))
    for j, beta in enumerate(BETAS):
        exact = [sum_over_counts(c, beta * c.lam, q, entries, j) for q in importance]
        sums = [sum_over_nodes(1, c, nodes, q, entries, 0, j, n) for q in importance]
        np.testing.assert_allclose(sums, exact, rtol=1e-11)
        observed = [likelihood_of(1, c, table, nodes, q, entries, 0, j) for q in importance]
        np.testing.assert_array_equal(observed, sums)


@pytest.mark.parametrize("seed", SEEDS)
def test_ratio_is_that_of_the_enumerated_sums(seed):
    at = hand("I", seed)
    nodes = model_one(make_nodes(at.table.c2, at.c.lam, 3))
    for j in range(3):
        before, after = (sum(settings(at, q, j, [0, 1, 2]).values()) for q in (at.old, at.new))
        found = [likelihood_of(1, at.c, at.table, nodes, q, at.entries, 0, j) for q in (at.old, at.new)]
        assert found[1] / found[0] == pytest.approx(after / before, rel=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_w_is_drawn_in_proportion_to_the_enumerated_weights(seed):
    at = hand("I", seed)
    j = seed % 3
    weights = np.array(list(settings(at, at.new, j, [0, 1, 2]).values()))
    check_draws(weights, at.c, at.table, model_one(make_nodes(at.table.c2, at.c.lam, 3)), at.new, at.entries, j)


@pytest.mark.parametrize("j", range(len(BETAS)))
def test_w_of_a_longer_list_is_drawn_in_proportion_to_its_weights(j):
    n = 9
    c, table, entries, importance = long_list(n, seed=j)
    on = importance[0, VOTE_ON, entries.parent[0], j]
    agrees = entries.same[0, :, 0] >> j & 1
    w = np.array(list(itertools.product([0, 1], repeat=n)))
    weights = np.where(w, on, 1 - on).prod(axis=1) * (c.c1 + c.lam * (w @ agrees)) / (BETAS[j] + w.sum(axis=1))
    check_draws(weights, c, table, model_one(make_nodes(BETAS * c.lam, c.lam, n)), importance[0], entries, j)


def check_draws(weights, c, table, nodes, importance, entries, j):
    """Settings are drawn in proportion to their weights."""
    expected = weights / weights.sum()
    counts = np.zeros(len(expected))
    count_settings(c, table, nodes, importance, entries, j, N_DRAWS, counts)
    error = np.sqrt(expected * (1 - expected) / N_DRAWS)
    # Rare settings are taken together: their counts are not normal. 4000 comparisons at most.
    rare = expected * N_DRAWS < 30
    assert np.all((np.abs(counts / N_DRAWS - expected) <= 5.0 * error + 1e-9) | rare)
    together = expected[rare].sum()
    spread = np.sqrt(together * (1 - together) / N_DRAWS)
    assert abs(counts[rare].sum() / N_DRAWS - together) <= 5.0 * spread + 5.0 / N_DRAWS
