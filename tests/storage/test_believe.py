"""What a model file says of its review and its calibration is looked at; the rest is tested with `storage.model`."""

import numpy as np
import pytest

from bayespatch import Hyperparameters
from bayespatch.storage import believe


@pytest.mark.parametrize(
    "stored",
    [
        None,
        {"slope": 1.0},
        {"slope": 1, "intercepts": [0.0, 0.0]},
        {"slope": 1.0, "intercepts": [0.0]},
        {"slope": float("nan"), "intercepts": [0.0, 0.0]},
        {"slope": 1.0, "intercepts": [0.0, "x"]},
    ],
)
def test_a_calibration_that_is_none_is_refused(stored):
    with pytest.raises((ValueError, TypeError)):
        believe._calibration(stored, 2)


def test_a_calibration_is_read():
    assert believe._calibration({"slope": 2.0, "intercepts": [0.5, -0.5]}, 2).intercepts == (0.5, -0.5)


def regressor(**changes):
    dressing = {"center": 0.0, "slope": 1.0, "spread": 1.0, "bandwidth": 0.5}
    return {"estimator": "PatchworkRegressor", "classes": None, "edges": [1.0, 2.0], "dressing": dressing} | changes


@pytest.mark.parametrize(
    "changes",
    [
        {"classes": {"dtype": "<i8", "shape": [2], "values": [0, 1]}},
        {"edges": None},
        {"edges": [1.0, 1.0]},
        {"edges": [1, 2]},
        {"edges": [float("nan")]},
        {"dressing": None},
        {"dressing": {"center": 0.0, "slope": 1.0, "spread": 1.0}},
        {"dressing": {"center": 0.0, "slope": 1.0, "spread": 1.0, "bandwidth": 0.0}},
        {"dressing": {"center": 0.0, "slope": -1.0, "spread": 1.0, "bandwidth": 1.0}},
        {"dressing": {"center": float("inf"), "slope": 1.0, "spread": 1.0, "bandwidth": 1.0}},
        {"estimator": "PatchworkClassifier"},
    ],
)
def test_an_outcome_that_is_none_is_refused(changes):
    assert set(believe._outcome(regressor())) == {"edges_", "dressing_"}
    with pytest.raises((ValueError, TypeError)):
        believe._outcome(regressor(**changes))


def test_a_review_of_rows_that_are_not_there_is_refused():
    arrays = {"review_rows": np.array([0, 7]), "review_votes": np.ones((2, 1)), "review_familiarity": np.zeros(2)}
    assert believe._review(arrays, 8).rows.tolist() == [0, 7]
    with pytest.raises(ValueError, match="training table"):
        believe._review(arrays, 7)


@pytest.mark.parametrize(
    "stored",
    [
        [],
        {"coding": "x"},
        {"coding": 1, "trials": []},
        {"coding": "x", "trials": [["a", "b", 1.0, 1.0]]},
        {"coding": "x", "trials": [["a", "b", 1.0, 1.0, float("inf")]]},
        {"coding": "x", "trials": [["a", "b", 1.0, "1", 0.0]]},
    ],
)
def test_a_tuning_that_is_none_is_refused(stored):
    with pytest.raises(ValueError, match="tuning"):
        believe._tuning(stored, Hyperparameters())


def test_a_tuning_is_read():
    found = believe._tuning({"coding": "x", "trials": [["a", "b", 1.0, 2.0, -0.5]]}, Hyperparameters())
    assert found.trials[0].score == -0.5
    assert believe._tuning(None, Hyperparameters()) is None
