"""One feature of one case with its w summed out, a thread each, with no memory but registers.

Model I sums over the nodes of ``quadrature.py``. Models II and III weigh all 2^m settings of some of the w at once, a
product each in registers, factor by factor, as in ``cpu/sums.py``. In Model II a w changes kappa, hence all features
and the label of the case.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import cuda, float32, float64, int32, int64, uint32, uint64

from bayespatch.engine.compiling import inlined
from bayespatch.engine.cuda.launch import THREADS
from bayespatch.engine.cuda.layout import BIT, in_word, ones
from bayespatch.engine.cuda.update import KEPT
from bayespatch.engine.cuda.weigh import ZERO
from bayespatch.engine.quadrature import HANDFUL, first_handful, with_entry
from bayespatch.engine.streams import key_of, open_stream, uniform
from bayespatch.engine.votes import AGREE, MU, MU0, OFF, ON, TOTAL, VOTE_ON

MAX_SUMMED = 4  # neighbors whose w are summed out at once in Models II and III
N_SETTINGS = 1 << MAX_SUMMED


@inlined
def entry_at(r, start, n):
    """The entry that comes r after `start`, going round."""
    return start + r if start + r < n else start + r - n


@inlined
def open_item(rng, key, j, i):
    """The stream of case i in the move of feature j."""
    open_stream(rng, key_of(key_of(key, j), i))


@inlined
def weigh_handful(c, nodes, importance, entries, handful, i, j, n):
    """The weights W c1 G and W lam C of every node of a handful, side by side in registers."""
    place, weight = nodes.place[handful], nodes.weight[handful]
    s0, s1, s2, s3 = place[0, j], place[1, j], place[2, j], place[3, j]
    g0, g1, g2, g3 = 1.0, 1.0, 1.0, 1.0
    c0, c1, c2, c3 = 0.0, 0.0, 0.0, 0.0
    for r in range(n):
        on = importance[VOTE_ON, entries.parent[i, r], j]
        agreeing = on if in_word(entries.same[i, r, j >> 5], j) else 0.0
        g0, c0 = with_entry(g0, c0, s0 - 1.0, on, agreeing)
        g1, c1 = with_entry(g1, c1, s1 - 1.0, on, agreeing)
        g2, c2 = with_entry(g2, c2, s2 - 1.0, on, agreeing)
        g3, c3 = with_entry(g3, c3, s3 - 1.0, on, agreeing)
    w0, w1, w2, w3 = weight[0, j], weight[1, j], weight[2, j], weight[3, j]
    return (
        (w0 * c.c1 * g0, w1 * c.c1 * g1, w2 * c.c1 * g2, w3 * c.c1 * g3),
        (w0 * c.lam * s0 * c0, w1 * c.lam * s1 * c1, w2 * c.lam * s2 * c2, w3 * c.lam * s3 * c3),
    )


@inlined
def sum_over_nodes(c, nodes, importance, entries, i, j, n):
    """p(x_ij | z_i, q~)"""
    first = first_handful(nodes, n)
    total = 0.0
    for handful in range(first, first + nodes.rule[n] + 1):
        (g0, g1, g2, g3), (c0, c1, c2, c3) = weigh_handful(c, nodes, importance, entries, handful, i, j, n)
        total += ((g0 + g1) + (g2 + g3)) + ((c0 + c1) + (c2 + c3))
    return total


@inlined
def compare_nodes(c, table, nodes, old, new, entries, i, j):
    """log p(x_ij | z_i, new q~) - log p(x_ij | z_i, old q~)"""
    n = entries.n[i]
    if n == 0 or not in_word(table.observed[j >> 5, i], j):
        return 0.0
    before = sum_over_nodes(c, nodes, old, entries, i, j, n)
    return math.log(sum_over_nodes(c, nodes, new, entries, i, j, n) / before)


@inlined
def maybe_node(rng, total, chosen, node, base, copied):
    """Take this node instead of the chosen one, with the chance that its weight has in all weights so far."""
    weight = base + copied
    total += weight
    if uniform(rng) * total < weight:
        return total, (node, weight, copied)
    return total, chosen


@inlined
def begin_redraw(c, table, nodes, importance, entries, rng, key, i, j):
    """Open the stream of an item, choose its node and where x_ij comes from.

    Returns s, and the entry that x_ij was copied from, or -1; w_i:j are independent given both (`draw_w`).
    """
    open_item(rng, key, j, i)
    n = entries.n[i]
    if n == 0 or not in_word(table.observed[j >> 5, i], j):
        return 1.0, -1
    first = first_handful(nodes, n)
    total = 0.0
    chosen = (HANDFUL * first, 1.0, 0.0)
    for handful in range(first, first + nodes.rule[n] + 1):
        (g0, g1, g2, g3), (c0, c1, c2, c3) = weigh_handful(c, nodes, importance, entries, handful, i, j, n)
        total, chosen = maybe_node(rng, total, chosen, HANDFUL * handful, g0, c0)
        total, chosen = maybe_node(rng, total, chosen, HANDFUL * handful + 1, g1, c1)
        total, chosen = maybe_node(rng, total, chosen, HANDFUL * handful + 2, g2, c2)
        total, chosen = maybe_node(rng, total, chosen, HANDFUL * handful + 3, g3, c3)
    node, weight, copied = chosen
    s = nodes.place[node // HANDFUL, node % HANDFUL, j]
    if uniform(rng) * weight < copied:
        return s, choose_source(importance, entries, s, rng, i, j, n)
    return s, -1


@inlined
def choose_source(importance, entries, s, rng, i, j, n):
    """Which of the agreeing entries x_ij was copied from: in proportion to its chance of being on."""
    total = 0.0
    source = -1
    for r in range(n):
        if in_word(entries.same[i, r, j >> 5], j):
            b = entries.parent[i, r]
            on = importance[ON, b, j] * s
            chance = on / (importance[OFF, b, j] + on)
            total += chance
            if uniform(rng) * total < chance:
                source = r
    return source


@inlined
def draw_w(table, importance, entries, rng, s, source, r, i, j):
    """w of entry r: on, if x_ij was copied from it; s counts where the parent has a value to vote for."""
    b = entries.parent[i, r]
    on = importance[ON, b, j]
    if in_word(table.votes[j >> 5, b], j):
        on *= s
    return uniform(rng) * (importance[OFF, b, j] + on) < on or r == source


class SummedSettings(NamedTuple):
    """The settings of the summed w, bit r for the r-th entry, as one thread has them: all but `votes` in registers.

    Where fewer entries are summed, the last one is there more than once, without strength and never on. `k` and `votes`
    are float64, in Model II float32: there they are counts.
    """

    likelihood: Any  # (N_SETTINGS,) float64: the product of what is above the line, in the end the likelihood
    below: Any  # (N_SETTINGS,) float64: of what is below it
    entry: Any  # (MAX_SUMMED,) uint32: which ones they are
    parent: Any  # (MAX_SUMMED,) uint32
    k: Any  # (MAX_SUMMED,): how strongly they vote, in Model II where feature j is off
    step: Any  # (MAX_SUMMED,) float64: what they add to a factor
    words: Any  # (2, MAX_SUMMED) uint32: on which of 32 features they vote
    prior: Any  # (2, MAX_SUMMED) float64: q~ and 1 - q~
    votes: Any  # of the entries that are not summed: (2, P) in Model II; (2, 1), on j alone, in Model III


@inlined
def voting(part, table, entries, s, b, i, word):
    """On which of 32 features entry s, parent b, would vote: for the value of case i, or for any."""
    return entries.same[i, s, word] if part == AGREE else table.votes[word, b]


@inlined
def vote_on_label(part, table, b, i):
    """What parent b adds to the label's share above or below the line, per unit of strength."""
    label = table.y_parents[b]
    return table.mu[MU, label] if part == TOTAL or label == table.y[i] else 0.0


