"""Model II on a GPU: the sum over how many features of a parent are on, and w given that number.

One k takes O(P^2) steps and needs no other, so the threads of a group take one k each of a pair that one of them has
brought up (``cuda_kernels.py``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayespatch.engine.cuda_case import UNIT, ZERO, bit, in_word
from bayespatch.engine.kernels import choose
from bayespatch.engine.streams import inlined, uniform
from bayespatch.engine.votes import AGREE, OFF, ON, TOTAL, label_ratio


@inlined
def ratio_at(c, table, votes, same, i, b, j, strength):
    """R_j at lam k = `strength`."""
    r = UNIT
    if in_word(table.votes[j >> 5, b] & table.observed[j >> 5, i], j):
        total = np.float32(table.c2[j]) + np.float32(c.lam) * np.float32(votes[TOTAL, j])
        r = total / (total + strength)
        if bit(same, j):
            r *= UNIT + strength / (np.float32(c.c1) + np.float32(c.lam) * np.float32(votes[AGREE, j]))
    return r


class Pair(NamedTuple):
    """A case and a parent, prepared for all k: C_k is the coefficient of t^k in prod_j (off_j + on_j R_j(k) t).

    Each factor is divided by its value at the largest R (as in `largest_odds`), so that nothing overflows. All (P,)
    float32.
    """

    off: Any
    on: Any
    total: Any  # T_j
    gain: Any  # 1/A_j where the two agree, else 0
    counts: Any  # 1, or 0 where a value is missing and R_j is 1


@inlined
def prepare_feature(c, table, importance, case, pair, i, b, j):
    """Feature j of a pair, case i and parent b."""
    votes = case.votes
    same = case.same
    lam = np.float32(c.lam)
    off = importance.single[OFF, b, j]
    on = importance.single[ON, b, j]
    r_max = ratio_at(c, table, votes, same, i, b, j, lam * np.float32(c.n_features) if bit(same, j) else lam)
    scale = UNIT / (off + on * r_max)
    pair.off[j] = off * scale
    pair.on[j] = on * scale
    pair.total[j] = np.float32(table.c2[j]) + lam * np.float32(votes[TOTAL, j])
    pair.gain[j] = UNIT / (np.float32(c.c1) + lam * np.float32(votes[AGREE, j])) if bit(same, j) else ZERO
    pair.counts[j] = UNIT if in_word(table.votes[j >> 5, b] & table.observed[j >> 5, i], j) else ZERO


@inlined
def weight_of_count(c, table, case, pair, poly, i, b, k):
    """C_k H(k). The inner loop runs over all degrees, so that `poly` (P + 1,) lies in registers."""
    for degree in range(poly.shape[0]):
        poly[degree] = ZERO
    poly[0] = UNIT
    for j in range(c.n_features):
        strength = np.float32(c.lam) * np.float32(k) * pair.counts[j]
        total = pair.total[j]
        off = pair.off[j]
        on = pair.on[j] * (total / (total + strength)) * (UNIT + strength * pair.gain[j])
        for degree in range(poly.shape[0] - 1, 0, -1):
            poly[degree] = poly[degree] * off + poly[degree - 1] * on
        poly[0] *= off
    weight = ZERO
    for degree in range(poly.shape[0]):
        if degree == k:
            weight = poly[degree]
    return np.float32(weight * label_ratio(c, table.mu, case.class_votes, table.y[i], table.y_parents[b], float(k)))


@inlined
def decide_count(weight, odds, label, u, rng):
    """How many features are on if the pair become neighbors, -1: they do not. `odds`, `label`: bounds, of `screen`."""
    total = 0.0
    for k in range(weight.shape[0]):
        total += weight[k]
    exactly = odds / label * total
    if u * (1.0 + exactly) >= exactly:
        return -1
    return choose(weight, weight.shape[0], total, rng)


@inlined
def draw_features_given_count(c, table, importance, case, rng, prefix, flags, i, b, k):
    """w of parent b given that k features are on, into `flags`, by walking k's polynomial backwards."""
    strength = np.float32(c.lam) * np.float32(k)
    for degree in range(k + 1):
        prefix[0, degree] = ZERO
    prefix[0, 0] = UNIT
    for j in range(c.n_features):
        flags[j] = 0
        on = importance.single[ON, b, j] * ratio_at(c, table, case.votes, case.same, i, b, j, strength)
        scale = UNIT / (importance.single[OFF, b, j] + on)
        off = importance.single[OFF, b, j] * scale
        on *= scale
        prefix[j + 1, 0] = prefix[j, 0] * off
        for degree in range(1, k + 1):
            prefix[j + 1, degree] = prefix[j, degree] * off + prefix[j, degree - 1] * on
    left = k
    for j in range(c.n_features - 1, -1, -1):
        if left == 0:
            return
        on = importance.single[ON, b, j] * ratio_at(c, table, case.votes, case.same, i, b, j, strength)
        on /= importance.single[OFF, b, j] + on
        u = uniform(rng)
        if left > j or u * prefix[j + 1, left] < on * prefix[j, left - 1]:
            flags[j] = 1
            left -= 1
