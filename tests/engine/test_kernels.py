import numpy as np
import pytest
from scipy import stats

from bayespatch.engine import votes
from bayespatch.engine.cpu import screen, weigh
from bayespatch.engine.streams import open_stream, uniform
from bayespatch.model import KINDS, LIKELIHOODS, Hyperparameters, Model
from tests.engine.cases_at_hand import cases_at_hand, settings_of_w
from tests.problems import random_data

HYPER = Hyperparameters(alpha=0.4, lam0=0.2, lam=1.3, mu0=0.3, mu=(1.0, 2.5), gamma=1.5, sigma1=1.2, sigma2=2)
P_VALUE = 1e-5  # of a chi-square test with a fixed seed: chance would fail one in 1e5
KAPPA = 0.37
P = 4
W = settings_of_w(P)


def weights_of_w(at_hand, b, kappa=KAPPA):
    """p(w | q~) times the factor by which parent b with this w changes the likelihood of the case, for all 2^P w."""
    q_tilde = at_hand.q_tilde[b]
    prior = np.where(W, q_tilde, 1 - q_tilde).prod(axis=1)
    before = at_hand.log_likelihood(at_hand.latent).sum()
    after = [at_hand.log_likelihood(at_hand.with_neighbor(b, w, kappa)).sum() for w in W]
    return prior * np.exp(np.array(after) - before)


def factor_of(at_hand, b, kappa=KAPPA):
    """The same summed over w, as the kernels compute it; in Model II also the weight of every number of features on."""
    c, t, work = at_hand.parts
    data = (t.x, t.x_parents, t.feature, at_hand.engine.importance, work.votes, at_hand.i, b)
    m = t.y_parents[b]
    if c.kind == 1:
        return weigh.product_of_factors(*data, 0, t.x.shape[1]) * work.label_factor[m, 1], None
    if c.kind == 3:
        label = votes.label_ratio(c, t.mu, work.class_votes, t.y[at_hand.i], m, kappa)
        return weigh.product_given_kappa(*data, 0, t.x.shape[1], kappa) * label, None
    scale = weigh.product_of_factors(*data, 0, t.x.shape[1])
    total = weigh.weigh_counts(
        c, t.x, t.x_parents, t.feature, at_hand.engine.importance, work.votes, work.by_weight, work.label_factor,
        work.poly, work.weight, at_hand.i, b, m,
    )  # fmt: skip
    return scale * total, scale * work.weight[: P + 1]


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [1, 2])
def test_factor_is_the_sum_over_w(kind, likelihood, seed):
    n_compared = 0
    for at_hand in cases_at_hand(random_data(seed, 4, 7, P), Model(kind, likelihood, HYPER), seed, n_cases=4):
        for b in at_hand.outsiders():
            expected = weights_of_w(at_hand, b)
            factor, by_count = factor_of(at_hand, b)
            assert factor == pytest.approx(expected.sum(), rel=1e-10)
            if kind == "II":
                np.testing.assert_allclose(by_count, np.bincount(W.sum(axis=1), expected), rtol=1e-10)
            n_compared += 1
    assert n_compared > 4


@pytest.mark.parametrize("hyper", [HYPER, Hyperparameters(alpha=0.5, lam0=1e-3, mu0=1e-3)])
@pytest.mark.parametrize("kind", KINDS)
def test_bounds_hold(kind, hyper):
    """Parents are turned down by a bound in single precision: it must never be below the sum, and close in Model I."""
    for seed in range(10):
        data = random_data(seed, 4, 7, P, hidden=0.3 * (seed % 2))
        data = data._replace(
            x=data.x * 0.3, x_parents=data.x_parents * 0.3, windows=data.windows * 0.3
        )  # no whole numbers
        for at_hand in cases_at_hand(data, Model(kind, "exact", hyper), seed, n_cases=4):
            c, t, work = at_hand.parts
            engine, i = at_hand.engine, at_hand.i
            rough = engine.rough[0]
            screen.fill_rough(rough, engine.importance)
            screen.prepare_bound(
                c,
                t.mu,
                work.votes,
                work.class_votes,
                work.label_factor,
                rough.gain,
                rough.lead,
                rough.allowance,
                t.y[i],
            )
            for b in at_hand.outsiders():
                product = screen.bound_product(rough.x, rough.x_parents, rough.windows, rough.on, rough.gain, i, b)
                bound = rough.lead[t.y_parents[b]] * product / c.prior_odds
                kappas = np.linspace(1e-9, 1, 20) if kind == "III" else [KAPPA]
                sums = [factor_of(at_hand, b, kappa)[0] for kappa in kappas]
                assert max(sums) <= bound
                if kind == "I":
                    assert bound < max(sums) * (1.0 + 1e-2)


