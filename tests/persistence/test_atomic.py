import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bayespatch.persistence import atomic
from bayespatch.persistence.atomic import StorageError
from bayespatch.persistence.file_format import File, read, write

FILE = File({"holds": "nothing", "list": [1, 2.5, None, "é", {"a": True}]}, {"one": b"abc", "two": b""})


@pytest.fixture
def path(tmp_path):
    write([(tmp_path / "a.bpatch", FILE)])
    return tmp_path / "a.bpatch"


# All or nothing


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), MemoryError()])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_everything_as_it_was(path, monkeypatch, step, error):
    def fail(*_):
        raise error

    before = path.read_bytes()
    monkeypatch.setattr(os, step, fail)
    expected = StorageError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected, match="No space left" if isinstance(error, OSError) else None):
        write([(path, File({}, {"other": b"x" * 100_000}))])
    with pytest.raises(expected):
        write([(path.parent / "new", FILE)])
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_of_two_files_both_are_written_or_none(path):
    before = path.read_bytes()
    with pytest.raises(StorageError, match="no folder"):
        write([(path, File({}, {})), (path.parent / "nowhere" / "b", FILE)])
    with pytest.raises(StorageError, match="written as JSON"):
        write([(path, File({}, {})), (path.parent / "b", File({"a": float("nan")}, {}))])
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def failing_at(call, real):
    """The same function, which fails at its n-th call."""
    calls = []

    def fail(*args, **kwargs):
        calls.append(args)
        if len(calls) == call:
            raise OSError(28, "No space left on device")
        return real(*args, **kwargs)

    return fail


@pytest.mark.parametrize("there", [(), ("a",), ("b",), ("a", "b")])
@pytest.mark.parametrize("step", ["fsync", "replace", "chmod", "open"])
@pytest.mark.parametrize("call", [1, 2])
def test_two_files_are_replaced_together_or_not_at_all(tmp_path, monkeypatch, there, step, call):
    old, new = File({"is": "old"}, {"p": b"old"}), File({"is": "new"}, {"p": b"new" * 9000})
    for name in there:
        write([(tmp_path / name, old)])
    monkeypatch.setattr(os, step, failing_at(call, getattr(os, step)))
    try:
        write([(tmp_path / "a", new), (tmp_path / "b", new)])
    except StorageError:
        monkeypatch.undo()
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(there)
        assert all(read(tmp_path / name).manifest["is"] == "old" for name in there)
    else:
        assert step in ("chmod", "open")  # not called so often
        assert len(there) < 2
        assert all(read(tmp_path / name).manifest["is"] == "new" for name in "ab")


@pytest.mark.parametrize("value", [float("inf"), {1: 2}, (1, 2), 2**64, object()])
def test_what_json_would_change_is_refused(tmp_path, value):
    with pytest.raises(StorageError, match="JSON"):
        write([(tmp_path / "a", File({"value": value}, {}))])
    assert list(tmp_path.iterdir()) == []


def test_many_writers_at_once(tmp_path):
    path = tmp_path / "a"
    files = [File({"writer": k}, {"part": bytes([k]) * 50_000}) for k in range(8)]
    seen = []

    def work(file):
        for _ in range(5):
            write([(path, file)])
            found = read(path)
            seen.append(found.parts["part"] == bytes([found.manifest["writer"]]) * 50_000)

    threads = [threading.Thread(target=work, args=(file,)) for file in files]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [True] * 40
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_new_file_is_for_its_owner_alone_and_an_old_one_keeps_its_mode(tmp_path):
    before = os.umask(0)
    try:
        with atomic.replacing(tmp_path / "a") as file:
            file.write(b"half")
            (unfinished,) = tmp_path.iterdir()
            assert stat.S_IMODE(unfinished.stat().st_mode) == 0o600
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
    (tmp_path / "a").chmod(0o640)
    write([(tmp_path / "a", FILE)])
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def killed(body):
    """Run Python code in a process that kills itself."""
    code = f"import os, signal\nfrom bayespatch.persistence import atomic\n{body}\nos.kill(os.getpid(), signal.SIGKILL)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_what_a_kill_has_left_is_removed_by_the_next_save_and_no_other(tmp_path):
    killed(
        f"kept = [atomic.replacing({str(tmp_path)!r} + '/' + name) for name in 'ab']\n"
        f"for file in kept: file.__enter__().write(b'half')"
    )
    assert len(list(tmp_path.iterdir())) == 2
    with atomic.replacing(tmp_path / "a"):
        write([(tmp_path / "a", FILE)])  # while another save is under way
        assert len(atomic.unfinished(tmp_path / "a")) == 1
    assert atomic.unfinished(tmp_path / "a") == []
    assert len(atomic.unfinished(tmp_path / "b")) == 1
    write([(tmp_path / "b", FILE)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.skipif(os.name != "posix", reason="links need a privilege elsewhere")
def test_a_link_stays_a_link(path):
    link = path.parent / "link"
    link.symlink_to(path)
    write([(link, File({"holds": "other"}, {}))])
    assert link.is_symlink()
    assert read(path).manifest["holds"] == "other"


def test_a_relative_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write([("a", FILE)])
    assert read(Path("a")).manifest["holds"] == "nothing"
