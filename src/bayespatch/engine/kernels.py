"""The blocked update of ONE case: its neighbors z, their features w and, in Model III, their influence kappa.

Given q-tilde the cases are independent, so an engine may run `update_case` on threads, on a GPU or on other machines.
Everything is a function of arrays and numbers. Notation of the paper: for case i, feature j and a neighbor b that votes
with weight k, ``agree_j`` and ``total_j`` are the votes of the *other* neighbors, ``A = c1 + lam agree_j``,
``T = c2_j + lam total_j``, and the neighbor multiplies the likelihood of the feature by

    R_j(k) = T/(T + lam k) * (1 + [x_bj agrees with x_ij] lam k / A)

and that of the label by ``H(k)``, likewise. w is summed out of the update of z: with ``f_j = 1 - q~ + q~ R_j``,
``odds(z=1) = alpha/(1-alpha) H prod_j f_j`` (Model I), and a Poisson-binomial sum over k in Model II.

Arrays are passed one by one, not in a tuple: Numba counts references whenever an array is taken out of a tuple.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from bayespatch.engine.streams import beta, compiled, inlined, open_stream, uniform

CASE_MISSING = -1e300  # in place of NaN: a case's value that has likelihood 1, whoever votes
PARENT_MISSING = 1e300  # in place of NaN: a parent's value that cannot vote
N_CANDIDATES = 4  # values of kappa among which Model III chooses
ONE = np.uint64(1)

# The compiler may reorder the factors of a product, and so use vector instructions.
reordered = njit(cache=True, nogil=True, error_model="numpy", forceinline=True, fastmath={"reassoc", "contract", "nsz"})

WINDOW, C2 = 0, 1  # rows of `feature` (2, F)
AGREE, TOTAL, R_AGREE, R_DIFFER, BOUND = 0, 1, 2, 3, 4  # rows of `votes` (5, F)
DIFFERS, AGREES = 0, 1  # rows of `by_weight` (2, F, P+1)
ON, OFF, VOTE_ON, VOTE_OFF = 0, 1, 2, 3  # rows of `importance` (4, S, F)


class Constants(NamedTuple):
    """The numbers of the model. F, the width of the arrays, is P padded with features that never vote."""

    kind: int  # 1, 2, 3: the model
    n_features: int  # P
    c1: float
    lam: float
    label_c1: float
    label_c2: float
    prior_odds: float  # alpha / (1 - alpha)
    tau: float
    sigma3: float
    chunk: int  # how many factors may be multiplied before a double could overflow
    max_summed: int  # how many neighbors' w may be summed out at once in Models II and III


@inlined
def is_on(bits, s, j):
    """w of feature j in entry s: bit j % 64 of word j // 64."""
    return (bits[s, j >> 6] >> np.uint64(j & 63)) & ONE != 0


@inlined
def switch_on(bits, s, j):
    bits[s, j >> 6] |= ONE << np.uint64(j & 63)


@inlined
def n_on(bits, s):
    """How many features of entry s are on."""
    count = 0
    for word in range(bits.shape[1]):
        v = bits[s, word]
        while v != 0:
            v &= v - ONE
            count += 1
    return count


@inlined
def vote_weight(c, bits, kappa, s):
    """k: how strongly entry s votes."""
    if c.kind == 1:
        return 1.0
    if c.kind == 2:
        return float(n_on(bits, s))
    return kappa[s]


@inlined
def agrees(x, x_parents, feature, i, b, j):
    return abs(x_parents[b, j] - x[i, j]) <= feature[WINDOW, j]


