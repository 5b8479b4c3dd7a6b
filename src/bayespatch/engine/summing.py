"""One feature of one case with its w summed out: p(x_ij | z_i, q~), and w_i:j drawn afresh.

In Model I all neighbors vote with weight 1 and the sum over w_i:j runs over counts: how many of the agreeing and how many
of the differing neighbors are on, two Poisson-binomials. In Models II and III they differ in weight, and the sum runs
over the 2^n settings of at most `MAX_SUMMED` neighbors, from a random place on where there are more; the others stay as
they are and count through their prior. In Model II a w changes kappa, hence every feature and the label of the case.

`parent` (C,), `bits` (C, words) and `kappa` (C,) are the entries of one case, of which n are used.
"""

from __future__ import annotations

import math

import numpy as np

from bayespatch.engine.kernels import (
    C2,
    CASE_MISSING,
    OFF,
    ON,
    ONE,
    PARENT_MISSING,
    agrees,
    choose,
    is_on,
    n_on,
    switch_on,
)
from bayespatch.engine.streams import compiled, inlined, open_stream, uniform

MAX_SUMMED = 6


@inlined
def switch_off(bits, s, j):
    bits[s, j >> 6] &= ~(ONE << np.uint64(j & 63))


@inlined
def fill_poisson_binomial(table, entries, n, parent, importance, j):
    """table[r, a]: probability that a of the first r entries are on."""
    table[0, 0] = 1.0
    for r in range(n):
        on = importance[ON, parent[entries[r]], j]
        off = importance[OFF, parent[entries[r]], j]
        table[r + 1, 0] = table[r, 0] * off
        for a in range(1, r + 1):
            table[r + 1, a] = table[r, a] * off + table[r, a - 1] * on
        table[r + 1, r + 1] = table[r, r] * on


@inlined
def split_voters(x, x_parents, feature, parent, voters, i, j, n):
    """Rows 1 and 0 of `voters`: the entries that vote on feature j and agree, or differ. Returns how many of each."""
    n_agreeing = 0
    n_differing = 0
    for s in range(n):
        b = parent[s]
        if agrees(x, x_parents, feature, i, b, j):
            voters[1, n_agreeing] = s
            n_agreeing += 1
        elif x_parents[b, j] != PARENT_MISSING:
            voters[0, n_differing] = s
            n_differing += 1
    return n_agreeing, n_differing


@inlined
def weigh_pairs_of_counts(c, parent, importance, reciprocal, voters, tables, weight, j, n_agreeing, n_differing):
    """Model I: weight[a, d] = PB(a agreeing on) PB(d differing on) A/T; returns their sum, p(x_ij | z_i, q~)."""
    fill_poisson_binomial(tables[1], voters[1], n_agreeing, parent, importance, j)
    fill_poisson_binomial(tables[0], voters[0], n_differing, parent, importance, j)
    total = 0.0
    for a in range(n_agreeing + 1):
        left = tables[1, n_agreeing, a] * (c.c1 + c.lam * a)
        for d in range(n_differing + 1):
            here = left * tables[0, n_differing, d] * reciprocal[j, a + d]
            weight[a * (n_differing + 1) + d] = here
            total += here
    return total


@inlined
def walk_back(table, entries, n, count, parent, bits, importance, j, rng):
    """Draw which `count` of the n entries are on."""
    for r in range(n - 1, -1, -1):
        on = importance[ON, parent[entries[r]], j]
        if count > 0 and uniform(rng) * table[r + 1, count] < on * table[r, count - 1]:
            switch_on(bits, entries[r], j)
            count -= 1


