"""Temporal and external validation of a fitted classifier on new cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, chi2_contingency, ks_2samp, norm

from bayespatch import metrics
from bayespatch.decisions import DecisionThreshold
from bayespatch.encode import MISSING_NUMBER, Column
from bayespatch.metrics import Balance, CalibrationBin, CalibrationLine, Threshold
from bayespatch.source.frame import plain_text
from bayespatch.types import AnyArray, JSONObject, TableLike
from bayespatch.version import __version__

if TYPE_CHECKING:
    from bayespatch.estimator import PatchworkClassifier

NO_PRECEDENT = 0.05  # a case as atypical as this share of the past cases has no adequate precedent
N_BINS = 8
LEAST_CASES = 20  # minimum size of a subgroup
MOST_LEVELS = 12  # maximum number of subgroups from one column
LEAST_DISTANCE = 0.1  # smallest distance between two distributions that counts as drift
SIGNIFICANCE = 0.01  # for all features, or all subgroups, together


@dataclass(frozen=True)
class ClassValidation:
    """Performance of the predicted probability of one class.

    Attributes
    ----------
    balance : Balance
        Expected and observed number of cases.
    line : CalibrationLine or None
        Calibration intercept and slope.
    average_precision : float or None
    curve : tuple of CalibrationBin
    thresholds : tuple of Threshold
    roc : tuple of points
    """

    balance: Balance
    line: CalibrationLine | None
    average_precision: float | None
    curve: tuple[CalibrationBin, ...]
    thresholds: tuple[Threshold, ...]
    roc: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class FeatureDrift:
    """Difference of a feature between the past cases and the new ones.

    Attributes
    ----------
    feature : str
    past, new : str
        Mean and standard deviation of numbers; for categories the share of the value that differs most.
    distance : float
        Distance between the two distributions, from 0 to 1: Kolmogorov-Smirnov for numbers, total variation for
        categories.
    missing_past, missing_new : float
        Shares of missing values.
    unseen : float
        Share of new cases with a value that no past case has.
    drifted : bool
        Whether values or missing values differ by at least 0.1, more than expected by chance for this number of
        features.
    """

    feature: str
    past: str
    new: str
    distance: float
    missing_past: float
    missing_new: float
    unseen: float
    drifted: bool


@dataclass(frozen=True)
class SubgroupValidation:
    """New cases that share a value, or that were seen in one period.

    `off` is True if predicted and observed frequencies differ by 10 points or more, more than expected by chance for
    this number of groups.
    """

    feature: str
    value: str
    n: int
    scores: dict[str, float | None]
    accuracy_interval: tuple[float, float]
    stated: dict[str, float]
    observed: dict[str, float]
    off: bool


@dataclass(frozen=True)
class CalledAt:
    """A class, and its performance at a threshold."""

    label: str
    at: Threshold


@dataclass(frozen=True)
class Validation:
    """The result of `validate`; `to_dict` is ready for JSON."""

    target: str
    n: int
    n_past: int
    n_copies: int  # new cases with all values of a past case, if more than chance explains; otherwise 0
    counts: dict[str, int]
    past_counts: dict[str, int]
    scores: dict[str, float | None]
    intervals: dict[str, tuple[float, float] | None]
    past_scores: dict[str, float | None]  # of the past cases, each predicted from all the others
    without_precedent: float
    classes: dict[str, ClassValidation]
    decision: CalledAt | None  # results of flagging a class at this threshold
    drift: tuple[FeatureDrift, ...]
    subgroups: tuple[SubgroupValidation, ...]
    periods: tuple[SubgroupValidation, ...]
    package: str = __version__

    def to_dict(self) -> JSONObject:
        """Plain data."""
        return asdict(self)


def validate(
    model: PatchworkClassifier,
    X: TableLike,
    y: Sequence[object],
    *,
    periods: Sequence[str] | None = None,
    decision: DecisionThreshold | None = None,
    seed: int = 0,
) -> Validation:
    """Predict new cases with known outcomes, and compare predictions with outcomes.

    Parameters
    ----------
    model : fitted PatchworkClassifier
    X : data frame, array or list of rows
        New cases, none of which should be a past case of the model.
    y : sequence of length n
        Their classes, by value or by label.
    periods : sequence of length n, optional
        Period of each case, such as "2024-05", to report performance by period.
    decision : Decision, optional
        The threshold at which a class is flagged.
    seed : int
        Random seed of the bootstrap.

    Examples
    --------
    >>> found = validate(clf, [["yes", 60], ["no", 41]] * 5, ["sick", "well"] * 5)
    >>> found.n, found.scores["AUC"], found.classes["well"].balance.observed
    (10, 1.0, 5)
    """
    if not hasattr(model, "classes_"):
        raise ValueError("only models that predict a class can be validated, but this one predicts a number")
    classes = tuple(model.class_names_)
    codes = outcome_codes(model, y)
    if periods is not None and len(periods) != len(codes):
        raise ValueError(
            f"periods has length {len(periods)}, but there are {len(codes)} cases; pass one period for each case"
        )
    predicted = model.predict_all(X)
    p = predicted.probabilities
    encoded = model.schema_.encode(X)
    return Validation(
        target=model.target_,
        n=len(codes),
        n_past=len(model.cases_),
        n_copies=_n_copies(model.values_, encoded.values),
        counts=dict(zip(classes, np.bincount(codes, minlength=len(classes)).tolist(), strict=True)),
        past_counts=dict(
            zip(classes, np.bincount(model.y_[model.cases_], minlength=len(classes)).tolist(), strict=True)
        ),
        scores={name: score(p, codes) for name, score in metrics.SCORES.items()},
        intervals=metrics.bootstrap(p, codes, np.random.default_rng(seed)),
        past_scores=dict(model.overview().performance.scores),
        without_precedent=float((~(predicted.percentiles > NO_PRECEDENT)).mean()),
        classes={name: _class(p[:, m], codes == m) for m, name in enumerate(classes)},
        decision=None if decision is None else _called_at(decision, p, codes, classes),
        drift=_drift(model.schema_.columns, model.values_, encoded.values, encoded.unseen),
        subgroups=_subgroups(model.schema_.columns, model.values_, encoded.values, p, codes, classes),
        periods=() if periods is None else _periods(periods, p, codes, classes),
    )


def outcome_codes(model: PatchworkClassifier, y: Sequence[object]) -> NDArray[np.int64]:
    """The index of each outcome, passed by value or by label, among the model's classes."""
    code_of: dict[str, int] = {name: m for m, name in enumerate(model.class_names_)}
    code_of |= {plain_text(value): m for m, value in enumerate(model.classes_.tolist())}
    codes = []
    for row, value in enumerate(y):
        if plain_text(value) not in code_of:
            raise ValueError(
                f"row {row}: outcome {value!r} is not a class of the model; its classes are "
                f"{', '.join(model.class_names_)}"
            )
        codes.append(code_of[plain_text(value)])
    if not codes:
        raise ValueError("no case has an outcome; pass cases with known outcomes")
    return np.array(codes, dtype=np.int64)


