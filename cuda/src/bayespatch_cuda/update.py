"""The blocked update of the cases on a GPU (see ``cpu/update.py``), with a group of threads per case and one parent per
thread.

Each thread of a group (a warp, or a part of a warp) evaluates one parent given the current votes. The first parent, in
order, that is a neighbor to be removed, or that becomes a neighbor, changes the votes; then the parents after it are
evaluated again. This is rare: about ten times per thousand parents. When the votes change, each thread handles one
feature.

Kernels are compiled for a `Shape`, because memory of fixed size that a thread indexes by constants is in registers.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import config, cuda, float32, float64, uint32, uint64
from numpy.typing import NDArray

from bayespatch.engine.streams import key_of, to_unit
from bayespatch.engine.votes import AGREE, AGREES, DIFFERS, MU, MU0, N_CANDIDATES, TOTAL
from bayespatch_cuda.compiling import inlined
from bayespatch_cuda.layout import BIT, Importance, bit, in_word, vote_weight
from bayespatch_cuda.weigh import (
    UNIT,
    ZERO,
    Pair,
    accepted,
    choose_count,
    choose_kappa,
    draw_kappa,
    factor_given_kappa,
    is_on,
    largest_odds,
    likely_odds,
    next_coefficient,
    prepare_count,
    prepare_feature,
    turned_down,
    weight_of_count,
    weight_of_kappa,
)

KEPT = 32  # number of shapes with cached kernels


class Case(NamedTuple):
    """Data of a case that all threads of its group share."""

    votes: NDArray[np.float32]  # (2, P), in Model III float64: AGREE and TOTAL
    gain: NDArray[np.float32]  # (P, 2): the largest possible R_j - 1 of a vote that DIFFERS or AGREES
    slope: NDArray[np.float32]  # (2, P), in Model III: R_j(kappa) - 1 = slope kappa / (1 - slope[DIFFERS] kappa)
    class_votes: NDArray[np.floating]  # (M,) as `votes`
    label: NDArray[np.float32]  # (M,): the largest H
    label_slope: NDArray[np.float32]  # (2, M): H(k) - 1 likewise, slope[AGREES] being that of the class


class Own(NamedTuple):
    """Data of a thread: in shared memory or, if indexed by constants in unrolled loops, in registers."""

    same: NDArray[np.uint32]  # (W,): features in which the current parent of this thread and the case agree
    ahead: NDArray[np.uint32]  # (W,): the same for the next parent, prefetched from memory
    candidate: NDArray[np.float32]  # (R,): Model III: candidates for the parent's kappa
    product: NDArray[np.float32]  # (R,): prod_j f_j(kappa) for each candidate


class Change(NamedTuple):
    """The parent that is added or removed; the same in all threads of a group."""

    bits: NDArray[np.uint32]  # (W,): its w
    same: NDArray[np.uint32]  # (W,): features in which it agrees with the case


class Shape(NamedTuple):
    """The sizes that a kernel is compiled for."""

    kind: int
    n_features: int
    n_classes: int
    part: int  # features whose factors are multiplied at once: a power of two, at most 32
    group: int  # threads that work on a case together


class Counting(NamedTuple):
    """Model II: scratch memory of a group of threads for weighing a pair."""

    pair: Pair
    weight: NDArray[np.float32]  # (P + 1,): by number of features that are on
    row: NDArray[np.float32]  # (P + 1,): coefficients of a polynomial
    decided: NDArray[np.uint32]  # (P, C): bit d % group of word d // group: whether feature j is on if d up to it are


class Choosing(NamedTuple):
    """Model III: scratch memory for choosing among candidates for kappa."""

    candidate: NDArray[np.float64]  # (R,)
    factor: NDArray[np.float64]  # (R, P)
    weight: NDArray[np.float64]  # (R,)


@inlined
def begin_case(kind, c, table, entries, case, i, lane, n_lanes):
    """Recount the votes of all entries for every n_lanes-th feature and class, before `refresh_labels`."""
    n = entries.n[i]
    j = lane
    while j < c.n_features:
        case.votes[AGREE, j] = 0.0
        case.votes[TOTAL, j] = 0.0
        for s in range(n):
            if in_word(entries.bits[i, s, j >> 5], j):
                k = vote_weight(kind, entries, s, i)
                add_vote(table, case, entries.parent[i, s], j, in_word(entries.same[i, s, j >> 5], j), k)
        refresh_gain(kind, c, table, case, i, j)
        j += n_lanes
    m = lane
    while m < case.label.shape[0]:
        case.class_votes[m] = 0.0
        for s in range(n):
            if table.y_parents[entries.parent[i, s]] == m:
                case.class_votes[m] += vote_weight(kind, entries, s, i)
        m += n_lanes


@inlined
def add_vote(table, case, b, j, agrees, k):
    """A vote of parent b on feature j."""
    if in_word(table.votes[j >> 5, b], j):
        case.votes[TOTAL, j] += k
    if agrees:
        case.votes[AGREE, j] += k


@inlined
def cast_votes(kind, c, table, case, change, i, b, k, lane, n_lanes):
    """Add the votes of parent b with weight k on every n_lanes-th feature; a negative k removes them."""
    j = lane
    while j < c.n_features:
        if bit(change.bits, j):
            add_vote(table, case, b, j, bit(change.same, j), k)
            refresh_gain(kind, c, table, case, i, j)
        j += n_lanes
    if lane == 0:
        case.class_votes[table.y_parents[b]] += k


@inlined
def refresh_gain(kind, c, table, case, i, j):
    """Set the largest R_j - 1: at k = 1 in Model I; in the other models R decreases with k if the values differ, and
    increases if they agree.
    """
    differs = ZERO
    agrees = ZERO
    if in_word(table.observed[j >> 5, i], j):
        lam = np.float32(c.lam)
        most = lam * np.float32(c.n_features) if kind == 2 else lam
        a = np.float32(c.c1) + lam * np.float32(case.votes[AGREE, j])
        total = np.float32(table.c2[j]) + lam * np.float32(case.votes[TOTAL, j])
        if kind != 3:
            differs = -lam / (total + lam)
        agrees = most * (total - a) / (a * (total + most))
        if kind == 3:
            agrees = max(agrees, ZERO)
            case.slope[DIFFERS, j] = -lam / total
            case.slope[AGREES, j] = lam / a - lam / total
    elif kind == 3:
        case.slope[DIFFERS, j] = ZERO
        case.slope[AGREES, j] = ZERO
    case.gain[j, DIFFERS] = differs
    case.gain[j, AGREES] = agrees


@inlined
def refresh_labels(kind, c, table, case, i, lane, n_lanes):
    """Set the largest H: H(1), or H(P) in Model II; at least 1 in Models II and III, where k may be close to 0."""
    y = table.y[i]
    agreeing = UNIT
    total = np.float32(c.label_c2)
    for m in range(case.label.shape[0]):
        total += np.float32(table.mu[MU, m]) * np.float32(case.class_votes[m])
        if m == y:
            agreeing = np.float32(c.one + table.mu[MU0, m]) + np.float32(table.mu[MU, m]) * np.float32(
                case.class_votes[m]
            )
    m = lane
    while m < case.label.shape[0]:
        vote = np.float32(table.mu[MU, m])
        differs = -vote / total if y >= 0 else ZERO
        slope = vote / agreeing + differs if m == y else differs
        case.label_slope[DIFFERS, m] = differs
        case.label_slope[AGREES, m] = slope
        strongest = np.float32(c.n_features) if kind == 2 else UNIT
        h = UNIT + slope * strongest / (UNIT - differs * strongest)
        case.label[m] = h if kind == 1 else max(UNIT, h)
        m += n_lanes


@inlined
def load_agreement(table, words, i, b):
    """Load the features in which case i and parent b agree."""
    for word in range(words.shape[0]):
        words[word] = table.same[word, i, b]


@inlined
def store_entry(kind, entries, change, n, i, b, k):
    """Store parent b as entry n if there is room."""
    if n < entries.parent.shape[1]:
        entries.parent[i, n] = b
        for word in range(change.bits.shape[0]):
            entries.bits[i, n, word] = change.bits[word]
            entries.same[i, n, word] = change.same[word]
        if kind == 3:
            entries.kappa[i, n] = k


@lru_cache(KEPT)
def looking(kind: int, group: int, part: int):
    """Whether a parent of class `label` may become a neighbor (in Model I: becomes one), computed by one thread.

    `drawn`: whether its candidates for kappa have been drawn (Model III).
    """

    @cuda.jit(device=True)
    def look(c, chance, own, case, rng, pair_key, label, start, drawn):
        odds = largest_odds(c, chance, own, case, case.label[label], start, group, part)
        wanted = not turned_down(odds, pair_key)
        if kind == 1 and wanted:
            wanted = accepted(odds, pair_key)
        if kind == 3 and wanted:
            if not drawn:
                for r in range(N_CANDIDATES):
                    own.candidate[r] = draw_kappa(c, rng, pair_key, r)
                drawn = True
            odds = likely_odds(c, chance, own, case, label, start, group, odds)
            wanted = not turned_down(odds, pair_key)
        return wanted, drawn

    return look


@lru_cache(KEPT)
def weighing(kind: int, size: int, group: int):
    """The weight k with which parent b becomes a neighbor; negative if it does not."""
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
            # If the parent has been a neighbor, the first candidate is its current kappa.
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
def drawing(kind: int, size: int, group: int):
    """Draw w of parent b, which becomes a neighbor and votes with weight k, into `change.bits`."""
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
def changing(kind: int, size: int, group: int):
    """Functions that remove a neighbor and add a parent, and update the votes, the counts and the lists."""
    n_words = -(-size // 32)

    @cuda.jit(device=True)
    def take_out(c, table, case, change, old, i, s, b):
        k = vote_weight(kind, old, s, i)
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


def limited_registers(kind: int, size: int) -> dict[str, int]:
    """Limit registers so that many groups run in parallel; Model II needs more for a polynomial (`weight_of_count`)."""
    if config.ENABLE_CUDASIM:  # type: ignore[attr-defined]
        return {}
    return {"max_registers": {1: 64, 2: min(255, 80 + size), 3: 80}[kind]}


@lru_cache(KEPT)
def update_kernel(shape: Shape):
    """One sweep over all parents of every case, from the entries `old` to `new`.

    Each case has a block with one group of threads, which is a warp or a part of a warp. The sweep adds to n_b and s_bj
    of `chain`. `parts`: the importances, each for the same number of cases. `most`: length of the longest list, if it
    was too long.
    """
    kind, size, n_classes, part, group = shape
    n_words = -(-size // 32)
    exact = float64 if kind == 3 else float32
    n_counts = size + 1 if kind == 2 else 1
    n_candidates = N_CANDIDATES if kind == 3 else 1
    n_paired, n_factors = (size if kind == 2 else 1), (size if kind == 3 else 1)
    n_chunks = n_counts // group + 1
    everyone = np.uint32((1 << group) - 1)
    look = looking(kind, group, part)
    weigh, draw = weighing(kind, size, group), drawing(kind, size, group)
    take_out, put_in = changing(kind, size, group)

    @cuda.jit(fastmath=True, **limited_registers(kind, size))
    def kernel(c, table, parts, old, new, chain, run, key):
        votes = cuda.shared.array((2, size), exact)
        gain = cuda.shared.array((size, 2), float32)
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
        same = cuda.shared.array((n_words, group), uint32)
        rng = cuda.local.array(2, uint64)
        case = Case(votes, gain, slope, class_votes, label, label_slope)
        counting = Counting(Pair(off, on, total, agreeing, counted, scale), weight, row, decided)
        choosing = Choosing(candidate, factor, weight_of)
        own = Own(
            same[:, cuda.threadIdx.x],
            cuda.local.array(n_words, uint32),
            cuda.local.array(n_candidates, float32),
            cuda.local.array(n_candidates, float32),
        )
        change = Change(cuda.local.array(n_words, uint32), cuda.local.array(n_words, uint32))

        i = cuda.blockIdx.x
        lane = cuda.threadIdx.x
        part = i * parts.double.shape[0] // cuda.gridDim.x
        importance = Importance(parts.double[part], parts.chance[part], parts.group)
        n_parents = table.same.shape[2]
        own_parent = table.own_parent[i]
        case_key = np.uint64(key_of(key, run.numbers[i]))
        n_old = old.n[i]
        following = old.parent[i, 0] if n_old > 0 else n_parents
        begin_case(kind, c, table, old, case, i, lane, group)
        cuda.syncwarp()
        refresh_labels(kind, c, table, case, i, lane, group)
        cuda.syncwarp()
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
            done = 0  # parents before this one have been decided
            current = -1.0  # Model III: kappa of the neighbor that was removed last
            drawn = False  # Model III: whether the candidates for kappa have been drawn
            while True:
                wanted = False
                if looking and lane >= done:
                    wanted, drawn = look(c, importance.chance, own, case, rng, pair_key, y_parent, start, drawn)
                    if kind == 3 and current >= 0.0 and lane == done:
                        wanted = True
                first = cuda.ffs(cuda.ballot_sync(everyone, wanted)) - 1
                place = following - base
                if s < n_old and place < group and (first < 0 or place <= first):  # a neighbor: remove it
                    current = take_out(c, table, case, change, old, i, s, following)
                    done = place
                    s += 1
                    following = old.parent[i, s] if s < n_old else n_parents
                elif first < 0:
                    break
                else:  # a candidate: weigh it and perhaps add it
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
        if lane == 0:
            new.n[i] = n
            if n > new.parent.shape[1]:
                cuda.atomic.max(run.most, 0, n)

    return kernel