@compiled
def redraw_by_counts(
    c, x, x_parents, feature, importance, parent, bits, reciprocal, voters, tables, weight, rng, i, j, n
):
    """Model I: w_i:j given z and q~."""
    for s in range(n):
        switch_off(bits, s, j)
        silent = x[i, j] == CASE_MISSING or x_parents[parent[s], j] == PARENT_MISSING
        if silent and uniform(rng) < importance[ON, parent[s], j]:
            switch_on(bits, s, j)
    if x[i, j] == CASE_MISSING:
        return
    n_agreeing, n_differing = split_voters(x, x_parents, feature, parent, voters, i, j, n)
    total = weigh_pairs_of_counts(
        c, parent, importance, reciprocal, voters, tables, weight, j, n_agreeing, n_differing
    )
    pair = choose(weight, (n_agreeing + 1) * (n_differing + 1), total, rng)
    a = pair // (n_differing + 1)
    walk_back(tables[1], voters[1], n_agreeing, a, parent, bits, importance, j, rng)
    walk_back(tables[0], voters[0], n_differing, pair % (n_differing + 1), parent, bits, importance, j, rng)


@compiled
def log_ratio_by_counts(c, x, x_parents, feature, old, new, parent, reciprocal, voters, tables, weight, i, j, n):
    """Model I: log p(x_ij | z_i, new q~) - log p(x_ij | z_i, old q~)."""
    if x[i, j] == CASE_MISSING:
        return 0.0
    n_agreeing, n_differing = split_voters(x, x_parents, feature, parent, voters, i, j, n)
    before = weigh_pairs_of_counts(c, parent, old, reciprocal, voters, tables, weight, j, n_agreeing, n_differing)
    after = weigh_pairs_of_counts(c, parent, new, reciprocal, voters, tables, weight, j, n_agreeing, n_differing)
    return math.log(after / before)


@inlined
def place_in(start, m, n, s):
    """The number of entry s among the m summed ones, which begin at `start` and go round; m or more: not summed."""
    return (s - start) % n


@inlined
def weight_without(c, bits, kappa, s, j):
    """kappa of entry s if feature j were off (Model II), or simply its kappa (Model III)."""
    if c.kind == 3:
        return kappa[s]
    return float(n_on(bits, s) - (1 if is_on(bits, s, j) else 0))


@compiled
def fill_settings(
    c, x, y, x_parents, y_parents, feature, mu, parent, bits, kappa, settings, likelihood, i, j, n, start, m
):
    """likelihood[setting] of the case for all 2^m settings of the summed entries' feature j, relative to setting 0.

    Rows of `settings` (2, 2^m, F+1): A and T of every feature, and in the last column E and F of the label.
    """
    last = settings.shape[2] - 1
    first_feature = 0 if c.kind == 2 else j
    end_feature = c.n_features if c.kind == 2 else j + 1
    labelled = c.kind == 2 and y[i] >= 0
    for f in range(first_feature, end_feature):
        settings[1, 0, f] = c.c1
        settings[0, 0, f] = feature[C2, f]
    settings[1, 0, last] = c.label_c1
    settings[0, 0, last] = c.label_c2
    for s in range(n):  # setting 0: feature j of the summed entries is off
        b = parent[s]
        on_here = is_on(bits, s, j) and place_in(start, m, n, s) >= m
        k = weight_without(c, bits, kappa, s, j)
        if c.kind == 2 and on_here:
            k += 1.0
        for f in range(first_feature, end_feature):
            if (on_here if f == j else is_on(bits, s, f)) and x_parents[b, f] != PARENT_MISSING:
                settings[0, 0, f] += c.lam * k
                if agrees(x, x_parents, feature, i, b, f):
                    settings[1, 0, f] += c.lam * k
        settings[0, 0, last] += mu[y_parents[b]] * k
        if y_parents[b] == y[i]:
            settings[1, 0, last] += mu[y_parents[b]] * k
    for r in range(m):  # settings 2^r .. 2^(r+1)-1: those before, with feature j of the r-th summed entry on
        s = (start + r) % n
        b = parent[s]
        k = weight_without(c, bits, kappa, s, j)
        half = 1 << r
        for setting in range(half):
            for f in range(first_feature, end_feature):
                vote = 0.0
                if x_parents[b, f] != PARENT_MISSING:
                    if f == j:
                        vote = c.lam * (k + 1.0 if c.kind == 2 else k)
                    elif is_on(bits, s, f):
                        vote = c.lam
                settings[0, half + setting, f] = settings[0, setting, f] + vote
                same = agrees(x, x_parents, feature, i, b, f)
                settings[1, half + setting, f] = settings[1, setting, f] + (vote if same else 0.0)
            vote = mu[y_parents[b]]
            settings[0, half + setting, last] = settings[0, setting, last] + vote
            same = y_parents[b] == y[i]
            settings[1, half + setting, last] = settings[1, setting, last] + (vote if same else 0.0)
    compare_settings(c, x, settings, likelihood, i, first_feature, end_feature, labelled, 1 << m)


