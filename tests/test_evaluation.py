"""Validation on new cases, where the truth is known because it was simulated."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from bayespatch import metrics
from bayespatch.encode import Schema
from bayespatch.evaluation import outcome_codes, validate
from bayespatch.report import validation_page


def people(n, seed=0, older=0.0, smokers=0.4, missing=0.0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": np.round(rng.normal(60 + older, 10, n)),
            "pressure": rng.normal(130, 15, n),
            "smokes": np.where(rng.random(n) < smokers, "Yes", "No"),
        }
    )
    X.loc[rng.random(n) < missing, "pressure"] = np.nan
    return X


def risk(X):
    return 1 / (1 + np.exp(-((X["age"].to_numpy() - 60) / 8 + 1.5 * (X["smokes"] == "Yes").to_numpy() - 0.6)))


class Model:
    """Knows the risk, or states `slope` times its log odds."""

    def __init__(self, past, slope=1.0, blind=False):
        self.slope, self.blind = slope, blind
        self.schema_ = Schema.learn(past)
        self.values_ = self.schema_.encode(past).values
        self.y_ = (np.random.default_rng(5).random(len(past)) < risk(past)).astype(int)
        self.cases_ = np.arange(len(past))
        self.classes_, self.class_names_, self.target_ = np.array([0, 1]), ("absent", "present"), "disease"

    def predict_all(self, X):
        shown = X.assign(smokes="No") if self.blind else X
        p = risk(shown)
        odds = self.slope * np.log(p / (1 - p))
        p = 1 / (1 + np.exp(-odds))
        return SimpleNamespace(probabilities=np.column_stack([1 - p, p]), percentiles=np.linspace(0, 1, len(X)))

    def overview(self):
        return SimpleNamespace(performance=SimpleNamespace(scores=dict.fromkeys(metrics.SCORES, 0.5)))


PAST = people(500)


def outcomes(X, seed=1):
    return (np.random.default_rng(seed).random(len(X)) < risk(X)).astype(int)


def test_a_model_that_knows_the_risk_is_valid():
    X = people(2000, seed=2)
    y = outcomes(X)
    found = validate(Model(PAST), X, y)
    p = risk(X)
    assert found.scores["AUC"] == pytest.approx(metrics.auc(np.column_stack([1 - p, p]), y))
    assert found.intervals["AUC"][0] < found.scores["AUC"] < found.intervals["AUC"][1]
    assert found.counts == {"absent": int((y == 0).sum()), "present": int(y.sum())}
    line = found.classes["present"].line
    assert abs(line.slope[1] - 1.0) < line.slope[2] - line.slope[0] < 0.3  # four standard errors
    assert abs(line.intercept[1]) < line.intercept[2] - line.intercept[0] < 0.3
    assert abs(found.classes["present"].balance.z) < 3
    assert not any(one.drifted for one in found.drift)
    assert not any(one.off for one in found.subgroups)
    groups = {(one.feature, one.value): one.n for one in found.subgroups}
    assert groups["smokes", "Yes"] == int((X["smokes"] == "Yes").sum())
    middle = PAST["age"].median()
    assert groups["age", f"{middle:g} or more"] == int((X["age"] >= middle).sum())
    assert found.without_precedent == pytest.approx(0.05, abs=0.001)


def test_wrong_probabilities_are_found():
    X = people(2000, seed=2)
    line = validate(Model(PAST, slope=2.0), X, outcomes(X)).classes["present"].line
    assert abs(line.slope[1] - 0.5) < line.slope[2] - line.slope[0] < 0.15
    assert line.slope[2] < 1.0
    found = validate(Model(PAST, blind=True), X, outcomes(X))
    assert [(one.feature, one.value) for one in found.subgroups if one.off and one.feature == "smokes"] == [
        ("smokes", "Yes")
    ]
    assert found.classes["present"].line.intercept[0] > 0.0


@pytest.mark.parametrize(
    ("change", "feature"), [({"older": 10}, "age"), ({"smokers": 0.7}, "smokes"), ({"missing": 0.3}, "pressure")]
)
def test_drift_is_found_where_it_is(change, feature):
    found = validate(Model(PAST), people(600, seed=3, **change), np.arange(600) % 2)
    assert [one.feature for one in found.drift if one.drifted] == [feature]
    one = next(one for one in found.drift if one.drifted)
    assert (one.past, one.new) != ("", "")
    assert one.missing_new == pytest.approx(change.get("missing", 0.0), abs=0.06)


def test_values_that_nobody_had_are_counted():
    X = people(200, seed=3)
    X.loc[:49, "smokes"] = "Sometimes"
    found = {one.feature: one for one in validate(Model(PAST), X, np.arange(200) % 2).drift}
    assert found["smokes"].unseen == 0.25
    assert found["smokes"].drifted


def test_performance_by_period():
    X = people(400, seed=4)
    y = outcomes(X)
    late = np.arange(400) >= 200
    y[late] = 1 - y[late]
    found = validate(Model(PAST), X, y, periods=np.where(late, "2025", "2024").tolist())
    assert [(one.value, one.n) for one in found.periods] == [("2024", 200), ("2025", 200)]
    assert found.periods[0].scores["AUC"] > 0.7 > 0.3 > found.periods[1].scores["AUC"]
    with pytest.raises(ValueError, match="periods has length 1"):
        validate(Model(PAST), X, y, periods=["2024"])


def test_outcomes_by_value_and_by_label():
    model = Model(PAST)
    assert outcome_codes(model, [0, 1.0, "1", "absent", "present"]).tolist() == [0, 1, 1, 0, 1]
    with pytest.raises(ValueError, match="row 1: outcome 'dead' is not a class of the model; its classes are absent"):
        outcome_codes(model, ["absent", "dead"])
    with pytest.raises(ValueError, match="predicts a number"):
        validate(SimpleNamespace(), PAST, [1.0])


def test_the_page_shows_it_all_and_escapes():
    X = people(300, seed=2, older=12)
    model = Model(PAST)
    model.target_ = "<script>"
    page = validation_page(validate(model, X, outcomes(X), periods=["2024"] * 300).to_dict())
    for text in ("Validation: &lt;script&gt;", "1 of 3 features have drifted: age", "Over time", "Subgroups", "Slope"):
        assert text in page
    assert "<script>:" not in page


# Past cases among the new ones


@pytest.mark.parametrize("n_seen", [0, 30, 200])
def test_past_cases_among_the_new_ones_are_counted(n_seen):
    past = people(500, missing=0.1)
    X = pd.concat([past.iloc[:n_seen], people(200 - n_seen, seed=9)], ignore_index=True)
    found = validate(Model(past), X, outcomes(X))
    assert found.n_copies == n_seen
    text = "have all values of a past case"
    assert (f"{n_seen} of the 200 new cases {text}" in validation_page(found)) == (n_seen > 0)
    assert (text in validation_page(found)) == (n_seen > 0)


def test_new_cases_of_few_combinations_equal_past_ones_by_chance():
    past, X = (people(n, seed).assign(age=60.0, pressure=lambda one: one["pressure"].round(-1)) for n, seed in
               ((500, 0), (200, 9)))  # fmt: skip
    assert validate(Model(past), X, outcomes(X)).n_copies == 0
