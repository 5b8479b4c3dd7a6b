"""What a model file says of its calibration and its parameters is validated; for the rest see test_model_file."""

import math

import pytest

from bayespatch import Hyperparameters
from bayespatch.calibrate import Calibration
from bayespatch.persistence import validation


@pytest.mark.parametrize(
    "stored",
    [
        None,
        {"slope": 1.0},
        {"slope": 1.0, "base": [0.5, 0.5]},
        {"slope": 1, "base": [0.5, 0.5], "anchor": [0.5, 0.5]},
        {"slope": 1.0, "base": [0.5], "anchor": [0.5, 0.5]},
        {"slope": 1.0, "base": [0.5, 0.5], "anchor": [0.5]},
        {"slope": float("nan"), "base": [0.5, 0.5], "anchor": [0.5, 0.5]},
        {"slope": 1.0, "base": [0.5, "x"], "anchor": [0.5, 0.5]},
        {"slope": 1.0, "base": [0.5, 0.5], "anchor": [0.5, None]},
        {"slope": 1e300, "base": [0.5, 0.5], "anchor": [0.5, 0.5]},
        {"slope": 1.0, "base": [1.0, 0.0], "anchor": [0.5, 0.5]},
        {"slope": 1.0, "base": [0.5, 0.5], "anchor": [1.5, 0.5]},
    ],
)
def test_a_calibration_that_is_none_is_refused(stored):
    with pytest.raises((ValueError, TypeError)):
        validation._calibration(stored, 2)


def test_a_calibration_is_read():
    stored = {"slope": 2.0, "base": [0.5, 0.5], "anchor": [0.6, 0.4], "slope_error": 0.01, "inflation": 1.2}
    assert validation._calibration(stored, 2) == Calibration(2.0, (0.5, 0.5), (0.6, 0.4), 0.01, 1.2)
    for wrong in ({"slope_error": -0.1}, {"inflation": 0.9}, {"slope_error": float("nan")}, {"base": [1.5, -0.5]}):
        with pytest.raises(ValueError, match="calibration"):
            validation._calibration({**stored, **wrong}, 2)


@pytest.mark.parametrize(
    "stored",
    [
        {"hyper": {"type": "list", "value": [1, 2]}},
        {"hyper": "given"},
        {"class_weight": {"type": "list", "value": [1.0]}},
        {"class_weight": 3},
        {"error": 0},
        {"n_jobs": 10**7},
        {"engine": "steam"},
        {"second_opinion": "os.system"},
    ],
)
def test_parameters_that_prediction_would_stumble_over_are_refused(stored):
    with pytest.raises(ValueError, match=next(iter(stored))):
        validation.parameters_of(stored)


KERNEL_DENSITY = {"center": 0.0, "slope": 1.0, "spread": 1.0, "bandwidth": 0.5}


@pytest.mark.parametrize("edges", [None, [1.0, 1.0], [1, 2], [float("nan"), 1.0], [1.0], [1.0, 2.0, 3.0]])
def test_edges_that_are_none_are_refused(edges):
    assert validation._edges([1.0, 2.0], 3).tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="edges"):
        validation._edges(edges, 3)


@pytest.mark.parametrize("change", [{"bandwidth": 0.0}, {"slope": -1.0}, {"center": float("inf")}, {"center": 1e101}])
def test_a_kernel_density_that_is_none_is_refused(change):
    assert validation._kernel_density(KERNEL_DENSITY).bandwidth == 0.5
    for stored in (None, {}, {**KERNEL_DENSITY, **change}):
        with pytest.raises(ValueError, match="kernel density"):
            validation._kernel_density(stored)


@pytest.mark.parametrize(
    "stored",
    [
        [],
        {"coding": "x"},
        {"coding": 1, "trials": []},
        {"coding": "x", "trials": [["a"]]},
        {"coding": "x", "trials": [["a", 1.0, 1.0]]},
        {"coding": "x", "trials": [["a", float("inf")]]},
        {"coding": "x", "trials": [["a", "1"]]},
        {"coding": "x", "trials": [[None, 1.0]]},
    ],
)
def test_a_tuning_that_is_none_is_refused(stored):
    with pytest.raises(ValueError, match="tuning"):
        validation._tuning(stored, Hyperparameters())


def test_a_tuning_is_read():
    found = validation._tuning({"coding": "x", "trials": [["a", -0.5], ["b", None]]}, Hyperparameters())
    assert [trial.evidence for trial in found.trials] == [-0.5, -math.inf]
    assert validation._tuning(None, Hyperparameters()) is None


@pytest.mark.parametrize("change", [{"weight": 1.5}, {"weight": "1"}, {"weight_sd": None}, {"log_loss": [1.0]}])
def test_a_pool_that_is_none_is_refused(change):
    good = {"weight": 0.5, "weight_sd": 0.1, "log_loss": [0.1, 0.2, 0.3], "sharpness": 1.0, "base": []}
    assert validation._pool(good, 2).weight == 0.5
    assert validation._pool(None, 2) is None
    with pytest.raises((ValueError, TypeError)):
        validation._pool({**good, **change}, 2)
