import numpy as np
import pytest

from bayespatch import model as bp
from bayespatch.engine.cpu import layout
from bayespatch.engine.votes import C2, CASE_MISSING, PARENT_MISSING, WINDOW
from bayespatch.model import KINDS, LIKELIHOODS, Hyperparameters, Model
from tests.problems import random_data

HYPER = Hyperparameters(alpha=0.2, lam0=0.3, lam=1.5, mu0=0.2, mu=(1.0, 2.0, 3.0), tau=2.0, sigma3=0.5)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_constants_are_those_of_the_model(likelihood):
    data = random_data(0, 3, 4, 5, n_classes=3)
    model = Model("II", likelihood, HYPER)
    c, t = layout.constants_of(data, model), layout.tables_of(data, model)
    c1, c2 = bp.feature_constants(data, model)
    assert (c.c1, c.lam, c.kind, c.n_features) == (c1, 1.5, 2, 5)
    label_c1, label_c2 = bp.label_constants(data, model)
    assert c.label_c2 == label_c2
    np.testing.assert_array_equal(layout.label_weights(data, model)[1] + c.one, label_c1)
    assert c.prior_odds == pytest.approx(0.25)
    np.testing.assert_allclose(t.feature[C2, :5], c2)
    np.testing.assert_array_equal(t.feature[WINDOW, :5], data.windows)
    np.testing.assert_array_equal(t.mu, [[1, 2, 3], model.hyper.mu0_per_class(3)])


def test_one_mu_serves_all_classes():
    data = random_data(0, 3, 4, 5, n_classes=4)
    assert layout.tables_of(data, Model(hyper=Hyperparameters(mu=1.5))).mu.tolist() == [[1.5] * 4, [0.1] * 4]


@pytest.mark.parametrize("n_features", [1, 7, 8, 9, 65])
def test_padding_and_missing_values_agree_with_nothing(n_features):
    data = random_data(1, 6, 5, n_features, missing=0.4)
    t = layout.tables_of(data, Model())
    width = t.x.shape[1]
    assert width % layout.LANES == 0
    assert width - n_features < layout.LANES
    assert (t.x[:, n_features:] == CASE_MISSING).all()
    assert (t.x_parents[:, n_features:] == PARENT_MISSING).all()
    agree = np.abs(t.x[:, None] - t.x_parents) <= t.feature[WINDOW]
    np.testing.assert_array_equal(agree[:, :, :n_features], bp.agreement(data))
    assert not agree[:, :, n_features:].any()
    assert np.isfinite(t.x).all()
    importance = layout.blank_importance(t)
    assert importance.shape == (4, 5, width)
    np.testing.assert_array_equal(importance[0] + importance[1], np.ones((5, width)))


@pytest.mark.parametrize("lam0", [1e-6, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize("n_features", [1, 40, 500])
def test_a_chunk_of_products_stays_inside_the_floats(lam0, n_features):
    data = random_data(2, 2, 3, n_features)
    c = layout.constants_of(data, Model(hyper=Hyperparameters(lam0=lam0, lam=2.0)))
    assert c.chunk >= 1
    largest = 1 + c.lam * n_features / lam0  # the most that one feature of a parent can change, R_j(P)
    assert c.chunk * np.log10(largest) < 300


@pytest.mark.parametrize("kind", KINDS)
def test_more_room_keeps_the_neighbors(kind):
    c = layout.constants_of(random_data(0, 3, 9, 70), Model(kind))
    for capacity in (1, 2):
        neighbors = layout.blank_neighbors(c, 3, capacity)
        rng = np.random.default_rng(0)
        neighbors.n[:] = [1, 0, 1]
        neighbors.parent[:] = rng.integers(0, 9, (3, capacity))
        neighbors.bits[:] = rng.integers(0, 2**63, neighbors.bits.shape)
        neighbors.kappa[:] = rng.random(neighbors.kappa.shape)
        more = layout.with_capacity(neighbors, 5)
        assert more.parent.shape == (3, 5)
        assert more.bits.shape == (3, 5, 2)
        if kind == "III":
            assert more.kappa.shape == (3, 5)
        np.testing.assert_array_equal(more.n, neighbors.n)
        np.testing.assert_array_equal(more.parent[:, :capacity], neighbors.parent)
        np.testing.assert_array_equal(more.bits[:, :capacity], neighbors.bits)
        np.testing.assert_array_equal(more.kappa[:, : neighbors.kappa.shape[1]], neighbors.kappa)


@pytest.mark.parametrize("kind", KINDS)
def test_scratch_memory_has_room(kind):
    data = random_data(0, 3, 9, 12)
    model = Model(kind)
    c, t = layout.constants_of(data, model), layout.tables_of(data, model)
    work, sums = layout.blank_work(c, t), layout.blank_sums(c, t, capacity=6)
    assert (work.slot == -1).all()
    assert work.parent.shape == work.kappa.shape == (9,)  # all parents may be neighbors
    if kind == "I":
        assert len(sums.on) == len(sums.agreeing) == 6
    for n in range(7):  # the rule for n neighbors gives 1 / (c2 + lam t), whatever the weights, for t = 0..n
        rule = slice(*sums.span[:, n])
        for number in range(n + 1):
            if kind == "I":
                decay = sums.decay[:12, rule] ** number
            else:
                decay = np.exp(-c.lam * sums.rate[rule] * number)
            found = (sums.weight[:12, rule] * decay).sum(axis=1)
            np.testing.assert_allclose(found, 1 / (t.feature[C2, :12] + c.lam * number), rtol=1e-10)
    if kind == "II":
        np.testing.assert_allclose(sums.decay, np.exp(-c.lam * np.outer(np.arange(13), sums.rate)))
    if kind == "II":
        assert work.poly.shape == (13, 13)
        assert work.label_factor.shape == (2, 13)


def test_bits_of_features_that_are_not_there_are_refused():
    c = layout.constants_of(random_data(0, 3, 9, 70), Model("II"))
    neighbors = layout.blank_neighbors(c, 3, 2)
    layout.check_neighbors(c, neighbors, 9)
    neighbors.bits[1, 0, 1] = np.uint64(1) << np.uint64(5)  # feature 69, the last
    layout.check_neighbors(c, neighbors, 9)
    neighbors.bits[1, 0, 1] = np.uint64(1) << np.uint64(6)
    with pytest.raises(ValueError, match="more than 70 features"):
        layout.check_neighbors(c, neighbors, 9)