@inlined
def refresh_features(c, x, feature, votes, by_weight, i):
    """Recompute what depends on the votes, for all features at once (without branches, so that it is vectorised).

    R_AGREE and R_DIFFER hold R_j(1) - 1 in Model I; the largest R_j(k) - 1, k >= 1, in Model II; lam/A and lam/T in
    Model III, where BOUND is the largest R_j(kappa) - 1. All are 0 where the case's value is missing.
    """
    if c.kind == 2:
        for j in range(c.n_features):
            missing = x[i, j] == CASE_MISSING
            a = c.c1 + c.lam * votes[AGREE, j]
            total = feature[C2, j] + c.lam * votes[TOTAL, j]
            for k in range(c.n_features + 1):
                differ = total / (total + c.lam * k)
                by_weight[DIFFERS, j, k] = 1.0 if missing else differ
                by_weight[AGREES, j, k] = 1.0 if missing else differ * (1.0 + c.lam * k / a)
            votes[R_AGREE, j] = by_weight[AGREES, j, c.n_features] - 1.0  # grows with k
            votes[R_DIFFER, j] = by_weight[DIFFERS, j, 1] - 1.0  # falls with k
        return
    for j in range(x.shape[1]):
        a = c.c1 + c.lam * votes[AGREE, j]
        total = feature[C2, j] + c.lam * votes[TOTAL, j]
        gain = (total - a) * c.lam / (a * (total + c.lam))
        loss = -c.lam / (total + c.lam)
        missing = x[i, j] == CASE_MISSING
        votes[BOUND, j] = 0.0 if missing else gain
        votes[R_AGREE, j] = 0.0 if missing else (gain if c.kind == 1 else c.lam / a)
        votes[R_DIFFER, j] = 0.0 if missing else (loss if c.kind == 1 else c.lam / total)


@inlined
def label_ratio(c, mu, class_votes, y, m, k):
    """H(k): the factor by which a vote of weight k for class m changes the likelihood of label y."""
    if y < 0:
        return 1.0
    mine = c.label_c1 + mu[y] * class_votes[y]
    every = c.label_c2
    for other in range(mu.shape[0]):
        every += mu[other] * class_votes[other]
    vote = mu[m] * k
    return (mine + (vote if m == y else 0.0)) * every / (mine * (every + vote))


@compiled
def refresh_labels(c, mu, class_votes, label_factor, y):
    """Recompute H(1) for every class, and in Model II H(k) for every k. Model III asks for H as it needs it."""
    for m in range(mu.shape[0]):
        if c.kind == 1:
            label_factor[m, 1] = label_ratio(c, mu, class_votes, y, m, 1.0)
        elif c.kind == 2:
            for k in range(c.n_features + 1):
                label_factor[m, k] = label_ratio(c, mu, class_votes, y, m, float(k))


@inlined
def cast_votes(c, x, x_parents, feature, votes, bits, i, b, s, k):
    """Add the votes of entry s, parent b, with weight k; a negative k takes them away. Without branches."""
    for word in range(bits.shape[1]):
        w = bits[s, word]
        first = word << 6
        for r in range(min(64, c.n_features - first)):
            j = first + r
            vote = k * float((w >> np.uint64(r)) & ONE)
            votes[TOTAL, j] += vote if x_parents[b, j] != PARENT_MISSING else 0.0
            votes[AGREE, j] += vote if abs(x_parents[b, j] - x[i, j]) <= feature[WINDOW, j] else 0.0


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
    """Products that could leave the range of a double go through logarithms, a chunk at a time; at most 1e300."""
    log = 0.0
    for first in range(0, x.shape[1], c.chunk):
        last = min(x.shape[1], first + c.chunk)
        if c.kind == 3:
            log += math.log(product_given_kappa(x, x_parents, feature, importance, votes, i, b, first, last, kappa))
        else:
            log += math.log(product_of_factors(x, x_parents, feature, importance, votes, i, b, first, last))
    return math.exp(min(log, 690.0))


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
    """Model II: weight[k] = C_k H(k) / prod_j fmax_j for k = 0..P features on; returns their sum. m: the parent's class.

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
        c, x, y, x_parents, y_parents, feature, mu, parent, bits, kappa, votes, class_votes, by_weight, label_factor, i, n
    )
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
            draw_features_given_count(
                c, x, x_parents, feature, importance, votes, prefix, bits, rng, i, b, n, k_on
            )
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
                    factor = product_given_kappa(
                        x, x_parents, feature, importance, votes, i, b, 0, size, candidate[r]
                    )
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


@compiled
def count_votes(
    c, x, y, x_parents, y_parents, feature, mu, parent, bits, kappa, votes, class_votes, by_weight, label_factor, i, n
):
    """All votes of the n entries, counted afresh."""
    votes[:] = 0.0
    class_votes[:] = 0.0
    for s in range(n):
        k = vote_weight(c, bits, kappa, s)
        cast_votes(c, x, x_parents, feature, votes, bits, i, parent[s], s, k)
        class_votes[y_parents[parent[s]]] += k
    refresh_features(c, x, feature, votes, by_weight, i)
    refresh_labels(c, mu, class_votes, label_factor, y[i])
