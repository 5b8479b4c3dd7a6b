"""Votes of all past cases on new cases or on each other, given draws of the importances."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from bayespatch.engine.installed import LARGE, gpu_is_present, load_votes
from bayespatch.retrieval.index import CaseIndex, Ranges
from bayespatch.retrieval.sums import (
    MOST_SUMMED,
    MOST_SUMMED_DOUBLE,
    Array,
    Layout,
    LeaveOneOutScores,
    LeaveOneOutSums,
    LeftOut,
    VoteSums,
    fits_products,
)
from bayespatch.validation import check_choice

ENGINES = ("cpu", "cuda", "auto")


class VotesElsewhere(Protocol):
    """The functions below, implemented by another package for another device."""

    def vote(self, index: CaseIndex, ranges: Ranges, log_weights: Array, *, left_out: LeftOut) -> VoteSums:
        """As `vote`, for weights within the range of single precision."""

    def vote_shares(
        self,
        index: CaseIndex,
        ranges: Ranges,
        log_weights: Array,
        totals: VoteSums,
        heard: Array,
        *,
        left_out: LeftOut,
        n_chains: int,
    ) -> NDArray[np.float32]:
        """As `vote_shares`, for weights within the range of single precision."""

    def leave_one_out_sums(
        self, index: CaseIndex, ranges: Ranges, left_out: LeftOut, log_weights: Array
    ) -> LeaveOneOutSums:
        """As `leave_one_out_sums`, for weights within the range of double precision."""


class Tables(NamedTuple):
    """The weights by table row, for the kernels to multiply."""

    products: NDArray[np.float32]  # (T, D)
    logs: Array  # (T, D), or empty if products suffice
    upper: NDArray[np.float32]  # (T,) largest and smallest log weight over the draws
    lower: NDArray[np.float32]
    cut: float  # log weights this far below the largest one are negligible
    by_logs: bool


class Scratch(NamedTuple):
    """Scratch memory of one thread."""

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
    ones: NDArray[np.float32]
    scaled: NDArray[np.float32]  # table rows of the first key, for shares

    @classmethod
    def of(cls, n_keys: int, n_draws: int, log_table: Array, n_scaled: int = 0) -> Scratch:
        """Allocate memory for these numbers of keys and draws."""
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
            np.ones(n_draws, np.float32),
            np.empty((n_scaled, n_draws), np.float32),
        )


def _most_bits(index: CaseIndex, fewer: int) -> int:
    """Number of comparisons per key: with few past cases, large tables of weights are not worthwhile."""
    from bayespatch.retrieval.kernels import MOST_BITS

    return int(min(max(round(math.log2(max(2, index.n_cases))) - fewer, 4), MOST_BITS))


def _tables(index: CaseIndex, log_weights: Array) -> tuple[Layout, Tables]:
    from bayespatch.retrieval.kernels import NEGLIGIBLE

    layout = Layout.of(index, _most_bits(index, 2))
    logs = layout.log_table(log_weights)
    tables = Tables(
        np.exp(logs).astype(np.float32),
        logs,
        # Rounding must not drop a past case whose weight equals the largest.
        np.nextafter(logs.max(axis=1).astype(np.float32), np.float32(np.inf)),
        np.nextafter(logs.min(axis=1).astype(np.float32), np.float32(-np.inf)),
        math.log(max(1, index.n_cases) / NEGLIGIBLE) + index.log_range_of_weights,
        not fits_products(log_weights, MOST_SUMMED),
    )
    return layout, tables


def _on_gpu(engine: str, index: CaseIndex, n: int) -> bool:
    """Whether votes on n cases are computed on the GPU: "auto" uses a GPU if present and if the problem is large."""
    check_choice("engine", engine, ENGINES)
    if index.weights is not None:
        if engine == "cuda":
            raise ValueError("engine='cuda' does not support sample_weight; pass engine='cpu', or no weights")
        return False
    if engine == "auto":
        return n * index.n_cases * max(1, len(index.columns)) >= LARGE and gpu_is_present()
    return engine == "cuda"


def _own_weights(index: CaseIndex) -> Array:
    """Weights of the past cases as expected by the kernels: empty if all weights are equal."""
    return np.empty(0) if index.weights is None else index.weights


def in_threads(n: int, n_threads: int, work: Callable[[int, int], object]) -> None:
    """Call `work` with ranges that cover 0..n-1, in as many threads as are worthwhile."""
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
    engine: str = "cpu",
) -> VoteSums:
    """Votes of all past cases on n cases, in every draw.

    Parameters
    ----------
    index : CaseIndex
        The past cases.
    ranges : Ranges
        The codes that agree with each case (`CaseIndex.ranges`).
    log_weights : array of shape (D, K)
        Log weight of every comparison in each draw.
    left_out : LeftOut, optional
        Past cases that may not vote on a case.
    n_threads : int
        CPU threads; the result does not depend on their number.
    engine : {"cpu", "cuda", "auto"}
        Where to compute. "auto" uses a GPU if present and if cases x past cases x comparisons are at least 10
        million. Weights outside the range of single precision are added on the CPU.

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
    if _on_gpu(engine, index, len(ranges)) and fits_products(log_weights, MOST_SUMMED):
        gpu: VotesElsewhere = load_votes("cuda")
        return gpu.vote(index, ranges, log_weights, left_out=out)
    layout, tables = _tables(index, log_weights)
    n_draws = len(log_weights)
    sums, shift = np.empty((len(ranges), index.n_classes, n_draws)), np.empty((len(ranges), n_draws))
    weights = _own_weights(index)

    def work(first: int, last: int) -> None:
        scratch = Scratch.of(len(layout.offset), n_draws, tables.logs)
        kernels.vote_on_cases(
            index.codes, index.start, weights, layout, *ranges, *out, tables, scratch, first, last, sums, shift
        )

    in_threads(len(ranges), n_threads, work)
    return VoteSums(sums, shift)


