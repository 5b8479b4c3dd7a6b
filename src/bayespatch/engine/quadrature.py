"""Model I, one feature of one case with its w summed out, as a GPU wants it: no memory but registers.

The likelihood of x_ij is A/T, where T = c2 + lam t depends on the number t of w that are on. With beta = c2/lam,

    1/T = 1/lam * integral of s^(beta - 1 + t) over s from 0 to 1 = sum_r W_r s_r^t,

where s_r and W_r are the nodes and weights of Gauss-Jacobi quadrature, which is exact for t < 2K with K nodes. All W_r
are positive: 1/T is a finite mixture, and given a node the w are independent, each on with odds q~ s_r / (1 - q~). So

    p(x_ij | z_i, q~) = sum_r W_r (c1 G_r + lam C_r),   G_r = prod_b f_b,   C_r = sum_agreeing q~_b s_r prod_others f_b,

with f_b = 1 + q~_b (s_r - 1): either x_ij comes from the base rate, or it was copied from an agreeing neighbor, which
is on. And w given z is drawn by choosing the node, where x_ij comes from, and then every w by itself. That is exact.

For long lists fewer nodes than K = n/2 + 1 are enough for all digits of a double: some multiple of sqrt(n).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal

from bayespatch.engine.compiling import inlined

HANDFUL = 4  # nodes that a thread deals with at once; rule k has k + 1 handfuls


class Nodes(NamedTuple):
    """Rules of quadrature for every feature; rule k in rows k (k + 1) / 2 ... k (k + 3) / 2 of the tables."""

    place: Any  # (handfuls, HANDFUL, P) float64: s
    weight: Any  # (handfuls, HANDFUL, P) float64: W
    rule: Any  # (C+1,) int32: which rule serves a case with n neighbors


def gauss_jacobi(beta: float, n_nodes: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights for the integral of beta s^(beta-1) f(s) over 0..1 (Golub and Welsch, 1969)."""
    n = np.arange(1.0, n_nodes)
    center = 0.5 + 0.5 * (beta - 1.0) / (2.0 * n - 1.0 + beta) * ((beta - 1.0) / (2.0 * n + 1.0 + beta))
    beside = n * ((n - 1.0 + beta) / (2.0 * n - 1.0 + beta)) / np.sqrt((2.0 * n + beta) * (2.0 * n - 2.0 + beta))
    place, vectors = eigh_tridiagonal(np.append(beta / (beta + 1.0), center), beside)
    return np.clip(place, 0.0, 1.0), vectors[0] ** 2


def reach(beta: float, place: NDArray[np.float64], weight: NDArray[np.float64], capacity: int) -> int:
    """The largest t <= capacity up to which the mixture is beta / (beta + t), but for rounding."""
    t = np.arange(capacity + 1)
    error = np.abs((weight @ place[:, None] ** t) * (1.0 + t / beta) - 1.0)
    wrong = np.flatnonzero(error > 1e-13 + 1e-15 * t)
    exact = 2 * len(place) - 1
    return min(capacity, max(exact, int(wrong[0]) - 1)) if len(wrong) else capacity


def make_nodes(c2: NDArray[np.float64], lam: float, capacity: int) -> Nodes:
    """Rules for all features and up to `capacity` neighbors. A rule is the same whatever the capacity."""
    kinds, of_feature = np.unique(c2, return_inverse=True)
    place: list[NDArray[np.float64]] = []
    weight: list[NDArray[np.float64]] = []
    rule = np.zeros(capacity + 1, np.int32)
    done = -1
    while done < capacity:
        n_handfuls = rule[-1] + 1
        found = [gauss_jacobi(value / lam, HANDFUL * n_handfuls) for value in kinds]
        place.append(np.stack([s for s, _ in found], axis=1).reshape(n_handfuls, HANDFUL, -1))
        weight.append(np.stack([w for _, w in found], axis=1).reshape(n_handfuls, HANDFUL, -1) / kinds)
        done = max(done, min(reach(value / lam, *pair, capacity) for value, pair in zip(kinds, found, strict=True)))
        rule[done + 1 :] += 1
    return Nodes(np.concatenate(place)[:, :, of_feature], np.concatenate(weight)[:, :, of_feature], rule)


@inlined
def with_entry(base, copied, below, on, agreeing):
    """G and C/s of a node with one more neighbor; `below` is s - 1."""
    factor = 1.0 + on * below
    return base * factor, copied * factor + base * agreeing


@inlined
def first_handful(nodes, n):
    """Where the rule for n neighbors begins."""
    rule = nodes.rule[n]
    return rule * (rule + 1) // 2
