"""Exemplars: the voters of a case, grouped around a few real past cases that stand for them.

Hundreds of past cases may vote on a case, each a little. They are grouped within an outcome by weighted k-medoids: the
distance of two past cases is the share of the squared importance of the features in which they differ (squared, because
a feature has to matter to both), each voter counts by its share of the votes, and each group is shown as its medoid,
the exemplar, with the votes of the whole group, its crowd. Nothing is drawn at random: the same votes give the same
exemplars.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MOST = 8  # exemplars; fewer do
ENOUGH = 0.45  # where voters differ from theirs by this share of what two voters differ by
ALIKE = 1.5  # a voter that differs from every exemplar by this many times what two voters differ by is in no crowd
VOTING = 0.97  # of the votes of past cases: those who cast the rest cast next to nothing each, and are in no crowd
MOST_VOTERS = 1000  # grouped at a time; more only where a table has many thousands of parents
_ROUNDS = 20  # of exchanging exemplars for others; most settle in two or three


class Crowds(NamedTuple):
    """Voters in groups; parents are numbered as in the votes.

    Attributes
    ----------
    exemplars : int array of shape (K,)
        The parents that stand for a group, those with most votes first.
    members : tuple of K int arrays
        The group of each, itself among them, those with most votes first.
    shares : array of shape (K,)
        Share of all votes that each group casts.
    left : float
        Share of all votes of the past cases that are in no group: unlike every exemplar, or hardly voting.
    alike : tuple of K arrays
        How much each member is like its exemplar: 1 less their distance.
    differing : float
        Mean importance-weighted share of the features in which voters differ from their exemplar, by votes.
    usual : float
        The same of two voters drawn at random by their votes.
    """

    exemplars: NDArray[np.int64]
    members: tuple[NDArray[np.int64], ...]
    shares: NDArray[np.float64]
    left: float
    alike: tuple[NDArray[np.float64], ...]
    differing: float
    usual: float


def exemplars_of(
    shares: NDArray[np.float64],
    x_parents: NDArray[np.float64],
    y_parents: NDArray[np.int64],
    windows: NDArray[np.float64],
    importance: NDArray[np.float64],
    *,
    most: int = MOST,
    enough: float = ENOUGH,
) -> Crowds:
    """Group the voters of one case around exemplars, within an outcome.

    Parameters
    ----------
    shares : array of shape (S,)
        Share of each parent in all votes; what is missing to 1 is the base rates'.
    x_parents : array of shape (S, P)
        Codes; NaN where missing, which is like a missing one and unlike any other.
    y_parents : int array of shape (S,)
        Classes; two voters of different classes are never in one group.
    windows : array of shape (P,)
        By how much two codes may differ and agree.
    importance : array of shape (P,)
        What a difference in a feature counts.
    most : int
        Groups at most.
    enough : float
        No more groups where voters differ from their exemplar by this share of what two voters differ by.

    Examples
    --------
    >>> x = np.array([[0, 0], [0, 0], [0, 1], [1, 1], [1, 1.0]])
    >>> found = exemplars_of(np.full(5, 0.18), x, np.array([0, 0, 0, 1, 1]), np.zeros(2), np.ones(2))
    >>> found.exemplars.tolist(), [members.tolist() for members in found.members], round(found.left, 6)
    ([0, 3], [[0, 1, 2], [3, 4]], 0.0)
    """
    total = float(shares.sum())
    voters = _voters(shares, total)
    if not len(voters):
        return Crowds(voters, (), np.empty(0), max(0.0, total), (), 0.0, 0.0)
    votes = shares[voters].astype(np.float64)
    apart = distances(x_parents[voters], windows, importance)
    by_votes = votes / votes.sum()
    usual = float(by_votes @ apart @ by_votes / max(1e-12, 1.0 - (by_votes**2).sum())) if len(voters) > 1 else 0.0
    apart[y_parents[voters][:, None] != y_parents[voters][None, :]] = np.inf
    limit = max(ALIKE * usual, 1e-9)
    chosen = _medoids(apart, by_votes, limit, enough * usual, most)
    chosen = _first_of_equals(chosen, x_parents[voters], y_parents[voters], voters)
    nearest = np.array(chosen)[apart[:, chosen].argmin(axis=1)]
    distance = apart[np.arange(len(voters)), nearest]
    nearest[chosen] = chosen
    alike = distance <= limit
    groups = [np.flatnonzero(alike & (nearest == medoid)) for medoid in chosen]
    cast = np.array([votes[group].sum() for group in groups])
    order = np.lexsort((voters[chosen], -cast))
    grouped = np.concatenate(groups)
    return Crowds(
        exemplars=voters[np.array(chosen)[order]],
        members=tuple(voters[groups[k]] for k in order),
        shares=cast[order],
        left=max(0.0, total - float(cast.sum())),
        alike=tuple(1.0 - distance[groups[k]] for k in order),
        differing=float(votes[grouped] @ distance[grouped] / votes[grouped].sum()),
        usual=usual,
    )


def distances(
    x: NDArray[np.float64], windows: NDArray[np.float64], importance: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Share of the squared importance of the features in which rows differ, (n, n).

    Examples
    --------
    >>> distances(np.array([[0.0, 0.0], [0.0, 1.0]]), np.zeros(2), np.array([3.0, 1.0]))[0, 1]
    np.float64(0.1)
    """
    weights = importance**2 / max(float((importance**2).sum()), 1e-12)
    apart = np.zeros((len(x), len(x)))
    for j, weight in enumerate(weights):
        missing = np.isnan(x[:, j])
        with np.errstate(invalid="ignore"):
            agree = np.abs(x[:, None, j] - x[None, :, j]) <= windows[j]
        apart += weight * ~(agree | (missing[:, None] & missing[None, :]))
    return apart


