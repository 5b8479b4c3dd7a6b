"""Past cases in several parts, each in this process or on a Dask worker, that vote as one index.

A part keeps the codes of its own cases, one or two bytes a value, and never sends them. Coded values of the cases in
question and log weights go to every part; sums and the largest voters come back. The size of both does not depend on
the number of past cases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import starmap
from operator import add
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bayespatch.retrieval.index import CaseIndex
from bayespatch.retrieval.sums import Array, LeaveOneOutScores, LeaveOneOutSums, LeftOut, VoteSums
from bayespatch.retrieval.votes import leave_one_out_sums, vote, vote_shares

SHARES_AT_ONCE = 2**24  # of past cases in the votes on some cases, in a part


class LargestShares(NamedTuple):
    """The past cases with the largest shares of the votes on n cases.

    Attributes
    ----------
    rows : int array of shape (n, k)
        Rows of the whole table, by share, the largest first; equal shares by row.
    shares : array of shape (n, k)
        Mean shares over the draws.
    squares : array of shape (n,)
        Sum of the squared shares of all past cases; its inverse is the effective number of voters.
    """

    rows: NDArray[np.int64]
    shares: Array
    squares: Array

    @classmethod
    def of(cls, shares: Array, rows: NDArray[np.int64], k: int) -> LargestShares:
        """From the shares of all past cases, (n, N), and their rows, (N,)."""
        places = np.empty((len(shares), min(k, len(rows))), np.int64)
        for i, each in enumerate(shares):
            places[i] = _largest(each, rows, k)
        return cls(rows[places], np.take_along_axis(shares, places, axis=1), (shares**2).sum(axis=1))

    def merged(self, other: LargestShares, k: int) -> LargestShares:
        """The k largest of both."""
        rows = np.concatenate([self.rows, other.rows], axis=1)
        shares = np.concatenate([self.shares, other.shares], axis=1)
        order = np.lexsort((rows, -shares))[:, :k]
        rows, shares = (np.take_along_axis(each, order, axis=1) for each in (rows, shares))
        return LargestShares(rows, shares, self.squares + other.squares)


def _largest(shares: Array, rows: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Where the k largest shares are; equal shares by row."""
    k = min(k, len(shares))
    if k == 0:
        return np.empty(0, np.int64)
    least = np.partition(shares, len(shares) - k)[len(shares) - k]
    candidates = np.flatnonzero(shares >= least)
    return candidates[np.lexsort((rows[candidates], -shares[candidates]))[:k]]


class Parts(Protocol):
    """Several `CaseIndex`, wherever they are."""

    def each(self, function: Callable[..., Any], shared: object, own: Iterable[object]) -> Iterator[Any]:
        """function(shared, part, own argument) for every part, in their order."""

    def close(self) -> None:
        """Drop the parts."""


class PartsHere:
    """Parts in this process."""

    def __init__(self, parts: Iterable[CaseIndex]) -> None:
        self.parts = list(parts)

    def each(self, function: Callable[..., Any], shared: object, own: Iterable[object]) -> Iterator[Any]:
        """function(shared, part, own argument) for every part, in their order."""
        return (function(shared, part, value) for part, value in zip(self.parts, own, strict=True))

    def close(self) -> None:
        """Drop the parts."""
        self.parts = []


