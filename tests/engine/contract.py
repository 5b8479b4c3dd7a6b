"""What every engine must do, whatever it runs on: one list of checks, for all engines and models.

``test_contract.py`` runs them for the paper's engine and the CPU's, ``tests/cuda/simulated_engine.py`` for the
GPU's in a simulator.
"""

import numpy as np
import pytest

from bayespatch import model as bp
from bayespatch.engine.cpu.summary import Tally
from bayespatch.model import Hyperparameters, Model
from tests.problems import random_data

N, S, P = 4, 5, 3
HYPER = Hyperparameters(alpha=0.5, lam0=0.7, lam=1.3, mu0=0.3, mu=(1.0, 2.5), gamma=1.5, sigma1=1.2, sigma2=2.0)
DATA = random_data(3, N, S, P, itself=True)


def begun(engine_class, kind, n_sweeps=2, data=DATA, seed=11, chain=2):
    engine = engine_class(data, Model(kind, "exact", HYPER))
    state = engine.start(seed, chain)
    for _ in range(n_sweeps):
        engine.sweep(state, adapt=True)
    return engine, state


def assert_same(engine, one, two):
    for mine, other in zip(engine.observe(one), engine.observe(two), strict=True):
        np.testing.assert_array_equal(mine, other)


def observations_are_those_of_the_model(engine_class, kind):
    engine, state = begun(engine_class, kind)
    seen, latent = engine.observe(state), engine.latent(state)
    assert latent.z.any()
    assert not (latent.z & ~bp.may_be_neighbors(DATA)).any()
    assert seen.log_joint == pytest.approx(bp.log_joint(DATA, engine.model, latent), rel=1e-9)
    np.testing.assert_allclose(seen.votes, bp.class_votes(DATA, engine.model, latent), rtol=1e-6)
    np.testing.assert_array_equal(seen.n_neighbors, latent.z.sum(axis=1))
    np.testing.assert_array_equal(seen.q, latent.q)
    assert seen.q_tilde.shape == (S, P)
    z, w = np.zeros((N, S), np.float32), np.zeros((N, S, P), np.float32)
    for _ in range(2):
        engine.add_neighbors(state, z, w)
    np.testing.assert_array_equal(z, 2 * latent.z)
    np.testing.assert_array_equal(w, 2 * (latent.w & latent.z[:, :, None]))


def draws_follow_from_seed_and_chain(engine_class, kind):
    engine, state = begun(engine_class, kind)
    assert_same(engine, state, begun(engine_class, kind)[1])
    others = [begun(engine_class, kind, seed=seed, chain=chain)[1] for seed, chain in ((11, 3), (12, 2))]
    assert len({float(engine.observe(one).q[0]) for one in (state, *others)}) == 3


def a_thawed_chain_goes_on(engine_class, kind):
    engine, state = begun(engine_class, kind)
    frozen = {name: array.copy() for name, array in engine.freeze(state).items()}
    other = engine_class(DATA, engine.model).thaw(frozen, 11, 2)
    for adapt in (True, False):
        engine.sweep(state, adapt=adapt)
        engine.sweep(other, adapt=adapt)
    assert_same(engine, state, other)
    for one, two in zip(engine.freeze(state).values(), engine.freeze(other).values(), strict=True):
        np.testing.assert_array_equal(one, two)
    name = next(name for name, array in frozen.items() if array.ndim)
    for wrong in ({**frozen, "more": np.zeros(1)}, {**frozen, name: frozen[name][:1]}):
        with pytest.raises(ValueError, match=rf"a state has|{name} is"):
            engine.thaw(wrong, 11, 2)
    with pytest.raises(ValueError, match="the state belongs to chain 2 with seed 11"):
        engine.thaw(frozen, 11, 3)


def importances_can_be_given(engine_class, kind):
    engine, state = begun(engine_class, kind)
    q, q_tilde = np.array([0.25, 0.5, 0.8]), np.random.default_rng(0).random((S, P))
    engine.sweep_given_q(state, q)
    np.testing.assert_allclose(engine.observe(state).q, q, rtol=1e-12)
    engine.set_importance(state, q, q_tilde)
    np.testing.assert_allclose(engine.observe(state).q_tilde, q_tilde, rtol=1e-12)
    other = engine.thaw({name: array.copy() for name, array in engine.freeze(state).items()}, 11, 2)
    before = engine.latent(state)
    for one in (state, other):
        engine.update_given(one, q_tilde[None], np.uint64(7), np.arange(N))
    assert_same(engine, state, other)
    np.testing.assert_allclose(engine.observe(state).q_tilde, q_tilde, rtol=1e-12)
    assert (engine.latent(state).z != before.z).any() or (engine.latent(state).w != before.w).any()


