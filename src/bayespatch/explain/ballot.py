"""The votes on one case, in the same form for closed-form and sampled predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespatch.model import Data, Model
from bayespatch.predict import Prediction
from bayespatch.retrieval.sums import LEAST

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

MOST_EXPLAINING = 400  # past cases with the largest shares, used to compute how expected each value is


@dataclass(frozen=True, eq=False)
class Ballot:
    """The voters on a case and their votes: S parents, P features, M classes, C chains.

    Attributes
    ----------
    votes : array of shape (M,)
        Mean share of the votes for each class.
    batches : array of shape (B, M)
        The same shares in batches of consecutive draws; their spread gives the Monte Carlo error of `votes`.
    familiarity : float
        How well the neighbors explain the case.
    probability, influence, share : arrays of shape (S,)
        Probability of being a neighbor, mean weight of the vote, mean share of all votes.
    n_voters : float
        Effective number of voters.
    cast : array of shape (M,)
        Share of all votes cast by past cases for each class, including past cases whose individual share is unknown;
        the rest belongs to the base rates.
    share_by_chain : array of shape (C, S)
    explained : array of shape (P,)
        Mean probability of the case's own value given its neighbors.
    matters : function
        Maps the positions of k parents to the probability that each feature matters given that they are neighbors,
        (k, P).
    """

    votes: Array
    batches: Array
    familiarity: float
    probability: Array
    influence: Array
    share: Array
    n_voters: float
    cast: Array
    share_by_chain: Array
    explained: Array
    matters: Callable[[Rows], Array]

    @classmethod
    def sampled(cls, seen: Prediction, i: int, case: Data) -> Ballot:
        """Create it from case i of a prediction made with ``detail=True``, with all parents."""
        neighbors = seen.neighbors
        assert neighbors is not None
        features, probability = neighbors.features[i], neighbors.probability[i].astype(np.float64)

        def matters(places: Rows) -> Array:
            each = features[places] / np.maximum(probability[places], 1e-12)[:, None]
            return np.minimum(each.astype(np.float64), 1.0)

        return cls._of(seen, i, _cast(neighbors.share[i], case), neighbors.explained[i].astype(np.float64), matters)

    @classmethod
    def closed(cls, seen: Prediction, case: Data, model: Model, q: Array) -> Ballot:
        """Create it from a single case with closed-form votes, and the mean importances q, (P,)."""
        assert seen.neighbors is not None
        share = seen.neighbors.share[0].astype(np.float64)
        best = np.argsort(-share, kind="stable")[:MOST_EXPLAINING]
        likelihood = closed_details(case, best, model, q)[1]
        explained = np.where(np.isnan(case.x[0]), 1.0, share[best] @ likelihood / max(share[best].sum(), 1e-12))
        cast = _cast(share, case)
        if case.elsewhere is not None:
            base = model.hyper.mu0_per_class(case.n_classes)
            cast = np.maximum(seen.mean_votes()[0] - LEAST * base / base.sum(), 0.0)
        return cls._of(seen, 0, cast, explained, lambda places: closed_details(case, places, model, q)[0])

    @classmethod
    def _of(cls, seen: Prediction, i: int, cast: Array, explained: Array, matters: Callable[[Rows], Array]) -> Ballot:
        neighbors = seen.neighbors
        assert neighbors is not None
        return cls(
            votes=seen.mean_votes()[i],
            batches=seen.votes_by_batch[i],
            familiarity=float(seen.familiarity[i]),
            probability=neighbors.probability[i].astype(np.float64),
            influence=neighbors.influence[i].astype(np.float64),
            share=neighbors.share[i].astype(np.float64),
            n_voters=float(seen.n_voters()[i]),
            cast=cast,
            share_by_chain=neighbors.share_by_chain[i].astype(np.float64),
            explained=explained,
            matters=matters,
        )

    def closest(self, top: int, may_show: NDArray[np.bool_]) -> Rows:
        """Positions of the parents with the most influence among those that may be shown, at most `top`."""
        influence = np.where(may_show, self.influence, 0.0)
        order = np.argsort(-influence, kind="stable")[:top]
        return order[influence[order] > 0.0]

    def overlap(self, top: int) -> float | None:
        """Mean share of a chain's largest votes that are also among another chain's; None with a single chain."""
        tops = [set(np.argsort(-share, kind="stable")[:top].tolist()) for share in self.share_by_chain]
        shared = [len(one & other) for k, one in enumerate(tops) for other in tops[:k]]
        return float(np.mean(shared)) / max(1, top) if shared else None


def _cast(share: NDArray[Any], case: Data) -> Array:
    """Share of the votes for each class, (M,), from those of the parents, (S,)."""
    return np.asarray(share @ np.eye(case.n_classes)[case.y_parents])


def closed_details(case: Data, places: Rows, model: Model, q: Array) -> tuple[Array, Array]:
    """P(w = 1) of each feature for some parents of a case, and the likelihood of the case's values given each, (k, P).

    With a single neighbor, f = 1 - q + q R, where R is the ratio of the likelihoods of the value with w = 1 and w = 0.
    """
    hyper = model.hyper
    first = case.n_values * hyper.lam0
    apart = np.abs(case.x_parents[places] - case.x[0])
    ratio = np.where(apart <= case.windows, case.n_values * (hyper.lam0 + hyper.lam), first) / (first + hyper.lam)
    ratio = np.where(np.isnan(apart), 1.0, ratio)
    matters = q * ratio / (1.0 - q + q * ratio)
    return matters, (1.0 - matters + matters * ratio) / case.n_values
