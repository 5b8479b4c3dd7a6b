"""The columns of a table as terms of a sum, which an additive score multiplies by its coefficients.

- A number is scaled to mean 0 and standard deviation 1 and clipped to the range of the training table. *Curvature* is
  added: a natural cubic spline with knots at a few quantiles, without its linear part.
- Levels (categories, ordinal levels) get one indicator each; ordinal levels also get a scaled number.
- A missing value under ``missing="category"`` gets a separate indicator, and its number is set to the mean. Under
  ``missing="ignore"`` it is neutral, as are values that do not occur in the training table (such as a new category).

All terms have mean 0 over the training rows with known values, so 0 is neutral.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.encode import MISSING_NUMBER, Column, Schema
from bayespatch.types import JSONObject

Array = NDArray[np.float64]

# Quantiles of the column for five and four knots, from Harrell (Regression Modeling Strategies, table 2.3).
KNOTS = (0.05, 0.275, 0.5, 0.725, 0.95)
FEW_KNOTS, FEW_CASES = (0.05, 0.35, 0.65, 0.95), 100
MOST_LEVELS = 50  # of a column; rarer levels are combined
LEAST_CURVE, LEAST_SHARE = 1e-9, 1e-3  # smallest SD of a curvature term, absolute and relative to the largest
LINE, LEVEL, CURVE = 0, 1, 2  # kinds of terms


@dataclass(frozen=True)
class Term:
    """The terms of one column, as plain numbers ready for JSON.

    Attributes
    ----------
    low, high : float
        The range of the numbers (or of the scores of ordinal levels) in the training table.
    center, scale : float
        Their mean and standard deviation; a scale of 0 means no straight line.
    knots : tuple of K floats
        Knots of the spline, increasing; empty if there is no spline.
    curve_center, curve_line : tuples of K-2 floats
        Means of the spline's columns, and the multiple of the line that is subtracted from them to obtain curvature.
    curve_mix : tuple of (K-2) R floats
        A matrix, row by row, that turns curvature into R <= K-2 uncorrelated columns with variance 1.
    n_codes : int
        Number of codes, not counting missing; 0 for a column of numbers.
    scores : tuple of floats
        For an ordinal column: the number of each code.
    levels : tuple of floats
        Codes with a separate indicator.
    others : tuple of floats
        Codes that share one more indicator.
    shares : tuple of floats
        Means of the indicators: levels first, then others, then missing.
    missing_is_value : bool
        Whether missing has an indicator.
    """

    low: float = 0.0
    high: float = 0.0
    center: float = 0.0
    scale: float = 0.0
    knots: tuple[float, ...] = ()
    curve_center: tuple[float, ...] = ()
    curve_line: tuple[float, ...] = ()
    curve_mix: tuple[float, ...] = ()
    n_codes: int = 0
    scores: tuple[float, ...] = ()
    levels: tuple[float, ...] = ()
    others: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    missing_is_value: bool = False

    @property
    def kinds(self) -> list[int]:
        """The kind of each term: LINE, LEVEL or CURVE."""
        n_curves = len(self.curve_mix) // max(len(self.curve_line), 1)
        return [LINE] * (self.scale > 0) + [CURVE] * n_curves + [LEVEL] * len(self.shares)

    def is_missing(self, values: Array) -> NDArray[np.bool_]:
        """Whether each value of the column is missing (or, if missing is not a value, not seen before), (n,)."""
        return np.isnan(values) | (values == (self.n_codes if self.n_codes else MISSING_NUMBER))

    def is_known(self, values: Array) -> NDArray[np.bool_]:
        """Whether each value is known and, if it is a code, occurred in the training table, (n,)."""
        known = ~self.is_missing(values)
        return known & np.isin(values, self.levels + self.others) if self.n_codes else known

    def matrix(self, values: Array) -> Array:
        """The terms of a column of values, (n, D_j)."""
        known, missing = self.is_known(values), self.is_missing(values)
        parts = []
        if self.scale > 0:
            numbers = self._numbers(values, known)
            line = (numbers - self.center) / self.scale
            parts.append(line[:, None])
            if self.curve_line:
                rest = spline(numbers, self.knots) - self.curve_center - line[:, None] * np.array(self.curve_line)
                parts.append(rest @ np.reshape(self.curve_mix, (len(self.curve_line), -1)))
        indicators = [values == level for level in self.levels]
        indicators += [np.isin(values, self.others)] * bool(self.others)
        indicators += [missing] * self.missing_is_value
        if indicators:
            parts.append(np.stack(indicators, axis=1) - np.array(self.shares))
        terms = np.concatenate(parts, axis=1) if parts else np.empty((len(values), 0))
        is_level = np.array(self.kinds, dtype=np.int64) == LEVEL
        terms[np.ix_(~known, ~is_level)] = 0.0
        terms[~(known | missing if self.missing_is_value else known)] = 0.0
        return terms

    def _numbers(self, values: Array, known: NDArray[np.bool_]) -> Array:
        """Numbers clipped to the range; missing values are replaced by the mean."""
        if self.scores:
            numbers = np.array(self.scores)[np.where(known, values, 0.0).astype(np.int64)]
        else:
            numbers = values
        return np.where(known, np.clip(numbers, self.low, self.high), self.center)


class Terms(NamedTuple):
    """The terms of rows.

    Attributes
    ----------
    x : array of shape (n, D)
        The terms; 0 is neutral.
    presence : array of shape (n, P)
        Weight of each feature: 1 if its value is known or if missing counts as a value, 0 if it is neutral. The weight
        is between 0 and 1 for missing values of rows with fewer known values than any training row.
    """

    x: Array
    presence: Array


@dataclass(frozen=True)
class Design:
    """The map from the values of a table to the terms of a sum.

    Attributes
    ----------
    terms : tuple of P Term
        The terms of each feature.
    least_known : int
        Smallest number of known values in a training row. If fewer are known, missing values count in proportion, and a
        row without known values is neutral.

    Examples
    --------
    >>> X = [[52, "male"], [61, "female"], [40, "male"]] * 4
    >>> schema = Schema.learn(X)
    >>> values = schema.encode(X).values
    >>> design = Design.learn(schema, values)
    >>> design.matrix(values).x.mean(axis=0).round(9) + 0.0
    array([0., 0., 0., 0., 0., 0.])
    >>> design.feature  # age: a line and three levels; sex: two levels
    array([0, 0, 0, 0, 1, 1])
    """

    terms: tuple[Term, ...]
    least_known: int

    @classmethod
    def learn(cls, schema: Schema, values: Array, weights: Array | None = None) -> Design:
        """Learn scales, knots and levels from the training rows, `EncodedTable.values` (n, P), with weights (n,)."""
        counts = np.ones(len(values)) if weights is None else weights
        terms = tuple(learn_term(column, values[:, j], counts) for j, column in enumerate(schema.columns))
        known = [term.is_known(values[:, j]) for j, term in enumerate(terms)]
        return cls(terms, max(1, int(np.sum(known, axis=0).min())))

    @cached_property
    def feature(self) -> NDArray[np.int64]:
        """The feature of each term, (D,)."""
        return np.repeat(np.arange(len(self.terms)), [len(term.kinds) for term in self.terms])

    @cached_property
    def is_curve(self) -> NDArray[np.bool_]:
        """Whether each term is curvature, (D,)."""
        return np.array([kind == CURVE for term in self.terms for kind in term.kinds], dtype=np.bool_)

    def matrix(self, values: Array) -> Terms:
        """The terms of rows of values, (n, P)."""
        known = np.stack([term.is_known(values[:, j]) for j, term in enumerate(self.terms)], axis=1)
        attenuation = np.minimum(known.sum(axis=1) / self.least_known, 1.0)
        presence = known.astype(np.float64)
        for j, term in enumerate(self.terms):
            if term.missing_is_value:
                missing = term.is_missing(values[:, j])
                presence[missing, j] = attenuation[missing]
        return Terms(np.concatenate([t.matrix(values[:, j]) for j, t in enumerate(self.terms)], axis=1), presence)

    def by_feature(self, x: Array, coef: Array) -> Array:
        """The sum of terms times coefficients of each feature: (n, P), or (n, P, K) for coefficients of K sums."""
        each = [x[:, self.feature == j] @ coef[self.feature == j] for j in range(len(self.terms))]
        return np.stack(each, axis=1)

    def to_dict(self) -> JSONObject:
        """JSON-ready data; `from_dict` restores the design from them."""
        terms = [{k: list(v) if isinstance(v, tuple) else v for k, v in asdict(term).items()} for term in self.terms]
        return {"terms": terms, "least_known": self.least_known}

    @classmethod
    def from_dict(cls, data: object) -> Design:
        """The design from the result of `to_dict`; anything else is rejected."""
        names = {part.name for part in fields(Term)}
        if not isinstance(data, dict) or set(data) != {"terms", "least_known"} or type(data["least_known"]) is not int:
            raise ValueError("this is not a stored design; save the model again")
        terms = []
        for stored in data["terms"]:
            if not isinstance(stored, dict) or set(stored) != names:
                raise ValueError("a stored term has missing or unexpected keys; save the model again")
            parts: JSONObject = {k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()}
            terms.append(Term(**parts))
        return cls(tuple(terms), data["least_known"])


def learn_term(column: Column, values: Array, weights: Array) -> Term:
    """Learn the terms of a column from its values and weights in the training table, (n,). A column that is not
    compared has no terms.
    """
    if not column.is_compared:
        return Term()
    term = Term(n_codes=len(column.values), missing_is_value=column.missing_is_value)
    missing = term.is_missing(values)
    if column.is_coded:
        term = _learn_levels(term, column, values, weights)
    else:
        term = _learn_line(term, values[~missing], weights[~missing])
    if term.knots:
        term = _learn_curve(term, values[~missing], weights[~missing])
    if not term.missing_is_value:
        return term
    return replace(term, shares=(*term.shares, float(np.average(missing, weights=weights))))


def _learn_line(term: Term, numbers: Array, weights: Array) -> Term:
    """Learn the scale of a number, and the knots of a spline if there are enough distinct values."""
    term = replace(term, low=float(numbers.min()), high=float(numbers.max()))
    if term.low == term.high:
        return term
    where = KNOTS if len(numbers) >= FEW_CASES else FEW_KNOTS
    knots = np.unique(np.quantile(numbers, where))
    center, scale = _mean_and_sd(numbers, weights)
    return replace(
        term,
        center=center,
        scale=scale,
        knots=tuple(knots.tolist()) if len(knots) > 2 else (),
    )


def _mean_and_sd(numbers: Array, weights: Array) -> tuple[float, float]:
    """Weighted mean and standard deviation."""
    mean = float(np.average(numbers, weights=weights))
    return mean, float(np.sqrt(np.average((numbers - mean) ** 2, weights=weights)))


def _learn_curve(term: Term, numbers: Array, weights: Array) -> Term:
    """Learn to remove the straight line from the spline's columns, and to make them uncorrelated with variance 1."""
    bent = spline(numbers, term.knots)
    center = np.average(bent, axis=0, weights=weights)
    line = (numbers - term.center) / term.scale
    slope = (weights * line) @ (bent - center) / weights.sum()
    rest = bent - center - line[:, None] * slope
    _, size, directions = np.linalg.svd(rest * np.sqrt(weights)[:, None], full_matrices=False)
    size /= np.sqrt(weights.sum())
    kept = (size > LEAST_CURVE) & (size > LEAST_SHARE * size[0])
    if not kept.any():  # for example, three values, with rare outer ones
        return replace(term, knots=())
    mix = directions[kept].T / size[kept]
    return replace(
        term,
        curve_center=tuple(center.tolist()),
        curve_line=tuple(slope.tolist()),
        curve_mix=tuple(mix.ravel().tolist()),
    )


