"""Rows that repeat other rows more often than expected by chance: a patient entered twice, or several visits."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree
from scipy.stats import poisson

TOLERANCES = (0.05, 0.1, 0.2, 0.4)  # differences that count as equal, in standard deviations of the column
_SIGNIFICANCE = 1e-3  # level of the test against chance
_MOST_BY_CHANCE = 0.125  # largest share of the nearly equal pairs that may be due to chance at a wider tolerance
_TELLING = 0.9  # a column on which a larger share of pairs agrees is not informative about chance agreement
_IQR_OF_NORMAL = 1.349  # interquartile range of a normal distribution, in standard deviations
_MOST_PAIRS = 20  # close pairs per row that are listed individually


class RepeatedRowsWarning(UserWarning):
    """Rows repeat others, or nearly do, more often than chance explains: visits of one patient, a table twice."""


def duplicate_groups(values: ArrayLike, is_number: ArrayLike) -> tuple[NDArray[np.int64], ...]:
    r"""Groups of equal or nearly equal rows, if there are more than expected by chance.

    Two rows are nearly equal if all their categories are equal, all their numbers differ by at most 5% of the column's
    standard deviation (estimated from the quartiles), and the same values are missing. A table with few distinct
    combinations has equal rows by chance, so the number of equal pairs is compared with the expected number, which is
    the larger of

    - the pairs expected if columns were independent, :math:`\binom{n}{2} \prod_j m_j`, where :math:`m_j` is the share
      of pairs of rows that agree on column j;
    - the pairs expected from pairs that differ only in one column: from :math:`b_j` pairs that agree on all columns
      except j, :math:`b_j m_j / (1 - m_j)` pairs are expected to agree on j as well, regardless of how the other
      columns are correlated. The second largest of these numbers is used, so that a single column that varies between
      the visits of a patient does not hide them.

    If a Poisson test with twice this mean does not reject at 0.001, there are no groups, unless the table looks as if
    it had been appended to itself: there are at least ten distinct rows, and each occurs an even number of times (or a
    multiple of 3, and so on). In a table with groups, other visits may differ more, so the tolerance is doubled, up to
    40%, while at most an eighth of the pairs is expected by chance. The running time is :math:`O(P n \log n)`.

    Parameters
    ----------
    values : array of shape (n, P)
        Numbers, or codes of categories; NaN if a value is missing. Omit identifiers and the outcome.
    is_number : bool array of shape (P,)
        Which columns are numbers, compared with a tolerance. All others must be equal.

    Returns
    -------
    tuple of int arrays
        The rows of each group, at least two, in ascending order; groups are ordered by their first row.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> patients = rng.normal(size=(40, 5))
    >>> duplicate_groups(patients, np.full(5, True))
    ()
    >>> visits = np.repeat(patients, 2, axis=0) + rng.normal(0.0, 0.005, (80, 5))
    >>> groups = duplicate_groups(visits, np.full(5, True))
    >>> len(groups), groups[1].tolist()
    (40, [2, 3])
    """
    x = np.array(values, dtype=np.float64)
    numeric = np.asarray(is_number, dtype=np.bool_)
    if x.ndim != 2 or numeric.shape != (x.shape[1],):
        raise ValueError(f"values has shape {x.shape} and is_number {numeric.shape}; pass (n, P) and (P,)")
    if len(x) < 2 or x.shape[1] == 0:
        return ()
    whole = _appended(x)
    if whole is not None:
        return _groups(whole)
    spread = np.array([_spread(x[:, j]) if numeric[j] else 0.0 for j in range(x.shape[1])])
    labels = None
    for tolerance in TOLERANCES if spread.any() else TOLERANCES[:1]:
        wider, n_equal, expected = _nearly_equal(x, tolerance * spread)
        if labels is None and (n_equal == 0 or poisson.sf(n_equal - 1, 2.0 * expected) >= _SIGNIFICANCE):
            return ()
        if labels is not None and expected > _MOST_BY_CHANCE * n_equal:
            break
        labels = wider
    assert labels is not None
    return _groups(labels)


def _nearly_equal(x: NDArray[np.float64], units: NDArray[np.float64]) -> tuple[NDArray[np.int64], float, float]:
    """Labels of the groups of rows that differ by at most `units`, the number of such pairs, and that expected."""
    numeric = units > 0.0  # a column without spread is treated as categorical
    x = np.where(numeric, x / np.where(numeric, units, 1.0), x)
    # Two random values are as likely to share a cell two tolerances wide as to be within one tolerance of each other.
    cells = np.column_stack([_codes(np.floor(x[:, j] / 2.0) if numeric[j] else x[:, j]) for j in range(x.shape[1])])
    n_equal, expected = _equal_pairs(cells)
    if expected > len(x):
        return np.arange(len(x)), 0.0, expected
    if n_equal > _MOST_PAIRS * len(x):
        return _codes_of_rows(cells), n_equal, expected  # too many pairs to list, so group the rows in each cell
    return *_close_rows(x, cells, numeric), expected


def duplicates_text(groups: tuple[NDArray[np.int64], ...], n_rows: int) -> str:
    """The number of rows that repeat other rows, with an example; rows are numbered from 0.

    Examples
    --------
    >>> duplicates_text((np.array([0, 7]), np.array([2, 3, 9])), 10)
    '3 of 10 rows repeat an earlier row or nearly do (such as rows 0 and 7)'
    """
    n_repeats = sum(len(group) - 1 for group in groups)
    rows = ", ".join(map(str, groups[0][:-1][:3])) + (" ..." if len(groups[0]) > 4 else "")
    return f"{n_repeats} of {n_rows} rows repeat an earlier row or nearly do (such as rows {rows} and {groups[0][-1]})"


def group_labels(groups: tuple[NDArray[np.int64], ...], n_rows: int) -> NDArray[np.int64]:
    """A number for each row, which identifies its group.

    Examples
    --------
    >>> group_labels((np.array([0, 3]),), 5).tolist()
    [0, 1, 2, 0, 4]
    """
    labels = np.arange(n_rows)
    for group in groups:
        labels[group] = group[0]
    return labels


def _groups(labels: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """The rows of each label with more than one row."""
    order = np.argsort(labels, kind="stable")
    parts = np.split(order, 1 + np.flatnonzero(np.diff(labels[order])))
    return tuple(sorted((part for part in parts if len(part) > 1), key=lambda part: int(part[0])))


def _spread(column: NDArray[np.float64]) -> float:
    """The standard deviation, estimated from the quartiles if these differ."""
    known = column[~np.isnan(column)]
    if known.size == 0:
        return 0.0
    low, high = np.quantile(known, [0.25, 0.75])
    return float(high - low) / _IQR_OF_NORMAL if high > low else float(known.std())


def _codes(column: NDArray[np.float64]) -> NDArray[np.int64]:
    """A code for each distinct value, including missing."""
    return np.asarray(np.unique(column, return_inverse=True, equal_nan=True)[1], dtype=np.int64)


def _hashes(codes: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A random number for each value of each column, (n, P), whose sum over the columns is a hash of the row."""
    rng = np.random.default_rng(0)
    return np.column_stack(
        [rng.integers(0, 2**64, int(column.max()) + 1, dtype=np.uint64)[column] for column in codes.T]
    )


