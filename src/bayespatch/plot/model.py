"""Figures of a fitted model: importances, voters, performance, and diagnostics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from bayespatch import metrics
from bayespatch.feature_importance import LEVEL
from bayespatch.fitted import HasFitted
from bayespatch.fitted_times import FittedTimes
from bayespatch.plot.canvas import (
    BLUE,
    INK,
    MARKERS,
    ORANGE,
    QUIET,
    SERIES,
    SKY,
    VERMILLION,
    axes_of,
    finished,
    new_figure,
    plain_frame,
    wrapped,
)
from bayespatch.sampling.diagnostics import MAX_RHAT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_ROW = 0.27  # height of a feature's row in inches


def importance(model: HasFitted, ax: Axes | None = None) -> Figure:
    """Importance of each feature for predictions with its interval, the most important on top.

    Parameters
    ----------
    model : fitted estimator
    ax : Axes, optional

    Returns
    -------
    Figure
    """
    measured, columns = model.fitted_.importance, model.fitted_.schema.columns
    order = np.argsort(measured.gains, kind="stable")
    ax = axes_of(ax, 6.5, 1.1 + _ROW * len(order))
    rows = np.arange(1, len(order) + 1)
    low, high = 100.0 * measured.intervals[order].T
    ax.barh(rows, 100.0 * measured.values[order], height=0.6, color=SKY, edgecolor=INK, linewidth=0.8)
    ax.hlines(rows, low, high, color=INK, linewidth=1.2)
    ax.set_yticks(rows, [wrapped(columns[j].called, 34, 2) for j in order], fontsize=8)
    ax.set_xlim(left=0)
    ax.set_xlabel(f"importance: % of the log loss removed (line: {LEVEL:.0%} interval)")
    ax.xaxis.label.set_fontsize(8.5)
    ax.grid(axis="x", color="#dddddd", linewidth=0.6)
    ax.set_axisbelow(True)
    plain_frame(ax)
    return finished(ax)


def probabilities(model: HasFitted, ax: Axes | None = None, *, of: int = -1) -> Figure:
    """Probability of a class for the past cases, each predicted from all the others, by outcome.

    Parameters
    ----------
    model : fitted classifier
    ax : Axes, optional
    of : int
        Position of the class in `classes_`; the last one by default.

    Returns
    -------
    Figure
    """
    outcomes = model.fitted_.y[model.fitted_.loo.rows]
    p, _ = _predicted(model, of)
    names = model.fitted_.class_names
    ax = axes_of(ax, 6.0, 1.2 + 0.9 * len(names))
    rng = np.random.default_rng(0)  # jitter only
    for k in range(len(names)):
        mine = p[outcomes == k]
        if not mine.size:
            continue
        height = k + rng.uniform(-0.22, 0.22, mine.size)
        ax.plot(mine, height, MARKERS[k % 6], color=SERIES[k % 6], markersize=3.5, alpha=0.6, markeredgewidth=0)
        ax.plot([np.median(mine)] * 2, [k - 0.34, k + 0.34], color=INK, linewidth=2)
        ax.text(1.02, k, f"n = {mine.size}\nmedian {np.median(mine):.0%}", fontsize=7.5, color=QUIET, va="center")
    ax.set_yticks(np.arange(len(names)), [f"outcome:\n{wrapped(name, 30)}" for name in names], fontsize=8)
    ax.set(xlim=(0, 1), ylim=(-0.6, len(names) - 0.4))
    text = f"probability of {names[of]}\n(each past case predicted from all the others; line: median)"
    ax.set_xlabel(text, fontsize=8.5)
    plain_frame(ax)
    return finished(ax)


def parents(model: HasFitted, ax: Axes | None = None, *, top: int = 30) -> Figure:
    """Importance of each feature for the most influential past cases: posterior mean of q-tilde.

    Parameters
    ----------
    model : fitted estimator
    ax : Axes, optional
    top : int
        Number of past cases to show: those that are neighbors of the most cases.

    Returns
    -------
    Figure
    """
    if model.fitted_.posterior.log_weights is not None:
        raise ValueError("a feature has the same importance for every past case of this model; use plot.importance")
    chosen = np.argsort(-model.fitted_.neighbor_totals(1), kind="stable")[:top]
    mean = model.fitted_.posterior.q_tilde.mean(axis=(0, 1))[chosen]
    names = [wrapped(column.called, 34, 2) for column in model.fitted_.schema.columns]
    ax = axes_of(ax, 2.6 + 0.24 * len(chosen), 1.5 + _ROW * len(names))
    image = ax.imshow(mean.T, aspect="auto", cmap="cividis", interpolation="nearest", vmin=0.0, vmax=1.0)
    ids = model.fitted_.ids
    rows = model.fitted_.parents[chosen].tolist()
    texts = [wrapped(str(row) if ids is None else ids[row], 16, 1) for row in rows]
    ax.set_xticks(np.arange(len(texts)), texts, rotation=90, fontsize=7)
    ax.set_yticks(np.arange(len(names)), names, fontsize=8)
    ax.set_xlabel("past cases, most frequent neighbors first")
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.8)
    bar.set_label("importance of the feature for the past case", fontsize=8)
    return finished(ax)


def calibration(model: HasFitted, ax: Axes | None = None, *, of: int = -1, n_bins: int = 8) -> Figure:
    """Calibration curve: observed frequency of a class by predicted probability, among past cases.

    Parameters
    ----------
    model : fitted classifier
    ax : Axes, optional
    of : int
        Position of the class in `classes_`.
    n_bins : int
        Number of bins, with about the same number of cases each.

    Returns
    -------
    Figure
    """
    loo = model.fitted_.loo
    p, hit = _predicted(model, of)
    ax = axes_of(ax, 4.6, 4.6)
    ax.plot([0, 1], [0, 1], linestyle="--", color=QUIET, linewidth=1, label="perfect calibration")
    kinds = {"probability": p, "share of the votes": loo.votes[:, of]}
    for (label, p), color, marker in zip(kinds.items(), (BLUE, ORANGE), "os", strict=True):
        curve = metrics.calibration_curve(p, hit, n_bins)
        x, y = [part.predicted for part in curve], [part.observed for part in curve]
        errors = [[b.observed - b.low for b in curve], [b.high - b.observed for b in curve]]
        ax.errorbar(x, y, np.clip(errors, 0, None), fmt=marker, color=color, markersize=5, linewidth=1, label=label)
        ax.plot(x, y, color=color, linewidth=1, alpha=0.6)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    x_text = f"predicted probability of {model.fitted_.class_names[of]}"
    return _labelled(ax, x_text, "observed frequency (95% interval)", "upper left")


def roc(model: HasFitted, ax: Axes | None = None, *, of: int = -1) -> Figure:
    """ROC curve of a class: the share of its cases that are flagged, by the share of the other cases that are flagged.

    Parameters
    ----------
    model : fitted classifier
    ax : Axes, optional
    of : int
        Position of the class in `classes_`.

    Returns
    -------
    Figure
    """
    p, hit = _predicted(model, of)
    ax = axes_of(ax, 4.6, 4.6)
    ax.plot([0, 1], [0, 1], linestyle="--", color=QUIET, linewidth=1, label="chance")
    points = metrics.roc_points(p, hit)
    if points:
        x, y = zip(*points, strict=True)
        area = np.trapezoid(y, x)
        ax.plot(x, y, color=BLUE, linewidth=1.6, label=f"this model, area {area:.2f}", drawstyle="steps-post")
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    y_text = f"sensitivity: share of {model.fitted_.class_names[of]} flagged"
    return _labelled(ax, "1 - specificity: share of the others flagged", y_text, "lower right")


def precision_recall(model: HasFitted, ax: Axes | None = None, *, of: int = -1) -> Figure:
    """Precision-recall curve of a class: the share of flagged cases that have the class, by the share of its cases that
    are flagged.

    Parameters
    ----------
    model : fitted classifier
    ax : Axes, optional
    of : int
        Position of the class in `classes_`.

    Returns
    -------
    Figure
    """
    p, hit = _predicted(model, of)
    ax = axes_of(ax, 4.6, 4.6)
    ax.axhline(hit.mean(), linestyle="--", color=QUIET, linewidth=1, label="chance")
    points = metrics.precision_recall_points(p, hit)
    if points:
        x, y = zip(*points, strict=True)
        ax.plot(x, y, color=BLUE, linewidth=1.6, label=f"this model, area {metrics.average_precision(p, hit):.2f}")
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    x_text = f"recall: share of {model.fitted_.class_names[of]} flagged"
    return _labelled(ax, x_text, "precision: share of the flagged that have it", "lower left")


def decision_curve(model: HasFitted, ax: Axes | None = None, *, of: int = -1) -> Figure:
    """Net benefit of flagging a class above a probability, compared with flagging all cases and none (Vickers and Elkin
    2006).

    Parameters
    ----------
    model : fitted classifier
    ax : Axes, optional
    of : int
        Position of the class in `classes_`.

    Returns
    -------
    Figure
    """
    p, hit = _predicted(model, of)
    thresholds = tuple(np.linspace(0.01, 0.99, 99).tolist())
    rows = metrics.threshold_table(p, hit, thresholds)
    ax = axes_of(ax, 5.6, 3.6)
    ax.axhline(0, color=INK, linewidth=1, label="flag no one")
    ax.plot(thresholds, [row.net_benefit_all for row in rows], color=ORANGE, linestyle="--", label="flag everyone")
    ax.plot(thresholds, [row.net_benefit for row in rows], color=BLUE, linewidth=1.6, label="this model")
    most = float(hit.mean())
    ax.set(xlim=(0, 1), ylim=(-0.15 * most, 1.08 * most))
    x_text = f"probability of {model.fitted_.class_names[of]} above which it is flagged"
    return _labelled(ax, x_text, "net benefit per case", "best")


def _labelled(
    ax: Axes, x_text: str, y_text: str, legend: Literal["upper left", "lower left", "lower right", "best"]
) -> Figure:
    """Label the axes, place the legend, and return the figure."""
    ax.set_xlabel(x_text, fontsize=9)
    ax.set_ylabel(y_text, fontsize=9)
    ax.legend(frameon=False, fontsize=8, loc=legend)
    plain_frame(ax)
    return finished(ax)


def _predicted(model: HasFitted, of: int) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Probability of a class for past cases, each predicted from all the others, and whether they had it."""
    if isinstance(model.fitted_, FittedTimes):
        raise ValueError(
            "this plot needs a classifier, but the model predicts a time to an event; plot the step functions of "
            "predict_survival_function instead"
        )
    loo = model.fitted_.loo
    return model.fitted_.loo_probabilities[:, of], model.fitted_.y[loo.rows] == (of % len(model.fitted_.class_names))


