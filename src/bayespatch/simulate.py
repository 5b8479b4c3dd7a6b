"""Forward simulation: importances, neighbors and influences from the prior, and cases given these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.model import HIDDEN, Data, Latent, Model, class_votes, g, prior_shape


class Simulation(NamedTuple):
    """A simulated table with the latent variables that generated it."""

    data: Data
    latent: Latent
    q_tilde: NDArray[np.float64]  # (S, P)


def draw_prior(
    rng: np.random.Generator,
    model: Model,
    n_cases: int,
    n_parents: int,
    n_features: int,
    own_parent: NDArray[np.int64] | None = None,
) -> tuple[Latent, NDArray[np.float64]]:
    """Draw q, q-tilde, z, w and kappa from the prior; w and kappa are drawn for all pairs, not only for neighbors.

    Parameters
    ----------
    rng
        The random number generator.
    model
        The model, whose constants define the prior.
    n_cases, n_parents, n_features
        N, S and P.
    own_parent
        (N,) the parent that is the case itself, never its neighbor; -1 (or None for all cases) if there is no such
        parent.

    Returns
    -------
    latent, q_tilde
        The latent variables, and q-tilde (S, P), which may round to 0 or 1.
    """
    hyper = model.hyper
    q = rng.beta(*hyper.q_prior(n_features))
    q_tilde = rng.beta(prior_shape(q, hyper.sigma2), hyper.sigma2, (n_parents, n_features))
    z = rng.random((n_cases, n_parents)) < hyper.alpha
    if own_parent is not None:
        z &= own_parent[:, None] != np.arange(n_parents)
    w = rng.random((n_cases, n_parents, n_features)) < q_tilde
    kappa = rng.beta(hyper.tau, hyper.sigma3, (n_cases, n_parents))
    return Latent(q=q, z=z, w=w, kappa=kappa), q_tilde


def draw_data(rng: np.random.Generator, model: Model, latent: Latent, data: Data) -> Data:
    """Draw new values and classes for the cases of `data`, given the latent variables and the parents.

    Missing values and hidden labels do not change. Every feature must be categorical, with codes 0..V_j-1 and window 0.
    """
    if model.likelihood != "exact":
        raise ValueError(
            "likelihood='paper' cannot be simulated: (g(x) + 1) / (sum g + 1) does not sum to one over x, "
            "so it is not a distribution; pass a Model with likelihood='exact'"
        )
    if np.any(data.windows != 0) or np.any(data.n_values != np.floor(data.n_values)):
        raise ValueError(
            f"only categorical features can be simulated, got windows {data.windows} and n_values {data.n_values}; "
            "pass windows of 0 and whole numbers of values"
        )
    x = np.empty_like(data.x)
    for j in range(x.shape[1]):
        x[:, j] = _categorical(rng, g(data, model, latent, j))
    y = _categorical(rng, class_votes(data, model, latent))
    return data._replace(
        x=np.where(np.isnan(data.x), np.nan, x),
        y=np.where(data.y == HIDDEN, HIDDEN, y),
    )


def simulate(
    rng: np.random.Generator,
    model: Model,
    n_cases: int,
    n_parents: int,
    n_values: Sequence[int],
    n_classes: int = 2,
) -> Simulation:
    """Simulate a table from the model: parents with uniformly distributed values and classes, and cases from the model.

    Examples
    --------
    >>> made = simulate(np.random.default_rng(0), Model(), n_cases=5, n_parents=3, n_values=[2, 4])
    >>> made.data.x.shape, made.latent.w.shape
    ((5, 2), (5, 3, 2))
    """
    n_features = len(n_values)
    latent, q_tilde = draw_prior(rng, model, n_cases, n_parents, n_features)
    blank = Data(
        x=np.zeros((n_cases, n_features)),
        y=np.zeros(n_cases, dtype=np.int64),
        x_parents=rng.integers(0, np.asarray(n_values), (n_parents, n_features)).astype(np.float64),
        y_parents=rng.integers(0, n_classes, n_parents),
        n_values=np.asarray(n_values, dtype=np.float64),
        n_classes=n_classes,
        windows=np.zeros(n_features),
        own_parent=np.full(n_cases, -1, dtype=np.int64),
    )
    return Simulation(data=draw_data(rng, model, latent, blank), latent=latent, q_tilde=q_tilde)


def _categorical(rng: np.random.Generator, weights: NDArray[np.float64]) -> NDArray[np.int64]:
    """One draw for each row of weights, with probabilities proportional to the weights."""
    cumulative = weights.cumsum(axis=1)
    threshold = rng.random(len(weights)) * cumulative[:, -1]
    return (threshold[:, None] >= cumulative[:, :-1]).sum(axis=1)
