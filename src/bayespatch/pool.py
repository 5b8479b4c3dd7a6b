"""Pooling of two opinions, an additive score and precedents, into a single probability.

    p = a * additive + (1 - a) * precedents

The weight a is the posterior mean, based on the log scores of both opinions' held-out predictions of the training cases
and a uniform prior. With more than two classes, the mean of two calibrated opinions is underconfident, and more so the
more classes there are. The pool is therefore sharpened by an exponent t, learned together with the weight:

    p proportional to base * (mean / base)^t

See docs/second-opinion.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_softmax, logit, ndtr, ndtri, softmax

from bayespatch.kernel_density import quantile_between
from bayespatch.types import JSONObject

Array = NDArray[np.float64]

SHARPNESS_SD = 0.2  # prior standard deviation of log(t), which has mean 0
DENSITY_PRIOR = 3.0  # prior of the weight for numeric outcomes: a ~ Beta(3, 3)
_GRID = (np.arange(400) + 0.5) / 400.0  # weights for summing the posterior of densities
_CELLS, _ROUNDS = (16, 9), 3  # size of the grid over weight and sharpness, which is refined twice
_WIDEST = 4.0  # range of the search for log(t), in prior standard deviations
_LEAST = 1e-12  # smallest probability
_FIELDS = ("weight", "weight_sd", "log_loss", "sharpness", "base")


@dataclass(frozen=True)
class Pool:
    """The weight of the additive opinion, and the log loss of both opinions and of the pool on the training cases.

    Attributes
    ----------
    weight : float
        a, the weight of the additive opinion; the weight of the precedents is 1 - a.
    weight_sd : float
        Posterior standard deviation of the weight.
    log_loss : tuple of 3 floats
        Mean leave-one-out log loss of the additive opinion, of the precedents, and of the pool.
    sharpness : float
        t. If it is 1, as always with two classes, the pool is the weighted mean of the opinions.
    base : tuple of M floats
        Class frequencies, from which the pool is sharpened; empty if it is not sharpened.

    Examples
    --------
    >>> additive = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]] * 20)
    >>> precedents = np.array([[0.6, 0.4], [0.5, 0.5], [0.4, 0.6]] * 20)
    >>> pool = Pool.learn(additive, precedents, np.array([0, 1, 0] * 20))
    >>> bool(0.5 < pool.weight < 1.0)
    True
    >>> Pool(0.25).combine([[0.8, 0.2]], [[0.4, 0.6]])
    array([[0.5, 0.5]])
    >>> Pool(0.25, sharpness=1.2, base=(0.2, 0.4, 0.4)).combine([[0.6, 0.2, 0.2]], [[0.4, 0.4, 0.2]]).round(3)
    array([[0.507, 0.326, 0.167]])
    """

    weight: float
    weight_sd: float = 0.0
    log_loss: tuple[float, float, float] = (float("nan"), float("nan"), float("nan"))
    sharpness: float = 1.0
    base: tuple[float, ...] = ()

    @classmethod
    def learn(cls, additive: Array, precedents: Array, y: NDArray[np.int64], weights: ArrayLike = 1.0) -> Pool:
        """Learn the weight and, with several classes, the sharpness from leave-one-out or out-of-fold probabilities.

        Parameters
        ----------
        additive, precedents : arrays of shape (n, M)
            Probabilities of the same training cases.
        y : int array of shape (n,)
            The observed classes.
        weights : array of shape (n,), optional
            Weight of each case.
        """
        first, second = np.maximum(additive, _LEAST), np.maximum(precedents, _LEAST)
        rows, n_classes = np.arange(len(y)), first.shape[1]
        counts = np.broadcast_to(np.asarray(weights, dtype=np.float64), len(y))
        base = np.bincount(y, counts, n_classes) / counts.sum()
        if n_classes <= 2 or np.any(base <= 0):
            return cls._of_scores(first[rows, y], second[rows, y], counts, prior=1.0)

        def log_posterior(at: Array, log_t: Array) -> Array:
            """The log posterior, up to a constant, at all pairs of weights and log sharpness."""
            log_likelihood = np.empty((len(at), len(log_t)))
            for i, a in enumerate(at):
                moved = np.log(a * first + (1.0 - a) * second) - np.log(base)
                for k, t in enumerate(np.exp(log_t)):
                    log_likelihood[i, k] = counts @ log_softmax(t * moved + np.log(base), axis=1)[rows, y]
            return log_likelihood - 0.5 * (log_t / SHARPNESS_SD) ** 2

        weight, spread, log_sharpness = _posterior_means(log_posterior)
        pool = cls(weight, spread, sharpness=math.exp(log_sharpness), base=tuple(base.tolist()))
        each = (first, second, pool.combine(first, second))
        losses = [float(-(counts @ np.log(p[rows, y])) / counts.sum()) for p in each]
        return replace(pool, log_loss=(losses[0], losses[1], losses[2]))

    @classmethod
    def learn_densities(cls, additive: Array, precedents: Array, weights: ArrayLike = 1.0) -> Pool:
        """Learn the weight for numeric outcomes from the densities of both opinions at the observed outcomes, (n,).

        The prior is Beta(3, 3), because densities vary more than probabilities, so a few outcomes could dominate.
        """
        first, second = np.maximum(additive, _LEAST), np.maximum(precedents, _LEAST)
        counts = np.broadcast_to(np.asarray(weights, dtype=np.float64), first.shape)
        return cls._of_scores(first, second, counts, prior=DENSITY_PRIOR)

    @classmethod
    def _of_scores(cls, first: Array, second: Array, counts: Array, prior: float) -> Pool:
        """The posterior mean of the weight, with a ~ Beta(prior, prior), from the scores of both for the outcomes."""
        log_scores = np.array([(counts * np.log(a * first + (1.0 - a) * second)).sum() for a in _GRID])
        mass = softmax(log_scores + (prior - 1.0) * np.log(_GRID * (1.0 - _GRID)))
        weight = float(mass @ _GRID)
        spread = float(np.sqrt(mass @ (_GRID - weight) ** 2))
        each = (first, second, weight * first + (1.0 - weight) * second)
        losses = [float(-(counts * np.log(p)).sum() / counts.sum()) for p in each]
        return cls(weight, spread, (losses[0], losses[1], losses[2]))

    def combine(self, additive: ArrayLike, precedents: ArrayLike) -> Array:
        """Pool probabilities, (..., M), of arrays with the same shape, or means if the pool is not sharpened."""
        mean = self.weight * np.asarray(additive, dtype=np.float64) + (1.0 - self.weight) * np.asarray(precedents)
        if self.sharpness == 1.0:
            return mean
        log_base = np.log(self.base)
        moved = np.log(np.maximum(mean, _LEAST)) - log_base
        return np.asarray(softmax(log_base + self.sharpness * moved, axis=-1))

    def interval(
        self,
        additive: Array,
        additive_interval: Array | None,
        precedents: Array,
        precedents_interval: Array,
        level: float = 0.9,
    ) -> Array:
        """Intervals for the pooled probabilities, (n, M, 2), from the intervals of both opinions at the same level.

        Each opinion is a split normal (two-piece normal) distribution of the log odds: its median is the predicted
        probability, and its quantiles are the ends of the interval. The pool is the mixture of both distributions, with
        weight a on the additive opinion, sharpened like the probabilities. The interval consists of quantiles of the
        mixture, extended if necessary to contain the pooled probability. A second opinion without intervals (a
        classifier passed by the user) gets the same width in log odds as the precedents.

        The interval is intended to cover the mean risk of patients with these predictions, not the risk of an
        individual patient; see docs/second-opinion.md.

        Parameters
        ----------
        additive, precedents : arrays of shape (n, M)
            Probabilities.
        additive_interval, precedents_interval : arrays of shape (n, M, 2)
            The intervals for these; None if the additive opinion has no intervals.
        level : float
            Probability of all these intervals.

        Examples
        --------
        >>> p, ends = np.array([[0.5]]), np.array([[[0.4, 0.6]]])
        >>> Pool(0.5).interval(p, ends, p, ends).round(3)
        array([[[0.4, 0.6]]])
        >>> Pool(0.5).interval(p, ends, np.array([[0.7]]), np.array([[[0.6, 0.8]]])).round(2)
        array([[[0.42, 0.78]]])
        """
        shape = np.shape(additive)
        second = _Half.of(precedents, precedents_interval, level)
        if additive_interval is None:
            first = replace(second, median=logit(np.clip(additive, _LEAST, 1.0 - _LEAST)))
        else:
            first = _Half.of(additive, additive_interval, level)

        def below(at: Array) -> Array:
            return self.weight * first.below(at) + (1.0 - self.weight) * second.below(at)

        limits = []
        for tail in ((1.0 - level) / 2.0, (1.0 + level) / 2.0):
            ends = first.quantile(tail), second.quantile(tail)
            limits.append(self._sharpened(quantile_between(np.minimum(*ends), np.maximum(*ends), tail, below)))
        p = self.combine(additive, precedents)
        return np.stack([np.minimum(limits[0], p), np.maximum(limits[1], p)], axis=-1).reshape(*shape, 2)

    def _sharpened(self, log_odds: Array) -> Array:
        """Probabilities for the log odds of each class against all others, (n, M)."""
        if self.sharpness == 1.0:
            return np.asarray(expit(log_odds))
        base = logit(self.base)
        return np.asarray(expit(base + self.sharpness * (log_odds - base)))

    def to_dict(self) -> JSONObject:
        """Plain data, ready for JSON."""
        fields = {name: getattr(self, name) for name in _FIELDS}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}

    @classmethod
    def from_dict(cls, data: object) -> Pool:
        """The pool from the result of `to_dict`; anything else is rejected."""
        if not isinstance(data, dict) or set(data) != set(_FIELDS):
            raise ValueError("this is not a stored pool; save the model again")
        sharpness, base = data["sharpness"], data["base"]
        numbers = [data["weight"], data["weight_sd"], *data["log_loss"], sharpness, *base]
        if len(data["log_loss"]) != 3 or not all(type(number) in (int, float) for number in numbers):
            raise ValueError("the stored pool has values that are not numbers; save the model again")
        if not 0 <= numbers[0] <= 1:
            raise ValueError(
                f"the stored pool has weight {data['weight']!r}, which is not between 0 and 1; save the model again"
            )
        limits = math.exp(-_WIDEST * SHARPNESS_SD), math.exp(_WIDEST * SHARPNESS_SD)
        if not limits[0] <= sharpness <= limits[1] or not all(0 < share < 1 for share in base):
            raise ValueError(
                f"the stored pool has sharpness {sharpness!r} and base rates {base!r}, which are invalid; "
                f"save the model again"
            )
        if sharpness != 1.0 and not base:
            raise ValueError("the stored pool is sharpened but has no base rates; save the model again")
        losses = float(numbers[2]), float(numbers[3]), float(numbers[4])
        return cls(float(numbers[0]), float(numbers[1]), losses, float(sharpness), tuple(map(float, base)))


def _posterior_means(log_posterior: Callable[[Array, Array], Array]) -> tuple[float, float, float]:
    """Mean and standard deviation of the weight, and mean log sharpness, from a grid refined around the mean."""
    low, high = np.array([0.0, -_WIDEST * SHARPNESS_SD]), np.array([1.0, _WIDEST * SHARPNESS_SD])
    ends = low, high
    for _ in range(_ROUNDS):
        cell = (ends[1] - ends[0]) / _CELLS
        at = [ends[0][k] + cell[k] * (np.arange(_CELLS[k]) + 0.5) for k in (0, 1)]
        mass = softmax(log_posterior(at[0], at[1]))
        each = mass.sum(axis=1), mass.sum(axis=0)
        mean = np.array([each[k] @ at[k] for k in (0, 1)])
        spread = np.sqrt([each[k] @ (at[k] - mean[k]) ** 2 for k in (0, 1)])
        reach = 4.0 * np.hypot(spread, cell / 2.0)
        ends = np.maximum(mean - reach, low), np.minimum(mean + reach, high)
    return float(mean[0]), float(spread[0]), float(mean[1])


def disagreement(additive: ArrayLike, precedents: ArrayLike) -> Array:
    """The largest difference over the classes between the probabilities of two opinions, (n,).

    Examples
    --------
    >>> disagreement([[0.5, 0.3, 0.2]], [[0.2, 0.5, 0.3]])
    array([0.3])
    """
    return np.asarray(np.abs(np.asarray(additive, dtype=np.float64) - np.asarray(precedents)).max(axis=-1))


@dataclass(frozen=True, eq=False)
class _Half:
    """A split normal (two-piece normal) distribution of log odds."""

    median: Array
    down: Array
    up: Array

    @classmethod
    def of(cls, p: Array, interval: Array, level: float) -> _Half:
        """The distribution with this median and these quantiles."""
        z = ndtri((1.0 + level) / 2.0)
        median, low, high = (
            logit(np.clip(np.asarray(part, dtype=np.float64), _LEAST, 1.0 - _LEAST))
            for part in (p, interval[..., 0], interval[..., 1])
        )
        return cls(median, np.maximum(median - low, 1e-9) / z, np.maximum(high - median, 1e-9) / z)

    def below(self, at: Array) -> Array:
        """The probability of log odds below `at`."""
        gap = at - self.median
        return np.asarray(ndtr(gap / np.where(gap < 0, self.down, self.up)))

    def quantile(self, share: float) -> Array:
        """The quantile of the log odds at this probability."""
        z = ndtri(share)
        return self.median + z * (self.down if z < 0 else self.up)
