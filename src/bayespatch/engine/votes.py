"""The votes of one case, and the effect of one more vote.

Notation of the paper: for case i and feature j, ``agree_j`` and ``total_j`` are the votes of its neighbors for its own
value and for any value; ``A = c1 + lam agree_j``, ``T = c2_j + lam total_j``, and A/T is the value's likelihood. Adding
a neighbor b that votes with weight k multiplies it by

    R_j(k) = T/(T + lam k) * (1 + [x_bj agrees with x_ij] lam k / A),

and, likewise, the likelihood of the label by ``H(k)``. w is stored as bits, in words of 64 features.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayespatch.engine.compiling import compiled, inlined

CASE_MISSING = -1e300  # instead of NaN: a missing value of a case, whose likelihood is always 1


PARENT_MISSING = 1e300  # instead of NaN: a missing value of a parent, which does not vote


ONE = np.uint64(1)


WINDOW, C2 = 0, 1  # rows of `feature` (2, F)


MU, MU0 = 0, 1  # rows of `mu` (2, M)


AGREE, TOTAL, R_AGREE, R_DIFFER, BOUND = 0, 1, 2, 3, 4  # rows of `votes` (5, F)


DIFFERS, AGREES = 0, 1  # rows of `by_weight` (2, F, P+1)


ON, OFF, VOTE_ON, VOTE_OFF = 0, 1, 2, 3  # rows of `importance` (4, S, F)


N_CANDIDATES = 4  # values of kappa that Model III chooses from


LOGS = 16  # factors close to 1 that are multiplied before a logarithm is taken


class Constants(NamedTuple):
    """The constants of the model. F, the width of the arrays, is P padded with features that never vote."""

    kind: int  # 1, 2, 3: the model
    n_features: int  # P
    c1: float
    lam: float
    one: float  # added to numerator and denominator with the paper's likelihood, otherwise 0
    label_c2: float
    prior_odds: float  # alpha / (1 - alpha)
    tau: float
    sigma3: float
    chunk: int  # number of factors that can be multiplied without overflow of a double


@inlined
def pick(weight, n, u):
    """The index below n selected by a number u between 0 and the sum of the weights."""
    for index in range(n - 1):
        u -= weight[index]
        if u < 0.0:
            return index
    return n - 1


@inlined
def is_on(bits, s, j):
    """w of feature j in entry s: bit j % 64 of word j // 64."""
    return (bits[s, j >> 6] >> np.uint64(j & 63)) & ONE != 0


@inlined
def switch_on(bits, s, j):
    bits[s, j >> 6] |= ONE << np.uint64(j & 63)


@inlined
def set_bit(bits, s, j, on):
    """w of feature j in entry s, without a branch."""
    place = np.uint64(j & 63)
    bits[s, j >> 6] = (bits[s, j >> 6] & ~(ONE << place)) | (np.uint64(on) << place)


