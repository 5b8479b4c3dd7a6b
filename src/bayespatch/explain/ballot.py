"""The votes on cases as arrays: the one place where explanations meet the form in which predictions come."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespatch.model import HIDDEN, Data
from bayespatch.predict import Prediction, predict_cases, votes_by_place
from bayespatch.sampling.posterior import Posterior


@dataclass(frozen=True, eq=False)
class Ballot:
    """Who votes on n cases, and how: S parents, P features, M classes, C chains.

    Attributes
    ----------
    votes : array of shape (n, M)
        Mean share of the votes for each class.
    by_chain : array of shape (n, C, M)
        The same in each chain.
    batches : array of shape (n, B, M)
        The same in batches of consecutive draws, whose spread tells the Monte Carlo error of `votes`.
    familiarity : array of shape (n,)
        How well the neighbors explain the case.
    probability, influence, share : arrays of shape (n, S)
        Probability of being a neighbor, mean weight of the vote, mean share in all votes.
    share_by_chain : array of shape (n, C, S)
    features : array of shape (n, S, P)
        Probability of being a neighbor to whom the feature matters.
    explained : array of shape (n, P)
        Mean probability of the case's own value given its neighbors.
    votes_with : array of shape (n, S, M)
        Mean share of the votes for each class, a draw counting as 0 where the parent is no neighbor.
    """

    votes: NDArray[np.float64]
    by_chain: NDArray[np.float64]
    batches: NDArray[np.float64]
    familiarity: NDArray[np.float64]
    probability: NDArray[np.float64]
    influence: NDArray[np.float64]
    share: NDArray[np.float64]
    share_by_chain: NDArray[np.float64]
    features: NDArray[np.float32]
    explained: NDArray[np.float64]
    votes_with: NDArray[np.float64]

    def votes_without(self, i: int, b: int) -> NDArray[np.float64]:
        """The votes on case i, (M,), in the draws where parent b is not among its neighbors.

        Given the importances that is as if b were not there, as neighbors are independent a priori; draws of the
        importances in which b is seldom a neighbor count a little more than in a prediction without b.
        """
        # By chance the difference may be nothing, which would be read as certainty.
        left = np.maximum(self.votes[i] - self.votes_with[i, b], 1e-3 * self.votes[i])
        return np.asarray(left / left.sum())


def ballot_of(seen: Prediction, n_chains: int) -> Ballot:
    """The arrays of a prediction made with ``detail=True``."""
    neighbors = seen.neighbors
    assert neighbors is not None
    n, _, n_classes = seen.votes_by_batch.shape
    return Ballot(
        votes=seen.mean_votes(),
        by_chain=seen.votes_by_batch.reshape(n, n_chains, -1, n_classes).mean(axis=2),
        batches=seen.votes_by_batch,
        familiarity=seen.familiarity,
        probability=neighbors.probability.astype(np.float64),
        influence=neighbors.influence.astype(np.float64),
        share=neighbors.share.astype(np.float64),
        share_by_chain=neighbors.share_by_chain.astype(np.float64),
        features=neighbors.features,
        explained=neighbors.explained.astype(np.float64),
        votes_with=neighbors.votes_with.astype(np.float64),
    )


def predict_without(
    posterior: Posterior, cases: Data, excluded: NDArray[np.bool_], run: dict[str, Any]
) -> NDArray[np.float64]:
    """Votes on cases, (n, M), predicted anew with some of the parents taken out of each, and their own ones as ever.

    Parameters
    ----------
    posterior : Posterior
    cases : Data
        Their classes are hidden here.
    excluded : bool array of shape (n, S)
        Which parents cannot be neighbors of which case.
    run : dict
        Precision, threads and engine, as `predict_cases` takes them.
    """
    hidden = cases._replace(y=np.full(len(cases.x), HIDDEN))
    if votes_by_place(posterior.model, cases) and run.get("engine", "cpu") in ("cpu", "auto"):
        return predict_cases(posterior, hidden, excluded=excluded, **{**run, "engine": "cpu"}).mean_votes()
    votes = np.empty((len(cases.x), cases.n_classes))
    own = np.flatnonzero(cases.own_parent >= 0)
    excluded = excluded.copy()
    excluded[own, cases.own_parent[own]] = True
    for i, kept in enumerate(~excluded):
        part = hidden._replace(
            x=cases.x[[i]],
            y=hidden.y[[i]],
            x_parents=cases.x_parents[kept],
            y_parents=cases.y_parents[kept],
            own_parent=np.array([-1]),
        )
        fewer = replace(posterior, q_tilde=posterior.q_tilde[:, :, kept])
        base = posterior.hyper.mu0_per_class(cases.n_classes)
        votes[i] = predict_cases(fewer, part, **run).mean_votes()[0] if kept.any() else base / base.sum()
    return votes
