"""Comparison of two versions of the model, before someone promotes the new one.

Both models predict each past case from the others (leave-one-out). Cases in only one of the models are omitted.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayespatch.fitted import Fitted
from bayespatch.metrics import accuracy, brier
from bayespatch.types import JSONObject

N_BINS = 5  # number of bins of the calibration table
_LEAST = 1e-12  # replaces a probability of 0 in logarithms


class LeaveOneOutPredictions(NamedTuple):
    """Leave-one-out predictions of a model for its past cases: R cases, M classes."""

    case_ids: tuple[int, ...]
    probabilities: NDArray[np.float64]  # (R, M)
    outcomes: NDArray[np.int64]  # (R,), indices into `classes`
    classes: tuple[str, ...]


def leave_one_out(fitted: Fitted) -> LeaveOneOutPredictions:
    """The leave-one-out results of a fitted classifier, by the ids of the cases."""
    rows = fitted.loo.rows
    return LeaveOneOutPredictions(
        tuple(int(fitted.named(row)) for row in rows.tolist()),
        fitted.loo_probabilities,
        fitted.y[rows],
        fitted.class_names,
    )


def metrics(new: LeaveOneOutPredictions, old: LeaveOneOutPredictions | None) -> JSONObject:
    """Scores of a new model, alone and compared with the active one; ready for JSON.

    Returns
    -------
    dict
        "new": scores on all its cases; "both": None without an active model; otherwise, for the cases in both
        models, their number, the scores of old and new model, the difference of the mean log scores with its
        standard error (above 0: the new model is better), and "changes": the cases whose predicted
        class differs, and their outcomes.
    """
    result: JSONObject = {"new": scores(new), "both": None}
    if old is None or old.classes != new.classes:
        return result
    place = {case: i for i, case in enumerate(old.case_ids)}
    both = [(place[case], i) for i, case in enumerate(new.case_ids) if case in place]
    if not both:
        return result
    old, new = _chosen(old, [i for i, _ in both]), _chosen(new, [i for _, i in both])
    gain = log_scores(new) - log_scores(old)
    before, after = old.probabilities.argmax(axis=1), new.probabilities.argmax(axis=1)
    changes = [
        {
            "case": new.case_ids[i],
            "old": old.classes[before[i]],
            "new": new.classes[after[i]],
            "outcome": new.classes[new.outcomes[i]],
        }
        for i in np.flatnonzero(before != after).tolist()
    ]
    result["both"] = {
        "n": len(both),
        "old": scores(old),
        "new": scores(new),
        "gain": float(gain.mean()),
        "gain_error": float(gain.std(ddof=1) / math.sqrt(len(gain))) if len(gain) > 1 else None,
        "changes": changes,
    }
    return result


def without_change(metrics: JSONObject | None, case_id: int) -> JSONObject | None:
    """A comparison of two models without a forgotten case."""
    if metrics is None or metrics.get("both") is None:
        return metrics
    changes = [one for one in metrics["both"]["changes"] if one["case"] != case_id]
    return {**metrics, "both": {**metrics["both"], "changes": changes}}


def _chosen(results: LeaveOneOutPredictions, rows: list[int]) -> LeaveOneOutPredictions:
    return LeaveOneOutPredictions(
        tuple(results.case_ids[i] for i in rows), results.probabilities[rows], results.outcomes[rows], results.classes
    )


def log_scores(results: LeaveOneOutPredictions) -> NDArray[np.float64]:
    """Log of the probability of the observed outcome, (R,)."""
    p = results.probabilities[np.arange(len(results.outcomes)), results.outcomes]
    return np.log(np.maximum(p, _LEAST))


def scores(results: LeaveOneOutPredictions) -> JSONObject:
    """Mean log score, Brier score, accuracy and a calibration table."""
    p, happened = results.probabilities, results.outcomes
    return {
        "n": len(happened),
        "log_score": float(log_scores(results).mean()),
        "brier": brier(p, happened),
        "accuracy": accuracy(p, happened),
        "calibration": calibration(p, np.eye(p.shape[1])[happened]),
    }


def calibration(p: NDArray[np.float64], happened: NDArray[np.float64]) -> list[JSONObject]:
    """Calibration table: probabilities of all classes in bins of equal width, predicted and observed."""
    predicted, observed = p.ravel(), happened.ravel()
    place = np.minimum((predicted * N_BINS).astype(int), N_BINS - 1)
    table = []
    for b in range(N_BINS):
        inside = place == b
        if inside.any():
            table.append(
                {
                    "from": b / N_BINS,
                    "to": (b + 1) / N_BINS,
                    "n": int(inside.sum()),
                    "predicted": float(predicted[inside].mean()),
                    "observed": float(observed[inside].mean()),
                }
            )
    return table
