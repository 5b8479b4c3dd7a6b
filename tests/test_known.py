"""How much of a case is known, and that ignorance is not taken for being typical."""

import warnings

import numpy as np
import pandas as pd
import pytest

from bayespatch import PatchworkClassifier


def table(n=200, gaps=0.0, seed=0):
    """Six columns, three of which go together."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n)
    columns = {f"a{j}": np.where(rng.random(n) < 0.85, kind, rng.integers(0, 3, n)).astype(float) for j in range(3)}
    columns |= {f"b{j}": rng.integers(0, 3, n).astype(float) for j in range(3)}
    X = pd.DataFrame(columns)
    y = np.where(rng.random(n) < np.array([0.1, 0.5, 0.9])[kind], "sick", "well")
    return X.mask(rng.random(X.shape) < gaps), y


@pytest.fixture(scope="module", params=["ignore", "category", "votes"])
def clf(request):
    how = {"votes": "sampled", "warmup": 30} if request.param == "votes" else {"missing": request.param}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PatchworkClassifier(draws=30, random_state=0, n_jobs=1, **how).fit(*table())


def nothing(X):
    return X.head(1).assign(**dict.fromkeys(X.columns, np.nan))


@pytest.mark.filterwarnings("ignore")
def test_a_case_of_which_nothing_is_known_has_no_adequate_precedent(clf):
    X, _ = table()
    why = clf.explain(nothing(X))
    assert why.to_dict()["case"]["known"] == {"n": 0, "of": 6}
    assert not why.precedent.adequate
    assert why.precedent.percentile is None
    assert "too few findings are known (0 of 6). Do not rely on the answer." in why.to_text()
    assert np.isnan(clf.predict_all(nothing(X)).percentiles).all()
    assert clf.predict(nothing(X), abstain=True).tolist() == [None]


@pytest.mark.filterwarnings("ignore")
def test_fewer_than_half_of_the_features_are_too_few(clf):
    X, _ = table()
    two, three = X.iloc[[3]].copy(), X.iloc[[3]].copy()
    two.iloc[:, 2:] = three.iloc[:, 3:] = np.nan
    assert clf.explain(two).precedent.percentile is None
    assert clf.explain(three).precedent.percentile is not None


def test_percentiles_are_even_whatever_is_known():
    """Among past cases of which as much is known, percentiles of cases like them are uniform; unlike ones are low."""
    clf = PatchworkClassifier(draws=30, random_state=0, n_jobs=1, missing="ignore").fit(*table())
    new, _ = table(300, seed=5)
    hidden = new.assign(b0=np.nan, b1=np.nan, b2=np.nan)
    found = clf.predict_all(hidden).percentiles
    # The standard error of a share of .2 among 300 is .023; past cases with a fifth of the mass are 300 at most.
    assert abs((found <= 0.2).mean() - 0.2) < 0.12
    odd = hidden.iloc[:1].assign(a0=0.0, a1=1.0, a2=2.0)
    assert clf.predict_all(odd).percentiles[0] < 0.35
    assert clf.predict_all(odd).percentiles[0] < np.median(found)


def test_a_table_full_of_gaps_is_not_held_against_its_cases():
    """Where past cases have few known values themselves, a case with as few can be judged."""
    X, y = table(gaps=0.6)
    clf = PatchworkClassifier(draws=30, random_state=0, n_jobs=1, missing="ignore").fit(X, y)
    two = X[X.notna().sum(axis=1) == 2].iloc[[0]]
    assert not np.isnan(clf.predict_all(two).percentiles).any()
