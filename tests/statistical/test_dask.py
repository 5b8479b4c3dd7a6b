"""Workers in processes of their own: killed in mid-run, and Ctrl-C in the terminal that they share with the run."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

from bayespatch import sample
from bayespatch.model import KINDS

distributed = pytest.importorskip("distributed")

RNG = np.random.default_rng(0)
X, Y = RNG.integers(0, 3, (600, 6)).astype(float), RNG.integers(0, 2, 600)
PROBLEM = dict(x=X, y=Y, x_parents=X[:20], y_parents=Y[:20], n_values=[3] * 6, n_classes=2, exclude_self=False)
STORED = ("q", "q_tilde", "z_mean", "n_neighbors", "log_joint", "votes_mean")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_worker_changes_nothing(kind):
    """Two workers, one killed in the warm-up and one while draws are kept, each in the middle of some sweep."""
    run = dict(model=kind, chains=2, warmup=20, draws=20, seed=4)
    expected = sample(**PROBLEM, **run, n_threads=1)
    killed: list[int] = []
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:

        def kill(done, total, phase):
            wanted = {"warm-up": done > 5, "sampling": done > 50}[phase]
            if wanted and len(killed) < (1 if phase == "warm-up" else 2):
                victim = cluster.workers[len(killed)].pid
                if victim is not None:
                    os.kill(victim, signal.SIGKILL)
                    killed.append(victim)

        found = sample(**PROBLEM, **run, engine="dask", scheduler=cluster.scheduler_address, progress=kill)
    assert len(set(killed)) == 2
    for name in STORED:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


SCRIPT = """
    import numpy as np, warnings
    from bayespatch import sample
    from tests.statistical.test_dask import PROBLEM

    def show(done, total, phase):
        if phase == "sampling" and done >= 60:  # both chains have draws
            print("sampling", flush=True)

    if __name__ == "__main__":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = dict(chains=2, warmup=5, seed=4)
            found = sample(**PROBLEM, **run, draws=100_000, thin=1, engine="dask", n_threads=2, progress=show)
            expected = sample(**PROBLEM, **run, draws=found.n_draws)
        print("kept", found.n_draws, found.interrupted, bool((found.q == expected.q).all()), flush=True)
"""


def test_ctrl_c(tmp_path):
    """The terminal sends it to the run and to its workers alike; the draws so far are kept, and no worker is left."""
    script = tmp_path / "run.py"
    script.write_text(textwrap.dedent(SCRIPT))
    path = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    run = subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # The shell of a test run may have its background jobs ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    patience = threading.Timer(300, run.kill)
    patience.start()
    assert run.stdout is not None
    assert run.stdout.readline() == "sampling\n"
    time.sleep(2)
    os.killpg(run.pid, signal.SIGINT)
    out, errors = run.communicate()
    patience.cancel()
    assert out.splitlines()[-1].startswith("kept"), errors
    _, n_draws, interrupted, same = out.splitlines()[-1].split()
    assert int(n_draws) > 0
    assert (interrupted, same) == ("True", "True")
    for _ in range(100):  # Python's own tracker of shared memory ends a moment later
        try:
            os.killpg(run.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    raise AssertionError("processes of the run are left")
