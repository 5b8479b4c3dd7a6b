"""The contract that every engine obeys, and all that the rest of the package calls of the engines.

An engine is made for one `Data` and one `Model`. A chain's state belongs to the engine that started it; everything a
caller may know about it comes through `observe`, `latent`, `neighbors`, `summarise` and `add_neighbors`. All randomness
of a chain derives from ``(seed, chain, number of the sweep, case)``, so that the same seed gives the same draws on any
number of threads.

`sample` calls `start`, `set_importance`, `sweep` or `sweep_given_q`, `observe`, `add_neighbors`, `freeze` and `thaw`.
`predict` calls `start`, `update_given`, `summarise`, `neighbors` and `tally`. Two computations are no chains and run on
the host alone, whatever the engine: votes of new cases place by place (`cpu/voting.py`), and how well past cases
predict each other (`cpu/leave_one_out.py`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.model import Data, Latent, Model

MAX_FEATURES_BY_PLACE = 64  # for `vote_on_cases`: w of a neighbor is one word
DIFFERS, AGREES, UNKNOWN = 0, 1, 2  # codes of `Pairs`
FARTHEST = 1e100  # from 0, of any number in a state; the logit of a Beta number of tiny shape is far away


class Observation(NamedTuple):
    """What is kept of a chain after a sweep."""

    q: NDArray[np.float64]  # (P,)
    q_tilde: NDArray[np.float64]  # (S, P)
    n_neighbors: NDArray[np.int32]  # (N,)
    votes: NDArray[np.float64]  # (N, M)  h_i(m) / sum_m h_i(m)
    log_joint: float  # model.log_joint of (data, latent): q-tilde integrated out


class Neighbors(NamedTuple):
    """z, w and kappa of all cases, neighbors only: row i has n[i] used entries of a capacity C, in any order."""

    n: NDArray[np.int32]  # (N,)
    parent: NDArray[np.int32]  # (N, C)
    bits: NDArray[np.uint64]  # (N, C, words) w, feature j in bit j % 64 of word j // 64
    kappa: NDArray[np.float64]  # (N, C), or (N, 1) and unused where the model derives it


class ProblemSizes(NamedTuple):
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
    def is_available(cls) -> bool:
        """Whether this machine has what the engine needs."""
        return True

    @classmethod
    def fits(cls, n_cases: int, n_parents: int, n_features: int) -> bool:
        """Whether a problem of this size fits into memory of the engine's own, such as a GPU's."""
        return True

    @classmethod
    def bytes_per_chain(cls, sizes: ProblemSizes, model: Model, n_threads: int) -> tuple[int, int]:
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
        """Update everything but q once, in place, given q (P,)."""
        raise self.no_given_importances()

    def update_given(self, state: Any, q_tilde: NDArray[Any], key: np.uint64, numbers: NDArray[np.int64]) -> None:
        """Update z, w and kappa of every case given q-tilde (G, S, P), with the random numbers of `key` (``streams``).

        The cases are G parts of equal size, one after the other, and each part has its own q-tilde. A case's stream
        belongs to its number.
        """
        raise self.no_given_importances()

    def summarise(self, state: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Vote shares (N, M) and log likelihood (N,) of the cases."""
        raise self.no_given_importances()

    def neighbors(self, state: Any) -> Neighbors:
        """The lists of neighbors."""
        raise self.no_given_importances()

    def tally(self, data: Data) -> Any:
        """What adds up draws of the neighbors of these cases (``cpu/summary.py``: on the host, whatever the engine)."""
        raise self.no_given_importances()

    def no_given_importances(self) -> ValueError:
        """What an engine says that always samples the importances: the paper's, which integrates q-tilde out."""
        return ValueError(
            f"{type(self).__name__} samples the importances and cannot take them as given; pass engine='cpu'"
        )

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


# Computations that are no chains


class Voters(NamedTuple):
    """The parents, ordered by class, and the constants of the model."""

    x: NDArray[np.float64]  # (P, S) NaN where missing
    start: NDArray[np.int64]  # (M + 1,) where the parents of each class begin
    windows: NDArray[np.float64]  # (P,)
    c1: float
    c2: NDArray[np.float64]  # (P,)
    lam: float
    mu: NDArray[np.float64]  # (2, M) mu and mu0
    label_c2: float
    one: float
    prior_odds: float


class Draws(NamedTuple):
    """Draws of the importances: C chains of D draws."""

    q: NDArray[np.float64]  # (C, D, P)
    q_tilde: NDArray[np.float32]  # (C, D, P, S) parents ordered by class; 0 where the parent's value is missing


