import copy

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from bayespatch import model as bp
from bayespatch.engine.base import Neighbors
from bayespatch.engine.cpu import CpuEngine
from bayespatch.engine.streams import subkey
from bayespatch.engine.votes import ON
from bayespatch.model import HIDDEN, KINDS, LIKELIHOODS, Hyperparameters, Model
from tests.problems import make_data, random_data

HYPER = Hyperparameters(
    alpha=0.3, lam0=0.5, lam=1.3, mu0=0.3, mu=(1.0, 2.5, 0.7), gamma=1.5, sigma1=1.2, sigma2=2, tau=1.5, sigma3=2.5
)
WEAK = Hyperparameters(
    alpha=0.3, lam0=50, mu0=5
)  # votes that matter little: there are neighbors, however many features


@pytest.mark.parametrize("kind", ["I", "III"])
def test_moves_go_on_from_where_the_last_one_led(kind):
    """After several moves, q-tilde, its logits and the likelihood that it gives belong together."""
    engine = CpuEngine(random_data(2, 20, 8, 5), Model(kind, "exact", Hyperparameters(alpha=0.4, lam0=0.5)))
    n_moved = 0
    for seed in range(5):
        state = engine.start(seed, 0)
        engine.update_cases(state, np.uint64(seed))
        before, counts = state.logit_q_tilde.copy(), engine.count_cases(state)
        engine.move_importance(state, np.uint64(seed), adapt=False)
        n_moved += (state.logit_q_tilde != before).any(axis=0).sum()
        used = counts > 0
        np.testing.assert_allclose(engine.importance[ON, used, :5], expit(state.logit_q_tilde[used]), rtol=1e-12)
        kept = engine.likelihood[0].copy()
        engine.likelihood[:] = np.nan
        engine.prepare_comparison(state)  # and now from the beginning
        engine.carry_along(state, np.uint64(seed), state.logit_q, counts, 0, 5)
        engine.compare_importance(state, np.uint64(seed), np.uint64(seed), state.logit_q, 0, 5)
        np.testing.assert_allclose(engine.likelihood[0], kept, rtol=1e-12)
    assert n_moved > 5


