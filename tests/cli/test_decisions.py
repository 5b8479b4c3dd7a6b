"""Thresholds, costs and what undecided means, from the data dictionary to the command line."""

import csv
import io
import json

import numpy as np
import pandas as pd
import pytest

import bayespatch
from bayespatch import PatchworkClassifier
from bayespatch.decisions import DecisionThreshold, check_texts, read_decision, undecided
from bayespatch.dictionary import Dictionary, DictionaryError
from bayespatch.evaluation import validate
from tests.cli.program import call, complaint, document


@pytest.mark.parametrize(
    ("threshold", "cost", "expected"),
    [
        ("0.2", None, DecisionThreshold("sick", 0.2)),
        (0.2, None, DecisionThreshold("sick", 0.2)),
        ("well=0.9", None, DecisionThreshold("well", 0.9)),
        ("1=0.3", None, DecisionThreshold("sick", 0.3)),
        (None, "9:1", DecisionThreshold("sick", 0.1)),
        (None, "well=1:3", DecisionThreshold("well", 0.75)),
        (None, None, None),
    ],
)
def test_a_decision_in_words(threshold, cost, expected):
    assert read_decision(threshold, cost, ["well", "sick"], [0, 1]) == expected


@pytest.mark.parametrize(
    ("threshold", "cost", "wrong"),
    [
        ("1.2", None, "is not a probability"),
        ("ill=0.2", None, "'ill' is not a class"),
        (None, "10", "is not a pair of costs"),
        (None, "0:1", "is not a pair of costs"),
        ("0.2", "10:1", "pass one of them"),
    ],
)
def test_what_is_no_decision_is_refused(threshold, cost, wrong):
    with pytest.raises(ValueError, match=wrong):
        read_decision(threshold, cost, ["well", "sick"])
    with pytest.raises(ValueError, match="does not name one of the 3 classes"):
        read_decision("0.2", None, ["a", "b", "c"])
    assert check_texts("0.2", "") is None


def test_undecided_is_one_rule():
    names = ["well", "sick"]
    p = np.array([[0.9, 0.1], [0.7, 0.3], [0.45, 0.55]])
    ends = np.array([[[0.85, 0.97], [0.03, 0.15]], [[0.5, 0.9], [0.1, 0.5]], [[0.3, 0.6], [0.4, 0.7]]])
    assert undecided(p, ends, names).tolist() == [False, False, True]
    assert undecided(p, ends, names, DecisionThreshold("sick", 0.12)).tolist() == [True, True, False]
    # At one half both rules agree: of two classes, one interval mirrors the other.
    assert undecided(p, ends, names, DecisionThreshold("sick", 0.5)).tolist() == [False, True, True]


def table(n=150, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"age": rng.integers(30, 80, n).astype(float), "sex": rng.choice(["f", "m"], n)})
    sick = rng.random(n) < 1 / (1 + np.exp(-(X["age"] - 72) / 6))
    return X, pd.Series(np.where(sick, "sick", "well"), name="outcome")


def test_the_dictionary_gives_the_model_its_threshold(tmp_path):
    X, y = table()
    levels = {"sick": "sick", "well": "well"}
    known = Dictionary.from_dict({"outcome": {"levels": levels, "cost": "sick=9:1"}})
    (tmp_path / "d.csv").write_text(known.to_csv())
    assert Dictionary.read(tmp_path / "d.csv").entries["outcome"].cost == "sick=9:1"
    clf = PatchworkClassifier(draws=30, random_state=0, n_jobs=1).fit(*known.describe(X, y))
    assert clf.fitted_.decision == DecisionThreshold("sick", 0.1)
    clf.save(tmp_path / "m.bpatch")
    assert bayespatch.load(tmp_path / "m.bpatch").fitted_.decision == DecisionThreshold("sick", 0.1)
    shown = clf.overview().performance
    assert shown.decision == {"label": "sick", "at": 0.1}
    assert 0.1 in [row.at for row in shown.thresholds["sick"]]
    assert shown.average_precision["sick"] > (y == "sick").mean()
    with pytest.raises(DictionaryError, match="threshold '2' is not a probability"):
        Dictionary.from_dict({"outcome": {"threshold": "2"}})


def test_validation_at_a_threshold():
    clf = PatchworkClassifier(draws=30, random_state=0, n_jobs=1).fit(*table())
    X, y = table(80, seed=1)
    at = validate(clf, X, y.tolist(), decision=DecisionThreshold("sick", 0.1)).decision.at
    called, sick = clf.predict_proba(X)[:, 0] >= 0.1, (y == "sick").to_numpy()
    assert at.sensitivity == pytest.approx(called[sick].mean())
    assert at.specificity == pytest.approx((~called)[~sick].mean())
    assert at.ppv == pytest.approx(sick[called].mean())
    assert at.net_benefit == pytest.approx((sick[called].sum() - (~sick)[called].sum() / 9) / 80)


# On the command line


def test_predictions_at_a_threshold(clinic):
    words = ["predict", clinic / "model.bpatch", clinic / "new.csv", "--json"]
    plain = document(*words)["predictions"]
    assert "called" not in plain[0]
    found = document(*words, "--threshold", "malade=0.1")["predictions"]
    for one in found:
        assert one["called"] == ("malade" if one["probabilities"]["malade"] >= 0.1 else "")
        assert isinstance(one["undecided"], bool)
    assert document(*words, "--cost", "malade=9:1")["predictions"] == found
    assert "is not a class; the classes are" in complaint(*words, "--threshold", "sick=0.1")
    assert "pass one of them" in complaint(*words, "--threshold", "0.1", "--cost", "9:1")


def test_a_worklist_at_a_threshold(clinic):
    words = ["predict", clinic / "model.bpatch", clinic / "new.csv", "--worklist", "--threshold", "malade=0.1"]
    listed = document(*words, "--json")["worklist"]
    ratios = [line["risk"]["ratio"] for line in listed]
    assert ratios == sorted(ratios, reverse=True)
    for line in listed:
        assert line["risk"]["label"] == "malade"
        assert line["risk"]["called"] == (line["risk"]["probability"] >= 0.1)
        low, high = line["risk"]["interval"]
        assert line["undecided"] == (low < 0.1 <= high) == ("undecided" in line["reasons"])
    rows = list(csv.DictReader(io.StringIO(call(*words).stdout)))
    assert {row["called"] for row in rows} <= {"yes", "no"}


def test_a_report_and_a_comparison_at_a_cost(clinic, tmp_path):
    page = tmp_path / "model.html"
    assert call("report", clinic / "model.bpatch", "--cost", "malade=9:1", "--out", page).exit_code == 0
    assert "malade is flagged at 10% or more" in page.read_text()
    assert "Average precision" in page.read_text()


def test_a_validation_at_a_cost(clinic, tmp_path):
    words = ["validate", clinic / "model.bpatch", clinic / "new.csv", "--cost", "malade=9:1"]
    found = json.loads(call(*words, "--json").stdout)
    assert found["decision"]["at"]["at"] == pytest.approx(0.1)
    assert "malade flagged at 10% or more" in call(*words, "--out", tmp_path / "page.html").stdout
    assert "malade flagged at 10% or more" in (tmp_path / "page.html").read_text()
