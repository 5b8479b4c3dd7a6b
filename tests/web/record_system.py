"""A record system for tests: its keys, its tokens, the resources of a patient, and the hooks that it fires."""

from __future__ import annotations

import json
import time
import uuid

from joserfc import jwt
from joserfc.jwk import ECKey
from starlette.testclient import TestClient

from tests.fhir.records import SNOMED, bundle, concept, observation, patient, quantity
from tests.web.conftest import HOST

ISSUER, ORIGIN = "https://ehr.example", "https://charts.ehr.example"
KEY = ECKey.generate_key("P-384", {"kid": "one", "use": "sig"})
MAPPING = """
columns:
  age: {resource: Patient, path: birthDate, unit: a}
  pain: {resource: Observation, codes: ["loinc|11323-3"], values: {"snomed|1": 1, "snomed|2": 2, "snomed|3": 3}}
  bp: {resource: Observation, codes: ["loinc|8480-6"], unit: "mm[Hg]"}
  smokes: {resource: Condition, codes: ["snomed|77176002"], absent: no}
  town: {resource: Patient, path: address.city}
"""
SETTINGS = """
mapping = "mapping.yaml"
label = "Chest pain clinic"
{more}
[[client]]
name = "ehr"
issuer = "{issuer}"
keys = "keys.json"
origin = "{origin}"
"""


def write_settings(folder, more: str = "", mapping: str = MAPPING) -> str:
    """The settings of a server for this record system."""
    (folder / "mapping.yaml").write_text(mapping)
    (folder / "keys.json").write_text(json.dumps({"keys": [KEY.as_dict(private=False)]}))
    path = folder / "record-systems.toml"
    path.write_text(SETTINGS.format(issuer=ISSUER, origin=ORIGIN, more=more))
    return str(path)


def token(path: str, key=KEY, header=None, **claims) -> str:
    """A token for one request."""
    now = int(time.time())
    stated = {"iss": ISSUER, "aud": f"{HOST}{path}", "iat": now, "exp": now + 300, "jti": str(uuid.uuid4()), **claims}
    given = {name: value for name, value in stated.items() if value is not None}
    return jwt.encode(
        {"alg": "ES384", "kid": "one", "typ": "JWT", **(header or {})},
        given,
        key,
        algorithms=["ES384", "RS384", "HS256"],
    )


def resources(name="p1", birth="1960-05-17", pain="1", pressure=150):
    """What the record of a patient has."""
    where = {"address": [{"city": "Ulm"}]}
    return {
        "patient": {**patient(name, birth=birth), **where},
        "observation": bundle(
            observation("o1", "11323-3", who=name, valueCodeableConcept=concept(pain, SNOMED)),
            observation("o2", "8480-6", who=name, valueQuantity=quantity(pressure, "mm[Hg]")),
        ),
        "condition": None,
    }


def hook(name="patient-view", who="p1", prefetch=None, **context):
    """A hook that fires."""
    return {
        "hook": name,
        "hookInstance": str(uuid.uuid4()),
        "context": {"userId": "Practitioner/roe", "patientId": who, **context},
        "prefetch": resources(who) if prefetch is None else prefetch,
    }


def order(name="m1", code="83367"):
    """A medication that is being ordered."""
    return {
        "resourceType": "MedicationRequest",
        "id": name,
        "status": "draft",
        "intent": "order",
        "medicationCodeableConcept": {
            "coding": [{"system": "http://www.nlm.nih.gov/research/umls/rxnorm", "code": code}]
        },
        "subject": {"reference": "Patient/p1"},
    }


class RecordSystem(TestClient):
    """Sends hooks and feedback, each with a token of its own."""

    def __init__(self, app) -> None:
        super().__init__(app, base_url=HOST, raise_server_exceptions=False)

    def ask(self, path: str, body, **options):
        headers = {"Authorization": f"Bearer {token(path)}", **options.pop("headers", {})}
        return self.post(path, json=body, headers=headers, **options)

    def fire(self, **options):
        """A hook fires: the response."""
        body = hook(**options)
        return self.ask(f"/cds-services/{body['hook']}", body)

    def feedback(self, card, outcome="accepted", service="patient-view", **more):
        """A card was accepted or overridden."""
        one = {"card": card["uuid"], "outcome": outcome, "outcomeTimestamp": "2026-11-19T12:00:00Z", **more}
        if outcome == "accepted":
            one.setdefault("acceptedSuggestions", [{"id": card["suggestions"][0]["uuid"]}])
        return self.ask(f"/cds-services/{service}/feedback", {"feedback": [one]})
