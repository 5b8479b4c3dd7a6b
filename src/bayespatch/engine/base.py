"""The contract that every engine obeys: start a chain, sweep it, look at it.

An engine is made for one `Data` and one `Model`. A chain's state belongs to the engine that started it; everything a
caller may know about it comes through `observe`, `latent` and `add_neighbors`. All randomness of a chain derives from
``(seed, chain, number of the sweep, case)``, so that the same seed gives the same draws on any number of threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.model import Data, Latent, Model


class Observation(NamedTuple):
    """What is kept of a chain after a sweep."""

    q: NDArray[np.float64]  # (P,)
    q_tilde: NDArray[np.float64]  # (S, P)
    n_neighbors: NDArray[np.int32]  # (N,)
    votes: NDArray[np.float64]  # (N, M)  h_i(m) / sum_m h_i(m)
    log_joint: float  # model.log_joint of (data, latent): q-tilde integrated out


class Engine(ABC):
    """One way to sample the posterior of `model` given `data`."""

    def __init__(self, data: Data, model: Model, n_threads: int = 1) -> None:
        self.data = data
        self.model = model
        self.n_threads = n_threads

    @classmethod
    def for_chains(cls, n_chains: int, data: Data, model: Model, n_threads: int = 1) -> list[Engine]:
        """Engines for chains that run at the same time: one each, unless an engine can serve several."""
        return [cls(data, model, n_threads) for _ in range(n_chains)]

    @abstractmethod
    def start(self, seed: int, chain: int) -> Any:
        """The state of a new chain, drawn from the prior (over-dispersed)."""

    @abstractmethod
    def set_importance(self, state: Any, q: NDArray[Any], q_tilde: NDArray[Any]) -> None:
        """Put q (P,) and, where the engine keeps it, q-tilde (S, P) into a chain, in place of what it has."""

    @abstractmethod
    def sweep(self, state: Any, adapt: bool = False) -> None:
        """Update every latent variable once, in place. `adapt`: step sizes may be tuned (warm-up only)."""

    @abstractmethod
    def observe(self, state: Any) -> Observation:
        """The quantities that are kept."""

    @abstractmethod
    def latent(self, state: Any) -> Latent:
        """The state as dense arrays: for tests and small problems."""

    @abstractmethod
    def add_neighbors(self, state: Any, z_sum: NDArray[np.float32], w_sum: NDArray[np.float32] | None) -> None:
        """Add z (N, S) and, where wanted, z*w (N, S, P) of this draw to running sums."""
