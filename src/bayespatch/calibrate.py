"""Votes into probabilities.

The plain share of the votes is under-confident, and does not know how common the classes are. Past cases whose votes
were taken as if they were new (leave-one-out: the model's own review of its past) show how to read it: a multinomial
logistic map with a handful of numbers,

    log p(m) = slope * log(votes for m) + intercept_m + constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import betaincinv, log_softmax, softmax

# Standard deviations of the normal priors of log slope and of the intercepts: a few cases do not say much.
SLOPE_SD, INTERCEPT_SD = 1.0, 2.0
_LEAST = 1e-12  # a share of the votes that rounds to 0


@dataclass(frozen=True)
class Calibration:
    """How a share of the votes is read as a probability.

    Attributes
    ----------
    slope : float
        Above 1 where the plain vote is under-confident.
    intercepts : tuple of M floats
        Of each class; their sum is 0.

    Examples
    --------
    >>> Calibration(2.0, (0.0, 0.0)).apply([0.6, 0.4]).round(3)
    array([0.692, 0.308])
    >>> Calibration.none(2).apply([0.6, 0.4])
    array([0.6, 0.4])
    """

    slope: float
    intercepts: tuple[float, ...]

    @classmethod
    def none(cls, n_classes: int) -> Calibration:
        """Votes are probabilities."""
        return cls(1.0, (0.0,) * n_classes)

    @classmethod
    def learn(cls, votes: NDArray[np.float64], y: NDArray[np.int64], weights: ArrayLike = 1.0) -> Calibration:
        """The map under which the classes y of past cases are most probable, given the votes of other cases on them.

        Parameters
        ----------
        votes : array of shape (n, M)
            Mean shares of the votes.
        y : int array of shape (n,)
            Classes.
        weights : array of shape (n,), optional
            How much each case counts.
        """
        n_classes = votes.shape[1]
        log_votes = np.log(np.maximum(votes, _LEAST))
        each = np.broadcast_to(np.asarray(weights, dtype=np.float64), len(y))

        def loss(at: NDArray[np.float64]) -> float:
            slope, intercepts = np.exp(at[0]), at[1:] - at[1:].mean()
            log_p = log_softmax(slope * log_votes + intercepts, axis=1)[np.arange(len(y)), y]
            prior = (at[0] / SLOPE_SD) ** 2 + ((at[1:] / INTERCEPT_SD) ** 2).sum()
            return float(0.5 * prior - (each * log_p).sum())

        found = minimize(loss, np.zeros(1 + n_classes), method="BFGS").x
        intercepts = found[1:] - found[1:].mean()
        return cls(float(np.exp(found[0])), tuple(intercepts.tolist()))

    def apply(self, votes: ArrayLike) -> NDArray[np.float64]:
        """Probabilities, (..., M), of shares of the votes, (..., M)."""
        shares = np.maximum(np.asarray(votes, dtype=np.float64), _LEAST)
        if self == Calibration.none(shares.shape[-1]):
            return np.asarray(shares / shares.sum(axis=-1, keepdims=True))
        return np.asarray(softmax(self.slope * np.log(shares) + np.asarray(self.intercepts), axis=-1))

    def interval(self, votes: NDArray[Any], shares: NDArray[Any], level: float) -> NDArray[np.float64]:
        """What so few voters leave open: credible intervals of the probabilities, (n, M, 2).

        Votes with shares s_b are worth ``(sum s)^2 / sum s^2`` voters of equal weight (Kish). Had these been drawn from
        all cases like this one, the share of a class among those cases would be Beta-distributed around its votes
        (Jeffreys' prior). The ends of its interval are read as probabilities like the votes themselves.

        Parameters
        ----------
        votes : array of shape (n, M)
            Mean shares of the votes for each class.
        shares : array of shape (n, S)
            Mean shares of each past case in the votes.
        level : float
            Probability of the interval.

        Examples
        --------
        >>> few, many = np.full((1, 4), 0.25), np.full((1, 100), 0.01)
        >>> Calibration.none(2).interval(np.array([[0.75, 0.25]]), few, 0.9)[0, 0].round(2)
        array([0.35, 0.95])
        >>> Calibration.none(2).interval(np.array([[0.75, 0.25]]), many, 0.9)[0, 0].round(2)
        array([0.67, 0.82])
        """
        v = np.asarray(votes, dtype=np.float64)
        s = np.asarray(shares, dtype=np.float64)
        n_voters = (s.sum(axis=1) ** 2 / np.maximum((s**2).sum(axis=1), _LEAST))[:, None]
        tails = np.array([(1.0 - level) / 2.0, (1.0 + level) / 2.0])
        a, b = v * n_voters + 0.5, (1.0 - v) * n_voters + 0.5
        ends = betaincinv(a[..., None], b[..., None], tails)
        ends = np.stack([np.minimum(ends[..., 0], v), np.maximum(ends[..., 1], v)], axis=-1)
        # The votes with class m at an end of its interval, the others in proportion: (n, m, 2, M).
        own = np.eye(v.shape[1], dtype=bool)[:, None, :]
        rest = np.where(own, 0.0, np.maximum(v, _LEAST)[:, None, None, :])
        rest /= np.maximum(rest.sum(axis=-1, keepdims=True), _LEAST)
        others = rest * (1.0 - ends)[..., None]
        p = self.apply(np.where(own, ends[..., None], others))
        return np.asarray(np.moveaxis(np.diagonal(p, axis1=1, axis2=3), -1, 1))
