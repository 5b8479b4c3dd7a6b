"""Consultations: the case, the explanation that was shown, and the person's decision."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, func, insert, select, update

from bayespatch.casebase import cases as case_rows
from bayespatch.casebase.audit import Transaction
from bayespatch.casebase.cases import Definition
from bayespatch.casebase.errors import CaseBaseError, ConflictError, NotFoundError, PastCaseError
from bayespatch.casebase.tables import cases, consultations, decisions
from bayespatch.dictionary import Value
from bayespatch.estimator import PatchworkClassifier
from bayespatch.types import JSONObject

MOST_REASON = 10_000  # characters
WAITING = ("decision", "outcome", "retention")  # the next step of an open case


@dataclass(frozen=True)
class Consultation:
    """An explanation that was shown, its reader and time; `explanation` is `Explanation.to_dict()`."""

    id: int
    case_id: int
    version: int
    values: dict[str, Value]
    explanation: JSONObject
    at: str
    by: str

    @property
    def predicted(self) -> str:
        """The most probable class."""
        return str(self.explanation["prediction"]["class"])


@dataclass(frozen=True)
class Decision:
    """A person's decision after a consultation."""

    consultation_id: int
    agrees: bool
    decided: str
    code: str
    reason: str
    at: str
    by: str


@dataclass(frozen=True)
class WorkItem:
    """An open case: its last consultation, and its next step."""

    id: int  # number of the consultation
    case_id: int
    external_id: str | None
    at: str
    by: str
    predicted: str
    probabilities: dict[str, float]
    adequate: bool
    decided: str | None
    agrees: bool | None
    outcome: Value
    waiting_for: str


@dataclass(frozen=True)
class Worklist:
    """One page of the open cases, and their total number."""

    items: tuple[WorkItem, ...]
    total: int
    offset: int


class Detail(NamedTuple):
    """Level of detail and accuracy of an answer: arguments of `PatchworkClassifier.explain`."""

    top: int
    level: float
    error: float


def explain(clf: PatchworkClassifier, values: dict[str, Value], detail: Detail) -> JSONObject:
    """The model's explanation of an open case."""
    # A past case with the same values belongs to another patient, because this case is still open.
    return clf.explain(values, exclude_self=False, **detail._asdict()).to_dict()


def counterfactual(
    clf: PatchworkClassifier,
    values: dict[str, Value],
    definition: Definition,
    change: Sequence[str] | None,
    to: object,
    *,
    most: int,
    detail: Detail,
) -> JSONObject:
    """The smallest change of a case that changes the predicted class: `Counterfactual.to_dict()`.

    By default, all features may change except those that the data dictionary marks as fixed. "values" has the new
    values in stored form.
    """
    entries = definition.features.entries
    if change is None:
        change = [name for name, entry in entries.items() if not entry.fixed]
        if not change:
            raise CaseBaseError("the data dictionary marks every feature as fixed; name features that may change")
    unknown = [name for name in change if name not in entries]
    if unknown or not change:
        problem = f"there is no feature {unknown[0]!r}" if unknown else "no feature may change"
        raise CaseBaseError(f"change: {problem}; the features are {', '.join(map(repr, entries))}")
    target = None if to is None else definition.class_name(definition.outcome(to))
    try:
        answer = clf.counterfactual(
            values, list(change), to=target, most=most, exclude_self=False, **detail._asdict()
        ).to_dict()
    except ValueError as error:  # the class to reach is the predicted one
        raise CaseBaseError(str(error)) from error
    new = definition.features.check_row({**values, **answer["raw"]})
    return {**answer, "values": {name: new[name] for name in answer["changes"]}}


def store(
    transaction: Transaction,
    case: int | None,
    external_id: str | None,
    values: dict[str, Value],
    explanation: JSONObject,
    version: int,
    patient: str | None = None,
) -> Consultation:
    """Store a consultation with its case: a new case, or the next visit of an open one."""
    if case is None:
        case = case_rows.add_cases(transaction, [values], [None], [external_id], [patient])[0]
        is_new = True
    else:
        transaction.execute(update(cases).where(cases.c.id == case).values(values=values))
        is_new = False
    explanation["case"]["id"] = str(case)
    row = Consultation(transaction.next_number, case, version, values, explanation, transaction.at, transaction.by)
    transaction.execute(insert(consultations).values(**vars(row)))
    transaction.record("consult", case, version=version, new=is_new, seal=case_rows.seal_now(transaction, case))
    return row


def visited(connection: Connection, case: int | str | None, external_id: str | None) -> int | None:
    """The existing open case; None for a new case."""
    if case is None and external_id is not None:
        row = connection.execute(select(cases).where(cases.c.external_id == external_id)).first()
        if row is None:
            return None
    elif case is None:
        return None
    else:
        row = case_rows.find_live(connection, case)
        if external_id is not None and external_id != row.external_id:
            raise ConflictError(f"case {row.id} has a different external id than {external_id!r}; omit one of the two")
    if row.state == case_rows.PAST:
        raise PastCaseError(
            f"case {row.id} is a past case, and would be its own precedent; enter the new episode under another id"
        )
    return int(row.id)


