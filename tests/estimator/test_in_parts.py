"""Tables in parts that are too long for one process: every row votes where it lies."""

import copy
import dataclasses
import pickle
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest

import bayespatch
from bayespatch import PatchworkClassifier, importances_at_scale
from bayespatch.encode.partitions import Part, Partitions
from bayespatch.estimator import learning
from bayespatch.persistence.atomic import StorageError
from bayespatch.retrieval import CaseIndex, LeftOut, PartitionedIndex, vote, vote_shares
from bayespatch.source.parquet_parts import one_after_the_other

N = 1200
SETTINGS = dict(draws=12, chains=2, random_state=0, n_jobs=1, error=0.5, bins="quantile", missing="category")


def table(n=N, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.normal(60, 10, n).round(1),
            "sex": rng.choice(["f", "m"], n),
            "vessels": np.where(rng.random(n) < 0.1, np.nan, rng.integers(0, 4, n)),
        }
    )
    risk = 0.15 * (X.age - 60) + (X.sex == "m") + 0.8 * X.vessels.fillna(1) - 1.5
    return X, pd.Series(np.where(rng.random(n) < 1 / (1 + np.exp(-risk)), "sick", "well"), name="outcome")


X, Y = table()
NEW = table(40, seed=1)[0]


def sampled(n_parts, most=None, frame=X, y=Y):
    """The table in so many parts, as `fit` takes it."""
    rows = np.array_split(np.arange(len(frame)), n_parts)
    parts = tuple((frame.iloc[part], y.iloc[part]) for part in rows)
    whole = Partitions(parts, tuple(map(str, range(n_parts))), lambda part: Part(*part), one_after_the_other)
    return whole.sample(0, classes=True, max_levels=10, most=most)


@pytest.fixture(scope="module", autouse=True)
def mini_batches():
    """Importances are learned as those of a table with many more rows."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (learning, importances_at_scale):
            patch.setattr(module, "MOST_AT_ONCE", 500)
        patch.setattr(importances_at_scale, "MOST_BATCH", 128)
        patch.setattr(importances_at_scale, "N_STEPS", 100)
        yield


@pytest.fixture(scope="module")
def here():
    with warnings.catch_warnings():
        warnings.simplefilter("error", learning.ManyCasesWarning)
        return PatchworkClassifier(**SETTINGS).fit(X, Y)


@pytest.fixture
def long(monkeypatch):
    monkeypatch.setattr(learning, "MOST_HERE", 500)


@pytest.mark.parametrize("n_parts", [1, 2, 5])
def test_any_number_of_parts_gives_the_model_of_one_table(n_parts, here, long):
    """The sample is the whole table here, so nothing but the sums of the votes may differ.

    Leave-one-out sums are double precision, whose rounding errors 300 steps of the optimiser carry on; votes are added
    up in single precision, 2^-24 each, in blocks of 128: 1e-5 (`ADDED`, tests/retrieval).
    """
    clf = PatchworkClassifier(**SETTINGS).fit(sampled(n_parts), None)
    assert isinstance(clf.fitted_.elsewhere, PartitionedIndex)
    assert clf.fitted_.n_past_cases == N
    assert clf.schema_ == here.schema_
    np.testing.assert_allclose(clf.posterior_.log_weights, here.posterior_.log_weights, atol=1e-6)
    np.testing.assert_allclose(clf.loo_.votes, here.loo_.votes, atol=1e-5)
    np.testing.assert_allclose(clf.predict_votes(NEW), here.predict_votes(NEW), atol=1e-5)
    seen, expected = clf.predict_all(NEW, level=0.8), here.predict_all(NEW, level=0.8)
    np.testing.assert_allclose(seen.probabilities, expected.probabilities, atol=1e-4)
    np.testing.assert_allclose(seen.intervals, expected.intervals, atol=1e-3)
    np.testing.assert_allclose(seen.percentiles, expected.percentiles, atol=2 / len(clf.loo_.rows))
    np.testing.assert_allclose(seen.closest_share, expected.closest_share, atol=1e-6)


@pytest.fixture(scope="module")
def apart():
    """A sample of 800 rows, beside all 1,200 in three parts, which have names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning, "MOST_HERE", 500)
        named = X.set_axis([f"patient {row}" for row in range(N)], axis=0)
        sample = sampled(3, 800, named, Y.set_axis(named.index))
        return PatchworkClassifier(**SETTINGS).fit(sample, None)


def votes_of_all(clf, x, left_out=None):
    """Mean votes by the definition: all rows of the table, coded, in one index."""
    codes = clf.schema_.encode(X).x
    windows = [(column.window, *column.nested) for column in clf.schema_.columns]
    index = CaseIndex.build(
        codes, np.searchsorted(clf.classes_, Y), 2, windows, has_missing=clf.posterior_.compares_missing
    )
    weights = clf.posterior_.log_weights.reshape(-1, len(index.columns))
    out = None if left_out is None else LeftOut.members(index, left_out)
    totals = vote(index, index.ranges(x), weights, left_out=out)
    heard = clf.hyper_.mu_per_class(2)
    shares = np.empty((len(x), N))
    shares[:, index.rows] = vote_shares(index, index.ranges(x), weights, totals, heard, left_out=out)[:, 0]
    base = np.bincount(index.classes) / N
    return 0.99 * totals.shares(heard).mean(axis=1) + 0.01 * base, 0.99 * shares


