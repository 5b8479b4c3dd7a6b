"""Past cases in several parts (in files, in this process or on Dask workers) that vote as one index.

A part stores its cases (`PastPart`) with one or two bytes per value. Every part receives the coded values of the cases
and the log weights, and returns sums and the past cases with the largest shares. The size of these messages does not
depend on the number of past cases.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import starmap
from operator import add
from typing import NamedTuple, NoReturn, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from bayespatch.persistence.atomic import refuse, replacing
from bayespatch.persistence.mapped_arrays import file_digest
from bayespatch.retrieval.index import CaseIndex, comparisons
from bayespatch.retrieval.past_part import PastCases, PastPart
from bayespatch.retrieval.sums import Array, LeaveOneOutScores, LeaveOneOutSums, LeftOut, VoteSums
from bayespatch.retrieval.votes import leave_one_out_sums, vote, vote_shares
from bayespatch.types import JSONObject, Parameters

SHARES_AT_ONCE = 2**24  # limit on past cases x predicted cases per step within a part
ENDING = ".cases"  # file name extension of a part


class LargestShares(NamedTuple):
    """The past cases with the largest shares of the votes on n cases.

    Attributes
    ----------
    rows : int array of shape (n, k)
        Rows of the whole table, sorted by share in descending order, then by row.
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
        """The largest shares of all past cases, given their shares, (n, N), and rows, (N,)."""
        places = np.empty((len(shares), min(k, len(rows))), np.int64)
        for i, each in enumerate(shares):
            places[i] = _largest(each, rows, k)
        return cls(rows[places], np.take_along_axis(shares, places, axis=1), (shares**2).sum(axis=1))

    def merged(self, other: LargestShares, k: int) -> LargestShares:
        """The k largest shares of both."""
        rows = np.concatenate([self.rows, other.rows], axis=1)
        shares = np.concatenate([self.shares, other.shares], axis=1)
        order = np.lexsort((rows, -shares))[:, :k]
        rows, shares = (np.take_along_axis(each, order, axis=1) for each in (rows, shares))
        return LargestShares(rows, shares, self.squares + other.squares)


