"""What the estimator's own methods refuse, and abstaining; what they say is tested with explain."""

import html
import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from bayespatch import PatchworkClassifier, PatchworkRegressor, load, plot
from bayespatch.engine.installed import load_engine
from bayespatch.explain import words
from bayespatch.predict import UnseenValueWarning
from bayespatch.predict import sampled as predict
from bayespatch.report import case_page, case_report, model_page
from tests.explain.fitted import BAD, SHORT, explained, fitted, table

NEW, _ = table(20, seed=9)
SHORTER = {**SHORT, "draws": 10, "warmup": 10}


def test_it_must_be_fitted():
    for task in ("explain", "explain_past", "explain_all"):
        with pytest.raises(NotFittedError):
            getattr(PatchworkClassifier(), task)([[1]] if task == "explain_all" else 1)


@pytest.mark.parametrize(
    ("wishes", "complaint"),
    [
        ({"top": 0}, "top=0"),
        ({"level": 1.0}, "level=1.0"),
        ({"level": "high"}, "level='high'"),
        ({"quantile": 0}, "quantile=0"),
        ({"y": 7}, "are not in the training table"),
    ],
)
def test_wrong_wishes_are_refused(wishes, complaint):
    with pytest.raises(ValueError, match=complaint):
        fitted().explain(NEW.iloc[0], **wishes)


def test_a_past_case_must_be_one():
    for row in (60, -1, 1.5, "patient-1"):
        with pytest.raises(ValueError, match="row="):
            fitted().explain_past(row)


