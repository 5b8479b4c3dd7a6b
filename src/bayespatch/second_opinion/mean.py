"""An additive mean: the second opinion on a number, as a sum over features in the unit of the outcome.

A ridge regression on the terms of `Design`, averaged over priors by marginal likelihood, like the additive score.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve

from bayespatch.encode import Schema
from bayespatch.metrics import weighted_quantiles
from bayespatch.second_opinion.design import Array, Design
from bayespatch.second_opinion.logistic import CURVATURES, STRENGTHS, kept_priors
from bayespatch.types import AnyArray, JSONMapping, JSONObject

N_RESIDUALS = 199  # quantiles of the residuals that are kept
_STEPS = (np.arange(N_RESIDUALS) + 0.5) / N_RESIDUALS
_LEAST = 1e-12  # of a variance, relative to that of the outcomes


@dataclass(frozen=True, eq=False)
class AdditiveMean:
    """The mean of an outcome as a sum over features.

    Attributes
    ----------
    design : Design
        Converts values to terms.
    base : float
        Mean outcome of the training table, which is the prediction for a row without known values.
    coef : array of shape (D,)
        Coefficients of the terms, averaged over the priors.
    covariance : array of shape (D, D)
        Covariance of the coefficients.
    noise : float
        Standard deviation of the outcomes around their leave-one-out means.
    loo : array of shape (n,)
        Leave-one-out means of the training rows.
    residuals : array of shape (R,)
        Evenly spaced quantiles, in order, of the outcomes' deviations from the leave-one-out means.
    evidence : array of shape (len(CURVATURES), len(STRENGTHS))
        Log marginal likelihood of the priors; NaN if there is no curvature to try.

    Examples
    --------
    >>> X = [[52, "male"], [61, "female"], [40, "male"], [45, "female"]] * 10
    >>> y = np.array([5.0, 8.0, 2.0, 4.0] * 10)
    >>> schema = Schema.learn(X)
    >>> values = schema.encode(X).values
    >>> mean = AdditiveMean.learn(schema, values, y)
    >>> mean.predict(values[:2]).round(1)
    array([5., 8.])
    >>> bool(np.allclose(mean.base + mean.points(values).sum(axis=1), mean.predict(values)))
    True
    """

    design: Design
    base: float
    coef: Array
    covariance: Array
    noise: float
    loo: Array
    residuals: Array
    evidence: Array

    @classmethod
    def learn(cls, schema: Schema, values: Array, outcomes: Array, weights: Array | None = None) -> AdditiveMean:
        """Learn from `EncodedTable.values` (n, P), the outcomes (n,) and the weights (n,) of a training table."""
        design = Design.learn(schema, values, weights)
        x = design.matrix(values).x
        counts = np.ones(len(outcomes)) if weights is None else weights
        base, gram = float(np.average(outcomes, weights=weights)), (x * counts[:, None]).T @ x
        gap = outcomes - base
        scale = float(np.sqrt(np.average(gap**2, weights=weights)))
        evidence = np.full((len(CURVATURES), len(STRENGTHS)), np.nan)
        coef, covariance = np.zeros(x.shape[1]), np.zeros((x.shape[1], x.shape[1]))
        moved, fits = np.zeros(len(gap)), []
        if x.shape[1] and scale > 0:
            for a, curvature in enumerate(CURVATURES if design.is_curve.any() else CURVATURES[:1]):
                for b, strength in enumerate(STRENGTHS):
                    evidence[a, b] = _Ridge.of(gram, x, gap, design.is_curve, strength, curvature, counts).evidence
            fits = [
                (share, _Ridge.of(gram, x, gap, design.is_curve, strength, curvature, counts))
                for share, strength, curvature in kept_priors(evidence)
            ]
            coef = np.sum([share * fit.coef for share, fit in fits], axis=0)
            moved = np.sum([share * fit.moved for share, fit in fits], axis=0)
            between = np.stack([np.sqrt(share) * (fit.coef - coef) for share, fit in fits])
            covariance = np.sum([share * fit.covariance for share, fit in fits], axis=0) + between.T @ between
        loo = base + x @ coef + moved
        left = outcomes - loo
        noise = float(np.sqrt(np.average(left**2, weights=weights)))
        return cls(design, base, coef, covariance, noise, loo, weighted_quantiles(left, weights, _STEPS), evidence)

    def predict(self, values: Array) -> Array:
        """Means of rows of `EncodedTable.values`, (n,)."""
        return self.base + self.points(values).sum(axis=1)

    def points(self, values: Array) -> Array:
        """Contribution of each feature to the mean, (n, P), in the outcome's unit; with `base` they add up to it."""
        terms = self.design.matrix(values)
        return self.design.by_feature(terms.x, self.coef) * terms.presence

    def without(
        self, values: Array, outcomes: Array, left_out: NDArray[np.bool_], weights: Array | None = None
    ) -> AdditiveMean:
        """The mean learned without the training rows `left_out`, (n,), with the most probable prior."""
        if np.isnan(self.evidence).all() or left_out.all():
            return self
        a, b = np.unravel_index(np.nanargmax(self.evidence), self.evidence.shape)
        x, gap = self.design.matrix(values[~left_out]).x, outcomes[~left_out] - self.base
        counts = np.ones(len(gap)) if weights is None else weights[~left_out]
        gram = (x * counts[:, None]).T @ x
        fit = _Ridge.of(gram, x, gap, self.design.is_curve, STRENGTHS[b], CURVATURES[a], counts)
        return replace(self, coef=fit.coef)

    def predict_sd(self, values: Array) -> Array:
        """Posterior standard deviation of the mean, (n,)."""
        terms = self.design.matrix(values)
        x = terms.x * terms.presence[:, self.design.feature]
        return np.sqrt(np.maximum(((x @ self.covariance) * x).sum(axis=1), 0.0) + self.noise**2 / len(self.loo))

    def predict_quantiles(self, values: Array, levels: ArrayLike) -> Array:
        """Quantiles of the outcome, (n, L): the mean plus quantiles of the deviations of past outcomes from their
        means.
        """
        found = np.interp(np.asarray(levels, dtype=np.float64), _STEPS, self.residuals)
        return self.predict(values)[:, None] + found

    def below(self, means: Array, at: Array) -> Array:
        """The probability, (n,), of an outcome below `at`, (n,), given these means from `predict`, (n,)."""
        return np.interp(np.asarray(at) - means, self.residuals, _STEPS, left=0.0, right=1.0)

    def density(self, means: Array, outcomes: Array) -> Array:
        """Normal density of outcomes around means, (n,); `Pool.learn_densities` needs the leave-one-out means."""
        noise = max(self.noise, 1e-300)
        return np.exp(-0.5 * ((outcomes - means) / noise) ** 2) / (np.sqrt(2.0 * np.pi) * noise)

    def to_arrays(self) -> tuple[dict[str, AnyArray], JSONObject]:
        """Arrays and JSON-ready data; `from_arrays` restores the mean from them."""
        parts = {part.name: getattr(self, part.name) for part in fields(self)}
        arrays = {name: part for name, part in parts.items() if isinstance(part, np.ndarray)}
        return arrays, {"design": self.design.to_dict(), "base": self.base, "noise": self.noise}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], plain: JSONMapping) -> AdditiveMean:
        """The mean from the result of `to_arrays`; anything else raises a ValueError."""
        if set(arrays) != {"coef", "covariance", "loo", "residuals", "evidence"} or set(plain) != {
            "design",
            "base",
            "noise",
        }:
            raise ValueError("this is not a stored additive mean; save the model again")
        mean = cls(
            design=Design.from_dict(plain["design"]),
            base=float(plain["base"]),
            noise=float(plain["noise"]),
            **{name: np.asarray(array, dtype=np.float64) for name, array in arrays.items()},
        )
        n_terms = len(mean.design.feature)
        shapes = {"coef": (n_terms,), "covariance": (n_terms, n_terms), "residuals": (N_RESIDUALS,)}
        for name, shape in shapes.items():
            array = getattr(mean, name)
            if array.shape != shape or not np.isfinite(array).all():
                raise ValueError(f"{name} of the stored additive mean has shape {array.shape}, but should be {shape}")
        return mean


