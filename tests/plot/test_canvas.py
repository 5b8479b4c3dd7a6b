import builtins
import subprocess
import sys

import matplotlib
import pytest

matplotlib.use("Agg")
from matplotlib import pyplot

from bayespatch.plot import canvas


def test_axes_are_those_given_or_new_ones():
    _, given = pyplot.subplots()
    assert canvas.axes_of(given, 1, 1) is given
    new = canvas.axes_of(None, 3, 2)
    assert new.figure.get_size_inches().tolist() == [3, 2]
    pyplot.close("all")


def test_figures_are_not_kept_by_pyplot():
    before = pyplot.get_fignums()
    canvas.axes_of(None, 3, 2)
    assert pyplot.get_fignums() == before


def test_a_notebook_shows_a_figure_once_and_without_pyplot():
    program = """
import sys
from bayespatch.plot import canvas
figure = canvas.finished(canvas.axes_of(None, 3, 2))
assert figure._repr_png_().startswith(b"\\x89PNG")
assert "matplotlib.pyplot" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_formatter_of_a_notebook_finds_the_picture():
    formatters = pytest.importorskip("IPython.core.formatters")
    figure = canvas.finished(canvas.axes_of(None, 3, 2))
    data, _ = formatters.DisplayFormatter().format(figure)
    assert data["image/png"][:4] in (b"\x89PNG", "iVBO")


def test_texts_are_wrapped_at_words():
    assert canvas.wrapped("no heart disease", 9) == "no heart\ndisease"
    assert canvas.wrapped("a b c d e f", 3, 2) == "a b\nc…"
    assert canvas.wrapped("", 5) == ""


def test_a_dollar_is_a_dollar():
    ax = canvas.axes_of(None, 3, 2)
    ax.set_title("cost in $ and $\\frac$ more")
    ax.set_yticks([0, 1], ["$a", "b$"])
    canvas.finished(ax).canvas.draw()  # as a formula it would be refused


def test_without_matplotlib_the_install_command_is_named(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "bayespatch.plot.figure", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"bayespatch\[plot\]"):
        canvas.new_figure(1, 1)


def luminance(color):
    parts = [int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("color", [canvas.BLUE, canvas.INK, canvas.QUIET])
def test_texts_have_enough_contrast(color):
    """4.5 : 1 against white, as WCAG 2 AA wants; white on blue is the same pair."""
    assert 1.05 / (luminance(color) + 0.05) >= 4.5
