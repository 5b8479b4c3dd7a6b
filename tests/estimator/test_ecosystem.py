"""What scikit-learn's tools ask of an estimator: log probabilities, weights, pipelines, metadata routing."""

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GroupKFold, cross_validate
from sklearn.pipeline import Pipeline

from bayespatch import PatchworkClassifier

QUICK = {"draws": 20, "chains": 2, "random_state": 0, "n_jobs": 1}


def table(n=90, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"age": rng.integers(30, 80, n).astype(float), "smoker": rng.choice(["no", "yes"], n)})
    y = np.where(rng.random(n) < np.where(X["smoker"] == "yes", 0.8, 0.2), "sick", "well")
    return X, y


@pytest.fixture(scope="module")
def clf():
    return PatchworkClassifier(**QUICK).fit(*table())


def test_log_probabilities(clf):
    X, _ = table(10, seed=1)
    np.testing.assert_allclose(clf.predict_log_proba(X), np.log(clf.predict_proba(X)))


def test_a_score_may_be_weighted(clf):
    X, y = table(40, seed=1)
    weights = np.random.default_rng(0).random(40)
    assert clf.score(X, y, sample_weight=weights) == pytest.approx(
        accuracy_score(y, clf.predict(X), sample_weight=weights)
    )


def test_a_pipeline_hands_over_data_frames():
    X, y = table()
    X.loc[3, "age"] = np.nan
    fill = ColumnTransformer(
        [("fill", SimpleImputer(), ["age"])], remainder="passthrough", verbose_feature_names_out=False
    )
    model = Pipeline([("fill", fill), ("patchwork", PatchworkClassifier(**QUICK))]).set_output(transform="pandas")
    model.fit(X, y)
    assert model[-1].schema_.names == ("age", "smoker")
    assert model.predict(X).shape == (90,)


def test_groups_are_routed_to_fit_and_to_the_splits():
    """Every patient is there three times with random outcomes: only with groups is nobody predicted by himself."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(30, 4))).loc[np.repeat(np.arange(30), 3)].reset_index(drop=True)
    y, patients = np.repeat(rng.integers(0, 2, 30), 3), np.repeat(np.arange(30), 3)
    with config_context(enable_metadata_routing=True):
        model = PatchworkClassifier(**QUICK).set_fit_request(groups=True)
        found = cross_validate(
            model, X, y, cv=GroupKFold(3), params={"groups": patients}, scoring="accuracy", return_estimator=True
        )
    for fitted in found["estimator"]:
        assert fitted.groups_ is not None
        assert len(np.unique(fitted.groups_)) == 20
