"""Conversion of a second opinion to arrays and JSON and back, ensuring that predictions are finite for any row."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bayespatch.encode import Column, Schema
from bayespatch.persistence.arrays import Arrays
from bayespatch.second_opinion import AdditiveMean, AdditiveScore, CoxScore, Opinion, UserOpinion
from bayespatch.second_opinion.design import Design, Term
from bayespatch.second_opinion.logistic import CURVATURES, STRENGTHS
from bayespatch.second_opinion.user import LinearOpinion
from bayespatch.types import JSONMapping, JSONObject
from bayespatch.validation import LARGEST_OUTCOME

START = "opinion_."  # prefix of the names of its arrays
_CLASSES: dict[str, type[AdditiveScore | AdditiveMean | CoxScore | LinearOpinion]] = {
    kind.__name__: kind for kind in (AdditiveScore, AdditiveMean, CoxScore, LinearOpinion)
}
_OF_ESTIMATOR = {"PatchworkRegressor": ("AdditiveMean",), "PatchworkSurvival": ("CoxScore",)}
_FARTHEST = 1e9  # largest absolute value of coefficients and terms
_LATEST = 1e25  # largest time
_NEAREST = 1e-9  # smallest divisor
_TUPLES = ("knots", "curve_center", "curve_line", "curve_mix", "scores", "levels", "others", "shares")


def opinion_to_arrays(opinion: Opinion | None) -> tuple[Arrays, JSONObject | None]:
    """The arrays by name and the rest as JSON; a ValueError if the second opinion cannot be stored."""
    if opinion is None:
        return {}, None
    arrays, numbers = opinion.to_arrays()
    kind = "LinearOpinion" if isinstance(opinion, UserOpinion) else type(opinion).__name__
    stored = {f"{START}{name}": np.ascontiguousarray(array, dtype=np.float64) for name, array in arrays.items()}
    return stored, {"kind": kind, "numbers": numbers}


def opinion_from_arrays(
    stored: object, arrays: Arrays, schema: Schema, sizes: Mapping[str, int], estimator: str
) -> Opinion | None:
    """The inverse of `opinion_to_arrays`; anything else raises a ValueError."""
    if stored is None:
        if arrays:
            raise ValueError("there are arrays of a second opinion, but no second opinion")
        return None
    if not isinstance(stored, dict) or tuple(stored) != ("kind", "numbers") or stored["kind"] not in _CLASSES:
        raise ValueError("the second opinion has an unknown kind")
    if stored["kind"] not in _OF_ESTIMATOR.get(estimator, ("AdditiveScore", "LinearOpinion")):
        raise ValueError(f"a second opinion of the kind {stored['kind']} does not fit the outcome")
    is_class, regressor = estimator == "PatchworkClassifier", estimator == "PatchworkRegressor"
    largest = LARGEST_OUTCOME**2 if regressor else _FARTHEST if is_class else _LATEST
    by_name = {name.removeprefix(START): array for name, array in arrays.items()}
    for name, array in by_name.items():
        if array.dtype != np.float64:
            raise ValueError(f"{name} of the second opinion is {array.dtype} instead of float64")
        are_numbers = (np.abs(array) <= largest) | (np.isnan(array) & (name == "evidence"))
        if not are_numbers.all():
            raise ValueError(f"{name} of the second opinion has values that are not numbers, or beyond {largest:g}")
    opinion = _CLASSES[stored["kind"]].from_arrays(by_name, stored["numbers"])
    if len(opinion.loo) != sizes["n"] or (is_class and opinion.loo.shape != (sizes["n"], sizes["M"])):
        raise ValueError("the second opinion and the table have different numbers of rows or classes")
    if isinstance(opinion, LinearOpinion):
        if len(opinion.coef) != sizes["P"] or not (opinion.names is None or set(opinion.names) <= set(schema.names)):
            raise ValueError("the second opinion has different columns than the table")
    else:
        if not isinstance(opinion, CoxScore):
            _check_numbers(stored["numbers"], opinion)
        elif opinion.loo.shape != (sizes["n"], sizes["M"] // 2):
            raise ValueError("the second opinion and the times have different numbers of intervals")
        _check_design(opinion.design, schema)
    return opinion


def _check_numbers(stored: JSONMapping, opinion: AdditiveScore | AdditiveMean) -> None:
    if opinion.evidence.shape != (len(CURVATURES), len(STRENGTHS)):
        raise ValueError("the second opinion does not have the expected priors")
    if isinstance(opinion, AdditiveMean):
        numbers = [stored["base"], stored["noise"]]
        if not all(type(number) is float and abs(number) <= LARGEST_OUTCOME for number in numbers) or numbers[1] < 0:
            raise ValueError("the second opinion's mean or noise is not a number")
        if np.any(np.diff(opinion.residuals) < 0):
            raise ValueError("the residuals of the second opinion are not in order")
    elif opinion.base.ndim != 1 or np.any((opinion.base < 0) | (opinion.base > 1)):
        raise ValueError("the base rates of the second opinion are not shares")


def _check_design(design: Design, schema: Schema) -> None:
    if len(design.terms) != len(schema.columns) or not 1 <= design.least_known <= len(schema.columns):
        raise ValueError("the second opinion has different columns than the table")
    for term, column in zip(design.terms, schema.columns, strict=True):
        if not _fits(term, column):
            raise ValueError(f"the terms of column {column.name!r} in the second opinion contradict each other")


def _fits(term: Term, column: Column) -> bool:
    """Whether the terms could have been learned from the column and are finite for any value."""
    if not column.is_compared:
        return term == Term()
    numbers = (term.low, term.high, term.center, term.scale)
    tuples = [getattr(term, name) for name in _TUPLES]
    if not all(type(number) is float and np.isfinite(number) for number in numbers):
        return False
    if not all(isinstance(part, tuple) and all(type(number) is float for number in part) for part in tuples):
        return False
    if not all(np.all(np.abs(part) <= _FARTHEST) for part in (term.curve_center, term.curve_line, term.curve_mix)):
        return False
    if type(term.n_codes) is not int or term.n_codes != len(column.values) or term.low > term.high or term.scale < 0:
        return False
    if term.missing_is_value is not column.missing_is_value or len(term.scores) not in (0, term.n_codes):
        return False
    if not term.n_codes and term.scores:
        return False
    codes = (*term.levels, *term.others)
    if len(set(codes)) < len(codes) or not all(code in range(term.n_codes) for code in codes):
        return False
    if len(term.shares) != len(term.levels) + bool(term.others) + term.missing_is_value:
        return False
    if not np.all((np.array(term.shares) >= 0) & (np.array(term.shares) <= 1)) or not np.isfinite(term.scores).all():
        return False
    if term.scale > 0 and not _is_near((term.low, term.high), term.center, term.scale):
        return False
    return _fits_curve(term)


def _fits_curve(term: Term) -> bool:
    """Whether the spline is valid or absent."""
    n = len(term.curve_line)
    if not n:
        return not (term.curve_center or term.curve_mix or term.knots)
    if term.scale <= 0 or len(term.knots) != n + 2 or len(term.curve_center) != n or len(term.curve_mix) % n:
        return False
    if not np.isfinite(term.knots).all() or not all(low < high for low, high in pairwise(term.knots)):
        return False
    width = term.knots[-1] - term.knots[0]
    last: NDArray[np.float64] = np.diff(term.knots[-2:]) / width
    return bool(last[0] >= _NEAREST) and _is_near((term.low, term.high), term.knots[0], width)


def _is_near(ends: tuple[float, float], center: float, scale: float) -> bool:
    """Whether the cubes of a scaled range do not overflow."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return bool(np.all(np.abs((np.array(ends) - center) / scale) <= _FARTHEST))
