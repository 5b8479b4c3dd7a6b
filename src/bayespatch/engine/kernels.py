"""The blocked update of ONE case: its neighbors z, their features w and, in Model III, their influence kappa.

Given q-tilde the cases are independent, so an engine may run `update_case` on threads, on a GPU or on other machines.
Everything is a function of arrays and numbers. w is summed out of the update of z: with R_j and H of ``votes.py`` and
``f_j = 1 - q~ + q~ R_j``, ``odds(z=1) = alpha/(1-alpha) H prod_j f_j`` (Models I and III), and a Poisson-binomial sum
over k in Model II.

Arrays are passed one by one, not in a tuple: Numba counts references whenever an array is taken out of a tuple.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from bayespatch.engine.streams import beta, compiled, inlined, open_stream, uniform
from bayespatch.engine.votes import (
    AGREE,
    AGREES,
    BOUND,
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
    cast_votes,
    count_votes,
    label_ratio,
    refresh_features,
    refresh_labels,
    switch_on,
    vote_weight,
)

N_CANDIDATES = 4  # values of kappa among which Model III chooses

# The compiler may reorder the factors of a product, and so use vector instructions.
reordered = njit(cache=True, nogil=True, error_model="numpy", forceinline=True, fastmath={"reassoc", "contract", "nsz"})


@reordered
def product_of_factors(x, x_parents, feature, importance, votes, i, b, first, last):
    """prod_j (1 + q~ (R_j - 1)) over features first..last-1 (Models I and II): the inner loop of the whole program."""
    product = 1.0
    for j in range(first, last):
        a = votes[R_AGREE, j]
        d = votes[R_DIFFER, j]
        gain = a if abs(x_parents[b, j] - x[i, j]) <= feature[WINDOW, j] else d
        product *= 1.0 + importance[VOTE_ON, b, j] * gain
    return product


@reordered
def product_given_kappa(x, x_parents, feature, importance, votes, i, b, first, last, kappa):
    """The same for Model III: R_j(kappa) written as a ratio, so that only one division is needed."""
    product = 1.0
    scale = 1.0
    for j in range(first, last):
        a = votes[R_AGREE, j] * kappa
        d = 1.0 + votes[R_DIFFER, j] * kappa
        extra = a if abs(x_parents[b, j] - x[i, j]) <= feature[WINDOW, j] else 0.0
        product *= importance[VOTE_OFF, b, j] * d + importance[VOTE_ON, b, j] * (1.0 + extra)
        scale *= d
    return product / scale


@reordered
def bound_over_kappa(x, x_parents, feature, importance, votes, i, b):
    """Model III: at least prod_j f_j(kappa), whatever kappa in (0, 1): R_j is at most R_j(1) or 1."""
    product = 1.0
    for j in range(x.shape[1]):
        a = votes[BOUND, j]
        gain = a if abs(x_parents[b, j] - x[i, j]) <= feature[WINDOW, j] else 0.0
        product *= 1.0 + importance[VOTE_ON, b, j] * gain
    return product


@compiled
def long_product(c, x, x_parents, feature, importance, votes, i, b, kappa):
    """Products that could leave the range of a double go through logarithms, a chunk at a time; at most e^600."""
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
def choose(weight, n, total, rng):
    """An index below n with probability weight / total."""
    u = uniform(rng) * total
    for index in range(n - 1):
        u -= weight[index]
        if u < 0.0:
            return index
    return n - 1


@inlined
def draw_features(c, x, x_parents, feature, importance, votes, bits, rng, i, b, s, k):
    """w of entry s, which votes with the given weight k: independent over features (Models I and III)."""
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
    """Model II: weight[k] = C_k H(k) / prod_j fmax_j for k = 0..P features on; returns their sum.

    C_k is the coefficient of t^k in prod_j (1 - q~ + q~ R_j(k) t): one polynomial for every k, carried along together.
    Each factor is divided by fmax_j, its value at the largest R, so that nothing overflows.
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
            for k in range(degree, top + 1):
                poly[degree, k] = poly[degree, k] * off + poly[degree - 1, k] * weight[k]
        for k in range(top + 1):
            poly[0, k] *= off
    total = 0.0
    for k in range(top + 1):
        weight[k] = poly[k, k] * label_factor[m, k]
        total += weight[k]
    return total


@compiled
def draw_features_given_count(c, x, x_parents, feature, importance, votes, prefix, bits, rng, i, b, s, k):
    """Model II: w of entry s given that k features are on, by walking k's polynomial backwards."""
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


