"""Votes on a case given only some of its values, for many sets of values at once.

A past case's weight is a product with one factor per feature, so the votes given a set S of known values depend only on
the factors of the features in S. Past cases with the same comparisons are combined. All subsets of P values are
evaluated as products of two tables, one for each half of the features; if there are too many subsets, a sample of them
is evaluated one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from bayespatch.model import Data
from bayespatch.predict.closed import ClosedForm
from bayespatch.retrieval.sums import LEAST
from bayespatch.sampling.posterior import Posterior
from bayespatch.types import AnyArray

Array = NDArray[np.float64]

MOST_PRODUCTS = 2e8  # largest subsets x past cases x draws for products,
MOST_EXPONENTIALS = 8e6  # or for exponentials, if only some of the subsets are evaluated
FEWEST_DRAWS = 48  # of the importances
N_BATCHES = 8  # batches of draws and, in large tables, of past cases; their spread gives the error
MOST_PATTERNS = 5_000  # in each batch; if there are more, they are sampled
AT_ONCE = 100_000  # values in one block of memory
_SINGLE, _DOUBLE = 60.0, 600.0  # range of log weights for which products keep their precision


class SubsetVotes(NamedTuple):
    """Votes on a case given K sets of its values.

    Attributes
    ----------
    cast : array of shape (B, K, M)
        Mean share of the votes that past cases of each class cast, in B batches; B = 1 if the shares are exact.
    outcomes : array of shape (B, K, M), or None
        These votes times the mean outcome of the voters, for numeric outcomes.
    omitted : float
        Share of the draws that were not used: 0 if the votes are exact, 1 if past cases were sampled.
    """

    cast: Array
    outcomes: Array | None
    omitted: float


def all_subsets(n: int) -> NDArray[np.bool_]:
    """Every set of n values, (2^n, n), in the order of `SubsetVoter.vote_on_all`.

    Examples
    --------
    >>> all_subsets(2).astype(int).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    return (np.arange(1 << n)[:, None] >> np.arange(n)[::-1] & 1).astype(np.bool_)


