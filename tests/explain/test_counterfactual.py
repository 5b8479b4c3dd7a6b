"""What would have to change: held against an exhaustive search with a judge whose answers are known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bayespatch import PatchworkClassifier
from bayespatch.encode import Schema
from bayespatch.explain.counterfactual import smallest_change

RNG = np.random.default_rng(0)
TABLE = np.column_stack([RNG.integers(4, size=80), RNG.integers(3, size=80), RNG.normal(size=80)]).astype(float)
SCHEMA = Schema.learn(TABLE, categorical=["x1"])
VALUES = SCHEMA.encode(TABLE).values
OWN = np.array([0.0, 0.0, -2.0])


def judge(needed):
    """Class 1 is predicted where the weights of the changed values reach what is needed."""

    def said(changes):
        rows = np.tile(OWN, (len(changes), 1))
        for row, change in zip(rows, changes, strict=True):
            for j, value in change.items():
                row[j] = value
        score = rows[:, 0] + 2.0 * (rows[:, 1] == 2) + rows[:, 2]
        p = 1.0 / (1.0 + np.exp(needed - score - 1e-9))
        return np.column_stack([1 - p, p]), np.ones(len(rows))

    return said


def search(needed, changeable=(0, 1, 2), most=3):
    return smallest_change(
        SCHEMA, OWN, VALUES, changeable, judge(needed), predicted=0, wanted=None, most=most, quantile=0.05
    )


@pytest.mark.parametrize("needed", [0.5, 1.5, 2.5, 4.0])
def test_no_smaller_change_would_do(needed):
    found, _ = search(needed)
    best = found[0]
    assert best.reached
    # All changes of fewer features, among all values that past cases have
    own = [sorted({*VALUES[:, j].tolist(), OWN[j]}) for j in range(3)]
    for row in itertools.product(*own):
        change = {j: value for j, value in enumerate(row) if value != OWN[j]}
        if 0 < len(change) < len(best.values):
            assert judge(needed)([change])[0][0].argmax() == 0


def test_only_what_may_change_changes_to_values_that_past_cases_have():
    found, _ = search(2.0, changeable=(0, 2))
    assert set(found[0].values) <= {0, 2}
    for j, value in found[0].values.items():
        assert value in VALUES[:, j]


def test_where_nothing_is_enough_the_closest_is_told():
    (closest,), n_tried = search(100.0)
    assert not closest.reached
    assert len(closest.values) == 3
    assert n_tried > 20


def test_the_model_says_what_the_search_promised():
    X = [["yes", 61.0], ["yes", 58.0], ["no", 40.0], ["no", 44.0]] * 6
    clf = PatchworkClassifier(draws=40, warmup=10, random_state=0).fit(X, ["sick", "sick", "well", "well"] * 6)
    found = clf.counterfactual(["no", 43.0], ["x0", "x1"], to="sick")
    assert found.found
    row = {"x0": "no", "x1": 43.0, **found.to_dict()["raw"]}
    assert clf.predict([[row["x0"], row["x1"]]])[0] == "sick"
    assert "The changed case: " in " ".join(found.sentences())
    with pytest.raises(ValueError, match="is what is predicted already"):
        clf.counterfactual(["no", 43.0], to="well")
    with pytest.raises(ValueError, match="to='ill' is not a class"):
        clf.counterfactual(["no", 43.0], to="ill")
    with pytest.raises(ValueError, match="there is no feature 'x9'"):
        clf.counterfactual(["no", 43.0], ["x9"])
