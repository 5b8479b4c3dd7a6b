import numpy as np
import pytest

from bayespatch import model as bp
from bayespatch.model import HIDDEN, KINDS, Hyperparameters, Model
from bayespatch.simulate import draw_data, draw_prior, simulate
from tests.problems import make_data


def test_prior_draws_have_the_moments_of_the_prior():
    hyper = Hyperparameters(alpha=0.3, gamma=2, sigma1=3, sigma2=4, tau=2, sigma3=1)
    rng = np.random.default_rng(0)
    draws = [draw_prior(rng, Model(hyper=hyper), n_cases=2, n_parents=2, n_features=1) for _ in range(5000)]
    n = len(draws)
    q = np.array([latent.q[0] for latent, _ in draws])
    q_tilde = np.array([q_tilde[0, 0] for _, q_tilde in draws])
    z = np.array([latent.z[0, 0] for latent, _ in draws])
    w = np.array([latent.w[:, 0, 0] for latent, _ in draws])
    kappa = np.array([latent.kappa[0, 0] for latent, _ in draws])
    for value, mean in ((q, 0.4), (q_tilde, 0.4), (z, 0.3), (w[:, 0], 0.4), (kappa, 2 / 3)):
        assert abs(value.mean() - mean) < 4 * value.std() / np.sqrt(n)
    # Var q = 2 * 3 / (25 * 6); two cases share q_tilde: P(both w on) = E[q_tilde^2]
    assert q.var() == pytest.approx(0.04, rel=0.1)
    both = w.all(axis=1) - q_tilde**2
    assert abs(both.mean()) < 4 * both.std() / np.sqrt(n)
    # given q, the mean of q_tilde is q
    slope = np.cov(q, q_tilde)[0, 1] / q.var()
    assert slope == pytest.approx(1, abs=0.06)


def test_own_parent_is_never_a_neighbor():
    model = Model(hyper=Hyperparameters(alpha=0.99))
    latent, _ = draw_prior(np.random.default_rng(0), model, 50, 50, 1, own_parent=np.arange(50))
    assert not latent.z.diagonal().any()
    assert latent.z.mean() > 0.9


def test_tiny_q_does_not_break_the_draw():
    model = Model(hyper=Hyperparameters(gamma=1e-3, sigma1=1e-3))
    latent, q_tilde = draw_prior(np.random.default_rng(0), model, 5, 5, 500)
    assert np.isfinite(q_tilde).all()
    assert latent.w[:, :, latent.q > 0.999].all()
    assert not latent.w[:, :, latent.q < 1e-9].any()


@pytest.mark.parametrize("kind", KINDS)
def test_data_come_with_the_frequencies_of_the_exact_likelihood(kind):
    hyper = Hyperparameters(alpha=0.6, lam0=0.2, mu0=0.3, mu=(1.0, 2.0, 0.5), gamma=2)
    model = Model(kind, "exact", hyper)
    made = simulate(np.random.default_rng(4), model, n_cases=1, n_parents=4, n_values=[2, 4], n_classes=3)
    n = 4000
    latent = made.latent._replace(
        z=np.repeat(made.latent.z, n, axis=0),
        w=np.repeat(made.latent.w, n, axis=0),
        kappa=np.repeat(made.latent.kappa, n, axis=0),
    )
    blank = made.data._replace(x=np.zeros((n, 2)), y=np.zeros(n, np.int64), own_parent=np.full(n, -1))
    drawn = draw_data(np.random.default_rng(5), model, latent, blank)
    for j, n_values in enumerate([2, 4]):
        for v in range(n_values):
            one = made.data._replace(x=np.full((1, 2), float(v)))
            p = np.exp(bp.log_likelihood_features(one, model, made.latent)[0, j])
            assert abs((drawn.x[:, j] == v).mean() - p) < 4 * np.sqrt(p * (1 - p) / n)
    for m in range(3):
        p = np.exp(bp.log_likelihood_labels(made.data._replace(y=np.array([m])), model, made.latent)[0])
        assert abs((drawn.y == m).mean() - p) < 4 * np.sqrt(p * (1 - p) / n)


def test_what_is_missing_or_hidden_stays_so():
    data = make_data([[np.nan, 0], [1, np.nan]], [HIDDEN, 1], [[0, 1]], [0], [2, 3])
    model = Model()
    latent, _ = draw_prior(np.random.default_rng(0), model, 2, 1, 2)
    drawn = draw_data(np.random.default_rng(1), model, latent, data)
    np.testing.assert_array_equal(np.isnan(drawn.x), np.isnan(data.x))
    assert drawn.y[0] == HIDDEN
    assert drawn.y[1] in (0, 1)
    assert drawn.x_parents is data.x_parents


def test_what_cannot_be_simulated_is_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="does not sum to one"):
        simulate(rng, Model(likelihood="paper"), 2, 2, [2])
    made = simulate(rng, Model(), 2, 2, [2])
    with pytest.raises(ValueError, match="only categorical"):
        draw_data(rng, Model(), made.latent, made.data._replace(windows=np.array([0.5])))
    with pytest.raises(ValueError, match="only categorical"):
        draw_data(rng, Model(), made.latent, made.data._replace(n_values=np.array([2.5])))
