"""Checks of a table before a fit: identifiers, leaks, constant columns, copies, and repeated rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.duplicates import duplicate_groups

if TYPE_CHECKING:
    from pandas import DataFrame, Series

LEAST_ROWS = 20  # fewer rows are not enough to judge a column
NEARLY_ALL = 0.95  # ratio of distinct values to rows
_NAMED_LIKE_ONE = re.compile(
    r"(^|[^a-z])(ids?|identifier|mrn|uuid|guid|ssn|key|index|no|nr|num|number|record|row)([^a-z]|$)|patient|case|unnamed",
    re.IGNORECASE,
)
# The whole name indicates an identifier of patients, even if a patient has several rows.
_NAMES_PATIENTS = re.compile(
    r"(patient|subject|person|participant|case|pid|mrn|ssn)([ _.-]?(id|identifier|no|nr|nbr|num|number|key)\.?)?"
    r"|ids?|identifier|record[ _.-]?(id|no|nr|number)",
    re.IGNORECASE,
)
_LEAST_PATIENTS = 10  # a column with fewer distinct values identifies groups of patients
_LEAK = 0.995  # a column that predicts at least this share of cases on its own is a leak
_MOST_CLASSES = 20  # with more different numbers, the outcome is a quantity
_USUAL = 0.95  # if the most frequent class has at least this share, no column counts as a leak


class Found(NamedTuple):
    """Findings about the columns of a table.

    Attributes
    ----------
    identifiers : dict of str to str
        Column -> why it looks like an identifier.
    unique : list of str
        Text columns whose values are nearly all different.
    leaks : dict of str to float
        Column -> share of the cases whose outcome it predicts on its own.
    constant : dict of str to str
        Column -> its only value.
    copies : dict of str to str
        Column -> the earlier column with the same content.
    repeated : dict of str to int
        Column with the name of a patient identifier -> number of rows that share their value with another row.
    """

    identifiers: dict[str, str]
    unique: list[str]
    leaks: dict[str, float]
    constant: dict[str, str]
    copies: dict[str, str]
    repeated: dict[str, int]


def notice(X: DataFrame, y: Series | None = None) -> Found:
    """Check the features of a table, and look for leaks if outcomes are given.

    Examples
    --------
    >>> import pandas
    >>> X = pandas.DataFrame({"no": range(40), "sex": ["f", "m"] * 20, "site": ["A"] * 40, "gender": [0, 1] * 20})
    >>> found = notice(X, pandas.Series(["well", "sick"] * 20))
    >>> list(found.identifiers), found.constant, found.copies, sorted(found.leaks)
    (['no'], {'site': 'A'}, {'gender': 'sex'}, ['gender', 'sex'])
    """
    names = [str(name) for name in X.columns]
    identifiers = {name: why for name in names if (why := _identifier(X[name]))}
    constant = {}
    for name in names:
        known = X[name].dropna()
        if known.nunique() <= 1:
            constant[name] = "missing" if known.empty else str(known.iloc[0])
    unique = [name for name in _texts(X) if len(X) >= LEAST_ROWS and X[name].nunique() > len(X) / 2]
    rest = [name for name in names if name not in constant]
    leaks = {}
    for name in rest if y is not None else ():
        if name not in identifiers and name not in unique and (share := _alone(X[name], y)) is not None:
            leaks[name] = share
    repeated = {name: n for name in names if name not in identifiers and (n := _n_shared(X[name]))}
    unique = [name for name in unique if name not in identifiers and name not in repeated]
    return Found(identifiers, unique, leaks, constant, _copies(X[rest]), repeated)


def repeated_rows(X: DataFrame) -> tuple[NDArray[np.int64], ...]:
    """Groups of rows that are equal or nearly equal more often than chance explains; see
    `bayespatch.duplicates.duplicate_groups`.

    Omit the outcome and identifiers from the table.

    Examples
    --------
    >>> import pandas
    >>> X = pandas.DataFrame({"age": range(20, 60), "sex": ["f", "m"] * 20})
    >>> len(repeated_rows(X)), len(repeated_rows(pandas.concat([X, X])))
    (0, 40)
    """
    is_number = np.array([column.dtype.kind in "iuf" for _, column in X.items()], dtype=np.bool_)
    values = []
    for number, (_, column) in zip(is_number, X.items(), strict=True):
        codes = column.to_numpy(dtype=np.float64, na_value=np.nan) if number else column.factorize()[0]
        values.append(codes if number else np.where(codes < 0, np.nan, codes))
    return duplicate_groups(np.column_stack(values), is_number) if values else ()


def _n_shared(column: Series) -> int:
    """The number of rows that share their value, if the column has the name of a patient identifier; otherwise 0."""
    known = column.dropna()
    if _NAMES_PATIENTS.fullmatch(str(column.name).strip()) is None or known.nunique() < _LEAST_PATIENTS:
        return 0
    if column.dtype.kind == "f" and not (known == known.round()).all():
        return 0
    return int(known.duplicated(keep=False).sum())


def _texts(X: DataFrame) -> list[str]:
    return [str(name) for name in X.columns if X[name].dtype.kind not in "biuf" and X[name].dtype.name != "category"]


def _identifier(column: Series) -> str | None:
    """Why a column looks like an identifier."""
    known = column.dropna()
    if len(known) < LEAST_ROWS or known.nunique() < NEARLY_ALL * len(known):
        return None
    named = _NAMED_LIKE_ONE.search(str(column.name)) is not None
    if column.dtype.kind in "iuf":
        numbers = known.to_numpy(dtype=np.float64)
        if not np.all(numbers == np.floor(numbers)):
            return None
        if named:
            return "nearly all values are different whole numbers, and its name suggests an identifier"
        steps = np.diff(numbers)
        if known.nunique() == len(known) and (np.all(steps == 1) or np.all(steps > 0)):
            return "whole numbers that increase from row to row"
        return None
    return "nearly all values are different, and its name suggests an identifier" if named else None


def _alone(column: Series, y: Series) -> float | None:
    """The share of the cases whose outcome the column alone predicts, if it is suspiciously high; otherwise None."""
    known = column.notna().to_numpy()
    if known.sum() < LEAST_ROWS:
        return None
    x, truth = column[known], y[known]
    if truth.dtype.kind == "f" and (truth.nunique() > _MOST_CLASSES or (truth != truth.round()).any()):
        # The outcome is a number.
        if column.dtype.kind not in "iuf" or x.nunique() < 3 or truth.nunique() < 3:
            return None
        same = abs(float(np.corrcoef(x.to_numpy(np.float64), truth.to_numpy(np.float64))[0, 1]))
        return same if same > 0.999 else None
    _, codes = np.unique(truth.astype(str).to_numpy(), return_inverse=True)
    if np.bincount(codes).max() > _USUAL * len(codes):
        return None
    if column.dtype.kind in "iuf" and x.nunique() > 10:
        share = _by_thresholds(x.to_numpy(np.float64), codes)
    else:
        _, levels = np.unique(x.astype(str).to_numpy(), return_inverse=True)
        if 4 * (levels.max() + 1) > len(levels):
            return None  # too few cases for each value
        table = np.zeros((levels.max() + 1, codes.max() + 1))
        np.add.at(table, (levels, codes), 1.0)
        share = float(table.max(axis=1).sum() / len(codes))
    return share if share >= _LEAK else None


def _by_thresholds(x: np.ndarray, codes: np.ndarray) -> float:
    """Accuracy of dividing the numbers at one cut for each further class; with two classes, at the best cut."""
    order = np.argsort(x, kind="stable")
    ordered, values = codes[order], x[order]
    n_classes = int(codes.max()) + 1
    if n_classes == 2:
        ones = np.concatenate([[0], np.cumsum(ordered)])
        place = np.arange(len(ordered) + 1)
        allowed = np.concatenate([[True], values[1:] > values[:-1], [True]])
        right = (place - ones) + (ones[-1] - ones)
        best = np.maximum(right, len(ordered) - right)[allowed].max()
        return float(best / len(ordered))
    runs = 1 + int((ordered[1:] != ordered[:-1]).sum())
    return 1.0 if runs == n_classes else 0.0


def _copies(X: DataFrame) -> dict[str, str]:
    """Columns with the same content as an earlier one: equal, or with other names for the same values."""
    seen: dict[bytes, str] = {}
    copies = {}
    for name in X.columns:
        column = X[name]
        # Codes by first appearance are equal for columns that differ only in the names of their values.
        codes = column.astype(object).where(column.notna(), None).factorize()[0]
        key = codes.astype(np.int32).tobytes()
        if key in seen:
            copies[str(name)] = seen[key]
        elif column.nunique() < NEARLY_ALL * len(column) or column.dtype.kind == "f":
            seen[key] = str(name)
    return copies
