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
