"""Edges for binning numbers.

Bins include their left edge: edges 45 and 55 give the bins under 45, from 45 up to but not including 55, and 55 and
above. The outer two bins are open-ended, so every number is in a bin.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral, Real
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.preprocessing import KBinsDiscretizer
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.multiclass import type_of_target

from bayespatch.types import AnyArray

Strategy = Literal["quantile", "uniform", "supervised"]
STRATEGIES: tuple[Strategy, ...] = ("quantile", "uniform", "supervised")
LEAST_SHARE, LEAST_CASES = 0.05, 5  # smallest share and number of cases in a supervised bin


class Cut(NamedTuple):
    """How to bin a column: at fixed `edges`, or into about `n_bins` bins chosen by the `strategy`."""

    strategy: Strategy
    n_bins: int
    edges: tuple[float, ...] = ()


def read_cut(where: str, wish: object, default: Cut) -> Cut:
    """Parse the bin setting of a column; `where` names the argument in messages.

    Examples
    --------
    >>> default = Cut("quantile", 4)
    >>> read_cut("bins", 5, default)
    Cut(strategy='quantile', n_bins=5, edges=())
    >>> read_cut("bins", ("uniform", 3), default)
    Cut(strategy='uniform', n_bins=3, edges=())
    >>> read_cut("bins", [45, 55], default).edges
    (45.0, 55.0)
    """
    if isinstance(wish, str):
        if wish not in STRATEGIES:
            raise ValueError(f"{where}={wish!r} is not valid; choose one of {', '.join(map(repr, STRATEGIES))}")
        return default._replace(strategy=wish)
    if isinstance(wish, Integral) and not isinstance(wish, bool):
        if wish < 2:
            raise ValueError(f"{where}={wish!r} is too few bins; pass an integer of at least 2")
        return default._replace(n_bins=int(wish))
    if isinstance(wish, tuple) and len(wish) == 2 and isinstance(wish[0], str):
        return read_cut(where, wish[1], read_cut(where, wish[0], default))
    if isinstance(wish, Sequence | np.ndarray) and len(wish) > 0:
        edges = tuple(float(edge) for edge in wish if isinstance(edge, Real) and np.isfinite(float(edge)))
        if len(edges) == len(wish) and all(low < high for low, high in pairwise(edges)):
            return default._replace(edges=edges)
    raise ValueError(
        f"{where}={wish!r} does not define bins; pass increasing edges such as [45, 55], a number of bins, "
        f"one of {', '.join(map(repr, STRATEGIES))}, or a pair such as ('uniform', 5)"
    )


def learn_edges(
    numbers: NDArray[np.float64], cut: Cut, outcome: NDArray[np.float64] | None = None
) -> tuple[float, ...]:
    """The bin edges of a column, from its known values and, for supervised bins, their outcomes.

    "quantile": bins with about equal numbers of cases, from scikit-learn's KBinsDiscretizer. If more than half of the
    cases share one value (such as a count that is mostly 0), this value gets a separate bin, and the other cases are
    divided. "uniform": bins of equal width. "supervised": a decision tree on this column only, with at most `n_bins`
    leaves that contain at least 5% of the cases each; a column that is not informative on its own gets a single bin.

    Edges for whole numbers are whole numbers, because below 54.5 and below 55 are the same.

    Examples
    --------
    >>> learn_edges(np.arange(100.0), Cut("quantile", 4))
    (25.0, 50.0, 75.0)
    >>> learn_edges(np.arange(100.0), Cut("supervised", 4), outcome=np.repeat([0.0, 1.0], [70, 30]))
    (70.0,)
    """
    if cut.edges:
        return cut.edges
    distinct, counts = np.unique(numbers, return_counts=True)
    if len(distinct) == 1:
        return ()
    if cut.strategy == "supervised":
        assert outcome is not None
        edges = _supervised(numbers, outcome, cut.n_bins)
    elif cut.strategy == "uniform":
        edges = _found(numbers, "uniform", cut.n_bins)
    elif len(distinct) <= cut.n_bins:
        edges = distinct[1:]
    elif 2 * counts.max() > len(numbers):
        edges = _around(distinct, int(np.argmax(counts)), numbers, cut.n_bins)
    else:
        edges = _quantiles(numbers, cut.n_bins)
        if not edges.size:  # every quantile equals the smallest or the largest value
            edges = _around(distinct, int(np.argmax(counts)), numbers, cut.n_bins)
    return tuple(_tidy(edges, distinct).tolist())


def _tidy(edges: NDArray[np.float64], distinct: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sorted edges with values on both sides, rounded to whole numbers if all values are whole."""
    if np.all(distinct == np.floor(distinct)):
        edges = np.ceil(edges)
    edges = np.unique(edges)
    return edges[(edges > distinct[0]) & (edges <= distinct[-1])]


