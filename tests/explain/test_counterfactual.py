"""The smallest change: held against exhaustive search on small problems."""

import itertools

import numpy as np
import pandas as pd
import pytest

from bayespatch import PatchworkClassifier
from bayespatch.encode import Schema
from bayespatch.explain.smallest_change import candidates, in_order_of_size, smallest_change


def random_problem(seed):
    """Candidates of a few features, and a judge with interactions, whose answers change in no simple order."""
    rng = np.random.default_rng(seed)
    n_features = int(rng.integers(2, 5))
    table = np.column_stack([rng.integers(0, 6, 30).astype(float) for _ in range(n_features)])
    schema = Schema.learn(table, categorical=["x0"])
    values = schema.encode(table).values
    own = values[0]
    weights, pairs = rng.normal(size=n_features), np.triu(rng.normal(size=(n_features, n_features)), 1)
    needed = rng.normal(1.0, 3.0)

    def judge(changes):
        rows = np.tile(own, (len(changes), 1))
        for row, change in zip(rows, changes, strict=True):
            row[list(change)] = list(change.values())
        gaps = rows - own
        score = gaps @ weights + np.einsum("nj,jk,nk->n", gaps, pairs, gaps) - abs(needed)
        p = 1.0 / (1.0 + np.exp(-score))
        return np.column_stack([1.0 - p, p])

    single = {j: candidates(schema, j, float(own[j]), values[:, j]) for j in range(n_features)}
    return single, judge


def by_brute_force(single, judge, most):
    """Size of the smallest change that is reached, None if none is."""
    sizes = []
    for n in range(1, most + 1):
        for features in itertools.combinations(single, n):
            for chosen in itertools.product(*(single[j] for j in features)):
                change = {j: value for j, (value, _) in zip(features, chosen, strict=True)}
                if judge([change])[0, 1] > 0.5:
                    sizes.append(sum(size for _, size in chosen))
    return min(sizes, default=None)


@pytest.mark.parametrize("part", range(4))
def test_no_change_is_smaller_in_two_hundred_random_problems(part):
    n_reached = 0
    for seed in range(50 * part, 50 * (part + 1)):
        single, judge = random_problem(seed)
        found = smallest_change(single, judge, predicted=0, wanted=None, most=3, budget=100_000)
        expected = by_brute_force(single, judge, 3)
        assert found.proven
        assert found.reached == (expected is not None)
        if expected is not None:
            n_reached += 1
            assert found.size == pytest.approx(expected)
            assert judge([found.values])[0, 1] > 0.5
    assert 10 < n_reached < 50


def test_a_search_that_is_cut_short_says_so():
    n_smallest = 0
    for seed in range(60):
        single, judge = random_problem(seed)
        found = smallest_change(single, judge, predicted=0, wanted=None, most=3, budget=5)
        expected = by_brute_force(single, judge, 3)
        if found.reached:
            assert judge([found.values])[0, 1] > 0.5
            assert found.size >= expected - 1e-12
            n_smallest += found.size == pytest.approx(expected)
            assert found.proven == (found.size <= found.tried_up_to)
        else:
            assert not found.proven or expected is None
    assert n_smallest > 10


def test_changes_come_in_the_order_of_their_size_and_each_once():
    single, _ = random_problem(3)
    every = list(in_order_of_size(single, 3))
    sizes = [size for size, _ in every]
    assert sizes == sorted(sizes)
    count = 0
    for n in (1, 2, 3):
        for features in itertools.combinations(single, n):
            count += int(np.prod([len(single[j]) for j in features]))
    assert len(every) == count == len({tuple(sorted(values.items())) for _, values in every})


def test_sizes_are_the_shares_of_past_cases_that_are_passed():
    values = np.array([1.0, 2.0, 2.0, 3.0, 8.0, 9.0, 9.5, 10.0, 11.0, 12.0])
    schema = Schema.learn(values[:, None])
    found = dict(candidates(schema, 0, 3.0, values))
    assert found[2.0] == 0.2
    assert found[1.0] == pytest.approx(0.3)
    assert found[8.0] == 0.1
    assert found[12.0] == 0.6
    assert 3.0 not in found


def patients(n=300, seed=1):
    rng = np.random.default_rng(seed)
    age, sugar = rng.integers(30, 80, n).astype(float), rng.gamma(4.0, 30.0, n).round()
    sick = rng.random(n) < 1 / (1 + np.exp(-(0.12 * (age - 55) + 0.02 * (sugar - 120))))
    X = pd.DataFrame({"age": age, "sugar": sugar, "smoker": rng.choice(["yes", "no"], n)})
    return X, np.where(sick, "sick", "well")


@pytest.fixture(scope="module")
def clf():
    return PatchworkClassifier(draws=50, random_state=0, n_jobs=1).fit(*patients())


def test_a_number_moves_no_further_than_it_has_to(clf):
    """Not to the maximum of a column where a part of the way, to a value that a past case has, is enough."""
    X, _ = patients()
    new, _ = patients(10, seed=2)
    n_moved = 0
    for i in range(10):
        row = new.iloc[i].to_dict()
        found = clf.counterfactual(row, ["age", "sugar"], most=1)
        if not found.found:
            continue
        assert found.proven
        ((name, value),) = found.to_dict()["raw"].items()
        n_moved += 1
        before = clf.predict(pd.DataFrame([row]))[0]
        between = X[name][(X[name] > min(row[name], value)) & (X[name] < max(row[name], value))].unique()
        if len(between):
            rows = pd.DataFrame([{**row, name: other} for other in between])
            assert (clf.predict(rows) == before).all()
        assert clf.predict(pd.DataFrame([{**row, name: value}]))[0] != before
    assert n_moved > 3


def test_a_past_case_that_is_changed_does_not_vote_on_itself(clf):
    """The prediction of the search is that of the explanation, in which the case itself is left out."""
    X, _ = patients()
    for i in range(4):
        found = clf.counterfactual(X.iloc[i], most=2)
        changed = X.iloc[[i]].assign(**found.to_dict()["raw"])
        after = found.what_if.after.probabilities
        assert found.found == (found.what_if.after.predicted != found.what_if.before.predicted)
        assert after["sick"] != pytest.approx(clf.predict_proba(changed)[0, 0], abs=1e-9)


def test_the_model_says_what_the_search_promised():
    X = [["yes", 61.0], ["yes", 58.0], ["no", 40.0], ["no", 44.0]] * 6
    clf = PatchworkClassifier(draws=40, warmup=10, random_state=0).fit(X, ["sick", "sick", "well", "well"] * 6)
    found = clf.counterfactual(["no", 43.0], ["x0", "x1"], to="sick")
    assert found.found
    row = {"x0": "no", "x1": 43.0, **found.to_dict()["raw"]}
    assert clf.predict([[row["x0"], row["x1"]]])[0] == "sick"
    assert "The smallest change" in found.sentences()[0]
    with pytest.raises(ValueError, match="is already the predicted class"):
        clf.counterfactual(["no", 43.0], to="well")
    with pytest.raises(ValueError, match="to='ill' is not a class"):
        clf.counterfactual(["no", 43.0], to="ill")
    with pytest.raises(ValueError, match=r"there is no feature 'X1'; did you mean 'x1'\?"):
        clf.counterfactual(["no", 43.0], ["X1"])
    with pytest.raises(ValueError, match="there is no feature 'x9'"):
        clf.counterfactual(["no", 43.0], ["x9"])