@dataclass(frozen=True, eq=False)
class _Ridge:
    """A ridge regression on centered terms: beta ~ N(0, strength * noise^2), with the noise variance integrated out."""

    coef: Array
    covariance: Array
    moved: Array  # the change of each row's mean if it is left out
    evidence: float

    @classmethod
    def of(
        cls,
        gram: Array,
        x: Array,
        gap: Array,
        is_curve: NDArray[np.bool_],
        strength: float,
        curvature: float,
        counts: Array | float = 1.0,
    ) -> _Ridge:
        counts = np.broadcast_to(counts, gap.shape)
        scale = np.where(is_curve, curvature, 1.0)
        used = np.flatnonzero(scale > 0)
        prior = 1.0 / (strength * scale[used] ** 2)
        factor = cho_factor(gram[np.ix_(used, used)] + np.diag(prior), lower=True)
        inverse = cho_solve(factor, np.eye(len(used)))
        own = x[:, used]
        coef = inverse @ (own.T @ (counts * gap))
        rest = gap - own @ coef
        # The intercept has a flat prior, which takes one degree of freedom and 1/n of every row's leverage.
        leverage = counts * (((own @ inverse) * own).sum(axis=1) + 1.0 / counts.sum())
        n_free = counts.sum() - 1.0
        squares = max(float(counts @ (gap * rest)), _LEAST * float(counts @ gap**2))
        log_det = float(np.log(prior).sum() - 2.0 * np.log(np.diag(factor[0])).sum())
        evidence = 0.5 * log_det - 0.5 * n_free * np.log(squares)
        everywhere, covariance = np.zeros(x.shape[1]), np.zeros((x.shape[1], x.shape[1]))
        everywhere[used] = coef
        covariance[np.ix_(used, used)] = inverse * squares / n_free
        return cls(everywhere, covariance, -rest * leverage / np.maximum(1.0 - leverage, 1e-9), float(evidence))
