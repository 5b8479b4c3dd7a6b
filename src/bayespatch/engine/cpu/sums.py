"""One feature of one case with its w summed out: p(x_ij | z_i, q~), and w_i:j drawn afresh.

In Model I all neighbors vote with weight 1, and the sum over w_i:j is one over the nodes of ``quadrature.py``. In
Models II and III they differ in weight, and the sum runs over the 2^n settings of at most `max_summed` neighbors, from
a random place on where there are more; the others stay as they are and count through their prior. (On a GPU
`max_summed` is smaller, so that the settings of a case fit into the registers of one thread.) In Model II a w changes
kappa, hence every feature and the label of the case.

`parent` (C,), `bits` (C, words) and `kappa` (C,) are the entries of one case, of which n are used.
"""

from __future__ import annotations

import math

import numpy as np

from bayespatch.engine.compiling import compiled, inlined, vectorised_inline
from bayespatch.engine.quadrature import HANDFUL, with_entry
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


@inlined
def load_rows(x, x_parents, feature, importance, parent, on, agreeing, first, i, n):
    """Model I: q~ of all features of the entries as votes, and the same where they agree, into columns first, ..."""
    for s in range(n):
        b = parent[s]
        for j in range(x.shape[1]):
            vote = importance[VOTE_ON, b, j]
            on[s, first + j] = vote
            agreeing[s, first + j] = vote if abs(x_parents[b, j] - x[i, j]) <= feature[WINDOW, j] else 0.0


@vectorised_inline
def add_node(c, on, agreeing, place, weight, base, copied, total, n):
    """Model I: add W (c1 G + lam C) of one node to the sums of all columns, which lie side by side (`with_entry`)."""
    for j in range(base.shape[0]):
        base[j] = 1.0
        copied[j] = 0.0
    for s in range(n):
        on_s, agreeing_s = on[s], agreeing[s]
        for j in range(base.shape[0]):
            f = 1.0 + on_s[j] * (place[j] - 1.0)
            copied[j] = copied[j] * f + base[j] * agreeing_s[j]
            base[j] *= f
    for j in range(base.shape[0]):
        total[j] += weight[j] * (c.c1 * base[j] + c.lam * place[j] * copied[j])


@compiled
def log_ratios_by_nodes(
    c, x, x_parents, feature, old, new, parent, place, weight, begin, on, agreeing, products, log_ratio, i, n
):
    """Model I: log_ratio[j] = log p(x_ij | z_i, new q~) - log p(x_ij | z_i, old q~), for all features at once.

    Features lie side by side, the old q~ in columns 0..F-1 and the new in F..2F-1, for vector instructions: a thread of
    a GPU keeps its feature and needs no memory (``cuda/sums.py``).
    """
    width = x.shape[1]
    load_rows(x, x_parents, feature, old, parent, on, agreeing, 0, i, n)
    load_rows(x, x_parents, feature, new, parent, on, agreeing, width, i, n)
    products[2] = 0.0
    for node in range(begin[n], begin[n] + n_nodes(begin, n)):
        add_node(c, on, agreeing, place[node], weight[node], products[0], products[1], products[2], n)
    for j in range(log_ratio.shape[0]):
        log_ratio[j] = 0.0 if x[i, j] == CASE_MISSING else math.log(products[2, width + j] / products[2, j])


@compiled
def redraw_by_nodes(
    c, x, x_parents, feature, importance, parent, bits, by_feature, begin, base, copied, chosen, rng, i, j, n
):
    """Model I: w_i:j given z and q~. Choose the node, whether x_ij comes from the base rate or was copied from an
    agreeing neighbor, and from which; the w are independent given these, and the copied one is on.
    """
    s_node, source = 1.0, -1
    if x[i, j] != CASE_MISSING:
        first, size = begin[n], n_nodes(begin, n)
        place, weight = by_feature[0, j, first : first + size], by_feature[1, j, first : first + size]
        weigh_nodes(x, x_parents, feature, importance, parent, place, base, copied, i, j, n)
        total = 0.0
        for r in range(size):
            chosen[2 * r] = weight[r] * c.c1 * base[r]
            chosen[2 * r + 1] = weight[r] * c.lam * place[r] * copied[r]
            total += chosen[2 * r] + chosen[2 * r + 1]
        drawn = pick(chosen, 2 * size, uniform(rng) * total)
        s_node = place[drawn // 2]
        if drawn % 2 == 1:
            total = 0.0
            for s in range(n):
                a = importance[VOTE_ON, parent[s], j] if agrees(x, x_parents, feature, i, parent[s], j) else 0.0
                chosen[s] = a / (1.0 + a * (s_node - 1.0))
                total += chosen[s]
            source = pick(chosen, n, uniform(rng) * total)
    for s in range(n):
        b = parent[s]
        a = importance[ON, b, j] * (1.0 if x_parents[b, j] == PARENT_MISSING else s_node)
        switch_off(bits, s, j)
        if uniform(rng) * (importance[OFF, b, j] + a) < a or s == source:
            switch_on(bits, s, j)


@inlined
def weigh_nodes(x, x_parents, feature, importance, parent, place, base, copied, i, j, n):
    """G and C/s of all nodes of one feature, side by side (`with_entry`)."""
    for r in range(place.shape[0]):
        base[r] = 1.0
        copied[r] = 0.0
    for s in range(n):
        on = importance[VOTE_ON, parent[s], j]
        agreeing = on if agrees(x, x_parents, feature, i, parent[s], j) else 0.0
        for r in range(place.shape[0]):
            base[r], copied[r] = with_entry(base[r], copied[r], place[r] - 1.0, on, agreeing)


@inlined
def n_nodes(begin, n):
    """Of the rule for n neighbors: rule k begins at HANDFUL k (k + 1) / 2, and has HANDFUL (k + 1) nodes."""
    k = 0
    while HANDFUL * (k * (k + 1) // 2) < begin[n]:
        k += 1
    return HANDFUL * (k + 1)


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
    rng, place, weight, _, begin, on, agreeing, nodes, _, steps, columns, rows, products, likelihood = sums
    for i in range(first, last):
        n = n_entries[i]
        if n == 0:
            log_ratio[i] = 0.0
            continue
        if c.kind == 1:
            log_ratios_by_nodes(
                c, x, x_parents, feature, old, new, parent[i], place, weight, begin, on, agreeing, nodes,
                log_ratio[i], i, n,
            )  # fmt: skip
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
    rng, _, _, by_feature, begin, _, _, _, chosen, steps, columns, rows, products, likelihood = sums
    for i in range(first, last):
        n = n_entries[i]
        if n == 0:
            continue
        for j in features:
            case_key = key_of(key_of(key, j), i)
            if c.kind == 1:
                open_stream(rng, case_key)
                redraw_by_nodes(
                    c, x, x_parents, feature, importance, parent[i], bits[i], by_feature, begin, chosen[0], chosen[1],
                    chosen[2], rng, i, j, n,
                )  # fmt: skip
            else:
                redraw_by_settings(
                    c, x, y, x_parents, y_parents, feature, mu, importance, parent[i], bits[i], kappa[i],
                    steps, columns, rows, products, likelihood, rng, i, j, n, case_key,
                )  # fmt: skip
