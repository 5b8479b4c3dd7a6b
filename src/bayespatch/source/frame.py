"""Checks of a table from any source; an error is one sentence that names the source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from bayespatch.validation import listed

if TYPE_CHECKING:
    from pandas import DataFrame

MOST_COLUMNS = 10_000  # a wider table is probably transposed, or not a table of cases


def import_pandas() -> ModuleType:
    """pandas, or an ImportError with the install command."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError('reading tables needs pandas: pip install "bayespatch[cli]"') from error
    return pandas


class EmptyTableError(ValueError):
    """A query returned no rows."""


def refuse(source: str, wrong: str) -> ValueError:
    """An error that names the source, the problem and the remedy."""
    return ValueError(f"{source}: {wrong}")


def check_names(source: str, names: Sequence[str]) -> None:
    """Check that the columns have distinct names and that there are not too many."""
    if not names:
        raise refuse(source, "there are no columns; pass a table with a name for each column")
    if len(names) > MOST_COLUMNS:
        raise refuse(
            source, f"there are {len(names)} columns, more than {MOST_COLUMNS}; pass one row per case, or fewer columns"
        )
    blank = [number for number, name in enumerate(names, start=1) if not name]
    if blank:
        raise refuse(source, f"column {blank[0]} has no name; name it (and pass it as --id if it contains row numbers)")
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise refuse(source, f"more than one column is named {listed(repeated)}; give every column a distinct name")


def frame_of(source: str, names: Sequence[str], rows: Sequence[Sequence[object]]) -> DataFrame:
    """A data frame from rows of Python values, as returned by a database."""
    check_names(source, names)
    if not rows:
        raise EmptyTableError(f"{source}: there are columns but no rows; pass at least two cases")
    frame: DataFrame = import_pandas().DataFrame.from_records(rows, columns=list(names), coerce_float=True)
    return frame


def plain_text(value: object) -> str:
    """A value as it would be typed: 3 and not 3.0.

    >>> plain_text(3.0), plain_text(2.5), plain_text("a")
    ('3', '2.5', 'a')
    """
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
