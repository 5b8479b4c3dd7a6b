import numpy as np
import pytest

from bayespatch.model import Hyperparameters
from study import cohorts
from study.protocol import (
    AS_PRINTED,
    BALANCED,
    FULL,
    OURS,
    PAPER,
    QUICK,
    Patchwork,
    averaging_more,
    evaluate,
)
from study.tests.tiny import TINY


@pytest.fixture(scope="module")
def fold():
    return cohorts.heart().folds(5, seed=0)[0]


def test_the_paper_s_setting_is_the_paper_s(fold):
    found = Patchwork(PAPER, "II", False, FULL).classifier(fold)
    assert (found.model, found.supervised, found.parents, found.n_parents) == ("II", False, "random", 80)
    assert found.hyper == Hyperparameters.paper()
    assert Patchwork(BALANCED, "I", True, FULL).classifier(fold).parents == "balanced"
    assert found.likelihood == "exact"
    printed = Patchwork(AS_PRINTED, "I", True, FULL).classifier(fold)
    assert (printed.likelihood, printed.parents) == ("paper", "balanced")


def test_our_defaults_are_left_alone(fold):
    found = Patchwork(OURS, "I", True, FULL).classifier(fold).get_params()
    usual = type(Patchwork(OURS, "I", True, FULL).classifier(fold))(model="I").get_params()
    assert {name for name in found if found[name] != usual[name]} <= {"chains", "warmup", "draws", "random_state"}


def test_constants_and_parents_can_be_changed(fold):
    found = Patchwork(BALANCED, "I", True, FULL, scan=True, n_parents=40, constants=(("alpha", 0.1),)).classifier(fold)
    assert (found.hyper.alpha, found.hyper.sigma2, found.n_parents, found.chains) == (0.1, 5.0, 40, 1)


def test_some_training_cases_are_left_to_learn_from():
    small = cohorts.breast(0).folds(2, seed=0)[0]
    found = Patchwork(BALANCED, "I", True, FULL, n_parents=100).classifier(small)
    assert found.n_parents < len(small.train)
    assert Patchwork(PAPER, "I", True, QUICK).classifier(small).n_parents == 20


def test_scores_and_predictions_name_method_fold_and_patient():
    cohort = cohorts.breast(0)
    folds = cohort.folds(3, seed=0)
    methods = {
        ("half", "a"): lambda fold: np.full(len(fold.test), 0.5),
        ("two", "b"): lambda fold: {"oracle": fold.y_test * 1.0, "liar": 1.0 - fold.y_test},
    }
    scores, predictions = evaluate(cohort, methods, folds, ("kind", "method"))
    assert len(scores) == 9
    by_method = {row["method"]: row["accuracy"] for row in scores}
    assert by_method["b, oracle"] == 1.0
    assert by_method["b, liar"] == 0.0
    mine = [row for row in predictions if row["method"] == "a"]
    assert sorted(row["patient"] for row in mine) == list(range(162))
    assert all(row["outcome"] == cohort.y[row["patient"]] for row in mine)


def test_the_same_fold_gives_the_same_prediction(fold):
    method = Patchwork(BALANCED, "I", True, TINY)
    np.testing.assert_array_equal(method(fold), method(fold))


def test_averaging_more_votes_leaves_the_classifier_as_it_is_and_predicts_the_same(fold):
    method = Patchwork(BALANCED, "I", True, TINY)
    fitted = method.fit(fold)
    n_draws = fitted.posterior_.n_draws
    more = averaging_more(fitted, FULL)
    assert fitted.posterior_.n_draws == n_draws
    assert more.posterior_.n_draws == FULL.prediction_draws
    np.testing.assert_allclose(more.feature_importances_, fitted.feature_importances_)
    few, many = (m.predict_proba(fold.X_test)[:, 1] for m in (fitted, more))
    assert np.abs(few - many).mean() < 0.05  # five times the Monte Carlo error that is asked for
    assert averaging_more(more, FULL) is more
