"""What must hold of a case base at every moment: the tables are what the audit log says that was done."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import select

from bayespatch.casebase import CaseBase
from bayespatch.casebase.audit import LogEntry
from bayespatch.casebase.tables import cases, consultations, decisions, model_parts, models, training


def check(base: CaseBase) -> list[LogEntry]:
    """Nothing is half there; returns the log."""
    assert base.verify_audit().problems == ()
    with base._database.reading() as connection:

        def rows(table: Any) -> list[Any]:
            return list(connection.execute(select(table)))

        found = {row.id: row for row in rows(cases)}
        seen = {row.id: row for row in rows(consultations)}
        decided = {row.consultation_id: row for row in rows(decisions)}
        versions = {row.version: row for row in rows(models)}
        trained = {(row.version, row.case_id) for row in rows(training)}
        stored = {row.version for row in rows(model_parts)}
    log = base.audit(limit=10**6)[::-1]
    done: dict[str, list[LogEntry]] = {}
    for entry in log:
        done.setdefault(entry.action, []).append(entry)
    forgotten = {entry.case_id for entry in done.get("forget", ())}

    n_cases = sum(entry.details["cases"] for action in ("import", "add") for entry in done.get(action, ()))
    n_cases += sum(entry.details["new"] for entry in done.get("consult", ()))
    assert sorted(found) == list(range(1, n_cases + 1))
    gone = {case for case, row in found.items() if row.state == "withdrawn"}
    assert gone == forgotten
    for case in gone:
        assert (found[case].values, found[case].outcome, found[case].external_id) == (None, None, None)
    assert {entry.number for entry in done.get("consult", ()) if entry.case_id not in forgotten} == set(seen)
    asked = {entry.details["consultation"] for entry in done.get("decide", ()) if entry.case_id not in forgotten}
    assert asked == set(decided)
    assert not [row for row in seen.values() if row.case_id in forgotten]

    known = {entry.case_id for entry in done.get("outcome", ())}
    imported = {case for case in set(found) - gone if found[case].entered_by == found[case].outcome_by}
    assert {case for case in set(found) - gone if found[case].outcome is not None} - imported <= known
    assert not [case for case in known - gone if found[case].outcome is None]
    retained = {entry.case_id for entry in done.get("retain", ())} - {None}
    assert all(found[case].state == "past" for case in retained - gone)
    assert not [case for case in set(found) - gone if found[case].state == "past" and found[case].outcome is None]

    assert sorted(versions) == sorted(entry.details["version"] for entry in done.get("refit", ()))
    assert stored == {version for version, row in versions.items() if row.state != "removed"}
    assert not [case for _, case in trained if case in gone]
    active = [version for version, row in versions.items() if row.state == "active"]
    promoted = [entry.details["version"] for entry in log if entry.action in ("promote", "roll back")]
    if promoted and versions[promoted[-1]].state != "removed":
        assert active == promoted[-1:]
        clf = base.model()
        known = {case for version, case in trained if version == active[0]}
        if clf.fitted_.votes_are_closed:
            known = {case for case, row in found.items() if row.state == "past"}
        assert {int(name) for name in clf.ids_} == known
    else:
        assert not active
    for row in seen.values():
        named = json.dumps(row.explanation)
        assert not [case for case in gone if f'"id": "{case}"' in named]
    return log