def find(connection: Connection, consultation: int) -> Consultation:
    """A consultation by its number."""
    row = None
    if isinstance(consultation, int) and not isinstance(consultation, bool) and 0 < consultation < 2**63:
        row = connection.execute(select(consultations).where(consultations.c.id == consultation)).first()
    if row is None:
        raise NotFoundError(f"there is no consultation {consultation!r}; the audit log lists the existing ones")
    return Consultation(**row._mapping)


def of_case(connection: Connection, case_id: int) -> list[tuple[Consultation, Decision | None]]:
    """The consultations of a case with their decisions, oldest first."""
    rows = connection.execute(select(consultations).where(consultations.c.case_id == case_id).order_by("id")).all()
    ids = [row.id for row in rows]
    decided = connection.execute(select(decisions).where(decisions.c.consultation_id.in_(ids)))
    decided_after = {row.consultation_id: Decision(**row._mapping) for row in decided}
    return [(Consultation(**row._mapping), decided_after.get(row.id)) for row in rows]


def decision_of(connection: Connection, consultation: int) -> Decision | None:
    """The decision after a consultation, or None."""
    row = connection.execute(select(decisions).where(decisions.c.consultation_id == consultation)).first()
    return None if row is None else Decision(**row._mapping)


def worklist(
    connection: Connection, waiting_for: str | None, offset: int, limit: int, risk_of: str | None = None
) -> Worklist:
    """The last consultation of each open case, newest first, or by the probability of the class `risk_of`."""
    if waiting_for not in (None, *WAITING):
        raise CaseBaseError(f"waiting_for={waiting_for!r} is not known; choose one of {', '.join(WAITING)}")
    last = select(func.max(consultations.c.id)).group_by(consultations.c.case_id)
    source = consultations.join(cases, cases.c.id == consultations.c.case_id).outerjoin(
        decisions, decisions.c.consultation_id == consultations.c.id
    )
    wanted = [cases.c.state == case_rows.OPEN, consultations.c.id.in_(last)]
    if waiting_for == "decision":
        wanted += [decisions.c.consultation_id.is_(None), cases.c.outcome.is_(None)]
    elif waiting_for == "outcome":
        wanted += [decisions.c.consultation_id.is_not(None), cases.c.outcome.is_(None)]
    elif waiting_for == "retention":
        wanted.append(cases.c.outcome.is_not(None))
    total = connection.execute(select(func.count()).select_from(source).where(*wanted)).scalar_one()
    prediction = consultations.c.explanation["prediction"]
    columns = (
        consultations.c.id,
        consultations.c.case_id,
        cases.c.external_id,
        consultations.c.at,
        consultations.c.by,
        prediction["class"].label("predicted"),
        prediction["probabilities"].label("probabilities"),
        consultations.c.explanation["precedent"]["adequate"].label("adequate"),
        decisions.c.decided,
        decisions.c.agrees,
        cases.c.outcome,
    )
    order: list[ColumnElement[Any]] = [consultations.c.id.desc()]
    if risk_of is not None:
        classes = case_rows.required_definition(connection).classes
        if risk_of not in classes:
            raise CaseBaseError(f"risk_of={risk_of!r} is not a class; choose one of {', '.join(classes)}")
        order.insert(0, func.coalesce(prediction["probabilities"][risk_of].as_float(), 0.0).desc())
    query = select(*columns).select_from(source).where(*wanted).order_by(*order)
    rows = connection.execute(query.offset(offset).limit(limit))
    items = []
    for row in rows:
        item = {**row._mapping, "adequate": bool(row.adequate)}  # SQLite returns JSON booleans as 0 and 1
        item["outcome"] = None if row.outcome is None else json.loads(row.outcome)
        waits = "retention" if row.outcome is not None else "decision" if row.decided is None else "outcome"
        items.append(WorkItem(**item, waiting_for=waits))
    return Worklist(tuple(items), total, offset)


def decide(transaction: Transaction, consultation: int, decided: object, reason: str, code: str) -> Decision:
    """Store a person's decision; overriding the model needs a reason or a code."""
    consulted = find(transaction.connection, consultation)
    earlier = transaction.execute(select(decisions).where(decisions.c.consultation_id == consulted.id)).first()
    if earlier is not None:
        raise ConflictError(
            f"consultation {consulted.id} already has a decision, by {earlier.by} at {earlier.at}; "
            f"consult again to revise it"
        )
    definition = case_rows.required_definition(transaction.connection)
    name = definition.class_name(definition.outcome(decided))
    agrees = name == consulted.predicted
    for what, text in {"reason": reason, "code": code}.items():
        if not isinstance(text, str) or len(text) > MOST_REASON or "\0" in text:
            raise CaseBaseError(f"{what} must be text of at most {MOST_REASON} characters; shorten it")
    if not agrees and not (reason.strip() or code.strip()):
        raise CaseBaseError(
            f"the model predicts {consulted.predicted!r} but the decision is {name!r}; give a reason for overriding it"
        )
    row = Decision(consulted.id, agrees, name, code, reason, transaction.at, transaction.by)
    transaction.execute(insert(decisions).values(**vars(row)))
    transaction.record("decide", consulted.case_id, consultation=consulted.id, agrees=agrees)
    return row
