"""Checkpoints: what is killed goes on as if nothing had been; what is not this run's checkpoint is refused."""

from __future__ import annotations

import importlib
import os
import signal
import stat
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest

from bayespatch import Hyperparameters
from bayespatch.persistence.atomic import StorageError
from bayespatch.persistence.file_format import File, read, write
from bayespatch.sampling import checkpoint
from bayespatch.sampling.diagnostics import MixingWarning
from tests.checkpointed import N, P, S, Stop, arrays_of, assert_same, problem, run_here, start_apart, stop_after


@pytest.fixture(scope="module")
def undisturbed():
    """The run without a checkpoint, by its changes."""
    known = {}

    def run(**changes):
        key = repr(sorted(changes.items()))
        if key not in known:
            known[key] = arrays_of(run_here(None, **changes))
        return known[key]

    return run


@pytest.fixture
def often(monkeypatch):
    """Written down at every meeting of the chains."""
    monkeypatch.setattr(checkpoint, "SHARE", 0)


# Going on


@pytest.mark.parametrize("engine", ["paper", "cpu"])
@pytest.mark.parametrize("model", ["I", "II", "III"])
def test_a_run_that_broke_off_goes_on_with_the_very_same_draws(
    tmp_path, monkeypatch, often, undisturbed, engine, model
):
    changes = dict(engine=engine, model=model, draws=12, warmup=6)
    for n_saves in (2, 3, 1):
        with monkeypatch.context() as patch:
            stop_after(n_saves, patch)
            with pytest.raises(Stop):
                run_here(tmp_path / "run", 0.0, **changes)
    assert_same(arrays_of(run_here(tmp_path / "run", 0.0, n_threads=1, **changes)), undisturbed(**changes))


def test_a_finished_run_is_returned_without_a_sweep(tmp_path, monkeypatch, undisturbed):
    first, plain = run_here(tmp_path / "run"), undisturbed()
    engine = importlib.import_module("bayespatch.engine.paper").PaperEngine
    monkeypatch.setattr(engine, "sweep", None)
    again = run_here(tmp_path / "run")
    assert_same(arrays_of(again), plain)
    assert again.timing.sweeps == first.timing.sweeps
    assert again.timing.seconds == pytest.approx(first.timing.seconds, abs=0.5)


def test_more_draws_continue_a_finished_run(tmp_path, undisturbed):
    run_here(tmp_path / "run", draws=7)
    assert_same(arrays_of(run_here(tmp_path / "run")), undisturbed())
    with pytest.raises(StorageError, match=r"has 20 draws .* more than draws=19; pass draws=20 or more"):
        run_here(tmp_path / "run", draws=19)


def test_the_last_draws_of_another_run_to_begin_with(tmp_path, monkeypatch, often, undisturbed):
    begin = run_here(None, seed=1, draws=3)
    plain = arrays_of(run_here(None, begin=begin))
    with monkeypatch.context() as patch:
        stop_after(2, patch)
        with pytest.raises(Stop):
            run_here(tmp_path / "run", 0.0, begin=begin)
    assert_same(arrays_of(run_here(tmp_path / "run", begin=begin)), plain)
    with pytest.raises(StorageError, match="begin differs"):
        run_here(tmp_path / "run")


def test_neighbor_lists_that_have_grown(tmp_path, monkeypatch, often):
    """One neighbor is expected, and many more agree in 150 features: lists get more room than a new chain has."""
    rows = dict(x=np.zeros((5, 150)), y=[0] * 5, x_parents=np.zeros((60, 150)), y_parents=[0] * 60)
    hyper = Hyperparameters(alpha=0.02, lam0=1.0, lam=1.0)
    sample = importlib.import_module("bayespatch.sampling.sampler").sample
    given = dict(**rows, n_values=[10_000] * 150, n_classes=2, hyper=hyper, chains=1, draws=10, warmup=5, n_threads=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = sample(**given)
        with monkeypatch.context() as patch:
            stop_after(3, patch)
            with pytest.raises(Stop):
                sample(**given, checkpoint=tmp_path / "run", checkpoint_every=0)
        shapes = read(tmp_path / "run" / "state.bpatch").manifest["arrays"]
        assert_same(arrays_of(sample(**given, checkpoint=tmp_path / "run")), arrays_of(plain))
    start = 8 + int(np.ceil(1.2 + 6 * np.sqrt(1.2)))
    assert plain.n_neighbors.max() > start
    assert shapes["chain 0 neighbors.parent"][1][1] > start


# A disk that is full


@pytest.mark.parametrize("call", [1, 2, 3, 6])
@pytest.mark.parametrize("step", ["open", "fsync", "replace"])
def test_a_full_disk_does_not_end_the_run_and_what_was_written_stays(
    tmp_path, monkeypatch, often, undisturbed, step, call
):
    """At every step of the first checkpoints, and from then on: a warning, all draws, and a state to go on with."""
    real, calls = getattr(os, step), []

    def full(*args, **kwargs):
        calls.append(args)
        if len(calls) >= call and (step != "open" or str(args[0]).endswith(".tmp")):
            raise OSError(28, "No space left on device")
        return real(*args, **kwargs)

    changes = dict(draws=6, warmup=3)
    with monkeypatch.context() as patch:
        patch.setattr(os, step, full)
        patch.setattr(checkpoint, "LATER", 0.0)
        with pytest.warns(checkpoint.CheckpointWarning, match=r"continues without a new checkpoint.*No space left"):
            found = run_here(tmp_path / "run", 0.0, **changes)
    assert_same(arrays_of(found), undisturbed(**changes))
    assert_same(arrays_of(run_here(tmp_path / "run", 0.0, **changes)), undisturbed(**changes))
    assert [path.name for path in (tmp_path / "run").iterdir() if path.suffix == ".tmp"] == []


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_checkpoint_is_for_its_owner_alone(tmp_path):
    before = os.umask(0)
    try:
        run_here(tmp_path / "run", draws=2, warmup=1)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "run").iterdir()} == {0o600}


