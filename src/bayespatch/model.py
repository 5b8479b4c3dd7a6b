"""The model: observed and latent variables and their joint probability.

This module has all equations of the paper in plain NumPy, one function each; the labels in parentheses (``eq:g``,
``eq:xphi``, ...) come from the paper. The samplers in ``engine`` are tested against this file.

In all three models, parent b votes with weight kappa_ib for its class and, on the features that matter, for its values:

    g_ij(v) = lam0 + lam  * sum_b kappa_ib w_ibj [x_bj = v]        (eq:g, eq:gnew)
    h_i(m)  = mu0_m + mu_m * sum_b kappa_ib [y_b = m]              (eq:h, eq:hnew)

The value of a feature, or the class, is drawn with probability proportional to these votes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln

ModelKind = Literal["I", "II", "III"]
Likelihood = Literal["exact", "paper"]
KINDS: tuple[ModelKind, ...] = ("I", "II", "III")
LIKELIHOODS: tuple[Likelihood, ...] = ("exact", "paper")

# Constants that may have one number per class or per feature.
PER = {
    "mu0": "class",
    "mu": "class",
    "gamma": "feature",
    "sigma1": "feature",
}
# Beyond these limits, the floats of a sampler can no longer distinguish neighboring numbers, nor could any data.
SMALLEST_SHAPE, SMALLEST_VOTE, LARGEST = 1e-5, 1e-6, 1e6
_SHAPES = ("gamma", "sigma1", "sigma2", "tau", "sigma3")
HIDDEN = -1  # the label of a case with an unknown class

TINY = np.finfo(np.float64).tiny
EPSILON = np.finfo(np.float64).epsneg  # the smallest possible 1 - q for a float q below 1


@dataclass(frozen=True)
class Hyperparameters:
    """The constants of the prior and of the votes.

    Parameters
    ----------
    alpha
        α, the prior probability that a parent is a neighbor of a case; the expected number of neighbors is S·α.
    lam0, lam
        λ0, the base votes of every value of a feature, and λ, the weight of one neighbor's vote for its own value.
        The smaller λ0 is relative to λ, the more agreement counts.
    mu0, mu
        μ0, the base votes of a class, and μ, the weight of one neighbor's vote for its own class: one number each, or
        one per class (μ0_m, μ_m). For a case without neighbors, the class probabilities are proportional to μ0_m.
    gamma, sigma1
        γ and σ1: the importance of a feature is q_j ~ Beta(γ, σ1), with mean γ / (γ + σ1); one number each, or one per
        feature (γ_j, σ1_j).
    sigma2
        σ2: the importance of a feature for an individual parent is q̃_bj ~ Beta(σ2 q_j / (1 - q_j), σ2), with mean q_j.
        The larger σ2 is, the more similar the parents are.
    tau, sigma3
        τ and σ3, used only in Model III: the influence of a neighbor is κ_ib ~ Beta(τ, σ3).

    Examples
    --------
    >>> Hyperparameters(alpha=0.1).alpha
    0.1
    >>> Hyperparameters(mu=(1.0, 3.0)).mu_per_class(2)
    array([1., 3.])
    """

    alpha: float = 0.05
    lam0: float = 0.1
    lam: float = 2.0
    mu0: float | tuple[float, ...] = 0.1
    mu: float | tuple[float, ...] = 1.0
    gamma: float | tuple[float, ...] = 5.0
    sigma1: float | tuple[float, ...] = 2.0
    sigma2: float = 5.0
    tau: float = 1.0
    sigma3: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise ValueError(
                f"alpha must lie strictly between 0 and 1, got {self.alpha}; "
                "it is the probability of being a neighbor: to expect k neighbors among S parents pass k / S"
            )
        for constant in fields(self):
            value = getattr(self, constant.name)
            values = np.asarray(value, dtype=np.float64)
            shaped = values.ndim == 0 or (values.ndim == 1 and values.size > 0 and constant.name in PER)
            if not shaped or not np.all(np.isfinite(values) & (values > 0)):
                several = f", or one such number per {PER[constant.name]}" if constant.name in PER else ""
                raise ValueError(
                    f"{constant.name} must be finite and greater than 0, got {value}; pass a positive number{several}"
                )
            smallest = SMALLEST_SHAPE if constant.name in _SHAPES else SMALLEST_VOTE
            if constant.name != "alpha" and not np.all((values >= smallest) & (values <= LARGEST)):
                raise ValueError(
                    f"{constant.name} must lie between {smallest:g} and {LARGEST:g}, got {value}; pass a number in "
                    f"this range (only the ratios of lam to lam0 and of mu to mu0 matter)"
                )

    @classmethod
    def paper(cls) -> Hyperparameters:
        """The constants of the paper's experiments, made consistent (errata, item 4).

        Examples
        --------
        >>> Hyperparameters.paper().lam0
        0.001
        """
        return cls(alpha=0.5, gamma=0.5, sigma1=0.5, sigma2=5.0, mu0=0.001, mu=1.0, lam0=0.001, lam=2.0)

    def mu_per_class(self, n_classes: int) -> NDArray[np.float64]:
        """μ_m, the weight of a vote for each class, an array of shape (M,).

        Examples
        --------
        >>> Hyperparameters(mu=2.0).mu_per_class(3)
        array([2., 2., 2.])
        """
        return self._each("mu", n_classes, "classes")

    def mu0_per_class(self, n_classes: int) -> NDArray[np.float64]:
        """μ0_m, the base votes of each class, an array of shape (M,).

        Examples
        --------
        >>> Hyperparameters(mu0=(0.2, 0.1)).mu0_per_class(2)
        array([0.2, 0.1])
        """
        return self._each("mu0", n_classes, "classes")

    def q_prior(self, n_features: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """γ_j and σ1_j, the shapes of the prior of each feature's importance, two arrays of shape (P,).

        Examples
        --------
        >>> Hyperparameters(gamma=(5.0, 1.0), sigma1=2.0).q_prior(2)
        (array([5., 1.]), array([2., 2.]))
        """
        return self._each("gamma", n_features, "features"), self._each("sigma1", n_features, "features")

    def _each(self, name: str, n: int, what: str) -> NDArray[np.float64]:
        values = np.asarray(getattr(self, name), dtype=np.float64)
        if values.ndim == 1 and len(values) != n:
            raise ValueError(
                f"{name} has {len(values)} values for {n} {what}, got {getattr(self, name)}; "
                f"pass one number or one per {PER[name]}"
            )
        return np.broadcast_to(values, n).copy()


@dataclass(frozen=True)
class Model:
    """The choice of model, likelihood and constants.

    Parameters
    ----------
    kind
        The influence of a neighbor: "I", equal for all neighbors, κ = z; "II", the number of features that matter,
        κ = z Σ_j w_ibj; "III", a separate variable, κ = z · Beta(τ, σ3).
    likelihood
        "exact", g(x) / Σ_v g(v), the probability that follows from the model; or "paper", (g(x) + 1) / (Σ_v g(v) + 1),
        as printed in `eq:xphi` and `eq:simyphi`, which does not sum to one over x.
    hyper
        The constants.
    """

    kind: ModelKind = "I"
    likelihood: Likelihood = "exact"
    hyper: Hyperparameters = field(default_factory=Hyperparameters)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"unknown model {self.kind!r}; choose one of {', '.join(map(repr, KINDS))}")
        if self.likelihood not in LIKELIHOODS:
            raise ValueError(
                f"unknown likelihood {self.likelihood!r}; choose one of {', '.join(map(repr, LIKELIHOODS))}"
            )


class PastElsewhere(Protocol):
    """Past cases that are not in this process: `bayespatch.retrieval.PartitionedIndex`."""

    @property
    def n_cases(self) -> int:
        """The number of past cases."""

    @property
    def weight_by_class(self) -> NDArray[np.float64]:
        """Sum of the weights of the past cases of each class, (M,)."""


class Data(NamedTuple):
    """The observed data: N cases, S parents (past cases), P features and M classes.

    The values of a case and a parent agree if ``|x_ij - x_bj| <= windows_j``; codes of categories have window 0. NaN is
    a missing value: in a case, it has likelihood 1; in a parent, it means that the parent does not vote on the feature.
    """

    x: NDArray[np.float64]  # (N, P)
    y: NDArray[np.int64]  # (N,)  class 0..M-1, or HIDDEN
    x_parents: NDArray[np.float64]  # (S, P)
    y_parents: NDArray[np.int64]  # (S,)
    n_values: NDArray[np.float64]  # (P,)  V_j; range_j / (2 r_j) for a window
    n_classes: int
    windows: NDArray[np.float64]  # (P,)  r_j
    own_parent: NDArray[np.int64]  # (N,)  the parent that is the case itself, never its neighbor; -1: none
    nested: tuple[tuple[float, ...], ...] = ()  # additional windows of each feature, for closed-form votes
    groups: NDArray[np.int64] | None = None  # (S,)  parents of the same group never vote on each other
    weights: NDArray[np.float64] | None = None  # (S,)  weights of the closed-form votes of parents; None: all 1
    # All past cases that vote in closed form, if they are not in this process; the parents are then a sample.
    elsewhere: PastElsewhere | None = None
    rows_of_parents: NDArray[np.int64] | None = None  # (S,)  their rows elsewhere; `own_parent` then has these rows

    def every_window(self) -> list[tuple[float, ...]]:
        """All windows of each feature, P."""
        nested = self.nested or ((),) * len(self.windows)
        return [(window, *more) for window, more in zip(self.windows.tolist(), nested, strict=True)]

    def weight_by_class(self) -> NDArray[np.float64]:
        """Sum of the weights of the voting past cases of each class, (M,)."""
        if self.elsewhere is not None:
            return self.elsewhere.weight_by_class
        return np.bincount(self.y_parents, self.weights, self.n_classes).astype(np.float64)


class Latent(NamedTuple):
    """One draw of the latent variables, with q-tilde integrated out.

    ``w`` and ``kappa`` matter only if ``z`` is 1; otherwise they are summed out, and their entries are ignored.
    """

    q: NDArray[np.float64]  # (P,)
    z: NDArray[np.bool_]  # (N, S)
    w: NDArray[np.bool_]  # (N, S, P)
    kappa: NDArray[np.float64]  # (N, S)  used only in Model III; the other models derive it from z and w


# Agreement, and possible neighbors


def agreement(data: Data) -> NDArray[np.bool_]:
    """(N, S, P): whether the values of case and parent agree, |x_ij - x_bj| <= r_j. A missing value never agrees."""
    return np.abs(data.x[:, None, :] - data.x_parents[None, :, :]) <= data.windows


def can_vote(data: Data) -> NDArray[np.bool_]:
    """(S, P): whether the parent has a value. Without a value, it does not vote."""
    return ~np.isnan(data.x_parents)


def observed(data: Data) -> NDArray[np.bool_]:
    """(N, P): whether the case has a value. A missing value has likelihood 1."""
    return ~np.isnan(data.x)


def may_be_neighbors(data: Data) -> NDArray[np.bool_]:
    """(N, S): False if the parent is the case itself, so that z is 0 without a prior factor."""
    return data.own_parent[:, None] != np.arange(len(data.x_parents))


# Votes


def influence(model: Model, latent: Latent) -> NDArray[np.float64]:
    """κ, the weight of each parent's vote on each case, (N, S).

    Model I: z_ib. Model II: z_ib Σ_j w_ibj, over all features, including those with missing values. Model III:
    z_ib κ_ib.
    """
    if model.kind == "I":
        return latent.z.astype(np.float64)
    if model.kind == "II":
        return latent.z * latent.w.sum(axis=2, dtype=np.float64)
    return np.where(latent.z, latent.kappa, 0.0)


def feature_votes(data: Data, model: Model, latent: Latent) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The votes on each feature of each case that agree with the case's own value, and all votes; both (N, P).

    agree_ij = Σ_b κ_ib w_ibj [x_bj = x_ij],  total_ij = Σ_b κ_ib w_ibj [x_bj is known]
    """
    votes = influence(model, latent)[:, :, None] * (latent.w & can_vote(data))
    return (votes * agreement(data)).sum(axis=1), votes.sum(axis=1)


