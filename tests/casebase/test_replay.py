"""Whatever is changed behind the back of the log is found: cases, outcomes, models, accounts; and in a backup."""

from __future__ import annotations

import hashlib
import os

import pytest
from sqlalchemy import text

from bayespatch.casebase import CaseBase, CaseBaseError
from bayespatch.casebase.audit import row_hash
from tests.casebase.clinic import BY, fill
from tests.casebase.test_cycle import refit

SOMEONE = {"age": 61, "pain": 1, "bp": 130.5, "smokes": True, "town": "Ulm"}
KEY = bytes(range(32))


def lived(base):
    """A base in which everything has happened once."""
    people = base.people
    people.accept(people.invite("Sam", "steward", by=BY), "hash of Sam")
    people.accept(people.invite("Roe", "clinician", by="Sam"), "hash of Roe")
    people.sign_in("Roe")
    people.new_token("Roe", label="x", scope="viewer", days=3, by="Roe")
    people.invite("Kim", "viewer", by="Sam")
    base.add([{**SOMEONE, "outcome": 1}, SOMEONE], by=BY)
    seen = base.consult(SOMEONE, by="Roe", external_id="N-1")
    base.consult({**SOMEONE, "age": 62}, by="Roe", external_id="N-1")
    base.outcome(seen.case_id, 1, by="Roe")
    base.retain([seen.case_id], by="Sam")
    base.promote(refit(base).version, by="Sam")
    base.forget(5, "asked for it", by="Sam")
    people.rehash("Roe", "newer hash of Roe")
    return base


# What is done to the tables, and what is said about it
TAMPERINGS = {
    "outcome": ("UPDATE cases SET outcome = '0' WHERE id = 33", "case 33 was changed after it was written"),
    "an imported outcome": (
        "UPDATE cases SET outcome = CASE outcome WHEN '0' THEN '1' ELSE '0' END WHERE id = 7",
        "case 7 was changed after it was written",
    ),
    "a value": (
        """UPDATE cases SET "values" = (SELECT "values" FROM cases WHERE id = 9) WHERE id = 8""",
        "case 8 was changed",
    ),
    "a seal": ("UPDATE cases SET entry = 'x' WHERE id = 8", "one of the cases 1 to 30 was changed after it was added"),
    "a salt": ("UPDATE cases SET salt = NULL WHERE id = 8", "case 8 was changed after it was written"),
    "two cases": ("UPDATE cases SET id = 99 WHERE id = 32", "case 32 is missing"),
    "withdrawn": (
        "UPDATE cases SET state = 'withdrawn' WHERE id = 32",
        "case 32 is withdrawn, but the log says otherwise",
    ),
    "a steward": (
        "INSERT INTO users (name, role, password_hash, made_at) VALUES ('Eve', 'steward', 'h', '2026-01-01')",
        "the account of 'Eve' was added without a log entry",
    ),
    "a role": (
        "UPDATE users SET role = 'steward' WHERE name = 'Roe'",
        "'Roe' is a steward, but the log says clinician",
    ),
    "a password": (
        "UPDATE users SET password_hash = 'h' WHERE name = 'Sam'",
        "the password of 'Sam' was changed without",
    ),
    "disabled": (
        "UPDATE users SET disabled_at = '2026' WHERE name = 'Sam'",
        "of 'Sam' was disabled without a log entry",
    ),
    "a token": (
        """INSERT INTO tokens (hash, "user", label, scope, made_at, expires_at)
        VALUES ('0123456789abcdef0', 'Sam', 'x', 'steward', '2026', '2099')""",
        "token of 'Sam' was added without a log entry",
    ),
    "a session": (
        """INSERT INTO sessions (hash, "user", made_at, seen_at) VALUES ('0123456789abcdef0', 'Sam', '2099', '2099')""",
        "session of 'Sam' was added without a log entry",
    ),
    "whose session": ("""UPDATE sessions SET "user" = 'Sam'""", "session of 'Sam' was added without a log entry"),
    "a link": (
        """INSERT INTO invitations (hash, "user", role, made_at, expires_at)
        VALUES ('0123456789abcdef0', 'Eve', 'steward', '2026', '2099')""",
        "invitation of 'Eve' was added without a log entry",
    ),
    "an active model": (
        "UPDATE models SET state = CASE version WHEN 1 THEN 'offered' ELSE 'retired' END",
        "the active model is version None, but the log says 2",
    ),
}


def tampered(base, statement):
    with base._database.unaudited() as connection:
        for one in (statement,) if isinstance(statement, str) else statement:
            connection.execute(text(one))


def test_an_honest_base_is_intact(base):
    assert lived(base).verify_audit().problems == ()


def test_everything_else_is_found(base):
    lived(base)
    for name, (statement, said) in TAMPERINGS.items():
        with base._database.engine.connect().execution_options(writes=True) as connection:
            from bayespatch.casebase.replay import problems

            assert problems(connection) == [], name
            connection.execute(text(statement))
            found = problems(connection)
            connection.rollback()
        assert any(said in problem for problem in found), (name, found)


