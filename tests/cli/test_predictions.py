import csv
import io

import numpy as np
import pandas as pd
import pytest

from bayespatch import PatchworkClassifier, PatchworkRegressor
from bayespatch.cli.predictions import as_csv, predictions
from bayespatch.estimator.classifier import PredictedClasses
from bayespatch.estimator.regressor import PredictedNumbers


class Two(PatchworkClassifier):
    classes_ = np.array(["no", "yes"])
    class_names_ = ("no", "yes")

    def predict_all(self, X, level):
        p, votes = np.array([[0.25, 0.75], [0.9, 0.1]]), np.array([[0.5, 0.5], [1.0, 0.0]])
        intervals = None if level is None else np.full((2, 2, 2), level)
        return PredictedClasses(p, votes, np.array([0.01, 0.5]), intervals)


class Number(PatchworkRegressor):
    def predict_all(self, X, level):
        return PredictedNumbers(np.array([1.5, 2.0]), np.array([[1.0, 2.0], [1.5, 2.5]]))


X = pd.DataFrame({"age": [61, 40]})


def lines(found, **wishes):
    return list(csv.reader(io.StringIO(as_csv(found, **wishes))))


def test_classes():
    found = predictions(Two(), X)
    assert found[0] == {"row": 0, "class": "yes", "probabilities": {"no": 0.25, "yes": 0.75}}
    assert lines(found) == [
        ["row", "predicted", "probability_no", "probability_yes"],
        ["0", "yes", "0.25", "0.75"],
        ["1", "no", "0.9", "0.1"],
    ]


def test_classes_with_everything_by_identifier():
    named = X.set_axis(pd.Index(["a,b", "c"], name="who"))
    found = predictions(Two(), named, intervals=True, votes=True, level=0.5)
    assert found[1]["votes"] == {"no": 1.0, "yes": 0.0}
    table = lines(found, named="who")
    assert table[0][0] == "who"
    assert table[0][4:] == ["low_no", "high_no", "low_yes", "high_yes", "votes_no", "votes_yes"]
    assert table[1][0] == "a,b"
    assert table[1][4:] == ["0.5", "0.5", "0.5", "0.5", "0.5", "0.5"]


def test_numbers():
    found = predictions(Number(), X, intervals=True)
    assert found[1] == {"row": 1, "predicted": 2.0, "interval": [1.5, 2.5]}
    assert lines(found)[:2] == [["row", "predicted", "low", "high"], ["0", "1.5", "1", "2"]]
    for wish in ("votes", "abstain"):
        with pytest.raises(ValueError, match=f"--{wish} is for classes.*remove it"):
            predictions(Number(), X, **{wish: True})


def test_a_case_on_which_the_model_abstains_is_empty():
    found = predictions(Two(), X, intervals=True, votes=True, abstain=True)
    nothing = {"no": None, "yes": None}
    none_between = {"no": [None, None], "yes": [None, None]}
    assert found[0] == {
        "row": 0, "class": None, "probabilities": nothing, "intervals": none_between, "votes": nothing,
    }  # fmt: skip
    assert found[1] == predictions(Two(), X, intervals=True, votes=True)[1]
    table = lines(found)
    assert table[0][:2] == ["row", "predicted"]
    assert table[1] == ["0"] + [""] * (len(table[0]) - 1)
    assert table[2][1] == "no"
