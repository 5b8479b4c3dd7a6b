"""Storage of past cases for comparison with new cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.types import AnyArray

Codes = AnyArray  # uint8, uint16 or uint32


class Ranges(NamedTuple):
    """The codes that each comparison accepts, for n cases and K comparisons.

    Attributes
    ----------
    low, high : arrays of shape (n, K), of the index's type
        A comparison holds for a past case whose code c satisfies ``low <= c <= high``. If ``low > high``, it never
        holds.
    """

    low: Codes
    high: Codes

    def __len__(self) -> int:
        return len(self.low)

    def part(self, cases: slice | NDArray[np.int64]) -> Ranges:
        """The ranges for some of the cases."""
        return Ranges(np.ascontiguousarray(self.low[cases]), np.ascontiguousarray(self.high[cases]))


@dataclass(frozen=True, eq=False)
class CaseIndex:
    """N past cases, stored by column and ordered by class.

    Attributes
    ----------
    codes : array of shape (P, N), uint8, uint16 or uint32
        0 if the value is missing, otherwise 1 + its position among the distinct values of the column.
    levels : tuple of P arrays
        The distinct values of each column, ascending.
    start : int array of shape (M + 1,)
        The position at which each class begins.
    rows : int array of shape (N,)
        The row of each stored case in the original table.
    columns : int array of shape (K,)
        The column of each comparison.
    reach : array of shape (K,)
        Largest difference between two values that pass the comparison; NaN for comparisons of missing values.
    weights : array of shape (N,), or None
        Weight of each stored case's vote, above 0; None if all weights are 1.

    Examples
    --------
    >>> x = np.array([[0.0, 1.0], [2.0, np.nan], [2.0, 5.0]])
    >>> index = CaseIndex.build(x, np.array([1, 0, 1]), n_classes=2, windows=[(0.0,), (4.0,)])
    >>> index.codes.tolist(), index.rows.tolist(), index.start.tolist()
    ([[2, 1, 2], [0, 1, 2]], [1, 0, 2], [0, 1, 3])
    >>> index.columns.tolist(), index.reach.tolist()  # the second column has a missing value
    ([0, 1, 1], [0.0, 4.0, nan])
    """

    codes: Codes
    levels: tuple[NDArray[np.float64], ...]
    start: NDArray[np.int64]
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    reach: NDArray[np.float64]
    weights: NDArray[np.float64] | None = None

    @classmethod
    def build(
        cls,
        x: NDArray[np.float64],
        y: NDArray[np.int64],
        n_classes: int,
        windows: Sequence[Sequence[float]],
        has_missing: NDArray[np.bool_] | None = None,
        weights: NDArray[np.float64] | None = None,
    ) -> CaseIndex:
        """Index a coded table.

        Parameters
        ----------
        x : array of shape (N, P)
            Coded values, NaN if missing.
        y : int array of shape (N,)
            Classes 0..M-1.
        n_classes : int
            M.
        windows : P sequences of numbers
            Largest difference between two values of a column that agree; several windows of a column count separately.
        has_missing : bool array of shape (P,), optional
            Columns that need a comparison for missing values; if x is part of a table, pass those of the whole table.
        weights : array of shape (N,), optional
            Weight of each case's vote, above 0.
        """
        rows = np.argsort(y, kind="stable")
        levels = tuple(np.unique(column[~np.isnan(column)]) for column in x.T)
        codes = np.empty(x.shape[::-1], _smallest_type(levels))
        for j, values in enumerate(levels):
            column = x[rows, j]
            codes[j] = np.where(np.isnan(column), 0, np.searchsorted(values, column) + 1)
        missing = np.array([bool((row == 0).any()) for row in codes]) if has_missing is None else has_missing
        start = np.searchsorted(y[rows], np.arange(n_classes + 1)).astype(np.int64)
        own = None if weights is None else np.asarray(weights, dtype=np.float64)[rows]
        return cls(codes, levels, start, rows, *comparisons(windows, missing), own)

    def with_missing(self, has_missing: NDArray[np.bool_]) -> CaseIndex:
        """The same past cases with comparisons for missing values in these columns, (P,), and no others."""
        windows = [self.reach[(self.columns == j) & ~np.isnan(self.reach)] for j in range(len(self.levels))]
        columns, reach = comparisons(windows, has_missing)
        return replace(self, columns=columns, reach=reach)

    def with_cases(self, x: NDArray[np.float64], y: NDArray[np.int64]) -> CaseIndex:
        """The same past cases and k more, with codes x, (k, P), and classes y. Equals an index built from all of them.

        The comparisons do not change.

        Examples
        --------
        >>> x, y = np.array([[0.0], [2.0], [1.0]]), np.array([0, 1, 0])
        >>> index = CaseIndex.build(x[:2], y[:2], n_classes=2, windows=[(0.0,)])
        >>> index.with_cases(x[2:], y[2:]).codes.tolist(), CaseIndex.build(x, y, 2, [(0.0,)]).codes.tolist()
        ([[1, 2, 3]], [[1, 2, 3]])
        """
        more = CaseIndex.build(x, y, self.n_classes, [()] * len(self.levels))
        levels = tuple(np.union1d(old, new) for old, new in zip(self.levels, more.levels, strict=True))
        # Insert each new case after the existing cases of its class.
        order = np.argsort(np.concatenate([self.classes, more.classes]), kind="stable")
        codes = np.empty((len(levels), len(order)), _smallest_type(levels))
        for j, values in enumerate(levels):
            parts = [np.append(0, np.searchsorted(values, part.levels[j]) + 1)[part.codes[j]] for part in (self, more)]
            codes[j] = np.concatenate(parts)[order]
        rows = np.concatenate([self.rows, self.n_cases + more.rows])[order]
        weights = None
        if self.weights is not None:  # an added case counts once
            weights = np.concatenate([self.weights, np.ones(more.n_cases)])[order]
        return replace(self, codes=codes, levels=levels, start=self.start + more.start, rows=rows, weights=weights)

    @property
    def n_cases(self) -> int:
        """N."""
        return self.codes.shape[1]

    @property
    def total_weight(self) -> float:
        """Sum of the weights: N if all weights are 1."""
        return float(self.n_cases) if self.weights is None else float(self.weights.sum())

    @property
    def weight_by_class(self) -> NDArray[np.float64]:
        """Sum of the weights of each class, (M,)."""
        if self.weights is None:
            return np.diff(self.start).astype(np.float64)
        return np.asarray(np.bincount(self.classes, self.weights, self.n_classes), dtype=np.float64)

    @property
    def log_range_of_weights(self) -> float:
        """Logarithm of the ratio of the largest weight to the smallest."""
        if self.weights is None or not len(self.weights):
            return 0.0
        return float(np.log(self.weights.max() / self.weights.min()))

    @property
    def compares_missing(self) -> NDArray[np.bool_]:
        """Whether each column has a comparison for missing values, (P,)."""
        compares = np.zeros(len(self.levels), dtype=np.bool_)
        compares[self.columns[np.isnan(self.reach)]] = True
        return compares

    @property
    def n_classes(self) -> int:
        """M."""
        return len(self.start) - 1

    @property
    def classes(self) -> NDArray[np.int64]:
        """The class of each stored case, (N,)."""
        return np.repeat(np.arange(self.n_classes), np.diff(self.start))

    def positions(self) -> NDArray[np.int64]:
        """The stored position of each row of the original table, (N,)."""
        places = np.empty(self.n_cases, np.int64)
        places[self.rows] = np.arange(self.n_cases)
        return places

    def values(self, positions: NDArray[np.int64]) -> NDArray[np.float64]:
        """The coded values of k stored cases, (k, P); NaN if missing.

        Examples
        --------
        >>> x = np.array([[0.0, 1.0], [2.0, np.nan]])
        >>> CaseIndex.build(x, np.array([1, 0]), 2, [(0.0,), (0.0,)]).values(np.array([1, 0])).tolist()
        [[0.0, 1.0], [2.0, nan]]
        """
        coded = np.empty((len(positions), len(self.levels)))
        for j, values in enumerate(self.levels):
            coded[:, j] = np.append(np.nan, values)[self.codes[j, positions]]
        return coded

    def ranges(self, x: NDArray[np.float64]) -> Ranges:
        """The codes that agree with each of n cases in each comparison; x has shape (n, P).

        A value that is missing in the case is not compared.
        """
        kind = self.codes.dtype.type
        low = np.empty((len(x), len(self.columns)), kind)
        high = np.empty_like(low)
        for k, (j, reach) in enumerate(zip(self.columns, self.reach, strict=True)):
            if np.isnan(reach):
                first, last = np.zeros(len(x), np.int64), np.zeros(len(x), np.int64)
            else:
                first, last = _agreeing(self.levels[j], x[:, j], float(reach))
            no_match = np.isnan(x[:, j]) | (first > last)
            low[:, k] = np.where(no_match, 1, first)
            high[:, k] = np.where(no_match, 0, last)
        return Ranges(low, high)


def _smallest_type(levels: Sequence[NDArray[np.float64]]) -> type[np.unsignedinteger[Any]]:
    """The smallest type for the codes; each column has one more code than levels."""
    most = max((len(values) for values in levels), default=0)
    return np.uint8 if most < 2**8 - 1 else np.uint16 if most < 2**16 - 1 else np.uint32


def comparisons(
    windows: Sequence[Sequence[float] | NDArray[np.float64]], has_missing: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The column and reach of every comparison."""
    reach = [[*each, *([np.nan] if missing else [])] for each, missing in zip(windows, has_missing, strict=True)]
    columns = np.repeat(np.arange(len(reach)), [len(each) for each in reach])
    return columns, np.concatenate([np.empty(0), *reach])


def _agreeing(
    levels: NDArray[np.float64], values: NDArray[np.float64], window: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last code with a level within the window around each value; first > last if there is no such level.

    Because of rounding, ``value - window`` may be off by one level. The definition of agreement,
    ``abs(level - value) <= window``, corrects this.
    """
    if not len(levels):
        return np.ones(len(values), np.int64), np.zeros(len(values), np.int64)
    first = np.searchsorted(levels, values - window, side="left")
    last = np.searchsorted(levels, values + window, side="right") - 1

    def agrees(place: NDArray[np.int64]) -> NDArray[np.bool_]:
        inside = (place >= 0) & (place < len(levels))
        return inside & (np.abs(levels[np.clip(place, 0, len(levels) - 1)] - values) <= window)

    first = np.where(agrees(first - 1), first - 1, np.where(agrees(first), first, first + 1))
    last = np.where(agrees(last + 1), last + 1, np.where(agrees(last), last, last - 1))
    return first + 1, last + 1