def test_nothing_but_parents_is_ever_shown(tmp_path):
    """Explanations of new and of past cases, the overview and its page: no other row is named."""
    X, y = table()
    X.index = [f"patient<{row}>" for row in range(len(X))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = PatchworkClassifier(**SHORTER, parents=list(range(0, 60, 3))).fit(X, y)
    others = [row for row in range(60) if row % 3]
    parent = int(clf.parents_[3])
    assert clf.may_be_shown(parent)
    for row in others[:3]:
        assert not clf.may_be_shown(row)
        with pytest.raises(ValueError, match=f"row={row} may not be shown: it is not a parent"):
            clf.explain_past(row)
    past, new = clf.explain_past(parent, top=20), clf.explain(X.iloc[1].to_dict(), top=20)
    assert {neighbor.index for neighbor in past.neighbors} <= set(clf.parents_.tolist()) - {parent}
    clf.report(tmp_path / "model.html")
    case_report(past, tmp_path / "case.html")
    told = [json.dumps(why.to_dict()) for why in (past, new, clf.overview())]
    told += [html.unescape((tmp_path / f"{name}.html").read_text()) for name in ("model", "case")]
    told += [past.to_text(200), repr(past)]
    for text in told:
        assert not [row for row in others if f"patient<{row}>" in text]


def test_abstaining_leaves_none():
    clf = fitted()
    plain = clf.predict(NEW)
    assert plain.dtype == clf.classes_.dtype
    for share in (0.2, 0.5, True):
        found = clf.predict(NEW, abstain=share)
        quantile = 0.05 if share is True else share
        adequate = [why.precedent.adequate for why in clf.explain_all(NEW, quantile=quantile)]
        assert [label is not None for label in found] == adequate
        assert all(a is None or a == b for a, b in zip(found, plain, strict=True))
    assert None in clf.predict(NEW, abstain=0.5).tolist()
    for wrong in (1.0, -0.1, "yes"):
        with pytest.raises(ValueError, match="abstain="):
            clf.predict(NEW, abstain=wrong)


def test_values_never_seen_warn_and_are_told():
    with pytest.warns(UnseenValueWarning):
        why = fitted().explain({"age": 44, "pain": 1, BAD: "green", "pulse": 60})
    assert [feature.name for feature in why.features if feature.unseen] == [BAD]
    assert why.values[BAD] == "green"


def test_arrays_lists_and_row_numbers():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (30, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = PatchworkClassifier(**SHORTER).fit(X, X[:, 0])
    why = clf.explain(X[4])
    assert why.id is None
    assert why.values == dict(zip(["x0", "x1", "x2"], map(str, X[4]), strict=True))
    assert why.to_dict() == clf.explain(X[[4]]).to_dict() == clf.explain(X[4].tolist()).to_dict()
    whole, alone = clf.explain_all(X)[4].to_dict(), clf.explain_all(X[[4]])[0].to_dict()
    assert whole["neighbors"] == alone["neighbors"]
    assert whole["prediction"]["votes"] == alone["prediction"]["votes"]
    assert all(neighbor.id == str(neighbor.index) for neighbor in why.neighbors)
    assert why.target == ""


def test_transductive_models_explain_too():
    X, y = table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = PatchworkClassifier(**{**SHORTER, "chains": 1}, transductive=True).fit(X, y)
        why = clf.explain(NEW.iloc[0])
    assert sum(why.probabilities.values()) == pytest.approx(1)


def test_a_stored_model_explains_as_before(tmp_path):
    clf = fitted()
    clf.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.explain(NEW.iloc[0]).to_dict() == explained().to_dict()
    assert pickle.loads(pickle.dumps(clf)).explain(NEW.iloc[0]).to_dict() == explained().to_dict()
    clf.save(tmp_path / "apart", with_cases=False)
    stored = (tmp_path / "apart").read_bytes()
    assert b"patient-" not in stored
    assert b"patient-" in (tmp_path / "model").read_bytes()
    with pytest.raises(ValueError, match="without its past cases"):
        load(tmp_path / "apart").explain(NEW.iloc[0])


def test_a_number_is_explained_by_its_mean_and_its_neighbors_own_outcomes():
    X, _ = table()
    y = pd.Series(X["age"].to_numpy() * 2, name="cost")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        regressor = PatchworkRegressor(**SHORTER).fit(X, y)
        why = regressor.explain(NEW.iloc[0])
        past = regressor.explain_past(3)
    assert why.mean == pytest.approx(regressor.predict(NEW.iloc[[0]])[0])
    np.testing.assert_allclose(why.interval, regressor.predict_interval(NEW.iloc[[0]])[0])
    assert why.target == "cost"
    assert f"{why.mean:.4g}" in words.headline(why.to_dict())
    assert all(float(neighbor.outcome) == y.iloc[neighbor.index] for neighbor in why.neighbors)
    shares = [*(group.vote_share for group in why.groups), why.ungrouped.vote_share, why.base_rates]
    assert sum(shares) == pytest.approx(1, abs=1e-6)
    assert past.outcome == f"{y.iloc[3]:g}"
    assert regressor.explain(NEW.iloc[0], y=91.5).outcome == "91.5"
    assert words.headline(why.to_dict()).startswith(f"Cost: {why.mean:.4g}; 90% prediction interval")
    assert f"<b>{why.mean:.4g}</b>" in case_page(why)
    assert words.headline(why.to_dict()) in [text.get_text() for text in plot.patchwork(why).axes[0].texts]
    other = regressor.what_if(NEW.iloc[0], {"age": 70})
    assert f"Mean of cost: {why.mean:.4g} before, {other.after.mean:.4g} after" in other.to_text()
    page = model_page(regressor.overview())
    assert "The outcome is a number" in page
    assert "abstain" not in page
    assert fitted().explain(NEW.iloc[0]).mean is None


def test_the_engine_is_that_of_the_estimator(monkeypatch):
    """All of an explanation, and `neighbors`: the GPU where asked for, the CPU for the paper's sampler."""
    clf, row = pickle.loads(pickle.dumps(fitted(chains=1, draws=5, warmup=5, votes="sampled"))), NEW.iloc[[0]]
    asked = [lambda: clf.explain(row), lambda: clf.explain_past(0), lambda: clf.neighbors(row)]
    used = []
    monkeypatch.setattr(predict, "load_engine", lambda name: used.append(name) or load_engine("cpu"))
    monkeypatch.setattr(predict, "MANY_NEIGHBORS", 0.0)  # an engine is asked for: few neighbors need none
    for engine, expected in (("cuda", "cuda"), ("paper", "cpu")):
        clf.set_params(engine=engine)
        for ask in asked:
            ask()
        assert set(used) == {expected}
        assert len(used) > 3
        used.clear()
