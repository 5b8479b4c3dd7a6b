"""Neighbors that are asked in turn who should be in their place: every part beside the model, by brute force."""

import itertools

import numpy as np
import pytest

from bayespatch import model as bp
from bayespatch.engine.cpu import voting
from bayespatch.engine.streams import chain_key, open_stream
from bayespatch.model import HIDDEN, LIKELIHOODS, Hyperparameters, Latent, Model
from tests.montecarlo import batch_means
from tests.problems import random_data

HYPER = Hyperparameters(alpha=0.3, lam0=0.2, lam=1.3, mu0=(0.4, 0.2, 0.3), mu=(1.0, 2.5, 0.7))


class Table:
    """One case beside parents that are ordered by class, as the kernels read them."""

    def __init__(self, seed=0, likelihood="exact", label=1, n_parents=7, n_features=3, missing=0.15):
        data = random_data(seed, 1, n_parents, n_features, n_classes=3, missing=missing)
        y_parents = np.sort(data.y_parents)
        self.data = data._replace(y=np.array([label]), y_parents=y_parents)
        self.model = Model("I", likelihood, HYPER)
        c1, c2 = bp.feature_constants(self.data, self.model)
        self.voters = voting.Voters(
            np.ascontiguousarray(data.x_parents.T), np.searchsorted(y_parents, np.arange(5)), data.windows, c1, c2,
            HYPER.lam, np.stack([HYPER.mu_per_class(3), HYPER.mu0_per_class(3)]),
            bp.label_constants(self.data, self.model)[1], float(likelihood == "paper"), 0.3 / 0.7,
        )  # fmt: skip
        rng = np.random.default_rng(seed)
        self.q = rng.random(n_features)
        self.q_tilde = rng.random((n_features, n_parents)).astype(np.float32)
        self.q_tilde[np.isnan(data.x_parents.T)] = 0.0
        self.case = voting.blank_case(self.voters)
        self.case.observed[:] = ~np.isnan(data.x[0])
        self.case.agrees[:] = bp.agreement(self.data)[0].T
        voting.take_draw(self.case, self.q_tilde)
        self.z, self.w = np.zeros((1, n_parents), bool), np.zeros((1, n_parents, n_features), bool)
        self.rng = np.zeros(2, np.uint64)
        open_stream(self.rng, chain_key(seed, 0))

    @property
    def latent(self):
        return Latent(self.q, self.z, self.w, np.ones(self.z.shape))

    def add(self, b, w):
        """Parent b becomes a neighbor, by the kernel and in the latent variables."""
        word = np.uint64(sum(1 << int(j) for j in np.flatnonzero(w)))
        voting.cast_votes(self.voters, self.case, b, word, 1.0)
        self.case.available[b] = 0.0
        self.z[0, b], self.w[0, b] = True, w
        return word

    def weigh(self):
        """The odds of every parent to join, with their common factor."""
        total = voting.weigh_parents(self.voters, self.case, self.q, int(self.data.y[0]))
        odds = self.case.odds.astype(float)
        return odds * (total / odds.sum())

    def log_weight(self, z, w):
        """log p(x, y, z, w | q-tilde) of the case, up to a constant, from the model."""
        latent = Latent(self.q, z, w, np.ones(z.shape))
        value = bp.log_likelihood_features(self.data, self.model, latent).sum()
        value += bp.log_likelihood_labels(self.data, self.model, latent).sum()
        value += bp.log_prior_z(self.data, self.model, latent)
        q_tilde = self.q_tilde.T.astype(float)
        each = np.where(w[0], q_tilde, 1.0 - q_tilde)[z[0]]
        with np.errstate(divide="ignore"):
            return value + np.log(each).sum()

    def joined(self, b):
        """Every w with which parent b may join the neighbors of the moment, and its odds."""
        before = self.log_weight(self.z, self.w)
        for w_b in itertools.product([False, True], repeat=len(self.q)):
            z, w = self.z.copy(), self.w.copy()
            z[0, b], w[0, b] = True, w_b
            yield z, w, np.exp(self.log_weight(z, w) - before)