def diagnostics(model: HasFitted, axes: Sequence[Axes] | None = None) -> Figure:
    """Have the chains mixed? The trace of log_joint, and R-hat of all monitored quantities.

    Parameters
    ----------
    model : fitted estimator
    axes : two Axes, optional

    Returns
    -------
    Figure
    """
    posterior, table = model.fitted_.posterior, model.fitted_.diagnostics
    if axes is None:
        height = max(3.0, 1.2 + 0.2 * len(table.names))
        axes = new_figure(9.5, height).subplots(1, 2, width_ratios=(3, 2))
    trace, rhat = axes
    for chain, draws in enumerate(posterior.log_joint):
        trace.plot(draws, color=SERIES[chain % 6], linewidth=0.8, label=f"chain {chain + 1}")
    trace.set(xlabel="draw", ylabel="log joint density")
    trace.legend(frameon=False, fontsize=7.5, ncols=4, loc="upper center", bbox_to_anchor=(0.5, 1.1))
    names = [name.removeprefix("importance of ").replace("_", " ") for name in table.names]
    values = np.where(np.isfinite(table.rhat), table.rhat, np.nan)
    place = np.arange(len(names))[::-1]
    good = values <= MAX_RHAT
    rhat.plot(values[good], place[good], "o", color=BLUE, markersize=4, label=f"at most {MAX_RHAT}")
    rhat.plot(values[~good], place[~good], "^", color=VERMILLION, markersize=5, label="above: not mixed")
    rhat.axvline(MAX_RHAT, color=QUIET, linestyle="--", linewidth=1)
    rhat.set_yticks(place, [wrapped(name, 32, 2) for name in names], fontsize=7.5)
    rhat.set_xlabel("R-hat (agreement of the chains)")
    rhat.legend(frameon=False, fontsize=7.5, loc="upper center", bbox_to_anchor=(0.5, 1.1), ncols=2)
    for ax in (trace, rhat):
        plain_frame(ax)
    return finished(trace, rhat)
