"""CUDA kernels over cases: which thread does what. What it does is in ``cuda_case``, ``cuda_counts``, ``cuda_sums``.

A kernel is made for a `Shape`: memory of fixed size that a thread indexes by constants lies in registers. Arrays come
in tuples, as on the CPU.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, float32, float64, int32, uint32, uint64

from bayespatch.engine.cuda_case import (
    BIT,
    Case,
    Own,
    begin_case,
    cast_votes,
    consider,
    draw_features,
    fetch_agreement,
    load_entry,
    next_agreement,
    open_case,
    refresh_labels,
    show_agreement,
    store_entry,
    strength,
    take_ratios,
)
from bayespatch.engine.cuda_counts import (
    Pair,
    decide_count,
    draw_features_given_count,
    prepare_feature,
    weight_of_count,
)
from bayespatch.engine.kernels import N_CANDIDATES
from bayespatch.engine.streams import inlined

KEPT = 32  # kernels of so many shapes are kept


class Shape(NamedTuple):
    """What a kernel is compiled for."""

    kind: int
    n_features: int
    n_classes: int
    chunk: int  # how many factors may be multiplied before single precision could overflow
    group: int  # threads that work together
    capacity: int  # of the lists of neighbors


@inlined
def agreement(values, word, b, i):
    """32 features of case i and parent b as bits: on where they agree. NaN never agrees."""
    x, x_parents, windows = values
    bits = np.uint32(0)
    for j in range(32 * word, min(32 * word + 32, x.shape[0])):
        if abs(x[j, i] - x_parents[j, b]) <= windows[j]:
            bits |= np.uint32(BIT << np.uint32(j & 31))
    return bits


@cuda.jit
def find_agreement(values, table):
    """`table.same`, from x (P, N), x_parents (P, S) and windows (P,)."""
    b = cuda.grid(1)
    if b < table.same.shape[2]:
        for i in range(cuda.blockIdx.y, table.same.shape[1], cuda.gridDim.y):
            for word in range(table.same.shape[0]):
                table.same[word, i, b] = agreement(values, word, b, i)


@lru_cache(KEPT)
def update_kernel(shape: Shape) -> Any:
    """One sweep over all parents of every case, from the entries `old` to `new`; `most`: the longest list, if too long.

    One thread a case, in groups of `shape.group`. The threads look for candidates by themselves; whatever changes the
    neighbors of a case, and in Model II the weighing of a candidate, is done by the group together.
    """
    kind, size, n_classes, chunk, group, _ = shape
    n_words, n_counts = -(-size // 32), size + 1
    exact = float64 if kind == 3 else float32
    n_poly, n_prefix = (n_counts, n_counts) if kind == 2 else (1, 1)

    @cuda.jit(fastmath=True)
    def kernel(c, table, importance, old, new, run, key):
        numbers, most = run
        lane = cuda.threadIdx.x
        n_lanes = cuda.blockDim.x
        i = cuda.grid(1)
        leader = i - lane
        votes = cuda.shared.array((2, size, group), exact)
        ratio = cuda.shared.array((2, size, group), float32)
        class_votes = cuda.shared.array((n_classes, group), float64)
        label = cuda.shared.array((n_classes, group), float32)
        bits = cuda.shared.array((n_words, group), uint32)
        same = cuda.shared.array((n_words, group), uint32)
        strengths = cuda.shared.array(group, float64)
        streams = cuda.shared.array((group, 2), uint64)
        flags = cuda.shared.array(size, int32)
        queue = cuda.shared.array(group, int32)
        n_queued = cuda.shared.array(1, int32)
        weights = cuda.shared.array(n_poly, float32)
        off = cuda.shared.array(size, float32)
        on = cuda.shared.array(size, float32)
        total = cuda.shared.array(size, float32)
        gain = cuda.shared.array(size, float32)
        counts = cuda.shared.array(size, float32)
        pair = Pair(off, on, total, gain, counts)
        own = Own(
            cuda.local.array(2, uint64),
            cuda.local.array((2, size), float32),
            cuda.local.array(n_words, uint32),
            cuda.local.array(n_words, uint32),
        )
        case = Case(
            votes[:, :, lane], ratio[:, :, lane], class_votes[:, lane], label[:, lane], bits[:, lane], same[:, lane]
        )
        candidate = cuda.local.array(N_CANDIDATES, float64)
        weight = cuda.local.array(N_CANDIDATES, float64)
        poly = cuda.local.array(n_poly, float32)
        prefix = cuda.local.array((n_prefix, n_prefix), float32)
        rng = cuda.local.array(2, uint64)
        mine = i < numbers.shape[0]
        n_old = 0
        own_parent = -1
        following = -1
        if mine:
            open_case(own.rng, key, numbers[i])
            begin_case(kind, c, table, old, case, i)
            take_ratios(case, own)
            fetch_agreement(table, own, 0, i)
            own_parent = table.own_parent[i]
            n_old = old.n[i]
            if n_old > 0:
                following = old.parent[i, 0]
        if lane == 0:
            n_queued[0] = 0
        n = 0
        s = 0
        for b in range(table.same.shape[2]):
            if mine:
                next_agreement(table, own, b, i)
            current = -1.0
            if cuda.syncthreads_or(np.int32(b == following)):  # somebody's neighbor: take it out
                if b == following:
                    current = strength(kind, old, s, i)
                    strengths[lane] = -current
                    load_entry(old, case, s, i)
                    show_agreement(own, case)
                    case.class_votes[table.y_parents[b]] -= current
                    queue[cuda.atomic.add(n_queued, 0, 1)] = lane
                    s += 1
                    following = old.parent[i, s] if s < n_old else -1
                cuda.syncthreads()
                n_pairs = n_queued[0]
                for position in range(n_pairs):
                    other = queue[position]
                    its = Case(
                        votes[:, :, other], ratio[:, :, other], class_votes[:, other], label[:, other],
                        bits[:, other], same[:, other],
                    )  # fmt: skip
                    cast_votes(kind, c, table, its, leader + other, b, strengths[other], lane, n_lanes)
                    refresh_labels(kind, c, table, its, leader + other, lane, n_lanes)
                cuda.syncthreads()
                if current >= 0.0:
                    take_ratios(case, own)
                if lane == 0:
                    n_queued[0] = 0

            k, u, odds = -1.0, 0.0, 0.0
            if mine and b != own_parent:
                k, u, odds = consider(kind, c, table, importance, own, case, candidate, weight, chunk, i, b, current)
            if cuda.syncthreads_or(np.int32(k >= 0.0)):  # somebody's candidate: weigh it, put it in
                if k >= 0.0:
                    strengths[lane] = k
                    show_agreement(own, case)
                    for word in range(n_words):
                        bits[word, lane] = 0
                    streams[lane, 0] = own.rng[0]
                    streams[lane, 1] = own.rng[1]
                    queue[cuda.atomic.add(n_queued, 0, 1)] = lane
                cuda.syncthreads()
                n_pairs = n_queued[0]
                for position in range(n_pairs):
                    other = queue[position]
                    its = Case(
                        votes[:, :, other], ratio[:, :, other], class_votes[:, other], label[:, other],
                        bits[:, other], same[:, other],
                    )  # fmt: skip
                    if kind == 2:
                        j = lane
                        while j < size:
                            prepare_feature(c, table, importance, its, pair, leader + other, b, j)
                            j += n_lanes
                        cuda.syncthreads()
                        count = lane
                        while count < n_counts:
                            weights[count] = weight_of_count(c, table, its, pair, poly, leader + other, b, count)
                            count += n_lanes
                        cuda.syncthreads()
                        if lane == other:
                            k = float(decide_count(weights, odds, case.label[table.y_parents[b]], u, own.rng))
                            strengths[lane] = k
                            if k >= 0.0:
                                draw_features_given_count(
                                    c, table, importance, case, own.rng, prefix, flags, i, b, int(k)
                                )
                        cuda.syncthreads()
                    else:
                        rng[0] = streams[other, 0]
                        rng[1] = streams[other, 1]
                        draw_features(
                            kind, c, table, importance, its, rng, flags, leader + other, b, strengths[other],
                            lane, n_lanes,
                        )  # fmt: skip
                        if lane == other:
                            own.rng[0] = rng[0]
                            own.rng[1] = rng[1]
                        cuda.syncthreads()
                    if strengths[other] >= 0.0:
                        j = lane
                        while j < size:
                            if flags[j]:
                                cuda.atomic.or_(bits, (j >> 5, other), np.uint32(1 << (j & 31)))
                            j += n_lanes
                        if lane == other:
                            case.class_votes[table.y_parents[b]] += k
                        cuda.syncthreads()
                        cast_votes(kind, c, table, its, leader + other, b, strengths[other], lane, n_lanes)
                        refresh_labels(kind, c, table, its, leader + other, lane, n_lanes)
                        if lane == other:
                            store_entry(kind, new, case, n, i, b, k)
                            n += 1
                        cuda.syncthreads()
                        if lane == other:
                            take_ratios(case, own)
                if lane == 0:
                    n_queued[0] = 0
        if mine:
            new.n[i] = n
            if n > new.parent.shape[1]:
                cuda.atomic.max(most, 0, n)

    return kernel
