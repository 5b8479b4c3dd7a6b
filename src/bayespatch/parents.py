"""The choice of parents: past cases that may be neighbors of other cases.

Parents are all past cases (``parents="all"``), or some of them: drawn at random as in the paper, drawn evenly from the
classes, chosen as representatives (medoids), or specified by the user. If only some are parents, the model is trained
on the others, so the two sets are disjoint.
"""

from __future__ import annotations

from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayespatch.model import HIDDEN
from bayespatch.validation import check_choice, check_count

WAYS = ("all", "random", "balanced", "medoids")
SAMPLED = 10_000  # above this number of cases, medoids come from a random sample (at least two rows per medoid)
MOST_ROUNDS = 20  # rounds of improving the medoids; most runs converge earlier
_BLOCK = 2**22  # entries of a distance matrix in memory at a time


class Parents(NamedTuple):
    """Parents and cases, as rows of the training table, both in increasing order.

    Attributes
    ----------
    parents : int array of shape (S,)
        The parents.
    cases : int array of shape (N,)
        The cases: all rows with ``parents="all"``, otherwise the rows that are not parents.
    """

    parents: NDArray[np.int64]
    cases: NDArray[np.int64]


def choose_parents(
    parents: str | int | ArrayLike,
    x: NDArray[np.float64],
    y: NDArray[np.int64],
    rng: np.random.Generator,
    *,
    n_parents: int | float | None = None,
    windows: NDArray[np.float64] | None = None,
) -> Parents:
    """Choose the parents among the rows of a coded training table.

    Only cases with a known class can be parents. At least one row must remain as a case.

    Parameters
    ----------
    parents : {"all", "random", "balanced", "medoids"}, int, or array
        "all": every case is a candidate parent of every other. "random": `n_parents` at random, as in the paper; an int
        is shorthand for this. "balanced": the same number from each class; if a class has too few cases, all of them
        are used, and the rest is taken evenly from the other classes. "medoids": `n_parents` representatives, chosen
        regardless of class so that each row is close to one of them. An array: rows of the table, or a boolean mask.
    x : array of shape (n, P)
        Codes; used only by "medoids".
    y : int array of shape (n,)
        Classes 0..M-1, or -1 if unknown.
    rng : numpy Generator
        The same state gives the same parents.
    n_parents : int or float, optional
        Number of parents, for "random", "balanced" and "medoids"; below 1, a share of the rows, rounded up.
    windows : array of shape (P,), optional
        Largest difference between two codes that agree; 0 by default.

    Returns
    -------
    Parents

    Examples
    --------
    >>> y = np.array([0, 0, 0, 0, 1, 1])
    >>> x = np.arange(6.0)[:, None]
    >>> chosen = choose_parents("balanced", x, y, np.random.default_rng(0), n_parents=4)
    >>> int(y[chosen.parents].sum()), len(chosen.cases)
    (2, 2)
    >>> choose_parents([0, 5], x, y, np.random.default_rng(0)).cases
    array([1, 2, 3, 4])
    """
    n_rows = len(y)
    known = np.flatnonzero(np.asarray(y) != HIDDEN)
    if isinstance(parents, Integral) and not isinstance(parents, bool):
        if n_parents is not None:
            raise ValueError(
                f"parents={parents} and n_parents={n_parents} both set the number of parents; pass one of them"
            )
        parents, n_parents = "random", int(parents)
    if not isinstance(parents, str):
        _refuse_number(n_parents, "explicit rows")
        return _split(_given(parents, n_rows, known), n_rows)
    check_choice("parents", parents, WAYS)
    if parents == "all":
        _refuse_number(n_parents, "parents='all'")
        if len(known) < n_rows:
            raise ValueError(
                f"parents='all' needs the class of every case, but {n_rows - len(known)} are not known; "
                f"pass parents='random' with n_parents"
            )
        all_rows = np.arange(n_rows)
        return Parents(all_rows, all_rows)
    n = _how_many(parents, n_parents, n_rows, len(known))
    if parents == "random":
        chosen = rng.choice(known, n, replace=False)
    elif parents == "balanced":
        chosen = _balanced(known, np.asarray(y)[known], n, rng)
    else:
        radii = np.zeros(x.shape[1]) if windows is None else np.asarray(windows, dtype=np.float64)
        chosen = known[medoids(np.asarray(x, dtype=np.float64)[known], radii, n, rng)]
    return _split(chosen, n_rows)


