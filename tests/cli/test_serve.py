"""The command ``bayespatch serve``: it begins, answers, and ends when it is asked to."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager

import pytest

from bayespatch.casebase import CaseBase
from tests.casebase.clinic import Places
from tests.cli import program
from tests.web.record_system import write_settings

RUN = [sys.executable, "-c", "from bayespatch.cli import main; main()", "serve"]


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def test_it_begins_answers_and_ends(tmp_path):
    """In one process; in several: tests/statistical/test_serve.py."""
    check_service(tmp_path, workers=1)


@contextmanager
def served(tmp_path, workers):
    """A process that serves, and its port."""
    url, port = Places(tmp_path, None).copy(), free_port()
    command = [*RUN, "--casebase", url, "--port", str(port), "--workers", str(workers)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"})
    try:
        answer = None
        for _ in range(300):
            try:
                answer = urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).read()
                break
            except OSError:
                time.sleep(0.1)
        assert answer is not None
        assert b'"status":"ok"' in answer
        yield process, port
    finally:
        process.kill()


def check_service(tmp_path, workers):
    with served(tmp_path, workers) as (process, port):
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=30)[1]
    assert process.returncode == 0
    assert re.search(rf"first steward with this one-time link: http://127.0.0.1:{port}/join/[\w-]{{40,}}", said)
    assert "GET /health 200" in said
    assert "stopped" in said


@pytest.fixture(scope="module")
def empty_base(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('empty')}/clinic.db"
    with CaseBase.open(url):
        return url


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--casebase", "nowhere.db"], "no such case base"),
        (["--casebase", "{url}", "--host", "0.0.0.0"], "sent unencrypted"),
        (["--casebase", "{url}", "--certificate", "x.pem"], "belong together"),
        (["--casebase", "{url}", "--certificate", "x.pem", "--key", "x.pem"], "(No such file or directory); pass PEM"),
        (["--casebase", "{url}", "--record-systems", "nowhere.toml"], "nowhere.toml: cannot be read"),
        (["--record-systems", "nowhere.toml"], "pass --casebase"),
    ],
)
def test_what_makes_no_sense_is_said_in_a_sentence(empty_base, options, complaint):
    assert complaint in program.complaint("serve", *(one.format(url=empty_base) for one in options))


def test_a_port_in_use_is_reported_instead_of_the_address(empty_base):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = program.complaint("serve", "--casebase", empty_base, "--port", str(port))
    assert f"cannot listen on port {port} of 127.0.0.1" in said
    assert "/join/" not in said


def test_a_mapping_for_other_columns_is_said_in_a_sentence(tmp_path):
    with CaseBase.open(tmp_path / "clinic.db") as base:
        base.define({"age": {"kind": "number"}, "outcome": {"levels": ["sick", "well"]}}, "outcome", by="tester")
    options = ("--casebase", str(tmp_path / "clinic.db"), "--record-systems", write_settings(tmp_path))
    assert "the data dictionary has no column 'pain'" in program.complaint("serve", *options)
