"""Importances for times to an event: the leave-one-out likelihood of right-censored times.

Time is cut into K intervals. The class of a case is its interval and whether its event happened there, ``2 k + event``,
so sums of votes by class are all that is needed. The cases of a class expect E_c events: the hazards h0_k of all past
cases, summed over the intervals that they were followed through, the last one by half. The voters on a case have O
events (the share of their votes that belongs to cases with an event) where E (the mean of E_c over their votes) were
expected. The case has the hazards of all past cases, multiplied by a power of this ratio:

    h_k = h0_k ratio^slope,   ratio = (O + LEAST p) / (E + LEAST p),

where p is the share of all past cases with an event. The slope is learned along with the importances. A case
contributes ``event log h - E_c ratio^slope``. Everything else is as in `importances_at_scale`.

Only the ratio over the whole follow-up counts here. With about ten events in an interval, ratios of single intervals
are mostly noise, and a likelihood of these asks for too small a slope. How hazards change over time is learned
afterwards (`calibrate_times`).
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

EVENTS_PER_INTERVAL = 10  # at least, on average
_SMALLEST = 1e-9  # events in an interval


class TimeIntervals(NamedTuple):
    """K intervals of time, from 0 on; each contains its upper end, and the last has none.

    Attributes
    ----------
    cuts : array of shape (K - 1,)
        Upper ends of all intervals but the last.
    """

    cuts: Array

    @classmethod
    def learn(cls, time: Array, event: NDArray[np.bool_], most: int) -> TimeIntervals:
        """At most `most` intervals with about as many events each.

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
        """Interval of each time."""
        return np.searchsorted(self.cuts, time, side="left").astype(np.int64)

    def codes(self, time: Array, event: NDArray[np.bool_]) -> Codes:
        """Class of each case: ``2 k + event``."""
        return 2 * self.place(time) + event

    def log_likelihood(self, hazard: Array, codes: Codes) -> Array:
        """Log probability of the classes of cases, (n,), from the cumulative hazard within each interval, (n, K).

        Cases that are censored in an interval count half of it.
        """
        interval, event, k = codes[:, None] // 2, codes[:, None] % 2 == 1, np.arange(self.n)
        own = k == interval
        exposure = (k < interval) + 0.5 * (own & ~event)
        log_event = np.log(np.maximum(-np.expm1(-hazard), _SMALLEST))
        return np.asarray((np.where(own & event, log_event, 0.0) - exposure * hazard).sum(axis=1))


def expected_events(codes: Codes, n_intervals: int) -> tuple[Array, Array]:
    """Events that the cases of each class expect, (2 K,), and the hazards of all cases, (K,).

    The expected events of all cases add up to their events.

    Examples
    --------
    >>> expected, hazard = expected_events(np.array([0, 1, 1, 3]), 2)  # one case censored, three events
    >>> expected, hazard
    (array([0.4, 0.4, 1.8, 1.8]), array([0.8, 2. ]))
    """
    n_cases = np.bincount(codes, minlength=2 * n_intervals).reshape(n_intervals, 2)
    leaving = n_cases.sum(axis=1)
    followed_through = leaving.sum() - np.cumsum(leaving) + 0.5 * leaving
    hazard = (n_cases[:, 1] + _SMALLEST) / np.maximum(followed_through, 0.5)
    return np.repeat(np.cumsum(hazard) - 0.5 * hazard, 2), hazard


class LeaveOneOutTimes(LeaveOneOutBatches):
    """The leave-one-out density of the importances where outcomes are times; classes are those of `TimeIntervals`.

    Examples
    --------
    >>> from bayespatch.model import Data, Model
    >>> rng = np.random.default_rng(0)
    >>> x = rng.integers(2, size=(300, 2)).astype(float)
    >>> time, event = rng.exponential(1.0 + 3.0 * x[:, 0]), np.ones(300, bool)
    >>> y = TimeIntervals.learn(time, event, 4).codes(time, event)
    >>> past = Data(x, y, x, y, np.array([2.0, 2.0]), 8, np.zeros(2), np.arange(300))
    >>> importances = LeaveOneOutTimes(past, Model(), np.full(8, 0.125)).learn(seed=0)
    >>> bool(importances.mode[0] > importances.mode[1])  # the first feature tells the time, the second nothing
    True
    """

    @cached_property
    def _expected(self) -> tuple[Array, Array]:
        return expected_events(self.data.y, self.data.n_classes // 2)

    def scores(self, position: Array, rows: NDArray[np.int64]) -> tuple[Array, Array]:
        """Log likelihood of some cases given all others, (n,), and its gradient, (n, P + E + 1)."""
        slope = math.exp(position[-1])
        log_weights, _ = self.effects.log_weights(position[None])
        votes = leave_one_out_sums(
            self.index,
            self.index.ranges(self.data.x[rows]),
            LeftOut.members(self.index, self.data.own_parent[rows], self.data.groups),
            log_weights[0],
            n_threads=self.n_threads,
            engine=self.engine,
        )
        total = votes.sums[:, :, -1].sum(axis=1)
        share = votes.sums / np.where(total > 0.0, total, 1.0)[:, None, None]
        expected, base = self._expected
        event = np.arange(self.data.n_classes) % 2
        rate = LEAST * float(event[self.data.y].mean())
        happened = np.einsum("nmc,m->nc", share, event)
        awaited = np.einsum("nmc,m->nc", share, expected)
        above, below = happened[:, -1] + rate, awaited[:, -1] + rate
        log_ratio = np.log(above / below)
        codes = self.data.y[rows]
        mine, ratio = event[codes], np.exp(slope * log_ratio)
        log_p = mine * (np.log(base[codes // 2]) + slope * log_ratio) - expected[codes] * ratio
        # Derivative by the logarithm of the ratio, and from there by the logarithms of the weights.
        by_ratio = slope * (mine - expected[codes] * ratio)
        everyone = share[:, :, :-1].sum(axis=1)
        of_above = (happened[:, :-1] - happened[:, -1:] * everyone) / above[:, None]
        of_below = (awaited[:, :-1] - awaited[:, -1:] * everyone) / below[:, None]
        gradient = self.effects.gradient(position, by_ratio[:, None] * (of_above - of_below))
        weight = self.weight[rows]
        return weight * log_p, weight[:, None] * np.column_stack([gradient, by_ratio * log_ratio])
