"""Figures of comparisons: constants, similar methods, time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from study.figures.canvas import COHORTS, COLORS, Tables, mean_and_error, sheet, unique

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def _bars(ax: Axes, groups: list[str], series: dict[str, list[tuple[float, float]]]) -> None:
    width = 0.8 / len(series)
    for k, (name, values) in enumerate(series.items()):
        place = np.arange(len(groups)) + (k - (len(series) - 1) / 2) * width
        means, errors = zip(*values, strict=True)
        ax.bar(
            place,
            means,
            width * 0.92,
            yerr=errors,
            label=name,
            color=COLORS.get(name, "#1b6ca8"),
            error_kw=dict(lw=0.8),
        )
    ax.set_xticks(range(len(groups)), groups)
    ax.set_ylim(0.4, 1.0)
    ax.axhline(0.5, color="#bbbbbb", linewidth=0.8, zorder=0)


def sensitivity_to(name: str, label: str) -> Callable[[Tables], Figure]:
    """Accuracy and AUC of Models I and II by one constant, with standard errors over folds."""

    def draw(tables: Tables) -> Figure:
        table = tables[f"sensitivity-{name}"]
        wide = name == "rest"
        figure, axes = sheet(2, 2, 10 if wide else 8, 6.2 if wide else 4.8, sharex="col", sharey="row")
        for column, (cohort, title) in enumerate(COHORTS.items()):
            shown = table.where(cohort=cohort)
            values = unique(shown.column("value"))
            for ax, measure in zip(axes[:, column], ("accuracy", "auc"), strict=True):
                for k, model in enumerate(unique(shown.column("model"))):
                    points = [mean_and_error(shown.where(value=v, model=model).column(measure)) for v in values]
                    means, errors = zip(*points, strict=True)
                    style = "o" if wide else "o-"
                    place = np.arange(len(values)) + 0.12 * (k - 0.5)
                    ax.errorbar(
                        place,
                        means,
                        errors,
                        fmt=style,
                        ms=4,
                        lw=1.2,
                        color=COLORS[f"Model {model}"],
                        label=f"Model {model}",
                    )
                ax.axhline(0.5, color="#bbbbbb", linewidth=0.8, zorder=0)
                ax.set_xticks(
                    range(len(values)),
                    [str(v) for v in values],
                    rotation=45 if wide else 0,
                    ha="right" if wide else "center",
                )
                axes[0, column].set_title(title, fontsize=9)
            axes[1, column].set_xlabel(label, fontsize=8)
        axes[0, 0].set_ylabel("accuracy", fontsize=8)
        axes[1, 0].set_ylabel("AUC", fontsize=8)
        figure.legend(
            *axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=2, fontsize=8, frameon=False
        )
        return figure

    return draw


def knn(tables: Tables) -> Figure:
    """``fig:comp3``: KNN, its extensions and our models, with the same number of neighbors."""
    table = tables["knn"]
    figure, axes = sheet(2, 2, 9, 5.4, sharex=True)
    for column, (cohort, title) in enumerate(COHORTS.items()):
        shown = table.where(cohort=cohort)
        ks = unique(shown.column("neighbors"))
        methods = unique(shown.column("method"))
        for ax, measure in zip(axes[:, column], ("accuracy", "auc"), strict=True):
            for n, method in enumerate(methods):
                points = [mean_and_error(shown.where(method=method, neighbors=k).column(measure)) for k in ks]
                means, errors = zip(*points, strict=True)
                place = np.array(ks) + (n - 2) * 0.5
                ax.errorbar(
                    place, means, errors, fmt="o-", ms=3.5, lw=1.1, elinewidth=0.7, color=COLORS[method], label=method
                )
            ax.set_ylabel(measure if measure == "accuracy" else "AUC", fontsize=8)
        axes[0, column].set_title(title, fontsize=9)
        axes[1, column].set_xticks(ks)
        axes[1, column].set_xlabel("neighbors (K, or S·alpha)", fontsize=8)
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=5, fontsize=8, frameon=False
    )
    return figure


def bcm(tables: Tables) -> Figure:
    """``fig:bcmcompare``: our models by number of parents, compared with BCM's variants."""
    figure, axes = sheet(1, 2, 10, 4.2, sharey=True)
    for ax, (cohort, title) in zip(axes[0], COHORTS.items(), strict=True):
        ours = tables["sensitivity-parents"].where(cohort=cohort)
        rows: list[tuple[str, str, list[Any]]] = [
            (f"Model {model}, S={s}", f"Model {model}", ours.where(model=model, value=s).column("accuracy"))
            for model in unique(ours.column("model"))
            for s in unique(ours.column("value"))
        ]
        theirs = tables[f"{cohort}-others-folds"]
        rows += [
            (method.replace(", logistic regression", ", LR"), "BCM", theirs.where(method=method).column("accuracy"))
            for method in unique(theirs.column("method"))
            if method.startswith("BCM") and method.endswith("regression")
        ]
        for place, (_, color, values) in enumerate(rows):
            mean, error = mean_and_error(values)
            ax.errorbar(mean, place, xerr=error, fmt="o", ms=4, lw=1, color=COLORS[color])
        ax.set_yticks(range(len(rows)), [name for name, _, _ in rows], fontsize=7)
        ax.set_title(title, fontsize=9)
        ax.set_xlabel("accuracy (standard error over folds)", fontsize=8)
        ax.grid(axis="x", color="#eeeeee")
    axes[0, 0].invert_yaxis()  # of both plots, because they share it
    return figure


