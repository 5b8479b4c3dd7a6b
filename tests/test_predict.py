"""New cases under a posterior: what their prediction may depend on, what it must agree with, and how exact it is."""

import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom

from bayespatch import leave_one_out
from bayespatch.calibrate import Calibration
from bayespatch.leave_one_out import cases_left_out, leave_one_out_votes
from bayespatch.model import HIDDEN, Hyperparameters, Latent, Model, class_votes, log_likelihood_features
from bayespatch.predict import (
    MAX_PASSES,
    Neighborhood,
    blank_votes,
    predict_batches,
    predict_cases,
    row_numbers,
    sample_together,
)
from bayespatch.predict import sampled as predict
from bayespatch.predict.sampled import MIN_ROUNDS, Rounds
from bayespatch.sampling.sampler import sample
from bayespatch.validation import check_data

N_FEATURES = 4
VOTES = Calibration.none(2)  # votes are probabilities


def problem(n_cases=30, n_parents=20, seed=0):
    """Cases that copy a parent, but for some noise."""
    rng = np.random.default_rng(seed)
    x_parents, y_parents = rng.integers(0, 3, (n_parents, N_FEATURES)), rng.integers(0, 2, n_parents)
    copied = rng.integers(0, n_parents, n_cases)
    x = np.where(rng.random((n_cases, N_FEATURES)) < 0.3, rng.integers(0, 3, (n_cases, N_FEATURES)), x_parents[copied])
    return dict(x=x, y=y_parents[copied], x_parents=x_parents, y_parents=y_parents, n_values=[3] * 4, n_classes=2)


@cache
def fitted(model="I", chains=2, draws=30, warmup=30):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hyper = Hyperparameters(alpha=0.2)
        return sample(**problem(), model=model, hyper=hyper, chains=chains, draws=draws, warmup=warmup)


def new_cases(n=25, hidden=True):
    arrays = problem() | {key: problem(n, seed=1)[key] for key in ("x", "y")}
    data = check_data(**arrays)
    return data._replace(y=np.full(n, HIDDEN)) if hidden else data


@pytest.fixture(params=["I by place", "I by sweep", "II", "III"])
def posterior(request, monkeypatch):
    """All ways to find neighbors."""
    if request.param == "I by sweep":
        monkeypatch.setattr(predict, "MANY_NEIGHBORS", 0.0)
    found = fitted(request.param.split()[0])
    assert predict.votes_by_place(found.model, new_cases()) == (request.param == "I by place")
    return found


def rows_of(data, rows):
    return data._replace(x=data.x[rows], y=data.y[rows], own_parent=data.own_parent[rows])


def assert_same(found, expected, rows=slice(None)):
    """The very same prediction, of these rows."""
    for name in ("votes_by_batch", "familiarity", "n_draws"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name)[rows])
    assert (found.neighbors is None) == (expected.neighbors is None)
    for name in found.neighbors._fields if found.neighbors else ():
        np.testing.assert_array_equal(getattr(found.neighbors, name), getattr(expected.neighbors, name)[rows])


def middling_error(posterior, data):
    """What half of the cases have reached when an error counts for the first time."""
    first = predict_cases(posterior, data, error=1e-9, max_passes=MIN_ROUNDS)
    return float(np.median(VOTES.scaled_error(first.votes_by_batch)))


def within_error(found, expected, errors=5.0):
    """Whether the votes of two predictions differ by no more than their Monte Carlo errors allow.

    An error from 12 batches is known to a fifth of itself; so five of them where four would do.
    """
    apart = np.abs(found.mean_votes() - expected.mean_votes()).max(axis=1)
    allowed = errors * np.hypot(VOTES.error(found.votes_by_batch), VOTES.error(expected.votes_by_batch))
    return bool((apart <= allowed).all())


# Shapes, and what a case may depend on


def test_shapes(posterior):
    found = predict_cases(posterior, new_cases(), detail=True, max_passes=1)
    assert found.votes_by_batch.shape == (25, 12, 2)
    np.testing.assert_allclose(found.votes_by_batch.sum(axis=2), 1, rtol=1e-5)
    assert found.mean_votes().shape == (25, 2)
    assert found.familiarity.shape == (25,)
    near = found.neighbors
    assert near.probability.shape == near.influence.shape == near.share.shape == (25, 20)
    assert near.share_by_chain.shape == (25, 2, 20)
    assert near.features.shape == (25, 20, N_FEATURES)
    assert near.explained.shape == (25, N_FEATURES)
    assert predict_cases(posterior, new_cases(), max_passes=1).neighbors is None