def _found(numbers: NDArray[np.float64], strategy: str, n_bins: int) -> NDArray[np.float64]:
    """The inner edges from KBinsDiscretizer."""
    binner = KBinsDiscretizer(
        n_bins, encode="ordinal", strategy=strategy, quantile_method="averaged_inverted_cdf", subsample=None
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # bins that are too narrow are dropped, as intended
        edges: NDArray[np.float64] = binner.fit(numbers[:, None]).bin_edges_[0]
    return edges[1:-1]


def _quantiles(numbers: NDArray[np.float64], n_bins: int) -> NDArray[np.float64]:
    """Quantiles, computed from ranks because KBinsDiscretizer drops bins narrower than 1e-8 regardless of the unit."""
    distinct, rank = np.unique(numbers, return_inverse=True)
    return distinct[np.ceil(_found(rank.astype(np.float64), "quantile", n_bins)).astype(np.int64)]


def _around(distinct: NDArray[np.float64], mode: int, numbers: NDArray[np.float64], n_bins: int) -> NDArray[np.float64]:
    """A separate bin for the most frequent value, and quantile bins for the others."""
    others = numbers[numbers != distinct[mode]]
    edges = [*distinct[mode : mode + 2], others.min()]
    if n_bins > 2 and len(np.unique(others)) > 1:
        edges += list(_quantiles(others, n_bins - 1))
    return np.asarray(edges)


def _supervised(numbers: NDArray[np.float64], outcome: NDArray[np.float64], n_bins: int) -> NDArray[np.float64]:
    """The thresholds of a small tree, which is fitted to ranks, so that its single precision does not matter."""
    distinct, rank = np.unique(numbers, return_inverse=True)
    tree_class = DecisionTreeRegressor if type_of_target(outcome) == "continuous" else DecisionTreeClassifier
    least = max(LEAST_CASES, int(np.ceil(LEAST_SHARE * len(numbers))))
    tree = tree_class(max_leaf_nodes=n_bins, min_samples_leaf=least, random_state=0)
    tree.fit(rank.reshape(-1, 1).astype(np.float64), outcome)
    inner = tree.tree_.children_left >= 0
    return distinct[np.floor(tree.tree_.threshold[inner]).astype(np.int64) + 1]


def read_outcome(y: ArrayLike | None, n_rows: int) -> NDArray[np.float64]:
    """The outcomes for supervised bins: classes become numbers 0, 1, ...; numeric outcomes are unchanged."""
    if y is None:
        raise ValueError("bins='supervised' needs the outcome; pass y, or bins='quantile'")
    outcome: AnyArray = np.asarray(y)
    if outcome.shape != (n_rows,):
        raise ValueError(f"y has shape {outcome.shape} for {n_rows} rows; pass one outcome per row")
    if outcome.dtype.kind == "f" and not np.isfinite(outcome).all():
        raise ValueError(
            "y has missing or infinite outcomes, but supervised bins need all outcomes; pass bins='quantile'"
        )
    if outcome.dtype.kind == "f" and np.any(outcome != np.floor(outcome)):
        return outcome.astype(np.float64)
    try:
        return np.unique(outcome, return_inverse=True)[1].astype(np.float64)
    except TypeError:
        raise ValueError("y mixes types that cannot be compared; pass classes of one type, none missing") from None