def choose_shown(
    shown: str | int | ArrayLike, parents: NDArray[np.int64], n_rows: int, rng: np.random.Generator
) -> NDArray[np.int64] | None:
    """The parents that may be named and shown, as rows; None means all parents.

    Parameters
    ----------
    shown : "all", int, or array
        An int: this number of random parents. An array: rows of the table, or a boolean mask.
    parents : int array of shape (S,)
    n_rows : int
    rng : numpy Generator

    Examples
    --------
    >>> everyone = np.arange(6)
    >>> choose_shown([4, 1], everyone, 6, np.random.default_rng(0)).tolist()
    [1, 4]
    >>> len(choose_shown(2, everyone, 6, np.random.default_rng(0)))
    2
    """
    if isinstance(shown, str):
        check_choice("shown", shown, ("all",))
        return None
    if isinstance(shown, Integral) and not isinstance(shown, bool):
        n = check_count("shown", shown, at_least=1)
        return None if n >= len(parents) else np.sort(rng.choice(parents, n, replace=False))
    rows = _given(shown, n_rows, np.arange(n_rows), "shown", ("all",))
    not_parents = np.setdiff1d(rows, parents)
    if not_parents.size:
        raise ValueError(f"shown names row {not_parents[0]}, which does not vote; pass rows that are among the parents")
    return rows


def _split(chosen: NDArray[np.int64], n_rows: int) -> Parents:
    is_case = np.ones(n_rows, dtype=np.bool_)
    is_case[chosen] = False
    if not is_case.any():
        raise ValueError(f"all {n_rows} rows are parents and no case remains for training; pass parents='all'")
    return Parents(np.flatnonzero(~is_case), np.flatnonzero(is_case))


def _refuse_number(n_parents: float | None, beside: str) -> None:
    if n_parents is not None:
        raise ValueError(f"n_parents={n_parents!r} is not used with {beside}; remove it")


def _how_many(parents: str, n_parents: float | None, n_rows: int, n_known: int) -> int:
    """The number of parents; at least one case must remain."""
    if n_parents is None:
        raise ValueError(f"parents={parents!r} needs the number of parents; pass n_parents, such as n_parents=80")
    if isinstance(n_parents, bool) or not isinstance(n_parents, Real):
        raise ValueError(f"n_parents={n_parents!r} is not a number; pass an integer, or a share between 0 and 1")
    if not isinstance(n_parents, Integral):
        if not 0 < n_parents < 1:
            raise ValueError(f"n_parents={n_parents!r} is not a share of the cases; pass an integer, or 0 < share < 1")
        n_parents = int(np.ceil(n_parents * n_known))
    most = min(n_known, n_rows - 1)
    if not 1 <= n_parents <= most:
        raise ValueError(
            f"n_parents={n_parents} is too large or too small for {n_rows} cases, {n_known} with a known class; "
            f"pass a number from 1 to {most}, or parents='all'"
        )
    return int(n_parents)


def _given(
    rows: ArrayLike,
    n_rows: int,
    known: NDArray[np.int64],
    name: str = "parents",
    ways: tuple[str, ...] = WAYS,
) -> NDArray[np.int64]:
    """The rows that the user specified as row numbers or as a mask."""
    array = np.asarray(rows)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "biu":
        raise ValueError(
            f"{name}={rows!r} is not valid; choose one of {', '.join(map(repr, ways))}, or pass the numbers of the "
            f"rows, or a mask of True and False"
        )
    if array.dtype.kind == "b":
        if len(array) != n_rows:
            raise ValueError(
                f"{name} is a mask over {len(array)} rows, but the table has {n_rows}; pass one value for each row"
            )
        array = np.flatnonzero(array)
        if array.size == 0:
            raise ValueError(f"{name} is a mask without a single True; mark at least one row")
    outside = array[(array < 0) | (array >= n_rows)]
    if outside.size:
        raise ValueError(
            f"{name} names row {outside[0]}, but rows are numbered from 0 to {n_rows - 1}; pass numbers in this range"
        )
    values, counts = np.unique(array, return_counts=True)
    if counts.max() > 1:
        raise ValueError(f"{name} names row {values[counts.argmax()]} more than once; name every row once")
    hidden = np.setdiff1d(values, known)
    if hidden.size:
        raise ValueError(f"{name} names row {hidden[0]}, whose class is not known; parents need a class")
    return values.astype(np.int64)


