"""Models II and III, one feature of one case with its w summed out, as a GPU wants it: little memory a thread, double
precision. Model I is in ``cuda_nodes``.

The sums are those of ``summing.py``; w is drawn afresh in another way. The 2^m settings are visited in the order of a
Gray code, one w switched at a time, and weighed as they come: the sum is kept relative to the largest likelihood so
far, and a setting is chosen on the way. In Model II a w changes kappa, hence all features and the label of the case.
"""

from __future__ import annotations

import math

import numpy as np

from bayespatch.engine.cuda_case import BIT, in_word, strength
from bayespatch.engine.streams import inlined, key_of, open_stream, uniform
from bayespatch.engine.votes import AGREE, OFF, ON, TOTAL


@inlined
def place(s, start, n):
    """How many entries after `start`, going round, entry s comes; quicker than a remainder."""
    return s - start if s >= start else s - start + n


@inlined
def entry_at(r, start, n):
    """The entry that comes r after `start`, going round."""
    return start + r if start + r < n else start + r - n


@inlined
def open_item(rng, key, j, i):
    """The stream of case i in the move of feature j."""
    open_stream(rng, key_of(key_of(key, j), i))


@inlined
def switch(entries, s, i, j, on):
    """Feature j of entry s on or off."""
    word = j >> 5
    mask = np.uint32(BIT << np.uint32(j & 31))
    if on:
        entries.bits[i, s, word] |= mask
    else:
        entries.bits[i, s, word] &= ~mask


@inlined
def first_feature(kind, j):
    """Where the features begin that change with w_ij: all of them in Model II, j alone in Model III."""
    return 0 if kind == 2 else j


@inlined
def last_feature(kind, j, votes):
    return votes.shape[1] if kind == 2 else j + 1


@inlined
def count_votes(kind, table, entries, votes, class_votes, i, first, last, j, start, m):
    """The votes of case i on features first..last-1, where feature j of the m entries from `start` on is off."""
    for f in range(first, last):
        votes[AGREE, f] = 0.0
        votes[TOTAL, f] = 0.0
    class_votes[:] = 0.0
    n = entries.n[i]
    for s in range(n):
        b = entries.parent[i, s]
        summed = place(s, start, n) < m
        j_on = in_word(entries.bits[i, s, j >> 5], j)
        k = strength(kind, entries, s, i) - (1.0 if kind == 2 and summed and j_on else 0.0)
        class_votes[table.y_parents[b]] += k
        for f in range(first, last):
            if in_word(entries.bits[i, s, f >> 5], f) and not (summed and f == j):
                if in_word(table.votes[f >> 5, b], f):
                    votes[TOTAL, f] += k
                if in_word(entries.same[i, s, f >> 5], f):
                    votes[AGREE, f] += k


@inlined
def switch_setting(kind, table, entries, votes, class_votes, i, j, s, sign):
    """Feature j of entry s, which is summed, goes on (sign 1) or off (-1). In Model II its other votes change too."""
    b = entries.parent[i, s]
    k = strength(kind, entries, s, i)
    if kind == 2:
        if not in_word(entries.bits[i, s, j >> 5], j):
            k += 1.0
        class_votes[table.y_parents[b]] += sign
    for f in range(first_feature(kind, j), last_feature(kind, j, votes)):
        vote = sign * k if f == j else sign
        if f == j or in_word(entries.bits[i, s, f >> 5], f):
            if in_word(table.votes[f >> 5, b], f):
                votes[TOTAL, f] += vote
            if in_word(entries.same[i, s, f >> 5], f):
                votes[AGREE, f] += vote


@inlined
def log_likelihood(c, table, votes, class_votes, i, first, last, with_label):
    """Of features first..last-1 of case i and, if so wanted, of its label, given the votes."""
    above = 1.0
    below = 1.0
    log = 0.0
    for f in range(first, last):
        if in_word(table.observed[f >> 5, i], f):
            above *= c.c1 + c.lam * votes[AGREE, f]
            below *= table.c2[f] + c.lam * votes[TOTAL, f]
        if f & 7 == 7:  # before the products could leave the range of a double
            log += math.log(above / below)
            above = 1.0
            below = 1.0
    y = table.y[i]
    if with_label and y >= 0:
        every = c.label_c2
        for m in range(class_votes.shape[0]):
            every += table.mu[m] * class_votes[m]
        above *= c.label_c1 + table.mu[y] * class_votes[y]
        below *= every
    return log + math.log(above / below)


@inlined
def log_likelihood_of_setting(kind, c, table, votes, class_votes, i, j):
    """Of all that changes with w_ij."""
    first, last = first_feature(kind, j), last_feature(kind, j, votes)
    return log_likelihood(c, table, votes, class_votes, i, first, last, kind == 2)


