"""Creates the overview of a fitted model, with feature rankings by other methods for comparison."""

from __future__ import annotations

from dataclasses import fields
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import mutual_info_classif
from sklearn.inspection import permutation_importance

from bayespatch import metrics
from bayespatch.decisions import DecisionThreshold
from bayespatch.encode import MISSING_NUMBER, Column
from bayespatch.explain.overview import FeatureSummary, Overview, PastCase, Performance
from bayespatch.fitted import Fitted, FittedNumbers
from bayespatch.model import Hyperparameters
from bayespatch.subgroups import Subgroups
from bayespatch.types import JSONObject
from bayespatch.version import __version__

_N_BINS = 8
_TOP = 10  # number of past cases listed
_Q_INTERVAL = (0.05, 0.95)


class EstimatorInfo(NamedTuple):
    """The name of an estimator in the overview."""

    name: str
    changed: dict[str, str]  # parameters that are not the default, as text
    hyper: str | Hyperparameters


def summarize(fitted: Fitted, info: EstimatorInfo, quantile: float, n_threads: int, seed: int = 0) -> Overview:
    """The overview of a fitted model."""
    rows, p = fitted.loo.rows, fitted.loo_probabilities
    y = fitted.y[rows]
    percentiles = fitted.percentile(fitted.loo.familiarity)
    flagged = percentiles <= quantile
    opinions = fitted.loo_opinions()
    groups = Subgroups.learn(
        fitted.schema, fitted.x[rows], fitted.values[rows], p, y, fitted.class_names, flagged, opinions
    )
    totals = fitted.neighbor_totals(n_threads)
    counts = np.bincount(fitted.y[fitted.cases], minlength=fitted.n_classes).tolist()
    return Overview(
        about=_about(fitted, info),
        classes=dict(zip(fitted.class_names, counts, strict=True)),
        parameters=info.changed,
        hyper=_constants(fitted.hyper),
        how_found=_how_found(fitted, info),
        features=_features(fitted, seed),
        explained=1.0 - fitted.importance.loss / fitted.importance.loss_without,
        n_importance=fitted.importance.n_cases,
        performance=_performance(p, y, fitted.class_names, getattr(fitted, "decision", None), seed),
        subgroups=tuple(groups.found.values()),
        opinions=None if opinions is None or fitted.pool is None else _opinions(opinions, y, fitted.pool.weight),
        focus=fitted.class_names[-1],
        influential=_influential(fitted, totals, percentiles),
        unusual=_unusual(fitted, totals, percentiles),
        n_without_precedent=int(flagged.sum()),
        calibration={"slope": fitted.calibration.slope, "base": list(fitted.calibration.base)},
        diagnostics=_diagnostics(fitted),
    )


def _opinions(opinions: dict[str, NDArray[np.float64]], outcomes: NDArray[np.int64], weight: float) -> JSONObject:
    """Scores of each opinion alone and of the pool."""
    return {
        "weight": weight,
        "log_loss": {name: metrics.log_loss(p, outcomes) for name, p in opinions.items()},
        "auc": {name: metrics.auc(p, outcomes) for name, p in opinions.items()},
    }


def _about(fitted: Fitted, info: EstimatorInfo) -> JSONObject:
    posterior = fitted.posterior
    return {
        "estimator": info.name,
        "package": __version__,
        "model": posterior.model.kind,
        "likelihood": posterior.model.likelihood,
        "target": fitted.target,
        "cases": fitted.n_past_cases,
        "parents": fitted.n_voting,
        "features": len(fitted.schema.columns),
        "missing": fitted.schema.missing,
        "tuned": fitted.tuning is not None,
        "second_opinion": fitted.opinion is not None,
        "is_number": isinstance(fitted, FittedNumbers),
        "chains": posterior.n_chains,
        "draws": posterior.n_draws,
        "warmup": posterior.settings.warmup,
        "seed": posterior.seed,
        "seconds": posterior.timing.seconds,
    }


def _constants(hyper: Hyperparameters) -> JSONObject:
    return {part.name: np.asarray(getattr(hyper, part.name)).tolist() for part in fields(hyper)}


def _how_found(fitted: Fitted, info: EstimatorInfo) -> str:
    if fitted.tuning is not None:
        return (
            f"chosen on the training data by the leave-one-out log score of past cases; {len(fitted.tuning.trials)} "
            f"settings were tried, and numbers are compared by: {fitted.tuning.coding}"
        )
    if isinstance(info.hyper, Hyperparameters):
        return "set by the user"
    return f"chosen by the package (hyper={info.hyper!r})"


# Features


def _features(fitted: Fitted, seed: int) -> tuple[FeatureSummary, ...]:
    draws = fitted.posterior.q.reshape(-1, len(fitted.schema.columns))
    q_intervals = np.quantile(draws, _Q_INTERVAL, axis=0).T
    importance = fitted.importance
    measures = {"this model": importance.gains, **_other_measures(fitted, seed)}
    ranks = {name: rankdata(-values, method="ordinal") for name, values in measures.items()}
    values = fitted.values[fitted.cases]
    return tuple(
        FeatureSummary(
            name=column.name,
            description=column.description,
            kind=column.kind,
            values=_values(column),
            n_missing=sum(column.own_value(value) == "missing" for value in values[:, j].tolist()),
            importance=float(importance.values[j]),
            importance_interval=tuple(importance.intervals[j].tolist()),
            harmful=bool(importance.harmful[j]),
            compared=column.is_compared,
            q=float(draws[:, j].mean()),
            q_interval=tuple(q_intervals[j].tolist()),
            ranks={name: int(rank[j]) for name, rank in ranks.items()},
        )
        for j, column in enumerate(fitted.schema.columns)
    )


