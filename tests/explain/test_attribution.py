"""What each value adds to the prediction: Shapley values of the pooled answer."""

import math
import warnings
from functools import cache
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from bayespatch import PatchworkClassifier, PatchworkRegressor
from bayespatch.explain.attribution import Sets
from bayespatch.predict import SubsetVoter, all_subsets, predict_cases

SHORT = dict(chains=2, draws=40, warmup=40, random_state=0, n_jobs=1)


def cases(n, seed, n_classes=2):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "age": rng.normal(60, 10, n).round(),
            "pain": rng.choice(["none", "some", "much"], n),
            "fever": rng.choice(["no", "yes"], n),
            "pulse": rng.normal(80, 12, n).round(),
        }
    )
    score = (X.age - 60) / 10 + 1.5 * (X.pain == "much") + (X.fever == "yes") + rng.normal(0, 1, n)
    return X, np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes)), score.to_numpy()


@cache
def fitted(kind="two", **settings):
    X, y, score = cases(150, 0, 4 if kind == "four" else 2)
    maker = PatchworkRegressor if kind == "number" else PatchworkClassifier
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return maker(**SHORT, **settings).fit(X, score if kind == "number" else y)


def shapley(value, p):
    """By the definition."""
    found = np.zeros(p)
    for j in range(p):
        others = [k for k in range(p) if k != j]
        for s in range(p):
            weight = math.factorial(s) * math.factorial(p - s - 1) / math.factorial(p)
            for members in combinations(others, s):
                found[j] += weight * (value({*members, j}) - value(set(members)))
    return found


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("two", {}),
        ("two", {"second_opinion": None}),
        ("four", {}),
        ("number", {}),
        ("number", {"second_opinion": None}),
    ],
)
def test_points_are_the_shapley_values_of_predictions_with_values_set_to_missing(kind, settings):
    model = fitted(kind, **settings)
    X, _, _ = cases(3, 7)
    for row in range(len(X)):
        found = model.explain(X.iloc[[row]]).to_dict()["attribution"]

        @cache
        def predict(known, row=row, found=found):
            case = X.iloc[[row]].astype({"age": float, "pulse": float}).copy()
            for name in set(X.columns) - known:
                case[name] = np.nan if name in ("age", "pulse") else None
            if kind == "number":
                return float(model.predict(case)[0])
            return 100.0 * model.predict_proba(case)[0, list(map(str, model.classes_)).index(found["class"])]

        names = list(X.columns)
        by_definition = shapley(lambda known: predict(frozenset(names[k] for k in known)), 4)  # noqa: B023
        points = {one["feature"]: one["points"] for one in found["features"]}
        assert found["error"] == 0.0
        np.testing.assert_allclose([points[name] for name in names], by_definition, atol=2e-3)


@pytest.mark.parametrize("kind", ["two", "four", "number"])
def test_points_add_up_from_the_base_rate_to_the_prediction(kind):
    model = fitted(kind)
    X, _, _ = cases(20, 3)
    X.loc[::3, "age"] = np.nan
    for why in model.explain_all(X):
        found, prediction = why.to_dict()["attribution"], why.to_dict()["prediction"]
        total = prediction["mean"] if kind == "number" else prediction["probabilities"][found["class"]]
        assert found["total"] == total
        scale = 1.0 if kind == "number" else 100.0
        assert scale * found["base"] + sum(one["points"] for one in found["features"]) == pytest.approx(scale * total)
        for one in found["features"]:
            assert one["precedents"] + one["additive"] == pytest.approx(one["points"], abs=1e-9)
            assert one["value"] != "missing" or one["points"] == 0.0
        sizes = [abs(one["points"]) for one in found["features"]]
        assert sizes == sorted(sizes, reverse=True)


def test_of_two_classes_the_last_is_explained_and_of_more_the_predicted_one():
    X, _, _ = cases(10, 5)
    assert {why.attribution.label for why in fitted("two").explain_all(X)} == {"1"}
    found = fitted("four").explain_all(X)
    assert [why.attribution.label for why in found] == [why.predicted for why in found]


def test_with_two_classes_the_part_of_the_additive_score_is_its_own_share_of_the_pool():
    model = fitted("two")
    why = model.explain(cases(1, 11)[0]).to_dict()
    additive = sum(one["additive"] for one in why["attribution"]["features"])
    opinions = why["opinions"]
    assert additive == pytest.approx(100 * opinions["weight"] * (opinions["additive"]["1"] - opinions["base"]["1"]))