def with_neighbors(**settings):
    """A table in which two parents are neighbors already."""
    table = Table(**settings)
    rng = np.random.default_rng(1)
    votes = bp.can_vote(table.data)
    for b in (1, 4):
        table.add(b, (rng.random(3) < 0.7) & votes[b])
    return table


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("label", [HIDDEN, 0, 2])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_odds_of_joining_are_those_of_the_model(seed, label, likelihood):
    for table in (Table(seed, likelihood, label), with_neighbors(seed=seed, likelihood=likelihood, label=label)):
        expected = [sum(odds for _, _, odds in table.joined(b)) if not table.z[0, b] else 0.0 for b in range(7)]
        np.testing.assert_allclose(table.weigh(), expected, rtol=1e-5)
        by_class = [table.case.odds[table.data.y_parents == m].sum() for m in range(3)]
        np.testing.assert_allclose(table.case.by_class, by_class, rtol=1e-5)


def test_more_features_than_are_multiplied_at_a_time():
    """4 features at a time and a rest, and many parents: against the same product in double precision."""
    for n_features in (1, 4, 5, 11):
        rng = np.random.default_rng(n_features)
        q_tilde, agrees = rng.random((n_features, 40)).astype(np.float32), rng.random((n_features, 40)) < 0.5
        gain, scale = rng.normal(0.5, 0.2, (2, n_features)), rng.random(n_features) + 0.5
        available, odds = rng.random(40).astype(np.float32), np.zeros(40, np.float32)
        factors = scale[:, None] * (1 + q_tilde * np.where(agrees, gain[1][:, None], gain[0][:, None]))
        expected = available * factors.prod(axis=0)
        signed = np.where(agrees, q_tilde, -q_tilde)
        voting.multiply_factors(signed, gain.astype(np.float32), scale.astype(np.float32), available, odds)
        np.testing.assert_allclose(odds, expected, rtol=1e-5)


def test_votes_are_those_of_the_model_and_can_be_taken_away():
    table = Table(3)
    votes = bp.can_vote(table.data)
    rng = np.random.default_rng(2)
    words = {}
    for b in (6, 0, 3):
        words[b] = table.add(b, (rng.random(3) < 0.7) & votes[b])
        agree, total = bp.feature_votes(table.data, table.model, table.latent)
        np.testing.assert_allclose(table.case.agree, agree[0])
        np.testing.assert_allclose(table.case.total, total[0])
        np.testing.assert_allclose(table.case.class_votes, bp.label_votes(table.data, table.model, table.latent)[0])
    for b in (0, 6, 3):
        voting.cast_votes(table.voters, table.case, b, words[b], -1.0)
    for left in (table.case.agree, table.case.total, table.case.class_votes):
        assert (left == 0).all()


def test_a_parent_is_chosen_in_proportion_to_its_odds():
    table = with_neighbors(seed=4)
    odds = table.weigh()
    chosen = [voting.choose_parent(table.voters, table.case, table.rng) for _ in range(8000)]
    share, expected = np.bincount(chosen, minlength=7) / 8000, odds / odds.sum()
    assert (np.abs(share - expected) <= 4.5 * np.sqrt(expected * (1 - expected) / 8000)).all()
    assert share[[1, 4]].sum() == 0  # they are neighbors already


def test_among_many_parents_one_is_chosen_in_proportion_too():
    """More than are passed at a time, most of which cannot be chosen; 4.5 standard errors."""
    table = Table(9, n_parents=150)
    table.case.available[:] = np.random.default_rng(9).random(150) < 0.3
    table.case.available[-20:] = 0.0
    odds = table.weigh()
    chosen = [voting.choose_parent(table.voters, table.case, table.rng) for _ in range(20000)]
    share, expected = np.bincount(chosen, minlength=150) / 20000, odds / odds.sum()
    assert (np.abs(share - expected) <= 4.5 * np.sqrt(expected * (1 - expected) / 20000)).all()
    assert (share[odds == 0] == 0).all()


def test_w_of_a_new_neighbor_is_drawn_from_its_posterior():
    table = with_neighbors(seed=5)
    table.weigh()
    for b in (2, 5):
        odds = np.array([[odds, *w[0, b]] for _, w, odds in table.joined(b)])
        expected = odds[:, 0] @ odds[:, 1:] / odds[:, 0].sum()
        on = np.empty((4000, 3))
        for k in range(4000):
            word = voting.take_place(table.voters, table.case, table.rng, b)
            assert table.case.available[b] == 0
            on[k] = [(int(word) >> j) & 1 for j in range(3)]
            voting.cast_votes(table.voters, table.case, b, word, -1.0)
            table.case.available[b] = 1.0
        assert (np.abs(on.mean(axis=0) - expected) <= 4.5 * np.sqrt(expected * (1 - expected) / 4000) + 1e-9).all()


