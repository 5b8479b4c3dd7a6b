"""The posterior of the Bayesian Case Model summed out on a tiny problem, from the description and not from the code.

Nothing is integrated by formula that the sampler integrates by the same formula: the predictive probabilities of a
Dirichlet-categorical are multiplied one observation after the other.
"""

import itertools

import numpy as np


def sequence_probability(values, pseudo):
    """Probability of a sequence of draws whose distribution has a Dirichlet prior."""
    pseudo = np.array(pseudo, dtype=float)
    probability = 1.0
    for value in values:
        probability *= pseudo[value] / pseudo.sum()
        pseudo[value] += 1.0
    return probability


def summaries(assignments, prototypes, subspaces):
    """What is watched: who shares a cluster with whom, prototypes, subspaces; one flat vector."""
    flat = assignments.ravel()
    together = (flat[:, None] == flat)[np.triu_indices(len(flat), 1)]
    proto = np.array(prototypes)[:, None] == np.arange(len(assignments))
    return np.concatenate([together, proto.ravel(), np.ravel(subspaces)]).astype(float)


def enumerate_cases(x, n_values, model):
    """Exact posterior means of the summaries."""
    n_cases, n_features = x.shape
    n_clusters = model.n_clusters
    total, weighted = 0.0, 0.0
    clusters = list(itertools.product(range(n_clusters), repeat=n_cases * n_features))
    mixing = {
        flat: np.prod(
            [
                sequence_probability(row, [model.alpha / n_clusters] * n_clusters)
                for row in np.reshape(flat, (n_cases, n_features))
            ]
        )
        for flat in clusters
    }
    for prototypes in itertools.product(range(n_cases), repeat=n_clusters):
        for on in itertools.product((False, True), repeat=n_clusters * n_features):
            subspaces = np.reshape(on, (n_clusters, n_features))
            prior = np.prod(np.where(subspaces, model.relevance, 1.0 - model.relevance))
            pseudo = [
                [
                    [
                        model.base * (1.0 + model.boost * (subspaces[s, j] and x[prototypes[s], j] == v))
                        for v in range(n_values[j])
                    ]
                    for j in range(n_features)
                ]
                for s in range(n_clusters)
            ]
            for flat in clusters:
                assignments = np.reshape(flat, (n_cases, n_features))
                weight = prior * mixing[flat]
                for s in range(n_clusters):
                    for j in range(n_features):
                        weight *= sequence_probability(x[assignments[:, j] == s, j], pseudo[s][j])
                total += weight
                weighted = weighted + weight * summaries(assignments, prototypes, subspaces)
    return weighted / total
