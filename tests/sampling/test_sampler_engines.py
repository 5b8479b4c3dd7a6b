"""Sampling with the real engines: every model, sound numbers, and what draws may depend on."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from importlib import import_module

import numpy as np
import pytest

from bayespatch.engine.base import Engine
from bayespatch.engine.installed import BUILT_IN, gpu_is_present, load_engine
from bayespatch.model import Hyperparameters
from bayespatch.sampling.diagnostics import MixingWarning
from bayespatch.sampling.sampler import sample
from tests.interruption import ctrl_c_interrupts, no_thread_left  # noqa: F401  # the fixture serves every test here
from tests.problems import TO_SAMPLE

REAL_ENGINES = [*BUILT_IN, *(["cuda"] if gpu_is_present() else [])]


def small(**changes):
    settings = {"chains": 2, "draws": 5, "warmup": 3, "seed": 3, "hyper": Hyperparameters(alpha=0.3)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixingWarning)
        return sample(**{**TO_SAMPLE, **settings, **changes})


def assert_sound(posterior) -> None:
    """Every number is finite and where it may be."""
    assert ((posterior.q >= 0) & (posterior.q <= 1)).all()
    assert ((posterior.q_tilde >= 0) & (posterior.q_tilde <= 1)).all()
    assert ((posterior.z_mean >= 0) & (posterior.z_mean <= 1)).all()
    assert np.isfinite(posterior.log_joint).all()
    np.testing.assert_allclose(posterior.votes_mean.sum(axis=1), 1)
    np.testing.assert_allclose(
        posterior.z_mean.sum(axis=1), posterior.n_neighbors.mean(axis=(0, 1)), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("engine", REAL_ENGINES)
@pytest.mark.parametrize("model", ["I", "II", "III"])
@pytest.mark.parametrize("likelihood", ["exact", "paper"])
def test_every_engine_samples_every_model(engine, model, likelihood):
    posterior = small(engine=engine, model=model, likelihood=likelihood, keep_w=True)
    assert_sound(posterior)
    assert (posterior.w_mean <= posterior.z_mean[:, :, None] + 1e-6).all()


@pytest.mark.parametrize("engine", REAL_ENGINES)
@pytest.mark.parametrize("model", ["I", "II", "III"])
def test_real_draws_do_not_depend_on_threads(engine, model):
    runs = [small(engine=engine, model=model, n_threads=n_threads, keep_votes=True) for n_threads in (1, 2, 3, 6)]
    for other in runs[1:]:
        for name in ("q", "q_tilde", "z_mean", "votes_mean", "n_neighbors", "log_joint", "votes"):
            np.testing.assert_array_equal(getattr(runs[0], name), getattr(other, name))


@pytest.mark.parametrize("engine", REAL_ENGINES)
def test_seeds_and_chains_differ(engine):
    one, other = small(engine=engine, seed=0), small(engine=engine, seed=1)
    assert (one.q != other.q).any()
    assert (one.q[0] != one.q[1]).any()


@pytest.mark.parametrize("engine", REAL_ENGINES)
@pytest.mark.parametrize("model", ["I", "II", "III"])
@pytest.mark.parametrize(
    "changes",
    [
        {"x": [[0, 1]], "y": [1]},
        {"x_parents": [[1, 2]], "y_parents": [0]},
        {"x": [[0, 1]], "y": [1], "x_parents": [[0, 1]], "y_parents": [1], "exclude_self": True},
        {"x": [[0], [1], [0]], "x_parents": [[0], [1], [1], [0]], "n_values": [2]},
        {"y": [0, 0, 0], "y_parents": [0, 0, 0, 0], "n_classes": 1},
        {"x": [[0, 1]] * 3, "x_parents": [[0, 1]] * 4},
        {"x": [[0, 0]] * 3, "x_parents": [[0, 0]] * 4, "n_values": [1, 1]},
        {"x": np.full((3, 2), np.nan), "missing": "ignore"},
        {"x_parents": np.full((4, 2), np.nan), "missing": "ignore"},
        {"supervised": False},
        {"hyper": Hyperparameters(mu=(0.5, 2.0))},
        {"windows": [0, 0.75], "n_values": [2, 2.5]},
    ],
    ids=[
        "one case", "one parent", "alone with itself", "one feature", "one class", "constant features", "one value",
        "cases all missing", "parents all missing", "unsupervised", "mu per class", "window",
    ],
)  # fmt: skip
def test_the_smallest_problems_work(engine, model, changes):
    assert_sound(small(engine=engine, model=model, **changes))


@pytest.mark.parametrize("engine", REAL_ENGINES)
def test_a_case_is_never_its_own_neighbor(engine):
    x, y = TO_SAMPLE["x_parents"], TO_SAMPLE["y_parents"]
    posterior = small(engine=engine, x=x, y=y, exclude_self=True, draws=30, hyper=Hyperparameters(alpha=0.9))
    assert (np.diag(posterior.z_mean) == 0).all()
    assert posterior.z_mean.sum() > 0


@pytest.mark.parametrize("engine", REAL_ENGINES)
def test_a_real_engine_can_be_interrupted(engine):
    load_engine(engine)
    small(engine=engine)  # compiled before the clock starts
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.warns(UserWarning, match="interrupted"):
        posterior = small(engine=engine, chains=3, draws=200_000, warmup=1, n_threads=2)
    assert_sound(posterior)
    assert no_thread_left()
    timer.join()


def test_bayespatch_sample_is_this_function():
    assert import_module("bayespatch").sample is sample


def test_every_registered_engine_obeys_the_contract():
    for name in REAL_ENGINES:
        assert issubclass(load_engine(name), Engine)
