"""Scoring many open cases at once, such as today's admissions, on a schedule.

All consultations of one run are stored in one transaction, so the worklist shows all of them or none. A case is
scored again only if its values or the active model have changed since its last consultation; repeating a run stores
nothing. Cases with a known outcome are skipped.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from bayespatch.casebase.cases import OPEN, Definition, check_external_id, check_patient
from bayespatch.casebase.errors import CaseBaseError
from bayespatch.casebase.tables import Row, cases, consultations, decisions
from bayespatch.dictionary import DictionaryError, Value
from bayespatch.encode.table import DataFrame

_AT_ONCE = 500  # external ids in one query


@dataclass(frozen=True)
class Admission:
    """An open case to be scored.

    Attributes
    ----------
    external_id : str
        Identifies the admission in its source system; the same in every run.
    values : dict
        A value for each feature, None if it is missing.
    patient : str, optional
        Identifies the patient, whose past visits then do not vote.
    """

    external_id: str
    values: dict[str, Value]
    patient: str | None = None


@dataclass(frozen=True)
class Scored:
    """Result of one run.

    Attributes
    ----------
    version : int
        Version of the model.
    new, updated : tuple of int
        Cases that were added, and cases whose values or model changed.
    unchanged : int
        Admissions whose consultation is up to date.
    closed : int
        Admissions whose outcome is known.
    """

    version: int
    new: tuple[int, ...]
    updated: tuple[int, ...]
    unchanged: int
    closed: int


class Due(NamedTuple):
    """The status of an admission ("new", "updated", "unchanged" or "closed"), and its case."""

    kind: str
    case_id: int | None


def read_admissions(
    table: DataFrame, definition: Definition, id_column: str, group_column: str | None = None
) -> tuple[list[Admission], list[str]]:
    """The admissions of a table, one for each row, and messages about rejected rows.

    The table has the features and the column of ids; other columns are ignored.

    Examples
    --------
    >>> import pandas
    >>> from bayespatch import CaseBase
    >>> with CaseBase.demo() as base:
    ...     table = pandas.DataFrame({"stay": ["A-1", "A-2"], "age": [61, 610], "pain": ["rest", None]})
    ...     admissions, refused = read_admissions(table, base.definition, "stay")
    >>> admissions[0].external_id, refused
    ('A-1', ["admission 'A-2': column 'age': 610 is outside the possible range, 0 to 120; correct it"])
    """
    names = [str(name) for name in table.columns]
    wanted = [id_column, *definition.features.names, *([group_column] if group_column else [])]
    absent = [name for name in wanted if name not in names]
    if absent:
        raise CaseBaseError(f"the admissions have no column {absent[0]!r}; their columns are {', '.join(names)}")
    rows = table[wanted].astype(object).where(table[wanted].notna(), None).to_numpy().tolist()
    admissions, refused = [], []
    for number, row in enumerate(rows, start=1):
        cells = dict(zip(wanted, row, strict=True))
        name = check_external_id(cells[id_column])
        if name is None:
            raise CaseBaseError(f"row {number}, column {id_column!r}: the identifier is missing; add one")
        try:
            where = f"admission {name!r}: "
            values = {one: entry.check(cells[one], where) for one, entry in definition.features.entries.items()}
            patient = check_patient(cells[group_column], where) if group_column else None
        except (DictionaryError, CaseBaseError) as error:
            refused.append(str(error))
        else:
            admissions.append(Admission(name, values, patient))
    return admissions, refused


def check_admissions(admissions: Sequence[Admission], definition: Definition) -> list[Admission]:
    """Admissions with checked values; each external id occurs once."""
    checked = []
    for one in admissions:
        name = check_external_id(one.external_id)
        if name is None:
            raise CaseBaseError("an admission has no external id; pass one for each")
        where = f"admission {name!r}: "
        values = definition.features.check_row(one.values, where)
        checked.append(Admission(name, values, check_patient(one.patient, where)))
    counts = Counter(one.external_id for one in checked)
    for name, n in counts.most_common(1):
        if n > 1:
            raise CaseBaseError(f"admission {name!r} occurs {n} times; pass each admission once")
    return checked


def due(connection: Connection, admissions: Sequence[Admission], version: int) -> dict[str, Due]:
    """The status of each admission, by its external id."""
    stored: dict[str, Row] = {}
    last = select(func.max(consultations.c.id)).group_by(consultations.c.case_id)
    source = cases.outerjoin(
        consultations, (consultations.c.case_id == cases.c.id) & consultations.c.id.in_(last)
    ).outerjoin(decisions, decisions.c.consultation_id == consultations.c.id)
    columns = (
        *(cases.c.id, cases.c.external_id, cases.c.state, cases.c.outcome, cases.c.patient),
        *(consultations.c.version, consultations.c["values"].label("seen"), decisions.c.decided),
    )
    names = [one.external_id for one in admissions]
    for start in range(0, len(names), _AT_ONCE):
        query = select(*columns).select_from(source).where(cases.c.external_id.in_(names[start : start + _AT_ONCE]))
        stored |= {row.external_id: row for row in connection.execute(query)}
    return {one.external_id: _due(one, stored.get(one.external_id), version) for one in admissions}


def _due(admission: Admission, row: Row | None, version: int) -> Due:
    if row is None:
        return Due("new", None)
    if row.state != OPEN or row.outcome is not None:
        return Due("closed", row.id)
    if admission.patient != row.patient:
        raise CaseBaseError(
            f"admission {admission.external_id!r} is case {row.id} of another patient; use one id per admission"
        )
    equal = row.seen is not None and _text(row.seen) == _text(admission.values)
    # Once a decision was made, a new model alone does not require another decision.
    return Due("unchanged" if equal and (row.version == version or row.decided is not None) else "updated", row.id)


def _text(values: object) -> str:
    return json.dumps(values, sort_keys=True)
