"""The kernels over a run of cases: what one thread does.

Tuples of arrays (``layout``) are taken apart once a call.
"""

from __future__ import annotations

import math

import numpy as np

from bayespatch.engine.kernels import update_case
from bayespatch.engine.streams import compiled, key_of, open_stream
from bayespatch.engine.summing import (
    log_ratio_by_settings,
    log_ratios_by_counts,
    redraw_by_counts,
    redraw_by_settings,
)
from bayespatch.engine.votes import AGREE, C2, CASE_MISSING, MU, MU0, ONE, TOTAL, count_votes, is_on, vote_weight


@compiled
def update_cases(c, tables, importance, neighbors, work, numbers, key, todo, first, last):
    """`update_case` for cases first..last-1 that are `todo`; those whose result finds no room stay so."""
    x, y, own_parent, x_parents, y_parents, feature, mu = tables
    n_entries, parent, bits, kappa = neighbors
    rng, slot, w_parent, w_bits, w_kappa, votes, class_votes, by_weight, label_factor, poly, prefix, cand, weight = work
    for i in range(first, last):
        if not todo[i]:
            continue
        n = n_entries[i]
        for s in range(n):
            w_parent[s] = parent[i, s]
            w_bits[s] = bits[i, s]
            slot[parent[i, s]] = s
            if c.kind == 3:
                w_kappa[s] = kappa[i, s]
        n = update_case(
            c, x, y, own_parent, x_parents, y_parents, feature, mu, importance,
            rng, slot, w_parent, w_bits, w_kappa, votes, class_votes, by_weight, label_factor, poly, prefix, cand,
            weight, i, n, key_of(key, numbers[i]),
        )  # fmt: skip
        fits = n <= parent.shape[1]
        if fits:
            n_entries[i] = n
            todo[i] = False
        for s in range(n):
            slot[w_parent[s]] = -1
            if fits:
                parent[i, s] = w_parent[s]
                bits[i, s] = w_bits[s]
                if c.kind == 3:
                    kappa[i, s] = w_kappa[s]


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


@compiled
def summarise_cases(c, tables, neighbors, work, votes, log_likelihood, first, last):
    """Vote shares and log likelihood of cases first..last-1."""
    x, y, _, x_parents, y_parents, feature, mu = tables
    _, _, _, _, _, counts, class_votes, by_weight, label_factor, _, _, _, _ = work
    for i in range(first, last):
        count_votes(
            c, x, y, x_parents, y_parents, feature, mu, neighbors.parent[i], neighbors.bits[i], neighbors.kappa[i],
            counts, class_votes, by_weight, label_factor, i, neighbors.n[i],
        )  # fmt: skip
        log = 0.0
        for j in range(c.n_features):
            if x[i, j] != CASE_MISSING:
                log += math.log((c.c1 + c.lam * counts[AGREE, j]) / (feature[C2, j] + c.lam * counts[TOTAL, j]))
        cast = 0.0
        for m in range(mu.shape[1]):
            cast += mu[MU, m] * class_votes[m]
        for m in range(mu.shape[1]):
            votes[i, m] = (mu[MU0, m] + mu[MU, m] * class_votes[m]) / (c.label_c2 - c.one + cast)
        if y[i] >= 0:
            own = c.one + mu[MU0, y[i]] + mu[MU, y[i]] * class_votes[y[i]]
            log += math.log(own / (c.label_c2 + cast))
        log_likelihood[i] = log


@compiled
def add_explained(c, tables, neighbors, work, explained_sum):
    """Add the probability of each value given the neighbors, g(x) / sum g; 1 where missing."""
    x, y, _, x_parents, y_parents, feature, mu = tables
    _, _, _, _, _, counts, class_votes, by_weight, label_factor, _, _, _, _ = work
    for i in range(x.shape[0]):
        count_votes(
            c, x, y, x_parents, y_parents, feature, mu, neighbors.parent[i], neighbors.bits[i], neighbors.kappa[i],
            counts, class_votes, by_weight, label_factor, i, neighbors.n[i],
        )  # fmt: skip
        for j in range(c.n_features):
            known = x[i, j] != CASE_MISSING
            p = (c.c1 + c.lam * counts[AGREE, j]) / (feature[C2, j] + c.lam * counts[TOTAL, j])
            explained_sum[i, j] += p if known else 1.0


@compiled
def count_neighbors(neighbors, n_parents, n_features):
    """n_b: how many cases parent b is a neighbor of; s_bj: for how many of them its feature j is on."""
    n_entries, parent, bits, _ = neighbors
    n = np.zeros(n_parents, np.int64)
    n_on = np.zeros((n_parents, n_features), np.int64)
    for i in range(n_entries.shape[0]):
        for s in range(n_entries[i]):
            b = parent[i, s]
            n[b] += 1
            for j in range(n_features):
                n_on[b, j] += np.int64((bits[i, s, j >> 6] >> np.uint64(j & 63)) & ONE)
    return n, n_on


@compiled
def count_cases(neighbors, n_parents):
    """n_b alone."""
    n = np.zeros(n_parents, np.int64)
    for i in range(neighbors.n.shape[0]):
        for s in range(neighbors.n[i]):
            n[neighbors.parent[i, s]] += 1
    return n


@compiled
def add_z(neighbors, z_sum):
    for i in range(neighbors.n.shape[0]):
        for s in range(neighbors.n[i]):
            z_sum[i, neighbors.parent[i, s]] += 1.0


@compiled
def add_w(neighbors, w_sum):
    for i in range(neighbors.n.shape[0]):
        for s in range(neighbors.n[i]):
            for j in range(w_sum.shape[2]):
                if is_on(neighbors.bits[i], s, j):
                    w_sum[i, neighbors.parent[i, s], j] += 1.0


@compiled
def add_kappa(c, y_parents, mu, neighbors, kappa_sum, share_sum):
    """kappa, and the share of each neighbor in all that is voted for the classes; the rest of it is the base rates'."""
    for i in range(neighbors.n.shape[0]):
        cast = c.label_c2 - c.one
        for s in range(neighbors.n[i]):
            k = vote_weight(c, neighbors.bits[i], neighbors.kappa[i], s)
            cast += mu[MU, y_parents[neighbors.parent[i, s]]] * k
        for s in range(neighbors.n[i]):
            b = neighbors.parent[i, s]
            k = vote_weight(c, neighbors.bits[i], neighbors.kappa[i], s)
            kappa_sum[i, b] += k
            share_sum[i, b] += mu[MU, y_parents[b]] * k / cast
