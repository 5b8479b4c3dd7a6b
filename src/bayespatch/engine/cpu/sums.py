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

from bayespatch.engine.compiling import compiled, inlined, vectorised_inline
from bayespatch.engine.streams import key_of, open_stream, uniform
from bayespatch.engine.votes import (
    C2,
    CASE_MISSING,
    MU,
    MU0,
    OFF,
    ON,
    ONE,
    PARENT_MISSING,
    VOTE_OFF,
    VOTE_ON,
    WINDOW,
    agrees,
    is_on,
    pick,
    switch_off,
    switch_on,
    vote_weight,
)

COLUMN_BITS = 5  # the first of the summed entries: their settings stand side by side, for vector instructions


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
    drawn = pick(weight, 2 * (n + 1), uniform(rng) * total)
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
    steps, columns, rows, products, likelihood, i, j, n, start, m,
):  # fmt: skip
    """The likelihood of the case for all 2^m settings of the summed entries' feature j, up to a constant.

    The settings form a table: the first COLUMN_BITS entries name the column, the others the row.

    A feature changes with the setting if it is j itself or, in Model II, if any summed entry votes on it; in Model II
    the label changes too. Every factor A/T (E/F of the label) has both its parts linear in the setting: `steps` (2,
    max_summed+2, F+1), T and A apart, has in row 0 what they are in setting 0, where feature j of the summed entries is
    off, and in row 1+r what the r-th summed entry adds (row m+1: not used); column F is the label.
    """
    n_rows, n_columns = size_of_table(m)
    products[:, :n_rows, :n_columns] = 1.0
    likelihood[:n_rows, :n_columns] = 0.0
    first = 0 if c.kind == 2 else j
    last = c.n_features if c.kind == 2 else j + 1
    label = x.shape[1]
    steps[0, 0, :label] = feature[C2]
    steps[1, 0, :label] = c.c1
    steps[0, 0, label] = c.label_c2
    steps[1, 0, label] = c.one + (mu[MU0, y[i]] if y[i] >= 0 else 0.0)
    total = feature[C2, j]
    agree = c.c1
    for s in range(n):
        b = parent[s]
        r = (s - start) % n
        row = 1 + min(r, m)
        k = vote_weight(c, bits, kappa, s)
        if c.kind == 2:
            if r < m and is_on(bits, s, j):
                k -= 1.0
            cast_steps(c, x, x_parents, feature, steps, bits, i, b, s, row, k)
            vote = mu[MU, y_parents[b]]
            agreeing = vote if y_parents[b] == y[i] else 0.0
            steps[0, row, label] = vote
            steps[1, row, label] = agreeing
            steps[0, 0, label] += k * vote
            steps[1, 0, label] += k * agreeing
        on = k + 1.0 if c.kind == 2 and r < m else k
        vote = 0.0 if x_parents[b, j] == PARENT_MISSING else c.lam * on
        agreeing = vote if agrees(x, x_parents, feature, i, b, j) else 0.0
        if r < m:
            steps[0, row, j] = vote
            steps[1, row, j] = agreeing
        elif is_on(bits, s, j):
            total += vote
            agree += agreeing
    steps[0, 0, j] = total
    steps[1, 0, j] = agree
    n_factors = 0
    for f in range(first, last):
        if x[i, f] == CASE_MISSING:
            continue
        multiply_settings(steps, columns, rows, products, f, m)
        n_factors += 1
        if n_factors % c.chunk == 0:  # before the products could leave the range of a double
            take_logarithms(products, likelihood, n_rows, n_columns)
    if c.kind == 2 and y[i] >= 0:
        multiply_settings(steps, columns, rows, products, label, m)
    if n_factors < c.chunk:
        for row in range(n_rows):
            for column in range(n_columns):
                likelihood[row, column] = products[1, row, column] / products[0, row, column]
        return
    take_logarithms(products, likelihood, n_rows, n_columns)
    highest = likelihood[:n_rows, :n_columns].max()
    for row in range(n_rows):
        for column in range(n_columns):
            likelihood[row, column] = math.exp(likelihood[row, column] - highest)


