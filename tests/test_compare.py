import warnings
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bayespatch import PatchworkClassifier
from bayespatch.compare import MORE_IS_BETTER, compare
from bayespatch.duplicates import RepeatedRowsWarning
from bayespatch.explain import OutOfRangeWarning


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Forests of a tenth of the size, and fewer settings."""
    monkeypatch.setattr("bayespatch.compare.N_TREES", 10)
    monkeypatch.setattr("bayespatch.compare.INNER_FOLDS", 3)


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
    assert ours.mean("average precision") == 1.0
    assert ours.mean("net benefit") == pytest.approx(1 / n_classes)
    assert found[-1].mean("average precision") == pytest.approx(1 / n_classes)
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
    ours, *others = compare(X, y, Mean(), folds=3)
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
    with pytest.raises(ValueError, match="folds=7 is more than the 5 cases of the most common outcome"):
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


class Grouped(Known):
    """Remembers the groups that it was given."""

    seen: ClassVar = []

    def fit(self, X, y, groups=None):
        self.seen.append((X.index.to_numpy(), groups))
        return super().fit(X, y)


def repeated_patients(n=120, each=4, seed=0):
    """Nearly identical rows of each patient, whose outcome has nothing to do with them."""
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(n), each)
    X = pd.DataFrame(rng.normal(size=(n, 5))[patient], columns=list("abcde")) + rng.normal(0, 0.01, (n * each, 5))
    return X, np.array(["no", "yes"])[rng.integers(0, 2, n)][patient], patient


def test_patients_in_several_rows_leak_unless_they_are_grouped():
    X, y, patient = repeated_patients(400, 2)
    alone = {"groups": np.arange(len(y))}
    leaking = {one.method: one.mean("AUC") for one in compare(X, y, DummyClassifier(), folds=4, **alone)}
    assert leaking["nearest neighbors"] > 0.95
    assert leaking["random forest"] > 0.85
    grouped = {one.method: one.mean("AUC") for one in compare(X, y, DummyClassifier(), folds=4, groups=patient)}
    error = np.sqrt(401 / (12 * 200 * 200))  # of an AUC under chance, with 200 of 400 independent patients in a class
    assert all(abs(area - 0.5) < 3 * error for area in grouped.values())
    # Also where nobody says whose rows they are.
    with pytest.warns(RepeatedRowsWarning, match="401 of 800 rows repeat an earlier row or nearly do"):
        found = compare(X, y, DummyClassifier(), folds=4)
    assert all(abs(one.mean("AUC") - 0.5) < 3 * error for one in found)


def test_groups_stay_together_and_reach_an_estimator_that_takes_them():
    X, y, patient = repeated_patients(30)
    X.insert(0, "y", y)
    Grouped.seen.clear()
    compare(X, y, Grouped(), folds=3, groups=[f"P{i}" for i in patient])
    assert len(Grouped.seen) == 3
    for rows, groups in Grouped.seen:
        assert len(groups) == len(rows)
        assert not set(patient[rows]) & set(np.delete(patient, rows))
        assert len(set(zip(groups, patient[rows], strict=True))) == len(set(patient[rows]))
    numbers = compare(X[["a", "b"]], X["a"] + X["b"], Mean(), folds=3, groups=patient)
    assert numbers[1].mean("R2") > 0.99
    with pytest.raises(ValueError, match="folds=5 is more than the 2 groups"):
        compare(X, y, Known(), folds=5, groups=np.arange(len(y)) % 2)
    with pytest.raises(ValueError, match="groups has length 3"):
        compare(X, y, Known(), folds=2, groups=[1, 2, 3])


def test_the_usual_methods_are_tuned():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(80, 60)))
    X.columns = [f"x{j}" for j in range(60)]
    y = np.where(X["x0"] + rng.normal(size=80) > 0, "yes", "no")
    found = {one.method: one for one in compare(X, y, DummyClassifier(), folds=4)}
    untuned = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    splits = StratifiedKFold(4, shuffle=True, random_state=0)
    loose = -cross_val_score(untuned, X, y, cv=splits, scoring="neg_log_loss").mean()
    assert found["logistic regression"].mean("log loss") < loose - 0.1


def test_net_benefit_is_of_the_rarer_class_at_the_threshold():
    X, _ = table(n=40)
    y = np.where(np.arange(40) % 4 == 0, "a", "b")
    X["y"] = y
    ours, *_, base = compare(X, y, Known(sure=0.9), folds=2)
    assert ours.mean("net benefit") == pytest.approx(0.25)
    assert base.mean("net benefit") == pytest.approx(0.0)  # at the share of the class, calling all is worth nothing
    ours, *_, base = compare(X, y, Known(sure=0.9), folds=2, threshold=0.05)
    assert ours.mean("net benefit") == pytest.approx(0.25 - 0.75 / 19)  # the others' 0.1 are called as well
    assert base.mean("net benefit") == pytest.approx(0.25 - 0.75 / 19)
    with pytest.raises(ValueError, match=r"threshold=1\.5 is not a probability"):
        compare(X, y, Known(), folds=2, threshold=1.5)


def test_times_to_an_event_are_refused():
    y = np.array([(True, 3.0), (False, 5.0)] * 10, dtype=[("died", bool), ("days", float)])
    with pytest.raises(ValueError, match="not times to an event"):
        compare(pd.DataFrame({"age": range(20)}), y, Known())


def test_extreme_values_of_a_fold_are_not_suspicious():
    """The largest number of a table is out of the range of all folds but its own."""
    X, y = pd.DataFrame({"age": [*range(40, 79), 500.0]}), np.array(["sick", "well"] * 20)
    clf = PatchworkClassifier(draws=10, random_state=0, n_jobs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", OutOfRangeWarning)
        compare(X, y, clf, folds=2)
    with pytest.warns(OutOfRangeWarning):
        clf.fit(X[:-1], y[:-1]).predict(X[-1:])
