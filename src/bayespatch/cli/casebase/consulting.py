"""Commands of a consultation: consult, decide, outcome, retain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayespatch.cli.casebase.opening import Opened, Person, case_of, counted, open_base, person
from bayespatch.cli.casebase.options import (
    CaseName,
    Class,
    Code,
    ExternalId,
    MaybeCases,
    Neighbors,
    Number,
    OldCase,
    Patient,
    Reason,
    Values,
)
from bayespatch.cli.options import Json
from bayespatch.cli.shared import json_object, taking
from bayespatch.cli.terminal import facts_text, show

if TYPE_CHECKING:
    from bayespatch.casebase.consultations import Consultation


@taking(opened=open_base, by=person)
def consult(
    opened: Opened,
    values: Values,
    by: Person,
    case: OldCase = None,
    external_id: ExternalId = None,
    patient: Patient = None,
    top: Neighbors = 4,
    json: Json = False,
) -> None:
    """Ask the active model about a patient, and store the answer.

    Examples
    --------
    $ bayespatch casebase consult clinic.db --values '{"age": 61, "pain": "rest"}' --id P-17
    $ bayespatch casebase consult clinic.db --values '{"age": 61, "pain": null}' --case 304 --json
    """
    with opened() as base:
        again = None if case is None else case_of(case)
        given = json_object(values, "--values")
        seen = base.consult(given, by=by(), case=again, external_id=external_id, patient=patient, top=top)
    show(seen, json, _seen_text(seen))


@taking(opened=open_base, by=person)
def decide(
    opened: Opened,
    consultation: Number,
    decided: Class,
    by: Person,
    reason: Reason = "",
    code: Code = "",
    json: Json = False,
) -> None:
    """Record a decision on a consultation; overriding the model requires a reason or a code.

    Examples
    --------
    $ bayespatch casebase decide clinic.db 1204 sick
    $ bayespatch casebase decide clinic.db 1204 well --reason 'the pain is from a broken rib'
    """
    with opened() as base:
        made = base.decide(consultation, decided, by=by(), reason=reason, code=code)
    word = "agrees with" if made.agrees else "overrides"
    show(made, json, f"decided: {made.decided}, which {word} the model")


@taking(opened=open_base, by=person)
def outcome(opened: Opened, case: CaseName, outcome: Class, by: Person, json: Json = False) -> None:
    """Record the outcome of a case. A second outcome is rejected.

    Examples
    --------
    $ bayespatch casebase outcome clinic.db 304 sick
    $ bayespatch casebase outcome clinic.db P-17 well
    """
    with opened() as base:
        recorded = base.outcome(case_of(case), outcome, by=by())
        label = base.definition.class_name(recorded.outcome)
    show(recorded, json, f"case {recorded.id}: {label}; once retained, it votes from the next consultation on")


@taking(opened=open_base, by=person)
def retain(opened: Opened, by: Person, cases: MaybeCases = None, json: Json = False) -> None:
    """Turn open cases into past cases: the named ones, or all with an outcome. They vote from the next consultation on.

    Examples
    --------
    $ bayespatch casebase retain clinic.db
    $ bayespatch casebase retain clinic.db 304 P-17
    """
    with opened() as base:
        ids = base.retain([case_of(case) for case in cases] if cases else None, by=by())
    show({"retained": ids}, json, f"{counted(len(ids), 'more past case')}")


def _seen_text(seen: Consultation) -> str:
    """A short text summary of a consultation."""
    shown = seen.explanation
    facts = {
        "consultation": f"{seen.id}, case {seen.case_id}, model version {seen.version}",
        "prediction": ", ".join(f"{name} {p:.0%}" for name, p in shown["prediction"]["probabilities"].items()),
        "precedent": "adequate" if shown["precedent"]["adequate"] else "no adequate precedent",
        "closest past cases": "; ".join(
            f"{one['id']} ({one['outcome']}), weight {one['vote_share']:.0%}" for one in shown["neighbors"]
        ),
    }
    if shown["case"]["warnings"]:
        facts["warnings"] = "; ".join(shown["case"]["warnings"])
    return facts_text(facts)
