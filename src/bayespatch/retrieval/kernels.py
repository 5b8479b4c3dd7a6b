"""CPU kernels for comparisons and for sums over past cases.

The comparisons of a past case are the bits of a few *keys* of up to `MOST_BITS` bits, and a table has the product of
the weights for every key. So the weight of a past case, in all draws at once, is the product of a few table rows.

A past case is skipped if its weight is negligible in every draw compared with the largest weight: all skipped cases
together have at most `NEGLIGIBLE` times the largest weight.
"""

from __future__ import annotations

import math

import numpy as np

from bayespatch.engine.compiling import compiled, vectorised

MOST_BITS = 10  # of a key: a table with 1,024 rows and 100 draws takes 400 kB
BLOCK = 2048  # past cases processed at a time, so that their keys stay in the fastest cache
ADDED = 128  # weights that are added in single precision before their sum is added in double precision
NEGLIGIBLE = 1e-7


@vectorised
def find_keys(codes, columns, low, high, first, keys):
    """keys_b: bit k is set if past case first + b passes comparison k."""
    n = len(keys)
    keys[:] = 0
    none = np.uint16(0)
    for k in range(len(columns)):
        values = codes[columns[k], first : first + n]
        lowest, highest, bit = low[k], high[k], np.uint16(1 << k)
        for b in range(n):
            keys[b] = np.uint16(keys[b] | (bit if (values[b] >= lowest) & (values[b] <= highest) else none))


@compiled
def table_rows(codes, layout, low, high, first, keys, rows):
    """rows[c, b]: the table row of key c of past case first + b."""
    n = rows.shape[1]
    for c in range(len(layout.offset)):
        begin, end = layout.bits[c], layout.bits[c + 1]
        find_keys(codes, layout.columns[begin:end], low[begin:end], high[begin:end], first, keys[:n])
        offset = layout.offset[c]
        for b in range(n):
            rows[c, b] = offset + keys[b]


@compiled
def drop_excluded(excluded, first, kept):
    """Clear kept[b] for excluded past cases first + b; `excluded` is ascending."""
    for at in range(np.searchsorted(excluded, first), len(excluded)):
        if excluded[at] >= first + len(kept):
            break
        kept[excluded[at] - first] = False


@compiled
def bound(rows, kept, upper, lower, best, above):
    """above[b]: an upper bound on the log weight of a past case in any draw. Returns the largest lower bound so far."""
    for b in range(rows.shape[1]):
        if not kept[b]:
            continue
        most, least = 0.0, 0.0
        for c in range(rows.shape[0]):
            most += upper[rows[c, b]]
            least += lower[rows[c, b]]
        above[b] = most
        best = max(best, least)
    return best


@compiled
def compact(rows, kept, above, least, places):
    """Move the rows of past cases that may matter to the front, and store their previous positions in `places`; returns
    their number.
    """
    n = 0
    for b in range(rows.shape[1]):
        if kept[b] and above[b] >= least:
            for c in range(rows.shape[0]):
                rows[c, n] = rows[c, b]
            places[n] = b
            n += 1
    return n


@vectorised
def add_one(table, rows, total):
    for b in range(rows.shape[1]):
        weights = table[rows[0, b]]
        for d in range(len(total)):
            total[d] += weights[d]


@vectorised
def add_two(table, rows, total):
    for b in range(rows.shape[1]):
        first, second = table[rows[0, b]], table[rows[1, b]]
        for d in range(len(total)):
            total[d] += first[d] * second[d]


@vectorised
def add_many(table, rows, product, total):
    for b in range(rows.shape[1]):
        first, second = table[rows[0, b]], table[rows[1, b]]
        for d in range(len(total)):
            product[d] = first[d] * second[d]
        for c in range(2, rows.shape[0]):
            more = table[rows[c, b]]
            for d in range(len(total)):
                product[d] *= more[d]
        for d in range(len(total)):
            total[d] += product[d]


@vectorised
def add_weighted(table, rows, weight, places, first, product, total):
    """As `add_many`, for weighted cases: past case b counts weight[first + places[b]] times."""
    for b in range(rows.shape[1]):
        factor = np.float32(weight[first + places[b]])
        leading = table[rows[0, b]]
        for d in range(len(total)):
            product[d] = factor * leading[d]
        for c in range(1, rows.shape[0]):
            more = table[rows[c, b]]
            for d in range(len(total)):
                product[d] *= more[d]
        for d in range(len(total)):
            total[d] += product[d]


@compiled
def log_weight(table, rows, b, logs):
    """logs_d: log weight of a past case; `table` has logarithms."""
    for d in range(len(logs)):
        logs[d] = 0.0
        for c in range(rows.shape[0]):
            logs[d] += table[rows[c, b], d]


