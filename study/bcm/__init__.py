"""The Bayesian Case Model of Kim, Rudin and Shah (2014), implemented from its description.

Each of S clusters has a prototype, one of the cases, and a subspace, the features in which the prototype is typical:

    prototype_s ~ uniform over the cases        subspace_sj ~ Bernoulli(relevance)
    outcomes_sj ~ Dirichlet(g_sj),              g_sj(v) = base * (1 + boost * [subspace_sj and prototype_s has v in j])
    mixture_i   ~ Dirichlet(alpha/S, ..., alpha/S)
    cluster_ij  ~ mixture_i,                    x_ij ~ outcomes_(cluster_ij), j

Outcome distributions and mixtures are integrated out (collapsed Gibbs sampling). Because prototypes are cases and cases
come from prototypes, the description defines a posterior given the data but no way to draw data. So simulation-based
tests do not apply, and the sampler is compared with enumerated posteriors instead.

Departs from Kim et al.: a prototype and its subspace are drawn together, and two clusters may be exchanged in a case.
Both leave the posterior invariant; without the second, a chain with a small alpha does not move.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from bayespatch.validation import check_count

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CaseModel:
    """The constants: base (lambda), boost (c), relevance (q) and alpha of Kim et al., and the number of clusters.

    Examples
    --------
    >>> CaseModel(n_clusters=4, alpha=0.1).boost
    50.0
    """

    n_clusters: int
    alpha: float
    base: float = 1.0
    boost: float = 50.0
    relevance: float = 0.8

    def __post_init__(self) -> None:
        check_count("n_clusters", self.n_clusters, at_least=1)
        for name in ("alpha", "base", "boost"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name}={getattr(self, name)!r} is not positive; pass a number greater than 0")
        if not 0.0 < self.relevance < 1.0:
            raise ValueError(f"relevance={self.relevance!r} is not a probability; pass a number between 0 and 1")


class State(NamedTuple):
    """One draw: clusters of features (N, P), prototypes (S,) as rows of x, subspaces (S, P)."""

    assignments: Ints
    prototypes: Ints
    subspaces: NDArray[np.bool_]


class FittedCases(NamedTuple):
    """The result of a chain.

    Attributes
    ----------
    model : CaseModel
    state : State
        The draw with the highest joint probability in the second half of the chain.
    outcomes : array of shape (S, P, V)
        Mean outcome distributions given this draw.
    log_joint : array of shape (sweeps,)
        Log joint probability after each sweep.
    """

    model: CaseModel
    state: State
    outcomes: Floats
    log_joint: Floats

    def mixtures(self, x: Ints, rng: np.random.Generator, n_sweeps: int = 100) -> Floats:
        """The mean mixture over clusters, (n, S), of old or new cases, given the outcome distributions."""
        return self.shares(x, rng, n_sweeps)[0]

    def shares(self, x: Ints, rng: np.random.Generator, n_sweeps: int = 100) -> tuple[Floats, Floats]:
        """Mixtures (n, S), and the probability that a feature of a case comes from a cluster (n, P, S)."""
        n_cases, n_features = x.shape
        n_clusters = self.model.n_clusters
        # How well each cluster explains each value; a value that is missing from the training cases is not informative.
        known = x < self.outcomes.shape[2]
        fit = np.moveaxis(self.outcomes[:, np.arange(n_features), np.where(known, x, 0)], 0, -1)
        fit = np.where(known[:, :, None] & (fit > 0.0), fit, 1.0)
        fit = np.log(fit)  # (n, P, S)
        one = np.eye(n_clusters)
        clusters = rng.integers(n_clusters, size=x.shape)
        by_case = one[clusters].sum(axis=1)
        share = self.model.alpha / n_clusters
        mean_mixture, mean_shares = np.zeros((n_cases, n_clusters)), np.zeros((n_cases, n_features, n_clusters))
        n_kept = 0
        for sweep in range(n_sweeps):
            for j in range(n_features):
                others = by_case - one[clusters[:, j]]
                clusters[:, j] = _choose(np.log(share + others) + fit[:, j], rng)
                by_case = others + one[clusters[:, j]]
            clusters = _exchange(clusters, fit, rng)
            by_case = one[clusters].sum(axis=1)
            if sweep >= n_sweeps // 4:
                mean_mixture += (share + by_case) / (self.model.alpha + n_features)
                mean_shares += one[clusters]
                n_kept += 1
        return mean_mixture / n_kept, mean_shares / n_kept


def fit_cases(x: Ints, n_values: Ints, model: CaseModel, rng: np.random.Generator, n_sweeps: int = 200) -> FittedCases:
    """Run one chain for the cases x (N, P) and keep the best draw.

    Examples
    --------
    >>> x = np.array([[0, 0], [0, 0], [1, 1], [1, 1]] * 5)
    >>> fitted = fit_cases(x, np.array([2, 2]), CaseModel(2, 0.1), np.random.default_rng(0), n_sweeps=50)
    >>> fitted.outcomes.shape, fitted.mixtures(x, np.random.default_rng(1)).shape
    ((2, 2, 2), (20, 2))
    """
    n_sweeps = check_count("n_sweeps", n_sweeps, at_least=1)
    state = start(x, model, rng)
    best, trace = state, np.empty(n_sweeps)
    for k in range(n_sweeps):
        state = sweep(state, x, n_values, model, rng)
        trace[k] = log_joint(state, x, n_values, model)
        if k == n_sweeps // 2 or (k > n_sweeps // 2 and trace[k] >= trace[n_sweeps // 2 : k].max()):
            best = state
    counts = _counts(best.assignments, x, model.n_clusters, int(n_values.max()))
    weights = counts + pseudo_counts(best, x, n_values, model)
    return FittedCases(model, best, weights / weights.sum(axis=2, keepdims=True), trace)


def start(x: Ints, model: CaseModel, rng: np.random.Generator) -> State:
    """The initial state: everything from its prior, with independent features."""
    shape = (model.n_clusters, x.shape[1])
    return State(
        rng.integers(model.n_clusters, size=x.shape),
        rng.integers(len(x), size=model.n_clusters),
        rng.random(shape) < model.relevance,
    )


def sweep(state: State, x: Ints, n_values: Ints, model: CaseModel, rng: np.random.Generator) -> State:
    """Update the clusters of all features given prototypes and subspaces, then these given the clusters."""
    from study.bcm.kernel import update_assignments  # loads Numba

    assignments = state.assignments.copy()
    counts = _counts(assignments, x, model.n_clusters, int(n_values.max()))
    by_case = (assignments[:, :, None] == np.arange(model.n_clusters)).sum(axis=1)
    pseudo = pseudo_counts(state, x, n_values, model)
    uniforms = rng.random((len(x), x.shape[1] + 3))
    update_assignments(x, assignments, by_case, counts, pseudo, model.alpha / model.n_clusters, uniforms)
    return State(assignments, *_draw_prototypes(counts, x, n_values, model, rng))


def log_joint(state: State, x: Ints, n_values: Ints, model: CaseModel) -> float:
    """log p(x, clusters, prototypes, subspaces), with mixtures and outcome distributions integrated out."""
    counts = _counts(state.assignments, x, model.n_clusters, int(n_values.max()))
    pseudo = pseudo_counts(state, x, n_values, model)
    there = pseudo > 0.0
    outcomes = gammaln(np.where(there, pseudo + counts, 1.0)) - gammaln(np.where(there, pseudo, 1.0))
    totals = gammaln(pseudo.sum(axis=2)) - gammaln((pseudo + counts).sum(axis=2))
    by_case = np.eye(model.n_clusters)[state.assignments].sum(axis=1)
    share = model.alpha / model.n_clusters
    mixtures = gammaln(share + by_case).sum() - by_case.size * gammaln(share)
    mixtures += len(x) * (gammaln(model.alpha) - gammaln(model.alpha + x.shape[1]))
    n_on = int(state.subspaces.sum())
    on = n_on * np.log(model.relevance) + (state.subspaces.size - n_on) * np.log1p(-model.relevance)
    return float(outcomes.sum() + totals.sum() + mixtures + on - model.n_clusters * np.log(len(x)))


def pseudo_counts(state: State, x: Ints, n_values: Ints, model: CaseModel) -> Floats:
    """g_sj(v), (S, P, V); 0 if feature j has no value v."""
    values = np.arange(int(n_values.max()))
    typical = state.subspaces[:, :, None] & (x[state.prototypes][:, :, None] == values)
    exists = values < n_values[:, None]
    return np.where(exists, model.base * (1.0 + model.boost * typical), 0.0)


def _counts(assignments: Ints, x: Ints, n_clusters: int, n_codes: int) -> Ints:
    """The number of times that a cluster has each value of each feature, (S, P, V)."""
    counts = np.zeros((n_clusters, x.shape[1], n_codes), dtype=np.int64)
    np.add.at(counts, (assignments, np.arange(x.shape[1]), x), 1)
    return counts


def _draw_prototypes(
    counts: Ints, x: Ints, n_values: Ints, model: CaseModel, rng: np.random.Generator
) -> tuple[Ints, NDArray[np.bool_]]:
    """Draw prototypes with their subspaces summed out, then the subspaces; outcome distributions are integrated out."""
    base, high = model.base, model.base * (1.0 + model.boost)
    n = counts.sum(axis=2)
    flat = gammaln(base + counts) - gammaln(base)  # 0 for values that do not exist
    total = base * n_values
    off = flat.sum(axis=2) + gammaln(total) - gammaln(total + n)  # (S, P)
    peak = total + model.base * model.boost
    on = flat.sum(axis=2)[:, :, None] - flat + gammaln(high + counts) - gammaln(high)
    on += (gammaln(peak) - gammaln(peak + n))[:, :, None]  # (S, P, V): the prototype has this value
    columns = np.arange(x.shape[1])
    log_on = np.log(model.relevance) + on[:, columns, x]  # (S, N, P)
    log_off = (np.log1p(-model.relevance) + off)[:, None, :]
    prototypes = _choose(np.logaddexp(log_on, log_off).sum(axis=2), rng)
    chosen = np.arange(model.n_clusters)
    odds = log_on[chosen, prototypes] - log_off[:, 0]
    return prototypes, rng.random(odds.shape) < 1.0 / (1.0 + np.exp(-odds))


def _exchange(clusters: Ints, fit: Floats, rng: np.random.Generator) -> Ints:
    """Propose to exchange two clusters in each case (Metropolis); `fit` is logarithmic, (n, P, S)."""
    a, b = rng.integers(fit.shape[2], size=(2, len(clusters), 1))
    swapped = np.where(clusters == a, b, np.where(clusters == b, a, clusters))
    gain = np.take_along_axis(fit, swapped[:, :, None], 2) - np.take_along_axis(fit, clusters[:, :, None], 2)
    accepted = np.log(rng.random(len(clusters))) < gain.sum(axis=(1, 2))
    return np.where(accepted[:, None], swapped, clusters)


def _choose(log_weights: Floats, rng: np.random.Generator) -> Ints:
    """Draw one index per row, with probability proportional to the weights."""
    weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True)).cumsum(axis=1)
    thresholds = rng.random(len(weights))[:, None] * weights[:, -1:]
    return (weights <= thresholds).sum(axis=1)
