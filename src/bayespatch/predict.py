"""New cases under a `Posterior`: their neighbors, the votes of these, and class probabilities.

Types I and II of the paper (the label is not known: who are the neighbors, and how do they vote?) and III (it is known
and counts). Given q-tilde a new case does not depend on any other case, so for each of a number of stored draws of
q-tilde its neighbors are swept once more, from where the draw before left them. The random numbers belong to the
content of the row: a prediction does not depend on the other rows, nor on their order.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.model import Data
from bayespatch.posterior import Posterior

N_DRAWS = 200  # of q-tilde, evenly from all chains
N_SETTLING = 8  # sweeps before the first draw of a chain counts
BATCH = 4096  # cases at a time, which bounds the memory


class Company(NamedTuple):
    """Who n cases are among: means over the draws, for S parents and P features.

    Attributes
    ----------
    probability : array of shape (n, S), float32
        Probability of being a neighbor.
    influence : array of shape (n, S), float32
        Mean weight of the parent's vote, kappa; 0 where it is not a neighbor.
    features : array of shape (n, S, P), float32
        Probability of being a neighbor to whom the feature matters.
    """

    probability: NDArray[np.float32]
    influence: NDArray[np.float32]
    features: NDArray[np.float32]


class Prediction(NamedTuple):
    """What the draws say about n new cases.

    Attributes
    ----------
    votes : array of shape (draws, n, M), float32
        Shares of the votes for each class, h(m) / sum h. Their mean is the probability, their spread its uncertainty.
    company : Company, or None where it was not asked for
    """

    votes: NDArray[np.float32]
    company: Company | None


def predict_cases(
    posterior: Posterior, data: Data, *, detail: bool = False, n_draws: int = N_DRAWS, n_threads: int = 1
) -> Prediction:
    """Predict cases that were not part of the fit.

    Parameters
    ----------
    posterior : Posterior
        Whose q-tilde is used; `data.x_parents` must be the parents that it was sampled with.
    data : Data
        The new cases, their labels hidden (types I and II) or known (type III), and the parents.
    detail : bool
        Also say who the neighbors are and which features matter (4*n*S*(P+2) bytes).
    n_draws : int
        How many draws of q-tilde to use, at most as many as there are.
    n_threads : int
        Threads; the result does not depend on it.

    Returns
    -------
    Prediction
    """
    parts = [
        _predict_batch(posterior, _rows(data, first, first + BATCH), detail, n_draws, n_threads)
        for first in range(0, len(data.x), BATCH)
    ]
    if len(parts) == 1:
        return parts[0]
    votes = np.concatenate([part.votes for part in parts], axis=1)
    companies = [part.company for part in parts if part.company is not None]
    joined = Company(*(np.concatenate(pieces) for pieces in zip(*companies, strict=True))) if companies else None
    return Prediction(votes, joined)


def row_numbers(x: NDArray[np.float64]) -> NDArray[np.int64]:
    """A number for each row that depends on its content alone."""
    rows = np.ascontiguousarray(x, dtype="<f8") + 0.0  # -0 is 0
    digests = (hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in rows)
    return np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64)


def _rows(data: Data, first: int, last: int) -> Data:
    return data._replace(x=data.x[first:last], y=data.y[first:last], own_parent=data.own_parent[first:last])


def _draws_used(posterior: Posterior, n_draws: int) -> list[NDArray[np.int64]]:
    """Which draws of each chain are used: evenly spread, the last among them."""
    share = min(posterior.n_draws, max(1, -(-n_draws // posterior.n_chains)))
    return [np.linspace(posterior.n_draws - 1, 0, share).round().astype(np.int64)[::-1]] * posterior.n_chains


def _predict_batch(posterior: Posterior, data: Data, detail: bool, n_draws: int, n_threads: int) -> Prediction:
    from bayespatch.engine.cpu import CpuEngine, chain_key, subkey  # loads Numba

    engine = CpuEngine(data, posterior.model, n_threads)
    (n, n_features), n_parents = data.x.shape, len(data.x_parents)
    numbers = row_numbers(data.x)
    used = _draws_used(posterior, n_draws)
    votes = np.empty((sum(map(len, used)), n, data.n_classes), dtype=np.float32)
    company = None
    if detail:
        pairs = (n, n_parents)
        company = Company(
            np.zeros(pairs, np.float32), np.zeros(pairs, np.float32), np.zeros((*pairs, n_features), np.float32)
        )
    k = 0
    for chain, draws in enumerate(used):
        state = engine.start(posterior.seed, chain)
        key = subkey(chain_key(posterior.seed, chain), -1 % 2**63)  # no sweep of the fit has this number
        sweep = 0
        for draw in draws:
            engine.set_importance(state, posterior.q[chain, draw], posterior.q_tilde[chain, draw])
            for _ in range(N_SETTLING if sweep == 0 else 1):
                engine.update_cases(state, subkey(key, sweep), numbers)
                sweep += 1
            votes[k] = engine.summarise(state)[0]
            k += 1
            if company is not None:
                engine.add_neighbors(state, company.probability, company.features)
                engine.add_influence(state, company.influence)
    for total in company or ():
        total /= len(votes)
    return Prediction(votes, company)
