"""The overview against scikit-learn's own scores and the model's own attributes."""

import json
import warnings
from importlib.resources import files

import numpy as np
import pytest
from markupsafe import escape
from sklearn.metrics import log_loss, roc_auc_score

from bayespatch import PatchworkClassifier
from tests.explain.fitted import BAD, SHORT, fitted, table


@pytest.fixture(scope="module")
def overview():
    return fitted().overview()


def test_it_is_plain_data(overview):
    data = overview.to_dict()
    assert json.loads(json.dumps(data, allow_nan=False)) == data


def test_scores_are_those_of_leave_one_out(overview):
    clf = fitted()
    y = clf.y_[clf.loo_.rows]
    p = clf.calibration_.apply(clf.loo_.votes)
    scores = overview.performance.scores
    assert scores["AUC"] == pytest.approx(roc_auc_score(y, p[:, 1]))
    assert scores["log loss"] == pytest.approx(log_loss(y, p))
    assert scores["accuracy"] == pytest.approx((p.argmax(axis=1) == y).mean())
    for name, score in scores.items():
        low, high = overview.performance.intervals[name]
        assert low <= score <= high
    assert scores["log loss"] < overview.performance.reference["log loss"]


def test_features_are_told_and_ranked(overview):
    clf = fitted()
    X, _ = table()
    assert [feature.name for feature in overview.features] == ["age", "pain", BAD, "pulse"]
    np.testing.assert_allclose([feature.importance for feature in overview.features], clf.feature_importances_)
    np.testing.assert_allclose([feature.q for feature in overview.features], clf.posterior_.q.mean(axis=(0, 1)))
    assert overview.features[3].n_missing == int(X["pulse"].isna().sum())
    assert overview.features[1].values == ("none", "severe & lasting")
    for measure in ("this model", "mutual information", "random forest"):
        assert sorted(feature.ranks[measure] for feature in overview.features) == [1, 2, 3, 4]
    assert {overview.features[0].ranks["random forest"], overview.features[1].ranks["random forest"]} == {1, 2}
    frame = overview.to_frame()
    assert list(frame.index) == [feature.name for feature in overview.features]


def test_subgroups_add_up(overview):
    pain = [group for group in overview.subgroups if group.feature == "pain"]
    assert sum(group.n for group in pain) == 60
    for group in pain:
        assert sum(group.stated.values()) == pytest.approx(1)
        assert sum(group.actual.values()) == pytest.approx(1)
        assert group.accuracy_interval[0] <= group.accuracy <= group.accuracy_interval[1]
    accuracy = sum(group.n * group.accuracy for group in pain) / 60
    assert accuracy == pytest.approx(overview.performance.scores["accuracy"])


@pytest.mark.parametrize("windows", [{"age": 5.0, "pulse": 8.0}, "20%"])
def test_numbers_that_are_not_binned_make_subgroups_by_thirds(windows):
    X, y = table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        overview = PatchworkClassifier(**SHORT, windows=windows).fit(X, y).overview()
    ages = [group.n for group in overview.subgroups if group.feature == "age"]
    assert len(ages) == 3
    assert sum(ages) == 60
    pulses = [group.n for group in overview.subgroups if group.feature == "pulse" and group.value != "missing"]
    assert sum(pulses) == 60 - int(X["pulse"].isna().sum())
    said = overview.features[0].values[0]
    assert said.endswith("close if at most 20% of the past cases lie in between" if windows == "20%" else "within 5")


def test_past_cases_worth_a_look(overview):
    clf = fitted()
    spoken = [case.n_cases for case in overview.influential]
    assert spoken == sorted(spoken, reverse=True)
    assert overview.influential[0].index == clf.neighbor_totals().argmax()
    assert overview.unusual[0].index == clf.loo_.rows[clf.loo_.familiarity.argmin()]
    assert overview.n_without_precedent == sum(case.percentile <= 0.05 for case in overview.unusual)


def test_settings_and_mixing_are_told(overview):
    assert overview.parameters["draws"] == "30"
    assert "parents" not in overview.parameters
    assert overview.hyper["alpha"] == fitted().hyper_.alpha
    assert overview.diagnostics["converged"] is fitted().diagnostics_.converged
    assert overview.classes == {"well": int((fitted().y_ == 0).sum()), "sick <i>": int((fitted().y_ == 1).sum())}


def test_missing_values_that_are_ignored_are_counted_too(overview):
    ignoring = fitted(missing="ignore").overview()
    assert ignoring.features[3].n_missing == overview.features[3].n_missing > 0


def test_three_classes():
    X, y = table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = PatchworkClassifier(**SHORT).fit(X, np.where(X["pulse"] > 80, 2, y))
    overview = clf.overview()
    assert (
        list(overview.performance.curves)
        == ["0", "1", "2"]
        == list(overview.performance.roc)
        == list(overview.performance.precision_recall)
        == list(overview.performance.thresholds)
    )
    y = clf.y_[clf.loo_.rows]
    expected = roc_auc_score(y, clf.calibration_.apply(clf.loo_.votes), multi_class="ovr")
    assert overview.performance.scores["AUC"] == pytest.approx(expected)


def test_each_opinion_is_judged_alone_and_in_subgroups(overview):
    assert overview.opinions is None  # precedents alone
    assert all(group.log_loss == {} for group in overview.subgroups)
    X, y = table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = PatchworkClassifier(**{**SHORT, "second_opinion": "auto"}).fit(X, y)
    found = clf.overview()
    losses = found.opinions["log_loss"]
    additive, precedents, pool = clf.pool_.log_loss
    assert losses["additive"] == pytest.approx(additive)
    # The pool was learned with the votes of each fold calibrated on the others; here, one slope calibrates all votes.
    p = clf.calibration_.apply(clf.loo_.votes)
    assert losses["precedents"] == pytest.approx(log_loss(clf.y_, p))
    assert losses["precedents"] < precedents
    assert losses["pool"] == pytest.approx(pool, abs=precedents - losses["precedents"])
    for group in found.subgroups:
        assert set(group.log_loss) == set(losses)
    json.dumps(found.to_dict(), allow_nan=False)


def test_the_summary_shows_what_was_measured(overview):
    text = str(overview)
    assert text.startswith(f"PatchworkClassifier with {overview.about['cases']} past cases and 4 features")
    for name, score in overview.performance.scores.items():
        assert f"{name}: {score:.3f}" in text
    names = [feature.description or feature.name for feature in overview.features]
    assert BAD in names
    assert not [name for name in names if f"  {name}: " not in text]


def test_the_notebook_shows_the_summary_escaped(overview):
    page = overview._repr_html_()
    assert f"{overview.performance.scores['AUC']:.3f}" in page
    assert BAD not in page
    assert str(escape(BAD)) in page


@pytest.mark.parametrize("theme", ['[data-jp-theme-light="false"]', ".vscode-dark"])
def test_the_colors_follow_the_theme_of_the_notebook(overview, theme):
    colors = (files("bayespatch.explain") / "templates" / "colors.css").read_text(encoding="utf-8")
    dark = colors.partition("(prefers-color-scheme: dark)")[2].partition("--ink: ")[2].partition(";")[0]
    rule = overview._repr_html_().partition(f"{theme} .bp")[2].partition("}")[0]
    assert f"--ink: {dark};" in rule
