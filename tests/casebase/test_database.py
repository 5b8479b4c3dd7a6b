"""What a database can do to a case base: be newer, locked, read-only, lost, or shared by two writers."""

import os
import random
import sqlite3
import time
import traceback
from contextlib import nullcontext, suppress
from itertools import pairwise

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect, select, text

from bayespatch.casebase import CaseBase, CaseBaseError
from bayespatch.casebase.database import Database
from bayespatch.casebase.errors import ConflictError
from bayespatch.casebase.tables import VERSION, audit, metadata
from tests.casebase.clinic import BY, DICTIONARY, Places, outcome, patient
from tests.casebase.invariants import check


def test_the_migrations_make_the_tables_that_the_code_knows(places):
    database = Database(places.empty(), places.working)
    database.open()
    with database.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    assert database.version() == VERSION
    database.migrate("base")
    with database.reading() as connection:
        assert inspect(connection).get_table_names() == ["alembic_version"]
    database.migrate("head")
    assert database.version() == VERSION
    database.close()
    places.drop()


# Columns of which PostgreSQL keeps common values, in catalogs that forgetting does not reach.
STATISTICS = """
SELECT relname, attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
WHERE relname IN ('cases', 'follow_up', 'consultations', 'decisions', 'model_parts')
  AND attnum > 0 AND NOT attisdropped AND coalesce(attstattarget, -1) <> 0
"""


def test_postgresql_keeps_no_statistics_of_patients(server, tmp_path):
    places = Places(tmp_path, server)
    query = "SELECT attname FROM pg_stats WHERE tablename = 'cases' AND attname IN ('patient', 'state')"
    insert = "INSERT INTO cases (id, state, entered_at, entered_by, patient) VALUES (%d, 'open', '', '', 'Roe')"
    database = Database(places.empty(), places.working)
    database.open()
    with database.outside() as connection:
        for number in range(1, 41):
            connection.execute(text(insert % number))
        connection.execute(text("ANALYZE"))
        assert connection.execute(text(query)).all() == [("state",)]
        kept = connection.execute(text(STATISTICS)).all()
    assert {f"{table}.{column}" for table, column in kept} == {
        *("cases.id", "cases.state", "cases.entry", "cases.retained"),
        *("cases.entered_at", "cases.entered_by", "cases.outcome_at", "cases.outcome_by"),
        *("follow_up.number", "follow_up.case_id", "follow_up.seal", "follow_up.at", "follow_up.by"),
        *("consultations.id", "consultations.case_id", "consultations.version"),
        *("consultations.at", "consultations.by"),
        *("decisions.consultation_id", "decisions.agrees", "decisions.at", "decisions.by"),
        *("model_parts.version", "model_parts.part"),
    }
    database.close()
    places.drop()


def test_a_newer_schema_is_refused(places):
    url = places.empty()
    with places.open(url) as base, base._database.outside() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(CaseBaseError, match=r"was written by a newer bayespatch .*version 9999.* upgrade bayespatch"):
        places.open(url)
    places.drop()


def test_other_peoples_tables_are_left_alone(places):
    url = places.empty()
    database = Database(url, places.working)
    with database.outside() as connection:
        connection.execute(text("CREATE TABLE patients (id INTEGER)"))
    database.close()
    with pytest.raises(CaseBaseError, match="contains other tables, such as 'patients', but no case base"):
        places.open(url)
    places.drop()


def test_texts_that_no_database_stores_are_refused(base):
    unstorable = "\ud800"
    for attempt in (
        lambda: base.case(unstorable, by=BY),
        lambda: base.search([("external_id", "=", unstorable)], by=BY),
        lambda: base.audit(by=unstorable),
        lambda: base.forget(3, unstorable, by=BY),
        lambda: base.people.invite(unstorable, "viewer", by=BY),
    ):
        with pytest.raises(CaseBaseError):
            attempt()
    assert base.case(3, by=BY).state == "past"


def test_places_that_are_none(tmp_path):
    for url, complaint in {
        "mysql://root@localhost/clinic": "mysql:// is not supported",
        "sqlite://": "in memory would be lost",
        "": "is not a case base",
        f"sqlite:///{tmp_path}/nowhere/clinic.db": "there is no folder",
        f"sqlite:///{tmp_path}": "is a folder",
        "nonsense://": "nonsense",
    }.items():
        with pytest.raises(CaseBaseError, match=complaint):
            CaseBase.open(url)
    with pytest.raises(CaseBaseError, match="no such case base; create it"):
        CaseBase.open(tmp_path / "clinic.db", create=False)
    (tmp_path / "text.db").write_text("this is no database, but long enough to be looked at as one" * 20)
    with pytest.raises(CaseBaseError, match="is damaged or not a SQLite file"):
        CaseBase.open(tmp_path / "text.db")
    assert not (tmp_path / "clinic.db").exists()


