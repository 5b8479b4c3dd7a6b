"""Resources for tests, written shortly."""

LOINC, SNOMED, UCUM = "http://loinc.org", "http://snomed.info/sct", "http://unitsofmeasure.org"


def concept(code, system=LOINC):
    return {"coding": [{"system": system, "code": code}]}


def quantity(value, unit):
    return {"value": value, "unit": unit, "system": UCUM, "code": unit}


def patient(name="p1", gender="male", birth="1960-05-17"):
    return {"resourceType": "Patient", "id": name, "gender": gender, "birthDate": birth}


def observation(name, code, time="2024-05-01T08:00:00Z", who="p1", **value):
    return {
        "resourceType": "Observation",
        "id": name,
        "status": "final",
        "code": concept(code),
        "subject": {"reference": f"Patient/{who}"},
        "effectiveDateTime": time,
        **value,
    }


def condition(name, code, system=SNOMED, time="2020-01-01", who="p1", **more):
    return {
        "resourceType": "Condition",
        "id": name,
        "code": concept(code, system),
        "subject": {"reference": f"Patient/{who}"},
        "recordedDate": time,
        **more,
    }


def bundle(*resources):
    return {"resourceType": "Bundle", "type": "collection", "entry": [{"resource": one} for one in resources]}