def a_case_has_its_own_stream(engine_class, kind):
    """A new chain of the last cases alone, with their numbers, finds the neighbors that it finds among all."""
    rows = slice(2, N)
    part = DATA._replace(x=DATA.x[rows], y=DATA.y[rows], own_parent=DATA.own_parent[rows])
    found = []
    q_tilde = np.random.default_rng(0).random((1, S, P))
    for data, numbers in ((DATA, np.arange(N)), (part, np.arange(2, N))):
        engine = engine_class(data, Model(kind, "exact", HYPER))
        state = engine.start(11, 2)
        engine.update_given(state, q_tilde, np.uint64(7), numbers)
        found.append(engine.latent(state))
    assert found[0].z.any()
    for name in ("z", "w", "kappa"):
        np.testing.assert_array_equal(getattr(found[0], name)[rows], getattr(found[1], name))


def parts_have_their_own_importances(engine_class, kind):
    """The same cases three times, each time with other importances and numbers: what each finds by itself."""
    q_tilde = np.random.default_rng(1).random((3, S, P)).astype(np.float32)
    q_tilde[0, 0], q_tilde[0, 1] = 0.0, 1.0
    model, numbers = Model(kind, "exact", HYPER), np.arange(100, 100 + 3 * N)
    repeated = DATA._replace(x=np.tile(DATA.x, (3, 1)), y=np.tile(DATA.y, 3), own_parent=np.tile(DATA.own_parent, 3))
    together = engine_class(repeated, model)
    state, alone = together.start(1, 0), engine_class(DATA, model)
    states = [alone.start(1, 0) for _ in range(3)]
    for key in (np.uint64(7), np.uint64(8)):
        together.update_given(state, q_tilde, key, numbers)
        for part, own in enumerate(states):
            alone.update_given(own, q_tilde[part : part + 1], key, numbers[part * N : (part + 1) * N])
    found = together.latent(state)
    for part, own in enumerate(states):
        expected = alone.latent(own)
        assert expected.z.any()
        for name in ("z", "w", "kappa"):
            np.testing.assert_array_equal(getattr(found, name)[part * N : (part + 1) * N], getattr(expected, name))


def statistics_are_those_of_the_model(engine_class, kind):
    engine, state = begun(engine_class, kind)
    latent, model = engine.latent(state), engine.model
    votes, log_likelihood = engine.summarise(state)
    features = bp.log_likelihood_features(DATA, model, latent)
    np.testing.assert_allclose(votes, bp.class_votes(DATA, model, latent), rtol=1e-9)
    expected = features.sum(axis=1) + bp.log_likelihood_labels(DATA, model, latent)
    np.testing.assert_allclose(log_likelihood, expected, rtol=1e-9, atol=1e-12)
    neighbors = engine.neighbors(state)
    for i, n in enumerate(neighbors.n):
        assert set(neighbors.parent[i, :n].tolist()) == set(np.flatnonzero(latent.z[i]).tolist())
    sums = [np.zeros(shape, np.float32) for shape in ((N, S), (N, S, P), (N, S), (N, S), (N, P))]
    Tally(DATA, engine.model).add(neighbors, *sums)
    kappa = bp.influence(model, latent)
    cast = HYPER.mu_per_class(2)[DATA.y_parents] * kappa
    share = cast / (HYPER.mu0_per_class(2).sum() + cast.sum(axis=1, keepdims=True))
    on = latent.w & latent.z[:, :, None]
    for found, truth in zip(sums, (latent.z, on, kappa, share, np.exp(features)), strict=True):
        np.testing.assert_allclose(found, truth, rtol=1e-5)
    without = [np.zeros(shape, np.float32) for shape in ((N, S), (N, S, 0), (N, S), (N, S), (N, 0))]
    Tally(DATA, engine.model).add(neighbors, *without)
    np.testing.assert_array_equal(without[0], latent.z)


CHAINS = (observations_are_those_of_the_model, draws_follow_from_seed_and_chain, a_thawed_chain_goes_on)
GIVEN = (
    importances_can_be_given,
    a_case_has_its_own_stream,
    parts_have_their_own_importances,
    statistics_are_those_of_the_model,
)
