"""What a run needs: the formula against what a process takes, and the refusal."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bayespatch.engine.base import Engine, ProblemSizes
from bayespatch.engine.installed import load_engine
from bayespatch.model import Hyperparameters, Model
from bayespatch.sampling.memory_needed import Need, bytes_needed, check_memory
from bayespatch.sampling.posterior import SamplingSettings
from bayespatch.sampling.sampler import sample

SETTINGS = SamplingSettings("cpu", chains=3, draws=10, warmup=5, thin=1, seed=0)
SIZES = ProblemSizes(n_cases=50, n_parents=20, n_features=4, n_classes=3)

# In a process of its own: what it holds once the code is loaded and the data made, and the most it has held at the end.
MEASURE = """
import json, sys, warnings
import numpy as np
from pathlib import Path
from bayespatch import Hyperparameters, sample
warnings.simplefilter("ignore")
n, s, p, more = json.loads(sys.argv[1])
more["hyper"] = Hyperparameters(alpha=5 / s)
rng = np.random.default_rng(0)
def made(n, s):
    cases = dict(x=rng.integers(0, 3, (n, p)).astype(float), y=rng.integers(0, 2, n))
    return {**cases, "x_parents": rng.integers(0, 3, (s, p)).astype(float), "y_parents": rng.integers(0, 2, s)}
def now(name):
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return 1024 * int(lines[name].split()[0])
given = dict(n_values=[3] * p, n_classes=2, **more)
sample(**made(10, s), **given)
large = made(n, s)
Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
before = now("VmRSS")
sample(**large, **given)
print(now("VmHWM") - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak of a process is read from /proc")
@pytest.mark.parametrize(
    ("engine", "sizes", "settings"),
    [
        ("cpu", ProblemSizes(20_000, 30, 12, 2), dict(chains=2, draws=2, warmup=1)),
        (
            "cpu",
            ProblemSizes(10_000, 40, 12, 2),
            dict(chains=1, draws=2, warmup=0, model="III", keep_w=True, keep_votes=True),
        ),
        ("paper", ProblemSizes(60, 200, 20, 2), dict(chains=1, draws=1, warmup=0)),
    ],
)
def test_a_run_takes_what_was_computed(engine, sizes, settings):
    """Within a quarter; not counted are the data, which `sample` copies, and a few megabytes that go by."""
    more = {"engine": engine, "n_threads": settings["chains"], **settings}
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, json.dumps([*sizes[:3], more])], capture_output=True, text=True, check=True
    )
    measured = int(done.stdout)
    need = bytes_needed(
        sizes,
        Model(kind=settings.get("model", "I"), hyper=Hyperparameters(alpha=5 / sizes.n_parents)),
        SamplingSettings(engine, settings["chains"], settings["draws"], settings["warmup"], 1, 0),
        load_engine(engine),
        n_threads=settings["chains"],
        keep_w=settings.get("keep_w", False),
        keep_votes=settings.get("keep_votes", False),
    )
    data = 8 * sizes.n_cases * (sizes.n_features + 1)
    assert need.total / 1.25 < measured < 1.25 * (need.total + data) + 4e6


def test_what_is_kept_is_counted_to_the_byte():
    plain = bytes_needed(SIZES, Model(), SETTINGS, Engine)
    full = bytes_needed(SIZES, Model(), SETTINGS, Engine, keep_w=True, keep_votes=True)
    rows = dict(x=[[0] * 4] * 50, y=[0] * 50, x_parents=[[0] * 4] * 20, y_parents=[0] * 20, n_values=[2] * 4)
    with pytest.warns():
        posterior = sample(
            **rows, engine="paper", n_classes=3, chains=3, draws=10, warmup=1, keep_w=True, keep_votes=True, n_threads=1
        )
    kept = [posterior.q, posterior.q_tilde, posterior.n_neighbors, posterior.log_joint]
    assert plain.draws == sum(array.nbytes for array in kept)
    assert full.draws == plain.draws + posterior.votes.nbytes
    assert plain.sums == posterior.z_mean.nbytes + 3 * posterior.votes_mean.nbytes
    assert full.sums == plain.sums + posterior.w_mean.nbytes


def test_chains_count_what_their_engine_says():
    class Hungry(Engine):
        @classmethod
        def bytes_per_chain(cls, sizes, model, n_threads):
            return 1000 * n_threads, 7

    assert bytes_needed(SIZES, Model(), SETTINGS, Hungry, n_threads=1).chains == 3 * 1000 + 7
    assert bytes_needed(SIZES, Model(), SETTINGS, Hungry, n_threads=6).chains == 3 * 2000 + 3 * 7
    need = bytes_needed(SIZES, Model(), SETTINGS, Hungry, checkpoint=True)
    assert need.checkpoint == need.sums + 3 * 1000
    assert need.total == need.draws + need.sums + need.chains + need.checkpoint


# The refusal


def test_what_does_not_fit_is_refused_before_it_begins(monkeypatch):
    monkeypatch.setattr("bayespatch.available_memory.available_memory", lambda: 10_000)
    rows = dict(x=[[0]] * 50, y=[0] * 50, x_parents=[[0]] * 20, y_parents=[0] * 20, n_values=[2], n_classes=2)
    told = (
        r"needs 1.67 MB of memory \(draws 1.39 MB, .*\), and 10 kB are available; pass keep_votes=False, or fewer draws"
    )
    with pytest.raises(MemoryError, match=told):
        sample(**rows, engine="paper", keep_votes=True)
    monkeypatch.setattr("bayespatch.available_memory.available_memory", lambda: None)
    with pytest.warns():
        sample(**rows, engine="paper", draws=2, warmup=0)


@pytest.mark.parametrize(
    ("need", "first"),
    [
        (
            Need(9, 2, 1, 0),
            "pass fewer draws than 10 (with a larger thin for the same number of sweeps), or fewer parents",
        ),
        (Need(2, 9, 1, 0), "pass fewer parents, or fewer draws"),
        (Need(1, 2, 9, 0), "pass fewer chains than 3, or fewer parents"),
        (
            Need(4, 4, 4, 0),
            "pass fewer draws than 10 (with a larger thin for the same number of sweeps), or fewer parents, or f",
        ),
    ],
)
def test_the_remedy_for_the_largest_part_comes_first(monkeypatch, need, first):
    monkeypatch.setattr("bayespatch.available_memory.available_memory", lambda: 11)
    with pytest.raises(MemoryError) as caught:
        check_memory(need, SETTINGS, keep_w=False, keep_votes=False)
    assert first in str(caught.value)


def test_what_just_fits_is_allowed(monkeypatch):
    monkeypatch.setattr("bayespatch.available_memory.available_memory", lambda: 12)
    check_memory(Need(9, 2, 1, 0), SETTINGS, keep_w=False, keep_votes=False)
    with pytest.raises(MemoryError, match="keep_w=False, or keep_votes=False, or fewer draws"):
        check_memory(Need(9, 2, 1, 1), SETTINGS, keep_w=True, keep_votes=True)
