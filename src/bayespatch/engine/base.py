"""The interface of engines: everything that the rest of the package calls.

An engine samples the posterior of one `Model` given one `Data`. The state of a chain belongs to the engine that started
it; callers pass it back and read it only through the engine's methods. All random numbers of a chain are derived from
``(seed, chain, sweep number, case)``, so the same seed gives the same draws with any number of threads.

Every engine subclasses `Engine`: `sample` calls `start`, `set_importance`, `sweep`, `observe`, `add_neighbors`,
`freeze` and `thaw`, and tests call `latent`. An engine that can also sample with given importances subclasses
`GivenEngine`: `sample` calls `sweep_given_q`, and predictions call `update_given`, `summarise` and `neighbors`.
`tests/engine/contract.py` tests every method.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from bayespatch.model import Data, Latent, Model

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Array = NDArray[np.float64]
State = TypeVar("State", bound="DataclassInstance")
FARTHEST = 1e100  # largest absolute value in a state; the logit of a Beta variable with a tiny shape is large


class Observation(NamedTuple):
    """The quantities that are stored after a sweep."""

    q: Array  # (P,)
    q_tilde: Array  # (S, P)
    n_neighbors: NDArray[np.int32]  # (N,)
    votes: Array  # (N, M)  h_i(m) / sum_m h_i(m)
    log_joint: float  # model.log_joint of (data, latent): q-tilde integrated out


class Neighbors(NamedTuple):
    """z, w and kappa of the neighbors of all cases: row i uses n[i] of its C entries, in any order."""

    n: NDArray[np.int32]  # (N,)
    parent: NDArray[np.int32]  # (N, C)
    bits: NDArray[np.uint64]  # (N, C, words) w: feature j is bit j % 64 of word j // 64
    kappa: Array  # (N, C), or (N, 1) and unused if the model derives kappa from w


class ProblemSizes(NamedTuple):
    """The sizes of a problem."""

    n_cases: int  # N
    n_parents: int  # S
    n_features: int  # P
    n_classes: int  # M


class Engine(ABC, Generic[State]):
    """A sampler of the posterior of `model` given `data`."""

    GROWING: ClassVar[frozenset[str]] = frozenset()  # frozen arrays whose second axis may grow during a run

    def __init__(self, data: Data, model: Model, n_threads: int = 1) -> None:
        self.data = data
        self.model = model
        self.n_threads = n_threads

    @classmethod
    def for_chains(cls, n_chains: int, data: Data, model: Model, n_threads: int = 1) -> list[Engine[State]]:
        """The engines for chains that run at the same time; an engine may serve several chains."""
        return [cls(data, model, n_threads) for _ in range(n_chains)]

    @classmethod
    def is_available(cls) -> bool:
        """Whether the engine can run on this machine."""
        return True

    @classmethod
    def fits(cls, n_cases: int, n_parents: int, n_features: int) -> bool:
        """Whether a problem of this size fits into the engine's own memory, such as a GPU's."""
        return True

    @classmethod
    def bytes_per_chain(cls, sizes: ProblemSizes, model: Model, n_threads: int) -> tuple[int, int]:
        """Bytes of memory that a chain takes in this process (engine and state), and additional bytes for a sweep."""
        return 0, 0

    @abstractmethod
    def start(self, seed: int, chain: int) -> State:
        """The state of a new chain: an overdispersed draw from the prior."""

    @abstractmethod
    def set_importance(self, state: State, q: Array, q_tilde: Array) -> None:
        """Replace q (P,) and, if the engine stores it, q-tilde (S, P) of a chain."""

    @abstractmethod
    def sweep(self, state: State, adapt: bool = False) -> None:
        """Update every latent variable once, in place. `adapt`: tune the step sizes (during warm-up only)."""

    @abstractmethod
    def observe(self, state: State) -> Observation:
        """The quantities to store after a sweep."""

    @abstractmethod
    def latent(self, state: State) -> Latent:
        """The state as dense arrays: for tests and small problems."""

    @abstractmethod
    def add_neighbors(self, state: State, z_sum: NDArray[np.float32], w_sum: NDArray[np.float32] | None) -> None:
        """Add z (N, S) and, if `w_sum` is given, z*w (N, S, P) to the running sums."""

    def freeze(self, state: State) -> dict[str, NDArray[np.generic]]:
        """The whole state as arrays by name, for a checkpoint; `thaw` restores it.

        This works for states whose fields are integers (including seed and chain), arrays or `Neighbors`. An engine
        with any other state overrides `freeze` and `thaw`.
        """
        return frozen(state)

    def thaw(self, arrays: Mapping[str, NDArray[np.generic]], seed: int, chain: int) -> State:
        """Restore the state that `freeze` converted to arrays; a ValueError if they cannot be a state of this chain."""
        state = self.start(seed, chain)
        self.check_frozen(arrays, state, seed, chain)
        parts: dict[str, object] = {}
        for field in fields(state):
            value = getattr(state, field.name)
            if isinstance(value, Neighbors):
                parts[field.name] = neighbors_of(arrays, field.name)
            else:
                parts[field.name] = int(arrays[field.name]) if isinstance(value, int) else arrays[field.name]
        return replace(state, **parts)

    def check_frozen(self, arrays: Mapping[str, NDArray[np.generic]], state: State, seed: int, chain: int) -> None:
        """Reject arrays that `freeze` cannot have created for the chain whose new state is `state`."""
        expected = self.freeze(state)
        if set(arrays) != set(expected):
            raise ValueError(f"a state has the arrays {', '.join(sorted(expected))}, not {', '.join(sorted(arrays))}")
        for name, array in expected.items():
            stored = arrays[name]
            free = slice(1, 2) if name in self.GROWING else slice(0, 0)
            shapes = [np.delete(kind.shape, free).tolist() for kind in (stored, array)]
            if stored.dtype != array.dtype or stored.ndim != array.ndim or shapes[0] != shapes[1]:
                raise ValueError(
                    f"{name} is {stored.dtype} of shape {stored.shape} instead of {array.dtype} of {array.shape}"
                )
            if stored.dtype.kind == "f" and not np.all(np.abs(stored) <= FARTHEST):  # nor NaN
                raise ValueError(f"{name} has values that are not finite, or larger than {FARTHEST:g}")
        if "n_sweeps" in arrays and not 0 <= int(arrays["n_sweeps"]) < 2**53:
            raise ValueError(f"the number of sweeps of the state is {int(arrays['n_sweeps'])}")
        if (int(arrays["seed"]), int(arrays["chain"])) != (seed, chain):
            raise ValueError(f"the state belongs to chain {arrays['chain']} with seed {arrays['seed']}")


class GivenEngine(Engine[State]):
    """An engine that can also sample with given importances."""

    @abstractmethod
    def sweep_given_q(self, state: State, q: Array) -> None:
        """Update everything except q once, in place, given q (P,)."""

    @abstractmethod
    def update_given(
        self, state: State, q_tilde: NDArray[np.floating], key: np.uint64, numbers: NDArray[np.int64]
    ) -> None:
        """Update z, w and kappa of every case given q-tilde (G, S, P), with random numbers from `key` (``streams``).

        The cases consist of G consecutive parts of equal size, each with a separate q-tilde. A case's stream is derived
        from its number.
        """

    @abstractmethod
    def summarise(self, state: State) -> tuple[Array, Array]:
        """The vote shares (N, M) and log likelihood (N,) of the cases."""

    @abstractmethod
    def neighbors(self, state: State) -> Neighbors:
        """The lists of neighbors."""


def frozen(state: DataclassInstance) -> dict[str, NDArray[np.generic]]:
    """The fields of a state as arrays; the fields of `Neighbors` become separate arrays."""
    return dict(_leaves(state))


def _leaves(state: DataclassInstance) -> Iterator[tuple[str, NDArray[np.generic]]]:
    for field in fields(state):
        value = getattr(state, field.name)
        if isinstance(value, Neighbors):
            yield from ((f"{field.name}.{name}", part) for name, part in value._asdict().items())
        else:
            yield field.name, np.asarray(value)


def neighbors_of(arrays: Mapping[str, NDArray[np.generic]], name: str) -> Neighbors:
    """The lists of neighbors that `frozen` stored under this field name."""
    return Neighbors(
        arrays[f"{name}.n"].astype(np.int32, copy=False),
        arrays[f"{name}.parent"].astype(np.int32, copy=False),
        arrays[f"{name}.bits"].astype(np.uint64, copy=False),
        arrays[f"{name}.kappa"].astype(np.float64, copy=False),
    )


def first_capacity(n_parents: int, alpha: float) -> int:
    """The initial capacity for the neighbors of a case; few cases need more."""
    expected = n_parents * alpha
    return min(n_parents, 8 + math.ceil(expected + 6.0 * math.sqrt(expected)))