def label_votes(data: Data, model: Model, latent: Latent) -> NDArray[np.float64]:
    """The votes for each class, (N, M): Σ_b κ_ib [y_b = m]."""
    of_class = data.y_parents[:, None] == np.arange(data.n_classes)
    return influence(model, latent) @ of_class.astype(np.float64)


def g(data: Data, model: Model, latent: Latent, j: int) -> NDArray[np.float64]:
    """`eq:g`, `eq:gnew`: the weight of each value 0..V_j-1 of the categorical feature j, (N, V_j)."""
    values = np.arange(int(data.n_values[j]))
    votes = influence(model, latent) * latent.w[:, :, j]
    of_value = data.x_parents[:, j, None] == values
    return model.hyper.lam0 + model.hyper.lam * (votes @ of_value.astype(np.float64))


def h(data: Data, model: Model, latent: Latent) -> NDArray[np.float64]:
    """`eq:h`, `eq:hnew`: the weight of each class, (N, M)."""
    base = model.hyper.mu0_per_class(data.n_classes)
    return base + model.hyper.mu_per_class(data.n_classes) * label_votes(data, model, latent)


def class_votes(data: Data, model: Model, latent: Latent) -> NDArray[np.float64]:
    """The probability of each class under one draw, (N, M): h_i(m) / Σ_m h_i(m), for both likelihoods."""
    weights = h(data, model, latent)
    return weights / weights.sum(axis=1, keepdims=True)


