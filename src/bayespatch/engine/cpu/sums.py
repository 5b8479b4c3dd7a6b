"""One feature of one case with its w summed out: p(x_ij | z_i, q~), and w_i:j drawn afresh.

In Model I all neighbors vote with weight 1, in Models II and III with weights k_b of their own; the sum over w_i:j is
one over the nodes or the rates of ``quadrature.py``. In Model II, k_b is one more than the number of the *other* w_ib
that are on; but a w_ibj also changes how strongly b votes on the other features and on the label. There the sum has the
likelihood of these with its logarithm made linear in w_i:j, which is a factor for each w that is on (`find_tilt`). From
that w_i:j is drawn, together with the proposal, and what is not linear counts in the acceptance (`log_others`).

`parent` (C,), `bits` (C, words) and `kappa` (C,) are the entries of one case, of which n are used.
"""

from __future__ import annotations

import math

from bayespatch.engine.compiling import compiled, inlined, vectorised_inline
from bayespatch.engine.quadrature import with_entry, with_weighted_entry
from bayespatch.engine.streams import key_of, open_stream, uniform
from bayespatch.engine.votes import (
    AGREE,
    C2,
    CASE_MISSING,
    LOGS,
    OFF,
    ON,
    PARENT_MISSING,
    TOTAL,
    VOTE_ON,
    WINDOW,
    agrees,
    cast_votes,
    feature_change,
    is_on,
    label_change,
    label_slope,
    n_on,
    pick,
    switch_off,
    switch_on,
)


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
    """Model I: add W (c1 G + lam C) of one node to the sums of all columns, which lie side by side."""
    for j in range(base.shape[0]):
        base[j] = 1.0
        copied[j] = 0.0
    for s in range(n):
        on_s, agreeing_s = on[s], agreeing[s]
        for j in range(base.shape[0]):
            base[j], copied[j] = with_entry(base[j], copied[j], place[j] - 1.0, on_s[j], agreeing_s[j])
    for j in range(base.shape[0]):
        total[j] += weight[j] * (c.c1 * base[j] + c.lam * place[j] * copied[j])


@compiled
def log_ratios_by_nodes(
    c, x, x_parents, feature, old, new, parent, place, weight, on, agreeing, products, log_ratio, first, last, i, n
):
    """Model I: log_ratio[j] = log p(x_ij | z_i, new q~) - log p(x_ij | z_i, old q~), for all features at once.

    Features lie side by side, the old q~ in columns 0..F-1 and the new in F..2F-1, for vector instructions: a thread of
    a GPU keeps its feature and needs no memory (``cuda/sums.py``).
    """
    width = x.shape[1]
    load_rows(x, x_parents, feature, old, parent, on, agreeing, 0, i, n)
    load_rows(x, x_parents, feature, new, parent, on, agreeing, width, i, n)
    products[2] = 0.0
    for node in range(first, last):
        add_node(c, on, agreeing, place[node], weight[node], products[0], products[1], products[2], n)
    for j in range(log_ratio.shape[0]):
        log_ratio[j] = 0.0 if x[i, j] == CASE_MISSING else math.log(products[2, width + j] / products[2, j])


@inlined
def load_weights(c, bits, kappa, decay, rate, k, row, first, last, j, n):
    """How strongly each entry votes on feature j if it does, k, and its row of `decay`.

    In Model I row j is that of the feature, in Model II row k that of the weight, filled once and for all; in Model III
    row s is filled here, for entry s and rates first..last-1.
    """
    for s in range(n):
        k[s] = 1.0
        row[s] = j
        if c.kind == 2:
            k[s] = float(n_on(bits, s) - is_on(bits, s, j) + 1)
            row[s] = int(k[s])
        if c.kind < 3:
            continue
        k[s] = kappa[s]
        row[s] = s
        for r in range(first, last):
            decay[s, r] = math.exp(-c.lam * kappa[s] * rate[r])


@vectorised_inline
def add_entry(on, off, vote, decay, base, copied):
    """G and C with one more entry, all nodes or rates side by side (``quadrature.py``)."""
    for r in range(base.shape[0]):
        base[r], copied[r] = with_weighted_entry(base[r], copied[r], decay[r], on, off, vote)


@compiled
def sum_over_nodes(
    c, x, x_parents, feature, importance, parent, k, row, tilt, decay, weight, base, copied, first, last, i, j, n
):
    """p(x_ij | z_i, q~), over nodes or rates first..last-1, and 1 where x_ij is missing; leaves the weights W c1 G and
    W lam C of the nodes behind.
    """
    if x[i, j] == CASE_MISSING:
        return 1.0
    base, copied, weight = base[first:last], copied[first:last], weight[j, first:last]
    for r in range(len(base)):
        base[r] = 1.0
        copied[r] = 0.0
    for s in range(n):
        b = parent[s]
        if x_parents[b, j] == PARENT_MISSING:
            continue
        vote = c.lam * k[s] if agrees(x, x_parents, feature, i, b, j) else 0.0
        on = importance[ON, b, j] * tilt[s]
        add_entry(on, importance[OFF, b, j], vote, decay[row[s], first:last], base, copied)
    total = 0.0
    for r in range(len(base)):
        base[r] *= weight[r] * c.c1
        copied[r] *= weight[r]
        total += base[r] + copied[r]
    return total