@compiled
def best_past_case(codes, start, layout, low, high, excluded, upper, lower, scratch):
    """The largest lower bound on the log weight of a past case; sets `scratch.logs` to the log weights of that case."""
    best = -math.inf
    for m in range(len(start) - 1):
        for first in range(start[m], start[m + 1], BLOCK):
            n = min(BLOCK, start[m + 1] - first)
            rows, kept = scratch.rows[:, :n], scratch.kept[:n]
            table_rows(codes, layout, low, high, first, scratch.keys, rows)
            kept[:] = True
            drop_excluded(excluded, first, kept)
            for b in range(n):
                if kept[b]:
                    least = 0.0
                    for c in range(rows.shape[0]):
                        least += lower[rows[c, b]]
                    if least > best:
                        best = least
                        log_weight(scratch.log_table, rows, b, scratch.logs)
    return best


@compiled
def vote_on_case(codes, start, weight, layout, low, high, excluded, tables, scratch, sums, shift):
    """sums[m, d]: total weight of the past cases of each class in each draw, divided by exp(shift[d]).

    `weight` has the weights of the past cases, or is empty if all are equal.
    """
    sums[:] = 0.0
    shift[:] = 0.0
    best = -math.inf
    if tables.by_logs:
        best = best_past_case(codes, start, layout, low, high, excluded, tables.upper, tables.lower, scratch)
        if best > -math.inf:
            shift[:] = scratch.logs
    for m in range(len(start) - 1):
        for first in range(start[m], start[m + 1], BLOCK):
            n = min(BLOCK, start[m + 1] - first)
            rows, kept = scratch.rows[:, :n], scratch.kept[:n]
            table_rows(codes, layout, low, high, first, scratch.keys, rows)
            kept[:] = True
            drop_excluded(excluded, first, kept)
            best = bound(rows, kept, tables.upper, tables.lower, best, scratch.above)
            n = compact(rows, kept, scratch.above, best - tables.cut, scratch.places)
            add_block(tables, scratch, weight, first, n, shift, sums[m])


@compiled
def add_block(tables, scratch, weight, block, n, shift, total):
    """Add the weights of the first n past cases in `scratch.rows`; `block` is the first past case of the block."""
    rows, places = scratch.rows, scratch.places
    if tables.by_logs:
        for b in range(n):
            log_weight(tables.logs, rows, b, scratch.logs)
            factor = weight[block + places[b]] if len(weight) else 1.0
            for d in range(len(total)):
                total[d] += factor * math.exp(scratch.logs[d] - shift[d])
        return
    part = scratch.total
    for first in range(0, n, ADDED):
        last = min(first + ADDED, n)
        some = rows[:, first:last]
        part[:] = 0.0
        if len(weight):
            add_weighted(tables.products, some, weight, places[first:last], block, scratch.product, part)
        elif rows.shape[0] == 1:
            add_one(tables.products, some, part)
        elif rows.shape[0] == 2:
            add_two(tables.products, some, part)
        else:
            add_many(tables.products, some, scratch.product, part)
        for d in range(len(total)):
            total[d] += part[d]


@vectorised
def dot_by_chain(weights, scale, shares, at):
    """shares[c, at] = sum_d weights[d] scale[d] over the draws of chain c."""
    size = len(weights) // len(shares)
    for c in range(len(shares)):
        # Slices, because an index that might be negative prevents vectorization.
        own, factor = weights[c * size : (c + 1) * size], scale[c * size : (c + 1) * size]
        total = np.float32(0.0)
        for d in range(len(own)):
            total += own[d] * factor[d]
        shares[c, at] = total


@vectorised
def multiply_rest(table, rows, b, product):
    """product_d: the weights of past case b without its first key; there are at least three keys."""
    first, second = table[rows[1, b]], table[rows[2, b]]
    for d in range(len(product)):
        product[d] = first[d] * second[d]
    for c in range(3, rows.shape[0]):
        more = table[rows[c, b]]
        for d in range(len(product)):
            product[d] *= more[d]


@compiled
def share_block(tables, scratch, scaled, scale, n, first, shift, shares):
    """Shares of the first n past cases in `scratch.rows`; `scaled` has the rows of the first key times the scale."""
    rows, product, places = scratch.rows, scratch.product, scratch.places
    for b in range(n):
        at = first + places[b]
        if tables.by_logs:
            log_weight(tables.logs, rows, b, scratch.logs)
            for d in range(len(product)):
                product[d] = math.exp(scratch.logs[d] - shift[d])
            dot_by_chain(product, scale, shares, at)
        elif rows.shape[0] == 1:
            dot_by_chain(scaled[rows[0, b]], scratch.ones, shares, at)
        elif rows.shape[0] == 2:
            dot_by_chain(scaled[rows[0, b]], tables.products[rows[1, b]], shares, at)
        else:
            multiply_rest(tables.products, rows, b, product)
            dot_by_chain(scaled[rows[0, b]], product, shares, at)


@compiled
def share_on_case(codes, start, layout, low, high, excluded, tables, scratch, scale, shift, shares):
    """shares[c, b] = sum_d scale[m, d] weight[b, d] / exp(shift[d]) over the draws of chain c; m is the class of b."""
    shares[:] = 0.0
    best = -math.inf
    for m in range(len(start) - 1):
        scaled = scratch.scaled
        for r in range(len(scaled)):
            for d in range(len(shift)):
                scaled[r, d] = tables.products[r, d] * scale[m, d]
        for first in range(start[m], start[m + 1], BLOCK):
            n = min(BLOCK, start[m + 1] - first)
            rows, kept = scratch.rows[:, :n], scratch.kept[:n]
            table_rows(codes, layout, low, high, first, scratch.keys, rows)
            kept[:] = True
            drop_excluded(excluded, first, kept)
            best = bound(rows, kept, tables.upper, tables.lower, best, scratch.above)
            n = compact(rows, kept, scratch.above, best - tables.cut, scratch.places)
            share_block(tables, scratch, scaled, scale[m], n, first, shift, shares)


