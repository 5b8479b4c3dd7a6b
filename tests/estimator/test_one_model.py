"""A refit in the midst of anything: every answer is of one model, and a refused refit changes nothing."""

import sys
import threading
import warnings

import numpy as np
import pytest

from bayespatch import Hyperparameters, PatchworkClassifier, PatchworkRegressor, load
from bayespatch.encode import Schema
from bayespatch.persistence import model_file
from tests.persistence.fitted import SHORT, fit

FAST = {**SHORT, "draws": 3, "warmup": 2, "hyper": Hyperparameters(), "bins": "quantile", "votes": "sampled"}
rng = np.random.default_rng(0)
ONE = rng.integers(0, 3, (20, 3)).astype(float), rng.integers(0, 2, 20)
TWO = rng.normal(5, 2, (26, 3)), rng.integers(0, 3, 26)
NUMBERS = rng.normal(0, 1, 20)
NEW = np.array([[0.0, 1.0, 2.0], [2.0, 2.0, 0.0], [1.0, 5.0, 4.0]])


def answers(clf):
    """What a model says, by method."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "predict": clf.predict(NEW).tolist(),
            "predict_proba": clf.predict_proba(NEW).tolist(),
            "predict_interval": clf.predict_interval(NEW).tolist(),
            "neighbors": clf.neighbors(NEW).rows.tolist(),
            "explain": [why.to_dict() for why in clf.explain_all(NEW)],
        }


@pytest.fixture(scope="module")
def known():
    return [answers(fit(PatchworkClassifier(**FAST), *data)) for data in (ONE, TWO)]


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_interval", "neighbors", "explain_all"])
def test_a_refit_in_the_midst_of_an_answer(known, monkeypatch, method):
    """The table is coded under the one model; then comes a refit; the answer is the one model's all the same."""
    clf, real = fit(PatchworkClassifier(**FAST), *ONE), Schema.encode

    def encode(schema, X):
        coded = real(schema, X)
        monkeypatch.undo()
        fit(clf, *TWO)
        return coded

    monkeypatch.setattr(Schema, "encode", encode)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = getattr(clf, method)(NEW)
    if method == "neighbors":
        found = found.rows
    if method == "explain_all":
        assert [why.to_dict() for why in found] == known[0]["explain"]
    else:
        assert found.tolist() == known[0][method]
    assert answers(clf) == known[1]


def test_an_answer_in_the_midst_of_a_refit(known, monkeypatch):
    clf, seen = fit(PatchworkClassifier(**FAST), *ONE), []
    real = PatchworkClassifier._learn

    def learn(*args, **kwargs):
        seen.append(answers(clf))
        learned = real(*args, **kwargs)
        seen.append(answers(clf))
        return learned

    monkeypatch.setattr(PatchworkClassifier, "_learn", learn)
    fit(clf, *TWO)
    assert seen == [known[0], known[0]]
    assert answers(clf) == known[1]


def test_saving_in_the_midst_of_a_refit(known, monkeypatch, tmp_path):
    clf = fit(PatchworkClassifier(**FAST), *ONE)
    real = model_file._manifest

    def manifest(*args):
        fit(clf, *TWO)
        return real(*args)

    monkeypatch.setattr(model_file, "_manifest", manifest)
    clf.save(tmp_path / "a")
    assert answers(load(tmp_path / "a")) == known[0]


@pytest.mark.parametrize(("estimator", "y"), [(PatchworkClassifier, ONE[1]), (PatchworkRegressor, NUMBERS)])
def test_a_refused_refit_leaves_the_model_as_it_was(monkeypatch, estimator, y):
    model = fit(estimator(**FAST), ONE[0], y)
    before = dict(vars(model))

    def broken(*_, **__):
        raise KeyboardInterrupt

    for X, outcomes, error in (
        (np.array([["a", "b"]] * 20), [np.nan] * 20, ValueError),  # another number of columns, and no outcomes
        (ONE[0][:, :2], [], ValueError),
        (np.full((20, 2), np.inf), y, ValueError),
        (TWO[0][:20, :2], y, KeyboardInterrupt),
    ):
        with monkeypatch.context() as patch:
            if error is KeyboardInterrupt:
                patch.setattr("bayespatch.estimator.learning.run_chains", broken)
            with pytest.raises(error):
                model.fit(X, outcomes)
        assert vars(model).keys() == before.keys()
        assert all(vars(model)[name] is value for name, value in before.items())


def test_threads_that_predict_while_another_fits(known):
    """As many switches between threads as Python makes."""
    clf = fit(PatchworkClassifier(**FAST), *ONE)
    before, stop, seen = sys.getswitchinterval(), threading.Event(), []

    def ask():
        while not stop.is_set():
            seen.append(clf.predict_proba(NEW).tolist())

    sys.setswitchinterval(1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        threads = [threading.Thread(target=ask) for _ in range(3)]
        try:
            for thread in threads:
                thread.start()
            for data in (TWO, ONE):
                clf.fit(*data)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
            sys.setswitchinterval(before)
    wanted = [one["predict_proba"] for one in known]
    assert len(seen) > 10
    assert all(found in wanted for found in seen)
