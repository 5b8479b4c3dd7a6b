"""The contract that every engine obeys: start a chain, sweep it, look at it.

An engine is made for one `Data` and one `Model`. A chain's state belongs to the engine that started it; everything a
caller may know about it comes through `observe`, `latent` and `add_neighbors`. All randomness of a chain derives from
``(seed, chain, number of the sweep, case)``, so that the same seed gives the same draws on any number of threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.model import Data, Latent, Model

FARTHEST = 1e9  # from 0, of any number in a state: logits of the smallest Beta shapes that are allowed are nearer


class Observation(NamedTuple):
    """What is kept of a chain after a sweep."""

    q: NDArray[np.float64]  # (P,)
    q_tilde: NDArray[np.float64]  # (S, P)
    n_neighbors: NDArray[np.int32]  # (N,)
    votes: NDArray[np.float64]  # (N, M)  h_i(m) / sum_m h_i(m)
    log_joint: float  # model.log_joint of (data, latent): q-tilde integrated out


class Sizes(NamedTuple):
    """How large a problem is."""

    n_cases: int  # N
    n_parents: int  # S
    n_features: int  # P
    n_classes: int  # M


class Engine(ABC):
    """One way to sample the posterior of `model` given `data`."""

    GROWING: ClassVar[frozenset[str]] = frozenset()  # arrays of a state whose second axis may grow during a run

    def __init__(self, data: Data, model: Model, n_threads: int = 1) -> None:
        self.data = data
        self.model = model
        self.n_threads = n_threads

    @classmethod
    def for_chains(cls, n_chains: int, data: Data, model: Model, n_threads: int = 1) -> list[Engine]:
        """Engines for chains that run at the same time: one each, unless an engine can serve several."""
        return [cls(data, model, n_threads) for _ in range(n_chains)]

    @classmethod
    def bytes_per_chain(cls, sizes: Sizes, model: Model, n_threads: int) -> tuple[int, int]:
        """Memory that a chain holds (its engine and its state), and that a sweep takes besides.

        An engine that does not say is taken to need nothing; what is kept of the draws is counted elsewhere.
        """
        return 0, 0

    @abstractmethod
    def start(self, seed: int, chain: int) -> Any:
        """The state of a new chain, drawn from the prior (over-dispersed)."""

    @abstractmethod
    def set_importance(self, state: Any, q: NDArray[Any], q_tilde: NDArray[Any]) -> None:
        """Put q (P,) and, where the engine keeps it, q-tilde (S, P) into a chain, in place of what it has."""

    @abstractmethod
    def sweep(self, state: Any, adapt: bool = False) -> None:
        """Update every latent variable once, in place. `adapt`: step sizes may be tuned (warm-up only)."""

    def sweep_given_q(self, state: Any, q: NDArray[Any]) -> None:
        """Update everything but q once, in place, given q (P,). An engine that cannot is refused before it starts."""
        raise ValueError(f"{type(self).__name__} samples the importances and cannot take them as given")

    @abstractmethod
    def observe(self, state: Any) -> Observation:
        """The quantities that are kept."""

    @abstractmethod
    def latent(self, state: Any) -> Latent:
        """The state as dense arrays: for tests and small problems."""

    @abstractmethod
    def add_neighbors(self, state: Any, z_sum: NDArray[np.float32], w_sum: NDArray[np.float32] | None) -> None:
        """Add z (N, S) and, where wanted, z*w (N, S, P) of this draw to running sums."""

    def freeze(self, state: Any) -> dict[str, NDArray[Any]]:
        """The whole state as arrays by name, for a checkpoint: what `thaw` makes of them goes on as this one would.

        This is for states that are dataclasses of integers, arrays and named tuples of arrays; an engine that keeps
        another kind of state has its own `freeze` and `thaw`.
        """
        return dict(_leaves(state))

    def thaw(self, arrays: Mapping[str, NDArray[Any]], seed: int, chain: int) -> Any:
        """The state that `freeze` was given; a ValueError if these arrays cannot be a state of this chain."""
        state = self.start(seed, chain)
        self.check_frozen(arrays, state)
        parts: dict[str, Any] = {}
        for field in fields(state):
            value = getattr(state, field.name)
            if isinstance(value, tuple):
                parts[field.name] = type(value)(*(arrays[f"{field.name}.{name}"] for name in value._fields))  # type: ignore[attr-defined]
            else:
                parts[field.name] = int(arrays[field.name]) if isinstance(value, int) else arrays[field.name]
        return replace(state, **parts)

    def check_frozen(self, arrays: Mapping[str, NDArray[Any]], state: Any) -> None:
        """Refuse arrays that `freeze` could not have made of the chain whose new `state` this is."""
        expected = self.freeze(state)
        if set(arrays) != set(expected):
            raise ValueError(f"a state has {', '.join(sorted(expected))}, not {', '.join(sorted(arrays))}")
        for name, array in expected.items():
            found = arrays[name]
            free = slice(1, 2) if name in self.GROWING else slice(0, 0)
            shapes = [np.delete(kind.shape, free).tolist() for kind in (found, array)]
            if found.dtype != array.dtype or found.ndim != array.ndim or shapes[0] != shapes[1]:
                raise ValueError(
                    f"{name} is {found.dtype} of shape {found.shape}, and should be {array.dtype} of {array.shape}"
                )
            if found.dtype.kind == "f" and not np.all(np.abs(found) <= FARTHEST):  # nor NaN
                raise ValueError(f"{name} has values that are not finite, or beyond {FARTHEST:g}")
        if "n_sweeps" in arrays and not 0 <= int(arrays["n_sweeps"]) < 2**53:
            raise ValueError(f"the state has been swept {int(arrays['n_sweeps'])} times")
        if (int(arrays["seed"]), int(arrays["chain"])) != (state.seed, state.chain):
            raise ValueError(f"the state is of chain {arrays['chain']} with seed {arrays['seed']}")


def _leaves(state: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    for field in fields(state):
        value = getattr(state, field.name)
        if isinstance(value, tuple):
            yield from ((f"{field.name}.{name}", part) for name, part in value._asdict().items())  # type: ignore[attr-defined]
        else:
            yield field.name, np.asarray(value)