@inlined
def cast_steps(c, x, x_parents, feature, steps, bits, i, b, s, row, k):
    """Model II: what entry s, parent b, adds to every feature's votes per unit of weight, and that times k in row 0."""
    for word in range(bits.shape[1]):
        w = bits[s, word]
        first = word << 6
        for r in range(min(64, c.n_features - first)):
            f = first + r
            vote = c.lam * float((w >> np.uint64(r)) & ONE)
            vote = vote if x_parents[b, f] != PARENT_MISSING else 0.0
            agreeing = vote if abs(x_parents[b, f] - x[i, f]) <= feature[WINDOW, f] else 0.0
            steps[0, row, f] = vote
            steps[1, row, f] = agreeing
            steps[0, 0, f] += k * vote
            steps[1, 0, f] += k * agreeing


@inlined
def size_of_table(m):
    """Rows and columns of the table of all 2^m settings."""
    return 1 << max(m - COLUMN_BITS, 0), 1 << min(m, COLUMN_BITS)


@inlined
def multiply_settings(steps, columns, rows, products, f, m):
    """Another factor, relative to setting 0: T and A in a setting are a number of its column plus one of its row."""
    n_rows, n_columns = size_of_table(m)
    for part in range(2):
        scale = 1.0 / steps[part, 0, f]
        columns[part, 0] = 1.0
        rows[part, 0] = 0.0
        for r in range(m):
            step = steps[part, 1 + r, f] * scale
            if r < COLUMN_BITS:
                for setting in range(1 << r):
                    columns[part, (1 << r) + setting] = columns[part, setting] + step
            else:
                half = 1 << (r - COLUMN_BITS)
                for setting in range(half):
                    rows[part, half + setting] = rows[part, setting] + step
        for row in range(n_rows):
            here = rows[part, row]
            for column in range(n_columns):
                products[part, row, column] *= columns[part, column] + here


@inlined
def take_logarithms(products, likelihood, n_rows, n_columns):
    for row in range(n_rows):
        for column in range(n_columns):
            likelihood[row, column] += math.log(products[1, row, column] / products[0, row, column])
            products[0, row, column] = 1.0
            products[1, row, column] = 1.0


@inlined
def weigh_entries(parent, importance, weight, j, n, start, first, last):
    """weight[setting] = prod q~^w (1-q~)^(1-w) over the summed entries first..last-1."""
    weight[0] = 1.0
    for r in range(first, last):
        b = parent[(start + r) % n]
        half = 1 << (r - first)
        for setting in range(half):
            weight[half + setting] = weight[setting] * importance[ON, b, j]
            weight[setting] *= importance[OFF, b, j]


@vectorised_inline
def weigh_settings(parent, importance, likelihood, columns, rows, j, n, start, m):
    """The sum over all settings of likelihood * prod q~^w (1-q~)^(1-w).

    Leaves the prior of each column in `columns[0]` and the sum over each row in `rows[0]`.
    """
    n_rows, n_columns = size_of_table(m)
    weigh_entries(parent, importance, columns[0], j, n, start, 0, min(m, COLUMN_BITS))
    weigh_entries(parent, importance, rows[0], j, n, start, min(m, COLUMN_BITS), m)
    total = 0.0
    for row in range(n_rows):
        inner = 0.0
        for column in range(n_columns):
            inner += columns[0, column] * likelihood[row, column]
        rows[0, row] *= inner
        total += rows[0, row]
    return total


@inlined
def choose_setting(likelihood, columns, rows, total, m, rng):
    """A setting with probability in proportion to its weight, after `weigh_settings`: its row, then its column."""
    n_rows, n_columns = size_of_table(m)
    row = pick(rows[0], n_rows, uniform(rng) * total)
    inner = 0.0
    for column in range(n_columns):
        columns[0, column] *= likelihood[row, column]
        inner += columns[0, column]
    return row * n_columns + pick(columns[0], n_columns, uniform(rng) * inner)