class PartitionedIndex:
    """Past cases in several parts.

    Its results are those of one `CaseIndex` of all parts, one after the other, up to rounding. Past cases are named by
    their row in the whole table. Make one with `build`.

    Attributes
    ----------
    first_row : int array of shape (parts + 1,)
        The first row of each part in the whole table, and the number of all rows.
    n_classes : int
        M.
    n_by_class : int array of shape (M,)
        Past cases of each class.
    compares_missing : bool array of shape (P,)
        For which columns a comparison asks whether a past case's value is missing.

    Examples
    --------
    >>> x, y = np.array([[0.0], [1.0], [1.0]]), np.array([0, 0, 1])
    >>> arrays = {"first": (x[:1], y[:1]), "second": (x[1:], y[1:])}
    >>> index = PartitionedIndex.build(arrays.get, [("first",), ("second",)], n_classes=2, windows=[(0.0,)])
    >>> index.n_cases, index.first_row.tolist()
    (3, [0, 1, 3])
    >>> totals = index.vote(x[2:], np.log([[2.0]]))
    >>> totals.shares(np.ones(2)).round(2).tolist()
    [[[0.6, 0.4]]]
    >>> index.vote_shares(x[2:], np.log([[2.0]]), totals, np.ones(2), k=2).rows.tolist()
    [[1, 2]]
    """

    def __init__(
        self,
        parts: Parts,
        first_row: NDArray[np.int64],
        n_by_class: NDArray[np.int64],
        compares_missing: NDArray[np.bool_],
        n_threads: int = 1,
    ) -> None:
        self.parts, self.n_threads = parts, n_threads
        self.first_row, self.n_by_class, self.compares_missing = first_row, n_by_class, compares_missing

    @classmethod
    def build(
        cls,
        read: Callable[..., Any],
        arguments: Iterable[tuple[object, ...]],
        n_classes: int,
        windows: Sequence[Sequence[float]],
        *,
        has_missing: NDArray[np.bool_] | None = None,
        scheduler: str | None = None,
        each: Callable[..., Iterable[Any]] | None = None,
        n_threads: int = 1,
    ) -> PartitionedIndex:
        """Read and index each part where it lies.

        Parameters
        ----------
        read : callable
            From the arguments of a part to its coded values (n, P) and classes (n,); see `Partitions.coding`.
        arguments : iterable of tuples
            The arguments for each part. They may contain parts of Dask collections.
        n_classes, windows
            As in `CaseIndex.build`.
        has_missing : bool array of shape (P,), optional
            Columns that need a comparison for missing values; if left out, those that have missing values in any part.
        scheduler : str, optional
            Address of a Dask scheduler: each part stays on a worker. Without it the parts are kept in this process.
        each : callable, optional
            Calls a function with each of a number of argument lists, as `Partitions.each`; without a scheduler, and if
            left out, parts are read one after the other in this process.
        n_threads : int
            Threads that vote, in this process; on workers one thread handles a part.
        """
        how = read, n_classes, [tuple(each) for each in windows], has_missing
        whole = [(*how, *given) for given in arguments]
        if not whole:
            raise ValueError("the table has no parts; pass at least one")
        parts: Parts
        if scheduler is not None:
            from bayespatch.workers import HeldParts

            parts = HeldParts(_indexed, whole, scheduler)
        else:
            parts = PartsHere(each(_indexed, whole) if each is not None else starmap(_indexed, whole))
        try:
            sizes, missing = zip(*parts.each(_described, None, range(len(whole))), strict=True)
            by_class = np.array(sizes, np.int64)
        except BaseException:
            parts.close()
            raise
        first_row = np.append(0, np.cumsum(by_class.sum(axis=1)))
        compares_missing = np.logical_or.reduce(missing)
        return cls(parts, first_row, by_class.sum(axis=0), compares_missing, n_threads)

    @property
    def n_cases(self) -> int:
        """N."""
        return int(self.first_row[-1])

    @property
    def n_classes(self) -> int:
        """M."""
        return len(self.n_by_class)

    def vote(self, x: Array, log_weights: Array, *, left_out: LeftOut | None = None, engine: str = "cpu") -> VoteSums:
        """Votes of all past cases on n cases, in every draw.

        Parameters
        ----------
        x : array of shape (n, P)
            Coded values of the cases.
        log_weights : array of shape (D, K)
            Log weight of every comparison in each draw.
        left_out : LeftOut, optional
            Past cases that may not vote on a case, by their rows in the whole table (`LeftOut.of_rows`).
        engine : {"cpu", "cuda", "auto"}
            What votes where a part lies.
        """
        return reduce(add, self._each(_vote, self._question(x, log_weights, left_out, engine)))

    def vote_shares(
        self,
        x: Array,
        log_weights: Array,
        totals: VoteSums,
        heard: Array,
        k: int,
        *,
        left_out: LeftOut | None = None,
        engine: str = "cpu",
    ) -> LargestShares:
        """The k past cases with the largest shares of the votes on each of n cases.

        Parameters
        ----------
        x, log_weights, left_out, engine
            As in `vote`.
        totals : VoteSums
            What `vote` returned.
        heard : array of shape (M,) or (n, M)
            Weight of a vote for each class.
        k : int
            How many to return; fewer where there are fewer past cases.
        """
        question = self._question(x, log_weights, left_out, engine)
        results = self._each(_largest_shares, (question, totals, heard, k))
        return reduce(lambda one, other: one.merged(other, k), results)

    def leave_one_out(
        self,
        x: Array,
        y: NDArray[np.int64],
        left_out: LeftOut,
        log_weights: Array,
        *,
        slope: float,
        heard: Array,
        base: Array,
        engine: str = "cpu",
    ) -> LeaveOneOutScores:
        """Predict past cases from all others in one draw.

        `x`, `left_out` and `engine` are as in `vote`, the other arguments as in `bayespatch.retrieval.leave_one_out`.
        """
        question = self._question(x, log_weights, left_out, engine)
        sums: LeaveOneOutSums = reduce(add, self._each(_leave_one_out, question))
        return sums.scores(y, slope=slope, heard=heard, base=base)

    def close(self) -> None:
        """Drop the parts, on workers too."""
        self.parts.close()

    def __enter__(self) -> PartitionedIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _question(self, x: Array, log_weights: Array, left_out: LeftOut | None, engine: str) -> _Question:
        out = LeftOut.nobody(len(x)) if left_out is None else left_out
        return _Question(x, log_weights, out, self.compares_missing, engine, self.n_threads)

    def _each(self, function: Callable[..., Any], shared: object) -> Iterator[Any]:
        return self.parts.each(function, shared, self.first_row[:-1].tolist())


