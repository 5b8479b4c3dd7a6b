"""PatchworkClassifier: scikit-learn's rules, the model's own answers, and what a prediction may depend on."""

import pickle
import subprocess
import sys
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_info, threadpool_limits

from bayespatch import Hyperparameters, PatchworkClassifier
from bayespatch.datasets import load_breast, load_heart
from bayespatch.predict import PrecisionWarning, UnseenValueWarning
from tests.estimator.tables import LONGER, TINY, X, Y, fit, fitted, heart, quietly

pytestmark = [
    pytest.mark.filterwarnings("ignore::bayespatch.sampling.diagnostics.MixingWarning"),
    pytest.mark.filterwarnings("ignore::bayespatch.predict.PrecisionWarning"),
]


@pytest.fixture(scope="module")
def on_heart():
    table, y = heart()
    return fit(table[:150], y[:150], **{**LONGER, "error": 0.03}), table[200:260], y[200:260]


# scikit-learn's rules


def without_checks_of_weights(clf):
    """Copies vote on each other unless they are one group, and bins count rows; sampled votes refuse weights."""
    failed = {"check_sample_weight_equivalence_on_dense_data": "see test_sample_weight"}
    if clf.model == "II":
        refused = ("sample_weights_list", "sample_weights_not_overwritten", "classifiers_one_label_sample_weights")
        failed |= {f"check_{name}": "weights need votes in closed form" for name in refused}
    return failed


@parametrize_with_checks(
    [
        PatchworkClassifier(chains=1, draws=5, warmup=5, error=0.1),
        PatchworkClassifier.paper("II", n_parents=0.1, chains=1, draws=5, warmup=5, error=0.1),
    ],
    expected_failed_checks=without_checks_of_weights,
)
def test_every_check_of_scikit_learn(estimator, check):
    """The rules are about arguments, shapes and types: chains as short as they can be show as much as long ones."""
    check(estimator)


def test_it_learns_what_is_there_to_learn(on_heart):
    clf, table, y = on_heart
    assert clf.score(table, y) > 0.7
    probabilities = clf.predict_proba(table)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(clf.predict(table), clf.classes_[probabilities.argmax(axis=1)])


def test_names_and_tags():
    clf = fitted()
    assert list(clf.feature_names_in_) == ["pain", "age", "smokes"]
    assert clf.n_features_in_ == 3
    tags = clf.__sklearn_tags__()
    assert tags.estimator_type == "classifier"
    assert tags.input_tags.allow_nan
    assert tags.input_tags.string
    assert tags.input_tags.categorical
    assert not tags.input_tags.sparse
    assert not PatchworkClassifier(missing="error").__sklearn_tags__().input_tags.allow_nan
    assert not tags.classifier_tags.poor_score
    assert PatchworkClassifier.paper().__sklearn_tags__().classifier_tags.poor_score


def test_the_columns_must_be_those_of_the_fit():
    clf = fitted()
    with pytest.raises(ValueError, match="must be in the same order"):
        clf.predict(X[["age", "pain", "smokes"]])
    with pytest.raises(ValueError, match="Feature names unseen at fit time"):
        clf.predict(X.rename(columns={"age": "years"}))
    with pytest.raises(ValueError, match="yet now missing"):
        clf.predict(X[["pain", "age"]])
    with pytest.raises(ValueError, match="expecting 3 features"):
        quietly(lambda: clf.predict(X.to_numpy()[:, :2]))
    with pytest.raises(ValueError, match="Reshape your data"):
        clf.predict(X.to_numpy()[0])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        clf.predict(X.to_numpy()[:2])


def test_frames_of_any_make_give_the_same():
    expected = fitted().predict_proba(X)
    frame = pl.DataFrame({name: X[name].to_list() for name in X})
    clf = fit(frame, pl.Series(Y))
    np.testing.assert_array_equal(clf.predict_proba(frame), expected)
    assert list(clf.feature_names_in_) == list(X.columns)
    np.testing.assert_array_equal(fit(X.to_numpy()).predict_proba(X.to_numpy()), expected)
    np.testing.assert_array_equal(fit(X.to_numpy().tolist()).predict_proba(X.to_numpy().tolist()), expected)