@inlined
def n_words(at):
    """Of the w of an entry in Model II: known when a kernel is compiled, as the sizes of local arrays are."""
    return (at.votes.shape[1] + 31) >> 5


@inlined
def strength_of(kind, entries, at, s, i):
    """k of entry s."""
    if kind == 3:
        return entries.kappa[i, s]
    count = ones(entries.bits[i, s, 0])
    for word in range(1, n_words(at)):
        count += ones(entries.bits[i, s, word])
    return float(count)


@inlined
def load_summed(kind, entries, at, i, j, n, start, m):
    """Who is summed. Nothing is left out, so that all is on its way from memory at once."""
    for r in range(MAX_SUMMED):
        s = entry_at(min(r, m - 1), start, n)
        counted = kind == 2 and in_word(entries.bits[i, s, j >> 5], j)
        k = strength_of(kind, entries, at, s, i) - (1.0 if counted else 0.0)
        at.entry[r] = s
        at.parent[r] = entries.parent[i, s]
        at.k[r] = k if r < m else 0.0


@inlined
def count_others(kind, table, entries, at, i, j, n, start, m):
    """The votes of the entries that are not summed; returns those on the label."""
    at.votes[:] = 0.0
    agree = 0.0
    total = 0.0
    for r in range(m, n):
        s = entry_at(r, start, n)
        b = entries.parent[i, s]
        k = strength_of(kind, entries, at, s, i)
        if kind == 3:
            on = entries.bits[i, s, j >> 5]
            at.votes[AGREE, 0] += k if in_word(on & voting(AGREE, table, entries, s, b, i, j >> 5), j) else 0.0
            at.votes[TOTAL, 0] += k if in_word(on & voting(TOTAL, table, entries, s, b, i, j >> 5), j) else 0.0
            continue
        for word in range(n_words(at)):
            on = entries.bits[i, s, word]
            agrees = on & voting(AGREE, table, entries, s, b, i, word)
            votes = on & voting(TOTAL, table, entries, s, b, i, word)
            for f in range(32 * word, min(32 * word + 32, at.votes.shape[1])):
                at.votes[AGREE, f] += np.float32(k) if in_word(agrees, f) else ZERO
                at.votes[TOTAL, f] += np.float32(k) if in_word(votes, f) else ZERO
        agree += k * vote_on_label(AGREE, table, b, i)
        total += k * vote_on_label(TOTAL, table, b, i)
    return agree, total


