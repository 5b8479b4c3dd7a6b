"""Checkpoints: a run is saved regularly, so it can continue after being killed at any moment.

This module decides what to write and when, and how a run continues; `persistence.checkpoint_folder` manages the folder.
The state refers to draws only after their file is complete, so the stored state and its draws are always consistent.
Types and shapes are checked on reading.

A checkpoint takes 4*N*S bytes, the state with the neighbors of each chain, and the draws since the last checkpoint.
Chains then run for at least `SHARE` times as long as writing took before the next checkpoint.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import numpy as np

from bayespatch.engine.installed import digest_of_engine
from bayespatch.model import Data, Hyperparameters, Model
from bayespatch.persistence.atomic import StorageError, refuse
from bayespatch.persistence.checkpoint_folder import (
    START_ANEW,
    STATE,
    Arrays,
    checksum,
    draws_name,
    drop_unnamed_draws,
    open_folder,
    read_arrays,
    reported,
    write_arrays,
)
from bayespatch.sampling.chains import Run
from bayespatch.sampling.posterior import Posterior, PredictiveDraws, SamplingSettings
from bayespatch.types import AnyArray, JSONMapping, JSONObject
from bayespatch.version import __version__

DATA = "the data"
LATER = 10.0  # seconds before a failed write is retried
SHARE = 20  # chains run for at least this many times as long as writing took

_STATE_KEYS = ("format", "package", "holds", "salt", "run", "swept", "kept", "seconds", "draws", "arrays", "parts")
_DRAWS_KEYS = ("format", "package", "holds", "run", "first", "last", "arrays", "parts")


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written. The run continues, and the previous checkpoint remains."""


