"""The additive score."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_limits

from bayespatch import metrics
from bayespatch.second_opinion import AdditiveScore, logistic
from bayespatch.second_opinion import additive as module
from tests.second_opinion.tables import clinic, coded


def learned(n=300, n_classes=2, missing="category", share=0.05, seed=0, class_weight=None):
    rows, y, p = clinic(n, n_classes, share, seed)
    schema, values = coded(rows, missing)
    return AdditiveScore.learn(schema, values, y, n_classes, class_weight), schema, values, y, p


@pytest.fixture(scope="module")
def two():
    return learned()


@pytest.fixture(scope="module")
def three():
    return learned(n_classes=3)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_leave_one_out_is_what_a_fit_without_the_row_says(n_classes):
    score, schema, values, y, _ = learned(n=80, n_classes=n_classes, share=0.0)
    error = []
    for i in range(0, 80, 16):
        rest = np.arange(80) != i
        without = AdditiveScore.learn(schema, values[rest], y[rest], n_classes)
        error.append(without.predict_proba(values[i : i + 1])[0] - score.loo[i])
    # One Newton step; scales, knots, base rate and the shares of the priors are those of all rows. What 80 rows leave
    # open about a probability is about .1.
    assert np.abs(error).mean() < 0.02
    assert np.abs(error).max() < 0.08


def test_leave_one_out_is_not_flattered_by_the_choice_of_priors():
    """80 rows, 16 columns with weak effects: the stated leave-one-out log loss is what new cases get, on average.

    The log loss of the true probabilities, on the same rows, says how lucky the rows were. With shares of the priors
    that knew the row, the mean gap here was -.035.
    """
    gaps = []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        numbers, codes = rng.standard_normal((1080, 8)), rng.integers(3, size=(1080, 8))
        levels = rng.normal(0, 0.5, (8, 3))[np.arange(8), codes].sum(axis=1)
        p = expit(numbers @ rng.normal(0, 0.35, 8) + levels - 0.8)
        y = (rng.random(1080) < p).astype(int)
        rows = [[*row, *("abc"[code] for code in own)] for row, own in zip(numbers.tolist(), codes, strict=True)]
        schema, values = coded(rows[:80])
        score = AdditiveScore.learn(schema, values, y[:80], 2)
        stated = score.predict_proba(schema.encode(rows[80:]).values)[:, 1]
        on_new = -(p[80:] * np.log(stated) + (1 - p[80:]) * np.log(1 - stated)).mean()
        entropy = -(p * np.log(p) + (1 - p) * np.log(1 - p))[:80].mean()
        luck = -np.log(np.where(y == 1, p, 1 - p))[:80].mean() - entropy
        gaps.append(metrics.log_loss(score.loo, y[:80]) - luck - on_new)
    assert abs(np.mean(gaps)) < 0.02


@pytest.mark.parametrize("n_classes", [2, 3])
def test_points_add_up(n_classes):
    score, _, values, _, _ = learned(n_classes=n_classes)
    rng = np.random.default_rng(1)
    rows = np.stack([rng.choice(column, 1000) for column in values.T], axis=1)
    rows[rng.random(rows.shape) < 0.1] = np.nan
    points = score.points(rows)
    assert points.shape == (1000, 4, n_classes)
    np.testing.assert_allclose(100 * score.base + points.sum(axis=1), 100 * score.predict_proba(rows), atol=1e-9)
    np.testing.assert_allclose(points.sum(axis=2), 0.0, atol=1e-9)  # what one class gains, others lose
    assert np.isnan(rows).any(axis=0).all()


def test_points_of_two_classes_are_in_proportion_to_the_log_odds(two):
    score, _, values, _, _ = two
    moves, points = score.contributions(values)[:, :, 0], score.points(values)[:, :, 1]
    gained = 100 * (score.predict_proba(values)[:, 1] - score.base[1])
    clear = np.abs(moves.sum(axis=1)) > 0.1
    expected = moves * (gained / moves.sum(axis=1))[:, None]
    np.testing.assert_allclose(points[clear], expected[clear], atol=1e-6)


@pytest.mark.parametrize("missing", ["category", "ignore"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("weight", [None, [1.0, 5.0, 2.0]])
def test_a_row_of_which_nothing_is_known_gets_the_base_rate(missing, n_classes, weight):
    weight = None if weight is None else np.array(weight[:n_classes])
    score, schema, _, y, _ = learned(n_classes=n_classes, missing=missing, share=0.3, class_weight=weight)
    counts = np.bincount(y) * (1.0 if weight is None else weight)
    nothing = schema.encode([[None] * 4]).values
    np.testing.assert_allclose(score.predict_proba(nothing)[0], counts / counts.sum(), atol=1e-12)
    assert np.abs(score.points(nothing)).max() < 1e-9


def test_a_neutral_feature_has_no_points(two):
    score, schema, _, _, _ = two
    stranger = schema.encode([[70.0, 2.0, 3.0, "unknown"]]).values
    assert score.points(stranger)[0, 3].tolist() == [0.0, 0.0]


def test_the_order_of_rows_the_scale_of_a_column_and_names_of_classes_do_not_matter(monkeypatch):
    monkeypatch.setattr(module, "MOST_CHOOSING", 200)  # a sample decides, by content
    rows, y, _ = clinic(missing=0.05)
    schema, values = coded(rows)
    p = AdditiveScore.learn(schema, values, y, 2).predict_proba(values)
    order = np.random.default_rng(0).permutation(len(y))
    other, shuffled = coded([rows[i] for i in order])
    np.testing.assert_allclose(AdditiveScore.learn(other, shuffled, y[order], 2).predict_proba(values), p, atol=1e-8)
    scaled = [[row[0], None if row[1] is None else 1000 * row[1], *row[2:]] for row in rows]
    other, big = coded(scaled)
    np.testing.assert_allclose(AdditiveScore.learn(other, big, y, 2).predict_proba(big), p, atol=1e-8)
    renamed = AdditiveScore.learn(schema, values, 1 - y, 2).predict_proba(values)
    np.testing.assert_allclose(renamed[:, ::-1], p, atol=1e-8)


def test_names_of_three_classes_do_not_matter(three):
    score, schema, values, y, _ = three
    names = np.array([2, 0, 1])
    renamed = AdditiveScore.learn(schema, values, names[y], 3)
    np.testing.assert_allclose(renamed.predict_proba(values)[:, names], score.predict_proba(values), atol=1e-8)


def test_threads_do_not_matter(three):
    score, schema, values, y, _ = three
    with threadpool_limits(1):
        one = AdditiveScore.learn(schema, values, y, 3).predict_proba(values)
    np.testing.assert_allclose(one, score.predict_proba(values), atol=1e-9)


def test_it_finds_the_curve():
    """The truth is a sum with a logarithm in it; straight lines and no line at all are further away."""
    rows, y, truth = clinic(3000, seed=3)
    schema, values = coded(rows)
    score = AdditiveScore.learn(schema, values, y, 2)
    assert score.prior[1] > 0
    distance = np.abs(score.predict_proba(values)[:, 1] - truth[:, 1]).mean()
    x = score.design.matrix(values).x[:, ~score.design.is_curve]
    straight = np.abs(LogisticRegression().fit(x, y).predict_proba(x)[:, 1] - truth[:, 1]).mean()
    # 14 coefficients of 3,000 cases leave about sqrt(14 / 3000) / 4 = .017 open.
    assert distance < 0.03 < straight


def test_intervals_hold_the_truth():
    """90 % intervals of 8 tables x 300 rows; rows of a table share their coefficients, so that the mean over tables
    has a standard error of about .02: three of these below .9 is the limit."""
    held = []
    for seed in range(8):
        score, _, values, _, truth = learned(share=0.0, seed=seed)
        ends = score.predict_interval(values)
        held.append(((ends[:, 1, 0] <= truth[:, 1]) & (truth[:, 1] <= ends[:, 1, 1])).mean())
        p = score.predict_proba(values)
        assert ((ends[..., 0] <= p) & (p <= ends[..., 1])).all()
    assert 0.84 < np.mean(held) < 0.99


def test_intervals_are_wider_at_a_higher_level_and_with_less_data():
    small, _, values, _, _ = learned(n=100)
    large, _, _, _, _ = learned(n=3000)
    width = [float(np.mean(np.ptp(s.predict_interval(values, level), axis=2)))
             for s, level in ((large, 0.9), (small, 0.9), (small, 0.99))]  # fmt: skip
    assert width[0] < width[1] < width[2]


def test_with_many_coefficients_classes_are_taken_apart(monkeypatch, three):
    joint, schema, values, y, _ = three
    monkeypatch.setattr(logistic, "MOST_JOINT", 10)
    apart = AdditiveScore.learn(schema, values, y, 3)
    assert apart.covariance.ndim == 3
    # Covariances without their correlations are an approximation, which moderates a little differently.
    assert np.abs(apart.predict_proba(values) - joint.predict_proba(values)).max() < 0.15
    arrays, plain = apart.to_arrays()
    restored = AdditiveScore.from_arrays(arrays, plain)
    np.testing.assert_array_equal(restored.predict_proba(values), apart.predict_proba(values))


@pytest.mark.parametrize("n_classes", [1, 2])
def test_where_there_is_nothing_to_learn(n_classes):
    rows = [["a"], ["a"], ["a"], ["a"]]
    schema, values = coded(rows)
    y = np.array([0, 0, 0, n_classes - 1])
    score = AdditiveScore.learn(schema, values, y, n_classes)
    np.testing.assert_allclose(score.predict_proba(values), np.tile(np.bincount(y) / 4, (4, 1)), atol=1e-9)
    np.testing.assert_allclose(score.points(values), 0.0, atol=1e-9)
    assert score.predict_interval(values).shape == (4, n_classes, 2)


def test_no_rows(two):
    score, _, values, _, _ = two
    nobody = values[:0]
    assert score.predict_proba(nobody).shape == (0, 2)
    assert score.points(nobody).shape == (0, 4, 2)
    assert score.predict_interval(nobody).shape == (0, 2, 2)


def test_classes_that_are_nearly_separable_get_sharp_probabilities():
    """Five classes, each with findings of its own: the log loss is near that of a tuned regression, not far above."""
    rng = np.random.default_rng(0)
    rates = np.where(rng.random((5, 25)) < 0.25, 0.9, 0.05)
    y = rng.integers(0, 5, 1200)
    rows = np.where(rng.random((1200, 25)) < rates[y], "yes", "no").tolist()
    schema, values = coded(rows[:200])
    score = AdditiveScore.learn(schema, values, y[:200], 5)
    held_out, truth = schema.encode(rows[200:]).values, y[200:]
    p = score.predict_proba(held_out)[np.arange(1000), truth]
    x = score.design.matrix(values).x
    grid = {"C": np.logspace(-2, 3, 6).tolist()}
    tuned = GridSearchCV(LogisticRegression(max_iter=5000), grid, scoring="neg_log_loss").fit(x, y[:200])
    rival = tuned.predict_proba(score.design.matrix(held_out).x)[np.arange(1000), truth]
    assert -np.log(p).mean() < -np.log(rival).mean() + 0.01
    assert score.moderation < 0.2


def test_where_leave_one_out_says_nothing_clear_the_evidence_decides(two):
    assert two[0].moderation == pytest.approx(1.0, abs=0.02)


def graded(n, seed, order):
    """Four stages of a disease, which six findings move along; class k is at place order[k]."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 6))
    latent = x @ np.array([1.0, -0.8, 0.6, 0.4, 0.0, 0.0]) + rng.logistic(size=n)
    return x.tolist(), np.asarray(order)[np.digitize(latent, [-1.2, 0.0, 1.5])]


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 0, 3, 1]])
def test_ordered_classes_are_predicted_better_if_the_order_is_known(order):
    rows, y = graded(1200, 0, order)
    schema, values = coded(rows[:200])
    held_out, truth = schema.encode(rows[200:]).values, y[200:]
    free = AdditiveScore.learn(schema, values, y[:200], 4)
    ordered = AdditiveScore.learn(schema, values, y[:200], 4, order=np.array(order))
    p, q = free.predict_proba(held_out), ordered.predict_proba(held_out)
    assert metrics.log_loss(q, truth) < metrics.log_loss(p, truth) - 0.02
    assert metrics.ranked_probability_score(q, truth, order) < metrics.ranked_probability_score(p, truth, order)
    np.testing.assert_allclose(100 * ordered.base + ordered.points(values).sum(axis=1),
                               100 * ordered.predict_proba(values), atol=1e-9)  # fmt: skip


