"""Sums of votes, which can be added over parts of the past cases, and results derived from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.retrieval.index import CaseIndex

Array = NDArray[np.float64]

LEAST = 0.01  # share of the votes reserved for the base rates, so that no share is 0
# If the logarithms of the weights are above these limits, products are safe in single and double precision; otherwise,
# logarithms are added.
MOST_SUMMED, MOST_SUMMED_DOUBLE = 80.0, 640.0


class Layout(NamedTuple):
    """How comparisons are grouped into keys."""

    columns: NDArray[np.int64]  # (K,)
    bits: NDArray[np.int64]  # (C + 1,) first comparison of each key
    offset: NDArray[np.int64]  # (C,) first table row of each key

    @classmethod
    def of(cls, index: CaseIndex, most_bits: int) -> Layout:
        """Keys of nearly equal length, with at most `most_bits` bits each."""
        n = len(index.columns)
        n_keys = max(1, -(-n // most_bits))
        bits = np.array([n * c // n_keys for c in range(n_keys + 1)], np.int64)
        offset = np.append(0, np.cumsum(1 << np.diff(bits)))[:-1].astype(np.int64)
        return cls(index.columns, bits, offset)

    @property
    def n_rows(self) -> int:
        """T, the number of table rows."""
        return int(np.sum(1 << np.diff(self.bits)))

    def log_table(self, log_weights: Array) -> Array:
        """Summed log weights, (T, D), of every value of every key, relative to the case that all comparisons hold.

        `log_weights` has shape (D, K).
        """
        parts = []
        for begin, end in zip(self.bits[:-1], self.bits[1:], strict=True):
            weights = log_weights[:, begin:end].T
            keys = np.arange(1 << (end - begin))
            part = np.zeros((len(keys), len(log_weights)))
            for k, weight in enumerate(weights):
                part[(keys >> k & 1) == 1] += weight
            parts.append(part - np.maximum(weights, 0.0).sum(axis=0))
        return np.concatenate(parts)


def fits_products(log_weights: Array, most: float) -> bool:
    """Whether the products of the weights, (D, K), of all draws are within a range of exp(most)."""
    return bool(np.abs(log_weights).sum(axis=1).max(initial=0.0) <= most)


class LeftOut(NamedTuple):
    """Stored positions of past cases that may not vote on a case: itself, and others of its group.

    Attributes
    ----------
    positions : int array
        Positions for all cases, case by case, ascending within a case.
    edges : int array of shape (n + 1,)
        Start of each case's positions.
    """

    positions: NDArray[np.int64]
    edges: NDArray[np.int64]

    @classmethod
    def nobody(cls, n: int) -> LeftOut:
        """All past cases may vote on all n cases."""
        return cls(np.empty(0, np.int64), np.zeros(n + 1, np.int64))

    @classmethod
    def members(cls, index: CaseIndex, rows: NDArray[np.int64], groups: NDArray[np.int64] | None = None) -> LeftOut:
        """For past cases in these rows: leave out the case itself and the rest of its group.

        Parameters
        ----------
        index : CaseIndex
            The past cases.
        rows : int array of shape (n,)
            Rows of the original table; -1 for a case that is not a past case.
        groups : int array of shape (N,), optional
            The group of each row of the original table; None if each row is a separate group.
        """
        return cls.of_rows(rows, groups).stored_in(index)

    @classmethod
    def of_rows(cls, rows: NDArray[np.int64], groups: NDArray[np.int64] | None = None) -> LeftOut:
        """As `members`, but positions are rows of the original table."""
        if groups is None:
            known = rows >= 0
            return cls(rows[known], np.append(0, np.cumsum(known)))
        order = np.argsort(groups, kind="stable")
        first = np.searchsorted(groups[order], groups[rows], side="left")
        last = np.searchsorted(groups[order], groups[rows], side="right")
        first, last = np.where(rows < 0, 0, first), np.where(rows < 0, 0, last)
        parts = [order[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True)]
        return cls(np.concatenate([np.empty(0, np.int64), *parts]), np.append(0, np.cumsum(last - first)))

    def stored_in(self, index: CaseIndex, first: int = 0) -> LeftOut:
        """Map rows of a table to stored positions in an index of rows first, first + 1, ...; drop all other rows."""
        inside = (self.positions >= first) & (self.positions < first + index.n_cases)
        n = len(self.edges) - 1
        if not inside.any():
            return LeftOut.nobody(n)
        case = np.repeat(np.arange(n), np.diff(self.edges))[inside]
        positions = index.positions()[self.positions[inside] - first]
        order = np.lexsort((positions, case))
        return LeftOut(positions[order], np.append(0, np.cumsum(np.bincount(case, minlength=n))))

    def among(self, rows: NDArray[np.int64]) -> LeftOut:
        """Map rows of a table to positions in `rows`, (S,), a list of distinct rows; drop all other rows.

        Examples
        --------
        >>> LeftOut(np.array([3, 7, 8]), np.array([0, 2, 3])).among(np.array([8, 1, 3]))
        LeftOut(positions=array([2, 0]), edges=array([0, 1, 2]))
        """
        order = np.argsort(rows)
        place = np.minimum(np.searchsorted(rows[order], self.positions), max(0, len(rows) - 1))
        inside = rows[order][place] == self.positions if len(rows) else np.zeros(len(self.positions), np.bool_)
        case = np.repeat(np.arange(len(self.edges) - 1), np.diff(self.edges))[inside]
        edges = np.append(0, np.cumsum(np.bincount(case, minlength=len(self.edges) - 1)))
        return LeftOut(order[place[inside]], edges)

    def and_these(self, numbers: NDArray[np.int64], excluded: NDArray[np.bool_]) -> LeftOut:
        """Also leave out the past cases marked in `excluded` (n, N), whose positions are `numbers`, (N,)."""
        parts = [
            np.union1d(self.positions[first:last], numbers[marked])
            for first, last, marked in zip(self.edges[:-1], self.edges[1:], excluded, strict=True)
        ]
        edges = np.append(0, np.cumsum([len(part) for part in parts])).astype(np.int64)
        return LeftOut(np.concatenate([np.empty(0, np.int64), *parts]), edges)


class VoteSums(NamedTuple):
    """Total weight of the past cases of each class, for n cases and D draws. The sums of several parts can be added.

    Attributes
    ----------
    sums : array of shape (n, M, D)
        The weights, divided by ``exp(shift)``.
    shift : array of shape (n, D)
    """

    sums: Array
    shift: Array

    def shares(self, heard: Array) -> Array:
        """Share of the votes for each class in each draw, (n, D, M); all classes have equal shares if nobody votes.

        `heard`: weight of a vote for each class, (M,), or by case and class, (n, M).
        """
        weighted = np.moveaxis(self.sums, 1, 2) * np.atleast_2d(heard)[:, None]
        total = weighted.sum(axis=2, keepdims=True)
        return np.asarray(np.where(total > 0.0, weighted / np.where(total > 0.0, total, 1.0), 1.0 / heard.shape[-1]))

    def scale(self, heard: Array) -> Array:
        """Factors that convert weights of past cases to mean shares of the votes, by class and draw, (n, M, D)."""
        n, n_classes, n_draws = self.sums.shape
        weights = np.broadcast_to(heard, (n, n_classes))[:, :, None]
        total = (self.sums * weights).sum(axis=1)
        inverse = np.where(total > 0.0, 1.0 / np.where(total > 0.0, total, 1.0), 0.0)
        return np.asarray(inverse[:, None] * weights / n_draws)

    def log_total(self) -> Array:
        """Logarithm of the total weight in each draw, (n, D)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.sums.sum(axis=1)) + self.shift)

    def __add__(self, other: object) -> VoteSums:
        """Add the votes of another part of the past cases."""
        if not isinstance(other, VoteSums):
            return NotImplemented
        voted = [part.sums.sum(axis=1) > 0.0 for part in (self, other)]
        shift = _common_shift((self.shift, other.shift), voted)
        parts = [part.sums * np.exp(np.minimum(part.shift - shift, 0.0))[:, None] for part in (self, other)]
        return VoteSums(parts[0] + parts[1], shift)