@pytest.mark.parametrize(
    "y",
    [
        np.arange(24) % 2 == 0,
        pd.Series(Y, dtype="category"),
        pd.Series(Y, dtype="string"),
        np.arange(24) % 3,
        np.array(["a", "b"] * 12, dtype=object),
        (np.arange(24) % 2).astype(np.uint8),
        np.array([1.0, 2.0] * 12),
    ],
)
def test_classes_of_any_type(y):
    clf = fit(y=y)
    predicted = clf.predict(X)
    assert set(predicted.tolist()) <= set(np.unique(np.asarray(y)).tolist())
    assert clf.predict_proba(X).shape == (24, len(clf.classes_))


@pytest.mark.parametrize(
    ("y", "complaint"),
    [
        (np.linspace(0, 1, 24), "continuous"),
        (np.where(np.arange(24) == 3, np.nan, 1.0), r"1 missing outcome \(row 3\)"),
        ([None, *Y[1:]], r"1 missing outcome \(row 0\)"),
        (Y[:-1], "inconsistent numbers of samples"),
        (np.zeros((24, 2)), "1d array"),
    ],
)
def test_what_is_no_list_of_classes_is_refused(y, complaint):
    with pytest.raises(ValueError, match=complaint):
        PatchworkClassifier(**TINY).fit(X, y)


def test_a_column_of_classes_is_taken_with_a_warning():
    with pytest.warns(DataConversionWarning, match="column-vector"):
        PatchworkClassifier(**TINY).fit(X, Y[:, None])


def test_one_class_is_always_predicted():
    clf = fit(y=["only"] * 24)
    assert set(clf.predict(X)) == {"only"}
    np.testing.assert_array_equal(clf.predict_proba(X), 1)


def test_one_case_is_refused():
    with pytest.raises(ValueError, match="n_samples=1"):
        PatchworkClassifier().fit(X[:1], Y[:1])


@pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_interval", "neighbors"])
def test_before_the_fit_there_is_nothing_to_say(method):
    with pytest.raises(NotFittedError):
        getattr(PatchworkClassifier(), method)(X)
    for name in ("feature_importances_", "diagnostics_"):
        assert not hasattr(PatchworkClassifier(), name)


def test_pickle_clone_and_parameters():
    clf = fitted()
    again = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    hyper = Hyperparameters(alpha=0.3)
    copy = clone(PatchworkClassifier(hyper=hyper, parents=np.array([1, 2])))
    assert copy.hyper == hyper
    assert not hasattr(copy, "posterior_")
    assert copy.set_params(model="III", n_bins=3).get_params()["model"] == "III"
    with pytest.raises(ValueError, match="Invalid parameter"):
        copy.set_params(neighbours=3)


def test_among_the_tools_of_scikit_learn():
    tiny = PatchworkClassifier(**TINY)
    assert make_pipeline(FunctionTransformer(), tiny).fit(X, Y).score(X, Y) > 0.9
    grid = {"model": ["I", "III"], "hyper": ["auto", Hyperparameters(alpha=0.4)]}
    search = GridSearchCV(tiny, grid, cv=2, scoring="neg_log_loss").fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    calibrated = CalibratedClassifierCV(tiny, cv=2).fit(X, Y)
    assert calibrated.predict_proba(X).shape == (24, 2)
    assert len(cross_val_score(tiny, X, Y, cv=3, n_jobs=1)) == 3


def test_a_notebook_shows_it():
    assert "PatchworkClassifier" in PatchworkClassifier(model="II")._repr_html_()
    assert repr(PatchworkClassifier(model="II", draws=9)) == "PatchworkClassifier(draws=9, model='II')"


# What a prediction may depend on


def test_alone_in_a_batch_in_another_order_with_other_threads(on_heart):
    """The votes to the last bit; the second opinion is BLAS's sums, which round one row in another way than many."""
    clf, table, _ = on_heart
    votes, whole = clf.predict_votes(table), clf.predict_proba(table)
    intervals, near = clf.predict_interval(table), clf.neighbors(table)
    order = np.random.default_rng(1).permutation(len(table))
    np.testing.assert_array_equal(clf.predict_votes(table.iloc[order]), votes[order])
    np.testing.assert_allclose(clf.predict_proba(table.iloc[order]), whole[order], rtol=1e-12)
    for i in range(0, 60, 10):
        row = table.iloc[[i]]
        np.testing.assert_array_equal(clf.predict_votes(row), votes[[i]])
        np.testing.assert_allclose(clf.predict_proba(row), whole[[i]], rtol=1e-12)
        np.testing.assert_allclose(clf.predict_interval(row), intervals[[i]], rtol=1e-12)
        np.testing.assert_array_equal(clf.neighbors(row).rows, near.rows[[i]])
        np.testing.assert_array_equal(clf.neighbors(row).features, near.features[[i]])
    for n_jobs in (1, 2, 3, -2):
        np.testing.assert_array_equal(clone_of(clf, n_jobs=n_jobs).predict_votes(table), votes)
        np.testing.assert_array_equal(clone_of(clf, n_jobs=n_jobs).predict_proba(table), whole)


