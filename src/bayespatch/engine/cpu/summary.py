"""Summaries of the cases: votes, likelihood, neighbors and their sums over draws.

All engines count neighbors on the host: the lists are short, and a GPU copies them once.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bayespatch.engine.base import Neighbors
from bayespatch.engine.compiling import compiled
from bayespatch.engine.cpu import layout
from bayespatch.engine.votes import AGREE, C2, CASE_MISSING, MU, MU0, ONE, TOTAL, count_votes, is_on, vote_weight
from bayespatch.model import EPSILON, TINY, Data, Model

Sums = NDArray[np.float32]  # over draws


@compiled
def summarise_cases(c, tables, neighbors, work, votes, log_likelihood, first, last):
    """Vote shares and log likelihood of cases first..last-1."""
    x, y, _, x_parents, y_parents, feature, mu = tables
    _, _, _, _, _, counts, class_votes, by_weight, label_factor, _, _, _, _ = work
    for i in range(first, last):
        count_votes(
            c, x, y, x_parents, y_parents, feature, mu, neighbors.parent[i], neighbors.bits[i], neighbors.kappa[i],
            counts, class_votes, by_weight, label_factor, i, neighbors.n[i],
        )  # fmt: skip
        log = 0.0
        for j in range(c.n_features):
            if x[i, j] != CASE_MISSING:
                log += math.log((c.c1 + c.lam * counts[AGREE, j]) / (feature[C2, j] + c.lam * counts[TOTAL, j]))
        cast = 0.0
        for m in range(mu.shape[1]):
            cast += mu[MU, m] * class_votes[m]
        for m in range(mu.shape[1]):
            votes[i, m] = (mu[MU0, m] + mu[MU, m] * class_votes[m]) / (c.label_c2 - c.one + cast)
        if y[i] >= 0:
            own = c.one + mu[MU0, y[i]] + mu[MU, y[i]] * class_votes[y[i]]
            log += math.log(own / (c.label_c2 + cast))
        log_likelihood[i] = log


@compiled
def add_explained(c, tables, neighbors, work, explained_sum):
    """Add the probability of each value given the neighbors, g(x) / sum g; missing values have probability 1."""
    x, y, _, x_parents, y_parents, feature, mu = tables
    _, _, _, _, _, counts, class_votes, by_weight, label_factor, _, _, _, _ = work
    for i in range(x.shape[0]):
        count_votes(
            c, x, y, x_parents, y_parents, feature, mu, neighbors.parent[i], neighbors.bits[i], neighbors.kappa[i],
            counts, class_votes, by_weight, label_factor, i, neighbors.n[i],
        )  # fmt: skip
        for j in range(c.n_features):
            known = x[i, j] != CASE_MISSING
            p = (c.c1 + c.lam * counts[AGREE, j]) / (feature[C2, j] + c.lam * counts[TOTAL, j])
            explained_sum[i, j] += p if known else 1.0


@compiled
def count_neighbors(neighbors, n_parents, n_features):
    """n_b: number of cases that have parent b as a neighbor; s_bj: number of these with feature j on."""
    n_entries, parent, bits, _ = neighbors
    n = np.zeros(n_parents, np.int64)
    n_on = np.zeros((n_parents, n_features), np.int64)
    for i in range(n_entries.shape[0]):
        for s in range(n_entries[i]):
            n[parent[i, s]] += 1
            row = n_on[parent[i, s]]
            for word in range(bits.shape[2]):
                on = bits[i, s, word]
                for j in range(min(64, n_features - 64 * word)):
                    row[64 * word + j] += np.int64((on >> np.uint64(j)) & ONE)
    return n, n_on


@compiled
def count_cases(neighbors, n_parents):
    """n_b alone."""
    n = np.zeros(n_parents, np.int64)
    for i in range(neighbors.n.shape[0]):
        for s in range(neighbors.n[i]):
            n[neighbors.parent[i, s]] += 1
    return n


@compiled
def log_prior_kappa(neighbors, tau, sigma3, log_beta, log):
    """log[i, 0]: sum of log Beta(kappa; tau, sigma3) over the neighbors of case i; see `model.log_beta_density`."""
    for i in range(neighbors.n.shape[0]):
        log[i, 0] = 0.0
        for s in range(neighbors.n[i]):
            kappa = neighbors.kappa[i, s]
            log[i, 0] += (tau - 1.0) * math.log(max(kappa, TINY)) + (sigma3 - 1.0) * math.log(max(1.0 - kappa, EPSILON))
            log[i, 0] -= log_beta


@compiled
def add_z(neighbors, z_sum):
    for i in range(neighbors.n.shape[0]):
        for s in range(neighbors.n[i]):
            z_sum[i, neighbors.parent[i, s]] += 1.0


@compiled
def add_w(neighbors, w_sum):
    for i in range(neighbors.n.shape[0]):
        for s in range(neighbors.n[i]):
            for j in range(w_sum.shape[2]):
                if is_on(neighbors.bits[i], s, j):
                    w_sum[i, neighbors.parent[i, s], j] += 1.0


@compiled
def add_kappa(c, y_parents, mu, neighbors, kappa_sum, share_sum):
    """Add kappa and each neighbor's share of all class votes; the base rates have the remaining share."""
    for i in range(neighbors.n.shape[0]):
        cast = c.label_c2 - c.one
        for s in range(neighbors.n[i]):
            k = vote_weight(c, neighbors.bits[i], neighbors.kappa[i], s)
            cast += mu[MU, y_parents[neighbors.parent[i, s]]] * k
        for s in range(neighbors.n[i]):
            b = neighbors.parent[i, s]
            k = vote_weight(c, neighbors.bits[i], neighbors.kappa[i], s)
            kappa_sum[i, b] += k
            share_sum[i, b] += mu[MU, y_parents[b]] * k / cast


class Tally:
    """Adds up draws of the neighbors of N cases among S parents, with P features and M classes."""

    def __init__(self, data: Data, model: Model) -> None:
        self.constants = layout.constants_of(data, model)
        self.tables = layout.tables_of(data, model)
        self.work = layout.blank_work(self.constants, self.tables)

    def add(
        self,
        neighbors: Neighbors,
        z_sum: Sums,
        w_sum: Sums,
        kappa_sum: Sums,
        share_sum: Sums,
        explained: Sums,
    ) -> None:
        """Add a draw of the neighbors: z, kappa and shares of the votes (N, S), z*w (N, S, P), and the probability of
        each value given the neighbors (N, P). The last two are skipped if their arrays have no features.
        """
        t = self.tables
        add_z(neighbors, z_sum)
        add_w(neighbors, w_sum)
        add_kappa(self.constants, t.y_parents, t.mu, neighbors, kappa_sum, share_sum)
        if explained.shape[1] > 0:
            add_explained(self.constants, t, neighbors, self.work, explained)
