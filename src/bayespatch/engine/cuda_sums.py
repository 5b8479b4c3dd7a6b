"""Models II and III, one feature of one case with its w summed out, as a GPU wants it: little memory a thread, double
precision. Model I is in ``cuda_nodes``.

The sums are those of ``summing.py``. All 2^m settings are weighed at once, a product each in registers, factor by
factor. In Model II a w changes kappa, hence all features and the label of the case.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from bayespatch.engine.cuda_case import BIT, ZERO, in_word, ones, strength
from bayespatch.engine.streams import inlined, key_of, open_stream, uniform
from bayespatch.engine.votes import AGREE, MU, MU0, OFF, ON, TOTAL

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
def count_votes(kind, table, entries, votes, class_votes, i):
    """The votes of case i on every feature and on the label."""
    votes[:] = 0.0
    class_votes[:] = 0.0
    for s in range(entries.n[i]):
        b = entries.parent[i, s]
        k = strength(kind, entries, s, i)
        class_votes[table.y_parents[b]] += k
        for f in range(votes.shape[1]):
            if in_word(entries.bits[i, s, f >> 5], f):
                if in_word(table.votes[f >> 5, b], f):
                    votes[TOTAL, f] += k
                if in_word(entries.same[i, s, f >> 5], f):
                    votes[AGREE, f] += k


@inlined
def log_likelihood(c, table, votes, class_votes, i):
    """Of case i and its label, given the votes."""
    above = 1.0
    below = 1.0
    log = 0.0
    for f in range(votes.shape[1]):
        if in_word(table.observed[f >> 5, i], f):
            above *= c.c1 + c.lam * votes[AGREE, f]
            below *= table.c2[f] + c.lam * votes[TOTAL, f]
        if f & 7 == 7:  # before the products could leave the range of a double
            log += math.log(above / below)
            above = 1.0
            below = 1.0
    y = table.y[i]
    if y >= 0:
        every = c.label_c2
        for m in range(class_votes.shape[0]):
            every += table.mu[MU, m] * class_votes[m]
        above *= c.one + table.mu[MU0, y] + table.mu[MU, y] * class_votes[y]
        below *= every
    return log + math.log(above / below)


class Settings(NamedTuple):
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


@inlined
def summarise_case(kind, c, table, entries, votes, class_votes, shares, i):
    """Vote shares of case i, into `shares` (N, M); returns its log likelihood."""
    count_votes(kind, table, entries, votes, class_votes, i)
    cast = 0.0
    for m in range(class_votes.shape[0]):
        cast += table.mu[MU, m] * class_votes[m]
    for m in range(class_votes.shape[0]):
        shares[i, m] = (table.mu[MU0, m] + table.mu[MU, m] * class_votes[m]) / (c.label_c2 - c.one + cast)
    return log_likelihood(c, table, votes, class_votes, i)
