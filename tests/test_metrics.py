"""Scores, curves and thresholds against scikit-learn's own functions and by hand."""

from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, log_loss, precision_score, recall_score, roc_auc_score

from bayespatch import metrics
from bayespatch.casebase import comparison
from bayespatch.compare import Table, _class_measures
from bayespatch.explain.summarize import _performance
from bayespatch.metrics import calibration_curve
from study.metrics import measures


def made(n=203, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(n_classes), n)
    y = np.array([rng.choice(n_classes, p=row) for row in p])
    return p, y


def test_bins_hold_all_cases_and_their_rates():
    rng = np.random.default_rng(0)
    p = rng.random(203)
    hit = rng.random(203) < p
    curve = calibration_curve(p, hit, 8)
    assert sum(part.n for part in curve) == 203
    assert np.isclose(sum(part.n * part.observed for part in curve), hit.sum())
    assert np.isclose(sum(part.n * part.predicted for part in curve), p.sum())
    assert all(0 <= part.low <= part.observed <= part.high <= 1 for part in curve)
    assert np.all(np.diff([part.predicted for part in curve]) > 0)
    assert len(calibration_curve(p[:3], hit[:3], 8)) == 3


@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_are_the_usual_ones(n_classes):
    p, y = made(n_classes=n_classes)
    assert metrics.log_loss(p, y) == pytest.approx(log_loss(y, p))
    assert metrics.accuracy(p, y) == pytest.approx((p.argmax(axis=1) == y).mean())
    if n_classes == 2:
        assert metrics.brier(p, y) == pytest.approx(brier_score_loss(y, p[:, 1]))
        assert metrics.auc(p, y) == pytest.approx(roc_auc_score(y, p[:, 1]))
    else:
        assert metrics.brier(p, y) == pytest.approx(((p - np.eye(3)[y]) ** 2).sum(axis=1).mean() / 2)
        assert metrics.brier(p, y) == pytest.approx(brier_score_loss(y, p, scale_by_half=True))
        assert metrics.auc(p, y) == pytest.approx(roc_auc_score(y, p, multi_class="ovr"))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_intervals_are_quantiles_of_the_scores_of_resamples(n_classes):
    p, y = made(60, n_classes)
    p[::4] = p[0]  # ties
    found = metrics.bootstrap(p, y, np.random.default_rng(0), 20)
    rng = np.random.default_rng(0)
    drawn = [rng.integers(0, len(y), len(y)) for _ in range(20)]
    assert list(found) == list(metrics.SCORES)
    for name, score in metrics.SCORES.items():
        expected = np.quantile([score(p[rows], y[rows]) for rows in drawn], [0.025, 0.975])
        np.testing.assert_allclose(found[name], expected, rtol=1e-12)
        assert found[name][0] <= score(p, y) <= found[name][1]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_place_that_scores_says_the_same(monkeypatch, n_classes):
    """`compare`, the report, the versions of a case base, the benchmarks, and the study, which has two classes."""
    p, y = made(n_classes=n_classes)
    codes, names = np.arange(n_classes), tuple("abc"[:n_classes])
    expected = {name: score(p, y) for name, score in metrics.SCORES.items()}
    table = Table(None, y, None, codes, {1: 0.3})
    compared = _class_measures(SimpleNamespace(classes_=codes), p, y, table)
    versions = comparison.scores(comparison.LeaveOneOutPredictions(tuple(range(len(y))), p, y, names))
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    benchmarks = import_module("scores")
    places = [
        (compared, ("accuracy", "AUC", "log loss", "Brier")),
        (_performance(p, y, names, None, 0).scores, ("accuracy", "AUC", "log loss", "Brier score")),
        (benchmarks.fold_scores(y, p), ("accuracy", "AUC", "log loss", "Brier")),
        ({**versions, "log loss": -versions["log_score"]}, ("accuracy", None, "log loss", "brier")),
    ]
    if n_classes == 2:
        places.append((measures(y, p[:, 1]), ("accuracy", "auc", "log_loss", None)))
    for found, names in places:
        for score, name in zip(("accuracy", "AUC", "log loss", "Brier score"), names, strict=True):
            assert name is None or found[name] == pytest.approx(expected[score], rel=1e-9), (score, found)
    assert benchmarks.calibration_errors(y, p)[0] == metrics.calibration_error(p, y)


def test_classes_that_do_not_occur():
    p, y = made(n_classes=3)
    y[:] = 0
    assert metrics.auc(p, y) is None
    assert metrics.log_loss(p, y) == pytest.approx(-np.log(p[:, 0]).mean())
    assert metrics.bootstrap(p, y, np.random.default_rng(0), 5)["AUC"] is None
    assert metrics.roc_points(p[:, 0], y == 0) == ()
    row = metrics.threshold_table(p[:, 1], y == 1, (0.5,))[0]
    assert row.sensitivity is None
    assert row.ppv == 0.0


