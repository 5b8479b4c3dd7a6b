"""Calibration of votes to probabilities.

Uncalibrated vote shares are underconfident, because a few neighbors do not contain all the information in the past
cases. The leave-one-out votes on past cases show how to correct them:

    log p(m) = slope * (log votes_m - log anchor_m) + log base_m + constant:

The anchor (the votes on a case without known values) maps to the base rates for every slope; the slope scales the
effect of other votes. If all parents' votes have equal weight, the anchor equals the base rates. It differs from them
if classes are weighted, or more frequent among the parents than among the cases, because the mean of a share is not the
share of the means.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import betaincinv, log_softmax, softmax

from bayespatch.types import AnyArray

# Mean and standard deviation of the normal prior of the log slope, which matters only if there are few cases.
LOG_SLOPE_MEAN, LOG_SLOPE_SD = math.log(2.0), 0.5
_LEAST = 1e-12  # smallest share of the votes, replacing shares that round to 0
_MOST_LOG_SLOPE = 4.0


@dataclass(frozen=True)
class Calibration:
    """The map from shares of the votes to probabilities.

    Attributes
    ----------
    slope : float
        Above 1 if uncalibrated votes are underconfident.
    base : tuple of M floats
        The base rate of each class; the sum is 1.
    anchor : tuple of M floats, optional
        The votes on a case without known values; the sum is 1. By default the base rates.
    slope_error : float
        Monte Carlo standard error of the log slope, which is learned from Monte Carlo estimates of votes.
    inflation : float
        Ratio of the errors of the votes estimated from chains and from batches, which are not quite independent.

    Examples
    --------
    >>> Calibration(2.0, (0.5, 0.5)).apply([0.6, 0.4]).round(3)
    array([0.692, 0.308])
    >>> Calibration(3.0, (0.7, 0.3)).apply([0.7, 0.3]).round(3)  # the base rates
    array([0.7, 0.3])
    >>> Calibration(3.0, (0.7, 0.3), anchor=(0.8, 0.2)).apply([0.8, 0.2]).round(3)
    array([0.7, 0.3])
    >>> Calibration.none(2).apply([0.6, 0.4])
    array([0.6, 0.4])
    """

    slope: float
    base: tuple[float, ...]
    anchor: tuple[float, ...] = ()
    slope_error: float = 0.0
    inflation: float = 1.0

    def __post_init__(self) -> None:
        if not self.anchor:
            object.__setattr__(self, "anchor", self.base)

    @classmethod
    def none(cls, n_classes: int) -> Calibration:
        """The identity: votes are used as probabilities."""
        return cls(1.0, (1.0 / n_classes,) * n_classes)

    @classmethod
    def learn(
        cls,
        votes: NDArray[np.float64],
        y: NDArray[np.int64],
        base: ArrayLike,
        weights: ArrayLike = 1.0,
        anchor: ArrayLike | None = None,
    ) -> Calibration:
        """Learn the map from the leave-one-out votes on past cases and their classes y, by maximum a posteriori.

        Parameters
        ----------
        votes : array of shape (n, M) or (n, C, B, M)
            Mean vote shares; pass the shares in B batches of each of C chains to learn the errors as well.
        y : int array of shape (n,)
            Classes.
        base : array of shape (M,)
            Base rates.
        weights : array of shape (n,), optional
            Weight of each case.
        anchor : array of shape (M,), optional
            The votes on a case without known values; by default the base rates.
        """
        rates = _shares(base)
        nothing = rates if anchor is None else _shares(anchor)
        each = np.broadcast_to(np.asarray(weights, dtype=np.float64), len(y))
        shares = np.asarray(votes, dtype=np.float64)
        mean = shares.mean(axis=(1, 2)) if shares.ndim == 4 else shares
        log_slope = _best_log_slope(mean, y, rates, nothing, each)
        found = cls(math.exp(log_slope), tuple(rates.tolist()), tuple(nothing.tolist()))
        if shares.ndim < 4 or shares.shape[1] * shares.shape[2] < 2:
            return found
        inflation = _inflation(shares)
        batches = shares.reshape(len(y), -1, shares.shape[3])
        n_batches = batches.shape[1]
        without = (n_batches * mean[:, None] - batches) / (n_batches - 1)  # jackknife: all batches except one
        logs = [_best_log_slope(without[:, k], y, rates, nothing, each) for k in range(n_batches)]
        error = inflation * math.sqrt((n_batches - 1) * float(np.var(logs)))
        return replace(found, slope_error=error, inflation=inflation)

    def apply(self, votes: ArrayLike) -> NDArray[np.float64]:
        """Probabilities, (..., M), for vote shares, (..., M)."""
        shares = np.maximum(np.asarray(votes, dtype=np.float64), _LEAST)
        if self.slope == 1.0 and self.anchor == self.base:
            return np.asarray(shares / shares.sum(axis=-1, keepdims=True))
        return np.asarray(softmax(self.slope * (np.log(shares) - np.log(self.anchor)) + np.log(self.base), axis=-1))

    def error(self, batches: NDArray[np.float64]) -> NDArray[np.float64]:
        """Monte Carlo standard error of the probabilities, (n,), the largest over the classes.

        It combines the error of the votes, inflated because batches are correlated, with the error of the slope.

        Parameters
        ----------
        batches : array of shape (n, B, M)
            Mean vote shares in B batches of draws; their mean is calibrated. To first order,
            ``dp = slope (diag p - p p') d log votes``.

        Examples
        --------
        >>> batches = np.array([[[0.5, 0.5], [0.54, 0.46]] * 5])
        >>> float(Calibration(2.0, (0.5, 0.5)).error(batches).round(4)[0])
        0.0133
        """
        return np.asarray(self._errors(batches)[0].max(axis=1))

    def scaled_error(self, batches: NDArray[np.float64]) -> NDArray[np.float64]:
        """The error, (n,), divided by ``2 sqrt(p (1 - p))``: unchanged at a probability of 50%, larger if p is small.

        An error of one percentage point matters little at a probability of 50% but a lot at 5%. On the arcsine scale,
        shares from samples of equal size have equal errors. This error decides when to stop sampling votes.
        """
        errors, p = self._errors(batches)
        return np.asarray((errors / (2.0 * np.sqrt(np.maximum(p * (1.0 - p), 1e-6)))).max(axis=1))

    def _errors(self, batches: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Standard errors of the probabilities, (n, M), and the probabilities."""
        n_batches = batches.shape[1]
        mean = np.maximum(batches.mean(axis=1), _LEAST)
        p = self.apply(mean)
        if n_batches < 2:
            return np.full(p.shape, np.inf), p
        relative = (batches - batches.mean(axis=1, keepdims=True)) / mean[:, None]
        moves = self.slope * p[:, None] * (relative - (p[:, None] * relative).sum(axis=2, keepdims=True))
        of_votes = self.inflation * moves.std(axis=1, ddof=1) / math.sqrt(n_batches)
        beyond = np.log(mean) - np.log(self.anchor)
        per_log_slope = self.slope * p * (beyond - (p * beyond).sum(axis=1, keepdims=True))
        return np.hypot(of_votes, self.slope_error * per_log_slope), p

    def interval(self, votes: AnyArray, n_voters: AnyArray, level: float) -> NDArray[np.float64]:
        """Intervals for the probabilities, (n, M, 2), from the number of voters.

        If the voters were a random sample, with equal weights, of all cases like this one, the share of a class among
        these cases would have a Beta distribution (with Jeffreys' prior). The limits of its central interval are
        calibrated like the votes.

        Parameters
        ----------
        votes : array of shape (n, M)
            Mean vote shares of each class.
        n_voters : array of shape (n,)
            Effective number of voters (`effective_number`).
        level : float
            Probability of the interval.

        Examples
        --------
        >>> Calibration.none(2).interval(np.array([[0.75, 0.25]]), np.array([4.0]), 0.9)[0, 0].round(2)
        array([0.35, 0.95])
        >>> Calibration.none(2).interval(np.array([[0.75, 0.25]]), np.array([100.0]), 0.9)[0, 0].round(2)
        array([0.67, 0.82])
        """
        v = np.asarray(votes, dtype=np.float64)
        n = np.asarray(n_voters, dtype=np.float64)[:, None]
        tails = np.array([(1.0 - level) / 2.0, (1.0 + level) / 2.0])
        a, b = v * n + 0.5, (1.0 - v) * n + 0.5
        ends = betaincinv(a[..., None], b[..., None], tails)
        ends = np.stack([np.minimum(ends[..., 0], v), np.maximum(ends[..., 1], v)], axis=-1)
        # Votes with class m at an end of its interval; the other classes share the rest in proportion: (n, m, 2, M).
        own = np.eye(v.shape[1], dtype=bool)[:, None, :]
        rest = np.where(own, 0.0, np.maximum(v, _LEAST)[:, None, None, :])
        rest /= np.maximum(rest.sum(axis=-1, keepdims=True), _LEAST)
        others = rest * (1.0 - ends)[..., None]
        p = self.apply(np.where(own, ends[..., None], others))
        return np.asarray(np.moveaxis(np.diagonal(p, axis1=1, axis2=3), -1, 1))


def effective_number(shares: AnyArray) -> NDArray[np.float64]:
    """Effective number of voters, (n,), for vote shares, (n, S): ``(sum s)^2 / sum s^2``.

    Examples
    --------
    >>> effective_number(np.array([[0.25, 0.25, 0.25, 0.25], [1.0, 0.0, 0.0, 0.0]]))
    array([4., 1.])
    """
    s = np.asarray(shares, dtype=np.float64)
    return np.asarray(s.sum(axis=1) ** 2 / np.maximum((s**2).sum(axis=1), _LEAST))


def _best_log_slope(
    votes: NDArray[np.float64],
    y: NDArray[np.int64],
    rates: NDArray[np.float64],
    anchor: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> float:
    """The posterior mode of the log slope, given votes of shape (n, M)."""
    beyond = np.log(np.maximum(votes, _LEAST)) - np.log(anchor)
    rows = np.arange(len(y))

    def loss(log_slope: float) -> float:
        log_p = log_softmax(math.exp(log_slope) * beyond + np.log(rates), axis=1)[rows, y]
        return float(0.5 * ((log_slope - LOG_SLOPE_MEAN) / LOG_SLOPE_SD) ** 2 - (weights * log_p).sum())

    bounds = (-_MOST_LOG_SLOPE, _MOST_LOG_SLOPE)
    return float(minimize_scalar(loss, bounds=bounds, method="bounded").x)


def _inflation(votes: NDArray[np.float64]) -> float:
    """Ratio of the standard errors of mean votes from chains and from batches, over all cases; at least 1.

    `votes` has shape (n, C, B, M).
    """
    n_chains, n_batches = votes.shape[1:3]
    if n_chains < 2 or n_batches < 2:
        return 1.0
    by_chain = votes.mean(axis=2).var(axis=1, ddof=1).sum() / n_chains
    flat = votes.reshape(len(votes), -1, votes.shape[3])
    by_batch = flat.var(axis=1, ddof=1).sum() / flat.shape[1]
    return max(1.0, math.sqrt(by_chain / by_batch)) if by_batch > 0.0 else 1.0


def _shares(numbers: ArrayLike) -> NDArray[np.float64]:
    """Numbers above 0 that add up to 1."""
    shares = np.maximum(np.asarray(numbers, dtype=np.float64), _LEAST)
    return np.asarray(shares / shares.sum())