# Where a part lies


class _Question(NamedTuple):
    x: Array
    log_weights: Array
    left_out: LeftOut  # rows of the whole table
    compares_missing: NDArray[np.bool_]
    engine: str
    n_threads: int

    def options(self) -> dict[str, Any]:
        """Where and how to compute."""
        return dict(n_threads=self.n_threads, engine=self.engine)


def _indexed(
    read: Callable[..., Any],
    n_classes: int,
    windows: Sequence[Sequence[float]],
    has_missing: NDArray[np.bool_] | None,
    *arguments: object,
) -> CaseIndex:
    x, y = read(*arguments)
    return CaseIndex.build(x, y, n_classes, windows, has_missing)


def _described(_: None, part: CaseIndex, __: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    return np.diff(part.start), part.compares_missing


def _vote(question: _Question, part: CaseIndex, first: int) -> VoteSums:
    part, out = part.with_missing(question.compares_missing), question.left_out.stored_in(part, first)
    return vote(part, part.ranges(question.x), question.log_weights, left_out=out, **question.options())


def _largest_shares(shared: tuple[_Question, VoteSums, Array, int], part: CaseIndex, first: int) -> LargestShares:
    question, totals, heard, k = shared
    x, out = question.x, question.left_out.stored_in(part, first)
    part = part.with_missing(question.compares_missing)
    ranges = part.ranges(x)
    heard = np.broadcast_to(heard, (len(x), part.n_classes))
    size = max(1, SHARES_AT_ONCE // max(1, part.n_cases))
    results = []
    for begin in range(0, max(1, len(x)), size):
        some = slice(begin, min(begin + size, len(x)))
        edges = out.edges[some.start : some.stop + 1]
        shares = vote_shares(
            part,
            ranges.part(some),
            question.log_weights,
            VoteSums(totals.sums[some], totals.shift[some]),
            heard[some],
            left_out=LeftOut(out.positions[edges[0] : edges[-1]], edges - edges[0]),
            **question.options(),
        )
        results.append(LargestShares.of(shares[:, 0].astype(np.float64), first + part.rows, k))
    return LargestShares(*(np.concatenate(each) for each in zip(*results, strict=True)))


def _leave_one_out(question: _Question, part: CaseIndex, first: int) -> LeaveOneOutSums:
    part, out = part.with_missing(question.compares_missing), question.left_out.stored_in(part, first)
    return leave_one_out_sums(part, part.ranges(question.x), out, question.log_weights, **question.options())
