"""Looks at a fitted classifier as a whole, with scikit-learn's scores and other methods' rankings beside its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import mutual_info_classif
from sklearn.inspection import permutation_importance
from sklearn.metrics import roc_auc_score

from bayespatch.container import package_version
from bayespatch.encode import MISSING_NUMBER, Column
from bayespatch.encode.column import bin_text
from bayespatch.explain.build import Past
from bayespatch.explain.overview import (
    FeatureSummary,
    Overview,
    PastCase,
    Performance,
    Subgroup,
    calibration_curve,
    most_influential,
)
from bayespatch.model import Hyperparameters

_N_BOOT = 200
_N_BINS = 8
_TOP = 10  # past cases named
_MIN_GROUP = 10  # cases, below which a subgroup says nothing
_MAX_VALUES = 8  # of a feature that makes subgroups
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def look_over(clf: Any, past: Past, quantile: float, seed: int = 0) -> Overview:
    """The overview of a fitted classifier; `past` is its past in the user's words."""
    rows = clf.review_.rows
    known = clf.y_[rows]
    p = clf.calibration_.apply(clf.review_.votes)
    percentiles = past.percentile(clf.review_.familiarity)
    counts = np.bincount(clf.y_[clf.cases_], minlength=len(past.classes))
    return Overview(
        about=_about(clf, past),
        classes=dict(zip(past.classes, counts.tolist(), strict=True)),
        parameters=_changed_parameters(clf),
        hyper=_constants(clf.hyper_),
        how_found=_how_found(clf),
        features=_features(clf, seed),
        performance=_performance(p, known, past.classes, seed),
        subgroups=_subgroups(clf, p, known, percentiles <= quantile),
        focus=past.classes[-1],
        influential=_influential(clf, past, percentiles),
        unusual=_unusual(clf, past, percentiles),
        n_without_precedent=int((percentiles <= quantile).sum()),
        calibration={"slope": clf.calibration_.slope, "intercepts": list(clf.calibration_.intercepts)},
        diagnostics=_diagnostics(clf),
    )


def _about(clf: Any, past: Past) -> dict[str, Any]:
    posterior = clf.posterior_
    return {
        "estimator": type(clf).__name__,
        "package": package_version(),
        "model": posterior.model.kind,
        "likelihood": posterior.model.likelihood,
        "target": past.target,
        "cases": len(clf.cases_),
        "parents": len(clf.parents_),
        "features": len(clf.schema_.columns),
        "missing": clf.schema_.missing,
        "tuned": clf.tuning_ is not None,
        "is_number": past.read_number is not None,
        "chains": posterior.n_chains,
        "draws": posterior.n_draws,
        "warmup": posterior.settings.warmup,
        "seed": posterior.seed,
        "seconds": posterior.timing.seconds,
    }


def _changed_parameters(clf: Any) -> dict[str, str]:
    default = type(clf)().get_params(deep=False)
    given = {name: repr(value) for name, value in clf.get_params(deep=False).items()}
    return {name: text for name, text in given.items() if text != repr(default[name])}


def _constants(hyper: Hyperparameters) -> dict[str, Any]:
    return {part.name: np.asarray(getattr(hyper, part.name)).tolist() for part in fields(hyper)}


def _how_found(clf: Any) -> str:
    if clf.tuning_ is not None:
        return (
            f"found from the training data alone, by the log score of past cases as if they were new; "
            f"{len(clf.tuning_.trials)} settings were tried, and numbers are compared by: {clf.tuning_.coding}"
        )
    if isinstance(clf.hyper, Hyperparameters):
        return "given by the user"
    return f"chosen by the package (hyper={clf.hyper!r})"


# Features


