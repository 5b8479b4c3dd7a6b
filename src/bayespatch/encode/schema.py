"""The schema: how each column of a table is coded, learned once from the training table.

Unless specified by the user, the kind of a column depends on its values:

- text, categories and booleans: categorical, with a code for each value;
- ordered categories: ordinal, with codes in order;
- numbers with few distinct whole values (at most `max_levels`, each seen twice on average): ordinal, with a code for
  each value;
- other numbers: binned, by default into quartiles; or windowed (compared by distance); or ranked (compared by rank).

If a type declares its values (pandas categories, polars Enum, booleans), all of these get codes, even if they do not
occur.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayespatch.duplicates import duplicate_groups
from bayespatch.encode.bins import Cut, learn_edges, read_cut, read_outcome
from bayespatch.encode.column import MISSING_NUMBER, Column, ColumnKind
from bayespatch.encode.ranks import Share, learn_knots, rank_window, read_share
from bayespatch.encode.summary import ColumnSummary, TableSummary, summarise
from bayespatch.encode.table import LARGEST, PlainColumn, PlainTable, Value, family_of, read_table
from bayespatch.types import JSONObject
from bayespatch.validation import check_choice, check_count, listed

# Options of `Schema.learn` for coding columns of numbers. Any, because column names may have any type, and a Mapping
# with str keys is not a Mapping with object keys.
Bins: TypeAlias = str | int | Mapping[Any, object]
Windows: TypeAlias = float | str | Mapping[Any, float | str] | None
Wish = TypeVar("Wish")
MISSING_RULES = ("category", "ignore", "error")
_FORMAT = 1  # of the stored schema
LEAST_VARIED = 10  # from this number of rows on, a single row with a different value is not informative


class EncodedTable(NamedTuple):
    """A coded table, with a record of the values that cannot agree with any past case.

    Attributes
    ----------
    x : array of shape (n, P)
        Codes. NaN is not compared: it represents missing values under ``missing="ignore"``, and all values of columns
        that are not compared (`Column.is_compared`).
    unseen : bool array of shape (n, P)
        Whether each value was not seen in training. Unseen values have a code that matches no past case.
    names : tuple of length P
        Names of the columns.
    values : array of shape (n, P)
        As `x`, but with the original numbers in binned and ranked columns, NaN if missing; used for explanations.
    ids : tuple of length n, or None
        Names of the rows, if the table has an index.
    """

    x: NDArray[np.float64]
    unseen: NDArray[np.bool_]
    names: tuple[str, ...]
    values: NDArray[np.float64]
    ids: tuple[str, ...] | None = None

    @property
    def n_unseen(self) -> dict[str, int]:
        """Number of unseen values of each column; columns without any are omitted."""
        counts = self.unseen.sum(axis=0).tolist()
        return {name: count for name, count in zip(self.names, counts, strict=True) if count}


class _Codings(NamedTuple):
    """The checked options of the user, for named columns and for all others."""

    cuts: dict[str, Cut]
    cut: Cut
    windows: dict[str, float | Share]
    window: float | Share | None  # a number is in units of standard deviations
    categorical: frozenset[str]
    max_levels: int
    nested: tuple[Share, ...] = ()


@dataclass(frozen=True)
class Schema:
    """How the columns of a table are coded.

    Created by `Schema.learn`. The same table gives the same schema, whether it is a pandas or polars frame or an array.

    Attributes
    ----------
    columns : tuple of Column
        One column per feature, in the order of the codes.
    missing : {"category", "ignore", "error"}
        How missing values are handled.
    least_known : int
        Smallest number of known values in a row of the training table. Under ``missing="category"``, missing values of
        a row with fewer known values are not compared, so that a mostly empty form does not match cases with the same
        missing values.
    named : bool
        Whether the columns have names; otherwise they are x0, x1, ... and tables are read by position.

    Examples
    --------
    >>> schema = Schema.learn([[52, "male"], [61, "female"], [40, "male"]], bins={"x0": [45, 55]})
    >>> schema.encode([[70, "male"], [50, "unknown"]]).x
    array([[2., 1.],
           [1., 2.]])
    >>> schema.describe([1, 0])
    {'x0': '45-55', 'x1': 'female'}
    """

    columns: tuple[Column, ...]
    missing: str = "category"
    named: bool = True
    least_known: int = 0

    def __post_init__(self) -> None:
        check_choice("missing", self.missing, MISSING_RULES)
        if not self.columns or len(set(self.names)) < len(self.columns) or not isinstance(self.named, bool):
            raise ValueError("a schema needs columns with distinct names; learn it again from the table")
        if type(self.least_known) is not int or not 0 <= self.least_known <= len(self.columns):
            raise ValueError(f"least_known={self.least_known!r} is not a number of columns; learn the schema again")
        if self.missing != "category" and any(column.missing_is_value for column in self.columns):
            raise ValueError(
                f"a column counts missing as a value, but missing={self.missing!r}; learn the schema again"
            )

    @classmethod
    def learn(
        cls,
        X: object,
        y: ArrayLike | None = None,
        *,
        bins: Bins = "quantile",
        n_bins: int = 4,
        windows: Windows = None,
        categorical: Iterable[object] = (),
        missing: str = "category",
        max_levels: int = 10,
        labels: Mapping[object, Mapping[object, str]] | None = None,
        descriptions: Mapping[object, str] | None = None,
        whole: TableSummary | None = None,
        nested: Iterable[str] = (),
    ) -> Schema:
        """Learn how to code a table.

        Parameters
        ----------
        X : data frame, array or list of rows
            The training table. Columns without names are called x0, x1, ...
        y : sequence of length n, optional
            Outcomes, for supervised bins.
        bins : {"quantile", "uniform", "supervised"}, int or dict
            Strategy or number of bins. A dict sets individual columns to increasing edges
            (``{"age": [45, 55]}``: under 45, from 45 up to but not including 55, 55 or more), a number of bins, a
            strategy, or a pair such as ``("uniform", 5)``; the key None applies to all other columns.
        n_bins : int
            The default number of bins. There are fewer bins if many cases share a value.
        windows : float, str or dict, optional
            Columns compared by distance or by rank instead of bins. With ``{"chol": 20}``, two cases agree if they
            differ by at most 20. With ``{"chol": "10%"}``, two cases agree if at most 10% of the past cases lie between
            them (any percentage under 50% is allowed; if cases share a value, half of them count on each side). A
            number or percentage instead of a dict applies to all numeric columns that would otherwise be binned: their
            window is this number of standard deviations, or this percentage.
        categorical : names
            Columns of numbers that are category codes: each value gets a code.
        missing : {"category", "ignore", "error"}
            "category": missing counts as one more value of the columns in which it occurs here; in other columns, it
            counts as an unseen value later. (A column with a window stores `MISSING_NUMBER` for it, which agrees only
            with itself.) "ignore": missing values become NaN and are never compared. "error": missing values are
            rejected, here and later.
        max_levels : int
            If a column has at most this number of distinct whole numbers, and each is seen twice on average, each gets
            a separate code. (One or two distinct numbers always do.)
        labels : dict, optional
            Labels of values, ``{"cp": {4: "asymptomatic"}}``; by default from ``X.attrs["labels"]``.
        descriptions : dict, optional
            Labels of columns, ``{"cp": "chest pain"}``; by default from ``X.attrs["descriptions"]``. Units and usual
            ranges of numbers come from ``X.attrs["units"]`` and ``X.attrs["usual"]``, phrases for patients with a value
            (``{"sex": {1: "men"}}``) from ``X.attrs["phrases"]``.
        whole : TableSummary, optional
            If X is a sample of a longer table: the summary of the whole table. Types, levels, ranges and missing values
            then come from the whole table; only quantiles, standard deviations and supervised bins come from the
            sample.
        nested : shares
            Additional windows for columns compared by rank, such as ``("4%", "40%")``; closed-form votes compare
            numbers with each of them.

        Returns
        -------
        Schema
        """
        check_choice("missing", missing, MISSING_RULES)
        table = read_table(X)
        _refuse_empty_columns(table, whole)
        codings = _read_codings(table.names, bins, n_bins, windows, categorical, max_levels)
        codings = codings._replace(nested=tuple(read_share("nested", share) for share in nested))
        summary = summarise(table, codings.categorical, codings.max_levels) if whole is None else whole
        if missing == "error":
            _refuse_missing({name: summary.column(name).n_missing for name in table.names})
        supervised = any(
            cut.strategy == "supervised" and not cut.edges for cut in [codings.cut, *codings.cuts.values()]
        )
        outcome = read_outcome(y, table.n_rows) if supervised else None
        called = _by_name("descriptions", descriptions, table.names) or table.descriptions
        meaning = _by_name("labels", labels, table.names) or table.labels
        columns = []
        for plain in table.columns:
            column = _learn_column(plain, summary.column(plain.name), codings, outcome)
            columns.append(
                replace(
                    column,
                    labels=_labels(column.values, meaning.get(plain.name)),
                    phrases=_phrases(column.values, table.phrases.get(plain.name)),
                    missing_is_value=missing == "category" and summary.column(plain.name).n_missing > 0,
                    description=str(called.get(plain.name) or ""),
                    unit=str(table.units.get(plain.name) or "") if plain.family == "number" else "",
                    usual=_usual(plain, table.usual.get(plain.name)),
                    is_compared=not _is_constant(plain, missing_counts=missing == "category"),
                )
            )
        return cls(tuple(columns), missing, table.named, summary.least_known)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self.columns)

    @property
    def not_compared(self) -> tuple[str, ...]:
        """The names of the columns that are not compared, because they carry no information."""
        return tuple(column.name for column in self.columns if not column.is_compared)

    @property
    def n_values(self) -> NDArray[np.float64]:
        """V_j, the number of values of each column, (P,); range / (2 window) for columns with a window."""
        return np.array([column.n_values for column in self.columns])

    @property
    def windows(self) -> NDArray[np.float64]:
        """r_j, the largest difference between two values that agree, (P,); 0 for codes."""
        return np.array([column.window for column in self.columns])

    @property
    def nested(self) -> tuple[tuple[float, ...], ...]:
        """Additional windows of each column, for closed-form votes."""
        return tuple(column.nested for column in self.columns)

    @property
    def every_window(self) -> list[tuple[float, ...]]:
        """All windows of each column, P."""
        return [(column.window, *column.nested) for column in self.columns]

    def encode(self, X: object) -> EncodedTable:
        """Code a table with the same columns as the training table.

        Columns of a data frame are matched by name and may be in a different order. Arrays, and data frames if the
        schema was learned from an array, are read by position. Values that were not seen in training get a code that
        matches no past case. A number outside the range of the training table gets the first or last bin or rank; in a
        windowed column, it is its own code and counts as unseen if no past case is within its window.
        """
        table = read_table(X)
        plain = self._matched(table)
        if self.missing == "error":
            _refuse_missing({column.name: int(column.is_missing.sum()) for column in table.columns})
        n_known = np.sum([~p.is_missing for p in plain], axis=0)
        ignored = np.full(len(n_known), True) if self.missing == "ignore" else n_known < self.least_known
        parts = [c.encode(p, ignored) for c, p in zip(self.columns, plain, strict=True)]
        compared = np.array([column.is_compared for column in self.columns])
        own = [
            p.numbers if c.keeps_numbers else codes for c, p, (codes, _) in zip(self.columns, plain, parts, strict=True)
        ]
        codes = np.column_stack([codes for codes, _ in parts])
        return EncodedTable(
            codes if compared.all() else np.where(compared, codes, np.nan),
            np.column_stack([unseen for _, unseen in parts]),
            self.names,
            np.column_stack(own) if any(column.keeps_numbers for column in self.columns) else codes,
            table.ids,
        )

    def duplicates(self, table: EncodedTable) -> tuple[NDArray[np.int64], ...]:
        """Groups of rows of a coded table that are equal or nearly equal, if there are more than expected by chance;
        see `duplicate_groups`.

        Examples
        --------
        >>> rows = [[age, "fm"[age % 2], 100 + 7 * age % 60] for age in range(20, 60)]
        >>> schema = Schema.learn(rows + rows)
        >>> groups = schema.duplicates(schema.encode(rows + rows))
        >>> len(groups), groups[0].tolist()
        (40, [0, 40])
        """
        measured = np.array([column.keeps_numbers or column.kind == "windowed" for column in self.columns])
        return duplicate_groups(np.where(table.values == MISSING_NUMBER, np.nan, table.values), measured)

    def codes_as(self, other: Schema) -> bool:
        """Whether both schemas give the training table the same codes, because they differ only in rules for missing
        values and the table has none.
        """
        return self.columns == other.columns

    def _matched(self, table: PlainTable) -> list[PlainColumn]:
        """The columns of a table in the order of the schema."""
        if table.named and self.named:
            absent = [name for name in self.names if name not in table.names]
            unknown = [name for name in table.names if name not in self.names]
            if absent or unknown:
                differences = [f"columns {listed(absent)} are missing"] * bool(absent)
                differences += [f"columns {listed(unknown)} are not in the training table"] * bool(unknown)
                raise ValueError(f"the table does not have the columns of the training table: {'; '.join(differences)}")
            return [table.columns[table.names.index(name)] for name in self.names]
        if len(table.columns) != len(self.columns):
            raise ValueError(
                f"the table has {len(table.columns)} columns and the training table had {len(self.columns)}; "
                f"pass the same features in the same order"
            )
        return list(table.columns)

    def column(self, which: str | int) -> Column:
        """A column by name or position."""
        if isinstance(which, str) and which in self.names:
            return self.columns[self.names.index(which)]
        if isinstance(which, int | np.integer) and 0 <= which < len(self.columns):
            return self.columns[int(which)]
        raise ValueError(f"there is no column {which!r}; the columns are {listed(self.names)}")

    def decode(self, code: float, column: str | int) -> str:
        """The value that a code represents, in the user's terms: "45-55", "asymptomatic", "missing", "233"."""
        return self.column(column).decode(code)

    def describe(self, codes: ArrayLike) -> dict[str, str]:
        """The values that a row of codes represents, {feature: text}."""
        row = np.asarray(codes, dtype=np.float64)
        if row.shape != (len(self.columns),):
            raise ValueError(f"codes has shape {row.shape}; pass one row of {len(self.columns)} codes")
        return {column.name: column.decode(code) for column, code in zip(self.columns, row.tolist(), strict=True)}

    def describe_rows(self, X: object) -> list[dict[str, str]]:
        """The original values of a table, {feature: text} for each row: for example the age, not its bin."""
        plain = self._matched(read_table(X))
        texts = [column.own_words(values) for column, values in zip(self.columns, plain, strict=True)]
        return [dict(zip(self.names, row, strict=True)) for row in zip(*texts, strict=True)]

    def to_dict(self) -> JSONObject:
        """JSON-ready data; `from_dict` restores the schema from them."""
        columns = [column.to_dict() for column in self.columns]
        return {
            "format": _FORMAT,
            "missing": self.missing,
            "named": self.named,
            "least_known": self.least_known,
            "columns": columns,
        }

    @classmethod
    def from_dict(cls, data: object) -> Schema:
        """The schema from the result of `to_dict`; anything else raises a ValueError."""
        if not isinstance(data, Mapping) or set(data) != {"format", "missing", "named", "least_known", "columns"}:
            raise ValueError("this is not a stored schema; pass the result of Schema.to_dict")
        if type(data["format"]) is not int or data["format"] != _FORMAT or not isinstance(data["columns"], list):
            raise ValueError(
                f"the stored schema has format {data['format']!r}, but this version reads {_FORMAT}; store it again"
            )
        columns = tuple(Column.from_dict(column) for column in data["columns"])
        return cls(columns, data["missing"], data["named"], data["least_known"])


