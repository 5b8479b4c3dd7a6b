"""A second opinion on times to an event: Cox's proportional hazards model, whose log hazard is a sum over features.

The terms come from `Design`. The cross-validated partial likelihood determines the ridge penalty, and whether numbers
may be curved and ordinal levels may deviate from a straight line. Coefficients are fitted with lifelines; the baseline
hazard is Breslow's estimator.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.model_selection import GroupKFold, StratifiedKFold

from bayespatch.encode import Schema
from bayespatch.second_opinion.design import CURVE, LINE, Array, Design
from bayespatch.types import AnyArray, JSONMapping, JSONObject

STRENGTHS = (0.01, 0.1, 1.0)  # prior variances of a coefficient, for terms with standard deviation 1
N_FOLDS = 5
_FARTHEST = 20.0  # larger log hazard ratios are rejected as estimates


class CoxChoice(NamedTuple):
    """A prior that was tried, and the cross-validated log partial likelihood for each event."""

    strength: float
    curved: bool
    score: float


@dataclass(frozen=True, eq=False)
class CoxScore:
    """The hazard of an event as a product over features.

    Attributes
    ----------
    design : Design
        Converts values to terms.
    coef : array of shape (D,)
        Log hazard ratios of the terms.
    covariance : array of shape (D, D)
        Covariance of the coefficients.
    times, hazard : arrays of shape (T,)
        Times of events in the training table, and the cumulative baseline hazard just after each, for terms of 0.
    error : array of shape (T,)
        Standard error of the logarithm of the cumulative baseline hazard.
    choices : tuple of CoxChoice
    loo : array of shape (n, K)
        Held-out cumulative hazard of each training row within each of K time intervals.

    Examples
    --------
    >>> X = [[52, "male"], [61, "female"], [40, "male"], [45, "female"]] * 10
    >>> time = np.array([5.0, 2.0, 9.0, 4.0] * 10)
    >>> schema = Schema.learn(X)
    >>> values = schema.encode(X).values
    >>> cox = CoxScore.learn(schema, values, time, np.ones(40, bool), np.array([4.5]), seed=0)
    >>> risk = cox.log_hazard(values[:4])
    >>> bool(risk[1] > risk[0] > risk[2])
    True
    """

    design: Design
    coef: Array
    covariance: Array
    times: Array
    hazard: Array
    error: Array
    choices: tuple[CoxChoice, ...]
    loo: Array

    @classmethod
    def learn(
        cls,
        schema: Schema,
        values: Array,
        time: Array,
        event: NDArray[np.bool_],
        cuts: Array,
        groups: NDArray[np.int64] | None = None,
        *,
        seed: int,
    ) -> CoxScore:
        """Learn from `EncodedTable.values` (n, P), times and events; rows of the same group are held out together."""
        design = Design.learn(schema, values)
        x, bends = design.matrix(values).x, _bends(design)
        folds = _folds(event, groups, seed)
        choices, best, held_out = [], -np.inf, np.zeros(len(x))
        chosen = CoxChoice(STRENGTHS[0], False, 0.0)
        for curved in (False, True) if bends.any() else (False,):
            for strength in (chosen.strength,) if curved else STRENGTHS:
                used = np.flatnonzero(curved | ~bends)
                risk, score = np.zeros(len(x)), 0.0
                for train, test in folds:
                    coef, _ = _fit(x[np.ix_(train, used)], time[train], event[train], strength)
                    risk[test] = x[np.ix_(test, used)] @ coef
                    score += _partial(risk[test], time[test], event[test])
                choice = CoxChoice(strength, curved, score / max(1, int(event.sum())))
                choices.append(choice)
                if choice.score > best:
                    best, chosen, held_out = choice.score, choice, risk
        used = np.flatnonzero(chosen.curved | ~bends)
        coef, covariance = np.zeros(x.shape[1]), np.zeros((x.shape[1], x.shape[1]))
        coef[used], covariance[np.ix_(used, used)] = _fit(x[:, used], time, event, chosen.strength)
        loo = np.empty((len(x), len(cuts) + 1))
        for train, test in folds:
            times, hazard, _ = _breslow(held_out[train], time[train], event[train])
            loo[test] = np.exp(held_out[test])[:, None] * _within(times, hazard, cuts)
        return cls(design, coef, covariance, *_breslow(x @ coef, time, event), tuple(choices), loo)

    def log_hazard(self, values: Array) -> Array:
        """Log hazard ratio, (n,), of rows of `EncodedTable.values` relative to the average row."""
        return self.points(values).sum(axis=1)

    def points(self, values: Array) -> Array:
        """Contribution of each feature to the log hazard, (n, P)."""
        terms = self.design.matrix(values)
        return self.design.by_feature(terms.x, self.coef) * terms.presence

    def cumulative_hazard(self, values: Array, times: Array) -> Array:
        """Cumulative hazard, (n, T), of rows, (n, P), at times, (T,)."""
        return np.exp(self.log_hazard(values))[:, None] * self.baseline(times)

    def baseline(self, times: Array) -> Array:
        """Cumulative hazard of the average row at times, (T,)."""
        return _at(self.times, self.hazard, times)

    def log_error(self, values: Array, times: Array) -> Array:
        """Standard error of the logarithm of `cumulative_hazard`, (n, T)."""
        terms = self.design.matrix(values)
        x = terms.x * terms.presence[:, self.design.feature]
        variance = np.maximum(((x @ self.covariance) * x).sum(axis=1), 0.0)
        return np.sqrt(variance[:, None] + _at(self.times, self.error, times, before=self.error[0]) ** 2)

    def to_arrays(self) -> tuple[dict[str, AnyArray], JSONObject]:
        """Arrays and JSON-ready data; `from_arrays` restores the model from them."""
        parts = {part.name: getattr(self, part.name) for part in fields(self)}
        arrays = {name: part for name, part in parts.items() if isinstance(part, np.ndarray)}
        return arrays, {"design": self.design.to_dict(), "choices": [list(one) for one in self.choices]}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray], plain: JSONMapping) -> CoxScore:
        """The model from the result of `to_arrays`; anything else raises a ValueError."""
        names = {"coef", "covariance", "times", "hazard", "error", "loo"}
        if set(arrays) != names or set(plain) != {"design", "choices"}:
            raise ValueError("this is not a stored Cox model; save the model again")
        choices = tuple(CoxChoice(*one) for one in plain["choices"])
        if not all(tuple(map(type, one)) == (float, bool, float) and one.strength > 0.0 for one in choices):
            raise ValueError("the stored Cox model has unknown priors; save the model again")
        cox = cls(design=Design.from_dict(plain["design"]), choices=choices, **arrays)
        n_terms, n_times = len(cox.design.feature), len(cox.times)
        shapes = {"coef": (n_terms,), "covariance": (n_terms, n_terms), "hazard": (n_times,), "error": (n_times,)}
        if cox.loo.ndim != 2 or not n_times or any(getattr(cox, name).shape != s for name, s in shapes.items()):
            raise ValueError("the arrays of the stored Cox model are inconsistent; save the model again")
        if np.any(np.diff(cox.times) <= 0) or np.any(np.diff(cox.hazard, prepend=0.0) < 0) or cox.loo.min() < 0:
            raise ValueError("the baseline of the stored Cox model does not increase; save the model again")
        if np.abs(cox.coef).max(initial=0.0) > _FARTHEST:
            raise ValueError("the stored Cox model has invalid hazard ratios; save the model again")
        return cox


def check_installed() -> None:
    """If lifelines is not installed, raise an ImportError with the install command."""
    try:
        import lifelines  # noqa: F401
    except ImportError as error:
        raise ImportError("second_opinion='cox' needs lifelines: pip install 'bayespatch[survival]'") from error


def _bends(design: Design) -> NDArray[np.bool_]:
    """Terms that deviate from a straight line, (D,): curvature, and the levels of ordinal columns."""
    bends = []
    for term in design.terms:
        n_levels = len(term.levels) + bool(term.others) if term.scores and term.scale > 0 else 0
        levels = np.arange(len(term.kinds)) - term.kinds.count(LINE) - term.kinds.count(CURVE)
        bends.append(((levels >= 0) & (levels < n_levels)) | (np.array(term.kinds, dtype=np.int64) == CURVE))
    return np.concatenate([np.zeros(0, dtype=np.bool_), *bends])


def _folds(
    event: NDArray[np.bool_], groups: NDArray[np.int64] | None, seed: int
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Training rows and held-out rows of each fold."""
    if groups is not None:
        n = min(N_FOLDS, len(np.unique(groups)))
        return list(GroupKFold(n).split(event, groups=groups))
    n = max(2, min(N_FOLDS, int(event.sum()), int((~event).sum()) or len(event)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # fewer censored rows than folds
        return list(StratifiedKFold(n, shuffle=True, random_state=seed).split(event, event))


def _fit(x: Array, time: Array, event: NDArray[np.bool_], strength: float) -> tuple[Array, Array]:
    """Coefficients, (D,), and their covariance, (D, D)."""
    from lifelines import CoxPHFitter
    from lifelines.exceptions import ConvergenceError
    from pandas import DataFrame

    coef, covariance = np.zeros(x.shape[1]), np.zeros((x.shape[1], x.shape[1]))
    used = np.flatnonzero(x.std(axis=0) > 0.0)
    if not used.size or not event.any():
        return coef, covariance
    frame = DataFrame(x[:, used]).assign(time=time, event=event)
    frame.columns = frame.columns.astype(str)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about collinear indicators, which the penalty makes identifiable
        try:
            fit = CoxPHFitter(penalizer=1.0 / (strength * len(x))).fit(frame, "time", "event")
        except ConvergenceError:
            return coef, covariance
    # lifelines divides by the standard deviations before it applies the penalty, as intended here.
    coef[used] = np.clip(fit.params_.to_numpy(), -_FARTHEST, _FARTHEST)
    covariance[np.ix_(used, used)] = fit.variance_matrix_.to_numpy()
    return coef, covariance


def _partial(risk: Array, time: Array, event: NDArray[np.bool_]) -> float:
    """Cox's log partial likelihood, with Breslow's treatment of ties."""
    total = 0.0
    for at in np.unique(time[event]):
        total += float(risk[event & (time == at)].sum())
        total -= int((event & (time == at)).sum()) * float(logsumexp(risk[time >= at]))
    return total


def _breslow(risk: Array, time: Array, event: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
    """Event times, the cumulative baseline hazard, and the standard error of its logarithm."""
    order = np.argsort(time, kind="stable")
    weight = np.cumsum(np.exp(risk[order])[::-1])[::-1]
    times, counts = np.unique(time[event], return_counts=True)
    at_risk = weight[np.searchsorted(time[order], times, side="left")]
    hazard = np.cumsum(counts / at_risk)
    return times, hazard, np.sqrt(np.cumsum(counts / at_risk**2)) / hazard


def _at(times: Array, steps: Array, at: Array, before: float = 0.0) -> Array:
    """Evaluate a step function at some times."""
    return np.append(before, steps)[np.searchsorted(times, at, side="right")]


def _within(times: Array, hazard: Array, cuts: Array) -> Array:
    """Cumulative hazard within intervals that end at `cuts`."""
    ends = np.append(_at(times, hazard, cuts), hazard[-1])
    return np.diff(ends, prepend=0.0)
