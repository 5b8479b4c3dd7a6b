import math

import numpy as np
import pytest

from bayespatch import model as bp
from bayespatch.model import HIDDEN, KINDS, LIKELIHOODS, Data, Hyperparameters, Latent, Model
from bayespatch.simulate import draw_prior
from tests.problems import PROBLEMS, make_data


def random_latent(data: Data, model: Model, seed: int) -> Latent:
    n_parents, n_features = data.x_parents.shape
    rng = np.random.default_rng(seed)
    return draw_prior(rng, model, len(data.x), n_parents, n_features, data.own_parent)[0]


# Naive loops over the formulas of model.md, sharing no code with the package


def beta_function(a: float, b: float) -> float:
    return math.gamma(a) * math.gamma(b) / math.gamma(a + b)


def beta_density(value: float, a: float, b: float) -> float:
    return value ** (a - 1) * (1 - value) ** (b - 1) / beta_function(a, b)


def naive_log_joint(data: Data, model: Model, latent: Latent) -> float:
    hyper = model.hyper
    n_cases, n_features = data.x.shape
    n_parents = len(data.x_parents)
    mu = list(hyper.mu) if isinstance(hyper.mu, tuple) else [hyper.mu] * data.n_classes
    one = 1 if model.likelihood == "paper" else 0
    probability = 1.0
    for i in range(n_cases):
        kappa = []
        for b in range(n_parents):
            if b != data.own_parent[i]:
                probability *= hyper.alpha if latent.z[i, b] else 1 - hyper.alpha
            if not latent.z[i, b]:
                kappa.append(0.0)
            elif model.kind == "I":
                kappa.append(1.0)
            elif model.kind == "II":
                kappa.append(float(sum(latent.w[i, b])))
            else:
                kappa.append(float(latent.kappa[i, b]))
                probability *= beta_density(kappa[b], hyper.tau, hyper.sigma3)
        for j in range(n_features):
            if math.isnan(data.x[i, j]):
                continue
            g_own = hyper.lam0
            g_all = data.n_values[j] * hyper.lam0
            for b in range(n_parents):
                if latent.w[i, b, j] and not math.isnan(data.x_parents[b, j]):
                    g_all += hyper.lam * kappa[b]
                    if abs(data.x[i, j] - data.x_parents[b, j]) <= data.windows[j]:
                        g_own += hyper.lam * kappa[b]
            probability *= (g_own + one) / (g_all + one)
        if data.y[i] != HIDDEN:
            h = hyper.mu0_per_class(data.n_classes).tolist()
            for b in range(n_parents):
                h[data.y_parents[b]] += mu[data.y_parents[b]] * kappa[b]
            probability *= (h[data.y[i]] + one) / (sum(h) + one)
    for j in range(n_features):
        shape = hyper.sigma2 * latent.q[j] / (1 - latent.q[j])
        gamma, sigma1 = (np.broadcast_to(shape, len(latent.q))[j] for shape in (hyper.gamma, hyper.sigma1))
        probability *= beta_density(latent.q[j], gamma, sigma1)
        for b in range(n_parents):
            n = sum(latent.z[i, b] for i in range(n_cases))
            s = sum(latent.z[i, b] and latent.w[i, b, j] for i in range(n_cases))
            probability *= beta_function(shape + s, hyper.sigma2 + n - s) / beta_function(shape, hyper.sigma2)
    return math.log(probability)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("kind", KINDS)
