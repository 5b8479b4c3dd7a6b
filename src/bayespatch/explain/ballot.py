"""The votes on cases as arrays: the one place where explanations meet the form in which predictions come."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayespatch.model import HIDDEN, Data, Model
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
    cast : array of shape (n, M)
        Share of the votes for each class that past cases cast; the rest is the base rates'.
    everyone : array of shape (n, all parents), float32
        Mean share in all votes, of parents without details too.
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
    cast: NDArray[np.float64]
    everyone: NDArray[np.float32]

    def votes_without(self, i: int, b: int) -> NDArray[np.float64]:
        """The votes on case i, (M,), in the draws where parent b is not among its neighbors.

        Given the importances that is as if b were not there, as neighbors are independent a priori; draws of the
        importances in which b is seldom a neighbor count a little more than in a prediction without b.
        """
        # By chance the difference may be nothing, which would be read as certainty.
        left = np.maximum(self.votes[i] - self.votes_with[i, b], 1e-3 * self.votes[i])
        return np.asarray(left / left.sum())


def ballot_of(seen: Prediction, n_chains: int, y_parents: NDArray[np.int64]) -> Ballot:
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
        cast=neighbors.share.astype(np.float64) @ np.eye(n_classes)[y_parents],
        everyone=neighbors.share,
    )


def closed_ballot(
    seen: Prediction, case: Data, candidates: NDArray[np.int64], model: Model, q: NDArray[np.float64]
) -> Ballot:
    """The votes on one case in closed form, in detail for the candidates alone.

    Parameters
    ----------
    seen : Prediction
        Of the case, with the shares of all parents.
    case : Data
        The case and its parents.
    candidates : int array of shape (K,)
        Parents of whom details are asked.
    model : Model
    q : array of shape (P,)
        Mean importances.
    """
    neighbors = seen.neighbors
    assert neighbors is not None
    n_chains, n_classes = neighbors.share_by_chain.shape[1], case.n_classes
    share = neighbors.share[:, candidates].astype(np.float64)
    matters, likelihood = _closed_details(case, candidates, model, q)
    everyone = neighbors.share[0].astype(np.float64)
    explained = np.where(np.isnan(case.x[0]), 1.0, everyone[candidates] @ likelihood / max(share.sum(), 1e-12))
    of_class = np.eye(n_classes)[case.y_parents]
    return Ballot(
        votes=seen.mean_votes(),
        by_chain=seen.votes_by_batch.reshape(1, n_chains, -1, n_classes).mean(axis=2),
        batches=seen.votes_by_batch,
        familiarity=seen.familiarity,
        probability=share,
        influence=share,
        share=share,
        share_by_chain=neighbors.share_by_chain[:, :, candidates].astype(np.float64),
        features=(share[0][:, None] * matters)[None].astype(np.float32),
        explained=explained[None],
        votes_with=(share[0][:, None] * of_class[candidates])[None],
        cast=(everyone @ of_class)[None],
        everyone=neighbors.share,
    )


def _closed_details(
    case: Data, candidates: NDArray[np.int64], model: Model, q: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """P(w = 1) of each feature of each candidate, and the likelihood of the case's value, with it as the neighbor.

    With one neighbor: f = 1 - q + q R, R the ratio of the likelihoods of the value with w = 1 and w = 0.
    """
    hyper, x = model.hyper, case.x_parents[candidates]
    first = case.n_values * hyper.lam0
    apart = np.abs(x - case.x[0])
    agrees = apart <= case.windows
    ratio = np.where(agrees, case.n_values * (hyper.lam0 + hyper.lam), first) / (first + hyper.lam)
    ratio = np.where(np.isnan(apart), 1.0, ratio)
    f = 1.0 - q + q * ratio
    matters = q * ratio / f
    return matters, (1.0 - matters + matters * ratio) / case.n_values


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
    if posterior.log_weights is not None:
        return predict_cases(posterior, hidden, excluded=excluded, n_threads=run.get("n_threads", 1)).mean_votes()
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
