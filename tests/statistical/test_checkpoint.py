"""Twenty kills at random moments, for each engine: every run that goes on ends as the undisturbed one did."""

from __future__ import annotations

import signal
import time

import numpy as np
import pytest

from bayespatch.persistence.file_format import read
from tests.checkpointed import arrays_of, assert_same, run_here, start_apart

N_KILLS = 20


@pytest.mark.parametrize(("engine", "every", "draws"), [("paper", 0.0, 60), ("cpu", 0.0, 300)])
def test_killed_at_random_moments(tmp_path, engine, every, draws):
    """A run of some seconds, killed at 20 moments; after each kill one copy of it is run to its end.

    The moments are uniform over the time from the first checkpoint of an undisturbed run to its end. With ``every=0``
    a run is written down after every sweep, so that many kills strike while a file is being written.
    """
    changes = {"engine": engine, "draws": draws, "warmup": 30}
    rng = np.random.default_rng(0)
    plain = arrays_of(run_here(None, **changes))
    process = start_apart(tmp_path / "whole", tmp_path / "out.npz", every, **changes)
    wait_for(tmp_path / "whole", process)
    began = time.perf_counter()
    assert process.wait() == 0
    seconds = time.perf_counter() - began
    assert_same(dict(np.load(tmp_path / "out.npz")), plain)

    n_killed, n_unfinished, positions = 0, 0, []
    for kill in range(N_KILLS):
        folder, out = tmp_path / f"run {kill}", tmp_path / f"out {kill}.npz"
        process = start_apart(folder, out, every, **changes)
        wait_for(folder, process)
        time.sleep(rng.uniform(0, 0.8 * seconds))
        process.kill()
        n_killed += process.wait() == -signal.SIGKILL
        n_unfinished += any(path.name.endswith(".tmp") for path in folder.iterdir())
        positions.append(sum(read(folder / "state.bpatch").manifest["swept"]))
        assert start_apart(folder, out, every, **changes).wait() == 0
        assert_same(dict(np.load(out)), plain)
    print(f"{engine}, every {every} s: {n_killed} of {N_KILLS} killed, {n_unfinished} while writing, at {positions}")
    assert n_killed >= N_KILLS // 2
    assert len(set(positions)) >= N_KILLS // 4


def wait_for(folder, process):
    """Until a first checkpoint is there."""
    while not (folder / "state.bpatch").exists() and process.poll() is None:
        time.sleep(0.002)
