"""A second opinion of the user's own."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from bayespatch.second_opinion import LinearOpinion, UserOpinion
from bayespatch.second_opinion.user import content_folds


def table(n_classes=2, n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"age": rng.normal(60, 10, n), "marker": rng.normal(2, 0.5, n)})
    y = (X.age / 10 + X.marker + rng.normal(0, 0.5, n)).rank(pct=True).mul(n_classes).sub(1e-9).astype(int)
    names = np.array(["low", "mid", "top"][:n_classes])
    return X, names[y.to_numpy()], names


def learned(estimator, n_classes=2):
    X, y, classes = table(n_classes)
    return UserOpinion.learn(estimator, X, y, classes, X.to_numpy()), X, y, classes


@pytest.mark.parametrize("n_classes", [2, 3])
def test_it_is_fitted_on_the_users_own_table(n_classes):
    estimator = RandomForestClassifier(20, random_state=0)
    opinion, X, y, classes = learned(estimator, n_classes)
    assert not hasattr(estimator, "classes_")
    direct = RandomForestClassifier(20, random_state=0).fit(X, y)
    assert np.abs(opinion.predict_proba(X) - direct.predict_proba(X)).max() < 1e-5
    assert (opinion.loo > 0).all()
    own = opinion.loo[np.arange(len(y)), np.searchsorted(classes, y)]
    seen = opinion.predict_proba(X)[np.arange(len(y)), np.searchsorted(classes, y)]
    assert own.mean() < seen.mean()  # a forest knows its training rows, and not those of other folds


def test_folds_go_by_content():
    X, y, classes = table(3)
    values, codes = X.to_numpy(), np.searchsorted(classes, y)
    folds = content_folds(values, codes)
    order = np.random.default_rng(0).permutation(len(y))
    np.testing.assert_array_equal(content_folds(values[order], codes[order]), folds[order])
    np.testing.assert_array_equal(content_folds(1000 * values, 2 - codes), folds)
    assert np.ptp([[np.sum((folds == k) & (codes == m)) for k in range(5)] for m in range(3)], axis=1).max() <= 1


def test_the_order_of_rows_does_not_matter():
    X, y, classes = table()
    order = np.random.default_rng(0).permutation(len(y))
    first = UserOpinion.learn(LogisticRegression(tol=1e-10), X, y, classes, X.to_numpy())
    other = UserOpinion.learn(LogisticRegression(tol=1e-10), X.iloc[order], y[order], classes, X.to_numpy()[order])
    np.testing.assert_allclose(other.loo, first.loo[order], atol=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "estimator",
    [LogisticRegression(), LinearDiscriminantAnalysis(), make_pipeline(StandardScaler(), LogisticRegression())],
    ids=["logistic", "discriminant", "scaled"],
)
def test_linear_models_are_stored_as_coefficients(estimator, n_classes):
    opinion, X, _, _ = learned(estimator, n_classes)
    arrays, plain = opinion.to_arrays()
    restored = LinearOpinion.from_arrays(arrays, json.loads(json.dumps(plain)))
    np.testing.assert_allclose(restored.predict_proba(X[["marker", "age"]]), opinion.predict_proba(X), atol=1e-9)
    np.testing.assert_array_equal(restored.loo, opinion.loo)


@pytest.mark.parametrize(
    "estimator",
    [
        DecisionTreeClassifier(),
        CalibratedClassifierCV(LinearSVC()),
        make_pipeline(StandardScaler(), DecisionTreeClassifier()),
    ],
)
def test_others_cannot_be_stored(estimator):
    opinion, _, _, _ = learned(estimator)
    with pytest.raises(ValueError, match=r"cannot be stored: only LogisticRegression.*second_opinion='auto'"):
        opinion.to_arrays()


@pytest.mark.parametrize("estimator", [Ridge(), LogisticRegression, "always"])
def test_what_is_no_classifier_is_refused(estimator):
    with pytest.raises(ValueError, match="is not a classifier; pass 'auto', None, or"):
        learned(estimator)


def test_a_classifier_without_probabilities_is_refused():
    with pytest.raises(ValueError, match=r"has no predict_proba; wrap it: CalibratedClassifierCV\(LinearSVC\(\)\)"):
        learned(LinearSVC())


def test_a_table_that_it_cannot_read():
    X, y, classes = table()
    X = X.assign(sex="male")
    with pytest.raises(ValueError, match=r"could not be fitted on the table.*pass a pipeline"):
        UserOpinion.learn(LogisticRegression(), X, y, classes, X[["age", "marker"]].to_numpy())


def test_a_stored_opinion_says_what_it_wants():
    opinion, X, _, _ = learned(LogisticRegression())
    stored = LinearOpinion.of(opinion)
    with pytest.raises(ValueError, match="expects 2 columns"):
        stored.predict_proba(X.to_numpy()[:, :1])
    with pytest.raises(ValueError, match="missing values"):
        stored.predict_proba(X.mask(X > 60))
    arrays, plain = stored.to_arrays()
    with pytest.raises(ValueError, match="are inconsistent"):
        LinearOpinion.from_arrays({**arrays, "coef": arrays["coef"][:1]}, plain)
    with pytest.raises(ValueError, match="not a stored second opinion"):
        LinearOpinion.from_arrays({}, plain)