@inlined
def multiply(product, base, step):
    """Another factor, linear in the setting."""
    for setting in range(N_SETTINGS):
        factor = base
        for r in range(MAX_SUMMED):
            if (setting >> r) & 1:
                factor += step[r]
        product[setting] *= factor


@inlined
def multiply_feature(kind, c, table, entries, at, part, product, base, i, j):
    """A or T of feature j itself: an entry votes on it with all its strength, or not at all."""
    for r in range(MAX_SUMMED):
        votes = in_word(voting(part, table, entries, at.entry[r], at.parent[r], i, j >> 5), j)
        k = at.k[r] + 1.0 if kind == 2 else at.k[r]
        at.step[r] = c.lam * k if votes else 0.0
    multiply(product, base + c.lam * at.votes[part, j if kind == 2 else 0], at.step)


@inlined
def multiply_label(table, at, part, product, base, i):
    """Model II: the same of the label."""
    for r in range(MAX_SUMMED):
        at.step[r] = vote_on_label(part, table, at.parent[r], i)
        base += at.k[r] * at.step[r]
    multiply(product, base, at.step)


@inlined
def load_words(table, entries, at, i, j, m, word):
    """Model II: on which of 32 features of case i the summed entries vote, without j."""
    kept = table.observed[word, i]
    if j >> 5 == word:
        kept &= ~np.uint32(BIT << np.uint32(j & 31))
    for r in range(MAX_SUMMED):
        s, b = at.entry[r], at.parent[r]
        on = entries.bits[i, s, word] & (kept if r < m else np.uint32(0))
        at.words[AGREE, r] = on & voting(AGREE, table, entries, s, b, i, word)
        at.words[TOTAL, r] = on & voting(TOTAL, table, entries, s, b, i, word)


@inlined
def multiply_other_feature(c, at, part, product, base, f):
    """Model II: the same of a feature on which a summed entry votes with strength k or k + 1."""
    votes = at.votes[part, f]
    for r in range(MAX_SUMMED):
        on = in_word(at.words[part, r], f)
        votes += at.k[r] if on else ZERO
        at.step[r] = c.lam if on else 0.0
    multiply(product, base + c.lam * votes, at.step)


@inlined
def normalise(product):
    """Divide by what it is in setting 0. That leaves it between 1 and e^MAX_SUMMED, but for feature j and the label: an
    entry changes the k features that are on, each by a factor of at most 1 + 1/k, and (1 + 1/k)^k < e.
    """
    scale = 1.0 / product[0]
    for setting in range(N_SETTINGS):
        product[setting] *= scale


