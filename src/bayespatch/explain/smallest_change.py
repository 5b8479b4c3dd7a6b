"""The search for the smallest change to a case that changes its prediction.

The size of a change is summed over the features that it changes. A number or an ordered level counts the share of the
past cases that its new value passes or reaches on the way from the old one. A category or a previously missing value
counts 1. Only values that past cases have are tried.

Changes are tried in order of size, so the first one that changes the prediction is the smallest. If that takes too many
predictions, a beam search finds a change, which is then reduced one feature at a time; the result states that it is not
proven to be the smallest.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from bayespatch.encode import MISSING_NUMBER, Schema

N_NUMBERS = 15  # values of a number that the beam search tries, evenly spread over the past cases' values
BEAM = 6  # number of changes kept by the beam search
BATCH = 256  # number of changes predicted at a time

Values = dict[int, float]  # column -> a value of a past case (`EncodedTable.values`)
Judge = Callable[[Sequence[Values]], NDArray[np.float64]]  # changes of a case -> probabilities, (n, M)
Candidates = Mapping[int, Sequence[tuple[float, float]]]  # column -> (value, size), the smallest first


@dataclass(frozen=True)
class SmallestChange:
    """A change, and the extent of the search.

    Attributes
    ----------
    values : dict
        Column -> its new value; if no change succeeds, the change that comes closest.
    size : float
    reached : bool
        Whether it changes the prediction (to the requested class).
    proven : bool
        Whether every smaller change was tried; if no change succeeds, whether every possible change was tried.
    tried_up_to : float
        Size up to which every change was tried.
    n_tried : int
        Number of changes tried.
    """

    values: Values
    size: float
    reached: bool
    proven: bool
    tried_up_to: float
    n_tried: int


def candidates(schema: Schema, j: int, own: float, values: NDArray[np.float64]) -> list[tuple[float, float]]:
    """Other values of a feature among the past cases' values, (n,), with the sizes of the changes, smallest first.

    Examples
    --------
    >>> schema = Schema.learn([[1.0], [2.5], [4.0], [8.0]] * 5)
    >>> candidates(schema, 0, 2.5, np.array([1.0, 2.5, 4.0, 8.0] * 5))
    [(1.0, 0.25), (4.0, 0.25), (8.0, 0.5)]
    """
    column = schema.columns[j]
    known = values[np.isfinite(values) & (values > MISSING_NUMBER)]
    if column.is_coded:
        known = known[known < len(column.values)]
    in_order = np.sort(known)
    choices = []
    for value in np.unique(known).tolist() if column.is_compared else []:
        if value == own:
            continue
        size = 1.0
        if np.isfinite(own) and own > MISSING_NUMBER and column.kind != "categorical":
            low, high = min(value, own), max(value, own)
            first = np.searchsorted(in_order, low, side="left" if value == low else "right")
            last = np.searchsorted(in_order, high, side="right" if value == high else "left")
            size = float((last - first) / len(in_order))
        choices.append((value, size))
    return sorted(choices, key=lambda one: one[1])


def in_order_of_size(single: Candidates, most: int) -> Iterator[tuple[float, Values]]:
    """Changes of up to `most` features with their sizes, smallest first, then fewest features first.

    Examples
    --------
    >>> single = {0: [(1.0, 0.2), (2.0, 0.5)], 1: [(7.0, 0.3)]}
    >>> [(round(size, 1), values) for size, values in in_order_of_size(single, 2)]
    [(0.2, {0: 1.0}), (0.3, {1: 7.0}), (0.5, {0: 2.0}), (0.5, {0: 1.0, 1: 7.0}), (0.8, {0: 2.0, 1: 7.0})]
    """
    features = sorted((j for j in single if single[j]), key=lambda j: single[j][0][1])

    def entry(places: tuple[tuple[int, int], ...]) -> tuple[float, int, tuple[tuple[int, int], ...]]:
        return sum(single[features[f]][k][1] for f, k in places), len(places), places

    heap = [entry(((0, 0),))] if features and most else []
    while heap:
        size, n, places = heapq.heappop(heap)
        yield size, {features[f]: single[features[f]][k][0] for f, k in places}
        *rest, (f, k) = places
        # Features are sorted, so every change is reached in exactly one way, and no successor is smaller.
        if k + 1 < len(single[features[f]]):
            heapq.heappush(heap, entry((*rest, (f, k + 1))))
        if f + 1 < len(features):
            if n < most:
                heapq.heappush(heap, entry((*places, (f + 1, 0))))
            if k == 0:
                heapq.heappush(heap, entry((*rest, (f + 1, 0))))


@dataclass(eq=False)
class _Search:
    """Predicts changed cases and counts the predictions."""

    single: Candidates
    judge: Judge
    predicted: int
    wanted: int | None
    n_tried: int = 0

    def tried(self, changes: Sequence[Values]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Log odds of the wanted (or the best other) class against the predicted one, and whether it is reached."""
        p = self.judge(changes)
        self.n_tried += len(changes)
        if self.wanted is None:
            p_wanted = np.delete(p, self.predicted, axis=1).max(axis=1)
            reached = p.argmax(axis=1) != self.predicted
        else:
            p_wanted, reached = p[:, self.wanted], p.argmax(axis=1) == self.wanted
        return np.log(np.maximum(p_wanted, 1e-12) / np.maximum(p[:, self.predicted], 1e-12)), reached

    def size(self, change: Values) -> float:
        """Size of a change, summed over the features."""
        return sum(dict(self.single[j])[value] for j, value in change.items())

    def beam(self, most: int) -> tuple[Values, bool]:
        """A change that succeeds, or the one that comes closest."""
        coarse = {j: _spread(choices) for j, choices in self.single.items()}
        kept: list[Values] = [{}]
        closest: tuple[float, Values] = (-np.inf, {})
        for _ in range(most):
            new = {
                tuple(sorted({**start, j: value}.items())): None
                for start in kept
                for j, choices in coarse.items()
                if j not in start
                for value, _ in choices
            }
            changes = [dict(items) for items in new]
            if not changes:
                break
            parts = [self.tried(changes[k : k + BATCH]) for k in range(0, len(changes), BATCH)]
            odds, reached = (np.concatenate(each) for each in zip(*parts, strict=True))
            if reached.any():
                return min((changes[k] for k in np.flatnonzero(reached)), key=self.size), True
            best = np.argsort(-odds, kind="stable")[:BEAM]
            kept = [changes[k] for k in best]
            closest = max(closest, (float(odds[best[0]]), kept[0]), key=lambda one: one[0])
        return closest[1], False

    def smaller(self, change: Values) -> Values:
        """The change with features restored or changed less one at a time, as long as it still succeeds."""
        while True:
            less = [{k: v for k, v in change.items() if k != j} for j in change if len(change) > 1]
            for j, value in change.items():
                size = dict(self.single[j])[value]
                less += [{**change, j: other} for other, its_size in self.single[j] if its_size < size]
            less.sort(key=self.size)
            for first in range(0, len(less), BATCH):
                reached = self.tried(less[first : first + BATCH])[1]
                if reached.any():
                    change = less[first + int(reached.argmax())]
                    break
            else:
                return change


