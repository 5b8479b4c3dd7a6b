"""Code shared by all figures: sheet, colors, means with standard errors. Only this module imports matplotlib."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from study.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Tables = Mapping[str, Table]
COHORTS = {"heart": "Heart disease", "breast": "Breast cancer"}
COLORS = {
    "Model I": "#1b6ca8",
    "Model II": "#d1495b",
    "Model III": "#3a7d44",
    "BCM": "#7a5195",
    "KNN": "#5c5c5c",
    "KNN, votes by distance": "#a0a0a0",
    "KNN, features weighted": "#e09f3e",
    "decision tree": "#5c5c5c",
}
NO, YES = "#4f7cac", "#c8553d"  # without and with the condition
DPI = 130


def check_matplotlib() -> None:
    """Raise an error before long computations if matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError('the figures of the study need matplotlib: pip install "bayespatch[plot]"') from error


def to_png(figure: Figure, about: str) -> bytes:
    """The figure as a file, with a line that states its source."""
    figure.text(0.995, 0.004, about, ha="right", va="bottom", fontsize=5.5, color="#888888")
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI, metadata={"Description": about})
    return file.getvalue()


def sheet(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Figure, Any]:
    """A plain figure with axes and small print."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    # Room for the line that states the source
    layout = ConstrainedLayoutEngine(rect=(0.0, 0.1 / height, 1.0, 1.0 - 0.1 / height))
    figure = Figure(figsize=(width, height), layout=layout)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for ax in axes.ravel():
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=8)
    return figure, axes


def mean_and_error(values: Iterable[Any]) -> tuple[float, float]:
    """Mean over folds and its standard error."""
    known = np.array([value for value in values if value is not None], dtype=float)
    return float(known.mean()), float(known.std(ddof=1) / np.sqrt(len(known))) if len(known) > 1 else 0.0


def unique(values: Iterable[Any]) -> list[Any]:
    """Distinct values in order of appearance."""
    return list(dict.fromkeys(values))