def _largest(shares: Array, rows: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Positions of the k largest shares; equal shares are ordered by row."""
    k = min(k, len(shares))
    if k == 0:
        return np.empty(0, np.int64)
    least = np.partition(shares, len(shares) - k)[len(shares) - k]
    candidates = np.flatnonzero(shares >= least)
    return candidates[np.lexsort((rows[candidates], -shares[candidates]))[:k]]


Result = TypeVar("Result")
# Of a part: coded values (n, P), classes (n,) and, if past cases can be shown, original values (n, P) and names
Coded: TypeAlias = tuple[Array, NDArray[np.int64]] | tuple[Array, NDArray[np.int64], Array, Sequence[str] | None]


class Each(Protocol):
    """Calls a function with each of several argument lists and returns the results in order."""

    def __call__(self, function: Callable[..., Result], arguments: Sequence[tuple[object, ...]]) -> Iterable[Result]:
        """Call `function` with each of the `arguments`."""


class Parts(Protocol):
    """Several `PastPart` objects, in any location."""

    def each(self, function: Callable[..., Result], shared: object, own: Iterable[object]) -> Iterator[Result]:
        """Call function(shared, part, own argument) for every part, in order."""

    def close(self) -> None:
        """Drop the parts."""


class PartsHere:
    """Parts in this process."""

    def __init__(self, parts: Iterable[PastPart]) -> None:
        self.parts = list(parts)

    def each(self, function: Callable[..., Result], shared: object, own: Iterable[object]) -> Iterator[Result]:
        """Call function(shared, part, own argument) for every part, in order."""
        return (function(shared, part, value) for part, value in zip(self.parts, own, strict=True))

    def close(self) -> None:
        """Drop the parts."""
        self.parts = []


class PartsInFiles:
    """Parts in files, mapped into this process; each file is named by its SHA-256.

    Parameters
    ----------
    folder : str
    digests : sequence of str
        SHA-256 of the files, in the order of the parts.
    is_temporary : bool
        Whether the folder is deleted with this object.
    """

    def __init__(self, folder: str, digests: Sequence[str], is_temporary: bool = False) -> None:
        self.folder, self.digests, self.is_temporary = folder, tuple(digests), is_temporary
        self._mapped: dict[str, PastPart] = {}
        self._remove = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True) if is_temporary else None

    def path(self, digest: str) -> str:
        """The file of a part."""
        return os.path.join(self.folder, digest + ENDING)

    def each(self, function: Callable[..., Result], shared: object, own: Iterable[object]) -> Iterator[Result]:
        """Call function(shared, part, own argument) for every part, in order."""
        return (function(shared, self._part(name), value) for name, value in zip(self.digests, own, strict=True))

    def check(self) -> None:
        """Compare every file with its digest; a difference raises a StorageError."""
        for digest in self.digests:
            path = self.path(digest)
            if not os.path.isfile(path):
                remedy = "put the folder with the past cases next to the model file, under this name"
                raise refuse(path, "this file of past cases is missing", remedy)
            if file_digest(path) != digest:
                raise refuse(path, "this file of past cases is damaged: its checksum differs")

    def delete_others(self) -> None:
        """Delete all files in the folder except these parts."""
        names = {digest + ENDING for digest in self.digests}
        for name in os.listdir(self.folder):
            if name.endswith(ENDING) and name not in names:
                os.unlink(os.path.join(self.folder, name))

    def close(self) -> None:
        """Drop the parts and delete temporary files."""
        self._mapped = {}
        if self._remove is not None:
            self._remove()

    def _part(self, digest: str) -> PastPart:
        if digest not in self._mapped:
            self._mapped[digest] = PastPart.read(self.path(digest))
        return self._mapped[digest]

    def __getstate__(self) -> JSONObject:
        if self.is_temporary:
            not_portable()
        return {"folder": self.folder, "digests": self.digests}

    def __setstate__(self, state: Parameters) -> None:
        PartsInFiles.__init__(self, **state)


def not_portable() -> NoReturn:
    """Reject a copy of past cases that are not in permanent files."""
    raise TypeError(
        "the past cases of this model are in temporary files or on Dask workers, so it cannot be copied or pickled "
        "with them; save the model with save(path) and load it where it is needed"
    )


class PartitionedIndex:
    """Past cases in several parts.

    Its results equal the results of a single `CaseIndex` of the concatenated parts, up to rounding. Past cases are
    identified by their row in the whole table. Use `build` to create an index.

    Attributes
    ----------
    first_row : int array of shape (parts + 1,)
        The first row of each part in the whole table, and the number of all rows.
    n_classes : int
        M.
    n_by_class : int array of shape (M,)
        Number of past cases of each class.
    compares_missing : bool array of shape (P,)
        The columns with a comparison for missing values.
    columns, reach : arrays of shape (K,)
        As in `CaseIndex`.

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
        windows: Sequence[Sequence[float]],
    ) -> None:
        self.parts = parts
        self.first_row, self.n_by_class, self.compares_missing = first_row, n_by_class, compares_missing
        self.windows = tuple(tuple(each) for each in windows)
        self.columns, self.reach = comparisons(self.windows, compares_missing)

    @classmethod
    def build(
        cls,
        read: Callable[..., Coded],
        arguments: Iterable[tuple[object, ...]],
        n_classes: int,
        windows: Sequence[Sequence[float]],
        *,
        has_missing: NDArray[np.bool_] | None = None,
        scheduler: str | None = None,
        each: Each | None = None,
        in_files: bool = False,
    ) -> PartitionedIndex:
        """Read and index each part on its worker.

        Parameters
        ----------
        read : callable
            Maps the arguments of a part to its coded values (n, P) and classes (n,) and, if past cases can be shown,
            their original values (n, P) and names (n texts, or None); see `Partitions.coding`.
        arguments : iterable of tuples
            The arguments for each part. They may include parts of Dask collections.
        n_classes, windows
            As in `CaseIndex.build`.
        has_missing : bool array of shape (P,), optional
            Columns that need a comparison for missing values; by default, the columns with missing values in any part.
        scheduler : str, optional
            Address of a Dask scheduler; each part then stays on a worker. By default, the parts are stored in this
            process or in files.
        each : callable, optional
            Calls a function with each of several argument lists, like `Partitions.each`. By default, without a
            scheduler, parts are read one after another in this process.
        in_files : bool
            Without a scheduler: store the parts in temporary files, which are deleted with the index.
        """
        settings = read, n_classes, [tuple(each) for each in windows], has_missing
        calls = [(*settings, *argument) for argument in arguments]
        if not calls:
            raise ValueError("the table has no parts; pass at least one")
        parts: Parts
        if scheduler is not None:
            from bayespatch.workers import HeldParts

            parts = HeldParts(_indexed, calls, scheduler)
        elif in_files:
            folder = tempfile.mkdtemp(prefix="bayespatch-")
            try:
                file_calls = [(folder, *one) for one in calls]
                parts = PartsInFiles(
                    folder, list(each(_filed, file_calls) if each else starmap(_filed, file_calls)), True
                )
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
        else:
            parts = PartsHere(each(_indexed, calls) if each is not None else starmap(_indexed, calls))
        return cls.of_parts(parts, len(calls), windows)

    @classmethod
    def of_parts(cls, parts: Parts, n_parts: int, windows: Sequence[Sequence[float]]) -> PartitionedIndex:
        """Create an index of existing parts; if this fails, the parts are dropped."""
        try:
            sizes, missing = zip(*parts.each(_described, None, range(n_parts)), strict=True)
            by_class = np.array(sizes, np.int64)
        except BaseException:
            parts.close()
            raise
        first_row = np.append(0, np.cumsum(by_class.sum(axis=1)))
        compares_missing = np.logical_or.reduce(missing)
        return cls(parts, first_row, by_class.sum(axis=0), compares_missing, windows)

    @property
    def n_cases(self) -> int:
        """N."""
        return int(self.first_row[-1])

    @property
    def n_classes(self) -> int:
        """M."""
        return len(self.n_by_class)

    @property
    def total_weight(self) -> float:
        """Sum of the weights of all past cases; every past case has weight 1."""
        return float(self.n_cases)

    @property
    def weight_by_class(self) -> Array:
        """Sum of the weights of each class, (M,)."""
        return self.n_by_class.astype(np.float64)

    def vote(
        self,
        x: Array,
        log_weights: Array,
        *,
        left_out: LeftOut | None = None,
        n_threads: int = 1,
        engine: str = "cpu",
    ) -> VoteSums:
        """Votes of all past cases on n cases, in every draw.

        Parameters
        ----------
        x : array of shape (n, P)
            Coded values of the cases.
        log_weights : array of shape (D, K)
            Log weight of every comparison in each draw.
        left_out : LeftOut, optional
            Past cases that may not vote on a case, as rows of the whole table (`LeftOut.of_rows`).
        n_threads : int
            Threads for each part; on workers, one thread handles a part.
        engine : {"cpu", "cuda", "auto"}
            The engine that computes the votes of a part.
        """
        return reduce(add, self._each(_vote, self._question(x, log_weights, left_out, n_threads, engine)))

    def vote_shares(
        self,
        x: Array,
        log_weights: Array,
        totals: VoteSums,
        heard: Array,
        k: int,
        *,
        left_out: LeftOut | None = None,
        n_threads: int = 1,
        engine: str = "cpu",
    ) -> LargestShares:
        """The k past cases with the largest shares of the votes on each of n cases.

        Parameters
        ----------
        x, log_weights, left_out, n_threads, engine
            As in `vote`.
        totals : VoteSums
            The result of `vote`.
        heard : array of shape (M,) or (n, M)
            Weight of a vote for each class.
        k : int
            Number of past cases to return; fewer if there are not as many.
        """
        question = self._question(x, log_weights, left_out, n_threads, engine)
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
        n_threads: int = 1,
        engine: str = "cpu",
    ) -> LeaveOneOutScores:
        """Predict each of n past cases from all the others in one draw.

        `x`, `left_out`, `n_threads` and `engine` are the same as in `vote`, the other arguments the same as in
        `bayespatch.retrieval.leave_one_out`.
        """
        question = self._question(x, log_weights[None], left_out, n_threads, engine)
        sums: LeaveOneOutSums = reduce(add, self._each(_leave_one_out, question))
        return sums.scores(y, slope=slope, heard=heard, base=base)

    def cases(self, rows: NDArray[np.int64]) -> PastCases:
        """The past cases in k rows of the whole table."""
        part_of = np.searchsorted(self.first_row, rows, side="right") - 1
        rows_by_part = [rows[part_of == k] - first for k, first in enumerate(self.first_row[:-1].tolist())]
        results: list[PastCases] = list(self.parts.each(_cases, None, rows_by_part))
        places = np.empty(len(rows), np.int64)
        places[np.argsort(part_of, kind="stable")] = np.arange(len(rows))
        x, y, values = (np.concatenate([part[k] for part in results])[places] for k in range(3))
        if all(part.ids is None for part in results):
            return PastCases(x, y, values, None)
        ids = [name for part in results for name in part.ids or ()]
        return PastCases(x, y, values, [ids[place] for place in places.tolist()])

    def rows_with(self, values: Array) -> list[NDArray[np.int64]]:
        """For each of n cases, (n, P), the rows of the whole table with exactly its original values."""
        parts = list(self._each(_rows_with, values))
        return [np.concatenate(rows) for rows in zip(*parts, strict=True)] if len(values) else []

    def rows_named(self, name: str) -> NDArray[np.int64]:
        """Rows of the whole table that have this name."""
        return np.concatenate(list(self._each(_rows_named, name)))

    def write(self, folder: str) -> tuple[str, ...]:
        """Write the parts as files in a folder, one after another; returns their digests."""
        if isinstance(self.parts, PartsInFiles):
            for digest in self.parts.digests:
                place = os.path.join(folder, digest + ENDING)
                if not os.path.exists(place) or file_digest(place) != digest:
                    _copied(self.parts.path(digest), place)
            return self.parts.digests
        parts = self.parts.each(_as_it_is, None, range(len(self.first_row) - 1))
        return tuple(_written(folder, part) for part in parts)

    def close(self) -> None:
        """Drop the parts, including parts on workers."""
        self.parts.close()

    def __enter__(self) -> PartitionedIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _question(
        self, x: Array, log_weights: Array, left_out: LeftOut | None, n_threads: int, engine: str
    ) -> _Question:
        out = LeftOut.nobody(len(x)) if left_out is None else left_out
        own = n_threads if isinstance(self.parts, PartsHere | PartsInFiles) else 1  # each worker thread has a part
        return _Question(x, log_weights, out, self.compares_missing, engine, own)

    def __deepcopy__(self, _: object) -> PartitionedIndex:
        return self  # immutable

    def _each(self, function: Callable[..., Result], shared: object) -> Iterator[Result]:
        return self.parts.each(function, shared, self.first_row[:-1].tolist())