def _class(p: NDArray[np.float64], hit: NDArray[np.bool_]) -> ClassValidation:
    return ClassValidation(
        balance=metrics.balance(p, hit),
        line=metrics.calibration_line(p, hit),
        average_precision=metrics.average_precision(p, hit),
        curve=metrics.calibration_curve(p, hit, N_BINS),
        thresholds=metrics.threshold_table(p, hit),
        roc=metrics.roc_points(p, hit),
    )


def _called_at(
    decision: DecisionThreshold, p: NDArray[np.float64], codes: NDArray[np.int64], classes: tuple[str, ...]
) -> CalledAt:
    m = classes.index(decision.label)
    return CalledAt(decision.label, metrics.threshold_table(p[:, m], codes == m, (decision.threshold,))[0])


def _n_copies(past: NDArray[np.float64], new: NDArray[np.float64]) -> int:
    """Number of new cases with all values of a past case, if there are more than past cases that equal another one."""
    both = np.nan_to_num(np.concatenate([past, new]), nan=np.inf)
    labels = np.unique(both, axis=0, return_inverse=True)[1].reshape(-1)
    n_equal = np.bincount(labels[: len(past)], minlength=int(labels.max()) + 1)[labels]
    n_copies, n_twins = int((n_equal[len(past) :] > 0).sum()), int((n_equal[: len(past)] > 1).sum())
    by_chance = (n_twins + 1) / (len(past) + 1)
    return n_copies if binom.sf(n_copies - 1, len(new), by_chance) < SIGNIFICANCE else 0


# Drift


def _drift(
    columns: Sequence[Column], past: NDArray[np.float64], new: NDArray[np.float64], unseen: NDArray[np.bool_]
) -> tuple[FeatureDrift, ...]:
    drifts = []
    for j, column in enumerate(columns):
        old, own = _plain(column, past[:, j]), _plain(column, new[:, j])
        gaps = float(np.isnan(old).mean()), float(np.isnan(own).mean())
        known_old, known_own = old[~np.isnan(old)], own[~np.isnan(own)]
        gap_p = _chi_squared(np.isnan(old), np.isnan(own))
        distance, p, texts = 0.0, 1.0, ("–", "–")
        if known_old.size and known_own.size:
            measure = _of_numbers if _is_measured(column) else _of_levels
            distance, p, texts = measure(column, known_old, known_own)
        limit = SIGNIFICANCE / len(columns)
        drifted = (distance >= LEAST_DISTANCE and p < limit) or (
            abs(gaps[1] - gaps[0]) >= LEAST_DISTANCE and gap_p < limit
        )
        drifts.append(FeatureDrift(column.called, *texts, distance, *gaps, float(unseen[:, j].mean()), bool(drifted)))
    return tuple(drifts)


