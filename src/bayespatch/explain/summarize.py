"""From a fitted model to its overview, with other methods' rankings of the features beside its own."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import mutual_info_classif
from sklearn.inspection import permutation_importance

from bayespatch import metrics
from bayespatch.encode import MISSING_NUMBER, Column
from bayespatch.explain.cases import TrainingCases
from bayespatch.explain.fitted_model import FittedModel
from bayespatch.explain.overview import FeatureSummary, Overview, PastCase, Performance
from bayespatch.explain.subgroups import Subgroups
from bayespatch.model import Hyperparameters
from bayespatch.version import __version__

_N_BINS = 8
_TOP = 10  # past cases named
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def summarize(model: FittedModel, past: TrainingCases, quantile: float, seed: int = 0) -> Overview:
    """The overview of a fitted model; `past` has its past cases in the user's words."""
    known = model.y_[past.rows]
    p = past.probabilities
    percentiles = past.percentile(model.loo_.familiarity)
    flagged = percentiles <= quantile
    opinions = model.loo_opinions()
    groups = Subgroups.learn(
        past.schema, past.x[past.rows], past.values[past.rows], p, known, past.classes, flagged, opinions
    )
    return Overview(
        about=_about(model, past),
        classes=dict(zip(past.classes, past.counts.tolist(), strict=True)),
        parameters=_changed_parameters(model),
        hyper=_constants(model.hyper_),
        how_found=_how_found(model),
        features=_features(model, seed),
        performance=_performance(p, known, past.classes, seed),
        subgroups=tuple(groups.found.values()),
        opinions=None if opinions is None or model.pool_ is None else _opinions(opinions, known, model.pool_.weight),
        focus=past.classes[-1],
        influential=_influential(model, past, percentiles),
        unusual=_unusual(model, past, percentiles),
        n_without_precedent=int(flagged.sum()),
        calibration={"slope": past.calibration.slope, "base": list(past.calibration.base)},
        diagnostics=_diagnostics(model),
    )


def _opinions(opinions: dict[str, NDArray[np.float64]], known: NDArray[np.int64], weight: float) -> dict[str, Any]:
    """What each opinion is worth alone, and the pool."""
    return {
        "weight": weight,
        "log_loss": {name: metrics.log_loss(p, known) for name, p in opinions.items()},
        "auc": {name: metrics.auc(p, known) for name, p in opinions.items()},
    }


def _about(model: FittedModel, past: TrainingCases) -> dict[str, Any]:
    posterior = model.posterior_
    return {
        "estimator": type(model).__name__,
        "package": __version__,
        "model": posterior.model.kind,
        "likelihood": posterior.model.likelihood,
        "target": past.target,
        "cases": len(model.cases_),
        "parents": len(model.parents_),
        "features": len(model.schema_.columns),
        "missing": model.schema_.missing,
        "tuned": model.tuning_ is not None,
        "second_opinion": getattr(model, "second_opinion", None) is not None,
        "is_number": past.read_number is not None,
        "chains": posterior.n_chains,
        "draws": posterior.n_draws,
        "warmup": posterior.settings.warmup,
        "seed": posterior.seed,
        "seconds": posterior.timing.seconds,
    }


def _changed_parameters(model: FittedModel) -> dict[str, str]:
    default = type(model)().get_params(deep=False)
    given = {name: repr(value) for name, value in model.get_params(deep=False).items()}
    return {name: text for name, text in given.items() if text != repr(default[name])}


def _constants(hyper: Hyperparameters) -> dict[str, Any]:
    return {part.name: np.asarray(getattr(hyper, part.name)).tolist() for part in fields(hyper)}


def _how_found(model: FittedModel) -> str:
    if model.tuning_ is not None:
        return (
            f"found from the training data alone, by the leave-one-out log score of past cases; "
            f"{len(model.tuning_.trials)} settings were tried, and numbers are compared by: {model.tuning_.coding}"
        )
    if isinstance(model.hyper, Hyperparameters):
        return "given by the user"
    return f"chosen by the package (hyper={model.hyper!r})"


# Features