def test_a_case_does_not_depend_on_the_others_their_order_or_the_threads(posterior):
    """Also where some of them need more draws than others."""
    data = new_cases()
    settings = {"detail": True, "error": middling_error(posterior, data), "max_passes": 5}
    whole = predict_cases(posterior, data, **settings)
    assert len(set(whole.n_draws.tolist())) > 1
    order = np.random.default_rng(3).permutation(len(data.x))
    for rows, threads in ((order, 1), (slice(None), 2), (slice(None), 3), *((slice(i, i + 1), 1) for i in range(4))):
        assert_same(predict_cases(posterior, rows_of(data, rows), n_threads=threads, **settings), whole, rows)


def test_shares_come_without_the_features(posterior):
    data = new_cases()
    shares, whole = (predict_cases(posterior, data, detail=detail, max_passes=1) for detail in ("shares", True))
    assert 0 in shares.neighbors.features.shape
    np.testing.assert_array_equal(shares.votes_by_batch, whole.votes_by_batch)
    for name in ("probability", "influence", "share", "share_by_chain"):
        np.testing.assert_array_equal(getattr(shares.neighbors, name), getattr(whole.neighbors, name))


def test_batches_are_small_and_their_size_does_not_matter(posterior, monkeypatch):
    data, settings = new_cases(), {"detail": True, "error": 0.02, "max_passes": 2}
    whole = predict_cases(posterior, data, **settings)
    monkeypatch.setattr(predict, "BATCH", 7)
    parts = list(predict_batches(posterior, data, **settings))
    assert [len(part.n_draws) for part in parts] == [7, 7, 7, 4]
    assert_same(predict_cases(posterior, data, **settings), whole)
    per_case = 2 * 6 * 2 + 20 * (2 + 2 * 2) + 20 * N_FEATURES * (1 + 2)
    monkeypatch.setattr(predict, "BATCH_NUMBERS", 3 * per_case)
    assert len(next(predict_batches(posterior, data, **settings)).n_draws) == 3
    monkeypatch.setattr(predict, "BATCH_NUMBERS", 1)
    assert len(next(predict_batches(posterior, data, max_passes=1)).n_draws) == 1


def test_no_cases_are_no_prediction(posterior):
    assert list(predict_batches(posterior, rows_of(new_cases(), slice(0, 0)))) == []


def test_the_number_of_a_row_is_its_content():
    x = np.array([[0.0, 1.0, np.nan], [-0.0, 1.0, -np.nan], [1.0, 0.0, np.nan]])
    first, second, third = row_numbers(x)
    assert first == second != third
    assert row_numbers(x[2:])[0] == third
    assert row_numbers(np.asfortranarray(x))[2] == third
    assert row_numbers(np.array([[0.0, 1.0]]))[0] == -2365976759825509070  # everywhere, and for ever


# What it says


def test_neighbors_and_votes_tell_the_same_story(posterior):
    """The influence of each class, weighed as in h, is where the votes come from."""
    data = new_cases()
    found = predict_cases(posterior, data, detail=True, max_passes=2)
    near = found.neighbors
    if posterior.model.kind == "I":
        np.testing.assert_array_equal(near.influence, near.probability)
    if posterior.model.kind == "II":
        np.testing.assert_allclose(near.influence, near.features.sum(axis=2), rtol=1e-5)
    assert (near.features <= near.probability[:, :, None] + 1e-6).all()
    np.testing.assert_allclose(near.share_by_chain.mean(axis=1), near.share, rtol=1e-5, atol=1e-7)
    # The votes for a class are the shares of its neighbors and half of what is left to the base rates.
    base_rate = 1.0 - near.share.sum(axis=1)
    for_one = near.share @ (data.y_parents == 1) + base_rate / 2
    np.testing.assert_allclose(for_one, found.mean_votes()[:, 1], atol=1e-5)
    # log of a mean is at least the mean of the logs
    assert (np.log(near.explained).sum(axis=1) >= found.familiarity - 1e-4).all()


