import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from bayespatch.engine import votes
from bayespatch.engine.cpu import CpuEngine, layout
from bayespatch.engine.cpu import importance as cpu_importance
from bayespatch.engine.cpu import sums as summing
from bayespatch.model import KINDS, LIKELIHOODS, Hyperparameters, Model
from tests.engine.cases_at_hand import cases_at_hand, settings_of_w
from tests.problems import random_data

HYPER = Hyperparameters(alpha=0.6, lam0=0.4, lam=1.3, mu0=0.6, mu=(1.0, 2.5), gamma=1.5, sigma1=1.2, sigma2=2)
P_VALUE = 1e-5  # of a chi-square test with a fixed seed: chance would fail one in 1e5
P = 3


def tilt_of(at_hand, sums, j):
    """Of the entries of the case, in Model II."""
    c, t, _ = at_hand.parts
    i, n, neighbors = at_hand.i, at_hand.n, at_hand.state.neighbors
    if c.kind == 2:
        kept, kept_classes = counted(c, t, neighbors)
        summing.find_tilt(
            c, t.x, t.y, t.x_parents, t.y_parents, t.feature, t.mu, neighbors.parent[i], neighbors.bits[i], kept[i],
            kept_classes[i], sums.votes, sums.class_votes, np.zeros(n), sums.tilt, i, j, n,
        )  # fmt: skip
    return sums.tilt[:n].copy()


def weights_of_w(at_hand, j, q_tilde, tilt):
    """For all settings of w_i:j: likelihood of x_ij x prior x tilt of what is on; and log likelihood of all else, less
    what the tilt has of it.
    """
    i, n = at_hand.i, at_hand.n
    parents = at_hand.state.neighbors.parent[i, :n]
    settings = settings_of_w(n)
    weights, others = np.empty((2, len(settings)))
    for number, setting in enumerate(settings):
        latent = at_hand.latent._replace(w=at_hand.latent.w.copy())
        latent.w[i, parents, j] = setting
        prior = np.where(setting, q_tilde[parents, j] * tilt, 1 - q_tilde[parents, j]).prod()
        log = at_hand.log_likelihood(latent)
        weights[number] = prior * np.exp(log[j])
        others[number] = log.sum() - log[j] - setting @ np.log(tilt)
    return settings, weights, others


def prepare(at_hand):
    """Another q-tilde laid out, and the scratch memory for the sums."""
    c, t, _ = at_hand.parts
    other = np.random.default_rng(1).normal(0, 1.5, at_hand.state.logit_q_tilde.shape)
    new = layout.blank_importance(t)
    cpu_importance.fill_importance(other, t.x_parents, new)
    return expit(other), new, layout.blank_sums(c, t, at_hand.state.neighbors.parent.shape[1])


def compare(at_hand, new, sums, j, key):
    """Model II: the log ratio of case i and feature j, and the w that is drawn with it, as the engine asks for them."""
    c, t, _ = at_hand.parts
    i, neighbors = at_hand.i, at_hand.state.neighbors
    found, drawn = np.empty(len(t.x)), np.zeros(neighbors.parent.shape, bool)
    numbers, old = np.arange(len(t.x)), at_hand.engine.importance
    kept = counted(c, t, neighbors)
    summing.compare_importance(c, t, old, new, neighbors, *kept, sums, numbers, key, drawn, found, j, i, i + 1)
    return found[i], drawn


def counted(c, t, neighbors):
    """The votes on all cases, as the engine keeps them."""
    n_cases, width = t.x.shape
    kept = np.empty((n_cases, 2, 2, width), np.float32), np.empty((n_cases, 2, t.mu.shape[1]), np.float32)
    summing.count_all_votes(c, t, neighbors, *kept, 0, n_cases)
    return kept


def log_ratio(at_hand, new, sums, j, key):
    """Of case i and feature j, as the engine asks for it."""
    c, t, _ = at_hand.parts
    i, neighbors = at_hand.i, at_hand.state.neighbors
    if c.kind == 2:
        return compare(at_hand, new, sums, j, key)[0]
    found = np.empty((2, len(t.x), P))
    for importance, likelihood in zip((at_hand.engine.importance, new), found, strict=True):
        summing.find_likelihood(c, t, importance, neighbors, sums, likelihood, i, i + 1)
    return np.log(found[1, i, j] / found[0, i, j])


