"""A model without one of its past cases predicts as the model with that parent taken out."""

from dataclasses import replace

import numpy as np
import pandas
import pytest

from bayespatch import Hyperparameters, PatchworkClassifier
from bayespatch.casebase.without import _moved, without_case
from bayespatch.encode.column import Column
from bayespatch.predict import predict_cases
from tests.persistence.fitted import SHORT, fit


def people(n=26, seed=0):
    rng = np.random.default_rng(seed)
    table = pandas.DataFrame(
        {
            "pain": rng.choice(["none", "some"], n),
            "level": rng.choice([1.0, 2.0, 3.0], n),
            "age": rng.integers(30, 80, n) + rng.random(n),
            "chol": np.where(rng.random(n) < 0.2, np.nan, rng.normal(230, 40, n)),
        },
        index=[f"c{i}" for i in range(n)],
    )
    table.loc["c7", "pain"] = "unheard of"  # a level, a knot and an end of the range that are one person's
    table.loc["c7", "level"] = 9.0
    table.loc["c7", "age"] = 99.5
    return table, np.where(rng.random(n) < 0.5, "sick", "well")


SETTINGS = {
    "bins": {},
    "ranks": {"windows": "10%"},
    "ranks, missing left out": {"windows": "10%", "missing": "ignore"},
    "own bins": {"bins": {"age": [45.0, 60.0]}},
    "few parents": {"parents": "random", "n_parents": 12},
    "model II": {"model": "II"},
    "sampled": {"votes": "sampled"},
}


@pytest.fixture(scope="module", params=SETTINGS)
def clf(request):
    return fit(PatchworkClassifier(**{"hyper": Hyperparameters(), **SHORT, **SETTINGS[request.param]}), *people())


def without_parent(posterior, data, b):
    """Posterior and data as if parent b had never been asked; no case may be one of the parents any more."""
    fewer = data._replace(
        x_parents=np.delete(data.x_parents, b, axis=0),
        y_parents=np.delete(data.y_parents, b),
        own_parent=np.full(len(data.x), -1),
    )
    if posterior.log_weights is not None:
        return replace(posterior), fewer
    return replace(posterior, q_tilde=np.delete(posterior.q_tilde, b, axis=2)), fewer


@pytest.mark.parametrize("row", [0, 7, 25])
def test_predictions_are_those_with_the_parent_taken_out(clf, row):
    new = without_case(clf, row)
    others, _ = people(12, seed=3)
    others = others.drop(index="c7")
    encoded = new.schema_.encode(others)
    x = encoded.x
    data = clf.fitted_.past._replace(x=x, y=np.full(len(x), -1), own_parent=np.full(len(x), -1))
    posterior, place = clf.posterior_, np.flatnonzero(clf.parents_ == row)
    if place.size:
        posterior, data = without_parent(posterior, data, int(place[0]))
    share = 1.0 if clf.pool_ is None else max(1.0 - clf.pool_.weight, 0.5)
    options = dict(calibration=clf.calibration_, error=clf.error / share)
    votes = predict_cases(posterior, data, **options).mean_votes()
    expected = new.fitted_.pooled(others, encoded.values, votes)
    assert np.array_equal(new.predict_proba(others), expected)
    even = np.full((len(x), 2), 0.5)
    before, after = (model.fitted_.pooled(others, encoded.values, even) for model in (clf, new))
    assert np.array_equal(before, after)
    if place.size:
        assert not np.array_equal(clf.predict_proba(others), expected)  # or the test would show nothing


def test_only_numbers_in_the_gap_around_the_removed_one_are_coded_anew(clf):
    X, _ = people()
    grid = pandas.DataFrame({"pain": "none", "level": 1.0, "age": np.linspace(20, 110, 400), "chol": 200.0})
    for row in range(26):
        before, after = clf.schema_.encode(grid).x[:, 2], without_case(clf, row).schema_.encode(grid).x[:, 2]
        rest, own = np.delete(X["age"].to_numpy(), row), X["age"].iloc[row]
        low, high = rest[rest < own].max(initial=-np.inf), rest[rest > own].min(initial=np.inf)
        changed = grid["age"].to_numpy()[before != after]
        assert np.all((changed > low) & (changed < high))


@pytest.mark.parametrize("row", [0, 7, 25])
def test_the_case_is_gone_and_the_others_are_as_they_were(clf, row, tmp_path):
    new = without_case(clf, row)
    rest = np.delete(np.arange(26), row)
    for name in ("x_", "y_", "values_"):
        assert np.array_equal(getattr(new, name), getattr(clf, name)[rest], equal_nan=True)
    assert new.ids_ == tuple(f"c{i}" for i in rest)
    assert rest[new.parents_].tolist() == [i for i in clf.parents_ if i != row]
    assert rest[new.cases_].tolist() == [i for i in clf.cases_ if i != row]
    assert rest[new.loo_.rows].tolist() == [i for i in clf.loo_.rows if i != row]
    sampled = (len(new.cases_), len(new.parents_))
    assert new.posterior_.z_mean.shape == (sampled if new.posterior_.log_weights is None else (0, 0))
    X, _ = people()
    assert np.array_equal(
        new.schema_.encode(X.iloc[rest]).x, new.x_, equal_nan=True
    )  # the same codes by the new schema
    new.save(tmp_path / "model.bpatch")
    content = (tmp_path / "model.bpatch").read_bytes()
    if row == 7:
        for trace in (b"unheard of", b"99.5", np.float64(99.5).tobytes()):
            assert trace not in content, trace
        clf.save(tmp_path / "before.bpatch")
        assert b"unheard of" in (tmp_path / "before.bpatch").read_bytes()


def test_what_the_dictionary_lists_is_nobodys_secret(clf):
    new = without_case(clf, 7, {"pain": ["none", "some", "unheard of"]})
    assert new.schema_.column("pain") == clf.schema_.column("pain")


def test_too_few_are_left():
    clf = fit(PatchworkClassifier(hyper=Hyperparameters(), **SHORT), [[0.0], [1.0]], ["a", "b"])
    with pytest.raises(ValueError, match="too few would remain"):
        without_case(clf, 0)


def test_marks_move_within_their_gap_to_a_place_that_says_nothing():
    known = np.array([1.0, 2.0, 8.0])
    for own in (3.0, 5.0, 7.9):
        assert _moved((1.5, own), own, known) == (1.5, 5.0)
    assert _moved((3.0, 3.0), 3.0, known) == (4.0, 6.0)
    assert _moved((9.0,), 9.0, known)[0] > 8.0
    assert _moved((0.5,), 0.5, known)[0] < 1.0
    assert _moved((2.0,), 3.0, known) == (2.0,)


def test_a_column_with_a_window_keeps_its_missing_values():
    from bayespatch.casebase.without import _without_value
    from bayespatch.encode.column import MISSING_NUMBER

    column = Column("chol", "windowed", "number", window=20.0, low=100.0, high=300.0, missing_is_value=True)
    rest = np.array([120.0, MISSING_NUMBER, 300.0])
    new = _without_value(column, 100.0, rest, ())
    assert 0 < new.low < 120.0
    assert new.low != 100.0
    assert _without_value(column, MISSING_NUMBER, rest, ()) == column


def test_a_removed_case_is_no_longer_among_those_that_may_be_shown():
    clf = fit(PatchworkClassifier(hyper=Hyperparameters(), shown=[2, 5, 9], **SHORT), *people())
    assert without_case(clf, 5).fitted_.shown.tolist() == [2, 8]
    assert without_case(clf, 0).fitted_.shown.tolist() == [1, 4, 8]