def test_log_joint_is_the_naive_one(kind, likelihood, name):
    data, hyper = PROBLEMS[name]()
    model = Model(kind, likelihood, hyper)
    for seed in range(20):
        latent = random_latent(data, model, seed)
        # beyond this the naive gamma function overflows
        latent = latent._replace(q=np.clip(latent.q, 0.01, 0.95))
        assert bp.log_joint(data, model, latent) == pytest.approx(naive_log_joint(data, model, latent), abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_exact_likelihood_sums_to_one_over_the_values_and_classes(kind):
    data, hyper = PROBLEMS["many_values"]()
    model = Model(kind, "exact", hyper)
    for seed in range(10):
        latent = random_latent(data, model, seed)
        for j, n_values in enumerate(data.n_values):
            total = np.zeros(len(data.x))
            for v in range(int(n_values)):
                x = data.x.copy()
                x[:, j] = v
                total += np.exp(bp.log_likelihood_features(data._replace(x=x), model, latent)[:, j])
            np.testing.assert_allclose(total, 1)
        labels = [np.full_like(data.y, m) for m in range(data.n_classes)]
        total = sum(np.exp(bp.log_likelihood_labels(data._replace(y=y), model, latent)) for y in labels)
        np.testing.assert_allclose(total, 1)


def test_printed_likelihood_does_not_sum_to_one():
    # errata, item 1: no neighbor, two values
    data = make_data([[0]], [0], [[1]], [0], [2])
    hyper = Hyperparameters.paper()
    latent = Latent(q=np.array([0.5]), z=np.zeros((1, 1), bool), w=np.zeros((1, 1, 1), bool), kappa=np.ones((1, 1)))
    printed = np.exp(bp.log_likelihood_features(data, Model("I", "paper", hyper), latent)).item()
    assert printed == pytest.approx(1.001 / 1.002)
    assert np.exp(bp.log_likelihood_features(data, Model("I", "exact", hyper), latent)).item() == pytest.approx(0.5)
    agreeing = latent._replace(z=np.ones((1, 1), bool), w=np.ones((1, 1, 1), bool))
    data = make_data([[0]], [0], [[0]], [0], [2])
    exact = np.exp(bp.log_likelihood_features(data, Model("I", "exact", hyper), agreeing)).item()
    assert exact == pytest.approx(2.001 / 2.002)


def test_window_likelihood_is_a_density_over_the_range():
    # one feature on [0, 10], windows of ±1 around parents well inside: V = 10 / 2
    points = (np.arange(10000) + 0.5)[:, None] / 1000
    data = make_data(points, [0] * 10000, [[3.0], [3.5], [7.0]], [0, 0, 0], [5.0], windows=[1.0])
    model = Model("I", "exact", Hyperparameters(lam0=0.3))
    latent = Latent(
        q=np.array([0.5]), z=np.ones((10000, 3), bool), w=np.ones((10000, 3, 1), bool), kappa=np.ones((10000, 3))
    )
    density = np.exp(bp.log_likelihood_features(data, model, latent)) / (2 * 1.0)
    assert density.mean() * 10 == pytest.approx(1, abs=1e-3)
    assert density.max() > 2 * density.min()


def test_missing_values():
    nan = np.nan
    data = make_data([[nan], [0]], [0, 1], [[0], [nan]], [0, 1], [2])
    np.testing.assert_array_equal(bp.agreement(data)[:, :, 0], [[False, False], [True, False]])
    np.testing.assert_array_equal(bp.can_vote(data)[:, 0], [True, False])
    np.testing.assert_array_equal(bp.observed(data)[:, 0], [False, True])
    model = Model("II", "exact", Hyperparameters(lam0=0.5, lam=1))
    latent = Latent(q=np.array([0.5]), z=np.ones((2, 2), bool), w=np.ones((2, 2, 1), bool), kappa=np.ones((2, 2)))
    # a missing value in the case: likelihood 1; in the parent: no vote, yet its w counts for its influence
    np.testing.assert_allclose(np.exp(bp.log_likelihood_features(data, model, latent))[:, 0], [1, 1.5 / 2])
    np.testing.assert_array_equal(bp.influence(model, latent), np.ones((2, 2)))


def test_influence_of_the_three_models():
    latent = Latent(
        q=np.array([0.5, 0.5]),
        z=np.array([[True, False, True]]),
        w=np.array([[[1, 1], [1, 1], [0, 0]]], bool),
        kappa=np.array([[0.3, 0.6, 0.9]]),
    )
    np.testing.assert_array_equal(bp.influence(Model("I"), latent), [[1, 0, 1]])
    np.testing.assert_array_equal(bp.influence(Model("II"), latent), [[2, 0, 0]])
    np.testing.assert_array_equal(bp.influence(Model("III"), latent), [[0.3, 0, 0.9]])


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_class_votes_are_shares_of_h(likelihood):
    data = make_data([[0]], [HIDDEN], [[0], [0], [1]], [0, 1, 1], [2])
    hyper = Hyperparameters(mu0=0.5, mu=(2.0, 1.0))
    latent = Latent(
        q=np.array([0.5]), z=np.array([[True, True, True]]), w=np.ones((1, 3, 1), bool), kappa=np.ones((1, 3))
    )
    np.testing.assert_allclose(bp.class_votes(data, Model("I", likelihood, hyper), latent), [[0.5, 0.5]])


@pytest.mark.parametrize("kind", KINDS)
def test_w_and_kappa_of_non_neighbors_are_ignored(kind):
    data, hyper = PROBLEMS["many_values"]()
    model = Model(kind, "exact", hyper)
    latent = random_latent(data, model, 3)
    other = latent._replace(
        w=np.where(latent.z[:, :, None], latent.w, ~latent.w), kappa=np.where(latent.z, latent.kappa, 0.5)
    )
    assert not latent.z.all()
    assert bp.log_joint(data, model, other) == bp.log_joint(data, model, latent)


def test_a_case_is_never_its_own_neighbor():
    data, hyper = PROBLEMS["exclude_self"]()
    model = Model("I", "exact", hyper)
    latent = random_latent(data, model, 0)
    latent.z[1, 1] = True
    assert bp.log_joint(data, model, latent) == -np.inf


def test_log_joint_is_finite_where_q_rounds_to_0_or_1():
    data, _ = PROBLEMS["binary"]()
    model = Model("I", "exact", Hyperparameters.paper())
    latent = Latent(q=np.array([0.0, 1.0]), z=np.ones((2, 2), bool), w=np.ones((2, 2, 2), bool), kappa=np.ones((2, 2)))
    latent.w[:, :, 0] = False
    assert np.isfinite(bp.log_joint(data, model, latent))


@pytest.mark.parametrize("alpha", [0.0, 1.0, 1.5, -0.1, np.nan])
def test_alpha_outside_its_interval_is_refused(alpha):
    with pytest.raises(ValueError, match=f"alpha must lie strictly between 0 and 1, got {alpha}"):
        Hyperparameters(alpha=alpha)


@pytest.mark.parametrize("name", ["lam0", "lam", "mu0", "mu", "gamma", "sigma1", "sigma2", "tau", "sigma3"])
@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, np.nan])
def test_constants_that_are_not_positive_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} must be finite and greater than 0, got {value}"):
        Hyperparameters(**{name: value})