def test_a_locked_file_is_said_to_be_locked(sqlite_places):
    url = sqlite_places.copy()
    with sqlite_places.open(url, timeout=0.2) as base:
        other = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        with pytest.raises(CaseBaseError, match=r"another process has been writing for more than 0\.2 seconds"):
            base.case(1, by=BY)
        assert time.monotonic() - began < 5
        other.execute("ROLLBACK")
        other.close()
        base.case(1, by=BY)
        check(base)


def test_a_lock_on_postgresql_is_said_to_be_one(server, tmp_path):
    from tests.casebase.clinic import Places

    places = Places(tmp_path, server)
    url = places.empty()
    with places.open(url, timeout=0.3) as base, places.open(url) as other, other._database.writing(BY) as transaction:
        with pytest.raises(CaseBaseError, match=r"another process has been writing for more than 0\.3 seconds"):
            base.define(DICTIONARY, "outcome", by=BY)
        transaction.record("drift")
    places.drop()


def test_a_file_that_may_only_be_read(sqlite_places):
    url = sqlite_places.copy()
    sqlite_places.open(url).close()
    path = url.removeprefix("sqlite:///")
    with CaseBase.open(f"sqlite:///file:{path}?mode=ro&uri=true") as base:
        assert base.verify_audit().intact
        assert base.models()[0].version == 1
        with pytest.raises(CaseBaseError, match="is read-only, but every access to a case is logged"):
            base.case(1, by=BY)


def test_a_lost_connection_is_said_to_be_lost_and_can_be_made_again(server, tmp_path):
    from tests.casebase.clinic import Places

    places = Places(tmp_path, server)
    with places.open(places.empty()) as base:
        base.define(DICTIONARY, "outcome", by=BY)

        def lose_it():
            with base._database.writing(BY) as transaction:
                places._ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'clinic_%'")
                transaction.record("drift")

        with pytest.raises(CaseBaseError, match="no connection to the database"):
            lose_it()
        assert base.verify_audit().n_entries == 1
        base.add([{**patient(random.Random(0)), "outcome": 1}], by=BY)
        assert base.verify_audit().n_entries == 2
    places.drop()
    with pytest.raises(CaseBaseError, match="no connection to the database"):
        CaseBase.open("postgresql://nobody@127.0.0.1:1/nowhere", timeout=1)


def in_a_process(work):
    """Run it in a child; returns its number, to be waited for."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def test_two_writers_at_once_lose_nothing(places):
    """Each adds cases, records outcomes and retains; both also try to give one case an outcome, and one succeeds."""
    url, working, n = places.empty(), places.working, 25
    with CaseBase.open(url, folder=working) as base:
        base.define(DICTIONARY, "outcome", by=BY)
        shared = base.add([patient(random.Random(i)) for i in range(n)], by=BY)

    def write(name):
        rng = random.Random(name)
        with CaseBase.open(url, folder=working) as own:
            for i in range(n):
                time.sleep(rng.uniform(0.0, 0.004))  # who writes without a pause leaves the other no turn
                values = patient(rng)
                [case] = own.add([values], by=name)
                own.outcome(case, outcome(values), by=name)
                own.retain([case], by=name)
                with suppress(CaseBaseError):  # the other was first
                    own.outcome(shared[i], 1, by=name)

    children = [in_a_process(lambda name=name: write(name)) for name in ("one", "other")]
    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0]
    with CaseBase.open(url, folder=working) as base:
        log = check(base)
        assert base.search(by=BY, state="past").total == 2 * n
        outcomes = [entry for entry in log if entry.action == "outcome" and entry.case_id in shared]
        assert sorted(entry.case_id for entry in outcomes) == list(shared)
        assert {base.case(i, by=BY).outcome_by for i in shared} == {entry.by for entry in outcomes}
        # Both were at it at the same time, or this would show nothing.
        names = [entry.by for entry in log if entry.by in ("one", "other")]
        assert sum(a != b for a, b in pairwise(names)) >= 2
    places.drop()


def test_two_processes_that_make_the_same_base(places):
    url, working = places.empty(), places.working
    children = [in_a_process(lambda: CaseBase.open(url, folder=working).close()) for _ in range(4)]
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
    with CaseBase.open(url, folder=working) as base:
        assert base.verify_audit().intact
    places.drop()


@pytest.mark.parametrize("fails", [True, False])
def test_a_result_that_nobody_read_to_its_end_keeps_no_old_state(base, places, fails):
    kept = []

    def leave() -> None:
        with base._database.reading() as connection:
            kept.append(connection.execute(select(audit).order_by(audit.c.number)))
            next(iter(kept[0]))
            if fails:
                raise ConflictError("something is wrong")

    for _ in range(3):
        base.record_audit({}, by=BY)
    with nullcontext() if not fails else pytest.raises(ConflictError):
        leave()
    with places.open(str(base._database.url)) as other:
        session = other.people.sign_in(other.people.accept(other.people.invite("roe", "viewer", by=BY), "hash").name)
    person = base.people.of_session(session)
    assert person is not None
    assert person.name == "roe"
