"""CUDA kernels over cases: which thread does what. What it does is in ``cuda_case``, ``cuda_counts``, ``cuda_sums``.

A kernel is made for a `Shape`: memory of fixed size that a thread indexes by constants lies in registers. Arrays come
in tuples, as on the CPU.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import config, cuda, float32, float64, uint32, uint64

from bayespatch.engine.cuda_case import (
    BIT,
    Case,
    Change,
    Own,
    accepted,
    begin_case,
    bit,
    cast_votes,
    is_on,
    largest_odds,
    load_agreement,
    refresh_labels,
    store_entry,
    strength,
    take_gains,
    turned_down,
)
from bayespatch.engine.cuda_counts import (
    Pair,
    choose_count,
    next_coefficient,
    prepare_count,
    prepare_feature,
    weight_of_count,
)
from bayespatch.engine.cuda_kappa import choose_kappa, draw_kappa, factor_given_kappa, likely_odds, weight_of_kappa
from bayespatch.engine.kernels import N_CANDIDATES
from bayespatch.engine.streams import inlined, key_of, to_unit

KEPT = 32  # kernels of so many shapes are kept


class Shape(NamedTuple):
    """What a kernel is compiled for."""

    kind: int
    n_features: int
    n_classes: int
    chunk: int  # how many factors may be multiplied before single precision could overflow
    group: int  # threads that work together


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


class Run(NamedTuple):
    """What an update of the cases is told, and tells."""

    numbers: Any  # (N,) int64: of the cases in the whole data
    most: Any  # (1,) int32: the longest list, where it was too long


class Counting(NamedTuple):
    """Model II: what a group of threads needs to weigh a pair."""

    pair: Pair
    weight: Any  # (P + 1,) float32: by the number of features that are on
    row: Any  # (P + 1,) float32: coefficients of a polynomial
    decided: Any  # (P, C) uint32: bit d % group of word d // group: whether feature j is on if d up to it are


class Choosing(NamedTuple):
    """Model III: the same, for candidates of kappa."""

    candidate: Any  # (R,) float64
    factor: Any  # (R, P) float64
    weight: Any  # (R,) float64


@lru_cache(KEPT)
def looking(kind: int, group: int, chunk: int) -> Any:
    """Whether a parent, of class `label`, may become a neighbor, as one thread can tell; in Model I, whether it does.

    `drawn`: whether its candidates for kappa have been drawn (Model III).
    """

    @cuda.jit(device=True)
    def look(c, chance, own, case, rng, pair_key, label, start, drawn):
        odds = largest_odds(c, chance, own, case.label[label], start, group, chunk)
        wanted = not turned_down(odds, pair_key)
        if kind == 1 and wanted:
            wanted = accepted(odds, pair_key)
        if kind == 3 and wanted:
            if not drawn:
                for r in range(N_CANDIDATES):
                    own.candidate[r] = draw_kappa(c, rng, pair_key, r)
                drawn = True
            odds = likely_odds(c, chance, own, case, label, start, group, chunk)
            wanted = not turned_down(odds, pair_key)
        return wanted, drawn

    return look


@lru_cache(KEPT)
def weighing(kind: int, size: int, group: int) -> Any:
    """k with which parent b, who may become a neighbor, does so; negative: it does not."""
    n_counts = size + 1

    @cuda.jit(device=True)
    def always(c, table, importance, case, change, counting, choosing, i, b, pair_key, current):
        return 1.0

    @cuda.jit(device=True)
    def by_counts(c, table, importance, case, change, counting, choosing, i, b, pair_key, current):
        lane = cuda.threadIdx.x
        poly = cuda.local.array(n_counts, float32)
        for j in range(lane, size, group):
            prepare_feature(c, table, importance, case, change, counting.pair, i, b, j)
        cuda.syncwarp()
        label = table.y_parents[b]
        for k in range(lane, n_counts, group):
            counting.weight[k] = weight_of_count(c, case, counting.pair, poly, label, k)
        cuda.syncwarp()
        return float(choose_count(c, counting.pair, counting.weight, pair_key))

    @cuda.jit(device=True)
    def by_kappas(c, table, importance, case, change, counting, choosing, i, b, pair_key, current):
        lane = cuda.threadIdx.x
        rng = cuda.local.array(2, uint64)
        for r in range(lane, N_CANDIDATES, group):
            # The first is the current kappa of who has been a neighbor.
            choosing.candidate[r] = current if r == 0 and current >= 0.0 else draw_kappa(c, rng, pair_key, r)
        cuda.syncwarp()
        for item in range(lane, N_CANDIDATES * size, group):
            r = item // size
            j = item - r * size
            kappa = choosing.candidate[r]
            choosing.factor[r, j] = factor_given_kappa(c, table, importance, case, change, i, b, j, kappa)
        cuda.syncwarp()
        for r in range(lane, N_CANDIDATES, group):
            choosing.weight[r] = weight_of_kappa(c, table, case, choosing.factor, i, b, r, choosing.candidate[r])
        cuda.syncwarp()
        chosen = choose_kappa(c, choosing.weight, pair_key)
        return choosing.candidate[chosen] if chosen >= 0 else -1.0

    return {1: always, 2: by_counts, 3: by_kappas}[kind]


@lru_cache(KEPT)
def drawing(kind: int, size: int, group: int) -> Any:
    """w of parent b, which becomes a neighbor and votes with weight k, into `change.bits`."""
    n_words, n_counts = -(-size // 32), size + 1
    everyone = np.uint32((1 << group) - 1)
    last = (n_counts - 1) // group * group

    @cuda.jit(device=True)
    def by_feature(c, table, importance, case, change, counting, i, b, pair_key, k):
        lane = cuda.threadIdx.x
        for word in range(n_words):
            change.bits[word] = 0
        for first in range(0, size, group):
            j = first + lane
            on = False
            if j < size:
                on = is_on(
                    kind, c, table, importance, case, change, i, b, j, k, to_unit(np.uint64(key_of(pair_key, j)))
                )
            change.bits[first >> 5] |= np.uint32(np.uint32(cuda.ballot_sync(everyone, on)) << np.uint32(first & 31))

    @cuda.jit(device=True)
    def given_count(c, table, importance, case, change, counting, i, b, pair_key, k):
        lane = cuda.threadIdx.x
        cuda.syncwarp()
        for j in range(lane, size, group):
            prepare_count(c, counting.pair, pair_key, j, k)
        for degree in range(lane, n_counts, group):
            counting.row[degree] = 1.0 if degree == 0 else 0.0
        cuda.syncwarp()
        for j in range(size):
            for first in range(last, -1, -group):
                degree = first + lane
                here, on = np.float32(0.0), False
                if degree < n_counts:
                    here, on = next_coefficient(counting.pair, counting.row, j, degree)
                decided = np.uint32(cuda.ballot_sync(everyone, on))
                if degree < n_counts:
                    counting.row[degree] = here
                if lane == 0:
                    counting.decided[j, first // group] = decided
                cuda.syncwarp()
        for word in range(n_words):
            change.bits[word] = 0
        left = int(k)
        for j in range(size - 1, -1, -1):
            if (counting.decided[j, left // group] >> np.uint32(left % group)) & BIT != 0:
                change.bits[j >> 5] |= np.uint32(BIT << np.uint32(j & 31))
                left -= 1

    return given_count if kind == 2 else by_feature


@lru_cache(KEPT)
def changing(kind: int, size: int, group: int) -> tuple[Any, Any]:
    """A neighbor goes, and a parent becomes one: the votes, the counts and the lists."""
    n_words = -(-size // 32)

    @cuda.jit(device=True)
    def take_out(c, table, case, change, old, i, s, b):
        k = strength(kind, old, s, i)
        for word in range(n_words):
            change.bits[word] = old.bits[i, s, word]
            change.same[word] = old.same[i, s, word]
        cast_votes(kind, c, table, case, change, i, b, -k, cuda.threadIdx.x, group)
        return k

    @cuda.jit(device=True)
    def put_in(c, table, case, change, new, chain, i, n, b, k):
        lane = cuda.threadIdx.x
        cast_votes(kind, c, table, case, change, i, b, k, lane, group)
        for j in range(lane, size, group):
            if bit(change.bits, j):
                cuda.atomic.add(chain.n_on, (b, j), 1)
        if lane == 0:
            cuda.atomic.add(chain.n_neighbors, b, 1)
            store_entry(kind, new, change, n, i, b, k)

    return take_out, put_in


def limited_registers(size: int) -> dict[str, int]:
    """Few registers, so that many groups run side by side: room for the gains and what is often needed."""
    if config.ENABLE_CUDASIM:  # type: ignore[attr-defined]
        return {}
    return {"max_registers": min(255, -(-(2 * size + 56) // 8) * 8)}


@lru_cache(KEPT)
def update_kernel(shape: Shape) -> Any:
    """One sweep over all parents of every case, from the entries `old` to `new`; `most`: the longest list, if too long.

    A group of threads a case, a block each; a group is a warp or a part of one. n_b and s_bj of `chain` are added to.
    """
    kind, size, n_classes, chunk, group = shape
    n_words = -(-size // 32)
    exact = float64 if kind == 3 else float32
    n_counts = size + 1 if kind == 2 else 1
    n_candidates = N_CANDIDATES if kind == 3 else 1
    n_paired, n_factors = (size if kind == 2 else 1), (size if kind == 3 else 1)
    n_chunks = n_counts // group + 1
    everyone = np.uint32((1 << group) - 1)
    look = looking(kind, group, chunk)
    weigh, draw = weighing(kind, size, group), drawing(kind, size, group)
    take_out, put_in = changing(kind, size, group)

    @cuda.jit(fastmath=True, **limited_registers(size))
    def kernel(c, table, importance, old, new, chain, run, key):
        votes = cuda.shared.array((2, size), exact)
        gain = cuda.shared.array((2, size), float32)
        class_votes = cuda.shared.array(n_classes, exact)
        label = cuda.shared.array(n_classes, float32)
        off = cuda.shared.array(n_paired, float32)
        on = cuda.shared.array(n_paired, float32)
        total = cuda.shared.array(n_paired, float32)
        agreeing = cuda.shared.array(n_paired, float32)
        counted = cuda.shared.array(n_paired, float32)
        scale = cuda.shared.array(n_paired, float32)
        weight = cuda.shared.array(n_counts, float32)
        row = cuda.shared.array(n_counts, float32)
        decided = cuda.shared.array((n_paired, n_chunks), uint32)
        candidate = cuda.shared.array(n_candidates, float64)
        factor = cuda.shared.array((n_candidates, n_factors), float64)
        weight_of = cuda.shared.array(n_candidates, float64)
        slope = cuda.shared.array((2, n_factors), float32)
        label_slope = cuda.shared.array((2, n_classes), float32)
        rng = cuda.local.array(2, uint64)
        case = Case(votes, gain, slope, class_votes, label, label_slope)
        counting = Counting(Pair(off, on, total, agreeing, counted, scale), weight, row, decided)
        choosing = Choosing(candidate, factor, weight_of)
        own = Own(
            cuda.local.array((2, size), float32),
            cuda.local.array(n_words, uint32),
            cuda.local.array(n_words, uint32),
            cuda.local.array(n_candidates, float32),
            cuda.local.array(n_candidates, float32),
        )
        change = Change(cuda.local.array(n_words, uint32), cuda.local.array(n_words, uint32))

        i = cuda.blockIdx.x
        lane = cuda.threadIdx.x
        n_parents = table.same.shape[2]
        own_parent = table.own_parent[i]
        case_key = np.uint64(key_of(key, run.numbers[i]))
        n_old = old.n[i]
        following = old.parent[i, 0] if n_old > 0 else n_parents
        begin_case(kind, c, table, old, case, i, lane, group)
        cuda.syncwarp()
        refresh_labels(kind, c, table, case, i, lane, group)
        cuda.syncwarp()
        take_gains(case, own)
        if lane < n_parents:
            load_agreement(table, own.ahead, i, lane)
        n = 0
        s = 0
        for base in range(0, n_parents, group):
            b = base + lane
            for word in range(n_words):
                own.same[word] = own.ahead[word]
            if b + group < n_parents:
                load_agreement(table, own.ahead, i, b + group)
            pair_key = np.uint64(key_of(case_key, b))
            start = np.uint64(base * size + lane)  # `chance_at`
            y_parent = table.y_parents[min(b, n_parents - 1)]
            looking = b < n_parents and b != own_parent
            done = 0  # parents before this one are decided
            current = -1.0  # Model III: kappa of the one who was taken out last
            drawn = False  # Model III: candidates for kappa
            while True:
                wanted = False
                if looking and lane >= done:
                    wanted, drawn = look(c, importance.chance, own, case, rng, pair_key, y_parent, start, drawn)
                    if kind == 3 and current >= 0.0 and lane == done:
                        wanted = True
                first = cuda.ffs(cuda.ballot_sync(everyone, wanted)) - 1
                place = following - base
                if s < n_old and place < group and (first < 0 or place <= first):  # a neighbor: take it out
                    current = take_out(c, table, case, change, old, i, s, following)
                    done = place
                    s += 1
                    following = old.parent[i, s] if s < n_old else n_parents
                elif first < 0:
                    break
                else:  # a candidate: weigh it, put it in
                    b_new = base + first
                    key_new = np.uint64(key_of(case_key, b_new))
                    load_agreement(table, change.same, i, b_new)
                    known = current if first == done else -1.0
                    k = weigh(c, table, importance, case, change, counting, choosing, i, b_new, key_new, known)
                    done = first + 1
                    current = -1.0
                    if k < 0.0:
                        continue
                    draw(c, table, importance, case, change, counting, i, b_new, key_new, k)
                    put_in(c, table, case, change, new, chain, i, n, b_new, k)
                    n += 1
                cuda.syncwarp()
                refresh_labels(kind, c, table, case, i, lane, group)
                cuda.syncwarp()
                take_gains(case, own)
        if lane == 0:
            new.n[i] = n
            if n > new.parent.shape[1]:
                cuda.atomic.max(run.most, 0, n)

    return kernel