def check_seconds(name: str, value: object) -> float:
    """Check that a value is a finite number of seconds, at least 0."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0 <= value < np.inf:
        raise ValueError(f"{name}={value!r} is not a number of seconds; pass a number of at least 0, such as 30")
    return float(value)


def describe(
    data: Data,
    model: Model,
    settings: SamplingSettings,
    keep_w: bool,
    keep_votes: bool,
    begin: Posterior | None,
    predictive: PredictiveDraws | None = None,
) -> JSONObject:
    """All arguments that determine the draws of a run, by name; a single checksum represents the arrays.

    `draws` is not included, because a longer run begins with the draws of a shorter one.
    """
    run_of: JSONObject = {"bayespatch": __version__}
    run_of["the code of the engines"] = digest_of_engine(settings.engine)
    sampled = data[: Data._fields.index("groups")]  # only closed-form votes use the other fields
    run_of[DATA] = checksum(*map(np.asarray, sampled))
    run_of |= {"model": model.kind, "likelihood": model.likelihood}
    for constant in fields(Hyperparameters):
        run_of[constant.name] = np.asarray(getattr(model.hyper, constant.name), dtype=float).tolist()
    run_of |= {name: np.asarray(value).item() for name, value in settings._asdict().items() if name != "draws"}
    run_of |= {"keep_w": keep_w, "keep_votes": keep_votes, "begin": None}
    run_of["given importances"] = None if predictive is None else checksum(predictive.given)
    if begin is not None:
        run_of["begin"] = checksum(begin.q[:, -1], begin.q_tilde[:, -1])
    return run_of


@contextmanager
def opened(path: str | os.PathLike[str], run_of: Mapping[str, object], every: float) -> Iterator[Checkpoint]:
    """The checkpoint at `path` of the run that `run_of` describes; it is locked against other processes.

    The folder is created if missing. A folder with a checkpoint of another run, or with anything else, is rejected.
    """
    with open_folder(path) as folder:
        yield Checkpoint(folder, run_of, every)


class Checkpoint:
    """A folder with a snapshot of a run; see `opened`."""

    def __init__(self, folder: Path, run_of: Mapping[str, object], every: float) -> None:
        self.folder, self.every, self._run_of = folder, every, dict(run_of)
        self.salt = secrets.token_hex(32)
        self.written: list[list[int]] = []  # first and last draw of each file
        self.warned = False
        self.next = time.perf_counter() + every

    @property
    def run_of(self) -> JSONObject:
        """The identity of the run; the checksum of the data is salted, so that it cannot link checkpoints."""
        salted = hashlib.sha256(f"{self.salt} {self._run_of.get(DATA)}".encode()).hexdigest()
        return {**self._run_of, DATA: salted}

    @property
    def digest(self) -> str:
        """The identifier shared by the files of this run."""
        return hashlib.sha256(json.dumps(self.run_of).encode()).hexdigest()

    # Writing

    def meet(self, run: Run) -> None:
        """Save the run if a checkpoint is due."""
        if time.perf_counter() >= self.next:
            self._try_to_save(run)

    def end(self, run: Run) -> None:
        """Save the run."""
        self._try_to_save(run)

    def _try_to_save(self, run: Run) -> None:
        """Save the run; if this fails, for example because the disk is full, the run continues."""
        try:
            self._save(run)
        except StorageError as error:
            self.next = time.perf_counter() + max(self.every, LATER)
            if not self.warned:
                self.warned = True
                warnings.warn(f"the run continues without a new checkpoint: {error}", CheckpointWarning, stacklevel=2)

    def _save(self, run: Run) -> None:
        """Write the new draws, then the state that refers to them."""
        began = time.perf_counter()
        first, last = self.written[-1][1] if self.written else 0, run.n_kept[0]
        written = [*self.written, [first, last]] if last > first else self.written
        if last > first:
            draws = {name: array[:, first:last] for name, array in run.draws.items()}
            write_arrays(
                self.folder / draws_name(first, last),
                {"holds": "draws", "run": self.digest, "first": first, "last": last},
                draws,
            )
        arrays = dict(run.sums)
        for chain, (engine, state) in enumerate(zip(run.engines, run.states, strict=True)):
            arrays |= {f"chain {chain} {name}": array for name, array in engine.freeze(state).items()}
        manifest = {"holds": "checkpoint", "salt": self.salt, "run": self.run_of, "swept": run.n_swept, "kept": last}
        write_arrays(self.folder / STATE, {**manifest, "seconds": run.seconds, "draws": written}, arrays)
        self.written = written
        now = time.perf_counter()
        self.next = now + max(self.every, SHARE * (now - began))

    # Reading

    def resume(self, run: Run) -> None:
        """Restore a run from the checkpoint; does nothing if there is no checkpoint yet."""
        if (self.folder / STATE).exists():
            with reported(self.folder, STATE):
                manifest, arrays = read_arrays(self.folder / STATE, "checkpoint", _STATE_KEYS)
                before, n_kept = dict(manifest["run"]), int(manifest["kept"])
                self.salt = str(manifest["salt"])
            self._refuse_another(before, n_kept, run.settings)
            with reported(self.folder, STATE):
                written = self._restore(run, manifest, arrays)
            for first, last in written:
                with reported(self.folder, draws_name(first, last)):
                    self._restore_draws(run, first, last)
            self.written = written
        drop_unnamed_draws(self.folder, {draws_name(first, last) for first, last in self.written})

    def _refuse_another(self, before: Mapping[str, object], n_kept: int, settings: SamplingSettings) -> None:
        """Reject a run unless everything that determines its draws is unchanged."""
        now = self.run_of
        differ = [name for name in now if before.get(name) != now[name]] + [name for name in before if name not in now]
        if differ:
            differences = "; ".join(_difference(name, before.get(name), now.get(name)) for name in differ)
            remedy = f"pass the original value, or {START_ANEW}"
            raise refuse(self.folder, f"is the checkpoint of another run: {differences}", remedy)
        if n_kept > settings.draws:
            wrong = f"already has {n_kept} draws per chain, more than draws={settings.draws}"
            raise refuse(self.folder, wrong, f"pass draws={n_kept} or more, or {START_ANEW}")

    def _restore(self, run: Run, manifest: JSONMapping, arrays: Arrays) -> list[list[int]]:
        """Restore everything except the draws; returns the range of draws in each file."""
        settings, n_kept = run.settings, manifest["kept"]
        for name, target in run.sums.items():
            _fill(target, name, arrays[name])
        for chain, engine in enumerate(run.engines):
            start = f"chain {chain} "
            frozen = {
                name.removeprefix(start): array.copy() for name, array in arrays.items() if name.startswith(start)
            }
            run.states[chain] = engine.thaw(frozen, settings.seed, chain)
        run.n_swept[:] = map(int, manifest["swept"])
        run.n_kept[:] = [int(n_kept)] * settings.chains
        run.seconds = {phase: float(manifest["seconds"][phase]) for phase in run.seconds}
        written = [[int(first), int(last)] for first, last in manifest["draws"]]
        edges = [0, *(edge for pair in written for edge in pair), n_kept]
        if len(run.n_swept) != settings.chains or edges[::2] != edges[1::2] or edges != sorted(edges):
            raise ValueError("the files of draws do not match the number of draws")
        # A chain may have been stopped between two draws, or anywhere in the warm-up.
        least = settings.warmup + n_kept * settings.thin if n_kept else 0
        if not all(least <= n <= settings.warmup + (n_kept + 1) * settings.thin for n in run.n_swept):
            raise ValueError(f"its chains have {run.n_swept} sweeps, which does not match {n_kept} draws")
        return written

    def _restore_draws(self, run: Run, first: int, last: int) -> None:
        manifest, arrays = read_arrays(self.folder / draws_name(first, last), "draws", _DRAWS_KEYS)
        if (manifest["run"], manifest["first"], manifest["last"]) != (self.digest, first, last):
            raise ValueError("it holds draws of another run")
        for array, target in run.draws.items():
            _fill(target[:, first:last], array, arrays[array])


def _fill(target: AnyArray, name: str, found: AnyArray) -> None:
    if found.dtype != target.dtype or found.shape != target.shape:
        raise ValueError(f"{name} is {found.dtype} of shape {found.shape} instead of {target.dtype} of {target.shape}")
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise ValueError(f"{name} has values that are not finite")
    target[...] = found


def _difference(name: str, before: object, now: object) -> str:
    """A description of how an argument differs; checksums are not shown."""
    if any(isinstance(value, str) and len(value) >= 64 for value in (before, now)):
        return f"{name} differs"
    return f"{name} was {before!r} and is {now!r}"
