"""Model III on a GPU: a parent becomes a neighbor with one of a few candidates for its kappa, or not at all.

A thread that looks at a parent weighs its candidates in single precision, and turns most parents down by that. Where it
cannot, the threads of the group weigh them together, in double precision, a candidate and a feature each.
"""

from __future__ import annotations

import numpy as np

from bayespatch.engine.cuda_case import CEILING, UNIT, ZERO, bit, in_word, pick, product_of
from bayespatch.engine.kernels import N_CANDIDATES
from bayespatch.engine.streams import beta, inlined, key_of, open_stream, to_unit
from bayespatch.engine.votes import AGREE, AGREES, DIFFERS, TOTAL, VOTE_OFF, VOTE_ON, label_ratio


@inlined
def draw_kappa(c, rng, pair_key, r):
    """Model III: candidate r for kappa."""
    own_key = key_of(pair_key, c.n_features + 1 + r)
    if c.tau == 1.0 and c.sigma3 == 1.0:
        return 1.0 - to_unit(own_key)
    open_stream(rng, own_key)
    return beta(rng, c.tau, c.sigma3)


@inlined
def likely_odds(c, chance, own, case, label, start, group, chunk):
    """Model III: the odds of a parent with its candidates for kappa, in single precision, and a little too large.

    `label`: its class. A product of more than `chunk` factors, which could overflow, is left to `choose_kappa`.
    """
    size = own.gain.shape[1]
    if size > chunk:
        return CEILING
    for r in range(N_CANDIDATES):
        below = UNIT / (UNIT - case.label_slope[DIFFERS, label] * own.candidate[r])
        own.product[r] = UNIT + case.label_slope[AGREES, label] * own.candidate[r] * below
    for j in range(size):
        differs = case.slope[DIFFERS, j]
        slope = chance[start + np.uint64(j * group)] * (case.slope[AGREES, j] if bit(own.same, j) else differs)
        for r in range(N_CANDIDATES):
            kappa = own.candidate[r]
            own.product[r] *= UNIT + slope * kappa * (UNIT / (UNIT - differs * kappa))
    total = ZERO
    for r in range(N_CANDIDATES):
        total += own.product[r]
    return min(np.float32(c.prior_odds * (1.0001 / N_CANDIDATES)) * total, CEILING)


@inlined
def factor_given_kappa(c, table, importance, case, change, i, b, j, kappa):
    """Model III: f_j(kappa), in double precision."""
    if not in_word(table.observed[j >> 5, i], j):
        return 1.0
    d = 1.0 + c.lam * kappa / (table.c2[j] + c.lam * case.votes[TOTAL, j])
    a = 1.0 + (c.lam * kappa / (c.c1 + c.lam * case.votes[AGREE, j]) if bit(change.same, j) else 0.0)
    return (importance.double[VOTE_OFF, b, j] * d + importance.double[VOTE_ON, b, j] * a) / d


@inlined
def weight_of_kappa(c, table, case, factor, i, b, r, kappa):
    """Model III: H(kappa) prod_j f_j(kappa), the product at most e^600."""
    product = product_of(factor[r], c.n_features)
    return product * label_ratio(c, table.mu, case.class_votes, table.y[i], table.y_parents[b], kappa)


@inlined
def choose_kappa(c, weight, pair_key):
    """Model III: which of the candidates makes the parent a neighbor, -1: none."""
    total = 0.0
    for r in range(N_CANDIDATES):
        total += weight[r]
    odds = c.prior_odds * total / N_CANDIDATES
    if to_unit(pair_key) * (1.0 + odds) >= odds:
        return -1
    return pick(weight, N_CANDIDATES, total * to_unit(key_of(pair_key, c.n_features)))
