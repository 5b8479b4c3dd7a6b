"""The exact posterior of a tiny problem: every z and w summed, q and kappa by quadrature.

Written apart from `bayespatch.model` on purpose, from the equations alone: it is what the samplers are held against,
and `test_enumeration.py` holds it against the model.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, expit, gammaln, log_expit, logsumexp, roots_jacobi

from bayespatch.model import HIDDEN, Data, Hyperparameters, Model

N_KAPPA_NODES = 30


class Exact(NamedTuple):
    """Posterior means and the probability of the data."""

    z: NDArray[np.float64]  # (N, S)
    zw: NDArray[np.float64]  # (N, S, P)
    q: NDArray[np.float64]  # (P,)
    log_evidence: float
    kappa: NDArray[np.float64]  # (N, S)  the influence, 0 where z is off


class Settings(NamedTuple):
    """All settings of z and w, w only where z is on, with the log of their weight; q and kappa are integrated out."""

    z: NDArray[np.bool_]  # (K, N, S)
    zw: NDArray[np.bool_]  # (K, N, S, P)
    log_weight: NDArray[np.float64]  # (K,)  log p(x, y, z, w)
    q: NDArray[np.float64]  # (K, P)  E[q | z, w]
    kappa: NDArray[np.float64]  # (K, N, S)  E[kappa | z, w]


def enumerate_posterior(data: Data, model: Model, q: NDArray[np.float64] | None = None) -> Exact:
    """The exact posterior means of z, z*w and q, and the evidence p(x, y); given q, where it is given."""
    settings = enumerate_settings(data, model, q)
    log_evidence = logsumexp(settings.log_weight)
    weight = np.exp(settings.log_weight - log_evidence)
    return Exact(
        z=np.tensordot(weight, settings.z, 1),
        zw=np.tensordot(weight, settings.zw, 1),
        q=weight @ settings.q,
        log_evidence=float(log_evidence),
        kappa=np.tensordot(weight, settings.kappa, 1),
    )


def enumerate_settings(data: Data, model: Model, given_q: NDArray[np.float64] | None = None) -> Settings:
    """Every setting of (z, w). The cases share nothing but the counts (n_b, s_bj) that q sees."""
    (n_cases, n_features), n_parents = data.x.shape, len(data.x_parents)
    case_settings = [_settings_of_case(data, model, i) for i in range(n_cases)]
    choice = np.array(list(itertools.product(*(range(len(settings[0])) for settings in case_settings))))
    z = np.stack([case_settings[i][0][choice[:, i]] for i in range(n_cases)], axis=1)
    zw = np.stack([case_settings[i][1][choice[:, i]] for i in range(n_cases)], axis=1)
    kappa = np.stack([case_settings[i][3][choice[:, i]] for i in range(n_cases)], axis=1)
    log_weight = sum(case_settings[i][2][choice[:, i]] for i in range(n_cases))

    n = z.sum(axis=1)  # (K, S)
    s = zw.sum(axis=1)  # (K, S, P)
    q = np.empty((len(choice), n_features))
    for j in range(n_features):
        counts, which = np.unique(np.concatenate([n, s[:, :, j]], axis=1), axis=0, return_inverse=True)
        if given_q is None:
            integrals = np.array([integrate_q(model.hyper, c[:n_parents], c[n_parents:], j) for c in counts])
        else:
            log_p = [log_p_of_w(model.hyper, given_q[j], c[:n_parents], c[n_parents:]) for c in counts]
            integrals = np.array([(log, given_q[j]) for log in log_p])
        log_weight = log_weight + integrals[which.ravel(), 0]
        q[:, j] = integrals[which.ravel(), 1]
    return Settings(z=z, zw=zw, log_weight=log_weight, q=q, kappa=kappa)


def integrate_q(hyper: Hyperparameters, n: NDArray[np.int64], s: NDArray[np.int64], j: int = 0) -> tuple[float, float]:
    """log of the integral over q of Beta(q; gamma, sigma1) prod_b B(q' + s_b, sigma2 + n_b - s_b) / B(q', sigma2),
    and the mean of q under that integrand.

    On the scale of logit q the integrand is analytic in a strip of half-width pi and falls off exponentially, so that
    the trapezoid rule converges like exp(-2 pi^2 / h): at h = 0.1 it is exact to rounding.
    """
    h = 0.1
    gamma, sigma1 = (np.atleast_1d(shape)[j if np.ndim(shape) else 0] for shape in (hyper.gamma, hyper.sigma1))
    points = np.arange(-45.0 / gamma, 45.0 / sigma1, h)
    shape = hyper.sigma2 * np.exp(points)[:, None]
    # B(q'+s, sigma2+n-s) / B(q', sigma2) = q'(q'+1)..(q'+s-1) sigma2(sigma2+1)..(sigma2+n-s-1) / (q'+sigma2)..(..+n-1)
    log_f = gamma * log_expit(points) + sigma1 * log_expit(-points) - betaln(gamma, sigma1)
    for n_b, s_b in zip(n, s, strict=True):
        log_f = log_f + np.log(shape + np.arange(s_b)).sum(axis=1)
        log_f = log_f + gammaln(hyper.sigma2 + n_b - s_b) - gammaln(hyper.sigma2)
        log_f = log_f - np.log(shape + hyper.sigma2 + np.arange(n_b)).sum(axis=1)
    log_total = logsumexp(log_f)
    return log_total + np.log(h), float(np.exp(log_f - log_total) @ expit(points))


def log_p_of_w(hyper: Hyperparameters, q: float, n: NDArray[np.int64], s: NDArray[np.int64]) -> float:
    """log prod_b B(q' + s_b, sigma2 + n_b - s_b) / B(q', sigma2) for one q."""
    shape = hyper.sigma2 * q / (1.0 - q)
    return float((betaln(shape + s, hyper.sigma2 + n - s) - betaln(shape, hyper.sigma2)).sum())


class Voting(NamedTuple):
    """What the neighbors of one case tell of it, exactly, given q-tilde."""

    votes: NDArray[np.float64]  # (M,)  E[h(m) / sum h]
    z: NDArray[np.float64]  # (S,)
    zw: NDArray[np.float64]  # (S, P)
    share: NDArray[np.float64]  # (S,)  of each parent in all votes
    n_neighbors: float


def enumerate_votes(data: Data, model: Model, q_tilde: NDArray[np.float64], i: int) -> Voting:
    """All settings of z_i and w_i weighed, Model I, q-tilde (S, P) given; a silent parent's w is left at 0."""
    z, w, log_weight, _ = _settings_of_case(data, model, i)
    silent = np.isnan(data.x_parents)
    log_p = np.where(w, np.log(q_tilde), np.log1p(-q_tilde)) * z[:, :, None]
    log_weight = log_weight + log_p.sum(axis=(1, 2))
    weight = np.exp(log_weight - logsumexp(log_weight))
    mu = np.broadcast_to(model.hyper.mu, data.n_classes)[data.y_parents]
    base = model.hyper.mu0_per_class(data.n_classes)
    every = base.sum() + (z * mu).sum(axis=1)
    share = z * mu / every[:, None]
    by_class = np.stack([share[:, data.y_parents == m].sum(axis=1) for m in range(data.n_classes)], axis=1)
    return Voting(
        votes=weight @ (by_class + base / every[:, None]),
        z=weight @ z,
        zw=np.where(silent, 0.0, np.tensordot(weight, w & z[:, :, None], 1)),
        share=weight @ share,
        n_neighbors=float(weight @ z.sum(axis=1)),
    )