# Learning


def _is_constant(column: PlainColumn, missing_counts: bool) -> bool:
    """Whether all rows have the same value, or all but one of at least `LEAST_VARIED` rows."""
    missing = column.is_missing
    if column.family == "text":
        known = np.unique([text for text in column.texts if text is not None], return_counts=True)[1]
    else:
        known = np.unique(column.numbers[~missing], return_counts=True)[1]
    counts = np.append(known, int(missing.sum()) if missing_counts else 0)
    total = int(counts.sum())
    return int(counts.max()) >= total - (1 if total >= LEAST_VARIED else 0)


def _learn_column(
    plain: PlainColumn, summary: ColumnSummary, codings: _Codings, outcome: NDArray[np.float64] | None
) -> Column:
    """Learn how to code a column; `plain` may be a sample of the column that `summary` describes."""
    name = plain.name
    option = "bins" if name in codings.cuts else "windows" if name in codings.windows else None
    if option and summary.family != "number":
        raise ValueError(f"{option} names column {name!r}, which is not numeric; leave it out, or convert the column")
    levels = summary.declared or summary.levels or ()
    if summary.family == "text" or name in codings.categorical or (summary.declared is not None and not option):
        kind: ColumnKind = "ordinal" if summary.ordered and name not in codings.categorical else "categorical"
        return Column(name, kind, summary.family, levels)
    if not option and summary.has_few_levels(codings.max_levels):
        return Column(name, "ordinal", summary.family, levels)
    is_known = ~plain.is_missing
    numbers = plain.numbers[is_known]
    window = codings.windows.get(name)
    if window is None and codings.window is not None and name not in codings.cuts:
        window = codings.window if isinstance(codings.window, Share) else float(codings.window * numbers.std())
    if window:
        low, high = summary.low, summary.high
        if not isinstance(window, Share):
            return Column(name, "windowed", summary.family, window=window, low=low, high=high)
        knots = learn_knots(numbers)
        radius = rank_window(window, len(knots))
        further = {rank_window(share, len(knots)) for share in codings.nested} - {radius}
        nested = tuple(sorted(other for other in further if 0 < other < len(knots)))
        return Column(name, "ranked", summary.family, window=radius, low=low, high=high, knots=knots, nested=nested)
    cut = codings.cuts.get(name, codings.cut)
    edges = learn_edges(numbers, cut, None if outcome is None else outcome[is_known])
    return Column(name, "binned", summary.family, edges=edges)


