"""The posterior of the importances: its gradient, what it finds where the truth is known, what it may depend on."""

import numpy as np
import pytest
from scipy.special import logit

from bayespatch import importances
from bayespatch.engine.cpu.leave_one_out import predict_each
from bayespatch.importances import LeaveOneOut, compared_pairs, draw_importances
from bayespatch.model import Data, Hyperparameters, Model
from bayespatch.sampling.diagnostics import diagnose_steps, steps_converged
from bayespatch.sampling.metropolis import Chain
from tests.problems import random_data

HALVES = np.array([0.5, 0.5])
MODEL = Model(hyper=Hyperparameters(lam0=0.1, lam=2.0))


def past(seed=2, n=150, p=4, noise=0.1):
    """The outcome is told by the first feature, up to noise; the others tell nothing."""
    rng = np.random.default_rng(seed)
    x = rng.integers(2, size=(n, p)).astype(float)
    y = np.where(rng.random(n) < noise, rng.integers(2, size=n), x[:, 0].astype(int))
    return Data(x, y, x, y, np.full(p, 2.0), 2, np.zeros(p), np.arange(n))


def sampled(data, base=HALVES, draws=100, **settings):
    density = LeaveOneOut(data, MODEL, base, settings.pop("class_weight", None))
    given = {"chains": 2, "warmup": 20, "draws": draws, "seed": 0, **settings}
    return draw_importances(density, density.shape(), **given)


# The density


@pytest.mark.parametrize("class_weight", [None, (1.0, 0.4, 2.0)])
@pytest.mark.parametrize("missing", [0.0, 0.25])
def test_the_gradient_is_that_of_the_density(missing, class_weight):
    """Windows, codes, missing values, three classes: against differences of the density itself.

    Its sums are of single precision: 40 cases times 1e-6 over 2e-2 is less than the tolerance.
    """
    data = random_data(1, 40, 50, 5, n_classes=3, missing=missing, hidden=0.0, itself=True)
    weight = None if class_weight is None else np.array(class_weight)
    density = LeaveOneOut(data, MODEL, np.array([0.5, 0.2, 0.3]), weight)
    rng = np.random.default_rng(2)
    for _ in range(3):
        position = np.append(rng.normal(size=5), rng.normal(0.5, 0.5))
        _, gradient = density(position)
        steps = 1e-2 * np.eye(6)
        slopes = [(density(position + s, False)[0] - density(position - s, False)[0]) / 2e-2 for s in steps]
        np.testing.assert_allclose(gradient, slopes, atol=0.02, rtol=2e-3)


def test_far_away_nothing_changes_and_nothing_breaks():
    density = LeaveOneOut(past(n=30), MODEL, HALVES)
    for size in (-1e4, -40.0, 40.0, 1e4):
        value, gradient = density(np.full(5, size))
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()


def test_the_prior_is_normal_around_a_common_value():
    """Cases without weight leave the prior alone: u_j = common + apart_j."""
    data = past(n=20)
    density = LeaveOneOut(data, MODEL, HALVES)
    density.pairs = density.pairs._replace(weight=np.zeros(20))
    covariance = importances.APART_SD**2 * np.eye(4) + importances.COMMON_SD**2
    rng = np.random.default_rng(3)
    for _ in range(3):
        position = rng.normal(size=5)
        apart = position[:4] - importances.COMMON_MEAN
        slope = (position[4] - importances.LOG_SLOPE_MEAN) / importances.LOG_SLOPE_SD
        expected = -0.5 * (apart @ np.linalg.solve(covariance, apart) + slope**2)
        assert density(position)[0] == pytest.approx(expected)


@pytest.mark.parametrize("n_values", [1.0, 1.7, 2.0, 10.0])
def test_an_effect_means_the_same_whatever_the_number_of_values(n_values):
    """exp(effect) is how much more a parent that agrees is worth than one that differs, in the model's own terms."""
    data = past(n=20)._replace(n_values=np.full(4, n_values))
    density, hyper = LeaveOneOut(data, MODEL, HALVES), MODEL.hyper
    logits = np.array([-3.0, -0.5, 0.5, 3.0])
    q = density.importance(logits)
    base = n_values * hyper.lam0
    agrees = 1 - q + q * n_values * (hyper.lam0 + hyper.lam) / (base + hyper.lam)
    differs = 1 - q + q * base / (base + hyper.lam)
    np.testing.assert_allclose(np.log(agrees / differs), np.log1p(hyper.lam / hyper.lam0) / (1 + np.exp(-logits)))
    np.testing.assert_allclose(density.importance(np.array([-1e4, 1e4] * 2)), [0, 1] * 2, atol=1e-11)