def _features(model: FittedModel, seed: int) -> tuple[FeatureSummary, ...]:
    draws = model.posterior_.q.reshape(-1, len(model.schema_.columns))
    quantiles = np.quantile(draws, _QUANTILES, axis=0).T
    measures = {"this model": draws.mean(axis=0), **_other_measures(model, seed)}
    ranks = {name: rankdata(-values, method="ordinal") for name, values in measures.items()}
    x = model.x_[model.cases_]
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
        for j, column in enumerate(model.schema_.columns)
    )


def _other_measures(model: FittedModel, seed: int) -> dict[str, NDArray[np.float64]]:
    """What other methods hold important, on the same codes: one feature at a time, and a random forest."""
    x, y = model.x_[model.cases_], model.y_[model.cases_]
    x = np.where(np.isnan(x) | (x == MISSING_NUMBER), -1.0, x)
    if len(np.unique(y)) < 2:
        return {}
    discrete = np.array([not column.has_window for column in model.schema_.columns])
    alone = mutual_info_classif(x, y, discrete_features=discrete, random_state=seed)
    forest = RandomForestClassifier(100, min_samples_leaf=3, oob_score=False, random_state=seed).fit(x, y)
    shuffled = permutation_importance(forest, x, y, n_repeats=5, random_state=seed)
    return {"mutual information": alone, "random forest": shuffled.importances_mean}


def _values(column: Column) -> tuple[str, ...]:
    if column.kind == "windowed":
        return (f"{column.low:g} to {column.high:g}, alike within {column.window:g}",)
    if column.kind == "ranked":
        between = f"at most {column.rank_share:.2g}% of the past cases lie between"
        return (f"{column.low:g} to {column.high:g}, alike where {between}",)
    return tuple(column.decode(code) for code in range(int(column.n_values)))


# How good


def _performance(p: NDArray[np.float64], known: NDArray[np.int64], classes: tuple[str, ...], seed: int) -> Performance:
    common = np.bincount(known, minlength=len(classes)) / len(known)
    always = np.broadcast_to(common, p.shape)
    return Performance(
        n=len(known),
        scores={name: score(p, known) for name, score in metrics.SCORES.items()},
        intervals=metrics.bootstrap(p, known, np.random.default_rng(seed)),
        reference={
            "accuracy": float(common.max()),
            "log loss": metrics.log_loss(always, known),
            "Brier score": metrics.brier(always, known),
        },
        curves={name: metrics.calibration_curve(p[:, m], known == m, _N_BINS) for m, name in enumerate(classes)},
        thresholds={name: metrics.threshold_table(p[:, m], known == m) for m, name in enumerate(classes)},
        roc={name: metrics.roc_points(p[:, m], known == m) for m, name in enumerate(classes)},
    )


# Past cases


def _influential(model: FittedModel, past: TrainingCases, percentiles: NDArray[np.float64]) -> tuple[PastCase, ...]:
    neighbors = model.neighbor_totals()
    usual = dict(zip(model.loo_.rows.tolist(), percentiles.tolist(), strict=True))
    return tuple(
        PastCase(row, past.named(row), past.outcomes[row], float(neighbors[b]), usual.get(row))
        for b in np.argsort(-neighbors, kind="stable")[:_TOP].tolist()
        for row in [int(model.parents_[b])]
        if past.may_be_shown(row)
    )


def _unusual(model: FittedModel, past: TrainingCases, percentiles: NDArray[np.float64]) -> tuple[PastCase, ...]:
    neighbors = dict(zip(model.parents_.tolist(), model.neighbor_totals().tolist(), strict=True))
    order = np.argsort(percentiles, kind="stable")
    order = order[[past.may_be_shown(row) for row in model.loo_.rows[order].tolist()]][:_TOP]
    rows = model.loo_.rows[order].tolist()
    return tuple(
        PastCase(row, past.named(row), past.outcomes[row], neighbors.get(row), p)
        for row, p in zip(rows, percentiles[order].tolist(), strict=True)
    )


def _diagnostics(model: FittedModel) -> dict[str, Any]:
    table = model.diagnostics_
    worst = table.worst(5)
    return {
        "converged": table.converged,
        "verdict": table.verdict,
        "warning": table.warning(),
        "slowest": [
            {"quantity": name, "rhat": _number(rhat), "ess": _number(ess)}
            for name, rhat, ess in zip(worst.names, worst.rhat, worst.ess, strict=True)
        ],
    }


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
