"""Sensitivity to the constants: ``subsec:sensS``, ``fig:sensalpha``, ``fig:sensitgamma``, the rest of the section."""

from __future__ import annotations

from typing import Any

from study.parts.context import Context
from study.protocol import evaluate
from study.tables import Table

MODELS = ("I", "II")
KEYS = ("value", "model")
# alpha cannot be exactly 0 or 1. This close, no likelihood ratio of 13 features can outweigh it.
ALPHAS = {"0": 1e-12, "0.1": 0.1, "0.4": 0.4, "0.7": 0.7, "1": 1 - 1e-12}
N_PARENTS = (20, 40, 60, 80, 100)
SHAPES = ((0.5, 0.5), (1.0, 1.0), (2.0, 2.0), (2.0, 5.0), (5.0, 2.0))
# Changes by a factor of 10 or more in both directions for base rates, and by a factor of 4 or 5 for weights.
REST = {
    "lam0": (0.0001, 0.01, 1.0),
    "lam": (0.5, 8.0),
    "mu0": (0.0001, 0.1),
    "mu": (0.25, 4.0),
    "sigma2": (1.0, 25.0),
}


def number_of_parents(context: Context) -> list[Table]:
    """Accuracy for S = 20, ..., 100."""
    return _scan(context, "parents", {str(n): dict(n_parents=n) for n in N_PARENTS})


def number_of_neighbors(context: Context) -> list[Table]:
    """Accuracy for alpha = 0, .1, .4, .7, 1."""
    return _scan(context, "alpha", {name: dict(constants=(("alpha", value),)) for name, value in ALPHAS.items()})


def shape_of_importance(context: Context) -> list[Table]:
    """Accuracy for five shapes of the prior of a feature's importance."""
    values = {f"({a:g}, {b:g})": dict(constants=(("gamma", a), ("sigma1", b))) for a, b in SHAPES}
    return _scan(context, "shape", values)


def other_constants(context: Context) -> list[Table]:
    """Accuracy if one of the other constants is changed."""
    values: dict[str, dict[str, Any]] = {"as in the paper": {}}
    for name, tried in REST.items():
        values |= {f"{name} = {value:g}": dict(constants=((name, value),)) for value in tried}
    return _scan(context, "rest", values)


def _scan(context: Context, name: str, values: dict[str, dict[str, Any]]) -> list[Table]:
    if not context.sizes.scan_all:
        labels = list(values)
        values = {label: values[label] for label in (labels[0], labels[len(labels) // 2], labels[-1])}
    scores = []
    for cohort in context.both:
        methods = {
            (label, model): context.scan(model, **change) for label, change in values.items() for model in MODELS
        }
        folds = cohort.folds(context.sizes.n_folds, context.seed)
        scores += evaluate(cohort, methods, folds, KEYS, context.tell)[0]
    return [Table.of_records(f"sensitivity-{name}", f"Sensitivity to {name}: every fold", scores)]
