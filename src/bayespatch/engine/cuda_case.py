"""The update of one case as a GPU wants it: a thread a case, parents in their order, single precision where it serves.

It is the update of ``kernels.py`` with another layout. Who agrees with whom on what does not change, so it is computed
once, as bits: word (j // 32) of pair (b, i), neighboring cases side by side. w is kept in the same bits. The entries of
a case are sorted by parent: a sweep reads the old list from front to back and writes the new one behind it.

Single precision costs no more than a relative error of some 1e-6 in the odds of a pair, because every factor is a sum
of positive terms, ``f_j = (1 - q~) + q~ R_j``. A random number is compared with the odds in two steps: 24 bits of it
turn most pairs down, and where they do not, all 53 decide in double precision, so that small odds are not rounded.

A thread looks for parents that may become neighbors, by itself. A neighbor that comes or goes is rare, and would keep
31 threads waiting for one; so its group deals with it together, a feature each (``cuda_kernels.py``).

Functions of arrays and numbers, compiled by whoever calls them: a CUDA kernel, or (in the tests) the CPU.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.engine.kernels import N_CANDIDATES, choose
from bayespatch.engine.streams import beta, compiled, inlined, key_of, open_stream, random_bits, to_unit
from bayespatch.engine.votes import (
    AGREE,
    AGREES,
    DIFFERS,
    OFF,
    ON,
    TOTAL,
    VOTE_OFF,
    VOTE_ON,
    label_ratio,
)

ZERO, UNIT = np.float32(0.0), np.float32(1.0)
TO_UNIT_24 = np.float32(2.0**-24)
CEILING = np.float32(1e30)  # odds above this are as good as certain
MARGIN = np.float32(1.0 + 1e-5)  # more than what single precision could have lost of a bound
BIT = np.uint32(1)


class Table(NamedTuple):
    """The data on the card. Word v of W has the features 32 v .. 32 v + 31."""

    same: Any  # (W, N, S) uint32: where case and parent agree
    votes: Any  # (W, S) uint32: where the parent has a value to vote for
    observed: Any  # (W, N) uint32: where the case has a value
    y: Any  # (N,) int32
    own_parent: Any  # (N,) int32
    y_parents: Any  # (S,) int32
    c2: Any  # (P,) float64
    mu: Any  # (M,) float64


class Entries(NamedTuple):
    """z, w and kappa of all cases: n[i] entries of a capacity C, sorted by parent."""

    n: Any  # (N,) int32
    parent: Any  # (N, C) int32
    bits: Any  # (N, C, W) uint32: w
    same: Any  # (N, C, W) uint32: where case and parent agree
    kappa: Any  # (N, C) float64, or (1, 1) where the model derives it


class Importance(NamedTuple):
    """q-tilde on the card, rows as in ``votes.py``: ON, OFF, VOTE_ON, VOTE_OFF."""

    double: Any  # (4, S, P) float64
    single: Any  # (4, S, P) float32


class Case(NamedTuple):
    """What a group keeps of one of its cases, for all of its threads to see."""

    votes: Any  # (2, P) float32, in Model III float64: AGREE and TOTAL
    ratio: Any  # (2, P) float32: the largest R_j that a vote which DIFFERS or AGREES could bring
    class_votes: Any  # (M,) float64
    label: Any  # (M,) float32: the largest H
    bits: Any  # (W,) uint32: w of the parent that comes or goes
    same: Any  # (W,) uint32: where that parent and the case agree


class Own(NamedTuple):
    """What a thread keeps of its own case: indexed by constants, in loops that are unrolled, and so in registers."""

    rng: Any  # (2,) uint64
    ratio: Any  # (2, P) float32: `Case.ratio`
    same: Any  # (W,) uint32: where the parent whose turn it is and the case agree
    ahead: Any  # (W,) uint32: the same of the next parent, on its way from memory


@inlined
def bit(words, j):
    """Feature j of a row of words."""
    return (words[j >> 5] >> np.uint32(j & 31)) & BIT != 0


@inlined
def in_word(word, j):
    """Feature j of the word that has it."""
    return (word >> np.uint32(j & 31)) & BIT != 0


@inlined
def ones(v):
    """How many bits of a word of 32 are on."""
    v = np.uint32(v - ((v >> np.uint32(1)) & np.uint32(0x55555555)))
    v = np.uint32((v & np.uint32(0x33333333)) + ((v >> np.uint32(2)) & np.uint32(0x33333333)))
    v = np.uint32((v + (v >> np.uint32(4))) & np.uint32(0x0F0F0F0F))
    return np.uint32(v * np.uint32(0x01010101)) >> np.uint32(24)


@inlined
def strength(kind, entries, s, i):
    """k: how strongly entry s of case i votes."""
    if kind == 1:
        return 1.0
    if kind == 3:
        return entries.kappa[i, s]
    count = 0.0
    for word in range(entries.bits.shape[2]):
        count += ones(entries.bits[i, s, word])
    return count


@inlined
def open_case(rng, key, number):
    """The stream of the case that has this number."""
    open_stream(rng, key_of(key, number))


@inlined
def cast_votes(kind, c, table, case, i, b, k, first, step):
    """Add the votes of parent b with weight k (negative: take them away), on every step-th feature."""
    j = first
    while j < c.n_features:
        if bit(case.bits, j):
            if in_word(table.votes[j >> 5, b], j):
                case.votes[TOTAL, j] += k
            if bit(case.same, j):
                case.votes[AGREE, j] += k
            refresh_ratio(kind, c, table, case, i, j)
        j += step


@inlined
def refresh_ratio(kind, c, table, case, i, j):
    """The largest R_j: R_j(1) in Model I, which knows no other; where it differs R falls with k, else it grows."""
    differs = UNIT
    agrees = UNIT
    if in_word(table.observed[j >> 5, i], j):
        lam = np.float32(c.lam)
        most = lam * np.float32(c.n_features) if kind == 2 else lam
        a = np.float32(c.c1) + lam * np.float32(case.votes[AGREE, j])
        total = np.float32(table.c2[j]) + lam * np.float32(case.votes[TOTAL, j])
        if kind != 3:
            differs = total / (total + lam)
        agrees = total / (total + most) * (UNIT + most / a)
        if kind == 3:
            agrees = max(agrees, UNIT)
    case.ratio[DIFFERS, j] = differs
    case.ratio[AGREES, j] = agrees


@inlined
def refresh_labels(kind, c, table, case, i, first, step):
    """The largest H: H(1), in Model II H(P), and 1 in Models II and III, whose k may be close to 0."""
    strongest = float(c.n_features) if kind == 2 else 1.0
    m = first
    while m < case.label.shape[0]:
        h = label_ratio(c, table.mu, case.class_votes, table.y[i], m, strongest)
        case.label[m] = np.float32(h if kind == 1 else max(1.0, h))
        m += step


@inlined
def begin_case(kind, c, table, entries, case, i):
    """Count the votes of all entries afresh."""
    case.votes[:] = 0
    case.class_votes[:] = 0.0
    for j in range(c.n_features):
        refresh_ratio(kind, c, table, case, i, j)
    for s in range(entries.n[i]):
        b = entries.parent[i, s]
        load_entry(entries, case, s, i)
        for word in range(case.same.shape[0]):
            case.same[word] = entries.same[i, s, word]
        k = strength(kind, entries, s, i)
        cast_votes(kind, c, table, case, i, b, k, 0, 1)
        case.class_votes[table.y_parents[b]] += k
    refresh_labels(kind, c, table, case, i, 0, 1)


@inlined
def take_ratios(case, own):
    """The ratios of a case, to hand."""
    for j in range(own.ratio.shape[1]):
        own.ratio[DIFFERS, j] = case.ratio[DIFFERS, j]
        own.ratio[AGREES, j] = case.ratio[AGREES, j]


@inlined
def load_entry(entries, case, s, i):
    """w of entry s, for all to see."""
    for word in range(case.bits.shape[0]):
        case.bits[word] = entries.bits[i, s, word]


@inlined
def show_agreement(own, case):
    """Where the parent whose turn it is agrees, for all to see."""
    for word in range(case.same.shape[0]):
        case.same[word] = own.same[word]


@inlined
def store_entry(kind, entries, case, n, i, b, k):
    """Parent b becomes entry n, with the w in `case.bits`, if there is room."""
    if n < entries.parent.shape[1]:
        entries.parent[i, n] = b
        for word in range(case.bits.shape[0]):
            entries.bits[i, n, word] = case.bits[word]
            entries.same[i, n, word] = case.same[word]
        if kind == 3:
            entries.kappa[i, n] = k


@inlined
def fetch_agreement(table, own, b, i):
    """Ask for the agreement with parent b, ahead of its turn."""
    for word in range(own.ahead.shape[0]):
        own.ahead[word] = table.same[word, i, b]


@inlined
def next_agreement(table, own, b, i):
    """It is parent b's turn; ask for the next."""
    for word in range(own.same.shape[0]):
        own.same[word] = own.ahead[word]
    if b + 1 < table.same.shape[2]:
        fetch_agreement(table, own, b + 1, i)