def test_the_data_cannot_be_told_from_two_checkpoints(tmp_path):
    """The same run twice, and no checksum of a single column: nothing to try values against one by one."""
    said = []
    for name in "ab":
        run_here(tmp_path / name, draws=2, warmup=1)
        said.append(read(tmp_path / name / "state.bpatch").manifest["run"])
    assert said[0].pop("the data") != said[1].pop("the data")
    assert said[0] == said[1]
    assert {"x", "y", "x_parents", "y_parents", "n_values"}.isdisjoint(said[0])


# Killed


@pytest.mark.parametrize("when", ["open:2", "write:9", "replaced:3", "replace:6"])
def test_killed_while_writing(tmp_path, undisturbed, when):
    """Draws, then state, turn by turn: kills in the midst of either, between them, and right after.

    At random moments, and many of them: tests/statistical/test_checkpoint.py.
    """
    killed = start_apart(tmp_path / "run", tmp_path / "out.npz", when=when)
    assert killed.wait() == -signal.SIGKILL
    assert_same(arrays_of(run_here(tmp_path / "run", 0.0)), undisturbed())
    names = sorted(os.listdir(tmp_path / "run"))
    assert [name for name in names if not name.startswith("draws-")] == ["lock", "state.bpatch"]
    listed = [f"draws-{a:08d}-{b:08d}.bpatch" for a, b in read(tmp_path / "run" / "state.bpatch").manifest["draws"]]
    assert [name for name in names if name.startswith("draws-")] == listed


# Interrupted


@pytest.mark.parametrize("thin", [1, 7])
def test_ctrl_c_leaves_a_checkpoint(tmp_path, thin):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        run_here(tmp_path / "run", draws=100_000, warmup=2, thin=thin)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    n_kept = read(tmp_path / "run" / "state.bpatch").manifest["kept"]
    assert n_kept > 0
    longer = run_here(tmp_path / "run", draws=n_kept + 10, warmup=2, thin=thin)
    assert_same(arrays_of(longer), arrays_of(run_here(None, draws=n_kept + 10, warmup=2, thin=thin)))


def test_ctrl_c_in_the_warm_up_leaves_a_checkpoint(tmp_path, undisturbed):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run_here(tmp_path / "run", warmup=150)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert 0 < max(read(tmp_path / "run" / "state.bpatch").manifest["swept"]) < 150
    assert_same(arrays_of(run_here(tmp_path / "run", warmup=150)), undisturbed(warmup=150))


def test_the_warning_says_that_the_run_can_go_on(tmp_path):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    sample = importlib.import_module("bayespatch.sampling.sampler").sample
    try:
        with pytest.warns() as caught:
            sample(**problem(), engine="paper", draws=100_000, warmup=0, checkpoint=tmp_path / "run")
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)
    told = next(str(warning.message) for warning in caught if not issubclass(warning.category, MixingWarning))
    assert told.startswith("interrupted: ")
    assert told.endswith(f"; the same call continues from checkpoint={str(tmp_path / 'run')!r}")


