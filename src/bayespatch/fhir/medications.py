"""Codes of medications that a resource names by a reference to a Medication."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bayespatch.fhir.reading import BundleEntry
from bayespatch.fhir.resources import Resource, Version

MEDICATION = "Medication"
KINDS = ("MedicationStatement", "MedicationRequest")
Medications = Mapping[str, object]  # reference -> CodeableConcept; None if the Medication has no code


def medications(entries: Iterable[BundleEntry]) -> dict[str, object]:
    """The codes of the Medications among these resources, by id and by URL.

    Examples
    --------
    >>> aspirin = {"resourceType": "Medication", "id": "m1", "code": {"text": "aspirin"}}
    >>> medications([BundleEntry(aspirin, "Bundle.entry[0].resource")])
    {'Medication/m1': {'text': 'aspirin'}}
    """
    codes: dict[str, object] = {}
    for entry in entries:
        if entry.resource["resourceType"] == MEDICATION:
            names = (f"{MEDICATION}/{entry.resource['id']}" if "id" in entry.resource else "", entry.url)
            codes |= {name: entry.resource.get("code") for name in names if name}
    return codes


def reference_of(resource: Resource, version: Version) -> tuple[str, str] | None:
    """The reference to a Medication and the element with it; None if the resource has none.

    Examples
    --------
    >>> reference_of({"medicationReference": {"reference": "Medication/m1"}}, "R4")
    ('medicationReference.reference', 'Medication/m1')
    """
    if version == "R4":
        element, data = "medicationReference", resource.get("medicationReference")
    else:
        medication = resource.get("medication")
        element, data = "medication.reference", medication.get("reference") if isinstance(medication, dict) else None
    if data is None:
        return None
    reference = data.get("reference") if isinstance(data, dict) else None
    return f"{element}.reference", reference if isinstance(reference, str) else ""


def code_of(resource: Resource, reference: str, codes: Medications) -> object:
    """The code of the Medication that a resource refers to; None if it is unknown."""
    if reference.startswith("#"):
        contained = resource.get("contained")
        for one in contained if isinstance(contained, list) else ():
            if isinstance(one, dict) and one.get("resourceType") == MEDICATION and one.get("id") == reference[1:]:
                return one.get("code")
        return None
    plain = reference.partition("/_history/")[0]
    return codes.get(plain, codes.get("/".join(plain.split("/")[-2:])))
