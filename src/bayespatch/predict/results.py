"""Results of predictions: votes, neighbors and their Monte Carlo errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.calibrate import effective_number
from bayespatch.retrieval import LargestShares
from bayespatch.retrieval.sums import LEAST

# Identify the neighbors and, if True, the features that matter or, if "spread", the variation of the votes over the
# draws; "voters" gives only the number of voters and the largest one
Detail = bool | Literal["shares", "spread", "voters"]


class UnseenValueWarning(UserWarning):
    """New cases have values that no past case has. They match no past case; other values are compared as usual."""


class PrecisionWarning(UserWarning):
    """The Monte Carlo error of some probabilities exceeds the target even with the largest number of draws."""


class NeighborStatistics(NamedTuple):
    """Neighbors of n cases: means over the draws for S parents and P features.

    Attributes
    ----------
    probability : array of shape (n, S), float32
        Probability of being a neighbor.
    influence : array of shape (n, S), float32
        Mean weight of the parent's vote, kappa; 0 in draws in which it is not a neighbor.
    share : array of shape (n, S), float32
        Mean share of the parent's vote in all votes for the classes; the base rates have the remaining share.
    share_by_chain : array of shape (n, chains, S), float32
        `share` in each chain.
    features : array of shape (n, S, P), float32
        Probability that the parent is a neighbor and the feature matters.
    explained : array of shape (n, P), float32
        Mean probability of the case's value of the feature given its neighbors; 1 if the value is missing.

    If only shares were requested, the last two arrays have no features.
    """

    probability: NDArray[np.float32]
    influence: NDArray[np.float32]
    share: NDArray[np.float32]
    share_by_chain: NDArray[np.float32]
    features: NDArray[np.float32]
    explained: NDArray[np.float32]


class Prediction(NamedTuple):
    """Results of the draws for n new cases.

    Attributes
    ----------
    votes_by_batch : array of shape (n, C * B, M)
        Mean share of the votes for each class, h(m) / sum h, in each of the B batches of each chain, chain by chain.
    familiarity : array of shape (n,)
        Mean log likelihood of the case's values (and of its class, if known) given its neighbors.
    n_draws : int array of shape (n,)
        Number of draws used for each case, over all chains.
    neighbors : NeighborStatistics, or None if not requested
    covariance : array of shape (n, M, M), or None if not requested
        Covariance of the vote shares over the draws of the importances.
    largest : LargestShares or None
        If requested and if all past cases are elsewhere: the past case with the largest share of the votes on each
        case, and the effective number of voters.
    """

    votes_by_batch: NDArray[np.float64]
    familiarity: NDArray[np.float64]
    n_draws: NDArray[np.int64]
    neighbors: NeighborStatistics | None
    covariance: NDArray[np.float64] | None = None
    largest: LargestShares | None = None

    def mean_votes(self) -> NDArray[np.float64]:
        """The mean share of the votes for each class over the draws, (n, M)."""
        means = self.votes_by_batch.mean(axis=1)
        return np.asarray(means / means.sum(axis=1, keepdims=True))

    def n_voters(self) -> NDArray[np.float64]:
        """Effective number of voters (Kish), ``(sum s)^2 / sum s^2`` for vote shares s, (n,)."""
        if self.largest is not None:
            return (1.0 - LEAST) ** 2 / np.maximum(self.largest.squares, np.finfo(np.float64).tiny)
        assert self.neighbors is not None
        return effective_number(self.neighbors.share)

    def closest(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The row and vote share of the past case with the largest share of the votes on each case, (n,) each.

        `rows` has the rows of the parents, (S,).
        """
        if self.largest is not None:
            return self.largest.rows[:, 0], self.largest.shares[:, 0]
        assert self.neighbors is not None
        share = self.neighbors.share
        return rows[share.argmax(axis=1)], share.max(axis=1).astype(np.float64)

    @classmethod
    def joined(cls, parts: list[Prediction]) -> Prediction:
        """Combine the predictions of several batches of cases."""
        if len(parts) == 1:
            return parts[0]
        statistics = [part.neighbors for part in parts if part.neighbors is not None]
        together = None
        if statistics:
            together = NeighborStatistics(*(np.concatenate(pieces) for pieces in zip(*statistics, strict=True)))
        spread = [part.covariance for part in parts if part.covariance is not None]
        largest = [part.largest for part in parts if part.largest is not None]
        return cls(
            np.concatenate([part.votes_by_batch for part in parts]),
            np.concatenate([part.familiarity for part in parts]),
            np.concatenate([part.n_draws for part in parts]),
            together,
            np.concatenate(spread) if spread else None,
            LargestShares(*map(np.concatenate, zip(*largest, strict=True))) if largest else None,
        )


@dataclass(frozen=True, eq=False)
class Neighborhood:
    """The neighbors of n cases, most influential first.

    Attributes
    ----------
    rows : int array of shape (n, top)
        Rows of the training table.
    probability : array of shape (n, top), float32
        Probability of being a neighbor.
    influence : array of shape (n, top), float32
        Mean weight of the neighbor's vote.
    features : array of shape (n, top, P), float32
        Probability that the past case is a neighbor and the feature matters.
    """

    rows: NDArray[np.int64]
    probability: NDArray[np.float32]
    influence: NDArray[np.float32]
    features: NDArray[np.float32]

    @classmethod
    def of(cls, neighbors: NeighborStatistics, rows: NDArray[np.int64], top: int) -> Neighborhood:
        """The `top` most influential parents; `rows` has the rows of all parents in the training table."""
        order = np.argsort(-neighbors.influence, axis=1, kind="stable")[:, :top]
        return cls(
            rows[order],
            np.take_along_axis(neighbors.probability, order, axis=1),
            np.take_along_axis(neighbors.influence, order, axis=1),
            np.take_along_axis(neighbors.features, order[:, :, None], axis=1),
        )

    @classmethod
    def joined(cls, parts: list[Neighborhood]) -> Neighborhood:
        """Combine the neighborhoods of several batches of cases."""
        names = ("rows", "probability", "influence", "features")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
