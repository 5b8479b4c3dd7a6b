import warnings
from itertools import pairwise

import matplotlib
import numpy as np
import pandas as pd
import pytest

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.patches import Rectangle

from bayespatch import PatchworkClassifier, plot
from bayespatch.explain import words
from tests.explain.fitted import SHORT, explained, without_precedent


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_the_figures_are_those_of_the_explanation():
    why = explained()
    ax = plot.patchwork(why)
    said = texts(ax)
    for neighbor in why.shown:
        assert any(text.startswith(f"#{neighbor.id[:10]}") for text in said)
        assert f"{neighbor.influence:.2f}" in said
        assert words.percent(neighbor.probability) in said
    for feature in why.features:
        assert feature.value in said
    assert words.percent(why.probabilities[why.predicted]) in ax.get_title(loc="left")


def test_agreeing_values_that_matter_stand_out():
    why = explained()
    ax = plot.patchwork(why)
    bold = [t.get_text() for t in ax.texts if t.get_weight() == "bold" and t.get_text().startswith("●")]
    marked = [patch for neighbor in why.shown for patch in neighbor.features.values() if patch.marked]
    assert len(bold) == len(marked) > 0
    blue = [p for p in ax.patches if isinstance(p, Rectangle) and p.get_height() == 0.88
            and p.get_facecolor() == matplotlib.colors.to_rgba("#0072B2")]  # fmt: skip
    assert len(blue) == len(marked)


def test_no_precedent_is_written_over_it():
    assert any(words.NO_PRECEDENT in text for text in texts(plot.patchwork(without_precedent())))
    assert not any(words.NO_PRECEDENT in text for text in texts(plot.patchwork(explained())))


@pytest.mark.parametrize("n_features", [13, 40])
def test_nothing_overlaps_with_many_features(n_features):
    rng = np.random.default_rng(0)
    names = [f"a rather long name of feature {j}" for j in range(n_features)]
    X = pd.DataFrame(rng.integers(0, 3, (40, n_features)), columns=names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = PatchworkClassifier(**{**SHORT, "draws": 10}).fit(X, rng.integers(0, 2, 40))
    ax = plot.patchwork(clf.explain(X.iloc[0]))
    figure = ax.figure
    figure.canvas.draw()
    left = [text for text in ax.texts if text.get_text().startswith("a rather")]
    assert len(left) == n_features
    boxes = sorted((text.get_window_extent() for text in left), key=lambda box: -box.y0)
    assert all(upper.y0 >= lower.y1 - 0.5 for upper, lower in pairwise(boxes))
    page = figure.bbox
    assert all(page.x0 - 1 <= box.x0 and box.x1 <= page.x1 + 1 for box in boxes)


def test_a_case_on_which_nobody_speaks():
    X = pd.DataFrame({"a": ["x", "y"] * 8, "b": ["p", "q", "r", "s"] * 4})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = PatchworkClassifier(**SHORT).fit(X, [0, 1] * 8)
        why = clf.explain(["never", "seen"])
    ax = plot.patchwork(why if not why.shown else type(why)(**{**vars(why), "neighbors": (), "dissenting": ()}))
    assert any("No past case speaks" in text for text in texts(ax))


def test_it_draws_into_given_axes():
    _, ax = pyplot.subplots()
    assert plot.patchwork(explained(), ax) is ax