@compiled
def draw_w(
    c, x, x_parents, feature, importance, parent, k, row, tilt, decay, base, copied, chosen, fresh, rng, first, last,
    total, i, j, n,
):  # fmt: skip
    """w_i:j given z, the weights k and q~, into `fresh`, after `sum_over_nodes` has found `total`.

    Choose the node, whether x_ij comes from the base rate or was copied from an agreeing neighbor, and from which; the
    w are independent given these, and the copied one is on.
    """
    r, source = -1, -1
    if x[i, j] != CASE_MISSING:
        for number in range(first, last):
            chosen[2 * (number - first)] = base[number]
            chosen[2 * (number - first) + 1] = copied[number]
        drawn = pick(chosen, 2 * (last - first), uniform(rng) * total)
        r = first + drawn // 2
        if drawn % 2 == 1:
            total = 0.0
            for s in range(n):
                b = parent[s]
                on = importance[ON, b, j] * tilt[s] * decay[row[s], r]
                chosen[s] = 0.0
                if agrees(x, x_parents, feature, i, b, j):
                    chosen[s] = k[s] * on / (importance[OFF, b, j] + on)
                total += chosen[s]
            source = pick(chosen, n, uniform(rng) * total)
    for s in range(n):
        b = parent[s]
        silent = r < 0 or x_parents[b, j] == PARENT_MISSING
        on = importance[ON, b, j] * tilt[s] * (1.0 if silent else decay[row[s], r])
        fresh[s] = uniform(rng) * (importance[OFF, b, j] + on) < on or s == source


@compiled
def find_tilt(c, x, y, x_parents, y_parents, feature, mu, parent, bits, votes, class_votes, tilt, i, j, n):
    """Model II: tilt[s], the factor by which one more vote of entry s on everything but x_ij changes its likelihood, to
    first order, where w_i:j is half on: that is, whatever w_i:j is.
    """
    votes[:] = 0.0
    class_votes[:] = 0.0
    for s in range(n):
        b, k = parent[s], n_on(bits, s) - int(is_on(bits, s, j)) + 0.5
        cast_votes(c, x, x_parents, feature, votes[0], bits, i, b, s, k)
        class_votes[0, y_parents[b]] += k
    for f in range(c.n_features):
        if f != j and x[i, f] != CASE_MISSING:
            votes[1, AGREE, f] = c.lam / (c.c1 + c.lam * votes[0, AGREE, f])
            votes[1, TOTAL, f] = c.lam / (feature[C2, f] + c.lam * votes[0, TOTAL, f])
    for s in range(n):
        b = parent[s]
        log = label_slope(c, mu, class_votes, y[i], y_parents[b])
        for f in range(c.n_features):
            if is_on(bits, s, f) and x_parents[b, f] != PARENT_MISSING:
                log -= votes[1, TOTAL, f]
                if agrees(x, x_parents, feature, i, b, f):
                    log += votes[1, AGREE, f]
        tilt[s] = math.exp(log)


@compiled
def log_of_silent(x, x_parents, importance, parent, tilt, i, j, n):
    """Model II: the log of the sum over the w_i:j of entries that do not vote on x_ij."""
    product = 1.0
    for s in range(n):
        b = parent[s]
        if x[i, j] == CASE_MISSING or x_parents[b, j] == PARENT_MISSING:
            product *= importance[OFF, b, j] + importance[ON, b, j] * tilt[s]
    return math.log(product)


@compiled
def log_others(c, x, y, x_parents, y_parents, feature, mu, parent, bits, tilt, fresh, votes, class_votes, i, j, n):
    """Model II: log p(x_i, y_i | fresh w_i:j) - log p(x_i, y_i | w_i:j), without x_ij and what `tilt` has of it.

    An entry whose w_i:j changes votes on everything else with one more or one less.
    """
    votes[:] = 0.0
    class_votes[:] = 0.0
    changed, linear = False, 0.0
    for s in range(n):
        b, before = parent[s], n_on(bits, s)
        after = before + int(fresh[s]) - int(is_on(bits, s, j))
        changed |= after != before
        linear += (after - before) * math.log(tilt[s])
        cast_votes(c, x, x_parents, feature, votes[0], bits, i, b, s, float(before))
        cast_votes(c, x, x_parents, feature, votes[1], bits, i, b, s, float(after))
        class_votes[0, y_parents[b]] += before
        class_votes[1, y_parents[b]] += after
    if not changed:
        return 0.0
    log, ratio = 0.0, 1.0
    for f in range(c.n_features):
        if f != j and x[i, f] != CASE_MISSING:
            ratio *= feature_change(c, feature[C2, f], votes, f)
        if f % LOGS == LOGS - 1:
            log += math.log(ratio)
            ratio = 1.0
    return log + math.log(ratio * label_change(c, mu, class_votes, y[i])) - linear


