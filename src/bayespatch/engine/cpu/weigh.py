"""The odds that a parent is a neighbor of a case, with w summed out, and draws of its w.

With R_j and H of ``votes.py`` and ``f_j = 1 - q~ + q~ R_j``, ``odds(z=1) = alpha/(1-alpha) H prod_j f_j`` in Models I
and III; in Model II, the odds are a Poisson-binomial sum over k.
"""

from __future__ import annotations

import math

import numpy as np

from bayespatch.engine.compiling import compiled, inlined, vectorised_inline
from bayespatch.engine.streams import uniform
from bayespatch.engine.votes import (
    AGREE,
    AGREES,
    C2,
    CASE_MISSING,
    DIFFERS,
    OFF,
    ON,
    PARENT_MISSING,
    R_AGREE,
    R_DIFFER,
    TOTAL,
    VOTE_OFF,
    VOTE_ON,
    WINDOW,
    agrees,
    switch_on,
)


@vectorised_inline
def product_of_factors(x, x_parents, feature, importance, votes, i, b, first, last):
    """prod_j (1 + q~ (R_j - 1)) over features first..last-1 (Models I and II)."""
    product = 1.0
    for j in range(first, last):
        a = votes[R_AGREE, j]
        d = votes[R_DIFFER, j]
        gain = a if abs(x_parents[b, j] - x[i, j]) <= feature[WINDOW, j] else d
        product *= 1.0 + importance[VOTE_ON, b, j] * gain
    return product


@vectorised_inline
def product_given_kappa(x, x_parents, feature, importance, votes, i, b, first, last, kappa):
    """The same product for Model III: R_j(kappa) is written as a ratio, so that only one division is needed."""
    product = 1.0
    scale = 1.0
    for j in range(first, last):
        a = votes[R_AGREE, j] * kappa
        d = 1.0 + votes[R_DIFFER, j] * kappa
        extra = a if abs(x_parents[b, j] - x[i, j]) <= feature[WINDOW, j] else 0.0
        product *= importance[VOTE_OFF, b, j] * d + importance[VOTE_ON, b, j] * (1.0 + extra)
        scale *= d
    return product / scale


@compiled
def long_product(c, x, x_parents, feature, importance, votes, i, b, kappa):
    """Products that could leave the range of a double, computed with the logarithms of chunks; at most e^600."""
    log = 0.0
    for first in range(0, x.shape[1], c.chunk):
        last = min(x.shape[1], first + c.chunk)
        if c.kind == 3:
            log += math.log(product_given_kappa(x, x_parents, feature, importance, votes, i, b, first, last, kappa))
        else:
            log += math.log(product_of_factors(x, x_parents, feature, importance, votes, i, b, first, last))
    return math.exp(min(log, 600.0))


@inlined
def ratio(c, x, x_parents, feature, votes, i, b, j, k):
    """R_j(k), from the votes."""
    if x[i, j] == CASE_MISSING or x_parents[b, j] == PARENT_MISSING:
        return 1.0
    total = feature[C2, j] + c.lam * votes[TOTAL, j]
    r = total / (total + c.lam * k)
    if agrees(x, x_parents, feature, i, b, j):
        r *= 1.0 + c.lam * k / (c.c1 + c.lam * votes[AGREE, j])
    return r


@inlined
def draw_features(c, x, x_parents, feature, importance, votes, bits, rng, i, b, s, k):
    """Draw w of entry s, which votes with weight k: independent over features (Models I and III)."""
    for word in range(bits.shape[1]):
        w = np.uint64(0)
        first = word << 6
        for r in range(min(64, c.n_features - first)):
            j = first + r
            off = importance[OFF, b, j]
            on = importance[ON, b, j]
            same = abs(x_parents[b, j] - x[i, j]) <= feature[WINDOW, j]
            if x_parents[b, j] != PARENT_MISSING:
                if c.kind == 1:
                    on *= 1.0 + (votes[R_AGREE, j] if same else votes[R_DIFFER, j])
                else:
                    off *= 1.0 + k * votes[R_DIFFER, j]
                    on *= 1.0 + (k * votes[R_AGREE, j] if same else 0.0)
            w |= np.uint64(uniform(rng) * (off + on) < on) << np.uint64(r)
        bits[s, word] = w


@compiled
def weigh_counts(c, x, x_parents, feature, importance, votes, by_weight, label_factor, poly, weight, i, b, m):
    """Model II: fill weight[k] = C_k H(k) / prod_j fmax_j for k = 0..P features on; returns the sum of the weights.

    C_k is the coefficient of t^k in prod_j (1 - q~ + q~ R_j(k) t): one polynomial for every k, all updated together.
    Each factor is divided by fmax_j, its value at the largest R, to prevent overflow.
    """
    top = c.n_features
    poly[:] = 0.0
    poly[0] = 1.0
    for j in range(top):
        silent = x_parents[b, j] == PARENT_MISSING
        same = agrees(x, x_parents, feature, i, b, j)
        r_max = 1.0 if silent else 1.0 + votes[R_AGREE if same else R_DIFFER, j]
        scale = importance[OFF, b, j] + importance[ON, b, j] * r_max
        off = importance[OFF, b, j] / scale
        on = importance[ON, b, j] / scale
        for k in range(top + 1):
            weight[k] = on * (1.0 if silent else by_weight[AGREES if same else DIFFERS, j, k])
        for degree in range(j + 1, 0, -1):
            for k in range(degree, min(top, degree + top - 1 - j) + 1):  # other terms do not contribute to degree k
                poly[degree, k] = poly[degree, k] * off + poly[degree - 1, k] * weight[k]
        for k in range(top - j):
            poly[0, k] *= off
    total = 0.0
    for k in range(top + 1):
        weight[k] = poly[k, k] * label_factor[m, k]
        total += weight[k]
    return total


@compiled
def draw_features_given_count(c, x, x_parents, feature, importance, votes, prefix, bits, rng, i, b, s, k):
    """Model II: draw w of entry s given that k features are on, by going backward through the polynomial of k."""
    bits[s] = 0
    prefix[0, : k + 1] = 0.0
    prefix[0, 0] = 1.0
    for j in range(c.n_features):
        on = importance[ON, b, j] * ratio(c, x, x_parents, feature, votes, i, b, j, float(k))
        scale = importance[OFF, b, j] + on
        on /= scale
        off = importance[OFF, b, j] / scale
        prefix[j + 1, 0] = prefix[j, 0] * off
        for degree in range(1, k + 1):
            prefix[j + 1, degree] = prefix[j, degree] * off + prefix[j, degree - 1] * on
    left = k
    for j in range(c.n_features - 1, -1, -1):
        if left == 0:
            return
        on = importance[ON, b, j] * ratio(c, x, x_parents, feature, votes, i, b, j, float(k))
        on /= importance[OFF, b, j] + on
        if uniform(rng) * prefix[j + 1, left] < on * prefix[j, left - 1]:
            switch_on(bits, s, j)
            left -= 1
