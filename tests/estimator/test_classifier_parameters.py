"""PatchworkClassifier: what its parameters do, and a refit with more cases."""

from importlib import import_module

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans

from bayespatch import Hyperparameters, PatchworkClassifier
from bayespatch.engine import installed
from bayespatch.tune import BASE_VOTES
from tests.estimator.tables import TINY, X, Y, fit, quietly

pytestmark = pytest.mark.filterwarnings("ignore::bayespatch.sampling.diagnostics.MixingWarning")


def test_class_weights_are_weights_of_votes():
    y = np.array(["rare"] * 4 + ["usual"] * 20)
    balanced = fit(y=y, class_weight="balanced").hyper_.mu
    np.testing.assert_allclose(balanced, (3.0, 0.6))
    # Twice as much for a class that has a sixth of the cases: base rates of 2 to 5, and votes to match.
    doubled = fit(y=y, class_weight={"rare": 2.0, "usual": 1.0})
    np.testing.assert_allclose(doubled.hyper_.mu, (12 / 7, 6 / 7))
    np.testing.assert_allclose(doubled.calibration_.base, (2 / 7, 5 / 7))
    np.testing.assert_allclose(doubled.hyper_.mu0, np.multiply(BASE_VOTES, (2 / 7, 5 / 7)))
    hyper = Hyperparameters(mu=(1.0, 4.0))
    np.testing.assert_allclose(fit(y=y, hyper=hyper, class_weight="balanced").hyper_.mu, (3.0, 2.4))
    plain, weighted = (fit(y=y, class_weight=w).predict_proba(X)[:, 0].mean() for w in (None, "balanced"))
    assert weighted > plain
    with pytest.raises(ValueError, match="class_weight gives class 'rare' the weight 0"):
        fit(y=y, class_weight={"rare": 0.0, "usual": 1.0})


def test_an_engine_that_cannot_predict_samples_and_the_cpu_predicts(monkeypatch):
    monkeypatch.setitem(installed.BUILT_IN, "other", "bayespatch.engine.paper:PaperEngine")
    with pytest.raises(ValueError, match="engine='other' only samples the joint posterior; pass importances='joint'"):
        fit(engine="other")
    given = dict(importances="joint", hyper=Hyperparameters(), n_parents=6)
    other, paper = (fit(engine=name, **given) for name in ("other", "paper"))
    assert other.posterior_.settings.engine == "other"
    np.testing.assert_array_equal(other.predict_proba(X), paper.predict_proba(X))


def test_the_paper():
    clf = PatchworkClassifier.paper("III", n_parents=60, draws=7)
    assert (clf.model, clf.parents, clf.n_parents, clf.draws) == ("III", "random", 60, 7)
    assert clf.hyper == Hyperparameters.paper()
    assert PatchworkClassifier.paper(parents="balanced").parents == "balanced"
    short = PatchworkClassifier.paper(n_parents=10, **TINY).fit(X, Y)
    assert len(short.parents_) == 10
    assert len(short.cases_) == 14
    assert not set(short.parents_) & set(short.cases_)


def test_bins_and_levels_are_passed_on():
    table = pd.DataFrame({"age": np.arange(24.0), "stage": np.arange(24) % 6})
    assert fit(table, bins="quantile", n_bins=3).schema_.n_values.tolist() == [3, 6]
    assert fit(table, bins="quantile", max_levels=2).schema_.n_values.tolist() == [4, 4]
    assert fit(table, windows={"age": 2.0}).schema_.windows.tolist() == [2, 0]
    assert fit(table, bins={"age": [5, 9]}, categorical=["stage"]).schema_.n_values.tolist() == [3, 6]


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": "IV"},
        {"likelihood": "exakt"},
        {"supervised": "yes"},
        {"transductive": 1},
        {"warm_start": None},
        {"parents": "some"},
        {"parents": "random"},
        {"n_parents": 24},
        {"parents": "all", "n_parents": 5},
        {"parents": "random", "n_parents": 24},
        {"hyper": "paper"},
        {"hyper": {"alpha": 0.1}},
        {"importances": "learned"},
        {"importances": None},
        {"importances": "predictive", "supervised": False},
        {"importances": "predictive", "engine": "paper"},
        {"second_opinion": "logistic"},
        {"second_opinion": PatchworkClassifier},
        {"second_opinion": KMeans()},
        {"error": 0.0},
        {"error": 1.0},
        {"error": "small"},
        {"error": True},
        {"class_weight": "heavy"},
        {"class_weight": {"ill": 2.0}},
        {"bins": "deciles"},
        {"n_bins": 1},
        {"max_levels": -1},
        {"windows": {"weight": 3}},
        {"categorical": "age"},
        {"missing": "drop"},
        {"engine": "gpu"},
        {"chains": 0},
        {"draws": 2.5},
        {"warmup": -1},
        {"thin": 0},
        {"n_jobs": 0},
        {"n_jobs": "all"},
        {"progress": "bar"},
        {"random_state": "seed"},
    ],
    ids=str,
)
def test_wrong_parameters_are_refused_before_the_work(wrong, monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError("sampling began")

    monkeypatch.setattr(import_module("bayespatch.sampling.sampler"), "run_chains", never)
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}|{next(iter(wrong.values()))}"):
        PatchworkClassifier(**wrong).fit(X, Y)