@compiled
def compare_importance(c, tables, old, new, neighbors, sums, numbers, key, log_ratio, feature_0, first, last):
    """log_ratio[i, r]: how much better the new importance of feature feature_0 + r explains case i, w summed out; in
    Model II with w drawn, and with what that changes.

    `numbers` (N,): what the cases are numbered in the whole data, to which their streams belong.
    """
    x, y, _, x_parents, y_parents, feature, mu = tables
    n_entries, parent, bits, kappa = neighbors
    rng, span, rate, weight, decay, k, row, tilt, fresh, chosen = sums[:10]
    place, node_weight, on, agreeing, nodes, votes, class_votes = sums[10:]
    base, copied = chosen[0], chosen[1]
    for i in range(first, last):
        n = n_entries[i]
        if n == 0:
            log_ratio[i] = 0.0
            continue
        a, b = span[0, n], span[1, n]
        if c.kind == 1:
            log_ratios_by_nodes(
                c, x, x_parents, feature, old, new, parent[i], place, node_weight, on, agreeing, nodes, log_ratio[i],
                a, b, i, n,
            )  # fmt: skip
            continue
        for r in range(log_ratio.shape[1]):
            j = feature_0 + r
            if c.kind == 2 or r == 0:
                load_weights(c, bits[i], kappa[i], decay, rate, k, row, a, b, j, n)
            if c.kind == 2:
                find_tilt(
                    c, x, y, x_parents, y_parents, feature, mu, parent[i], bits[i], votes, class_votes, tilt, i, j, n
                )
            before = sum_over_nodes(
                c, x, x_parents, feature, old, parent[i], k, row, tilt, decay, weight, base, copied, a, b, i, j, n
            )
            after = sum_over_nodes(
                c, x, x_parents, feature, new, parent[i], k, row, tilt, decay, weight, base, copied, a, b, i, j, n
            )
            log_ratio[i, r] = math.log(after / before)
            if c.kind == 2:
                log_ratio[i, r] += log_of_silent(x, x_parents, new, parent[i], tilt, i, j, n)
                log_ratio[i, r] -= log_of_silent(x, x_parents, old, parent[i], tilt, i, j, n)
                open_stream(rng, key_of(key_of(key, j), numbers[i]))
                draw_w(
                    c, x, x_parents, feature, new, parent[i], k, row, tilt, decay, base, copied, chosen[2], fresh, rng,
                    a, b, after, i, j, n,
                )  # fmt: skip
                log_ratio[i, r] += log_others(
                    c, x, y, x_parents, y_parents, feature, mu, parent[i], bits[i], tilt, fresh, votes, class_votes,
                    i, j, n,
                )  # fmt: skip


@compiled
def redraw_features(c, tables, importance, neighbors, sums, numbers, key, features, first, last):
    """w_i:j of the given features afresh, for cases first..last-1; in Model II those of `compare_importance`."""
    x, y, _, x_parents, y_parents, feature, mu = tables
    n_entries, parent, bits, kappa = neighbors
    rng, span, rate, weight, decay, k, row, tilt, fresh, chosen = sums[:10]
    votes, class_votes = sums[15:]
    base, copied = chosen[0], chosen[1]
    for i in range(first, last):
        n = n_entries[i]
        if n == 0:
            continue
        a, b = span[0, n], span[1, n]
        for number, j in enumerate(features):
            if c.kind < 3 or number == 0:
                load_weights(c, bits[i], kappa[i], decay, rate, k, row, a, b, j, n)
            if c.kind == 2:
                find_tilt(
                    c, x, y, x_parents, y_parents, feature, mu, parent[i], bits[i], votes, class_votes, tilt, i, j, n
                )
            total = sum_over_nodes(
                c, x, x_parents, feature, importance, parent[i], k, row, tilt, decay, weight, base, copied,
                a, b, i, j, n,
            )  # fmt: skip
            open_stream(rng, key_of(key_of(key, j), numbers[i]))
            draw_w(
                c, x, x_parents, feature, importance, parent[i], k, row, tilt, decay, base, copied, chosen[2], fresh,
                rng, a, b, total, i, j, n,
            )  # fmt: skip
            for s in range(n):
                switch_off(bits[i], s, j)
                if fresh[s]:
                    switch_on(bits[i], s, j)
