"""New cases under a `Posterior`: their neighbors, the votes of these, and class probabilities.

Types I and II of the paper (the label is not known: who are the neighbors, and how do they vote?) and III (it is known
and counts). Given q-tilde a new case does not depend on any other case, so for each of a number of stored draws of
q-tilde its neighbors are swept once more, from where the draw before left them. The random numbers belong to the
content of the row: a prediction does not depend on the other rows, nor on their order.

The paper samples past and new cases together (`sample_together`). All that the new cases can change there is the
posterior of q-tilde; given q-tilde they are predicted in the same way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bayespatch.check import MAX_SEED, check_choice
from bayespatch.model import HIDDEN, Data, Model
from bayespatch.posterior import Posterior
from bayespatch.sample import chosen_engine, load_engine, run_chains

N_DRAWS = 200  # of q-tilde, evenly from all chains
N_SETTLING = 5  # sweeps before the first draw of a chain counts; the votes forget their past in one or two
CASES_PER_THREAD = 16  # fewer are not worth a thread
MAX_REVIEWED = 5000  # past cases that are looked at as if they were new
PREDICTING = ("cpu", "cuda", "auto")  # engines that can hold q-tilde fixed
BATCH = 4096  # cases at a time, at most;
BATCH_ON_GPU = 2**16  # many, to keep it busy; and
BATCH_NUMBERS = 2**24  # numbers that are kept of them; both bound the memory

Detail = bool | Literal["shares"]  # who the neighbors are, and (True) which of their features matter


class Importances(Protocol):
    """What prediction asks of a posterior."""

    @property
    def model(self) -> Model:
        """The model that was sampled."""

    @property
    def seed(self) -> int:
        """Of the random numbers."""

    @property
    def q(self) -> NDArray[np.float64]:
        """Draws of q, (C, D, P)."""

    @property
    def q_tilde(self) -> NDArray[Any]:
        """Draws of q-tilde, (C, D, S, P)."""

    @property
    def n_chains(self) -> int:
        """How many chains, C."""

    @property
    def n_draws(self) -> int:
        """How many draws in each, D."""


class UnseenValueWarning(UserWarning):
    """New cases have values that no past case has. They match nobody; all else of the case is compared as ever."""


class Company(NamedTuple):
    """Who n cases are among: means over the draws, for S parents and P features.

    Attributes
    ----------
    probability : array of shape (n, S), float32
        Probability of being a neighbor.
    influence : array of shape (n, S), float32
        Mean weight of the parent's vote, kappa; 0 where it is not a neighbor.
    share : array of shape (n, S), float32
        Mean share of the parent's vote in all that is voted for the classes; what is missing to 1 is the base rates'.
    features : array of shape (n, S, P), float32
        Probability of being a neighbor to whom the feature matters.
    explained : array of shape (n, P), float32
        Mean probability of the case's own value of the feature given its neighbors; 1 where it is missing.
    votes_beside : array of shape (n, S, M), float32
        Mean of the votes times whether the parent is a neighbor: over `probability`, the votes where it is one.
    by_chain : array of shape (n, chains, S), float32
        `influence` in each chain.

    Where only shares were asked for, the last four have no features, no classes and no chains.
    """

    probability: NDArray[np.float32]
    influence: NDArray[np.float32]
    share: NDArray[np.float32]
    features: NDArray[np.float32]
    explained: NDArray[np.float32]
    votes_beside: NDArray[np.float32]
    by_chain: NDArray[np.float32]


class Prediction(NamedTuple):
    """What the draws say about n new cases.

    Attributes
    ----------
    votes : array of shape (draws, n, M), float32
        Shares of the votes for each class, h(m) / sum h. Their mean is the vote, their spread its uncertainty.
    familiarity : array of shape (n,)
        How well the neighbors explain the case: the log likelihood of its values (and of its class, where it is known),
        mean over the draws.
    company : Company, or None where it was not asked for
    """

    votes: NDArray[np.float32]
    familiarity: NDArray[np.float64]
    company: Company | None

    def mean_votes(self) -> NDArray[np.float64]:
        """The share of the votes for each class: the mean over the draws, (n, M)."""
        means = self.votes.mean(axis=0, dtype=np.float64)
        return np.asarray(means / means.sum(axis=1, keepdims=True))


class Review(NamedTuple):
    """Past cases looked at as if they were new: none votes on itself, and their own labels are hidden.

    Attributes
    ----------
    rows : int array of shape (R,)
        Which: rows of the training table.
    votes : array of shape (R, M)
        Mean shares of the votes for each class.
    familiarity : array of shape (R,)
        As in `Prediction`.
    """

    rows: NDArray[np.int64]
    votes: NDArray[np.float64]
    familiarity: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Neighborhood:
    """Who the neighbors of n cases are, the most influential first.

    Attributes
    ----------
    rows : int array of shape (n, top)
        Who: rows of the training table.
    probability : array of shape (n, top), float32
        Probability of being a neighbor.
    influence : array of shape (n, top), float32
        Mean weight of the neighbor's vote.
    features : array of shape (n, top, P), float32
        Probability of being a neighbor to whom the feature matters.
    """

    rows: NDArray[np.int64]
    probability: NDArray[np.float32]
    influence: NDArray[np.float32]
    features: NDArray[np.float32]

    @classmethod
    def of(cls, company: Company, rows: NDArray[np.int64], top: int) -> Neighborhood:
        """The `top` most influential of the parents, which stand in these rows of the training table."""
        order = np.argsort(-company.influence, axis=1, kind="stable")[:, :top]
        return cls(
            rows[order],
            np.take_along_axis(company.probability, order, axis=1),
            np.take_along_axis(company.influence, order, axis=1),
            np.take_along_axis(company.features, order[:, :, None], axis=1),
        )

    @classmethod
    def joined(cls, parts: list[Neighborhood]) -> Neighborhood:
        """The neighborhoods of several batches of cases as one."""
        names = ("rows", "probability", "influence", "features")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def predict_batches(
    posterior: Importances,
    data: Data,
    *,
    detail: Detail = False,
    n_draws: int = N_DRAWS,
    n_threads: int = 1,
    engine: str = "cpu",
) -> Iterator[Prediction]:
    """Predict cases that were not part of the fit, so many at a time that memory stays within bounds.

    Parameters
    ----------
    posterior : Posterior
        Whose q-tilde is used; `data.x_parents` must be the parents that it was sampled with.
    data : Data
        The new cases, their labels hidden (types I and II) or known (type III), and the parents.
    detail : bool or "shares"
        Also say who the neighbors are and which features matter; "shares" leaves the features out, which takes P times
        less memory.
    n_draws : int
        How many draws of q-tilde to use, at most as many as there are.
    n_threads : int
        Threads; the result does not depend on it.
    engine : {"cpu", "cuda", "auto"}
        What finds the neighbors; "auto" takes a GPU where there is one and the cases are many.

    Yields
    ------
    Prediction
        Of the next cases, in their order. How they are split does not matter to any of them.
    """
    n_parents, n_features = data.x_parents.shape
    name = chosen_engine(check_choice("engine", engine, PREDICTING), data)
    per_case = n_draws * data.n_classes
    if detail:
        per_case += n_parents * 3
    if detail and detail != "shares":
        per_case += n_parents * (n_features + data.n_classes + posterior.n_chains)
    size = max(1, min(BATCH_ON_GPU if name == "cuda" else BATCH, BATCH_NUMBERS // per_case))
    for first in range(0, len(data.x), size):
        rows = slice(first, first + size)
        batch = data._replace(x=data.x[rows], y=data.y[rows], own_parent=data.own_parent[rows])
        yield _predict_batch(posterior, batch, detail, n_draws, n_threads, name)


def predict_cases(
    posterior: Importances,
    data: Data,
    *,
    detail: Detail = False,
    n_draws: int = N_DRAWS,
    n_threads: int = 1,
    engine: str = "cpu",
) -> Prediction:
    """All of `predict_batches` at once: 4*n*draws*M bytes, and with detail 4*n*S*(P+M+chains+3) more.

    Examples
    --------
    >>> from bayespatch import sample
    >>> from bayespatch.check import check_data
    >>> past = dict(x_parents=[[0], [1], [1]], y_parents=[0, 1, 1], n_values=[2], n_classes=2)
    >>> posterior = sample([[0], [1]], [0, 1], **past)
    >>> new = check_data([[1]], [-1], **past)
    >>> predict_cases(posterior, new).votes.shape
    (200, 1, 2)
    """
    parts = list(predict_batches(posterior, data, detail=detail, n_draws=n_draws, n_threads=n_threads, engine=engine))
    if len(parts) == 1:
        return parts[0]
    companies = [part.company for part in parts if part.company is not None]
    joined = Company(*(np.concatenate(pieces) for pieces in zip(*companies, strict=True))) if companies else None
    votes = np.concatenate([part.votes for part in parts], axis=1)
    return Prediction(votes, np.concatenate([part.familiarity for part in parts]), joined)


def review_cases(
    posterior: Importances,
    past: Data,
    *,
    most: int = MAX_REVIEWED,
    n_draws: int = N_DRAWS,
    n_threads: int = 1,
    engine: str = "cpu",
) -> Review:
    """Predict the past cases, or `most` of them, evenly spread, each without itself.

    Parameters
    ----------
    posterior : Posterior
        The fit.
    past : Data
        The rows of the training table and its parents; `past.own_parent` says which parent a row is.
    """
    chosen, hidden = cases_to_review(past, most)
    seen = predict_cases(posterior, hidden, n_draws=n_draws, n_threads=n_threads, engine=engine)
    return Review(chosen, seen.mean_votes(), seen.familiarity)


def cases_to_review(past: Data, most: int = MAX_REVIEWED) -> tuple[NDArray[np.int64], Data]:
    """Which past cases a review looks at, at most so many, evenly spread; and these, their classes hidden."""
    n = len(past.x)
    chosen = np.linspace(0, n - 1, min(n, most)).round().astype(np.int64)
    hidden = np.full(len(chosen), HIDDEN)
    return chosen, past._replace(x=past.x[chosen], y=hidden, own_parent=past.own_parent[chosen])


def sample_together(posterior: Posterior, past: Data, new: Data, *, n_threads: int, progress: Any = False) -> Posterior:
    """The posterior of past and new cases together, as the paper has it; chains begin where those of the fit ended.

    Parameters
    ----------
    posterior : Posterior
        The fit, whose model and settings are used again.
    past, new : Data
        The cases that were fitted, and those to be predicted, their labels hidden or known; with the same parents.
    n_threads : int
        Threads; the result does not depend on it.
    progress : bool or callable
        As in `sample`.

    Returns
    -------
    Posterior
        The past cases first.
    """
    together = past._replace(
        x=np.concatenate([past.x, new.x]),
        y=np.concatenate([past.y, new.y]),
        own_parent=np.concatenate([past.own_parent, new.own_parent]),
    )
    seed = (posterior.seed + 1) % MAX_SEED  # where the chains begin must not depend on the numbers that they will draw
    settings = posterior.settings._replace(seed=seed)
    return run_chains(together, posterior.model, settings, n_threads=n_threads, progress=progress, begin=posterior)


def without_parent(posterior: Posterior, data: Data, b: int) -> tuple[Posterior, Data]:
    """Posterior and data as if parent b had never been asked; no case may be one of the parents any more."""
    fewer = data._replace(
        x_parents=np.delete(data.x_parents, b, axis=0),
        y_parents=np.delete(data.y_parents, b),
        own_parent=np.full(len(data.x), -1),
    )
    return replace(posterior, q_tilde=np.delete(posterior.q_tilde, b, axis=2)), fewer


def row_numbers(x: NDArray[np.float64]) -> NDArray[np.int64]:
    """A number for each row that depends on its content alone."""
    rows = np.ascontiguousarray(x, dtype="<f8") + 0.0  # -0 is 0
    rows[np.isnan(rows)] = np.nan  # and there is one NaN
    digests = (hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows)
    return np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64)


def draws_used(posterior: Importances, n_draws: int = N_DRAWS) -> NDArray[np.int64]:
    """Which draws of each chain are used: evenly spread, the last among them."""
    share = min(posterior.n_draws, max(1, -(-n_draws // posterior.n_chains)))
    return np.linspace(posterior.n_draws - 1, 0, share).round().astype(np.int64)[::-1]


def _predict_batch(
    posterior: Importances, data: Data, detail: Detail, n_draws: int, n_threads: int, name: str
) -> Prediction:
    from bayespatch.engine.cpu import chain_key, subkey  # loads Numba
    from bayespatch.engine.tally import Tally

    (n, n_features), n_parents = data.x.shape, len(data.x_parents)
    engine: Any = load_engine(name)(data, posterior.model, min(n_threads, 1 + n // CASES_PER_THREAD))
    numbers = row_numbers(data.x)
    used = draws_used(posterior, n_draws)
    votes = np.empty((posterior.n_chains, len(used), n, data.n_classes), dtype=np.float32)
    familiarity = np.zeros(n)
    company = None
    if detail:
        tally = Tally(data, posterior.model)
        # Of what the sums are: all that can be told, or shares alone.
        sizes = (0, 0, 0) if detail == "shares" else (n_features, data.n_classes, posterior.n_chains)
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(Company._fields, (n, n_parents))
        shapes |= {"features": (n, n_parents, sizes[0]), "explained": (n, sizes[0])}
        shapes |= {"votes_beside": (n, n_parents, sizes[1]), "by_chain": (n, sizes[2], n_parents)}
        company = Company(**{name: np.zeros(shape, np.float32) for name, shape in shapes.items()})
    for chain in range(posterior.n_chains):
        influence = np.zeros((n, n_parents) if detail else (0, 0), np.float32)
        state = engine.start(posterior.seed, chain)
        key = subkey(chain_key(posterior.seed, chain), -1 % 2**63)  # no sweep of the fit has this number
        sweep = 0
        for k, draw in enumerate(used):
            engine.set_importance(state, posterior.q[chain, draw], posterior.q_tilde[chain, draw])
            for _ in range(1 if k else N_SETTLING):
                engine.update_cases(state, subkey(key, sweep), numbers)
                sweep += 1
            shares, log_likelihood = engine.summarise(state)
            votes[chain, k] = shares
            familiarity += log_likelihood
            if company is not None:
                neighbors = engine.neighbors(state)
                tally.add_neighbors(neighbors, company.probability, company.features)
                tally.add_influence(neighbors, influence, company.share)
                if detail != "shares":
                    tally.add_explained(neighbors, company.explained)
                    tally.add_votes_beside(neighbors, shares, company.votes_beside)
        if company is not None:
            np.add(company.influence, influence, out=company.influence)
            if detail != "shares":
                company.by_chain[:, chain] = posterior.n_chains * influence
    for total in (familiarity, *(company or ())):
        total /= posterior.n_chains * len(used)
    return Prediction(votes.reshape(-1, n, data.n_classes), familiarity, company)
