"""A PostgreSQL server of one's own, which nobody else can reach."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any


def why_no_server() -> str | None:
    """What is missing to start one; None where nothing is."""
    if find_spec("psycopg") is None:
        return "psycopg is not installed"
    if not _program("initdb") or not _program("pg_ctl"):
        return "initdb and pg_ctl of PostgreSQL are not installed"
    if os.geteuid() == 0 and _someone() is None:
        return "PostgreSQL does not run as root, and there is no user postgres or nobody"
    return None


def _program(name: str) -> str | None:
    """On the path, or where Debian puts it; the newest version."""
    return shutil.which(name) or next(iter(sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), reverse=True)), None)


def _someone() -> str | None:
    known = {user.pw_name for user in pwd.getpwall()}
    return next((name for name in ("postgres", "nobody") if name in known), None)


@contextmanager
def postgresql_server(settings: str = "", password: str | None = None) -> Iterator[str]:
    """Starts it, gives its URL, and removes all of it; its data are in the folder ``data`` beside the socket."""
    # The path of a socket may not be long; in memory, where the system has such a folder.
    folder = tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp")
    user: dict[str, Any] = {}
    if os.geteuid() == 0:
        someone = _someone()
        assert someone is not None
        os.chown(folder, pwd.getpwnam(someone).pw_uid, -1)
        user = {"user": someone, "cwd": folder}

    def run(name: str, *words: str) -> None:
        program = _program(name)
        assert program is not None
        subprocess.run([program, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **user)

    data = os.path.join(folder, "data")
    try:
        access = ["-A", "trust"]
        if password is not None:
            file = os.path.join(folder, "password")
            with open(file, "w", encoding="utf-8") as stream:
                stream.write(password)
            access = ["-A", "scram-sha-256", "--pwfile", file]
        run("initdb", "-D", data, *access, "-U", "tester", "-E", "UTF8", "--no-sync", "--wal-segsize=1")
        options = f"-k {folder} -c listen_addresses='' -c fsync=off {settings}"
        run("pg_ctl", "-D", data, "-w", "-o", options, "-l", os.path.join(folder, "log"), "start")
        try:
            yield f"postgresql://tester@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
