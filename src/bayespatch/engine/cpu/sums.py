"""One feature of one case with its w summed out: p(x_ij | z_i, q~), and a new draw of w_i:j.

In Model I all neighbors vote with weight 1, in Models II and III with weights k_b; the sum over w_i:j becomes a sum
over the nodes or rates of ``quadrature.py``. In Model II, k_b is one more than the number of the *other* w_ib that are
on; but w_ibj also changes the weight of b's votes on the other features and on the label. The log likelihood of these
is linearized in w_i:j, which gives a factor for each w that is on (`find_tilt`). The proposal draws w_i:j from this
approximation, and the acceptance ratio corrects for the nonlinear remainder (`log_others`).

`parent` (C,), `bits` (C, words) and `kappa` (C,) are the entries of one case, of which n are used.
"""

from __future__ import annotations

import math

from bayespatch.engine.compiling import compiled, inlined, vectorised_inline
from bayespatch.engine.quadrature import with_entry, with_weighted_entry
from bayespatch.engine.streams import key_of, open_stream, uniform
from bayespatch.engine.votes import (
    AGREE,
    C2,
    CASE_MISSING,
    LOGS,
    OFF,
    ON,
    PARENT_MISSING,
    TOTAL,
    VOTE_ON,
    WINDOW,
    agrees,
    cast_votes,
    feature_change,
    is_on,
    label_change,
    label_slope,
    n_on,
    pick,
    set_bit,
    slope_of_features,
)


@inlined
def load_rows(x, x_parents, feature, importance, parent, on, agreeing, i, n):
    """Model I: q~ of all features of the entries for votes, and q~ of the features that agree; stored twice, side by
    side.
    """
    width = x.shape[1]
    for s in range(n):
        b = parent[s]
        for j in range(width):
            vote = importance[VOTE_ON, b, j]
            on[s, j] = vote
            agreeing[s, j] = vote if abs(x_parents[b, j] - x[i, j]) <= feature[WINDOW, j] else 0.0
        for j in range(width):
            on[s, width + j] = on[s, j]
            agreeing[s, width + j] = agreeing[s, j]


@vectorised_inline
def pass_entries(on, agreeing, place, base, copied, n):
    """Model I: G and C of all columns: all features at one node, then at the next one."""
    for j in range(place.shape[0]):
        base[j] = 1.0
        copied[j] = 0.0
    for s in range(n):
        on_s, agreeing_s = on[s], agreeing[s]
        for j in range(place.shape[0]):
            base[j], copied[j] = with_entry(base[j], copied[j], place[j] - 1.0, on_s[j], agreeing_s[j])


