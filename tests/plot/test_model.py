from functools import cache

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")
from matplotlib import pyplot

from bayespatch import PatchworkSurvival, metrics, plot
from tests.explain.fitted import explained, fitted


@pytest.fixture(autouse=True)
def closed():
    yield
    pyplot.close("all")


@pytest.mark.parametrize(
    "picture", ["importance", "probabilities", "parents", "calibration", "roc", "precision_recall", "decision_curve"]
)
def test_pictures_return_their_figure(picture):
    clf = fitted(votes="sampled") if picture == "parents" else fitted()
    draw = getattr(plot, picture)
    _, ax = pyplot.subplots()
    assert draw(clf, ax) is ax.figure
    known = pyplot.get_fignums()
    own = draw(clf)
    assert own is not ax.figure
    assert pyplot.get_fignums() == known
    own.canvas.draw()


def test_the_most_important_feature_is_on_top():
    clf = fitted()
    names = [label.get_text() for label in plot.importance(clf).axes[0].get_yticklabels()]
    assert names[-1][:20] == clf.schema_.columns[clf.feature_importances_.argmax()].called[:20]
    assert len(names) == 4


def test_every_past_case_is_a_point():
    clf = fitted()
    ax = plot.probabilities(clf).axes[0]
    points = np.concatenate([line.get_xdata() for line in ax.lines if line.get_linestyle() == "None"])
    expected = clf.calibration_.apply(clf.loo_.votes)[:, 1]
    np.testing.assert_allclose(np.sort(points), np.sort(expected))


def test_closed_form_votes_know_no_importances_of_single_parents():
    with pytest.raises(ValueError, match="the same importance for every past case"):
        plot.parents(fitted())


def test_the_parents_are_those_with_most_cases():
    clf = fitted(votes="sampled")
    ax = plot.parents(clf, top=5).axes[0]
    expected = np.argsort(-clf.posterior_.z_mean.sum(axis=0), kind="stable")[:5]
    assert [label.get_text()[:8] for label in ax.get_xticklabels()] == [clf.ids_[row][:8] for row in expected]
    assert ax.images[0].get_array().shape == (4, 5)
    assert ax.images[0].get_clim() == (0, 1)


def test_traces_and_rhat():
    clf = fitted()
    trace, rhat = plot.diagnostics(clf).axes
    assert len(trace.lines) == clf.posterior_.n_chains
    np.testing.assert_array_equal(trace.lines[1].get_ydata(), clf.posterior_.log_joint[1])
    assert len(rhat.get_yticklabels()) == len(clf.diagnostics_.names)
    axes = pyplot.subplots(1, 2)[1]
    assert plot.diagnostics(clf, axes) is axes[0].figure


def test_curves_are_those_of_the_metrics():
    clf = fitted()
    p, hit = clf.calibration_.apply(clf.loo_.votes)[:, 1], clf.y_[clf.loo_.rows] == 1
    line = plot.roc(clf).axes[0].lines[1]
    np.testing.assert_allclose(np.column_stack([line.get_xdata(), line.get_ydata()]), metrics.roc_points(p, hit))
    line = plot.precision_recall(clf).axes[0].lines[1]
    recall, precision = line.get_xdata(), line.get_ydata()
    np.testing.assert_allclose(np.column_stack([recall, precision]), metrics.precision_recall_points(p, hit))
    assert np.trapezoid(precision, recall) == pytest.approx(metrics.average_precision(p, hit))
    nobody, everybody, ours = plot.decision_curve(clf).axes[0].lines
    rows = metrics.threshold_table(p, hit, tuple(ours.get_xdata()))
    np.testing.assert_allclose(ours.get_ydata(), [row.net_benefit for row in rows])
    np.testing.assert_allclose(everybody.get_ydata(), [row.net_benefit_all for row in rows])
    assert set(nobody.get_ydata()) == {0}


@pytest.mark.parametrize("name", ["probabilities", "calibration", "roc", "precision_recall", "decision_curve"])
def test_plots_of_classes_refuse_a_survival_model(name):
    with pytest.raises(ValueError, match="predicts a time to an event"):
        getattr(plot, name)(survival_model())


@cache
def survival_model():
    y = np.array([(k % 3 > 0, 1.0 + k) for k in range(30)], dtype=[("died", bool), ("days", float)])
    return PatchworkSurvival(draws=20, random_state=0, second_opinion=None).fit([[k % 4, k] for k in range(30)], y)


def test_the_survival_curve_is_that_of_the_explanation():
    why = survival_model().explain([1, 5], level=0.8)
    curve = why.prediction["curve"]
    _, ax = pyplot.subplots()
    assert plot.survival(why, ax) is ax.figure
    case, everyone = ax.lines
    np.testing.assert_array_equal(case.get_xdata(), curve["times"])
    np.testing.assert_array_equal(case.get_ydata(), curve["survival"])
    np.testing.assert_array_equal(everyone.get_ydata(), curve["population"])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["80% interval", "this case", "all past cases"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("days", "probability of no died")
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert (band.min(), band.max()) == (min(curve["low"]), max(curve["high"]))
    assert plot.survival(why.to_dict()).axes[0].lines[0].get_ydata()[-1] == curve["survival"][-1]


def test_pictures_of_a_case_name_each_other():
    with pytest.raises(ValueError, match=r"use plot\.survival"):
        plot.patchwork(survival_model().explain([1, 5]))
    with pytest.raises(ValueError, match=r"use plot\.patchwork"):
        plot.survival(explained().to_dict())