@pytest.mark.parametrize("kind", KINDS)
def test_long_products_are_those_of_short_ones(kind):
    """`chunk`: how many factors are multiplied before a logarithm is taken."""
    for at_hand in cases_at_hand(random_data(4, 3, 6, 30), Model(kind, "exact", HYPER)):
        c, t, work = at_hand.parts
        for b in at_hand.outsiders():
            place = (t.x, t.x_parents, t.feature, at_hand.engine.importance, work.votes, at_hand.i, b)
            products = [weigh.long_product(c._replace(chunk=chunk), *place, KAPPA) for chunk in (1, 7, 1000)]
            if kind == "III":
                products.append(weigh.product_given_kappa(*place, 0, t.x.shape[1], KAPPA))
            else:
                products.append(weigh.product_of_factors(*place, 0, t.x.shape[1]))
            np.testing.assert_allclose(products, products[0], rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_w_is_drawn_from_its_conditional(kind):
    n_draws = 4000
    for at_hand in cases_at_hand(random_data(5, 2, 6, P, missing=0.1), Model(kind, "exact", HYPER), n_cases=2):
        c, t, work = at_hand.parts
        place = (c, t.x, t.x_parents, t.feature, at_hand.engine.importance, work.votes)
        for b in at_hand.outsiders()[:2]:
            expected = weights_of_w(at_hand, b)
            _, by_count = factor_of(at_hand, b)
            rng = np.zeros(2, np.uint64)
            open_stream(rng, np.uint64(b))
            bits = np.zeros((1, 1), np.uint64)
            drawn = np.zeros(2**P)
            for _ in range(n_draws):
                if kind == "II":
                    k = votes.pick(by_count, P + 1, uniform(rng) * by_count.sum())
                    weigh.draw_features_given_count(*place, work.prefix, bits, rng, at_hand.i, b, 0, k)
                else:
                    k = 1.0 if kind == "I" else KAPPA
                    weigh.draw_features(*place, bits, rng, at_hand.i, b, 0, k)
                w = [votes.is_on(bits, 0, j) for j in range(P)]
                drawn[int(np.flatnonzero((w == W).all(axis=1))[0])] += 1
            common = expected / expected.sum() * n_draws >= 5  # the others together, for the chi-square to hold
            counts = np.append(drawn[common], drawn[~common].sum())
            means = np.append(expected[common], expected[~common].sum())
            kept = means > 0
            assert stats.chisquare(counts[kept], n_draws * means[kept] / means.sum()).pvalue > P_VALUE


def test_choice_is_in_proportion():
    weight = np.array([1.0, 0.0, 3.0, 6.0, 99.0])
    rng = np.zeros(2, np.uint64)
    open_stream(rng, np.uint64(11))
    drawn = np.bincount([votes.pick(weight, 4, uniform(rng) * 10.0) for _ in range(10_000)], minlength=4)
    assert drawn[1] == 0
    assert stats.chisquare(drawn[[0, 2, 3]], [1000, 3000, 6000]).pvalue > P_VALUE


@pytest.mark.parametrize("kind", KINDS)
def test_entries_stay_in_order(kind):
    """After an update every neighbor stands once, never the case itself, and no slot is left behind."""
    data = random_data(6, 6, 9, 70, itself=True)
    weak = Hyperparameters(alpha=0.6, lam0=50, mu0=5)  # votes that matter little: there are neighbors
    n_entries = 0
    for at_hand in cases_at_hand(data, Model(kind, "exact", weak), n_sweeps=5, n_cases=6):
        neighbors = at_hand.state.neighbors
        entries = neighbors.parent[at_hand.i, : at_hand.n]
        assert len(set(entries)) == at_hand.n
        assert at_hand.i not in entries
        assert at_hand.engine.work[0].slot.tolist() == [-1] * 9
        words = neighbors.bits[at_hand.i, : at_hand.n]
        assert (words[:, 1] >> np.uint64(6) == 0).all()  # no bit beyond the 70 features
        n_entries += at_hand.n
    assert n_entries > 6