def run(data, model, n_sweeps, n_threads=1, seed=3, chain=1, capacity=None):
    engine = CpuEngine(data, model, n_threads)
    state = engine.start(seed, chain)
    if capacity is not None:
        state.neighbors = Neighbors(state.neighbors.n, *(part[:, :capacity].copy() for part in state.neighbors[1:]))
    for sweep in range(n_sweeps):
        engine.sweep(state, adapt=sweep < n_sweeps // 2)
    return engine, state


def assert_same(engine, state, other_engine, other_state):
    """Bit for bit."""
    for mine, other in zip(engine.latent(state), other_engine.latent(other_state), strict=True):
        np.testing.assert_array_equal(mine, other)
    for mine, other in zip(engine.observe(state), other_engine.observe(other_state), strict=True):
        np.testing.assert_array_equal(mine, other)
    np.testing.assert_array_equal(state.logit_q_tilde, other_state.logit_q_tilde)


@pytest.mark.parametrize("n_threads", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_same_draws_with_any_number_of_threads(kind, n_threads):
    data = random_data(1, 23, 11, 5, n_classes=3, itself=True)
    model = Model(kind, "exact", HYPER)
    assert_same(*run(data, model, 12), *run(data, model, 12, n_threads))


@pytest.mark.parametrize("kind", KINDS)
def test_same_draws_with_the_cases_in_shards(kind):
    data = random_data(2, 17, 11, 5, n_classes=3, itself=True)
    engine, state = run(data, Model(kind, "exact", HYPER), 5)
    before, key = copy.deepcopy(state), np.uint64(99)
    engine.update_cases(state, key)
    whole = engine.latent(state)
    for first, last in ((0, 4), (4, 5), (5, 17)):
        rows = slice(first, last)
        part = data._replace(x=data.x[rows], y=data.y[rows], own_parent=data.own_parent[rows])
        shard = CpuEngine(part, engine.model)
        shard_state = copy.deepcopy(before)
        shard_state.neighbors = Neighbors(*(values[rows].copy() for values in before.neighbors))
        shard.numbers = np.arange(first, last)
        shard.update_cases(shard_state, key)
        latent = shard.latent(shard_state)
        for name in ("z", "w", "kappa"):
            np.testing.assert_array_equal(getattr(latent, name), getattr(whole, name)[rows])


def test_chains_and_seeds_differ():
    data = random_data(1, 6, 5, 3, n_classes=3)
    model = Model("I", "exact", HYPER)
    q = [run(data, model, 3, seed=seed, chain=chain)[1].logit_q for seed, chain in ((0, 0), (0, 1), (1, 0), (1, 1))]
    assert len({float(values[0]) for values in q}) == 4


@pytest.mark.parametrize("itself", [False, True])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("kind", KINDS)
def test_observations_are_those_of_the_model(kind, likelihood, itself):
    for seed in range(3):
        data = random_data(seed, 7, 6, 4, n_classes=3, itself=itself)
        model = Model(kind, likelihood, HYPER)
        engine, state = run(data, model, 4, seed=seed)
        observed, latent = engine.observe(state), engine.latent(state)
        assert observed.log_joint == pytest.approx(bp.log_joint(data, model, latent), rel=1e-10)
        np.testing.assert_allclose(observed.votes, bp.class_votes(data, model, latent), rtol=1e-12)
        np.testing.assert_array_equal(observed.n_neighbors, latent.z.sum(axis=1))
        np.testing.assert_array_equal(observed.q, latent.q)
        assert observed.q_tilde.shape == (6, 4)
        assert not (latent.z & ~bp.may_be_neighbors(data)).any()


@pytest.mark.parametrize("kind", KINDS)
def test_lists_of_neighbors_grow(kind):
    """Where a case finds more neighbors than there is room for, nothing is lost and nothing else changes."""
    data = random_data(3, 9, 20, 4, n_classes=3)
    model = Model(kind, "exact", HYPER)
    engine, state = run(data, model, 8)
    tight_engine, tight_state = run(data, model, 8, capacity=1)
    assert tight_state.neighbors.n.max() > 1
    assert_same(engine, state, tight_engine, tight_state)
    # two chains of one engine, the second with longer lists than the first
    again = CpuEngine(data, model)
    for capacity in (1, 20):
        other = again.start(3, 1)
        other.neighbors = Neighbors(other.neighbors.n, *(part[:, :capacity].copy() for part in other.neighbors[1:]))
        for sweep in range(8):
            again.sweep(other, adapt=sweep < 4)
        assert_same(engine, state, again, other)


@pytest.mark.parametrize(("kind", "n_features"), [("I", 500), ("II", 100), ("III", 500)])
def test_many_features(kind, n_features):
    data = random_data(4, 6, 8, n_features)
    engine, state = run(data, Model(kind, "exact", WEAK), 6)
    latent = engine.latent(state)
    assert latent.z.any()
    # the features that no bit should be lost of: every word, its first and last bit
    on = latent.w[latent.z].mean(axis=0)
    assert 0.4 < on.mean() < 0.95  # q is Beta(5, 2): about 5/7
    for j in (0, 63, 64, n_features - 1):
        assert on[max(0, j - 20) : j + 20].mean() > 0.2
    assert engine.observe(state).log_joint == pytest.approx(bp.log_joint(data, engine.model, latent), rel=1e-9)
    words = state.neighbors.bits[0, : state.neighbors.n[0]]
    assert (words[:, -1] >> np.uint64(n_features % 64) == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_many_features_and_strong_votes(kind):
    """Products over hundreds of features leave the range of a double: through logarithms they do not."""
    n_features = 40 if kind == "II" else 400
    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, (3, n_features))
    data = make_data(x, [0, 1, 0], np.concatenate([x, x]), [0, 1, 0] * 2, [5] * n_features)
    strong = Hyperparameters(alpha=0.1, lam0=1e-5, lam=2, mu0=1e-3, gamma=20, sigma1=1)
    engine, state = run(data, Model(kind, "exact", strong), 30)
    latent = engine.latent(state)
    same = (data.x[:, None] == data.x_parents).all(axis=2)
    assert not (latent.z & ~same).any()
    assert (latent.z & same).any(axis=1).all()
    assert engine.observe(state).log_joint == pytest.approx(bp.log_joint(data, engine.model, latent), rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "data",
    [
        make_data([[0]], [0], [[0]], [0], [1], n_classes=1),
        make_data([[0]], [1], [[1]], [0], [2]),
        make_data([[0]], [0], [[0]], [0], [2], own_parent=[0]),  # nobody left to be a neighbor
        make_data([[0, 0]] * 3, [0, 1, HIDDEN], [[0, 0]] * 4, [0, 1, 1, 0], [1, 1]),  # constant features
        make_data([[np.nan, np.nan]] * 2, [0, 1], [[0, 1]] * 3, [0, 1, 1], [2, 2]),
        make_data([[0, 1]] * 2, [0, 1], [[np.nan, np.nan]] * 3, [0, 1, 1], [2, 2]),
    ],
    ids=["all one", "one of each", "only itself", "constant", "cases unknown", "parents unknown"],
)
def test_smallest_problems(data, kind):
    for n_threads in (1, 2):
        engine, state = run(data, Model(kind), 20, n_threads)
        latent = engine.latent(state)
        assert not (latent.z & ~bp.may_be_neighbors(data)).any()
        assert engine.observe(state).log_joint == pytest.approx(bp.log_joint(data, engine.model, latent), rel=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_extreme_constants_give_finite_draws(kind):
    data = random_data(5, 6, 7, 4)
    for hyper in (
        Hyperparameters(alpha=0.999, lam0=1e-6, mu0=1e-6, gamma=0.05, sigma1=0.05, sigma2=0.05, tau=0.2, sigma3=0.2),
        Hyperparameters(alpha=1e-6, lam0=1e4, mu0=1e4, gamma=300, sigma1=0.1, sigma2=500, tau=50, sigma3=50),
    ):
        engine, state = run(data, Model(kind, "exact", hyper), 50)
        observed = engine.observe(state)
        assert np.isfinite(state.logit_q).all()
        assert np.isfinite(state.logit_q_tilde).all()
        assert np.isfinite(observed.log_joint)
        assert np.isfinite(state.step).all()


def test_log_joint_is_finite_where_an_influence_rounds_to_0_or_1():
    data = random_data(0, 20, 8, 3)
    model = Model("III", "exact", Hyperparameters(alpha=0.4, lam0=0.5, tau=0.02, sigma3=0.02))
    engine, state = run(data, model, 20)
    seen = engine.observe(state)
    assert np.isfinite(seen.log_joint)
    np.testing.assert_allclose(seen.log_joint, bp.log_joint(data, model, engine.latent(state)), rtol=1e-9)


def test_a_move_is_weighed_by_the_prior_of_q():
    """Where no parent is anybody's neighbor nothing else counts."""
    engine, state = run(random_data(0, 4, 5, 3), Model(hyper=Hyperparameters(gamma=1.3, sigma1=0.6)), 1)
    new = state.logit_q[1:] + np.array([0.7, -1.9])
    found = engine.carry_along(state, np.uint64(1), new, np.zeros(5, np.int64), 1, 3)
    logs = [stats.beta(1.3, 0.6).logpdf(q) + np.log(q * (1 - q)) for q in (expit(state.logit_q[1:]), expit(new))]
    np.testing.assert_allclose(found, logs[1] - logs[0], rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_proposals_go_on_where_they_are_accepted_and_turn_round_where_not(kind):
    engine, state = run(random_data(0, 30, 8, 6), Model(kind, "exact", Hyperparameters(lam0=0.3)), 30)
    some = slice(2, 3) if kind == "II" else slice(0, 6)  # in Model II they move one by one
    went = {True: 0, False: 0}
    for _ in range(20):
        step, before = state.step.copy(), state.logit_q.copy()
        engine.prepare_comparison(state)
        key = subkey(np.uint64(state.n_sweeps), 0)
        used = engine.count_cases(state)
        accepted = engine.move_features(state, key, key, used, some.start, some.stop, adapt=False)
        moved = np.sign(state.logit_q - before)
        np.testing.assert_array_equal(moved[some], np.where(accepted, np.sign(step[some]), 0.0))
        np.testing.assert_array_equal(state.step[some], np.where(accepted, step[some], -step[some]))
        went[True] += accepted.sum()
        went[False] += (~accepted).sum()
        engine.sweep(state)
    assert min(went.values()) > 2


@pytest.mark.parametrize("kind", KINDS)
def test_the_move_draws_w_from_the_new_importance(kind):
    """Nothing is known of the cases: the move follows the prior, and w is Bernoulli(q-tilde) as it is carried along."""
    n_cases, n_parents, n_features = 150, 4, 6
    nothing = np.full((n_cases, n_features), np.nan)
    data = make_data(nothing, [HIDDEN] * n_cases, np.zeros((n_parents, n_features)), [0] * n_parents, [2] * n_features)
    hyper = Hyperparameters(alpha=0.7, gamma=1, sigma1=1, sigma2=8)
    on, expected, variance = 0.0, 0.0, 0.0
    for seed in range(4):
        engine = CpuEngine(data, Model(kind, "exact", hyper))
        state = engine.start(seed, 0)
        engine.update_cases(state, np.uint64(seed))
        state.logit_q[:] = -3.0
        state.logit_q_tilde[:] = -3.0
        state.step[:] = 5.0
        engine.move_importance(state, np.uint64(100 + seed), adapt=False)
        moved = state.logit_q > -1.0  # accepted, and far enough from where they were to tell
        q_tilde = engine.importance[ON, :, :n_features]
        assert (q_tilde[:, moved] > 0.06).all()  # they were .047
        latent = engine.latent(state)
        n_neighbors = latent.z.sum(axis=0)
        on += (latent.w & latent.z[:, :, None]).sum(axis=(0, 1))[moved].sum()
        expected += (n_neighbors @ q_tilde)[moved].sum()
        variance += (n_neighbors @ (q_tilde * (1 - q_tilde)))[moved].sum()
    assert variance > 100
    assert abs(on - expected) < 4.5 * np.sqrt(variance)