@inlined
def factors(on, off, own, b, first, last):
    """prod_j ((1 - q~) + q~ R_j) over features first..last-1: the inner loop of the whole program."""
    product = UNIT
    for j in range(first, last):
        r = own.ratio[AGREES, j] if bit(own.same, j) else own.ratio[DIFFERS, j]
        product *= off[b, j] + on[b, j] * r
    return product


@inlined
def largest_odds(kind, c, importance, own, label, b, chunk):
    """Odds of parent b at the largest R and H: the odds themselves in Model I, and a bound of them in II and III.

    `chunk` factors may be multiplied before single precision could overflow. Model II scales the bound down, and so
    needs it as it is; in the others a bound above the ceiling serves as well.
    """
    on = importance.single[VOTE_ON]
    off = importance.single[VOTE_OFF]
    size = own.ratio.shape[1]
    if kind != 2 and size <= chunk:
        return float(min(np.float32(c.prior_odds) * label * factors(on, off, own, b, 0, size), CEILING))
    product = 1.0
    log = 0.0
    for first in range(0, size, chunk):
        product *= factors(on, off, own, b, first, min(first + chunk, size))
        if product > 1e200 or product < 1e-200:
            log += math.log(product)
            product = 1.0
    if log != 0.0:
        product = math.exp(min(log + math.log(product), 600.0))
    odds = c.prior_odds * label * product
    return odds if kind == 2 else min(odds, float(CEILING))


