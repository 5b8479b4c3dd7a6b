import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.dummy import DummyClassifier

from bayespatch.compare import MORE_IS_BETTER, compare


class Known(ClassifierMixin, BaseEstimator):
    """Says what the first column says, with certainty `sure`."""

    def __init__(self, sure=0.75):
        self.sure = sure

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        right = X.iloc[:, 0].to_numpy()[:, None] == self.classes_
        return np.where(right, self.sure, (1 - self.sure) / (len(self.classes_) - 1))


class Mean(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


def table(n=30, n_classes=2):
    rng = np.random.default_rng(0)
    y = np.array([["no", "yes", "maybe"][k % n_classes] for k in range(n)])
    X = pd.DataFrame({"y": y, "n": rng.normal(size=n), "flag": rng.random(n) < 0.5})
    X.loc[3, "n"] = np.nan
    X.loc[4, "y"] = None
    return X, y


@pytest.mark.parametrize("n_classes", [2, 3])
def test_measures_are_what_they_are_called(n_classes):
    X, y = table(n_classes=n_classes)
    X["y"] = y
    told = []
    found = compare(X, y, Known(), folds=3, tell=lambda *words: told.append(words))
    ours = found[0]
    assert ours.mean("AUC") == ours.mean("accuracy") == 1.0
    assert ours.mean("log loss") == pytest.approx(-np.log(0.75))
    wrong = 0.25 / (n_classes - 1)
    assert ours.mean("Brier") == pytest.approx((0.25**2 + (n_classes - 1) * wrong**2) / 2)
    assert ours.deviation("log loss") == pytest.approx(0.0, abs=1e-12)
    assert found[-1].mean("AUC") == 0.5
    assert set(ours.scores) <= set(MORE_IS_BETTER)
    assert told[0] == (0, 15, "patchwork")
    assert told[-1] == (15, 15, "done")
    assert len(told) == 16


def test_the_usual_methods_take_missing_values_texts_and_flags():
    X, y = table()
    for one in compare(X, y, DummyClassifier(), folds=2):
        assert np.isfinite([one.mean(measure) for measure in one.scores]).all()
        assert one.seconds > 0


def test_numbers():
    X, _ = table()
    y = np.arange(30.0)
    ours, *others = compare(X, y, Mean(), regression=True, folds=3)
    assert ours.scores == others[-1].scores  # the mean is the mean
    assert ours.mean("R2") <= 0.0
    assert list(ours.summary()["RMSE"]) == ["mean", "sd"]


@pytest.mark.filterwarnings("ignore:The least populated class")
def test_a_class_with_fewer_cases_than_folds_is_compared_all_the_same():
    X, y = table()
    rare = np.where(np.arange(len(y)) == 0, "rare", y)
    for one in compare(X, rare, DummyClassifier(), folds=3):
        assert np.isfinite([one.mean(measure) for measure in one.scores]).all()


def test_more_folds_than_cases_are_refused():
    X, y = table(n=9)
    with pytest.raises(ValueError, match="folds=7 is more than the 5 cases of the commonest outcome"):
        compare(X, y, Known(), folds=7)
    with pytest.raises(ValueError, match="folds=1"):
        compare(X, y, Known(), folds=1)


class Pooled(Known):
    """Two opinions, of which the second is never sure."""

    pool_ = 0.5

    def predict_opinions(self, X):
        precedents, even = self.predict_proba(X), np.full((len(X), 2), 0.5)
        return {"precedents": precedents, "additive": even, "pool": (precedents + even) / 2}


def test_opinions_are_compared_alone_and_pooled():
    X, y = table()
    X["y"] = y
    pool, precedents, second = compare(X, y, Pooled(), folds=3)[:3]
    names = ["patchwork", "patchwork: precedents alone", "patchwork: second opinion alone"]
    assert [one.method for one in (pool, precedents, second)] == names
    expected = [-np.log(0.625), -np.log(0.75), np.log(2.0)]
    assert [one.mean("log loss") for one in (pool, precedents, second)] == pytest.approx(expected)
    assert pool.seconds > 0
    assert precedents.seconds is second.seconds is None  # both come out of one fit
