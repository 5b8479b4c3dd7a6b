"""Scores of predictions.

Scores are means over the folds of a repeat. The calibration error pools the folds of a repeat: the cases are put into
10 bins of equal size by predicted probability, and the gap between mean probability and frequency of the class is
averaged over bins (and, beyond two classes, over classes). With few cases, even perfect probabilities leave gaps:
"debiased" is the root mean square gap minus its expectation under chance (Kumar, Liang and Ma, 2019). The log loss
counts a probability below 1e-7 as 1e-7. AUC beyond two classes is the mean over the classes, each against the rest; the
Brier score is half the squared distance of the probabilities from the outcome.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from sklearn.metrics import balanced_accuracy_score

from bayespatch import metrics

N_BINS = 10
LEAST = 1e-7  # of a probability, in the log loss: some models say 0
SCORES = (
    "accuracy",
    "balanced accuracy",
    "AUC",
    "log loss",
    "Brier",
    "calibration error",
    "debiased",
    "fit, s",
    "predict, s",
)
Result = dict[str, Any]  # of one fold: table, repeat, fold, model, y, p, seconds


def fold_scores(y: np.ndarray, p: np.ndarray) -> dict[str, float]:
    """The scores of one fold: those of `bayespatch.metrics`, and one more."""
    area = metrics.auc(p, y)
    return {
        "accuracy": metrics.accuracy(p, y),
        "balanced accuracy": float(balanced_accuracy_score(y, p.argmax(axis=1))),
        "AUC": np.nan if area is None else area,
        "log loss": metrics.log_loss(p, y, LEAST),
        "Brier": metrics.brier(p, y),
    }


def calibration_errors(y: np.ndarray, p: np.ndarray) -> tuple[float, float]:
    """The mean gap, and the root mean square gap less chance, over bins of equal size."""
    columns = [1] if p.shape[1] == 2 else range(p.shape[1])
    bins = [part for m in columns for part in metrics.calibration_curve(p[:, m], y == m, N_BINS)]
    chance = [part.observed * (1.0 - part.observed) / max(part.n - 1, 1) for part in bins]
    squares = [(part.predicted - part.observed) ** 2 - least for part, least in zip(bins, chance, strict=True)]
    return metrics.calibration_error(p, y, N_BINS), float(np.sqrt(max(np.mean(squares), 0.0)))


def by_repeat(results: Iterable[Result]) -> dict[tuple[str, str], dict[str, np.ndarray]]:
    """The scores of each table and model, one number per repeat."""
    grouped: dict[tuple[str, str], dict[int, list[Result]]] = {}
    for result in results:
        grouped.setdefault((result["table"], result["model"]), {}).setdefault(result["repeat"], []).append(result)
    found = {}
    for key, repeats in grouped.items():
        rows = []
        for _, folds in sorted(repeats.items()):
            arrays = [(np.asarray(fold["y"]), np.asarray(fold["p"])) for fold in folds]
            means = [list(fold_scores(y, p).values()) for y, p in arrays]
            pooled = calibration_errors(np.concatenate([y for y, _ in arrays]), np.concatenate([p for _, p in arrays]))
            seconds = np.mean([fold["seconds"] for fold in folds], axis=0)
            rows.append([*np.mean(means, axis=0), *pooled, *seconds])
        found[key] = dict(zip(SCORES, np.array(rows).T, strict=True))
    return found
