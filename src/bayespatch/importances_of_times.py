"""Importances for times to an event: the leave-one-out likelihood of right-censored times.

Times are cut into K intervals. The class of a case is its interval and whether its event happened there,
``2 k + event``, so sums of votes by class are all that is needed. The voters on a case have the hazard

    h_k = (d_k + LEAST h0_k) / (r_k + LEAST)

in interval k: d is their share of the votes with an event in it, r the share at risk, where those who are censored in
it count half (the actuarial estimate), and h0 the hazard of all past cases. On the scale of the cumulative hazard
``a = -log(1 - h)`` a slope, learned along with the importances, says how far votes differ from the average:

    log a_k = slope log a(h_k) + (1 - slope) log a(h0_k),

and a case that is followed through interval k contributes -a_k, half of it if it is censored there, and
``log(1 - exp(-a_k))`` if its event happens there. Everything else is as in `importances_at_scale`.
"""

from __future__ import annotations

import math
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
_SMALLEST = 1e-9  # hazards lie between this and 1 less this


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
        """Log likelihood of cases, (n,), from the cumulative hazard within each interval, (n, K)."""
        exposure, happens = followed(codes, self.n)
        return np.asarray(log_likelihood(hazard, exposure, happens))


def followed(codes: Codes, n_intervals: int) -> tuple[Array, NDArray[np.bool_]]:
    """How much of each interval a case is followed without its event, and where this happens, (n, K) each."""
    interval, event = codes[:, None] // 2, codes[:, None] % 2 == 1
    k = np.arange(n_intervals)
    own = k == interval
    return (k < interval) + 0.5 * (own & ~event), own & event


def log_likelihood(hazard: Array, exposure: Array, happens: NDArray[np.bool_]) -> Array:
    """Log likelihood of cases, (n,); arguments (n, K)."""
    log_event = np.log(np.maximum(-np.expm1(-hazard), _SMALLEST))
    return np.asarray((np.where(happens, log_event, 0.0) - exposure * hazard).sum(axis=1))


def base_hazards(codes: Codes, n_intervals: int) -> Array:
    """Hazard of all cases in each interval, (K,), half a case added so that none is 0."""
    exposure, happens = followed(codes, n_intervals)
    events = happens.sum(axis=0)
    return np.asarray((events + 0.5) / (exposure.sum(axis=0) + events + 1.0))


def cumulative(hazard: Array) -> Array:
    """``-log(1 - h)``."""
    return -np.log1p(-np.clip(hazard, _SMALLEST, 1.0 - _SMALLEST))


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
    >>> found = LeaveOneOutTimes(past, Model(), np.full(8, 0.125)).learn(seed=0)
    >>> bool(found.mode[0] > found.mode[1])  # the first feature tells the time, the second nothing
    True
    """

    def scores(self, position: Array, rows: NDArray[np.int64]) -> tuple[Array, Array]:
        """Log likelihood of some cases given all others, (n,), and its gradient, (n, P + E + 1)."""
        n_intervals, slope = self.data.n_classes // 2, math.exp(position[-1])
        log_weights, _ = self.effects.log_weights(position[None])
        found = leave_one_out_sums(
            self.index,
            self.index.ranges(self.data.x[rows]),
            LeftOut.members(self.index, self.data.own_parent[rows], self.data.groups),
            log_weights[0],
            n_threads=self.n_threads,
            engine=self.engine,
        )
        total = found.sums[:, :, -1].sum(axis=1)
        share = found.sums / np.where(total > 0.0, total, 1.0)[:, None, None]
        base = base_hazards(self.data.y, n_intervals)
        happened, at_risk = _at_risk(share.reshape(len(rows), n_intervals, 2, -1))
        above, below = happened[..., -1] + LEAST * base, at_risk[..., -1] + LEAST
        h = np.clip(above / below, _SMALLEST, 1.0 - _SMALLEST)
        apart = np.log(cumulative(h)) - np.log(cumulative(base))
        hazard = cumulative(base) * np.exp(slope * apart)
        exposure, happens = followed(self.data.y[rows], n_intervals)
        # Derivative by log hazard, and from there by the logarithms of the weights.
        by_log = np.where(happens, hazard / np.maximum(np.expm1(hazard), _SMALLEST), 0.0) - exposure * hazard
        by_hazard = by_log * slope / ((1.0 - h) * cumulative(h))
        everyone = share[:, :, :-1].sum(axis=1)[:, None]
        of_above = happened[..., :-1] - happened[..., -1:] * everyone
        of_below = at_risk[..., :-1] - at_risk[..., -1:] * everyone
        inside = by_hazard / below
        by_comparison = np.einsum("nk,nkc->nc", inside, of_above) - np.einsum("nk,nkc->nc", inside * h, of_below)
        gradient = self.effects.gradient(position, by_comparison)
        by_slope = (by_log * slope * apart).sum(axis=1)
        weight = self.weight[rows]
        log_p = log_likelihood(hazard, exposure, happens)
        return weight * log_p, weight[:, None] * np.column_stack([gradient, by_slope])


def _at_risk(share: Array) -> tuple[Array, Array]:
    """Shares with an event in each interval and at risk in it, (n, K, C), from shares by class, (n, K, 2, C)."""
    there = share.sum(axis=2)
    later = np.cumsum(there[:, ::-1], axis=1)[:, ::-1]
    return share[:, :, 1], later - 0.5 * share[:, :, 0]
