import sys

import pytest

from study.figures.canvas import check_matplotlib, mean_and_error, sheet, to_png, unique


def test_a_figure_becomes_a_file_that_says_where_it_comes_from():
    figure, axes = sheet(1, 2, 4, 2)
    assert axes.shape == (1, 2)
    png = to_png(figure, "seed 7")
    assert png.startswith(b"\x89PNG")
    assert b"seed 7" in png


def test_means_leave_out_what_is_not_there():
    assert mean_and_error([0.5, None, 0.7]) == pytest.approx((0.6, 0.1))
    assert mean_and_error([0.5]) == (0.5, 0.0)
    assert unique(["b", "a", "b"]) == ["b", "a"]


def test_without_matplotlib_the_remedy_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "bayespatch\[plot\]"'):
        check_matplotlib()
