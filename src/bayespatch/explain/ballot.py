"""The votes on cases as arrays: the one place where explanations meet the form in which predictions come."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespatch.model import HIDDEN, Data
from bayespatch.posterior import Posterior
from bayespatch.predict import Prediction, draws_used, predict_cases

N_BATCHES = 20  # of consecutive draws, from whose spread the Monte Carlo error is read


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
    influence_by_chain : array of shape (n, C, S)
    features : array of shape (n, S, P)
        Probability of being a neighbor to whom the feature matters.
    explained : array of shape (n, P)
        Mean probability of the case's own value given its neighbors.
    votes_beside : array of shape (n, S, M)
        Mean of the votes times whether the parent is a neighbor.
    """

    votes: NDArray[np.float64]
    by_chain: NDArray[np.float64]
    batches: NDArray[np.float64]
    familiarity: NDArray[np.float64]
    probability: NDArray[np.float64]
    influence: NDArray[np.float64]
    share: NDArray[np.float64]
    influence_by_chain: NDArray[np.float64]
    features: NDArray[np.float32]
    explained: NDArray[np.float64]
    votes_beside: NDArray[np.float32]


def ballot_of(seen: Prediction, n_chains: int) -> Ballot:
    """The arrays of a prediction made with ``detail=True``."""
    company = seen.company
    assert company is not None
    n, n_classes = seen.votes.shape[1:]
    by_chain = seen.votes.reshape(n_chains, -1, n, n_classes).mean(axis=1, dtype=np.float64)
    batches = [
        part.mean(axis=0, dtype=np.float64) for part in np.array_split(seen.votes, min(N_BATCHES, len(seen.votes)))
    ]
    return Ballot(
        votes=seen.mean_votes(),
        by_chain=np.moveaxis(by_chain, 0, 1),
        batches=np.stack(batches, axis=1),
        familiarity=seen.familiarity,
        probability=company.probability.astype(np.float64),
        influence=company.influence.astype(np.float64),
        share=company.share.astype(np.float64),
        influence_by_chain=company.by_chain.astype(np.float64),
        features=company.features,
        explained=company.explained.astype(np.float64),
        votes_beside=company.votes_beside,
    )


def votes_without(
    posterior: Posterior, cases: Data, excluded: NDArray[np.bool_], run: dict[str, Any]
) -> NDArray[np.float64]:
    """Votes on cases, (n, M), with some of the parents taken out of each, and their own ones as ever.

    Parameters
    ----------
    posterior : Posterior
    cases : Data
        Their classes are hidden here.
    excluded : bool array of shape (n, S)
        Which parents cannot be neighbors of which case.
    run : dict
        Threads and engine, as `predict_cases` takes them.
    """
    n = len(cases.x)
    own = np.flatnonzero(cases.own_parent >= 0)
    excluded = excluded.copy()
    excluded[own, cases.own_parent[own]] = True
    hidden = cases._replace(y=np.full(n, HIDDEN))
    votes = np.empty((n, cases.n_classes))
    count = excluded.sum(axis=1)
    few = np.flatnonzero(count <= 1)
    if few.size:
        # One parent is left out by being taken for the case itself.
        single = np.where(count[few] == 1, excluded[few].argmax(axis=1), -1)
        part = hidden._replace(x=cases.x[few], y=hidden.y[few], own_parent=single)
        votes[few] = predict_cases(posterior, part, **run).mean_votes()
    used = draws_used(posterior)
    for i in np.flatnonzero(count > 1).tolist():
        kept = ~excluded[i]
        part = hidden._replace(
            x=cases.x[[i]],
            y=hidden.y[[i]],
            x_parents=cases.x_parents[kept],
            y_parents=cases.y_parents[kept],
            own_parent=np.array([-1]),
        )
        fewer = replace(posterior, q=posterior.q[:, used], q_tilde=posterior.q_tilde[:, used][:, :, kept])
        votes[i] = predict_cases(fewer, part, **run).mean_votes()[0] if kept.any() else 1.0 / cases.n_classes
    return votes
