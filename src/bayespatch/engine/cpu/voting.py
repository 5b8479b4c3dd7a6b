"""Votes on new cases in Model I, given draws of q-tilde: a low-variance sampler of the neighbors of one case.

The blocked sweep of ``update.py`` decides for every parent in turn whether it is a neighbor. The sweep here replaces
each *neighbor* in turn. With neighbor k removed, let ``odds_b`` be the odds that parent b joins the others, with w_b
summed out (``update.py``). Two kinds of moves leave the posterior of the case invariant:

- *replace*: neighbor k becomes parent b with probability ``odds_b / sum odds``, the conditional of z given the others
  and given that exactly one more parent is a neighbor;
- *birth and death*: with probability 1/2 each, a parent drawn with probability proportional to its odds joins with
  probability ``min(1, sum odds / (n + 1))``, or one of the n neighbors, chosen uniformly, leaves with probability
  ``min(1, n / sum odds)``, where the sum excludes it. (Metropolis-Hastings: the ratio of the target, odds_b, cancels
  against the proposal, odds_b / sum odds.)

A replacement computes the probability that each parent takes the place of k. Votes use these probabilities, each place
given the others (Rao-Blackwell), so a draw is much less noisy. All odds are products of factors over features. They are
computed in single precision for all parents at once, feature by feature, so that vector instructions apply. Parents are
ordered by class, so that the votes for a class are the sum of a contiguous range.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.engine.compiling import compiled, inlined, vectorised
from bayespatch.engine.streams import key_of, open_stream, uniform
from bayespatch.engine.votes import MU, MU0, ONE

BIRTHS = 3  # proposed births or deaths per sweep
STEP = 32  # parents skipped at a time in the search for the chosen one
SMALL = 1e-30  # sums of odds below this are close to underflow in single precision


class Voters(NamedTuple):
    """The parents, ordered by class, and the constants of the model."""

    x: NDArray[np.float64]  # (P, S) NaN where missing
    start: NDArray[np.int64]  # (M + 1,) where the parents of each class begin
    windows: NDArray[np.float64]  # (P,)
    c1: float
    c2: NDArray[np.float64]  # (P,)
    lam: float
    mu: NDArray[np.float64]  # (2, M) mu and mu0
    label_c2: float
    one: float
    prior_odds: float


class Draws(NamedTuple):
    """Draws of the importances: C chains of D draws."""

    q: NDArray[np.float64]  # (C, D, P)
    q_tilde: NDArray[np.float32]  # (C, D, P, S) parents ordered by class; 0 where the parent's value is missing


class Places(NamedTuple):
    """The neighbors of n cases in C chains, up to a fixed capacity."""

    rng: NDArray[np.uint64]  # (n, C, 2)
    n: NDArray[np.int32]  # (n, C)
    parent: NDArray[np.int32]  # (n, C, K)
    bits: NDArray[np.uint64]  # (n, C, K) w


class SampledVotes(NamedTuple):
    """Sums over the draws; details have size 0 if not requested."""

    votes: NDArray[np.float64]  # (n, C, B, M) shares of the votes for each class, by batch of draws
    familiarity: NDArray[np.float64]  # (n, C) log likelihood of the case given its neighbors
    n_neighbors: NDArray[np.float64]  # (n, C)
    probability: NDArray[np.float64]  # (n, C, S) probability that the parent is a neighbor
    share: NDArray[np.float64]  # (n, C, S) the parent's share of all votes
    features: NDArray[np.float64]  # (n, C, P, S) probability that the parent is a neighbor with the feature on
    explained: NDArray[np.float64]  # (n, C, P) probability of the case's own value given its neighbors


class CaseBuffers(NamedTuple):
    """Scratch memory for one case."""

    agrees: NDArray[np.bool_]  # (P, S) whether the values agree
    signed: NDArray[np.float32]  # (P, S) q-tilde of the draw, negative where the values differ, to save half the memory
    observed: NDArray[np.bool_]  # (P,)
    agree: NDArray[np.float64]  # (P,) votes for the case's own value
    total: NDArray[np.float64]  # (P,) all votes on the feature
    gain: NDArray[np.float32]  # (2, P) R_j - 1 of a parent that differs, or agrees
    scale: NDArray[np.float32]  # (P,) 1 / (1 + q_j gain): keeps products within the range of single precision
    available: NDArray[np.float32]  # (S,) 1 where the parent may become a neighbor, else 0
    odds: NDArray[np.float32]  # (S,) up to a common factor
    logs: NDArray[np.float64]  # (S,) logs of the odds, if the odds are too small
    class_votes: NDArray[np.float64]  # (M,)
    by_class: NDArray[np.float64]  # (M,) cumulative odds
    lead: NDArray[np.float32]  # (M,) H of the label


@compiled
def blank_case(voters):
    n_features, n_parents = voters.x.shape
    n_classes = voters.mu.shape[1]
    return CaseBuffers(
        np.zeros((n_features, n_parents), np.bool_),
        np.zeros((n_features, n_parents), np.float32),
        np.zeros(n_features, np.bool_),
        np.zeros(n_features),
        np.zeros(n_features),
        np.zeros((2, n_features), np.float32),
        np.ones(n_features, np.float32),
        np.ones(n_parents, np.float32),
        np.zeros(n_parents, np.float32),
        np.zeros(n_parents),
        np.zeros(n_classes),
        np.zeros(n_classes),
        np.ones(n_classes, np.float32),
    )


@vectorised
def take_draw(case, q_tilde):
    """q-tilde of a draw, relative to the case."""
    for j in range(q_tilde.shape[0]):
        for b in range(q_tilde.shape[1]):
            case.signed[j, b] = q_tilde[j, b] if case.agrees[j, b] else -q_tilde[j, b]


@vectorised
def multiply_factors(signed, gain, scale, available, odds):
    """odds_b = available_b prod_j scale_j (1 + q~_bj gain_j), four features at a time: the innermost loop."""
    n_features, n_parents = signed.shape
    one, none = np.float32(1.0), np.float32(0.0)
    for b in range(n_parents):
        odds[b] = available[b]
    whole = n_features - n_features % 4
    for j in range(0, whole, 4):
        d0, d1, d2, d3 = -gain[0, j], -gain[0, j + 1], -gain[0, j + 2], -gain[0, j + 3]
        a0, a1, a2, a3 = gain[1, j], gain[1, j + 1], gain[1, j + 2], gain[1, j + 3]
        scaled = scale[j] * scale[j + 1] * scale[j + 2] * scale[j + 3]
        for b in range(n_parents):
            q0, q1, q2, q3 = signed[j, b], signed[j + 1, b], signed[j + 2, b], signed[j + 3, b]
            f0 = one + q0 * (a0 if q0 > none else d0)
            f1 = one + q1 * (a1 if q1 > none else d1)
            f2 = one + q2 * (a2 if q2 > none else d2)
            f3 = one + q3 * (a3 if q3 > none else d3)
            odds[b] *= scaled * (f0 * f1) * (f2 * f3)
    for j in range(whole, n_features):
        d, a, scaled = -gain[0, j], gain[1, j], scale[j]
        for b in range(n_parents):
            q0 = signed[j, b]
            odds[b] *= scaled * (one + q0 * (a if q0 > none else d))


@vectorised
def add_scaled(odds, factor, sums):
    for b in range(len(odds)):
        sums[b] += odds[b] * factor


@vectorised
def count_features(signed, gain, odds, total, features):
    """Add the probability that each parent takes the place with the feature on to `features` (P, S)."""
    n_features, n_parents = signed.shape
    one, none, whole = np.float32(1.0), np.float32(0.0), np.float32(1.0 / total)
    for j in range(n_features):
        d, a = gain[0, j], gain[1, j]
        for b in range(n_parents):
            q = abs(signed[j, b])
            more = q * (a if signed[j, b] > none else d)
            features[j, b] += odds[b] * whole * (q + more) / (one + more)


@vectorised
def stretch_sum(odds, first, last):
    part = odds[first:last]  # a slice, because an index that might be negative would prevent vectorization
    total = np.float32(0.0)
    for b in range(len(part)):
        total += part[b]
    return float(total)


@vectorised
def stretch_multiply(odds, first, last, factor):
    part = odds[first:last]
    for b in range(len(part)):
        part[b] *= factor


@compiled
def weigh_by_logs(voters, case):
    """Odds relative to the largest one, for cases that differ from all parents so much that products underflow; returns
    the log of the largest one. Prior odds are not included.

    """
    n_features, n_parents = case.signed.shape
    logs, top = case.logs, -math.inf
    for m in range(len(case.lead)):
        for b in range(voters.start[m], voters.start[m + 1]):
            logs[b] = -math.inf
            if case.available[b] > 0.0:
                logs[b] = math.log(case.lead[m])
                for j in range(n_features):
                    gain = case.gain[1, j] if case.agrees[j, b] else case.gain[0, j]
                    logs[b] += math.log(max(1.0 + abs(float(case.signed[j, b])) * float(gain), 1e-300))
            top = max(top, logs[b])
    if top == -math.inf:  # no parent may join
        return 0.0
    for b in range(n_parents):
        case.odds[b] = math.exp(logs[b] - top)
    return top


@compiled
def weigh_parents(voters, case, q, y):
    """Fill `case.odds` with the odds that each available parent joins, up to a factor; returns their sum with that
    factor.
    """
    lam = voters.lam
    factor, log_factor = voters.prior_odds, 0.0
    for j in range(len(q)):
        if not case.observed[j]:
            case.gain[0, j] = 0.0
            case.gain[1, j] = 0.0
            case.scale[j] = 1.0
            continue
        a = voters.c1 + lam * case.agree[j]
        t = voters.c2[j] + lam * case.total[j]
        part = lam / (a * (t + lam))
        more = (t - a) * part
        case.gain[0, j] = -a * part
        case.gain[1, j] = more
        usual = 1.0 + q[j] * max(0.0, more)
        case.scale[j] = 1.0 / usual
        factor *= usual
        if factor > 1e200:  # take the log rarely because it is slow, but before the product overflows
            log_factor += math.log(factor)
            factor = 1.0
    if y >= 0:
        agreeing = voters.one + voters.mu[MU0, y] + voters.mu[MU, y] * case.class_votes[y]
        all_votes = voters.label_c2
        for m in range(voters.mu.shape[1]):
            all_votes += voters.mu[MU, m] * case.class_votes[m]
        for m in range(voters.mu.shape[1]):
            vote = voters.mu[MU, m]
            case.lead[m] = (agreeing + (vote if m == y else 0.0)) * all_votes / (agreeing * (all_votes + vote))
    multiply_factors(case.signed, case.gain, case.scale, case.available, case.odds)
    if y >= 0:
        for m in range(voters.mu.shape[1]):
            stretch_multiply(case.odds, voters.start[m], voters.start[m + 1], case.lead[m])
    total = sum_by_class(voters, case)
    if total < SMALL:
        factor, log_factor = voters.prior_odds, weigh_by_logs(voters, case)
        total = sum_by_class(voters, case)
    return total * factor if log_factor == 0.0 else total * math.exp(log_factor + math.log(factor))


@inlined
def sum_by_class(voters, case):
    total = 0.0
    for m in range(voters.mu.shape[1]):
        case.by_class[m] = stretch_sum(case.odds, voters.start[m], voters.start[m + 1])
        total += case.by_class[m]
    return total


@compiled
def choose_parent(voters, case, rng):
    """Draw a parent with probability proportional to the odds: first its class, then the parent within the class."""
    total = 0.0
    for m in range(len(case.by_class)):
        total += case.by_class[m]
    u = uniform(rng) * total
    chosen = -1
    for m in range(len(case.by_class)):
        if case.by_class[m] > 0.0:
            chosen = m
            if u < case.by_class[m]:
                break
            u -= case.by_class[m]
    u = uniform(rng) * case.by_class[chosen]
    first, end = voters.start[chosen], voters.start[chosen + 1]
    while first + STEP < end:  # skip whole strides, whose sums are accurate enough, then search within a stride
        part = exact_sum(case.odds, first, first + STEP)
        if u < part:
            break
        u -= part
        first += STEP
    for b in range(first, end):
        u -= case.odds[b]
        if u < 0.0:
            return b
    last = end - 1  # because of rounding, the search has passed the last parent that can be chosen
    while case.odds[last] <= 0.0:
        last -= 1
    return last


@vectorised
def exact_sum(odds, first, last):
    """The sum in double precision."""
    total = 0.0
    for b in range(first, last):
        total += float(odds[b])
    return total


@inlined
def class_of(voters, b):
    m = 0
    while voters.start[m + 1] <= b:
        m += 1
    return m


@compiled
def take_place(voters, case, rng, b):
    """Make parent b a neighbor: draw its w and count its votes; returns w."""
    word = np.uint64(0)
    for j in range(case.signed.shape[0]):
        q = abs(case.signed[j, b])
        on = q * (1.0 + (case.gain[1, j] if case.agrees[j, b] else case.gain[0, j]))
        if uniform(rng) * (1.0 - q + on) < on:
            word |= ONE << np.uint64(j)
    cast_votes(voters, case, b, word, 1.0)
    case.available[b] = 0.0
    return word


@compiled
def cast_votes(voters, case, b, word, k):
    """Add the votes of parent b; k = -1 removes them."""
    for j in range(len(case.agree)):
        if (word >> np.uint64(j)) & ONE:
            case.total[j] += k
            if case.agrees[j, b]:
                case.agree[j] += k
    case.class_votes[class_of(voters, b)] += k


@compiled
def count_replacement(voters, case, detail, i, chain, batch, n):
    """Count the votes of the empty place, using each parent's probability of taking it; there are n places in total.

    Returns the share of one base vote.
    """
    total = 0.0
    cast = voters.label_c2 - voters.one
    for m in range(voters.mu.shape[1]):
        cast += voters.mu[MU, m] * case.class_votes[m]
        total += case.by_class[m]
    base = 0.0
    for m in range(voters.mu.shape[1]):
        p = case.by_class[m] / total
        all_votes = cast + voters.mu[MU, m]
        detail.votes[i, chain, batch, m] += p * voters.mu[MU, m] / all_votes
        base += p / (all_votes * n)
        if detail.probability.shape[2] > 0:
            first, last = voters.start[m], voters.start[m + 1]
            odds = case.odds[first:last]
            add_scaled(odds, 1.0 / total, detail.probability[i, chain, first:last])
            add_scaled(odds, voters.mu[MU, m] / (all_votes * total), detail.share[i, chain, first:last])
    if detail.features.shape[2] > 0:
        count_features(case.signed, case.gain, case.odds, total, detail.features[i, chain])
    return base


@compiled
def count_case(voters, case, y, detail, i, chain, n):
    """Add the statistics of the case given its current neighbors."""
    log, product = 0.0, 1.0
    for j in range(len(case.agree)):
        p = 1.0
        if case.observed[j]:
            p = (voters.c1 + voters.lam * case.agree[j]) / (voters.c2[j] + voters.lam * case.total[j])
            product *= p
            if product < 1e-200:
                log += math.log(product)
                product = 1.0
        if detail.explained.shape[2] > 0:
            detail.explained[i, chain, j] += p
    if y >= 0:
        cast = voters.label_c2
        for m in range(voters.mu.shape[1]):
            cast += voters.mu[MU, m] * case.class_votes[m]
        log += math.log((voters.one + voters.mu[MU0, y] + voters.mu[MU, y] * case.class_votes[y]) / cast)
    detail.familiarity[i, chain] += log + math.log(product)
    detail.n_neighbors[i, chain] += n


@compiled
def sweep_case(voters, case, q, y, rng, parent, bits, n, detail, i, chain, batch, counting):
    """Replace every neighbor in turn, then make a few births and deaths; returns the number of neighbors."""
    base = 0.0
    for k in range(n):
        cast_votes(voters, case, parent[k], bits[k], -1.0)
        case.available[parent[k]] = 1.0
        weigh_parents(voters, case, q, y)
        if counting:
            base += count_replacement(voters, case, detail, i, chain, batch, n)
        parent[k] = choose_parent(voters, case, rng)
        bits[k] = take_place(voters, case, rng, parent[k])
    if counting:
        if n == 0:
            base = 1.0 / (voters.label_c2 - voters.one)
        for m in range(voters.mu.shape[1]):
            detail.votes[i, chain, batch, m] += base * voters.mu[MU0, m]
        count_case(voters, case, y, detail, i, chain, n)
    for _ in range(BIRTHS):
        if uniform(rng) < 0.5:
            if n == len(parent):
                continue
            total = weigh_parents(voters, case, q, y)
            if uniform(rng) * (n + 1) < total:
                # Insert at a random place, which is the reverse of a death: a sweep visits the places in order, so the
                # order must not depend on the neighbors.
                k = min(int(uniform(rng) * (n + 1)), n)
                parent[n], bits[n] = parent[k], bits[k]
                parent[k] = choose_parent(voters, case, rng)
                bits[k] = take_place(voters, case, rng, parent[k])
                n += 1
        elif n > 0:
            k = min(int(uniform(rng) * n), n - 1)
            b = parent[k]
            cast_votes(voters, case, b, bits[k], -1.0)
            case.available[b] = 1.0
            total = weigh_parents(voters, case, q, y)
            if uniform(rng) * total < n:
                n -= 1
                parent[k] = parent[n]
                bits[k] = bits[n]
            else:
                cast_votes(voters, case, b, bits[k], 1.0)
                case.available[b] = 0.0
    return n


@compiled
def find_first(voters, case, q, y, rng, parent, bits):
    """Initialize with the expected number of neighbors, one after another: births and deaths alone would take long."""
    n_available = 0
    for b in range(len(case.available)):
        n_available += case.available[b] > 0.0
    n_first = min(int(n_available * voters.prior_odds / (1.0 + voters.prior_odds) + 0.5), len(parent))
    for k in range(n_first):
        weigh_parents(voters, case, q, y)
        parent[k] = choose_parent(voters, case, rng)
        bits[k] = take_place(voters, case, rng, parent[k])
    return n_first


@compiled
def vote_on_case(voters, draws, case, x, y, own, excluded, used, batches, settling, places, sums, i, chain):
    """The votes on case i for the draws `used` of one chain, starting from its neighbors after the last call.

    `own`: the parent that is the case itself, -1: none; `excluded` (S,): other parents that may not vote, or empty.
    `batches`: the batch of each draw. `settling`: the number of sweeps before the first one that counts, 0 if the case
    has neighbors from an earlier call.
    """
    n_features, n_parents = voters.x.shape
    case.available[:] = 1.0
    if own >= 0:
        case.available[own] = 0.0
    for b in range(len(excluded)):
        if excluded[b]:
            case.available[b] = 0.0
    n_available = 0
    for b in range(n_parents):
        n_available += case.available[b] > 0.0
    for j in range(n_features):
        case.observed[j] = not math.isnan(x[j])
        for b in range(n_parents):
            case.agrees[j, b] = abs(x[j] - voters.x[j, b]) <= voters.windows[j]
    case.agree[:] = 0.0
    case.total[:] = 0.0
    case.class_votes[:] = 0.0
    case.lead[:] = 1.0
    parent = places.parent[i, chain, : min(places.parent.shape[2], n_available)]
    bits = places.bits[i, chain]
    n = places.n[i, chain]
    for k in range(n):
        cast_votes(voters, case, parent[k], bits[k], 1.0)
        case.available[parent[k]] = 0.0
    rng = places.rng[i, chain]
    if settling > 0 and n == 0:
        take_draw(case, draws.q_tilde[chain, used[0]])
        n = find_first(voters, case, draws.q[chain, used[0]], y, rng, parent, bits)
    for step in range(-settling, len(used)):
        d = used[max(step, 0)]
        if step > 0 or step == -settling:
            take_draw(case, draws.q_tilde[chain, d])
        n = sweep_case(
            voters, case, draws.q[chain, d], y, rng, parent, bits, n, sums, i, chain, batches[max(step, 0)], step >= 0
        )
    places.n[i, chain] = n


@compiled
def vote_on_cases(voters, draws, x, y, own, excluded, used, batches, settling, places, sums, todo, first, last):
    """`vote_on_case` for pairs first..last-1 of cases and chains: pair t is case todo[t // C] in chain t % C."""
    case = blank_case(voters)
    n_chains = draws.q.shape[0]
    for t in range(first, last):
        i = todo[t // n_chains]
        vote_on_case(
            voters, draws, case, x[i], y[i], own[i], excluded[i], used, batches, settling, places, sums, i, t % n_chains
        )


@compiled
def open_streams(places, key, numbers):
    """Open a stream for each case and chain, which depends on the number of the case but not on the other predicted
    cases.
    """
    for i in range(places.rng.shape[0]):
        for chain in range(places.rng.shape[1]):
            open_stream(places.rng[i, chain], key_of(key_of(key, chain), numbers[i]))
