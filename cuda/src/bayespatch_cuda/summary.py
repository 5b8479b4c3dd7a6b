"""Summaries of the cases, as in ``cpu/summary.py``, with one thread per case."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numba import cuda, float64

from bayespatch.engine.votes import AGREE, MU, MU0, TOTAL
from bayespatch_cuda.compiling import inlined
from bayespatch_cuda.layout import BIT, in_word, vote_weight
from bayespatch_cuda.update import KEPT, Shape


@inlined
def count_votes(kind, table, entries, votes, class_votes, i):
    """Count the votes on every feature and on the label of case i."""
    votes[:] = 0.0
    class_votes[:] = 0.0
    for s in range(entries.n[i]):
        b = entries.parent[i, s]
        k = vote_weight(kind, entries, s, i)
        class_votes[table.y_parents[b]] += k
        for f in range(votes.shape[1]):
            if in_word(entries.bits[i, s, f >> 5], f):
                if in_word(table.votes[f >> 5, b], f):
                    votes[TOTAL, f] += k
                if in_word(entries.same[i, s, f >> 5], f):
                    votes[AGREE, f] += k


@inlined
def log_likelihood(c, table, votes, class_votes, i):
    """The log likelihood of case i and its label, given the votes."""
    above = 1.0
    below = 1.0
    log = 0.0
    for f in range(votes.shape[1]):
        if in_word(table.observed[f >> 5, i], f):
            above *= c.c1 + c.lam * votes[AGREE, f]
            below *= table.c2[f] + c.lam * votes[TOTAL, f]
        if f & 7 == 7:  # often enough that the products stay within the range of a double
            log += math.log(above / below)
            above = 1.0
            below = 1.0
    y = table.y[i]
    if y >= 0:
        all_votes = c.label_c2
        for m in range(class_votes.shape[0]):
            all_votes += table.mu[MU, m] * class_votes[m]
        above *= c.one + table.mu[MU0, y] + table.mu[MU, y] * class_votes[y]
        below *= all_votes
    return log + math.log(above / below)


@inlined
def summarise_case(kind, c, table, entries, votes, class_votes, shares, i):
    """Store the vote shares of case i in `shares` (N, M); returns its log likelihood."""
    count_votes(kind, table, entries, votes, class_votes, i)
    cast = 0.0
    for m in range(class_votes.shape[0]):
        cast += table.mu[MU, m] * class_votes[m]
    for m in range(class_votes.shape[0]):
        shares[i, m] = (table.mu[MU0, m] + table.mu[MU, m] * class_votes[m]) / (c.label_c2 - c.one + cast)
    return log_likelihood(c, table, votes, class_votes, i)


@lru_cache(KEPT)
def summary_kernel(shape: Shape):
    """Vote shares (N, M) and log likelihood (N,) of the cases."""
    kind, size, n_classes, _, _ = shape

    @cuda.jit
    def kernel(c, table, entries, out):
        shares, log_likelihood = out
        i = cuda.grid(1)
        if i < entries.n.shape[0]:
            votes = cuda.local.array((2, size), float64)
            class_votes = cuda.local.array(n_classes, float64)
            log_likelihood[i] = summarise_case(kind, c, table, entries, votes, class_votes, shares, i)

    return kernel


@cuda.jit
def clear_counts(chain):
    """Set n_b and s_bj to 0 before counting."""
    b = cuda.grid(1)
    if b < chain.n_neighbors.shape[0]:
        chain.n_neighbors[b] = 0
        for j in range(chain.n_on.shape[1]):
            chain.n_on[b, j] = 0


@cuda.jit
def count_neighbors(entries, chain):
    """n_b: number of cases that parent b is a neighbor of; s_bj: number of these with feature j on."""
    i = cuda.grid(1)
    if i < entries.n.shape[0]:
        for s in range(entries.n[i]):
            b = entries.parent[i, s]
            cuda.atomic.add(chain.n_neighbors, b, 1)
            for j in range(chain.n_on.shape[1]):
                if (entries.bits[i, s, j >> 5] >> np.uint32(j & 31)) & BIT != 0:
                    cuda.atomic.add(chain.n_on, (b, j), 1)
