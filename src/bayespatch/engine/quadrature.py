"""Sums over w for one feature of one case, in a few steps per neighbor.

In Model I the likelihood of x_ij is A/T, where T = c2 + lam t depends on the number t of w that are on. With
beta = c2/lam,

    1/T = 1/lam * integral of s^(beta - 1 + t) over s from 0 to 1 = sum_r W_r s_r^t,

where s_r and W_r are the nodes and weights of Gauss-Jacobi quadrature, which is exact for t < 2K with K nodes. All W_r
are positive: 1/T is a finite mixture, and given a node the w are independent, each on with odds q~ s_r / (1 - q~). So

    p(x_ij | z_i, q~) = sum_r W_r (c1 G_r + lam C_r),   G_r = prod_b f_b,   C_r = sum_agreeing q~_b s_r prod_others f_b,

with f_b = 1 + q~_b (s_r - 1): x_ij either comes from the base rate or was copied from an agreeing neighbor, whose w is
on. To draw w given z, choose the node, then the source of x_ij, then every w separately. The draw is exact.

For many neighbors, fewer nodes than K = n/2 + 1 suffice for double precision: a multiple of sqrt(n).

If neighbor b votes with weight k_b (Models II and III), T = c2 + lam sum k_b w_b, and the same approach works with
rates instead of nodes,

    1/T = integral of exp(-u T) over u from 0 to infinity = sum_r W_r exp(-u_r T),

f_b = 1 - q~_b + q~_b d_b with d_b = exp(-u_r lam k_b), and k_b q~_b d_b in place of q~_b s_r in C_r. This rule
(`make_rates`) is accurate to ten digits for all T between the smallest and the largest possible value.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal

from bayespatch.engine.compiling import inlined

STEP = 0.35  # of the trapezoidal rule; the error is 3e-11
NEVER = 1000.0  # exp(-NEVER) is 0
HANDFUL = 4  # nodes that a GPU thread processes at once


class Nodes(NamedTuple):
    """Quadrature rules stored one after another, each padded to a multiple of the number of unrolled nodes."""

    place: NDArray[np.float64]  # (nodes, P): s; in Models II and III (nodes, 1): the rate u
    weight: NDArray[np.float64]  # (nodes, P): W; in Models II and III W exp(-u c2)
    span: NDArray[np.int32]  # (2, C+1): where the rule for a case with n neighbors begins and ends


def gauss_jacobi(beta: float, n_nodes: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights for the integral of beta s^(beta-1) f(s) over 0..1 (Golub and Welsch, 1969)."""
    n = np.arange(1.0, n_nodes)
    center = 0.5 + 0.5 * (beta - 1.0) / (2.0 * n - 1.0 + beta) * ((beta - 1.0) / (2.0 * n + 1.0 + beta))
    beside = n * ((n - 1.0 + beta) / (2.0 * n - 1.0 + beta)) / np.sqrt((2.0 * n + beta) * (2.0 * n - 2.0 + beta))
    place, vectors = eigh_tridiagonal(np.append(beta / (beta + 1.0), center), beside)
    return np.clip(place, 0.0, 1.0), vectors[0] ** 2


def reach(beta: float, place: NDArray[np.float64], weight: NDArray[np.float64], capacity: int) -> int:
    """The largest t <= capacity up to which the mixture equals beta / (beta + t), except for rounding."""
    t = np.arange(capacity + 1)
    sums = (weight[:, None] * place[:, None] ** t).sum(axis=0)  # in an order that does not depend on the capacity
    error = np.abs(sums * (1.0 + t / beta) - 1.0)
    wrong = np.flatnonzero(error > 1e-13 + 1e-15 * t)
    exact = 2 * len(place) - 1
    return min(capacity, max(exact, int(wrong[0]) - 1)) if len(wrong) else capacity


def make_nodes(c2: NDArray[np.float64], lam: float, capacity: int) -> Nodes:
    """Model I: rules for all features and up to `capacity` neighbors. Rules do not depend on the capacity."""
    kinds, of_feature = np.unique(c2, return_inverse=True)
    place: list[NDArray[np.float64]] = []
    weight: list[NDArray[np.float64]] = []
    span = np.zeros((2, capacity + 1), np.int32)
    done, begin = -1, 0
    while done < capacity:
        n_nodes = HANDFUL * (len(place) + 1)
        rules = [gauss_jacobi(value / lam, n_nodes) for value in kinds]
        place.append(np.stack([s for s, _ in rules], axis=1))
        weight.append(np.stack([w for _, w in rules], axis=1) / kinds)
        served = max(done, min(reach(value / lam, *pair, capacity) for value, pair in zip(kinds, rules, strict=True)))
        span[:, done + 1 : served + 1] = [[begin], [begin + n_nodes]]
        done, begin = served, begin + n_nodes
    return Nodes(np.concatenate(place)[:, of_feature], np.concatenate(weight)[:, of_feature], span)


def rule_between(smallest: float, largest: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """u and W for T from `smallest` to `largest`: the trapezoidal rule in t with u = exp(t - exp(-t)) / largest.

    The integrand decays double exponentially on both sides (Takahasi and Mori, 1974).
    """
    t = STEP * np.arange(math.floor(-5.0 / STEP), math.ceil((math.log(largest / smallest) + 5.0) / STEP))
    u = np.exp(t - np.exp(-t)) / largest
    weight = STEP * u * (1.0 + np.exp(-t))
    kept = (weight * largest > 1e-12) & (u * smallest < 32.0)
    filled = 0, -int(kept.sum()) % HANDFUL  # pad the last handful with nodes of weight 0
    return np.pad(u[kept], filled), np.pad(weight[kept], filled)


def make_rates(c2: NDArray[np.float64], lam: float, lightest: float, heaviest: float, capacity: int) -> Nodes:
    """Models II and III: rules for all features and up to `capacity` neighbors, whose votes have weights between
    `lightest` and `heaviest`.

    There is one rule for each power of two that bounds the number of neighbors, independent of the capacity. If all
    votes have positive weight, T = c2 is isolated, far below all other values; it has a separate rate, at which all w
    are off.
    """
    place: list[NDArray[np.float64]] = []
    weight: list[NDArray[np.float64]] = []
    span = np.zeros((2, capacity + 1), np.int32)
    begin, fewer, bound = 0, -1, 4
    while fewer < capacity:
        u, w = rule_between(float(c2.min()) + lam * lightest, float(c2.max()) + lam * heaviest * bound)
        filled = w[:, None] * np.exp(-u[:, None] * c2)
        if lightest > 0.0:
            u = np.append(u, [NEVER / (lam * lightest)] + [0.0] * (HANDFUL - 1))
            filled = np.pad(filled, ((0, HANDFUL), (0, 0)))
            filled[-HANDFUL] = np.maximum(1.0 / c2 - filled.sum(axis=0), 0.0)
        place.append(u[:, None])
        weight.append(filled)
        span[:, fewer + 1 : bound + 1] = [[begin], [begin + len(u)]]
        begin, fewer, bound = begin + len(u), bound, 2 * bound
    return Nodes(np.concatenate(place), np.concatenate(weight), span)


@inlined
def with_entry(base, copied, below, on, agreeing):
    """G and C/s of a node with one more neighbor; `below` is s - 1."""
    factor = 1.0 + on * below
    return base * factor, copied * factor + base * agreeing


@inlined
def with_weighted_entry(base, copied, decay, on, off, vote):
    """G and lam C of a rate with one more neighbor, whose vote is lam k, or 0 if it does not agree."""
    on *= decay
    factor = off + on
    return base * factor, copied * factor + base * (vote * on)