def predictions(clf, table):
    return clf._predictions(clf.fitted_, table)[1]


def clone_of(clf, **changes):
    """The fitted classifier with other parameters."""
    return pickle.loads(pickle.dumps(clf)).set_params(**changes)


def test_in_another_process(on_heart, tmp_path):
    clf, table, _ = on_heart
    (tmp_path / "model").write_bytes(pickle.dumps((clf, table.iloc[7:19])))
    code = (
        "import pickle, sys; clf, table = pickle.load(open(sys.argv[1], 'rb'));"
        "sys.stdout.write(clf.predict_votes(table).tobytes().hex() + ' ' + clf.predict_proba(table).tobytes().hex())"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "model"], capture_output=True, text=True, check=True)
    votes, probabilities = map(bytes.fromhex, done.stdout.split())
    assert votes == clf.predict_votes(table)[7:19].tobytes()
    # The second opinion is BLAS's sums, which round twelve rows in another way than many.
    np.testing.assert_allclose(np.frombuffer(probabilities), clf.predict_proba(table)[7:19].ravel(), rtol=1e-12)


def test_the_fit_does_not_depend_on_the_threads_of_other_libraries():
    """OpenMP and BLAS with one thread and with three: the same bytes."""
    table, y = heart(90)
    found = []
    for threads in (1, 3):
        with threadpool_limits(threads):
            assert {pool["num_threads"] for pool in threadpool_info()} == {threads}
            clf = fit(table[:80], y[:80], n_jobs=threads)
            parts = clf.posterior_.q, clf.posterior_.q_tilde, clf.loo_.votes, clf.predict_votes(table[80:])
            found.append((b"".join(part.tobytes() for part in parts), clf.predict_proba(table[80:])))
    assert found[0][0] == found[1][0]
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-9)  # the second opinion is fitted by BLAS


def test_the_fit_depends_on_the_seed_and_not_on_the_threads():
    first = fit(n_jobs=1)
    np.testing.assert_array_equal(fit(n_jobs=2).posterior_.q, first.posterior_.q)
    np.testing.assert_array_equal(fit(random_state=0).posterior_.q, first.posterior_.q)
    assert not np.array_equal(fit(random_state=1).posterior_.q, first.posterior_.q)
    states = [np.random.RandomState(5) for _ in range(2)]
    same, again = (fit(random_state=state).posterior_.q for state in states)
    np.testing.assert_array_equal(same, again)
    assert not np.array_equal(fit(random_state=states[0]).posterior_.q, same)
    assert fit(random_state=None).posterior_.seed != fit(random_state=None).posterior_.seed


def test_unseen_values_are_reported_and_match_nobody():
    clf = fitted()
    new = pd.DataFrame({"pain": ["perhaps", "yes", None], "age": [61, 58, 40], "smokes": [True, True, True]})
    for method in (clf.predict, clf.predict_proba, clf.predict_interval, clf.neighbors):
        with pytest.warns(UnseenValueWarning, match=r"'pain' \(1\)") as caught:
            method(new)
        assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.predict(new[1:2])
    assert np.isfinite(quietly(lambda: clf.predict_proba(new))).all()
    with pytest.raises(ValueError, match="fit it again with transductive=True"), pytest.warns(UnseenValueWarning):
        clone_of(clf, transductive=True).predict_proba(new)
    together = fit(transductive=True, draws=5)
    with pytest.warns(UnseenValueWarning):
        assert together.predict_proba(new).shape == (3, 2)


# The model's own answers


@pytest.mark.parametrize("supervised", [True, False])
@pytest.mark.parametrize("load", [load_heart, load_breast])
@pytest.mark.parametrize("discretize", [None, "paper"])
def test_supervised_and_unsupervised_on_both_sets(load, supervised, discretize):
    table, y = load(discretize=discretize) if discretize else load()
    importances = "predictive" if supervised else "joint"
    clf = fit(table[::2], y[::2], supervised=supervised, importances=importances, draws=20, chains=1)
    probabilities = quietly(lambda: clf.predict_proba(table[1::10]))
    assert np.isfinite(probabilities).all()
    assert clf.posterior_.settings.supervised == supervised


