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


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def joined(figure):
    return " ".join(" ".join(texts(figure)).split())


def test_the_figures_are_those_of_the_explanation():
    why = explained().to_dict()
    figure = plot.patchwork(explained())
    said = texts(figure)
    for part in why["exemplars"]:
        assert any(text.startswith(f"#{part['id'][:10]}") for text in said)
        assert words.percent(part["vote_share"]) in said
        assert words.points(part["reliance"]) in said
    for feature in why["features"]:
        assert feature["value"] in joined(figure)
    assert words.headline(why) in figure.axes[0].get_title(loc="left")
    for sentence in (words.votes(why), words.vote_shares(why)):
        assert sentence in joined(figure)
    assert texts(plot.patchwork(why)) == said  # a stored explanation is drawn as well


def test_votes_have_one_scale():
    """Bars of the votes: the same share is the same length, in every picture."""
    lengths = {}
    for row in range(3):
        why = explained(row)
        bars = [p for p in plot.patchwork(why).axes[0].patches if isinstance(p, Rectangle) and p.get_height() == 0.22]
        colored = bars[1::2]
        assert len(colored) == len(why.exemplars)
        for part, bar in zip(why.exemplars, colored, strict=True):
            lengths[part.vote_share] = bar.get_width()
    shares = np.array(list(lengths))
    np.testing.assert_allclose(np.array(list(lengths.values())) / shares, lengths[shares[0]] / shares[0])


def test_agreeing_values_that_count_stand_out():
    why = explained()
    ax = plot.patchwork(why).axes[0]
    marked = [patch for part in why.exemplars for patch in part.features.values() if patch.marked]
    bold = [t for t in ax.texts if t.get_weight() == "bold" and t.get_color() == "white" and t.get_text() in ("=", "≈")]
    assert len(bold) == len(marked) > 0
    blue = [p for p in ax.patches if isinstance(p, Rectangle) and p.get_width() > 2
            and p.get_facecolor() == matplotlib.colors.to_rgba("#0072B2") and p.get_height() > 0.5]  # fmt: skip
    assert len(blue) == len(marked)


def test_warnings_are_written_over_it():
    why = without_precedent()
    said = joined(plot.patchwork(why))
    assert words.NO_PRECEDENT in said
    for guard in why.guards:
        assert guard.text in said
    assert words.NO_PRECEDENT not in joined(plot.patchwork(explained()))


@pytest.mark.parametrize("n_features", [13, 40])
def test_nothing_overlaps_with_many_features(n_features):
    rng = np.random.default_rng(0)
    names = [f"a rather long name of feature {j}" for j in range(n_features)]
    X = pd.DataFrame(rng.integers(0, 3, (40, n_features)), columns=names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = PatchworkClassifier(**{**SHORT, "draws": 10}).fit(X, rng.integers(0, 2, 40))
    figure = plot.patchwork(clf.explain(X.iloc[0]))
    figure.canvas.draw()
    left = [text for text in figure.axes[0].texts if text.get_text().startswith("a rather")]
    assert len(left) == n_features
    assert {" ".join(text.get_text().split()) for text in left} == set(names)  # whole words
    boxes = sorted((text.get_window_extent() for text in left), key=lambda box: -box.y0)
    assert all(upper.y0 >= lower.y1 - 0.5 for upper, lower in pairwise(boxes))
    page = figure.bbox
    assert all(page.x0 - 1 <= box.x0 and box.x1 <= page.x1 + 1 for box in boxes)


def test_a_case_on_which_nobody_votes():
    alone = {**explained().to_dict(), "exemplars": []}
    assert "No past case votes" in joined(plot.patchwork(alone))


def test_it_draws_into_given_axes():
    figure, ax = pyplot.subplots()
    assert plot.patchwork(explained(), ax) is figure
    assert ax.texts
    pyplot.close(figure)


def test_a_dollar_in_a_name_is_a_dollar():
    X = pd.DataFrame({"cost in $": ["a$b$", "$\\frac$"] * 8, "b": ["p", "q", "r", "s"] * 4})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = PatchworkClassifier(**SHORT).fit(X, ["$0", "$1"] * 8)
    plot.patchwork(clf.explain(["a$b$", "p"])).canvas.draw()
    plot.importance(clf).canvas.draw()
