"""The resource types that mappings read, with the elements for code, time, patient and status."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import Any, Literal, NamedTuple

from bayespatch.fhir.errors import refuse, shown
from bayespatch.fhir.times import Span, read_time

Version = Literal["R4", "R5"]
VERSIONS: tuple[Version, ...] = ("R4", "R5")
Resource = dict[str, Any]  # JSON of any depth


class Coding(NamedTuple):
    """A code and its system, which may be empty."""

    system: str
    code: str


class ResourceType(NamedTuple):
    """Description of a resource type in one version of FHIR.

    Attributes
    ----------
    codes : names
        Elements with the code, each a CodeableConcept, a Coding or a list of these; a dot leads to a part.
    times : names
        Elements with the time; the first one present is used, for a Period its start.
    period : names
        Elements with the Period of validity, or its start and end.
    statuses : names
        Every status that FHIR allows; empty if the type has none.
    valid : names
        The statuses of resources that are used.
    """

    codes: tuple[str, ...] = ()
    times: tuple[str, ...] = ()
    period: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()


_REPORTED = ("final", "amended", "corrected")
_OBSERVATION = ResourceType(
    codes=("code",),
    times=("effectiveDateTime", "effectiveInstant", "effectivePeriod", "issued"),
    period=("effectivePeriod",),
    statuses=("registered", "preliminary", *_REPORTED, "cancelled", "entered-in-error", "unknown"),
    valid=_REPORTED,
)
_CONDITION = ResourceType(
    codes=("code",),
    times=("recordedDate", "onsetDateTime", "onsetPeriod"),
    period=("onsetPeriod", "onsetDateTime", "abatementDateTime"),
)
_DONE = ("preparation", "in-progress", "not-done", "on-hold", "stopped", "completed", "entered-in-error", "unknown")
_TAKEN = ("active", "completed", "stopped")
_STATED = (*_TAKEN, "entered-in-error", "intended", "on-hold", "unknown", "not-taken")
_ASKED = (*_TAKEN, "on-hold", "cancelled", "entered-in-error", "draft", "unknown")
_HELD = ("arrived", "triaged", "in-progress", "onleave", "finished")
_HELD_R5 = ("in-progress", "on-hold", "discharged", "completed", "discontinued")
_EFFECTIVE = ("effectiveDateTime", "effectivePeriod", "dateAsserted")

TYPES: Mapping[Version, Mapping[str, ResourceType]] = {
    "R4": {
        "Patient": ResourceType(),
        "Observation": _OBSERVATION,
        "Condition": _CONDITION,
        "Procedure": ResourceType(
            ("code",), ("performedDateTime", "performedPeriod"), ("performedPeriod",), _DONE, ("completed",)
        ),
        "MedicationStatement": ResourceType(
            ("medicationCodeableConcept",), _EFFECTIVE, ("effectivePeriod",), _STATED, _TAKEN
        ),
        "MedicationRequest": ResourceType(("medicationCodeableConcept",), ("authoredOn",), (), _ASKED, _TAKEN),
        "Encounter": ResourceType(
            ("type", "class"),
            ("period",),
            ("period",),
            (*_HELD, "planned", "cancelled", "entered-in-error", "unknown"),
            _HELD,
        ),
    },
    "R5": {
        "Patient": ResourceType(),
        "Observation": _OBSERVATION,
        "Condition": _CONDITION,
        "Procedure": ResourceType(
            ("code",), ("occurrenceDateTime", "occurrencePeriod"), ("occurrencePeriod",), _DONE, ("completed",)
        ),
        "MedicationStatement": ResourceType(
            ("medication.concept",),
            _EFFECTIVE,
            ("effectivePeriod",),
            ("recorded", "entered-in-error", "draft"),
            ("recorded",),
        ),
        "MedicationRequest": ResourceType(("medication.concept",), ("authoredOn",), (), (*_ASKED, "ended"), _TAKEN),
        "Encounter": ResourceType(
            ("type", "class"),
            ("actualPeriod",),
            ("actualPeriod",),
            (*_HELD_R5, "planned", "cancelled", "entered-in-error", "unknown"),
            _HELD_R5,
        ),
    },
}
# Statuses of what was recorded in error, or has not happened.
VOID = ("entered-in-error", "registered", "cancelled", "planned", "preparation", "not-done", "draft")
_UNPROVEN = ("unconfirmed", "provisional", "differential", "refuted", "entered-in-error")


def codings(resource: Resource, names: Sequence[str], where: str) -> Iterator[Coding]:
    """The codings of these elements; malformed ones are rejected."""
    for name in names:
        value: object = resource
        pointer = where
        for part in name.split("."):
            pointer = f"{pointer}.{part}"
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            yield from codings_in(value, pointer)


def codings_in(value: object, where: str) -> Iterator[Coding]:
    """The codings of a Coding, a CodeableConcept, or a list of these."""
    if isinstance(value, list):
        for j, one in enumerate(value):
            yield from codings_in(one, f"{where}[{j}]")
        return
    if not isinstance(value, dict):
        raise refuse(where, f"{shown(value)} is not a code; pass a CodeableConcept, an object with 'coding'")
    if "code" in value:
        system, code = value.get("system", ""), value["code"]
        for part, text in {"system": system, "code": code}.items():
            if not isinstance(text, str):
                raise refuse(f"{where}.{part}", f"{shown(text)} is not text; pass it in quotes")
        yield Coding(system, code)
    elif "coding" in value:
        if not isinstance(value["coding"], list):
            raise refuse(f"{where}.coding", f"{shown(value['coding'])} is not a list; pass a list of codings")
        yield from codings_in(value["coding"], f"{where}.coding")


def time_of(resource: Resource, names: Sequence[str], where: str, zone: tzinfo | None) -> Span | None:
    """The time of a resource, from the first of these elements that is present."""
    for name in names:
        value = resource.get(name)
        if isinstance(value, dict):
            start = value.get("start", value.get("end"))
            if start is not None:
                return _time(start, f"{where}.{name}.{'start' if 'start' in value else 'end'}", zone)
        elif value is not None:
            return _time(value, f"{where}.{name}", zone)
    return None


def period_of(resource: Resource, kind: str, kinds: ResourceType, where: str, zone: tzinfo | None) -> list[Span | None]:
    """Start and end of a resource's validity; None is open-ended."""
    ends: list[Span | None] = [None, None]
    for name in kinds.period:
        value = resource.get(name)
        if isinstance(value, dict):
            for j, part in enumerate(("start", "end")):
                if value.get(part) is not None:
                    ends[j] = _time(value[part], f"{where}.{name}.{part}", zone)
        elif value is not None:
            ends[name.startswith("abatement")] = _time(value, f"{where}.{name}", zone)
    return ends


def _time(value: object, where: str, zone: tzinfo | None) -> Span:
    span = read_time(value, zone)
    if span is None:
        raise refuse(where, f"{shown(value)} is not a date; write it as 2024-05-31 or 2024-05-31T09:30:00Z")
    return span


def unusable_status(resource: Resource, kind: str, kinds: ResourceType, where: str) -> str | None:
    """The status that excludes a resource, if any; invalid statuses are rejected."""
    if kind == "Condition":
        codes = [coding.code for coding in codings(resource, ("verificationStatus",), where)]
        return next((code for code in codes if code in _UNPROVEN), None)
    if not kinds.statuses:
        return None
    status = resource.get("status")
    if status not in kinds.statuses:
        wrong = "is missing" if status is None else f"{shown(status)} is not a status of {kind}"
        raise refuse(f"{where}.status", f"{wrong}; pass one of {', '.join(kinds.statuses)}")
    return None if status in kinds.valid else str(status)
