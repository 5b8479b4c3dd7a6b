from dataclasses import replace

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.neighbors import KNeighborsClassifier

from study import baselines, cohorts, paper
from study.bcm import CaseModel
from study.metrics import measures


@pytest.fixture(scope="module")
def fold():
    return cohorts.heart().folds(5, seed=0)[0]


def test_every_other_method_of_the_paper_is_there():
    ours = set(baselines.usual_classifiers())
    theirs = {name for name in paper.COMPARISON if not name.startswith(("BCM", "Model"))}
    assert ours == theirs
    assert theirs == {name for name in paper.READMISSION if not name.startswith(("BCM", "Model"))}


@pytest.mark.parametrize(
    "name", ["logistic regression", "KNN (20)", "SVM", "AdaBoost (10, trees)", "AdaBoost (5, discriminants)"]
)
def test_they_predict_better_than_chance_and_repeatably(fold, name):
    method = baselines.usual_classifiers()[name]
    probability = method(fold)
    assert measures(fold.y_test, probability)["accuracy"] > 0.7
    np.testing.assert_array_equal(probability, method(fold))


def test_the_discriminant_is_that_of_scikit_learn_with_cases_repeated():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = (X @ [1.0, -1.0, 0.5] + rng.normal(size=60) > 0.3).astype(int)
    times = rng.integers(1, 4, size=60)
    ours = baselines.WeightedDiscriminant().fit(X, y, sample_weight=times / times.sum())
    repeated = np.repeat(np.arange(60), times)
    theirs = LinearDiscriminantAnalysis(solver="lsqr").fit(X[repeated], y[repeated])
    # The ridge on the covariance moves the plane by about a thousandth.
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=0.02)


def test_the_discriminant_survives_weights_on_one_class():
    X, y = np.array([[0.0], [1.0]]), np.array([0, 1])
    found = baselines.WeightedDiscriminant().fit(X, y, sample_weight=np.array([0.0, 1.0]))
    assert found.predict(X).tolist() == [1, 1]
    with pytest.raises(ValueError, match="y has 3 classes"):
        baselines.WeightedDiscriminant().fit(np.zeros((3, 1)), [0, 1, 2])


def test_nearest_neighbors_are_those_of_hamming_distance(fold):
    train, test = fold.codes
    theirs = KNeighborsClassifier(7, metric="hamming", algorithm="brute").fit(train, fold.y_train)
    ours = baselines.nearest(7, fold)
    # Ties at the last place may be broken differently; distances are counts, so there are some.
    assert np.mean(np.abs(ours - theirs.predict_proba(test)[:, 1]) < 1e-9) > 0.9


def test_a_feature_without_weight_does_not_count(fold):
    weights = np.ones(13)
    weights[2:] = 0.0
    narrowed = replace(fold, cohort=fold.cohort.only(list(fold.cohort.X.columns[:2])))
    np.testing.assert_allclose(baselines.nearest(9, fold, weights=weights), baselines.nearest(9, narrowed))


def test_votes_by_distance_prefer_the_near(fold):
    near = baselines.nearest(len(fold.train), fold, by_distance=True)
    all_alike = baselines.nearest(len(fold.train), fold)
    np.testing.assert_allclose(all_alike, fold.y_train.mean())
    assert measures(fold.y_test, near)["auc"] > 0.8


def test_mixtures_of_the_case_model_classify(fold):
    found = baselines.case_model(CaseModel(4, 1.0), 40, fold)
    assert set(found) == {"logistic regression", "SVM"}
    for probability in found.values():
        assert measures(fold.y_test, probability)["auc"] > 0.7