def test_one_draw_is_what_the_model_says(monkeypatch):
    """With q-tilde of one draw, the votes of a sweep are h(m) / sum h of the neighbors found."""
    monkeypatch.setattr(predict, "MANY_NEIGHBORS", 0.0)
    posterior, data = fitted(chains=1, draws=1), new_cases()
    found = predict_cases(posterior, data, detail=True, max_passes=1)
    near = found.neighbors
    latent = Latent(posterior.q[0, 0], near.probability > 0, near.features > 0, near.influence)
    np.testing.assert_allclose(found.votes_by_batch[:, 0], class_votes(data, posterior.model, latent), rtol=1e-6)
    explained = log_likelihood_features(data, posterior.model, latent).sum(axis=1)
    np.testing.assert_allclose(found.familiarity, explained, rtol=1e-6)
    np.testing.assert_allclose(np.log(near.explained).sum(axis=1), explained, rtol=1e-4)


@pytest.mark.parametrize("hidden", [True, False])
def test_both_ways_to_find_neighbors_agree(monkeypatch, hidden):
    posterior, data = fitted(), new_cases(hidden=hidden)
    settings = {"detail": True, "error": 1e-9}
    by_place = predict_cases(posterior, data, **settings)
    monkeypatch.setattr(predict, "MANY_NEIGHBORS", 0.0)
    by_sweep = predict_cases(posterior, data, **settings)
    assert within_error(by_place, by_sweep)
    # A sweep says 0 or 1 of every parent: 960 draws, of which each third or so is new, know a share to .03.
    for name in ("probability", "features", "explained"):
        one, other = (getattr(found.neighbors, name) for found in (by_place, by_sweep))
        assert np.abs(one - other).max() < 0.12
        assert abs((one - other).mean()) < 0.005
    assert np.abs(by_place.familiarity - by_sweep.familiarity).max() < 0.25
    # What is counted with everyone who may take a place has less noise.
    assert VOTES.error(by_place.votes_by_batch).mean() < VOTES.error(by_sweep.votes_by_batch).mean()


def test_a_known_label_draws_the_neighbors_of_its_class(posterior):
    hidden, known = (
        predict_cases(posterior, new_cases(hidden=is_hidden), detail=True, max_passes=2).neighbors
        for is_hidden in (True, False)
    )
    data = new_cases(hidden=False)
    same = data.y[:, None] == data.y_parents
    share = [(near.probability * same).sum() / near.probability.sum() for near in (hidden, known)]
    assert share[1] > share[0] + 0.05


def test_an_unseen_code_matches_nobody(posterior):
    data = new_cases(3)
    x = data.x.copy()
    x[:, 0] = 3  # V_0: no parent has it
    unseen, seen = (
        predict_cases(posterior, data._replace(x=values), detail=True, max_passes=2) for values in (x, data.x)
    )
    assert np.isfinite(unseen.mean_votes()).all()
    assert unseen.neighbors.features[:, :, 0].sum() < seen.neighbors.features[:, :, 0].sum()


def test_a_case_of_which_nothing_is_known_has_the_votes_of_its_prior():
    """Every parent is a neighbor with probability alpha: the mean of h / sum h over such sets, from simulation."""
    posterior = fitted()
    data = new_cases(1)._replace(x=np.full((1, N_FEATURES), np.nan))
    found = predict_cases(posterior, data, detail=True, error=1e-9)
    rng = np.random.default_rng(0)
    z = rng.random((40_000, 20)) < 0.2
    weights = 0.1 + z @ (data.y_parents[:, None] == np.arange(2))
    shares = weights / weights.sum(axis=1, keepdims=True)
    error = np.hypot(VOTES.error(found.votes_by_batch)[0], shares[:, 1].std() / 200)
    assert abs(found.mean_votes()[0, 1] - shares[:, 1].mean()) < 5 * error
    assert abs(blank_votes(posterior, new_cases())[1] - shares[:, 1].mean()) < 4.5 * shares[:, 1].std() / 200
    np.testing.assert_allclose(found.neighbors.probability, 0.2, atol=0.06)
    np.testing.assert_array_equal(found.neighbors.explained, 1.0)
    assert found.familiarity[0] == 0.0


