"""Whatever is done to the log is found."""

import random

import pytest
from sqlalchemy import text

from bayespatch.casebase import CaseBaseError
from bayespatch.casebase.audit import row_hash, verify
from tests.casebase.clinic import BY
from tests.casebase.tampering import KINDS, tamper


def filled(base):
    for i in range(6):
        base.case(i + 1, by=f"person {i % 3}")
    return base


def test_random_tampering_is_found(base):
    """The slow tests do this 10,000 times."""
    filled(base)
    rng = random.Random(0)
    for i in range(60):
        kind = KINDS[i % len(KINDS)]
        with base._database.engine.connect().execution_options(writes=True) as connection:
            assert verify(connection).intact
            connection.rollback()
            what = tamper(connection, kind, rng)
            found = verify(connection)
            connection.rollback()
        assert not found.intact, what


def test_a_log_that_was_written_anew_is_found_by_an_end_that_was_noted(base):
    filled(base)
    noted = base.verify_audit().head
    with base._database.engine.begin() as connection:
        rows = connection.execute(text("SELECT * FROM audit ORDER BY number")).all()
        before = ""
        for row in rows:
            by = "nobody" if row.number == 3 else row.by
            before = row_hash(row.number, row.at, by, row.action, row.case_id, row.details, before)
            new = {"n": row.number, "by": by, "hash": before}
            connection.execute(text('UPDATE audit SET "by" = :by, hash = :hash WHERE number = :n'), new)
        connection.execute(text("UPDATE chain SET hash = :hash"), {"hash": before})
    assert base.verify_audit().intact  # who can write everything can do this
    assert base.verify_audit(noted).problems[0].endswith("has a different hash than recorded: the log was rewritten")
    base.case(1, by=BY)
    assert not base.verify_audit(noted).intact
    with pytest.raises(CaseBaseError, match="is not the end of an audit log"):
        base.verify_audit("yesterday")


def test_a_later_log_agrees_with_an_end_that_was_noted(base):
    noted = base.verify_audit().head
    base.case(1, by=BY)
    assert base.verify_audit(noted).intact
    number, _, digest = base.verify_audit().head.partition(":")
    assert not base.verify_audit(f"{int(number) + 5}:{digest}").intact


def test_a_model_that_was_changed_is_found(base):
    with base._database.engine.connect().execution_options(writes=True) as connection, connection.begin():
        connection.execute(text("UPDATE model_parts SET bytes = :b"), {"b": b"something else"})
    assert base.verify_audit().problems == ("model version 1 was changed after it was stored",)
    with pytest.raises(CaseBaseError, match="is damaged: its checksum differs"):
        base.model()


def test_who_did_what_can_be_asked_for(base):
    filled(base)
    assert [entry.case_id for entry in base.audit(by="person 1")] == [5, 2]
    assert [entry.action for entry in base.audit(case=2)] == ["read"]
    assert [entry.number for entry in base.audit(after=2, limit=2)] == [3, 4]