@compiled
def likelihood_of_features(
    c, x, x_parents, feature, importance, parent, place, weight, on, agreeing, base, copied, total, likelihood,
    first, last, i, n,
):  # fmt: skip
    """Model I: p(x_ij | z_i, q~) for all features at once; 1 if x_ij is missing.

    Features are contiguous for vector instructions, and two nodes are processed at once to use more lanes. On a GPU,
    each thread handles one feature and needs no memory (``cuda/sums.py``).
    """
    width = x.shape[1]
    load_rows(x, x_parents, feature, importance, parent, on, agreeing, i, n)
    total[:] = 0.0
    for pair in range(first // 2, last // 2):
        pass_entries(on, agreeing, place[pair], base, copied, n)
        for j in range(2 * width):
            total[j] += weight[pair, j] * (c.c1 * base[j] + c.lam * place[pair, j] * copied[j])
    for j in range(likelihood.shape[0]):
        likelihood[j] = 1.0 if x[i, j] == CASE_MISSING else total[j] + total[width + j]


@compiled
def weigh_features(
    c, x, x_parents, feature, importance, parent, place, weight, on, agreeing, base, copied, terms, chance,
    first, last, i, n,
):  # fmt: skip
    """Model I: cumulative sums of W c1 G and W lam C of all features over nodes first..last-1, in the rows of `terms`,
    of which the first is 0; and q~ of the entries in `chance`, even if they do not vote.
    """
    load_rows(x, x_parents, feature, importance, parent, on, agreeing, i, n)
    for s in range(n):
        for j in range(chance.shape[1]):
            chance[s, j] = importance[ON, parent[s], j]
    for pair in range(first // 2, last // 2):
        pass_entries(on, agreeing, place[pair], base, copied, n)
        r = 2 * pair - first
        for j in range(terms.shape[1]):
            terms[r + 1, j] = terms[r, j] + weight[pair, j] * c.c1 * base[j]
            terms[r + 2, j] = terms[r + 1, j] + weight[pair, j] * c.lam * place[pair, j] * copied[j]


@inlined
def pick_node(terms, u, n_nodes, j):
    """Model I: choose the node, and whether the value was copied, with a uniform number and without branches."""
    width = terms.shape[1] // 2
    u *= terms[n_nodes, j] + terms[n_nodes, width + j]
    second = int(u >= terms[n_nodes, j])  # of each two nodes
    u -= second * terms[n_nodes, j]
    below = 0
    for r in range(1, n_nodes):
        below += int(u >= terms[r, second * width + j])
    return below - below % 2 + second, below % 2 == 1


@inlined
def take_feature(c, chance, on_rows, agreeing, on, off, vote, row, j, n):
    """Model I: feature j of the entries, in the form that `draw_w` expects."""
    for s in range(n):
        row[s] = j
        on[s] = chance[s, j]
        off[s] = 1.0 - chance[s, j]
        vote[s] = c.lam if agreeing[s, j] > 0.0 else 0.0
        if on_rows[s, j] != chance[s, j]:
            vote[s] = -1.0


@inlined
def load_weights(c, bits, kappa, decay, rate, k, row, first, last, j, n):
    """Models II and III: the weight k of each entry's vote on feature j if it votes, and its row of `decay`.

    In Model II, row k belongs to weight k and is filled once; in Model III, row s belongs to entry s and is filled here
    for rates first..last-1.
    """
    for s in range(n):
        if c.kind == 2:
            k[s] = float(n_on(bits, s) - is_on(bits, s, j) + 1)
            row[s] = int(k[s])
            continue
        k[s] = kappa[s]
        row[s] = s
        for r in range(first, last):
            decay[s, r] = math.exp(-c.lam * kappa[s] * rate[r])


@inlined
def load_entries(c, x, x_parents, feature, importance, parent, k, tilt, on, off, vote, i, j, n):
    """Models II and III: the prior probabilities that each w_ibj is on and off, without x_ij, and its vote for x_ij if
    on: lam k, or 0 if b does not agree. A negative vote means no vote, because one of the values is missing.
    """
    for s in range(n):
        b = parent[s]
        on[s] = importance[ON, b, j] * tilt[s]
        off[s] = importance[OFF, b, j]
        vote[s] = c.lam * k[s] if agrees(x, x_parents, feature, i, b, j) else 0.0
        if x[i, j] == CASE_MISSING or x_parents[b, j] == PARENT_MISSING:
            vote[s] = -1.0


@vectorised_inline
def add_entry(on, off, vote, decay, base, copied):
    """G and C with one more entry, all rates side by side (``quadrature.py``)."""
    for r in range(base.shape[0]):
        base[r], copied[r] = with_weighted_entry(base[r], copied[r], decay[r], on, off, vote)


@compiled
def weigh_rates(c, decay, row, weight, on, off, vote, base, copied, chosen, first, last, j, n):
    """Models II and III: fill `chosen` with W c1 G and W C of rates first..last-1; returns their sum,
    p(x_ij | z_i, q~).
    """
    base, copied, weight = base[: last - first], copied[: last - first], weight[j, first:last]
    for r in range(len(base)):
        base[r] = 1.0
        copied[r] = 0.0
    for s in range(n):
        if vote[s] >= 0.0:
            add_entry(on[s], off[s], vote[s], decay[row[s], first:last], base, copied)
    total = 0.0
    for r in range(len(base)):
        chosen[2 * r] = weight[r] * c.c1 * base[r]
        chosen[2 * r + 1] = weight[r] * copied[r]
        total += chosen[2 * r] + chosen[2 * r + 1]
    return total


@inlined
def pick_rate(chosen, u, n_rates):
    """Models II and III: choose the rate, and whether the value was copied, with u between 0 and the sum of weights."""
    drawn = pick(chosen, 2 * n_rates, u)
    return drawn // 2, drawn % 2 == 1


@inlined
def draw_w(decay, row, on, off, vote, sources, fresh, rng, node, copied, n):
    """Draw w_i:j given z and q~ into `fresh`, given the node (negative if x_ij is missing) and whether x_ij comes from
    the base rate or was copied from an agreeing neighbor. Choose the source; given the source, the w are independent,
    and w of the source is on. `on` is overwritten.
    """
    if node >= 0:
        for s in range(n):
            on[s] *= decay[row[s], node] if vote[s] >= 0.0 else 1.0
    for s in range(n):
        on[s] /= off[s] + on[s]
    source = -1
    if copied:
        total = 0.0
        for s in range(n):
            sources[s] = max(vote[s], 0.0) * on[s]
            total += sources[s]
        source = pick(sources, n, uniform(rng) * total)
    for s in range(n):
        fresh[s] = (uniform(rng) < on[s]) | (s == source)


@compiled
def count_all_votes(c, tables, neighbors, kept, kept_classes, first, last):
    """Model II: the votes on each case, kept[i, 0], and the number of voting entries, kept[i, 1]; the same by class."""
    x, _, _, x_parents, y_parents, feature, _ = tables
    n_entries, parent, bits, _ = neighbors
    for i in range(first, last):
        kept_i, classes_i, bits_i = kept[i], kept_classes[i], bits[i]
        kept_i[:] = 0.0
        classes_i[:] = 0.0
        for s in range(n_entries[i]):
            b = parent[i, s]
            k = float(n_on(bits_i, s))
            cast_votes(c, x, x_parents, feature, kept_i[0], bits_i, i, b, s, k)
            cast_votes(c, x, x_parents, feature, kept_i[1], bits_i, i, b, s, 1.0)
            classes_i[0, y_parents[b]] += k
            classes_i[1, y_parents[b]] += 1.0


@compiled
def find_tilt(
    c, x, y, x_parents, y_parents, feature, mu, parent, bits, kept, kept_classes, votes, class_votes, log_tilt, tilt,
    i, j, n,
):  # fmt: skip
    """Model II: tilt[s], the factor by which one more vote of entry s on everything except x_ij changes the likelihood,
    to first order around w_i:j = 1/2 (so it does not depend on w_i:j); and its logarithm.
    """
    for f in range(x.shape[1]):
        votes[0, AGREE, f] = kept[0, AGREE, f] + 0.5 * kept[1, AGREE, f]
        votes[0, TOTAL, f] = kept[0, TOTAL, f] + 0.5 * kept[1, TOTAL, f]
    for m in range(class_votes.shape[1]):
        class_votes[0, m] = kept_classes[0, m] + 0.5 * kept_classes[1, m]
    for s in range(n):
        if is_on(bits, s, j):
            cast_votes(c, x, x_parents, feature, votes[0], bits, i, parent[s], s, -1.0)
            class_votes[0, y_parents[parent[s]]] -= 1.0
    for f in range(x.shape[1]):
        lam = 0.0 if f == j or x[i, f] == CASE_MISSING else c.lam
        votes[1, AGREE, f] = lam / (c.c1 + c.lam * votes[0, AGREE, f])
        votes[1, TOTAL, f] = lam / (feature[C2, f] + c.lam * votes[0, TOTAL, f])
    for m in range(class_votes.shape[1]):
        class_votes[1, m] = label_slope(c, mu, class_votes, y[i], m)
    slopes = votes[1]
    for s in range(n):
        b = parent[s]
        of_label = class_votes[1, y_parents[b]]
        log_tilt[s] = of_label + slope_of_features(x, x_parents, feature, slopes, bits, i, b, s)
    for s in range(n):
        tilt[s] = math.exp(log_tilt[s])


@inlined
def silent_sum(on, off, vote, n):
    """Model II: the sum over the w_i:j of entries that do not vote on x_ij."""
    product = 1.0
    for s in range(n):
        if vote[s] < 0.0:
            product *= on[s] + off[s]
    return product


@compiled
def log_others(
    c, x, y, x_parents, y_parents, feature, mu, parent, bits, kept, kept_classes, log_tilt, fresh, votes, class_votes,
    i, j, n,
):  # fmt: skip
    """Model II: log p(x_i, y_i | fresh w_i:j) - log p(x_i, y_i | w_i:j), without x_ij and the part in `tilt`.

    If w_i:j of an entry changes, its votes on everything else have one more or one less weight.
    """
    for f in range(x.shape[1]):
        for row in (AGREE, TOTAL):
            votes[0, row, f] = kept[0, row, f]
            votes[1, row, f] = kept[0, row, f]
    for m in range(class_votes.shape[1]):
        class_votes[0, m] = kept_classes[0, m]
        class_votes[1, m] = kept_classes[0, m]
    changed, linear = False, 0.0
    for s in range(n):
        more = float(int(fresh[s]) - int(is_on(bits, s, j)))
        if more != 0.0:
            changed = True
            linear += more * log_tilt[s]
            cast_votes(c, x, x_parents, feature, votes[1], bits, i, parent[s], s, more)
            class_votes[1, y_parents[parent[s]]] += more
    if not changed:
        return 0.0
    log, ratio = 0.0, 1.0
    for f in range(c.n_features):
        if f != j and x[i, f] != CASE_MISSING:
            ratio *= feature_change(c, feature[C2, f], votes, f)
        if f % LOGS == LOGS - 1:
            log += math.log(ratio)
            ratio = 1.0
    return log + math.log(ratio * label_change(c, mu, class_votes, y[i])) - linear


@compiled
def find_likelihood(c, tables, importance, neighbors, sums, likelihood, first, last):
    """Models I and III: likelihood[i, j] = p(x_ij | z_i, q~), w summed out, for cases first..last-1."""
    x, _, _, x_parents, _, feature, _ = tables
    n_entries, parent, bits, kappa = neighbors
    _, span, rate, weight, decay, k, row, tilt, _, on, off, vote, _, _, base, copied, chosen, total = sums[:18]
    place, node_weight, on_rows, agreeing = sums.place, sums.node_weight, sums.on_rows, sums.agreeing
    for i in range(first, last):
        n = n_entries[i]
        likelihood[i] = 1.0  # does not depend on the importances if there are no neighbors or the value is missing
        if n == 0:
            continue
        a, b = span[0, n], span[1, n]
        if c.kind == 1:
            likelihood_of_features(
                c, x, x_parents, feature, importance, parent[i], place, node_weight, on_rows, agreeing, base,
                copied, total, likelihood[i], a, b, i, n,
            )  # fmt: skip
            continue
        load_weights(c, bits[i], kappa[i], decay, rate, k, row, a, b, 0, n)
        for j in range(likelihood.shape[1]):
            if x[i, j] != CASE_MISSING:
                load_entries(c, x, x_parents, feature, importance, parent[i], k, tilt, on, off, vote, i, j, n)
                likelihood[i, j] = weigh_rates(c, decay, row, weight, on, off, vote, base, copied, chosen, a, b, j, n)


@compiled
def compare_importance(
    c, tables, old, new, neighbors, kept, kept_classes, sums, numbers, key, drawn, log_ratio, j, first, last
):
    """Model II: log_ratio[i], the log likelihood ratio of case i for the new importance of feature j, with w_i:j
    summed out. Stores a draw of w_i:j in drawn[i] and includes the correction for it.

    `numbers` (N,): the case numbers in the whole data, which determine the streams.
    """
    x, y, _, x_parents, y_parents, feature, mu = tables
    n_entries, parent, bits, kappa = neighbors
    rng, span, rate, weight, decay, k, row, tilt, log_tilt, on, off, vote, sources, _, base, copied, chosen = sums[:17]
    votes, class_votes = sums.votes, sums.class_votes
    for i in range(first, last):
        n, fresh = n_entries[i], drawn[i]
        log_ratio[i] = 0.0
        if n == 0:
            continue
        parent_i, bits_i, kappa_i = parent[i], bits[i], kappa[i]  # once: Numba counts references to rows
        kept_i, classes_i = kept[i], kept_classes[i]
        a, b = span[0, n], span[1, n] if x[i, j] != CASE_MISSING else span[0, n]
        load_weights(c, bits_i, kappa_i, decay, rate, k, row, a, b, j, n)
        find_tilt(
            c, x, y, x_parents, y_parents, feature, mu, parent_i, bits_i, kept_i, classes_i, votes, class_votes,
            log_tilt, tilt, i, j, n,
        )  # fmt: skip
        load_entries(c, x, x_parents, feature, old, parent_i, k, tilt, on, off, vote, i, j, n)
        ratio = 1.0 / silent_sum(on, off, vote, n)
        if b > a:
            ratio /= weigh_rates(c, decay, row, weight, on, off, vote, base, copied, chosen, a, b, j, n)
        load_entries(c, x, x_parents, feature, new, parent_i, k, tilt, on, off, vote, i, j, n)
        ratio *= silent_sum(on, off, vote, n)
        total = 1.0
        if b > a:
            total = weigh_rates(c, decay, row, weight, on, off, vote, base, copied, chosen, a, b, j, n)
        open_stream(rng, key_of(key_of(key, j), numbers[i]))
        node, is_copied = -1, False
        if b > a:
            node, is_copied = pick_rate(chosen, uniform(rng) * total, b - a)
            node += a
        draw_w(decay, row, on, off, vote, sources, fresh, rng, node, is_copied, n)
        log_ratio[i] = math.log(ratio * total) + log_others(
            c, x, y, x_parents, y_parents, feature, mu, parent_i, bits_i, kept_i, classes_i, log_tilt, fresh, votes,
            class_votes, i, j, n,
        )  # fmt: skip


@compiled
def take_drawn(c, tables, neighbors, kept, kept_classes, drawn, j, first, last):
    """Model II: replace the current w_i:j and their votes with the draws of `compare_importance`."""
    x, _, _, x_parents, y_parents, feature, _ = tables
    n_entries, parent, bits, _ = neighbors
    for i in range(first, last):
        kept_i, bits_i = kept[i], bits[i]
        for s in range(n_entries[i]):
            before = is_on(bits_i, s, j)
            if drawn[i, s] == before:
                continue
            b, k = parent[i, s], float(n_on(bits_i, s))
            cast_votes(c, x, x_parents, feature, kept_i[0], bits_i, i, b, s, -k)
            cast_votes(c, x, x_parents, feature, kept_i[1], bits_i, i, b, s, -1.0)
            set_bit(bits_i, s, j, drawn[i, s])
            more = -1.0 if before else 1.0
            cast_votes(c, x, x_parents, feature, kept_i[0], bits_i, i, b, s, k + more)
            cast_votes(c, x, x_parents, feature, kept_i[1], bits_i, i, b, s, 1.0)
            kept_classes[i, 0, y_parents[b]] += more


@compiled
def redraw_features(c, tables, importance, neighbors, sums, numbers, key, features, first, last):
    """Models I and III: redraw w_i:j of these features for cases first..last-1."""
    x, _, _, x_parents, _, feature, _ = tables
    n_entries, parent, bits, kappa = neighbors
    rng, span, rate, weight, decay, k, row, tilt, _, on, off, vote, sources, fresh, base, copied, chosen = sums[:17]
    place, node_weight, on_rows, agreeing = sums.place, sums.node_weight, sums.on_rows, sums.agreeing
    terms, chance = sums.terms, sums.chance
    for i in range(first, last):
        n = n_entries[i]
        if n == 0:
            continue
        a, b = span[0, n], span[1, n]
        parent_i, bits_i, kappa_i = parent[i], bits[i], kappa[i]  # once: Numba counts references to rows
        if c.kind == 1:
            weigh_features(
                c, x, x_parents, feature, importance, parent_i, place, node_weight, on_rows, agreeing, base,
                copied, terms, chance, a, b, i, n,
            )  # fmt: skip
        else:
            load_weights(c, bits_i, kappa_i, decay, rate, k, row, a, b, 0, n)
        for j in features:
            open_stream(rng, key_of(key_of(key, j), numbers[i]))
            known = x[i, j] != CASE_MISSING
            node, is_copied = -1, False
            if c.kind == 1:
                take_feature(c, chance, on_rows, agreeing, on, off, vote, row, j, n)
                if known:
                    node, is_copied = pick_node(terms, uniform(rng), b - a, j)
            else:
                load_entries(c, x, x_parents, feature, importance, parent_i, k, tilt, on, off, vote, i, j, n)
                if known:
                    total = weigh_rates(c, decay, row, weight, on, off, vote, base, copied, chosen, a, b, j, n)
                    node, is_copied = pick_rate(chosen, uniform(rng) * total, b - a)
            draw_w(decay, row, on, off, vote, sources, fresh, rng, node + a if known else -1, is_copied, n)
            for s in range(n):
                set_bit(bits_i, s, j, fresh[s])
