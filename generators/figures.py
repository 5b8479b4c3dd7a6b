"""Draw the figures in docs/figures: the paper's example patients and plots of the whole model, for the bundled data.

``make pages GENERATORS=figures`` takes a minute or two. The ``network`` figures correspond to the paper's figures of
the same names: two patients with the condition and two without it from each data set.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from bayespatch import PatchworkClassifier, datasets, plot
from bayespatch.sampling.diagnostics import MixingWarning

HOME = Path(__file__).parents[1] / "docs" / "figures"
N_HELD_OUT = 40  # held-out patients, from which the examples are taken


def main() -> None:
    """Draw all figures."""
    warnings.simplefilter("ignore", MixingWarning)
    HOME.mkdir(exist_ok=True)
    for data, names in (("breast", ("network1", "network11")), ("heart", ("network111", "network1111"))):
        X, y = getattr(datasets, f"load_{data}")()
        order = np.random.default_rng(0).permutation(len(X))
        past, new = order[N_HELD_OUT:], order[:N_HELD_OUT]
        clf = PatchworkClassifier(random_state=0).fit(X.iloc[past], y.iloc[past])
        for label, name in zip(clf.classes_[::-1], names, strict=True):  # patients with the condition first
            two = [row for row in new if y.iloc[row] == label][:2]
            for number, why in enumerate(clf.explain_all(X.iloc[two]), 1):
                figure = plot.patchwork(why)
                truth = clf.class_names_[clf.classes_.tolist().index(label)]
                figure.axes[0].set_title(f"What happened to this patient: {truth}", loc="left", fontsize=9)
                save(figure, f"{name}_patient{number}")
        views = (
            plot.importance,
            plot.probabilities,
            plot.calibration,
            plot.roc,
            plot.precision_recall,
            plot.decision_curve,
        )
        for picture in views:
            save(picture(clf), f"{data}_{picture.__name__}")
        save(plot.diagnostics(clf), f"{data}_diagnostics")


def save(figure, name: str) -> None:
    """Save as PNG, with the same bytes for the same figure."""
    figure.savefig(HOME / f"{name}.png", dpi=110, metadata={"Software": None})
    print(HOME / f"{name}.png")


if __name__ == "__main__":
    main()