@compiled
def compare_settings(c, x, settings, likelihood, i, first_feature, end_feature, labelled, n_settings):
    """prod_f (A/T) / (A/T of setting 0), for every setting; long products through logarithms, a chunk at a time."""
    long = end_feature - first_feature > c.chunk
    last = settings.shape[2] - 1
    highest = -math.inf
    for setting in range(n_settings):
        log = 0.0
        product = 1.0
        if labelled:
            product = settings[1, setting, last] * settings[0, 0, last]
            product /= settings[0, setting, last] * settings[1, 0, last]
        for f in range(first_feature, end_feature):
            here = settings[1, setting, f] * settings[0, 0, f] / (settings[0, setting, f] * settings[1, 0, f])
            product *= 1.0 if x[i, f] == CASE_MISSING else here
            if long and f % c.chunk == 0:
                log += math.log(product)
                product = 1.0
        likelihood[setting] = log + math.log(product) if long else product
        highest = max(highest, likelihood[setting])
    if long:
        for setting in range(n_settings):
            likelihood[setting] = math.exp(likelihood[setting] - highest)


@inlined
def weigh_settings(parent, importance, likelihood, weight, j, n, start, m):
    """weight[setting] = likelihood * prod q~^w (1-q~)^(1-w); returns their sum."""
    weight[0] = 1.0
    for r in range(m):
        b = parent[(start + r) % n]
        half = 1 << r
        for setting in range(half):
            weight[half + setting] = weight[setting] * importance[ON, b, j]
            weight[setting] *= importance[OFF, b, j]
    total = 0.0
    for setting in range(1 << m):
        weight[setting] *= likelihood[setting]
        total += weight[setting]
    return total


@compiled
def log_ratio_by_settings(
    c, x, y, x_parents, y_parents, feature, mu, old, new, parent, bits, kappa, settings, likelihood, weight, rng, i, j, n, key
):  # fmt: skip
    """Models II and III: log p(x_i, y_i, fixed w_i:j | rest, new q~) - log p(... | rest, old q~)."""
    open_stream(rng, key)
    m = min(n, MAX_SUMMED)
    start = int(uniform(rng) * n)
    fill_settings(
        c, x, y, x_parents, y_parents, feature, mu, parent, bits, kappa, settings, likelihood, i, j, n, start, m
    )
    before = weigh_settings(parent, old, likelihood, weight, j, n, start, m)
    log = math.log(weigh_settings(parent, new, likelihood, weight, j, n, start, m) / before)
    for s in range(n):
        if place_in(start, m, n, s) >= m:
            row = ON if is_on(bits, s, j) else OFF
            log += math.log(new[row, parent[s], j] / old[row, parent[s], j])
    return log


@compiled
def redraw_by_settings(
    c, x, y, x_parents, y_parents, feature, mu, importance, parent, bits, kappa, settings, likelihood, weight, rng, i, j, n, key
):  # fmt: skip
    """Models II and III: w_i:j of the summed entries afresh; with the same key, the same ones as in the log ratio."""
    open_stream(rng, key)
    m = min(n, MAX_SUMMED)
    start = int(uniform(rng) * n)
    fill_settings(
        c, x, y, x_parents, y_parents, feature, mu, parent, bits, kappa, settings, likelihood, i, j, n, start, m
    )
    total = weigh_settings(parent, importance, likelihood, weight, j, n, start, m)
    setting = choose(weight, 1 << m, total, rng)
    for r in range(m):
        s = (start + r) % n
        switch_off(bits, s, j)
        if (setting >> r) & 1:
            switch_on(bits, s, j)
