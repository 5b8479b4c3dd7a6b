"""One feature of one case with its w summed out, as a GPU wants it: little memory a thread, double precision.

The sums are those of ``summing.py``; w is drawn afresh in another way.

Model I. Given z, 1/T = 1/(c2 + lam t) is the integral of exp(-v T) over v > 0. With v at hand the w are independent,
each on with odds q~ exp(-lam v) / (1 - q~). So: draw t, the number that are on, and whether x_ij came from the base
rate or was copied from an agreeing neighbor; draw v given t, an exponential number of rate c2 + lam t; forget t; draw
w given v. That is exact, and needs the polynomials of all entries only, not those of the first 1, 2, ....

Models II and III. The 2^m settings are visited in the order of a Gray code, one w switched at a time, and weighed as
they come: the sum is kept relative to the largest likelihood so far, and a setting is chosen on the way. In Model II a
w changes kappa, hence all features and the label of the case.
"""

from __future__ import annotations

import math

import numpy as np

from bayespatch.engine.cuda_case import BIT, in_word, strength
from bayespatch.engine.streams import inlined, key_of, open_stream, uniform, uniform_positive
from bayespatch.engine.votes import AGREE, OFF, ON, TOTAL, VOTE_OFF, VOTE_ON


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
def sum_over_counts(c, table, importance, entries, count, copied, i, j, n):
    """Model I: p(x_ij | z_i, q~). Leaves the polynomials of all entries: `count[t]`, the probability that t of them are
    on, and `copied[t]`, the same times the number of agreeing ones among them.
    """
    count[0] = 1.0
    copied[0] = 0.0
    for r in range(n):
        b = entries.parent[i, r]
        on = importance[VOTE_ON, b, j]
        off = importance[VOTE_OFF, b, j]
        agreeing = on if in_word(entries.same[i, r, j >> 5], j) else 0.0
        count[r + 1] = 0.0
        copied[r + 1] = 0.0
        for t in range(r + 1, 0, -1):
            copied[t] = copied[t] * off + copied[t - 1] * on + count[t - 1] * agreeing
            count[t] = count[t] * off + count[t - 1] * on
        count[0] *= off
    total = 0.0
    for t in range(n + 1):
        total += (c.c1 * count[t] + c.lam * copied[t]) * table.reciprocal[t, j]
    return total


@inlined
def compare_counts(c, table, old, new, entries, count, copied, i, j):
    """Model I: log p(x_ij | z_i, new q~) - log p(x_ij | z_i, old q~)."""
    n = entries.n[i]
    if n == 0 or not in_word(table.observed[j >> 5, i], j):
        return 0.0
    before = sum_over_counts(c, table, old, entries, count, copied, i, j, n)
    return math.log(sum_over_counts(c, table, new, entries, count, copied, i, j, n) / before)


@inlined
def redraw_counts(c, table, importance, entries, count, copied, rng, key, i, j):
    """Model I: w_i:j given z and q~."""
    n = entries.n[i]
    if n == 0:
        return
    open_item(rng, key, j, i)
    tilt = 1.0
    copied_from = -1
    if in_word(table.observed[j >> 5, i], j):
        u = uniform(rng) * sum_over_counts(c, table, importance, entries, count, copied, i, j, n)
        copying = False
        drawn = 0
        for t in range(n + 1):
            drawn = t
            u -= c.c1 * count[t] * table.reciprocal[t, j]
            if u < 0.0:
                break
            u -= c.lam * copied[t] * table.reciprocal[t, j]
            if u < 0.0:
                copying = True
                break
        tilt = math.exp(c.lam * math.log(uniform_positive(rng)) * table.reciprocal[drawn, j])
        if copying:
            copied_from = choose_source(importance, entries, tilt, rng, i, j, n)
    for r in range(n):
        b = entries.parent[i, r]
        on = importance[ON, b, j]
        if in_word(table.votes[j >> 5, b], j):
            on *= tilt
        u = uniform(rng)
        switch(entries, r, i, j, r == copied_from or u * (importance[OFF, b, j] + on) < on)


@inlined
def choose_source(importance, entries, tilt, rng, i, j, n):
    """Which of the agreeing entries x_ij was copied from: in proportion to its chance of being on."""
    total = 0.0
    for r in range(n):
        total += chance_of_source(importance, entries, tilt, i, j, r)
    u = uniform(rng) * total
    source = -1
    for r in range(n):
        chance = chance_of_source(importance, entries, tilt, i, j, r)
        if chance > 0.0 and u >= 0.0:
            source = r
        u -= chance
    return source


@inlined
def chance_of_source(importance, entries, tilt, i, j, r):
    if not in_word(entries.same[i, r, j >> 5], j):
        return 0.0
    b = entries.parent[i, r]
    on = importance[ON, b, j] * tilt
    return on / (importance[OFF, b, j] + on)


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
