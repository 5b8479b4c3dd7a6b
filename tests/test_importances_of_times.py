"""The leave-one-out likelihood of censored times: its value, its gradient, what it learns."""

import numpy as np
import pytest

from bayespatch.importances_of_times import LEAST, WHOLE, LeaveOneOutTimes, TimeIntervals, expected_events
from bayespatch.model import Data, Model


def problem(n=80, seed=0, nested=False):
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.integers(3, size=n), rng.normal(size=n)]).astype(float)
    x[rng.random(n) < 0.1, 0] = np.nan
    time = rng.exponential(np.where(x[:, 0] == 1, 1.0, 3.0))
    end = rng.exponential(4.0, n)
    event, time = time <= end, np.minimum(time, end)
    intervals = TimeIntervals.learn(time, event, 4)
    y = intervals.codes(time, event)
    n_values, windows = np.array([3.0, 5.0]), np.array([0.0, 0.3])
    more = {"nested": ((), (0.8, 1.5))} if nested else {}
    return Data(x, y, x, y, n_values, 2 * intervals.n, windows, np.arange(n), **more), intervals


def density(data):
    return LeaveOneOutTimes(data, Model(), np.full(data.n_classes, 1.0 / data.n_classes))


@pytest.mark.parametrize("nested", [False, True])
def test_the_gradient_is_that_of_the_likelihood(nested):
    data, _ = problem(nested=nested)
    model, rng = density(data), np.random.default_rng(1)
    rows = np.arange(len(data.y))
    for _ in range(3):
        at = model._start() + rng.normal(size=len(model._start()))
        _, gradient = model.scores(at, rows)
        for k in range(len(at)):
            step = np.zeros(len(at))
            step[k] = 1e-4
            ends = [model.scores(at + sign * step, rows)[0] for sign in (-1.0, 1.0)]
            np.testing.assert_allclose(gradient[:, k], (ends[1] - ends[0]) / 2e-4, atol=2e-4)


def test_the_likelihood_is_that_of_observed_over_expected_events():
    data, intervals = problem()
    model = density(data)
    position = model._start()
    log_weights, _ = model.effects.log_weights(position[None])
    scores, _ = model.scores(position, np.arange(len(data.y)))
    interval, event, slope = data.y // 2, data.y % 2, np.exp(position[-1])
    exposure = (np.arange(intervals.n) < interval[:, None]) + 0.5 * (np.arange(intervals.n) == interval[:, None])
    hazard = np.array([(event * (interval == k)).sum() / exposure[:, k].sum() for k in range(intervals.n)])
    part = np.arange(intervals.n) >= (intervals.n + 1) // 2  # the late half
    expected = np.stack([(exposure * hazard)[:, part == g].sum(axis=1) for g in (0, 1)], axis=1)
    happened = event[:, None] * (part[interval][:, None] == np.arange(2))
    comparisons = np.stack([np.abs(data.x[:, None, j] - data.x[None, :, j]) for j in range(2)])
    for i in range(0, len(data.y), 7):
        log_w = np.zeros(len(data.y))
        for k, (j, reach) in enumerate(zip(model.index.columns, model.index.reach, strict=True)):
            apart = comparisons[j, i]
            passes = np.isnan(apart) if np.isnan(reach) else apart <= reach
            log_w += np.where(passes, log_weights[0, k], 0.0)
        w = np.exp(log_w)
        w[i] = 0.0
        w /= w.sum()
        rate = LEAST * event.mean()
        both = w @ happened, w @ expected
        above, below = (each + WHOLE * each.sum() + rate for each in both)
        hazard_ratio = (above / below) ** slope
        wanted = event[i] * np.log(hazard[interval[i]] * hazard_ratio[int(part[interval[i]])])
        wanted -= expected[i] @ hazard_ratio
        np.testing.assert_allclose(scores[i], wanted, rtol=1e-7)


def test_expected_events_add_up_to_events():
    data, intervals = problem(300)
    expected, hazard = expected_events(data.y, intervals.n)
    np.testing.assert_allclose(expected[data.y].sum(), (data.y % 2).sum())
    assert np.all(hazard > 0.0)


def test_intervals_have_as_many_events_each_and_contain_their_ends():
    time = np.arange(1.0, 101.0)
    event = time % 2 == 0
    intervals = TimeIntervals.learn(time, event, 5)
    assert intervals.cuts.tolist() == [20.0, 40.0, 60.0, 80.0]
    assert intervals.place(np.array([0.0, 20.0, 20.5, 1000.0])).tolist() == [0, 0, 1, 4]
    assert intervals.codes(np.array([20.0, 20.5]), np.array([True, False])).tolist() == [1, 2]
    assert TimeIntervals.learn(time, time < 10, 5).n == 1
    assert TimeIntervals.learn(np.full(60, 3.0), np.ones(60, bool), 5).n == 1


def test_a_censored_case_counts_for_half_of_its_last_interval():
    intervals = TimeIntervals(np.array([1.0, 2.0]))
    hazard = np.array([[0.1, 0.2, 0.4]])
    codes = intervals.codes(np.array([1.5]), np.array([False]))
    np.testing.assert_allclose(intervals.log_likelihood(hazard, codes), -0.2)
    codes = intervals.codes(np.array([1.5]), np.array([True]))
    np.testing.assert_allclose(intervals.log_likelihood(hazard, codes), -0.1 + np.log(1 - np.exp(-0.2)))
