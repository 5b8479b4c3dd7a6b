"""Reading tables (pandas, polars, other data frames, arrays, lists of rows) into plain columns.

For all other modules, a column consists of either numbers (float64, with NaN for missing values) or strings (with
None). Other columns (dates, lists, mixtures) are rejected here, with advice on how to convert them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from numbers import Complex, Real
from typing import TYPE_CHECKING, Literal, NoReturn, SupportsFloat, TypeAlias, cast

import narwhals as nw
import numpy as np
from narwhals.exceptions import DuplicateError
from narwhals.typing import IntoDataFrame, IntoSeries
from numpy.typing import NDArray

from bayespatch.validation import listed

if TYPE_CHECKING:
    import pandas

# Types of pandas, which is an optional dependency.
DataFrame: TypeAlias = "pandas.DataFrame"
Series: TypeAlias = "pandas.Series"
Family = Literal["number", "boolean", "text", "none"]  # "none": all values are missing
Value = str | bool | float

LARGEST = 1e25  # larger than any measurement, and far from the code of a missing number
_MISSING_TYPES = ("NoneType", "NAType", "NaTType")
_TIME_TYPES = ("date", "datetime", "datetime64", "time", "timedelta", "timedelta64", "Timestamp", "Timedelta")
_NUMBER = re.compile(r"\s*[<>≤≥]?=?\s*[-+]?\d+([.,]\d+)?(\s*[^\d]+)?")  # perhaps with a limit and a unit
_LEAST_NUMBERS = 10  # fewer distinct numbers among texts may be codes


@dataclass(frozen=True, eq=False)
class PlainColumn:
    """A column as read.

    Attributes
    ----------
    name : str
    family : {"number", "boolean", "text", "none"}
        Type of the values; "none" if all are missing.
    numbers : array of shape (n,)
        The values of a number or boolean column, NaN if missing; empty for text.
    texts : list of length n
        The values of a text column, None if missing; empty for numbers.
    declared : tuple or None
        All values that the column's type allows, in order (categories, booleans); None if it does not declare them.
    ordered : bool
        Whether the order of the declared values is meaningful.
    """

    name: str
    family: Family
    numbers: NDArray[np.float64]
    texts: list[str | None]
    declared: tuple[Value, ...] | None = None
    ordered: bool = False

    @cached_property
    def is_missing(self) -> NDArray[np.bool_]:
        """Whether each value is missing, (n,)."""
        if self.family == "text":
            return np.array([text is None for text in self.texts], dtype=np.bool_)
        return np.isnan(self.numbers)

    @property
    def number_among_texts(self) -> str | None:
        """An example of a number if most distinct values of a text column are numbers, perhaps with limit and unit.

        Examples
        --------
        >>> texts = ["<0,3", "haemolytic", *(f"{k},5 mg/l" for k in range(20))]
        >>> read_table([[text] for text in texts]).columns[0].number_among_texts
        '0,5 mg/l'
        """
        texts = set(self.texts) - {None} if self.declared is None else set()
        numbers = sorted(text for text in texts if text is not None and _NUMBER.fullmatch(text))
        return numbers[0] if len(numbers) >= max(_LEAST_NUMBERS, 0.8 * len(texts)) else None


@dataclass(frozen=True, eq=False)
class PlainTable:
    """A table as read; `named` is False if it had no column names, so that the columns are called x0, x1, ..."""

    columns: tuple[PlainColumn, ...]
    n_rows: int
    named: bool
    labels: dict[str, object]  # from a pandas frame's attrs: {column: {value: text}}
    descriptions: dict[str, object]  # likewise: {column: text}
    units: dict[str, object]  # likewise: {column: text}
    usual: dict[str, object]  # likewise: {column: (low, high)}
    phrases: dict[str, object]  # likewise: {column: {value: text}}
    ids: tuple[str, ...] | None = None  # names of the rows, from a pandas frame's index

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)


def read_table(table: object) -> PlainTable:
    """Read a data frame, a two-dimensional array or a list of rows.

    Examples
    --------
    >>> [(c.name, c.family) for c in read_table([[52, "male"], [None, "female"]]).columns]
    [('x0', 'number'), ('x1', 'text')]
    """
    if isinstance(table, PlainTable):
        return table
    if hasattr(type(table), "columns") or nw.dependencies.is_into_dataframe(table):
        return _read_frame(cast("IntoDataFrame", table))  # rejects a lazy frame
    return _read_array(table)


def split_columns(table: object, names: Sequence[str]) -> tuple[object, object]:
    """Split a data frame into one without these columns and one with only these columns, both of the same type.

    Examples
    --------
    >>> import pandas
    >>> rest, some = split_columns(pandas.DataFrame({"age": [61], "drug": ["a"]}), ["drug"])
    >>> list(rest.columns), list(some.columns)
    (['age'], ['drug'])
    """
    if nw.dependencies.is_pandas_dataframe(table):  # narwhals would lose its attrs
        return table.drop(columns=list(names)), table[list(names)]
    frame = nw.from_native(cast("IntoDataFrame", table), eager_only=True)
    return frame.drop(list(names)).to_native(), frame.select(list(names)).to_native()


def column_names(table: object) -> tuple[str, ...] | None:
    """Names of the columns of a data frame, which must be distinct; None for other tables."""
    if not nw.dependencies.is_into_dataframe(table):
        return None
    try:
        names = tuple(map(str, nw.from_native(table, eager_only=True).columns))
    except DuplicateError:
        names = tuple(map(str, table.columns))
    _check_distinct(names)
    return names


def _check_distinct(names: Sequence[str]) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ValueError(f"more than one column is named {listed(repeated)}; give every column a distinct name")


def _read_frame(table: IntoDataFrame) -> PlainTable:
    attrs = getattr(table, "attrs", None) or {}
    if attrs and hasattr(table, "copy"):  # because pandas would deep-copy attrs with every column
        bare = table.copy(deep=False)
        bare.attrs = {}
        table = bare
    try:
        frame = nw.from_native(table, eager_only=True)
        names = [str(name) for name in frame.columns]
    except DuplicateError:
        names = [str(name) for name in table.columns]
    except (TypeError, ValueError) as error:
        kind = f"{type(table).__module__.partition('.')[0]}.{type(table).__name__}"
        remedy = "call .collect() first" if "Lazy" in kind else "pass a pandas or polars data frame, or an array"
        raise ValueError(f"a {kind} cannot be read as a table ({error}); {remedy}") from None
    _check_distinct(names)
    _check_size(len(frame), len(names))
    columns = tuple(_read_series(name, frame.get_column(key)) for name, key in zip(names, frame.columns, strict=True))
    kinds = ("labels", "descriptions", "units", "usual", "phrases")
    mappings = [attrs.get(key) if isinstance(attrs, dict) else None for key in kinds]
    labels, descriptions, units, usual, phrases = (
        {str(k): v for k, v in d.items()} if isinstance(d, dict) else {} for d in mappings
    )
    index = nw.maybe_get_index(frame)
    ids = None if index is None else tuple(_id_text(key) for key in index)
    return PlainTable(columns, len(frame), True, labels, descriptions, units, usual, phrases, ids)


def _id_text(key: object) -> str:
    """The name of a row as text; the levels of a MultiIndex are joined."""
    return " / ".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _read_array(table: object) -> PlainTable:
    if hasattr(table, "toarray"):
        raise ValueError("a sparse matrix cannot be read as a table; pass X.toarray()")
    if isinstance(table, np.ma.MaskedArray):  # a masked entry is not a value
        mask = np.ma.getmaskarray(table)
        table = table.data.astype(np.float64 if table.dtype.kind in "iuf" else object)
        table[mask] = np.nan if table.dtype.kind == "f" else None
    try:
        array = np.asarray(table)
    except (TypeError, ValueError):  # rows of different lengths, or values that are sequences
        array = np.asarray(table, dtype=object)
    if array.dtype.kind == "c":
        raise ValueError("Complex data not supported: the table holds complex numbers; pass real ones")
    if not isinstance(table, np.ndarray) and array.dtype.kind not in "biuf":
        array = np.asarray(table, dtype=object)  # numbers in a table with text remain numbers
    if array.ndim != 2:
        raise ValueError(
            f"the table has shape {array.shape}. Reshape your data: pass a two-dimensional table, one row per case "
            f"(a single row is [row], df.iloc[[i]] or x.reshape(1, -1)), all rows of equal length"
        )
    _check_size(*array.shape)
    names = [f"x{j}" for j in range(array.shape[1])]
    if array.dtype.kind in "biuf":
        declared: tuple[Value, ...] | None = (False, True) if array.dtype.kind == "b" else None
        family: Family = "boolean" if declared else "number"
        numbers = np.array(array, dtype=np.float64)
        columns = [_number_column(name, family, numbers[:, j], declared) for j, name in enumerate(names)]
    elif array.dtype.kind in "mM":
        _refuse_time(names[0], str(array.dtype))
    else:
        columns = [_read_objects(name, array[:, j].tolist()) for j, name in enumerate(names)]
    return PlainTable(tuple(columns), array.shape[0], False, {}, {}, {}, {}, {})


def _check_size(n_rows: int, n_columns: int) -> None:
    if n_columns == 0:
        raise ValueError("the table has no columns (0 features); pass at least one column")
    if n_rows == 0:
        raise ValueError("the table has no rows (0 samples); pass at least one case")


def _read_series(name: str, series: nw.Series[IntoSeries]) -> PlainColumn:
    dtype = series.dtype
    if dtype.is_numeric() or isinstance(dtype, nw.Boolean):
        is_null = series.is_null().to_numpy()
        numbers = np.array(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
        numbers[is_null] = np.nan
        if isinstance(dtype, nw.Boolean):
            return _number_column(name, "boolean", numbers, (False, True))
        return _number_column(name, "number", numbers)
    if dtype.is_temporal():
        _refuse_time(name, str(dtype))
    if dtype.is_nested() or isinstance(dtype, nw.Binary):
        raise ValueError(f"column {name!r} holds {dtype} values; expand them into separate columns, or drop the column")
    is_null = series.is_null().to_numpy()
    values = [None if null else value for value, null in zip(series.to_list(), is_null, strict=True)]
    if isinstance(dtype, nw.String) and not is_null.all():  # all values are strings
        return PlainColumn(name, "text", np.empty(0), values)
    if isinstance(dtype, nw.Categorical | nw.Enum):
        return _with_categories(name, _read_objects(name, values), series)
    return _read_objects(name, values)


def _with_categories(name: str, column: PlainColumn, series: nw.Series[IntoSeries]) -> PlainColumn:
    """The column with the values that its categorical type declares (a polars Categorical declares none)."""
    accessor = getattr(series.to_native(), "cat", None)
    if accessor is not None and hasattr(accessor, "categories"):  # pandas
        categories, ordered = list(accessor.categories), bool(accessor.ordered)
    elif isinstance(series.dtype, nw.Enum):
        categories, ordered = list(series.dtype.categories), True
    else:
        return column
    if not categories:
        return column
    declared = _read_objects(name, categories)
    values = tuple(dict.fromkeys(plain_values(declared)))
    family = declared.family if column.family == "none" else column.family
    return PlainColumn(name, family, column.numbers, column.texts or [None] * len(series), values, ordered)


def plain_values(column: PlainColumn) -> list[Value]:
    """The known values of a column, as Python values."""
    if column.family == "text":
        return [text for text in column.texts if text is not None]
    known = column.numbers[~np.isnan(column.numbers)].tolist()
    return [bool(number) for number in known] if column.family == "boolean" else known


def _number_column(
    name: str, family: Family, numbers: NDArray[np.float64], declared: tuple[Value, ...] | None = None
) -> PlainColumn:
    """A column of numbers; infinite numbers are rejected."""
    with np.errstate(invalid="ignore"):
        beyond = np.abs(numbers) > LARGEST
    if beyond.any():
        raise ValueError(
            f"column {name!r} has {beyond.sum()} infinite (inf) or impossibly large values, such as "
            f"{numbers[beyond][0]:g}; pass finite numbers up to {LARGEST:g}, or NaN for missing values"
        )
    if np.isnan(numbers).all() and declared is None:
        family = "none"
    return PlainColumn(name, family, numbers, [], declared)


def _read_objects(name: str, values: Sequence[object]) -> PlainColumn:
    """A column of Python objects: except for missing values, all are strings, all booleans or all numbers."""
    families = {kind: _family_of(name, kind, values) for kind in dict.fromkeys(map(type, values))}
    present = set(families.values()) - {"none"}
    if "number" in present and present != {"number"}:  # the only numbers may be NaN
        numeric = [value for value in values if families[type(value)] == "number" and value == value]
        if not numeric:
            present -= {"number"}
    if "text" in present and len(present) > 1:
        words = [value for value in values if families[type(value)] == "text"]
        others = [value for value in values if families[type(value)] in present - {"text"} and value == value]
        raise ValueError(
            f"column {name!r} mixes text ({words[0]!r}) and numbers ({others[0]!r}), which cannot be compared; "
            f"convert it to one type, to text for categories or to numbers with NaN for missing values"
        )
    if present == {"text"}:
        texts = [str(value) if families[type(value)] == "text" else None for value in values]
        return PlainColumn(name, "text", np.empty(0), texts)
    try:
        floats = (math.nan if families[type(v)] == "none" else float(cast("SupportsFloat", v)) for v in values)
        numbers = np.fromiter(floats, np.float64, len(values))
    except (ArithmeticError, TypeError, ValueError) as error:
        raise ValueError(f"column {name!r} holds a number that a float cannot hold ({error}); replace it") from None
    if present == {"boolean"}:
        return _number_column(name, "boolean", numbers, (False, True))
    return _number_column(name, "number", numbers)


def _family_of(name: str, kind: type, values: Sequence[object]) -> Family:
    """The family of the values of this Python type."""
    if kind.__name__ in _MISSING_TYPES:
        return "none"
    if issubclass(kind, str):
        return "text"
    if issubclass(kind, bool | np.bool_):
        return "boolean"
    if issubclass(kind, Real | Decimal):
        return "number"
    example = next(value for value in values if type(value) is kind)
    if kind.__name__ in _TIME_TYPES:
        _refuse_time(name, kind.__name__)
    if issubclass(kind, Complex):
        raise ValueError(f"Complex data not supported: column {name!r} holds {example!r}; pass real numbers")
    text = repr(example)
    raise ValueError(
        f"column {name!r} holds a value of type {kind.__name__}, {text[:40]}{'...' * (len(text) > 40)}, which is "
        f"neither text nor a number; convert the column (to text, if these are categories), or drop it"
    )


def _refuse_time(name: str, kind: str) -> NoReturn:
    raise ValueError(
        f"column {name!r} contains dates or times ({kind}), which rarely repeat; convert them to a year, an age in "
        f"years or days since an event, or drop the column"
    )


def family_of(value: object) -> Family:
    """The family of a single category value."""
    return "text" if isinstance(value, str) else "boolean" if isinstance(value, bool) else "number"
