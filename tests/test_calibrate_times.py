"""The calibration of survival curves on leave-one-out votes: recovery of known slopes, variances, extremes."""

import numpy as np
import pytest

from bayespatch.calibrate_times import Course, Spread, TimesCalibration


def simulated(level, shape, n=4000, seed=0):
    """Cases whose log hazard in two intervals, before and after time 1, follows their voters'."""
    rng = np.random.default_rng(seed)
    course = Course(rng.normal(0, 0.4, n), np.zeros(n), rng.normal(0, 0.4, (n, 2)), np.zeros((n, 2)))
    hazard = np.exp(level * course.log_ratio[:, None] + shape * course.shape)
    needed = rng.exponential(size=n)  # cumulative hazard at the event
    time = np.where(needed < hazard[:, 0], needed / hazard[:, 0], 1 + (needed - hazard[:, 0]) / hazard[:, 1])
    exposure = np.column_stack([np.minimum(time, 1), np.maximum(time - 1, 0)])
    return course, exposure, np.column_stack([time < 1, time >= 1]).astype(float)


@pytest.mark.parametrize(("level", "shape"), [(1.0, 0.0), (2.5, 0.0), (1.5, 0.8)])
def test_slopes_and_baseline_are_recovered(level, shape):
    learned = TimesCalibration.learn(*simulated(level, shape))
    errors = np.sqrt(np.diag(learned.covariance))
    assert abs(learned.level - level) < 3 * errors[0] < 0.3
    assert abs(learned.shape - shape) < 3 * errors[1] < 0.4
    np.testing.assert_allclose(learned.base, 1.0, atol=0.08)


def test_a_case_without_events_among_its_voters_keeps_a_finite_hazard():
    events, expected = np.zeros((4, 2)), np.full((4, 2), 0.2)
    events[3, 1] = 1.0
    course = Course.of_votes(np.array([[0.5, 0.5, 0.0, 0.0]]), events, expected, 0.01)
    assert np.all(np.isfinite(course.log_ratio))
    assert course.log_ratio < -3
    assert np.all(np.isfinite(course.shape))


def test_the_standard_error_of_the_ratio_is_that_of_a_count():
    rng = np.random.default_rng(1)
    events = rng.poisson(0.5, (400, 1)).astype(float).clip(0, 1)
    course = Course.of_votes(np.full((1, 400), 1 / 400), events, np.full((400, 1), 0.5), 0.0)
    np.testing.assert_allclose(course.ratio_variance, 1 / events.sum())


def test_the_variance_of_a_curve_adds_up_its_sources():
    calibration = TimesCalibration(2.0, 0.5, np.array([[0.04, 0.01], [0.01, 0.09]]), np.ones(2))
    course = Course(np.array([0.3]), np.array([0.02]), np.array([[0.1, -0.2]]), np.array([[0.1, 0.3]]))
    weight = np.array([[[0.25, 0.75]]])
    shape = 0.25 * 0.1 - 0.75 * 0.2
    votes = 4 * 0.02 + 0.25 * (0.25**2 * 0.1 + 0.75**2 * 0.3)
    slopes = np.array([0.3, shape]) @ calibration.covariance @ np.array([0.3, shape])
    np.testing.assert_allclose(calibration.variance(course, weight), votes + slopes)


def test_the_variance_of_the_ratio_includes_that_of_the_votes_over_the_draws():
    rng = np.random.default_rng(3)
    y = rng.integers(4, size=60)  # classes: two intervals, with and without an event
    events, expected = np.zeros((60, 2)), np.zeros((60, 2))
    events[np.arange(60), y // 2] = y % 2
    expected[np.arange(60), y // 2] = np.array([0.2, 0.3, 0.7, 0.9])[y]
    draws = rng.dirichlet(np.ones(60), 200) * 0.05 + 0.95 / 60
    votes = np.stack([draws[:, y == m].sum(axis=1) for m in range(4)], axis=1)
    covariance = np.cov(votes.T, bias=True)[None]
    spread = Spread(covariance, np.array([0.0, 1.0, 0.0, 1.0]), np.array([0.2, 0.3, 0.7, 0.9]))
    mean = draws.mean(axis=0, keepdims=True)
    found = Course.of_votes(mean, events, expected, 0.01, spread).ratio_variance
    given = Course.of_votes(mean, events, expected, 0.01).ratio_variance
    by_draw = Course.of_votes(draws, events, expected, 0.01).log_ratio
    np.testing.assert_allclose(found - given, by_draw.var(), rtol=0.02)
