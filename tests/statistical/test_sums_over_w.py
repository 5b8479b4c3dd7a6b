import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from bayespatch.engine import votes
from bayespatch.engine.cpu import importance as cpu_importance
from bayespatch.engine.cpu import layout
from bayespatch.engine.cpu import sums as summing
from bayespatch.engine.streams import open_stream, uniform
from bayespatch.model import KINDS, LIKELIHOODS, Hyperparameters, Model
from tests.engine.cases_at_hand import cases_at_hand, settings_of_w
from tests.problems import random_data

HYPER = Hyperparameters(alpha=0.6, lam0=0.4, lam=1.3, mu0=0.6, mu=(1.0, 2.5), gamma=1.5, sigma1=1.2, sigma2=2)
P_VALUE = 1e-5  # of a chi-square test with a fixed seed: chance would fail one in 1e5
P = 3


def start_of(key, n):
    """Which entry is the first that is summed, if not all are."""
    rng = np.zeros(2, np.uint64)
    open_stream(rng, key)
    return int(uniform(rng) * n)


def weights_of_w(at_hand, j, q_tilde, summed):
    """For all settings of w_i:j of the summed entries: likelihood of the case x prior of all its w_i:j, the others as
    they are."""
    i, n = at_hand.i, at_hand.n
    parents = at_hand.state.neighbors.parent[i, :n]
    settings = settings_of_w(len(summed))
    weights = np.empty(len(settings))
    for number, setting in enumerate(settings):
        latent = at_hand.latent._replace(w=at_hand.latent.w.copy())
        latent.w[i, parents[summed], j] = setting
        w = latent.w[i, parents, j]
        prior = np.where(w, q_tilde[parents, j], 1 - q_tilde[parents, j]).prod()
        weights[number] = prior * np.exp(at_hand.log_likelihood(latent).sum())
    return settings, weights


def prepare(at_hand):
    """Another q-tilde laid out, and the scratch memory for the sums."""
    c, t, _ = at_hand.parts
    other = np.random.default_rng(1).normal(0, 1.5, at_hand.state.logit_q_tilde.shape)
    new = layout.blank_importance(t)
    cpu_importance.fill_importance(other, t.x_parents, new)
    return expit(other), new, layout.blank_sums(c, t, at_hand.state.neighbors.parent.shape[1])


def log_ratio(at_hand, new, sums, j, key):
    c, t, _ = at_hand.parts
    i, n, neighbors = at_hand.i, at_hand.n, at_hand.state.neighbors
    if c.kind == 1:
        ratios = np.empty(P)
        summing.log_ratios_by_nodes(
            c, t.x, t.x_parents, t.feature, at_hand.engine.importance, new, neighbors.parent[i],
            sums.place, sums.weight, sums.begin, sums.on, sums.agreeing, sums.nodes, ratios, i, n,
        )  # fmt: skip
        return ratios[j]
    return summing.log_ratio_by_settings(
        c, t.x, t.y, t.x_parents, t.y_parents, t.feature, t.mu, at_hand.engine.importance, new, neighbors.parent[i],
        neighbors.bits[i], neighbors.kappa[i], sums.steps, sums.columns, sums.rows, sums.products, sums.likelihood,
        sums.rng, i, j, n, key,
    )  # fmt: skip


def redraw(at_hand, sums, bits, j, key):
    c, t, _ = at_hand.parts
    i, n, neighbors = at_hand.i, at_hand.n, at_hand.state.neighbors
    if c.kind == 1:
        open_stream(sums.rng, key)
        summing.redraw_by_nodes(
            c, t.x, t.x_parents, t.feature, at_hand.engine.importance, neighbors.parent[i], bits,
            sums.by_feature, sums.begin, *sums.chosen, sums.rng, i, j, n,
        )  # fmt: skip
        return
    summing.redraw_by_settings(
        c, t.x, t.y, t.x_parents, t.y_parents, t.feature, t.mu, at_hand.engine.importance, neighbors.parent[i], bits,
        neighbors.kappa[i], sums.steps, sums.columns, sums.rows, sums.products, sums.likelihood, sums.rng, i, j, n,
        key,
    )  # fmt: skip


@pytest.mark.parametrize(
    "constants", [{}, {"chunk": 1}, {"chunk": 2}, {"max_summed": 2}, {"max_summed": 1, "chunk": 1}]
)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("kind", KINDS)
def test_log_ratio_is_that_of_sums_over_w(kind, likelihood, constants):
    data = random_data(1, 8, 6, P)
    n_compared = 0
    for at_hand in cases_at_hand(data, Model(kind, likelihood, HYPER), seed=3, n_cases=8, **constants):
        if at_hand.n == 0:
            continue
        q_tilde_new, new, sums = prepare(at_hand)
        for j in range(P):
            key = np.uint64(77 + j)
            m = at_hand.n if kind == "I" else min(at_hand.n, at_hand.engine.constants.max_summed)
            summed = (start_of(key, at_hand.n) + np.arange(m)) % at_hand.n
            _, before = weights_of_w(at_hand, j, at_hand.q_tilde, summed)
            _, after = weights_of_w(at_hand, j, q_tilde_new, summed)
            expected = np.log(after.sum() / before.sum())
            if kind == "I" and np.isnan(data.x[at_hand.i, j]):
                expected = 0.0
            assert log_ratio(at_hand, new, sums, j, key) == pytest.approx(expected, abs=1e-10)
            n_compared += at_hand.n > 1
    assert n_compared > 5


@pytest.mark.parametrize("max_summed", [10, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_w_is_redrawn_from_its_conditional(kind, max_summed):
    """Chi-square over the settings of the summed w; the first that is summed is the same for all draws."""
    n_draws = 3000
    data = random_data(2, 6, 5, P, missing=0.2)
    n_compared = 0
    for at_hand in cases_at_hand(data, Model(kind, "exact", HYPER), seed=4, n_cases=6, max_summed=max_summed):
        if at_hand.n < 3:
            continue
        _, _, sums = prepare(at_hand)
        entries = np.arange(at_hand.n)
        m = at_hand.n if kind == "I" else min(at_hand.n, max_summed)
        start = 1 if m < at_hand.n else 0
        keys = np.arange(n_draws * at_hand.n, dtype=np.uint64)
        if m < at_hand.n:
            keys = [key for key in keys if start_of(key, at_hand.n) == start]
        summed = (start + np.arange(m)) % at_hand.n
        fixed = np.setdiff1d(entries, summed)
        j = n_compared % P
        settings, expected = weights_of_w(at_hand, j, at_hand.q_tilde, summed)
        drawn = np.zeros(len(settings))
        before = at_hand.state.neighbors.bits[at_hand.i].copy()
        for key in keys[:n_draws]:
            bits = before.copy()
            redraw(at_hand, sums, bits, j, key)
            w = np.array([votes.is_on(bits, s, j) for s in entries])
            assert all(w[s] == votes.is_on(before, s, j) for s in fixed)
            assert (bits & ~np.uint64(1 << j) == before & ~np.uint64(1 << j)).all()  # no other feature
            drawn[int(np.flatnonzero((settings == w[summed]).all(axis=1))[0])] += 1
        n = drawn.sum()
        common = expected / expected.sum() * n >= 5
        counts = np.append(drawn[common], drawn[~common].sum())
        means = np.append(expected[common], expected[~common].sum())
        kept = means > 0
        assert stats.chisquare(counts[kept], n * means[kept] / means.sum()).pvalue > P_VALUE
        n_compared += 1
        if n_compared == 2:
            break
    assert n_compared > 0
