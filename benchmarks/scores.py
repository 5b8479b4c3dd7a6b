"""How good predictions are, and tables of it.

Scores are means over the folds of a repeat, and then over the repeats; their standard errors come from the spread over
the repeats, so they say what another split of the same table would change, not another table. The calibration error
pools the folds of a repeat: the cases are put into 10 bins of equal size by predicted probability, and the gap between
mean probability and frequency of the class is averaged over bins (and, beyond two classes, over classes). In so few
cases even perfect probabilities leave gaps: "debiased" is the root mean square gap less what chance adds to it (Kumar,
Liang and Ma, 2019). The log loss counts a probability below 1e-7 as 1e-7. AUC beyond two classes is the mean over the
classes, each against the rest; the Brier score is half the squared distance of the probabilities from the outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from baselines import OURS
from measure import Row
from scipy.stats import rankdata
from sklearn.metrics import balanced_accuracy_score

from bayespatch import metrics

N_BINS = 10
LEAST = 1e-7  # of a probability, in the log loss: some models say 0
# Name -> whether more is better.
SCORES = {
    "accuracy": True,
    "balanced accuracy": True,
    "AUC": True,
    "log loss": False,
    "Brier": False,
    "calibration error": False,
    "debiased": False,
    "fit, s": False,
    "predict, s": False,
}
RANKED = ("accuracy", "AUC", "log loss", "Brier")
Result = dict[str, Any]  # of one fold: table, repeat, fold, model, y, p, seconds


def fold_scores(y: np.ndarray, p: np.ndarray) -> dict[str, float]:
    """What one fold says: the scores of `bayespatch.metrics`, and one more."""
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
    """The scores of each table and model, one number a repeat."""
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


def mean_and_error(values: Sequence[float] | np.ndarray) -> str:
    """mean ± standard error."""
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return f"{values.mean():.3f}"
    return f"{values.mean():.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}"


def score_table(scores: Mapping[tuple[str, str], Mapping[str, np.ndarray]], name: str) -> list[Row]:
    """All scores on one table."""
    return [
        {"model": model, **{score: mean_and_error(values) for score, values in found.items()}}
        for (table, model), found in scores.items()
        if table == name
    ]


def mean_table(scores: Mapping[tuple[str, str], Mapping[str, np.ndarray]], tables: Sequence[str]) -> list[Row]:
    """Means over the tables, and mean ranks (1 is best), of the models that have met all of them."""
    names = {table: {model for t, model in scores if t == table} for table in tables}
    models = [model for table, model in scores if table == tables[0] and all(model in names[t] for t in tables)]
    rows: list[Row] = []
    values = {s: np.array([[scores[t, m][s].mean() for m in models] for t in tables]) for s in SCORES}
    ranks = {s: np.array([rankdata(-row if SCORES[s] else row) for row in values[s]]).mean(axis=0) for s in RANKED}
    for k, model in enumerate(models):
        means: Row = {s: f"{values[s][:, k].mean():.3f}" for s in SCORES}
        rows.append({"model": model, **means, **{f"rank, {s}": f"{ranks[s][k]:.1f}" for s in RANKED}})
    return rows


def difference_table(
    scores: Mapping[tuple[str, str], Mapping[str, np.ndarray]], tables: Sequence[str], score: str
) -> list[Row]:
    """Others less ours, repeat by repeat, on each table and in the mean."""
    rows: list[Row] = []
    for model in dict.fromkeys(model for _, model in scores if model != OURS):
        pairs = {t: scores[t, model][score] - scores[t, OURS][score] for t in tables
                 if {(t, model), (t, OURS)} <= set(scores)
                 and len(scores[t, model][score]) == len(scores[t, OURS][score])}  # fmt: skip
        if pairs:
            cells: Row = {t: mean_and_error(pairs[t]) if t in pairs else "" for t in tables}
            mean = mean_and_error(np.mean(list(pairs.values()), axis=0)) if len(pairs) == len(tables) else ""
            rows.append({"model": model, **cells, "mean": mean})
    return rows
