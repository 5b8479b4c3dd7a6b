"""One feature of one case with its w summed out: p(x_ij | z_i, q~), and w_i:j drawn afresh.

In Model I all neighbors vote with weight 1 and the sum over w_i:j runs over how many are on. In Models II and III they
differ in weight, and the sum runs over the 2^n settings of at most `max_summed` neighbors, from a random place on where
there are more; the others stay as they are and count through their prior. In Model II a w changes kappa, hence every
feature and the label of the case.

`parent` (C,), `bits` (C, words) and `kappa` (C,) are the entries of one case, of which n are used.
"""

from __future__ import annotations

import math

import numpy as np

from bayespatch.engine.kernels import choose
from bayespatch.engine.streams import compiled, inlined, open_stream, uniform
from bayespatch.engine.votes import (
    C2,
    CASE_MISSING,
    OFF,
    ON,
    ONE,
    PARENT_MISSING,
    VOTE_OFF,
    VOTE_ON,
    WINDOW,
    agrees,
    is_on,
    switch_on,
    vote_weight,
)


@inlined
def switch_off(bits, s, j):
    bits[s, j >> 6] &= ~(ONE << np.uint64(j & 63))


@compiled
def log_ratios_by_counts(c, x, x_parents, feature, old, new, parent, reciprocal, factors, polynomials, log_ratio, i, n):
    """Model I: log_ratio[j] = log p(x_ij | z_i, new q~) - log p(x_ij | z_i, old q~), for all features at once.

    A/T = (c1 + lam sum of agreeing w) / (c2 + lam sum of all w) is linear above the line and depends on the number t of
    w that are on below it. So two polynomials in t are enough: ``count[t]``, the probability that t are on, and
    ``copied[t]``, the same times the number of agreeing ones among them. Features lie side by side, the old q~ in
    columns 0..F-1 and the new in F..2F-1, for vector instructions.
    """
    width = x.shape[1]
    on, off, on_agreeing = factors[0], factors[1], factors[2]
    count, copied = polynomials[0], polynomials[1]
    count[0] = 1.0
    copied[0] = 0.0
    for r in range(n):
        b = parent[r]
        for j in range(width):
            same = abs(x_parents[b, j] - x[i, j]) <= feature[WINDOW, j]
            on[j] = old[VOTE_ON, b, j]
            on[width + j] = new[VOTE_ON, b, j]
            off[j] = old[VOTE_OFF, b, j]
            off[width + j] = new[VOTE_OFF, b, j]
            on_agreeing[j] = on[j] if same else 0.0
            on_agreeing[width + j] = on[width + j] if same else 0.0
        count[r + 1] = 0.0
        copied[r + 1] = 0.0
        for t in range(r + 1, 0, -1):
            add_entry(count[t], count[t - 1], copied[t], copied[t - 1], on, off, on_agreeing)
        for j in range(2 * width):
            count[0, j] *= off[j]
    on[:] = 0.0
    for t in range(n + 1):
        for j in range(width):
            on[j] += reciprocal[t, j] * (c.c1 * count[t, j] + c.lam * copied[t, j])
            on[width + j] += reciprocal[t, j] * (c.c1 * count[t, width + j] + c.lam * copied[t, width + j])
    for j in range(log_ratio.shape[0]):
        log_ratio[j] = 0.0 if x[i, j] == CASE_MISSING else math.log(on[width + j] / on[j])


@inlined
def add_entry(count, count_below, copied, copied_below, on, off, on_agreeing):
    """One more neighbor: both polynomials at degree t from those at t and t-1."""
    for j in range(on.shape[0]):
        copied[j] = copied[j] * off[j] + copied_below[j] * on[j] + count_below[j] * on_agreeing[j]
        count[j] = count[j] * off[j] + count_below[j] * on[j]