@compiled
def update_case(
    c, x, y, own_parent, x_parents, y_parents, feature, mu, importance,
    rng, slot, parent, bits, kappa, votes, class_votes, by_weight, label_factor, poly, prefix, candidate, weight,
    i, n, key,
):  # fmt: skip
    """One sweep over all parents of case i, with the stream named by `key`; returns its new number of neighbors.

    On entry and on return the first n entries of `parent`, `bits` (w) and `kappa` are the neighbors, in any order, and
    `slot` says where a parent stands (-1: not a neighbor). The other arrays of the second line are scratch memory.
    """
    open_stream(rng, key)
    own = own_parent[i]
    size = x.shape[1]
    short = size <= c.chunk
    count_votes(
        c, x, y, x_parents, y_parents, feature, mu, parent, bits, kappa,
        votes, class_votes, by_weight, label_factor, i, n,
    )  # fmt: skip
    for b in range(x_parents.shape[0]):
        if b == own:
            continue
        m = y_parents[b]
        s = slot[b]
        current = -1.0
        if s >= 0:  # take the neighbor out, with its votes; the last entry takes its place
            current = kappa[s]
            k = vote_weight(c, bits, kappa, s)
            cast_votes(c, x, x_parents, feature, votes, bits, i, b, s, -k)
            class_votes[m] -= k
            refresh_features(c, x, feature, votes, by_weight, i)
            refresh_labels(c, mu, class_votes, label_factor, y[i])
            n -= 1
            slot[b] = -1
            if s != n:
                parent[s] = parent[n]
                bits[s] = bits[n]
                kappa[s] = kappa[n]
                slot[parent[s]] = s

        u = uniform(rng)
        if c.kind == 1:
            if short:
                factor = product_of_factors(x, x_parents, feature, importance, votes, i, b, 0, size)
            else:
                factor = long_product(c, x, x_parents, feature, importance, votes, i, b, 1.0)
            odds = c.prior_odds * label_factor[m, 1] * factor
            if u * (1.0 + odds) >= odds:
                continue
            draw_features(c, x, x_parents, feature, importance, votes, bits, rng, i, b, n, 1.0)
        elif c.kind == 2:
            # Most parents are turned down by a bound: every R_j and H at its largest (H is monotone in k, H(0) = 1).
            if short:
                factor = product_of_factors(x, x_parents, feature, importance, votes, i, b, 0, size)
            else:
                factor = long_product(c, x, x_parents, feature, importance, votes, i, b, 1.0)
            scale = c.prior_odds * factor
            bound = scale * max(1.0, label_factor[m, c.n_features])
            if u * (1.0 + bound) >= bound:
                continue
            total = weigh_counts(
                c, x, x_parents, feature, importance, votes, by_weight, label_factor, poly, weight, i, b, m
            )
            odds = scale * total
            if u * (1.0 + odds) >= odds:
                continue
            k_on = choose(weight, c.n_features + 1, total, rng)
            draw_features_given_count(c, x, x_parents, feature, importance, votes, prefix, bits, rng, i, b, n, k_on)
        else:
            # Where z = 0 the conditional of kappa is its prior, so a non-neighbor's kappa is not stored but drawn
            # afresh here, as one of the candidates; and not even that where no kappa could make it a neighbor.
            if current < 0.0 and short:
                bound = c.prior_odds * bound_over_kappa(x, x_parents, feature, importance, votes, i, b)
                bound *= max(1.0, label_ratio(c, mu, class_votes, y[i], m, 1.0))
                if u * (1.0 + bound) >= bound:
                    continue
            total = 0.0
            for r in range(N_CANDIDATES):
                candidate[r] = current if r == 0 and current >= 0.0 else beta(rng, c.tau, c.sigma3)
                if short:
                    factor = product_given_kappa(x, x_parents, feature, importance, votes, i, b, 0, size, candidate[r])
                else:
                    factor = long_product(c, x, x_parents, feature, importance, votes, i, b, candidate[r])
                weight[r] = factor * label_ratio(c, mu, class_votes, y[i], m, candidate[r])
                total += weight[r]
            odds = c.prior_odds * total / N_CANDIDATES
            if u * (1.0 + odds) >= odds:
                continue
            kappa[n] = candidate[choose(weight, N_CANDIDATES, total, rng)]
            draw_features(c, x, x_parents, feature, importance, votes, bits, rng, i, b, n, kappa[n])

        parent[n] = b
        slot[b] = n
        k = vote_weight(c, bits, kappa, n)
        cast_votes(c, x, x_parents, feature, votes, bits, i, b, n, k)
        class_votes[m] += k
        refresh_features(c, x, feature, votes, by_weight, i)
        refresh_labels(c, mu, class_votes, label_factor, y[i])
        n += 1
    return n