def test_thresholds_count_as_scikit_learn_does():
    p, y = made()
    for row in metrics.threshold_table(p[:, 1], y == 1):
        called = (p[:, 1] >= row.at).astype(int)
        assert row.called == pytest.approx(called.mean())
        assert row.sensitivity == pytest.approx(recall_score(y, called))
        assert row.specificity == pytest.approx(recall_score(1 - y, 1 - called))
        assert row.ppv == pytest.approx(precision_score(y, called))
        assert row.npv == pytest.approx(precision_score(1 - y, 1 - called))
        false = (called * (1 - y)).mean()
        assert row.net_benefit == pytest.approx((called * y).mean() - row.at / (1 - row.at) * false)
    assert metrics.threshold_table(p[:, 1], y == 1, (1e-9,))[0].net_benefit == pytest.approx(y.mean(), abs=1e-6)


def test_the_roc_curve_encloses_its_area():
    p, y = made()
    x, hits = np.array(metrics.roc_points(p[:, 1], y == 1)).T
    assert np.trapezoid(hits, x) == pytest.approx(metrics.auc(p, y))


def test_calibration_error_of_true_probabilities_shrinks():
    """Of true probabilities it is about the mean standard error of a bin's rate, sqrt(p(1-p)/n) of bins of n/10."""
    errors = [metrics.calibration_error(*made(n)) for n in (200, 20_000)]
    assert errors[1] < 0.02 < errors[0] < 0.15


def test_average_precision_and_net_benefit_by_hand():
    p, hit = np.array([0.9, 0.8, 0.3, 0.1]), np.array([True, False, True, False])
    assert metrics.average_precision(p, hit) == pytest.approx((1.0 + 2.0 / 3.0) / 2.0)
    assert metrics.average_precision(p, ~hit & hit) is None
    assert metrics.net_benefit(p, hit, 0.25) == pytest.approx((2 - 1 / 3) / 4)
    assert metrics.net_benefit(p, hit, 0.95) == 0.0


def test_calibration_line_finds_what_was_planted():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, 20_000)
    odds = np.log(p / (1 - p))
    for shift, slope in ((0.0, 1.0), (0.5, 1.0), (0.0, 0.6)):
        hit = rng.random(len(p)) < 1 / (1 + np.exp(-(shift + slope * odds)))
        line = metrics.calibration_line(p, hit)
        assert abs(line.slope[1] - slope) < line.slope[2] - line.slope[0] < 0.1  # four standard errors
        if slope == 1.0:
            assert abs(line.intercept[1] - shift) < line.intercept[2] - line.intercept[0] < 0.1
    even = rng.random(20_000) < p
    reference = LogisticRegression(C=np.inf).fit(odds[:, None], even)
    assert metrics.calibration_line(p, even).slope[1] == pytest.approx(reference.coef_[0, 0], rel=1e-3)
    assert metrics.calibration_line(p, np.full(len(p), True)) is None
    assert metrics.calibration_line(np.array([0.2, 0.3, 0.7, 0.8]), np.array([False, False, True, True])) is None
    assert metrics.calibration_line(np.full(4, 0.5), np.array([False, False, True, True])) is None


def test_the_ranked_probability_score_of_two_classes_is_the_brier_score():
    rng = np.random.default_rng(0)
    p, y = rng.dirichlet([1, 1], 50), rng.integers(0, 2, 50)
    assert metrics.ranked_probability_score(p, y) == pytest.approx(metrics.brier(p, y))


def test_the_ranked_probability_score_goes_by_the_order():
    p, y = np.array([[0.1, 0.7, 0.2]]), np.array([2])
    # By hand: cumulative .1, .8 against 0, 0; in the order 1, 0, 2: .7, .8.
    assert metrics.ranked_probability_score(p, y) == pytest.approx((0.01 + 0.64) / 2)
    assert metrics.ranked_probability_score(p, y, [1, 0, 2]) == pytest.approx((0.49 + 0.64) / 2)
    with pytest.raises(ValueError, match="each of the classes 0 to 2 once"):
        metrics.ranked_probability_score(p, y, [0, 1])


def test_the_area_below_the_precision_recall_curve_is_the_average_precision():
    rng = np.random.default_rng(3)
    for n_levels in (3, 50, 10_000):  # with and without ties
        p = rng.integers(0, n_levels, 300) / n_levels
        hit = rng.random(300) < 0.3 * p + 0.05
        recall, precision = np.transpose(metrics.precision_recall_points(p, hit))
        assert np.all(np.diff(recall) >= 0)
        assert np.trapezoid(precision, recall) == pytest.approx(metrics.average_precision(p, hit), rel=1e-12)
    assert metrics.precision_recall_points(p, np.zeros(300, dtype=bool)) == ()
