"""Figures of patients and features: probabilities, neighbors, importances."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from study.figures.canvas import COHORTS, NO, YES, Tables, mean_and_error, sheet, unique
from study.protocol import OURS, PAPER, SETTINGS
from study.tables import Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def probabilities(tables: Tables) -> Figure:
    """``fig:estpr``: estimated probability of the condition for test cases without and with the condition."""
    figure, axes = sheet(2, len(SETTINGS), 9.5, 5.6, sharey=True)
    for row, (cohort, title) in zip(axes, COHORTS.items(), strict=True):
        table = tables[f"{cohort}-probabilities"]
        for ax, setting in zip(row, SETTINGS, strict=True):
            shown = table.where(setting=setting)
            outcome = np.array(shown.column("outcome"))
            p = np.array(shown.column("probability"), dtype=float)
            place = np.empty(len(p))
            start = 0
            for value, color in ((0, NO), (1, YES)):
                members = np.flatnonzero(outcome == value)
                place[members] = start + np.arange(len(members))
                ax.scatter(place[members], p[members], s=9, color=color, alpha=0.75, linewidths=0)
                start += len(members)
            ax.axhline(0.5, color="black", linewidth=0.8, linestyle="--")
            ax.axvline((outcome == 0).sum() - 0.5, color="#cccccc", linewidth=0.8)
            ax.set_title(f"{title}: {setting}", fontsize=9)
            ax.set_ylim(-0.02, 1.02)
            ax.set_xticks([])
            ax.set_xlabel("without the condition | with it", fontsize=8)
        row[0].set_ylabel("estimated probability", fontsize=8)
    return figure


_SHADES = "red: agrees with the patient, the stronger the more probably it matters; bold: it probably matters"


def _draw_members(ax: Axes, table: Table, names: dict[Any, str]) -> None:
    """A patient and similar cases as a grid of codes and values; red if the feature agrees and matters."""
    features = unique(table.column("feature"))
    members = unique(zip(table.column("part"), table.column("rank"), strict=True))
    for r, (part, rank) in enumerate(members):
        records = table.where(part=part, rank=rank).records()
        for c, record in enumerate(records):
            matters = record["matters"] or 0.0
            own = record["rank"] == 0
            color = (
                "#eeeeee"
                if own
                else (0.85, 0.33, 0.24, 0.75 * matters)
                if record["agrees"]
                else (0, 0, 0, 0.12 * matters)
            )
            ax.fill_between([c - 0.48, c + 0.48], r - 0.46, r + 0.46, color=color, linewidth=0)
            weight = "bold" if own or matters > 0.5 else "normal"
            ax.text(c, r - 0.2, str(record["code"]), ha="center", va="center", fontsize=8, fontweight=weight)
            name = "\n".join(wrap(str(record["value"]), 12, max_lines=2, placeholder="…"))
            ax.text(c, r + 0.2, name, ha="center", va="center", fontsize=5.5, color="#333333", linespacing=0.9)
        record = records[0]
        health = "ill" if record["outcome"] == 1 else "well"
        likeness = "" if record["similarity"] is None else f", {record['similarity']:.2f}"
        ax.text(
            len(features) - 0.3, r, f"{health}{likeness}", va="center", fontsize=8, color=YES if health == "ill" else NO
        )
    ax.set_yticks(range(len(members)), [names.get(key, f"parent {key[1]}") for key in members], fontsize=8)
    ax.set_xticks(range(len(features)), features, rotation=40, ha="left", fontsize=7)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_xlim(-0.6, len(features) + 1.3)
    ax.set_ylim(len(members) - 0.4, -0.6)


def patients_of(cohort: str) -> Callable[[Tables], Figure]:
    """``fig:network1`` and following: four patients and their four most influential parents."""

    def draw(tables: Tables) -> Figure:
        table = tables["patients"].where(cohort=cohort)
        who = unique(table.column("patient"))
        figure, axes = sheet(4, 1, 11, 13)
        for k, (ax, patient) in enumerate(zip(axes.ravel(), who, strict=False)):
            shown = table.where(patient=patient)
            shown = Table("", "", (*shown.columns, "part"), [(*row, "") for row in shown.rows])
            _draw_members(ax, shown, {("", 0): "patient"})
            p = shown.column("probability")[0]
            ax.set_title(f"Sample patient {k + 1}: probability {p:.2f}", fontsize=9, loc="left")
        figure.supxlabel(_SHADES, fontsize=8)
        return figure

    return draw


def sample_patient(tables: Tables) -> Figure:
    """``fig:sample1``: one patient with prototypes of BCM and parents of Model II."""
    table = tables["sample-patient"]
    shown = Table("", "", (*table.columns, "part"), [(*row, row[table.columns.index("model")]) for row in table.rows])
    names = {
        key: "patient" if key[1] == 0 else f"{key[0]}: {'parent' if key[0] == 'Model II' else 'prototype'} {key[1]}"
        for key in zip(shown.column("part"), shown.column("rank"), strict=True)
    }
    figure, axes = sheet(1, 1, 11, 6.4)
    _draw_members(axes[0, 0], shown, names)
    figure.supxlabel(_SHADES, fontsize=8)
    return figure


def importance(tables: Tables) -> Figure:
    """``fig:posteriorbox1``: draws of each feature's importance, unsupervised Model II."""
    table = tables["importance"]
    figure, axes = sheet(2, 2, 10, 6.4, sharey=True)
    for row, setting in zip(axes, (PAPER, OURS), strict=True):
        for ax, (cohort, title) in zip(row, COHORTS.items(), strict=True):
            records = table.where(cohort=cohort, setting=setting).records()
            boxes = [
                dict(label=r["feature"], whislo=r["5 %"], q1=r["25 %"], med=r["50 %"], q3=r["75 %"], whishi=r["95 %"])
                for r in records
            ]
            drawn = ax.bxp(boxes, showfliers=False, patch_artist=True, widths=0.6)
            for box in drawn["boxes"]:
                box.set(facecolor="#c9d8e6", edgecolor="#33546d")
            for line in drawn["medians"]:
                line.set(color=YES, linewidth=1.5)
            ax.tick_params(axis="x", rotation=50, labelsize=7)
            for label in ax.get_xticklabels():
                label.set(ha="right", rotation_mode="anchor")
            worst = max((r["R-hat"] for r in records if r["R-hat"] is not None), default=float("nan"))
            ax.set_title(f"{title}: {setting} (largest R-hat {worst:.2f})", fontsize=9)
            ax.set_ylim(0, 1)
        row[0].set_ylabel("importance", fontsize=8)
    return figure


def ranked_features(tables: Tables) -> Figure:
    """``fig:posteriorbox2``: accuracy and AUC with the top three features, the next two groups of three, and all."""
    table = tables["ranked-features"]
    figure, axes = sheet(1, 2, 9, 3.2, sharey=True)
    for ax, (cohort, title) in zip(axes[0], COHORTS.items(), strict=True):
        shown = table.where(cohort=cohort)
        groups = unique(shown.column("features"))
        for measure, label, color, offset in (("accuracy", "accuracy", YES, -0.2), ("auc", "AUC", NO, 0.2)):
            values = [mean_and_error(shown.where(features=group).column(measure)) for group in groups]
            means, errors = zip(*values, strict=True)
            ax.bar(np.arange(len(groups)) + offset, means, 0.37, yerr=errors, color=color, label=label)
        ax.set_xticks(range(len(groups)), groups)
        ax.axhline(0.5, color="#bbbbbb", linewidth=0.8, zorder=0)
        ax.set_ylim(0.4, 1.0)
        ax.set_title(title, fontsize=9)
    axes[0, 0].legend(fontsize=8, frameon=False, loc="upper left")
    return figure