def test_mu_per_class():
    np.testing.assert_array_equal(Hyperparameters(mu=2.0).mu_per_class(3), [2, 2, 2])
    np.testing.assert_array_equal(Hyperparameters(mu=(1.0, 2.0)).mu_per_class(2), [1, 2])
    with pytest.raises(ValueError, match="gamma has 2 values for 3 features"):
        Hyperparameters(gamma=(1.0, 3.0)).q_prior(3)
    with pytest.raises(ValueError, match=r"lam0 must be finite and greater than 0, got .* pass a positive number$"):
        Hyperparameters(lam0=(0.1, 0.2))
    with pytest.raises(ValueError, match="mu has 2 values for 3 classes"):
        Hyperparameters(mu=(1.0, 2.0)).mu_per_class(3)
    with pytest.raises(ValueError, match="mu must be finite"):
        Hyperparameters(mu=(1.0, -2.0))


def test_paper_constants():
    paper = Hyperparameters.paper()
    assert (paper.alpha, paper.gamma, paper.sigma1, paper.sigma2) == (0.5, 0.5, 0.5, 5.0)
    assert (paper.mu0, paper.mu, paper.lam0, paper.lam) == (0.001, 1.0, 0.001, 2.0)


def test_unknown_model_and_likelihood_are_refused():
    with pytest.raises(ValueError, match="unknown model 'IV'; choose one of 'I', 'II', 'III'"):
        Model("IV")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown likelihood 'printed'; choose one of 'exact', 'paper'"):
        Model("I", "printed")  # type: ignore[arg-type]
