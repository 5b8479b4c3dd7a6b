import numpy as np
import pytest

from bayespatch import model as bp
from bayespatch.engine import votes
from bayespatch.model import KINDS, LIKELIHOODS, Hyperparameters, Model
from tests.engine.cases_at_hand import cases_at_hand
from tests.problems import random_data

HYPER = Hyperparameters(alpha=0.4, lam0=0.2, lam=1.3, mu0=0.3, mu=(1.0, 2.5), gamma=1.5, sigma1=1.2, sigma2=2)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("kind", KINDS)
def test_counts_are_those_of_the_model(kind, likelihood):
    data = random_data(1, 5, 7, 4)
    model = Model(kind, likelihood, HYPER)
    for at_hand in cases_at_hand(data, model, n_cases=5):
        _, _, work = at_hand.parts
        agree, total = bp.feature_votes(data, model, at_hand.latent)
        here = bp.observed(data)[at_hand.i]  # nobody asks for the votes on a value that is missing
        np.testing.assert_allclose(work.votes[votes.AGREE, :4][here], agree[at_hand.i][here], atol=1e-12)
        np.testing.assert_allclose(work.votes[votes.TOTAL, :4][here], total[at_hand.i][here], atol=1e-12)
        np.testing.assert_allclose(work.class_votes, bp.label_votes(data, model, at_hand.latent)[at_hand.i])
        assert (work.votes[votes.AGREE, 4:] == 0).all()  # padding


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("kind", KINDS)
def test_ratios_are_those_of_the_model(kind, likelihood):
    """What `refresh_features` and `label_ratio` say of one more neighbor, with any features on."""
    n_features = 4
    rng = np.random.default_rng(0)
    for at_hand in cases_at_hand(random_data(2, 4, 8, n_features), Model(kind, likelihood, HYPER), n_cases=4):
        c, t, work = at_hand.parts
        x, x_parents = at_hand.engine.data.x[at_hand.i], at_hand.engine.data.x_parents
        agreement = bp.agreement(at_hand.engine.data)[at_hand.i]
        before = at_hand.log_likelihood(at_hand.latent)
        for b in at_hand.outsiders():
            w = rng.random(n_features) < 0.6
            kappa = rng.beta(2, 2)
            k = {"I": 1.0, "II": float(w.sum()), "III": kappa}[kind]
            change = np.exp(at_hand.log_likelihood(at_hand.with_neighbor(b, w, kappa)) - before)
            label = votes.label_ratio(c, t.mu, work.class_votes, t.y[at_hand.i], t.y_parents[b], k)
            assert label == pytest.approx(change[-1], rel=1e-12)
            if kind != "III":
                assert work.label_factor[t.y_parents[b], int(k)] == pytest.approx(change[-1], rel=1e-12)
            for j in np.flatnonzero(w & ~np.isnan(x_parents[b])):
                same = agreement[b, j]
                a, d = work.votes[votes.R_AGREE, j], work.votes[votes.R_DIFFER, j]
                if kind == "I":
                    ratio = 1 + (a if same else d)
                elif kind == "II":
                    ratio = work.by_weight[votes.AGREES if same else votes.DIFFERS, j, int(k)]
                    assert ratio <= 1 + (a if same else d) + 1e-12  # the largest for any k
                else:
                    ratio = (1 + (kappa * a if same else 0)) / (1 + kappa * d)
                    assert ratio <= 1 + max(0.0, work.votes[votes.BOUND, j]) + 1e-12
                assert ratio == pytest.approx(change[j], rel=1e-12)
                assert ratio == 1 or not np.isnan(x[j])


def test_bits_beyond_the_first_words():
    n_features = 200
    rng = np.random.default_rng(1)
    w = rng.random((3, n_features)) < 0.5
    w[:, [0, 63, 64, 127, 128, 199]] = True
    bits = np.zeros((3, 4), np.uint64)
    for s, j in np.argwhere(w):
        votes.switch_on(bits, s, j)
    assert [[bool(votes.is_on(bits, s, j)) for j in range(n_features)] for s in range(3)] == w.tolist()
    assert [votes.n_on(bits, s) for s in range(3)] == w.sum(axis=1).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_votes_can_be_taken_away(kind):
    data = random_data(3, 2, 6, 130)
    weak = Hyperparameters(alpha=0.7, lam0=50, mu0=5)  # votes that matter little: there are neighbors
    for at_hand in cases_at_hand(data, Model(kind, "exact", weak), seed=1, n_cases=2):
        c, t, work = at_hand.parts
        neighbors = at_hand.state.neighbors
        bits, kappa = neighbors.bits[at_hand.i], neighbors.kappa[at_hand.i]
        assert at_hand.n > 0
        for s in range(at_hand.n):
            k = votes.vote_weight(c, bits, kappa, s)
            b = neighbors.parent[at_hand.i, s]
            assert k == pytest.approx(bp.influence(at_hand.engine.model, at_hand.latent)[at_hand.i, b])
            votes.cast_votes(c, t.x, t.x_parents, t.feature, work.votes, bits, at_hand.i, b, s, -k)
        left = np.abs(work.votes[[votes.AGREE, votes.TOTAL]]).max()
        assert left == 0 if kind != "III" else left < 1e-12  # whole numbers leave nothing behind
