"""Votes of all past cases on new cases, or on each other, given draws of the importances."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.retrieval.index import CaseIndex, Ranges

Array = NDArray[np.float64]

LEAST = 0.01  # share of the votes that goes to the base rates, so that no share is 0
_SAFE = 80.0  # a product of weights down to exp(-80) is well within single precision; beyond, logarithms are added


class Layout(NamedTuple):
    """How comparisons are grouped into keys."""

    columns: NDArray[np.int64]  # (K,)
    bits: NDArray[np.int64]  # (C + 1,) first comparison of each key
    offset: NDArray[np.int64]  # (C,) first table row of each key

    @classmethod
    def of(cls, index: CaseIndex, most_bits: int) -> Layout:
        """Keys of nearly equal length, at most `most_bits` each."""
        n = len(index.columns)
        n_keys = max(1, -(-n // most_bits))
        bits = np.array([n * c // n_keys for c in range(n_keys + 1)], np.int64)
        offset = np.append(0, np.cumsum(1 << np.diff(bits)))[:-1].astype(np.int64)
        return cls(index.columns, bits, offset)

    def log_table(self, log_weights: Array) -> Array:
        """Summed log weights for every value of every key, (T, D), relative to all comparisons holding; from (D, K)."""
        parts = []
        for begin, end in zip(self.bits[:-1], self.bits[1:], strict=True):
            weights = log_weights[:, begin:end].T
            keys = np.arange(1 << (end - begin))
            part = np.zeros((len(keys), len(log_weights)))
            for k, weight in enumerate(weights):
                part[(keys >> k & 1) == 1] += weight
            parts.append(part - np.maximum(weights, 0.0).sum(axis=0))
        return np.concatenate(parts)


class Tables(NamedTuple):
    """Weights by table row: what the kernels multiply."""

    products: NDArray[np.float32]  # (T, D)
    logs: Array  # (T, D), or empty where products serve
    upper: NDArray[np.float32]  # (T,) largest and smallest log weight over the draws
    lower: NDArray[np.float32]
    cut: float  # a log weight so far below the best one is negligible
    by_logs: bool


class Scratch(NamedTuple):
    """Memory of one thread."""

    keys: NDArray[np.uint16]
    rows: NDArray[np.int32]
    kept: NDArray[np.bool_]
    above: NDArray[np.float32]
    places: NDArray[np.int32]
    total: NDArray[np.float32]
    product: NDArray[np.float32]
    logs: Array
    log_table: Array
    weights: Array

    @classmethod
    def of(cls, n_keys: int, n_draws: int, log_table: Array) -> Scratch:
        """For keys and draws of this number."""
        from bayespatch.retrieval.kernels import BLOCK

        return cls(
            np.empty(BLOCK, np.uint16),
            np.empty((n_keys, BLOCK), np.int32),
            np.empty(BLOCK, np.bool_),
            np.empty(BLOCK, np.float32),
            np.empty(BLOCK, np.int32),
            np.empty(n_draws, np.float32),
            np.empty(n_draws, np.float32),
            np.empty(n_draws),
            log_table,
            np.empty(BLOCK),
        )


class Voting(NamedTuple):
    """How weights become the probability of a class."""

    heard: Array  # (M,) weight of a vote for the class
    base: Array  # (M,) base rates
    slope: float
    least: float


class LeftOut(NamedTuple):
    """Stored positions of past cases that may not vote on a case: itself, and others of its group.

    Attributes
    ----------
    positions : int array
        All of them, case after case, ascending within a case.
    edges : int array of shape (n + 1,)
        Where each case's begin.
    """

    positions: NDArray[np.int64]
    edges: NDArray[np.int64]

    @classmethod
    def nobody(cls, n: int) -> LeftOut:
        """Everyone may vote on all n cases."""
        return cls(np.empty(0, np.int64), np.zeros(n + 1, np.int64))

    @classmethod
    def members(cls, index: CaseIndex, rows: NDArray[np.int64], groups: NDArray[np.int64] | None = None) -> LeftOut:
        """Past cases of these rows, each without itself and without the rest of its group.

        Parameters
        ----------
        index : CaseIndex
            The past cases.
        rows : int array of shape (n,)
            Rows of the original table; -1 for a case that is no past case.
        groups : int array of shape (N,), optional
            The group of each row of the original table; None: each row is its own.
        """
        places = index.positions()
        if groups is None:
            known = rows >= 0
            return cls(places[rows[known]], np.append(0, np.cumsum(known)))
        order = np.argsort(groups, kind="stable")
        first = np.searchsorted(groups[order], groups[rows], side="left")
        last = np.searchsorted(groups[order], groups[rows], side="right")
        first, last = np.where(rows < 0, 0, first), np.where(rows < 0, 0, last)
        parts = [np.sort(places[order[a:b]]) for a, b in zip(first.tolist(), last.tolist(), strict=True)]
        edges = np.append(0, np.cumsum(last - first))
        return cls(np.concatenate([np.empty(0, np.int64), *parts]), edges)

    def and_these(self, index: CaseIndex, excluded: NDArray[np.bool_]) -> LeftOut:
        """The same and further past cases: `excluded` (n, N) marks rows of the original table."""
        parts = [
            np.union1d(self.positions[first:last], np.flatnonzero(marked[index.rows]))
            for first, last, marked in zip(self.edges[:-1], self.edges[1:], excluded, strict=True)
        ]
        edges = np.append(0, np.cumsum([len(part) for part in parts])).astype(np.int64)
        return LeftOut(np.concatenate([np.empty(0, np.int64), *parts]), edges)


class VoteSums(NamedTuple):
    """Total weight of the past cases of each class, for n cases and D draws. Those of partitions can be added.

    Attributes
    ----------
    sums : array of shape (n, M, D)
        Over ``exp(shift)``.
    shift : array of shape (n, D)
    """

    sums: Array
    shift: Array

    def shares(self, heard: Array) -> Array:
        """Share of the votes for each class in each draw, (n, D, M); equal where nobody votes.

        `heard`: weight of a vote for each class, (M,), or for each case and class, (n, M).
        """
        weighted = np.moveaxis(self.sums, 1, 2) * np.atleast_2d(heard)[:, None]
        total = weighted.sum(axis=2, keepdims=True)
        return np.asarray(np.where(total > 0.0, weighted / np.where(total > 0.0, total, 1.0), 1.0 / heard.shape[-1]))

    def log_total(self) -> Array:
        """Logarithm of the total weight in each draw, (n, D)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.sums.sum(axis=1)) + self.shift)

    def __add__(self, other: object) -> VoteSums:
        """The votes of two parts of the past cases together."""
        if not isinstance(other, VoteSums):
            return NotImplemented
        shift = np.maximum(
            np.where(self.sums.sum(axis=1) > 0.0, self.shift, -np.inf),
            np.where(other.sums.sum(axis=1) > 0.0, other.shift, -np.inf),
        )
        shift = np.where(np.isfinite(shift), shift, 0.0)
        parts = [part.sums * np.exp(np.minimum(part.shift - shift, 0.0))[:, None] for part in (self, other)]
        return VoteSums(parts[0] + parts[1], shift)


