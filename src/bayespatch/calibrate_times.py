"""Survival curves from votes, calibrated on leave-one-out votes.

The voters on a case had O events, compared with E expected from all past cases over the same follow-up. For the early
and late halves g of the time intervals, these numbers are O_g and E_g. With Kish's effective number of voters n, the
hazard of the case is

    h(t) = h0(t) base_k exp(level r + shape s_g),   t in interval k of half g,
    r = log (O + LEAST p) / (E + LEAST p),   s_g = log (n O_g + 1) / (n E_g exp(r) + 1),

where h0 is the hazard of all past cases and p is the share of past cases with an event. ``level`` is above 1 if votes
are underconfident. ``shape`` scales the difference between early and late, because a feature may matter only early;
individual intervals have too few events for this. Both have normal priors and are learned from the leave-one-out votes
on past cases with Cox's partial likelihood. ``base_k`` is the baseline, which is constant within each interval relative
to h0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from bayespatch.importances_of_times import parts_of

Array = NDArray[np.float64]

LEVEL_MEAN, LEVEL_SD = 2.0, 1.0  # of the priors, as for the slope in the calibration of classes
SHAPE_MEAN, SHAPE_SD = 0.0, 1.0
_LOWEST_LEVEL = 0.05
_SMALLEST = 1e-12


class Spread(NamedTuple):
    """Variation of the votes on n cases over the draws of the importances.

    Attributes
    ----------
    covariance : array of shape (n, M, M)
        Covariance of the vote shares of the classes.
    events, expected : arrays of shape (M,)
        Mean observed and expected number of events of the past cases in each class.
    """

    covariance: Array
    events: Array
    expected: Array


class Course(NamedTuple):
    """Outcomes of the voters on n cases, compared with all past cases over the same follow-up.

    Attributes
    ----------
    log_ratio : array of shape (n,)
        r, the log ratio of observed to expected events.
    ratio_variance : array of shape (n,)
        The variance of r.
    shape : array of shape (n, G)
        s, the difference between the log ratio in each part of the follow-up and r.
    shape_variance : array of shape (n, G)
        The variance of s.
    """

    log_ratio: Array
    ratio_variance: Array
    shape: Array
    shape_variance: Array

    @classmethod
    def of_votes(
        cls, share: Array, events: Array, expected: Array, least: float, spread: Spread | None = None
    ) -> Course:
        """Combine vote shares, (n, S), with each voter's observed and expected events by interval, (S, K).

        The variance of r is the variance of a weighted count of events given the shares. With `spread`, it also
        includes the variance of the shares over the draws of the importances (delta method).

        Examples
        --------
        >>> events, expected = np.array([[1.0], [0.0], [1.0]]), np.array([[0.2], [0.4], [0.6]])
        >>> course = Course.of_votes(np.array([[0.5, 0.0, 0.5]]), events, expected, 0.0)
        >>> np.exp(course.log_ratio)  # one event each, although 0.4 were expected
        array([2.5])
        """
        happened, rate = events.sum(axis=1), least * float(events.sum(axis=1).mean())
        observed, awaited = share @ happened + rate, share @ expected.sum(axis=1) + rate
        log_ratio = np.log(np.maximum(observed, _SMALLEST) / np.maximum(awaited, _SMALLEST))
        squared = share**2
        n_voters = share.sum(axis=1) ** 2 / np.maximum(squared.sum(axis=1), _SMALLEST)
        by_part = parts_of(events.shape[1])
        in_part = n_voters[:, None] * (share @ (events @ by_part)) + 1.0
        usual = n_voters[:, None] * (share @ (expected @ by_part)) * np.exp(log_ratio)[:, None] + 1.0
        variance = (squared @ happened + rate**2) / np.maximum(observed, _SMALLEST) ** 2
        if spread is not None:
            slope = spread.events / np.maximum(observed, _SMALLEST)[:, None]
            slope = slope - spread.expected / np.maximum(awaited, _SMALLEST)[:, None]
            variance = variance + np.einsum("nm,nmk,nk->n", slope, spread.covariance, slope)
        return cls(
            log_ratio,
            variance,
            np.log(in_part / usual),
            1.0 / usual,
        )

    def of_cases(self, rows: NDArray[np.int64]) -> Course:
        """The course of some of the cases."""
        return Course(*(part[rows] for part in self))


class TimesCalibration(NamedTuple):
    """The map from votes to a hazard.

    Attributes
    ----------
    level, shape : float
    covariance : array of shape (2, 2)
        Covariance of `level` and `shape`.
    base : array of shape (K,)
        Baseline hazard within each interval, relative to the hazard of all past cases.
    """

    level: float
    shape: float
    covariance: Array
    base: Array

    @classmethod
    def learn(cls, course: Course, exposure: Array, happens: Array) -> TimesCalibration:
        """Learn from leave-one-out votes.

        Parameters
        ----------
        course : Course
            Outcomes of the voters on n past cases.
        exposure : array of shape (n, K)
            Expected number of events of each case in each interval of its follow-up.
        happens : array of shape (n, K)
            1 in the interval of the case's event.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> ratio = rng.normal(0, 0.3, 2000)
        >>> time = rng.exponential(np.exp(-1.7 * ratio))
        >>> course = Course(ratio, np.zeros(2000), np.zeros((2000, 1)), np.zeros((2000, 1)))
        >>> level = TimesCalibration.learn(course, time[:, None], np.ones((2000, 1))).level
        >>> abs(level - 1.7) < 0.1
        True
        """
        log_exposure = np.log(np.maximum(exposure, _SMALLEST**2))
        by_interval = course.shape @ parts_of(exposure.shape[1]).T
        terms = np.stack([np.broadcast_to(course.log_ratio[:, None], by_interval.shape), by_interval])
        mean, precision = np.array([LEVEL_MEAN, SHAPE_MEAN]), np.array([LEVEL_SD, SHAPE_SD]) ** -2.0
        events = happens.sum(axis=0)
        observed = (terms * happens).sum(axis=(1, 2))

        def loss(at: Array) -> tuple[float, Array, Array]:
            """Negative log posterior density, its gradient and its Hessian."""
            log_hazard = log_exposure + np.tensordot(at, terms, axes=1)
            log_total = logsumexp(log_hazard, axis=0)
            weight = np.exp(log_hazard - log_total)
            means = (weight * terms).sum(axis=1)  # (2, K)
            second = np.einsum("nk,ink,jnk->ijk", weight, terms, terms) - means[:, None] * means[None]
            apart = at - mean
            value = float(events @ log_total - observed @ at + 0.5 * precision @ apart**2)
            return value, means @ events - observed + precision * apart, second @ events + np.diag(precision)

        bounds = [(_LOWEST_LEVEL, None), (0.0, None)]
        best = minimize(lambda at: loss(at)[:2], mean, jac=True, method="L-BFGS-B", bounds=bounds).x
        log_total = logsumexp(log_exposure + np.tensordot(best, terms, axes=1), axis=0)
        inverse = np.linalg.inv(loss(best)[2])
        base = (events + 1.0) / (np.exp(log_total) + 1.0)
        return cls(float(best[0]), float(best[1]), 0.5 * (inverse + inverse.T), base)

    def log_hazard_ratio(self, course: Course) -> Array:
        """Log hazard ratio of the cases in each interval, relative to all past cases, (n, K)."""
        by_interval = course.shape @ parts_of(len(self.base)).T
        return np.log(self.base) + self.level * course.log_ratio[:, None] + self.shape * by_interval

    def variance(self, course: Course, weight: Array) -> Array:
        """Variance of the log of a sum over intervals, (n, T), given the shares of the intervals, (n, T, K)."""
        weight = weight @ parts_of(weight.shape[2])
        shape = np.einsum("ntg,ng->nt", weight, course.shape)
        of_shape = np.einsum("ntg,ng->nt", weight**2, course.shape_variance)
        ratio = course.log_ratio[:, None]
        of_votes = self.level**2 * course.ratio_variance[:, None] + self.shape**2 * of_shape
        c = self.covariance
        return of_votes + c[0, 0] * ratio**2 + 2.0 * c[0, 1] * ratio * shape + c[1, 1] * shape**2


def held_out_log_ratios(course: Course, exposure: Array, happens: Array, folds: Sequence[NDArray[np.int64]]) -> Array:
    """`TimesCalibration.log_hazard_ratio` of the cases in each fold, (n, K), calibrated on the other folds.

    Without cross-fitting, the weight of the second opinion, which has not seen these cases, would be too small.
    """
    log_ratio = np.empty_like(exposure)
    for places in folds:
        others = np.setdiff1d(np.arange(len(exposure)), places)
        calibration = TimesCalibration.learn(course.of_cases(others), exposure[others], happens[others])
        log_ratio[places] = calibration.log_hazard_ratio(course.of_cases(places))
    return log_ratio