def test_all_rows_vote_beside_a_sample(apart):
    assert len(apart.x_) == 800
    assert apart.fitted_.n_past_cases == N
    assert np.bincount(np.searchsorted(apart.classes_, Y)).tolist() == apart.fitted_.elsewhere.n_by_class.tolist()
    x = apart.schema_.encode(NEW).x
    votes, shares = votes_of_all(apart, x)
    np.testing.assert_allclose(apart.predict_votes(NEW), votes, atol=1e-5)
    rows = apart.fitted_.rows
    expected = votes_of_all(apart, apart.x_[apart.loo_.rows], rows[apart.loo_.rows])[0]  # nobody votes on itself
    np.testing.assert_allclose(apart.loo_.votes, expected, atol=1e-5)

    who = apart.neighbors(NEW, top=5)
    np.testing.assert_allclose(who.influence, -np.sort(-shares, axis=1)[:, :5], atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(shares, who.rows, axis=1), who.influence, atol=1e-6)
    assert not np.isin(who.rows, rows).all()  # not the most similar of the sample
    seen = apart.predict_all(NEW, level=0.9)
    np.testing.assert_array_equal(seen.closest, who.rows[:, 0])
    np.testing.assert_allclose(seen.closest_share, shares.max(axis=1), atol=1e-6)


def test_an_explanation_names_past_cases_of_all_parts(apart):
    case = X.iloc[1100]  # a past case: it does not vote on itself
    why = apart.explain_past(1100, known=False, top=3)
    _, shares = votes_of_all(apart, apart.schema_.encode(X.iloc[1100:1101]).x, np.array([1100]))
    best = why.neighbors[0]
    assert best.vote_share == pytest.approx(shares[0].max(), abs=1e-6)
    assert shares[0, best.index] == pytest.approx(best.vote_share, abs=1e-6)
    assert best.id == f"patient {best.index}"
    assert best.outcome == Y[best.index]
    assert {name: patch.value for name, patch in best.features.items()}["sex"] == X.sex[best.index]
    parts = [*(group.vote_share for group in why.groups), why.ungrouped.vote_share, why.base_rates]
    assert sum(parts) == pytest.approx(1.0, abs=1e-6)
    assert why.base_rates == pytest.approx(0.01, abs=1e-6)
    assert why.about["past_cases"] == N
    again = apart.explain(pd.DataFrame([case], index=["patient 1100"]), top=3)
    assert any("patient 1100" in guard.text for guard in again.guards)
    assert again.probabilities == pytest.approx(why.probabilities, abs=1e-9)


def test_a_model_file_has_its_parts_beside_it(apart, tmp_path):
    path = tmp_path / "model.bpatch"
    apart.save(path)
    assert len(list((tmp_path / "model.bpatch.parts").iterdir())) == 3
    again = bayespatch.load(path)
    np.testing.assert_array_equal(again.predict_proba(NEW), apart.predict_proba(NEW))
    assert again.explain(NEW.iloc[0]).to_dict() == apart.explain(NEW.iloc[0]).to_dict()
    with pytest.raises(StorageError, match=r"model\.bpatch\.parts.*already exists|model\.bpatch.*already exists"):
        again.save(path)
    again.save(path, overwrite=True)  # onto the files that it reads
    np.testing.assert_array_equal(bayespatch.load(path).predict_proba(NEW), apart.predict_proba(NEW))
    copied = pickle.loads(pickle.dumps(again))
    np.testing.assert_array_equal(copied.predict_proba(NEW), apart.predict_proba(NEW))
    with pytest.raises(TypeError, match="save the model"):
        pickle.dumps(apart)  # its parts are in temporary files

    apart.save(tmp_path / "alone.bpatch", with_cases=False)
    assert not (tmp_path / "alone.bpatch.parts").exists()
    part = sorted((tmp_path / "model.bpatch.parts").iterdir())[0]
    whole = part.read_bytes()
    part.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(StorageError, match="damaged"):
        bayespatch.load(path)
    part.unlink()
    with pytest.raises(StorageError, match="missing; put the folder with the past cases next to the model file"):
        bayespatch.load(path)


def test_a_large_table_in_memory_can_be_saved(here, tmp_path):
    """Its approximation is too dear to check."""
    assert here.diagnostics_.efficiency is None
    here.save(tmp_path / "model.bpatch")
    np.testing.assert_array_equal(
        bayespatch.load(tmp_path / "model.bpatch").predict_proba(NEW), here.predict_proba(NEW)
    )


def test_an_overview_and_a_smallest_change(apart):
    overview = apart.overview()
    assert overview.about["cases"] == N
    found = apart.counterfactual(NEW.iloc[0])
    assert found.found
    assert found.what_if.before.predicted != found.what_if.after.predicted


def test_no_process_holds_all_rows(apart):
    """Coding, writing and predicting: at no time has the process a third of one table of doubles in its memory."""
    n_parts, n = 20, 20_000
    schema, width = apart.schema_, X.shape[1]

    def read(k):
        rng = np.random.default_rng(k)
        codes = rng.integers(2, size=(n, width)).astype(float)
        return codes, rng.integers(2, size=n), codes, None

    windows = [(column.window, *column.nested) for column in schema.columns]
    has_missing = apart.posterior_.compares_missing
    apart.predict_votes(NEW)  # compiles
    arguments = [(k,) for k in range(n_parts)]
    tracemalloc.start()
    try:
        index = PartitionedIndex.build(read, arguments, 2, windows, has_missing=has_missing, in_files=True)
        clf = copy.copy(apart)
        clf.fitted_ = dataclasses.replace(apart.fitted_, elsewhere=index)
        assert clf.predict_votes(NEW.iloc[:5]).shape == (5, 2)
        assert clf.neighbors(NEW.iloc[:2], top=3).rows.shape == (2, 3)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert clf.fitted_.n_past_cases == n_parts * n
    assert most < n_parts * n * width * 8 / 3