def _most_bits(index: CaseIndex, fewer: int) -> int:
    """How many comparisons a key has: large tables of weights do not pay where there are few past cases."""
    from bayespatch.retrieval.kernels import MOST_BITS

    return int(min(max(round(math.log2(max(2, index.n_cases))) - fewer, 4), MOST_BITS))


def _tables(index: CaseIndex, log_weights: Array) -> tuple[Layout, Tables]:
    from bayespatch.retrieval.kernels import NEGLIGIBLE

    layout = Layout.of(index, _most_bits(index, 2))
    logs = layout.log_table(log_weights)
    by_logs = bool(np.abs(log_weights).sum(axis=1).max(initial=0.0) > _SAFE)
    tables = Tables(
        np.exp(logs).astype(np.float32),
        logs,
        # Rounding must not drop a past case that is as good as the best.
        np.nextafter(logs.max(axis=1).astype(np.float32), np.float32(np.inf)),
        np.nextafter(logs.min(axis=1).astype(np.float32), np.float32(-np.inf)),
        math.log(max(1, index.n_cases) / NEGLIGIBLE),
        by_logs,
    )
    return layout, tables


def _in_threads(n: int, n_threads: int, work: Callable[[int, int], object]) -> None:
    """Call `work` with ranges of 0..n-1, in as many threads as are worth it."""
    n_threads = max(1, min(n_threads, n))
    if n_threads == 1:
        work(0, n)
        return
    edges = [n * k // n_threads for k in range(n_threads + 1)]
    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(work, edges[:-1], edges[1:]))


def vote(
    index: CaseIndex,
    ranges: Ranges,
    log_weights: Array,
    *,
    left_out: LeftOut | None = None,
    n_threads: int = 1,
) -> VoteSums:
    """Votes of all past cases on n cases, in every draw.

    Parameters
    ----------
    index : CaseIndex
        The past cases.
    ranges : Ranges
        What agrees with each case (`CaseIndex.ranges`).
    log_weights : array of shape (D, K)
        Log weight of every comparison in each draw.
    left_out : LeftOut, optional
        Past cases that may not vote on a case.
    n_threads : int
        Threads; the result does not depend on it.

    Examples
    --------
    >>> x = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> index = CaseIndex.build(x, np.array([0, 0, 1]), n_classes=2, windows=[(0.0,), (0.0,)])
    >>> found = vote(index, index.ranges(x[2:]), np.log([[3.0, 2.0]]))  # the cases have weights 1, 2 and 6
    >>> found.shares(np.ones(2)).round(3).tolist()
    [[[0.333, 0.667]]]
    """
    from bayespatch.retrieval import kernels

    out = LeftOut.nobody(len(ranges)) if left_out is None else left_out
    layout, tables = _tables(index, log_weights)
    n_draws = len(log_weights)
    sums, shift = np.empty((len(ranges), index.n_classes, n_draws)), np.empty((len(ranges), n_draws))

    def work(first: int, last: int) -> None:
        scratch = Scratch.of(len(layout.offset), n_draws, tables.logs)
        kernels.vote_on_cases(
            index.codes, index.start, layout, *ranges, *out, tables, scratch, first, last, sums, shift
        )

    _in_threads(len(ranges), n_threads, work)
    return VoteSums(sums, shift)