def test_neighbors_are_rows_of_the_table():
    clf = fit(parents=[3, 5, 8, 10, 13, 20])
    near = clf.neighbors(X[:4], top=3)
    assert set(near.rows.ravel().tolist()) <= {3, 5, 8, 10, 13, 20}
    assert near.features.shape == (4, 3, 3)
    assert clf.neighbors(X[:1], top=100).rows.shape == (1, 6)
    with pytest.raises(ValueError, match="top=0"):
        clf.neighbors(X, top=0)
    with pytest.raises(ValueError, match="'ill'"):
        clf.neighbors(X[:2], y=["sick", "ill"])
    with pytest.raises(ValueError, match="1 classes for 2 rows"):
        clf.neighbors(X[:2], y=["sick"])


def test_intervals_hold_the_probability(on_heart):
    clf, table, _ = on_heart
    narrow, wide = clf.predict_interval(table, level=0.5), clf.predict_interval(table, level=0.95)
    assert wide.shape == (60, 2, 2)
    assert (wide[..., 0] <= narrow[..., 0]).all()
    assert (narrow[..., 1] <= wide[..., 1]).all()
    probabilities = clf.predict_proba(table)
    assert ((wide[..., 0] <= probabilities) & (probabilities <= wide[..., 1])).mean() > 0.9
    for level in (0, 1, -0.5, "most"):
        with pytest.raises(ValueError, match="level="):
            clf.predict_interval(table, level=level)


def test_transductive_prediction_leaves_the_fit_alone_and_can_be_repeated():
    clf = fit(transductive=True, parents=8)
    before = clf.posterior_
    first = clf.predict_proba(X[:5])
    np.testing.assert_array_equal(clf.predict_proba(X[:5]), first)
    assert clf.posterior_ is before
    assert clf.neighbors(X[:2], y=["sick", "well"]).rows.shape == (2, 4)


def test_importances_are_those_for_predictions(on_heart):
    clf = on_heart[0]
    np.testing.assert_array_equal(clf.feature_importances_, clf.fitted_.importance.values)
    assert len(clf.feature_importances_) == clf.n_features_in_
    assert clf.diagnostics_.names[-2:] == ("slope", "log_density")
    assert clf.posterior_.steps.shape[2] == clf.n_features_in_ + 2
    joint = fit(importances="joint")
    assert joint.posterior_.steps is None
    assert joint.diagnostics_.names[-2:] == ("log_joint", "mean_neighbors")


# Base rates


def rare(n=200, seed=0):
    """A class that is rare, and told by one of four columns."""
    rng = np.random.default_rng(seed)
    table = rng.integers(3, size=(n, 4)).astype(float)
    return table, rng.random(n) < np.where(table[:, 0] == 0, 0.3, 0.05)


@pytest.mark.parametrize(
    ("settings", "weights"),
    [
        ({}, (1.0, 1.0)),
        ({"class_weight": {False: 1.0, True: 4.0}}, (1.0, 4.0)),
        ({"class_weight": "balanced"}, None),
        ({"parents": "balanced", "n_parents": 40}, (1.0, 1.0)),
        ({"parents": "random", "n_parents": 50}, (1.0, 1.0)),
    ],
    ids=str,
)
def test_a_case_of_which_nothing_is_known_has_the_base_rates(settings, weights):
    """Within two points: those of the table, weighted where classes are. More exactly than usual, or noise had two.

    Of the precedents alone and of both opinions pooled: the precedents of a fit are the same with a second opinion.
    """
    table, y = rare()
    clf = fit(table, y, **{**LONGER, "error": 0.003}, **settings)
    counts = np.array([(~y).sum(), y.sum()]) * (1.0 if weights is None else np.array(weights))
    expected = np.full(2, 0.5) if weights is None else counts / counts.sum()
    opinions = quietly(lambda: clf.predict_opinions(np.full((1, 4), np.nan)))
    for name in ("precedents", "pool"):
        np.testing.assert_allclose(opinions[name][0], expected, atol=0.02)
    np.testing.assert_allclose(clf.calibration_.base, expected, atol=1e-6)


