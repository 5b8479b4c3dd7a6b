"""Closed-form predictions: every past case votes, given the importances.

With exactly one neighbor per draw, past case b is this neighbor with probability proportional to ``prod_j f_bj``, so
the votes of a draw are computed exactly, without sampling neighbors. The only Monte Carlo error comes from the draws of
the importances. See `bayespatch.retrieval` for the computation and docs/default.md for the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from bayespatch.model import HIDDEN, Data
from bayespatch.predict.results import Detail, NeighborStatistics, Prediction
from bayespatch.retrieval import CaseIndex, LargestShares, LeftOut, PartitionedIndex, VoteSums, vote, vote_shares
from bayespatch.retrieval.sums import LEAST
from bayespatch.sampling.posterior import Posterior

# Number of draws of the importances for the votes, evenly spread over the chains: all draws, or fewer if there are many
# past cases, because votes then take longer and vary less between draws.
LEAST_DRAWS, DRAWN_PAIRS = 100, 2_000_000
SUBSETS = 4  # of this many successive draws, each ignores another part of the features, if subsets are compared
N_BATCHES = 12  # batches of draws, whose spread gives the Monte Carlo error
BATCH_NUMBERS = 2**23  # largest number of values in memory for a batch of cases


@dataclass(frozen=True, eq=False)
class ClosedForm:
    """All past cases and the weight of each comparison with them in every draw.

    Attributes
    ----------
    index : CaseIndex
        The past cases; if all of them are elsewhere, the past cases whose individual shares of the votes are needed.
    log_weights : array of shape (C, D, K)
        Log weight of every comparison.
    differ : array of shape (C, D, P)
        The factor for a feature in which a past case differs.
    heard : array of shape (M,)
        Weight of a vote for each class.
    base : array of shape (M,)
        Base rates, which get a share of `LEAST` of the votes.
    base_votes : float
        Total base votes of all classes, relative to the vote of a neighbor.
    elsewhere : PartitionedIndex or None
        All past cases that vote, if they are not in this process.
    rows : int array, or None
        The row in the whole table of each past case in `index`, if all of them are elsewhere.
    """

    index: CaseIndex
    log_weights: NDArray[np.float64]
    differ: NDArray[np.float64]
    heard: NDArray[np.float64]
    base: NDArray[np.float64]
    base_votes: float
    elsewhere: PartitionedIndex | None = None
    rows: NDArray[np.int64] | None = None

    @classmethod
    def of(cls, posterior: Posterior, data: Data) -> ClosedForm:
        """The closed form of a fitted model and its past cases, the parents of `data`; created once per posterior."""
        found = _made.get(posterior)
        if found is not None and found[0] is data.x_parents and found[1].elsewhere is data.elsewhere:
            return found[1]
        index = CaseIndex.build(
            data.x_parents,
            data.y_parents,
            data.n_classes,
            data.every_window(),
            posterior.compares_missing,
            data.weights,
        )
        return cls._of_index(posterior, data, index)

    @classmethod
    def _of_index(cls, posterior: Posterior, data: Data, index: CaseIndex) -> ClosedForm:
        weights = posterior.log_weights
        assert weights is not None
        elsewhere = data.elsewhere
        assert elsewhere is None or isinstance(elsewhere, PartitionedIndex)
        n_cases = index.n_cases if elsewhere is None else elsewhere.n_cases
        n_wanted = max(LEAST_DRAWS, DRAWN_PAIRS // max(1, n_cases))
        n_kept = min(posterior.n_draws, max(1, n_wanted // posterior.n_chains))
        n_kept -= n_kept % min(n_kept, _batches_per_chain(posterior.n_chains))  # batches have equal numbers of draws
        used = np.linspace(0, posterior.n_draws - 1, n_kept).round().astype(np.int64)
        hyper, q = posterior.model.hyper, posterior.q[:, used]
        first = data.n_values * hyper.lam0
        differ = 1.0 - q + q * first / (first + hyper.lam)
        mu, mu0 = hyper.mu_per_class(data.n_classes), hyper.mu0_per_class(data.n_classes)
        weights = weights[:, used]
        if posterior.settings.feature_subsets:
            ignored = _ignored_features(*q.shape)
            differ = np.where(ignored, 1.0, differ)
            weights = np.where(ignored[:, :, index.columns], 0.0, weights * (SUBSETS / (SUBSETS - 1.0)))
        of_model = weights, differ, mu, mu0 / mu0.sum(), float(mu0.sum())
        closed = cls(index, *of_model, elsewhere, data.rows_of_parents)
        _made[posterior] = data.x_parents, closed
        return closed

    def add_cases(self, posterior: Posterior, data: Data) -> None:
        """Prepare the same model with additional past cases, the last parents of `data`; `posterior` is a copy."""
        n = self.index.n_cases
        ClosedForm._of_index(posterior, data, self.index.with_cases(data.x_parents[n:], data.y_parents[n:]))

    def thinned(self, n_draws: int) -> ClosedForm:
        """The same closed form with fewer, evenly spaced draws."""
        used = np.linspace(0, self.log_weights.shape[1] - 1, min(n_draws, self.log_weights.shape[1])).round()
        places = np.unique(used.astype(np.int64))
        return replace(self, log_weights=self.log_weights[:, places], differ=self.differ[:, places])

    def familiarity(self, x: NDArray[np.float64], left_out: LeftOut) -> NDArray[np.float64]:
        """`Prediction.familiarity` of n cases, (n, P)."""
        return self._familiarity(x, self._vote(x, left_out, 1, "cpu"))

    def left_out(self, data: Data) -> LeftOut:
        """Past cases that may not vote on the cases of `data`, in the form that the methods expect.

        They are rows of the whole table if all past cases are elsewhere, otherwise stored positions.
        """
        if self.elsewhere is not None:
            return LeftOut.of_rows(data.own_parent)
        return LeftOut.members(self.index, data.own_parent, data.groups)

    def left_out_here(self, data: Data) -> LeftOut:
        """`left_out` as stored positions in `index`."""
        out = self.left_out(data)
        return out if self.rows is None else out.among(self.rows).stored_in(self.index)

    def largest(
        self, x: NDArray[np.float64], y: NDArray[np.int64], k: int, left_out: LeftOut | None = None, n_threads: int = 1
    ) -> LargestShares:
        """The k past cases with the largest shares of the votes on n cases, (n, P), if all of them are elsewhere."""
        sums = self._vote(x, left_out, n_threads, "cpu")
        return self._largest(x, sums, self.heard * self._by_class(y), k, left_out, n_threads, "cpu")

    def predict(
        self,
        x: NDArray[np.float64],
        y: NDArray[np.int64],
        left_out: LeftOut | None = None,
        detail: Detail = False,
        n_threads: int = 1,
        engine: str = "cpu",
    ) -> Prediction:
        """Votes on n cases, (n, P), of all past cases except those left out, given the classes y if known."""
        n, (n_chains, n_draws, _) = len(x), self.log_weights.shape
        heard = self.heard * self._by_class(y)
        sums = self._vote(x, left_out, n_threads, engine)
        shares = (1.0 - LEAST) * sums.shares(heard) + LEAST * self.base  # (n, C * D, M)
        n_batches = min(n_draws, _batches_per_chain(n_chains))
        votes = shares.reshape(n, n_chains * n_batches, n_draws // n_batches, -1).mean(axis=2)
        neighbors = covariance = largest = None
        if detail and (detail != "voters" or self.elsewhere is None):
            neighbors = self._neighbors(x, sums, heard, left_out, n_threads, engine)
        if detail and self.elsewhere is not None:
            largest = self._largest(x, sums, heard, 1, left_out, n_threads, engine)
        if detail == "spread":
            apart = shares - shares.mean(axis=1, keepdims=True)
            covariance = np.swapaxes(apart, 1, 2) @ apart / apart.shape[1]
        return Prediction(
            votes,
            self._familiarity(x, sums),
            np.full(n, n_chains * n_draws),
            neighbors,
            covariance,
            largest,
        )

    @property
    def _weights(self) -> NDArray[np.float64]:
        return self.log_weights.reshape(-1, self.log_weights.shape[2])

    def _vote(self, x: NDArray[np.float64], left_out: LeftOut | None, n_threads: int, engine: str) -> VoteSums:
        """The votes of all past cases."""
        if self.elsewhere is not None:
            return self.elsewhere.vote(x, self._weights, left_out=left_out, n_threads=n_threads, engine=engine)
        ranges = self.index.ranges(x)
        return vote(self.index, ranges, self._weights, left_out=left_out, n_threads=n_threads, engine=engine)

    def _largest(
        self,
        x: NDArray[np.float64],
        sums: VoteSums,
        heard: NDArray[np.float64],
        k: int,
        left_out: LeftOut | None,
        n_threads: int,
        engine: str,
    ) -> LargestShares:
        assert self.elsewhere is not None
        largest = self.elsewhere.vote_shares(
            x, self._weights, sums, heard, k, left_out=left_out, n_threads=n_threads, engine=engine
        )
        return LargestShares(largest.rows, (1.0 - LEAST) * largest.shares, (1.0 - LEAST) ** 2 * largest.squares)

    def _by_class(self, y: NDArray[np.int64]) -> NDArray[np.float64]:
        """Factor for past cases of each class, (n, M): the likelihood of a known class given this neighbor."""
        factor = np.ones((len(y), len(self.heard)))
        known = np.flatnonzero(y != HIDDEN)
        factor[known, y[known]] = 1.0 + self.heard[y[known]] / (self.base_votes * self.base[y[known]])
        return factor

    def _familiarity(self, x: NDArray[np.float64], sums: VoteSums) -> NDArray[np.float64]:
        """Mean log likelihood, (n,), of the values of each case with a random past case as its neighbor.

        It is relative to a case without neighbors. A missing value has likelihood 1.
        """
        weights = np.maximum(self.log_weights.reshape(-1, self.log_weights.shape[2]), 0.0).sum(axis=1)
        differ = np.log(self.differ.reshape(-1, self.differ.shape[2]))
        known = (~np.isnan(x)).astype(np.float64)
        total = self.index.total_weight if self.elsewhere is None else self.elsewhere.total_weight
        log_total = np.maximum(sums.log_total(), -1e6) - np.log(max(total, np.finfo(np.float64).tiny))
        return np.asarray((log_total + weights + np.einsum("nj,dj->nd", known, differ)).mean(axis=1))

    def _neighbors(
        self,
        x: NDArray[np.float64],
        sums: VoteSums,
        heard: NDArray[np.float64],
        left_out: LeftOut | None,
        n_threads: int,
        engine: str,
    ) -> NeighborStatistics:
        """Vote shares of the past cases in `index` by chain; this does not determine which features matter."""
        n_chains = len(self.log_weights)
        n = len(sums.sums)
        if left_out is not None and self.rows is not None:
            left_out = left_out.among(self.rows).stored_in(self.index)
        shares = vote_shares(
            self.index,
            self.index.ranges(x),
            self._weights,
            sums,
            heard,
            left_out=left_out,
            n_chains=n_chains,
            n_threads=n_threads,
            engine=engine,
        )
        shares *= 1.0 - LEAST
        by_chain = np.empty_like(shares)
        by_chain[:, :, self.index.rows] = shares
        share = by_chain.mean(axis=1)
        nothing = np.zeros((n, 0, 0), np.float32)
        return NeighborStatistics(share, share, share, by_chain, nothing, np.zeros((n, 0), np.float32))


def _ignored_features(n_chains: int, n_draws: int, n_features: int) -> NDArray[np.bool_]:
    """The features that each draw ignores, (C, D, P): every feature once in `SUBSETS` successive draws.

    The parts are random, but the same in every model, so that models with different seeds agree.

    Examples
    --------
    >>> ignored = _ignored_features(1, 8, 6)
    >>> ignored[0, :4].sum(axis=0), ignored[0, 4:].sum(axis=0)
    (array([1, 1, 1, 1, 1, 1]), array([1, 1, 1, 1, 1, 1]))
    """
    rng = np.random.default_rng(0)
    n_blocks = -(-n_draws // SUBSETS)
    places = rng.permuted(np.broadcast_to(np.arange(n_features), (n_chains, n_blocks, n_features)), axis=2)
    part = (places + rng.integers(SUBSETS, size=(n_chains, n_blocks, 1))) % SUBSETS
    ignored = part[:, :, None, :] == np.arange(SUBSETS)[:, None]
    return np.asarray(ignored.reshape(n_chains, -1, n_features)[:, :n_draws])


def _batches_per_chain(n_chains: int) -> int:
    return -(-N_BATCHES // n_chains)


# A fitted model's closed form, stored with the past cases that it was computed from
_made: WeakKeyDictionary[Posterior, tuple[object, ClosedForm]] = WeakKeyDictionary()


def predict_closed(
    posterior: Posterior,
    data: Data,
    *,
    detail: Detail = False,
    excluded: NDArray[np.bool_] | None = None,
    n_threads: int = 1,
    engine: str = "cpu",
) -> Iterator[Prediction]:
    """Predict cases with closed-form votes, in batches to limit memory; see `predict_batches`."""
    closed = ClosedForm.of(posterior, data)
    n_chains, n_draws = closed.log_weights.shape[:2]
    per_case = n_chains * n_draws * data.n_classes * 3
    if detail and (detail != "voters" or closed.elsewhere is None):
        per_case += (n_chains + 2) * closed.index.n_cases
    size = max(1, min(4096, BATCH_NUMBERS // per_case))
    for first in range(0, len(data.x), size):
        rows = slice(first, first + size)
        out = closed.left_out(data._replace(own_parent=data.own_parent[rows]))
        if excluded is not None:
            out = out.and_these(closed.index.positions() if closed.rows is None else closed.rows, excluded[rows])
        yield closed.predict(data.x[rows], data.y[rows], out, detail, n_threads, engine)
