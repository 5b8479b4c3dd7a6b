"""CUDA kernels over cases with w summed out or drawn afresh, and what is counted of the cases: a thread does what
``cuda_nodes`` (Model I) or ``cuda_sums`` (Models II and III) says. The update of the cases is in ``cuda_kernels``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numba import cuda, float32, float64, int32, int64, uint32, uint64

from bayespatch.engine.cuda_case import BIT, in_word
from bayespatch.engine.cuda_kernels import KEPT, Shape
from bayespatch.engine.cuda_launch import THREADS
from bayespatch.engine.cuda_nodes import begin_redraw, compare_nodes, draw_w
from bayespatch.engine.cuda_sums import (
    MAX_SUMMED,
    N_SETTINGS,
    Settings,
    compare_settings,
    redraw_settings,
    summarise_case,
)


@cuda.jit
def compare_by_nodes(c, table, nodes, entries, chain, move, key, first):
    """Model I: log_ratio[j, block], how much better the new q~ explains feature j of the block's cases, w summed out;
    j from `first` on.

    The threads of a block are the features of a few cases (`grid_of_pairs`): they read the same list of neighbors, and
    rows of q~ side by side. A thread keeps its feature and goes over cases, always the same ones in the same order.
    """
    t = cuda.threadIdx.x
    n_features = move.accepted.shape[0]
    width = min(n_features, cuda.blockDim.x)
    together = cuda.blockDim.x // width
    logs = cuda.shared.array(THREADS, float64)
    for base in range(first, n_features, width):
        j = base + t % width
        log = 0.0
        if j < n_features:
            for i in range(cuda.blockIdx.x * together + t // width, entries.n.shape[0], cuda.gridDim.x * together):
                log += compare_nodes(c, table, nodes, move.old, move.new, entries, i, j)
        logs[t] = log
        cuda.syncthreads()
        if t < width and j < n_features:
            log = 0.0
            for row in range(together):
                log += logs[row * width + t]
            move.log_ratio[j, cuda.blockIdx.x] = log
        cuda.syncthreads()


@lru_cache(KEPT)
def redraw_by_nodes(n_features: int) -> Any:
    """Model I: w_i:j afresh for features first..last-1 whose new q~ was accepted, and s_bj with it.

    A thread keeps its feature. Features share words: a bit is switched where it changes, and the others are left alone.
    """

    @cuda.jit
    def kernel(c, table, nodes, entries, chain, move, key, first, last):
        t = cuda.threadIdx.x
        features = cuda.shared.array(n_features, int64)
        n_accepted = cuda.shared.array(1, int32)
        rng = cuda.local.array(2, uint64)
        if t == 0:
            n_accepted[0] = 0
        cuda.syncthreads()
        for j in range(first + t, last, cuda.blockDim.x):
            if move.accepted[j]:
                features[cuda.atomic.add(n_accepted, 0, 1)] = j
        cuda.syncthreads()
        width = max(1, min(n_accepted[0], cuda.blockDim.x))
        together = cuda.blockDim.x // width
        if t < width * together:
            for position in range(t % width, n_accepted[0], width):
                j = features[position]
                mask = np.uint32(BIT << np.uint32(j & 31))
                for i in range(cuda.blockIdx.x * together + t // width, entries.n.shape[0], cuda.gridDim.x * together):
                    s, source = begin_redraw(c, table, nodes, move.old, entries, rng, key, i, j)
                    for r in range(entries.n[i]):
                        on = draw_w(table, move.old, entries, rng, s, source, r, i, j)
                        if on != (entries.bits[i, r, j >> 5] & mask != 0):
                            cuda.atomic.xor(entries.bits, (i, r, j >> 5), mask)
                            cuda.atomic.add(chain.n_on, (entries.parent[i, r], j), 1 if on else -1)

    return kernel


def grid_of_settings(n_cases: int, n_features: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Blocks (cases, features) and threads (features, cases): one case and feature each, features side by side."""
    parts = -(-n_features // THREADS)
    width = -(-n_features // parts)
    together = min(n_cases, THREADS // width)
    return (-(-n_cases // together), parts), (width, together)


@lru_cache(KEPT)
def compare_by_settings(kind: int, n_features: int) -> Any:
    """Models II and III: log_ratio[j, block], likewise, a thread a case and feature (`grid_of_settings`)."""
    votes, exact = ((2, n_features), float32) if kind == 2 else ((2, 1), float64)

    @cuda.jit
    def kernel(c, table, entries, chain, move, key, first):
        x, y = cuda.threadIdx.x, cuda.threadIdx.y
        width, together = cuda.blockDim.x, cuda.blockDim.y
        i = cuda.blockIdx.x * together + y
        j = first + cuda.blockIdx.y * width + x
        logs = cuda.shared.array(THREADS, float64)
        log = 0.0
        if i < entries.n.shape[0] and j < n_features:
            rng = cuda.local.array(2, uint64)
            at = Settings(
                cuda.local.array(N_SETTINGS, float64),
                cuda.local.array(N_SETTINGS, float64),
                cuda.local.array(MAX_SUMMED, uint32),
                cuda.local.array(MAX_SUMMED, uint32),
                cuda.local.array(MAX_SUMMED, exact),
                cuda.local.array(MAX_SUMMED, float64),
                cuda.local.array((2, MAX_SUMMED), uint32),
                cuda.local.array((2, MAX_SUMMED), float64),
                cuda.local.array(votes, exact),
            )
            log = compare_settings(kind, c, table, move.old, move.new, entries, at, rng, key, i, j)
        logs[y * width + x] = log
        cuda.syncthreads()
        if y == 0 and j < n_features:
            for row in range(1, together):
                log += logs[row * width + x]
            move.log_ratio[j, cuda.blockIdx.x] = log

    return kernel


@lru_cache(KEPT)
def redraw_by_settings(kind: int, n_features: int) -> Any:
    """Models II and III: w_i:j afresh for features first..last-1 whose new q~ was accepted, and s_bj with it."""
    votes, exact = ((2, n_features), float32) if kind == 2 else ((2, 1), float64)

    @cuda.jit
    def kernel(c, table, entries, chain, move, key, first, last):
        i = cuda.blockIdx.x * cuda.blockDim.y + cuda.threadIdx.y
        j = first + cuda.blockIdx.y * cuda.blockDim.x + cuda.threadIdx.x
        if i < entries.n.shape[0] and j < last and move.accepted[j]:
            rng = cuda.local.array(2, uint64)
            at = Settings(
                cuda.local.array(N_SETTINGS, float64),
                cuda.local.array(N_SETTINGS, float64),
                cuda.local.array(MAX_SUMMED, uint32),
                cuda.local.array(MAX_SUMMED, uint32),
                cuda.local.array(MAX_SUMMED, exact),
                cuda.local.array(MAX_SUMMED, float64),
                cuda.local.array((2, MAX_SUMMED), uint32),
                cuda.local.array((2, MAX_SUMMED), float64),
                cuda.local.array(votes, exact),
            )
            changes = redraw_settings(kind, c, table, move.old, entries, at, rng, key, i, j)
            for r in range(MAX_SUMMED):
                if (changes >> r) & 1:
                    place = i, at.entry[r], j >> 5
                    was = cuda.atomic.xor(entries.bits, place, np.uint32(BIT << np.uint32(j & 31)))
                    cuda.atomic.add(chain.n_on, (at.parent[r], j), -1 if in_word(was, j) else 1)

    return kernel


@lru_cache(KEPT)
def summary_kernel(shape: Shape) -> Any:
    """Vote shares (N, M) and log likelihood (N,) of the cases."""
    kind, size, n_classes, _, _ = shape

    @cuda.jit
    def kernel(c, table, entries, out):
        shares, log_likelihood = out
        i = cuda.grid(1)
        if i < entries.n.shape[0]:
            votes = cuda.local.array((2, size), float64)
            class_votes = cuda.local.array(n_classes, float64)
            log_likelihood[i] = summarise_case(kind, c, table, entries, votes, class_votes, shares, i)

    return kernel


@cuda.jit
def clear_counts(chain):
    """n_b and s_bj, before they are counted."""
    b = cuda.grid(1)
    if b < chain.n_neighbors.shape[0]:
        chain.n_neighbors[b] = 0
        for j in range(chain.n_on.shape[1]):
            chain.n_on[b, j] = 0


@cuda.jit
def count_neighbors(entries, chain):
    """n_b: how many cases parent b is a neighbor of; s_bj: for how many of them its feature j is on."""
    i = cuda.grid(1)
    if i < entries.n.shape[0]:
        for s in range(entries.n[i]):
            b = entries.parent[i, s]
            cuda.atomic.add(chain.n_neighbors, b, 1)
            for j in range(chain.n_on.shape[1]):
                if (entries.bits[i, s, j >> 5] >> np.uint32(j & 31)) & BIT != 0:
                    cuda.atomic.add(chain.n_on, (b, j), 1)
