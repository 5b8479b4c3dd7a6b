"""Model I, one feature of one case with its w summed out, as a GPU wants it: no memory but registers.

The likelihood of x_ij is A/T, where T = c2 + lam t depends on the number t of w that are on. With beta = c2/lam,

    1/T = 1/lam * integral of s^(beta - 1 + t) over s from 0 to 1 = sum_r W_r s_r^t,

where s_r and W_r are the nodes and weights of Gauss-Jacobi quadrature, which is exact for t < 2K with K nodes. All W_r
are positive: 1/T is a finite mixture, and given a node the w are independent, each on with odds q~ s_r / (1 - q~). So

    p(x_ij | z_i, q~) = sum_r W_r (c1 G_r + lam C_r),   G_r = prod_b f_b,   C_r = sum_agreeing q~_b s_r prod_others f_b,

with f_b = 1 + q~_b (s_r - 1): either x_ij comes from the base rate, or it was copied from an agreeing neighbor, which
is on. And w given z is drawn by choosing the node, where x_ij comes from, and then every w by itself. That is exact.

For long lists fewer nodes than K = n/2 + 1 are enough for all digits of a double: some multiple of sqrt(n).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal

from bayespatch.engine.cuda_case import in_word
from bayespatch.engine.cuda_sums import open_item
from bayespatch.engine.streams import inlined, uniform
from bayespatch.engine.votes import OFF, ON, VOTE_ON

HANDFUL = 4  # nodes that a thread deals with at once; rule k has k + 1 handfuls


class Nodes(NamedTuple):
    """Rules of quadrature for every feature; rule k in rows k (k + 1) / 2 ... k (k + 3) / 2 of the tables."""

    place: Any  # (handfuls, HANDFUL, P) float64: s
    weight: Any  # (handfuls, HANDFUL, P) float64: W
    rule: Any  # (C+1,) int32: which rule serves a case with n neighbors


def gauss_jacobi(beta: float, n_nodes: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights for the integral of beta s^(beta-1) f(s) over 0..1 (Golub and Welsch, 1969)."""
    n = np.arange(1.0, n_nodes)
    center = 0.5 + 0.5 * (beta - 1.0) / (2.0 * n - 1.0 + beta) * ((beta - 1.0) / (2.0 * n + 1.0 + beta))
    beside = n * ((n - 1.0 + beta) / (2.0 * n - 1.0 + beta)) / np.sqrt((2.0 * n + beta) * (2.0 * n - 2.0 + beta))
    place, vectors = eigh_tridiagonal(np.append(beta / (beta + 1.0), center), beside)
    return np.clip(place, 0.0, 1.0), vectors[0] ** 2


def reach(beta: float, place: NDArray[np.float64], weight: NDArray[np.float64], capacity: int) -> int:
    """The largest t <= capacity up to which the mixture is beta / (beta + t), but for rounding."""
    t = np.arange(capacity + 1)
    error = np.abs((weight @ place[:, None] ** t) * (1.0 + t / beta) - 1.0)
    wrong = np.flatnonzero(error > 1e-13 + 1e-15 * t)
    exact = 2 * len(place) - 1
    return min(capacity, max(exact, int(wrong[0]) - 1)) if len(wrong) else capacity


def make_nodes(c2: NDArray[np.float64], lam: float, capacity: int) -> Nodes:
    """Rules for all features and up to `capacity` neighbors. A rule is the same whatever the capacity."""
    kinds, of_feature = np.unique(c2, return_inverse=True)
    place: list[NDArray[np.float64]] = []
    weight: list[NDArray[np.float64]] = []
    rule = np.zeros(capacity + 1, np.int32)
    done = -1
    while done < capacity:
        n_handfuls = rule[-1] + 1
        found = [gauss_jacobi(value / lam, HANDFUL * n_handfuls) for value in kinds]
        place.append(np.stack([s for s, _ in found], axis=1).reshape(n_handfuls, HANDFUL, -1))
        weight.append(np.stack([w for _, w in found], axis=1).reshape(n_handfuls, HANDFUL, -1) / kinds)
        done = max(done, min(reach(value / lam, *pair, capacity) for value, pair in zip(kinds, found, strict=True)))
        rule[done + 1 :] += 1
    return Nodes(np.concatenate(place)[:, :, of_feature], np.concatenate(weight)[:, :, of_feature], rule)


@inlined
def with_entry(base, copied, below, on, agreeing):
    """G and C/s of a node with one more neighbor; `below` is s - 1."""
    factor = 1.0 + on * below
    return base * factor, copied * factor + base * agreeing


