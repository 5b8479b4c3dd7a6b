"""Importances for times to an event: the leave-one-out likelihood of right-censored times.

Time is divided into K intervals. The class of a case combines its interval with whether its event occurred in it,
``2 k + event``, so sums of votes by class suffice. The follow-up has two parts g, the early and the late half. In part
g, the expected number of events of a case of class c is E_cg: the sum of the hazards h0_k of all past cases over the
intervals of this part in which the case was followed, with half of the last interval. In this part, the voters on a
case have O_g events (the share of their votes from cases with an event), compared with E_g expected events (the mean of
E_cg over their votes); O and E are the sums over both parts. The hazards of the case are the hazards of all past cases
multiplied by a power of a ratio:

    h_k = h0_k ratio_g^slope,   ratio_g = (O_g + WHOLE O + LEAST p) / (E_g + WHOLE E + LEAST p),   k in part g,

where p is the share of all past cases with an event. The slope is learned together with the importances. A case
contributes ``event log h - sum_g E_cg ratio_g^slope``. Everything else is as in `importances_at_scale`.

A feature may matter only early, so each part has a separate ratio, shrunk toward the ratio of the whole follow-up. With
about ten events per interval, the ratios of individual intervals would be mostly noise, and their likelihood would
favor a slope that is too small. The weight of the difference between early and late is learned later
(`calibrate_times`).
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.importances_at_scale import LeaveOneOutBatches
from bayespatch.retrieval import LeftOut
from bayespatch.retrieval.sums import LEAST
from bayespatch.retrieval.votes import leave_one_out_sums

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

EVENTS_PER_INTERVAL = 10  # minimum on average
N_PARTS = 2  # parts of the follow-up, in which hazard ratios may differ
WHOLE = 0.5  # weight of the whole follow-up in the ratio of a part
_SMALLEST = 1e-9  # smallest number of events in an interval


class TimeIntervals(NamedTuple):
    """K time intervals, starting at 0; each includes its upper end, and the last is unbounded.

    Attributes
    ----------
    cuts : array of shape (K - 1,)
        Upper ends of all intervals except the last.
    """

    cuts: Array

    @classmethod
    def learn(cls, time: Array, event: NDArray[np.bool_], most: int) -> TimeIntervals:
        """At most `most` intervals with about equal numbers of events.

        Examples
        --------
        >>> TimeIntervals.learn(np.arange(1.0, 61.0), np.ones(60, bool), 3).cuts
        array([20., 40.])
        """
        happened = np.sort(time[event])
        n = max(1, min(most, len(happened) // EVENTS_PER_INTERVAL))
        places = (np.arange(1, n) * len(happened)) // n
        cuts = np.unique(happened[places - 1]) if n > 1 else np.empty(0)
        return cls(cuts[cuts < happened[-1]])

    @property
    def n(self) -> int:
        """K."""
        return len(self.cuts) + 1

    def place(self, time: Array) -> Codes:
        """The interval of each time."""
        return np.searchsorted(self.cuts, time, side="left").astype(np.int64)

    def codes(self, time: Array, event: NDArray[np.bool_]) -> Codes:
        """The class of each case: ``2 k + event``."""
        return 2 * self.place(time) + event

    def log_likelihood(self, hazard: Array, codes: Codes) -> Array:
        """Log probability, (n,), of the classes of n cases, from the cumulative hazard within each interval, (n, K).

        If a case is censored in an interval, half of the interval counts.
        """
        interval, event, k = codes[:, None] // 2, codes[:, None] % 2 == 1, np.arange(self.n)
        own = k == interval
        exposure = (k < interval) + 0.5 * (own & ~event)
        log_event = np.log(np.maximum(-np.expm1(-hazard), _SMALLEST))
        return np.asarray((np.where(own & event, log_event, 0.0) - exposure * hazard).sum(axis=1))


def parts_of(n_intervals: int) -> Array:
    """Whether each interval belongs to each part of the follow-up, 0 or 1, (K, G).

    Examples
    --------
    >>> parts_of(3).tolist()
    [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    """
    n_parts = min(N_PARTS, n_intervals)
    return np.eye(n_parts)[np.arange(n_intervals) * n_parts // n_intervals]


def expected_events(codes: Codes, n_intervals: int) -> tuple[Array, Array]:
    """Expected events, (2 K, G), of a case of each class in each part of the follow-up, and the overall hazards, (K,).

    The expected numbers of events of all cases add up to the number of events.

    Examples
    --------
    >>> expected, hazard = expected_events(np.array([0, 1, 1, 3]), 2)  # one censored case and three events
    >>> hazard
    array([0.8, 2. ])
    >>> expected[[0, 2]]
    array([[0.4, 0. ],
           [0.8, 1. ]])
    """
    n_cases = np.bincount(codes, minlength=2 * n_intervals).reshape(n_intervals, 2)
    leaving = n_cases.sum(axis=1)
    followed_through = leaving.sum() - np.cumsum(leaving) + 0.5 * leaving
    hazard = (n_cases[:, 1] + _SMALLEST) / np.maximum(followed_through, 0.5)
    exposure = np.tri(n_intervals) - 0.5 * np.eye(n_intervals)
    return np.repeat((exposure * hazard) @ parts_of(n_intervals), 2, axis=0), hazard


class LeaveOneOutTimes(LeaveOneOutBatches):
    """The leave-one-out density of the importances if outcomes are times; the classes are defined by `TimeIntervals`.

    Examples
    --------
    >>> from bayespatch.model import Data, Model
    >>> rng = np.random.default_rng(0)
    >>> x = rng.integers(2, size=(300, 2)).astype(float)
    >>> time, event = rng.exponential(1.0 + 3.0 * x[:, 0]), np.ones(300, bool)
    >>> y = TimeIntervals.learn(time, event, 4).codes(time, event)
    >>> past = Data(x, y, x, y, np.array([2.0, 2.0]), 8, np.zeros(2), np.arange(300))
    >>> importances = LeaveOneOutTimes(past, Model(), np.full(8, 0.125)).learn(seed=0)
    >>> bool(importances.mode[0] > importances.mode[1])  # the first feature affects the time; the second is noise
    True
    """

    @cached_property
    def _by_part(self) -> tuple[Array, Array, Array]:
        """Events and expected events of each class in each part of the follow-up, (M, G), and hazards, (K,)."""
        n = self.data.n_classes // 2
        events = np.asarray(np.kron(parts_of(n), [[0.0], [1.0]]), dtype=np.float64)
        return events, *expected_events(self.data.y, n)

    def scores(self, position: Array, rows: NDArray[np.int64]) -> tuple[Array, Array]:
        """Log likelihood of some cases given all others, (n,), and its gradient, (n, P + E + 1)."""
        slope = math.exp(position[-1])
        log_weights, _ = self.effects.log_weights(position[None])
        index = self.index_here
        votes = leave_one_out_sums(
            index,
            index.ranges(self.data.x[rows]),
            LeftOut.members(index, self.data.own_parent[rows], self.data.groups),
            log_weights[0],
            n_threads=self.n_threads,
            engine=self.engine,
        )
        total = votes.sums[:, :, -1].sum(axis=1)
        share = votes.sums / np.where(total > 0.0, total, 1.0)[:, None, None]
        events, expected, base = self._by_part
        codes = self.data.y[rows]
        rate = LEAST * float(events[self.data.y].sum(axis=1).mean())
        smooth = np.eye(events.shape[1]) + WHOLE
        observed_votes = np.einsum("nmc,mg->ngc", share, events @ smooth)
        expected_votes = np.einsum("nmc,mg->ngc", share, expected @ smooth)
        above, below = observed_votes[:, :, -1] + rate, expected_votes[:, :, -1] + rate
        log_ratio = np.log(above / below)
        own_events, ratio = events[codes], np.exp(slope * log_ratio)
        log_p = (own_events * slope * log_ratio - expected[codes] * ratio).sum(axis=1)
        log_p += own_events.sum(axis=1) * np.log(base[codes // 2])
        # Derivative with respect to the log ratio, and from it with respect to the log weights.
        by_ratio = slope * (own_events - expected[codes] * ratio)
        all_shares = share[:, :, :-1].sum(axis=1)[:, None]
        of_above = (observed_votes[:, :, :-1] - observed_votes[:, :, -1:] * all_shares) / above[:, :, None]
        of_below = (expected_votes[:, :, :-1] - expected_votes[:, :, -1:] * all_shares) / below[:, :, None]
        gradient = self.effects.gradient(position, np.einsum("ng,ngc->nc", by_ratio, of_above - of_below))
        weight = self.weight[rows]
        return weight * log_p, weight[:, None] * np.column_stack([gradient, (by_ratio * log_ratio).sum(axis=1)])
