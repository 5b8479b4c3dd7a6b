"""Sampling: chains in step, warm-up, thinning, progress, interruption; an engine that only counts, then real ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from dataclasses import dataclass, field

import numpy as np
import pytest
from joblib import cpu_count

from bayespatch.engine.base import Engine, Observation
from bayespatch.engine.installed import BUILT_IN, load_engine
from bayespatch.model import Hyperparameters
from bayespatch.sampling.diagnostics import MixingWarning
from bayespatch.sampling.sampler import sample
from tests.interruption import ctrl_c_interrupts, no_thread_left  # noqa: F401  # the fixture serves every test here
from tests.problems import TO_SAMPLE

N, S, P, M = 3, 4, 2, 2


@dataclass
class CountingState:
    """How often a chain was swept, and a stream of random numbers."""

    chain: int
    rng: np.random.Generator
    adapted: list[bool] = field(default_factory=list)
    z: np.ndarray = field(default_factory=lambda: np.zeros((N, S), dtype=bool))

    @property
    def n_sweeps(self) -> int:
        return len(self.adapted)


class CountingEngine(Engine):
    """An engine whose draws say when and of which chain they were taken; it can be slow, or be interrupted."""

    made: list[CountingEngine] = []  # noqa: RUF012
    sleep = 0.0
    interrupt: tuple[int, int] | None = None  # (chain, sweep) in which KeyboardInterrupt is raised
    fail: tuple[int, int] | None = None  # (chain, sweep) in which another error is raised
    running = 0
    most_running = 0
    lock = threading.Lock()

    def __init__(self, data, model, n_threads=1):
        super().__init__(data, model, n_threads)
        self.states: list[CountingState] = []
        CountingEngine.made.append(self)

    def start(self, seed, chain):
        state = CountingState(chain, np.random.default_rng([seed, chain]))
        self.states.append(state)
        return state

    def set_importance(self, state, q, q_tilde):
        state.begun_with = q, q_tilde

    def sweep(self, state, adapt=False):
        cls = CountingEngine
        with cls.lock:
            cls.running += 1
            cls.most_running = max(cls.most_running, cls.running)
        try:
            if cls.sleep:
                time.sleep(cls.sleep)
            if cls.interrupt == (state.chain, state.n_sweeps):
                raise KeyboardInterrupt
            if cls.fail == (state.chain, state.n_sweeps):
                raise RuntimeError("the engine broke")
            state.adapted.append(adapt)
            state.z = state.rng.random((N, S)) < 0.5
        finally:
            with cls.lock:
                cls.running -= 1

    def observe(self, state):
        rng = state.rng
        return Observation(
            q=np.array([state.chain, state.n_sweeps], dtype=float),
            q_tilde=rng.random((S, P)),
            n_neighbors=state.z.sum(axis=1, dtype=np.int32),
            votes=rng.dirichlet(np.ones(M), size=N),
            log_joint=rng.normal(),
        )

    def latent(self, state):
        raise AssertionError("`sample` has no need of all latent variables")

    def add_neighbors(self, state, z_sum, w_sum):
        z_sum += state.z
        if w_sum is not None:
            w_sum += state.z[:, :, None]


@pytest.fixture
def counting(monkeypatch):
    """The counting engine under the name "counting", fresh."""
    monkeypatch.setitem(BUILT_IN, "counting", f"{__name__}:CountingEngine")
    monkeypatch.setitem(sys.modules, __name__, sys.modules.get(__name__, sys.modules[CountingEngine.__module__]))
    for name, value in {"made": [], "sleep": 0.0, "interrupt": None, "fail": None, "most_running": 0}.items():
        monkeypatch.setattr(CountingEngine, name, value)
    return CountingEngine


def run(**changes):
    """`sample` on the small problem; short runs never mix, so that warning is expected and dropped."""
    settings = {"engine": "counting", "chains": 3, "draws": 6, "warmup": 4, "n_threads": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixingWarning)
        return sample(**{**TO_SAMPLE, **settings, **changes})


# The order of things


def test_shapes_and_types(counting):
    posterior = run(keep_w=True, keep_votes=True)
    assert posterior.q.shape == (3, 6, P)
    assert posterior.q_tilde.shape == (3, 6, S, P)
    assert posterior.q_tilde.dtype == np.float32
    assert posterior.z_mean.shape == (N, S)
    assert posterior.z_mean.dtype == np.float32
    assert posterior.w_mean.shape == (N, S, P)
    assert posterior.votes.shape == (3, 6, N, M)
    assert posterior.votes_mean.shape == (N, M)
    assert posterior.n_neighbors.shape == (3, 6, N)
    assert posterior.n_neighbors.dtype == np.int32
    assert posterior.log_joint.shape == (3, 6)


def test_the_four_arrays_may_be_positional(counting):
    four = [TO_SAMPLE[name] for name in ("x", "y", "x_parents", "y_parents")]
    with pytest.warns(MixingWarning):
        posterior = sample(*four, n_values=[2, 3], n_classes=2, engine="counting", draws=5, warmup=0)
    assert posterior.q.shape == (4, 5, P)


def test_warm_up_adapts_and_sampling_does_not(counting):
    run(warmup=5, draws=3, thin=2)
    for engine in counting.made:
        (state,) = engine.states
        assert state.adapted == [True] * 5 + [False] * 6


def test_every_thin_th_sweep_is_kept(counting):
    posterior = run(warmup=5, draws=3, thin=4)
    assert posterior.q[:, :, 0].tolist() == [[0] * 3, [1] * 3, [2] * 3]
    assert posterior.q[:, :, 1].tolist() == [[9, 13, 17]] * 3
    assert posterior.timing.sweeps == 3 * (5 + 3 * 4)


def test_no_warm_up_is_allowed(counting):
    assert run(warmup=0, draws=2).q[:, :, 1].tolist() == [[1, 2]] * 3


def test_means_are_those_of_the_draws(counting):
    posterior = run(draws=40, keep_w=True, keep_votes=True)
    np.testing.assert_allclose(posterior.z_mean.sum(axis=1), posterior.n_neighbors.mean(axis=(0, 1)), rtol=1e-6)
    np.testing.assert_allclose(posterior.w_mean[:, :, 1], posterior.z_mean)
    np.testing.assert_allclose(posterior.votes_mean, posterior.votes.mean(axis=(0, 1)), rtol=1e-5)
    np.testing.assert_allclose(posterior.z_mean * 120, np.round(posterior.z_mean * 120), rtol=1e-6)


def test_settings_are_remembered(counting):
    posterior = run(seed=np.int64(5), supervised=False, model="III", likelihood="paper", hyper=Hyperparameters(tau=3))
    assert posterior.seed == 5
    assert posterior.settings.supervised is False
    assert (posterior.model.kind, posterior.model.likelihood, posterior.hyper.tau) == ("III", "paper", 3)
    assert counting.made[0].data.y.tolist() == [-1, -1, -1]
    assert posterior.timing.seconds > 0


@pytest.mark.parametrize(
    ("chains", "n_threads", "at_once", "each"), [(4, 1, 1, 1), (4, 2, 2, 1), (4, 9, 4, 2), (1, 6, 1, 6), (2, 5, 2, 2)]
)
def test_threads_are_shared_out_among_chains(counting, monkeypatch, chains, n_threads, at_once, each):
    monkeypatch.setattr(counting, "sleep", 0.005)
    run(chains=chains, n_threads=n_threads, draws=3)
    assert counting.most_running == at_once
    assert [engine.n_threads for engine in counting.made] == [each] * chains
    assert all(len(engine.states) == 1 for engine in counting.made)


def test_all_cores_that_the_process_may_use_by_default(counting):
    run(chains=1, n_threads=None)
    assert 1 <= counting.made[0].n_threads == cpu_count() <= len(os.sched_getaffinity(0))


@pytest.mark.parametrize("n_threads", [2, 3, 8])
def test_threads_do_not_change_the_draws(counting, n_threads):
    one, many = run(n_threads=1, keep_votes=True), run(n_threads=n_threads, keep_votes=True)
    for name in ("q", "q_tilde", "z_mean", "votes_mean", "n_neighbors", "log_joint", "votes"):
        np.testing.assert_array_equal(getattr(one, name), getattr(many, name))


# Interruption


def test_interruption_in_the_warm_up_is_raised(counting, monkeypatch):
    monkeypatch.setattr(counting, "interrupt", (1, 2))
    with pytest.raises(KeyboardInterrupt):
        run()
    assert no_thread_left()


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_interruption_returns_equally_many_draws_of_each_chain(counting, monkeypatch, n_threads):
    monkeypatch.setattr(counting, "interrupt", (1, 30))  # in the warm-up's 4 and 26 draws
    with pytest.warns(UserWarning, match=r"interrupted: \d+ of 100000 draws per chain are kept"):
        posterior = run(draws=100_000, n_threads=n_threads, keep_votes=True)
    assert posterior.interrupted
    assert 1 <= posterior.n_draws <= 26
    expected = np.arange(5, 5 + posterior.n_draws)
    assert posterior.q[:, :, 1].tolist() == [expected.tolist()] * 3
    assert posterior.votes.shape[:2] == posterior.q_tilde.shape[:2] == posterior.log_joint.shape == (3, len(expected))
    assert no_thread_left()


def test_interruption_before_the_first_draw_of_each_chain_is_raised(counting, monkeypatch):
    monkeypatch.setattr(counting, "interrupt", (2, 4))
    with pytest.raises(KeyboardInterrupt):
        run()
    assert no_thread_left()


@pytest.mark.parametrize("n_threads", [1, 3])
@pytest.mark.parametrize("thin", [1, 7])
def test_a_real_ctrl_c_returns_the_finished_draws(counting, monkeypatch, n_threads, thin):
    monkeypatch.setattr(counting, "sleep", 0.002)
    timer = threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    began = time.perf_counter()
    with pytest.warns(UserWarning, match="interrupted"):
        posterior = run(draws=10_000, thin=thin, n_threads=n_threads)
    assert time.perf_counter() - began < 5
    assert posterior.n_draws >= 1
    assert posterior.q[:, -1, 1].tolist() == [4 + posterior.n_draws * thin] * 3
    np.testing.assert_allclose(posterior.z_mean.sum(axis=1), posterior.n_neighbors.mean(axis=(0, 1)), rtol=1e-6)
    assert no_thread_left()
    timer.join()


def test_a_real_ctrl_c_in_the_warm_up_is_raised(counting, monkeypatch):
    monkeypatch.setattr(counting, "sleep", 0.002)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run(warmup=100_000)
    assert no_thread_left()
    timer.join()


def test_a_second_ctrl_c_gives_up(counting, monkeypatch):
    """One thread, so that two chains would have to catch up with the first; each draw takes 0.6 seconds."""
    monkeypatch.setattr(counting, "sleep", 0.3)
    timers = [threading.Timer(at, os.kill, (os.getpid(), signal.SIGINT)) for at in (0.8, 1.0)]
    for timer in timers:
        timer.start()
    with pytest.raises(KeyboardInterrupt):
        run(draws=1000, warmup=0, thin=2, n_threads=1)
    assert no_thread_left()
    for timer in timers:
        timer.join()


def test_an_error_of_an_engine_is_raised_and_ends_every_chain(counting, monkeypatch):
    monkeypatch.setattr(counting, "fail", (1, 8))
    with pytest.raises(RuntimeError, match="the engine broke"):
        run(draws=100_000)
    assert no_thread_left()
    assert max(engine.states[0].n_sweeps for engine in counting.made) < 1000


# Progress


def test_progress_is_told_to_a_function(counting):
    told = []
    run(chains=2, warmup=3, draws=4, thin=2, progress=lambda *report: told.append(report))
    assert told[0] == (0, 22, "warm-up")
    assert told[-1] == (22, 22, "sampling")
    done = [report[0] for report in told]
    assert done == sorted(done)
    assert {report[2] for report in told} == {"warm-up", "sampling"}


def test_a_function_that_fails_ends_the_run(counting):
    def tell(done, total, phase):
        if phase == "sampling":
            raise RuntimeError("nobody listens")

    with pytest.raises(RuntimeError, match="nobody listens"):
        run(progress=tell)
    assert no_thread_left()


def test_progress_is_a_bar_on_stderr(counting, capsys):
    run(chains=2, warmup=3, draws=4, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "sampling" in err
    assert "14/14" in err
    assert "sweeps/s" in err


def test_no_progress_says_nothing(counting, capsys):
    run()
    assert capsys.readouterr() == ("", "")


def test_a_bar_without_rich_names_the_extra_before_any_work(counting, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    with pytest.raises(ImportError, match=r'pip install "bayespatch\[cli\]"'):
        run(progress=True)
    assert counting.made == []
    run(progress=False)


# Warnings


def test_unmixed_chains_are_named(counting):
    with pytest.warns(MixingWarning, match=r"the chains have not mixed: q\[0\] \(R-hat ") as caught:
        sample(**TO_SAMPLE, engine="counting", draws=50, warmup=0, n_threads=1)
    assert caught[0].filename == __file__
    assert "at least 400 (100 per chain)" in str(caught[0].message)


def test_too_few_draws_are_named(counting):
    with pytest.warns(MixingWarning, match="draws=2 per chain are too few"):
        sample(**TO_SAMPLE, engine="counting", draws=2, warmup=0, n_threads=1)


def test_mixed_chains_are_not_warned_about(counting, monkeypatch):
    observe = counting.observe

    def mixed(self, state):
        return observe(self, state)._replace(q=state.rng.random(P))

    monkeypatch.setattr(counting, "observe", mixed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posterior = sample(**TO_SAMPLE, engine="counting", draws=1000, warmup=0, seed=1)
    assert posterior.diagnostics().converged


# The registry


def test_an_unknown_engine_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="engine='abacus' is not valid; choose one of 'cpu', 'paper'"):
        load_engine("abacus")


def test_importing_sample_loads_no_heavy_package():
    heavy = {"numba", "arviz_stats", "rich", "xarray", "pandas"}
    code = f"import bayespatch.sampling.sampler, sys; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_begins_with_the_importances_of_an_earlier_run(counting):
    first = run(chains=2, draws=3, warmup=0)
    CountingEngine.made.clear()
    run(chains=3, draws=1, warmup=0, begin=first)
    for chain, engine in enumerate(CountingEngine.made):
        q, q_tilde = engine.states[0].begun_with
        np.testing.assert_array_equal(q, first.q[chain % 2, -1])
        np.testing.assert_array_equal(q_tilde, first.q_tilde[chain % 2, -1])
