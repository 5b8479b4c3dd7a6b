"""Tuning: which coding is chosen and why, and constants that suit the table."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp

from bayespatch import tune as tuning
from bayespatch.importances import LeaveOneOut
from bayespatch.model import Data, Model
from bayespatch.tune import BASE_VOTES, N_NEIGHBORS, base_rates, constants, tune

HALVES = np.array([0.5, 0.5])


def past(seed=0, n=150, p=5, noise=0.1):
    """The outcome is told by the first feature, up to noise; the others tell nothing."""
    rng = np.random.default_rng(seed)
    x = rng.integers(2, size=(n, p)).astype(float)
    y = np.where(rng.random(n) < noise, rng.integers(2, size=n), x[:, 0].astype(int))
    return Data(x, y, x, y, np.full(p, 2.0), 2, np.zeros(p), np.arange(n))


def test_a_better_coding_is_chosen_and_everything_tried_is_told():
    good = past()
    mixed = np.random.default_rng(1).permutation(good.x)
    told = []
    codings = {"bad": good._replace(x=mixed, x_parents=mixed), "good": good}
    found, density, shape = tune(codings, Model("II"), HALVES, report=told.append)
    assert found.coding == "good"
    assert told == [1, 2]
    assert [trial.coding for trial in found.trials] == ["bad", "good"]
    assert found.trials[1].evidence > found.trials[0].evidence + 0.1  # per case
    assert found.hyper == constants(good, HALVES)
    assert list(found.to_frame()["coding"]) == ["bad", "good"]
    again = LeaveOneOut(good, Model("II", hyper=found.hyper), HALVES)
    assert density(shape.mode)[0] == again(shape.mode)[0]  # what is sampled is that of the chosen coding


def test_votes_that_tell_nothing_are_worth_the_base_rates():
    """The evidence is then that of the base rates, up to what four features find by chance."""
    for seed in range(3):
        data = past(seed, noise=1.0)
        base = base_rates(data.y, 2)
        found, _, _ = tune({"": data}, Model(), base)
        # One that tells the class is worth more than 60.
        assert abs(150 * (found.trials[0].evidence - base @ np.log(base))) < 6.0


def test_the_evidence_is_the_integral_of_the_density():
    """Two features and the slope, on a grid: Laplace's approximation is a few hundredths off, not more."""
    data = past(n=40, p=2)
    found, density, shape = tune({"": data}, Model(), HALVES)
    # 31^3 points over six standard deviations to either side
    spread = np.sqrt(np.diag(shape.factor @ shape.factor.T))
    axes = [np.linspace(m - 6 * s, m + 6 * s, 31) for m, s in zip(shape.mode, spread, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    log_cell = sum(np.log(axis[1] - axis[0]) for axis in axes)
    exactly = logsumexp([density(point, with_gradient=False)[0] for point in points]) + log_cell
    assert found.trials[0].evidence * 40 == pytest.approx(exactly, abs=0.3)


def test_nothing_is_drawn():
    data = past(n=60)
    found, again = (tune({"": data}, Model(), HALVES)[0] for _ in range(2))
    assert found == again


def test_base_rates():
    y = np.array([0, 0, 0, 2])
    np.testing.assert_allclose(base_rates(y, 3), [0.75, 1e-6, 0.25], rtol=1e-5)
    np.testing.assert_allclose(base_rates(y, 3, np.array([1.0, 1.0, 3.0])), [0.5, 1e-6, 0.5], rtol=1e-5)
    assert base_rates(y, 3).sum() == pytest.approx(1.0)


def test_constants_follow_the_number_of_parents_and_the_base_rates():
    data = past()
    hyper = constants(data, np.array([0.9, 0.1]))
    assert hyper.alpha == pytest.approx(N_NEIGHBORS / 150)
    assert sum(hyper.mu0) == pytest.approx(BASE_VOTES)
    assert hyper.mu0[0] == pytest.approx(9 * hyper.mu0[1])
    assert constants(past(n=4), HALVES).alpha == 0.5
    assert replace(hyper, alpha=tuning.BASE.alpha, mu0=tuning.BASE.mu0, mu=tuning.BASE.mu) == tuning.BASE


def test_a_parent_drawn_at_random_votes_as_the_base_rates_are():
    rng = np.random.default_rng(0)
    for base in (np.array([0.9, 0.1]), np.array([0.3, 0.7])):
        data = past()._replace(y_parents=(rng.random(150) < 0.4).astype(int))
        hyper = constants(data, base)
        here = np.bincount(data.y_parents) / 150
        np.testing.assert_allclose(here * hyper.mu_per_class(2), base)


def test_a_class_without_parents_and_one_without_cases():
    data = past()._replace(y_parents=np.zeros(150, int))
    hyper = constants(data, base_rates(np.zeros(150, int), 2))
    assert np.isfinite(hyper.mu).all()
    assert (np.array(hyper.mu) > 0).all()
    assert (np.array(hyper.mu0) > 0).all()


def test_weights_however_far_apart_give_constants_that_are_allowed():
    data = past()
    for weights in ((1e-6, 1e6), (1e6, 1e-6)):
        hyper = constants(data, base_rates(data.y, 2, np.array(weights)))
        assert min(hyper.mu0 + hyper.mu) >= 1e-6


def test_class_weights_change_what_a_coding_is_worth():
    """Of two codings one tells the rare class, the other the usual ones apart from nobody: weights decide."""
    rng = np.random.default_rng(2)
    y = (rng.random(300) < 0.2).astype(int)
    x = np.where(y == 1, rng.integers(2, size=300), 0)[:, None].astype(float)  # a 1 tells the rare class for sure
    data = Data(x, y, x, y, np.array([2.0]), 2, np.zeros(1), np.arange(300))
    plain, weighted = (tune({"": data}, Model(), base_rates(y, 2, w), w)[0] for w in (None, np.array([1.0, 4.0])))
    assert plain.trials[0].evidence != weighted.trials[0].evidence
    np.testing.assert_allclose(weighted.hyper.mu0, np.array(BASE_VOTES) * base_rates(y, 2, np.array([1.0, 4.0])))
