"""The inner loop of the Bayesian Case Model, which assigns features of cases to clusters.

It is compiled, because it evaluates N x P x S combinations in every sweep, one after another. Random numbers are an
argument.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True, error_model="numpy")
def update_assignments(
    x: NDArray[np.int64],
    assignments: NDArray[np.int64],
    by_case: NDArray[np.int64],
    counts: NDArray[np.int64],
    pseudo: NDArray[np.float64],
    share: float,
    uniforms: NDArray[np.float64],
) -> None:
    """Update every feature of every case once, in place, with mixtures and outcome distributions integrated out.

    Parameters
    ----------
    x : array of shape (N, P)
        Codes.
    assignments : array of shape (N, P)
        The cluster of each feature of each case.
    by_case, counts : arrays of shape (N, S) and (S, P, V)
        For each cluster: the number of features of a case, and the number of times that each value of a feature occurs.
    pseudo : array of shape (S, P, V)
        The Dirichlet parameters of the outcome distributions, 0 if the feature does not have the value.
    share : float
        alpha / S.
    uniforms : array of shape (N, P + 3)
        Random numbers: P for the features of a case and three for the exchange of two of its clusters.
    """
    n_cases, n_features = x.shape
    n_clusters = counts.shape[0]
    totals = np.zeros((n_clusters, n_features))
    for s in range(n_clusters):
        for j in range(n_features):
            totals[s, j] = pseudo[s, j].sum() + counts[s, j].sum()
    weights = np.empty(n_clusters)
    for i in range(n_cases):
        for j in range(n_features):
            v, s = x[i, j], assignments[i, j]
            by_case[i, s] -= 1
            counts[s, j, v] -= 1
            totals[s, j] -= 1.0
            total = 0.0
            for t in range(n_clusters):
                total += (share + by_case[i, t]) * (pseudo[t, j, v] + counts[t, j, v]) / totals[t, j]
                weights[t] = total
            threshold = uniforms[i, j] * total
            s = 0
            while s < n_clusters - 1 and weights[s] <= threshold:
                s += 1
            assignments[i, j] = s
            by_case[i, s] += 1
            counts[s, j, v] += 1
            totals[s, j] += 1.0
        exchange_clusters(x[i], assignments[i], by_case[i], counts, pseudo, totals, uniforms[i, n_features:])


@njit(cache=True, nogil=True, error_model="numpy")
def exchange_clusters(
    row: Any, assigned: Any, by_cluster: Any, counts: Any, pseudo: Any, totals: Any, uniforms: Any
) -> None:
    """Propose to exchange two clusters in one case, for all its features at once (Metropolis).

    If alpha is small, a case stays in one cluster and cannot leave it feature by feature. The exchange is its own
    inverse and does not change the probability of the case's counts, so only the fit of the values matters.
    """
    n_clusters = counts.shape[0]
    a = min(int(uniforms[0] * n_clusters), n_clusters - 1)
    b = min(int(uniforms[1] * n_clusters), n_clusters - 1)
    if a == b:
        return
    log_ratio = 0.0
    for j in range(len(row)):
        s = assigned[j]
        if s in (a, b):
            t, v = a + b - s, row[j]
            log_ratio += np.log((pseudo[t, j, v] + counts[t, j, v]) / totals[t, j])
            log_ratio -= np.log((pseudo[s, j, v] + counts[s, j, v] - 1.0) / (totals[s, j] - 1.0))
    if np.log(uniforms[2]) >= log_ratio:
        return
    for j in range(len(row)):
        s = assigned[j]
        if s in (a, b):
            t, v = a + b - s, row[j]
            counts[s, j, v] -= 1
            totals[s, j] -= 1.0
            counts[t, j, v] += 1
            totals[t, j] += 1.0
            assigned[j] = t
    kept = by_cluster[a]
    by_cluster[a] = by_cluster[b]
    by_cluster[b] = kept
