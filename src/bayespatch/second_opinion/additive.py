"""The additive score of the risk factors.

A scikit-learn logistic regression on the terms of `Design`, with normal priors on its coefficients. The score is an
average over the strength of the priors and the amount of curvature, weighted by the marginal likelihood of the training
table, or by the leave-one-out log score if this is clearly better. Uncertainty about the coefficients moderates the
probabilities: the more uncertain the log odds of a case, the closer its probability is to the base rate. See
docs/second-opinion.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtri, softmax

from bayespatch.encode import Schema
from bayespatch.progress import Meter, silent
from bayespatch.second_opinion.design import Array, Design, Terms
from bayespatch.second_opinion.logistic import (
    CURVATURES,
    MOST_PRIORS,
    STRENGTHS,
    Average,
    Tried,
    average,
    curvatures,
    fit_logistic,
    given_prior,
    kept_priors,
    leverages,
    leverages_without,
    logits,
    row_batches,
    try_priors,
    with_intercept,
)
from bayespatch.types import AnyArray, JSONMapping, JSONObject

MOST_CHOOSING = 20_000  # rows used to choose the priors; the coefficients are learned from all rows
MODERATIONS = (0.0, 0.03, 0.1, 0.3, 1.0)  # candidates, weighted by their leave-one-out log scores
# Advantage in leave-one-out log score that the leave-one-out choice of priors needs over the choice by evidence. In
# small tables, a few extreme rows can dominate a leave-one-out score. On simulated tables, 0 to 5 worked equally well.
PRICE = 5.0
LEAST_SHARE = 0.01  # smallest share of either choice of priors in the average of the two
_LEAST = 1e-12  # smallest probability
_BATCH = 20_000  # maximum number of rows at a time if several arrays of this length are needed
_NODES = np.polynomial.legendre.leggauss(64)


@dataclass(frozen=True, eq=False)
class AdditiveScore:
    """Log odds as a sum of functions of single features.

    With two classes there is one sum (K = 1), the log odds of the second class. With M > 2 classes there is one sum per
    class (K = M), and the probabilities are the softmax of the sums.

    Attributes
    ----------
    design : Design
        Converts values to terms.
    base : array of shape (M,)
        Frequencies of the classes in the training table, with class weights if any.
    intercept, coef : arrays of shape (K,) and (D, K)
        Intercepts and coefficients of the regression, averaged over the priors.
    shares : array of shape (P,)
        How the difference between the intercept and the base rate is distributed among the features, in proportion to
        the variance of their contributions. The shares add up to 1.
    covariance : array of shape (K (D + 1), K (D + 1)) or (K, D + 1, D + 1)
        Covariance of the coefficients, class by class, with the intercept first (Jaakkola and Jordan's normal
        approximation); for each class separately if the joint covariance would be too large.
    loo : array of shape (n, M)
        Leave-one-out probabilities of the training rows.
    evidence : array of shape (len(CURVATURES), len(STRENGTHS))
        Log marginal likelihood of the priors that were tried; NaN for all others.
    moderation : float
        Share of the variance of the log odds used for moderation, 0 to 1.

    Examples
    --------
    >>> X = [[52, "male"], [61, "female"], [40, "male"], [45, "female"]] * 10
    >>> y = np.array([0, 1, 0, 0] * 10)
    >>> schema = Schema.learn(X)
    >>> values = schema.encode(X).values
    >>> score = AdditiveScore.learn(schema, values, y, n_classes=2)
    >>> p = score.predict_proba(values[:2])
    >>> bool(p[0, 1] < 0.25 < p[1, 1])
    True
    >>> points = score.points(values[:2])
    >>> bool(np.allclose(100 * score.base + points.sum(axis=1), 100 * p))
    True
    """

    design: Design
    base: Array
    intercept: Array
    coef: Array
    shares: Array
    covariance: Array
    loo: Array
    evidence: Array
    moderation: float = 1.0

    @classmethod
    def learn(
        cls,
        schema: Schema,
        values: Array,
        y: NDArray[np.int64],
        n_classes: int,
        class_weight: Array | None = None,
        order: NDArray[np.int64] | None = None,
        row_weight: Array | None = None,
        meter: Meter = silent,
    ) -> AdditiveScore:
        """Learn from a training table.

        Parameters
        ----------
        schema : Schema
            How the columns are coded.
        values : array of shape (n, P)
            `EncodedTable.values` of the training table.
        y : int array of shape (n,)
            Classes 0..M-1, all of which occur.
        n_classes : int
            M.
        class_weight : array of shape (M,), optional
            Weight of the cases of each class.
        order : int array of shape (M,), optional
            The classes in order, if they are ordered: the score is then averaged with one in which every feature moves
            a case along the order, weighted by how much better it predicts (leave-one-out).
        row_weight : array of shape (n,), optional
            Weight of each row.
        meter : callable
            Shows the number of priors tried so far.
        """
        weights = np.ones(len(y)) if row_weight is None else row_weight
        if class_weight is not None:
            weights = weights * np.asarray(class_weight, dtype=np.float64)[y]
        base = np.bincount(y, weights=weights, minlength=n_classes) / weights.sum()
        design = Design.learn(schema, values, row_weight)
        terms = design.matrix(values)
        if n_classes == 1 or np.count_nonzero(base) < 2 or not terms.x.shape[1]:
            return cls._of_base_rates(design, base, len(y))
        table = _Table(design, terms, y, weights, base, _rows_by_content(values, y, MOST_CHOOSING))
        free = cls._of_table(table, None, meter)
        if order is None or n_classes < 3 or free.found.covariance.ndim == 3:
            return free.score
        places = np.argsort(order).astype(np.float64)
        places -= places.mean()
        ordered = cls._of_table(table, places / np.sqrt(places @ places), meter)
        return cls._blended(table, free, ordered, 0.0).score

    @classmethod
    def _of_table(cls, table: _Table, places: Array | None, meter: Meter) -> _Candidate:
        """The score by evidence, by leave-one-out if that is clearly better, or a weighted average of both."""
        x, y, weights, choosing = table.terms.x, table.y, table.weights, table.choosing
        is_curve = table.design.is_curve
        with meter(MOST_PRIORS) as report:
            used = x[choosing], y[choosing], weights[choosing]
            tried = try_priors(*used, is_curve, places, lambda done: report(done, "second opinion"))
        fits = tried.fits if len(choosing) == len(y) else {}
        each: dict[tuple[float, float], Average] = {}

        def averaged(scores: Array) -> Average:
            """The average over the priors, weighted by these scores."""
            parts = kept_priors(scores)
            for prior in {(strength, curvature) for _, strength, curvature in parts} - set(each):
                fit = fits.get(prior) or fit_logistic(x, y, weights, is_curve, *prior, places=places)
                each[prior] = given_prior(x, y, weights, fit)
            both = average([(share, each[strength, curvature]) for share, strength, curvature in parts])
            if not fits:  # a single row of many thousand does not affect the choice of priors
                return both
            return both._replace(moved=tried.without_each(scores) - logits(x, both.intercept, both.coef))

        by_evidence = cls._of_average(table, averaged(tried.evidence), 1.0, tried.evidence)
        if not fits and _possible_gain(tried) < PRICE:
            return by_evidence  # with this many rows, fits are slow and moderation hardly matters
        by_score = cls._of_average(table, averaged(tried.loo), 1.0, tried.evidence)
        by_score = by_score.with_moderation(*_chosen_moderation(by_score, y, weights))
        return cls._blended(table, by_evidence, by_score, PRICE)

    @classmethod
    def _blended(cls, table: _Table, first: _Candidate, second: _Candidate, price: float) -> _Candidate:
        """The average of two scores, weighted by the advantage of the second in leave-one-out log score minus `price`.

        For a left-out row, the weights come from the scores of the other rows.
        """
        gains = second.log_scores(table.y, table.weights) - first.log_scores(table.y, table.weights)
        share, shares = float(expit(gains.sum() - price)), expit(gains.sum() - gains - price)
        sums = [logits(table.terms.x, one.found.intercept, one.found.coef) for one in (first, second)]
        used = 0.0 if share < LEAST_SHARE else 1.0 if share > 1.0 - LEAST_SHARE else share
        both = average([(part, one.found) for part, one in ((1.0 - used, first), (used, second)) if part > 0.0])
        without = [eta + one.found.moved for eta, one in zip(sums, (first, second), strict=True)]
        moved = without[0] + shares[:, None] * (without[1] - without[0])
        both = both._replace(moved=moved - logits(table.terms.x, both.intercept, both.coef))
        own = first.moderations + shares * (second.moderations - first.moderations)
        moderation = (1.0 - used) * first.score.moderation + used * second.score.moderation
        return cls._of_average(table, both, 1.0, first.score.evidence).with_moderation(moderation, own)

    @classmethod
    def _of_average(cls, table: _Table, found: Average, moderation: float, evidence: Array) -> _Candidate:
        shares = _shares(table.terms.x, found.coef, table.design)
        score = cls(
            *(table.design, table.base, found.intercept, found.coef, shares, found.covariance, np.empty(0), evidence),
            moderation=moderation,
        )
        eta, variance = score._left_out(table.terms, table.y, table.weights, found.moved)
        own = np.full(len(table.y), moderation)
        return _Candidate(score, found, eta, variance, own).with_moderation(moderation, own)

    def _left_out(self, terms: Terms, y: NDArray[np.int64], weights: Array, moved: Array) -> tuple[Array, Array]:
        """Leave-one-out sums before moderation, (n, K), and variances of the log odds, (n,), of the training rows."""
        p = self._probabilities(logits(terms.x, self.intercept, self.coef))[:, -len(self.intercept) :]
        eta, variance = np.empty_like(moved), np.empty(len(y))
        for rows in row_batches(len(y), len(self.intercept)):
            part = Terms(terms.x[rows], terms.presence[rows])
            leverage = leverages_without(self._leverage_of(part), curvatures(p[rows], weights[rows], True))
            eta[rows] = self._logits_of(part) + moved[rows]
            variance[rows] = self._mean_variance(eta[rows], leverage)
        return eta, variance

    @classmethod
    def _of_base_rates(cls, design: Design, base: Array, n: int) -> AdditiveScore:
        """A score of base rates only, if there is nothing to learn: one class, or only constant columns."""
        n_terms, n_sums = len(design.feature), max(1, len(base) if len(base) > 2 else 1)
        size = n_sums * (n_terms + 1)
        features = len(design.terms)
        with np.errstate(divide="ignore"):
            odds = np.log(np.maximum(base, _LEAST))
        intercept = odds[1:] - odds[:1] if len(base) == 2 else odds
        return cls(
            design,
            base,
            intercept,
            np.zeros((n_terms, n_sums)),
            np.full(features, 1.0 / features),
            np.zeros((size, size)),
            np.tile(base, (n, 1)),
            np.full((len(CURVATURES), len(STRENGTHS)), np.nan),
        )

    @property
    def n_classes(self) -> int:
        """M."""
        return len(self.base)

    @property
    def prior(self) -> tuple[float, float]:
        """The most probable prior: the variance of a coefficient, and the factor on the prior SD for curvature."""
        if np.isnan(self.evidence).all():
            return STRENGTHS[0], 0.0
        a, b = np.unravel_index(np.nanargmax(self.evidence), self.evidence.shape)
        return STRENGTHS[b], CURVATURES[a]

    def predict_proba(self, values: Array) -> Array:
        """Probabilities of rows of `EncodedTable.values`, (n, M)."""
        parts = [self._probabilities(self._stated(self.design.matrix(part))[0]) for part in self._batches(values)]
        return np.concatenate(parts)

    def predict_known(self, values: Array, known: NDArray[np.bool_]) -> Array:
        """Probabilities, (k, M), of one row, (1, P), given only some features, for k sets of features, (k, P)."""
        terms, feature = self.design.matrix(values), self.design.feature
        own = np.zeros((1 + terms.presence.shape[1], 1 + len(feature)))  # terms by feature, intercept first
        own[0, 0] = 1.0
        own[1 + feature, 1 + np.arange(len(feature))] = terms.x[0]
        each = own[1:, 1:] @ self.coef + self.shares[:, None] * (self.intercept - self._base_logits())
        if self.covariance.ndim == 3:
            covariance = own @ self.covariance @ own.T
        else:
            n_sums, size = len(self.intercept), own.shape[1]
            blocks = self.covariance.reshape(n_sums, size, n_sums, size)
            covariance = np.einsum("ai,kilj,bj->kalb", own, blocks, own, optimize=True)
            covariance = covariance.reshape(n_sums * len(own), n_sums * len(own))
        parts = []
        for rows in row_batches(len(known), len(self.intercept)):
            presence = terms.presence * known[rows]
            leverage = leverages(with_intercept(presence), covariance)
            eta = self._base_logits() + presence @ each
            parts.append(self._probabilities(self._moderated(eta, leverage)))
        return np.concatenate(parts)

    def contributions(self, values: Array) -> Array:
        """Contribution of each feature to the log odds, relative to the log odds of the base rate, (n, P, K).

        A missing value contributes nothing, unless the column treats missing as a separate value.
        """
        return np.concatenate([self._contributions_of(self.design.matrix(part)) for part in self._batches(values)])

    def from_contributions(self, total: Array) -> Array:
        """Probabilities, (..., M), of summed `contributions`, (..., K)."""
        eta = self._base_logits() + total
        return self._probabilities(eta.reshape(-1, eta.shape[-1])).reshape(*eta.shape[:-1], self.n_classes)

    def without(
        self, values: Array, y: NDArray[np.int64], left_out: NDArray[np.bool_], row_weight: Array | None = None
    ) -> AdditiveScore:
        """The score learned without some of the training rows, with only the most probable prior.

        Parameters
        ----------
        values : array of shape (n, P)
            `EncodedTable.values` of the training table.
        y : int array of shape (n,)
            The classes of these rows.
        left_out : bool array of shape (n,)
            The rows to leave out. Terms, base rates and moderation do not change.
        row_weight : array of shape (n,), optional
            Weight of each row, as in `learn`.
        """
        rows = np.flatnonzero(~left_out)
        if np.isnan(self.evidence).all() or len(np.unique(y[rows])) < self.n_classes:
            return self
        terms = self.design.matrix(values[rows])
        x = terms.x * terms.presence[:, self.design.feature]
        weights = self._row_weights(y, row_weight)[rows]
        fit = fit_logistic(x, y[rows], weights, self.design.is_curve, *self.prior)
        return replace(self, intercept=fit.intercept, coef=fit.coef)

    def _row_weights(self, y: NDArray[np.int64], own: Array | None) -> Array:
        """The weight of each training row, from the ratio of the base rates to the frequencies of the classes."""
        counts = np.bincount(y, own, self.n_classes)
        by_class = self.base / np.maximum(counts / counts.sum(), _LEAST)
        return np.asarray(by_class[y] if own is None else own * by_class[y])

    def points(self, values: Array) -> Array:
        """Percentage points that each feature adds to each class, (n, P, M).

        With the base rate, they add up to the probability: ``100 * base + points.sum(axis=1) == 100 * p``. They are the
        integrated gradients of the probabilities along the straight line from the log odds of the base rate to those of
        the case (Sundararajan, Taly and Yan 2017; Aumann and Shapley). For two classes, the difference is distributed
        in proportion to the contributions to the log odds.
        """
        return np.concatenate([self._points_of(self.design.matrix(part)) for part in self._batches(values)])

    def predict_interval(self, values: Array, level: float = 0.9) -> Array:
        """Intervals of the probabilities, (n, M, 2), from the posterior of the coefficients.

        The log odds of a class against all others are approximately normal around their point estimate.
        """
        return np.concatenate([self._interval_of(self.design.matrix(part), level) for part in self._batches(values)])

    def explained(self, values: Array, level: float = 0.9) -> tuple[Array, Array, Array]:
        """`predict_proba`, `predict_interval` and `points` of the same rows, with a single computation of the terms."""
        parts = []
        for part in self._batches(values):
            terms = self.design.matrix(part)
            p = self._probabilities(self._stated(terms)[0])
            parts.append((p, self._interval_of(terms, level), self._points_of(terms)))
        probabilities, intervals, points = (np.concatenate(each) for each in zip(*parts, strict=True))
        return probabilities, intervals, points

    # Storage

    def to_arrays(self) -> tuple[dict[str, AnyArray], JSONObject]:
        """Arrays, and JSON-ready data with everything else; `from_arrays` restores the score from them."""
        parts = {part.name: getattr(self, part.name) for part in fields(self)}
        arrays = {name: part for name, part in parts.items() if isinstance(part, np.ndarray)}
        return arrays, {"design": self.design.to_dict(), "moderation": self.moderation}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], plain: JSONMapping) -> AdditiveScore:
        """The score from the result of `to_arrays`; anything else raises a ValueError."""
        names = {"base", "intercept", "coef", "shares", "covariance", "loo", "evidence"}
        if set(arrays) != names or set(plain) - {"moderation"} != {"design"}:
            raise ValueError("this is not a stored additive score; save the model again")
        moderation = plain.get("moderation", 1.0)
        if type(moderation) not in (int, float) or not 0 <= moderation <= 1:
            raise ValueError(
                f"the stored additive score has moderation {moderation!r}, which is not between 0 and 1; "
                f"save the model again"
            )
        score = cls(
            design=Design.from_dict(plain["design"]),
            moderation=float(moderation),
            **{name: np.asarray(array, dtype=np.float64) for name, array in arrays.items()},
        )
        n_terms, n_sums, n_classes = len(score.design.feature), *score.intercept.shape, *score.base.shape
        joint = (n_sums * (n_terms + 1),) * 2
        shapes = {
            "coef": (n_terms, n_sums),
            "shares": (len(score.design.terms),),
            "loo": (len(score.loo), n_classes),
            "covariance": joint if score.covariance.ndim == 2 else (n_sums, n_terms + 1, n_terms + 1),
        }
        for name, shape in shapes.items():
            array = getattr(score, name)
            if array.shape != shape or not np.isfinite(array).all():
                raise ValueError(f"{name} of the stored additive score has shape {array.shape}, but should be {shape}")
        if n_sums != (n_classes if n_classes > 2 else 1) or not np.isfinite(score.intercept).all():
            raise ValueError(f"the stored additive score has {n_sums} sums for {n_classes} classes")
        return score

    # Parts

    def _batches(self, values: Array) -> Iterator[Array]:
        """Rows in batches."""
        for rows in row_batches(len(values), len(self.intercept)):
            large = values[rows]
            yield from (large[first : first + _BATCH] for first in range(0, max(len(large), 1), _BATCH))

    def _base_logits(self) -> Array:
        """Log odds of the base rate, (K,)."""
        odds = np.log(np.maximum(self.base, _LEAST))
        return odds[1:] - odds[:1] if self.n_classes == 2 else odds - odds.mean() + self.intercept.mean()

    def _contributions_of(self, terms: Terms) -> Array:
        each = self.design.by_feature(terms.x, self.coef)
        gap = self.intercept - self._base_logits()
        moderation = self._moderation(self._logits_of(terms), self._leverage_of(terms))
        return (each + self.shares[:, None] * gap) * (terms.presence * moderation[:, None])[:, :, None]

    def _logits_of(self, terms: Terms) -> Array:
        """The sums of the regression, before moderation, (n, K)."""
        gap = self.intercept - self._base_logits()
        known_share = (terms.presence @ self.shares)[:, None]
        return (terms.x * terms.presence[:, self.design.feature]) @ self.coef + self._base_logits() + known_share * gap

    def _leverage_of(self, terms: Terms) -> Array:
        """Posterior covariances of the sums, (n, K, K)."""
        return leverages(with_intercept(terms.x * terms.presence[:, self.design.feature]), self.covariance)

    def _stated(self, terms: Terms) -> tuple[Array, Array]:
        """The sums after moderation, (n, K), and their covariances, (n, K, K)."""
        leverage = self._leverage_of(terms)
        return self._moderated(self._logits_of(terms), leverage), leverage

    def _moderation(self, eta: Array, leverage: Array) -> Array:
        """The factor, (n,), that shrinks the sums toward the base rate."""
        return _shrinkage(self._mean_variance(eta, leverage), self.moderation)

    def _mean_variance(self, eta: Array, leverage: Array) -> Array:
        """The variance of the log odds, (n,); for more than two classes, the mean weighted by class probability."""
        p = self._probabilities(eta)
        return np.maximum((p * self._variance(p, leverage)).sum(axis=1), 0.0)

    def _moderated(self, eta: Array, leverage: Array) -> Array:
        base = self._base_logits()
        return base + (eta - base) * self._moderation(eta, leverage)[:, None]

    def _variance(self, p: Array, leverage: Array) -> Array:
        """Variance of the log odds of each class against all others, (n, M)."""
        gradients = self._gradients(p)
        return np.einsum("nmk,nkl,nml->nm", gradients, leverage, gradients, optimize=True)

    def _interval_of(self, terms: Terms, level: float) -> Array:
        eta, leverage = self._stated(terms)
        p = self._probabilities(eta)
        if self.n_classes == 1:
            return np.ones((*p.shape, 2))
        half = ndtri((1.0 + level) / 2.0) * np.sqrt(np.maximum(self._variance(p, leverage), 0.0))
        middle = logit(np.clip(p, _LEAST, 1.0 - _LEAST))
        return np.stack([expit(middle - half), expit(middle + half)], axis=-1)

    def _probabilities(self, eta: Array) -> Array:
        if self.n_classes == 1:
            return np.ones((len(eta), 1))
        if self.n_classes == 2:
            return np.concatenate([expit(-eta), expit(eta)], axis=1)
        return np.asarray(softmax(eta, axis=1))

    def _gradients(self, p: Array) -> Array:
        """Gradient of the log odds of each class against all others with respect to each sum, (n, M, K)."""
        if self.n_classes == 1:
            return np.zeros((len(p), 1, 1))
        if self.n_classes == 2:
            return np.broadcast_to(np.array([[-1.0], [1.0]]), (len(p), 2, 1))
        others = np.maximum(1.0 - p, _LEAST)
        own = np.eye(self.n_classes)
        return own - (1.0 - own) * p[:, None, :] / others[:, :, None]

    def _points_of(self, terms: Terms) -> Array:
        moves = self._contributions_of(terms)
        if self.n_classes == 2:
            moves = np.concatenate([-moves / 2.0, moves / 2.0], axis=2)
        start = np.log(np.maximum(self.base, _LEAST))
        total = moves.sum(axis=1)
        # The mean of p (move - sum of p move) along the line, for all features from the same two means over the nodes.
        nodes, weights = (_NODES[0] + 1.0) / 2.0, _NODES[1] / 2.0
        p = softmax(start + nodes[:, None] * total[:, None, :], axis=2)
        weighted = weights[:, None] * p
        points = moves * weighted.sum(axis=1)[:, None, :] - moves @ (weighted.transpose(0, 2, 1) @ p)
        # The remainder of the quadrature, far below a point, is added to the points.
        rest = softmax(start + total, axis=1) - self.base - points.sum(axis=1)
        size = np.abs(points)
        return 100.0 * (points + rest[:, None, :] * size / np.maximum(size.sum(axis=1, keepdims=True), 1e-300))


@dataclass(frozen=True, eq=False)
class _Table:
    """A training table: terms, classes, row weights, base rates, and the rows used to choose the priors."""

    design: Design
    terms: Terms
    y: NDArray[np.int64]
    weights: Array
    base: Array
    choosing: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Candidate:
    """A score, the average over priors that it comes from, and leave-one-out results of the training rows.

    Attributes
    ----------
    score : AdditiveScore
    found : Average
    eta, variance : arrays of shape (n, K) and (n,)
        Leave-one-out sums of the training rows before moderation, and the variance of their log odds.
    moderations : array of shape (n,)
        For each row, the moderation learned from the other rows.
    """

    score: AdditiveScore
    found: Average
    eta: Array
    variance: Array
    moderations: Array

    def with_moderation(self, moderation: float, own: Array) -> _Candidate:
        """The same score with a different moderation; `own`, (n,), is the moderation for each left-out row."""
        base = self.score._base_logits()
        loo = self.score._probabilities(base + (self.eta - base) * _shrinkage(self.variance, own)[:, None])
        return replace(self, score=replace(self.score, loo=loo, moderation=moderation), moderations=own)

    def log_scores(self, y: NDArray[np.int64], weights: Array) -> Array:
        """The leave-one-out log scores of the rows, (n,)."""
        p = self.score.loo[np.arange(len(y)), y]
        return weights * np.log(np.maximum(p, _LEAST))


def _shrinkage(variance: Array, moderation: float | Array) -> Array:
    """``(1 + moderation pi v / 8)^(-1/2)``.

    With moderation 1, this gives approximately the mean probability for normal log odds with variance v (MacKay 1992),
    except that it shrinks toward the base rate instead of one half.
    """
    return np.asarray(1.0 / np.sqrt(1.0 + moderation * math.pi / 8.0 * variance))


def _possible_gain(tried: Tried) -> float:
    """The advantage in leave-one-out log score of the best prior by leave-one-out over the best prior by evidence."""
    a, b = np.unravel_index(np.nanargmax(tried.evidence), tried.evidence.shape)
    return float(np.nanmax(tried.loo) - tried.loo[a, b])


def _chosen_moderation(found: _Candidate, y: NDArray[np.int64], weights: Array) -> tuple[float, Array]:
    """The mean moderation, weighted by the leave-one-out log scores; also without each row, (n,)."""
    tried = np.array(MODERATIONS)
    scores = np.array([found.with_moderation(one, np.full(len(y), one)).log_scores(y, weights) for one in MODERATIONS])
    total = scores.sum(axis=1)
    return float(softmax(total) @ tried), tried @ softmax(total[:, None] - scores, axis=0)


def _rows_by_content(values: Array, y: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """About `most` rows: from each class, rows that are evenly spaced when sorted by content."""
    if len(y) <= most:
        return np.arange(len(y))
    chosen = []
    for rows in (np.flatnonzero(y == m) for m in np.unique(y)):
        order = rows[np.lexsort(values[rows].T)]
        n_rows = max(1, round(most * len(rows) / len(y)))
        chosen.append(order[np.linspace(0, len(rows) - 1, n_rows).round().astype(np.int64)])
    return np.concatenate(chosen)


def _shares(x: Array, coef: Array, design: Design) -> Array:
    """Each feature's share of the total variance of the contributions, (P,)."""
    feature = design.feature
    each = np.array([(x[:, feature == j] @ coef[feature == j]).var(axis=0).sum() for j in range(len(design.terms))])
    total = float(each.sum())
    return each / total if total > 0 and math.isfinite(total) else np.full(len(each), 1.0 / len(each))
