"""The survival curve of a case with its interval, next to that of all past cases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayespatch.explain.survival import SurvivalExplanation
from bayespatch.plot.canvas import BLUE, QUIET, SKY, axes_of, finished, plain_frame
from bayespatch.types import JSONMapping

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def survival(explanation: SurvivalExplanation | JSONMapping, ax: Axes | None = None) -> Figure:
    """Draw the survival curve of a case, its pointwise interval, and the curve of all past cases.

    Parameters
    ----------
    explanation : SurvivalExplanation or dict
        The case, or the result of its `to_dict`.
    ax : Axes, optional

    Returns
    -------
    Figure

    Examples
    --------
    >>> import numpy as np
    >>> from bayespatch import PatchworkSurvival, plot
    >>> y = np.array([(k % 3 > 0, 2.0 + k) for k in range(30)], dtype=[("died", bool), ("days", float)])
    >>> model = PatchworkSurvival(draws=20, random_state=0, second_opinion=None)
    >>> figure = plot.survival(model.fit([[k % 4, k] for k in range(30)], y).explain([1, 5]))
    """
    why = explanation.to_dict() if isinstance(explanation, SurvivalExplanation) else explanation
    prediction = why["prediction"]
    if "curve" not in prediction:
        raise ValueError("this is not the explanation of a survival model; use plot.patchwork")
    curve, unit = prediction["curve"], prediction["unit"]
    ax = axes_of(ax, 6.0, 3.8)
    times = curve["times"]
    label = f"{prediction['level']:.0%} interval"
    ax.fill_between(times, curve["low"], curve["high"], step="post", color=SKY, alpha=0.35, linewidth=0, label=label)
    ax.step(times, curve["survival"], where="post", color=BLUE, linewidth=1.8, label="this case")
    ax.step(times, curve["population"], where="post", color=QUIET, linestyle="--", label="all past cases")
    ax.set(xlim=(0, times[-1]), ylim=(0, 1))
    ax.set_xlabel(f"{why['case']['target']} ({unit})" if unit else why["case"]["target"], fontsize=9)
    ax.set_ylabel(f"probability of no {prediction['event']}", fontsize=9)
    ax.legend(frameon=False, fontsize=8, loc="best")
    plain_frame(ax)
    return finished(ax)