# Refused


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    run_here(folder, draws=5, warmup=3)
    return folder


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seed": 6}, "seed was 5 and is 6"),
        ({"thin": 3}, "thin was 2 and is 3"),
        ({"engine": "cpu"}, "engine was 'paper' and is 'cpu'"),
        ({"chains": 2}, "chains was 3 and is 2"),
        ({"model": "II"}, "model was 'I' and is 'II'"),
        ({"hyper": Hyperparameters(alpha=0.3)}, "alpha was 0.2 and is 0.3"),
        ({"keep_w": False}, "keep_w was True and is False"),
        ({"windows": [0, 0, 0, 1]}, "the data differs"),
        (
            {"supervised": False, "likelihood": "paper"},
            "the data differs; likelihood was 'exact'",
        ),
    ],
)
def test_another_run_is_refused_and_told_apart(finished, changes, said):
    with pytest.raises(StorageError, match=f"is the checkpoint of another run: {said}") as caught:
        run_here(finished, **{"draws": 5, "warmup": 3, **changes})
    assert "pass the original value, or pass another path, or delete the folder to start again" in str(caught.value)


def test_another_version_is_refused(finished, monkeypatch):
    monkeypatch.setattr(checkpoint, "__version__", "9.9")
    with pytest.raises(StorageError, match=r"bayespatch was '.*' and is '9\.9'"):
        run_here(finished, draws=5, warmup=3)
    monkeypatch.undo()
    monkeypatch.setattr(checkpoint, "digest_of_engine", lambda name: "0" * 64)
    with pytest.raises(StorageError, match="the code of the engines differs"):
        run_here(finished, draws=5, warmup=3)


@pytest.mark.parametrize("name", ["state.bpatch", "draws-00000000-00000005.bpatch"])
@pytest.mark.parametrize("at", [3, 40, 300, -200, -1])
def test_a_damaged_file_is_named(finished, tmp_path, name, at):
    folder = tmp_path / "run"
    folder.mkdir()
    for path in finished.iterdir():
        blob = bytearray(path.read_bytes())
        if path.name == name:
            blob[at] ^= 4
        (folder / path.name).write_bytes(blob)
    with pytest.raises(StorageError, match=f"{name} .*delete the folder to start again"):
        run_here(folder, draws=5, warmup=3)


def test_missing_draws_are_named(finished, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "state.bpatch").write_bytes((finished / "state.bpatch").read_bytes())
    with pytest.raises(StorageError, match=r"draws-00000000-00000005.bpatch no such file"):
        run_here(folder, draws=5, warmup=3)


def rewritten(finished, folder, change, name="state.bpatch"):
    """A checkpoint whose checksums hold, and whose content was changed."""
    folder.mkdir()
    for path in finished.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    file = read(folder / name)
    manifest = {key: value for key, value in file.manifest.items() if key not in ("format", "parts")}
    parts = dict(file.parts)
    change(manifest, parts)
    write([(folder / name, File(manifest, parts))])
    return folder


def shorter(manifest, parts):
    manifest["arrays"]["z_sum"][1] = [N - 1, S]
    parts["z_sum"] = parts["z_sum"][: (N - 1) * S * 4]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda manifest, parts: manifest.update(kept=4), "the files of draws do not match the number of draws"),
        (lambda manifest, parts: manifest.update(swept=[1, 2]), "the files of draws do not match the number of draws"),
        (lambda manifest, parts: manifest.update(swept=[-(2**31), 13, 13]), "does not match 5 draws"),
        (lambda manifest, parts: manifest.update(swept=[13, 13, 10**15]), "does not match 5 draws"),
        (
            lambda manifest, parts: manifest.update(draws=[[0, 3]]),
            "the files of draws do not match the number of draws",
        ),
        (lambda manifest, parts: manifest.update(draws=[[0, 3, 3, 5]]), "too many values"),
        (lambda manifest, parts: manifest.update(holds="model"), "does not hold"),
        (lambda manifest, parts: manifest["arrays"].update(z_sum=["|O8", [N, S]]), "z_sum has type"),
        (lambda manifest, parts: manifest["arrays"].update(z_sum=["<i4", [N, S]]), "z_sum is int32"),
        (lambda manifest, parts: manifest["arrays"].update(z_sum=["<f4", [N, S + 1]]), "was not written by a run"),
        (shorter, "z_sum is float32 of shape"),
        (lambda manifest, parts: parts.pop("z_sum"), "does not hold"),
        (lambda manifest, parts: manifest.pop("swept"), "does not hold"),
    ],
)
def test_content_that_cannot_be(finished, tmp_path, change, said):
    with pytest.raises(StorageError, match=f"state.bpatch was not written by a run.*{said}|{said}"):
        run_here(rewritten(finished, tmp_path / "run", change), draws=5, warmup=3)


def first_becomes(number, dtype, name):
    def change(manifest, parts):
        values = np.frombuffer(parts[name], dtype).copy()
        values[0] = number
        parts[name] = values.tobytes()

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (first_becomes(np.nan, np.float64, "votes_sum"), "votes_sum has values that are not finite"),
        (first_becomes(np.inf, np.float32, "z_sum"), "z_sum has values that are not finite"),
        (first_becomes(-(2**31), np.int64, "chain 0 n_sweeps"), "the number of sweeps of the state is -2147483648"),
    ],
)
def test_numbers_that_no_run_has(finished, tmp_path, change, said):
    with pytest.raises(StorageError, match=said):
        run_here(rewritten(finished, tmp_path / "run", change), draws=9, warmup=3)


