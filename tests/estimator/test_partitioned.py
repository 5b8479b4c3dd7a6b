"""Dask data frames as training tables and as new cases: what pandas frames give, and a sample of longer ones."""

import warnings

import numpy as np
import pandas as pd
import pytest

from bayespatch import PatchworkClassifier, PatchworkRegressor
from bayespatch.encode import partitions
from bayespatch.estimator.learning import ManyCasesWarning
from bayespatch.workers import HeldParts

dd = pytest.importorskip("dask.dataframe")
pytest.importorskip("distributed")

RNG = np.random.default_rng(0)
N = 90
X = pd.DataFrame(
    {
        "age": RNG.normal(60, 10, N).round(1),
        "sex": RNG.choice(["f", "m"], N),
        "vessels": np.where(RNG.random(N) < 0.1, np.nan, RNG.integers(0, 4, N)),
        "pain": pd.Categorical(RNG.choice(["none", "some"], N)),
    }
)
Y = pd.Series(np.where(X["age"] + RNG.normal(0, 5, N) > 62, "sick", "well"), name="outcome")
FRAME = dd.from_pandas(X.assign(outcome=Y), npartitions=3)
SETTINGS = dict(draws=10, warmup=5, chains=2, random_state=0, n_jobs=1, error=0.2)


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the chains have not mixed|there are too few draws|too few draws")
        yield


def test_the_model_of_the_same_pandas_frame(scheduler):
    one = PatchworkClassifier(**SETTINGS).fit(X, Y)
    other = PatchworkClassifier(**SETTINGS, scheduler=scheduler).fit(FRAME, "outcome")
    assert other.schema_ == one.schema_
    assert other.target_ == "outcome"
    np.testing.assert_array_equal(other.posterior_.q, one.posterior_.q)
    np.testing.assert_array_equal(other.predict_proba(X), one.predict_proba(X))
    # And of new cases in a Dask frame, on the workers.
    new = FRAME.drop(columns="outcome").query("age < 62 or age > 1000")
    here = new.compute()
    np.testing.assert_array_equal(other.predict(new, abstain=True), one.predict(here, abstain=True))
    np.testing.assert_array_equal(other.predict_votes(new), one.predict_votes(here))
    for found, expected in zip(other.predict_all(new, level=0.8), one.predict_all(here, level=0.8), strict=True):
        one_by_one = found.items() if isinstance(found, dict) else [(None, found)]
        for name, part in one_by_one:
            other_part = expected if name is None else expected[name]
            np.testing.assert_allclose(part, other_part, rtol=1e-12)  # the second opinion is a matrix product
    assert one.predict_all(new).intervals is None
    with pytest.raises(ValueError, match="no rows"):
        one.predict(FRAME.query("age > 1000"))
    with pytest.raises(ValueError, match="transductive=True samples all rows together"):
        one.set_params(transductive=True).predict(new)


def test_a_number_as_the_outcome():
    hours = pd.Series(X["age"] * 2 + RNG.normal(0, 1, N), name="hours")
    frame = dd.from_pandas(X.assign(hours=hours), npartitions=3)
    one = PatchworkRegressor(**SETTINGS).fit(X, hours)
    other = PatchworkRegressor(**SETTINGS).fit(frame.drop(columns="hours"), frame["hours"])
    np.testing.assert_array_equal(other.predict(X[:20]), one.predict(X[:20]))
    new = frame.drop(columns="hours")
    np.testing.assert_allclose(other.predict_interval(new), one.predict_interval(X), rtol=1e-9)  # found by halving


def test_a_frame_of_files(tmp_path):
    """Without divisions, and with an index that begins anew in each file: rows are called by their numbers."""
    pytest.importorskip("pyarrow")
    for k, rows in enumerate((slice(0, 40), slice(40, 90))):
        X.assign(outcome=Y)[rows].reset_index(drop=True).to_parquet(tmp_path / f"{k}.parquet")
    one = PatchworkClassifier(**SETTINGS).fit(X, Y)
    frame = dd.read_parquet(tmp_path)
    for table in ((frame, "outcome"), (frame.drop(columns="outcome"), frame["outcome"])):
        other = PatchworkClassifier(**SETTINGS).fit(*table)
        assert other.ids_ is None
        assert other.schema_ == one.schema_
        np.testing.assert_array_equal(other.predict_proba(X), one.predict_proba(X))


