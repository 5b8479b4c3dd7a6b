"""A transcription is checked by the sums that the paper prints itself."""

import numpy as np
import pytest

from study import paper


@pytest.mark.parametrize("key", list(paper.FOLDS))
def test_the_printed_means_and_spreads_are_those_of_the_printed_folds(key):
    folds = np.array(paper.FOLDS[key])
    assert folds.shape == (5, 4)
    means, spreads = paper.PRINTED[key]
    np.testing.assert_allclose(folds.mean(axis=0), means, atol=0.011)
    np.testing.assert_allclose(folds.std(axis=0, ddof=1), spreads, atol=0.011)


@pytest.mark.parametrize("model", ["I", "II"])
@pytest.mark.parametrize(("place", "cohort"), [(0, "heart"), (1, "breast")])
def test_our_models_stand_in_the_comparison_as_in_their_own_tables(model, place, cohort):
    means = np.array(paper.PRINTED[cohort, True, model][0]) / 100
    np.testing.assert_allclose(paper.COMPARISON[f"Model {model}"][place], means, atol=0.0052)


def test_readmission_accuracies_are_means_of_sensitivity_and_specificity():
    for accuracy, sensitivity, specificity, *_ in paper.READMISSION.values():
        assert accuracy == pytest.approx((sensitivity + specificity) / 2, abs=0.21)  # means over folds, almost balanced


def test_measures_are_found_by_method():
    assert paper.measures_of("readmission-1", "KNN (1)")["accuracy"] == pytest.approx(0.669)
    assert paper.measures_of("readmission-1", "KNN (1)")["f_measure"] == pytest.approx(0.726)
    assert paper.measures_of("breast", "SVM") == dict(accuracy=0.79, sensitivity=1.0, specificity=0.59, precision=0.71)
    assert paper.measures_of("breast-full", "SVM") == {}
    assert paper.measures_of("heart", "oracle") == {}
    assert paper.results_of("heart", True, "II")["specificity"] == 0.8383
    assert paper.results_of("heart", True, "III") == {}
