import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln, expit, logit

from bayespatch import model as bp
from bayespatch.engine import importance, votes
from bayespatch.engine.compiling import compiled
from bayespatch.engine.cpu import importance as cpu_importance
from bayespatch.engine.cpu import layout
from bayespatch.engine.importance import carried, rest_of_ratio
from bayespatch.engine.streams import key_of, logit_beta, open_stream
from bayespatch.model import Hyperparameters, Latent, Model
from tests.problems import random_data

P_VALUE = 1e-5  # of tests with a fixed seed: chance would fail one in 1e5
N = np.array([3, 0, 5, 1])  # cases that a parent is a neighbor of
S = np.array([1, 0, 5, 0])  # for how many of them the feature is on
GAMMA, SIGMA1, SIGMA2 = 1.3, 0.8, 1.7


def log_density(logit_q):
    """log p(logit q | w) from Beta functions, but for a constant."""
    q = expit(logit_q)
    shape = SIGMA2 * q / (1 - q)
    log_q = stats.beta(GAMMA, SIGMA1).logpdf(q) + np.log(q) + np.log(1 - q)  # and the change of scale
    return log_q + sum(betaln(shape + s, SIGMA2 + n - s) - betaln(shape, SIGMA2) for n, s in zip(N, S, strict=True))


def test_above_counts_what_exceeds():
    values = np.array([0, 3, 1, 3, 0])
    assert importance.above(values, 4).tolist() == [(values > k).sum() for k in range(5)]


def test_density_of_logit_q():
    above_s, above_n = importance.above(S, N.max()), importance.above(N, N.max())
    points = np.array([-3.0, -0.4, 0.0, 1.2, 4.0])
    found = np.array(
        [cpu_importance.log_density_of_logit_q(v, GAMMA, SIGMA1, SIGMA2, above_s, above_n) for v in points]
    )
    np.testing.assert_allclose(np.diff(found), np.diff(log_density(points)), atol=1e-10)


def test_slices_follow_the_density():
    """Against the distribution function by quadrature; every tenth step, so that the draws are all but independent."""
    above_s, above_n = importance.above(S, N.max()), importance.above(N, N.max())
    rng = np.zeros(2, np.uint64)
    open_stream(rng, np.uint64(3))
    logit_q, drawn = 0.0, []
    for _ in range(4000):
        for _ in range(10):
            logit_q = cpu_importance.slice_logit_q(rng, logit_q, GAMMA, SIGMA1, SIGMA2, above_s, above_n)
        drawn.append(logit_q)
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 4.5 / np.sqrt(len(drawn))
    grid = np.linspace(-30, 40, 200_001)
    density = np.exp(log_density(np.clip(grid, -30, 30)))
    cumulative = np.cumsum(density) / density.sum()
    assert stats.kstest(drawn, lambda v: np.interp(v, grid, cumulative)).pvalue > P_VALUE


def test_slices_end_where_shapes_are_tiny():
    rng = np.zeros(2, np.uint64)
    open_stream(rng, np.uint64(4))
    none = np.zeros(1, np.int64)
    logit_q = -1e4
    for _ in range(20):
        logit_q = cpu_importance.slice_logit_q(rng, logit_q, 1e-3, 1e-3, 1e-3, none, none)
        assert np.isfinite(logit_q)


@pytest.mark.parametrize("logit_q", [0.0, 1e16, 1e300, -1e300, np.nan])
def test_slices_end_wherever_they_begin(logit_q):
    """A density that hardly falls over 10^9 units, steps that rounding swallows, and no number at all."""
    rng = np.zeros(2, np.uint64)
    open_stream(rng, np.uint64(4))
    none = np.zeros(1, np.int64)
    for _ in range(100):
        found = cpu_importance.slice_logit_q(rng, logit_q, 1e-9, 1e-9, 1e-9, none, none)
        assert abs(found - logit_q) <= importance.MOST_STEPS or np.isnan(logit_q)


def test_slices_of_few_steps_follow_the_density_too(monkeypatch):
    """With at most three steps out the interval often ends inside the slice; the limit must not shift the draws."""
    for module in (importance, cpu_importance):
        monkeypatch.setattr(module, "MOST_STEPS", 4)
    monkeypatch.setattr(cpu_importance, "steps_to_the_left", importance.steps_to_the_left.py_func)
    monkeypatch.setattr(cpu_importance, "range", lambda _: range(500), raising=False)  # of shrinking there are as many
    none, rng = np.zeros(1, np.int64), np.zeros(2, np.uint64)
    open_stream(rng, np.uint64(5))
    logit_q, drawn = 0.0, []
    for _ in range(1200):
        for _ in range(120):
            logit_q = cpu_importance.slice_logit_q.py_func(rng, logit_q, 1.5, 0.6, 1.0, none, none)
        drawn.append(logit_q)
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 4.5 / np.sqrt(len(drawn))
    assert stats.kstest(expit(drawn), stats.beta(1.5, 0.6).cdf).pvalue > P_VALUE


