"""Weighted summaries of past cases' outcomes: survival curves, cumulative incidence, frequencies, quantiles.

Every past case has a weight, such as its share of the votes on a new case. Only ratios of the weights matter.
Standard errors use Kish's effective number instead of the number of cases,

    n_eff = (sum_b w_b)^2 / sum_b w_b^2,

which is n if all weights are equal. For curves, it is computed from the cases at risk at each time (Xie and Liu,
Statistics in Medicine 24, 2005), so equal weights give Greenwood's formula.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, ndtri

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

_ROUNDING = 1e-12  # tolerance within which a curve counts as having reached a level


class SurvivalCurve(NamedTuple):
    """A weighted Kaplan-Meier curve at the T distinct times of events and censoring.

    The curve is 1 before the first time, and constant between times.

    Attributes
    ----------
    times : array of shape (T,)
        The times in ascending order.
    survival, lower, upper : arrays of shape (T,)
        Probability of being event-free just after each time, with pointwise intervals on the log-log scale.
    variance : array of shape (T,)
        Variance of log survival (Greenwood's sum); infinite if survival is 0.
    n_at_risk : int array of shape (T,)
        Number of cases with the same or a later time.
    effective_at_risk : array of shape (T,)
        Their effective number.
    level : float
        Probability of the intervals.
    """

    times: Array
    survival: Array
    lower: Array
    upper: Array
    variance: Array
    n_at_risk: NDArray[np.int64]
    effective_at_risk: Array
    level: float

    def at(self, times: ArrayLike) -> Array:
        """Survival and the limits of its interval at any times, (n, 3)."""
        place = np.searchsorted(self.times, np.asarray(times, dtype=np.float64), side="right")
        first = np.array([1.0, _without_event(self.effective_at_risk[0], self.level), 1.0])
        steps = np.column_stack([self.survival, self.lower, self.upper])
        return np.vstack([first, steps])[place]

    def at_risk(self, times: ArrayLike) -> Array:
        """Effective number of cases at risk at any times, (n,); 0 after the last time of the curve."""
        place = np.searchsorted(self.times, np.asarray(times, dtype=np.float64), side="left")
        return np.append(self.effective_at_risk, 0.0)[place]

    def quantile(self, share: float) -> tuple[float | None, float | None, float | None]:
        """First time at which survival is at most 1 - share, and its interval; None if it is not reached.

        The interval contains the times at which the curve's interval includes the level (Brookmeyer and Crowley, 1982).
        """
        target = 1.0 - share + _ROUNDING
        ends = [np.flatnonzero(curve <= target) for curve in (self.survival, self.lower, self.upper)]
        middle, low, high = (float(self.times[rows[0]]) if rows.size else None for rows in ends)
        return middle, low, high

    def median(self) -> tuple[float | None, float | None, float | None]:
        """Median survival time and its interval; None if the curve does not fall to 0.5."""
        return self.quantile(0.5)


class CumulativeIncidence(NamedTuple):
    """Probability that each of K competing events has happened by each of T times (Aalen and Johansen).

    Attributes
    ----------
    times : array of shape (T,)
    incidence, lower, upper : arrays of shape (K, T)
        Pointwise intervals on the log-log scale.
    variance : array of shape (K, T)
        Variance of the incidence (Dinse and Larson, 1986, equation 6), with effective numbers.
    effective_at_risk : array of shape (T,)
    level : float
    """

    times: Array
    incidence: Array
    lower: Array
    upper: Array
    variance: Array
    effective_at_risk: Array
    level: float


class Frequencies(NamedTuple):
    """Weighted shares of K categories, (K,), with intervals, and the effective number of cases."""

    share: Array
    lower: Array
    upper: Array
    effective: float


class Quantiles(NamedTuple):
    """Weighted quantiles, (L,), with intervals, and the effective number of cases."""

    value: Array
    lower: Array
    upper: Array
    effective: float


class _Risk(NamedTuple):
    """Cases at risk and events at distinct times, as sums of weights."""

    times: Array  # (T,)
    weight: Array  # (T,) of the cases at risk
    effective: Array  # (T,)
    n: NDArray[np.int64]  # (T,)
    hazard: Array  # (K, T) share of the weight at risk that has event k


def effective_number(weights: ArrayLike) -> float:
    """Kish's effective number of cases with these weights; 0 without any weight.

    Examples
    --------
    >>> effective_number([1.0, 1.0, 1.0]), round(effective_number([3.0, 1.0]), 3)
    (3.0, 1.6)
    """
    w = np.asarray(weights, dtype=np.float64)
    squares = float(w @ w)
    return float(w.sum()) ** 2 / squares if squares > 0.0 else 0.0


def check_times(
    time: ArrayLike, event: ArrayLike, name: str = "time", event_name: str = "event"
) -> tuple[Array, Flags]:
    """Times as numbers and events as flags; invalid ones raise a ValueError.

    Parameters
    ----------
    time : array-like of shape (n,)
        Time to the event, or to the end of follow-up: finite and nonnegative.
    event : array-like of shape (n,)
        Whether the event happened at that time: booleans, or 0 and 1.
    name, event_name : str
        Names of the columns in messages.

    Examples
    --------
    >>> check_times([3, 5], [1, 0])
    (array([3., 5.]), array([ True, False]))
    >>> check_times([3, -5], [1, 0], "follow_up_days")
    Traceback (most recent call last):
    ...
    ValueError: column 'follow_up_days' has negative times: -5 in row 1. Correct or drop these rows
    """
    times, flags = _numbers(time, name, "a number"), _numbers(event, event_name, "0 or 1")
    if times.ndim != 1 or times.shape != flags.shape:
        raise ValueError(
            f"{name!r} has shape {times.shape}, but {event_name!r} has shape {flags.shape}; pass one of each per row"
        )
    wrong = np.flatnonzero((flags != 0.0) & (flags != 1.0))
    if wrong.size:
        raise ValueError(
            f"column {event_name!r} has {flags[wrong[0]]:g} in row {wrong[0]}. Use 1 (or True) if the event happened "
            f"and 0 (or False) if follow-up ended without it"
        )
    missing = np.flatnonzero(~np.isfinite(times))
    if missing.size:
        happened = " although the event happened" if flags[missing[0]] else ""
        raise ValueError(
            f"column {name!r} has no finite time in row {missing[0]}{happened} ({missing.size} such rows). Enter the "
            f"time of the event or of the last contact, or drop these rows"
        )
    negative = np.flatnonzero(times < 0.0)
    if negative.size:
        raise ValueError(
            f"column {name!r} has negative times: {times[negative[0]]:g} in row {negative[0]}. "
            f"Correct or drop these rows"
        )
    if times.size and not flags.any():
        raise ValueError(
            f"column {event_name!r} has no event: all {times.size} times are censored. Check that events are coded as "
            f"1 (or True)"
        )
    return times, flags == 1.0


def _numbers(values: ArrayLike, name: str, wanted: str) -> Array:
    """A column as numbers, with NaN for missing values."""
    column = np.asarray(values)
    if column.dtype.kind in "mM":
        raise ValueError(
            f"column {name!r} contains dates or durations, but must contain numbers; convert it, for example to days"
        )
    if column.dtype.kind != "O":
        with suppress(ValueError):
            return column.astype(np.float64)
    numbers = np.full(column.shape, np.nan)
    for place, value in np.ndenumerate(column.astype(object)):
        if value is None or type(value).__name__ == "NAType":
            continue
        try:
            numbers[place] = value
        except (TypeError, ValueError):
            raise ValueError(f"column {name!r} has {value!r} in row {place[0]}; use {wanted}") from None
    return numbers


def kaplan_meier(time: Array, event: Flags, weights: ArrayLike | None = None, level: float = 0.9) -> SurvivalCurve:
    """The weighted Kaplan-Meier curve, ``S(t) = prod_{t_j <= t} (1 - d_j / n_j)`` with d and n as sums of weights.

    A case censored at the time of an event is still at risk at that time. Cases of weight 0 do not count. Before the
    first event, when the log-log interval has no width, the lower limit is the limit for no event among the effective
    number at risk, ``(alpha / 2)^(1 / n_eff)``. If survival is 0, the upper limit keeps its last value.

    Parameters
    ----------
    time, event : arrays of shape (n,)
        As checked by `check_times`.
    weights : array-like of shape (n,), optional
        Nonnegative weights; None means equal weights.
    level : float
        Probability of the pointwise intervals.

    Examples
    --------
    >>> curve = kaplan_meier(np.array([1.0, 2.0, 2.0, 4.0]), np.array([True, True, False, True]))
    >>> curve.times.tolist(), curve.survival.tolist(), curve.n_at_risk.tolist()
    ([1.0, 2.0, 4.0], [0.75, 0.5, 0.0], [4, 3, 1])
    >>> curve.median()[0]
    2.0
    """
    risk = _at_risk(time, np.where(event, 1, 0), weights, n_events=1)
    hazard = risk.hazard[0]
    survival = np.cumprod(1.0 - hazard)
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.cumsum(hazard / ((1.0 - hazard) * risk.effective))
    lower, upper = _log_log(survival, np.sqrt(variance), level)
    lower = np.where(survival == 1.0, _without_event(risk.effective, level), lower)
    upper = np.where(survival == 1.0, 1.0, upper)
    gone = survival <= 0.0
    if gone.any():
        last = int(np.flatnonzero(gone)[0])
        lower[last:], upper[last:] = 0.0, upper[last - 1] if last else 1.0
    return SurvivalCurve(risk.times, survival, lower, upper, variance, risk.n, risk.effective, level)


def cumulative_incidence(
    time: Array, cause: NDArray[np.int64], weights: ArrayLike | None = None, level: float = 0.9
) -> CumulativeIncidence:
    """Weighted Aalen-Johansen estimate for each competing event; `cause` is 0 for censored cases, otherwise 1 to K.

    Examples
    --------
    >>> found = cumulative_incidence(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1, 2, 0, 1]))
    >>> found.incidence.round(3).tolist()
    [[0.25, 0.25, 0.25, 0.75], [0.0, 0.25, 0.25, 0.25]]
    """
    n_events = int(cause.max(initial=0))
    if n_events < 1:
        raise ValueError("no case has an event: all are censored (cause 0)")
    risk = _at_risk(time, cause, weights, n_events)
    total = np.minimum(risk.hazard.sum(axis=0), 1.0)
    survival = np.cumprod(1.0 - total)
    before = np.append(1.0, survival[:-1])
    incidence = np.cumsum(before * risk.hazard, axis=1)
    variance = np.stack([_incidence_variance(risk, k, total, before, f) for k, f in enumerate(incidence)])
    z = float(ndtri((1.0 + level) / 2.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.log(incidence)
        width = z * np.sqrt(np.maximum(variance, 0.0)) / (incidence * np.abs(log))
        lower, upper = (np.exp(log * np.exp(sign * width)) for sign in (1.0, -1.0))
    none, all_ = incidence <= 0.0, incidence >= 1.0
    lower, upper = np.where(none, 0.0, np.where(all_, 1.0, lower)), np.where(none, 0.0, np.where(all_, 1.0, upper))
    return CumulativeIncidence(risk.times, incidence, lower, upper, variance, risk.effective, level)


def frequencies(codes: NDArray[np.int64], n_codes: int, weights: ArrayLike, level: float = 0.9) -> Frequencies:
    """Weighted share of each of K codes, with Jeffreys intervals for the effective number of cases.

    Examples
    --------
    >>> found = frequencies(np.array([0, 0, 1, 0]), 2, np.ones(4))
    >>> found.share.tolist(), found.effective
    ([0.75, 0.25], 4.0)
    """
    w = np.asarray(weights, dtype=np.float64)
    total, n = float(w.sum()), effective_number(w)
    if total <= 0.0:
        raise ValueError("there is no case to count")
    share = np.bincount(codes, w, n_codes) / total
    return Frequencies(share, *_jeffreys(share, n, level), n)


def weighted_quantiles(values: Array, shares: ArrayLike, weights: ArrayLike, level: float = 0.9) -> Quantiles:
    """Weighted quantiles: for each share, the smallest value such that values up to it have at least that weight.

    Intervals invert the Jeffreys interval of the share (Woodruff, 1952). If a share falls exactly between two values,
    their mean is used, so equal weights give the usual median.

    Examples
    --------
    >>> weighted_quantiles(np.array([1.0, 2.0, 3.0, 10.0]), [0.5], np.ones(4)).value.tolist()
    [2.5]
    """
    w = np.asarray(weights, dtype=np.float64)
    values, w = values[w > 0.0], w[w > 0.0]
    if not values.size:
        raise ValueError("there is no case with a value")
    order = np.argsort(values, kind="stable")
    values, below = values[order], np.cumsum(w[order]) / w.sum()
    below[-1] = 1.0
    targets, n = np.asarray(shares, dtype=np.float64), effective_number(w)

    def at(share: Array, side: float) -> Array:
        return values[np.minimum(np.searchsorted(below, share + side * _ROUNDING), len(values) - 1)]

    low, high = _jeffreys(targets, n, level)
    middle = 0.5 * (at(targets, -1.0) + at(targets, 1.0))
    return Quantiles(middle, at(low, -1.0), at(high, 1.0), n)


def _at_risk(time: Array, cause: NDArray[np.int64], weights: ArrayLike | None, n_events: int) -> _Risk:
    """Sums of weights at the distinct times of cases with a positive weight."""
    w = np.ones(len(time)) if weights is None else np.asarray(weights, dtype=np.float64)
    if w.shape != time.shape or not np.isfinite(w).all() or np.any(w < 0.0):
        raise ValueError("weights must be finite and nonnegative, one for each case")
    counts = w > 0.0
    time, cause, w = time[counts], cause[counts], w[counts]
    if not time.size:
        raise ValueError("there is no case with a positive weight")
    times, place = np.unique(time, return_inverse=True)

    def from_here(each: Array) -> Array:
        return np.asarray(np.cumsum(np.bincount(place, each, len(times))[::-1])[::-1], dtype=np.float64)

    weight, squares, n = from_here(w), from_here(w**2), from_here(np.ones(len(w)))
    events = np.stack([np.bincount(place, w * (cause == k + 1), len(times)) for k in range(n_events)])
    hazard = np.minimum(events / weight, 1.0)
    return _Risk(times, weight, weight**2 / squares, n.astype(np.int64), hazard)


def _without_event(effective: ArrayLike, level: float) -> Array:
    """Lower limit of survival for an effective number of cases without an event."""
    return np.asarray(((1.0 - level) / 2.0) ** (1.0 / np.maximum(effective, 1.0)))


def _log_log(survival: Array, error: Array, level: float) -> tuple[Array, Array]:
    """Interval of survival from the standard error of its logarithm."""
    z = float(ndtri((1.0 + level) / 2.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.log(survival)
        width = z * error / np.abs(log)
        return np.exp(log * np.exp(width)), np.exp(log * np.exp(-width))


def _incidence_variance(risk: _Risk, k: int, total: Array, before: Array, incidence: Array) -> Array:
    """Delta-method variance of one event's cumulative incidence at each time.

    With c_j = F(t) - F(t_j), the sum over t_j <= t of
    ``c_j^2 a_j + S(t_j-)^2 h_j (1 - h_j) / n_j - 2 c_j S(t_j-) h_j / n_j``, where a_j is Greenwood's term, is expanded
    in powers of F(t), so that cumulative sums suffice.
    """
    h, n = risk.hazard[k], risk.effective
    with np.errstate(divide="ignore"):
        greenwood = np.where(total < 1.0, total / ((1.0 - total) * n), 0.0)  # nothing happens after total = 1
    cross = before * h / n
    f = incidence
    square = f**2 * np.cumsum(greenwood) - 2.0 * f * np.cumsum(greenwood * f) + np.cumsum(greenwood * f**2)
    mixed = f * np.cumsum(cross) - np.cumsum(cross * f)
    return np.asarray(square + np.cumsum(before**2 * h * (1.0 - h) / n) - 2.0 * mixed)


def _jeffreys(share: Array, n: float, level: float) -> tuple[Array, Array]:
    """Jeffreys intervals of shares among n cases; for a share of 0 or 1, the interval ends there."""
    tail = (1.0 - level) / 2.0
    a, b = n * share + 0.5, n * (1.0 - share) + 0.5
    low, high = betaincinv(a, b, tail), betaincinv(a, b, 1.0 - tail)
    return np.where(share <= 0.0, 0.0, low), np.where(share >= 1.0, 1.0, high)


def harrell_concordance(time: Array, event: Flags, risk: Array) -> float:
    """Harrell's concordance index: share of comparable pairs in which the case with the earlier event has more risk.

    A pair is comparable if the earlier time is an event time; equal times are comparable if one is an event and the
    other is censored. Equal risks count one half. NaN if no pair is comparable.

    Examples
    --------
    >>> harrell_concordance(np.array([1.0, 2.0, 3.0]), np.array([True, True, False]), np.array([3.0, 1.0, 2.0]))
    0.6666666666666666
    """
    concordant = pairs = 0.0
    for i in np.flatnonzero(event).tolist():
        later = (time > time[i]) | ((time == time[i]) & ~event)
        pairs += int(later.sum())
        concordant += int((risk[later] < risk[i]).sum()) + 0.5 * int((risk[later] == risk[i]).sum())
    return concordant / pairs if pairs else math.nan
