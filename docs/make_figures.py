"""Draws the pictures in docs/figures: the paper's example patients and the views of a whole model, on the bundled data.

``python docs/make_figures.py`` takes a minute or two. The ``network`` pictures follow the paper's figures of the same
names: two patients with the condition and two without, of each data set, with their four most influential past cases
(and, where these all agree with the prediction, the strongest that do not).
"""

from __future__ import annotations

import warnings
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot

from bayespatch import PatchworkClassifier, datasets, plot
from bayespatch.diagnostics import MixingWarning

HOME = Path(__file__).parent / "figures"
N_HELD_OUT = 40  # patients from whom the examples are taken; the model has not seen them


def main() -> None:
    """All pictures."""
    warnings.simplefilter("ignore", MixingWarning)
    HOME.mkdir(exist_ok=True)
    for data, names in (("breast", ("network1", "network11")), ("heart", ("network111", "network1111"))):
        X, y = getattr(datasets, f"load_{data}")()
        order = np.random.default_rng(0).permutation(len(X))
        past, new = order[N_HELD_OUT:], order[:N_HELD_OUT]
        clf = PatchworkClassifier(random_state=0).fit(X.iloc[past], y.iloc[past])
        for label, name in zip(clf.classes_[::-1], names, strict=True):  # those with the condition first
            two = [row for row in new if y.iloc[row] == label][:2]
            for number, why in enumerate(clf.explain_all(X.iloc[two]), 1):
                ax = plot.patchwork(why)
                truth = clf.class_names_[clf.classes_.tolist().index(label)]
                title = f"{ax.get_title(loc='left')}   (in truth: {truth})"
                ax.set_title(title, loc="left", fontsize=10, weight="bold")
                save(ax, f"{name}_patient{number}")
        for picture in (plot.importance, plot.probabilities, plot.parents, plot.calibration):
            save(picture(clf), f"{data}_{picture.__name__}")
        save(plot.diagnostics(clf)[0], f"{data}_diagnostics")


def save(ax, name: str) -> None:
    """As PNG, the same bytes for the same picture."""
    ax.figure.savefig(HOME / f"{name}.png", dpi=110, metadata={"Software": None})
    pyplot.close(ax.figure)
    print(HOME / f"{name}.png")


if __name__ == "__main__":
    main()
