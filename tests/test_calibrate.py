"""Calibration: what it leaves alone, what it corrects, and that it finds a map that is known."""

import numpy as np
import pytest

from bayespatch.calibrate import Calibration


def test_without_calibration_votes_are_probabilities():
    votes = np.random.default_rng(0).dirichlet([1, 2, 3], size=(4, 5))
    np.testing.assert_allclose(Calibration.none(3).apply(votes), votes)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_known_map_is_found(n_classes):
    rng = np.random.default_rng(1)
    votes = rng.dirichlet(np.full(n_classes, 5.0), size=20_000)
    true = Calibration(2.5, (0.6, -0.6) if n_classes == 2 else (0.5, 0.0, -0.5))
    p = true.apply(votes)
    y = (rng.random(len(p))[:, None] > p.cumsum(axis=1)).sum(axis=1)
    found = Calibration.learn(votes, y)
    # The curvature of the log likelihood gives standard errors of at most 0.06 for 20,000 cases; four of them.
    assert found.slope == pytest.approx(true.slope, abs=0.24)
    np.testing.assert_allclose(found.intercepts, true.intercepts, atol=0.12)
    assert sum(found.intercepts) == pytest.approx(0)
    np.testing.assert_allclose(found.apply(votes).mean(axis=0), np.bincount(y) / len(y), atol=0.01)


def test_votes_that_say_nothing_leave_the_frequencies():
    y = np.repeat([0, 1], [300, 100])
    found = Calibration.learn(np.full((400, 2), 0.5), y)
    np.testing.assert_allclose(found.apply([0.5, 0.5]), [0.75, 0.25], atol=0.01)


def test_weights_count_cases_several_times():
    rng = np.random.default_rng(2)
    votes = rng.dirichlet([3, 3], size=60)
    y = rng.integers(2, size=60)
    weights = rng.integers(1, 4, size=60)
    repeated = Calibration.learn(votes.repeat(weights, axis=0), y.repeat(weights))
    weighted = Calibration.learn(votes, y, weights)
    assert weighted.slope == pytest.approx(repeated.slope, rel=1e-3)


def test_one_class_and_votes_of_zero():
    assert Calibration.learn(np.ones((5, 1)), np.zeros(5, int)).apply([1.0]) == 1.0
    p = Calibration(2.0, (0.0, 0.0)).apply([0.0, 1.0])
    assert np.isfinite(p).all()
    assert p[0] < 1e-6


def test_intervals_narrow_with_the_number_of_voters_and_hold_the_probability():
    rng = np.random.default_rng(3)
    for n_classes in (2, 3):
        calibration = Calibration(2.0, tuple(np.linspace(-0.5, 0.5, n_classes)))
        votes = rng.dirichlet(np.ones(n_classes), size=20)
        p = calibration.apply(votes)
        width = []
        for n_voters in (2, 10, 200):
            found = calibration.interval(votes, np.full((20, n_voters), 1.0 / n_voters), 0.9)
            assert found.shape == (20, n_classes, 2)
            assert (found[..., 0] <= p + 1e-9).all()
            assert (p <= found[..., 1] + 1e-9).all()
            width.append((found[..., 1] - found[..., 0]).mean())
        assert width[0] > width[1] > width[2]


def test_intervals_hold_the_share_of_a_class_as_often_as_they_say():
    """Cases of which 10 voters are a sample: Jeffreys' interval covers a share near its level, on average over shares."""
    rng = np.random.default_rng(4)
    truth = rng.random(20_000)
    counts = rng.binomial(10, truth)
    votes = np.column_stack([1 - counts / 10, counts / 10])
    found = Calibration.none(2).interval(votes, np.full((len(truth), 10), 0.1), 0.9)[:, 1]
    covered = ((found[:, 0] <= truth) & (truth <= found[:, 1])).mean()
    # Under uniform shares Jeffreys' intervals for n = 10 cover 89 to 92 %; the Monte Carlo error is 0.2 points.
    assert 0.88 < covered < 0.93
