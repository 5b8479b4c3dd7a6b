"""Points of thousands of real and simulated rows add up, and agree with brute force where that is affordable."""

import time
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import spearmanr
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine, make_classification

from bayespatch import PatchworkClassifier, PatchworkRegressor, datasets

N_ROWS = 200  # of each of the five tables
SHORT = dict(chains=2, draws=60, warmup=60, random_state=0)


def simulated():
    values, y = make_classification(400, 34, n_informative=12, n_redundant=6, random_state=0)
    X = pd.DataFrame(values).add_prefix("x")
    return X.mask(np.random.default_rng(0).random(X.shape) < 0.1), y


def bunch(load):
    found = load(as_frame=True)
    return found.data, found.target


TABLES = {
    "heart": datasets.load_heart,
    "breast cancer": lambda: bunch(load_breast_cancer),
    "wine, three classes": lambda: bunch(load_wine),
    "34 features, missing values": simulated,
    "diabetes, a number": lambda: bunch(load_diabetes),
}


@pytest.mark.parametrize("name", list(TABLES))
def test_points_add_up_on_random_rows(name):
    X, y = TABLES[name]()
    maker = PatchworkRegressor if "number" in name else PatchworkClassifier
    rng = np.random.default_rng(1)
    rows = X.iloc[rng.integers(0, len(X), N_ROWS)].reset_index(drop=True)
    for column in rows:  # rows that nobody has: values from any row, some of them missing
        rows[column] = rng.permutation(rows[column].to_numpy())
    rows = rows.mask(rng.random(rows.shape) < 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = maker(**SHORT).fit(X, y)
        found = [why.to_dict() for why in model.explain_all(rows)]
    for why in found:
        parts, said = why["attribution"], why["prediction"]
        scale = 1.0 if parts["class"] is None else 100.0
        total = said["mean"] if parts["class"] is None else said["probabilities"][parts["class"]]
        points = sum(one["points"] for one in parts["features"])
        assert scale * parts["base"] + points == pytest.approx(scale * total, abs=1e-8)
        if parts["class"] is not None:
            assert parts["error"] < 3.0


def test_sampled_sets_agree_with_permutations_of_predictions():
    """Of 16 features, too many for all sets: the mean over random orders of predictions with values set to missing.

    The tolerance is four standard errors of both, and half a point for the draws that `predict_proba` adds up in
    single precision.
    """
    values, y = make_classification(200, 16, n_informative=6, n_redundant=2, random_state=3)
    X = pd.DataFrame(values).add_prefix("x")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = PatchworkClassifier(**SHORT, missing="ignore").fit(X[5:], y[5:])
        case = X.iloc[[2]]
        found = clf.explain(case).to_dict()["attribution"]
        rng, n_orders = np.random.default_rng(0), 60
        orders = np.array([rng.permutation(16) for _ in range(n_orders)])
        orders = np.concatenate([orders, orders[:, ::-1]])
        known = np.zeros((len(orders), 17, 16), dtype=bool)
        for k, order in enumerate(orders):
            for step, j in enumerate(order):
                known[k, step + 1 :, j] = True
        filled = np.where(known.reshape(-1, 16), case.to_numpy(), np.nan)
        p = 100.0 * clf.predict_proba(pd.DataFrame(filled, columns=X.columns))[:, -1].reshape(len(orders), 17)
    gains = np.empty((len(orders), 16))
    for k, order in enumerate(orders):
        gains[k, order] = np.diff(p[k])
    pairs = gains.reshape(2, n_orders, 16).mean(axis=0)
    error = np.hypot(pairs.std(axis=0, ddof=1) / np.sqrt(n_orders), found["error"])
    points = {one["feature"]: one["points"] for one in found["features"]}
    assert np.all(np.abs([points[name] for name in X.columns] - pairs.mean(axis=0)) < 4 * error + 0.5)
    assert found["error"] > 0.0


def test_points_rank_like_changes_when_a_value_is_set_to_missing():
    """On 40 held-out patients of the heart data, with the probability as the measure of change."""
    X, y = datasets.load_heart()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = PatchworkClassifier(**SHORT).fit(X[40:], y[40:])
    agree = []
    for i in range(40):
        case = X.iloc[[i]]
        known = [name for name in X.columns if case[name].notna().item()]
        without = pd.concat([case, *(case.assign(**{name: np.nan}) for name in known)])
        p = clf.predict_proba(without)[:, -1]
        points = {one["feature"]: one["points"] for one in clf.explain(case).to_dict()["attribution"]["features"]}
        agree.append(spearmanr([points[name] for name in known], p[0] - p[1:]).statistic)
    assert np.mean(agree) > 0.8


def test_points_cost_at_most_three_times_the_rest_of_an_explanation(monkeypatch):
    from bayespatch.explain import build

    spent, attribution_of = [], build.attribution_of

    def timed(*args):
        began = time.process_time()
        found = attribution_of(*args)
        spent.append(time.process_time() - began)
        return found

    monkeypatch.setattr(build, "attribution_of", timed)
    for load in (datasets.load_heart, lambda: bunch(load_breast_cancer), simulated):
        X, y = load()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf = PatchworkClassifier(**SHORT, n_jobs=1).fit(X, y)
            clf.explain(X.iloc[[0]])  # compiles and fills caches
            spent.clear()
            began = time.process_time()
            for i in range(1, 9):
                clf.explain(X.iloc[[i]])
            total = time.process_time() - began
        assert len(spent) == 8
        assert sum(spent) < 3.0 * (total - sum(spent))