@compiled
def log_ratio_by_settings(
    c, x, y, x_parents, y_parents, feature, mu, old, new, parent, bits, kappa,
    steps, columns, rows, products, likelihood, rng, i, j, n, key,
):  # fmt: skip
    """Models II and III: log p(x_i, y_i, fixed w_i:j | rest, new q~) - log p(... | rest, old q~)."""
    open_stream(rng, key)
    m = min(n, c.max_summed)
    start = int(uniform(rng) * n)
    fill_settings(
        c, x, y, x_parents, y_parents, feature, mu, parent, bits, kappa,
        steps, columns, rows, products, likelihood, i, j, n, start, m,
    )  # fmt: skip
    before = weigh_settings(parent, old, likelihood, columns, rows, j, n, start, m)
    log = math.log(weigh_settings(parent, new, likelihood, columns, rows, j, n, start, m) / before)
    for s in range(n):
        if (s - start) % n >= m:
            row = ON if is_on(bits, s, j) else OFF
            log += math.log(new[row, parent[s], j] / old[row, parent[s], j])
    return log


@compiled
def redraw_by_settings(
    c, x, y, x_parents, y_parents, feature, mu, importance, parent, bits, kappa,
    steps, columns, rows, products, likelihood, rng, i, j, n, key,
):  # fmt: skip
    """Models II and III: w_i:j of the summed entries afresh; with the same key, the same ones as in the log ratio."""
    open_stream(rng, key)
    m = min(n, c.max_summed)
    start = int(uniform(rng) * n)
    fill_settings(
        c, x, y, x_parents, y_parents, feature, mu, parent, bits, kappa,
        steps, columns, rows, products, likelihood, i, j, n, start, m,
    )  # fmt: skip
    total = weigh_settings(parent, importance, likelihood, columns, rows, j, n, start, m)
    setting = choose_setting(likelihood, columns, rows, total, m, rng)
    for r in range(m):
        s = (start + r) % n
        switch_off(bits, s, j)
        if (setting >> r) & 1:
            switch_on(bits, s, j)


@compiled
def compare_importance(c, tables, old, new, neighbors, sums, key, log_ratio, feature_0, first, last):
    """log_ratio[i, r]: how much better the new importance of feature feature_0 + r explains case i, w summed out."""
    x, y, _, x_parents, y_parents, feature, mu = tables
    n_entries, parent, bits, kappa = neighbors
    rng, reciprocal, factors, polynomials, _, _, steps, columns, rows, products, likelihood, _ = sums
    for i in range(first, last):
        n = n_entries[i]
        if n == 0:
            log_ratio[i] = 0.0
            continue
        if c.kind == 1:
            log_ratios_by_counts(
                c, x, x_parents, feature, old, new, parent[i], reciprocal, factors, polynomials, log_ratio[i], i, n
            )
            continue
        for r in range(log_ratio.shape[1]):
            j = feature_0 + r
            log_ratio[i, r] = log_ratio_by_settings(
                c, x, y, x_parents, y_parents, feature, mu, old, new, parent[i], bits[i], kappa[i],
                steps, columns, rows, products, likelihood, rng, i, j, n, key_of(key_of(key, j), i),
            )  # fmt: skip


@compiled
def redraw_features(c, tables, importance, neighbors, sums, key, features, first, last):
    """w_i:j of the given features afresh, for cases first..last-1."""
    x, y, _, x_parents, y_parents, feature, mu = tables
    n_entries, parent, bits, kappa = neighbors
    rng, reciprocal, _, _, prefix_count, prefix_copied, steps, columns, rows, products, likelihood, weight = sums
    for i in range(first, last):
        n = n_entries[i]
        if n == 0:
            continue
        for j in features:
            case_key = key_of(key_of(key, j), i)
            if c.kind == 1:
                open_stream(rng, case_key)
                redraw_by_counts(
                    c, x, x_parents, feature, importance, parent[i], bits[i],
                    reciprocal, prefix_count, prefix_copied, weight, rng, i, j, n,
                )  # fmt: skip
            else:
                redraw_by_settings(
                    c, x, y, x_parents, y_parents, feature, mu, importance, parent[i], bits[i], kappa[i],
                    steps, columns, rows, products, likelihood, rng, i, j, n, case_key,
                )  # fmt: skip