def redraw(at_hand, importance, sums, j, key):
    """w of the entries of case i as it is drawn afresh; the state is left as it was."""
    c, t, _ = at_hand.parts
    i, n = at_hand.i, at_hand.n
    neighbors = at_hand.state.neighbors._replace(bits=at_hand.state.neighbors.bits.copy())
    if c.kind == 2:
        _, drawn = compare(at_hand, importance, sums, j, key)
        kept = counted(c, t, neighbors)
        summing.take_drawn(c, t, neighbors, *kept, drawn, j, i, i + 1)
        for followed, afresh in zip(kept, counted(c, t, neighbors), strict=True):
            np.testing.assert_array_equal(followed, afresh)
    else:
        numbers = np.arange(len(t.x))
        summing.redraw_features(c, t, importance, neighbors, sums, numbers, key, np.array([j]), i, i + 1)
    before, after = at_hand.state.neighbors.bits[i, :n], neighbors.bits[i, :n]
    assert (before & ~np.uint64(1 << j) == after & ~np.uint64(1 << j)).all()  # no other feature
    return np.array([votes.is_on(after, s, j) for s in range(n)])


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("kind", KINDS)
def test_log_ratio_is_that_of_sums_over_w(kind, likelihood):
    """In Model II it has in it what the w that is drawn with it does to the other features and to the label."""
    data = random_data(1, 8, 6, P)
    n_compared = n_others = 0
    for at_hand in cases_at_hand(data, Model(kind, likelihood, HYPER), seed=3, n_cases=8):
        if at_hand.n == 0:
            continue
        q_tilde_new, new, sums = prepare(at_hand)
        for j in range(P):
            key = np.uint64(77 + j)
            tilt = tilt_of(at_hand, sums, j)
            settings, before, others = weights_of_w(at_hand, j, at_hand.q_tilde, tilt)
            _, after, _ = weights_of_w(at_hand, j, q_tilde_new, tilt)
            expected = np.log(after.sum() / before.sum())
            if kind == "II":
                parents = at_hand.state.neighbors.parent[at_hand.i, : at_hand.n]
                was = at_hand.latent.w[at_hand.i, parents, j]
                drawn = redraw(at_hand, new, sums, j, key)
                log = [others[(settings == w).all(axis=1)][0] for w in (was, drawn)]
                expected += log[1] - log[0]
                n_others += log[1] != log[0]
            assert log_ratio(at_hand, new, sums, j, key) == pytest.approx(expected, abs=1e-9)
            n_compared += at_hand.n > 1
    assert n_compared > 5
    assert kind != "II" or n_others > 5


@pytest.mark.parametrize("kind", KINDS)
def test_w_is_redrawn_from_its_conditional(kind):
    """Chi-square over the settings of w; in Model II with all else that it changes to first order."""
    n_draws = 3000
    data = random_data(2, 6, 5, P, missing=0.2)
    n_compared = 0
    for at_hand in cases_at_hand(data, Model(kind, "exact", HYPER), seed=4, n_cases=6):
        if at_hand.n < 3:
            continue
        _, _, sums = prepare(at_hand)
        j = n_compared % P
        settings, expected, _ = weights_of_w(at_hand, j, at_hand.q_tilde, tilt_of(at_hand, sums, j))
        drawn = np.zeros(len(settings))
        for key in np.arange(n_draws, dtype=np.uint64):
            w = redraw(at_hand, at_hand.engine.importance, sums, j, key)
            drawn[int(np.flatnonzero((settings == w).all(axis=1))[0])] += 1
        common = expected / expected.sum() * n_draws >= 5
        counts = np.append(drawn[common], drawn[~common].sum())
        means = np.append(expected[common], expected[~common].sum())
        kept = means > 0
        assert stats.chisquare(counts[kept], n_draws * means[kept] / means.sum()).pvalue > P_VALUE
        n_compared += 1
        if n_compared == 2:
            break
    assert n_compared == 2


def test_the_tilt_is_how_the_others_change_to_first_order():
    """With a step so small that the second order does not show, from where w is half on; as in Model III."""
    data = random_data(5, 6, 6, P)
    n_compared = 0
    for at_hand in cases_at_hand(data, Model("II", "exact", HYPER), seed=5, n_cases=6):
        i, n = at_hand.i, at_hand.n
        parents = at_hand.state.neighbors.parent[i, :n]
        _, _, sums = prepare(at_hand)
        at_hand.engine.model = Model("III", "exact", HYPER)
        for j in range(P):
            found = np.log(tilt_of(at_hand, sums, j))
            half = np.delete(at_hand.latent.w[i, parents], j, axis=1).sum(axis=1) + 0.5
            for s in range(n):
                ends = []
                for step in (-1e-5, 1e-5):
                    kappa = at_hand.latent.kappa.copy()
                    kappa[i, parents] = half
                    kappa[i, parents[s]] += step
                    log = at_hand.log_likelihood(at_hand.latent._replace(kappa=kappa))
                    ends.append(log.sum() - log[j])
                assert found[s] == pytest.approx((ends[1] - ends[0]) / 2e-5, rel=1e-5, abs=1e-7)
                n_compared += 1
        at_hand.engine.model = Model("II", "exact", HYPER)
    assert n_compared > 20


def test_little_is_left_to_chance_in_model_ii():
    """What is not linear in w: of 150 cases with ten neighbors of twelve features together less than half a unit."""
    data = random_data(6, 150, 40, 12)
    engine = CpuEngine(data, Model("II", "exact", Hyperparameters(alpha=0.25, lam0=0.5)))
    state = engine.start(1, 0)
    for _ in range(10):
        engine.sweep(state, adapt=True)
    assert 5 < state.neighbors.n.mean() < 15
    engine.prepare_comparison(state)
    used, left = engine.count_cases(state), []
    for j in range(12):
        same = state.logit_q[j : j + 1]
        engine.carry_along(state, np.uint64(j), same, used, j, j + 1)
        left.append(engine.compare_importance(state, np.uint64(j), np.uint64(j), same, j, j + 1).sum())
    assert np.std(left) > 0  # other w were drawn
    assert np.abs(left).max() < 0.5
