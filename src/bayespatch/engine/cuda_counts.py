"""Model II on a GPU: the sum over how many features of a parent are on, and w given that number.

One k takes O(P^2) steps and needs no other, so the threads of a group take one k each of the pair that they weigh
(``cuda_kernels.py``). Once k is chosen they take a coefficient of its polynomial each, and learn for every number of
features still to be on whether the next one is.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bayespatch.engine.cuda_case import UNIT, ZERO, bit, in_word, pick, product_of
from bayespatch.engine.streams import inlined, key_of, to_unit
from bayespatch.engine.votes import AGREE, AGREES, DIFFERS, OFF, ON, TOTAL


class Pair(NamedTuple):
    """A case and a parent: C_k is the coefficient of t^k in prod_j (off_j + on_j R_j(k) t).

    Each factor is divided by its value at the largest R (as in `largest_odds`), so that nothing overflows. All (P,)
    float32.
    """

    off: Any
    on: Any
    total: Any  # T_j
    gain: Any  # 1/A_j where the two agree, else 0
    counts: Any  # 1, or 0 where a value is missing and R_j is 1
    scale: Any  # what the factor was divided by


@inlined
def ratio_of(pair, j, strength):
    """R_j at lam k = `strength`."""
    strength *= pair.counts[j]
    total = pair.total[j]
    return total / (total + strength) * (UNIT + strength * pair.gain[j])


@inlined
def prepare_feature(c, table, importance, case, change, pair, i, b, j):
    """Feature j of a pair, case i and parent b."""
    lam = np.float32(c.lam)
    same = bit(change.same, j)
    pair.total[j] = np.float32(table.c2[j]) + lam * np.float32(case.votes[TOTAL, j])
    pair.gain[j] = UNIT / (np.float32(c.c1) + lam * np.float32(case.votes[AGREE, j])) if same else ZERO
    pair.counts[j] = UNIT if in_word(table.votes[j >> 5, b] & table.observed[j >> 5, i], j) else ZERO
    off = np.float32(importance.double[OFF, b, j])
    on = np.float32(importance.double[ON, b, j])
    scale = off + on * ratio_of(pair, j, lam * np.float32(c.n_features) if same else lam)
    pair.scale[j] = scale
    pair.off[j] = off / scale
    pair.on[j] = on / scale


@inlined
def weight_of_count(c, case, pair, poly, label, k):
    """C_k H(k); `label`: the class. The inner loop runs over all degrees, so that `poly` (P + 1,) lies in registers."""
    for degree in range(poly.shape[0]):
        poly[degree] = ZERO
    poly[0] = UNIT
    strength = np.float32(c.lam) * np.float32(k)
    for j in range(c.n_features):
        off = pair.off[j]
        on = pair.on[j] * ratio_of(pair, j, strength)
        below = ZERO
        for degree in range(poly.shape[0]):
            here = poly[degree]
            poly[degree] = here * off + below * on
            below = here
    weight = ZERO
    for degree in range(poly.shape[0]):
        weight += poly[degree] * np.float32(degree == k)
    vote = np.float32(k)
    h = UNIT + case.label_slope[AGREES, label] * vote / (UNIT - case.label_slope[DIFFERS, label] * vote)
    return weight * h


@inlined
def choose_count(c, pair, weight, pair_key):
    """How many features are on if the pair become neighbors, -1: they do not."""
    total = 0.0
    for k in range(weight.shape[0]):
        total += weight[k]
    odds = c.prior_odds * total * product_of(pair.scale, c.n_features)
    if to_unit(pair_key) * (1.0 + odds) >= odds:
        return -1
    return pick(weight, weight.shape[0], total * to_unit(key_of(pair_key, c.n_features)))


@inlined
def prepare_count(c, pair, pair_key, j, k):
    """Feature j, once k is chosen: `off` and `on` are chances, and `scale` is a uniform number."""
    off = pair.off[j]
    on = pair.on[j] * ratio_of(pair, j, np.float32(c.lam) * np.float32(k))
    pair.off[j] = off / (off + on)
    pair.on[j] = on / (off + on)
    pair.scale[j] = np.float32(to_unit(key_of(pair_key, j)))


@inlined
def next_coefficient(pair, poly, j, degree):
    """The coefficient of t^degree with feature j among the factors, and whether j is on if `degree` of those are."""
    below = poly[degree - 1] * pair.on[j] if degree > 0 else ZERO
    here = poly[degree] * pair.off[j] + below
    return here, pair.scale[j] * here < below