# Likelihood


def feature_constants(data: Data, model: Model) -> tuple[float, NDArray[np.float64]]:
    """c1 and c2_j, (P,), such that a feature's likelihood is (c1 + λ agree) / (c2_j + λ total).

    Exact: λ0 and V_j λ0. The paper's version adds 1 to both.
    """
    one = float(model.likelihood == "paper")
    return model.hyper.lam0 + one, np.asarray(data.n_values, dtype=np.float64) * model.hyper.lam0 + one


def label_constants(data: Data, model: Model) -> tuple[NDArray[np.float64], float]:
    """c1_m, (M,), and c2 such that a label's likelihood is (c1_y + μ_y votes_y) / (c2 + Σ_m μ_m votes_m)."""
    one = float(model.likelihood == "paper")
    base = model.hyper.mu0_per_class(data.n_classes)
    return base + one, float(base.sum()) + one


def log_likelihood_features(data: Data, model: Model, latent: Latent) -> NDArray[np.float64]:
    """`eq:xphi`, corrected if the likelihood is exact: log p(x_ij | z, w, κ), (N, P); 0 if x_ij is missing."""
    c1, c2 = feature_constants(data, model)
    agree, total = feature_votes(data, model, latent)
    log_likelihood = np.log(c1 + model.hyper.lam * agree) - np.log(c2 + model.hyper.lam * total)
    return np.where(observed(data), log_likelihood, 0.0)


