"""Figures of a case and of a model (matplotlib); every function returns a Figure.

The colors are those of Okabe and Ito, which color-blind readers can distinguish. Color is never the only cue.

Examples
--------
>>> from bayespatch import PatchworkClassifier, plot
>>> X = [["yes", 61], ["yes", 58], ["no", 40], ["no", 44]] * 5
>>> clf = PatchworkClassifier(draws=50, warmup=50, random_state=0).fit(X, ["sick", "sick", "well", "well"] * 5)
>>> figure = plot.patchwork(clf.explain(["yes", 60]))
"""

from bayespatch.plot.model import (
    calibration,
    decision_curve,
    diagnostics,
    importance,
    parents,
    precision_recall,
    probabilities,
    roc,
)
from bayespatch.plot.patchwork import patchwork
from bayespatch.plot.survival import survival

__all__ = [
    "calibration",
    "decision_curve",
    "diagnostics",
    "importance",
    "parents",
    "patchwork",
    "precision_recall",
    "probabilities",
    "roc",
    "survival",
]