# A refit with more cases


@pytest.mark.parametrize("parents", ["all", [2, 5, 11, 17]])
def test_a_warm_start_begins_where_the_last_fit_ended(parents):
    given = Hyperparameters(alpha=0.2)
    given = dict(hyper=given, votes="sampled")
    clf = fit(X[:20], Y[:20], warm_start=True, parents=parents, random_state=3, **given)
    old, old_parents = clf.posterior_, clf.parents_
    clf.set_params(warmup=0, draws=1)
    begun = {}

    def watch(engine, state, q, q_tilde):
        begun.setdefault(state.chain, (q, q_tilde))  # the first time; later the leave-one-out prediction does the same

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bayespatch.engine.cpu.CpuEngine.set_importance", watch)
        quietly(lambda: clf.fit(X, Y))
    assert sorted(begun) == [0, 1]
    for chain, (q, q_tilde) in begun.items():
        np.testing.assert_array_equal(q, old.q[chain, -1])
        np.testing.assert_array_equal(q_tilde[: len(old_parents)], old.q_tilde[chain, -1])
        newcomers = q_tilde[len(old_parents) :]
        assert len(newcomers) == len(clf.parents_) - len(old_parents)
        np.testing.assert_allclose(newcomers, np.broadcast_to(q, newcomers.shape), rtol=1e-6)
    assert clf.posterior_.seed != old.seed


def test_a_warm_start_with_other_parents_or_other_columns():
    clf = fit(warm_start=True, parents=[1, 4, 9], votes="sampled")
    old = clf.posterior_
    begin = clf._beginning(clf.schema_, np.array([0, 4, 9, 12]))
    np.testing.assert_array_equal(begin.q_tilde[:, 0, [1, 2]], old.q_tilde[:, -1, [1, 2]])
    np.testing.assert_allclose(begin.q_tilde[:, 0, 3], old.q[:, -1], rtol=1e-6)
    quietly(lambda: clf.set_params(parents="all").fit(X[["age", "pain"]], Y))
    assert clf.n_features_in_ == 2
    cold = fit(warm_start=False)
    assert cold._beginning(cold.schema_, cold.parents_) is None


TOO_MUCH = [("warmup", 10**12), ("draws", 10**12), ("chains", 10**12), ("thin", 10**12), ("warmup", 2**70)]


@pytest.mark.parametrize(
    ("votes", "name", "value"),
    [*((votes, *one) for votes in ("closed", "sampled") for one in TOO_MUCH), ("sampled", "warmup", 10**7)],
)
def test_impossible_chain_lengths_are_refused_before_any_work(votes, name, value, monkeypatch):
    monkeypatch.setattr("bayespatch.available_memory.available_memory", lambda: 10**9)
    monkeypatch.setattr(PatchworkClassifier, "_tuned", lambda *_: pytest.fail("work was begun"))
    rng = np.random.default_rng(0)
    clf = PatchworkClassifier(votes=votes, **{name: value})
    with pytest.raises((ValueError, MemoryError), match=f"{name}.*too large[;,] pass"):
        clf.fit(rng.integers(0, 3, (30, 4)), rng.integers(0, 2, 30))