@dataclass(frozen=True, eq=False)
class SubsetVoter:
    """The past cases, compared with one case.

    Attributes
    ----------
    holds : array of shape (C, U)
        Which of the C comparisons of known values hold for each of U distinct past cases, as numbers.
    players : int array of shape (p,)
        The features with known values, which include all compared features.
    feature : int array of shape (C,)
        The position in `players` of each comparison's feature.
    start : int array of shape (M + 1,)
        The position at which the past cases of each class begin.
    counts : array of shape (U,)
        Total weight of the past cases that each of the U represents.
    outcomes : array of shape (U,), or None
        The mean outcome of these past cases.
    log_weights : array of shape (D, C)
        Log weight of every comparison in every draw.
    heard : array of shape (M,)
        Weight of a vote for each class.
    seed : int
    """

    holds: NDArray[np.float32]
    players: NDArray[np.int64]
    feature: NDArray[np.int64]
    start: NDArray[np.int64]
    counts: Array
    outcomes: Array | None
    log_weights: Array
    heard: Array
    seed: int

    @classmethod
    def of(
        cls, posterior: Posterior, case: Data, players: NDArray[np.int64], outcomes: Array | None = None
    ) -> SubsetVoter:
        """Compare a case with the past cases of a model with closed-form votes; `outcomes`: their numeric outcomes."""
        closed = ClosedForm.of(posterior, case)
        index = closed.index
        low, high = (ends[0] for ends in index.ranges(case.x))
        used = np.flatnonzero(low <= high)
        codes = index.codes[index.columns[used]]
        holds = (codes >= low[used, None]) & (codes <= high[used, None])
        may_vote = np.ones(index.n_cases, dtype=np.bool_)
        may_vote[closed.left_out_here(case).positions] = False
        classes = index.classes
        key = np.packbits(holds, axis=0).T
        key = np.ascontiguousarray(np.column_stack([classes.astype(">u4").view(np.uint8).reshape(-1, 4), key]))
        as_bytes = key.view(np.dtype((np.void, key.shape[1])))[:, 0]
        _, first, which = np.unique(as_bytes[may_vote], return_index=True, return_inverse=True)
        rows = np.flatnonzero(may_vote)[first]
        weights = np.ones(len(which)) if index.weights is None else index.weights[may_vote]
        counts = np.bincount(which, weights, len(rows)).astype(np.float64)
        means = None
        if outcomes is not None:
            means = np.bincount(which, weights * outcomes[index.rows][may_vote], len(rows)) / counts
        return cls(
            holds[:, rows].astype(np.float32),
            players,
            np.searchsorted(players, index.columns[used]),
            np.searchsorted(classes[rows], np.arange(index.n_classes + 1)),
            counts,
            means,
            closed.log_weights.reshape(-1, closed.log_weights.shape[2])[:, used],
            closed.heard,
            posterior.seed,
        )

    @property
    def n_players(self) -> int:
        """p."""
        return len(self.players)

    @property
    def n_draws(self) -> int:
        """D."""
        return len(self.log_weights)

    @property
    def log_range(self) -> float:
        """An upper bound on the difference between the largest and the smallest log weight of a past case."""
        return float(np.abs(self.log_weights).sum(axis=1).max(initial=0.0))

    def affords_all(self) -> bool:
        """Whether every subset can be evaluated with enough draws."""
        size = 2.0**self.n_players * max(1, len(self.counts))
        return self.log_range <= _DOUBLE and size * min(FEWEST_DRAWS, self.n_draws) <= MOST_PRODUCTS

    def affordable_sets(self, n_draws: int) -> int:
        """Number of subsets that can be evaluated with `n_draws` draws."""
        return int(MOST_EXPONENTIALS / (max(1, min(len(self.counts), MOST_PATTERNS)) * min(n_draws, self.n_draws)))

    def vote_on_all(self) -> SubsetVotes:
        """The votes given every subset of the values, in the order of `all_subsets`."""
        half = self.n_players // 2
        dtype = np.float32 if self.log_range <= _SINGLE else np.float64

        def sums(factors: Array, voters: _Voters) -> Array:
            products = np.exp(factors - factors.max(axis=2, keepdims=True, initial=-np.inf)).astype(dtype)
            first, second = _products(products[:, :half]), _products(products[:, half:]).swapaxes(1, 2)
            return np.stack(
                [
                    [first[:, :, own] @ (second[:, own] * weight[own, None]) for own in voters.classes]
                    for weight in voters.weights.astype(dtype)
                ]
            ).reshape(len(voters.weights), len(voters.classes), len(factors), -1)

        size = 2.0**self.n_players * max(1, len(self.counts))
        per_draw = (1 << half) * len(self.counts) + (1 << self.n_players)
        return self._mean(sums, 1 << self.n_players, MOST_PRODUCTS / size, per_draw, [self._everyone()])

    def vote_on(self, known: NDArray[np.bool_]) -> SubsetVotes:
        """The votes given K subsets of the values, (K, p)."""
        sets = known.astype(np.float32)

        def sums(factors: Array, voters: _Voters) -> Array:
            each, weights = factors.astype(np.float32), voters.weights.astype(np.float32)
            votes = np.empty((len(weights), len(voters.classes), len(factors), len(sets)))
            step = max(1, AT_ONCE // max(1, each.shape[0] * each.shape[2]))
            for first in range(0, len(sets), step):
                part = slice(first, first + step)
                logs = sets[part] @ each
                logs -= logs.max(axis=2, keepdims=True, initial=-np.inf)
                np.exp(logs, out=logs)
                for m, of_class in enumerate(voters.classes):
                    votes[:, m, :, part] = np.moveaxis(logs[:, :, of_class] @ weights[:, of_class].T, 2, 0)
            return votes

        voters = [self._everyone()]
        if len(self.counts) > MOST_PATTERNS:
            rng = np.random.default_rng(self.seed)
            chances = self._chances()
            voters = [self._some(chances, rng) for _ in range(N_BATCHES)]
        n_voters = max(1, len(voters[0].weights[0]))
        return self._mean(sums, len(sets), MOST_EXPONENTIALS / (len(sets) * n_voters), len(sets) * n_voters, voters)

    def _mean(self, sums: _Sums, n_sets: int, affordable: float, per_draw: int, voters: list[_Voters]) -> SubsetVotes:
        """Mean shares over the affordable number of draws; batch k uses ``voters[k]``, or all use the same voters."""
        n_draws = int(min(self.n_draws, max(affordable, FEWEST_DRAWS)))
        is_exact = n_draws == self.n_draws and len(voters) == 1
        n_batches, n_classes = 1 if is_exact else min(N_BATCHES, n_draws), len(self.heard)
        n_draws -= n_draws % n_batches
        draws = np.linspace(0, self.n_draws - 1, n_draws).round().astype(np.int64)
        means = np.zeros((len(voters[0].weights), n_batches, n_sets, n_classes))
        by_feature = np.zeros((self.n_players, len(self.feature)))
        by_feature[self.feature, np.arange(len(self.feature))] = 1.0
        step = max(1, AT_ONCE // per_draw)
        for k in range(n_batches):
            sample, of_batch = voters[k % len(voters)], draws[k::n_batches]
            for first in range(0, len(of_batch), step):
                weights = self.log_weights[of_batch[first : first + step]]
                votes = sums((by_feature * weights[:, None]) @ sample.holds, sample) * self.heard[:, None, None]
                total = votes[0].sum(axis=0)
                votes /= np.where(total > 0.0, total, 1.0)
                votes[0, :, total <= 0.0] = 1.0 / n_classes
                means[:, k] += votes.sum(axis=2).swapaxes(1, 2)
        cast = (1.0 - LEAST) / (n_draws // n_batches) * means
        omitted = 1.0 if len(voters) > 1 else 1.0 - n_draws / self.n_draws
        return SubsetVotes(cast[0], None if self.outcomes is None else cast[1], omitted)

    def _everyone(self) -> _Voters:
        return self._voters(np.arange(len(self.counts)), self.counts)

    def _voters(self, rows: NDArray[np.int64], counts: Array) -> _Voters:
        edges = np.searchsorted(rows, self.start).tolist()
        weights = counts[None] if self.outcomes is None else np.stack([counts, counts * self.outcomes[rows]])
        classes = [slice(first, last) for first, last in pairwise(edges)]
        return _Voters(self.holds[:, rows], classes, weights)

    def _chances(self) -> Array:
        """Sampling probability of each past case, (U,): based on its votes, averaged over sets of all sizes."""
        logs = self.log_weights.mean(axis=0) @ self.holds
        parts = [softmax(share * logs + np.log(self.counts)) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
        chances = MOST_PATTERNS * np.mean(parts, axis=0)
        for _ in range(5):  # redistribute the excess over 1 to the other past cases
            free = chances < 1.0
            chances[~free] = 1.0
            chances[free] *= (MOST_PATTERNS - np.count_nonzero(~free)) / max(float(chances[free].sum()), 1e-300)
        return np.minimum(chances, 1.0)

    def _some(self, chances: Array, rng: np.random.Generator) -> _Voters:
        """A systematic sample of the past cases in random order with these probabilities."""
        order = rng.permutation(len(chances))
        passed = np.floor(np.cumsum(chances[order]) + rng.random())
        rows = np.sort(order[np.diff(passed, prepend=0.0) >= 1.0])
        return self._voters(rows, self.counts[rows] / chances[rows])


class _Voters(NamedTuple):
    """Past cases that vote: which comparisons hold, the position of each class, and the weights, (1 or 2, U)."""

    holds: NDArray[np.float32]
    classes: list[slice]
    weights: Array


# Converts log factors, (D, p, U), of past cases to the sums of their weights by class, draw and set, (R, M, D, K)
_Sums = Callable[[Array, _Voters], AnyArray]


def _products(factors: AnyArray) -> AnyArray:
    """Products, (D, 2^n, U), of every subset of factors (D, n, U); the first factor is the highest bit."""
    products = np.ones((len(factors), 1, factors.shape[2]), factors.dtype)
    for k in range(factors.shape[1])[::-1]:
        products = np.concatenate([products, products * factors[:, k : k + 1]], axis=1)
    return products
