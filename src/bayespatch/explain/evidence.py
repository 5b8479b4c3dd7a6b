"""The values on which a past case agrees with a case, and which of them matter most."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayespatch.encode import MISSING_NUMBER, Column
from bayespatch.encode.column import bin_text, number_text
from bayespatch.encode.ranks import rank_codes
from bayespatch.model import Data, Model

HALF = 0.5  # mark the fewest agreeing values that carry this share of their total weight,
MOST_MARKED = 1 / 3  # but at most this share of the agreeing values


def agreement(x: NDArray[np.float64], cases: Data) -> NDArray[np.bool_]:
    """Whether each parent agrees with a case on each feature, (S, P); a missing value (NaN) agrees with nothing."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(cases.x_parents - x) <= cases.windows)


def effects(model: Model, n_values: NDArray[np.float64], importance: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log odds ratio of being the neighbor for agreeing on a feature instead of differing, (P,)."""
    hyper = model.hyper
    first = n_values * hyper.lam0
    agree = 1.0 - importance + importance * n_values * (hyper.lam0 + hyper.lam) / (first + hyper.lam)
    differ = 1.0 - importance + importance * first / (first + hyper.lam)
    return np.asarray(np.log(agree / differ))


def mark(agrees: NDArray[np.bool_], counts: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Mark the agreeing values of a past case that matter most, (P,).

    These are the fewest values that carry half of the total weight of the agreeing ones, at most a third of them (one
    if fewer than three agree).

    Parameters
    ----------
    agrees : bool array of shape (P,)
    counts : array of shape (P,)
        Nonnegative weight of each value of the case: the size of its points.

    Examples
    --------
    >>> mark(np.array([True, True, True, False]), np.array([20.0, 5.0, 1.0, 30.0]))
    array([ True, False, False, False])
    """
    each = np.where(agrees, counts, 0.0)
    order = np.argsort(-each, kind="stable")
    enough = int(np.searchsorted(np.cumsum(each[order]), HALF * each.sum())) + 1
    marked = np.zeros(len(each), dtype=np.bool_)
    marked[order[: min(enough, max(1, int(MOST_MARKED * agrees.sum())))]] = True
    return marked & (each > 0.0)


def common_value(column: Column, codes: NDArray[np.float64]) -> str | None:
    """The value of some past cases, from their codes, if all have the same.

    Examples
    --------
    >>> common_value(Column("sex", "categorical", "text", ("female", "male")), np.array([1.0, 1.0]))
    'male'
    """
    different = np.unique(codes)
    return column.decode(different[0]) if column.is_coded and len(different) == 1 else None


def close_range(column: Column, code: float, number: float) -> str | None:
    """Range of numbers that agree with the case's number; None if only equal values agree or if it is missing.

    Parameters
    ----------
    column : Column
    code, number : float
        The case's code and its number.

    Examples
    --------
    >>> close_range(Column("age", "binned", "number", edges=(45.0, 55.0)), 1.0, 50.0)
    '45-55'
    >>> close_range(Column("age", "windowed", "number", window=5.0, low=30.0, high=80.0), 50.0, 50.0)
    '45 to 55'
    """
    if column.is_coded or not np.isfinite(number) or number <= MISSING_NUMBER:
        return None
    if column.kind == "binned":
        return bin_text(column.edges, int(code))
    if column.kind == "windowed":
        low, high = number - column.window, number + column.window
    else:
        knots = np.array([column.low, *column.knots, column.high])
        near = knots[np.abs(rank_codes(column.knots, knots) - code) <= column.window]
        inside = min(max(number, column.low), column.high)
        low, high = min([*near.tolist(), inside]), max([*near.tolist(), inside])
    return f"{number_text(float(f'{low:.6g}'))} to {number_text(float(f'{high:.6g}'))}"
