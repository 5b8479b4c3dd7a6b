"""An approximate upper bound on the odds that a parent is a neighbor, used to reject nearly all parents quickly.

A case has a few neighbors among hundreds of parents. The odds of a parent contain a product over features. Here it is
computed in single precision, which reads half as much memory and uses twice as many lanes. Slightly wider windows, and
a margin above the largest possible rounding error, turn the product into an upper bound. If a parent passes, its exact
odds are computed (``weigh.py``) with the same uniform number, so the distribution of the neighbors does not depend on
this file; in Models I and II, the draws do not depend on it either. (Model III draws no random numbers for rejected
parents, so its later draws differ but have the same distribution.)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.engine.compiling import compiled, vectorised_inline
from bayespatch.engine.cpu.layout import PaddedTable, on_cache_line
from bayespatch.engine.votes import (
    BOUND,
    C2,
    PARENT_MISSING,
    R_AGREE,
    R_DIFFER,
    VOTE_ON,
    WINDOW,
    Constants,
    label_ratio,
)

# The relative error of a factor 1 + q~ (R - 1) in single precision is below this times (1 + 1 / R).
ROUNDING = 4e-7
# Products below 1e-37 are set to 0. If the product of the other factors cannot exceed this limit, the odds are below
# 1e-15, which is less than the smallest positive uniform number.
LARGEST = 1e18


class Rough(NamedTuple):
    """The data in single precision, with width F as in `PaddedTable`, and scratch memory of one thread."""

    x: NDArray[np.float32]  # (N, F)
    x_parents: NDArray[np.float32]  # (S, F)
    windows: NDArray[np.float32]  # (F,) a little wider
    on: NDArray[np.float32]  # (S, F) q~ as votes: 0 where the parent's value is missing
    gain: NDArray[np.float32]  # (2, F) R - 1 of a parent that differs, or agrees, at its largest
    lead: NDArray[np.float64]  # (M,) prior odds times the largest H, with the allowance for rounding
    allowance: NDArray[np.float64]  # (1,) the largest factor by which rounding can make a product too small


def blank_rough(c: Constants, t: PaddedTable, n_threads: int) -> list[Rough]:
    """The shared tables with separate scratch memory for every thread."""
    size = np.abs(np.concatenate([t.x, t.x_parents]))
    largest = np.where(size < PARENT_MISSING, size, 0.0).max(axis=0)
    x, x_parents = on_cache_line(_single(t.x)), on_cache_line(_single(t.x_parents))
    wider = t.feature[WINDOW] + ROUNDING * (largest + t.feature[WINDOW])
    windows = np.nextafter(_single(wider), np.float32(np.inf))
    on = on_cache_line(np.zeros(x_parents.shape, np.float32))
    # The smallest R is T / (T + lam), where T is at least c2; in Model III it is not below 1.
    error = ROUNDING * (2.0 + c.lam / t.feature[C2, : c.n_features]).sum()
    allowance = np.array([math.exp(error) if error < 1.0 else math.inf])
    n_classes = t.mu.shape[1]
    gain, lead = np.zeros((2, len(windows)), np.float32), np.zeros(n_classes)
    return [
        Rough(x, x_parents, on_cache_line(windows), on, on_cache_line(gain), on_cache_line(lead), allowance)
        for _ in range(n_threads)
    ]


def _single(numbers: NDArray[np.float64]) -> NDArray[np.float32]:
    """In single precision: missing values become infinite and agree with nothing; numbers that are too large become
    equal.
    """
    largest = float(np.finfo(np.float32).max)
    missing = np.abs(numbers) >= PARENT_MISSING
    return np.where(missing, np.copysign(np.inf, numbers), np.clip(numbers, -largest, largest)).astype(np.float32)


def fill_rough(rough: Rough, importance: NDArray[np.float64]) -> None:
    """Copy q~ as used for votes from the importances (4, S, F)."""
    rough.on[:] = importance[VOTE_ON]


@vectorised_inline
def fill_gains(c, votes, gain):
    """Set the largest R - 1 of a parent that differs, or agrees; returns the product of R if all features agree."""
    largest = 1.0
    for j in range(gain.shape[1]):
        agree = votes[R_AGREE, j] if c.kind < 3 else votes[BOUND, j]
        gain[0, j] = votes[R_DIFFER, j] if c.kind < 3 else 0.0
        gain[1, j] = agree
        largest *= 1.0 + agree
    return largest


@compiled
def prepare_bound(c, mu, votes, class_votes, label_factor, gain, lead, allowance, y):
    """Compute the parts that depend on the votes on the case; an unreliable bound is infinite."""
    largest = fill_gains(c, votes, gain)
    for m in range(lead.shape[0]):
        if c.kind == 1:
            label = label_factor[m, 1]
        elif c.kind == 2:
            label = max(1.0, label_factor[m, c.n_features])
        else:
            label = max(1.0, label_ratio(c, mu, class_votes, y, m, 1.0))
        others = c.prior_odds * label
        lead[m] = others * allowance[0] if others * largest < LARGEST else math.inf


@vectorised_inline
def bound_product(x, x_parents, windows, on, gain, i, b):
    """An approximation of prod_j (1 + q~ (R_j - 1)) for one parent: the innermost loop of the whole program."""
    one = np.float32(1.0)
    product = one
    for j in range(x.shape[1]):
        d = gain[0, j]  # read unconditionally, because vector instructions need both values anyway
        a = gain[1, j]
        product *= one + on[b, j] * (a if abs(x_parents[b, j] - x[i, j]) <= windows[j] else d)
    return float(product)