@inlined
def turned_down(odds, bits):
    """Whether the first 24 of the random bits are enough to say no."""
    odds = np.float32(odds)
    u = np.float32(np.uint32(bits >> np.uint64(40))) * TO_UNIT_24
    return u * (UNIT + odds) >= odds * MARGIN


@inlined
def consider(kind, c, table, importance, own, case, candidate, weight, chunk, i, b, current):
    """Whether parent b becomes a neighbor: its weight k, or -1; a uniform number; and the largest odds.

    In Model II k = 0 says only that it may: the group has to weigh the pair. `current`: kappa of one who has been a
    neighbor, else -1.
    """
    bits = random_bits(own.rng)
    odds = largest_odds(kind, c, importance, own, case.label[table.y_parents[b]], b, chunk)
    if turned_down(min(odds, float(CEILING)), bits) and not (kind == 3 and current >= 0.0):
        return -1.0, 0.0, 0.0
    u = to_unit(bits)
    if kind == 1:
        return (1.0 if u * (1.0 + odds) < odds else -1.0), u, odds
    if kind == 2:
        return 0.0, u, odds
    show_agreement(own, case)
    return try_kappa(c, table, importance, own.rng, case, candidate, weight, i, b, current, u), u, odds


@compiled
def product_given_kappa(c, table, importance, case, i, b, kappa):
    """Model III: prod_j f_j(kappa), at most e^600; in double precision."""
    product = 1.0
    log = 0.0
    for j in range(c.n_features):
        if in_word(table.observed[j >> 5, i], j):
            d = 1.0 + c.lam * kappa / (table.c2[j] + c.lam * case.votes[TOTAL, j])
            a = 1.0 + (c.lam * kappa / (c.c1 + c.lam * case.votes[AGREE, j]) if bit(case.same, j) else 0.0)
            product *= (importance.double[VOTE_OFF, b, j] * d + importance.double[VOTE_ON, b, j] * a) / d
            if product > 1e200 or product < 1e-200:
                log += math.log(product)
                product = 1.0
    return product if log == 0.0 else math.exp(min(log + math.log(product), 600.0))


@inlined
def try_kappa(c, table, importance, rng, case, candidate, weight, i, b, current, u):
    """Model III: choose among the current and fresh values of kappa; returns the one that makes b a neighbor, or -1."""
    total = 0.0
    for r in range(N_CANDIDATES):
        candidate[r] = current if r == 0 and current >= 0.0 else beta(rng, c.tau, c.sigma3)
        weight[r] = product_given_kappa(c, table, importance, case, i, b, candidate[r])
        weight[r] *= label_ratio(c, table.mu, case.class_votes, table.y[i], table.y_parents[b], candidate[r])
        total += weight[r]
    odds = c.prior_odds * total / N_CANDIDATES
    if u * (1.0 + odds) >= odds:
        return -1.0
    return candidate[choose(weight, N_CANDIDATES, total, rng)]


@inlined
def draw_features(kind, c, table, importance, case, rng, flags, i, b, k, lane, n_lanes):
    """w of parent b, which votes with weight k: independent over features (Models I and III).

    Every thread draws all the numbers from a copy of the case's stream, keeps its own and then decides its feature,
    when all others decide theirs.
    """
    base = 0
    while base < c.n_features:
        mine = np.uint64(0)
        for j in range(min(n_lanes, c.n_features - base)):
            drawn = random_bits(rng)
            mine = drawn if j == lane else mine
        if base + lane < c.n_features:
            flags[base + lane] = is_on(kind, c, table, importance, case, to_unit(mine), i, b, k, base + lane)
        base += n_lanes


@inlined
def is_on(kind, c, table, importance, case, u, i, b, k, j):
    """w of feature j, with a uniform number."""
    off = float(importance.single[OFF, b, j])
    on = float(importance.single[ON, b, j])
    if in_word(table.votes[j >> 5, b], j):
        if kind == 1:
            on *= case.ratio[AGREES if bit(case.same, j) else DIFFERS, j]
        elif in_word(table.observed[j >> 5, i], j):
            off *= 1.0 + c.lam * k / (table.c2[j] + c.lam * case.votes[TOTAL, j])
            if bit(case.same, j):
                on *= 1.0 + c.lam * k / (c.c1 + c.lam * case.votes[AGREE, j])
    return 1 if u * (off + on) < on else 0


def words_of(flags: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """Rows of flags (n, P) as words (W, n): flag j in bit j % 32 of word j // 32."""
    n, n_features = flags.shape
    words = np.zeros((-(-n_features // 32), n), np.uint32)
    for j in range(n_features):
        words[j // 32] |= flags[:, j].astype(np.uint32) << np.uint32(j % 32)
    return words
