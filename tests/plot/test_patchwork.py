import warnings
from itertools import combinations

import matplotlib
import numpy as np
import pandas as pd
import pytest

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from bayespatch import PatchworkClassifier, plot
from bayespatch.explain import words
from bayespatch.plot.canvas import BLUE, ORANGE, SKY
from tests.explain.answers import KINDS, answer
from tests.explain.fitted import SHORT, explained


def joined(figure):
    return solid(" ".join(text.get_text() for text in figure.axes[0].texts))


def solid(text):
    """Without spaces and ends of lines: long words are broken."""
    return "".join(text.split())


def bars(figure, color=None):
    found = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    return [bar for bar in found if color is None or to_hex(bar.get_facecolor()).upper() == color]


@pytest.mark.parametrize("kind", KINDS)
def test_the_figures_are_those_of_the_explanation(kind):
    why = answer(kind)
    text = joined(plot.patchwork(why))
    assert solid(words.headline(why)) in text
    assert solid(words.verdict(why)) in text
    for check in words.checks(why):
        assert check.passed or solid(check.text) in text
    for warning in words.warnings(why):
        assert solid(warning) in text
    for part in why["groups"]:
        assert solid(": ".join(words.group(why, part))) in text
        assert solid(words.percent(part["vote_share"])) in text
    for step in words.steps(why):
        assert solid(step.text) in text
        assert solid(words.step_points(why, step.points)) in text
    for part in why["neighbors"]:
        assert solid(f"#{part['id']}, {words.percent(part['vote_share'])}") in text
        for feature in words.compared(why):
            assert solid(part["features"][feature["name"]]["value"]) in text
    assert (solid("No past patient contributes") in text) is not bool(why["groups"])


def test_an_explanation_and_its_dictionary_are_drawn_alike():
    assert joined(plot.patchwork(explained())) == joined(plot.patchwork(explained().to_dict()))


def test_lengths_of_bars_are_proportional():
    why = answer("two")
    groups, steps = why["groups"], words.steps(why)
    found = bars(plot.patchwork(why))
    tracks, shares = found[: 2 * len(groups) : 2], found[1 : 2 * len(groups) : 2]
    points = np.array([bar.get_width() for bar in found[2 * len(groups) :]])
    votes = np.array([part["vote_share"] for part in groups])
    np.testing.assert_allclose([bar.get_width() / tracks[0].get_width() for bar in shares], votes)
    assert not any(bar.get_x() for bar in shares)
    expected = np.array([step.points for step in steps])
    np.testing.assert_allclose(points / points[0], expected / expected[0])


def test_agreeing_values_are_bold():
    why = answer("two")
    ax = plot.patchwork(why).axes[0]
    agreeing = sum(
        part["features"][feature["name"]]["agrees"] for part in why["neighbors"] for feature in words.compared(why)
    )
    cells = [text for text in ax.texts if text.get_size() == 8 and text.get_weight() == "bold"]
    assert len(cells) == agreeing + 2 + len(words.compared(why))  # and the row of this patient


def test_a_dark_style_makes_a_dark_figure():
    assert bars(plot.patchwork(answer("two")), BLUE)
    with pyplot.style.context("dark_background"):
        figure = plot.patchwork(answer("two"))
    assert bars(figure, SKY)
    assert not bars(figure, BLUE)
    colors = {to_hex(text.get_color()) for text in figure.axes[0].texts}
    assert colors <= {"#e6e9ec", "#a4adb5", SKY.lower(), ORANGE.lower()}


@pytest.mark.parametrize("n_features", [13, 40])
def test_nothing_overlaps_with_long_names(n_features):
    rng = np.random.default_rng(0)
    names = [f"a rather long name of feature {j}" for j in range(n_features)]
    X = pd.DataFrame(rng.integers(0, 3, (40, n_features)), columns=names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = PatchworkClassifier(**{**SHORT, "draws": 10}).fit(X, rng.integers(0, 2, 40))
    figure = plot.patchwork(clf.explain(X.iloc[0]))
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts if text.get_text()]
    page = figure.bbox
    assert all(page.x0 - 1 <= box.x0 and box.x1 <= page.x1 + 1 for box in boxes)
    for one, other in combinations(boxes, 2):
        beside = one.x1 <= other.x0 + 0.5 or other.x1 <= one.x0 + 0.5
        assert beside or one.y0 >= other.y1 - 0.5 or other.y0 >= one.y1 - 0.5


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