def _settings_of_case(
    data: Data, model: Model, i: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64], NDArray[np.float64]]:
    """Every z_i (K, S) and w_i (K, S, P) of one case, with log p(z_i) p(x_i, y_i | z_i, w_i) and E[kappa_i | ..]."""
    n_parents, n_features = data.x_parents.shape
    alpha = model.hyper.alpha
    z_list, w_list, log_weights, kappas = [], [], [], []
    per_parent = [None, *itertools.product([False, True], repeat=n_features)]  # off, or on with one of the 2^P w
    for setting in itertools.product(*([None] if b == data.own_parent[i] else per_parent for b in range(n_parents))):
        z = np.array([w_b is not None for w_b in setting])
        w = np.array([w_b if w_b is not None else [False] * n_features for w_b in setting])
        n_possible = n_parents - int(0 <= data.own_parent[i] < n_parents)
        log_prior = z.sum() * np.log(alpha) + (n_possible - z.sum()) * np.log(1 - alpha)
        z_list.append(z)
        w_list.append(w)
        log_likelihood, kappa = _log_likelihood_of_case(data, model, i, z, w)
        log_weights.append(log_prior + log_likelihood)
        kappas.append(kappa)
    return np.array(z_list), np.array(w_list), np.array(log_weights), np.array(kappas)


def _log_likelihood_of_case(
    data: Data, model: Model, i: int, z: NDArray[np.bool_], w: NDArray[np.bool_]
) -> tuple[float, NDArray[np.float64]]:
    """log p(x_i, y_i | z_i, w_i), in Model III with the kappa of the neighbors integrated out; and E[kappa_i | ..]."""
    hyper = model.hyper
    neighbors = np.flatnonzero(z)
    if model.kind == "III" and len(neighbors) > 0:
        # Gauss-Jacobi: exact for polynomials of degree 59 under the density Beta(tau, sigma3).
        nodes, weights = roots_jacobi(N_KAPPA_NODES, hyper.sigma3 - 1, hyper.tau - 1)
        nodes, weights = (nodes + 1) / 2, weights / weights.sum()
        kappa = np.array(list(itertools.product(nodes, repeat=len(neighbors))))
        weight = np.prod(np.array(list(itertools.product(weights, repeat=len(neighbors)))), axis=1)
    else:
        kappa = w.sum(axis=1)[neighbors][None, :] if model.kind == "II" else np.ones((1, len(neighbors)))
        weight = np.ones(1)
    one = 1.0 if model.likelihood == "paper" else 0.0
    likelihood = np.ones(len(kappa))
    for j in range(data.x.shape[1]):
        if np.isnan(data.x[i, j]):
            continue
        agree, total = np.zeros(len(kappa)), np.zeros(len(kappa))
        for column, b in enumerate(neighbors):
            if w[b, j] and not np.isnan(data.x_parents[b, j]):
                total += kappa[:, column]
                if abs(data.x[i, j] - data.x_parents[b, j]) <= data.windows[j]:
                    agree += kappa[:, column]
        likelihood *= (hyper.lam0 + hyper.lam * agree + one) / (data.n_values[j] * hyper.lam0 + hyper.lam * total + one)
    if data.y[i] != HIDDEN:
        mu = np.broadcast_to(hyper.mu, data.n_classes)
        h = np.tile(hyper.mu0_per_class(data.n_classes), (len(kappa), 1))
        for column, b in enumerate(neighbors):
            h[:, data.y_parents[b]] += mu[data.y_parents[b]] * kappa[:, column]
        likelihood *= (h[:, data.y[i]] + one) / (h.sum(axis=1) + one)
    mean_kappa = np.zeros(len(z))
    mean_kappa[neighbors] = (weight * likelihood) @ kappa / (weight @ likelihood)
    return float(np.log(weight @ likelihood)), mean_kappa