def _usual(plain: PlainColumn, given: object) -> tuple[float, ...]:
    """The usual range of a column of numbers, if any."""
    if plain.family != "number" or not isinstance(given, tuple | list) or len(given) != 2:
        return ()
    return float(given[0]), float(given[1])


def _labels(values: tuple[Value, ...], meaning: object) -> tuple[str, ...]:
    """The labels of the values; a value without a label is shown as itself."""
    if not isinstance(meaning, Mapping) or not values:
        return ()
    plain = Column("", "categorical", family_of(values[0]), values)
    texts = [str(meaning[value]) if value in meaning else plain.decode(code) for code, value in enumerate(values)]
    return tuple(texts) if any(value in meaning for value in values) else ()


def _phrases(values: tuple[Value, ...], given: object) -> tuple[str, ...]:
    """The phrases for patients with each value; an empty string for a value without a phrase."""
    if not isinstance(given, Mapping) or not any(value in given for value in values):
        return ()
    return tuple(str(given.get(value, "")) for value in values)


def _read_codings(
    names: tuple[str, ...], bins: object, n_bins: int, windows: object, categorical: Iterable[object], max_levels: int
) -> _Codings:
    cut = Cut("quantile", check_count("n_bins", n_bins, at_least=2))
    cuts: dict[str, Cut] = {}
    if isinstance(bins, Mapping):
        if None in bins:
            cut = read_cut("bins[None]", bins[None], cut)
        named = _by_name("bins", {name: wish for name, wish in bins.items() if name is not None}, names)
        cuts = {name: read_cut(f"bins[{name!r}]", wish, cut) for name, wish in named.items()}
    else:
        cut = read_cut("bins", bins, cut)
    if cut.edges:
        raise ValueError(f"bins={bins!r} gives all columns the same edges; name the column: bins={{'age': [45, 55]}}")
    radii: dict[str, float | Share] = {}
    if isinstance(windows, Mapping):
        radii = {n: _radius(f"windows[{n!r}]", r) for n, r in _by_name("windows", windows, names).items()}
    if isinstance(categorical, str):
        raise ValueError(f"categorical={categorical!r} is a string; pass a list of names: [{categorical!r}]")
    codes = frozenset(_by_name("categorical", dict.fromkeys(categorical), names))
    twice = sorted((set(cuts) & set(radii)) | (codes & (set(cuts) | set(radii))))
    if twice:
        raise ValueError(f"column {listed(twice)} is named in more than one of bins, windows and categorical; keep one")
    radius = None if windows is None or isinstance(windows, Mapping) else _radius("windows", windows)
    return _Codings(cuts, cut, radii, radius, codes, check_count("max_levels", max_levels, at_least=0))