@inlined
def divide(above, below):
    """above / below, into `above`: one division for four of them, which takes longer than the products it saves."""
    for first in range(0, N_SETTINGS, 4):
        one = below[first] * below[first + 1]
        other = below[first + 2] * below[first + 3]
        inverse = 1.0 / (one * other)
        above[first] *= below[first + 1] * (other * inverse)
        above[first + 1] *= below[first] * (other * inverse)
        above[first + 2] *= below[first + 3] * (one * inverse)
        above[first + 3] *= below[first + 2] * (one * inverse)


@inlined
def weigh_settings(kind, c, table, entries, at, i, j, n, start, m):
    """The likelihood of case i in all settings, but for a constant."""
    for setting in range(N_SETTINGS):
        at.likelihood[setting] = 1.0
        at.below[setting] = 1.0
    load_summed(kind, entries, at, i, j, n, start, m)
    agree, total = count_others(kind, table, entries, at, i, j, n, start, m)
    if in_word(table.observed[j >> 5, i], j):
        multiply_feature(kind, c, table, entries, at, AGREE, at.likelihood, c.c1, i, j)
        multiply_feature(kind, c, table, entries, at, TOTAL, at.below, table.c2[j], i, j)
    if kind == 2:
        if table.y[i] >= 0:
            multiply_label(table, at, AGREE, at.likelihood, c.one + table.mu[MU0, table.y[i]] + agree, i)
            multiply_label(table, at, TOTAL, at.below, c.label_c2 + total, i)
        for f in range(at.votes.shape[1]):
            if f & 31 == 0:
                load_words(table, entries, at, i, j, m, f >> 5)
            multiply_other_feature(c, at, AGREE, at.likelihood, c.c1, f)
            multiply_other_feature(c, at, TOTAL, at.below, table.c2[f], f)
            if f & 7 == 7:  # before the products could leave the range of a double
                normalise(at.likelihood)
                normalise(at.below)
    divide(at.likelihood, at.below)


@inlined
def weight_of(at, setting):
    """Prior times likelihood."""
    prior = 1.0
    for r in range(MAX_SUMMED):
        prior *= at.prior[ON if (setting >> r) & 1 else OFF, r]
    return prior * at.likelihood[setting]


@inlined
def sum_over_settings(importance, at, j, m):
    """The sum of all weights under this q~."""
    for r in range(MAX_SUMMED):
        on = importance[ON, at.parent[r], j]
        off = importance[OFF, at.parent[r], j]
        at.prior[ON, r] = on if r < m else 0.0
        at.prior[OFF, r] = off if r < m else 1.0
    total = 0.0
    for setting in range(N_SETTINGS):
        total += weight_of(at, setting)
    return total


@inlined
def compare_settings(kind, c, table, old, new, entries, at, rng, key, i, j):
    """Models II and III: log p(x_i, y_i, fixed w_i:j | rest, new q~) - log p(... | rest, old q~)."""
    n = entries.n[i]
    if n == 0:
        return 0.0
    open_item(rng, key, j, i)
    m = min(n, c.max_summed)
    start = int(uniform(rng) * n)
    weigh_settings(kind, c, table, entries, at, i, j, n, start, m)
    before = sum_over_settings(old, at, j, m)
    ratio = math.log(sum_over_settings(new, at, j, m) / before)
    for r in range(m, n):
        s = entry_at(r, start, n)
        row = ON if in_word(entries.bits[i, s, j >> 5], j) else OFF
        b = entries.parent[i, s]
        ratio += math.log(new[row, b, j] / old[row, b, j])
    return ratio


@inlined
def redraw_settings(kind, c, table, importance, entries, at, rng, key, i, j):
    """Models II and III: w_i:j of the summed entries afresh; with the same key, the same ones as in the log ratio.

    Returns which of them change: bit r for `at.entry[r]`.
    """
    n = entries.n[i]
    if n == 0:
        return 0
    open_item(rng, key, j, i)
    m = min(n, c.max_summed)
    start = int(uniform(rng) * n)
    weigh_settings(kind, c, table, entries, at, i, j, n, start, m)
    u = uniform(rng) * sum_over_settings(importance, at, j, m)
    changes = 0
    for setting in range(N_SETTINGS):
        weight = weight_of(at, setting)
        if weight > 0.0 and u >= 0.0:
            changes = setting
        u -= weight
    for r in range(MAX_SUMMED):
        if r < m and in_word(entries.bits[i, at.entry[r], j >> 5], j):
            changes ^= 1 << r
    return changes


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
            at = SummedSettings(
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
            at = SummedSettings(
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
