import numpy as np
import pytest
from sklearn import metrics as reference

from study.metrics import MEASURES, measures


def test_they_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=200)
    p = np.clip(0.3 * y + 0.7 * rng.random(200), 0.001, 0.999)
    found, called = measures(y, p), p > 0.5
    assert tuple(found) == MEASURES
    assert found["accuracy"] == pytest.approx(reference.accuracy_score(y, called))
    assert found["sensitivity"] == found["recall"] == pytest.approx(reference.recall_score(y, called))
    assert found["specificity"] == pytest.approx(reference.recall_score(y, called, pos_label=0))
    assert found["precision"] == pytest.approx(reference.precision_score(y, called))
    assert found["f_measure"] == pytest.approx(reference.f1_score(y, called))
    assert found["auc"] == pytest.approx(reference.roc_auc_score(y, p))
    assert found["log_loss"] == pytest.approx(reference.log_loss(y, p))


def test_calibration_error_by_hand():
    # In the bin from .2 to .3: mean probability .25, half positive; in the last: .95, all positive.
    assert measures([0, 1, 1, 1], [0.25, 0.25, 0.95, 0.95])["calibration_error"] == pytest.approx((0.25 + 0.05) / 2)


def test_probabilities_that_tell_the_truth_are_calibrated():
    rng = np.random.default_rng(1)
    p = rng.random(20_000)
    assert measures(rng.random(20_000) < p, p)["calibration_error"] < 0.02  # ten bins, SD .01 each
    assert measures(rng.random(20_000) < p**3, p)["calibration_error"] > 0.1


def test_what_is_not_defined_is_nan():
    nobody = measures([0, 1], [0.1, 0.2])
    assert np.isnan(nobody["precision"])
    assert nobody["sensitivity"] == 0.0
    assert np.isnan(measures([1, 1], [0.1, 0.9])["auc"])


def test_one_half_is_not_positive():
    assert measures([0, 1], [0.5, 0.5])["specificity"] == 1.0


@pytest.mark.parametrize("wrong", [[0.5], [0.5, 1.5], [-0.1, 0.5]])
def test_what_is_no_probability_is_refused(wrong):
    with pytest.raises(ValueError, match="pass one probability for each of the 2 cases"):
        measures([0, 1], wrong)