class LeaveOneOutScores(NamedTuple):
    """Log probabilities of the classes of n left-out cases, with derivatives."""

    log_p: Array  # (n,) log probability of the observed class
    by_comparison: Array  # (n, K) derivative with respect to the log weight of each comparison
    by_log_slope: Array  # (n,)


class LeaveOneOutSums(NamedTuple):
    """Total weight of the past cases by class and comparison, for n left-out cases in one draw.

    The sums of several parts of the past cases can be added.

    Attributes
    ----------
    sums : array of shape (n, M, K + 1)
        The weights, divided by ``exp(shift)``. Entry k: past cases that pass comparison k; entry K: all past cases.
    shift : array of shape (n,)
    """

    sums: Array
    shift: Array

    def __add__(self, other: object) -> LeaveOneOutSums:
        """Add the votes of another part of the past cases."""
        if not isinstance(other, LeaveOneOutSums):
            return NotImplemented
        voted = [part.sums[:, :, -1].sum(axis=1) > 0.0 for part in (self, other)]
        shift = _common_shift((self.shift, other.shift), voted)
        parts = [part.sums * np.exp(np.minimum(part.shift - shift, 0.0))[:, None, None] for part in (self, other)]
        return LeaveOneOutSums(parts[0] + parts[1], shift)

    def scores(self, y: NDArray[np.int64], *, slope: float, heard: Array, base: Array) -> LeaveOneOutScores:
        """Log probabilities of the classes y, and derivatives. For the arguments, see `leave_one_out`."""
        weighted = self.sums[:, :, -1] * heard
        total = weighted.sum(axis=1, keepdims=True)
        voted = total > 0.0
        total = np.where(voted, total, 1.0)
        raw = np.where(voted, weighted / total, base)
        share = (1.0 - LEAST) * raw + LEAST * base
        logs = slope * np.log(share) + (1.0 - slope) * np.log(base)
        logs -= logs.max(axis=1, keepdims=True)
        logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
        cases = np.arange(len(y))
        residual = -np.exp(logs)
        residual[cases, y] += 1.0
        by_share = slope * (1.0 - LEAST) * residual / share
        by_weight = (by_share - (by_share * raw).sum(axis=1, keepdims=True)) * heard / total * voted
        return LeaveOneOutScores(
            logs[cases, y],
            np.einsum("nm,nmk->nk", by_weight, self.sums[:, :, :-1]),
            slope * (residual * (np.log(share) - np.log(base))).sum(axis=1),
        )


def _common_shift(shifts: tuple[Array, Array], voted: list[NDArray[np.bool_]]) -> Array:
    """The larger shift of two parts; parts without voters are ignored."""
    shift = np.maximum(*(np.where(some, part, -np.inf) for part, some in zip(shifts, voted, strict=True)))
    return np.where(np.isfinite(shift), shift, 0.0)
