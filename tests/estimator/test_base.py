"""What the estimators share: the review of the past, and a fit that fails leaves the last one alone."""

import warnings

import numpy as np
import pandas as pd
import pytest

from bayespatch import PatchworkClassifier
from bayespatch.estimator import base
from bayespatch.predict import predict_cases

pytestmark = pytest.mark.filterwarnings("ignore::bayespatch.diagnostics.MixingWarning")

X = pd.DataFrame({"pain": ["yes", "yes", "no", "no"] * 6, "age": [61, 58, 40, 44] * 6})
Y = np.array(["sick", "sick", "well", "well"] * 6)
SHORT = dict(chains=2, draws=20, warmup=20, random_state=0)


def fit(**settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PatchworkClassifier(**{**SHORT, **settings}).fit(X, Y)


def test_the_review_is_a_prediction_of_each_case_by_the_others():
    clf = fit()
    np.testing.assert_array_equal(clf.review_.rows, np.arange(24))
    past = base._past(clf.x_, clf.y_, clf.parents_, clf.cases_, clf.schema_, 2)
    alone = past._replace(x=past.x[3:4], y=np.array([-1]), own_parent=np.array([3]))
    expected = predict_cases(clf.posterior_, alone)
    np.testing.assert_array_equal(clf.review_.votes[3], expected.mean_votes()[0])
    assert clf.review_.familiarity[3] == expected.familiarity[0]


def test_cases_that_are_no_parents_are_reviewed():
    clf = fit(parents="random", n_parents=8)
    np.testing.assert_array_equal(clf.review_.rows, clf.cases_)


def test_a_fit_that_fails_leaves_the_last_one_alone(monkeypatch):
    clf = fit()
    before = clf.predict_proba(X)
    monkeypatch.setattr(base, "review_cases", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        clf.fit(X.assign(age=1.0), Y)
    np.testing.assert_array_equal(clf.predict_proba(X), before)
