"""What the estimators share: leave-one-out votes, checkpoints, and a fit that fails leaves the last one alone."""

import importlib
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

from bayespatch import Hyperparameters, PatchworkClassifier, PatchworkRegressor, load
from bayespatch.calibrate import Calibration
from bayespatch.estimator import learning
from bayespatch.importances_at_scale import LeaveOneOutBatches
from bayespatch.leave_one_out import LeaveOneOutVotes
from bayespatch.metrics import log_loss
from bayespatch.persistence.atomic import StorageError
from bayespatch.persistence.file_format import read
from bayespatch.predict import predict_cases
from bayespatch.sampling.checkpoint import Checkpoint
from bayespatch.second_opinion import AdditiveScore
from bayespatch.second_opinion.user import content_folds
from tests.checkpointed import Stop, arrays_of, assert_same, stop_after

pytestmark = pytest.mark.filterwarnings("ignore::bayespatch.sampling.diagnostics.MixingWarning")

X = pd.DataFrame({"pain": ["yes", "yes", "no", "no"] * 6, "age": [61, 58, 40, 44] * 6})
Y = np.array(["sick", "sick", "well", "well"] * 6)
SHORT = dict(chains=2, draws=10, warmup=10, error=0.1, random_state=0)


def fit(**settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PatchworkClassifier(**{**SHORT, **settings}).fit(X, Y)


def test_leave_one_out_is_a_prediction_of_each_case_by_the_others():
    """Votes use importances learned without the case's fold, familiarity those of the whole table."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, (60, 3))
    y = x[:, 0] + rng.integers(0, 3, 60) > 2
    clf = PatchworkClassifier(**SHORT).fit(pd.DataFrame(x).add_prefix("x"), y)
    np.testing.assert_array_equal(clf.loo_.rows, np.arange(60))
    past, folds = clf.fitted_.past, content_folds(clf.values_, clf.y_)
    density = LeaveOneOutBatches(past, clf.posterior_.model, np.array(clf.calibration_.base))
    seed = clf.posterior_.settings.seed
    found = density.learn(seed)
    own = np.flatnonzero(folds == folds[3])
    q, log_weights, _ = density.draw(density.without(found, own), 2, 10, seed)
    alone = past._replace(x=past.x[3:4], y=np.array([-1]), own_parent=np.array([3]))
    expected = predict_cases(replace(clf.posterior_, q=q, log_weights=log_weights), alone, max_passes=1)
    np.testing.assert_allclose(clf.loo_.votes[3], expected.mean_votes()[0], atol=1e-12)
    whole = predict_cases(clf.posterior_, alone, max_passes=1)
    assert clf.loo_.familiarity[3] == whole.familiarity[0]
    assert np.abs(clf.loo_.votes[3] - whole.mean_votes()[0]).max() > 1e-4


def test_the_pool_recognizes_overfitted_importances():
    """A sum of twelve features, 150 rows: the additive opinion has the right form, and should get nearly all weight.

    With importances that knew the outcomes of the cases that they predict, its mean weight here was .7.
    """
    weights = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((150, 12))
        y = rng.random(150) < 1 / (1 + np.exp(-x @ rng.normal(0, 0.7, 12)))
        weights.append(PatchworkClassifier(random_state=0, bins="quantile").fit(x, y).pool_.weight)
    assert np.mean(weights) > 0.8


def test_the_pool_calibrates_each_fold_without_its_outcomes():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 4))
    y = (x[:, 0] + rng.standard_normal(60) > 0).astype(int)
    clf = PatchworkClassifier(random_state=0, bins="quantile").fit(x, y)
    folds, votes, map_of_all = content_folds(clf.values_, y), clf.loo_.votes, clf.calibration_
    p = np.empty((60, 2))
    for k in np.unique(folds):
        rest, own = folds != k, folds == k
        learned = Calibration.learn(votes[rest], y[rest], map_of_all.base, anchor=map_of_all.anchor)
        p[own] = learned.apply(votes[own])
    assert clf.pool_.log_loss[1] == pytest.approx(log_loss(p, y), abs=1e-9)
    assert clf.pool_.log_loss[1] > log_loss(map_of_all.apply(votes), y) + 0.001


def test_small_tables_refit_the_additive_score_without_each_tenth_of_the_rows():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 4))
    y = (x[:, 0] + 0.1 * rng.standard_normal(60) > 0).astype(int)
    clf = PatchworkClassifier(random_state=0, bins="quantile").fit(x, y)
    own = content_folds(clf.values_, y, 10) == 3
    refitted = AdditiveScore.learn(clf.schema_, clf.values_[~own], y[~own], 2).predict_proba(clf.values_[own])
    loo = clf.fitted_.opinion.loo
    np.testing.assert_allclose(loo[own], refitted, atol=1e-12)
    in_one_step = AdditiveScore.learn(clf.schema_, clf.values_, y, 2).loo
    assert log_loss(loo, y) < log_loss(in_one_step, y) - 0.005


def test_the_pool_does_not_trust_an_opinion_that_overfits():
    """A tree that memorizes its training rows: its stated log loss is that on new rows, and its weight is small."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2200, 4))
    y = rng.random(2200) < 1 / (1 + np.exp(-x[:, 0]))
    tree = DecisionTreeClassifier(random_state=0)
    clf = PatchworkClassifier(random_state=0, bins="quantile", second_opinion=tree).fit(x[:200], y[:200])
    memory, new = (clf.predict_opinions(rows)["additive"] for rows in (x[:200], x[200:]))
    assert log_loss(memory, y[:200].astype(int)) < 0.001
    assert clf.pool_.log_loss[0] == pytest.approx(log_loss(new, y[200:].astype(int)), rel=0.25)
    assert clf.pool_.weight < 0.1


def test_all_rows_are_left_out_once_and_the_learned_ones_say_what_is_usual():
    clf = fit(parents="random", n_parents=8)
    np.testing.assert_array_equal(clf.loo_.rows, np.arange(24))
    np.testing.assert_array_equal(clf.fitted_.familiarity, np.sort(clf.loo_.familiarity[clf.cases_]))


def test_where_only_parents_were_left_out_they_say_what_is_usual():
    clf = fit(parents="random", n_parents=8)
    loo = LeaveOneOutVotes(*(part[clf.parents_] for part in clf.loo_))
    np.testing.assert_array_equal(replace(clf.fitted_, loo=loo).familiarity, np.sort(loo.familiarity))


def test_a_fit_that_fails_leaves_the_last_one_alone(monkeypatch):
    clf = fit()
    before = clf.predict_proba(X)
    monkeypatch.setattr(learning, "leave_one_out_votes", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        clf.fit(X.assign(age=1.0), Y)
    np.testing.assert_array_equal(clf.predict_proba(X), before)


# Checkpoints


NUMBERS = np.tile([7.0, 6.0, 1.0, 2.0], 6) + np.arange(24) / 10


def learn(folder, estimator=PatchworkClassifier, y=Y, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator(**{**SHORT, "votes": "sampled", **settings}, checkpoint=folder).fit(X, y)


@pytest.mark.parametrize(
    ("estimator", "y", "hyper"),
    [
        (PatchworkClassifier, Y, "auto"),
        (PatchworkRegressor, NUMBERS, Hyperparameters()),
    ],
)
def test_a_fit_that_broke_off_goes_on_to_the_very_same_model(tmp_path, monkeypatch, estimator, y, hyper):
    given = dict(hyper=hyper, draws=20, warmup=20)
    plain = learn(None, estimator, y, **given)
    monkeypatch.setattr("bayespatch.sampling.chains._BLOCK_SECONDS", 0.0)  # the chains meet after every sweep
    monkeypatch.setattr(Checkpoint, "meet", Checkpoint.end)  # and are written down
    for n_saves, n_kept in ((7, 0), (13 + 9, 9)):
        with monkeypatch.context() as patch:
            stop_after(n_saves, patch)
            with pytest.raises(Stop):
                learn(tmp_path / "run", estimator, y, **given)
        assert read(tmp_path / "run" / "state.bpatch").manifest["kept"] == n_kept
    continued = learn(str(tmp_path / "run"), estimator, y, **given, n_jobs=1)
    assert_same(arrays_of(continued.posterior_), arrays_of(plain.posterior_))
    assert continued.hyper_ == plain.hyper_
    assert continued.tuning_ == plain.tuning_
    assert continued.calibration_ == plain.calibration_
    np.testing.assert_array_equal(continued.predict(X), plain.predict(X))
    np.testing.assert_array_equal(continued.predict_interval(X), plain.predict_interval(X))


def test_a_finished_fit_is_done_again_at_once_and_goes_on_with_more_draws(tmp_path, monkeypatch):
    given = dict(hyper=Hyperparameters(), engine="paper", importances="joint")
    learn(tmp_path / "run", **given)
    longer = learn(tmp_path / "run", **given, draws=25)
    assert_same(arrays_of(longer.posterior_), arrays_of(learn(None, **given, draws=25).posterior_))
    monkeypatch.setattr(importlib.import_module("bayespatch.engine.paper").PaperEngine, "sweep", None)
    again = learn(tmp_path / "run", **given, draws=25)
    np.testing.assert_array_equal(again.predict_proba(X), longer.predict_proba(X))


def test_another_fit_is_refused(tmp_path):
    given = dict(hyper=Hyperparameters())
    learn(tmp_path / "run", **given)
    for changes, said in (
        (dict(y=Y[::-1]), "another run: the data differs"),
        (dict(random_state=1), "another run: seed was"),
        (dict(model="II"), "another run: model was 'I' and is 'II'"),
        (dict(windows={"age": 3}), "the data differs"),
    ):
        with pytest.raises(StorageError, match=f"{said}.*delete the folder to start again"):
            learn(tmp_path / "run", **{**given, **changes})


@pytest.mark.parametrize("random_state", [None, np.random.RandomState(0)])
def test_a_checkpoint_needs_a_seed_that_stays(tmp_path, monkeypatch, random_state):
    monkeypatch.setattr(learning, "tune", None)
    with pytest.raises(ValueError, match=r"random_state=.*pass a number, such as random_state=0"):
        learn(tmp_path / "run", random_state=random_state)
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_one_is_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(learning, "tune", None)
    (tmp_path / "notes.txt").write_text("mine")
    for path, said in (
        (tmp_path, "contains something other"),
        (tmp_path / "no" / "run", "create it first"),
        (3, "not a path"),
    ):
        with pytest.raises(StorageError, match=said):
            learn(path)


def test_a_saved_model_does_not_name_the_folder(tmp_path):
    learn(tmp_path / "run", hyper=Hyperparameters()).save(tmp_path / "model.bpatch")
    assert load(tmp_path / "model.bpatch").checkpoint is None


@pytest.mark.parametrize("estimator", [PatchworkClassifier(), PatchworkRegressor()])
def test_columns_of_the_same_name_are_refused(estimator):
    table = pd.DataFrame(np.arange(60.0).reshape(20, 3), columns=["age", "sex", "sex"])
    with pytest.raises(ValueError, match="more than one column is named 'sex'; give every column a distinct name"):
        estimator.fit(table, [0, 1] * 10)


def test_a_number_that_is_a_text_is_refused():
    with pytest.raises(ValueError, match=r"y has texts, such as 'sick'; pass numbers, or predict classes"):
        PatchworkRegressor().fit(np.arange(20.0)[:, None], ["sick", "well"] * 10)


@pytest.mark.parametrize("kept", [False, True])
def test_laboratory_values_as_texts_are_reported(kept):
    rng = np.random.default_rng(0)
    texts = pd.Series([f"{value:.1f}".replace(".", ",") for value in rng.gamma(2.0, 3.0, 60)])
    texts[:2] = "<0,3", "haemolytic"
    table = pd.DataFrame({"crp": texts.astype("category") if kept else texts, "stage": ["1", "2", "3"] * 20})
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        PatchworkClassifier(**SHORT).fit(table, [0, 1] * 30)
    told = [str(one.message) for one in found if one.category is learning.NumbersAsTextWarning]
    assert len(told) == (0 if kept else 1)
    assert all("column 'crp' has texts, most of which look like numbers (such as '" in text for text in told)
