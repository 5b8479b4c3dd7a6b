"""Synthetic health records, as a bulk export of FHIR R4 has them: patients, an encounter each, findings, an outcome."""

from __future__ import annotations

import json
from datetime import date, timedelta
from urllib.parse import parse_qs

import numpy as np

from tests.fhir.records import SNOMED, concept, condition, observation, patient, quantity

RXNORM = "http://www.nlm.nih.gov/research/umls/rxnorm"
ADMITTED = date(2023, 3, 1)
MAPPING = """
fhir: R4
columns:
  age: {resource: Patient, path: birthDate, unit: a}
  sex: {resource: Patient, path: gender}
  sbp: {resource: Observation, codes: ["loinc|8480-6"], unit: "mm[Hg]", within_days: 365}
  chol: {resource: Observation, codes: ["loinc|2093-3"], unit: mg/dL, molar_mass: 386.65, within_days: 1000}
  smoker:
    resource: Observation
    codes: ["loinc|72166-2"]
    values: {"snomed|449868002": "yes", "snomed|266919005": "no"}
  diabetes: {resource: Condition, codes: ["snomed|44054006"], absent: no, values: {true: "yes", false: "no"}}
  statin: {resource: MedicationStatement, codes: ["rxnorm|83367"], absent: no, values: {true: "yes", false: "no"}}
outcome:
  infarction:
    resource: Condition
    codes: ["snomed|22298006"]
    within_days: 365
    absent: no
    values: {true: "yes", false: "no"}
at: {resource: Encounter, path: period.start, select: first}
"""
_TAKES = {"system": RXNORM, "code": "83367"}


def record(number: int, seed: int = 0, since: date = ADMITTED) -> list[dict]:
    """One patient's resources, with an infarction that depends on the findings; admissions begin with a date."""
    rng = np.random.default_rng([seed, number])
    name, who = f"p{number}", {"reference": f"Patient/p{number}"}
    age, male = int(rng.integers(35, 90)), bool(rng.random() < 0.5)
    sbp, chol = rng.normal(120 + age / 3, 14), rng.normal(200, 35)
    smoker, diabetic, statin = rng.random() < 0.25, rng.random() < 0.2, rng.random() < 0.3
    risk = 0.07 * (age - 62) + 0.03 * (sbp - 140) + 0.01 * (chol - 200) + 1.3 * smoker + 1.0 * diabetic - 0.6 * statin
    admitted = since + timedelta(days=int(rng.integers(0, 300)))
    before = (admitted - timedelta(days=int(rng.integers(0, 90)))).isoformat()
    born = date(admitted.year - age, 1, 1) - timedelta(days=int(rng.integers(0, 300)))
    kilopascal = rng.random() < 0.3  # another hospital's unit
    tobacco = {"valueCodeableConcept": concept("449868002" if smoker else "266919005", SNOMED)}
    resources = [
        patient(name, "male" if male else "female", born.isoformat()),
        {
            "resourceType": "Encounter",
            "id": f"e{number}",
            "status": "finished",
            "class": {"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "IMP"},
            "subject": who,
            "period": {"start": f"{admitted}T08:00:00Z", "end": f"{admitted + timedelta(days=3)}T08:00:00Z"},
        },
        observation(
            f"o{number}-0",
            "8480-6",
            before,
            name,
            valueQuantity=quantity(round(sbp / 7.50062, 2), "kPa") if kilopascal else quantity(round(sbp), "mm[Hg]"),
        ),
        observation(f"o{number}-2", "72166-2", before, name, **tobacco),
        observation(f"o{number}-3", "8302-2", before, name, valueQuantity=quantity(170, "cm")),  # not in the mapping
    ]
    if rng.random() < 0.9:  # otherwise never measured
        resources.append(
            observation(f"o{number}-1", "2093-3", before, name, valueQuantity=quantity(round(chol), "mg/dL"))
        )
    if diabetic:
        resources.append(condition(f"c{number}-0", "44054006", time=before, who=name))
    if statin:
        resources.append(
            {
                "resourceType": "MedicationStatement",
                "id": f"m{number}",
                "status": "active",
                "medicationCodeableConcept": {"coding": [_TAKES]},
                "subject": who,
                "effectiveDateTime": before,
            }
        )
    if rng.random() < 1 / (1 + np.exp(-risk)):
        later = admitted + timedelta(days=int(rng.integers(5, 300)))
        resources.append(condition(f"c{number}-1", "22298006", time=later.isoformat(), who=name))
    return resources


def search(resources: list[dict], template: str) -> dict | None:
    """What a FHIR server answers to a search of a mapping, for the one patient whose resources these are."""
    kind, _, query = template.partition("?")
    if "/" in kind:
        return next(one for one in resources if one["resourceType"] == kind.partition("/")[0])
    codes = parse_qs(query).get("code", [""])[0].split(",")
    entries = [
        {"resource": one}
        for one in resources
        if one["resourceType"] == kind
        for coding in (one.get("code") or one["medicationCodeableConcept"])["coding"]
        if codes == [""] or f"{coding['system']}|{coding['code']}" in codes
    ]
    return {"resourceType": "Bundle", "type": "searchset", "entry": entries} if entries else None


def write_export(folder, n: int, seed: int = 0) -> None:
    """NDJSON files, one for each resource type."""
    files = {}
    for number in range(n):
        for resource in record(number, seed):
            files.setdefault(resource["resourceType"], []).append(json.dumps(resource))
    folder.mkdir(parents=True, exist_ok=True)
    for kind, lines in files.items():
        (folder / f"{kind}.ndjson").write_text("\n".join(lines) + "\n", encoding="utf-8")
