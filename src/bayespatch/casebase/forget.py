"""Forgetting a patient: the values are deleted from every table and model, and overwritten on disk.

The case number remains, and the audit log records who forgot it, when and why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import cast

from sqlalchemy import delete, func, insert, select, update

from bayespatch.casebase import cases as case_rows
from bayespatch.casebase import follow_up, models
from bayespatch.casebase.audit import Transaction
from bayespatch.casebase.comparison import without_change
from bayespatch.casebase.database import Database
from bayespatch.casebase.errors import CaseBaseError
from bayespatch.casebase.refit import drop_checkpoints, public_levels
from bayespatch.casebase.tables import cases, consultations, decisions, model_parts, settings, training
from bayespatch.casebase.tables import models as model_rows
from bayespatch.casebase.visits import visits_of
from bayespatch.casebase.without import without_case
from bayespatch.types import JSONObject, JSONValue

# A redacted explanation keeps the weight of a past case and its group. The class of the case, its similarity and its
# row number, under which features list the cases that agree, would all reveal something about its values or outcome.
_KEPT = ("probability", "influence", "vote_share")
_RANGE = "outside the range of the past cases"  # a warning that states the ends of that range
WITHDRAWN_WARNING = (
    "A warning was removed here: it stated values of past cases, and one of these cases has since been forgotten."
)


@dataclass(frozen=True)
class Forgotten:
    """What forgetting a case changed."""

    case_id: int
    consultations: int  # deleted consultations of the case itself
    redacted: int  # consultations of other cases that showed it as a neighbor
    versions: tuple[int, ...]  # models from which it was removed
    removed: tuple[int, ...]  # models that were removed because too few past cases were left
    erased: bool  # whether the disk was overwritten
    note: str | None  # if not, why not
    visits: tuple[int, ...] = ()  # other visits of the same patient, forgotten as well


def forget(database: Database, case: int | str, reason: str, by: str) -> Forgotten:
    """Forget a case and every other visit of its patient in one transaction, then erase the disk."""
    if not isinstance(reason, str) or not reason.strip() or len(reason) > 1000 or "\0" in reason:
        raise CaseBaseError("forgetting requires a reason, which is stored; pass one of at most 1,000 characters")
    with database.writing(by) as transaction:
        patient = case_rows.find_live(transaction.connection, case).patient
        done = forget_in(transaction, case, reason.strip(), database)
        for visit in visits_of(transaction.connection, patient):
            if visit != done.case_id:
                done = _both(done, forget_in(transaction, visit, reason.strip(), database))
        pending(transaction, True)
    drop_checkpoints(database.folder)
    note = finish(database, by)
    return replace(done, erased=note is None, note=note)


def _both(first: Forgotten, second: Forgotten) -> Forgotten:
    """What forgetting two visits changed."""
    return replace(
        first,
        visits=(*first.visits, second.case_id),
        consultations=first.consultations + second.consultations,
        redacted=first.redacted + second.redacted,
        versions=tuple(sorted({*first.versions, *second.versions} - {*second.removed})),
        removed=tuple(sorted({*first.removed, *second.removed})),
    )


def pending(transaction: Transaction, yes: bool) -> None:
    """Record whether deleted values may still be on disk."""
    transaction.execute(delete(settings).where(settings.c.key == "erase"))
    if yes:
        transaction.execute(insert(settings).values(key="erase", value=True))


def finish(database: Database, by: str) -> str | None:
    """Overwrite deleted values on disk if necessary; returns a note on what failed, or None."""
    with database.reading() as connection:
        due = connection.execute(select(settings.c.value).where(settings.c.key == "erase")).scalar()
    if not due:
        return None
    models.drop_left_over(database.folder)
    note = database.erase()
    if note is None:
        with database.writing(by) as transaction:
            pending(transaction, False)
            transaction.record("erase")
    return note


def forget_in(transaction: Transaction, case: int | str, reason: str, database: Database) -> Forgotten:
    """Forget one case within a transaction; the caller calls `pending` and `finish`."""
    row = case_rows.find_live(transaction.connection, case)
    definition = case_rows.stored_definition(transaction.connection)
    own = select(consultations.c.id).where(consultations.c.case_id == row.id)
    n_own = transaction.execute(select(func.count()).select_from(own.subquery())).scalar_one()
    transaction.execute(delete(decisions).where(decisions.c.consultation_id.in_(own)))
    transaction.execute(delete(consultations).where(consultations.c.case_id == row.id))
    n_redacted = 0 if row.retained is None else _redact_others(transaction, row.id, row.retained)
    hashes: dict[int, str] = {}
    removed = []
    for model in models.trained_on(transaction.connection, row.id):
        clf = models.read_model(transaction.connection, model.version, model.sha256, database.folder)
        levels = public_levels(definition) if definition is not None else {}
        place = models.ids_of(clf).index(str(row.id))
        try:
            clf = without_case(clf, place, levels)
        except ValueError:
            removed.append(model.version)
            _remove(transaction, model.version)
            continue
        sha256 = hashes[model.version] = models.write_parts(transaction, model.version, clf, database.folder)
        new = {"sha256": sha256, "n_cases": model.n_cases - 1, "metrics": without_change(model.metrics, row.id)}
        transaction.execute(update(model_rows).where(model_rows.c.version == model.version).values(**new))
        models.mark_forgotten(transaction, model.version, 1)
    transaction.execute(delete(training).where(training.c.case_id == row.id))
    follow_up.erase(transaction, row.id)
    nothing = dict.fromkeys(("external_id", "values", "outcome", "outcome_at", "outcome_by", "salt", "patient"))
    transaction.execute(update(cases).where(cases.c.id == row.id).values(state=case_rows.WITHDRAWN, **nothing))
    done = {"versions": list(hashes), "hashes": hashes, "removed": removed, "redacted": n_redacted}
    transaction.record("forget", row.id, reason=reason, **done)
    return Forgotten(row.id, n_own, n_redacted, tuple(hashes), tuple(removed), False, None)


def _remove(transaction: Transaction, version: int) -> None:
    """Remove a model that would have too few past cases."""
    transaction.execute(delete(model_parts).where(model_parts.c.version == version))
    transaction.execute(delete(training).where(training.c.version == version))
    gone = {"state": models.REMOVED, "sha256": None, "metrics": None, "n_cases": 0}
    transaction.execute(update(model_rows).where(model_rows.c.version == version).values(**gone))


def _redact_others(transaction: Transaction, case_id: int, retained: int) -> int:
    """Remove the case, and anything derived from its values, from explanations since it became a past case."""
    later = select(consultations.c.id, consultations.c.explanation).where(consultations.c.id > retained)
    n_changed = 0
    for row in transaction.execute(later).all():
        new = redacted(row.explanation, str(case_id))
        if new != row.explanation:
            transaction.execute(update(consultations).where(consultations.c.id == row.id).values(explanation=new))
            n_changed += 1
    return n_changed


def redacted(explanation: JSONObject, case: str) -> JSONObject:
    """An explanation without a past case, and without the ranges of past cases' values that it states.

    Examples
    --------
    >>> shown = redacted(
    ...     {
    ...         "case": {"warnings": []},
    ...         "neighbors": [{"id": "7", "index": 6, "outcome": "sick", "vote_share": 0.2}, {"id": "8", "index": 7}],
    ...         "features": [
    ...             {"name": "age", "value": "63", "close": "60 to 66", "neighbors": [6, 7], "phrases": {}}
    ...         ],
    ...     },
    ...     "7",
    ... )
    >>> shown["neighbors"]
    [{'id': None, 'forgotten': True, 'vote_share': 0.2}, {'id': '8', 'index': 7}]
    >>> shown["features"]
    [{'name': 'age', 'value': '63', 'close': None, 'neighbors': [7], 'phrases': {}}]
    """
    rows = set(_rows_of(explanation, case))
    new = cast(JSONObject, _without(explanation, case))
    if new.get("follow_up") is not None:
        new["follow_up"] = None  # a summary of all past cases, including the forgotten one
    for feature in new["features"]:
        feature["neighbors"] = [row for row in feature["neighbors"] if row not in rows]
        own = feature["value"]  # phrases for other values may mention a value that only this case had
        feature["phrases"] = {value: phrase for value, phrase in feature["phrases"].items() if value == own}
    for group in new.get("groups", ()):
        group["differs"] = [{**one, "value": None} for one in group["differs"]]
    warnings = new["case"]["warnings"]
    new["case"]["warnings"] = [WITHDRAWN_WARNING if _names(text, case) else text for text in warnings]
    return new


def _rows_of(part: object, case: str) -> Iterator[int]:
    """The rows of a past case in an explanation."""
    if isinstance(part, dict) and part.get("id") == case and "index" in part:
        yield part["index"]
    for one in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from _rows_of(one, case)


def _without(part: JSONValue, case: str) -> JSONValue:
    if isinstance(part, list):
        return [_without(one, case) for one in part]
    if not isinstance(part, dict):
        return part
    if part.get("id") == case:
        return {"id": None, "forgotten": True} | {name: _without(part[name], case) for name in _KEPT if name in part}
    # The ends of a range of close values are values of past cases or lie between two of them.
    return {name: None if name == "close" else _without(one, case) for name, one in part.items()}


def _names(warning: str, case: str) -> bool:
    """Whether a warning names the case, or the range of the past cases' values."""
    return _RANGE in warning or re.search(rf"#{case}(?!\d)", warning) is not None
