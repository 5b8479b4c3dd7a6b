"""Conversion of votes to a distribution of a numeric outcome.

Each neighbor votes for its own outcome. Low, medium and high outcomes are classes, and the votes for these classes are
calibrated like other votes (`calibrate`). The neighbors' outcomes are weighted accordingly, then shifted and scaled so
that their mean and spread are calibrated, and each gets a normal kernel (affine kernel dressing: Bröcker and Smith,
Tellus A 60, 2008):

    y ~ sum_b weight_b Normal(location + spread * (y_b - mean), bandwidth),    mean = sum_b weight_b y_b,
    location = center + slope * (mean - center).

The three parameters are learned from leave-one-out votes on past cases by penalized maximum likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import ndtr

from bayespatch.calibrate import Calibration
from bayespatch.metrics import weighted_quantiles

N_GROUPS = 256  # groups of parents with about the same outcome, used to learn the parameters
# Outcomes are distinguished down to this fraction of their mean absolute deviation, or to the usual step between
# outcomes if this is larger. Without this limit, tied outcomes would make the width of the kernels 0.
RESOLUTION = 0.05
# Standard deviations of the normal priors of log slope, log spread and log bandwidth, which matter if there are few
# cases.
LOG_SD = 1.0
_HALVINGS = 50  # bisection steps for a quantile
_FARTHEST = 10.0  # bandwidths beyond which a normal kernel is negligible


@dataclass(frozen=True)
class KernelDensity:
    """The map from the neighbors' outcomes to a distribution.

    Attributes
    ----------
    center : float
        Mean of the parents' outcomes.
    slope : float
        Above 1 if the mean of the neighbors' outcomes is too close to the center.
    spread : float
        Scale factor for the differences between the neighbors' outcomes: below 1 if they are too large.
    bandwidth : float
        Standard deviation of a kernel, in the unit of the outcome.

    Examples
    --------
    >>> dressing = KernelDensity(center=0.0, slope=1.0, spread=1.0, bandwidth=0.5)
    >>> dressing.mean([[0.75, 0.25]], [-1.0, 1.0])
    array([-0.5])
    >>> dressing.quantiles([[0.5, 0.5]], [-1.0, 1.0], [0.25, 0.75]).round(2)
    array([[-1.,  1.]])
    """

    center: float
    slope: float
    spread: float
    bandwidth: float

    @classmethod
    def learn(
        cls,
        weights: NDArray[np.float64],
        outcomes: NDArray[np.float64],
        y: NDArray[np.float64],
        voter_weight: NDArray[np.float64] | None = None,
        case_weight: NDArray[np.float64] | None = None,
    ) -> KernelDensity:
        """Learn the parameters from the outcomes y of past cases and the leave-one-out votes on them.

        Parameters
        ----------
        weights : array of shape (n, S)
            Weights of the parents' outcomes; see `vote_weights` and `calibrated_weights`.
        outcomes : array of shape (S,)
            Outcomes of the parents.
        y : array of shape (n,)
            Outcomes of the past cases.
        voter_weight, case_weight : arrays of shape (S,) and (n,), optional
            Weight of each parent and of each past case.
        """
        center, scale = float(np.average(outcomes, weights=voter_weight)), _scale(outcomes, voter_weight)
        counts = np.ones(len(y)) if case_weight is None else case_weight
        step = max(RESOLUTION * scale, _step(outcomes))
        narrowest = step / math.sqrt(12.0)  # the standard deviation of the error from rounding to these steps
        # To prevent a single outlier from widening all kernels, allow one in n + 1 outcomes to be anywhere.
        stray = step / (np.pi * scale * (1.0 + ((y - center) / scale) ** 2)) / counts.sum()

        def dressed(at: NDArray[np.float64]) -> KernelDensity:
            slope, spread, width = np.exp(at).tolist()
            return cls(center, slope, spread, max(0.5 * width * scale, narrowest))

        def loss(at: NDArray[np.float64]) -> float:
            low, high = (dressed(at).below(weights, outcomes, y + side) for side in (-0.5 * step, 0.5 * step))
            log_p = np.log(np.maximum(high - low, 0.0) + stray)
            return float(0.5 * ((at / LOG_SD) ** 2).sum() - (counts * log_p).sum())

        return dressed(minimize(loss, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-3}).x)

    def mean(self, weights: ArrayLike, outcomes: ArrayLike) -> NDArray[np.float64]:
        """The mean, (n,), for weights (n, S) of outcomes (S,)."""
        plain = (np.asarray(weights) * np.asarray(outcomes)).sum(axis=1)
        return np.asarray(self.center + self.slope * (plain - self.center))

    def below(self, weights: ArrayLike, outcomes: ArrayLike, at: NDArray[np.float64]) -> NDArray[np.float64]:
        """The probability, (n,), of an outcome below `at`, (n,)."""
        shares, values = np.asarray(weights), np.asarray(outcomes)
        plain = (shares * values).sum(axis=1)
        from_location = at - (self.center + self.slope * (plain - self.center))
        kernel = ndtr((from_location[:, None] - self.spread * (values - plain[:, None])) / self.bandwidth)
        return np.asarray((shares * kernel).sum(axis=1))

    def quantiles(self, weights: ArrayLike, outcomes: ArrayLike, levels: ArrayLike) -> NDArray[np.float64]:
        """Quantiles, (n, L), for L levels between 0 and 1."""
        values = np.asarray(outcomes, dtype=np.float64)
        plain = (np.asarray(weights) * values).sum(axis=1)
        location, margin = self.mean(weights, values), _FARTHEST * self.bandwidth
        found = np.empty((len(plain), np.size(levels)))
        for k, level in enumerate(np.ravel(levels)):
            low = location + self.spread * (values.min() - plain) - margin
            high = location + self.spread * (values.max() - plain) + margin
            found[:, k] = quantile_between(low, high, level, lambda at: self.below(weights, values, at))
        return found


def quantile_between(
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    level: float,
    below: Callable[[NDArray[np.float64]], NDArray[np.float64]],
) -> NDArray[np.float64]:
    """Quantiles of distribution functions between bounds, by bisection to within rounding error.

    This replaces scipy.optimize.elementwise, which would require SciPy 1.15 instead of 1.14.

    Examples
    --------
    >>> quantile_between(np.array([-9.0, 0.0]), np.array([9.0, 9.0]), 0.975, ndtr).round(2)
    array([1.96, 1.96])
    """
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        is_low = below(middle) < level
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    return np.asarray(0.5 * (low + high))


def vote_weights(
    share: NDArray[np.float32], own_parent: NDArray[np.int64], voter_weight: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Weights, (n, S), of S parents in the outcome of n cases; each row adds up to 1.

    The weight of a parent is its mean share of the votes; the share of the base rates is divided equally among all
    parents except the case itself.

    Parameters
    ----------
    share : array of shape (n, S)
        Mean shares of the votes.
    own_parent : int array of shape (n,)
        Index of the case among the parents, -1 if it is not a parent.
    voter_weight : array of shape (S,), optional
        Weight of each parent.

    Examples
    --------
    >>> vote_weights(np.array([[0.5, 0.0, 0.25]], dtype=np.float32), np.array([1]))
    array([[0.625, 0.   , 0.375]])
    """
    n_parents = share.shape[1]
    others = own_parent[:, None] != np.arange(n_parents)
    if n_parents == 1:
        others = np.ones_like(others)  # there are no other voters
    weights = np.where(others, share, 0.0).astype(np.float64)
    shared = others if voter_weight is None else others * voter_weight
    weights += shared * (np.maximum(1.0 - weights.sum(axis=1), 0.0) / shared.sum(axis=1))[:, None]
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def class_weights(weights: NDArray[np.float64], classes: NDArray[np.int64], n_classes: int) -> NDArray[np.float64]:
    """The total weight of each class, (n, M), from the weights, (n, S), and classes, (S,), of the parents."""
    return np.column_stack([(weights * (classes == m)).sum(axis=1) for m in range(n_classes)])