def test_class_weights_count_cases_several_times():
    """A case of weight 3 beside one of weight 1, and the same cases three times and once."""
    data = past(n=40)._replace(own_parent=np.full(40, -1))
    repeated = np.repeat(np.arange(40), np.where(data.y == 1, 3, 1))
    more = data._replace(x=data.x[repeated], y=data.y[repeated], own_parent=data.own_parent[repeated])
    weighted, plain = LeaveOneOut(data, MODEL, HALVES, np.array([1.0, 3.0])), LeaveOneOut(more, MODEL, HALVES)
    position = np.array([0.5, -0.2, 1.0, 0.0, 0.4])
    # Weights have the mean 1, so that a weight does not stand for more cases than there are.
    assert weighted.pairs.weight.sum() == pytest.approx(40)
    log_p = [density.pairs.weight @ density.predict(position)[0] for density in (weighted, plain)]
    assert log_p[0] / 40 == pytest.approx(log_p[1] / len(repeated), rel=1e-6)


def test_balanced_parents_are_heard_as_often_as_their_class_comes():
    """Features that tell nothing, half of the parents of a class that few cases have: predictions are base rates."""
    rng = np.random.default_rng(0)
    x = rng.integers(2, size=(400, 2)).astype(float)
    y, y_parents = (np.arange(360) % 10 == 0).astype(int), (np.arange(40) % 2).astype(int)
    data = Data(x[:360], y, x[360:], y_parents, np.array([2.0, 2.0]), 2, np.zeros(2), np.full(360, -1))
    density = LeaveOneOut(data, MODEL, np.array([0.9, 0.1]))
    log_p, _, _ = density.predict(np.array([-20.0, -20.0, 0.0]))  # q of 0: all parents alike
    np.testing.assert_allclose(np.exp(log_p[y == 1]), 0.1, rtol=1e-5)
    np.testing.assert_allclose(np.exp(log_p[y == 0]), 0.9, rtol=1e-5)


# What is compared


def test_small_tables_are_compared_whole():
    pairs = compared_pairs(past(), HALVES)
    assert pairs.codes.shape == (150, 4, 150)
    order = np.argsort(past().y, kind="stable")
    np.testing.assert_array_equal(order[pairs.own], np.arange(150))  # each case finds itself among the parents


