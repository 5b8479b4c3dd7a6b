"""Retention periods, and a restored backup that forgets again whom the lost base had forgotten."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text

from bayespatch.casebase import CaseBase
from bayespatch.casebase.audit import LogEntry
from bayespatch.casebase.errors import CaseBaseError
from bayespatch.casebase.identities import Identity
from bayespatch.casebase.tables import metadata
from tests.casebase.clinic import BY

VALUES = {"age": 61, "pain": 1, "bp": 130.5, "smokes": True, "town": "Ulm"}
LONG_AGO = "2020-01-01T00:00:00.000000Z"


def age(base, table, column, condition="1 = 1"):
    with base._database.unaudited() as connection:
        connection.execute(text(f'UPDATE {table} SET "{column}" = :at WHERE {condition}'), {"at": LONG_AGO})


def count(base, table):
    with base._database.reading() as connection:
        return connection.execute(text(f"SELECT count(*) FROM {table}")).scalar()


def export_log(base, path, lines=False):
    rows = [asdict(row) for row in base.audit(after=1, limit=100_000)]
    path.write_text("\n".join(map(json.dumps, rows)) if lines else json.dumps({"log": rows}))
    return path


def test_consultations_of_past_cases_go_after_their_period(base):
    done = base.consult(VALUES, by=BY)
    base.decide(done.id, "well", by=BY, reason="no")
    base.outcome(done.case_id, "well", by=BY)
    base.retain([done.case_id], by=BY)
    waiting = base.consult(VALUES, by=BY)
    age(base, "consultations", "at")
    recent = base.consult(VALUES, by=BY, case=waiting.case_id)
    assert base.purge(by=BY).consultations == 0
    found = base.purge(by=BY, consultations=365)
    assert (found.consultations, found.open_cases, found.past_cases, found.erased) == (1, (), (), True)
    assert [one.id for one, _ in base.consultations(waiting.case_id, by=BY)] == [waiting.id, recent.id]
    assert base.consultations(done.case_id, by=BY) == []
    assert count(base, "decisions") == 0
    row = base.audit(action="purge", limit=1)[0]
    assert row.details["periods"] == {"consultations": 365}
    assert row.details["consultations"] == 1
    assert base.verify_audit().intact


def test_cases_are_forgotten_after_their_period(base):
    old, new = base.consult(VALUES, by=BY), base.consult(VALUES, by=BY)
    age(base, "consultations", "at", f"id = {old.id}")
    age(base, "cases", "outcome_at", "id IN (3, 4)")
    found = base.purge(by=BY, open_cases=30, past_cases=3650)
    assert (found.open_cases, found.past_cases) == ((old.case_id,), ())
    found = base.purge(by=BY, open_cases=30, past_cases=365)
    assert (found.open_cases, found.past_cases) == ((), (3, 4))
    assert base.case(3, by=BY).values is None
    assert base.case(new.case_id, by=BY).values == VALUES
    assert not {"3", "4"} & set(base.model().ids_)
    assert base.verify_audit().intact


def test_what_has_expired_goes(base):
    base.people.accept(base.people.invite("Ann", "steward", by=BY), "x")
    base.people.invite("Bob", "viewer", by=BY)
    base.people.new_token("Ann", label="x", scope="viewer", days=1, by="Ann")
    live = base.people.sign_in("Ann")
    base.identities.begin("browser", "/", "sign in")
    seen = base.consult(VALUES, by="Ann", key="once")
    assert set(base.purge(by=BY).expired.values()) == {0}
    for table, column in (("invitations", "expires_at"), ("tokens", "expires_at"), ("sign_ins", "made_at")):
        age(base, table, column)
    three_days_ago = (datetime.now(UTC) - timedelta(days=3)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    with base._database.unaudited() as connection:
        connection.execute(text("UPDATE repeats SET at = :at"), {"at": three_days_ago})
    assert sum(base.purge(by=BY).expired.values()) == 4
    assert base.consult(VALUES, by="Ann", key="once").id != seen.id  # the key is free again
    assert base.people.of_session(live) is not None
    age(base, "sessions", "seen_at")
    assert base.purge(by=BY).expired["sessions"] == 1
    assert base.verify_audit().intact


def test_the_documentation_has_a_period_for_every_table():
    page = (Path(__file__).parents[2] / "docs" / "casebase.md").read_text(encoding="utf-8")
    part = page.partition("### Retention periods")[2].partition("###")[0]
    assert set(metadata.tables) == set(re.findall(r"`([a-z_]+)`", part))


@pytest.mark.parametrize("days", [0, -1, True, 1.5, "x"])
def test_periods_are_days(base, days):
    with pytest.raises(CaseBaseError, match="is not a valid number of days"):
        base.purge(by=BY, open_cases=days)


@pytest.mark.parametrize("lines", [False, True])
def test_a_restored_backup_forgets_again(base, places, tmp_path, lines):
    backup = base.backup(tmp_path / "backup.db", by=BY)
    base.forget(3, "asked for it", by=BY)
    late = base.consult(VALUES, by=BY)
    base.forget(late.case_id, "asked for it too", by=BY)
    log = export_log(base, tmp_path / "log.json", lines)
    with CaseBase.open(places.empty()) as other:
        other.restore(backup, by=BY)
        assert other.case(3, by=BY).values is not None, "the backup has brought the patient back"
        assert other.forget_again(log, by=BY) == [3]
        assert other.case(3, by=BY).values is None
        assert "3" not in other.model().ids_
        assert other.forget_again(log, by=BY) == []
        assert [row.details["cases"] for row in other.audit(action="forget again")] == [0, 1]
        assert other.verify_audit().intact


def test_a_restored_backup_lets_nobody_in_who_was_shut_out(base, places, tmp_path):
    people = base.people
    for name in ("Ann", "Bob", "Cem", "Dee", "Eve"):
        people.accept(people.invite(name, "steward", by=BY), "old")
    tokens = {
        name: people.new_token(name, label="x", scope="viewer", days=9, by=name) for name in ("Cem", "Dee", "Eve")
    }
    session, link = people.sign_in("Ann"), people.invite("Fay", "steward", by=BY)
    backup = base.backup(tmp_path / "backup.db", by=BY)
    for name in ("Bob", "Eve"):
        people.disable(name, by="Ann")
    people.enable("Eve", by="Ann")
    people.revoke(people.tokens("Cem")[0].id, by="Cem")
    people.change_password("Dee", "new")
    log = export_log(base, tmp_path / "log.json")
    with CaseBase.open(places.empty()) as other:
        other.restore(backup, by=BY)
        assert other.people.of_session(session) is not None, "the backup has brought the session back"
        assert other.people.of_token(tokens["Cem"]) is not None
        other.forget_again(log, by=BY)
        disabled = {person.name for person in other.people.listed() if person.disabled_at is not None}
        assert disabled == {"Bob"}
        assert other.people.of_session(session) is other.people.invited(link) is None
        assert [other.people.of_token(tokens[name]) for name in ("Cem", "Dee", "Eve")] == [None] * 3
        assert other.verify_audit().intact


def test_a_restored_backup_gives_nobody_back_what_was_taken_away(base, places, tmp_path):
    people, roe = base.people, Identity("https://id.example", "4711")
    for name in ("Ann", "Bob", "Cem", "Dee"):
        people.accept(people.invite(name, "steward", by=BY), "old")
    base.identities.link(roe, "Dee")
    backup = base.backup(tmp_path / "backup.db", by=BY)
    people.set_role("Bob", "viewer", by="Ann")
    people.change_password("Cem", "new")  # someone else knew the old one
    base.identities.unlink("Dee", by="Ann")
    people.accept(people.invite("Eve", "viewer", by="Ann"), "not in the backup")
    log = export_log(base, tmp_path / "log.json")
    with CaseBase.open(places.empty()) as other:
        other.restore(backup, by=BY)
        other.forget_again(log, by=BY)
        assert {one.name: (one.role, one.password_hash) for one in other.people.listed()} == {
            "Ann": ("steward", "old"),
            "Bob": ("viewer", "old"),
            "Cem": ("steward", None),
            "Dee": ("steward", "old"),
        }
        assert other.identities.users() == set()
        assert other.verify_audit().intact
        other.people.accept(other.people.invite("Cem", "steward", by="Ann"), "newer")
        assert other.people.find("Cem").password_hash == "newer"


def change(rows, what):
    if what == "a row is missing":
        del rows[-2]
    elif what == "the case is another one":
        next(row for row in rows if row["action"] == "forget")["case_id"] = 4
    elif what == "the hash is another one":
        rows[-1]["hash"] = "0" * 64
    return rows


@pytest.mark.parametrize("what", ["a row is missing", "the case is another one", "the hash is another one"])
def test_a_log_that_does_not_continue_the_backup_is_refused(base, places, tmp_path, what):
    backup = base.backup(tmp_path / "backup.db", by=BY)
    base.forget(3, "asked for it", by=BY)
    log = export_log(base, tmp_path / "log.json")
    rows = json.loads(log.read_text())["log"]
    log.write_text(json.dumps({"log": change(rows, what)}))
    with CaseBase.open(places.empty()) as other:
        other.restore(backup, by=BY)
        with pytest.raises(CaseBaseError, match="does not continue the backup"):
            other.forget_again(log, by=BY)
        assert other.case(3, by=BY).values is not None


NO_NUMBER = json.dumps({**dict.fromkeys(LogEntry.__annotations__, "x"), "details": {}})


@pytest.mark.parametrize("content", ["", "x", "[1]", "{}", '{"log": 1}', '{"log": [{}]}', "[" * 100_000, NO_NUMBER])
def test_what_is_no_log_is_refused(base, places, tmp_path, content):
    (tmp_path / "log.json").write_text(content)
    with pytest.raises(CaseBaseError, match="is not an audit log"):
        base.forget_again(tmp_path / "log.json", by=BY)