def _learn_levels(term: Term, column: Column, values: Array, weights: Array) -> Term:
    """Learn indicators of the levels that occur; the rarest levels share one. Ordinal levels are also a number."""
    known = ~term.is_missing(values) & (values < term.n_codes)
    codes = values[known].astype(np.int64)
    counts = np.bincount(codes, weights[known], term.n_codes)
    occurring = np.flatnonzero(counts)
    frequent = np.sort(np.argsort(-counts, kind="stable")[: min(MOST_LEVELS, len(occurring))])
    rare = np.setdiff1d(occurring, frequent)
    shares = [*counts[frequent].tolist(), *[float(counts[rare].sum())] * (len(rare) > 0)]
    # Missing counts as a level, so that shares refer to all rows.
    n = float((weights if term.missing_is_value else weights[known]).sum())
    term = replace(
        term,
        levels=tuple(map(float, frequent)),
        others=tuple(map(float, rare)),
        shares=tuple(count / n for count in shares),
    )
    if column.kind != "ordinal" or len(occurring) < 3:
        return term
    is_number = all(isinstance(value, float) for value in column.values)
    scores = np.array(column.values if is_number else range(term.n_codes), dtype=np.float64)
    numbers = scores[codes]
    center, scale = _mean_and_sd(numbers, weights[known])
    return replace(
        term,
        low=float(numbers.min()),
        high=float(numbers.max()),
        center=center,
        scale=scale,
        scores=tuple(scores.tolist()),
    )


def spline(numbers: Array, knots: tuple[float, ...]) -> Array:
    """The columns of a natural (restricted) cubic spline beyond the straight line, (n, K-2).

    With (u)+ for the positive part, and knots t_1 < ... < t_K:
    ``(x - t_j)+^3 - (x - t_K-1)+^3 (t_K - t_j)/(t_K - t_K-1) + (x - t_K)+^3 (t_K-1 - t_j)/(t_K - t_K-1)``, divided by
    ``(t_K - t_1)^3``. It is linear beyond the outer knots.
    """
    t = np.array(knots)
    width = t[-1] - t[0]
    cubes = np.maximum((numbers[:, None] - t) / width, 0.0) ** 3
    last = (t[-1] - t[-2]) / width
    ends = [(t[end] - t[:-2]) / width / last for end in (-1, -2)]
    return np.asarray(cubes[:, :-2] - cubes[:, -2:-1] * ends[0] + cubes[:, -1:] * ends[1])