def test_an_outcome_that_was_changed_is_found(base):
    lived(base)
    tampered(base, TAMPERINGS["outcome"][0])
    assert not base.verify_audit().intact


def test_a_steward_who_was_added_is_found(base):
    lived(base)
    tampered(base, TAMPERINGS["a steward"][0])
    assert not base.verify_audit().intact


def test_a_model_that_was_replaced_with_its_hash_is_found(base):
    """Bytes and SHA-256 fit, and the log names another one."""
    lived(base)
    other = hashlib.sha256(b"another model").hexdigest()
    with base._database.unaudited() as connection:
        connection.execute(text("DELETE FROM model_parts WHERE version = 2"))
        new = {"b": b"another model", "sha": other}
        connection.execute(text("INSERT INTO model_parts (version, part, bytes) VALUES (2, 0, :b)"), {"b": new["b"]})
        connection.execute(text("UPDATE models SET sha256 = :sha WHERE version = 2"), {"sha": other})
    assert base.verify_audit().problems == ("model version 2 is not the one in the log",)


def test_a_tampered_backup_is_refused(base, places, tmp_path):
    lived(base)
    path = base.backup(tmp_path / "backup.db", by=BY)
    with CaseBase.open(path) as copy:
        tampered(copy, TAMPERINGS["a steward"][0])
    with places.open(places.empty()) as new:
        with pytest.raises(CaseBaseError, match=r"was changed since it was written .*'Eve' was added"):
            new.restore(path, by=BY)
        assert new.audit() == []
    path.unlink()
    path = base.backup(tmp_path / "backup.db", by=BY)
    with CaseBase.open(path) as copy:
        tampered(copy, "UPDATE audit SET details = '{}' WHERE number = 2")
    with (
        places.open(places.empty()) as new,
        pytest.raises(CaseBaseError, match="row 2 was changed after it was written"),
    ):
        new.restore(path, by=BY)


def test_seals_tell_nothing_of_who_was_forgotten(base):
    """The salt is gone, so that nobody can try which values fit a seal."""
    lived(base)
    base.forget(33, "asked for it", by=BY)
    with base._database.reading() as connection:
        assert connection.execute(text("SELECT salt FROM cases WHERE id = 33")).scalar() is None
    assert base.verify_audit().intact


# A key outside of the database


@pytest.fixture
def keyed(places):
    url = places.empty()
    with places.open(url, key=KEY) as base:
        fill(base, 12)
        yield url, lived_with(base)
    places.drop()


def lived_with(base):
    base.people.accept(base.people.invite("Sam", "steward", by=BY), "hash")
    return base


def rewritten(base):
    """The log is changed and all hashes are computed anew, as who can write the database can do."""
    with base._database.unaudited() as connection:
        before = ""
        for row in connection.execute(text("SELECT * FROM audit ORDER BY number")).all():
            by = "nobody" if row.number == 2 else row.by
            before = row_hash(row.number, row.at, by, row.action, row.case_id, row.details, before)
            new = {"n": row.number, "by": by, "hash": before}
            connection.execute(text('UPDATE audit SET "by" = :by, hash = :hash WHERE number = :n'), new)
        connection.execute(text("UPDATE chain SET hash = :hash"), {"hash": before})


def test_a_log_with_a_key_cannot_be_rewritten(keyed, places):
    url, base = keyed
    assert base.verify_audit().intact
    rewritten(base)
    assert base.verify_audit().problems == ("row 1 was changed after it was written",)
    with base._database.unaudited() as connection:
        connection.execute(text("DELETE FROM settings WHERE key = 'key_check'"))
    with pytest.raises(CaseBaseError, match="created without a key"):
        places.open(url, key=KEY)


def test_a_log_with_a_key_needs_it(keyed, places, tmp_path, monkeypatch):
    url, _ = keyed
    with pytest.raises(CaseBaseError, match="its audit log has a key; set BAYESPATCH_AUDIT_KEY_FILE"):
        places.open(url)
    with pytest.raises(CaseBaseError, match="has a different key"):
        places.open(url, key=b"x" * 32)
    file = tmp_path / "key"
    file.write_bytes(KEY)
    monkeypatch.setenv("BAYESPATCH_AUDIT_KEY_FILE", str(file))
    with places.open(url) as again:
        assert again.verify_audit().intact
        path = again.backup(tmp_path / "backup.db", by=BY)
        with CaseBase.open(tmp_path / "new.db") as new:
            new.restore(path, by=BY)
            assert new.verify_audit().intact
            assert new.refit(by=BY, draws=8).version == 2  # in another process
    file.write_bytes(b"short")
    with pytest.raises(CaseBaseError, match="has 5 bytes"):
        places.open(url)
    monkeypatch.setenv("BAYESPATCH_AUDIT_KEY_FILE", os.fspath(tmp_path / "none"))
    with pytest.raises(CaseBaseError, match="cannot be read"):
        places.open(url)


def test_no_key_is_in_the_database(keyed):
    _, base = keyed
    with base._database.reading() as connection:
        stored = str(connection.execute(text("SELECT * FROM settings")).all())
    assert KEY.hex() not in stored
    assert repr(KEY) not in stored