@inlined
def prior_of_setting(importance, entries, i, j, n, start, m, setting):
    """prod q~^w (1 - q~)^(1 - w) over the summed entries; bit r of `setting` is entry start + r."""
    product = 1.0
    for r in range(m):
        b = entries.parent[i, entry_at(r, start, n)]
        product *= importance[ON if (setting >> r) & 1 else OFF, b, j]
    return product


@inlined
def next_in_gray_code(kind, table, entries, votes, class_votes, i, j, n, start, step, setting):
    """The setting after step - 1 others: one bit is switched."""
    r = 0
    while not (step >> r) & 1:
        r += 1
    on = not (setting >> r) & 1
    switch_setting(kind, table, entries, votes, class_votes, i, j, entry_at(r, start, n), 1.0 if on else -1.0)
    return setting ^ (1 << r)


@inlined
def compare_settings(kind, c, table, old, new, entries, votes, class_votes, rng, key, i, j):
    """Models II and III: log p(x_i, y_i, fixed w_i:j | rest, new q~) - log p(... | rest, old q~)."""
    n = entries.n[i]
    if n == 0:
        return 0.0
    open_item(rng, key, j, i)
    m = min(n, c.max_summed)
    start = int(uniform(rng) * n)
    first, last = first_feature(kind, j), last_feature(kind, j, votes)
    count_votes(kind, table, entries, votes, class_votes, i, first, last, j, start, m)
    top = log_likelihood_of_setting(kind, c, table, votes, class_votes, i, j)
    before = prior_of_setting(old, entries, i, j, n, start, m, 0)
    after = prior_of_setting(new, entries, i, j, n, start, m, 0)
    setting = 0
    for step in range(1, 1 << m):
        setting = next_in_gray_code(kind, table, entries, votes, class_votes, i, j, n, start, step, setting)
        log = log_likelihood_of_setting(kind, c, table, votes, class_votes, i, j)
        if log > top:
            before *= math.exp(top - log)
            after *= math.exp(top - log)
            top = log
        likelihood = math.exp(log - top)
        before += likelihood * prior_of_setting(old, entries, i, j, n, start, m, setting)
        after += likelihood * prior_of_setting(new, entries, i, j, n, start, m, setting)
    ratio = math.log(after / before)
    for s in range(n):
        if place(s, start, n) >= m:
            row = ON if in_word(entries.bits[i, s, j >> 5], j) else OFF
            b = entries.parent[i, s]
            ratio += math.log(new[row, b, j] / old[row, b, j])
    return ratio


@inlined
def redraw_settings(kind, c, table, importance, entries, votes, class_votes, rng, key, i, j):
    """Models II and III: w_i:j of the summed entries afresh; with the same key, the same ones as in the log ratio."""
    n = entries.n[i]
    if n == 0:
        return
    open_item(rng, key, j, i)
    m = min(n, c.max_summed)
    start = int(uniform(rng) * n)
    first, last = first_feature(kind, j), last_feature(kind, j, votes)
    count_votes(kind, table, entries, votes, class_votes, i, first, last, j, start, m)
    top = log_likelihood_of_setting(kind, c, table, votes, class_votes, i, j)
    total = prior_of_setting(importance, entries, i, j, n, start, m, 0)
    setting = 0
    chosen = 0
    for step in range(1, 1 << m):
        setting = next_in_gray_code(kind, table, entries, votes, class_votes, i, j, n, start, step, setting)
        log = log_likelihood_of_setting(kind, c, table, votes, class_votes, i, j)
        if log > top:
            total *= math.exp(top - log)
            top = log
        weight = math.exp(log - top) * prior_of_setting(importance, entries, i, j, n, start, m, setting)
        total += weight
        if uniform(rng) * total < weight:
            chosen = setting
    for r in range(m):
        switch(entries, entry_at(r, start, n), i, j, (chosen >> r) & 1 == 1)


@inlined
def summarise_case(kind, c, table, entries, votes, class_votes, mu0, shares, i):
    """Vote shares of case i, into `shares` (N, M); returns its log likelihood."""
    count_votes(kind, table, entries, votes, class_votes, i, 0, votes.shape[1], 0, 0, 0)
    cast = 0.0
    for m in range(class_votes.shape[0]):
        cast += table.mu[m] * class_votes[m]
    for m in range(class_votes.shape[0]):
        shares[i, m] = (mu0 + table.mu[m] * class_votes[m]) / (class_votes.shape[0] * mu0 + cast)
    return log_likelihood(c, table, votes, class_votes, i, 0, votes.shape[1], True)
