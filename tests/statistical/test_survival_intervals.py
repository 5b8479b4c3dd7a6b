"""Intervals of the survival function contain the truth, and the check finds planted mistakes."""

import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

from bayespatch import PatchworkSurvival
from bayespatch.calibrate_times import Course
from bayespatch.fitted_times import CaseVotes, Curves, FittedTimes

N_TABLES, N_PAST, N_NEW = 20, 400, 100
CENSORED = (0.0, 0.3, 0.6)
SHAPE = 1.3


def simulated(n, censored, rng):
    """Weibull times with an interaction, and exponential censoring that hits about this share of the rows."""
    X = pd.DataFrame({"a": rng.normal(size=n), "b": rng.choice(["yes", "no"], n), "c": rng.normal(size=n)})
    rate = np.exp(0.8 * X.a + 0.8 * (X.b == "yes") * (X.c > 0)).to_numpy()
    time = (rng.exponential(size=n) / rate) ** (1 / SHAPE)
    if not censored:
        return X, rate, time, np.ones(n, bool)
    end = rng.exponential(size=n)
    end *= np.quantile(time / end, 1 - censored)
    return X, rate, np.minimum(time, end), time <= end


@cache
def models(censored):
    """Fitted models, each with new cases, times and true survival."""
    rng, found = np.random.default_rng([1, int(100 * censored)]), []
    for _ in range(N_TABLES):
        X, _, time, event = simulated(N_PAST, censored, rng)
        y = np.array(list(zip(event, time, strict=True)), dtype=[("event", bool), ("time", float)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = PatchworkSurvival(draws=50, random_state=0).fit(X, y)
        new, rate, _, _ = simulated(N_NEW, 0.0, rng)
        times = np.quantile(time[event], [0.25, 0.5, 0.75])
        found.append((model, new, times, np.exp(-(times**SHAPE) * rate[:, None])))
    return found


def coverage(censored):
    """Share of true survival probabilities inside the 90 % intervals at each of three times."""
    inside = []
    for model, new, times, truth in models(censored):
        ends = model.predict_survival_interval(new, times)
        inside.append((ends[..., 0] <= truth) & (truth <= ends[..., 1]))
    return np.mean(inside, axis=(0, 1))


@pytest.mark.parametrize("censored", CENSORED)
def test_the_censoring_is_as_stated(censored):
    event = simulated(20_000, censored, np.random.default_rng(0))[3]
    assert abs(1 - event.mean() - censored) < 0.01


@pytest.mark.parametrize("censored", CENSORED)
def test_intervals_contain_the_true_survival(censored):
    found = coverage(censored)
    assert np.all((found >= 0.85) & (found <= 0.95)), found


def votes_are_certain(monkeypatch):
    """The variance of the voters' events is forgotten."""
    right = Course.of_votes

    def wrong(*given):
        return right(*given)._replace(ratio_variance=np.zeros(len(given[0])))

    monkeypatch.setattr(Course, "of_votes", wrong)


def importances_are_certain(monkeypatch):
    """The variance of the votes over the draws of the importances is forgotten."""
    right = FittedTimes.survival_interval

    def wrong(self, votes, *given):
        return right(self, CaseVotes(votes.share), *given)

    monkeypatch.setattr(FittedTimes, "survival_interval", wrong)


def all_cases_vote_alike(monkeypatch):
    """The variance is that of the events of all past cases, whatever their shares."""
    right = Course.of_votes

    def wrong(share, events, *more):
        found = right(share, events, *more)
        return found._replace(ratio_variance=np.full(len(share), 1 / events.sum()))

    monkeypatch.setattr(Course, "of_votes", wrong)


def not_calibrated(monkeypatch):
    """Votes are read as they are."""
    right = FittedTimes.survival_interval

    def wrong(self, *given):
        calibration = self.times_calibration._replace(level=1.0, covariance=np.zeros((2, 2)))
        return right(replace(self, times_calibration=calibration), *given)

    monkeypatch.setattr(FittedTimes, "survival_interval", wrong)


def second_opinion_alone(monkeypatch):
    """The interval is that of the Cox model."""

    def wrong(self, votes, values, times, level):
        return self.additive(values, times).interval(level)

    monkeypatch.setattr(FittedTimes, "survival_interval", wrong)


def variance_for_standard_error(monkeypatch):
    """A square root is forgotten."""
    right = Curves.interval

    def wrong(self, level):
        return right(self._replace(log_error=self.log_error**2), level)

    monkeypatch.setattr(Curves, "interval", wrong)


@pytest.mark.parametrize(
    "plant",
    [
        votes_are_certain,
        importances_are_certain,
        all_cases_vote_alike,
        not_calibrated,
        second_opinion_alone,
        variance_for_standard_error,
    ],
)
def test_planted_mistakes_are_found(plant, monkeypatch):
    plant(monkeypatch)
    found = np.array([coverage(censored) for censored in CENSORED])
    assert np.any((found < 0.85) | (found > 0.95)), found