def _voters(shares: NDArray[np.float64], total: float) -> NDArray[np.int64]:
    """The fewest parents that cast nearly all votes, those with most first."""
    order = np.argsort(-shares, kind="stable")
    cast = np.cumsum(shares[order], dtype=np.float64)
    n = int(np.searchsorted(cast, VOTING * total)) + 1 if total > 0 else 0
    order = order[: min(n, MOST_VOTERS, len(order))]
    return order[shares[order] > 0]


def _medoids(
    apart: NDArray[np.float64], votes: NDArray[np.float64], limit: float, enough: float, most: int
) -> list[int]:
    """Greedily the one that helps most, until all are near enough to theirs; then exchanges while these help."""
    near = np.minimum(apart, limit)
    chosen: list[int] = []
    cost = np.full(len(votes), limit)
    while len(chosen) < min(most, len(votes)):
        gain = votes @ np.maximum(cost[:, None] - near, 0.0)
        gain[chosen] = -1.0
        best = int(gain.argmax())
        if chosen and gain[best] <= 0.0:
            break
        chosen = _exchanged([*chosen, best], near, votes)
        cost = near[:, chosen].min(axis=1)
        if votes @ cost <= enough:
            break
    return sorted(chosen)


def _first_of_equals(
    chosen: list[int], x: NDArray[np.float64], y: NDArray[np.int64], rows: NDArray[np.int64]
) -> list[int]:
    """For each chosen voter, of all that have its values and its class the first of the table.

    Any of them would do as well; which of them has most votes is left to chance.
    """
    found = []
    for one in chosen:
        equal = np.flatnonzero((y == y[one]) & ((x == x[one]) | (np.isnan(x) & np.isnan(x[one]))).all(axis=1))
        found.append(int(equal[rows[equal].argmin()]))
    return sorted(found)


def _exchanged(chosen: list[int], near: NDArray[np.float64], votes: NDArray[np.float64]) -> list[int]:
    """Medoids after every exchange of one for another that brings the voters nearer (PAM)."""
    for _ in range(_ROUNDS):
        changed = False
        for place in range(len(chosen)):
            others = chosen[:place] + chosen[place + 1 :]
            without = near[:, others].min(axis=1) if others else np.full(len(votes), near.max())
            costs = votes @ np.minimum(near, without[:, None])
            costs[others] = np.inf
            best = int(costs.argmin())
            if costs[best] < costs[chosen[place]] - 1e-12:
                chosen[place] = best
                changed = True
        if not changed:
            break
    return chosen