def test_all_rows_of_a_longer_frame_vote(monkeypatch, scheduler):
    """Coding and calibration rest on a sample; the past cases stay in their parts, on the workers or in files."""
    monkeypatch.setattr(partitions, "MOST_ROWS", 60)
    clf = PatchworkClassifier(**SETTINGS, class_weight="balanced").fit(FRAME, "outcome")
    assert len(clf.x_) == 60
    rows = [int(name) for name in clf.ids_]
    assert clf.classes_[clf.y_].tolist() == Y[rows].tolist()
    assert clf.fitted_.n_past_cases == N
    new = FRAME.drop(columns="outcome").query("age < 62 or age > 1000")
    found = clf.predict_proba(new)
    np.testing.assert_array_equal(found, clf.predict_proba(new.compute()))
    assert set(clf.neighbors(X, top=N).rows.ravel()) == set(range(N))

    other = PatchworkClassifier(**SETTINGS, class_weight="balanced", scheduler=scheduler).fit(FRAME, "outcome")
    assert isinstance(other.fitted_.elsewhere.parts, HeldParts)
    np.testing.assert_allclose(other.predict_proba(new), found, atol=1e-6)
    other.fitted_.elsewhere.close()


def test_a_longer_frame_is_sampled_where_not_everybody_may_vote(monkeypatch):
    monkeypatch.setattr(partitions, "MOST_ROWS", 60)
    for few in ({"n_parents": 20}, {"shown": 10}):
        with pytest.warns(ManyCasesWarning, match="a random sample of 60 of 90 rows"):
            clf = PatchworkClassifier(**SETTINGS, **few).fit(FRAME, "outcome")
        assert clf.fitted_.elsewhere is None
    with pytest.raises(ValueError, match="parents= lists rows, but the model learns from a sample of the 90 rows"):
        PatchworkClassifier(**SETTINGS, parents=[0, 1, 2]).fit(FRAME, "outcome")


def test_class_shares_are_those_of_all_rows(monkeypatch):
    """A case of which nothing is known gets the base rates, also where the sample has others."""
    monkeypatch.setattr(partitions, "MOST_ROWS", 30)
    clf = PatchworkClassifier(**SETTINGS, second_opinion=None).set_params(random_state=1)
    clf.fit(FRAME, "outcome")
    sick = (Y == "sick").mean()
    assert abs((clf.y_ == 0).mean() - sick) > 0.02  # or this shows nothing
    nothing = pd.DataFrame({name: [None] for name in X}).astype({"age": float, "vessels": float})
    np.testing.assert_allclose(clf.predict_proba(nothing)[0, 0], sick, atol=1e-6)


@pytest.mark.parametrize(
    ("X", "y", "complaint"),
    [
        (FRAME, "outcom", "y='outcom' is not a column of the table; did you mean 'outcome'?"),
        (FRAME.drop(columns="outcome"), Y, "X is a Dask data frame and y is a Series"),
        (X, FRAME["outcome"], "y is a Dask collection and X is not"),
        (FRAME.drop(columns="outcome"), FRAME["outcome"].repartition(npartitions=1), "3 partitions and y has 1"),
        (FRAME[FRAME["age"] > 1e6], "outcome", "no rows"),
        (FRAME.assign(outcome=FRAME["outcome"].where(FRAME["age"] < 60)), "outcome", "outcomes are missing"),
    ],
)
def test_what_is_refused(X, y, complaint):
    with pytest.raises(ValueError, match=complaint):
        PatchworkClassifier(**SETTINGS).fit(X, y)