@pytest.mark.parametrize(
    ("alpha", "mu", "mu0"), [(0.02, 1.0, 0.1), (0.2, (0.3, 9.0), (0.02, 0.1)), (0.9, (1.0, 3.0), (1e-5, 1e-4))]
)
def test_votes_on_nothing_are_those_of_all_sets_of_neighbors(alpha, mu, mu0):
    """Against the sum over all numbers of neighbors of either class."""
    data = new_cases()
    hyper = Hyperparameters(alpha=alpha, mu=mu, mu0=mu0)
    counts = np.bincount(data.y_parents)
    n0, n1 = (np.arange(n + 1) for n in counts)
    h = [hyper.mu0_per_class(2)[m] + hyper.mu_per_class(2)[m] * n for m, n in enumerate((n0, n1))]
    p = binom.pmf(n0, counts[0], alpha)[:, None] * binom.pmf(n1, counts[1], alpha)
    expected = (p * h[1] / (h[0][:, None] + h[1])).sum()
    found = blank_votes(replace(fitted(), model=Model(hyper=hyper)), data)
    assert found[1] == pytest.approx(expected, rel=1e-8)
    assert found.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("kind", ["II", "III"])
def test_votes_on_nothing_are_asked_for_in_the_other_models(kind):
    found = blank_votes(fitted(kind), new_cases())
    nothing = new_cases(1)._replace(x=np.full((1, N_FEATURES), np.nan))
    seen = predict_cases(seeded(fitted(kind), 5), nothing, error=1e-9)
    assert found == pytest.approx(seen.mean_votes()[0], abs=5 * np.hypot(VOTES.error(seen.votes_by_batch)[0], 0.005))


def test_the_model_of_the_posterior_is_used():
    posterior = fitted("III")
    assert posterior.model == Model("III", "exact", Hyperparameters(alpha=0.2))
    assert predict_cases(posterior, new_cases(), detail=True, max_passes=1).neighbors.influence.max() < 1


# Parents that may not vote


def test_excluded_parents_are_not_there():
    """As if they had never been: a posterior without them gives the same votes, within the Monte Carlo error."""
    posterior, data = fitted(), new_cases(12)
    out = np.array([0, 3, 8, 9, 15])
    excluded = np.zeros((12, 20), bool)
    excluded[:, out] = True
    found = predict_cases(posterior, data, detail=True, excluded=excluded, error=1e-9)
    assert (found.neighbors.probability[:, out] == 0).all()
    assert (found.neighbors.share[:, out] == 0).all()
    assert (found.neighbors.features[:, out] == 0).all()
    fewer = replace(posterior, q_tilde=np.delete(posterior.q_tilde, out, axis=2))
    rest = data._replace(x_parents=np.delete(data.x_parents, out, axis=0), y_parents=np.delete(data.y_parents, out))
    without = predict_cases(fewer, rest, detail=True, error=1e-9)
    assert within_error(found, without)
    kept = np.delete(found.neighbors.probability, out, axis=1)
    assert np.abs(kept - without.neighbors.probability).max() < 0.08
    assert not within_error(found, predict_cases(posterior, data, error=1e-9))  # and they do matter


def test_exclusion_is_of_the_case_and_not_of_its_neighbors_in_the_batch():
    posterior, data = fitted(), new_cases(6)
    excluded = np.random.default_rng(0).random((6, 20)) < 0.4
    whole = predict_cases(posterior, data, detail=True, excluded=excluded, max_passes=1, n_threads=2)
    assert ((whole.neighbors.probability == 0) == excluded).all()
    for i in range(6):
        rows = slice(i, i + 1)
        one = predict_cases(posterior, rows_of(data, rows), detail=True, excluded=excluded[rows], max_passes=1)
        assert_same(one, whole, rows)


def test_where_everybody_is_excluded_the_base_votes_are_left():
    posterior, data = fitted(), new_cases(2)
    found = predict_cases(posterior, data, detail=True, excluded=np.ones((2, 20), bool))
    np.testing.assert_allclose(found.mean_votes(), 0.5)
    assert (found.neighbors.share == 0).all()
    assert (found.n_draws == 60 * MIN_ROUNDS).all()  # nothing is left to chance


@pytest.mark.parametrize("kind", ["II", "III"])
def test_exclusion_is_refused_where_neighbors_are_found_by_sweep(kind):
    with pytest.raises(ValueError, match="excluded only in Model I"):
        predict_cases(fitted(kind), new_cases(2), excluded=np.zeros((2, 20), bool))