# Functions that run where a part is stored


class _Question(NamedTuple):
    x: Array
    log_weights: Array
    left_out: LeftOut  # rows of the whole table
    compares_missing: NDArray[np.bool_]
    engine: str
    n_threads: int

    def options(self) -> JSONObject:
        """Settings of the computation."""
        return dict(n_threads=self.n_threads, engine=self.engine)


def _indexed(
    read: Callable[..., Coded],
    n_classes: int,
    windows: Sequence[Sequence[float]],
    has_missing: NDArray[np.bool_] | None,
    *arguments: object,
) -> PastPart:
    part = read(*arguments)
    values, ids = (part[2], part[3]) if len(part) == 4 else (None, None)
    return PastPart.build(part[0], part[1], values, ids, n_classes, windows, has_missing)


def _filed(
    folder: str,
    read: Callable[..., Coded],
    n_classes: int,
    windows: Sequence[Sequence[float]],
    has_missing: NDArray[np.bool_] | None,
    *arguments: object,
) -> str:
    """Read, index and write a part; returns the digest that names the file."""
    return _written(folder, _indexed(read, n_classes, windows, has_missing, *arguments))


def _written(folder: str, part: PastPart) -> str:
    path = os.path.join(folder, secrets.token_hex(8) + ENDING)
    digest = part.write(path)
    os.replace(path, os.path.join(folder, digest + ENDING))
    return digest


