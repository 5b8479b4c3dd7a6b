"""Tables that are too large for everybody to be a parent."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from bayespatch import PatchworkClassifier, parents
from bayespatch.estimator.base import ManyCasesWarning

RNG = np.random.default_rng(0)
X = RNG.integers(3, size=(120, 3)).astype(float)
Y = np.where(X[:, 0] + RNG.normal(size=120) / 2 > 1, "sick", "well").astype(object)
Y[7] = "rare"


@pytest.fixture(scope="module")
def fitted():
    """A model of a table that is said to be too large, and what was warned of."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for name, value in {
            "MOST_WITH_ALL": 10,
            "AUTO_PARENTS": 30,
            "LEAST_PARENTS": 30,
            "AUTO_CASES": 40,
            "LEAST_CASES": 40,
            "JUDGED_NUMBERS": 50 * 30 * 3,
        }.items():
            patch.setattr(parents, name, value)
        told = []
        clf = PatchworkClassifier(chains=2, draws=20, warmup=5, random_state=0, progress=lambda *t: told.append(t))
        clf.fit(X, Y)
    return clf.set_params(progress=False), said, told


def test_some_are_parents_some_are_cases_and_it_is_said_once(fitted):
    clf, said, _ = fitted
    assert (len(clf.parents_), len(clf.cases_), len(clf.x_)) == (30, 40, 120)
    assert not set(clf.parents_) & set(clf.cases_)
    (warning,) = [str(one.message) for one in said if one.category is ManyCasesWarning]
    assert "of 120 past cases 30 may be neighbors" in warning
    assert "tuning looked at 50" in warning
    assert "pass n_parents for another number, or parents='all'" in warning


def test_the_way_is_the_one_with_the_most_evidence(fitted):
    clf, said, _ = fitted
    ways = {t.coding: t.evidence for t in clf.tuning_.trials if t.coding.endswith(" parents")}
    assert set(ways) == {"random parents", "balanced parents", "medoids parents"}
    best = max(ways, key=ways.get).removesuffix(" parents")
    assert any(f"({best}:" in str(one.message) for one in said)


def test_every_class_has_a_parent(fitted):
    clf, _, _ = fitted
    assert set(clf.y_[clf.parents_]) == {0, 1, 2}


def test_phases_have_their_own_words(fitted):
    _, _, told = fitted
    phases = list(dict.fromkeys(phase for _, _, phase in told))
    wanted = ["tuning", "choosing parents", "importances", "warm-up", "sampling", "second opinion", "leave-one-out"]
    assert phases == wanted
    for phase in wanted:
        done = [(n, total) for n, total, which in told if which == phase]
        assert done[-1][0] == done[-1][1] or phase == "warm-up"


def test_it_is_saved_and_predicts(fitted, tmp_path):
    from bayespatch import load

    clf, _, _ = fitted
    clf.save(tmp_path / "m.bpatch")
    np.testing.assert_array_equal(load(tmp_path / "m.bpatch").predict_proba(X[:5]), clf.predict_proba(X[:5]))
    with pytest.raises(ValueError, match="already exists; pass overwrite=True"):
        clf.save(tmp_path / "m.bpatch")
    clf.save(tmp_path / "m.bpatch", overwrite=True)


def test_a_small_table_has_everybody():
    clf = PatchworkClassifier(chains=1, draws=5, warmup=0, random_state=0, second_opinion=None).fit(X[:40], X[:40, 0])
    assert len(clf.parents_) == len(clf.cases_) == 40
    assert clf.get_params()["parents"] == "auto"