def _balanced(
    rows: NDArray[np.int64], classes: NDArray[np.int64], n: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw n rows by taking one from each class in turn, in random order, skipping exhausted classes."""
    turn = np.empty(len(rows), dtype=np.int64)
    for m in np.unique(classes):
        members = np.flatnonzero(classes == m)
        turn[rng.permutation(members)] = np.arange(len(members))
    place_of_class = rng.permutation(classes.max() + 1)[classes]
    return rows[np.lexsort((place_of_class, turn))[:n]]


# Medoids


def medoids(
    x: NDArray[np.float64], windows: NDArray[np.float64], n: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """`n` representative rows; the distance between two rows is the number of features in which they differ.

    Initial medoids are chosen as in k-means++: each is drawn with probability proportional to its distance from the
    previous medoids. Then two steps alternate until nothing changes: every row joins its nearest medoid, and the member
    of each group that agrees most with the others becomes its medoid (k-medoids by alternation). PAM's swaps would find
    slightly better medoids, but their cost is quadratic in the number of rows. Here the best member of a group is found
    exactly by counting values within the group, without comparing pairs. With more than 10,000 rows, a random sample of
    this size is used (as in CLARA), so the cost is bounded by n times the sample size times the number of features.

    Parameters
    ----------
    x : array of shape (rows, P)
        Codes. A missing value (NaN) differs from everything.
    windows : array of shape (P,)
        Largest difference between two codes that agree.
    n : int
        At most the number of rows.
    rng : numpy Generator

    Returns
    -------
    int array of shape (n,)
        Distinct rows, in increasing order.

    Examples
    --------
    >>> x = np.repeat([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]], [5, 9, 7], axis=0)
    >>> x[medoids(x, np.zeros(2), 3, np.random.default_rng(0))].tolist()
    [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]
    """
    looked_at = np.arange(len(x))
    if len(x) > max(SAMPLED, 2 * n):
        looked_at = np.sort(rng.choice(len(x), max(SAMPLED, 2 * n), replace=False))
    rows = x[looked_at]
    centers = _spread(rows, windows, n, rng)
    least = np.inf
    best = centers
    for _ in range(MOST_ROUNDS):
        group, distance = _nearest(rows, windows, centers)
        total = float(distance.sum())
        if total >= least:
            break
        least, best = total, centers
        centers = _most_agreeing(rows, windows, group, centers)
        if np.array_equal(centers, best):
            break
    return np.sort(looked_at[best])


def _spread(
    rows: NDArray[np.float64], windows: NDArray[np.float64], n: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw seeds: the first at random, the others in proportion to the distance from the nearest seed."""
    columns = np.ascontiguousarray(rows.T)
    seeds = np.empty(n, dtype=np.int64)
    free = np.ones(len(rows), dtype=np.bool_)
    nearest = np.full(len(rows), rows.shape[1], dtype=np.int64)
    for k in range(n):
        weight = np.cumsum(nearest * free)
        if weight[-1] == 0:  # all remaining rows equal a seed
            weight = np.cumsum(free)
        seeds[k] = np.searchsorted(weight, rng.integers(weight[-1]), side="right")
        free[seeds[k]] = False
        agree = np.abs(columns - columns[:, seeds[k], None]) <= windows[:, None]
        np.minimum(nearest, rows.shape[1] - agree.sum(axis=0), out=nearest)
    return seeds


def _nearest(
    rows: NDArray[np.float64], windows: NDArray[np.float64], centers: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The position in `centers` of the nearest medoid of each row, and its distance. A medoid is nearest to itself."""
    n_features = rows.shape[1]
    group = np.empty(len(rows), dtype=np.int64)
    agreed = np.empty(len(rows), dtype=np.int64)
    step = max(1, _BLOCK // len(centers))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        agree = np.zeros((len(part), len(centers)), dtype=np.int16)
        for j in range(n_features):
            value, middle = part[:, j, None], rows[centers, j]
            agree += value == middle if windows[j] == 0 else np.abs(value - middle) <= windows[j]
        group[start : start + step] = agree.argmax(axis=1)
        agreed[start : start + step] = agree.max(axis=1)
    group[centers] = np.arange(len(centers))
    agreed[centers] = (~np.isnan(rows[centers])).sum(axis=1)
    return group, n_features - agreed


def _most_agreeing(
    rows: NDArray[np.float64], windows: NDArray[np.float64], group: NDArray[np.int64], centers: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The member of each group that agrees most with the group; ties are won by the current medoid, if involved."""
    agree = np.zeros(len(rows), dtype=np.int64)
    for j in range(rows.shape[1]):
        agree += _agreeing_members(rows[:, j], windows[j], group)
    agree = 2 * agree
    agree[centers] += 1  # so that a tie does not replace the current medoid
    best_first = np.lexsort((-agree, group))
    return best_first[np.searchsorted(group[best_first], np.arange(len(centers)))]


def _agreeing_members(values: NDArray[np.float64], window: float, group: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of members of its group, including itself, that each row agrees with in a feature."""
    known = np.flatnonzero(~np.isnan(values))
    distinct, level = np.unique(values[known], return_inverse=True)
    # Sort rows by group and value; the rows that agree with a row are then contiguous.
    low = np.searchsorted(distinct, distinct - window, side="left")
    high = np.searchsorted(distinct, distinct + window, side="right")
    first = group[known] * len(distinct)
    keys = np.sort(first + level)
    count = np.searchsorted(keys, first + high[level], side="left") - np.searchsorted(
        keys, first + low[level], side="left"
    )
    agree = np.zeros(len(values), dtype=np.int64)
    agree[known] = count
    return agree