def test_prior_of_w_is_that_of_the_model():
    rng = np.random.default_rng(0)
    z = rng.random((9, 6)) < 0.4
    z[:, 2] = False
    w = rng.random((9, 6, 5)) < 0.5
    q = rng.beta(1, 1, 5)
    model = Model(hyper=Hyperparameters(sigma2=SIGMA2))
    expected = bp.log_prior_w(model, Latent(q, z, w, np.zeros_like(z, float)))
    found = importance.log_prior_w(logit(q), z.sum(axis=0), (z[:, :, None] & w).sum(axis=0), SIGMA2)
    assert found == pytest.approx(expected, rel=1e-10)


def test_q_tilde_given_w_is_beta():
    logit_q = np.array([-1.0, 0.5])
    n_neighbors = np.array([4, 0])
    n_on = np.array([[1, 4], [0, 0]])
    draws = np.empty((4000, 2, 2))
    for number, logits in enumerate(draws):
        cpu_importance.draw_q_tilde_given_w(logits, logit_q, n_neighbors, n_on, SIGMA2, np.uint64(number), 0, 2)
    for b, j in np.ndindex(2, 2):
        expected = stats.beta(SIGMA2 * np.exp(logit_q[j]) + n_on[b, j], SIGMA2 + n_neighbors[b] - n_on[b, j])
        assert stats.kstest(expit(draws[:, b, j]), expected.cdf).pvalue > P_VALUE
    assert abs(np.corrcoef(draws.reshape(-1, 4).T) - np.eye(4)).max() < 4.5 / np.sqrt(len(draws))


def test_start_is_a_draw_from_the_prior():
    q, quantiles = [], []
    for number in range(2000):
        gamma, sigma1 = np.array([GAMMA, 3.0]), np.array([SIGMA1, 0.5])
        logit_q, logits = importance.draw_prior(2, 2, gamma, sigma1, SIGMA2, np.uint64(number))
        q.append(expit(logit_q))
        quantiles.append(stats.beta(SIGMA2 * np.exp(logit_q), SIGMA2).cdf(expit(logits)))
    assert stats.kstest(np.array(q)[:, 0], stats.beta(GAMMA, SIGMA1).cdf).pvalue > P_VALUE
    assert stats.kstest(np.array(q)[:, 1], stats.beta(3.0, 0.5).cdf).pvalue > P_VALUE
    # q-tilde at its quantile given q; those that round to 1 are few and at quantile 1 in any case
    assert stats.kstest(np.ravel(quantiles), "uniform").pvalue > P_VALUE


