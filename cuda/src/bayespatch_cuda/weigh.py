"""The odds that a parent is a neighbor of a case, on a GPU; for the definitions, see ``cpu/weigh.py``.

Each thread handles one parent in single precision. The relative error in the odds of a pair is about 1e-6, because the
rounded factors, ``f_j = 1 + q~ (R_j - 1)``, are close to 1. A random number is compared with the odds in two steps: its
first 24 bits reject most pairs; otherwise all 53 bits decide in double precision, so that small odds are not rounded.
In Models II and III, an upper bound rejects most parents; otherwise, the threads of the group weigh the pair together.
In Model II, each k takes O(P^2) steps independently, so each thread handles one k. Once k is chosen, each thread
handles one coefficient of the polynomial of k and determines, for each remaining number of features, whether the next
feature is on. In Model III, each thread handles a candidate for kappa and a feature.

Every pair has separate random numbers, derived from its key, so threads can draw them independently.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.engine.streams import beta, key_of, open_stream, to_unit
from bayespatch.engine.votes import (
    AGREE,
    AGREES,
    DIFFERS,
    N_CANDIDATES,
    OFF,
    ON,
    TOTAL,
    VOTE_OFF,
    VOTE_ON,
    label_ratio,
    pick,
)
from bayespatch_cuda.compiling import inlined
from bayespatch_cuda.layout import BIT, bit, in_word

ZERO, UNIT = np.float32(0.0), np.float32(1.0)
TO_UNIT_24 = np.float32(2.0**-24)
TINY = np.float32(1e-37)  # more than the loss of single precision from underflow of four numbers
CEILING = np.float32(1e30)  # odds above this are practically certain
STEP, LOG_STEP = np.float32(2.0**50), 50.0 * math.log(2.0)  # single precision ranges from 2^-126 to 2^128
MARGIN = np.float32(1.0 + 1e-5)  # larger than the rounding error of a bound in single precision


@inlined
def factors(chance, own, case, start, first, count, group):
    """prod_j (1 + q~ (R_j - 1)) over `count` features of a word, from `first` on: the innermost loop of the program.

    `count` is a constant, so that the compiler unrolls the loop and all loads are in flight at once.
    """
    same = own.same[first >> 5] >> np.uint32(first & 31)
    product = UNIT
    for j in range(count):
        gain = case.gain[np.uint64(first + j), (same >> np.uint32(j)) & BIT]
        product *= UNIT + chance[start + np.uint64((first + j) * group)] * gain
    return product


@inlined
def largest_odds(c, chance, own, case, label, start, group, part):
    """Odds of a parent at the largest R and H: the exact odds in Model I, and an upper bound in Models II and III.

    `start`: the start of its `chance`. The product of `part` factors is between 1/STEP and STEP; powers of STEP are
    factored out after each part, so that the product never leaves the range of single precision.
    """
    size = case.gain.shape[0]
    rest = size % part
    product, power, first = UNIT, 0, 0
    while first < size - rest:  # a for loop over a range would not be unrolled
        product *= factors(chance, own, case, start, first, part, group)
        if product > STEP:
            product *= UNIT / STEP
            power += 1
        elif product < UNIT / STEP:
            product *= STEP
            power -= 1
        first += part
    if rest > 0:
        product *= factors(chance, own, case, start, size - rest, rest, group)
    if power == 0:
        return min(np.float32(c.prior_odds) * label * product, CEILING)
    taken_out = math.exp(max(-600.0, min(power * LOG_STEP, 600.0)))
    return np.float32(min(c.prior_odds * label * product * taken_out, float(CEILING)))


@inlined
def turned_down(odds, bits):
    """Whether the first 24 random bits suffice to reject."""
    u = np.float32(np.uint32(bits >> np.uint64(40))) * TO_UNIT_24
    return u * (UNIT + odds) >= odds * MARGIN


@inlined
def accepted(odds, bits):
    """Whether all random bits together accept."""
    odds = float(odds)
    return to_unit(bits) * (1.0 + odds) < odds


@inlined
def product_of(factor, n):
    """The product of n numbers, at most e^600, even if intermediate products leave the range of a double."""
    product = 1.0
    log = 0.0
    for j in range(n):
        product *= factor[j]
        if product > 1e200 or product < 1e-200:
            log += math.log(product)
            product = 1.0
    return product if log == 0.0 else math.exp(min(log + math.log(product), 600.0))


@inlined
def is_on(kind, c, table, importance, case, change, i, b, j, k, u):
    """Draw w of feature j of parent b, which votes with weight k, with a uniform number (Models I and III)."""
    off = importance.double[OFF, b, j]
    on = importance.double[ON, b, j]
    if in_word(table.votes[j >> 5, b], j):
        if kind == 1:
            on *= 1.0 + case.gain[j, AGREES if bit(change.same, j) else DIFFERS]
        elif in_word(table.observed[j >> 5, i], j):
            off *= 1.0 + c.lam * k / (table.c2[j] + c.lam * case.votes[TOTAL, j])
            if bit(change.same, j):
                on *= 1.0 + c.lam * k / (c.c1 + c.lam * case.votes[AGREE, j])
    return u * (off + on) < on


class Pair(NamedTuple):
    """A case and a parent: C_k is the coefficient of t^k in prod_j (off_j + on_j R_j(k) t).

    Each factor is divided by its value at the largest R (as in `largest_odds`) to prevent overflow. All fields have
    shape (P,) and type float32.
    """

    off: NDArray[np.float32]
    on: NDArray[np.float32]
    total: NDArray[np.float32]  # T_j
    gain: NDArray[np.float32]  # 1/A_j if the values agree, else 0
    counts: NDArray[np.float32]  # 1, or 0 if a value is missing, so that R_j is 1
    scale: NDArray[np.float32]  # the divisor of the factor


@inlined
def ratio_of(pair, j, strength):
    """R_j at lam k = `strength`."""
    strength *= pair.counts[j]
    total = pair.total[j]
    return total / (total + strength) * (UNIT + strength * pair.gain[j])


@inlined
def prepare_feature(c, table, importance, case, change, pair, i, b, j):
    """Prepare feature j of the pair of case i and parent b."""
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
    """C_k H(k); `label`: the class. The inner loop covers all degrees, so that `poly` (P + 1,) stays in registers."""
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
    """The number of features that are on if the parent becomes a neighbor; -1 if it does not."""
    total = 0.0
    for k in range(weight.shape[0]):
        total += weight[k]
    odds = c.prior_odds * total * product_of(pair.scale, c.n_features)
    if to_unit(pair_key) * (1.0 + odds) >= odds:
        return -1
    return pick(weight, weight.shape[0], total * to_unit(key_of(pair_key, c.n_features)))


@inlined
def prepare_count(c, pair, pair_key, j, k):
    """Prepare feature j after the choice of k: `off` and `on` are probabilities, and `scale` is a uniform number."""
    off = pair.off[j]
    on = pair.on[j] * ratio_of(pair, j, np.float32(c.lam) * np.float32(k))
    pair.off[j] = off / (off + on)
    pair.on[j] = on / (off + on)
    pair.scale[j] = np.float32(to_unit(key_of(pair_key, j)))


@inlined
def next_coefficient(pair, poly, j, degree):
    """The coefficient of t^degree with feature j included, and whether j is on if `degree` of these features are on."""
    below = poly[degree - 1] * pair.on[j] if degree > 0 else ZERO
    here = poly[degree] * pair.off[j] + below
    return here, pair.scale[j] * here < below


@inlined
def draw_kappa(c, rng, pair_key, r):
    """Model III: draw candidate r for kappa."""
    own_key = key_of(pair_key, c.n_features + 1 + r)
    if c.tau == 1.0 and c.sigma3 == 1.0:
        return 1.0 - to_unit(own_key)
    open_stream(rng, own_key)
    return beta(rng, c.tau, c.sigma3)


@inlined
def likely_odds(c, chance, own, case, label, start, group, bound):
    """Model III: the odds of a parent with its candidates for kappa, in single precision and slightly too large.

    `label`: its class. `bound`: the largest odds. Each factor is divided by its largest value to prevent overflow.
    """
    for r in range(N_CANDIDATES):
        below = UNIT / (UNIT - case.label_slope[DIFFERS, label] * own.candidate[r])
        own.product[r] = (UNIT + case.label_slope[AGREES, label] * own.candidate[r] * below) / case.label[label]
    for j in range(case.gain.shape[0]):
        same = AGREES if bit(own.same, j) else DIFFERS
        on = chance[start + np.uint64(j * group)]
        differs, slope = case.slope[DIFFERS, j], on * case.slope[same, j]
        share = UNIT / (UNIT + on * case.gain[j, same])
        for r in range(N_CANDIDATES):
            kappa = own.candidate[r]
            own.product[r] *= share + share * slope * kappa * (UNIT / (UNIT - differs * kappa))
    total = TINY
    for r in range(N_CANDIDATES):
        total += own.product[r]
    return bound * total * np.float32(1.001 / N_CANDIDATES) if bound < CEILING else CEILING


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
    """Model III: H(kappa) prod_j f_j(kappa), with a product of at most e^600."""
    product = product_of(factor[r], c.n_features)
    return product * label_ratio(c, table.mu, case.class_votes, table.y[i], table.y_parents[b], kappa)


@inlined
def choose_kappa(c, weight, pair_key):
    """Model III: the candidate with which the parent becomes a neighbor; -1 if it does not."""
    total = 0.0
    for r in range(N_CANDIDATES):
        total += weight[r]
    odds = c.prior_odds * total / N_CANDIDATES
    if to_unit(pair_key) * (1.0 + odds) >= odds:
        return -1
    return pick(weight, N_CANDIDATES, total * to_unit(key_of(pair_key, c.n_features)))