def _spread(choices: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most `N_NUMBERS` of the values, evenly spread."""
    by_value = sorted(choices)
    if len(by_value) <= N_NUMBERS:
        return by_value
    return [by_value[k] for k in np.linspace(0, len(by_value) - 1, N_NUMBERS).round().astype(int).tolist()]


def smallest_change(
    single: Candidates, judge: Judge, *, predicted: int, wanted: int | None, most: int, budget: int
) -> SmallestChange:
    """The smallest change to a case that changes its prediction.

    Parameters
    ----------
    single : dict
        Possible new values of each feature (`candidates`).
    judge : function
        Probabilities of changed cases.
    predicted : int
        The class that is predicted now.
    wanted : int, optional
        The class to reach; None means any other class.
    most : int
        Largest number of features that may change at the same time.
    budget : int
        Largest number of predictions for the search in order of size.
    """
    search = _Search(single, judge, predicted, wanted)
    every = in_order_of_size(single, most)
    closest: tuple[float, Values, float] = (-np.inf, {}, 0.0)
    done = 0.0
    while search.n_tried < budget:
        part = list(islice(every, min(BATCH, budget - search.n_tried)))
        if not part:
            return SmallestChange(closest[1], closest[2], False, True, done, search.n_tried)
        odds, reached = search.tried([values for _, values in part])
        if reached.any():
            size, values = part[int(reached.argmax())]
            return SmallestChange(values, size, True, True, size, search.n_tried)
        done, best = part[-1][0], int(odds.argmax())
        closest = max(closest, (float(odds[best]), part[best][1], part[best][0]), key=lambda one: one[0])
    values, is_reached = search.beam(min(most, len(single)))
    if is_reached:
        values = search.smaller(values)
    elif closest[0] > -np.inf and not values:
        values = closest[1]
    size = search.size(values)
    return SmallestChange(values, size, is_reached, is_reached and size <= done, done, search.n_tried)
