"""One feature of one case with its w summed out, in a single thread that uses only registers.

The sums run over the nodes or rates of ``quadrature.py``, a handful at a time. In Model II, each w changes the weight
of its parent's votes on the other features and on the label; see ``cpu/sums.py``.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import cuda, float64, int32, int64, uint64

from bayespatch.engine.quadrature import HANDFUL, with_entry, with_weighted_entry
from bayespatch.engine.streams import key_of, open_stream, uniform
from bayespatch.engine.votes import (
    AGREE,
    LOGS,
    OFF,
    ON,
    TOTAL,
    VOTE_OFF,
    VOTE_ON,
    feature_change,
    label_change,
    label_slope,
)
from bayespatch_cuda.compiling import inlined
from bayespatch_cuda.launch import THREADS
from bayespatch_cuda.layout import BIT, in_word, vote_weight
from bayespatch_cuda.update import KEPT

if TYPE_CHECKING:
    from numba.cuda.cudadrv.devicearray import DeviceNDArray


class DeviceNodes(NamedTuple):
    """`quadrature.Nodes` on the GPU, and exp(-u lam k) by weight in Model II."""

    place: DeviceNDArray  # (nodes, P), in Models II and III (nodes, 1)
    weight: DeviceNDArray  # (nodes, P)
    span: DeviceNDArray  # (2, C+1)
    decay: DeviceNDArray  # (P+1, nodes) in Model II, else (1, 1)


@inlined
def open_item(rng, key, j, i):
    """The stream of case i in the move of feature j."""
    open_stream(rng, key_of(key_of(key, j), i))


@inlined
def weight_if_on(kind, entries, r, i, j):
    """k: the weight of the vote of entry r on feature j of case i, if it votes."""
    k = vote_weight(kind, entries, r, i)
    return k + 1.0 if kind == 2 and not in_word(entries.bits[i, r, j >> 5], j) else k


@inlined
def tilt_of(kind, entries, i, r):
    """The factor by which one more vote of entry r changes the likelihood of case i without the current feature."""
    return entries.tilt[i, r] if kind == 2 else 1.0


@inlined
def decay_of(kind, c, nodes, k, node, j):
    """s in Model I; exp(-u lam k) in Models II (from a table) and III."""
    if kind == 1:
        return nodes.place[node, j]
    if kind == 2:
        return nodes.decay[int(k), node]
    return math.exp(-c.lam * k * nodes.place[node, 0])


@inlined
def weigh_handful(kind, c, nodes, importance, entries, first, i, j, n):
    """The weights W c1 G and W lam C of nodes first..first+3, side by side in registers."""
    g0, g1, g2, g3 = 1.0, 1.0, 1.0, 1.0
    c0, c1, c2, c3 = 0.0, 0.0, 0.0, 0.0
    w0, w1, w2, w3 = (
        nodes.weight[first, j],
        nodes.weight[first + 1, j],
        nodes.weight[first + 2, j],
        nodes.weight[first + 3, j],
    )
    if kind == 1:
        s0, s1, s2, s3 = (
            nodes.place[first, j],
            nodes.place[first + 1, j],
            nodes.place[first + 2, j],
            nodes.place[first + 3, j],
        )
        for r in range(n):
            on = importance[VOTE_ON, entries.parent[i, r], j]
            agreeing = on if in_word(entries.same[i, r, j >> 5], j) else 0.0
            g0, c0 = with_entry(g0, c0, s0 - 1.0, on, agreeing)
            g1, c1 = with_entry(g1, c1, s1 - 1.0, on, agreeing)
            g2, c2 = with_entry(g2, c2, s2 - 1.0, on, agreeing)
            g3, c3 = with_entry(g3, c3, s3 - 1.0, on, agreeing)
        c0, c1, c2, c3 = c.lam * s0 * c0, c.lam * s1 * c1, c.lam * s2 * c2, c.lam * s3 * c3
    else:
        for r in range(n):
            b = entries.parent[i, r]
            on, off = importance[VOTE_ON, b, j] * tilt_of(kind, entries, i, r), importance[VOTE_OFF, b, j]
            k = weight_if_on(kind, entries, r, i, j)
            vote = c.lam * k if in_word(entries.same[i, r, j >> 5], j) else 0.0
            g0, c0 = with_weighted_entry(g0, c0, decay_of(kind, c, nodes, k, first, j), on, off, vote)
            g1, c1 = with_weighted_entry(g1, c1, decay_of(kind, c, nodes, k, first + 1, j), on, off, vote)
            g2, c2 = with_weighted_entry(g2, c2, decay_of(kind, c, nodes, k, first + 2, j), on, off, vote)
            g3, c3 = with_weighted_entry(g3, c3, decay_of(kind, c, nodes, k, first + 3, j), on, off, vote)
    base = (w0 * c.c1 * g0, w1 * c.c1 * g1, w2 * c.c1 * g2, w3 * c.c1 * g3)
    return base, (w0 * c0, w1 * c1, w2 * c2, w3 * c3)


@inlined
def sum_over_nodes(kind, c, nodes, importance, entries, i, j, n):
    """p(x_ij | z_i, q~)"""
    total = 0.0
    for first in range(nodes.span[0, n], nodes.span[1, n], HANDFUL):
        (g0, g1, g2, g3), (c0, c1, c2, c3) = weigh_handful(kind, c, nodes, importance, entries, first, i, j, n)
        total += ((g0 + g1) + (g2 + g3)) + ((c0 + c1) + (c2 + c3))
    return total


@inlined
def likelihood_of(kind, c, table, nodes, importance, entries, i, j):
    """p(x_ij | z_i, q~), or 1 if it does not depend on q~."""
    n = entries.n[i]
    if n == 0 or not in_word(table.observed[j >> 5, i], j):
        return 1.0
    return sum_over_nodes(kind, c, nodes, importance, entries, i, j, n)


@inlined
def compare_nodes(kind, c, table, nodes, move, entries, number, i, j):
    """log p(x_ij | z_i, new q~) - log p(x_ij | z_i, old q~). The likelihoods are stored for the next move of the
    sweep.
    """
    after = likelihood_of(kind, c, table, nodes, move.new, entries, i, j)
    if number == 0:
        before = likelihood_of(kind, c, table, nodes, move.old, entries, i, j)
    else:
        before = move.likelihood[move.present[j], i, j]
    if kind != 2:
        move.likelihood[move.present[j], i, j] = before
        move.likelihood[1 - move.present[j], i, j] = after
    return math.log(after / before)


@inlined
def maybe_node(rng, total, chosen, node, base, copied):
    """Replace the chosen node with this one with probability equal to its share of all weights so far."""
    weight = base + copied
    total += weight
    if uniform(rng) * total < weight:
        return total, (node, weight, copied)
    return total, chosen


@inlined
def begin_redraw(kind, c, table, nodes, importance, entries, rng, key, i, j):
    """Open the stream of an item, and choose its node and the source of x_ij.

    Returns the node, or -1 if x_ij is missing, and the entry that x_ij was copied from, or -1. Given both, w_i:j are
    independent (`draw_w`).
    """
    open_item(rng, key, j, i)
    n = entries.n[i]
    if n == 0 or not in_word(table.observed[j >> 5, i], j):
        return -1, -1
    total = 0.0
    chosen = (int(nodes.span[0, n]), 1.0, 0.0)
    for first in range(nodes.span[0, n], nodes.span[1, n], HANDFUL):
        (g0, g1, g2, g3), (c0, c1, c2, c3) = weigh_handful(kind, c, nodes, importance, entries, first, i, j, n)
        total, chosen = maybe_node(rng, total, chosen, first, g0, c0)
        total, chosen = maybe_node(rng, total, chosen, first + 1, g1, c1)
        total, chosen = maybe_node(rng, total, chosen, first + 2, g2, c2)
        total, chosen = maybe_node(rng, total, chosen, first + 3, g3, c3)
    node, weight, copied = chosen
    source = -1
    if uniform(rng) * weight < copied:
        source = choose_source(kind, c, nodes, importance, entries, node, rng, i, j, n)
    return node, source


@inlined
def choose_source(kind, c, nodes, importance, entries, node, rng, i, j, n):
    """Draw the agreeing entry that x_ij was copied from, with probability proportional to its weight times its
    probability of being on.
    """
    total = 0.0
    source = -1
    for r in range(n):
        if in_word(entries.same[i, r, j >> 5], j):
            b = entries.parent[i, r]
            k = weight_if_on(kind, entries, r, i, j)
            on = importance[ON, b, j] * tilt_of(kind, entries, i, r) * decay_of(kind, c, nodes, k, node, j)
            chance = k * on / (importance[OFF, b, j] + on)
            total += chance
            if uniform(rng) * total < chance:
                source = r
    return source


@inlined
def draw_w(kind, c, table, nodes, importance, entries, rng, node, source, r, i, j):
    """Draw w of entry r, which is on if x_ij was copied from it; the node is used if the parent has a value."""
    b = entries.parent[i, r]
    on = importance[ON, b, j] * tilt_of(kind, entries, i, r)
    if node >= 0 and in_word(table.votes[j >> 5, b], j):
        on *= decay_of(kind, c, nodes, weight_if_on(kind, entries, r, i, j), node, j)
    return uniform(rng) * (importance[OFF, b, j] + on) < on or r == source


@inlined
def add_votes(table, entries, votes, r, i, k):
    """Add the votes of entry r on all features, with weight k, to `votes` (2, P)."""
    b = entries.parent[i, r]
    for f in range(votes.shape[1]):
        on = entries.bits[i, r, f >> 5]
        if in_word(on & table.votes[f >> 5, b], f):
            votes[TOTAL, f] += k
        if in_word(on & entries.same[i, r, f >> 5], f):
            votes[AGREE, f] += k


@inlined
def find_tilt(c, table, entries, votes, class_votes, i, j):
    """Model II: set `entries.tilt` of case i for feature j (``cpu/sums.py``); for scratch memory see `log_others`."""
    votes[:] = 0.0
    class_votes[:] = 0.0
    for r in range(entries.n[i]):
        k = weight_if_on(2, entries, r, i, j) - 0.5
        add_votes(table, entries, votes[0], r, i, k)
        class_votes[0, table.y_parents[entries.parent[i, r]]] += k
    for f in range(votes.shape[2]):
        if f != j and in_word(table.observed[f >> 5, i], f):
            votes[1, AGREE, f] = c.lam / (c.c1 + c.lam * votes[0, AGREE, f])
            votes[1, TOTAL, f] = c.lam / (table.c2[f] + c.lam * votes[0, TOTAL, f])
    for r in range(entries.n[i]):
        b = entries.parent[i, r]
        log = label_slope(c, table.mu, class_votes, table.y[i], table.y_parents[b])
        for f in range(votes.shape[2]):
            on = entries.bits[i, r, f >> 5]
            if in_word(on & table.votes[f >> 5, b], f):
                log -= votes[1, TOTAL, f]
            if in_word(on & entries.same[i, r, f >> 5], f):
                log += votes[1, AGREE, f]
        entries.tilt[i, r] = math.exp(log)


@inlined
def log_of_silent(table, importance, entries, i, j):
    """Model II: the log of the sum over the w_i:j of entries that do not vote on x_ij."""
    product = 1.0
    for r in range(entries.n[i]):
        b = entries.parent[i, r]
        if not in_word(table.observed[j >> 5, i] & table.votes[j >> 5, b], j):
            product *= importance[OFF, b, j] + importance[ON, b, j] * entries.tilt[i, r]
    return math.log(product)


@inlined
def log_others(c, table, nodes, importance, entries, votes, class_votes, rng, key, i, j):
    """Model II: draw a new w_i:j; log p(x_i, y_i | new w_i:j) - log p(x_i, y_i | w_i:j), without x_ij and the tilt.

    `votes` (2, 2, P) and `class_votes` (2, M) are scratch memory for the votes before and after.
    """
    votes[:] = 0.0
    class_votes[:] = 0.0
    linear = 0.0
    node, source = begin_redraw(2, c, table, nodes, importance, entries, rng, key, i, j)
    for r in range(entries.n[i]):
        b = entries.parent[i, r]
        before = vote_weight(2, entries, r, i)
        after = before - (1.0 if in_word(entries.bits[i, r, j >> 5], j) else 0.0)
        if draw_w(2, c, table, nodes, importance, entries, rng, node, source, r, i, j):
            after += 1.0
        class_votes[0, table.y_parents[b]] += before
        class_votes[1, table.y_parents[b]] += after
        add_votes(table, entries, votes[0], r, i, before)
        add_votes(table, entries, votes[1], r, i, after)
        linear += (after - before) * math.log(entries.tilt[i, r])
    log, ratio = 0.0, 1.0
    for f in range(votes.shape[2]):
        if f != j and in_word(table.observed[f >> 5, i], f):
            ratio *= feature_change(c, table.c2[f], votes, f)
        if f % LOGS == LOGS - 1:
            log += math.log(ratio)
            ratio = 1.0
    return log + math.log(ratio * label_change(c, table.mu, class_votes, table.y[i])) - linear


@lru_cache(KEPT)
def tilt_kernel(n_features: int, n_classes: int):
    """Model II: set `entries.tilt` of all cases for feature j."""

    @cuda.jit
    def kernel(c, table, entries, j):
        i = cuda.grid(1)
        if i < entries.n.shape[0]:
            votes = cuda.local.array((2, 2, n_features), float64)
            class_votes = cuda.local.array((2, n_classes), float64)
            find_tilt(c, table, entries, votes, class_votes, i, j)

    return kernel


@lru_cache(KEPT)
def compare_kernel(kind: int, n_features: int, n_classes: int):
    """log_ratio[j, block]: the log likelihood ratio of feature j of the block's cases for the new q~, with w summed
    out, for features first..last-1. Model II processes one feature at a time, draws w and includes the correction for
    it.

    The threads of a block handle the features of a few cases (`grid_of_pairs`): they read the same lists of neighbors
    and contiguous rows of q~. Each thread handles one feature and loops over cases, always in the same order.
    """
    n_votes = n_features if kind == 2 else 1

    @cuda.jit
    def kernel(c, table, nodes, entries, chain, move, key, first, last, number):
        t = cuda.threadIdx.x
        width = min(last - first, cuda.blockDim.x)
        together = cuda.blockDim.x // width
        logs = cuda.shared.array(THREADS, float64)
        votes = cuda.local.array((2, 2, n_votes), float64)
        class_votes = cuda.local.array((2, n_classes), float64)
        rng = cuda.local.array(2, uint64)
        for base in range(first, last, width):
            j = base + t % width
            log = 0.0
            if j < last and t < width * together:
                for i in range(cuda.blockIdx.x * together + t // width, entries.n.shape[0], cuda.gridDim.x * together):
                    log += compare_nodes(kind, c, table, nodes, move, entries, number, i, j)
                    if kind == 2:
                        log += log_of_silent(table, move.new, entries, i, j)
                        log -= log_of_silent(table, move.old, entries, i, j)
                        log += log_others(c, table, nodes, move.new, entries, votes, class_votes, rng, key, i, j)
            logs[t] = log
            cuda.syncthreads()
            if t < width and j < last:
                log = 0.0
                for row in range(together):
                    log += logs[row * width + t]
                move.log_ratio[j, cuda.blockIdx.x] = log
            cuda.syncthreads()

    return kernel


@lru_cache(KEPT)
def redraw_kernel(kind: int, n_features: int):
    """Redraw w_i:j for features first..last-1 whose q~ has moved, and update s_bj.

    Each thread has a fixed feature. Because features share words, only bits that change are flipped.
    """

    @cuda.jit
    def kernel(c, table, nodes, entries, chain, move, key, first, last):
        t = cuda.threadIdx.x
        features = cuda.shared.array(n_features, int64)
        n_moved = cuda.shared.array(1, int32)
        rng = cuda.local.array(2, uint64)
        if t == 0:
            n_moved[0] = 0
        cuda.syncthreads()
        for j in range(first + t, last, cuda.blockDim.x):
            if move.moved[j]:
                features[cuda.atomic.add(n_moved, 0, 1)] = j
        cuda.syncthreads()
        width = max(1, min(n_moved[0], cuda.blockDim.x))
        together = cuda.blockDim.x // width
        if t < width * together:
            for position in range(t % width, n_moved[0], width):
                j = features[position]
                mask = np.uint32(BIT << np.uint32(j & 31))
                for i in range(cuda.blockIdx.x * together + t // width, entries.n.shape[0], cuda.gridDim.x * together):
                    node, source = begin_redraw(kind, c, table, nodes, move.old, entries, rng, key, i, j)
                    for r in range(entries.n[i]):
                        on = draw_w(kind, c, table, nodes, move.old, entries, rng, node, source, r, i, j)
                        if on != (entries.bits[i, r, j >> 5] & mask != 0):
                            cuda.atomic.xor(entries.bits, (i, r, j >> 5), mask)
                            cuda.atomic.add(chain.n_on, (entries.parent[i, r], j), 1 if on else -1)

    return kernel
