"""Groups of voters that resemble a case in the same way, regardless of outcome.

The voters are the smallest set of past cases that cast nearly all votes. A tree splits them by whether they share a
value with the case. It starts with the value that explains most of the differences between the voters, then splits the
parts in the same way. Values are weighted by their contribution to the prediction. Each voter is in exactly one group.
A group is described by the splits that lead to it, so any two groups differ in a stated value. The description also
lists values that members with nearly all of the group's votes share with the case, and that are less common among past
cases: "61 patients without colored vessels, mostly with a normal thallium scan: 11 had heart disease".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

VOTING = 0.97  # share of the past cases' votes that the grouped ones cast
MOST_GROUPS = 5
LEAST_VOTES = 0.1  # share of the votes that a group must have
LEAST_GAIN = 0.08  # share of the differences between voters that another split must explain
SHARED = 0.8  # share of a group's votes that members with all of its stated values must cast
MOST_STATED = 3  # most values stated for a group, unless more splits lead to it
TELLING = 0.2  # a value is stated if it is at least this informative relative to the most informative one
MOST_LEARNED = 5000  # number of voters from which the splits are learned


class VoterGroup(NamedTuple):
    """Voters who resemble the case in the same way.

    Attributes
    ----------
    members : int array
        Positions of the members among the parents, the member with the most votes first.
    votes : array of shape (M,)
        Share of all votes that they cast for each class.
    shared : tuple of int
        Features whose values are shared with the case by all members, or by members with nearly all of the group's
        votes: the features of the splits first, then the most informative ones.
    differs : tuple of int
        Features of the splits whose values no member shares with the case.
    """

    members: NDArray[np.int64]
    votes: NDArray[np.float64]
    shared: tuple[int, ...]
    differs: tuple[int, ...]

    @property
    def vote_share(self) -> float:
        """Share of all votes."""
        return float(self.votes.sum())


def group_voters(
    shares: NDArray[np.float64],
    agrees: NDArray[np.bool_],
    y: NDArray[np.int64],
    n_classes: int,
    importance: NDArray[np.float64],
) -> tuple[VoterGroup, ...]:
    """Group the voters on a case; the group with the most votes comes first.

    Parameters
    ----------
    shares : array of shape (S,)
        Each parent's share of all votes.
    agrees : bool array of shape (S, P)
        Whether it shares each value with the case.
    y : int array of shape (S,)
        Classes of the parents.
    n_classes : int
        Number of classes, M.
    importance : array of shape (P,)
        Nonnegative weight of each value: the size of its points.

    Examples
    --------
    >>> agrees = np.array([[1, 1, 0], [1, 1, 1], [1, 1, 0], [0, 1, 1], [0, 1, 1], [0, 1, 0]], bool)
    >>> found = group_voters(np.full(6, 1 / 6), agrees, np.array([0, 1, 0, 1, 1, 1]), 2, np.array([1.0, 0.5, 0.2]))
    >>> [(group.members.tolist(), group.shared, group.differs) for group in found]
    [([0, 1, 2], (0,), ()), ([3, 4, 5], (1,), (0,))]
    """
    order = np.argsort(-shares, kind="stable")
    cast = np.cumsum(shares[order])
    if not len(order) or cast[-1] <= 0.0:
        return ()
    voters = order[: int(np.searchsorted(cast, VOTING * cast[-1])) + 1]
    usual = agrees.mean(axis=0)
    leaves = [_Leaf(voters, (), ())]
    total = _spread(shares, agrees, voters[:MOST_LEARNED], importance)
    while len(leaves) < MOST_GROUPS and total > 0.0:
        splits = [_best_split(shares, agrees, leaf.members, importance, cast[-1]) for leaf in leaves]
        best = max(range(len(leaves)), key=lambda k: splits[k][0])
        gain, j = splits[best]
        if gain < LEAST_GAIN * total:
            break
        leaves += _split(leaves.pop(best), j, agrees)
    groups = [_described(leaf, shares, agrees, y, n_classes, importance, usual) for leaf in leaves]
    return tuple(sorted(groups, key=lambda group: (-group.vote_share, int(group.members[0]))))


class _Leaf(NamedTuple):
    """Voters, and the splits that lead to them: the values that all or none of them share with the case."""

    members: NDArray[np.int64]
    shared: tuple[int, ...]
    differs: tuple[int, ...]


def _split(leaf: _Leaf, j: int, agrees: NDArray[np.bool_]) -> list[_Leaf]:
    """The voters who share a value with the case, and the voters who do not."""
    alike = agrees[leaf.members, j]
    return [
        _Leaf(leaf.members[alike], (*leaf.shared, j), leaf.differs),
        _Leaf(leaf.members[~alike], leaf.shared, (*leaf.differs, j)),
    ]


def _spread(
    shares: NDArray[np.float64], agrees: NDArray[np.bool_], voters: NDArray[np.int64], importance: NDArray[np.float64]
) -> float:
    """How much voters differ in the values they share with the case: weighted variance, summed over the features."""
    votes = shares[voters]
    mean = votes @ agrees[voters] / votes.sum()
    return float(votes.sum() * (importance @ (mean * (1.0 - mean))))


def _best_split(
    shares: NDArray[np.float64],
    agrees: NDArray[np.bool_],
    leaf: NDArray[np.int64],
    importance: NDArray[np.float64],
    cast: float,
) -> tuple[float, int]:
    """The gain of the best split of a group into voters who share a value and voters who do not, and its feature."""
    some = leaf[:MOST_LEARNED]
    votes, shared = shares[some], agrees[some].astype(np.float64)
    total = float(votes.sum())
    together = (shared * votes[:, None]).T @ shared  # (P, P): votes of the voters who share both
    mine = np.diag(together).copy()
    rest = total - mine
    least = LEAST_VOTES * cast
    allowed = (mine >= least) & (rest >= least)
    if not allowed.any():
        return -1.0, 0
    mean = mine / total
    with np.errstate(divide="ignore", invalid="ignore"):
        yes, no = together / mine[:, None], (mine[None] - together) / rest[:, None]
    gain = mine * ((yes - mean) ** 2 @ importance) + rest * ((no - mean) ** 2 @ importance)
    gain = np.where(allowed, gain, -1.0)
    best = int(gain.argmax())
    return float(gain[best]), best


def _described(
    leaf: _Leaf,
    shares: NDArray[np.float64],
    agrees: NDArray[np.bool_],
    y: NDArray[np.int64],
    n_classes: int,
    importance: NDArray[np.float64],
    usual: NDArray[np.float64],
) -> VoterGroup:
    """A group with its votes, the values that its members share with the case, and the values in which they differ."""
    members = leaf.members
    votes = shares[members]
    rate = votes @ agrees[members] / votes.sum()
    telling = importance * (rate - usual)
    shared = sorted(leaf.shared, key=lambda j: -telling[j])
    together = np.ones(len(members), dtype=np.bool_)
    for j in np.argsort(-telling, kind="stable").tolist():
        if len(shared) + len(leaf.differs) >= MOST_STATED or (shared and telling[j] < TELLING * telling[shared[0]]):
            break
        both = together & agrees[members, j]
        if j not in leaf.shared and votes[both].sum() >= SHARED * votes.sum():
            shared.append(j)
            together = both
    by_class = np.zeros(n_classes)
    np.add.at(by_class, y[members], votes)
    ordered = members[np.lexsort((members, -votes))]
    return VoterGroup(ordered, by_class, tuple(shared), leaf.differs)
