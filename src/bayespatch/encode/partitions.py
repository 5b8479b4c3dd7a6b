"""Partitioned tables, which need not fit into the memory of one process: Dask data frames, or several files.

A fit reads a partitioned table several times, each part on its worker. The first pass summarizes all rows
(`bayespatch.encode.summary`, and the frequencies of the classes); the second draws a uniform random sample of row
numbers in the whole table. So the sample depends on the seed and the order of the rows, but not on how the table is
partitioned. If the table has at most `MOST_ROWS` rows, the sample contains all of them. Once the coding of the columns
is known, all rows can be coded on the workers (`Partitions.coding`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeGuard, TypeVar, runtime_checkable

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from bayespatch.encode.summary import TableSummary, merged, summarise
from bayespatch.encode.table import DataFrame, Series, read_table
from bayespatch.validation import listed, remedy

if TYPE_CHECKING:
    from bayespatch.encode.schema import Schema

MOST_ROWS = 100_000  # largest sample
MOST_CLASSES = 10_000  # outcomes with more distinct values are not classes

Result = TypeVar("Result")
Frame = TypeVar("Frame", DataFrame, Series)


class Each(Protocol):
    """Calls a function with each of several argument lists, in any process; the results are in order."""

    def __call__(self, function: Callable[..., Result], arguments: Sequence[tuple[object, ...]]) -> list[Result]:
        """Call `function` with each of the `arguments`."""


@runtime_checkable
class DaskCollection(Protocol):
    """A Dask data frame or Series."""

    npartitions: int

    def to_delayed(self, optimize_graph: bool = True) -> Sequence[object]:
        """Its partitions."""


class DaskFrame(DaskCollection, Protocol):
    """A Dask data frame."""

    columns: Sequence[str]


class Part(NamedTuple):
    """A part of a training table: features (data frame), outcomes (Series), and the number of rows without outcome."""

    X: DataFrame
    y: Series
    n_unknown: int = 0


class Coded(NamedTuple):
    """Coded rows of a part, with their classes, original values and names; see `Partitions.coding`."""

    x: NDArray[np.float64]
    y: NDArray[np.int64]
    values: NDArray[np.float64]
    ids: tuple[str, ...] | None


class _Read(NamedTuple):
    """The results of one pass over a part."""

    summary: TableSummary | None  # None if there are no rows
    n_unknown: int
    classes: dict[Hashable, tuple[int, int]]  # number of rows of each class, and the first of these rows
    numbered: bool  # whether rows have no names other than their number in the part


@dataclass(frozen=True, eq=False)
class Sample:
    """A sample of the rows of a partitioned table, with a summary of all rows.

    Attributes
    ----------
    X, y : pandas data frame and Series
        The sample, in the order of the table.
    summary : TableSummary
        The summary of all rows.
    counts : dict
        Number of rows of each class; empty for numeric outcomes.
    n_unknown : int
        Number of rows without an outcome, which were dropped.
    rows : int array of shape (len(X),)
        The row numbers in the whole table.
    table : Partitions
        The whole table.
    """

    X: DataFrame
    y: Series
    summary: TableSummary
    counts: dict[Hashable, int]
    n_unknown: int
    rows: NDArray[np.int64]
    table: Partitions

    @property
    def is_all(self) -> bool:
        """Whether the sample is the whole table."""
        return len(self.X) == self.summary.n_rows


@dataclass(frozen=True, eq=False)
class Partitions:
    """A training table in parts.

    Attributes
    ----------
    parts : tuple
        Arguments for `read`: paths of files, or parts of a Dask collection.
    labels : tuple of str
        Names of the parts in messages.
    read : callable
        Reads a part as a `Part`; called on the worker that stores the part.
    each : callable
        Calls a function with each of several argument lists, in any process.
    """

    parts: tuple[object, ...]
    labels: tuple[str, ...]
    read: Callable[..., Part]
    each: Each

    @classmethod
    def of_dask(cls, X: object, y: object, each: Each) -> Partitions:
        """Partitions of a Dask data frame of features, with outcomes in a Dask Series or in a column of this name."""
        if not is_partitioned(X):
            raise ValueError("y is a Dask collection and X is not; pass both as Dask collections, or neither")
        # No optimization below, because it might join different partitions in X and in y.
        if isinstance(y, str):
            if y not in X.columns:
                meant = remedy(y, X.columns, f"the columns are {listed(list(map(str, X.columns)))}")
                raise ValueError(f"y={y!r} is not a column of the table; {meant}")
            parts = tuple((part, y) for part in X.to_delayed(optimize_graph=False))
            return cls(parts, tuple(f"partition {k}" for k in range(len(parts))), _read_named, each)
        if not isinstance(y, DaskCollection) or not is_partitioned(getattr(y, "to_frame", lambda: None)()):
            raise ValueError(
                f"X is a Dask data frame and y is a {type(y).__name__}; pass y as a Dask Series with the same "
                f"partitions, or the name of a column of X"
            )
        if X.npartitions != y.npartitions:
            raise ValueError(
                f"X has {X.npartitions} partitions and y has {y.npartitions}; take both from one data frame, or give "
                f"them the same divisions"
            )
        both = (table.to_delayed(optimize_graph=False) for table in (X, y))
        parts = tuple(zip(*both, strict=True))
        return cls(parts, tuple(f"partition {k}" for k in range(len(parts))), _read_pair, each)

    def sample(
        self,
        seed: int,
        *,
        classes: bool,
        categorical: Collection[str] = (),
        max_levels: int = 0,
        most: int | None = None,
    ) -> Sample:
        """Read the table twice, first all rows for a summary, then a sample.

        Parameters
        ----------
        seed : int
            Determines which rows are drawn.
        classes : bool
            Whether outcomes are classes. If so, they are counted, and the sample contains at least one case of each.
        categorical, max_levels
            As in `bayespatch.encode.summary.summarise`.
        most : int, optional
            Maximum number of rows in the sample; `MOST_ROWS` by default.
        """
        most = MOST_ROWS if most is None else most
        arguments = list(zip(self.parts, self.labels, strict=True))
        settings = (self.read, classes, tuple(categorical), max_levels)
        results = self.each(_summarised, [(*argument, *settings) for argument in arguments])
        filled = [k for k, read in enumerate(results) if read.summary is not None]
        n_unknown = sum(read.n_unknown for read in results)
        if not filled:
            raise ValueError(
                f"none of the {n_unknown} rows has an outcome; nothing can be learned from them"
                if n_unknown
                else "the table has no rows (0 samples); pass at least one case"
            )
        summaries = [summary for read in results if (summary := read.summary) is not None]
        summary = merged(summaries, [self.labels[k] for k in filled], categorical, max_levels)
        first_rows = np.cumsum([0, *(part.n_rows for part in summaries)])
        counts: dict[Hashable, int] = {}
        first_of: dict[Hashable, int] = {}
        for k, begin in zip(filled, first_rows[:-1].tolist(), strict=True):
            for value, (count, row) in results[k].classes.items():
                counts[value] = counts.get(value, 0) + count
                first_of.setdefault(value, begin + row)
        if len(counts) > MOST_CLASSES:
            raise ValueError(too_many_classes())
        places = [(*arguments[k], self.read) for k in filled]
        numbered = all(results[k].numbered for k in filled)
        rows = _drawn(summary.n_rows, most, seed)
        X, y = self._taken(rows, places, first_rows, numbered)
        absent = np.unique([first_of[value] for value in set(counts) - set(y.tolist())]).astype(np.int64)
        if classes and len(absent):  # the sample lacks rare classes: add the first case of each
            X_rare, y_rare = self._taken(absent, places, first_rows, numbered)
            rows = np.concatenate([rows, absent])
            order = np.argsort(rows)
            rows, X, y = rows[order], _joined([X, X_rare]).iloc[order], _joined([y, y_rare]).iloc[order]
        return Sample(X, y, summary, counts, n_unknown, rows, self)

    def coding(
        self, schema: Schema, classes: Sequence[object], named: bool = False
    ) -> tuple[Callable[..., Coded], list[tuple[object, ...]]]:
        """A function that codes a part on its worker, and its arguments for each part.

        The function returns codes (n, P), class numbers (n,) as positions in `classes`, the original values of the rows
        (n, P) (`EncodedTable.values`), and, if `named`, the names of the rows (n strings, or None).
        """
        labels = tuple(classes)
        arguments = zip(self.parts, self.labels, strict=True)
        return _coded, [(*argument, self.read, schema, labels, named) for argument in arguments]

    def _taken(
        self,
        rows: NDArray[np.int64],
        places: Sequence[tuple[object, ...]],
        first_rows: NDArray[np.int64],
        numbered: bool,
    ) -> tuple[DataFrame, Series]:
        """Read rows of the whole table, in order; `first_rows` has the first row of each part, and the end."""
        edges = np.searchsorted(rows, first_rows)
        calls = [
            (*place, rows[low:high] - first, first if numbered else None)
            for place, first, low, high in zip(places, first_rows.tolist(), edges, edges[1:], strict=False)
            if high > low
        ]
        read = self.each(_rows_of, calls)
        return _joined([part.X for part in read]), _joined([part.y for part in read])


def is_partitioned(table: object) -> TypeGuard[DaskFrame]:
    """Whether a table is a Dask data frame."""
    return bool(nw.dependencies.is_dask_dataframe(table))


def too_many_classes() -> str:
    """The error message for outcomes that are not classes."""
    return (
        f"the outcome has more than {MOST_CLASSES:,} different values, too many for classes; predict a number instead, "
        f"or pass an outcome whose classes repeat"
    )


def _drawn(n_rows: int, most: int, seed: int) -> NDArray[np.int64]:
    """The rows of the sample, in order."""
    if n_rows <= most:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng([seed, 53]).choice(n_rows, most, replace=False))


# Functions that run where the parts are stored


def _read_named(part: tuple[DataFrame, str]) -> Part:
    """A part of a Dask data frame with a column of outcomes."""
    frame, target = part
    return _read_pair((frame.drop(columns=[target]), frame[target]))


def _read_pair(pair: tuple[DataFrame, Series]) -> Part:
    """A part of a Dask data frame and the same part of the outcomes."""
    X, y = pair
    if len(X) != len(y):
        raise ValueError(f"X has {len(X)} rows and y has {len(y)} outcomes; pass one outcome for each row")
    n_unknown = int(y.isna().sum())
    if n_unknown:
        raise ValueError(f"{n_unknown} outcomes are missing (NaN); leave these rows out, as with X[y.notna()]")
    return Part(X, y)


def _opened(part: object, label: str, read: Callable[..., Part]) -> Part:
    try:
        return read(part)
    except ValueError as error:
        raise ValueError(f"{label}: {error}") from None


def _summarised(
    part: object,
    label: str,
    read: Callable[..., Part],
    classes: bool,
    categorical: tuple[str, ...],
    max_levels: int,
) -> _Read:
    X, y, n_unknown = _opened(part, label, read)
    if not len(X):
        return _Read(None, n_unknown, {}, True)
    try:
        summary = summarise(read_table(X), categorical, max_levels)
    except ValueError as error:
        raise ValueError(f"{label}: {error}") from None
    by_class: dict[Hashable, tuple[int, int]] = {}
    if classes:
        firsts = np.flatnonzero(~y.duplicated().to_numpy())
        if len(firsts) > MOST_CLASSES:
            raise ValueError(f"{label}: {too_many_classes()}")
        of_value = y.value_counts()
        counts = dict(zip(of_value.index.tolist(), of_value.tolist(), strict=True))
        by_class = {
            value: (counts[value], row) for value, row in zip(y.iloc[firsts].tolist(), firsts.tolist(), strict=True)
        }
    index = X.index
    numbered = type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1) and index.name is None
    return _Read(summary, n_unknown, by_class, numbered)


def _rows_of(part: object, label: str, read: Callable[..., Part], rows: NDArray[np.int64], first: int | None) -> Part:
    """Some rows of a part; rows without names are named by their numbers in the whole table."""
    X, y, _ = _opened(part, label, read)
    X, y = X.iloc[rows], y.iloc[rows]
    if first is not None:
        X, y = X.set_axis(first + rows, axis=0), y.set_axis(first + rows, axis=0)
    return Part(X, y)


def _coded(
    part: object, label: str, read: Callable[..., Part], schema: Schema, classes: Sequence[object], named: bool
) -> Coded:
    X, y, _ = _opened(part, label, read)
    numbers = {value: k for k, value in enumerate(classes)}
    unknown = [value for value in y.unique().tolist() if value not in numbers]
    if unknown:
        raise ValueError(
            f"{label}: the outcome has the value {unknown[0]!r}, which is not one of the classes "
            f"{listed([str(value) for value in classes])}; drop these rows, or fit a model that has this class"
        )
    if not len(X):
        nothing = np.empty((0, len(schema.names)))
        return Coded(nothing, np.empty(0, np.int64), nothing, () if named else None)
    try:
        encoded = schema.encode(X)
    except ValueError as error:
        raise ValueError(f"{label}: {error}") from None
    codes = np.array([numbers[value] for value in y.tolist()], np.int64)
    return Coded(encoded.x, codes, encoded.values, encoded.ids if named else None)


def _joined(parts: Sequence[Frame]) -> Frame:
    """Concatenate Series, or frames with the same columns; the categories of categoricals are combined."""
    import pandas

    if parts[0].ndim == 1:
        return _joined([part.to_frame() for part in parts]).iloc[:, 0]
    for name in parts[0].columns:
        kinds = list(dict.fromkeys(part[name].dtype for part in parts))
        if len(kinds) > 1 and any(isinstance(kind, pandas.CategoricalDtype) for kind in kinds):
            together: type[object] | pandas.CategoricalDtype = object
            if all(isinstance(kind, pandas.CategoricalDtype) for kind in kinds):
                together = pandas.CategoricalDtype(dict.fromkeys(value for kind in kinds for value in kind.categories))
            parts = [part.astype({name: together}) for part in parts]
    return pandas.concat([part[list(parts[0].columns)] for part in parts])