def test_draws_of_another_run_are_refused(finished, tmp_path):
    name = "draws-00000000-00000005.bpatch"
    folder = rewritten(finished, tmp_path / "run", lambda manifest, parts: manifest.update(run="0" * 64), name)
    with pytest.raises(StorageError, match="draws of another run"):
        run_here(folder, draws=5, warmup=3)


def test_neighbors_outside_the_parents_never_reach_a_kernel(tmp_path):
    run_here(tmp_path / "good", engine="cpu", draws=5, warmup=3)

    def far(manifest, parts):
        parent = np.frombuffer(parts["chain 1 neighbors.parent"], np.int32).copy()
        parent[0] = 10**6
        parts["chain 1 neighbors.parent"] = parent.tobytes()

    with pytest.raises(StorageError, match="not a list of parents for each case"):
        run_here(rewritten(tmp_path / "good", tmp_path / "bad", far), engine="cpu", draws=5, warmup=3)


@pytest.mark.parametrize("name", ["logit_q", "logit_q_tilde", "step"])
@pytest.mark.parametrize("number", [np.nan, np.inf, 1e300])
def test_numbers_that_no_chain_has_never_reach_a_kernel(tmp_path_factory, tmp_path, name, number):
    good = tmp_path_factory.getbasetemp() / "good checkpoint of the CPU"
    if not good.exists():
        run_here(good, engine="cpu", draws=5, warmup=3)

    def forged(manifest, parts):
        values = np.frombuffer(parts[f"chain 1 {name}"]).copy()
        values[0] = number
        parts[f"chain 1 {name}"] = values.tobytes()

    with pytest.raises(StorageError, match=f"{name} has values that are not finite, or larger than 1e"):
        run_here(rewritten(good, tmp_path / "bad", forged), engine="cpu", draws=9, warmup=3)


# The folder


def test_a_folder_with_other_things_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StorageError, match=r"contains something other than a checkpoint, such as 'notes.txt'"):
        run_here(tmp_path)
    with pytest.raises(StorageError, match="is a file; a checkpoint is a folder"):
        run_here(tmp_path / "notes.txt")
    with pytest.raises(StorageError, match=r"there is no folder .*nowhere; create it first"):
        run_here(tmp_path / "nowhere" / "run")
    with pytest.raises(StorageError, match="is not a path"):
        run_here(3)
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("every", [-1, float("nan"), float("inf"), "30", None, True])
def test_seconds_that_are_none(tmp_path, every):
    with pytest.raises(ValueError, match=r"checkpoint_every=.* is not a number of seconds"):
        run_here(tmp_path / "run", every)


def test_two_processes_do_not_share_a_checkpoint(tmp_path):
    (tmp_path / "run").mkdir()
    hold = (
        "import fcntl, sys, time; file = open(sys.argv[1], 'ab'); fcntl.flock(file, fcntl.LOCK_EX);"
        "print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", hold, tmp_path / "run" / "lock"], stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        with pytest.raises(
            StorageError, match=r"another process is writing there.*wait until it finishes, or pass another path"
        ):
            run_here(tmp_path / "run")
        other.kill()
    run_here(tmp_path / "run", draws=2)


# How often


def test_writing_takes_a_small_share_of_the_time(tmp_path, monkeypatch):
    """Writing that takes 0.1 s is not done again for 2 s, whatever was asked for."""
    times = []
    real = checkpoint.write_arrays

    def slow(path, *rest):
        times.append((path.name, time.perf_counter()))
        time.sleep(0.05)
        real(path, *rest)

    monkeypatch.setattr(checkpoint, "write_arrays", slow)
    began = time.perf_counter()
    run_here(tmp_path / "run", 0.0, draws=20, warmup=10)
    saves = [at for name, at in times if name == "state.bpatch"]
    assert len(saves) <= 2 + (time.perf_counter() - began) / 1.0


def test_draws_are_written_once(tmp_path, often):
    run_here(tmp_path / "run", 0.0)
    pairs = read(tmp_path / "run" / "state.bpatch").manifest["draws"]
    assert len(pairs) > 2
    assert [first for first, _ in pairs] == [0, *(last for _, last in pairs[:-1])]
    sizes = [len(read(tmp_path / "run" / f"draws-{a:08d}-{b:08d}.bpatch").parts["q_tilde"]) for a, b in pairs]
    assert sum(sizes) == 3 * 20 * S * P * 4
