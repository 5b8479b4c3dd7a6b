"""Who may vote and who may be shown are two questions: everybody votes, and only some are named."""

import json

import numpy as np
import pytest

import bayespatch
from bayespatch import Hyperparameters, PatchworkClassifier, PatchworkRegressor
from bayespatch.report.pages import case_page
from tests.persistence.fitted import SHORT

SHOWN = [3, 8, 21, 40, 41]


def table(n=60):
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(3, size=n), rng.integers(2, size=n), rng.normal(50.0, 10.0, n).round(1)])
    return X, np.where(X[:, 0] + rng.integers(2, size=n) > 1, "sick", "well")


@pytest.fixture(scope="module")
def two():
    X, y = table()
    settings = {"hyper": Hyperparameters(), **SHORT}
    return PatchworkClassifier(**settings).fit(X, y), PatchworkClassifier(shown=SHOWN, **settings).fit(X, y)


def test_everybody_votes(two):
    everyone, few = two
    X, _ = table()
    assert np.array_equal(everyone.predict_proba(X), few.predict_proba(X))
    for row in X[:5]:
        one, other = (clf.explain(list(row)).to_dict() for clf in two)
        for part in ("prediction", "attribution", "opinions", "precedent"):
            assert one[part] == other[part]
        counted = [[{k: v for k, v in g.items() if k != "closest"} for g in why["groups"]] for why in (one, other)]
        assert counted[0] == counted[1]


def named(part):
    """Rows under "index" anywhere in an explanation, and in the lists of a feature."""
    if isinstance(part, dict):
        found = {part["index"]} if "index" in part else set()
        return found.union(*map(named, part.values())) if part else found
    return set().union(*map(named, part)) if isinstance(part, list) and part else set()


def test_only_those_who_may_be_shown_are_named(two):
    _, few = two
    X, _ = table()
    for i in range(0, 60, 7):
        why = json.loads(json.dumps(few.explain(list(X[i])).to_dict()))
        assert named(why) <= set(SHOWN)
        assert {row for feature in why["features"] for row in feature["neighbors"]} <= set(SHOWN)
        assert not {row for warning in why["case"]["warnings"] for row in range(60) if f"#{row} " in warning} - set(
            SHOWN
        )
    assert set(few.neighbors(X[:5], top=9).rows.ravel().tolist()) <= set(SHOWN)
    seen = few.overview()
    assert {case.index for case in (*seen.influential, *seen.unusual)} <= set(SHOWN)
    assert set(few.has_as_neighbor(0)[0].tolist()) <= set(SHOWN)


def test_others_cannot_be_asked_for(two):
    _, few = two
    assert few.explain_past(8).id == "8"
    with pytest.raises(ValueError, match="row=9 may not be shown"):
        few.explain_past(9)
    assert few.may_be_shown(8)
    assert not few.may_be_shown(9)


def test_a_counterfactual_offers_only_values_of_those_who_may_be_shown(two):
    _, few = two
    X, _ = table()
    allowed = {float(X[row, 2]) for row in SHOWN}
    for row in X[:12]:
        found = few.counterfactual(list(row)).to_dict()
        assert {float(value) for name, value in found["raw"].items() if name == "x2"} <= allowed


def test_the_file_keeps_who_may_be_shown(two, tmp_path):
    _, few = two
    few.save(tmp_path / "model.bpatch")
    loaded = bayespatch.load(tmp_path / "model.bpatch")
    assert loaded.fitted_.shown.tolist() == SHOWN
    assert not loaded.may_be_shown(9)


def test_a_single_case_that_may_be_shown_is_explained_by_all_others():
    X, y = table()
    clf = PatchworkClassifier(hyper=Hyperparameters(), shown=[3], **SHORT).fit(X, y)
    why = clf.explain_past(3).to_dict()
    assert why["neighbors"] == []
    assert all(group["closest"] is None for group in why["groups"])
    assert sum(group["size"] for group in why["groups"]) > 1


def test_pages_show_groups_without_a_closest_patient():
    X, y = table()
    clf = PatchworkClassifier(hyper=Hyperparameters(), shown=[3], **SHORT).fit(X, y)
    why = clf.explain_past(3)
    assert "</html>" in case_page(why)
    assert str(why)


def test_a_number_is_drawn_at_random():
    X, y = table()
    one, same = (PatchworkClassifier(hyper=Hyperparameters(), shown=7, **SHORT).fit(X, y) for _ in range(2))
    assert len(one.fitted_.shown) == 7
    assert np.array_equal(one.fitted_.shown, same.fitted_.shown)


def test_regression():
    X, _ = table()
    clf = PatchworkRegressor(hyper=Hyperparameters(), shown=SHOWN, **SHORT).fit(X, X[:, 2])
    assert named(json.loads(json.dumps(clf.explain(list(X[0])).to_dict()))) <= set(SHOWN)


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"shown": "some"}, "shown='some' is not valid"),
        ({"shown": 0}, "shown=0"),
        ({"shown": [60]}, "shown names row 60, but rows are numbered from 0 to 59"),
        ({"shown": [1, 1]}, "shown names row 1 more than once"),
        ({"shown": [1], "parents": [2, 3, 4]}, "shown names row 1, which does not vote"),
        ({"shown": [1], "votes": "sampled"}, "needs closed-form votes; pass shown='all', or restrict parents"),
    ],
)
def test_what_is_refused(settings, complaint):
    with pytest.raises(ValueError, match=complaint):
        PatchworkClassifier(**SHORT, **settings).fit(*table())
