"""Sums over cases that are bitwise reproducible no matter how the cases are distributed.

Floating-point sums depend on the order of the terms. So the cases are divided into `N_BLOCKS` blocks, which depend only
on the total number of cases; each block is summed in order, and then the block sums are added in order. A worker that
holds whole blocks needs to send only their sums, whose size does not depend on the number of cases.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bayespatch.engine.compiling import compiled
from bayespatch.engine.votes import LOGS

N_BLOCKS = 256


def block_edges(n_cases: int) -> NDArray[np.int64]:
    """Edges (N_BLOCKS + 1,): block k contains cases edges[k]..edges[k+1]-1 and may be empty.

    >>> block_edges(512)[:4].tolist()
    [0, 2, 4, 6]
    """
    return np.arange(N_BLOCKS + 1, dtype=np.int64) * n_cases // N_BLOCKS


@compiled
def sum_blocks(values, edges):
    """The sums of `values` (N, F) over the cases of each block, (blocks, F)."""
    sums = np.zeros((edges.shape[0] - 1, values.shape[1]))
    for k in range(edges.shape[0] - 1):
        for i in range(edges[k], edges[k + 1]):
            for r in range(values.shape[1]):
                sums[k, r] += values[i, r]
    return sums


@compiled
def log_ratio_blocks(after, before, edges):
    """The sums of log(after / before), (N, F), over the cases of each block, (blocks, F).

    `LOGS` ratios are multiplied before each logarithm. A likelihood is at most 1 and at least c1 / (c2 + lam S), so
    with the most extreme votes that `Hyperparameters` allows, ratios stay below 1e19 for 10^7 parents.
    """
    n_features = after.shape[1]
    sums = np.zeros((edges.shape[0] - 1, n_features))
    product = np.empty(n_features)
    for k in range(edges.shape[0] - 1):
        for begin in range(edges[k], edges[k + 1], LOGS):
            product[:] = 1.0
            for i in range(begin, min(begin + LOGS, edges[k + 1])):
                for r in range(n_features):
                    product[r] *= after[i, r] / before[i, r]
            for r in range(n_features):
                sums[k, r] += math.log(product[r])
    return sums


@compiled
def sum_of_blocks(sums):
    """The total (F,) of the block sums (N_BLOCKS, F)."""
    total = np.zeros(sums.shape[1])
    for k in range(sums.shape[0]):
        for r in range(sums.shape[1]):
            total[r] += sums[k, r]
    return total
