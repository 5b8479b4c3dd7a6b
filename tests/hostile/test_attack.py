"""A small part of the attack, and that it would find what it looks for; all of it is `make test-hostile`."""

import sys
import time
import warnings

import pytest

from bayespatch.persistence import validation
from tests.hostile import attack

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits and /proc of Linux")


@pytest.fixture(scope="module")
def files():
    return attack.honest(60)


@pytest.fixture(scope="module")
def judge(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("attack")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        attack.honest_checkpoint(folder / "checkpoint")
        found = attack.Judge(files, folder)
        assert all(found.judge(blob) is None for blob in files.values())
        assert found.judge_checkpoint((folder / "checkpoint" / "state.bpatch").read_bytes()) is None
    assert found.verdict == "loaded"
    return found


def wrong(judge, files, n):
    """What goes wrong in n edits, one after the other."""
    names = [name for name in files if name != "large"]
    for number in range(n):
        rng = attack.np.random.default_rng([1, number])
        try:
            blob, done = attack.edited(rng, files[names[number % len(names)]])
        except Exception:
            continue
        said = judge.judge(blob)
        if said:
            yield f"{done}: {said}"


def test_some_edits_of_each_kind(judge, files):
    assert list(wrong(judge, files, 60)) == []


@pytest.mark.filterwarnings("ignore")
def test_some_edits_of_a_checkpoint(judge):
    blob = (judge.folder / "checkpoint" / "state.bpatch").read_bytes()
    for number in range(15):
        forged, done = attack.edited_checkpoint(attack.np.random.default_rng([2, number]), blob)
        assert judge.judge_checkpoint(forged) is None, done


def test_it_finds_a_check_that_is_missing(judge, files, monkeypatch):
    monkeypatch.setattr(validation, "_check_rows", lambda *_: None)
    monkeypatch.setattr(validation, "check_arrays", lambda *_: None)
    assert next(wrong(judge, files, 300), None)


def test_it_finds_memory_that_was_taken(judge, files, monkeypatch):
    real = validation.validated

    def swollen(*args):
        attack.np.ones(2**23)
        return real(*args)

    monkeypatch.setattr("bayespatch.persistence.model_file.validated", swollen)
    assert "bytes of memory, more than" in judge.judge(files["tiny"])


def test_what_hangs_is_found(monkeypatch):
    monkeypatch.setattr(attack, "SECONDS", 1)
    sleeper = attack.subprocess.Popen(
        [sys.executable, "-c", "import time; print(1, flush=True); time.sleep(60)"],
        stdout=attack.subprocess.PIPE,
        text=True,
    )
    began = time.perf_counter()
    try:
        with pytest.raises(TimeoutError):
            list(attack._lines(sleeper))
    finally:
        sleeper.kill()
        sleeper.wait()
    assert time.perf_counter() - began < 30
