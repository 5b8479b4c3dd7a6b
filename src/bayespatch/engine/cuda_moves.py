"""CUDA kernels over cases with w summed out or drawn afresh, and what is counted of the cases: a thread does what
``cuda_sums`` says. The update of the cases is in ``cuda_kernels``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numba import cuda, float64, uint64

from bayespatch.engine.cuda_case import BIT
from bayespatch.engine.cuda_kernels import KEPT, Shape
from bayespatch.engine.cuda_sums import (
    compare_counts,
    compare_settings,
    redraw_counts,
    redraw_settings,
    summarise_case,
)


@lru_cache(KEPT)
def compare_kernel(shape: Shape) -> Any:
    """log_ratio[j, i]: how much better the new q~ explains feature j of case i, w summed out; j from `first` on."""
    kind, size, n_classes, _, _, capacity = shape
    n_terms = capacity + 1

    @cuda.jit
    def by_counts(c, table, entries, move, key, first):
        i = cuda.grid(1)
        j = first + cuda.blockIdx.y
        if i < entries.n.shape[0]:
            count = cuda.local.array(n_terms, float64)
            copied = cuda.local.array(n_terms, float64)
            move.log_ratio[j, i] = compare_counts(c, table, move.old, move.new, entries, count, copied, i, j)

    @cuda.jit
    def by_settings(c, table, entries, move, key, first):
        i = cuda.grid(1)
        j = first + cuda.blockIdx.y
        if i < entries.n.shape[0]:
            votes = cuda.local.array((2, size), float64)
            class_votes = cuda.local.array(n_classes, float64)
            rng = cuda.local.array(2, uint64)
            move.log_ratio[j, i] = compare_settings(
                kind, c, table, move.old, move.new, entries, votes, class_votes, rng, key, i, j
            )

    return by_counts if kind == 1 else by_settings


@lru_cache(KEPT)
def redraw_kernel(shape: Shape) -> Any:
    """w_i:j afresh for features first..last-1 whose new q~ was accepted. One thread a case: features share words."""
    kind, size, n_classes, _, _, capacity = shape
    n_terms = capacity + 1

    @cuda.jit
    def by_counts(c, table, entries, move, key, first, last):
        i = cuda.grid(1)
        if i < entries.n.shape[0]:
            count = cuda.local.array(n_terms, float64)
            copied = cuda.local.array(n_terms, float64)
            rng = cuda.local.array(2, uint64)
            for j in range(first, last):
                if move.accepted[j]:
                    redraw_counts(c, table, move.old, entries, count, copied, rng, key, i, j)

    @cuda.jit
    def by_settings(c, table, entries, move, key, first, last):
        i = cuda.grid(1)
        if i < entries.n.shape[0]:
            votes = cuda.local.array((2, size), float64)
            class_votes = cuda.local.array(n_classes, float64)
            rng = cuda.local.array(2, uint64)
            for j in range(first, last):
                if move.accepted[j]:
                    redraw_settings(kind, c, table, move.old, entries, votes, class_votes, rng, key, i, j)

    return by_counts if kind == 1 else by_settings


@lru_cache(KEPT)
def summary_kernel(shape: Shape) -> Any:
    """Vote shares (N, M) and log likelihood (N,) of the cases."""
    kind, size, n_classes, _, _, _ = shape

    @cuda.jit
    def kernel(c, table, entries, mu0, out):
        shares, log_likelihood = out
        i = cuda.grid(1)
        if i < entries.n.shape[0]:
            votes = cuda.local.array((2, size), float64)
            class_votes = cuda.local.array(n_classes, float64)
            log_likelihood[i] = summarise_case(kind, c, table, entries, votes, class_votes, mu0, shares, i)

    return kernel


@cuda.jit
def clear_counts(counts):
    """n_b and s_bj, before they are counted."""
    n_neighbors, n_on = counts
    b = cuda.grid(1)
    if b < n_neighbors.shape[0]:
        n_neighbors[b] = 0
        for j in range(n_on.shape[1]):
            n_on[b, j] = 0


@cuda.jit
def count_neighbors(entries, counts):
    """n_b: how many cases parent b is a neighbor of; s_bj: for how many of them its feature j is on."""
    n_neighbors, n_on = counts
    i = cuda.grid(1)
    if i < entries.n.shape[0]:
        for s in range(entries.n[i]):
            b = entries.parent[i, s]
            cuda.atomic.add(n_neighbors, b, 1)
            for j in range(n_on.shape[1]):
                if (entries.bits[i, s, j >> 5] >> np.uint32(j & 31)) & BIT != 0:
                    cuda.atomic.add(n_on, (b, j), 1)