def _radius(where: str, radius: object) -> float | Share:
    if isinstance(radius, str):
        return read_share(where, radius)
    if isinstance(radius, bool) or not isinstance(radius, Real) or not 0 < float(radius) <= LARGEST:
        raise ValueError(f"{where}={radius!r} is not a distance; pass a finite number above 0, or a share: '10%'")
    return float(radius)


def _by_name(where: str, given: Mapping[object, Wish] | None, names: tuple[str, ...]) -> dict[str, Wish]:
    """A mapping by column, with keys converted to strings; unknown columns are rejected."""
    by_column = {str(name): wish for name, wish in (given or {}).items()}
    unknown = [name for name in by_column if name not in names]
    if unknown:
        raise ValueError(f"{where} names {listed(unknown)}, but the columns are {listed(names)}; correct the name")
    return by_column


def _refuse_empty_columns(table: PlainTable, whole: TableSummary | None) -> None:
    empty = [column.name for column in table.columns if column.is_missing.all()]
    rare = [name for name in empty if whole is not None and whole.column(name).n_known]
    if rare:
        raise ValueError(
            f"column {listed(rare)} has too few values: it is empty in all {table.n_rows} sampled rows; drop it"
        )
    if empty:
        raise ValueError(f"column {listed(empty)} has only missing values; drop it")


def _refuse_missing(counts: Mapping[str, int]) -> None:
    complaints = [f"column {name!r} has {count} missing values (NaN)" for name, count in counts.items() if count]
    if complaints:
        more = f" and {len(complaints) - 4} more columns have some" if len(complaints) > 4 else ""
        raise ValueError(
            f"{', '.join(complaints[:4])}{more}; pass missing='category' to treat missing as a category, "
            f"missing='ignore' to leave them out of comparisons, or fill them in"
        )
