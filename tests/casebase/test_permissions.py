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


# The working folder


def another(folder, tmp_path, how):
    """A folder as an attacker would leave it."""
    if how == "open":
        folder.mkdir(mode=0o755)
    elif how == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    elif how == "file":
        folder.write_text("")
    else:
        if os.geteuid() != 0:
            pytest.skip("only root can give a folder away")
        folder.mkdir(mode=0o700)
        os.chown(folder, 12345, -1)


@pytest.mark.parametrize("how", ["open", "link", "file", "owner"])
def test_a_working_folder_of_somebody_else_is_refused(places, tmp_path, how):
    url, folder = places.copy(), tmp_path / "work"
    another(folder, tmp_path, how)
    wrong = pytest.raises(database.CaseBaseError, match=r"must be a folder that only you can open|cannot be created")
    with CaseBase.open(url, folder=folder) as base, wrong:
        base.model()
    assert not list((tmp_path / "elsewhere").glob("*"))
    places.drop()


def test_a_folder_that_is_swapped_after_opening_is_refused(base, tmp_path):
    base._database.folder = tmp_path / "work"
    (tmp_path / "work").mkdir(mode=0o777)
    (tmp_path / "work").chmod(0o777)
    with pytest.raises(database.CaseBaseError, match="must be a folder that only you can open"):
        base.model()


def test_the_working_folder_for_postgresql_is_in_ones_own(monkeypatch, tmp_path):
    url = "postgresql://roe@127.0.0.1:9/clinic"
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert database.Database(url).folder.is_relative_to(tmp_path / ".local" / "state")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert database.Database(url).folder.parent == tmp_path / "state" / "bayespatch"
    monkeypatch.setenv("STATE_DIRECTORY", "/var/lib/bayespatch")
    assert str(database.Database(url).folder).startswith("/var/lib/bayespatch/")