def _copied(source: str, target: str) -> None:
    with open(source, "rb") as old, replacing(target) as new:
        shutil.copyfileobj(old, new)


def _as_it_is(_: None, part: PastPart, __: int) -> PastPart:
    return part


def _cases(_: None, part: PastPart, rows: NDArray[np.int64]) -> PastCases:
    return part.cases(rows)


def _rows_with(values: Array, part: PastPart, first: int) -> list[NDArray[np.int64]]:
    return [first + part.rows_with(each) for each in values]


def _rows_named(name: str, part: PastPart, first: int) -> NDArray[np.int64]:
    return first + (np.empty(0, np.int64) if part.names is None else part.names.places_of(name))


def _described(_: None, part: PastPart, __: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    return np.diff(part.index.start), part.index.compares_missing


def _vote(question: _Question, stored: PastPart, first: int) -> VoteSums:
    part, out = stored.index.with_missing(question.compares_missing), question.left_out.stored_in(stored.index, first)
    return vote(part, part.ranges(question.x), question.log_weights, left_out=out, **question.options())


def _largest_shares(shared: tuple[_Question, VoteSums, Array, int], stored: PastPart, first: int) -> LargestShares:
    question, totals, heard, k = shared
    part: CaseIndex = stored.index
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


def _leave_one_out(question: _Question, stored: PastPart, first: int) -> LeaveOneOutSums:
    part, out = stored.index.with_missing(question.compares_missing), question.left_out.stored_in(stored.index, first)
    return leave_one_out_sums(part, part.ranges(question.x), out, question.log_weights[0], **question.options())