def sums(n_parents=7, n_features=3):
    return voting.SampledVotes(
        np.zeros((1, 1, 1, 3)), np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1, n_parents)),
        np.zeros((1, 1, n_parents)), np.zeros((1, 1, n_features, n_parents)), np.zeros((1, 1, n_features)),
    )  # fmt: skip


def test_a_place_is_counted_with_everyone_who_may_take_it():
    """Means over all (b, w) of what the model says of the neighbors with b among them."""
    table = with_neighbors(seed=6)
    table.weigh()
    detail = sums()
    base = voting.count_replacement(table.voters, table.case, detail, 0, 0, 0, 1)
    settings = [(b, *rest) for b in range(7) if not table.z[0, b] for rest in table.joined(b)]
    total = sum(odds for *_, odds in settings)
    votes, features, probability = np.zeros(3), np.zeros((7, 3)), np.zeros(7)
    for b, z, w, odds in settings:
        latent = Latent(table.q, z, w, np.ones(z.shape))
        shares = odds / total * bp.class_votes(table.data, table.model, latent)[0]
        votes += shares
        features[b] += odds / total * w[0, b]
        probability[b] += odds / total
    # Besides the place that is counted two neighbors have places of their own, which are counted in their turn.
    others = np.zeros(3)
    for _, z, w, odds in settings:
        cast = bp.h(table.data, table.model, Latent(table.q, z, w, np.ones(z.shape)))[0].sum()
        for other in np.flatnonzero(table.z[0]):
            m = table.data.y_parents[other]
            others[m] += odds / total * HYPER.mu_per_class(3)[m] / cast
    found = detail.votes[0, 0, 0] + others + base * HYPER.mu0_per_class(3)
    np.testing.assert_allclose(found, votes, rtol=1e-5)
    np.testing.assert_allclose(detail.probability[0, 0], probability, rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(detail.features[0, 0].T, features, rtol=1e-4, atol=1e-7)
    shares = [detail.share[0, 0, table.data.y_parents == m].sum() for m in range(3)]
    np.testing.assert_allclose(shares, detail.votes[0, 0, 0], rtol=1e-5)


@pytest.mark.parametrize("label", [HIDDEN, 2])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_what_the_neighbors_tell_of_the_case_is_what_the_model_says(label, likelihood):
    table = with_neighbors(seed=7, label=label, likelihood=likelihood)
    detail = sums()
    voting.count_case(table.voters, table.case, label, detail, 0, 0, 2)
    features = bp.log_likelihood_features(table.data, table.model, table.latent)
    labels = bp.log_likelihood_labels(table.data, table.model, table.latent)
    assert detail.familiarity[0, 0] == pytest.approx(features.sum() + labels.sum())
    np.testing.assert_allclose(detail.explained[0, 0], np.exp(features[0]))
    assert detail.n_neighbors[0, 0] == 2


def exact_means(table, allowed):
    """P(z_b), P(z_b w_bj) and mean votes of the case given q-tilde: every setting of z and w summed."""
    n_parents, n_features = len(allowed), len(table.q)
    totals, weight_sum = [np.zeros(n_parents), np.zeros((n_parents, n_features)), np.zeros(3)], 0.0
    for z in itertools.product(*([False, True] if may else [False] for may in allowed)):
        on = [(b, j) for b in np.flatnonzero(z) for j in range(n_features)]
        for bits in itertools.product([False, True], repeat=len(on)):
            w = np.zeros((1, n_parents, n_features), bool)
            for (b, j), bit in zip(on, bits, strict=True):
                w[0, b, j] = bit
            z_row = np.array([z])
            weight = np.exp(table.log_weight(z_row, w))
            weight_sum += weight
            latent = Latent(table.q, z_row, w, np.ones(z_row.shape))
            parts = z_row[0], w[0], bp.class_votes(table.data, table.model, latent)[0]
            for total, part in zip(totals, parts, strict=True):
                total += weight * part
    return [total / weight_sum for total in totals]


@pytest.mark.parametrize(("label", "own", "out"), [(HIDDEN, -1, None), (1, 0, None), (HIDDEN, 2, 3)])
def test_given_q_tilde_the_neighbors_have_their_posterior(label, own, out):
    """Replacements, births and deaths together against enumeration; 40 batches of 5000 sweeps.

    So many because the order in which places are asked once made probabilities wrong by .004.
    """
    table = Table(8, label=label, n_parents=5, n_features=2, missing=0.0)
    excluded = np.arange(5) == out if out is not None else np.zeros(0, bool)
    allowed = (np.arange(5) != own) & (np.arange(5) != (9 if out is None else out))
    z, zw, votes = exact_means(table, allowed)
    draws = voting.Draws(table.q[None, None], table.q_tilde[None, None])
    places = voting.Places(
        table.rng[None, None].copy(), np.zeros((1, 1), np.int32), np.zeros((1, 1, 5), np.int32),
        np.zeros((1, 1, 5), np.uint64),
    )  # fmt: skip
    n_batches, length = 40, 5000
    used = np.zeros(length, np.int64)
    found = []
    for _ in range(n_batches):
        detail = sums(5, 2)
        voting.vote_on_case(
            table.voters, draws, table.case, table.data.x[0], label, own, excluded, used, used, 5, places, detail, 0, 0
        )
        found.append([detail.probability[0, 0], *detail.features[0, 0], detail.votes[0, 0, 0]])
        assert (detail.probability[0, 0][~allowed] == 0).all()
    means = [np.array([row[k] for row in found]) / length for k in range(4)]
    for k, expected in enumerate([z, zw[:, 0], zw[:, 1], votes]):
        estimate = batch_means(np.asarray(means[k])[None])
        assert (np.abs(estimate.mean - expected) <= 4.5 * estimate.error + 1e-9).all(), (estimate, expected)


@pytest.mark.parametrize("seed", range(4))
def test_odds_too_small_for_single_precision_still_say_who_is_nearest(seed):
    """64 features, in nearly all of which everybody differs: some neighbor, and votes that are numbers."""
    n_features, n_parents = 64, 6
    x_parents = np.zeros((n_features, n_parents))
    x_parents[:8, 2] = 1.0  # one parent agrees in a few
    start = np.array([0, 3, 6])
    hyper = Hyperparameters(lam0=0.01)
    voters = voting.Voters(
        x_parents, start, np.zeros(n_features), hyper.lam0, np.full(n_features, 5 * hyper.lam0), hyper.lam,
        np.array([[1.0, 1.0], [0.1, 0.1]]), 0.2, 0.0, 0.5,
    )  # fmt: skip
    q = np.array([[0.01, 0.97, 0.99, 0.999]])
    q_tilde = np.broadcast_to(q[:, :, None, None], (1, 4, n_features, n_parents)).astype(np.float32)
    rng = np.zeros(2, np.uint64)
    open_stream(rng, chain_key(seed, 0))
    draws = voting.Draws(np.repeat(q[:, :, None], n_features, axis=2), q_tilde)
    places = voting.Places(
        rng[None, None], np.zeros((1, 1), np.int32), np.zeros((1, 1, 6), np.int32),
        np.zeros((1, 1, 6), np.uint64),
    )  # fmt: skip
    detail = voting.SampledVotes(
        np.zeros((1, 1, 4, 2)), np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1, 6)), np.zeros((1, 1, 6)),
        np.zeros((1, 1, n_features, 6)), np.zeros((1, 1, n_features)),
    )  # fmt: skip
    case = voting.blank_case(voters)
    used = np.arange(4)
    voting.vote_on_case(
        voters, draws, case, np.ones(n_features), HIDDEN, -1, np.zeros(0, bool), used, used, 20, places, detail, 0, 0
    )
    np.testing.assert_allclose(detail.votes[0, 0].sum(axis=1), 1.0, rtol=1e-5)
    assert np.isfinite(detail.features).all()
    # Under draws of large q a neighbor, where there is one, is the parent that agrees in something.
    later = detail.votes[0, 0, 1:, 0]
    assert (later >= 0.5 - 1e-6).all()
    assert detail.probability.argmax() == 2
