"""Leave-one-out predictions of past cases with exactly one neighbor, in closed form, with gradients.

Parent b is the neighbor with probability proportional to ``prod_j f_bj``, ``f_bj = 1 - q_j + q_j R_j``, where R_j is
the factor of a first neighbor's vote (``votes.py``): it has one value if the parent's value agrees with the case's,
another if the values differ, and is 1 if either is missing. So each pair needs a product of P factors, and

    share_im = sum_b [y_b = m] heard_b prod_j f_bj / sum_b heard_b prod_j f_bj,       b not the case itself.

Results are stored per case and added up by the caller in order, so they do not depend on the number of threads.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.engine.compiling import compiled, vectorised

LEAST = 0.01  # share of the votes reserved for the base rates, so that no share is 0
SMALL = 1e-30  # sums of products below this are close to underflow in single precision
DIFFERS, AGREES, UNKNOWN = 0, 1, 2  # codes of `Pairs`


class Pairs(NamedTuple):
    """Past cases and the parents that vote on them, with the parents ordered by class."""

    codes: NDArray[np.uint8]  # (n, P, S) DIFFERS, AGREES or UNKNOWN
    has_unknown: NDArray[np.bool_]  # (P,)
    y: NDArray[np.int64]  # (n,)
    own: NDArray[np.int64]  # (n,) the parent that is the case itself, -1: none
    start: NDArray[np.int64]  # (M + 1,) where the parents of each class begin
    heard: NDArray[np.float64]  # (M,) weight of a vote for the class
    base: NDArray[np.float64]  # (M,) base rates, which get a share of LEAST of the votes
    weight: NDArray[np.float64]  # (n,) of the case


@vectorised
def multiply_codes(codes, differs, unknown, has_unknown, weights):
    """weights_b *= prod_j of the factors, relative to those of agreement."""
    n_features, n_parents = codes.shape
    one = np.float32(1.0)
    for j in range(n_features):
        d = differs[j]
        if has_unknown[j]:
            u = unknown[j]
            for b in range(n_parents):
                c = codes[j, b]
                weights[b] *= one if c == 1 else (d if c == 0 else u)
        else:
            e = one - d
            for b in range(n_parents):
                weights[b] *= d + e * np.float32(codes[j, b])


@vectorised
def add_logs(codes, differs, unknown, has_unknown, logs):
    """logs_b += sum_j of the logarithms of the factors."""
    n_features, n_parents = codes.shape
    for j in range(n_features):
        d = math.log(differs[j])
        u = math.log(unknown[j]) if has_unknown[j] else 0.0
        for b in range(n_parents):
            c = codes[j, b]
            logs[b] += 0.0 if c == 1 else (d if c == 0 else u)


@compiled
def weigh_by_logs(pairs, i, differs, unknown, weights, logs):
    """Weights relative to the largest one, for cases that differ from all parents in many features."""
    for m in range(len(pairs.heard)):
        logs[pairs.start[m] : pairs.start[m + 1]] = math.log(pairs.heard[m])
    add_logs(pairs.codes[i], differs, unknown, pairs.has_unknown, logs)
    if pairs.own[i] >= 0:
        logs[pairs.own[i]] = -math.inf
    top = logs.max()
    for b in range(len(logs)):
        weights[b] = math.exp(logs[b] - top) if top > -math.inf else 0.0


@vectorised
def stretch(weights, first, last):
    total = np.float32(0.0)
    for b in range(first, last):
        total += weights[b]
    return float(total)


@vectorised
def add_by_code(codes, pulls, has_unknown, agree, unknown):
    """Sums of `pulls` over the parents that agree and over the parents with unknown agreement, (P,) each."""
    n_features, n_parents = codes.shape
    zero = np.float32(0.0)
    for j in range(n_features):
        total = zero
        for b in range(n_parents):
            total += pulls[b] if codes[j, b] == 1 else zero
        agree[j] = total
        if has_unknown[j]:
            total = zero
            for b in range(n_parents):
                total += pulls[b] if codes[j, b] == 2 else zero
            unknown[j] = total
        else:
            unknown[j] = 0.0


@compiled
def predict_each(pairs, differs, unknown, slope, log_p, agree_pull, unknown_pull, slope_pull):
    """For every case: log p(y_i) and its derivatives with respect to the weights of agreeing and unknown parents and
    to the slope.

    ``log p(m) = slope log share_m + (1 - slope) log base_m + constant``. `differs` and `unknown` (P,), float32: factors
    relative to that of agreement. The last four arguments, (n,), (n, P), (n, P) and (n,), are filled; the
    second and third may be empty.
    """
    n_cases, _, n_parents = pairs.codes.shape
    n_classes = len(pairs.heard)
    weights = np.empty(n_parents, np.float32)
    pulls = np.empty(n_parents, np.float32)
    logs = np.empty(n_parents)
    raw, share, p, pull = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    for i in range(n_cases):
        for m in range(n_classes):
            weights[pairs.start[m] : pairs.start[m + 1]] = pairs.heard[m]
        multiply_codes(pairs.codes[i], differs, unknown, pairs.has_unknown, weights)
        if pairs.own[i] >= 0:
            weights[pairs.own[i]] = 0.0
        if stretch(weights, 0, n_parents) < SMALL:
            weigh_by_logs(pairs, i, differs, unknown, weights, logs)
        total = 1e-37  # without parents other than the case itself, the base rates
        for m in range(n_classes):
            raw[m] = stretch(weights, pairs.start[m], pairs.start[m + 1])
            total += raw[m]
        top = -math.inf
        for m in range(n_classes):
            raw[m] /= total
            share[m] = (1.0 - LEAST) * raw[m] + LEAST * pairs.base[m]
            p[m] = slope * math.log(share[m]) + (1.0 - slope) * math.log(pairs.base[m])
            top = max(top, p[m])
        norm = 0.0
        for m in range(n_classes):
            norm += math.exp(p[m] - top)
        log_p[i] = p[pairs.y[i]] - top - math.log(norm)
        if agree_pull.shape[0] == 0:
            continue
        mean_pull = 0.0
        slope_pull[i] = 0.0
        for m in range(n_classes):
            p[m] = math.exp(p[m] - top) / norm
            missing = (1.0 if m == pairs.y[i] else 0.0) - p[m]
            pull[m] = slope * missing * (1.0 - LEAST) / share[m]
            mean_pull += pull[m] * raw[m]
            slope_pull[i] += missing * (math.log(share[m]) - math.log(pairs.base[m]))
        for m in range(n_classes):
            by = np.float32((pull[m] - mean_pull) / max(total, SMALL))
            for b in range(pairs.start[m], pairs.start[m + 1]):
                pulls[b] = weights[b] * by
        add_by_code(pairs.codes[i], pulls, pairs.has_unknown, agree_pull[i], unknown_pull[i])
