"""Runs with a checkpoint that are killed: here, as a process of their own.

``python tests/checkpointed.py FOLDER OUT EVERY WHEN CHANGES`` samples a small problem with its checkpoint in FOLDER and
writes the posterior's arrays to OUT. WHEN is "never", or "open:3": the process kills itself (SIGKILL) as it comes to
the third such step of writing, counted over all files.
"""

from __future__ import annotations

import builtins
import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np

ARRAYS = ("q", "q_tilde", "z_mean", "votes_mean", "n_neighbors", "log_joint", "kept_w_mean", "kept_votes")


N, S, P = 12, 6, 4


def problem(n_cases: int = N, n_parents: int = S, n_features: int = P) -> dict:
    rng = np.random.default_rng(7)
    return {
        "x": rng.integers(0, 3, (n_cases, n_features)),
        "y": rng.integers(0, 2, n_cases),
        "x_parents": rng.integers(0, 3, (n_parents, n_features)),
        "y_parents": rng.integers(0, 2, n_parents),
        "n_values": [3] * n_features,
        "n_classes": 2,
    }


def run_here(folder, every: float = 30.0, **changes):
    """The posterior of the small problem; short runs never mix, so that warning is expected and dropped."""
    from bayespatch import Hyperparameters, sample

    settings = dict(chains=3, draws=20, warmup=10, thin=2, seed=5, n_threads=2, hyper=Hyperparameters(alpha=0.2))
    settings |= dict(keep_w=True, keep_votes=True, engine="paper")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("always", "the run continues without")
        return sample(**problem(), **{**settings, **changes}, checkpoint=folder, checkpoint_every=every)


def start_apart(folder: Path, out: Path, every: float = 0.0, when: str = "never", **changes) -> subprocess.Popen:
    """The same run in another process."""
    command = [sys.executable, __file__, str(folder), str(out), str(every), when, json.dumps(changes)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def arrays_of(posterior) -> dict:
    return {name: getattr(posterior, name) for name in ARRAYS if getattr(posterior, name) is not None}


def assert_same(one: dict, other: dict) -> None:
    """Bit for bit."""
    assert set(one) == set(other)
    for name, array in one.items():
        assert array.dtype == other[name].dtype
        assert array.tobytes() == other[name].tobytes(), name


class Stop(Exception):
    """A run that breaks off."""


def stop_after(n_saves, monkeypatch):
    """The run breaks off right after it was written down for the n-th time."""
    from bayespatch.sampling.checkpoint import Checkpoint

    real = Checkpoint._save
    left = n_saves

    def save(self, run):
        nonlocal left
        real(self, run)
        left -= 1
        if left == 0:
            raise Stop

    monkeypatch.setattr(Checkpoint, "_save", save)


def die_at(when: str) -> None:
    """Kill this process at the n-th opening, writing, flushing or renaming of a file that is being written."""
    step, _, number = when.partition(":")
    left = int(number)

    def counted(before_or_after: str) -> None:
        nonlocal left
        if before_or_after == step:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    real_open, real_fsync, real_replace = builtins.open, os.fsync, os.replace

    class Writer:
        """A file of which half of a chunk is on disk when the process dies."""

        def __init__(self, file):
            self.file = file

        def __getattr__(self, name):
            return getattr(self.file, name)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def write(self, chunk):
            half = len(chunk) // 2
            self.file.write(chunk[:half])
            self.file.flush()
            counted("write")
            return half + self.file.write(chunk[half:])

    def opening(path, mode="r", *args, **kwargs):
        if mode != "wb":
            return real_open(path, mode, *args, **kwargs)
        file = Writer(real_open(path, mode, *args, **kwargs))
        counted("open")
        return file

    def syncing(descriptor):
        counted("fsync")
        real_fsync(descriptor)

    def replacing(source, target):
        counted("replace")
        real_replace(source, target)
        counted("replaced")

    builtins.open, os.fsync, os.replace = opening, syncing, replacing


def main(folder: str, out: str, every: str, when: str, changes: str) -> None:
    import importlib

    importlib.import_module(
        "bayespatch.sampling.checkpoint"
    ).SHARE = 0  # as often as can be: what it costs is not the question
    if float(every) == 0:
        importlib.import_module("bayespatch.sampling.chains")._BLOCK_SECONDS = 0.0  # the chains meet after every sweep
    if when != "never":
        die_at(when)
    np.savez(out, **arrays_of(run_here(folder, float(every), **json.loads(changes))))


if __name__ == "__main__":
    main(*sys.argv[1:])
