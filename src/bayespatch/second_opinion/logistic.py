"""Logistic regression with normal priors: the mathematics behind the additive score.

Notation: terms x (n, D), classes y (n,) and weights (n,) of rows. There are K sums: with two classes a single one, the
log odds of the second class, otherwise one per class. Coefficients come from scikit-learn; this module adds their
uncertainty, the evidence for the priors, and leave-one-out predictions.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit, log_softmax, logit, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from bayespatch.second_opinion.design import Array

# Prior variances of a coefficient to try, and factors for the prior standard deviation of curvature; 0 means straight
# lines. Weaker priors are judged only by leave-one-out, because the Laplace approximation of the evidence fails if
# classes are nearly separable.
STRENGTHS = tuple(10.0 ** (k / 2) for k in range(-6, 4))
WEAKER = tuple(10.0 ** (k / 2) for k in range(4, 7))
CURVATURES = (0.0, 0.3, 1.0)
MOST_PRIORS = len(CURVATURES) * len(STRENGTHS + WEAKER)
LEAST_SHARE = 0.01  # smallest share of a prior in the average
MOST_JOINT = 1_500  # coefficients with a joint covariance; for more, the covariance is computed class by class
_TOLERANCE = 1e-10  # tolerance for the gradient of the mean loss
_FREE = 1e-4  # prior precision of intercepts if there are several, because only their differences are meaningful
_LEAST = 1e-12  # smallest probability
AT_ONCE = 2**23  # largest size of an array with K x K values per row


class Fit(NamedTuple):
    """Coefficients for one strength and curvature, (K,) and (D, K), and the precision of their priors, (D + 1,).

    If classes are ordered and every term moves a case along their order, `scale` (K,) has the positions of the classes
    (mean 0, Euclidean norm 1), and the coefficients are ``beta_f scale_k``.
    """

    intercept: Array
    coef: Array
    precision: Array
    scale: Array | None = None


class Tried(NamedTuple):
    """Evidence for the priors that were tried; NaN for all others.

    Attributes
    ----------
    evidence : array of shape (curvatures, strengths)
        Laplace approximation of the log marginal likelihood.
    loo : array of shape (curvatures, strengths and weaker)
        Sum of the leave-one-out log scores of the rows.
    fits : dict
        Fits by strength and curvature.
    left_out : dict
        By strength and curvature: the leave-one-out sums of the rows, (n, K), and their log scores, (n,).
    """

    evidence: Array
    loo: Array
    fits: dict[tuple[float, float], Fit]
    left_out: dict[tuple[float, float], tuple[Array, Array]]

    def without_each(self, scores: Array) -> Array:
        """Leave-one-out sums of the rows, (n, K), averaged over the priors with the scores that exclude the row.

        A row also affects the shares of the priors. Without it, the score of a prior decreases by the log score of the
        row under that prior. This applies to the evidence (``p(D) = p(y_i | D without i) p(D without i)``) and to the
        leave-one-out log score.
        """
        tried = [prior for prior in self.left_out if np.isfinite(_score_of(scores, prior))]
        own = np.array([_score_of(scores, prior) - self.left_out[prior][1] for prior in tried])
        shares = softmax(own, axis=0)
        return np.asarray(sum(share[:, None] * self.left_out[p][0] for share, p in zip(shares, tried, strict=True)))


def try_priors(
    x: Array,
    y: NDArray[np.int64],
    weights: Array,
    is_curve: NDArray[np.bool_],
    scale: Array | None = None,
    report: Callable[[int], object] = lambda done: None,
) -> Tried:
    """Fit with each prior; weaker priors are skipped once two consecutive ones were worse by every criterion.

    `report` is called with the number of finished priors, up to `MOST_PRIORS`.
    """
    strengths = STRENGTHS + WEAKER
    evidence = np.full((len(CURVATURES), len(STRENGTHS)), np.nan)
    loo, fits, left_out = np.full((len(CURVATURES), len(strengths)), np.nan), {}, {}
    for a, curvature in enumerate(CURVATURES if is_curve.any() else CURVATURES[:1]):
        fit = None
        for b, strength in enumerate(strengths):
            fit = fits[strength, curvature] = fit_logistic(x, y, weights, is_curve, strength, curvature, fit, scale)
            covariance, log_det = covariance_given_prior(x, fit, weights)
            eta = logits(x, fit.intercept, fit.coef)
            without = eta + moves_without(x, y, weights, fit, covariance)
            left_out[strength, curvature] = without, weights * log_probability(without, y)
            loo[a, b] = left_out[strength, curvature][1].sum()
            if b < len(STRENGTHS):
                used = np.isfinite(fit.precision[1:])
                coef, precision = fit.coef[used], fit.precision[1:][used, None]
                n_free = coef.shape[1] if scale is None else 1
                log_prior = 0.5 * (n_free * np.log(precision).sum() - (precision * coef**2).sum())
                evidence[a, b] = (weights * log_probability(eta, y)).sum() + log_prior + 0.5 * log_det
            report(a * len(strengths) + b + 1)
            if _declines(loo[a], b) and (b >= len(STRENGTHS) or _declines(evidence[a], b)):
                break
    report(MOST_PRIORS)
    return Tried(evidence, loo, fits, left_out)


def _score_of(scores: Array, prior: tuple[float, float]) -> float:
    """The score of a prior; NaN if it was not computed."""
    a, b = CURVATURES.index(prior[1]), (STRENGTHS + WEAKER).index(prior[0])
    return float(scores[a, b]) if b < scores.shape[1] else math.nan


def _declines(scores: Array, last: int) -> bool:
    """Whether the last two scores were worse than the best score before them."""
    return last > 1 and bool(max(scores[last - 1 : last + 1]) < np.max(scores[: last - 1]))


def kept_priors(scores: Array) -> list[tuple[float, float, float]]:
    """Priors in the average: share, strength and curvature of each.

    `scores` has the evidence or the leave-one-out log score of each prior; a priori, all are equally probable.
    """
    shares = np.where(np.isnan(scores), 0.0, np.exp(scores - np.nanmax(scores)))
    shares /= shares.sum()
    shares[shares < LEAST_SHARE] = 0.0
    shares /= shares.sum()
    every = STRENGTHS + WEAKER
    return [(float(shares[a, b]), every[b], CURVATURES[a]) for a, b in np.argwhere(shares > 0)]


def fit_logistic(
    x: Array,
    y: NDArray[np.int64],
    weights: Array,
    is_curve: NDArray[np.bool_],
    strength: float,
    curvature: float,
    begin: Fit | None = None,
    places: Array | None = None,
) -> Fit:
    """The most probable coefficients; coefficients of curvature are scaled so that all have the same prior.

    With `places`, the `Fit.scale` of ordered classes, every term moves a case along their order.
    """
    scale = np.where(is_curve, curvature, 1.0)
    used = scale > 0
    if places is not None:
        with np.errstate(divide="ignore"):
            precision = np.concatenate([[_FREE], 1.0 / (strength * scale**2)])
        return _fit_ordered(x, y, weights, precision, places, begin)
    n_classes = len(np.unique(y))
    n_sums = 1 if n_classes == 2 else n_classes
    solver = "newton-cholesky" if n_sums * (used.sum() + 1) <= MOST_JOINT else "lbfgs"
    model = LogisticRegression(C=strength, solver=solver, tol=_TOLERANCE, max_iter=10_000, warm_start=True)
    if begin is not None:
        model.coef_, model.intercept_ = (begin.coef[used] / scale[used, None]).T.copy(), begin.intercept.copy()
        model.classes_ = np.unique(y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(x[:, used] * scale[used], y, sample_weight=weights)
    coef = np.zeros((x.shape[1], n_sums))
    coef[used] = model.coef_.T * scale[used, None]
    with np.errstate(divide="ignore"):
        precision = 1.0 / (strength * scale**2)  # infinite without curvature
    return Fit(model.intercept_.copy(), coef, np.concatenate([[0.0 if n_sums == 1 else _FREE], precision]))


def _fit_ordered(
    x: Array, y: NDArray[np.int64], weights: Array, precision: Array, places: Array, begin: Fit | None
) -> Fit:
    """Newton's method on intercepts (K,) and ``beta`` (D,): ``eta_k = b_k + places_k x beta``.

    The log odds of adjacent classes are a separate intercept plus a common sum (adjacent-category logits).
    """
    used = np.flatnonzero(np.isfinite(precision[1:]))
    n_sums = len(places)
    prior = np.concatenate([np.full(n_sums, precision[0]), precision[1:][used]])
    came = (y[:, None] == np.arange(n_sums)).astype(np.float64)
    if begin is None:
        at = np.concatenate([np.log(np.maximum(weights @ came, _LEAST) / weights.sum()), np.zeros(len(used))])
    else:
        at = np.concatenate([begin.intercept, begin.coef[used] @ places])

    def made(point: Array) -> Fit:
        coef = np.zeros((x.shape[1], n_sums))
        coef[used] = np.outer(point[n_sums:], places)
        return Fit(point[:n_sums], coef, precision, places)

    def loss(point: Array) -> float:
        fit = made(point)
        likelihood = weights @ log_probability(logits(x, fit.intercept, fit.coef), y)
        return float(0.5 * (prior * point**2).sum() - likelihood)

    for _ in range(100):
        fit = made(at)
        left = weights[:, None] * (_probabilities(x, fit) - came)
        gradient = prior * at + np.concatenate([left.sum(axis=0), x[:, used].T @ (left @ places)])
        if np.abs(gradient).max() <= _TOLERANCE * len(y):
            break
        step = cho_solve(cho_factor(_ordered_hessian(x, fit, weights, used, False), lower=True), gradient)
        before, size = loss(at), 1.0
        while size > 1e-6 and loss(at - size * step) > before:
            size /= 2.0
        if size <= 1e-6:
            break
        at = at - size * step
    return made(at)


def _ordered_hessian(x: Array, fit: Fit, weights: Array, used: NDArray[np.int64], secant: bool) -> Array:
    """The Hessian of the negative log posterior in the intercepts and ``beta``, (K + D', K + D')."""
    assert fit.scale is not None
    n_sums, p = len(fit.scale), _probabilities(x, fit)
    hessian = np.diag(np.concatenate([np.full(n_sums, fit.precision[0]), fit.precision[1:][used]]))
    for rows in row_batches(len(x), n_sums):
        bends, own = curvatures(p[rows], weights[rows], secant), x[rows][:, used]
        along = bends @ fit.scale  # (n, K)
        hessian[:n_sums, :n_sums] += bends.sum(axis=0)
        hessian[:n_sums, n_sums:] += along.T @ own
        hessian[n_sums:, n_sums:] += (own * (along @ fit.scale)[:, None]).T @ own
    hessian[n_sums:, :n_sums] = hessian[:n_sums, n_sums:].T
    return hessian


def _ordered_covariance(x: Array, fit: Fit, weights: Array, secant: bool) -> tuple[Array, float]:
    """As `covariance_given_prior`: covariance of the intercepts and coefficients of all classes, from ``beta``."""
    assert fit.scale is not None
    used = np.flatnonzero(np.isfinite(fit.precision[1:]))
    inverse, log_det = _inverse(_ordered_hessian(x, fit, weights, used, secant))
    n_sums, size = len(fit.scale), len(fit.precision)
    spread = np.zeros((n_sums, size, n_sums + len(used)))
    spread[np.arange(n_sums), 0, np.arange(n_sums)] = 1.0
    spread[:, 1 + used, n_sums + np.arange(len(used))] = fit.scale[:, None]
    flat = spread.reshape(n_sums * size, -1)
    return flat @ inverse @ flat.T, log_det


def logits(x: Array, intercept: Array, coef: Array) -> Array:
    """The sums of each row, (n, K)."""
    return x @ coef + intercept


def log_probability(eta: Array, y: NDArray[np.int64]) -> Array:
    """Log probability of the observed class, (n,)."""
    both = np.concatenate([np.zeros_like(eta), eta], axis=1) if eta.shape[1] == 1 else eta
    return np.asarray(log_softmax(both, axis=1)[np.arange(len(y)), y])


def with_intercept(x: Array) -> Array:
    """A column of ones, then the terms, (n, D + 1)."""
    return np.concatenate([np.ones((len(x), 1)), x], axis=1)


def row_batches(n_rows: int, n_sums: int) -> Iterator[slice]:
    """Chunks of rows for computations with K x K numbers per row."""
    size = max(1, AT_ONCE // n_sums**2)
    return (slice(first, first + size) for first in range(0, max(n_rows, 1), size))


def _probabilities(x: Array, fit: Fit) -> Array:
    """Probabilities of the K classes with a sum, (n, K)."""
    eta = logits(x, fit.intercept, fit.coef)
    return np.asarray(expit(eta) if eta.shape[1] == 1 else softmax(eta, axis=1))


def curvatures(p: Array, weights: Array, secant: bool) -> Array:
    """The curvature of each row's loss with respect to its sums, (n, K, K).

    The curvature at the sums, ``weight * (diag(p) - p p')``, nearly vanishes if a row is certain, although the loss is
    curved nearby; if classes are nearly separable, a normal distribution with this curvature is far too wide. The
    secant's curvature (Jaakkola and Jordan 2000) replaces ``p_k (1 - p_k)`` with ``tanh(|t|/2) / (2|t|)``,
    ``t = logit(p_k)``.
    """
    diagonal = np.arange(p.shape[1])
    tangent = np.maximum(p * (1.0 - p), _LEAST)
    if p.shape[1] == 1:
        curvature = tangent[:, :, None]
    else:
        curvature = -p[:, :, None] * p[:, None, :]
        curvature[:, diagonal, diagonal] = tangent
    if secant:
        t = np.maximum(np.abs(logit(np.clip(p, _LEAST, 1.0 - _LEAST))), 1e-6)
        factor = np.sqrt(np.tanh(t / 2.0) / (2.0 * t) / tangent)
        curvature = curvature * factor[:, :, None] * factor[:, None, :]
    return curvature * weights[:, None, None]


def covariance_given_prior(x: Array, fit: Fit, weights: Array, secant: bool = False) -> tuple[Array, float]:
    """The inverse Hessian of the negative log posterior, and the log of its determinant over the terms in use."""
    if fit.scale is not None:
        return _ordered_covariance(x, fit, weights, secant)
    p = _probabilities(x, fit)
    used = np.flatnonzero(np.isfinite(fit.precision))
    x1 = with_intercept(x)[:, used]
    size, n_sums, everywhere = len(used), p.shape[1], len(fit.precision)
    apart = n_sums > 1 and n_sums * size > MOST_JOINT
    pairs = [(k, m) for k in range(n_sums) for m in range(k, k + 1 if apart else n_sums)]
    blocks = {(k, m): np.diag(fit.precision[used]) * (k == m) for k, m in pairs}
    for rows in row_batches(len(x), n_sums):
        bends = curvatures(p[rows], weights[rows], secant)
        for k, m in pairs:
            blocks[k, m] += (x1[rows] * bends[:, k, m, None]).T @ x1[rows]

    if apart:
        each, total = np.zeros((n_sums, everywhere, everywhere)), 0.0
        for k in range(n_sums):
            inverse, log_det = _inverse(blocks[k, k])
            each[k][np.ix_(used, used)] = inverse
            total += log_det
        return each, total
    hessian = np.empty((n_sums, size, n_sums, size))
    for k, m in pairs:
        hessian[k, :, m] = blocks[k, m]
        hessian[m, :, k] = blocks[k, m].T
    inverse, log_det = _inverse(hessian.reshape(n_sums * size, -1))
    joint = np.zeros((n_sums, everywhere, n_sums, everywhere))
    sums = np.arange(n_sums)
    joint[np.ix_(sums, used, sums, used)] = inverse.reshape(hessian.shape)
    return joint.reshape(n_sums * everywhere, -1), log_det


def _inverse(matrix: Array) -> tuple[Array, float]:
    """The inverse of a positive definite matrix, and the log determinant of the inverse."""
    factor = cho_factor(matrix, lower=True)
    log_det = -2.0 * float(np.log(np.diag(factor[0])).sum())
    return np.asarray(cho_solve(factor, np.eye(len(matrix)))), log_det


def leverages(x1: Array, covariance: Array) -> Array:
    """Covariances of the sums of each row, (n, K, K)."""
    size = x1.shape[1]
    if covariance.ndim == 3:
        leverage = np.zeros((len(x1), len(covariance), len(covariance)))
        for k, own in enumerate(covariance):
            leverage[:, k, k] = ((x1 @ own) * x1).sum(axis=1)
        return leverage
    n_sums = len(covariance) // size
    blocks = covariance.reshape(n_sums, size, n_sums, size)
    leverage = np.empty((len(x1), n_sums, n_sums))
    for k in range(n_sums):
        for m in range(k, n_sums):
            leverage[:, k, m] = leverage[:, m, k] = ((x1 @ blocks[k, :, m]) * x1).sum(axis=1)
    return leverage


def leverages_without(leverage: Array, bends: Array) -> Array:
    """Covariances of each row's sums if the row is left out, (n, K, K): ``A (I - W A)^-1``."""
    return leverage @ np.linalg.inv(np.eye(leverage.shape[1]) - bends @ leverage)


def moves_without(x: Array, y: NDArray[np.int64], weights: Array, fit: Fit, covariance: Array | None = None) -> Array:
    """Change of each row's sums if it is left out, (n, K): one Newton step (Rad and Maleki 2020).

    With probabilities p, the row's curvature W and the covariance A of its sums, the change is
    ``A (I - W A)^-1 weight (p - [y])``. Pass the covariance from `covariance_given_prior` if it is available.
    """
    p = _probabilities(x, fit)
    came = (y[:, None] == (np.arange(p.shape[1]) if p.shape[1] > 1 else np.array([1]))).astype(np.float64)
    gradient = weights[:, None] * (p - came)
    if covariance is None:
        covariance = covariance_given_prior(x, fit, weights)[0]
    moves = np.empty_like(p)
    for rows in row_batches(len(x), p.shape[1]):
        leverage = leverages(with_intercept(x[rows]), covariance)
        without = leverages_without(leverage, curvatures(p[rows], weights[rows], False))
        moves[rows] = (without @ gradient[rows, :, None])[:, :, 0]
    return moves


class Average(NamedTuple):
    """Coefficients averaged over priors.

    Attributes
    ----------
    intercept, coef : arrays of shape (K,) and (D, K)
    covariance : array of shape (K (D + 1), K (D + 1)) or (K, D + 1, D + 1)
        The mean covariance given a prior (secant) plus the covariance between priors.
    moved : array of shape (n, K)
        Change of each training row's sums if it is left out.
    """

    intercept: Array
    coef: Array
    covariance: Array
    moved: Array


def average(parts: list[tuple[float, Average]]) -> Average:
    """The average of averages, weighted by shares that add up to 1."""
    if len(parts) == 1:
        return parts[0][1]
    shares = np.array([share for share, _ in parts])
    each = np.stack([np.vstack([part.intercept, part.coef]).T for _, part in parts])  # (parts, K, D + 1)
    mean = np.tensordot(shares, each, 1)
    gaps = (each - mean) * np.sqrt(shares)[:, None, None]
    covariance = sum(share * part.covariance for share, part in parts)
    if np.ndim(covariance) == 3:
        covariance = covariance + np.einsum("pki,pkj->kij", gaps, gaps)
    else:
        flat = gaps.reshape(len(parts), -1)
        covariance = covariance + flat.T @ flat
    moved = sum(share * part.moved for share, part in parts)
    return Average(mean[:, 0].copy(), mean[:, 1:].T.copy(), np.asarray(covariance), np.asarray(moved))


def given_prior(x: Array, y: NDArray[np.int64], weights: Array, fit: Fit) -> Average:
    """The result for a single prior."""
    covariance = covariance_given_prior(x, fit, weights, secant=True)[0]
    return Average(fit.intercept, fit.coef, covariance, moves_without(x, y, weights, fit))