def test_no_case_votes_on_itself(posterior):
    own = np.arange(20)
    data = new_cases()._replace(x=np.array(problem()["x_parents"], float), y=np.full(20, HIDDEN), own_parent=own)
    near = predict_cases(posterior, data, detail=True, max_passes=2).neighbors
    assert (near.probability[own, own] == 0).all()
    assert near.probability.sum() > 0


# As many votes as the answer needs


def test_a_case_is_done_when_its_error_is_small_enough_and_not_before(posterior):
    data = new_cases()
    asked = middling_error(posterior, data)
    found = predict_cases(posterior, data, error=asked)
    n_least, n_most = 60 * MIN_ROUNDS, 60 * MAX_PASSES
    assert ((VOTES.scaled_error(found.votes_by_batch) <= asked) | (found.n_draws == n_most)).all()
    assert (found.n_draws % 60 == 0).all()
    assert found.n_draws.min() == n_least < found.n_draws.max()
    # When it was looked at the time before, those that went on had not reached it.
    looks = [MIN_ROUNDS]
    while looks[-1] < MAX_PASSES:
        looks.append(looks[-1] + (1 if predict.votes_by_place(posterior.model, data) else max(1, looks[-1] // 2)))
    for i in np.flatnonzero(found.n_draws > n_least)[:5]:
        passes = max(look for look in looks if 60 * look < found.n_draws[i])
        before = predict_cases(posterior, rows_of(data, [i]), error=asked, max_passes=passes)
        assert VOTES.scaled_error(before.votes_by_batch)[0] > asked
    # And those that had reached it do not change any more.
    short = predict_cases(posterior, data, error=asked, max_passes=MIN_ROUNDS + 1)
    done = found.n_draws <= 60 * (MIN_ROUNDS + 1)
    assert_same(rows_as_prediction(short, done), found, done)


def rows_as_prediction(found, rows):
    return found._replace(votes_by_batch=found.votes_by_batch[rows], familiarity=found.familiarity[rows],
                          n_draws=found.n_draws[rows])  # fmt: skip


def test_more_draws_make_the_error_smaller(posterior):
    errors = [
        VOTES.error(predict_cases(posterior, new_cases(), error=1e-9, max_passes=n).votes_by_batch).mean()
        for n in (1, 4, 16)
    ]
    assert errors[0] > 1.2 * errors[1] > 1.2 * 1.1 * errors[2]


def test_the_calibration_says_how_exact_votes_must_be():
    posterior, data = fitted(), new_cases()
    flat, steep = (predict_cases(posterior, data, error=0.01, calibration=Calibration(s, (0.5, 0.5))) for s in (0.5, 4))
    assert steep.n_draws.sum() > 1.5 * flat.n_draws.sum()


@pytest.mark.parametrize(
    ("n_draws", "n_chains", "n_per_pass", "n_batches"),
    [(100, 4, 5, 3), (500, 4, 25, 3), (30, 2, 1, 6), (39, 2, 1, 6), (41, 1, 2, 12), (1, 1, 1, 1), (3, 4, 1, 3)],
)
def test_rounds_use_all_draws_evenly(n_draws, n_chains, n_per_pass, n_batches):
    posterior = type("Draws", (), {"n_draws": n_draws, "n_chains": n_chains})
    rounds = Rounds.of(posterior, 3)
    assert (rounds.n_per_pass, rounds.n_batches, rounds.n_rounds) == (n_per_pass, n_batches, 3 * n_per_pass)
    for first in range(0, rounds.n_rounds, n_per_pass):  # every pass
        used = [rounds.draws(first + k) for k in range(n_per_pass)]
        assert sorted(np.concatenate(used).tolist()) == list(range(n_draws))
        for draws in used:
            assert np.ptp(np.bincount(rounds.batches(draws), minlength=n_batches)) <= 1  # every batch in every round
    batches = rounds.batches(np.arange(n_draws))
    assert (np.diff(batches) >= 0).all()  # draws that followed each other
    assert sorted(set(batches.tolist())) == list(range(n_batches))


def test_one_stored_draw_has_no_error_and_is_used_as_often_as_is_allowed():
    found = predict_cases(fitted(chains=1, draws=1), new_cases(3), max_passes=5)
    assert found.votes_by_batch.shape == (3, 1, 2)
    assert (found.n_draws == 5).all()


def test_the_first_draws_count_as_much_as_the_last():
    """As many neighbors as ever from the first draw on: 30 draws of 2 chains beside 16 times as many, over 8 seeds.

    A case's number of neighbors has a standard deviation of about 1.5 and forgets it in some ten draws; 25 cases, 8
    seeds, 2 chains and 3 such stretches know its mean to .05.
    """
    posterior, data = fitted(), new_cases()
    few, many = (np.mean([n_neighbors(seeded(posterior, seed), data, n) for seed in range(8)]) for n in (1, 16))
    assert few == pytest.approx(many, abs=0.2)


def n_neighbors(posterior, data, max_passes):
    found = predict_cases(posterior, data, detail="shares", error=1e-9, max_passes=max_passes)
    return found.neighbors.probability.sum(axis=1).mean()


def seeded(posterior, seed):
    return replace(posterior, settings=posterior.settings._replace(seed=seed))


# Neighborhoods and leave-one-out votes


def test_the_most_influential_come_first():
    near = predict_cases(fitted("II"), new_cases(), detail=True, max_passes=1).neighbors
    rows = np.arange(100, 120)
    shown = Neighborhood.of(near, rows, 5)
    assert shown.rows.shape == shown.influence.shape == (25, 5)
    assert shown.features.shape == (25, 5, N_FEATURES)
    assert (np.diff(shown.influence, axis=1) <= 0).all()
    np.testing.assert_array_equal(shown.influence[:, 0], near.influence.max(axis=1))
    np.testing.assert_array_equal(shown.probability, np.take_along_axis(near.probability, shown.rows - 100, axis=1))
    joined = Neighborhood.joined([shown, shown])
    assert joined.features.shape == (50, 5, N_FEATURES)
    assert Neighborhood.of(near, rows, 50).rows.shape == (25, 20)


def test_leave_one_out_predicts_every_case_without_itself(monkeypatch):
    posterior = fitted()
    arrays = problem()
    data = check_data(**(arrays | {"x": arrays["x_parents"], "y": arrays["y_parents"]}))
    past = data._replace(own_parent=np.arange(20))
    loo, by_chain = leave_one_out_votes(posterior, past, n_threads=2)
    np.testing.assert_allclose(by_chain.mean(axis=(1, 2)), loo.votes)
    np.testing.assert_array_equal(loo.rows, np.arange(20))
    alone = predict_cases(posterior, rows_of(past._replace(y=np.full(20, HIDDEN)), [7]), max_passes=1)
    np.testing.assert_array_equal(loo.votes[7], alone.mean_votes()[0])
    assert loo.familiarity[7] == alone.familiarity[0]
    monkeypatch.setattr(leave_one_out, "MAX_LEFT_OUT", 5)
    few, _ = leave_one_out_votes(posterior, past)
    np.testing.assert_array_equal(few.rows, [0, 5, 10, 14, 19])
    np.testing.assert_array_equal(few.votes, loo.votes[few.rows])
    assert (cases_left_out(past)[1].y == HIDDEN).all()


# Past and new cases together


@pytest.mark.parametrize("own", [False, True])
def test_together_the_new_cases_come_last_and_their_own_parent_stays_out(own):
    posterior = fitted()
    past, new = check_data(**problem()), new_cases(6)
    if own:  # the first past cases are parents, too
        own_parent = np.where(np.arange(30) < 20, np.arange(30), -1)
        past = past._replace(x=past.x_parents[own_parent], own_parent=own_parent)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        together = sample_together(posterior, past, new, n_threads=2)
    assert together.z_mean.shape == (36, 20)
    assert together.seed != posterior.seed
    itself = together.z_mean[np.arange(20), np.arange(20)]
    assert (itself == 0).all() == own


@pytest.mark.filterwarnings("ignore::bayespatch.sampling.diagnostics.MixingWarning")
def test_together_the_votes_of_the_chains_are_those_of_the_prediction():
    """Votes that the joint chains cast on the new cases, beside those that are cast anew under their q-tilde."""
    posterior = fitted(chains=2, draws=400, warmup=100)
    past, new = check_data(**problem()), new_cases(8)
    together = sample_together(posterior, past, new, n_threads=2)
    read = together.votes_mean[30:]
    cast = predict_cases(together, new, error=1e-9, max_passes=1).mean_votes()
    np.testing.assert_allclose(cast, read, atol=0.08)
    assert np.abs(cast - read).mean() < 0.02
