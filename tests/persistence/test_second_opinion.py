"""What a stored second opinion must be before it is validated."""

import copy

import numpy as np
import pandas
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from bayespatch import PatchworkClassifier, load
from bayespatch.encode import Schema
from bayespatch.persistence.atomic import StorageError
from bayespatch.persistence.second_opinion import opinion_from_arrays, opinion_to_arrays
from bayespatch.second_opinion import AdditiveMean, AdditiveScore
from tests.persistence.fitted import NUMBERS, SHORT, X, Y, fit

SCHEMA = Schema.learn(X, missing="category")
VALUES = SCHEMA.encode(X).values
CODES = (Y == "well").astype(np.int64)
SIZES = {"n": 24, "P": 5, "M": 2}
OPINIONS = {
    "AdditiveScore": (AdditiveScore.learn(SCHEMA, VALUES, CODES, 2), False),
    "AdditiveMean": (AdditiveMean.learn(SCHEMA, VALUES, NUMBERS), True),
}
NAMES = ("PatchworkClassifier", "PatchworkRegressor")


@pytest.mark.parametrize("name", OPINIONS)
def test_there_and_back(name):
    opinion, regressor = OPINIONS[name]
    arrays, stored = opinion_to_arrays(opinion)
    found = opinion_from_arrays(stored, arrays, SCHEMA, SIZES, NAMES[regressor])
    asked = (lambda one: one.predict(VALUES)) if regressor else (lambda one: one.predict_proba(VALUES))
    assert np.array_equal(asked(found), asked(opinion))
    assert opinion_from_arrays(None, {}, SCHEMA, SIZES, NAMES[regressor]) is None


def test_of_the_terms_every_number_is_looked_at():
    arrays, stored = opinion_to_arrays(OPINIONS["AdditiveScore"][0])
    refused = 0
    for j, term in enumerate(stored["numbers"]["design"]["terms"]):
        for name, before in term.items():
            wrong = [None, "x", [None], 2**70] if not isinstance(before, list) else [None, "x", ["x"], [1.0] * 99]
            for new in wrong:
                forged = copy.deepcopy(stored)
                forged["numbers"]["design"]["terms"][j][name] = new
                with pytest.raises((ValueError, TypeError)):
                    opinion_from_arrays(forged, arrays, SCHEMA, SIZES, False)
                refused += 1
    assert refused > 200


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("chol", {"scale": 5e-324}),
        ("chol", {"scale": -1.0}),
        ("chol", {"low": 1e300, "high": 1.5e300}),
        ("chol", {"low": 900.0}),
        ("chol", {"knots": [1.0, 1.0, 2.0, 3.0]}),
        ("chol", {"knots": [1.0, 2.0, 3.0, 3.0 + 1e-15]}),
        ("pain", {"levels": [0.0, 7.0, 2.0]}),
        ("pain", {"n_codes": 4}),
        ("pain", {"shares": [0.5, 0.5]}),
        ("pain", {"shares": [0.5, 0.5, 1e300]}),
        ("pain", {"scores": [1.0, 2.0, 3.0, 4.0]}),
    ],
)
def test_terms_that_contradict_each_other_are_refused(column, change):
    arrays, stored = opinion_to_arrays(OPINIONS["AdditiveScore"][0])
    stored = copy.deepcopy(stored)
    stored["numbers"]["design"]["terms"][SCHEMA.names.index(column)].update(change)
    with pytest.raises(ValueError, match=f"terms of column '{column}'|has shape"):
        opinion_from_arrays(stored, arrays, SCHEMA, SIZES, False)


def test_arrays_that_do_not_fit_are_refused():
    for opinion, regressor in OPINIONS.values():
        arrays, stored = opinion_to_arrays(opinion)
        for key, array in arrays.items():
            nan = array.copy()
            nan.flat[0] = np.inf
            if key == "opinion_.evidence":  # read by people alone
                continue
            for wrong in (array.astype(np.float32), array[..., :-1], array[None, None], nan):
                with pytest.raises((ValueError, TypeError)):
                    opinion_from_arrays(stored, {**arrays, key: wrong}, SCHEMA, SIZES, NAMES[regressor])
        with pytest.raises(ValueError, match="does not fit the outcome"):
            opinion_from_arrays(stored, arrays, SCHEMA, SIZES, NAMES[not regressor])
        with pytest.raises(ValueError, match="numbers of rows"):
            opinion_from_arrays(stored, arrays, SCHEMA, {**SIZES, "n": 23}, NAMES[regressor])


def test_a_linear_opinion_of_the_users_own_is_stored_and_no_other(tmp_path):
    numbers = np.random.default_rng(0).normal(size=(24, 2))
    saved = fit(PatchworkClassifier(second_opinion=LogisticRegression(), **SHORT), numbers, Y)
    saved.save(tmp_path / "a")
    loaded = load(tmp_path / "a")
    np.testing.assert_allclose(loaded.predict_proba(numbers[:5]), saved.predict_proba(numbers[:5]), atol=1e-12)
    assert loaded.second_opinion is None
    loaded.save(tmp_path / "b")
    tree = fit(PatchworkClassifier(second_opinion=DecisionTreeClassifier(), **SHORT), numbers, Y)
    with pytest.raises(StorageError, match="can be stored without pickle"):
        tree.save(tmp_path / "c")


def test_a_model_with_a_column_that_is_not_compared_is_saved_and_loaded(tmp_path):
    X = pandas.DataFrame({"age": [30.0, 40.0, 50.0, 60.0] * 5, "site": ["A"] * 20})
    clf = PatchworkClassifier(draws=5, warmup=5, random_state=0).fit(X, ["well", "well", "sick", "sick"] * 5)
    clf.save(tmp_path / "m.bpatch")
    np.testing.assert_array_equal(load(tmp_path / "m.bpatch").predict_proba(X), clf.predict_proba(X))