@vectorised
def multiply_rows(table, rows, weights):
    """weights_b = prod_c table[rows[c, b]]."""
    for b in range(len(weights)):
        weights[b] = table[rows[0, b]]
    for c in range(1, rows.shape[0]):
        for b in range(len(weights)):
            weights[b] *= table[rows[c, b]]


@compiled
def exponentiate_rows(table, rows, top, weights):
    """weights_b = exp(sum_c table[rows[c, b]] - top)."""
    for b in range(len(weights)):
        log_sum = 0.0
        for c in range(rows.shape[0]):
            log_sum += table[rows[c, b]]
        weights[b] = math.exp(log_sum - top)


@compiled
def weigh_left_out(codes, start, weight, layout, low, high, excluded, table, by_logs, top, scratch, sums):
    """sums[m, r]: total weight of the past cases of class m with table row r, in one draw, divided by exp(top)."""
    sums[:] = 0.0
    for m in range(len(start) - 1):
        for first in range(start[m], start[m + 1], BLOCK):
            n = min(BLOCK, start[m + 1] - first)
            rows, weights = scratch.rows[:, :n], scratch.weights[:n]
            table_rows(codes, layout, low, high, first, scratch.keys, rows)
            if by_logs:
                exponentiate_rows(table, rows, top, weights)
            else:
                multiply_rows(table, rows, weights)
            if len(weight):
                for b in range(n):
                    weights[b] *= weight[first + b]
            for at in range(np.searchsorted(excluded, first), len(excluded)):
                if excluded[at] >= first + n:
                    break
                weights[excluded[at] - first] = 0.0
            for c in range(rows.shape[0]):
                for b in range(n):
                    sums[m, rows[c, b]] += weights[b]


@compiled
def best_left_out(codes, start, layout, low, high, excluded, table, scratch):
    """The largest log weight of a past case in one draw; `table` has logarithms."""
    best = -math.inf
    for m in range(len(start) - 1):
        for first in range(start[m], start[m + 1], BLOCK):
            n = min(BLOCK, start[m + 1] - first)
            rows, kept = scratch.rows[:, :n], scratch.kept[:n]
            table_rows(codes, layout, low, high, first, scratch.keys, rows)
            kept[:] = True
            drop_excluded(excluded, first, kept)
            for b in range(n):
                if kept[b]:
                    weight = 0.0
                    for c in range(rows.shape[0]):
                        weight += table[rows[c, b]]
                    best = max(best, weight)
    return best


@compiled
def sum_by_comparison(by_row, layout, sums):
    """sums[k]: total weight of the past cases that pass comparison k; sums[K]: total weight of all past cases.

    For each key, the half of the rows with the highest bit set is summed, then added to the other half. Overwrites
    `by_row`, (T,).
    """
    for c in range(len(layout.offset)):
        begin, n_bits, offset = layout.bits[c], layout.bits[c + 1] - layout.bits[c], layout.offset[c]
        for k in range(n_bits - 1, -1, -1):
            half = 1 << k
            passed = 0.0
            for r in range(offset, offset + half):
                passed += by_row[r + half]
                by_row[r] += by_row[r + half]
            sums[begin + k] = passed
    sums[-1] = by_row[layout.offset[0]]


@compiled
def vote_on_cases(codes, start, weight, layout, low, high, excluded, edges, tables, scratch, first, last, sums, shift):
    """`vote_on_case` for cases first..last-1; `excluded[edges[i]:edges[i + 1]]` may not vote on case i."""
    for i in range(first, last):
        out = excluded[edges[i] : edges[i + 1]]
        vote_on_case(codes, start, weight, layout, low[i], high[i], out, tables, scratch, sums[i], shift[i])


@compiled
def share_on_cases(
    codes, start, layout, low, high, excluded, edges, tables, scratch, first, last, scale, shift, shares
):
    for i in range(first, last):
        out = excluded[edges[i] : edges[i + 1]]
        share_on_case(codes, start, layout, low[i], high[i], out, tables, scratch, scale[i], shift[i], shares[i])


@compiled
def leave_out_cases(
    codes, start, weight, layout, low, high, excluded, edges, table, by_logs, scratch, by_row, first, last, sums, shift
):
    for i in range(first, last):
        out = excluded[edges[i] : edges[i + 1]]
        if by_logs:
            top = best_left_out(codes, start, layout, low[i], high[i], out, table, scratch)
            shift[i] = 0.0 if top == -math.inf else top
        weigh_left_out(codes, start, weight, layout, low[i], high[i], out, table, by_logs, shift[i], scratch, by_row)
        for m in range(len(start) - 1):
            sum_by_comparison(by_row[m], layout, sums[i, m])