def test_an_order_that_is_none_changes_little():
    """Classes that differ each in features of its own: leave-one-out does without the order."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((300, 6))
    y = (x[:, :4] * 1.5 + rng.gumbel(size=(300, 4))).argmax(axis=1)
    schema, values = coded(x.tolist())
    free, ordered = (AdditiveScore.learn(schema, values, y, 4, order=order) for order in (None, np.arange(4)))
    np.testing.assert_allclose(ordered.predict_proba(values), free.predict_proba(values), atol=0.01)


def test_classes_that_a_line_separates():
    rows = [[float(k)] for k in range(40)]
    y = np.repeat([0, 1], 20)
    schema, values = coded(rows)
    p = AdditiveScore.learn(schema, values, y, 2).predict_proba(values)
    assert np.isfinite(p).all()
    assert p[0, 0] > 0.9
    assert p[-1, 1] > 0.9


@pytest.mark.parametrize("n_classes", [2, 3])
def test_stored_and_restored(n_classes):
    score, _, values, _, _ = learned(n=100, n_classes=n_classes)
    arrays, plain = score.to_arrays()
    restored = AdditiveScore.from_arrays(arrays, plain)
    np.testing.assert_array_equal(restored.predict_proba(values), score.predict_proba(values))
    np.testing.assert_array_equal(restored.predict_interval(values), score.predict_interval(values))
    np.testing.assert_array_equal(restored.loo, score.loo)
    assert restored.moderation == score.moderation


def test_what_is_no_score_is_refused(two):
    arrays, plain = two[0].to_arrays()
    with pytest.raises(ValueError, match="not a stored additive score"):
        AdditiveScore.from_arrays({}, plain)
    for moderation in (1.5, -0.1, "1", None, True, float("nan")):
        with pytest.raises(ValueError, match="moderation"):
            AdditiveScore.from_arrays(arrays, {**plain, "moderation": moderation})
    earlier = {"design": plain["design"]}  # a file of version 0.2, which moderated fully
    assert AdditiveScore.from_arrays(arrays, earlier).moderation == 1.0
    with pytest.raises(ValueError, match="coef of the stored"):
        AdditiveScore.from_arrays({**arrays, "coef": arrays["coef"][1:]}, plain)
    with pytest.raises(ValueError, match="covariance of the stored"):
        AdditiveScore.from_arrays({**arrays, "covariance": arrays["covariance"] * np.nan}, plain)


def test_a_missing_value_that_tells_something():
    """Where values are missing mostly in the second class, missing="category" learns it and "ignore" does not."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    test = np.where(rng.random(400) < np.where(y == 1, 0.7, 0.1), np.nan, rng.normal(0, 1, 400))
    rows = [[float(value)] for value in test]
    found = {}
    for missing in ("category", "ignore"):
        schema, values = coded(rows, missing)
        # The one column, missing: of such a row nothing is known. Beside another column it counts.
        both = [[row[0], "a"] for row in rows]
        schema, values = coded(both, missing)
        score = AdditiveScore.learn(schema, values, y, 2)
        found[missing] = float(score.predict_proba(schema.encode([[None, "a"]]).values)[0, 1])
    truth = float(y[np.isnan(test)].mean())
    assert abs(found["category"] - truth) < 0.07
    assert abs(found["ignore"] - y.mean()) < 0.02


@pytest.mark.parametrize("most_joint", [logistic.MOST_JOINT, 1])
def test_memory_is_bounded_with_many_classes(monkeypatch, most_joint):
    """K x K numbers of a row are held for a part of the rows at a time, which changes nothing but rounding."""
    monkeypatch.setattr(logistic, "MOST_JOINT", most_joint)
    whole, schema, values, y, _ = learned(n_classes=3)
    monkeypatch.setattr(logistic, "AT_ONCE", 9 * 70)
    in_parts = AdditiveScore.learn(schema, values, y, 3)
    np.testing.assert_allclose(in_parts.loo, whole.loo, rtol=1e-6)
    np.testing.assert_allclose(in_parts.covariance, whole.covariance, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(in_parts.predict_interval(values), whole.predict_interval(values), rtol=1e-6)