def calibrated_weights(
    weights: NDArray[np.float64], classes: NDArray[np.int64], calibration: Calibration
) -> NDArray[np.float64]:
    """Weights (n, S) that give each class its calibrated probability, without changing proportions within a class.

    Examples
    --------
    >>> calibrated_weights(np.array([[0.3, 0.3, 0.4]]), np.array([0, 0, 1]), Calibration(2.0, (0.5, 0.5))).round(3)
    array([[0.346, 0.346, 0.308]])
    """
    plain = class_weights(weights, classes, len(calibration.base))
    factors = calibration.apply(plain) / np.maximum(plain, np.finfo(np.float64).tiny)
    dressed = weights * np.take(factors, classes, axis=1)
    return np.asarray(dressed / dressed.sum(axis=1, keepdims=True))


class OutcomeGroups(NamedTuple):
    """Groups of parents with the same class and about the same outcome, whose weights are combined.

    Attributes
    ----------
    order : int array of shape (S,)
        The parents, sorted by outcome.
    starts : int array of shape (G,)
        Start of each group in this order.
    outcomes, classes : arrays of shape (G,)
        Mean outcome and class of each group.
    weights : array of shape (G,), or None
        Sum of the weights of the parents in each group; None if parents have no weights.
    """

    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    outcomes: NDArray[np.float64]
    classes: NDArray[np.int64]
    weights: NDArray[np.float64] | None = None

    @classmethod
    def of(
        cls,
        outcomes: NDArray[np.float64],
        classes: NDArray[np.int64],
        voter_weight: NDArray[np.float64] | None = None,
    ) -> OutcomeGroups:
        """At most `N_GROUPS` groups, plus one per class; with fewer parents, each is a separate group."""
        n = len(outcomes)
        order = np.argsort(outcomes, kind="stable")
        in_order = classes[order]
        even = np.linspace(0, n, min(n, N_GROUPS), endpoint=False).astype(np.int64)
        starts = np.union1d(even, np.flatnonzero(np.diff(in_order)) + 1)
        if voter_weight is None:
            means = np.add.reduceat(outcomes[order], starts) / np.diff(np.append(starts, n))
            return cls(order, starts, means, in_order[starts])
        totals = np.add.reduceat(voter_weight[order], starts)
        means = np.add.reduceat((voter_weight * outcomes)[order], starts) / totals
        return cls(order, starts, means, in_order[starts], totals)

    def sums(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The weights of the groups, (n, G), from the weights of the parents, (n, S)."""
        return np.asarray(np.add.reduceat(weights[:, self.order], self.starts, axis=1))


def _scale(outcomes: NDArray[np.float64], weights: NDArray[np.float64] | None = None) -> float:
    """Mean absolute deviation from the median; a tiny number if all outcomes are equal."""
    middle = float(weighted_quantiles(outcomes, weights, np.array([0.5]))[0])
    deviation = float(np.average(np.abs(outcomes - middle), weights=weights))
    return max(deviation, 1e-12 * float(np.abs(outcomes).max()), 1e-300)


def _step(outcomes: NDArray[np.float64]) -> float:
    """The usual distance between consecutive outcomes; 0 if all are equal."""
    steps = np.diff(np.unique(outcomes))
    return float(np.median(steps)) if steps.size else 0.0
