"""Comparison of numbers by rank: two numbers agree if at most a given share of the past cases lies between them.

A column stores K past values at evenly spaced ranks, its *knots*. The code of a number is the count of knots below it
plus the count of knots not above it: an integer from 0 to 2K that is twice the mid-rank of the number among the knots.
Codes agree if they differ by at most ``floor(2K p / 100)`` for a share of p percent. The window is larger by one half,
so rounding has no effect, and equal numbers agree even for the smallest share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import ROUND_FLOOR, Context, Decimal, InvalidOperation
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST_KNOTS = 101  # for steps of 1%
_DOWN = Context(rounding=ROUND_FLOOR)  # 49.999...% stays under 50 with any number of digits


class Share(NamedTuple):
    """A window in ranks, as a percentage of the past cases."""

    percent: Decimal  # exact: 29% of 200 is 58


def read_share(where: str, wish: str) -> Share:
    """Parse a percentage; `where` names the argument in messages.

    Examples
    --------
    >>> read_share("windows", "10%")
    Share(percent=Decimal('10'))
    """
    number, sign, rest = wish.partition("%")
    try:
        percent = Decimal(number)
    except InvalidOperation:
        percent = Decimal(0)
    if not sign or rest.strip() or not percent.is_finite() or not 0 < percent < 50:
        raise ValueError(
            f"{where}={wish!r} is not a distance; pass a finite number above 0, or a percentage of the past cases "
            f"as a string, such as '10%', above 0 and under 50"
        )
    return Share(percent)


def learn_knots(numbers: NDArray[np.float64]) -> tuple[float, ...]:
    """Quantiles of the known values of a column, in order; each is a value, and frequent values are repeated.

    There are at most 101, and at most half as many as there are cases: enough to distinguish the ranks of 200 cases
    without storing all their values.

    Examples
    --------
    >>> learn_knots(np.array([1.0, 2.0, 2.0, 2.0, 3.0, 9.0]))
    (1.0, 2.0, 3.0)
    """
    n = len(numbers)
    n_knots = max(1, min(MOST_KNOTS, n // 2))
    odd = 2 * np.arange(n_knots) + 1
    place = -(-n * odd // (2 * n_knots)) - 1  # the first case whose rank is at least (k + 1/2) / K
    return tuple((np.sort(numbers)[place] + 0.0).tolist())


def rank_window(share: Share, n_knots: int) -> float:
    """Largest difference between codes that agree, plus one half.

    Examples
    --------
    >>> rank_window(Share(Decimal(10)), 100), rank_window(Share(Decimal(10)), 1)
    (20.5, 0.5)
    """
    return int(_DOWN.multiply(share.percent, 2 * n_knots)) // 100 + 0.5


def n_rank_values(n_knots: int, window: float) -> float:
    """V_j: the number of codes divided by the number of codes that agree with one of them.

    Examples
    --------
    >>> round(n_rank_values(100, 20.5), 2)
    4.9
    """
    return (2 * n_knots + 1) / (2.0 * window)


def rank_codes(knots: Sequence[float], numbers: NDArray[np.float64]) -> NDArray[np.float64]:
    """The codes of numbers, (n,): the count of knots below each number plus the count of knots not above it.

    Examples
    --------
    >>> rank_codes((1.0, 2.0, 2.0), np.array([0.5, 1.0, 1.5, 2.0, 7.0]))
    array([0., 1., 2., 4., 6.])
    """
    below, not_above = (np.searchsorted(knots, numbers, side=side) for side in ("left", "right"))
    return (below + not_above).astype(np.float64)


def knot_of(knots: Sequence[float], code: int) -> tuple[float, bool]:
    """A knot near a code, and whether the code is the code of this knot.

    Examples
    --------
    >>> [knot_of((1.0, 2.0, 2.0), code) for code in (1, 2, 4, 6)]
    [(1.0, True), (2.0, False), (2.0, True), (2.0, False)]
    """
    knot = knots[min(code // 2, len(knots) - 1)]
    return knot, bool(rank_codes(knots, np.array([knot]))[0] == code)


def rank_complaints(knots: Sequence[float], window: float, low: float, high: float) -> list[str]:
    """Errors in the values of a ranked column, which must be finite numbers."""
    if not 1 <= len(knots) <= MOST_KNOTS:
        return [f"a ranked column has between 1 and {MOST_KNOTS} knots"]
    complaints = []
    if any(a > b for a, b in pairwise((low, *knots, high))):
        complaints.append("its knots are out of order or outside its range")
    if not 0 < window < len(knots) or math.modf(window)[0] != 0.5:
        complaints.append("its window is not half an odd integer, or not below its number of knots")
    return complaints
