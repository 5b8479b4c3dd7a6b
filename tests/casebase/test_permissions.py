"""Files and folders that hold patients are for their owner alone, from the first byte."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import warnings

import pytest

from bayespatch.casebase import CaseBase, database
from tests.casebase.clinic import BY, fill

pytestmark = pytest.mark.skipif(os.name == "nt", reason="modes are those of POSIX")


@pytest.fixture(autouse=True)
def usual_umask():
    """Others may read new files, as on most machines."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(folder):
    """Every file in a folder that others may open."""
    found = {path: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir() if path.is_file()}
    return {path.name: oct(mode) for path, mode in found.items() if mode & 0o077}


@pytest.fixture
def watched(tmp_path):
    """Looks at the modes of all files in a folder for as long as a test runs."""
    seen, end = {}, threading.Event()

    def look():
        while not end.is_set():
            for path in tmp_path.rglob("*"):
                try:
                    mode = stat.S_IMODE(path.stat().st_mode)
                except FileNotFoundError:
                    continue
                if mode & 0o077:
                    seen[path.name] = oct(mode)

    thread = threading.Thread(target=look)
    thread.start()
    yield tmp_path, seen
    end.set()
    thread.join()


def test_a_new_case_base_is_private(watched):
    folder, seen = watched
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        with CaseBase.open(folder / "clinic.db") as base:
            fill(base, 12)
            assert {path.name for path in folder.iterdir()} >= {"clinic.db", "clinic.db-wal", "clinic.db-shm"}
            assert modes(folder) == {}
            base.backup(folder / "backup.db", by=BY)
            base.export(f"sqlite:///{folder}/research.db", by=BY)
            base.export(folder / "cases.csv", by=BY)
        CaseBase.open(folder / "backup.db").close()
    assert modes(folder) == {}
    assert seen == {}


def test_backups_and_exports_are_private_on_both_databases(base, tmp_path, monkeypatch):
    seen = {}
    monkeypatch.setattr(os, "fsync", lambda _: seen.update(modes(tmp_path)))  # while the backup has its temporary name
    base.backup(tmp_path / "backup.db", by=BY)
    base.export(f"sqlite:///{tmp_path}/research.db", by=BY)
    assert seen == {}
    assert modes(tmp_path) == {}


def test_a_file_that_others_may_open_is_warned_about(tmp_path):
    path = tmp_path / "old clinic.db"
    CaseBase.open(path).close()
    path.chmod(0o640)
    with pytest.warns(UserWarning, match=r"other users .* \(mode 640\).*chmod 600 '.*old clinic.db'"):
        CaseBase.open(path).close()


def test_no_file_is_made_where_none_is_asked_for(tmp_path):
    with pytest.raises(database.CaseBaseError, match="no such case base"):
        CaseBase.open(tmp_path / "clinic.db", create=False)
    assert list(tmp_path.iterdir()) == []
    sqlite3.connect(tmp_path / "other.db").execute("CREATE TABLE t (a)").connection.close()
    with pytest.warns(UserWarning, match="mode 644"), pytest.raises(database.CaseBaseError, match="other tables"):
        CaseBase.open(tmp_path / "other.db")
