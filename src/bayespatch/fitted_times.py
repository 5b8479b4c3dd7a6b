"""The fitted state of a survival model, and the conversion of votes to survival curves.

The precedents' curve is the Nelson-Aalen hazard of all past cases, multiplied by a factor that `calibrate_times`
computes from the votes. It is pooled with a second opinion as a mixture of two distributions of the event time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from bayespatch.calibrate_times import Course, Spread, TimesCalibration
from bayespatch.encode.column import number_text
from bayespatch.encode.table import DataFrame
from bayespatch.feature_importance import PooledModel
from bayespatch.fitted import Fitted, OpinionOnCases, Rows
from bayespatch.follow_up import FollowUpColumn
from bayespatch.importances_of_times import TimeIntervals
from bayespatch.retrieval.sums import LEAST
from bayespatch.second_opinion import CoxScore
from bayespatch.survival import check_times
from bayespatch.types import AnyArray, TableLike

Array = NDArray[np.float64]

# A structured array with the event and the time, or a data frame with these two columns.
EventTimes: TypeAlias = "AnyArray | DataFrame"

_SMALLEST = 1e-12


class Curves(NamedTuple):
    """Cumulative hazards of n cases at T times, and the standard errors of their logarithms, (n, T) each."""

    hazard: Array
    log_error: Array

    @property
    def survival(self) -> Array:
        """Probability of being event-free, (n, T)."""
        return np.exp(-self.hazard)

    def interval(self, level: float) -> Array:
        """Intervals of the survival probability, (n, T, 2)."""
        width = float(ndtri((1.0 + level) / 2.0)) * self.log_error
        log = np.log(np.maximum(self.hazard, _SMALLEST))
        return np.stack([np.exp(-np.exp(log + width)), np.exp(-np.exp(log - width))], axis=-1)


class CaseVotes(NamedTuple):
    """Shares of the votes on n cases.

    Attributes
    ----------
    share : array of shape (n, S)
        Share of each past case.
    covariance : array of shape (n, M, M), or None
        Covariance of the shares of the classes over the draws of the importances; None means 0.
    """

    share: NDArray[np.float32]
    covariance: Array | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedTimes(Fitted):
    """A fitted survival model; its classes are pairs of a time interval and whether the event happened in it.

    Attributes
    ----------
    time, event : arrays of shape (n,)
        Times and events of the training table.
    time_intervals : TimeIntervals
    times_calibration : TimesCalibration
        The map from votes to a hazard.
    event_name : str
        Name of the event; may be empty.
    unit : str
        Unit of the times; may be empty.
    """

    opinion: CoxScore | None
    time: Array
    event: NDArray[np.bool_]
    time_intervals: TimeIntervals
    times_calibration: TimesCalibration
    event_name: str = ""
    unit: str = ""

    def describe_outcomes(self, codes: Rows, y: EventTimes | None) -> Sequence[str]:
        """Outcomes as text: whether the event happened, and the time."""
        time, event = (self.time, self.event) if y is None else read_times(y)
        pairs = zip(time.tolist(), event.tolist(), strict=True)
        name = self.event_name or "event"
        return [
            f"{name if happened else f'no {name}'} at {number_text(at)} {self.unit}".rstrip() for at, happened in pairs
        ]

    def outcome_codes(self, y: ArrayLike, n: int) -> Rows:
        """Classes of n known outcomes."""
        return self.time_intervals.codes(*read_times(y))

    def _pooled_model(self) -> PooledModel:
        """The votes on the classes, without the second opinion; the slope does not apply to classes."""
        of_table = (self.values, self.y, self.cases, np.empty(0))
        posterior = replace(self.posterior, steps=None)
        return PooledModel(posterior, self.past, self.calibration, None, None, *of_table)

    @property
    def outcome_column(self) -> FollowUpColumn:
        """The times with their events."""
        name = self.event_name or "event"
        return FollowUpColumn(
            self.target or "time", "time", "", self.unit, name, (name,), self.time, self.event.astype(np.int64)
        )

    @cached_property
    def event_times(self) -> Array:
        """Times of the events in the training table, (T,)."""
        return np.unique(self.time[self.event])

    @cached_property
    def base_hazard(self) -> Array:
        """Increments of the cumulative hazard of all past cases at the event times, (T,)."""
        happened = np.bincount(np.searchsorted(self.event_times, self.time[self.event]))
        return np.asarray(happened / self._at_risk)

    @cached_property
    def _at_risk(self) -> NDArray[np.int64]:
        """Number of past cases at risk at the event times, (T,)."""
        return np.asarray(len(self.time) - np.searchsorted(np.sort(self.time), self.event_times, side="left"))

    def base_curve(self, times: Array) -> Curves:
        """The curve of all past cases, (1, T)."""
        hazard = np.append(0.0, np.cumsum(self.base_hazard))
        variance = np.append(self.base_hazard[0] / self._at_risk[0], np.cumsum(self.base_hazard / self._at_risk))
        place = np.searchsorted(self.event_times, times, side="right")
        least = np.maximum(hazard, self.base_hazard[0])
        return Curves(hazard[place][None], (np.sqrt(variance) / least)[place][None])

    def base_exposure(self, times: Array) -> Array:
        """Cumulative hazard of all past cases within each interval, up to each time, (T, K)."""
        within = np.eye(self.time_intervals.n)[self.time_intervals.place(self.event_times)]
        hazard = np.cumsum(self.base_hazard[:, None] * within, axis=0)
        place = np.searchsorted(self.event_times, times, side="right")
        return np.asarray(np.vstack([np.zeros(self.time_intervals.n), hazard])[place])

    @cached_property
    def outcomes_by_interval(self) -> tuple[Array, Array]:
        """Observed and expected events of the rows of the training table in each interval, (n, K) each."""
        place = self.time_intervals.place(self.time)
        return np.eye(self.time_intervals.n)[place] * self.event[:, None], self.base_exposure(self.time)

    def course(self, votes: CaseVotes) -> Course:
        """The outcomes of the voters."""
        events, expected = (part[self.parents] for part in self.outcomes_by_interval)
        spread = None
        if votes.covariance is not None:
            n_classes, of_parents = votes.covariance.shape[1], self.y[self.parents]
            n = np.maximum(np.bincount(of_parents, minlength=n_classes), 1)
            means = (np.bincount(of_parents, part.sum(axis=1), n_classes) / n for part in (events, expected))
            spread = Spread(votes.covariance, *means)
        return Course.of_votes(votes.share.astype(np.float64), events, expected, LEAST, spread)

    def precedents(self, votes: CaseVotes, times: Array) -> Curves:
        """Curves from the precedents alone."""
        course = self.course(votes)
        ratio = np.exp(self.times_calibration.log_hazard_ratio(course))
        parts = ratio[:, None] * self.base_exposure(times)
        hazard = parts.sum(axis=2)
        variance = self.times_calibration.variance(course, parts / np.maximum(hazard, _SMALLEST)[:, :, None])
        return Curves(hazard, np.sqrt(variance + self.base_curve(times).log_error ** 2))

    def additive(self, values: Array, times: Array) -> Curves | None:
        """Curves from the second opinion alone for rows of `EncodedTable.values`; None without a second opinion."""
        if self.opinion is None:
            return None
        return Curves(self.opinion.cumulative_hazard(values, times), self.opinion.log_error(values, times))

    def survival(self, votes: CaseVotes, values: Array, times: Array) -> Array:
        """Pooled probability of being event-free, (n, T)."""
        precedents, additive = self.precedents(votes, times), self.additive(values, times)
        if additive is None or self.pool is None:
            return precedents.survival
        return self.pool.combine(additive.survival, precedents.survival)

    def survival_interval(self, votes: CaseVotes, values: Array, times: Array, level: float) -> Array:
        """Intervals of the pooled probability of being event-free, (n, T, 2)."""
        precedents, additive = self.precedents(votes, times), self.additive(values, times)
        ends = precedents.interval(level)
        if additive is None or self.pool is None:
            return ends
        return self.pool.interval(additive.survival, additive.interval(level), precedents.survival, ends, level)

    def second_opinion(self, X: TableLike, values: Array, level: float) -> OpinionOnCases | None:
        """None, because a survival model pools curves instead of class probabilities."""
        return None

    def second_opinion_of_past(self, rows: Rows) -> OpinionOnCases | None:
        """None, like `second_opinion`."""
        return None


def read_times(y: EventTimes) -> tuple[Array, NDArray[np.bool_]]:
    """Times and events from a structured array with a boolean field and a time field, as in scikit-survival.

    A data frame with these two columns is also accepted.

    Examples
    --------
    >>> y = np.array([(True, 3.0), (False, 5.0)], dtype=[("died", bool), ("days", float)])
    >>> read_times(y)
    (array([3., 5.]), array([ True, False]))
    """
    event_name, time_name = outcome_names(y)
    time, event = check_times(np.asarray(y[time_name]), np.asarray(y[event_name]), time_name, event_name)
    return time, event


def outcome_names(y: EventTimes) -> tuple[str, str]:
    """Names of the event and of the time."""
    dtype = getattr(y, "dtype", None)
    names = getattr(dtype, "names", None) or (list(y.columns) if hasattr(y, "columns") else None)
    if names is None or len(names) != 2:
        raise ValueError(
            "y must be a structured array or a data frame with two fields, the event (True or False) and the time; "
            'pass np.array(list(zip(died, days)), dtype=[("died", bool), ("days", float)])'
        )
    event, time = names
    if y[time].dtype == bool and y[event].dtype != bool:
        raise ValueError(f"the event must come before the time, but y has {event!r} before {time!r}; swap them")
    return event, time
