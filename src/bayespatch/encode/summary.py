"""A summary of all rows of a table for learning how to code it: types, levels, ranges, missing values.

A summary is small even for a long table, and the summaries of several parts can be combined. So a partitioned table, on
one or several machines, is summarized part by part; quantiles, which cannot be combined, come from a sample of the rows
(`Schema.learn`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from bayespatch.encode.table import Family, PlainColumn, PlainTable, Value, plain_values
from bayespatch.validation import listed

MOST_LEVELS = 100_000  # of a text column; partitioned tables with more are rejected
MOST_NUMBERS = 1_000  # distinct numbers of a column that are recorded, unless they are category codes


@dataclass(frozen=True)
class ColumnSummary:
    """A summary of all values of a column.

    Attributes
    ----------
    name : str
    family : {"number", "boolean", "text", "none"}
        "none" if all are missing.
    n_known, n_missing : int
        Number of known and missing values.
    levels : tuple or None
        The distinct values in order; None if there are too many numbers to record.
    is_whole : bool
        Whether all values are whole numbers.
    low, high : float
        The smallest and the largest number; infinite if there are no numbers.
    declared : tuple or None
        All values of the column's type, in order; None if it does not define them.
    ordered : bool
        Whether the order of the declared values is meaningful.
    """

    name: str
    family: Family
    n_known: int
    n_missing: int
    levels: tuple[Value, ...] | None
    is_whole: bool
    low: float
    high: float
    declared: tuple[Value, ...] | None
    ordered: bool

    def has_few_levels(self, max_levels: int) -> bool:
        """Whether numbers look like levels: few, whole and repeated."""
        if self.levels is None or len(self.levels) > max_levels or not self.is_whole:
            return False
        return len(self.levels) <= 2 or 2 * len(self.levels) <= self.n_known


@dataclass(frozen=True)
class TableSummary:
    """Summary of all rows of a table: number of rows, columns, and the smallest number of known values in a row."""

    n_rows: int
    columns: tuple[ColumnSummary, ...]
    least_known: int

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> ColumnSummary:
        """The column of this name."""
        return self.columns[self.names.index(name)]


def summarise(table: PlainTable, categorical: Collection[str] = (), max_levels: int = 0) -> TableSummary:
    """The summary of a table.

    Parameters
    ----------
    table : PlainTable
    categorical : names
        Columns of numeric category codes, for which all values are recorded.
    max_levels : int
        For other columns, at least this number of distinct numbers is recorded.

    Examples
    --------
    >>> from bayespatch.encode.table import read_table
    >>> age, sex = summarise(read_table([[52, "m"], [61, "f"], [None, "m"]])).columns
    >>> age.low, age.high, age.n_missing, sex.levels
    (52.0, 61.0, 1, ('f', 'm'))
    """
    most = max(MOST_NUMBERS, max_levels)
    columns = [_of_column(column, None if column.name in categorical else most) for column in table.columns]
    n_known = np.sum([~column.is_missing for column in table.columns], axis=0)
    return TableSummary(table.n_rows, tuple(columns), int(n_known.min()))


def _of_column(column: PlainColumn, most: int | None) -> ColumnSummary:
    missing = column.is_missing
    low, high, is_whole, levels = np.inf, -np.inf, False, None
    if column.family == "text":
        levels = tuple(sorted(set(plain_values(column))))
    else:
        numbers = np.unique(column.numbers[~missing])
        if numbers.size:
            low, high, is_whole = float(numbers[0]), float(numbers[-1]), bool(np.all(numbers == np.floor(numbers)))
        if most is None or len(numbers) <= most:
            levels = tuple(bool(n) if column.family == "boolean" else n for n in (numbers + 0.0).tolist())
    n_missing = int(missing.sum())
    known = len(missing) - n_missing
    about = (column.declared, column.ordered)
    return ColumnSummary(column.name, column.family, known, n_missing, levels, is_whole, low, high, *about)


def merged(
    summaries: Sequence[TableSummary], labels: Sequence[str], categorical: Collection[str] = (), max_levels: int = 0
) -> TableSummary:
    """Combine the summaries of the parts of a table; inconsistent parts are rejected.

    Parameters
    ----------
    summaries : sequence of TableSummary
        Summaries of parts with at least one row each.
    labels : sequence of str
        Names of the parts for error messages, such as file names.
    categorical, max_levels
        As in `summarise`.

    Examples
    --------
    >>> from bayespatch.encode.table import read_table
    >>> parts = [summarise(read_table(rows)) for rows in ([[52, "m"]], [[61, "f"], [40, "m"]])]
    >>> both = merged(parts, ["a.parquet", "b.parquet"])
    >>> both.n_rows, both.column("x0").high, both.column("x1").levels
    (3, 61.0, ('f', 'm'))
    """
    names = summaries[0].names
    for summary, label in zip(summaries[1:], labels[1:], strict=True):
        absent = [name for name in names if name not in summary.names]
        unknown = [name for name in summary.names if name not in names]
        if absent or unknown:
            differences = [f"has no column {listed(absent)}"] * bool(absent) + [f"has {listed(unknown)}"] * bool(
                unknown
            )
            raise ValueError(
                f"{label} {' and '.join(differences)}, unlike {labels[0]}; give all parts the same columns"
            )
    most = max(MOST_NUMBERS, max_levels)
    columns = tuple(
        _merged_column([summary.column(name) for summary in summaries], labels, None if name in categorical else most)
        for name in names
    )
    return TableSummary(
        sum(summary.n_rows for summary in summaries), columns, min(summary.least_known for summary in summaries)
    )


def _merged_column(parts: Sequence[ColumnSummary], labels: Sequence[str], most: int | None) -> ColumnSummary:
    known = [(part, label) for part, label in zip(parts, labels, strict=True) if part.family != "none"]
    if not known:
        return replace(parts[0], n_missing=sum(part.n_missing for part in parts))
    first, where = known[0]
    for part, label in known:
        if part.family != first.family:
            raise ValueError(
                f"column {part.name!r} holds {part.family} values in {label} and {first.family} values in {where}; "
                f"convert it to one type in all parts"
            )
        if part.ordered != first.ordered or (part.ordered and part.declared != first.declared):
            raise ValueError(
                f"column {part.name!r} has different ordered categories in {label} and in {where}; use the same ones "
                "in all parts"
            )
    each = [part for part, _ in known]
    levels = None
    if all(part.levels is not None for part in each):
        levels = _union(part.levels for part in each if part.levels is not None)
        if first.family == "number" and most is not None and len(levels) > most:
            levels = None
        elif len(levels) > MOST_LEVELS:
            raise ValueError(
                f"column {first.name!r} has more than {MOST_LEVELS:,} different values; leave it out, or group them"
            )
    declared = None
    if all(part.declared is not None for part in each):
        declared = tuple(dict.fromkeys(chain.from_iterable(part.declared or () for part in each)))
    return ColumnSummary(
        first.name,
        first.family,
        sum(part.n_known for part in parts),
        sum(part.n_missing for part in parts),
        levels,
        all(part.is_whole for part in each if part.n_known),
        min(part.low for part in each),
        max(part.high for part in each),
        declared,
        first.ordered,
    )


def _union(sets: Iterable[tuple[Value, ...]]) -> tuple[Value, ...]:
    return tuple(sorted(set(chain.from_iterable(sets))))
