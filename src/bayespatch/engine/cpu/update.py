"""The blocked update of a single case: its neighbors z, their features w and, in Model III, their influence kappa.

Given q-tilde, the cases are independent, so an engine may run `update_case` on threads or on several machines.

Arrays are passed one by one instead of in tuples, because Numba counts references whenever it takes an array out of a
tuple. Tuples (``layout``) are unpacked once per call of `update_cases`.
"""

from __future__ import annotations

import math

from bayespatch.engine.compiling import compiled
from bayespatch.engine.cpu.screen import bound_product, prepare_bound
from bayespatch.engine.cpu.weigh import (
    draw_features,
    draw_features_given_count,
    long_product,
    product_given_kappa,
    product_of_factors,
    weigh_counts,
)
from bayespatch.engine.streams import beta, key_of, open_stream, uniform
from bayespatch.engine.votes import (
    N_CANDIDATES,
    cast_votes,
    count_votes,
    label_ratio,
    pick,
    refresh_features,
    refresh_labels,
    vote_weight,
)


@compiled
def update_case(
    c, x, y, own_parent, x_parents, y_parents, feature, mu, importance,
    rng, slot, parent, bits, kappa, votes, class_votes, by_weight, label_factor, poly, prefix, candidate, weight,
    x_rough, parents_rough, windows_rough, on_rough, gain, lead, allowance,
    i, n, key,
):  # fmt: skip
    """One sweep over all parents of case i, with the stream named by `key`; returns its new number of neighbors.

    On entry and on return, the first n entries of `parent`, `bits` (w) and `kappa` are the neighbors, in any order, and
    `slot` has the position of each parent (-1: not a neighbor). The other arrays of the second line are scratch memory;
    the arrays of the third line belong to the bound (``screen.py``).
    """
    open_stream(rng, key)
    own = own_parent[i]
    size = x.shape[1]
    short = size <= c.chunk
    count_votes(
        c, x, y, x_parents, y_parents, feature, mu, parent, bits, kappa,
        votes, class_votes, by_weight, label_factor, i, n,
    )  # fmt: skip
    stale = True  # whether the votes have changed since the bound was prepared
    for b in range(x_parents.shape[0]):
        if b == own:
            continue
        m = y_parents[b]
        s = slot[b]
        current = -1.0
        if s >= 0:  # remove the neighbor with its votes; the last entry takes its place
            stale = True
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
                for word in range(bits.shape[1]):  # not as a row: Numba counts references to rows
                    bits[s, word] = bits[n, word]
                kappa[s] = kappa[n]
                slot[parent[s]] = s

        u = uniform(rng)
        if s < 0 and short:
            if stale:
                prepare_bound(c, mu, votes, class_votes, label_factor, gain, lead, allowance, y[i])
                stale = False
            bound = lead[m] * bound_product(x_rough, parents_rough, windows_rough, on_rough, gain, i, b)
            if bound < math.inf and u * (1.0 + bound) >= bound:  # an infinite or NaN bound rejects nothing
                continue
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
            # A bound with the largest R_j and H rejects most parents (H is monotone in k, H(0) = 1).
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
            k_on = pick(weight, c.n_features + 1, uniform(rng) * total)
            draw_features_given_count(c, x, x_parents, feature, importance, votes, prefix, bits, rng, i, b, n, k_on)
        else:
            # If z = 0, the conditional of kappa is its prior, so a non-neighbor's kappa is not stored but drawn here
            # as one of the candidates; the bound over all kappa has already rejected most parents.
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
            kappa[n] = candidate[pick(weight, N_CANDIDATES, uniform(rng) * total)]
            draw_features(c, x, x_parents, feature, importance, votes, bits, rng, i, b, n, kappa[n])

        stale = True
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
def update_cases(c, tables, importance, neighbors, work, rough, numbers, key, todo, first, last):
    """`update_case` for cases first..last-1 that are `todo`; cases whose result does not fit remain `todo`."""
    x, y, own_parent, x_parents, y_parents, feature, mu = tables
    n_entries, parent, bits, kappa = neighbors
    rng, slot, w_parent, w_bits, w_kappa, votes, class_votes, by_weight, label_factor, poly, prefix, cand, weight = work
    x_rough, parents_rough, windows_rough, on_rough, gain, lead, allowance = rough
    for i in range(first, last):
        if not todo[i]:
            continue
        n = n_entries[i]
        for s in range(n):
            w_parent[s] = parent[i, s]
            for word in range(w_bits.shape[1]):
                w_bits[s, word] = bits[i, s, word]
            slot[parent[i, s]] = s
            if c.kind == 3:
                w_kappa[s] = kappa[i, s]
        n = update_case(
            c, x, y, own_parent, x_parents, y_parents, feature, mu, importance,
            rng, slot, w_parent, w_bits, w_kappa, votes, class_votes, by_weight, label_factor, poly, prefix, cand,
            weight, x_rough, parents_rough, windows_rough, on_rough, gain, lead, allowance,
            i, n, key_of(key, numbers[i]),
        )  # fmt: skip
        fits = n <= parent.shape[1]
        if fits:
            n_entries[i] = n
            todo[i] = False
        for s in range(n):
            slot[w_parent[s]] = -1
            if fits:
                parent[i, s] = w_parent[s]
                for word in range(w_bits.shape[1]):
                    bits[i, s, word] = w_bits[s, word]
                if c.kind == 3:
                    kappa[i, s] = w_kappa[s]