def _other_measures(fitted: Fitted, seed: int) -> dict[str, NDArray[np.float64]]:
    """Feature importance by other methods on the same codes: mutual information, and a random forest."""
    x, y = fitted.x[fitted.cases], fitted.y[fitted.cases]
    x = np.where(np.isnan(x) | (x == MISSING_NUMBER), -1.0, x)
    if len(np.unique(y)) < 2:
        return {}
    discrete = np.array([not column.has_window for column in fitted.schema.columns])
    alone = mutual_info_classif(x, y, discrete_features=discrete, random_state=seed)
    forest = RandomForestClassifier(100, min_samples_leaf=3, oob_score=False, random_state=seed).fit(x, y)
    shuffled = permutation_importance(forest, x, y, n_repeats=5, random_state=seed)
    return {"mutual information": alone, "random forest": shuffled.importances_mean}


def _values(column: Column) -> tuple[str, ...]:
    if column.kind == "windowed":
        return (f"{column.low:g} to {column.high:g}, close if within {column.window:g}",)
    if column.kind == "ranked":
        between = f"at most {column.rank_share:.2g}% of the past cases lie in between"
        return (f"{column.low:g} to {column.high:g}, close if {between}",)
    return tuple(column.decode(code) for code in range(int(column.n_values)))


# Performance


def _performance(
    p: NDArray[np.float64],
    outcomes: NDArray[np.int64],
    classes: tuple[str, ...],
    decision: DecisionThreshold | None,
    seed: int,
) -> Performance:
    common = np.bincount(outcomes, minlength=len(classes)) / len(outcomes)
    always = np.broadcast_to(common, p.shape)
    return Performance(
        n=len(outcomes),
        scores={name: score(p, outcomes) for name, score in metrics.SCORES.items()},
        intervals=metrics.bootstrap(p, outcomes, np.random.default_rng(seed)),
        reference={
            "accuracy": float(common.max()),
            "log loss": metrics.log_loss(always, outcomes),
            "Brier score": metrics.brier(always, outcomes),
        },
        average_precision={name: metrics.average_precision(p[:, m], outcomes == m) for m, name in enumerate(classes)},
        decision=None if decision is None else {"label": decision.label, "at": decision.threshold},
        curves={name: metrics.calibration_curve(p[:, m], outcomes == m, _N_BINS) for m, name in enumerate(classes)},
        thresholds={
            name: metrics.threshold_table(p[:, m], outcomes == m, _thresholds(name, decision))
            for m, name in enumerate(classes)
        },
        roc={name: metrics.roc_points(p[:, m], outcomes == m) for m, name in enumerate(classes)},
        precision_recall={
            name: metrics.precision_recall_points(p[:, m], outcomes == m) for m, name in enumerate(classes)
        },
    )


def _thresholds(name: str, decision: DecisionThreshold | None) -> tuple[float, ...]:
    """The usual thresholds, and the decision threshold of the class."""
    own = {decision.threshold} if decision is not None and decision.label == name else set()
    return tuple(sorted({*metrics.THRESHOLDS, *own}))


# Past cases


def _influential(fitted: Fitted, totals: NDArray[np.float64], percentiles: NDArray[np.float64]) -> tuple[PastCase, ...]:
    usual = dict(zip(fitted.loo.rows.tolist(), percentiles.tolist(), strict=True))
    may_show = np.isin(fitted.parents, fitted.may_show)
    return tuple(
        PastCase(row, fitted.named(row), fitted.outcome_texts[row], float(totals[b]), usual.get(row))
        for b in [b for b in np.argsort(-totals, kind="stable").tolist() if may_show[b]][:_TOP]
        for row in [int(fitted.parents[b])]
    )


def _unusual(fitted: Fitted, totals: NDArray[np.float64], percentiles: NDArray[np.float64]) -> tuple[PastCase, ...]:
    neighbors = dict(zip(fitted.parents.tolist(), totals.tolist(), strict=True))
    order = np.argsort(percentiles, kind="stable")
    order = order[np.isin(fitted.loo.rows[order], fitted.may_show)][:_TOP]
    rows = fitted.loo.rows[order].tolist()
    return tuple(
        PastCase(row, fitted.named(row), fitted.outcome_texts[row], neighbors.get(row), p)
        for row, p in zip(rows, percentiles[order].tolist(), strict=True)
    )


def _diagnostics(fitted: Fitted) -> JSONObject:
    table = fitted.diagnostics
    worst = table.worst(5)
    return {
        "converged": table.converged,
        "verdict": table.verdict,
        "warning": table.warning(),
        "closed": fitted.votes_are_closed,
        "efficiency": table.efficiency,
        "slowest": [
            {"quantity": name, "rhat": _number(rhat), "ess": _number(ess)}
            for name, rhat, ess in zip(worst.names, worst.rhat, worst.ess, strict=True)
        ],
    }


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
