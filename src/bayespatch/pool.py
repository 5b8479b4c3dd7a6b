"""Two opinions, one probability: the linear pool of an additive score and of precedents.

    p = a * additive + (1 - a) * precedents

The weight a is learned from what both would have said about the training cases without them: the posterior mean under
the log score and a Beta(3, 3) prior around one half. See docs/second-opinion.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit, ndtr, ndtri

from bayespatch.kernel_density import quantile_between

Array = NDArray[np.float64]

PRIOR = 3.0  # a ~ Beta(3, 3): mean 1/2, standard deviation .19
_GRID = (np.arange(400) + 0.5) / 400.0  # weights over which the posterior is summed
_LEAST = 1e-12  # of a probability


@dataclass(frozen=True)
class Pool:
    """The weight of the additive opinion, and what each opinion alone and the pool were worth on the training cases.

    Attributes
    ----------
    weight : float
        a, the weight of the additive opinion; that of the precedents is 1 - a.
    weight_sd : float
        Posterior standard deviation of the weight.
    log_loss : tuple of 3 floats
        Mean leave-one-out log loss of the additive opinion, of the precedents, and of the pool.

    Examples
    --------
    >>> additive = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]] * 20)
    >>> precedents = np.array([[0.6, 0.4], [0.5, 0.5], [0.4, 0.6]] * 20)
    >>> pool = Pool.learn(additive, precedents, np.array([0, 1, 0] * 20))
    >>> bool(0.5 < pool.weight < 1.0)
    True
    >>> Pool(0.25).combine([[0.8, 0.2]], [[0.4, 0.6]])
    array([[0.5, 0.5]])
    """

    weight: float
    weight_sd: float = 0.0
    log_loss: tuple[float, float, float] = (float("nan"), float("nan"), float("nan"))

    @classmethod
    def learn(cls, additive: Array, precedents: Array, y: NDArray[np.int64], weights: ArrayLike = 1.0) -> Pool:
        """The weight, from leave-one-out (or out-of-fold) probabilities of the same training cases.

        Parameters
        ----------
        additive, precedents : arrays of shape (n, M)
            Probabilities.
        y : int array of shape (n,)
            The classes that came.
        weights : array of shape (n,), optional
            How much each case counts.
        """
        rows = np.arange(len(y))
        return cls.learn_densities(additive[rows, y], precedents[rows, y], weights)

    @classmethod
    def learn_densities(cls, additive: Array, precedents: Array, weights: ArrayLike = 1.0) -> Pool:
        """The same from the probabilities, or densities, that both gave to the outcomes that came, (n,)."""
        first, second = np.maximum(additive, _LEAST), np.maximum(precedents, _LEAST)
        counts = np.broadcast_to(np.asarray(weights, dtype=np.float64), first.shape)
        log_scores = np.array([(counts * np.log(a * first + (1.0 - a) * second)).sum() for a in _GRID])
        log_posterior = log_scores + (PRIOR - 1.0) * np.log(_GRID * (1.0 - _GRID))
        mass = np.exp(log_posterior - log_posterior.max())
        mass /= mass.sum()
        weight = float(mass @ _GRID)
        spread = float(np.sqrt(mass @ (_GRID - weight) ** 2))
        each = (first, second, weight * first + (1.0 - weight) * second)
        losses = [float(-(counts * np.log(p)).sum() / counts.sum()) for p in each]
        return cls(weight, spread, (losses[0], losses[1], losses[2]))

    def combine(self, additive: ArrayLike, precedents: ArrayLike) -> Array:
        """The pooled probabilities (or means), of arrays of one shape."""
        return self.weight * np.asarray(additive, dtype=np.float64) + (1.0 - self.weight) * np.asarray(precedents)

    def error(self, precedents: ArrayLike) -> Array:
        """Monte Carlo error of the pool, from that of the precedents: the additive opinion has none."""
        return (1.0 - self.weight) * np.asarray(precedents, dtype=np.float64)

    def interval(
        self,
        additive: Array,
        additive_interval: Array | None,
        precedents: Array,
        precedents_interval: Array,
        level: float = 0.9,
    ) -> Array:
        """Intervals of the pooled probabilities, (n, M, 2), from both opinions' own at the same level.

        Each opinion is a distribution of the probability: normal on the scale of log odds, its median the stated
        probability, its two halves as wide as its interval says. The pool is the mixture of the two distributions, with
        weight a on the additive one, and its interval lies between the mixture's quantiles; it holds the pooled
        probability itself. Where the opinions differ, the interval spans them both. A second opinion without
        intervals (a classifier of the user's own) is taken to be as wide, in log odds, as the precedents.

        Parameters
        ----------
        additive, precedents : arrays of shape (n, M)
            Probabilities.
        additive_interval, precedents_interval : arrays of shape (n, M, 2)
            Their intervals; None where the additive opinion has none.
        level : float
            Probability of all of these intervals.

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

        found = []
        for tail in ((1.0 - level) / 2.0, (1.0 + level) / 2.0):
            ends = first.quantile(tail), second.quantile(tail)
            found.append(expit(quantile_between(np.minimum(*ends), np.maximum(*ends), tail, below)))
        p = self.combine(additive, precedents)
        return np.stack([np.minimum(found[0], p), np.maximum(found[1], p)], axis=-1).reshape(*shape, 2)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return {"weight": self.weight, "weight_sd": self.weight_sd, "log_loss": list(self.log_loss)}

    @classmethod
    def from_dict(cls, data: Any) -> Pool:
        """The pool that `to_dict` wrote; anything else is refused."""
        if not isinstance(data, dict) or set(data) != {"weight", "weight_sd", "log_loss"}:
            raise ValueError("this is not a stored pool; save the model again")
        numbers = [data["weight"], data["weight_sd"], *data["log_loss"]]
        if len(numbers) != 5 or not all(type(number) in (int, float) for number in numbers) or not 0 <= numbers[0] <= 1:
            raise ValueError(
                f"the stored pool has weight {data['weight']!r}, which is not between 0 and 1; save the model again"
            )
        return cls(float(numbers[0]), float(numbers[1]), (numbers[2], numbers[3], numbers[4]))


def disagreement(additive: ArrayLike, precedents: ArrayLike) -> Array:
    """The largest difference of two opinions' probabilities over the classes, (n,).

    Examples
    --------
    >>> disagreement([[0.5, 0.3, 0.2]], [[0.2, 0.5, 0.3]])
    array([0.3])
    """
    return np.asarray(np.abs(np.asarray(additive, dtype=np.float64) - np.asarray(precedents)).max(axis=-1))


@dataclass(frozen=True, eq=False)
class _Half:
    """A normal distribution of log odds whose halves have standard deviations of their own."""

    median: Array
    down: Array
    up: Array

    @classmethod
    def of(cls, p: Array, interval: Array, level: float) -> _Half:
        """The one that has this median and these ends."""
        z = ndtri((1.0 + level) / 2.0)
        median, low, high = (
            logit(np.clip(np.asarray(part, dtype=np.float64), _LEAST, 1.0 - _LEAST))
            for part in (p, interval[..., 0], interval[..., 1])
        )
        return cls(median, np.maximum(median - low, 1e-9) / z, np.maximum(high - median, 1e-9) / z)

    def below(self, at: Array) -> Array:
        """Probability of log odds below these."""
        gap = at - self.median
        return np.asarray(ndtr(gap / np.where(gap < 0, self.down, self.up)))

    def quantile(self, share: float) -> Array:
        """The log odds below which this share lies."""
        z = ndtri(share)
        return self.median + z * (self.down if z < 0 else self.up)