@compiled
def redraw_by_counts(
    c, x, x_parents, feature, importance, parent, bits, reciprocal, prefix_count, prefix_copied, weight, rng, i, j, n
):
    """Model I: w_i:j given z and q~. `prefix_*[r, t]` are the polynomials of the first r entries.

    Choose t and whether x_ij comes from the base rate or was copied from an agreeing neighbor, then walk back over the
    entries; the copied one is on.
    """
    counted = x[i, j] != CASE_MISSING
    prefix_count[0, 0] = 1.0
    prefix_copied[0, 0] = 0.0
    for r in range(n):
        b = parent[r]
        on = importance[VOTE_ON, b, j]
        off = importance[VOTE_OFF, b, j]
        on_agreeing = on if agrees(x, x_parents, feature, i, b, j) else 0.0
        prefix_count[r, r + 1] = 0.0
        prefix_copied[r, r + 1] = 0.0
        prefix_count[r + 1, 0] = prefix_count[r, 0] * off
        prefix_copied[r + 1, 0] = 0.0
        for t in range(1, r + 2):
            prefix_count[r + 1, t] = prefix_count[r, t] * off + prefix_count[r, t - 1] * on
            prefix_copied[r + 1, t] = prefix_copied[r, t] * off + prefix_copied[r, t - 1] * on
            prefix_copied[r + 1, t] += prefix_count[r, t - 1] * on_agreeing
    total = 0.0
    for t in range(n + 1):
        factor = reciprocal[t, j] if counted else 1.0
        weight[2 * t] = factor * prefix_count[n, t] * (c.c1 if counted else 1.0)
        weight[2 * t + 1] = factor * prefix_copied[n, t] * (c.lam if counted else 0.0)
        total += weight[2 * t] + weight[2 * t + 1]
    drawn = choose(weight, 2 * (n + 1), total, rng)
    t = drawn // 2
    copying = drawn % 2 == 1
    for r in range(n - 1, -1, -1):
        b = parent[r]
        switch_off(bits, r, j)
        if x_parents[b, j] == PARENT_MISSING:
            if uniform(rng) < importance[ON, b, j]:
                switch_on(bits, r, j)
            continue
        if t == 0:
            continue
        on = importance[ON, b, j]
        if not copying:
            if uniform(rng) * prefix_count[r + 1, t] < on * prefix_count[r, t - 1]:
                switch_on(bits, r, j)
                t -= 1
            continue
        u = uniform(rng) * prefix_copied[r + 1, t]
        here = prefix_count[r, t - 1] * on if agrees(x, x_parents, feature, i, b, j) else 0.0
        if u < here + prefix_copied[r, t - 1] * on:
            switch_on(bits, r, j)
            t -= 1
            copying = u >= here


@compiled
def fill_settings(
    c, x, y, x_parents, y_parents, feature, mu, parent, bits, kappa,
    base, settings, products, likelihood, i, j, n, start, m,
):  # fmt: skip
    """likelihood[setting] of the case for all 2^m settings of the summed entries' feature j, up to a constant.

    A feature changes with the setting if it is j itself or, in Model II, if any summed entry votes on it; in Model II
    the label changes too. `settings` (2, 2^m): T and A of one feature, or F and E of the label, in every setting.
    """
    n_settings = 1 << m
    products[:, :n_settings] = 1.0
    likelihood[:n_settings] = 0.0
    n_factors = 0
    for s in range(n):  # how strongly an entry votes in setting 0, where feature j of the summed entries is off
        off_now = c.kind == 2 and is_on(bits, s, j) and (s - start) % n < m
        base[s] = vote_weight(c, bits, kappa, s) - (1.0 if off_now else 0.0)
    first = 0 if c.kind == 2 else j
    last = c.n_features if c.kind == 2 else j + 1
    for f in range(first, last):
        if x[i, f] == CASE_MISSING:
            continue
        settings[1, 0] = c.c1
        settings[0, 0] = feature[C2, f]
        for s in range(n):
            b = parent[s]
            on = is_on(bits, s, f) and not (f == j and (s - start) % n < m)
            vote = c.lam * base[s] if on and x_parents[b, f] != PARENT_MISSING else 0.0
            settings[0, 0] += vote
            settings[1, 0] += vote if agrees(x, x_parents, feature, i, b, f) else 0.0
        for r in range(m):  # settings 2^r .. 2^(r+1)-1: those before, with feature j of the r-th summed entry on
            s = (start + r) % n
            b = parent[s]
            vote = c.lam if is_on(bits, s, f) else 0.0
            if f == j:
                vote = c.lam * (base[s] + 1.0 if c.kind == 2 else base[s])
            vote = 0.0 if x_parents[b, f] == PARENT_MISSING else vote
            extend_settings(settings, 1 << r, vote, vote if agrees(x, x_parents, feature, i, b, f) else 0.0)
        multiply_settings(settings, products, n_settings)
        n_factors += 1
        if n_factors % c.chunk == 0:  # before the products could leave the range of a double
            take_logarithms(products, likelihood, n_settings)
    if c.kind == 2 and y[i] >= 0:
        settings[1, 0] = c.label_c1
        settings[0, 0] = c.label_c2
        for s in range(n):
            vote = mu[y_parents[parent[s]]] * base[s]
            settings[0, 0] += vote
            settings[1, 0] += vote if y_parents[parent[s]] == y[i] else 0.0
        for r in range(m):
            b = parent[(start + r) % n]
            vote = mu[y_parents[b]]
            extend_settings(settings, 1 << r, vote, vote if y_parents[b] == y[i] else 0.0)
        multiply_settings(settings, products, n_settings)
    if n_factors < c.chunk:
        for setting in range(n_settings):
            likelihood[setting] = products[1, setting] / products[0, setting]
        return
    take_logarithms(products, likelihood, n_settings)
    highest = likelihood[:n_settings].max()
    for setting in range(n_settings):
        likelihood[setting] = math.exp(likelihood[setting] - highest)