def tree_ranking(tables: Tables) -> Figure:
    """``fig:comd31``: share of importance by feature in Model II and a decision tree."""
    table = tables["tree-ranking"]
    figure, axes = sheet(1, 2, 9.5, 4)
    for ax, (cohort, title) in zip(axes[0], COHORTS.items(), strict=True):
        shown = table.where(cohort=cohort)
        features = unique(shown.column("feature"))
        for k, source in enumerate(unique(shown.column("source"))):
            points = [mean_and_error(shown.where(source=source, feature=f).column("share")) for f in features]
            means, errors = zip(*points, strict=True)
            place = np.arange(len(features)) + (k - 0.5) * 0.38
            ax.barh(place, means, 0.36, xerr=errors, color=COLORS[source], label=source, error_kw=dict(lw=0.8))
        ax.set_yticks(range(len(features)), features)
        ax.invert_yaxis()
        ax.set_title(title, fontsize=9)
        ax.set_xlabel("share of importance", fontsize=8)
    axes[0, 0].legend(fontsize=8, frameon=False, loc="upper right")
    return figure


def tree_knn(tables: Tables) -> Figure:
    """``fig:comd32``: KNN with the weights and rankings of Model II and of a decision tree."""
    table = tables["tree-knn"]
    figure, axes = sheet(1, 2, 9.5, 3.2, sharey=True)
    for ax, (cohort, title) in zip(axes[0], COHORTS.items(), strict=True):
        shown = table.where(cohort=cohort)
        choices = unique(shown.column("choice"))
        series = {
            source: [mean_and_error(shown.where(source=source, choice=c).column("accuracy")) for c in choices]
            for source in unique(shown.column("source"))
        }
        _bars(ax, choices, series)
        ax.set_title(title, fontsize=9)
    axes[0, 0].set_ylabel("accuracy", fontsize=8)
    axes[0, 0].legend(fontsize=8, frameon=False, loc="upper left", ncols=2)
    return figure


def time_per_sweep(tables: Tables) -> Figure:
    """``fig:cpu1``: milliseconds per sweep by number of parents and features."""
    from matplotlib.ticker import LogLocator, NullLocator

    table = tables["time"]
    figure, axes = sheet(1, 2, 9, 3.4, sharey=True)
    labels = {"S": "parents or prototypes, S", "P": "features, P"}
    for ax, (varied, label) in zip(axes[0], labels.items(), strict=True):
        shown = table.where(varied=varied)
        for method in unique(shown.column("method")):
            part = shown.where(method=method)
            ax.plot(part.column("value"), part.column("ms per sweep"), "o-", ms=4, color=COLORS[method], label=method)
        ax.set_yscale("log")
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.yaxis.set_minor_locator(NullLocator())
        ax.set_xticks(unique(shown.column("value")))
        ax.set_xlabel(label, fontsize=8)
    axes[0, 0].set_ylabel("ms per sweep, one thread", fontsize=8)
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4, fontsize=8, frameon=False
    )
    return figure