def vote_shares(
    index: CaseIndex,
    ranges: Ranges,
    log_weights: Array,
    totals: VoteSums,
    heard: Array,
    *,
    n_chains: int = 1,
    left_out: LeftOut | None = None,
    n_threads: int = 1,
    engine: str = "cpu",
) -> NDArray[np.float32]:
    """Mean share of every past case in the votes on n cases, (n, C, N), in stored order; each row adds up to 1.

    Parameters
    ----------
    index, ranges, log_weights, left_out, n_threads, engine
        As in `vote`.
    totals : VoteSums
        The result of `vote`; for one of several parts, the total of all parts.
    heard : array of shape (M,) or (n, M)
        Weight of a vote for each class.
    n_chains : int
        C: the draws are the concatenated draws of C chains, and shares are means over each chain.

    Examples
    --------
    >>> x = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> index = CaseIndex.build(x, np.array([0, 0, 1]), n_classes=2, windows=[(0.0,), (0.0,)])
    >>> ranges, weights = index.ranges(x[2:]), np.log([[3.0, 2.0]])
    >>> vote_shares(index, ranges, weights, vote(index, ranges, weights), np.ones(2)).astype(float).round(3).tolist()
    [[[0.111, 0.222, 0.667]]]
    """
    from bayespatch.retrieval import kernels

    out = LeftOut.nobody(len(ranges)) if left_out is None else left_out
    if _on_gpu(engine, index, len(ranges)) and fits_products(log_weights, MOST_SUMMED):
        gpu: VotesElsewhere = load_votes("cuda")
        return gpu.vote_shares(index, ranges, log_weights, totals, heard, left_out=out, n_chains=n_chains)
    layout, tables = _tables(index, log_weights)
    n_draws = len(log_weights)
    n_scaled = 1 << (layout.bits[1] - layout.bits[0])
    scale = n_chains * totals.scale(heard)
    shares = np.empty((len(ranges), n_chains, index.n_cases), np.float32)

    def work(first: int, last: int) -> None:
        scratch = Scratch.of(len(layout.offset), n_draws, tables.logs, 0 if tables.by_logs else n_scaled)
        kernels.share_on_cases(
            index.codes, index.start, layout, *ranges, *out, tables, scratch, first, last, scale, totals.shift, shares
        )

    in_threads(len(ranges), n_threads, work)
    if index.weights is not None:
        shares *= index.weights.astype(np.float32)
    return shares


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
    engine: str = "cpu",
) -> LeaveOneOutScores:
    """Predict each of n past cases from all the others in one draw.

    ``log p(m) = slope log share_m + (1 - slope) log base_m + c``.

    Parameters
    ----------
    index, ranges, left_out, n_threads, engine
        As in `vote`.
    y : int array of shape (n,)
        The classes of the cases.
    log_weights : array of shape (K,)
        Log weight of every comparison.
    slope : float
        The slope of the map from vote shares to probabilities.
    heard, base : arrays of shape (M,)
        Weight of a vote for each class, and base rates; a share of `LEAST` of the votes goes to the base rates.
    """
    sums = leave_one_out_sums(index, ranges, left_out, log_weights, n_threads=n_threads, engine=engine)
    return sums.scores(y, slope=slope, heard=heard, base=base)


def leave_one_out_sums(
    index: CaseIndex,
    ranges: Ranges,
    left_out: LeftOut,
    log_weights: Array,
    *,
    n_threads: int = 1,
    engine: str = "cpu",
) -> LeaveOneOutSums:
    """Sums over past cases, for `leave_one_out` with the same arguments."""
    from bayespatch.retrieval import kernels

    in_products = fits_products(log_weights[None], MOST_SUMMED_DOUBLE)
    if _on_gpu(engine, index, len(ranges)) and in_products:
        gpu: VotesElsewhere = load_votes("cuda")
        return gpu.leave_one_out_sums(index, ranges, left_out, log_weights)
    layout = Layout.of(index, _most_bits(index, 3))
    logs = layout.log_table(log_weights[None])[:, 0]
    table = np.exp(logs) if in_products else logs
    sums, shift = np.empty((len(ranges), index.n_classes, len(index.columns) + 1)), np.zeros(len(ranges))
    weights = _own_weights(index)

    def work(first: int, last: int) -> None:
        scratch = Scratch.of(len(layout.offset), 0, np.empty((0, 0)))
        by_row = np.empty((index.n_classes, len(table)))
        kernels.leave_out_cases(
            index.codes, index.start, weights, layout, *ranges, *left_out, table, not in_products, scratch, by_row,
            first, last, sums, shift,
        )  # fmt: skip

    in_threads(len(ranges), n_threads, work)
    return LeaveOneOutSums(sums, shift)