def _features(clf: Any, seed: int) -> tuple[FeatureSummary, ...]:
    draws = clf.posterior_.q.reshape(-1, len(clf.schema_.columns))
    quantiles = np.quantile(draws, _QUANTILES, axis=0).T
    measures = {"this model": draws.mean(axis=0), **_other_measures(clf, seed)}
    ranks = {name: _ranks(values) for name, values in measures.items()}
    x = clf.x_[clf.cases_]
    return tuple(
        FeatureSummary(
            name=column.name,
            description=column.description,
            kind=column.kind,
            values=_values(column),
            n_missing=sum(column.decode(code) == "missing" for code in x[:, j].tolist()),
            mean=float(draws[:, j].mean()),
            sd=float(draws[:, j].std()),
            quantiles=tuple(quantiles[j].tolist()),
            ranks={name: int(rank[j]) for name, rank in ranks.items()},
        )
        for j, column in enumerate(clf.schema_.columns)
    )


def _other_measures(clf: Any, seed: int) -> dict[str, NDArray[np.float64]]:
    """What other methods hold important, on the same codes: one feature at a time, and a random forest."""
    x, y = clf.x_[clf.cases_], clf.y_[clf.cases_]
    x = np.where(np.isnan(x) | (x == MISSING_NUMBER), -1.0, x)
    if len(np.unique(y)) < 2:
        return {}
    discrete = np.array([not column.has_window for column in clf.schema_.columns])
    alone = mutual_info_classif(x, y, discrete_features=discrete, random_state=seed)
    forest = RandomForestClassifier(100, min_samples_leaf=3, oob_score=False, random_state=seed).fit(x, y)
    shuffled = permutation_importance(forest, x, y, n_repeats=5, random_state=seed)
    return {"mutual information": alone, "random forest": shuffled.importances_mean}


def _ranks(values: NDArray[np.float64]) -> NDArray[np.int64]:
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[np.argsort(-values, kind="stable")] = np.arange(1, len(values) + 1)
    return ranks


def _values(column: Column) -> tuple[str, ...]:
    if column.kind == "windowed":
        return (f"{column.low:g} to {column.high:g}, alike within {column.window:g}",)
    if column.kind == "ranked":
        between = f"at most {column.rank_share:.2g}% of the past cases lie between"
        return (f"{column.low:g} to {column.high:g}, alike where {between}",)
    return tuple(column.decode(code) for code in range(int(column.n_values)))


# How good


def _performance(p: NDArray[np.float64], known: NDArray[np.int64], classes: tuple[str, ...], seed: int) -> Performance:
    scores = {name: score(p, known) for name, score in _SCORES.items()}
    rng = np.random.default_rng(seed)
    drawn = [rng.integers(0, len(known), len(known)) for _ in range(_N_BOOT)]
    again = {name: [score(p[rows], known[rows]) for rows in drawn] for name, score in _SCORES.items()}
    common = np.bincount(known, minlength=len(classes)) / len(known)
    always = np.broadcast_to(common, p.shape)
    shown = range(1, 2) if len(classes) == 2 else range(len(classes))
    return Performance(
        n=len(known),
        scores=scores,
        intervals={name: _interval(values) for name, values in again.items()},
        reference={
            "accuracy": float(common.max()),
            "log loss": _log_loss(always, known),
            "Brier score": _brier(always, known),
        },
        curves={classes[m]: calibration_curve(p[:, m], known == m, _N_BINS) for m in shown},
    )


def _accuracy(p: NDArray[np.float64], known: NDArray[np.int64]) -> float:
    return float((p.argmax(axis=1) == known).mean())


def _auc(p: NDArray[np.float64], known: NDArray[np.int64]) -> float | None:
    """Area under the ROC curve; of more than two classes the mean over one against the rest, where both occur."""
    there = [m for m in range(p.shape[1]) if 0 < (known == m).sum() < len(known)]
    if p.shape[1] == 2:
        there = there[-1:]
    return float(np.mean([roc_auc_score(known == m, p[:, m]) for m in there])) if there else None


def _log_loss(p: NDArray[np.float64], known: NDArray[np.int64]) -> float:
    return float(-np.log(np.maximum(p[np.arange(len(known)), known], 1e-15)).mean())


def _brier(p: NDArray[np.float64], known: NDArray[np.int64]) -> float:
    return float(((p - np.eye(p.shape[1])[known]) ** 2).sum(axis=1).mean())


_SCORES: dict[str, Callable[[NDArray[np.float64], NDArray[np.int64]], float | None]] = {
    "accuracy": _accuracy,
    "AUC": _auc,
    "log loss": _log_loss,
    "Brier score": _brier,
}