class Places(NamedTuple):
    """The neighbors of n cases in C chains, so many as there are places at most."""

    rng: NDArray[np.uint64]  # (n, C, 2)
    n: NDArray[np.int32]  # (n, C)
    parent: NDArray[np.int32]  # (n, C, K)
    bits: NDArray[np.uint64]  # (n, C, K) w


class VoteSums(NamedTuple):
    """What is added up over the draws; details have size 0 where they are not wanted."""

    votes: NDArray[np.float64]  # (n, C, B, M) shares of the votes for each class, by batch of draws
    familiarity: NDArray[np.float64]  # (n, C) log likelihood of the case given its neighbors
    n_neighbors: NDArray[np.float64]  # (n, C)
    probability: NDArray[np.float64]  # (n, C, S) of being a neighbor
    share: NDArray[np.float64]  # (n, C, S) of the parent in all votes
    features: NDArray[np.float64]  # (n, C, P, S) of being a neighbor to whom the feature matters
    explained: NDArray[np.float64]  # (n, C, P) probability of the case's own value given its neighbors
    votes_with: NDArray[np.float64]  # (n, C, M, S) shares of the votes of each class, 0 where the parent is no neighbor


class Pairs(NamedTuple):
    """Past cases beside the parents that vote on them, parents ordered by class."""

    codes: NDArray[np.uint8]  # (n, P, S) DIFFERS, AGREES or UNKNOWN
    has_unknown: NDArray[np.bool_]  # (P,)
    y: NDArray[np.int64]  # (n,)
    own: NDArray[np.int64]  # (n,) which of the parents is the case itself, -1: none
    start: NDArray[np.int64]  # (M + 1,) where the parents of each class begin
    heard: NDArray[np.float64]  # (M,) weight of a vote for the class
    base: NDArray[np.float64]  # (M,) base rates; they have LEAST of the votes
    weight: NDArray[np.float64]  # (n,) of the case


def open_streams(places: Places, key: np.uint64, numbers: NDArray[np.int64]) -> None:
    """Begin a stream for each case and chain: of the number of the case, whoever else is predicted beside it."""
    from bayespatch.engine.cpu import voting  # loads Numba

    voting.open_streams(places, key, numbers)


def vote_on_cases(
    voters: Voters,
    draws: Draws,
    x: NDArray[np.float64],
    y: NDArray[np.int64],
    own: NDArray[np.int64],
    excluded: NDArray[np.bool_],
    used: NDArray[np.int64],
    batches: NDArray[np.int64],
    settling: int,
    places: Places,
    sums: VoteSums,
    todo: NDArray[np.int64],
    first: int,
    last: int,
) -> None:
    """Votes on new cases in Model I given draws of the importances, place by place; added to `sums`.

    Pairs first..last-1 of cases and chains: pair t is case todo[t // C] in chain t % C. `own` (n,): the parent that is
    the case itself, -1: none; `excluded` (n, S) or (n, 0): parents that may not vote; `used`: draws; `batches`: to
    which batch each of them belongs; `settling`: sweeps before the first that counts.
    """
    from bayespatch.engine.cpu import voting  # loads Numba

    voting.vote_on_cases(voters, draws, x, y, own, excluded, used, batches, settling, places, sums, todo, first, last)


def predict_each(
    pairs: Pairs,
    differs: NDArray[np.float32],
    unknown: NDArray[np.float32],
    slope: float,
    log_p: NDArray[np.float64],
    agree_pull: NDArray[np.float64],
    unknown_pull: NDArray[np.float64],
    slope_pull: NDArray[np.float64],
) -> None:
    """How well past cases predict each other where each has exactly one neighbor; fills the last four arguments.

    log p(y_i) (n,), and how it changes with the weight of agreeing and of unknown parents, (n, P) or empty, and with
    the slope, (n,). `differs` and `unknown` (P,): factors relative to that of agreement.
    """
    from bayespatch.engine.cpu import leave_one_out  # loads Numba

    leave_one_out.predict_each(pairs, differs, unknown, slope, log_p, agree_pull, unknown_pull, slope_pull)


def first_capacity(n_parents: int, alpha: float) -> int:
    """Room for neighbors of a case, in a new chain: hardly any case finds more."""
    expected = n_parents * alpha
    return min(n_parents, 8 + math.ceil(expected + 6.0 * math.sqrt(expected)))