def _is_measured(column: Column) -> bool:
    return column.keeps_numbers or column.kind == "windowed"


def _plain(column: Column, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The values, with NaN for missing ones regardless of their code."""
    if _is_measured(column):
        return np.where(values == MISSING_NUMBER, np.nan, values)
    missing = np.array([not np.isnan(code) and column.decode(code) == "missing" for code in np.unique(values)])
    return np.where(np.isin(values, np.unique(values)[missing]), np.nan, values)


def _of_numbers(
    column: Column, old: NDArray[np.float64], new: NDArray[np.float64]
) -> tuple[float, float, tuple[str, str]]:
    test = ks_2samp(old, new)
    texts = [f"{values.mean():.3g} ± {values.std():.2g} {column.unit}".rstrip() for values in (old, new)]
    return float(test.statistic), float(test.pvalue), (texts[0], texts[1])


def _of_levels(
    column: Column, old: NDArray[np.float64], new: NDArray[np.float64]
) -> tuple[float, float, tuple[str, str]]:
    codes = np.unique(np.concatenate([old, new]))
    shares = np.array([[(values == code).mean() for code in codes] for values in (old, new)])
    apart = np.abs(shares[0] - shares[1])
    most = int(apart.argmax())
    texts = [f"{column.decode(codes[most])}: {100 * share[most]:.0f}%" for share in shares]
    return float(apart.sum() / 2.0), _chi_squared(old, new), (texts[0], texts[1])


def _chi_squared(old: AnyArray, new: AnyArray) -> float:
    values = np.unique(np.concatenate([old, new]))
    if len(values) < 2:
        return 1.0
    table = np.array([[(part == value).sum() for value in values] for part in (old, new)])
    return float(chi2_contingency(table).pvalue)


# Subgroups


def _subgroups(
    columns: Sequence[Column],
    past: NDArray[np.float64],
    new: NDArray[np.float64],
    p: NDArray[np.float64],
    codes: NDArray[np.int64],
    classes: tuple[str, ...],
) -> tuple[SubgroupValidation, ...]:
    """Subgroups of the new cases: by category, and by whether a number is below the median of the past cases."""
    groups: list[tuple[str, str, NDArray[np.bool_]]] = []
    for j, column in enumerate(columns):
        values = _plain(column, new[:, j])
        groups.append((column.called, "missing", np.isnan(values)))
        if _is_measured(column):
            middle = float(np.nanmedian(_plain(column, past[:, j])))
            groups += [
                (column.called, f"below {middle:g}", values < middle),
                (column.called, f"{middle:g} or more", values >= middle),
            ]
        elif len(levels := np.unique(values[~np.isnan(values)])) <= MOST_LEVELS:
            groups += [(column.called, column.decode(level), values == level) for level in levels]
    chosen = [group for group in groups if LEAST_CASES <= group[2].sum() < len(codes)]
    return tuple(_subgroup(*group, p, codes, classes, len(chosen)) for group in chosen)


def _periods(
    periods: Sequence[str], p: NDArray[np.float64], codes: NDArray[np.int64], classes: tuple[str, ...]
) -> tuple[SubgroupValidation, ...]:
    names = np.asarray(periods)
    periods_in_order = sorted(set(periods))
    return tuple(
        _subgroup("period", name, names == name, p, codes, classes, len(periods_in_order)) for name in periods_in_order
    )


def _subgroup(
    feature: str,
    value: str,
    rows: NDArray[np.bool_],
    p: NDArray[np.float64],
    codes: NDArray[np.int64],
    classes: tuple[str, ...],
    n_groups: int,
) -> SubgroupValidation:
    own, outcomes = p[rows], codes[rows]
    limit = float(norm.isf(SIGNIFICANCE / (2 * n_groups * len(classes))))
    stated, observed = own.mean(axis=0), np.bincount(outcomes, minlength=len(classes)) / len(outcomes)
    balances = [metrics.balance(own[:, m], outcomes == m) for m in range(len(classes))]
    off = any(
        one.z is not None and abs(one.z) > limit and abs(one.observed - one.expected) >= LEAST_DISTANCE * len(outcomes)
        for one in balances
    )
    return SubgroupValidation(
        feature,
        value,
        len(outcomes),
        {name: score(own, outcomes) for name, score in metrics.SCORES.items()},
        metrics.rate_interval(int((own.argmax(axis=1) == outcomes).sum()), len(outcomes)),
        dict(zip(classes, stated.tolist(), strict=True)),
        dict(zip(classes, observed.tolist(), strict=True)),
        off,
    )