def _interval(values: list[float | None]) -> tuple[float, float] | None:
    there = [value for value in values if value is not None]
    if not there:
        return None
    low, high = np.quantile(there, [0.025, 0.975])
    return float(low), float(high)


def _subgroups(
    clf: Any, p: NDArray[np.float64], known: NDArray[np.int64], flagged: NDArray[np.bool_]
) -> tuple[Subgroup, ...]:
    """By every value, or bin, of every feature that has few of them, and by thirds of other numbers."""
    return tuple(
        Subgroup(
            feature=column.name,
            value=value,
            n=int(rows.sum()),
            accuracy=_accuracy(p[rows], known[rows]),
            auc=_auc(p[rows], known[rows]),
            stated=float(p[rows, -1].mean()),
            actual=float((known[rows] == p.shape[1] - 1).mean()),
            flagged=float(flagged[rows].mean()),
        )
        for j, column in enumerate(clf.schema_.columns)
        for value, rows in _groups(clf, column, j).items()
        if rows.sum() >= _MIN_GROUP
    )


def _groups(clf: Any, column: Column, j: int) -> dict[str, NDArray[np.bool_]]:
    """Which of the reviewed cases have each value of a feature."""
    codes = clf.x_[clf.review_.rows, j]
    if not column.has_window:
        n_values = int(column.n_values)
        return {column.decode(code): codes == code for code in range(n_values)} if n_values <= _MAX_VALUES else {}
    numbers = clf.values_[clf.review_.rows, j]
    known = np.isfinite(numbers) & (numbers > MISSING_NUMBER)
    if not known.any():
        return {}
    edges = tuple(np.unique(np.quantile(numbers[known], [1 / 3, 2 / 3])).tolist())
    third = np.searchsorted(edges, numbers, side="right")
    return {bin_text(edges, k): known & (third == k) for k in range(len(edges) + 1)} | {"missing": ~known}


# Past cases


def _influential(clf: Any, past: Past, percentiles: NDArray[np.float64]) -> tuple[PastCase, ...]:
    spoken = clf.posterior_.z_mean.sum(axis=0, dtype=np.float64)
    usual = dict(zip(clf.review_.rows.tolist(), percentiles.tolist(), strict=True))
    return tuple(
        PastCase(row, past.named(row), past.outcomes[row], float(spoken[b]), usual.get(row))
        for b in most_influential(clf.posterior_.z_mean, _TOP).tolist()
        for row in [int(clf.parents_[b])]
        if clf.may_be_shown(row)
    )


def _unusual(clf: Any, past: Past, percentiles: NDArray[np.float64]) -> tuple[PastCase, ...]:
    spoken = dict(zip(clf.parents_.tolist(), clf.posterior_.z_mean.sum(axis=0, dtype=float).tolist(), strict=True))
    order = np.argsort(percentiles, kind="stable")
    order = order[[clf.may_be_shown(row) for row in clf.review_.rows[order].tolist()]][:_TOP]
    rows = clf.review_.rows[order].tolist()
    return tuple(
        PastCase(row, past.named(row), past.outcomes[row], spoken.get(row), p)
        for row, p in zip(rows, percentiles[order].tolist(), strict=True)
    )


def _diagnostics(clf: Any) -> dict[str, Any]:
    table = clf.diagnostics_
    worst = table.worst(5)
    names = clf.schema_.names
    warning = table.warning()
    quantities = [_by_feature(name, names) for name in worst.names]
    return {
        "converged": table.converged,
        "warning": None if warning is None else _by_feature(warning, names),
        "slowest": [
            {"quantity": name, "rhat": _number(rhat), "ess": _number(ess)}
            for name, rhat, ess in zip(quantities, worst.rhat, worst.ess, strict=True)
        ],
    }


def _by_feature(text: str, names: tuple[str, ...]) -> str:
    """Quantities by the names of their features: q[0] is the importance of the first."""
    return re.sub(r"q\[(\d+)\]", lambda found: f"importance of {names[int(found[1])]}", text)


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