def log_likelihood_labels(data: Data, model: Model, latent: Latent) -> NDArray[np.float64]:
    """`eq:simyphi`, corrected if the likelihood is exact: log p(y_i | z, κ), (N,); 0 if y_i is hidden."""
    c1, c2 = label_constants(data, model)
    votes = model.hyper.mu_per_class(data.n_classes) * label_votes(data, model, latent)
    label = np.maximum(data.y, 0)
    own = votes[np.arange(len(data.y)), label]
    return np.where(data.y == HIDDEN, 0.0, np.log(c1[label] + own) - np.log(c2 + votes.sum(axis=1)))


# Prior


def prior_shape(q: NDArray[np.float64], sigma2: float) -> NDArray[np.float64]:
    """q'_j = σ2 q_j / (1 - q_j), the first shape of q-tilde's prior Beta(q'_j, σ2), kept positive and finite."""
    return np.maximum(sigma2 * q / np.maximum(1.0 - q, EPSILON), TINY)


def log_prior_z(data: Data, model: Model, latent: Latent) -> float:
    """log p(z): a parent is a neighbor with probability α; a case is never its own neighbor."""
    allowed = may_be_neighbors(data)
    if np.any(latent.z & ~allowed):
        return -np.inf
    n_on, n_pairs = latent.z.sum(), allowed.sum()
    return float(n_on * np.log(model.hyper.alpha) + (n_pairs - n_on) * np.log1p(-model.hyper.alpha))


def log_prior_w(model: Model, latent: Latent) -> float:
    """`eq:simpw`: log p(w | q, z), with q-tilde integrated out.

    Σ_bj log B(q'_j + s_bj, σ2 + n_b - s_bj) - log B(q'_j, σ2), n_b = Σ_i z_ib, s_bj = Σ_i z_ib w_ibj.

    Departs from the paper: its sums run over all N cases; here the w of non-neighbors, which do not affect the data,
    are summed out. The posterior of everything else is the same.
    """
    sigma2 = model.hyper.sigma2
    n_on = latent.z.sum(axis=0)[:, None]
    s = (latent.z[:, :, None] & latent.w).sum(axis=0)
    shape = prior_shape(latent.q, sigma2)
    return float((betaln(shape + s, sigma2 + n_on - s) - betaln(shape, sigma2)).sum())


def log_prior_q(model: Model, latent: Latent) -> float:
    """log p(q), with q_j ~ Beta(γ_j, σ1_j)."""
    return log_beta_density(latent.q, *model.hyper.q_prior(len(latent.q)))


def log_prior_kappa(model: Model, latent: Latent) -> float:
    """log p(κ | z) in Model III: Beta(τ, σ3) if z is on. 0 for the other models, which have no separate κ."""
    if model.kind != "III":
        return 0.0
    return log_beta_density(latent.kappa[latent.z], model.hyper.tau, model.hyper.sigma3)


def log_beta_density(
    value: NDArray[np.float64], a: float | NDArray[np.float64], b: float | NDArray[np.float64]
) -> float:
    """The sum of log Beta(value; a, b); values that round to 0 or 1 are replaced by the nearest number in (0, 1)."""
    log_value = np.log(np.maximum(value, TINY))
    log_rest = np.log(np.maximum(1.0 - value, EPSILON))
    return float(((a - 1) * log_value + (b - 1) * log_rest - betaln(a, b)).sum())


def log_joint(data: Data, model: Model, latent: Latent) -> float:
    """`eq:postint2`: log p(x, y, q, z, w, κ), with φ, θ, q-tilde and the w and κ of non-neighbors integrated out."""
    return float(
        log_likelihood_features(data, model, latent).sum()
        + log_likelihood_labels(data, model, latent).sum()
        + log_prior_z(data, model, latent)
        + log_prior_w(model, latent)
        + log_prior_kappa(model, latent)
        + log_prior_q(model, latent)
    )