@inlined
def ones(v):
    """Number of set bits in a word, summed by pairs, nibbles and bytes. Compilers turn this into one instruction."""
    v -= (v >> np.uint64(1)) & np.uint64(0x5555555555555555)
    v = (v & np.uint64(0x3333333333333333)) + ((v >> np.uint64(2)) & np.uint64(0x3333333333333333))
    v = (v + (v >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((v * np.uint64(0x0101010101010101)) >> np.uint64(56))


@inlined
def n_on(bits, s):
    """How many features of entry s are on."""
    count = 0
    for word in range(bits.shape[1]):
        count += ones(bits[s, word])
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
    """Recompute the quantities that depend on the votes, for all features at once (without branches, so that the
    compiler can vectorize the loop).

    R_AGREE and R_DIFFER hold R_j(1) - 1 in Model I; the largest R_j(k) - 1, k >= 1, in Model II; lam/A and lam/T in
    Model III, where BOUND is the largest R_j(kappa) - 1. All are 0 if the case's value is missing.
    """
    if c.kind == 2:
        for j in range(c.n_features):
            missing = x[i, j] == CASE_MISSING
            a = c.c1 + c.lam * votes[AGREE, j]
            total = feature[C2, j] + c.lam * votes[TOTAL, j]
            vote = c.lam / a
            for k in range(c.n_features + 1):
                differ = total / (total + c.lam * k)
                by_weight[DIFFERS, j, k] = 1.0 if missing else differ
                by_weight[AGREES, j, k] = 1.0 if missing else differ * (1.0 + vote * k)
            votes[R_AGREE, j] = by_weight[AGREES, j, c.n_features] - 1.0  # increases with k
            votes[R_DIFFER, j] = by_weight[DIFFERS, j, 1] - 1.0  # decreases with k
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
    agreeing = c.one + mu[MU0, y] + mu[MU, y] * class_votes[y]
    total = c.label_c2
    for other in range(mu.shape[1]):
        total += mu[MU, other] * class_votes[other]
    vote = mu[MU, m] * k
    return (agreeing + (vote if m == y else 0.0)) * total / (agreeing * (total + vote))


@inlined
def feature_change(c, c2, votes, f):
    """The factor by which the likelihood of feature f changes from votes[0] to votes[1]."""
    above = (c.c1 + c.lam * votes[1, AGREE, f]) * (c2 + c.lam * votes[0, TOTAL, f])
    return above / ((c.c1 + c.lam * votes[0, AGREE, f]) * (c2 + c.lam * votes[1, TOTAL, f]))


@inlined
def label_change(c, mu, class_votes, y):
    """The factor by which the likelihood of label y changes from class_votes[0] to class_votes[1]."""
    if y < 0:  # hidden
        return 1.0
    before, after = c.label_c2, c.label_c2
    for m in range(mu.shape[1]):
        before += mu[MU, m] * class_votes[0, m]
        after += mu[MU, m] * class_votes[1, m]
    own = c.one + mu[MU0, y]
    above = (own + mu[MU, y] * class_votes[1, y]) * before
    return above / ((own + mu[MU, y] * class_votes[0, y]) * after)


@inlined
def label_slope(c, mu, class_votes, y, m):
    """Derivative of the log likelihood of label y with respect to votes for class m, at class_votes[0]."""
    if y < 0:
        return 0.0
    every = c.label_c2
    for other in range(mu.shape[1]):
        every += mu[MU, other] * class_votes[0, other]
    own = c.one + mu[MU0, y] + mu[MU, y] * class_votes[0, y]
    return (mu[MU, m] / own if m == y else 0.0) - mu[MU, m] / every


@compiled
def refresh_labels(c, mu, class_votes, label_factor, y):
    """Recompute H(1) for every class, and H(k) for every k in Model II. Model III computes H when needed."""
    for m in range(mu.shape[1]):
        if c.kind == 1:
            label_factor[m, 1] = label_ratio(c, mu, class_votes, y, m, 1.0)
        elif c.kind == 2:
            for k in range(c.n_features + 1):
                label_factor[m, k] = label_ratio(c, mu, class_votes, y, m, float(k))


@inlined
def cast_votes(c, x, x_parents, feature, votes, bits, i, b, s, k):
    """Add the votes of entry s, parent b, with weight k, without branches; a negative k removes them."""
    for word in range(bits.shape[1]):
        w = bits[s, word]
        first = word << 6
        for r in range(min(64, c.n_features - first)):
            j = first + r
            vote = k * float((w >> np.uint64(r)) & ONE)
            votes[TOTAL, j] += vote if x_parents[b, j] != PARENT_MISSING else 0.0
            votes[AGREE, j] += vote if abs(x_parents[b, j] - x[i, j]) <= feature[WINDOW, j] else 0.0


@inlined
def slope_of_features(x, x_parents, feature, slopes, bits, i, b, s):
    """Change in the log likelihood of the features of case i due to a vote of entry s, parent b. `slopes`: (AGREE, F)
    for a vote that agrees and (TOTAL, F) for any vote.
    """
    log = 0.0
    for word in range(bits.shape[1]):
        w = bits[s, word]
        while w != 0:
            others = w & (w - ONE)
            j = (word << 6) + ones((w ^ others) - ONE)
            if x_parents[b, j] != PARENT_MISSING:
                log -= slopes[TOTAL, j]
                log += slopes[AGREE, j] if abs(x_parents[b, j] - x[i, j]) <= feature[WINDOW, j] else 0.0
            w = others
    return log


@compiled
def count_votes(
    c, x, y, x_parents, y_parents, feature, mu, parent, bits, kappa, votes, class_votes, by_weight, label_factor, i, n
):
    """Recount all votes of the n entries."""
    votes[:] = 0.0
    class_votes[:] = 0.0
    for s in range(n):
        k = vote_weight(c, bits, kappa, s)
        cast_votes(c, x, x_parents, feature, votes, bits, i, parent[s], s, k)
        class_votes[y_parents[parent[s]]] += k
    refresh_features(c, x, feature, votes, by_weight, i)
    refresh_labels(c, mu, class_votes, label_factor, y[i])
