"""New cases under a posterior: what their prediction may depend on, and what it must agree with."""

import warnings

import numpy as np
import pytest

from bayespatch import predict
from bayespatch.check import check_data
from bayespatch.model import HIDDEN, Hyperparameters, Latent, Model, class_votes, log_likelihood_features
from bayespatch.predict import (
    Neighborhood,
    draws_used,
    predict_batches,
    predict_cases,
    row_numbers,
    sample_together,
)
from bayespatch.sample import sample

N_FEATURES = 4


def problem(n_cases=30, n_parents=20, seed=0):
    """Cases that copy a parent, but for some noise."""
    rng = np.random.default_rng(seed)
    x_parents, y_parents = rng.integers(0, 3, (n_parents, N_FEATURES)), rng.integers(0, 2, n_parents)
    copied = rng.integers(0, n_parents, n_cases)
    x = np.where(rng.random((n_cases, N_FEATURES)) < 0.3, rng.integers(0, 3, (n_cases, N_FEATURES)), x_parents[copied])
    return dict(x=x, y=y_parents[copied], x_parents=x_parents, y_parents=y_parents, n_values=[3] * 4, n_classes=2)


def fitted(model="I", **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        hyper = Hyperparameters(alpha=0.2)
        return sample(**problem(), model=model, hyper=hyper, **{"chains": 2, "draws": 30, "warmup": 30, **settings})


def new_cases(n=25, hidden=True):
    arrays = problem() | {key: problem(n, seed=1)[key] for key in ("x", "y")}
    data = check_data(**arrays)
    return data._replace(y=np.full(n, HIDDEN)) if hidden else data


@pytest.fixture(scope="module", params=["I", "II", "III"])
def posterior(request):
    return fitted(request.param)


def rows_of(data, rows):
    return data._replace(x=data.x[rows], y=data.y[rows], own_parent=data.own_parent[rows])


def test_shapes(posterior):
    votes, familiarity, company = predict_cases(posterior, new_cases(), detail=True)
    assert votes.shape == (60, 25, 2)
    np.testing.assert_allclose(votes.sum(axis=2), 1, rtol=1e-6)
    assert company.probability.shape == company.influence.shape == company.share.shape == (25, 20)
    assert familiarity.shape == (25,)
    assert company.features.shape == (25, 20, N_FEATURES)
    assert predict_cases(posterior, new_cases()).company is None


def test_a_case_does_not_depend_on_the_others_their_order_or_the_threads(posterior):
    data = new_cases()
    whole = predict_cases(posterior, data, detail=True)
    order = np.random.default_rng(3).permutation(len(data.x))
    for rows, threads in ((order, 1), (slice(None), 2), (slice(None), 3), *((slice(i, i + 1), 1) for i in range(6))):
        part = predict_cases(posterior, rows_of(data, rows), detail=True, n_threads=threads)
        np.testing.assert_array_equal(part.votes, whole.votes[:, rows])
        np.testing.assert_array_equal(part.mean_votes(), whole.mean_votes()[rows])
        for found, expected in zip(part.company, whole.company, strict=True):
            np.testing.assert_array_equal(found, expected[rows])


def test_shares_come_without_the_features(posterior):
    data = new_cases()
    shares, whole = (predict_cases(posterior, data, detail=detail) for detail in ("shares", True))
    assert shares.company.features.shape == (25, 20, 0)
    np.testing.assert_array_equal(shares.votes, whole.votes)
    for name in ("probability", "influence", "share"):
        np.testing.assert_array_equal(getattr(shares.company, name), getattr(whole.company, name))


def test_batches_are_small_and_their_size_does_not_matter(posterior, monkeypatch):
    data = new_cases()
    whole = predict_cases(posterior, data, detail=True)
    monkeypatch.setattr(predict, "BATCH", 7)
    parts = list(predict_batches(posterior, data, detail=True))
    assert [part.votes.shape[1] for part in parts] == [7, 7, 7, 4]
    joined = predict_cases(posterior, data, detail=True)
    np.testing.assert_array_equal(joined.votes, whole.votes)
    np.testing.assert_array_equal(joined.company.features, whole.company.features)
    monkeypatch.setattr(predict, "BATCH_NUMBERS", 3 * (200 * 2 + 20 * (N_FEATURES + 2 + 2 + 3)))
    assert next(predict_batches(posterior, data, detail=True)).votes.shape[1] == 3
    monkeypatch.setattr(predict, "BATCH_NUMBERS", 1)
    assert next(predict_batches(posterior, data)).votes.shape[1] == 1


def test_company_and_votes_tell_the_same_story(posterior):
    """The influence of each class, weighed as in h, is where the votes come from."""
    data = new_cases()
    votes, _, company = predict_cases(posterior, data, detail=True)
    if posterior.model.kind == "I":
        np.testing.assert_array_equal(company.influence, company.probability)
    if posterior.model.kind == "II":
        np.testing.assert_allclose(company.influence, company.features.sum(axis=2), rtol=1e-5)
    assert (company.features <= company.probability[:, :, None] + 1e-6).all()
    # The votes for a class are the shares of its neighbors and half of what is left to the base rates.
    base_rate = 1.0 - company.share.sum(axis=1)
    for_one = company.share @ (data.y_parents == 1) + base_rate / 2
    np.testing.assert_allclose(for_one, votes[:, :, 1].mean(axis=0), atol=1e-5)


def test_one_draw_is_what_the_model_says():
    """With q-tilde of one draw, votes are h(m) / sum h of the neighbors found."""
    posterior = fitted(chains=1, draws=1)
    data = new_cases()
    votes, familiarity, company = predict_cases(posterior, data, detail=True)
    z, w = company.probability > 0, company.features > 0
    latent = Latent(posterior.q[0, 0], z, w, company.influence)
    np.testing.assert_allclose(votes[0], class_votes(data, posterior.model, latent), rtol=1e-6)
    explained = log_likelihood_features(data, posterior.model, latent).sum(axis=1)
    np.testing.assert_allclose(familiarity, explained, rtol=1e-6)


def test_a_known_label_draws_the_neighbors_of_its_class(posterior):
    hidden, known = (
        predict_cases(posterior, new_cases(hidden=is_hidden), detail=True).company for is_hidden in (True, False)
    )
    data = new_cases(hidden=False)
    same = data.y[:, None] == data.y_parents
    share = [(c.probability * same).sum() / c.probability.sum() for c in (hidden, known)]
    assert share[1] > share[0] + 0.05


def test_an_unseen_code_matches_nobody(posterior):
    data = new_cases(3)
    x = data.x.copy()
    x[:, 0] = 3  # V_0: no parent has it
    votes, _, company = predict_cases(posterior, data._replace(x=x), detail=True)
    assert np.isfinite(votes).all()
    seen = predict_cases(posterior, data, detail=True).company
    assert company.features[:, :, 0].sum() < seen.features[:, :, 0].sum()


@pytest.mark.parametrize(("n_draws", "each"), [(200, 30), (20, 10), (21, 11), (1, 1), (2, 1)])
def test_draws_are_spread_evenly_over_the_chains(n_draws, each):
    used = draws_used(fitted(), n_draws)
    assert len(used) == each == len(set(used.tolist()))
    assert used[-1] == 29
    assert list(used) == sorted(used)


def test_the_number_of_a_row_is_its_content():
    x = np.array([[0.0, 1.0, np.nan], [-0.0, 1.0, -np.nan], [1.0, 0.0, np.nan]])
    first, second, third = row_numbers(x)
    assert first == second != third
    assert row_numbers(x[2:])[0] == third
    assert row_numbers(np.asfortranarray(x))[2] == third
    assert row_numbers(np.array([[0.0, 1.0]]))[0] == -2365976759825509070  # everywhere, and for ever


def test_the_most_influential_come_first():
    company = predict_cases(fitted("II"), new_cases(), detail=True).company
    rows = np.arange(100, 120)
    near = Neighborhood.of(company, rows, 5)
    assert near.rows.shape == near.influence.shape == (25, 5)
    assert near.features.shape == (25, 5, N_FEATURES)
    assert (np.diff(near.influence, axis=1) <= 0).all()
    np.testing.assert_array_equal(near.influence[:, 0], company.influence.max(axis=1))
    np.testing.assert_array_equal(near.probability, np.take_along_axis(company.probability, near.rows - 100, axis=1))
    joined = Neighborhood.joined([near, near])
    assert joined.features.shape == (50, 5, N_FEATURES)
    assert Neighborhood.of(company, rows, 50).rows.shape == (25, 20)


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


@pytest.mark.filterwarnings("ignore::bayespatch.diagnostics.MixingWarning")
def test_together_the_votes_of_the_chains_are_those_of_the_prediction():
    """Votes that the joint chains cast on the new cases, beside those that are cast anew under their q-tilde."""
    posterior = fitted(chains=2, draws=400, warmup=100)
    past, new = check_data(**problem()), new_cases(8)
    together = sample_together(posterior, past, new, n_threads=2)
    read = together.votes_mean[30:]
    cast = predict_cases(together, new, n_draws=800).mean_votes()
    np.testing.assert_allclose(cast, read, atol=0.08)
    assert np.abs(cast - read).mean() < 0.02


def test_the_model_of_the_posterior_is_used():
    posterior = fitted("III")
    assert posterior.model == Model("III", "exact", Hyperparameters(alpha=0.2))
    assert predict_cases(posterior, new_cases(), detail=True).company.influence.max() < 1


def test_the_rest_of_company_belongs_to_the_same_draws(posterior):
    data = new_cases()
    found = predict_cases(posterior, data, detail=True)
    company = found.company
    np.testing.assert_allclose(company.by_chain.mean(axis=1), company.influence, rtol=1e-5, atol=1e-7)
    # The votes beside a parent are those of the draws in which it is a neighbor: no more of them than there are.
    np.testing.assert_allclose(company.votes_beside.sum(axis=2), company.probability, rtol=1e-5, atol=1e-7)
    assert (company.votes_beside <= found.votes.mean(axis=0)[:, None, :] + 1e-6).all()
    # log of a mean is at least the mean of the logs
    assert (np.log(company.explained).sum(axis=1) >= found.familiarity - 1e-4).all()


def test_one_draw_explains_values_as_its_likelihood_says():
    posterior = fitted(chains=1, draws=1)
    found = predict_cases(posterior, new_cases(), detail=True)
    np.testing.assert_allclose(np.log(found.company.explained).sum(axis=1), found.familiarity, rtol=1e-4)


def test_a_parent_that_is_not_there_is_asked_no_more(posterior):
    data = new_cases()
    fewer, rest = predict.without_parent(posterior, data, 3)
    assert len(rest.x_parents) == len(data.x_parents) - 1
    assert fewer.q_tilde.shape[2] == len(rest.x_parents)
    excluded = predict_cases(posterior, data._replace(own_parent=np.full(len(data.x), 3))).mean_votes()
    # 60 draws each, of shares with a standard deviation of at most .5; their autocorrelation is small.
    assert np.abs(predict_cases(fewer, rest).mean_votes() - excluded).max() < 4 * np.sqrt(2 / 60) * 0.5