def test_importance_is_laid_out_without_cancellation():
    data = random_data(0, 2, 3, 4, missing=0.5)
    tables = layout.tables_of(data, Model())
    laid_out = layout.blank_importance(tables)
    logits = np.array([[-800.0, -40.0, 0.0, 40.0], [1.0, -2.0, 800.0, 3.0], [0.0, 0.0, 0.0, 0.0]])
    cpu_importance.fill_importance(logits, tables.x_parents, laid_out)
    known = ~np.isnan(data.x_parents)
    assert not known.all()
    np.testing.assert_allclose(laid_out[votes.ON, :, :4], expit(logits), rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(laid_out[votes.OFF, :, :4], expit(-logits), rtol=1e-12, atol=1e-300)
    np.testing.assert_array_equal(laid_out[votes.VOTE_ON, :, :4], np.where(known, laid_out[votes.ON, :, :4], 0.0))
    np.testing.assert_array_equal(laid_out[votes.VOTE_OFF, :, :4], np.where(known, laid_out[votes.OFF, :, :4], 1.0))
    assert (laid_out[votes.VOTE_ON, :, 4:] == 0).all()
    assert (laid_out[votes.VOTE_OFF, :, 4:] == 1).all()


SHAPES = (1e-6, 0.02, 0.7, 3.0, 40.0, 1e5, 1e20)


@compiled
def carry(draws, logits, shape, shape_new, sigma2, found):
    """Each of the logits carried along; what becomes of it, and the log of the ratio."""
    rng = np.zeros(2, np.uint64)
    rest = rest_of_ratio(shape, shape_new)
    for i in range(len(logits)):
        open_stream(rng, key_of(draws, i))
        found[0, i], found[1, i] = carried(rng, logits[i], shape, shape_new, sigma2)
        found[1, i] += rest


@compiled
def from_prior(draws, shape, sigma2, logits):
    rng = np.zeros(2, np.uint64)
    for i in range(len(logits)):
        open_stream(rng, key_of(draws, i))
        logits[i] = logit_beta(rng, shape, sigma2)


@pytest.mark.parametrize("shape_new", SHAPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_number_from_the_prior_is_carried_to_the_prior(shape, shape_new):
    """Weighed with the ratio, exactly; and weights are within a few percent of 1, so that the distance of Kolmogorov
    and Smirnov that chance exceeds once in 1e5, 2.47 sqrt(2/n), holds for weighed numbers too.
    """
    n, sigma2 = 20_000, 1.7
    logits, found = np.empty(n), np.empty((2, n))
    from_prior(np.uint64(1), shape, sigma2, logits)
    carry(np.uint64(2), logits, shape, shape_new, sigma2, found)
    new, log = found
    assert np.isfinite(new).all()
    assert np.isfinite(log).all()
    assert log.std() < 0.06
    weight = np.exp(log)
    assert abs(weight.mean() - 1.0) < 5 * weight.std() / np.sqrt(n) + 1e-9
    truth = np.empty(n)
    from_prior(np.uint64(3), shape_new, sigma2, truth)
    order = np.argsort(new)
    steps = np.cumsum(weight[order]) / weight.sum()
    other = np.searchsorted(np.sort(truth), new[order], side="right") / n
    assert np.abs(steps - other).max() < 2.47 * np.sqrt(2 / n)
    # It keeps its place: where the prior moves, the number moves with it. Numbers of a tiny shape are nearly all luck.
    if min(shape, shape_new) >= 0.7:
        assert np.corrcoef(np.argsort(np.argsort(logits)), np.argsort(np.argsort(new)))[0, 1] > 0.4


def test_carried_nowhere_it_stays():
    logits, found = np.linspace(-30.0, 8.0, 50), np.empty((2, 50))
    for shape in SHAPES[:-2]:
        carry(np.uint64(4), logits, shape, shape, 2.0, found)
        np.testing.assert_allclose(found[0], logits, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found[1], 0.0, atol=1e-9)


def test_a_number_that_cannot_be_of_its_shape_is_not_carried():
    """It is refused, as what is not a number is; it must not be accepted whatever the data say."""
    logits, found = np.array([-800.0, 800.0]), np.empty((2, 2))
    carry(np.uint64(4), logits, 4.0, 40.0, 2.0, found)
    assert np.isnan(found).all()


def test_parents_from_the_prior_are_carried_at_no_cost():
    """The ratio has mean 1; 20,000 of them know it to .03 / sqrt(20000)."""
    n, logit_q, logit_q_new = 20_000, np.array([-2.0]), np.array([3.0])
    data = random_data(0, 2, n, 1, missing=0.0)
    tables = layout.tables_of(data, Model())
    logits = np.empty(n)
    from_prior(np.uint64(5), SIGMA2 * np.exp(logit_q[0]), SIGMA2, logits)
    log = np.empty((n, 1))
    cpu_importance.carry_along(
        logits[:, None], np.ones(n, np.int64), SIGMA2, logit_q, logit_q_new, np.uint64(6), 0, tables.x_parents,
        layout.blank_importance(tables), np.empty((n, 1)), log, 0, n,
    )  # fmt: skip
    weight = np.exp(log[:, 0])
    assert weight.std() < 0.06
    assert abs(weight.mean() - 1.0) < 5 * weight.std() / np.sqrt(n)


def test_parents_that_are_nobodys_neighbor_are_left_alone():
    data = random_data(0, 2, 4, 3, missing=0.0)
    tables = layout.tables_of(data, Model())
    proposed = layout.blank_importance(tables)
    logits = np.random.default_rng(2).normal(size=(4, 3))
    used = np.array([2, 0, 1, 5])
    logit_q, logit_q_new = np.array([0.3, -1.0]), np.array([0.9, -0.2])  # of features 1 and 2
    logits_new, log = np.full(logits.shape, np.nan), np.full((4, 2), np.nan)
    for first, last in ((0, 1), (1, 4)):  # in two runs of parents
        cpu_importance.carry_along(
            logits, used, SIGMA2, logit_q, logit_q_new, np.uint64(3), 1, tables.x_parents, proposed, logits_new, log,
            first, last,
        )  # fmt: skip
    assert (log[used == 0] == 0).all()
    assert (log[used > 0] != 0).all()
    assert (proposed[votes.ON, used == 0] == 0).all()
    assert (proposed[votes.ON, :, 0] == 0).all()
    assert (proposed[votes.ON][used > 0][:, 1:3] > 0).all()