@inlined
def extend_settings(settings, half, vote, agreeing):
    for setting in range(half):
        settings[0, half + setting] = settings[0, setting] + vote
        settings[1, half + setting] = settings[1, setting] + agreeing


@inlined
def multiply_settings(settings, products, n_settings):
    """Another factor A/T, relative to setting 0."""
    below = 1.0 / settings[0, 0]
    above = 1.0 / settings[1, 0]
    for setting in range(n_settings):
        products[0, setting] *= settings[0, setting] * below
        products[1, setting] *= settings[1, setting] * above


@inlined
def take_logarithms(products, likelihood, n_settings):
    for setting in range(n_settings):
        likelihood[setting] += math.log(products[1, setting] / products[0, setting])
        products[:, setting] = 1.0


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
    c, x, y, x_parents, y_parents, feature, mu, old, new, parent, bits, kappa,
    base, settings, products, likelihood, weight, rng, i, j, n, key,
):  # fmt: skip
    """Models II and III: log p(x_i, y_i, fixed w_i:j | rest, new q~) - log p(... | rest, old q~)."""
    open_stream(rng, key)
    m = min(n, c.max_summed)
    start = int(uniform(rng) * n)
    fill_settings(
        c, x, y, x_parents, y_parents, feature, mu, parent, bits, kappa,
        base, settings, products, likelihood, i, j, n, start, m,
    )  # fmt: skip
    before = weigh_settings(parent, old, likelihood, weight, j, n, start, m)
    log = math.log(weigh_settings(parent, new, likelihood, weight, j, n, start, m) / before)
    for s in range(n):
        if (s - start) % n >= m:
            row = ON if is_on(bits, s, j) else OFF
            log += math.log(new[row, parent[s], j] / old[row, parent[s], j])
    return log


@compiled
def redraw_by_settings(
    c, x, y, x_parents, y_parents, feature, mu, importance, parent, bits, kappa,
    base, settings, products, likelihood, weight, rng, i, j, n, key,
):  # fmt: skip
    """Models II and III: w_i:j of the summed entries afresh; with the same key, the same ones as in the log ratio."""
    open_stream(rng, key)
    m = min(n, c.max_summed)
    start = int(uniform(rng) * n)
    fill_settings(
        c, x, y, x_parents, y_parents, feature, mu, parent, bits, kappa,
        base, settings, products, likelihood, i, j, n, start, m,
    )  # fmt: skip
    total = weigh_settings(parent, importance, likelihood, weight, j, n, start, m)
    setting = choose(weight, 1 << m, total, rng)
    for r in range(m):
        s = (start + r) % n
        switch_off(bits, s, j)
        if (setting >> r) & 1:
            switch_on(bits, s, j)
