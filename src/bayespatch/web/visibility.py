"""What users may see: viewers see past cases, in the detail that the data dictionary allows."""

from __future__ import annotations

from dataclasses import replace

from bayespatch.casebase.cases import PAST, Case, Definition
from bayespatch.casebase.people import CLINICIAN, Person
from bayespatch.dictionary import Entry
from bayespatch.explain.overview import Overview
from bayespatch.web.refusals import Refusal

WITHHELD = "withheld"


def sees_all(person: Person) -> bool:
    """Whether a user may see exact values and open cases."""
    return person.may(CLINICIAN)


def is_open(entry: Entry) -> bool:
    """Whether all users may see exact values of a column, and may filter and sort by it."""
    return not (entry.sensitive or entry.coarse is not None)


def shown_values(definition: Definition, case: Case, person: Person) -> dict[str, str]:
    """The values of a case as text, as visible to this user."""
    if case.values is None:
        return {}
    exact = sees_all(person)
    return {
        name: entry.text(case.values[name]) if exact else entry.coarse_text(case.values[name])
        for name, entry in definition.features.entries.items()
    }


def shown_outcome(definition: Definition, case: Case, person: Person) -> str:
    """The outcome of a case as text, as visible to this user."""
    if case.outcome is None:
        return "–"
    return WITHHELD if definition.target.sensitive and not sees_all(person) else definition.class_name(case.outcome)


def shown_case(definition: Definition, case: Case, person: Person) -> Case:
    """A case as visible to this user, with text in place of values that are not shown exactly."""
    if sees_all(person):
        return case
    texts, entries = shown_values(definition, case, person), definition.features.entries
    values = case.values and {name: v if is_open(entries[name]) else texts[name] for name, v in case.values.items()}
    shown = replace(case, values=values, external_id=None, patient=None, entered_by="", outcome_by=None)
    if definition.target.sensitive and case.outcome is not None:
        return replace(shown, outcome=WITHHELD, outcome_at=None)
    return shown


def sortable(definition: Definition, person: Person) -> list[str]:
    """Columns by which a user may filter and sort."""
    exact = sees_all(person)
    features = [name for name, entry in definition.features.entries.items() if exact or is_open(entry)]
    return ["id", *(["outcome"] if exact or is_open(definition.target) else []), *features]


def check_column(definition: Definition, person: Person, name: str) -> None:
    """Reject a column that this user may not filter or sort by, because that would reveal exact values."""
    if name in definition.features:  # it may be called "id" or "outcome"
        may = is_open(definition.features[name])
    else:
        may = is_open(definition.target) if name in ("outcome", definition.target.name) else name == "id"
    if not sees_all(person) and not may:
        raise Refusal(403, f"You may not filter or sort by {name[:60]!r}. Choose one of the columns in the list.")


def check_state(person: Person, state: str | None) -> str | None:
    """The state of the cases to search; viewers see past cases only."""
    if sees_all(person):
        return state
    if state not in (None, PAST):
        raise Refusal(403, "You are only allowed to see past cases.")
    return PAST


def shown_overview(overview: Overview, definition: Definition, person: Person) -> Overview:
    """The content of the model page: viewers see no individual cases, and no values of hidden columns."""
    if sees_all(person):
        return overview
    entries = definition.features.entries
    opened = {name for name, entry in entries.items() if is_open(entry)}
    groups = opened | {entries[name].label for name in opened}
    groups -= {text for name, entry in entries.items() if name not in opened for text in (name, entry.label)}
    return replace(
        overview,
        features=tuple(one if one.name in opened else replace(one, values=(WITHHELD,)) for one in overview.features),
        subgroups=tuple(group for group in overview.subgroups if group.feature in groups),
        influential=(),
        unusual=(),
    )
