"""The update of one case as a GPU wants it: a group of threads a case, a parent each, single precision where it serves.

It is the update of ``kernels.py`` in another layout. The threads of a group (a warp, or a part of one) look at as many
parents at once, all with the votes as they are. The first, in the order of the parents, who is a neighbor and has to be
taken out, or who becomes one, changes the votes; then those after it are looked at again. That is rare: some ten times
for a thousand parents. To change the votes the threads take a feature each.

Who agrees with whom on what does not change, so it is computed once, as bits: word (j // 32) of pair (i, b). w is kept
in the same bits, and the entries of a case are sorted by parent.

Single precision costs no more than a relative error of some 1e-6 in the odds of a pair: what it rounds is close to 1,
``f_j = 1 + q~ (R_j - 1)``. A random number is compared with the odds in two steps: 24 bits of it turn most pairs down,
and where they do not, all 53 decide in double precision, so that small odds are not rounded.

Every pair has random numbers of its own, named by its key, so that threads need not draw them one after another.

Functions of arrays and numbers, compiled by whoever calls them: a CUDA kernel, or (in the tests) the CPU.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.engine.streams import inlined, to_unit
from bayespatch.engine.votes import AGREE, AGREES, DIFFERS, MU, MU0, OFF, ON, TOTAL

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
    mu: Any  # (2, M) float64: mu and mu0


class Entries(NamedTuple):
    """z, w and kappa of all cases: n[i] entries of a capacity C, sorted by parent."""

    n: Any  # (N,) int32
    parent: Any  # (N, C) int32
    bits: Any  # (N, C, W) uint32: w
    same: Any  # (N, C, W) uint32: where case and parent agree
    kappa: Any  # (N, C) float64, or (1, 1) where the model derives it


class Importance(NamedTuple):
    """q-tilde on the card."""

    double: Any  # (4, S, P) float64, rows as in ``votes.py``: ON, OFF, VOTE_ON, VOTE_OFF
    chance: Any  # float32: VOTE_ON once more, in the order of `chance_at`
    group: int


class Case(NamedTuple):
    """What a group keeps of its case, for all of its threads to see."""

    votes: Any  # (2, P) float32, in Model III float64: AGREE and TOTAL
    gain: Any  # (2, P) float32: the largest R_j - 1 that a vote which DIFFERS or AGREES could bring
    slope: Any  # (2, P) float32, in Model III: R_j(kappa) - 1 = slope kappa / (1 - slope[DIFFERS] kappa)
    class_votes: Any  # (M,) as `votes`
    label: Any  # (M,) float32: the largest H
    label_slope: Any  # (2, M) float32: H(k) - 1 likewise, slope[AGREES] being that of the class


class Own(NamedTuple):
    """What a thread has to hand: indexed by constants, in loops that are unrolled, and so in registers."""

    gain: Any  # (2, P) float32: `Case.gain`
    same: Any  # (W,) uint32: where the parent that this thread looks at and the case agree
    ahead: Any  # (W,) uint32: the same of the parent that it will look at next, on its way from memory
    candidate: Any  # (R,) float32: Model III: candidates for the parent's kappa
    product: Any  # (R,) float32: prod_j f_j(kappa), for each of them


class Change(NamedTuple):
    """The parent that comes or goes; the same in all threads of a group."""

    bits: Any  # (W,) uint32: its w
    same: Any  # (W,) uint32: where it and the case agree


@inlined
def chance_at(b, j, n_features, group):
    """Where `Importance.chance` has parent b and feature j: the parents that a group looks at, side by side."""
    return (b // group * n_features + j) * group + b % group


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
def begin_case(kind, c, table, entries, case, i, lane, n_lanes):
    """Count the votes of all entries afresh, every n_lanes-th feature and class; `refresh_labels` is still to come."""
    n = entries.n[i]
    j = lane
    while j < c.n_features:
        case.votes[AGREE, j] = 0.0
        case.votes[TOTAL, j] = 0.0
        for s in range(n):
            if in_word(entries.bits[i, s, j >> 5], j):
                k = strength(kind, entries, s, i)
                add_vote(table, case, entries.parent[i, s], j, in_word(entries.same[i, s, j >> 5], j), k)
        refresh_gain(kind, c, table, case, i, j)
        j += n_lanes
    m = lane
    while m < case.label.shape[0]:
        case.class_votes[m] = 0.0
        for s in range(n):
            if table.y_parents[entries.parent[i, s]] == m:
                case.class_votes[m] += strength(kind, entries, s, i)
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
    """Add the votes of parent b with weight k (negative: take them away), on every n_lanes-th feature."""
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
    """The largest R_j - 1: at k = 1 in Model I; in the others R falls with k where it differs, and else grows."""
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
    case.gain[DIFFERS, j] = differs
    case.gain[AGREES, j] = agrees


@inlined
def refresh_labels(kind, c, table, case, i, lane, n_lanes):
    """The largest H: H(1), in Model II H(P), and 1 in Models II and III, whose k may be close to 0."""
    y = table.y[i]
    mine = UNIT
    every = np.float32(c.label_c2)
    for m in range(case.label.shape[0]):
        every += np.float32(table.mu[MU, m]) * np.float32(case.class_votes[m])
        if m == y:
            mine = np.float32(c.one + table.mu[MU0, m]) + np.float32(table.mu[MU, m]) * np.float32(case.class_votes[m])
    m = lane
    while m < case.label.shape[0]:
        vote = np.float32(table.mu[MU, m])
        differs = -vote / every if y >= 0 else ZERO
        slope = vote / mine + differs if m == y else differs
        case.label_slope[DIFFERS, m] = differs
        case.label_slope[AGREES, m] = slope
        strongest = np.float32(c.n_features) if kind == 2 else UNIT
        h = UNIT + slope * strongest / (UNIT - differs * strongest)
        case.label[m] = h if kind == 1 else max(UNIT, h)
        m += n_lanes


@inlined
def take_gains(case, own):
    """The gains of the case, to hand."""
    for j in range(own.gain.shape[1]):
        own.gain[DIFFERS, j] = case.gain[DIFFERS, j]
        own.gain[AGREES, j] = case.gain[AGREES, j]


@inlined
def load_agreement(table, words, i, b):
    """Where case i and parent b agree."""
    for word in range(words.shape[0]):
        words[word] = table.same[word, i, b]


@inlined
def store_entry(kind, entries, change, n, i, b, k):
    """Parent b becomes entry n, if there is room."""
    if n < entries.parent.shape[1]:
        entries.parent[i, n] = b
        for word in range(change.bits.shape[0]):
            entries.bits[i, n, word] = change.bits[word]
            entries.same[i, n, word] = change.same[word]
        if kind == 3:
            entries.kappa[i, n] = k


@inlined
def factors(chance, own, start, first, last, group):
    """prod_j (1 + q~ (R_j - 1)) over features first..last-1: the inner loop of the whole program."""
    product = UNIT
    for j in range(first, last):
        gain = own.gain[AGREES, j] if bit(own.same, j) else own.gain[DIFFERS, j]
        product *= UNIT + chance[start + np.uint64(j * group)] * gain
    return product


@inlined
def largest_odds(c, chance, own, label, start, group, chunk):
    """Odds of a parent at the largest R and H: the odds themselves in Model I, and a bound of them in II and III.

    `start`: where its `chance` begins. `chunk` factors may be multiplied before single precision could overflow.
    """
    size = own.gain.shape[1]
    if size <= chunk:
        return min(np.float32(c.prior_odds) * label * factors(chance, own, start, 0, size, group), CEILING)
    product = 1.0
    log = 0.0
    for first in range(0, size, chunk):
        product *= factors(chance, own, start, first, min(first + chunk, size), group)
        if product > 1e200 or product < 1e-200:
            log += math.log(product)
            product = 1.0
    if log != 0.0:
        product = math.exp(min(log + math.log(product), 600.0))
    return np.float32(min(c.prior_odds * label * product, float(CEILING)))


@inlined
def turned_down(odds, bits):
    """Whether the first 24 of the random bits are enough to say no."""
    u = np.float32(np.uint32(bits >> np.uint64(40))) * TO_UNIT_24
    return u * (UNIT + odds) >= odds * MARGIN


@inlined
def accepted(odds, bits):
    """Whether all of the random bits say yes."""
    odds = float(odds)
    return to_unit(bits) * (1.0 + odds) < odds


@inlined
def product_of(factor, n):
    """The product of n numbers, at most e^600; it may leave the range of a double on the way."""
    product = 1.0
    log = 0.0
    for j in range(n):
        product *= factor[j]
        if product > 1e200 or product < 1e-200:
            log += math.log(product)
            product = 1.0
    return product if log == 0.0 else math.exp(min(log + math.log(product), 600.0))


@inlined
def pick(weight, n, u):
    """An index below n, by a number u between 0 and the sum of the weights."""
    for index in range(n - 1):
        u -= weight[index]
        if u < 0.0:
            return index
    return n - 1


@inlined
def is_on(kind, c, table, importance, case, change, i, b, j, k, u):
    """w of feature j of parent b, which votes with weight k, by a uniform number (Models I and III)."""
    off = importance.double[OFF, b, j]
    on = importance.double[ON, b, j]
    if in_word(table.votes[j >> 5, b], j):
        if kind == 1:
            on *= 1.0 + case.gain[AGREES if bit(change.same, j) else DIFFERS, j]
        elif in_word(table.observed[j >> 5, i], j):
            off *= 1.0 + c.lam * k / (table.c2[j] + c.lam * case.votes[TOTAL, j])
            if bit(change.same, j):
                on *= 1.0 + c.lam * k / (c.c1 + c.lam * case.votes[AGREE, j])
    return u * (off + on) < on


def words_of(flags: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """Rows of flags (n, P) as words (W, n): flag j in bit j % 32 of word j // 32."""
    n, n_features = flags.shape
    words = np.zeros((-(-n_features // 32), n), np.uint32)
    for j in range(n_features):
        words[j // 32] |= flags[:, j].astype(np.uint32) << np.uint32(j % 32)
    return words
