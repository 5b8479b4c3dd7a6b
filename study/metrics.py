"""Measures of predicted probabilities, compared with the outcomes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import precision_recall_fscore_support

from bayespatch import metrics

MEASURES = (
    "accuracy",
    "sensitivity",
    "specificity",
    "precision",
    "recall",
    "f_measure",
    "auc",
    "log_loss",
    "calibration_error",
)
FLOOR = 1e-6  # smallest probability in the log loss, so that a single error with certainty does not decide a comparison


def measures(y: ArrayLike, probability: ArrayLike) -> dict[str, float]:
    """All measures of the study; NaN if a measure is undefined (such as precision without positive predictions).

    Parameters
    ----------
    y : array of shape (n,)
        1 if the condition is present.
    probability : array of shape (n,)
        Predicted probability of the condition; as in the paper, a prediction is positive above 0.5.

    Returns
    -------
    dict
        Accuracy, sensitivity (recall), specificity, precision, F-measure, the area under the ROC curve, mean log loss,
        and the expected calibration error: the mean distance between the mean probability and the share of positives,
        over ten bins of equal width weighted by their number of cases.

    Examples
    --------
    >>> found = measures([0, 0, 1, 1], [0.1, 0.6, 0.7, 0.9])
    >>> found["accuracy"], found["sensitivity"], found["specificity"], found["auc"]
    (0.75, 1.0, 0.5, 1.0)
    """
    truth = np.asarray(y) == 1
    p = np.asarray(probability, dtype=np.float64)
    if p.shape != truth.shape or not ((p >= 0.0) & (p <= 1.0)).all():
        raise ValueError(
            f"probability has shape {p.shape} and values from {p.min()} to {p.max()}; "
            f"pass one probability for each of the {len(truth)} cases"
        )
    called = p > 0.5
    inside = np.clip(p, FLOOR, 1.0 - FLOOR)
    auc = metrics.auc(np.column_stack([1.0 - p, p]), truth.astype(np.int64))
    precision, recall, f_measure, _ = precision_recall_fscore_support(
        truth, called, labels=[False, True], zero_division=np.nan
    )
    return {
        "accuracy": float((called == truth).mean()),
        "sensitivity": float(recall[1]),
        "specificity": float(recall[0]),
        "precision": float(precision[1]),
        "recall": float(recall[1]),
        "f_measure": float(f_measure[1]),
        "auc": float("nan") if auc is None else auc,
        "log_loss": metrics.log_loss(np.column_stack([1.0 - inside, inside]), truth.astype(np.int64)),
        "calibration_error": expected_calibration_error(p, truth),
    }


def expected_calibration_error(p: NDArray[np.float64], hit: NDArray[np.bool_], n_bins: int = 10) -> float:
    """Mean gap over bins of equal width, weighted by the number of cases (Naeini, Cooper and Hauskrecht 2015)."""
    bins = np.minimum((p * n_bins).astype(np.int64), n_bins - 1)
    return float(np.abs(np.bincount(bins, weights=p - hit, minlength=n_bins)).sum() / len(p))