@pytest.mark.parametrize(("n_cases", "n_parents"), [(900, 900), (900, 30), (30, 900), (2000, 2000)])
def test_large_tables_are_compared_in_part(monkeypatch, n_cases, n_parents):
    monkeypatch.setattr(importances, "MAX_PAIRS", 40_000)
    monkeypatch.setattr(importances, "MAX_PARENTS", 100)
    rng = np.random.default_rng(0)
    x = np.arange(2000.0)[:, None] + np.zeros(3)
    y = rng.integers(2, size=2000)
    own = np.where(np.arange(n_cases) < n_parents, np.arange(n_cases), -1)
    data = Data(x[:n_cases], y[:n_cases], x[:n_parents], y[:n_parents], np.full(3, 9.0), 2, np.zeros(3), own)
    pairs = compared_pairs(data, HALVES)
    n, _, s = pairs.codes.shape
    assert n * 3 * s <= 40_000
    assert s == (n_parents if n_cases * n_parents * 3 <= 40_000 else min(n_parents, 100))
    assert n == min(n_cases, 40_000 // (3 * s))
    # Every value is there once, so codes say who was chosen: a case agrees with itself alone, where it was chosen.
    agrees = pairs.codes[:, 0] == 1
    np.testing.assert_array_equal(agrees.any(axis=1), pairs.own >= 0)
    np.testing.assert_array_equal(agrees.argmax(axis=1)[pairs.own >= 0], pairs.own[pairs.own >= 0])
    assert pairs.start[-1] == s


def test_a_subset_that_is_spread_evenly_has_both_ends():
    chosen = importances._spread(1000, 11)
    assert (chosen[0], chosen[-1], len(chosen)) == (0, 999, 11)
    assert np.ptp(np.diff(chosen)) <= 1
    np.testing.assert_array_equal(importances._spread(5, 11), np.arange(5))


# The draws


def test_the_feature_that_tells_the_class_has_the_higher_importance():
    found = sampled(past(p=12))  # of fewer features that tell nothing, importance costs next to nothing
    q = found.given[:, 20:]
    assert q.shape == (2, 100, 12)
    assert (q[..., [0]] > q[..., 1:]).mean() > 0.8  # the prior holds them together, but for most draws it is so
    means = q.mean(axis=(0, 1))
    # Within a chain draws follow each other two steps or more apart; 200 of them, as good as 50 independent ones, know
    # a mean with a standard deviation of .2 to .03.
    assert means[0] > means[1:].max() + 0.09
    assert ((q > 0) & (q < 1)).all()


def test_where_nothing_is_told_the_slope_says_so():
    told, nothing = (np.exp(sampled(past(noise=noise)).steps[..., -2]).mean() for noise in (0.1, 1.0))
    assert told > 1.3 * nothing


def test_missing_values_leave_the_rest_to_be_found():
    data = past()
    x = np.where(np.random.default_rng(4).random(data.x.shape) < 0.3, np.nan, data.x)
    q = sampled(data._replace(x=x, x_parents=x)).given
    assert np.isfinite(q).all()
    assert q[..., 0].mean() > q[..., 1:].mean() + 0.05


def test_draws_depend_on_the_seed_and_the_chain_alone():
    data = past(n=60)
    first = sampled(data, draws=30)
    for n_threads in (2, 5):
        np.testing.assert_array_equal(sampled(data, draws=30, n_threads=n_threads).given, first.given)
    more = sampled(data, draws=30, chains=3)
    shared = min(more.steps.shape[1], first.steps.shape[1])
    np.testing.assert_array_equal(more.steps[:2, :shared], first.steps[:, :shared])  # a chain more changes no other
    assert not np.array_equal(first.given[0], first.given[1])
    assert not np.array_equal(sampled(data, draws=30, seed=1).given, first.given)


def test_draws_are_every_kth_step_and_warm_up_comes_first():
    found = sampled(past(n=60), draws=25)
    n_steps = found.steps.shape[1]
    each = n_steps // 25
    assert importances.MIN_STEPS <= each <= importances.MAX_STEPS
    assert n_steps == each * 25
    assert found.given.shape == (2, 45, 4)
    density = LeaveOneOut(past(n=60), MODEL, HALVES)
    np.testing.assert_array_equal(found.given[:, 20:], found.steps[:, each - 1 :: each, :4])
    q, largest = found.steps[1, 7, :4], density.effects.largest
    agree, differ = 1 - q + q * density.effects.r_agree, 1 - q + q * density.effects.r_differ
    position = np.append(logit(np.log(agree / differ) / largest), found.steps[1, 7, 4])
    assert density(position)[0] == pytest.approx(found.steps[1, 7, 5])


def test_chains_go_on_until_diagnostics_are_content_and_no_further(monkeypatch):
    asked, told = [], []

    def judge(steps):
        asked.append(steps.shape[1])
        return len(asked) == 3

    monkeypatch.setattr(importances, "steps_converged", judge)
    found = sampled(past(n=30), draws=10, report=told.append)
    assert asked == [20, 30, 40]
    assert found.steps.shape[1] == 40
    assert told == [40, 60, 70, 80]
    asked.clear()
    monkeypatch.setattr(importances, "steps_converged", lambda steps: False)
    assert sampled(past(n=30), draws=10).steps.shape[1] == importances.MAX_STEPS * 10


@pytest.mark.parametrize("stuck", [None, 0, 3, 4, 5])
def test_chains_have_converged_when_every_quantity_has(stuck):
    """Of four importances, slope and density any one may have chains of which each is at a place of its own."""
    steps = np.random.default_rng(0).normal(size=(4, 400, 6))
    if stuck is not None:
        steps[:, :, stuck] += np.arange(4.0)[:, None]
    assert steps_converged(steps) == diagnose_steps(steps).converged == (stuck is None)


def test_no_step_size_is_tuned_after_the_warm_up(monkeypatch):
    seen = []
    advance = Chain.advance

    def watch(chain, n_steps, adapt=False, *stopped):
        seen.append(adapt)
        return advance(chain, n_steps, adapt, *stopped)

    monkeypatch.setattr(Chain, "advance", watch)
    sampled(past(n=30), draws=10)
    assert seen[:2] == [True, True]
    assert not any(seen[2:])


def test_one_feature_one_chain_no_warm_up():
    found = sampled(past(n=30, p=1), draws=5, chains=1, warmup=0)
    assert found.given.shape == (1, 5, 1)


def test_the_kernel_is_given_factors_relative_to_agreement():
    """One value of q by hand: V = 2, lam0 = .1, lam = 2."""
    data = past(n=30, p=1)
    density = LeaveOneOut(data, MODEL, HALVES)
    q = 0.4
    agree, differ = 1 - q + q * 2 * 2.1 / 2.2, 1 - q + q * 0.2 / 2.2
    effect = logit(np.log(agree / differ) / np.log(21.0))
    log_p, nothing = np.empty(30), np.empty((0, 1))
    relative = np.array([differ / agree], np.float32)
    predict_each(density.pairs, relative, np.array([1 / agree], np.float32), 1.5, log_p, nothing, nothing, np.empty(30))
    np.testing.assert_allclose(density.predict(np.array([effect, np.log(1.5)]))[0], log_p, rtol=1e-6)
