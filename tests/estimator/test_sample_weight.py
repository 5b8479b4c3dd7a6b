"""Weights of past cases: a whole number is as many copies of the row, 0 is no row."""

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_validate
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bayespatch
from bayespatch import PatchworkClassifier, PatchworkRegressor
from bayespatch.casebase.without import without_case
from bayespatch.encode import Schema
from bayespatch.second_opinion import AdditiveMean, AdditiveScore

SETTINGS = dict(chains=2, draws=24, warmup=5, random_state=0, n_jobs=1)
# The mode of the importances is where L-BFGS stops: its gradient is below 1e-5 and curvature above 1, so effects of two
# searches differ by 1e-5 and log votes by a few times as much. Folds without rows stop at 0.1 standard deviations.
EXACT, FOLDED = 2e-4, 2e-2
N = 120


def table(seed=0, n=N):
    """Categories and few levels, so that weights do not move bins; outcomes that depend on two columns."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "pain": rng.choice(["none", "mild", "severe"], n),
            "smokes": rng.choice(["no", "yes"], n),
            "stage": rng.choice(["I", "II", "III"], n),
        }
    )
    logit = 1.5 * (X["pain"] == "severe") + 1.2 * (X["smokes"] == "yes") - 1.2
    return X, (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(int)


def weights(seed=1, n=N, most=4):
    return np.random.default_rng(seed).integers(1, most, n)


def repeated(X, y, w):
    """The rows as often as their weights say, copies of one row in one group."""
    rows = np.repeat(np.arange(len(y)), w)
    return X.iloc[rows].reset_index(drop=True), y[rows], rows


def classifiers(seed=0, **settings):
    """One with weights, and one with repeated rows."""
    (X, y), w = table(seed), weights(seed + 1)
    made = [PatchworkClassifier(**SETTINGS, **settings) for _ in range(2)]
    copies, classes, group = repeated(X, y, w)
    return made[0].fit(X, y, groups=np.arange(N), sample_weight=w), made[1].fit(copies, classes, groups=group)


@pytest.mark.parametrize("settings", [{}, {"class_weight": "balanced"}, {"class_weight": {0: 1.0, 1: 3.0}}])
def test_precedents_with_weights_are_those_of_repeated_rows(settings):
    weighted, copied = classifiers(second_opinion=None, **settings)
    new = table(9)[0]
    np.testing.assert_allclose(weighted.posterior_.q, copied.posterior_.q, atol=EXACT)
    np.testing.assert_allclose(weighted.predict_votes(new), copied.predict_votes(new), atol=EXACT)
    np.testing.assert_allclose(weighted.calibration_.base, copied.calibration_.base, rtol=1e-12)
    np.testing.assert_allclose(weighted.calibration_.anchor, copied.calibration_.anchor, rtol=1e-12)
    assert weighted.calibration_.slope == pytest.approx(copied.calibration_.slope, rel=FOLDED)
    np.testing.assert_allclose(weighted.predict_proba(new), copied.predict_proba(new), atol=FOLDED)
    plain = PatchworkClassifier(**SETTINGS, second_opinion=None, **settings).fit(*table())
    assert np.abs(plain.predict_votes(new) - weighted.predict_votes(new)).max() > 10 * EXACT


def test_shares_and_explanations_count_weights():
    weighted, copied = classifiers(second_opinion=None)
    group = np.repeat(np.arange(N), weights(1))
    new = table(9)[0].iloc[:5].set_axis(list("abcde"))  # nobody's names: none of them is a past case
    for row in range(len(new)):
        one, other = (model.explain(new.iloc[[row]]) for model in (weighted, copied))
        assert one.population == pytest.approx(other.population)
        assert one.votes == pytest.approx(other.votes, abs=EXACT)
        points, of_copies = ({part.feature: part.points for part in why.attribution.features} for why in (one, other))
        assert points == pytest.approx(of_copies, abs=100 * FOLDED)
    share, of_copies = (model.neighbors(new, top=len(model.parents_)) for model in (weighted, copied))
    for i in range(len(new)):
        by_row = np.bincount(share.rows[i], share.influence[i], N)
        np.testing.assert_allclose(by_row, np.bincount(group[of_copies.rows[i]], of_copies.influence[i], N), atol=EXACT)


def test_the_pool_with_weights_is_near_that_of_repeated_rows():
    """Held-out folds of groups are cut by their sizes, so opinions on held-out rows differ by their own error."""
    weighted, copied = classifiers()
    new = table(9)[0]
    assert weighted.pool_.weight == pytest.approx(copied.pool_.weight, abs=copied.pool_.weight_sd)
    np.testing.assert_allclose(weighted.predict_proba(new), copied.predict_proba(new), atol=0.05)


def test_the_additive_score_with_weights_is_that_of_repeated_rows():
    X, y = table()
    X["age"] = np.random.default_rng(3).choice([40.0, 50.0, 60.0, 70.0, 80.0], N)
    y = np.where(X["age"] > 60, 1, y)
    w = weights()
    copies, classes, _ = repeated(X, y, w)
    schema = Schema.learn(X)
    values, of_copies = schema.encode(X).values, schema.encode(copies).values
    one = AdditiveScore.learn(schema, values, y, 2, row_weight=w.astype(float))
    other = AdditiveScore.learn(schema, of_copies, classes, 2)
    terms, of_terms = one.design.terms, other.design.terms
    assert [term.center for term in terms] == pytest.approx([term.center for term in of_terms])
    assert [term.scale for term in terms] == pytest.approx([term.scale for term in of_terms])
    np.testing.assert_allclose(one.base, other.base)
    # Evidence does not know of copies; leave-one-out, which leaves out one copy or all, is not compared.
    np.testing.assert_allclose(one.evidence[0, :5], other.evidence[0, :5], rtol=1e-6)
    number = AdditiveMean.learn(schema, values, y + X["age"].to_numpy(), w.astype(float))
    number_of_copies = AdditiveMean.learn(schema, of_copies, classes + copies["age"].to_numpy())
    np.testing.assert_allclose(number.predict(values), number_of_copies.predict(values), atol=1e-8)
    np.testing.assert_allclose(number.evidence, number_of_copies.evidence, rtol=1e-8)


def test_numbers_with_weights_are_those_of_repeated_rows():
    X, y = table()
    outcome = 2.0 * y + np.random.default_rng(4).choice([0.0, 1.0], N)
    w = weights()
    copies, numbers, group = repeated(X, outcome, w)
    settings = {**SETTINGS, "second_opinion": None, "n_outcome_bins": 2}
    weighted = PatchworkRegressor(**settings).fit(X, outcome, groups=np.arange(N), sample_weight=w)
    copied = PatchworkRegressor(**settings).fit(copies, numbers, groups=group)
    np.testing.assert_array_equal(weighted.edges_, copied.edges_)
    new = table(9)[0]
    assert weighted.kernel_density_.center == pytest.approx(copied.kernel_density_.center)
    np.testing.assert_allclose(weighted.predict(new), copied.predict(new), atol=FOLDED)
    np.testing.assert_allclose(weighted.predict_interval(new), copied.predict_interval(new), atol=0.1)


@pytest.mark.parametrize("kind", [PatchworkClassifier, PatchworkRegressor])
@pytest.mark.parametrize("as_array", [False, True])
def test_weight_0_is_a_row_left_out(kind, as_array):
    X, y = table()
    if as_array:
        X = X.to_numpy()
    w = weights().astype(float)
    w[::7] = 0.0
    kept = np.flatnonzero(w)
    rest = X[kept] if as_array else X.iloc[kept]
    one = kind(**SETTINGS).fit(X, y.astype(float), sample_weight=w)
    other = kind(**SETTINGS).fit(rest, y[kept].astype(float), sample_weight=w[kept])
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    assert len(one.x_) == len(kept)
    assert [one.ids_[i] for i in (0, 1, -1)] == [str(kept[i]) for i in (0, 1, -1)]


def test_a_class_whose_rows_all_weigh_0_is_not_learned():
    X, y = table()
    clf = PatchworkClassifier(**SETTINGS).fit(X, np.where(np.arange(N) < 5, 7, y), sample_weight=np.arange(N) >= 5)
    assert clf.classes_.tolist() == [0, 1]


def test_weights_of_1_change_nothing():
    X, y = table()
    one, other = (PatchworkClassifier(**SETTINGS).fit(X, y, sample_weight=w) for w in (np.ones(N), None))
    assert one.fitted_.sample_weight is None
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))


@pytest.mark.parametrize("kind", [PatchworkClassifier, PatchworkRegressor])
def test_weights_are_stored_and_forgotten_with_their_rows(kind, tmp_path):
    X, y = table()
    w = weights().astype(float)
    model = kind(**SETTINGS).fit(X, y, sample_weight=w, groups=np.arange(N) // 2)
    model.save(tmp_path / "m.bpatch")
    loaded = bayespatch.load(tmp_path / "m.bpatch")
    np.testing.assert_array_equal(loaded.fitted_.sample_weight, w)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    if kind is PatchworkClassifier:
        np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
        np.testing.assert_allclose(loaded.feature_importances_, model.feature_importances_)
        np.testing.assert_array_equal(without_case(model, 3).fitted_.sample_weight, np.delete(w, 3))


def test_a_second_opinion_of_the_user_is_weighted():
    X, y = table()
    numbers = np.column_stack([X[name].astype("category").cat.codes for name in X]).astype(float)
    w = weights().astype(float)
    for own in (LogisticRegression(), make_pipeline(StandardScaler(), LogisticRegression())):
        clf = PatchworkClassifier(**SETTINGS, second_opinion=own).fit(numbers, y, sample_weight=w)
        name = {} if isinstance(own, LogisticRegression) else {"logisticregression__sample_weight": w}
        alone = own.fit(numbers, y, **(name or {"sample_weight": w}))
        np.testing.assert_allclose(clf.opinion_.predict_proba(numbers), alone.predict_proba(numbers))
    with pytest.raises(ValueError, match=r"second_opinion=KNeighborsClassifier\(\) does not support sample_weight"):
        PatchworkClassifier(**SETTINGS, second_opinion=KNeighborsClassifier()).fit(numbers, y, sample_weight=w)


def test_weights_are_routed():
    X, y = table()
    w = np.where(np.arange(N) % 3 == 0, 2.0, 1.0)
    with config_context(enable_metadata_routing=True):
        model = PatchworkClassifier(**SETTINGS).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=False)
        found = cross_validate(model, X, y, cv=3, params={"sample_weight": w}, return_estimator=True)
    for fitted in found["estimator"]:
        assert set(fitted.fitted_.sample_weight) == {1.0, 2.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w: w[:-1], r"sample_weight has shape \(119,\), but there are 120 rows; pass one weight for each row"),
        (lambda w: w[:, None], r"shape \(120, 1\)"),
        (lambda w: np.where(np.arange(N) == 4, -1.0, w), "sample_weight is -1 in row 4"),
        (lambda w: np.where(np.arange(N) == 5, np.nan, w), "sample_weight is nan in row 5"),
        (lambda w: np.where(np.arange(N) == 6, np.inf, w), "sample_weight is inf in row 6"),
        (lambda w: 0.0 * w, "sample_weight is 0 in all rows"),
        (lambda w: w / w.sum(), "sample_weight adds up to 1, .* multiply the weights"),
        (lambda w: ["one"] * N, "sample_weight is not numeric"),
    ],
)
@pytest.mark.parametrize("kind", [PatchworkClassifier, PatchworkRegressor])
def test_weights_that_cannot_be(kind, change, message):
    X, y = table()
    with pytest.raises(ValueError, match=message):
        kind(**SETTINGS).fit(X, y, sample_weight=change(weights().astype(float)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"votes": "sampled"}, "sample_weight needs closed-form votes"),
        ({"model": "II"}, "sample_weight needs closed-form votes"),
        ({"importances": "joint"}, "sample_weight needs closed-form votes"),
        ({"transductive": True}, "sample_weight needs closed-form votes"),
    ],
)
def test_where_weights_cannot_be_used(settings, message):
    X, y = table()
    with pytest.raises(ValueError, match=message):
        PatchworkClassifier(**SETTINGS, **settings).fit(X, y, sample_weight=weights())


def test_a_table_in_partitions_has_no_weights():
    dd = pytest.importorskip("dask.dataframe")
    X, y = table()
    parts = dd.from_pandas(X.assign(y=y), npartitions=2)
    with pytest.raises(ValueError, match="sample_weight is not supported for a partitioned table"):
        PatchworkClassifier(**SETTINGS).fit(parts, "y", sample_weight=weights())


def test_the_gpu_has_no_weights():
    X, y = table()
    with pytest.raises(ValueError, match="engine='cuda' does not support sample_weight"):
        PatchworkClassifier(engine="cuda")._weighed(X, y, None, weights())