def _appended(x: NDArray[np.float64]) -> NDArray[np.int64] | None:
    """Labels of equal rows if each distinct row occurs a multiple of k times; by chance, half the counts are even."""
    labels = _codes_of_rows(np.column_stack([_codes(column) for column in x.T]))
    counts = np.bincount(labels)
    return labels if np.gcd.reduce(counts) > 1 and 0.5 ** len(counts) < _SIGNIFICANCE else None


def _codes_of_rows(codes: NDArray[np.int64]) -> NDArray[np.int64]:
    """A code for each distinct row."""
    if codes.shape[1] == 0:
        return np.zeros(len(codes), dtype=np.int64)
    return np.asarray(np.unique(_hashes(codes).sum(axis=1), return_inverse=True)[1], dtype=np.int64)


def _n_pairs(keys: NDArray[np.uint64] | NDArray[np.int64]) -> float:
    """Number of pairs with equal keys."""
    counts = np.unique(keys, return_counts=True)[1].astype(np.float64)
    return float((counts * (counts - 1.0)).sum() / 2.0)


def _equal_pairs(codes: NDArray[np.int64]) -> tuple[float, float]:
    """The number of pairs of equal rows, and the number expected by chance."""
    n, n_columns = codes.shape
    all_pairs = n * (n - 1.0) / 2.0
    hashes = _hashes(codes)
    rows = hashes.sum(axis=1)
    n_equal = _n_pairs(rows)
    agree = np.array([_n_pairs(codes[:, j]) for j in range(n_columns)]) / all_pairs
    telling = np.flatnonzero(agree <= _TELLING)
    predictions = sorted((_n_pairs(rows - hashes[:, j]) - n_equal) * agree[j] / (1.0 - agree[j]) for j in telling)
    from_one_less = predictions[-2] if len(predictions) > 2 else max(predictions, default=0.0)
    return n_equal, max(all_pairs * float(agree.prod()), from_one_less)


def _close_rows(
    x: NDArray[np.float64], cells: NDArray[np.int64], numeric: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], float]:
    """Labels of the groups of nearly equal rows, and the number of pairs of nearly equal rows."""
    # Categories and the pattern of missing numbers must be equal. Equal rows are combined into a single point.
    numbers = x[:, numeric]
    exact = _codes_of_rows(np.column_stack([cells[:, ~numeric], np.isnan(numbers).astype(np.int64)]))
    numbers = np.nan_to_num(numbers, nan=0.0)
    points, label, sizes = np.unique(
        np.column_stack([2.0 * exact, numbers]), axis=0, return_inverse=True, return_counts=True
    )
    pairs = cKDTree(points).query_pairs(1.0, p=np.inf, output_type="ndarray")
    weight = sizes.astype(np.float64)
    n_close = float((weight * (weight - 1.0)).sum() / 2.0 + (weight[pairs[:, 0]] * weight[pairs[:, 1]]).sum())
    links = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(points), len(points)))
    joined = connected_components(links, directed=False)[1]
    return np.asarray(joined[label.reshape(-1)], dtype=np.int64), n_close
