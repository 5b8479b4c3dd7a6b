"""Past cases from an OMOP common data model (5.3, 5.4): one query for each column and table, from the templates below.

``omop`` in a mapping names standard concepts, including their descendants. Dates have a precision of one day.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Mapping as AnyMapping
from datetime import datetime
from typing import Any, NamedTuple

from bayespatch.fhir.bulk import Records, cases_of
from bayespatch.fhir.choose import MappedCase
from bayespatch.fhir.errors import FhirError
from bayespatch.fhir.extract import UCUM, Candidate, Unusable, plain_result, rule_level
from bayespatch.fhir.mapping import Mapping
from bayespatch.fhir.rules import SYSTEMS, Rule
from bayespatch.fhir.times import aware, read_time
from bayespatch.source.database import read_rows

Row = AnyMapping[str, Any]  # as returned by a driver: numbers, strings, dates


class _Table(NamedTuple):
    """A table of events: its key, the columns with concept, start and end, and the SQL of its values."""

    name: str
    key: str
    concept: str
    start: str
    end: str = "NULL"
    number: str = "NULL"
    coded: str = "NULL"
    unit: str = "NULL"


_VALUES = ("value_as_number", "value_as_concept_id", "unit_concept_id")
_DRUGS = _Table(
    *("drug_exposure", "drug_exposure_id", "drug_concept_id", "drug_exposure_start_date", "e.drug_exposure_end_date")
)
_TABLES: AnyMapping[str, tuple[_Table, ...]] = {
    "Observation": tuple(
        _Table(name, f"{name}_id", f"{name}_concept_id", f"{name}_date", "NULL", *(f"e.{part}" for part in _VALUES))
        for name in ("measurement", "observation")
    ),
    "Condition": (
        _Table(
            *("condition_occurrence", "condition_occurrence_id", "condition_concept_id"),
            *("condition_start_date", "e.condition_end_date"),
        ),
    ),
    "Procedure": (_Table("procedure_occurrence", "procedure_occurrence_id", "procedure_concept_id", "procedure_date"),),
    "MedicationStatement": (_DRUGS,),
    "MedicationRequest": (_DRUGS,),
    "Encounter": (
        _Table(
            *("visit_occurrence", "visit_occurrence_id", "visit_concept_id"), *("visit_start_date", "e.visit_end_date")
        ),
    ),
}
_EVENTS = """
SELECT DISTINCT e.{key} AS id, e.person_id AS person, e.{start} AS started, {end} AS ended,
       {number} AS number, {coded} AS coded, u.concept_code AS unit
FROM {name} e
JOIN concept_ancestor a ON a.descendant_concept_id = e.{concept} AND a.ancestor_concept_id IN ({concepts})
LEFT JOIN concept u ON u.concept_id = {unit} AND u.vocabulary_id = 'UCUM'
"""
_PERSONS = """
SELECT person_id AS person, gender_concept_id AS gender, year_of_birth AS year, month_of_birth AS month,
       day_of_birth AS day
FROM person
"""
_GENDERS = {8507: "male", 8532: "female"}


def read_omop(
    url: str, mapping: Mapping, at: datetime | None = None, skipped: Callable[[str], None] | None = None
) -> Iterator[MappedCase]:
    """The cases of an OMOP common data model, one for each person.

    Parameters
    ----------
    url : str
        URL of a SQLite, PostgreSQL or DuckDB database, as in `bayespatch.source.read`.
    mapping : Mapping
        Every column names concepts (``omop: [3004249]``), except those of a Patient, whose path is birthDate or gender.
    at : datetime, optional
    skipped : callable, optional
        As in `read_bulk`.
    """
    for rule in mapping.rules.all:
        if rule.resource == "Patient" and rule.path not in ("birthDate", "gender"):
            raise FhirError(f"column {rule.column!r}: path {rule.path!r} is not in OMOP; use birthDate or gender")
        if rule.resource != "Patient" and not rule.omop:
            raise FhirError(f"column {rule.column!r}: the mapping names no OMOP concept; add omop: [CONCEPT_ID]")
    moment = aware(at)
    records: Records = {}
    for row in read_rows(url, _PERSONS):
        for rule in mapping.rules.all:
            if rule.resource == "Patient":
                _add(records, row, _of_person(rule, row, mapping))
    for rule in mapping.rules.all:
        for table in _TABLES.get(rule.resource, ()):
            concepts = ", ".join(map(str, rule.omop))
            for row in read_rows(url, _EVENTS.format(**table._asdict(), concepts=concepts)):
                _add(records, row, _of_event(rule, table, row, mapping, moment))
    if not records:
        raise FhirError("the database has no records for this mapping; check the concepts")
    return cases_of(records, mapping, moment, skipped)


def _add(records: Records, row: Row, candidate: Candidate | None) -> None:
    columns = records.setdefault(str(int(row["person"])), {})
    if candidate is not None:
        columns.setdefault(candidate.column, []).append(candidate)


def _of_person(rule: Rule, row: Row, mapping: Mapping) -> Candidate | None:
    """Sex or date of birth."""
    reference = f"person/{int(row['person'])}"
    if rule.path == "gender":
        result = _GENDERS.get(int(row["gender"] or 0))
    else:
        date_parts = [row["year"], row["month"], row["day"]]
        parts = [int(part) for part in date_parts[: date_parts.index(None) if None in date_parts else 3]]
        result = "-".join(f"{part:02}" for part in parts) or None
    return _candidate(rule, result, Candidate(rule.column, None, None, None, None, reference, reference), mapping)


def _of_event(rule: Rule, table: _Table, row: Row, mapping: Mapping, moment: datetime) -> Candidate | None:
    """The value of an event: its number or concept, its date if the path names one, or true for its presence."""
    started, ended = (read_time(str(row[name])[:10], moment.tzinfo) for name in ("started", "ended"))
    where = f"{table.name}/{int(row['id'])}"
    base = Candidate(rule.column, None, started, started, ended, where, where)
    if not rule.path:
        return base._replace(value=rule_level(rule, True, where))
    if rule.resource != "Observation":
        return _candidate(rule, str(row["started"])[:10], base, mapping)
    if row["number"] is not None:
        unit = {} if row["unit"] is None else {"system": UCUM, "code": row["unit"]}
        return _candidate(rule, {"value": row["number"], **unit}, base, mapping)
    if row["coded"]:
        code = {"system": SYSTEMS["omop"], "code": str(int(row["coded"]))}
        return _candidate(rule, {"coding": [code]}, base, mapping)
    return None


def _candidate(rule: Rule, result: object, base: Candidate, mapping: Mapping) -> Candidate | None:
    """The candidate with the value of a result, or with the reason why the value is unusable."""
    if result is None:
        return None
    try:
        return base._replace(value=plain_result(result, rule, mapping.rules, base.where, None))
    except Unusable as error:
        return base._replace(problem=(error.kind, f"{error.element}: {error.wrong}"))