def vote_shares(
    index: CaseIndex,
    ranges: Ranges,
    log_weights: Array,
    totals: VoteSums,
    heard: Array,
    *,
    left_out: LeftOut | None = None,
    n_threads: int = 1,
) -> NDArray[np.float32]:
    """Mean share of every past case in the votes on n cases, (n, N), in stored order; each row adds up to 1.

    Parameters
    ----------
    index, ranges, log_weights, left_out, n_threads
        As in `vote`.
    totals : VoteSums
        What `vote` found: all past cases', where the index is one of several parts.
    heard : array of shape (M,) or (n, M)
        Weight of a vote for each class.

    Examples
    --------
    >>> x = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> index = CaseIndex.build(x, np.array([0, 0, 1]), n_classes=2, windows=[(0.0,), (0.0,)])
    >>> ranges, weights = index.ranges(x[2:]), np.log([[3.0, 2.0]])
    >>> vote_shares(index, ranges, weights, vote(index, ranges, weights), np.ones(2)).round(3)
    array([[0.111, 0.222, 0.667]], dtype=float32)
    """
    from bayespatch.retrieval import kernels

    out = LeftOut.nobody(len(ranges)) if left_out is None else left_out
    layout, tables = _tables(index, log_weights)
    n_draws = len(log_weights)
    weights = np.broadcast_to(heard, (len(ranges), index.n_classes))[:, :, None]
    total = (totals.sums * weights).sum(axis=1)
    scale = np.where(total > 0.0, 1.0 / np.where(total > 0.0, total, 1.0), 0.0)[:, None] * weights / n_draws
    shares = np.empty((len(ranges), index.n_cases), np.float32)

    def work(first: int, last: int) -> None:
        scratch = Scratch.of(len(layout.offset), n_draws, tables.logs)
        kernels.share_on_cases(
            index.codes, index.start, layout, *ranges, *out, tables, scratch, first, last, scale, totals.shift, shares
        )

    _in_threads(len(ranges), n_threads, work)
    return shares


class LeaveOneOutScores(NamedTuple):
    """How well n past cases are predicted without themselves, and what would change that."""

    log_p: Array  # (n,) log probability of the class that came
    by_comparison: Array  # (n, K) its derivative by the log weight of each comparison
    by_log_slope: Array  # (n,)


def leave_one_out(
    index: CaseIndex,
    ranges: Ranges,
    y: NDArray[np.int64],
    left_out: LeftOut,
    log_weights: Array,
    *,
    slope: float,
    heard: Array,
    base: Array,
    n_threads: int = 1,
) -> LeaveOneOutScores:
    """Predict past cases from all others in one draw: ``log p(m) = slope log share_m + (1 - slope) log base_m + c``.

    Parameters
    ----------
    index, ranges, left_out, n_threads
        As in `vote`.
    y : int array of shape (n,)
        The classes of the cases.
    log_weights : array of shape (K,)
        Log weight of every comparison.
    slope : float
        How shares of the votes are read as probabilities.
    heard, base : arrays of shape (M,)
        Weight of a vote for each class, and base rates; `LEAST` of the votes is the base rates'.
    """
    from bayespatch.retrieval import kernels

    layout = Layout.of(index, _most_bits(index, 3))
    logs = layout.log_table(log_weights[None])[:, 0]
    by_logs = bool(np.abs(log_weights).sum() > 8.0 * _SAFE)
    table = logs if by_logs else np.exp(logs)
    voting = Voting(heard, base, float(slope), LEAST)
    n = len(ranges)
    log_p, by_comparison, by_slope = np.empty(n), np.empty((n, len(index.columns))), np.empty(n)

    def work(first: int, last: int) -> None:
        scratch = Scratch.of(len(layout.offset), 0, np.empty((0, 0)))
        sums = np.empty((index.n_classes, len(table)))
        kernels.leave_out_cases(
            index.codes, index.start, layout, *ranges, *left_out, table, by_logs, voting, y, scratch, first, last,
            sums, log_p, by_comparison, by_slope,
        )  # fmt: skip

    _in_threads(n, n_threads, work)
    return LeaveOneOutScores(log_p, by_comparison, by_slope)