def test_sampled_sets_agree_with_all_of_them_within_their_error():
    rng = np.random.default_rng(0)
    p = 12
    known = all_subsets(p)
    effects, pairs = rng.normal(size=p), np.triu(rng.normal(size=(p, p)), 1)
    value = lambda sets: np.tanh(0.4 * (sets @ effects) + 0.2 * np.einsum("kj,jl,kl->k", sets, pairs, sets))  # noqa: E731
    exact = Sets.every(p).solver @ value(known.astype(float))
    off = []
    for seed in range(20):
        some = Sets.sampled(p, 300, np.random.default_rng(seed))
        values = value(some.known.astype(float))
        found = some.solver @ values
        assert found.sum() == pytest.approx(values[-1] - values[0])
        left_out = some.without @ values
        error = np.sqrt(7 / 8 * ((left_out - left_out.mean(axis=0)) ** 2).sum(axis=0))
        off.append((found - exact) / error)
    assert 0.5 < np.sqrt(np.mean(np.square(off))) < 1.6  # a jackknife over eight groups has heavy tails


def test_votes_on_subsets_are_those_of_cases_with_the_other_values_missing():
    model = fitted("two", second_opinion=None)
    X, _, _ = cases(1, 4)
    posterior, case, _ = model._new_cases(model.fitted_, X, None)
    voter = SubsetVoter.of(posterior, case, np.arange(4))
    sets = all_subsets(4)
    x = np.where(sets, case.x[0], np.nan)
    cases_ = case._replace(x=x, y=np.full(16, -1), own_parent=np.full(16, -1))
    votes = predict_cases(posterior, cases_).mean_votes()
    for seen in (voter.vote_on_all(), voter.vote_on(sets)):
        cast = seen.cast[0] + (1.0 - seen.cast[0].sum(axis=1, keepdims=True)) / 2
        np.testing.assert_allclose(cast, votes, atol=1e-5)


def test_sampled_past_cases_give_the_votes_of_all_within_their_error(monkeypatch):
    from bayespatch.predict import subsets

    model = fitted("two", second_opinion=None)
    posterior, case, _ = model._new_cases(model.fitted_, cases(1, 4)[0], None)
    sets = all_subsets(4)
    exact = SubsetVoter.of(posterior, case, np.arange(4)).vote_on(sets).cast[0]
    monkeypatch.setattr(subsets, "MOST_PATTERNS", 40)
    some = SubsetVoter.of(posterior, case, np.arange(4)).vote_on(sets)
    assert len(some.cast) == subsets.N_BATCHES
    assert some.omitted == 1.0
    error = some.cast.std(axis=0, ddof=1) / np.sqrt(len(some.cast))
    np.testing.assert_array_less(np.abs(some.cast.mean(axis=0) - exact), 5 * error + 1e-3)


@pytest.mark.parametrize("kind", ["two", "three", "number"])
def test_points_from_sampled_sets_are_those_of_all_sets_within_their_error(kind, monkeypatch):
    from sklearn.datasets import make_classification

    n_classes = 3 if kind == "three" else 2
    values, y = make_classification(160, 12, n_informative=6, n_classes=n_classes, random_state=2)
    settings = dict(chains=2, draws=20, random_state=0, n_jobs=1)  # few draws, so that all of them are used
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "number":
            model = PatchworkRegressor(**settings).fit(values[:, 1:], values[:, 0] + y)
        else:
            model = PatchworkClassifier(**settings).fit(values, y)
        row = values[:1, 1:] if kind == "number" else values[:1]

        def points():
            why = model.explain(row).to_dict()["attribution"]
            return {one["feature"]: one["points"] for one in why["features"]}, why["error"]

        exact, error = points()
        assert error == 0.0
        monkeypatch.setattr(SubsetVoter, "affords_all", lambda self: False)
        misses, errors = [], []
        for seed in range(10):
            sets = Sets.sampled(len(exact), 150, np.random.default_rng(seed))
            monkeypatch.setattr("bayespatch.explain.attribution._sets_for", lambda voter, sets=sets: sets)
            some, error = points()
            assert sum(some.values()) == pytest.approx(sum(exact.values()), abs=1e-8)
            misses.append(max(abs(some[name] - exact[name]) for name in exact))
            errors.append(error)
    assert np.mean(misses) < 2.0 * np.mean(errors)
    assert np.max(misses) < 5.0 * np.mean(errors)
