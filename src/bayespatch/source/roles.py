"""The roles of columns: outcome, identifiers, features."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from bayespatch.source.dates import Interval, holds_dates, remade, with_intervals
from bayespatch.validation import listed, remedy

if TYPE_CHECKING:
    from pandas import DataFrame, Series

MOST_NUMBERED_CLASSES = 20  # more different numbers are a quantity, not class codes


class Training(NamedTuple):
    """A training table: the features, with identifiers as their index, if any, and outcomes.

    `n_unknown`: number of rows omitted because their outcome is unknown. `groups`: the patient of each row, if a column
    identifies patients. `event`: whether the event happened, if outcomes are times.
    """

    X: DataFrame
    y: Series
    n_unknown: int = 0
    groups: Series | None = None
    event: Series | None = None


def training_table(
    frame: DataFrame,
    target: str,
    *,
    regression: bool = False,
    id_column: str | None = None,
    group_column: str | None = None,
    drop: Iterable[str] = (),
    intervals: Sequence[Interval] = (),
) -> Training:
    """Split a table into features and outcomes; unusable tables raise a one-sentence error.

    Examples
    --------
    >>> import pandas
    >>> frame = pandas.DataFrame({"who": ["a", "b"], "age": [61, 40], "sick": ["yes", "no"]})
    >>> table = training_table(frame, "sick", id_column="who")
    >>> list(table.X.columns), list(table.X.index), list(table.y)
    (['age'], ['a', 'b'], ['yes', 'no'])
    """
    past = past_rows(frame, target, id_column=id_column, group_column=group_column, drop=drop, intervals=intervals)
    if past.y.empty:
        raise ValueError(f"--target {target!r} is missing in every row; name another column")
    return past._replace(y=outcomes_of(past.y, regression))


def past_rows(
    frame: DataFrame,
    target: str,
    *,
    id_column: str | None = None,
    group_column: str | None = None,
    drop: Iterable[str] = (),
    intervals: Sequence[Interval] = (),
) -> Training:
    """Raw features and outcomes of the rows with an outcome; also works on a part of a table.

    Examples
    --------
    >>> import pandas
    >>> past_rows(pandas.DataFrame({"age": [61, 40], "sick": ["yes", None]}), "sick").y.tolist()
    ['yes']
    """
    left_out = list(drop)
    grouped = [] if group_column is None else [group_column]
    for option, names in {"--target": [target], "--drop": left_out, "--group": grouped}.items():
        for name in names:
            check_column(frame, name, option)
    if target in (id_column, *grouped, *left_out):
        raise ValueError(f"--target {target!r} is also named by --id, --group or --drop; name another column there")
    groups = None if group_column is None else _groups(frame[group_column])
    frame = with_intervals(frame, intervals) if intervals else frame
    frame = _identified(frame, id_column)
    known = frame[target].notna()
    groups = None if groups is None else groups[known.to_numpy()]
    n_unknown = int((~known).sum())
    frame = frame[known] if n_unknown else frame
    if n_unknown and id_column is None:
        frame = frame.reset_index(drop=True)
    X = frame.drop(columns=[target, *(name for name in {*left_out, *grouped} if name in frame.columns)])
    if X.shape[1] == 0:
        raise ValueError("no column is left to learn from; pass a table with features besides the --target")
    dates = [str(name) for name in X.columns if holds_dates(X[name])]
    if dates:
        drops = " ".join(f"--drop {name!r}" for name in dates)
        raise ValueError(
            f"column{'s' if len(dates) > 1 else ''} {listed(dates)} contain{'' if len(dates) > 1 else 's'} dates or "
            f"times, which rarely repeat; convert them "
            f"(--age {dates[0]!r}: years up to today; --days {dates[0]!r}: days; --as-of COLUMN or DATE: up to "
            f"then), or remove them: {drops}"
        )
    return Training(X, frame[target], n_unknown, groups)


def outcomes_of(y: Series, regression: bool) -> Series:
    """Convert outcomes to numbers or classes; invalid ones are rejected."""
    return _numbers(y) if regression else _classes(y)


def features_of(frame: DataFrame, features: Sequence[str], *, id_column: str | None = None) -> DataFrame:
    """The features of a model, in the model's order; other columns are ignored."""
    frame = remade(_identified(frame, id_column), features)
    absent = [name for name in features if name not in frame.columns]
    if absent:
        spare = [name for name in frame.columns if name not in features]
        meant = remedy(absent[0], spare, f"its columns are {listed(frame.columns)}")
        raise ValueError(f"the table has no column {listed(absent)}, which the model needs; {meant}")
    return frame[list(features)]


def _identified(frame: DataFrame, id_column: str | None) -> DataFrame:
    """The table with this column as its index."""
    if id_column is None:
        return frame.reset_index(drop=True)
    check_column(frame, id_column, "--id")
    ids = frame[id_column]
    if ids.isna().any():
        raise ValueError(f"--id {id_column!r}: {int(ids.isna().sum())} cases have no identifier; fill them in")
    frame = frame.set_index(id_column)
    check_identifiers(frame)
    return frame


def _groups(column: Series) -> Series:
    """Check and return the column that names the patient of each row."""
    if column.isna().any():
        n_missing, name = int(column.isna().sum()), str(column.name)
        raise ValueError(f"--group {name!r}: {n_missing} rows have no value; fill them in, or remove these rows")
    if column.nunique() == len(column):
        raise ValueError(
            f"--group {str(column.name)!r}: no two rows share a value; remove --group, or pass the column as --id"
        )
    return column


def check_identifiers(frame: DataFrame) -> None:
    """Check that the identifiers of the rows are distinct."""
    repeated = frame.index[frame.index.duplicated()]
    if len(repeated):
        raise ValueError(
            f"--id {frame.index.name!r}: {listed(dict.fromkeys(repeated), 3)} occurs in more than one row; if "
            f"it names patients with several rows, pass --group {str(frame.index.name)!r}, else name a column "
            f"whose values are all different"
        )


def check_column(frame: DataFrame, name: str, option: str) -> None:
    """Check that the table has the column named by an option."""
    if name not in frame.columns:
        meant = remedy(name, frame.columns, f"the columns are {listed(frame.columns, 40)}")
        raise ValueError(f"{option} {name!r} is not a column of the table; {meant}")


def _classes(y: Series) -> Series:
    """Outcomes as classes."""
    n_classes = int(y.nunique())
    if n_classes < 2:
        raise ValueError(f"--target {y.name!r} is {y.iloc[0]!s} in every row; pass cases from at least two classes")
    if y.dtype.kind == "f" and (y == y.round()).all():
        y = y.astype("int64")
    if y.dtype.kind in "iuf" and (y.dtype.kind == "f" or n_classes > MOST_NUMBERED_CLASSES):
        raise ValueError(
            f"--target {y.name!r} has {n_classes} different numbers; pass --regression to predict a number, or name "
            f"a column of classes"
        )
    if y.dtype.kind not in "biuf" and 2 * n_classes > len(y) > 4:
        raise ValueError(
            f"--target {y.name!r} has {n_classes} classes in {len(y)} rows; name a column whose classes repeat"
        )
    return y.astype(object) if y.dtype.kind not in "biu" else y


def _numbers(y: Series) -> Series:
    """Outcomes as numbers."""
    if y.dtype.kind not in "iuf":
        raise ValueError(
            f"--target {y.name!r} has values such as {str(y.iloc[0])!r}, which are not numbers; "
            f"omit --regression to predict a class"
        )
    return y.astype("float64")
