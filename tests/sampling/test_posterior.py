"""What a posterior says about itself: diagnostics, tables, ArviZ, and what was not kept."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from arviz_stats.base import array_stats

from bayespatch.model import Hyperparameters, Model
from bayespatch.sampling.posterior import Posterior, SamplingSettings, Timing

CHAINS, DRAWS, N, S, P, M = 4, 200, 5, 6, 3, 2
AXES = {"chain_axis": 0, "draw_axis": 1}


def make_posterior(chains=CHAINS, draws=DRAWS, *, asked=None, keep=True, seed=0, **changes) -> Posterior:
    """Independent draws: what perfect mixing looks like."""
    rng = np.random.default_rng(seed)
    votes = rng.dirichlet(np.ones(M), size=(chains, draws, N)).astype(np.float32)
    parts = {
        "q": rng.beta(2, 2, size=(chains, draws, P)),
        "q_tilde": rng.beta(2, 2, size=(chains, draws, S, P)).astype(np.float32),
        "z_mean": rng.random((N, S), dtype=np.float32),
        "votes_mean": votes.mean(axis=(0, 1)),
        "n_neighbors": rng.poisson(3, size=(chains, draws, N)).astype(np.int32),
        "log_joint": rng.normal(-100, 5, size=(chains, draws)),
        "model": Model(kind="II", likelihood="paper", hyper=Hyperparameters(alpha=0.2)),
        "settings": SamplingSettings(engine="cpu", chains=chains, draws=asked or draws, warmup=7, thin=3, seed=11),
        "timing": Timing(seconds_warmup=1.5, seconds_sampling=2.5, sweeps=2428, n_threads=2),
        "kept_w_mean": rng.random((N, S, P), dtype=np.float32) if keep else None,
        "kept_votes": votes if keep else None,
    }
    return Posterior(**{**parts, **changes})


@pytest.fixture
def posterior() -> Posterior:
    return make_posterior()


# Diagnostics


def test_diagnostics_are_those_of_arviz(posterior):
    table = posterior.diagnostics()
    assert table.names == ("q[0]", "q[1]", "q[2]", "log_joint", "mean_neighbors")
    watched = np.dstack([posterior.q, posterior.log_joint, posterior.n_neighbors.mean(axis=2)])
    np.testing.assert_array_equal(table.rhat, array_stats.rhat(watched, method="rank", **AXES))
    np.testing.assert_array_equal(table.ess_bulk, array_stats.ess(watched, method="bulk", **AXES))
    np.testing.assert_array_equal(table.ess_tail, array_stats.ess(watched, method="tail", prob=(0.05, 0.95), **AXES))
    np.testing.assert_array_equal(table.mcse, array_stats.mcse(watched, method="mean", **AXES))
    np.testing.assert_allclose(table.mean, watched.mean(axis=(0, 1)))
    np.testing.assert_allclose(table.sd, watched.std(axis=(0, 1), ddof=1))


def test_tail_ess_is_that_of_labelled_arviz():
    from arviz_base import from_dict
    from arviz_stats import ess

    posterior = make_posterior()
    labelled = ess(from_dict({"posterior": {"q": posterior.q}}), method="tail", prob=(0.05, 0.95))["q"].values
    np.testing.assert_allclose(posterior.diagnostics().ess_tail[:P], labelled)


def test_independent_draws_have_converged(posterior):
    table = posterior.diagnostics()
    assert table.converged
    assert not table.poor.any()
    assert table.warning() is None
    assert table.notes == ()


def test_chains_in_different_places_have_not_converged():
    shift = np.zeros((CHAINS, DRAWS, P))
    shift[0, :, 1] = 0.5
    good = make_posterior()
    table = make_posterior(q=good.q + shift).diagnostics()
    assert not table.converged
    assert table.poor.tolist() == [False, True, False, False, False]
    assert table.worst(1).names == ("q[1]",)
    said = table.warning()
    assert f"q[1] (R-hat {table.rhat[1]:.3f}, ESS {table.ess[1]:.0f})" in said
    assert "at least 400 (100 per chain)" in said
    assert "Pass more draws" in said
    assert "log_joint" not in said


def test_constant_quantities_are_left_out_with_a_note():
    constant = make_posterior(n_neighbors=np.full((CHAINS, DRAWS, N), 2, dtype=np.int32))
    table = constant.diagnostics()
    assert np.isnan(table.rhat[-1])
    assert np.isnan(table.ess_bulk[-1])
    assert table.mean[-1] == 2
    assert table.sd[-1] == 0
    assert table.converged
    assert table.notes == ("Constant over all draws, so not diagnosed: mean_neighbors.",)
    assert "mean_neighbors" not in table.worst(99).names


def test_one_chain_has_no_rhat_but_an_ess():
    table = make_posterior(chains=1, draws=400).diagnostics()
    assert np.isnan(table.rhat).all()
    assert (table.ess_bulk > 100).all()
    assert table.notes == ("R-hat needs more than one chain.",)
    assert table.converged
    short = make_posterior(chains=1, draws=20).diagnostics()
    assert "(ESS " in short.warning()


@pytest.mark.parametrize(("chains", "draws"), [(1, 1), (4, 1), (4, 3)])
def test_too_few_draws_cannot_be_judged(chains, draws):
    table = make_posterior(chains=chains, draws=draws).diagnostics()
    assert not table.converged
    assert np.isnan(table.rhat).all()
    assert f"draws={draws} per chain are too few" in table.warning()
    assert any("too few" in note for note in table.notes)


def test_votes_rhat_is_the_worst_class_of_each_case(posterior):
    expected = array_stats.rhat(posterior.votes.astype(float), method="rank", **AXES)
    np.testing.assert_allclose(posterior.votes_rhat(), expected.max(axis=1))
    assert posterior.votes_rhat().shape == (N,)


def test_votes_that_never_change_have_no_rhat():
    votes = make_posterior().votes.copy()
    votes[:, :, 2] = 0.5
    assert np.isnan(make_posterior(kept_votes=votes).votes_rhat()).tolist() == [False, False, True, False, False]


def test_notes_stand_below_the_table():
    assert str(make_posterior(chains=1).diagnostics()).endswith("R-hat needs more than one chain.")


# What was not kept


def test_w_mean_that_was_not_kept_names_the_remedy():
    with pytest.raises(AttributeError, match="w_mean was not kept; sample again with keep_w=True"):
        make_posterior(keep=False).w_mean


def test_votes_that_were_not_kept_name_the_remedy():
    bare = make_posterior(keep=False)
    for asking in (lambda: bare.votes, bare.votes_rhat):
        with pytest.raises(AttributeError, match="votes were not kept; sample again with keep_votes=True"):
            asking()


def test_kept_parts_are_there(posterior):
    assert posterior.w_mean.shape == (N, S, P)
    assert posterior.votes.shape == (CHAINS, DRAWS, N, M)


def test_a_posterior_cannot_be_changed(posterior):
    with pytest.raises(AttributeError):
        posterior.q = posterior.q + 1


# Words


def test_repr_tells_the_run_in_three_lines(posterior):
    lines = repr(posterior).splitlines()
    assert lines[0] == "Posterior of Model II, paper likelihood: 4 chains x 200 draws"
    assert lines[1].startswith("  cases 5, parents 6, features 3, classes 2; neighbors per case ")
    assert lines[2] == "  engine cpu, seed 11, warmup 7, thin 3; 2428 sweeps in 4.0 s"


def test_repr_tells_an_interruption():
    cut = make_posterior(asked=900)
    assert cut.interrupted
    assert "200 draws (interrupted: 900 were requested)" in repr(cut)
    assert not make_posterior().interrupted


def test_summary_gives_the_verdict_and_the_slowest(posterior):
    said = posterior.summary()
    assert "The chains have mixed." in said
    assert posterior.diagnostics().worst(1).names[0] in said
    assert "have not mixed" in make_posterior(draws=10).summary()


def test_short_names(posterior):
    assert posterior.hyper.alpha == 0.2
    assert posterior.seed == 11
    assert (posterior.n_chains, posterior.n_draws) == (CHAINS, DRAWS)
    assert posterior.timing.seconds == 4.0


# ArviZ


def test_to_arviz_names_every_dimension(posterior):
    tree = posterior.to_arviz()
    assert tree["posterior"]["q"].dims == ("chain", "draw", "feature")
    assert tree["posterior"]["q_tilde"].dims == ("chain", "draw", "parent", "feature")
    assert tree["posterior"]["n_neighbors"].dims == ("chain", "draw", "case")
    assert tree["posterior"]["votes"].dims == ("chain", "draw", "case", "class")
    assert tree["sample_stats"]["lp"].dims == ("chain", "draw")
    assert tree["means"]["z_mean"].dims == ("case", "parent")
    assert tree["means"]["w_mean"].dims == ("case", "parent", "feature")
    assert tree["means"]["votes_mean"].dims == ("case", "class")
    np.testing.assert_array_equal(tree["posterior"]["q"].values, posterior.q)
    np.testing.assert_array_equal(tree["sample_stats"]["lp"].values, posterior.log_joint)
    np.testing.assert_array_equal(tree["means"]["z_mean"].values, posterior.z_mean)
    assert tree.attrs["model"] == "II"


def test_to_arviz_leaves_out_what_was_not_kept():
    tree = make_posterior(keep=False).to_arviz()
    assert "votes" not in tree["posterior"]
    assert "w_mean" not in tree["means"]


def test_to_arviz_names_features(posterior):
    names = [f"column {j}" for j in range(P)]
    tree = posterior.to_arviz(features=names)
    for group, variable in (("posterior", "q"), ("posterior", "q_tilde"), ("means", "w_mean")):
        assert tree[group][variable]["feature"].values.tolist() == names
    with pytest.raises(ValueError, match=f"features has 1 names for {P} features"):
        posterior.to_arviz(features=["age"])


def test_arviz_before_its_new_version_gets_what_it_takes(posterior, monkeypatch):
    """ArviZ 0.23 refuses a DataTree: its summary takes InferenceData."""

    class InferenceData:
        def __init__(self, attrs, warn_on_custom_groups, **groups):
            self.attrs, self.groups = attrs, groups

    monkeypatch.setitem(sys.modules, "arviz", SimpleNamespace(InferenceData=InferenceData))
    data = posterior.to_arviz()
    assert isinstance(data, InferenceData)
    assert list(data.groups) == ["posterior", "sample_stats", "means"]
    np.testing.assert_array_equal(data.groups["posterior"]["q"].values, posterior.q)


def test_the_summary_of_an_installed_arviz_works_on_it(posterior):
    arviz = pytest.importorskip("arviz")
    frame = arviz.summary(posterior.to_arviz(features=[f"x{j}" for j in range(P)]), var_names=["q"])
    assert list(frame.index) == [f"q[x{j}]" for j in range(P)]


def test_arviz_summary_works_on_it(posterior, monkeypatch):
    from arviz_stats import summary

    monkeypatch.setitem(sys.modules, "arviz", None)
    frame = summary(posterior.to_arviz(), var_names=["q"], round_to="none")
    np.testing.assert_allclose(frame["r_hat"], posterior.diagnostics().rhat[:P])


# Without the extras


def test_to_arviz_without_the_extra_names_it(posterior, monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(ImportError, match=r'pip install "bayespatch\[arviz\]"'):
        posterior.to_arviz()


# For chains with other parents


def test_last_draws_go_to_the_parents_they_belong_to(posterior):
    begin = posterior.last_draws(np.array([2, 3, 5, 7, 11, 13]), np.array([3, 4, 11]))
    np.testing.assert_array_equal(begin.q, posterior.q[:, -1:])
    assert begin.q_tilde.shape == (CHAINS, 1, 3, P)
    assert begin.q_tilde.dtype == np.float32
    np.testing.assert_array_equal(begin.q_tilde[:, 0, [0, 2]], posterior.q_tilde[:, -1, [1, 4]])
    np.testing.assert_allclose(begin.q_tilde[:, 0, 1], posterior.q[:, -1], rtol=1e-6)
