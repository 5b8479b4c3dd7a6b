"""Follow-up columns of fitted models: never compared, summarized in explanations, stored with the past cases."""

import warnings

import numpy as np
import pandas as pd
import polars
import pytest

import bayespatch
from bayespatch import PatchworkClassifier, PatchworkRegressor
from bayespatch.casebase.without import without_case
from tests.estimator.tables import SHORT

KINDS = {"drug": "treatment", "days": ("time", "died"), "stay": None}


def table(n=80):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(30, 80, n).astype(float),
            "pain": rng.choice(["yes", "no"], n),
            "drug": rng.choice(["a", "b"], n),
            "days": rng.exponential(100.0, n),
            "died": rng.random(n) < 0.5,
            "stay": rng.integers(1, 9, n),
        }
    )


X = table()
Y = np.where(X.age + 20 * (X.pain == "yes") + np.random.default_rng(1).normal(0, 8, len(X)) > 65, "sick", "well")
FEATURES = X[["age", "pain"]]


def fit(data=X, y=Y, kind=PatchworkClassifier, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kind(**SHORT, random_state=0).fit(data, y, **{"follow_up": KINDS, **given})


def test_predictions_are_those_without_the_columns():
    with_them, without = fit(), fit(FEATURES, follow_up=None)
    assert with_them.schema_.names == ("age", "pain")
    np.testing.assert_array_equal(with_them.predict_proba(FEATURES), without.predict_proba(FEATURES))
    assert without.explain(FEATURES.iloc[[0]]).to_dict()["follow_up"] is None


def test_explanations_weigh_past_cases_by_their_share_of_the_votes():
    clf = fit()
    new = pd.DataFrame({"age": [51.5], "pain": ["yes"]})
    found = clf.explain(new, level=0.8).to_dict()["follow_up"]
    assert list(found) == ["drug", "days", "stay"]
    assert found["stay"]["level"] == 0.8
    everyone = clf.neighbors(new, top=len(X))
    share = np.zeros(len(X))
    share[everyone.rows[0]] = everyone.probability[0]
    expected = clf.fitted_.follow_up.summaries(share, 0.8, clf.fitted_.outcome_column)
    np.testing.assert_allclose(found["stay"]["effective"], expected["stay"]["effective"], rtol=1e-5)
    treated = zip(found["drug"]["treatments"], expected["drug"]["treatments"], strict=True)
    for one, other in treated:
        np.testing.assert_allclose(one["share"], other["share"], rtol=1e-5)
        assert [row["value"] for row in one["outcome"]["shares"]] == ["sick", "well"]


def test_a_past_case_does_not_count_in_its_own_summaries():
    clf = fit()
    assert clf.explain_past(4).to_dict()["follow_up"]["stay"]["n"] == len(X) - 1


def test_a_number_is_shown_beside_treatments_as_a_median():
    regressor = fit(y=X.age.to_numpy() / 10 + np.arange(len(X)) % 3, kind=PatchworkRegressor)
    treatments = regressor.explain(FEATURES.iloc[[2]]).to_dict()["follow_up"]["drug"]["treatments"]
    assert all(row["outcome"]["median"]["value"] > 0 for row in treatments)


def test_polars_frames_have_follow_up_columns_too():
    clf = fit(polars.from_pandas(X))
    np.testing.assert_array_equal(clf.predict_proba(polars.from_pandas(FEATURES)), fit().predict_proba(FEATURES))


def test_follow_up_is_stored_with_the_past_cases_and_only_there(tmp_path):
    clf, row = fit(), FEATURES.iloc[[7]]
    whole, model, cases = (tmp_path / name for name in ("whole.bpatch", "model.bpatch", "cases.bpatch"))
    clf.save(whole)
    clf.save(model, cases_path=cases)
    expected = clf.explain(row).to_dict()["follow_up"]
    assert bayespatch.load(whole).explain(row).to_dict()["follow_up"] == expected
    assert bayespatch.load(model, cases=cases).explain(row).to_dict()["follow_up"] == expected
    assert b"drug" in whole.read_bytes()
    assert b"drug" not in model.read_bytes()
    bayespatch.load(model).save(tmp_path / "again.bpatch", with_cases=False)


def test_a_removed_case_takes_its_follow_up_along():
    clf = without_case(fit(), 5)
    assert len(clf.fitted_.follow_up.columns[0].values) == len(X) - 1
    assert clf.explain(FEATURES.iloc[[0]], exclude_self=False).to_dict()["follow_up"]["stay"]["n"] == len(X) - 1


def test_tables_without_names_and_tables_in_partitions_are_refused():
    with pytest.raises(ValueError, match="pass X as a data frame"):
        fit(FEATURES.age.to_numpy()[:, None], follow_up=["x0"])
    with pytest.raises(ValueError, match="names every column"):
        fit(follow_up=list(X.columns))
    dask = pytest.importorskip("dask.dataframe")
    with pytest.raises(ValueError, match="pass a table in memory"):
        fit(dask.from_pandas(X, npartitions=2))
