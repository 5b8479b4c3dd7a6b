"""What a case base promises, shown at length: `make test-casebase`. The tests of seconds are in tests/casebase."""

import random
import shutil
import tempfile
import time
from pathlib import Path

import pytest
from sqlalchemy import text

from bayespatch.casebase.audit import verify
from tests.casebase.clinic import BY, Places
from tests.casebase.killing import ACTIONS, killed_often
from tests.casebase.rules import run
from tests.casebase.tampering import KINDS, tamper
from tests.source.server import postgresql_server, why_no_server

SEQUENCES, STEPS = 500, 20  # on each of the two databases
KILLS = 100  # likewise
TAMPERINGS = 10_000


@pytest.fixture(scope="module")
def server():
    reason = why_no_server()
    if reason is not None:
        pytest.skip(reason)
    with postgresql_server() as url:
        yield url


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def places(request):
    server = request.getfixturevalue("server") if request.param == "postgresql" else None
    folder = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None))
    yield Places(folder, server)
    shutil.rmtree(folder)


def test_a_thousand_random_sequences_follow_the_rules(places, capsys):
    began = time.perf_counter()
    run(places, SEQUENCES, STEPS)
    with capsys.disabled():
        print(f"\n{SEQUENCES} sequences of up to {STEPS} operations, {time.perf_counter() - began:.0f} s")


def test_two_hundred_kills_lose_nothing(places, capsys):
    found = killed_often(places, KILLS, longest=1.0)
    with capsys.disabled():
        print(f"\n{found.total()} kills, by what the process was at: {dict(found.most_common())}")
    assert found.total() == KILLS
    assert set(ACTIONS) <= set(found)  # each was interrupted at least once


def test_ten_thousand_tamperings_are_all_found(places, capsys):
    if places.server is not None:
        pytest.skip("the hashes are the same on both databases; tests/casebase has a few on PostgreSQL")
    rng = random.Random(1)
    with places.open(places.copy()) as base:
        for i in range(20):
            base.case(1 + i, by=f"person {i % 3}")
        base.search([("age", ">=", 60)], by=BY)
        with base._database.engine.connect().execution_options(writes=True) as connection:
            assert verify(connection).intact
            connection.rollback()
            missed = []
            for i in range(TAMPERINGS):
                connection.execute(text("SELECT 1"))
                what = tamper(connection, KINDS[i % len(KINDS)], rng)
                if verify(connection).intact:
                    missed.append(what)
                connection.rollback()
            assert verify(connection).intact
    with capsys.disabled():
        print(f"\n{TAMPERINGS - len(missed)} of {TAMPERINGS} tamperings found")
    assert not missed