@inlined
def weigh_handful(c, nodes, importance, entries, handful, i, j, n):
    """The weights W c1 G and W lam C of every node of a handful, side by side in registers."""
    place, weight = nodes.place[handful], nodes.weight[handful]
    s0, s1, s2, s3 = place[0, j], place[1, j], place[2, j], place[3, j]
    g0, g1, g2, g3 = 1.0, 1.0, 1.0, 1.0
    c0, c1, c2, c3 = 0.0, 0.0, 0.0, 0.0
    for r in range(n):
        on = importance[VOTE_ON, entries.parent[i, r], j]
        agreeing = on if in_word(entries.same[i, r, j >> 5], j) else 0.0
        g0, c0 = with_entry(g0, c0, s0 - 1.0, on, agreeing)
        g1, c1 = with_entry(g1, c1, s1 - 1.0, on, agreeing)
        g2, c2 = with_entry(g2, c2, s2 - 1.0, on, agreeing)
        g3, c3 = with_entry(g3, c3, s3 - 1.0, on, agreeing)
    w0, w1, w2, w3 = weight[0, j], weight[1, j], weight[2, j], weight[3, j]
    return (
        (w0 * c.c1 * g0, w1 * c.c1 * g1, w2 * c.c1 * g2, w3 * c.c1 * g3),
        (w0 * c.lam * s0 * c0, w1 * c.lam * s1 * c1, w2 * c.lam * s2 * c2, w3 * c.lam * s3 * c3),
    )


@inlined
def first_handful(nodes, n):
    """Where the rule for n neighbors begins."""
    rule = nodes.rule[n]
    return rule * (rule + 1) // 2


@inlined
def sum_over_nodes(c, nodes, importance, entries, i, j, n):
    """p(x_ij | z_i, q~)"""
    first = first_handful(nodes, n)
    total = 0.0
    for handful in range(first, first + nodes.rule[n] + 1):
        (g0, g1, g2, g3), (c0, c1, c2, c3) = weigh_handful(c, nodes, importance, entries, handful, i, j, n)
        total += ((g0 + g1) + (g2 + g3)) + ((c0 + c1) + (c2 + c3))
    return total


@inlined
def compare_nodes(c, table, nodes, old, new, entries, i, j):
    """log p(x_ij | z_i, new q~) - log p(x_ij | z_i, old q~)"""
    n = entries.n[i]
    if n == 0 or not in_word(table.observed[j >> 5, i], j):
        return 0.0
    before = sum_over_nodes(c, nodes, old, entries, i, j, n)
    return math.log(sum_over_nodes(c, nodes, new, entries, i, j, n) / before)


@inlined
def maybe_node(rng, total, chosen, node, base, copied):
    """Take this node instead of the chosen one, with the chance that its weight has in all weights so far."""
    weight = base + copied
    total += weight
    if uniform(rng) * total < weight:
        return total, (node, weight, copied)
    return total, chosen


@inlined
def begin_redraw(c, table, nodes, importance, entries, rng, key, i, j):
    """Open the stream of an item, choose its node and where x_ij comes from.

    Returns s, and the entry that x_ij was copied from, or -1; w_i:j are independent given both (`draw_w`).
    """
    open_item(rng, key, j, i)
    n = entries.n[i]
    if n == 0 or not in_word(table.observed[j >> 5, i], j):
        return 1.0, -1
    first = first_handful(nodes, n)
    total = 0.0
    chosen = (HANDFUL * first, 1.0, 0.0)
    for handful in range(first, first + nodes.rule[n] + 1):
        (g0, g1, g2, g3), (c0, c1, c2, c3) = weigh_handful(c, nodes, importance, entries, handful, i, j, n)
        total, chosen = maybe_node(rng, total, chosen, HANDFUL * handful, g0, c0)
        total, chosen = maybe_node(rng, total, chosen, HANDFUL * handful + 1, g1, c1)
        total, chosen = maybe_node(rng, total, chosen, HANDFUL * handful + 2, g2, c2)
        total, chosen = maybe_node(rng, total, chosen, HANDFUL * handful + 3, g3, c3)
    node, weight, copied = chosen
    s = nodes.place[node // HANDFUL, node % HANDFUL, j]
    if uniform(rng) * weight < copied:
        return s, choose_source(importance, entries, s, rng, i, j, n)
    return s, -1


@inlined
def choose_source(importance, entries, s, rng, i, j, n):
    """Which of the agreeing entries x_ij was copied from: in proportion to its chance of being on."""
    total = 0.0
    source = -1
    for r in range(n):
        if in_word(entries.same[i, r, j >> 5], j):
            b = entries.parent[i, r]
            on = importance[ON, b, j] * s
            chance = on / (importance[OFF, b, j] + on)
            total += chance
            if uniform(rng) * total < chance:
                source = r
    return source


@inlined
def draw_w(table, importance, entries, rng, s, source, r, i, j):
    """w of entry r: on, if x_ij was copied from it; s counts where the parent has a value to vote for."""
    b = entries.parent[i, r]
    on = importance[ON, b, j]
    if in_word(table.votes[j >> 5, b], j):
        on *= s
    return uniform(rng) * (importance[OFF, b, j] + on) < on or r == source
