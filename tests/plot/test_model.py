import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")
from matplotlib import pyplot

from bayespatch import plot
from tests.explain.fitted import fitted


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


@pytest.mark.parametrize("picture", ["importance", "probabilities", "parents", "calibration"])
def test_pictures_return_their_axes(picture):
    clf = fitted()
    draw = getattr(plot, picture)
    _, ax = pyplot.subplots()
    assert draw(clf, ax) is ax
    own = draw(clf)
    assert own.figure is not ax.figure
    own.figure.canvas.draw()


def test_the_most_important_feature_is_on_top():
    clf = fitted()
    names = [label.get_text() for label in plot.importance(clf).get_yticklabels()]
    assert names[-1][:20] == clf.schema_.names[clf.feature_importances_.argmax()][:20]
    assert len(names) == 4


def test_every_past_case_is_a_point():
    clf = fitted()
    ax = plot.probabilities(clf)
    points = np.concatenate([line.get_xdata() for line in ax.lines if line.get_linestyle() == "None"])
    expected = clf.calibration_.apply(clf.review_.votes)[:, 1]
    np.testing.assert_allclose(np.sort(points), np.sort(expected))


def test_the_parents_are_those_with_most_cases():
    clf = fitted()
    ax = plot.parents(clf, top=5)
    expected = np.argsort(-clf.posterior_.z_mean.sum(axis=0), kind="stable")[:5]
    assert [label.get_text()[:8] for label in ax.get_xticklabels()] == [clf.ids_[row][:8] for row in expected]
    assert ax.images[0].get_array().shape == (4, 5)


def test_traces_and_rhat():
    clf = fitted()
    trace, rhat = plot.diagnostics(clf)
    assert len(trace.lines) == clf.posterior_.n_chains
    np.testing.assert_array_equal(trace.lines[1].get_ydata(), clf.posterior_.log_joint[1])
    assert len(rhat.get_yticklabels()) == len(clf.diagnostics_.names)
    axes = pyplot.subplots(1, 2)[1]
    assert list(plot.diagnostics(clf, axes)) == list(axes)
