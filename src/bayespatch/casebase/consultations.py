"""Consultations: what was asked, what the model showed, and what the person decided."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import Connection, insert, select, update

from bayespatch.casebase import cases as case_rows
from bayespatch.casebase.audit import Transaction
from bayespatch.casebase.cases import Definition
from bayespatch.casebase.errors import CaseBaseError
from bayespatch.casebase.tables import cases, consultations, decisions
from bayespatch.dictionary import Value

MOST_REASON = 10_000  # characters


class Consultation(NamedTuple):
    """What was shown about a case, to whom and when; `explanation` is `Explanation.to_dict()` as it was then."""

    id: int
    case_id: int
    version: int
    values: dict[str, Value]
    explanation: dict[str, Any]
    at: str
    by: str

    @property
    def predicted(self) -> str:
        """The class that the model found most probable."""
        return str(self.explanation["prediction"]["class"])

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return self._asdict()


class Decision(NamedTuple):
    """What a person decided after a consultation."""

    consultation_id: int
    agrees: bool
    decided: str
    code: str
    reason: str
    at: str
    by: str

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return self._asdict()


def explain(clf: Any, values: dict[str, Value], known: Definition, top: int, level: float) -> dict[str, Any]:
    """What the model shows about a case, and what is unusual about its values."""
    # A past case with the same values is somebody else: this one is open.
    shown: dict[str, Any] = clf.explain(values, top=top, level=level, exclude_self=False).to_dict()
    unusual = known.features.warnings(values)
    shown["case"]["warnings"] += unusual
    shown["case"]["warning_kinds"] += ["dictionary"] * len(unusual)
    return shown


def store(
    transaction: Transaction,
    case: int | None,
    external_id: str | None,
    values: dict[str, Value],
    explanation: dict[str, Any],
    version: int,
) -> Consultation:
    """Keep a consultation, with its case: a new one, or the next visit of an open one."""
    if case is None:
        case = case_rows.add_cases(transaction, [values], [None], [external_id])[0]
        is_new = True
    else:
        transaction.execute(update(cases).where(cases.c.id == case).values(values=values))
        is_new = False
    explanation["case"]["id"] = str(case)
    row = Consultation(transaction.next_number, case, version, values, explanation, transaction.at, transaction.by)
    transaction.execute(insert(consultations).values(**row._asdict()))
    transaction.record("consult", case, version=version, new=is_new)
    return row


def visited(connection: Connection, case: int | str | None, external_id: str | None) -> int | None:
    """The open case that comes again; None: a new one."""
    if case is None and external_id is not None:
        row = connection.execute(select(cases).where(cases.c.external_id == external_id)).first()
        if row is None:
            return None
    elif case is None:
        return None
    else:
        row = case_rows.find_live(connection, case)
        if external_id is not None and external_id != row.external_id:
            raise CaseBaseError(f"case {row.id} has another external id than {external_id!r}; leave one of the two out")
    if row.state == case_rows.PAST:
        raise CaseBaseError(
            f"case {row.id} is a past case, and would be its own precedent; enter a new episode under another id"
        )
    return int(row.id)


def find(connection: Connection, consultation: int) -> Consultation:
    """A consultation by its number."""
    row = None
    if isinstance(consultation, int) and not isinstance(consultation, bool) and 0 < consultation < 2**63:
        row = connection.execute(select(consultations).where(consultations.c.id == consultation)).first()
    if row is None:
        raise CaseBaseError(f"there is no consultation {consultation!r}; the log names those that there are")
    return Consultation(**row._mapping)


def of_case(connection: Connection, case_id: int) -> list[tuple[Consultation, Decision | None]]:
    """The consultations of a case and what was decided, in their order."""
    rows = connection.execute(select(consultations).where(consultations.c.case_id == case_id).order_by("id")).all()
    ids = [row.id for row in rows]
    decided = connection.execute(select(decisions).where(decisions.c.consultation_id.in_(ids)))
    found = {row.consultation_id: Decision(**row._mapping) for row in decided}
    return [(Consultation(**row._mapping), found.get(row.id)) for row in rows]


def decide(transaction: Transaction, consultation: int, decided: Any, reason: str, code: str) -> Decision:
    """Keep what a person decided; to override the model needs a reason or a code."""
    found = find(transaction.connection, consultation)
    earlier = transaction.execute(select(decisions).where(decisions.c.consultation_id == found.id)).first()
    if earlier is not None:
        raise CaseBaseError(
            f"consultation {found.id} was decided already, by {earlier.by} at {earlier.at}; consult again to revise it"
        )
    known = case_rows.defined(transaction.connection)
    name = known.class_name(known.outcome(decided))
    agrees = name == found.predicted
    for what, text in {"reason": reason, "code": code}.items():
        if not isinstance(text, str) or len(text) > MOST_REASON or "\0" in text:
            raise CaseBaseError(f"{what} is not a text of at most {MOST_REASON} characters; shorten it")
    if not agrees and not (reason.strip() or code.strip()):
        raise CaseBaseError(
            f"the model says {found.predicted!r} and the decision is {name!r}; give a reason for overriding it"
        )
    row = Decision(found.id, agrees, name, code, reason, transaction.at, transaction.by)
    transaction.execute(insert(decisions).values(**row._asdict()))
    transaction.record("decide", found.case_id, consultation=found.id, agrees=agrees)
    return row