def test_three_classes_on_real_columns_have_their_base_rates():
    table, y = heart(200)
    groups = np.where(table["age"] > 60, "old", np.where(y == y[0], "a", "b"))
    clf = fit(table, groups, **LONGER)
    nothing = table.iloc[[0]].map(lambda value: None)
    expected = [np.mean(groups == name) for name in clf.classes_]
    np.testing.assert_allclose(quietly(lambda: clf.predict_proba(nothing))[0], expected, atol=0.02)


def test_probabilities_keep_the_frequency_of_a_class_that_has_more_than_its_share_of_parents():
    """Balanced parents take half of a rare class out of the cases: base rates must know about them."""
    table, y = rare()
    clf = fit(table, y, parents="balanced", n_parents=40, second_opinion=None, **LONGER)
    assert y[clf.cases_].mean() < 0.75 * y.mean()
    assert set(clf.parents_) <= set(clf.loo_.rows)
    assert clf.predict_proba(table)[:, 1].mean() == pytest.approx(y.mean(), rel=0.15)


# The second opinion, and how exact an answer is


def test_the_second_opinion_is_pooled_with_the_precedents(on_heart):
    clf, table, _ = on_heart
    opinions = clf.predict_opinions(table)
    assert sorted(opinions) == ["additive", "pool", "precedents"]
    votes = clf.predict_votes(table)
    np.testing.assert_array_equal(opinions["precedents"], clf.calibration_.apply(votes))
    values = clf.schema_.encode(table).values
    np.testing.assert_array_equal(opinions["additive"], clf.opinion_.predict_proba(values))
    np.testing.assert_array_equal(opinions["pool"], clf.predict_proba(table))
    np.testing.assert_array_equal(opinions["pool"], clf.pool_.combine(opinions["additive"], opinions["precedents"]))
    between = np.sort([opinions["additive"][:, 1], opinions["precedents"][:, 1]], axis=0)
    assert ((between[0] - 1e-9 <= opinions["pool"][:, 1]) & (opinions["pool"][:, 1] <= between[1] + 1e-9)).all()


def test_without_a_second_opinion_there_are_the_precedents_alone():
    clf = fit(second_opinion=None)
    assert clf.opinion_ is None
    assert clf.pool_ is None
    np.testing.assert_array_equal(clf.predict_proba(X), clf.calibration_.apply(clf.predict_votes(X)))
    with pytest.raises(ValueError, match="no second opinion; fit it with second_opinion='auto'"):
        clf.predict_opinions(X)


def test_an_opinion_of_the_user_s_own():
    table, y = rare()
    clf = fit(table, y, second_opinion=LogisticRegression(C=0.5))
    opinions = clf.predict_opinions(table[:20])
    expected = LogisticRegression(C=0.5).fit(table, y).predict_proba(table[:20])
    np.testing.assert_allclose(opinions["additive"], expected, atol=1e-3)
    assert np.isfinite(clf.predict_interval(table[:5])).all()


def test_probabilities_are_as_exact_as_was_asked_for_or_it_is_said():
    table, y = heart(150)
    clf = fit(table[:120], y[:120], second_opinion=None, votes="sampled", **{**LONGER, "error": 0.03})
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrecisionWarning)
        errors = [clf.calibration_.error(part.votes_by_batch) for part in predictions(clf, table[120:])]
    assert np.concatenate(errors).max() <= 0.03
    with pytest.warns(PrecisionWarning, match=r"of 30 probabilities .* above 0.0001 \(largest: 0.0.* 16 times") as told:
        clone_of(clf, error=1e-4).predict_proba(table[120:])
    assert sum(issubclass(each.category, PrecisionWarning) for each in told) == 1
    fewer, more = (
        sum(part.n_draws.sum() for part in predictions(clone_of(clf, error=error), table[120:]))
        for error in (0.05, 0.01)
    )
    assert more > 1.5 * fewer


def test_a_second_opinion_leaves_less_to_be_exact_about():
    """It has no Monte Carlo error: as much of the probability as it has, the votes may be less exact."""
    table, y = heart(150)
    clf = fit(table[:120], y[:120], votes="sampled", **LONGER)
    alone = clone_of(clf)
    alone.fitted_ = replace(clf.fitted_, pool=None)
    used = [sum(part.n_draws.sum() for part in predictions(each, table)) for each in (clf, alone)]
    assert 0 < clf.pool_.weight < 1
    assert used[0] < used[1]
