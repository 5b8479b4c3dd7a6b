"""CDS Hooks: discovery, cards, feedback, what is refused and why, and the tokens of record systems."""

from __future__ import annotations

import copy
import json
import os
import time
from pathlib import Path

import jsonschema
import pytest
from joserfc import jws
from joserfc.jwk import ECKey, OctKey, RSAKey

from bayespatch.web.cards import CARD, SUGGESTION, Source
from bayespatch.web.pages.worklist import CODES
from bayespatch.web.record_systems import RecordSystems
from tests.fhir.records import bundle
from tests.web.conftest import HOST, VALUES
from tests.web.record_system import (
    ISSUER,
    KEY,
    MAPPING,
    ORIGIN,
    RecordSystem,
    hook,
    order,
    resources,
    token,
    write_settings,
)
from tests.web.test_single_sign_on import signed_with, unsigned

SCHEMA = json.loads(Path(__file__).with_name("cds_hooks_schema.json").read_text(encoding="utf-8"))
VIEW, SELECT = "/cds-services/patient-view", "/cds-services/order-select"
ORDERS = {"selections": ["MedicationRequest/m1"], "draftOrders": bundle(order())}


def valid(body, name):
    """The body, which is as the specification says."""
    schema = {"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]}
    jsonschema.Draft202012Validator(schema).validate(body)
    return body


@pytest.fixture
def served(clinic, tmp_path):
    return clinic(record_systems=write_settings(tmp_path))


@pytest.fixture
def system(served):
    return RecordSystem(served.app)


def card_of(response):
    assert response.status_code == 200, response.text
    [card] = valid(response.json(), "response")["cards"]
    return card


def refusal(response, status=422):
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")
    return response.json()["detail"]


# Discovery and cards


def test_discovery_names_the_services_and_their_searches(system):
    services = valid(system.get("/cds-services").json(), "discovery")["services"]
    assert [(one["hook"], one["id"]) for one in services] == [(name, name) for name in ("patient-view", "order-select")]
    assert services[0]["prefetch"] == {
        "patient": "Patient/{{context.patientId}}",
        "observation": "Observation?patient={{context.patientId}}&code=http://loinc.org|11323-3,http://loinc.org|8480-6",
        "condition": "Condition?patient={{context.patientId}}&code=http://snomed.info/sct|77176002",
    }


def test_without_record_systems_there_is_no_service(clinic):
    system = RecordSystem(clinic().app)
    assert valid(system.get("/cds-services").json(), "discovery") == {"services": []}
    assert "no such service" in refusal(system.fire(), 404)


@pytest.mark.parametrize(("name", "context"), [("patient-view", {}), ("order-select", ORDERS)])
def test_a_hook_gives_a_card_with_a_link_to_the_consultation(served, system, name, context):
    card = card_of(system.fire(name=name, encounterId="e7", **context))
    [consulted] = served.base.audit(action="consult")
    assert consulted.by == "ehr Practitioner/roe"
    seen, _, case = served.base.consultation(consulted.number, by="tester")
    age = seen.values["age"]
    assert seen.values == {"age": age, "pain": 1, "bp": 150, "smokes": False, "town": "Ulm"}
    assert age >= 66
    assert (case.external_id, case.patient) == ("ehr Encounter/e7", "p1")
    percent = round(100 * seen.explanation["prediction"]["probabilities"]["sick"])
    assert card["summary"].startswith(f"{percent}% probability of sick")
    assert card["detail"].startswith(card["summary"].partition(" (")[0])
    assert card["detail"].count("Similar past patients: ") == 1
    assert "90% interval" in card["detail"]
    assert card["links"] == [
        {"label": "Open the consultation", "url": f"{HOST}/consultations/{seen.id}", "type": "absolute"}
    ]
    assert card["source"] == {"label": "Chest pain clinic", "url": HOST}
    page = served.browser("clinician").get(f"/consultations/{seen.id}")
    assert (page.status_code, "ehr Practitioner/roe" in page.text) == (200, True)
    assert served.base.verify_audit().intact


def test_an_encounter_is_one_case_and_without_encounters_a_day_is(served, system):
    for encounter in ({"encounterId": "e1"}, {"encounterId": "e1"}, {"encounterId": "e2"}, {}, {}):
        card_of(system.fire(**encounter))
    cases = [row.case_id for row in served.base.audit(action="consult")]
    assert [cases.count(case) for case in sorted(set(cases))] == [2, 1, 2]
    assert served.base.worklist(by="tester").total == 3


def test_once_the_outcome_is_known_there_is_no_card(served, system):
    card_of(system.fire(encounterId="e1"))
    case = served.base.audit(action="consult")[0].case_id
    served.base.outcome(case, "sick", by="tester")
    card_of(system.fire(encounterId="e1"))
    served.base.retain([case], by="tester")
    assert valid(system.fire(encounterId="e1").json(), "response") == {"cards": []}


def test_a_case_without_precedent_is_a_warning(system):
    nothing = {"patient": {"resourceType": "Patient", "id": "p1"}, "observation": None, "condition": None}
    card = card_of(system.fire(prefetch=nothing))
    assert card["indicator"] == "warning"
    assert "no adequate precedent" in card["summary"]
    assert card_of(system.fire())["indicator"] == "info"


def test_what_the_record_lacks_stands_on_the_card(system):
    prefetch = resources()
    prefetch["observation"]["entry"].pop()
    text = card_of(system.fire(prefetch=prefetch))["detail"]
    assert "column 'bp': no Observation with code http\\://loinc.org\\|8480-6" in text


def test_orders_of_the_settings_alone_give_a_card(clinic, tmp_path):
    system = RecordSystem(clinic(record_systems=write_settings(tmp_path, 'orders = ["rxnorm|83367"]')).app)
    card_of(system.fire(name="order-select", **ORDERS))
    others = {"selections": ["MedicationRequest/m1"], "draftOrders": bundle(order(code="1191"), order("m2"))}
    assert system.fire(name="order-select", **others).json() == {"cards": []}


def test_a_column_without_a_rule_is_not_known(clinic, tmp_path):
    mapping = MAPPING.replace("  town: {resource: Patient, path: address.city}\n", "")
    served = clinic(record_systems=write_settings(tmp_path, mapping=mapping))
    card = card_of(RecordSystem(served.app).fire())
    assert "column 'town': the mapping has no rule for it" in card["detail"]
    seen, _, _ = served.base.consultation(served.base.audit(action="consult")[0].number, by="tester")
    assert seen.values["town"] is None


def test_texts_of_the_record_are_no_markdown(system):
    prefetch = resources()
    prefetch["observation"]["entry"][1]["resource"]["valueQuantity"] |= {"system": "x", "unit": "[a](https://b) <i>"}
    text = card_of(system.fire(prefetch=prefetch))["detail"]
    assert "\\[a\\](https\\://b) \\<i\\>" in text


LINKS = ["https://evil.example/x", "www.evil.example", "WWW.evil.example", "help@evil.example"]


@pytest.mark.parametrize("text", LINKS)
def test_texts_of_the_record_are_no_links(system, text):
    """GitHub Flavored Markdown, which cards may have, makes links of bare addresses."""
    prefetch = resources()
    prefetch["patient"]["address"][0]["city"] = f"{text}\n\n- one\n\n1. two"
    prefetch["observation"]["entry"][1]["resource"]["valueQuantity"] |= {"system": "x", "unit": text}
    detail = card_of(system.fire(prefetch=prefetch))["detail"]
    assert "evil.example" in detail
    assert text not in detail
    assert "\n- one" not in detail
    assert "\n1. two" not in detail


# Refused calls


def without(body, *path):
    """The body without one element."""
    body = copy.deepcopy(body)
    parent = body
    for key in path[:-1]:
        parent = parent[key]
    parent.pop(path[-1])
    return body


def changed(body, value, *path):
    """The body with another value of one element."""
    body = copy.deepcopy(body)
    parent = body
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    return body


CALL = hook()
WRONG = [
    (412, "prefetch.observation: is missing", without(CALL, "prefetch", "observation")),
    (412, "prefetch.patient: is missing", without(CALL, "prefetch")),
    (412, "prefetch.patient: is null", changed(CALL, None, "prefetch", "patient")),
    (
        412,
        "prefetch.condition: is an OperationOutcome",
        changed(CALL, {"resourceType": "OperationOutcome"}, "prefetch", "condition"),
    ),
    (
        412,
        "prefetch.observation.link: has a next page",
        changed(CALL, [{"relation": "next", "url": "x"}], "prefetch", "observation", "link"),
    ),
    (422, "hook: Field required", without(CALL, "hook")),
    (422, "hook: 'order-sign' was sent to the service of 'patient-view'", changed(CALL, "order-sign", "hook")),
    (422, "hookInstance: Field required", without(CALL, "hookInstance")),
    (422, "context: Field required", without(CALL, "context")),
    (422, "context.patientId: Field required", without(CALL, "context", "patientId")),
    (422, "context.patientId: String should match", changed(CALL, "p1?x=1", "context", "patientId")),
    (422, "context.userId: String should match", changed(CALL, "roe", "context", "userId")),
    (422, "context.encounterId: String should match", changed(CALL, "a b", "context", "encounterId")),
    (422, "prefetch.patient: Input should be", changed(CALL, "p1", "prefetch", "patient")),
    (422, "prefetch.patient.resourceType: is missing", changed(CALL, {"id": "p1"}, "prefetch", "patient")),
    (422, "prefetch.patient.id: 'p2' is not the patient of the context, 'p1'", hook(prefetch=resources("p2"))),
    (422, "prefetch.patient.birthDate: ", changed(CALL, "once", "prefetch", "patient", "birthDate")),
    (422, "prefetch.observation.entry: 'x' is not a list", changed(CALL, "x", "prefetch", "observation", "entry")),
    (
        422,
        "prefetch.observation.entry[1].resource.status: ",
        changed(CALL, "sure", "prefetch", "observation", "entry", 1, "resource", "status"),
    ),
    (
        422,
        "prefetch.observation.entry[0].resource.subject.reference: 'Patient/p9' is not the patient",
        changed(CALL, "Patient/p9", "prefetch", "observation", "entry", 0, "resource", "subject", "reference"),
    ),
]


@pytest.mark.parametrize(("status", "message", "body"), WRONG, ids=[message for _, message, _ in WRONG])
def test_a_wrong_call_is_refused_with_a_pointer_to_the_element(shared_system, status, message, body):
    served, system = shared_system
    before = len(served.base.audit(action="consult"))
    assert refusal(system.ask(VIEW, body), status).startswith(message)
    assert len(served.base.audit(action="consult")) == before


@pytest.fixture(scope="module")
def shared_system(clinics, password_hash, tmp_path_factory):
    from tests.web.conftest import Clinic

    folder = tmp_path_factory.mktemp("record_system")
    served = Clinic(clinics.copy(), password_hash, record_systems=write_settings(folder), rate=100_000)
    yield served, RecordSystem(served.app)
    served.service.close()


@pytest.mark.parametrize(
    ("message", "context"),
    [
        ("context.draftOrders: is missing", {"selections": ["MedicationRequest/m1"]}),
        ("context.selections: is missing or empty", {"draftOrders": bundle(order())}),
        (
            "context.selections[0]: 'MedicationRequest/m2' is not in draftOrders",
            ORDERS | {"selections": ["MedicationRequest/m2"]},
        ),
        (
            "context.draftOrders.entry[0].resource: is missing",
            ORDERS | {"draftOrders": {"resourceType": "Bundle", "entry": [{}]}},
        ),
    ],
)
def test_a_wrong_order_is_refused_with_a_pointer_to_the_element(shared_system, message, context):
    _, system = shared_system
    assert refusal(system.ask(SELECT, hook("order-select", **context))).startswith(message)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"1", b'{"hook": NaN}', b"[" * 100_000, b'"\\ud800"', b"\xff"])
def test_what_is_no_call_is_refused(shared_system, body):
    _, system = shared_system
    response = system.post(VIEW, content=body, headers={"Authorization": f"Bearer {token(VIEW)}"})
    assert refusal(response).startswith(("Request", "request"))


def test_lone_surrogates_are_refused(shared_system):
    _, system = shared_system
    text = json.dumps(hook()).replace("Practitioner/roe", "Practitioner/\\ud800")
    response = system.post(VIEW, content=text, headers={"Authorization": f"Bearer {token(VIEW)}"})
    assert "context.userId" in refusal(response)
    town = json.dumps(hook()).replace("Ulm", "\\ud800")
    assert 400 <= system.post(VIEW, content=town, headers={"Authorization": f"Bearer {token(VIEW)}"}).status_code < 500


def test_a_mapping_for_another_table_is_not_the_callers_fault(clinic, tmp_path):
    mapping = MAPPING.replace("smokes:", "smoker:")
    system = RecordSystem(clinic(record_systems=write_settings(tmp_path, mapping=mapping)).app)
    text = refusal(system.fire(), 503)
    assert "does not match the case base" in text
    assert "'smoker'" in text


# Tokens


def swapped(one, other):
    """A token with the claims of another one."""
    head, _, signature = one.split(".")
    return f"{head}.{other.split('.')[1]}.{signature}"


def forgeries():
    other, now = ECKey.generate_key("P-384", {"kid": "one"}), int(time.time())
    yield "another key", token(VIEW, key=other)
    yield "an unknown key", token(VIEW, header={"kid": "two"})
    yield "a shared secret", token(VIEW, key=OctKey.generate_key(256), header={"alg": "HS256"})
    yield "another algorithm", token(VIEW, key=RSAKey.generate_key(2048, {"kid": "one"}), header={"alg": "RS384"})
    public, own = KEY.as_pem(private=False), {"jwk": other.as_dict(private=False)}
    stated = json.loads(jws.extract_compact(token(VIEW).encode()).payload)
    yield "no algorithm", unsigned(stated, {"alg": "none"})
    yield "no algorithm with the name of a key", unsigned(stated, {"alg": "None", "kid": "one"})
    yield "the public key as a secret", signed_with(stated, {"kid": "one"}, public)
    yield "its own key in the header", token(VIEW, key=other, header=own)
    yield "its own key in the header under another name", token(VIEW, key=other, header={**own, "kid": "two"})
    yield "a key elsewhere", token(VIEW, key=other, header={"jku": f"{HOST}/keys.json", "kid": "two"})
    yield "other claims under a signature", swapped(token(VIEW), token(VIEW, exp=now + 600))
    yield "a time without end", token(VIEW, exp=float("nan"))
    yield "an infinite time", token(VIEW, exp=float("inf"))
    yield "a time as text", token(VIEW, exp=str(now + 300))
    yield "a time that is true", token(VIEW, exp=True)
    yield "a token that is not valid yet", token(VIEW, nbf=now + 1000)
    yield "no audience in a list", token(VIEW, aud=[])
    yield "an object as audience", token(VIEW, aud={f"{HOST}{VIEW}": 1})
    yield "another issuer", token(VIEW, iss="https://evil.example")
    yield "another audience", token(VIEW, aud=f"{HOST}{SELECT}")
    yield "another server", token(VIEW, aud="https://other.example/cds-services/patient-view")
    yield "an old token", token(VIEW, exp=now - 100)
    yield "a token for years", token(VIEW, exp=now + 10**8)
    yield "a token of the future", token(VIEW, iat=now + 1000)
    yield "no time", token(VIEW, exp=None)
    yield "no id", token(VIEW, jti=None)
    yield "an empty id", token(VIEW, jti="")
    yield "a list as id", token(VIEW, jti=["x"])
    yield "no audience", token(VIEW, aud=None)
    yield "no issuer", token(VIEW, iss=None)
    yield "an end", token(VIEW)[:-8]
    yield "no token", "x.y.z"
    yield "a word", "word"
    yield "nothing", ""
    yield "a long one", "x" * 100_000


@pytest.mark.parametrize("name", [name for name, _ in forgeries()])
def test_forged_tokens_are_refused_and_logged(shared_system, name):
    served, system = shared_system
    served.service.refusals.most, served.service.refusals.per_second = 10**6, 10.0**6
    before = served.base.audit(limit=1)[0].number
    forged = dict(forgeries())[name]
    response = system.post(VIEW, json=CALL, headers={"Authorization": f"Bearer {forged}"})
    assert response.status_code in (401, 431)
    if response.status_code == 401:
        assert response.headers["www-authenticate"] == "Bearer"
        rows = served.base.audit(after=before)
        assert [(row.action, row.details["why"]) for row in rows] == [("refuse", "token")]


def test_a_token_is_for_one_request(clinic_on_both, tmp_path):
    system = RecordSystem(clinic_on_both(record_systems=write_settings(tmp_path)).app)
    headers = {"Authorization": f"Bearer {token(VIEW)}"}
    card_of(system.post(VIEW, json=hook(), headers=headers))
    assert "used before" in refusal(system.post(VIEW, json=hook(), headers=headers), 401)


def test_tokens_of_people_and_cookies_open_no_service(served):
    assert served.program("steward").post(VIEW, json=CALL).status_code == 401
    assert served.browser("steward").post(VIEW, json=CALL).status_code == 401


def test_several_audiences_and_the_address_of_the_feedback(system):
    for audience in ([f"{HOST}{VIEW}", "https://other.example"], f"{HOST}{VIEW}"):
        headers = {"Authorization": f"Bearer {token(VIEW, aud=audience)}"}
        assert system.post(VIEW, json=hook(), headers=headers).status_code == 200
    headers = {"Authorization": f"Bearer {token(VIEW)}"}
    assert system.post(f"{VIEW}/feedback", json={"feedback": []}, headers=headers).status_code == 200


def test_new_keys_count_at_once(clinic, tmp_path):
    system = RecordSystem(clinic(record_systems=write_settings(tmp_path)).app)
    card_of(system.fire())
    key = ECKey.generate_key("P-384", {"kid": "two", "use": "sig"})
    (tmp_path / "keys.json").write_text(json.dumps({"keys": [key.as_dict(private=False)]}))
    os.utime(tmp_path / "keys.json", (1, 1))
    refusal(system.fire(), 401)
    headers = {"Authorization": f"Bearer {token(VIEW, key=key, header={'kid': 'two'})}"}
    card_of(system.post(VIEW, json=hook(), headers=headers))


def test_keys_that_cannot_be_read_say_nothing_about_the_server(clinic, tmp_path, caplog):
    system = RecordSystem(clinic(record_systems=write_settings(tmp_path)).app)
    (tmp_path / "keys.json").write_text("{")
    os.utime(tmp_path / "keys.json", (1, 1))
    response = system.fire()
    refusal(response, 401)
    assert "the keys of its issuer cannot be read" in response.text
    assert str(tmp_path) not in response.text
    assert str(tmp_path) in caplog.text, "the operator learns the reason"


# Pages of record systems (CORS)


def test_pages_of_a_record_system_may_call_the_services_and_nothing_else(system):
    asked = {"Origin": ORIGIN, "Access-Control-Request-Method": "POST"}
    response = system.options(VIEW, headers=asked)
    assert response.status_code == 204
    assert response.headers["access-control-allow-origin"] == ORIGIN
    assert "Authorization" in response.headers["access-control-allow-headers"]
    card = system.ask(VIEW, hook(), headers={"Origin": ORIGIN, "Sec-Fetch-Site": "cross-site"})
    assert (card.status_code, card.headers["access-control-allow-origin"]) == (200, ORIGIN)
    refused = system.ask(VIEW, {}, headers={"Origin": ORIGIN})
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (422, ORIGIN)
    for path, origin in ((VIEW, "https://evil.example"), ("/sign-in", ORIGIN), ("/api/v1/answers", ORIGIN)):
        for response in (
            system.options(path, headers=asked | {"Origin": origin}),
            system.ask(path, {}, headers={"Origin": origin}),
        ):
            assert response.status_code in (403, 405)
            assert "access-control-allow-origin" not in response.headers


# Feedback


def test_an_accepted_card_is_a_decision(served, system):
    card = card_of(system.fire())
    assert system.feedback(card).status_code == 200
    number = served.base.audit(action="consult")[0].number
    seen, decision, _ = served.base.consultation(number, by="tester")
    assert (decision.agrees, decision.decided, decision.by) == (True, seen.predicted, "ehr")
    assert served.base.audit(action="decide")[0].by == "ehr"
    assert system.feedback(card).status_code == 200  # record systems send it again
    assert len(served.base.audit(action="decide")) == 1
    text = refusal(system.feedback(card, "overridden"), 409)
    assert text.startswith(f"Feedback[0].card: the decision {seen.predicted!r} was already recorded")


@pytest.mark.parametrize(
    ("given", "code", "reason"),
    [
        (
            lambda card: {"reason": without(card["overrideReasons"][1], "display"), "userComment": "rib"},
            CODES["finding"],
            "rib",
        ),
        (
            lambda card: {"reason": {"code": "own", "system": "https://ehr.example", "display": "Own reason"}},
            "Own reason",
            "",
        ),
        (lambda card: {"userComment": "a broken rib"}, "", "a broken rib"),
        (lambda card: None, "no reason stated", ""),
    ],
)
def test_an_overridden_card_is_an_override_with_its_reason(served, system, given, code, reason):
    card = card_of(system.fire())
    why = given(card)
    assert system.feedback(card, "overridden", **({"overrideReason": why} if why else {})).status_code == 200
    seen, decision, _ = served.base.consultation(served.base.audit(action="consult")[0].number, by="tester")
    assert {seen.predicted, decision.decided} == {"sick", "well"}
    assert (decision.agrees, decision.code, decision.reason) == (False, code, reason)


def test_feedback_that_is_wrong_is_refused_whole(served, system):
    first, second = (card_of(system.fire(encounterId=name)) for name in ("e1", "e2"))
    good = {"card": first["uuid"], "outcome": "overridden", "outcomeTimestamp": "2026-11-19T12:00:00Z"}
    own = {"code": "9-finding", "system": f"{HOST}/cds-services/override-reasons"}
    bad = {
        "feedback[1].card: Field required": without(good, "card"),
        "feedback[1].card: 'x' is not a card": good | {"card": "x"},
        "feedback[1].card: '": good | {"card": first["suggestions"][0]["uuid"]},
        "feedback[1].outcome: ": good | {"outcome": "ignored"},
        "feedback[1].outcomeTimestamp: Field required": without(good, "outcomeTimestamp"),
        "feedback[1].outcomeTimestamp: Input should": good | {"outcomeTimestamp": "noon"},
        "feedback[1].acceptedSuggestions: is missing": good | {"outcome": "accepted"},
        "feedback[1].acceptedSuggestions[0].id: ": good
        | {"outcome": "accepted", "acceptedSuggestions": [{"id": second["uuid"]}]},
        "feedback[1].overrideReason.reason.code: '9-finding' is not a reason": good
        | {"overrideReason": {"reason": own}},
        "feedback[1].overrideReason.userComment: ": good | {"overrideReason": {"userComment": "x" * 10_001}},
    }
    for message, one in bad.items():
        assert refusal(system.ask(f"{VIEW}/feedback", {"feedback": [good, one]})).startswith(message)
    assert refusal(system.ask(f"{VIEW}/feedback", {})).startswith("feedback: Field required")
    other = good | {"outcome": "accepted", "acceptedSuggestions": [{"id": first["suggestions"][0]["uuid"]}]}
    twice = system.ask(f"{VIEW}/feedback", {"feedback": [good, other]})
    assert (twice.status_code, "another decision" in twice.text) == (409, True)
    nul = good | {"card": second["uuid"], "overrideReason": {"userComment": "\0"}}
    assert system.ask(f"{VIEW}/feedback", {"feedback": [good, nul]}).status_code == 422
    assert served.base.audit(action="decide") == []
    assert system.ask(f"{VIEW}/feedback", {"feedback": [good, good]}).status_code == 200
    assert len(served.base.audit(action="decide")) == 1


@pytest.mark.parametrize("name", ["Dr. Roe", "ehr", "ehr Practitioner/roe"])
def test_nobody_gives_feedback_about_the_consultations_of_others(served, system, name):
    """Not of people either whose names are like those under which the log has record systems."""
    served.base.people.accept(served.base.people.invite(name, "clinician", by="steward"), "hash")
    seen = served.base.consult(VALUES, by=name)
    source = Source(HOST, "")
    card = {"uuid": source.identifier(seen.id, CARD), "suggestions": [{"uuid": source.identifier(seen.id, SUGGESTION)}]}
    assert "not a card that was sent to you" in refusal(system.feedback(card))
    assert served.base.audit(action="decide") == []


@pytest.mark.parametrize("name", ["other Practitioner/roe", "ehr2 Practitioner/roe"])
def test_nobody_gives_feedback_about_cards_of_another_record_system(served, system, name):
    seen = served.base.consult(VALUES, by=name)
    source = Source(HOST, "")
    card = {"uuid": source.identifier(seen.id, CARD), "suggestions": [{"uuid": source.identifier(seen.id, SUGGESTION)}]}
    assert "not a card that was sent to you" in refusal(system.feedback(card))
    assert served.base.audit(action="decide") == []


def test_each_user_has_a_rate(clinic, tmp_path):
    system = RecordSystem(clinic(record_systems=write_settings(tmp_path), rate=2).app)
    statuses = [system.fire().status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    body = changed(hook(), "Practitioner/sam", "context", "userId")
    assert system.ask(VIEW, body).status_code == 200


# Settings


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('mapping = "mapping.yaml"', "", "mapping is missing"),
        ("mapping.yaml", "other.yaml", "'.*other.yaml' cannot be read"),
        ("label", "lable", "lable is not a setting; choose from"),
        ('"Chest pain clinic"', "7", "label=7 is not text"),
        ("issuer =", "isuer =", r"client\[0\].isuer is not a setting"),
        ('name = "ehr"\n', "", r"client\[0\].name is missing"),
        ('"ehr"', '"e h r"', r"client\[0\].name='e h r' may contain only letters"),
        (ORIGIN, "https://a/b", "is not an origin"),
        (ORIGIN, "http://a.example", "is not an origin"),
        ("keys.json", "other.json", r"client\[0\].keys='.*other.json' is not a file with public keys \(No such file"),
        ("[[client]]", "orders = 7\n[[client]]", "orders is not a list of codes"),
        ("[[client]]", "[client]", "client is not a list of tables"),
        (
            "[[client]]",
            f'[[client]]\nname = "ehr"\nissuer = "{ISSUER}"\nkeys = "keys.json"\n[[client]]',
            "two clients have the same name",
        ),
        ("=", "==", "cannot be read"),
    ],
)
def test_settings_that_cannot_be_used(tmp_path, old, new, message):
    path = Path(write_settings(tmp_path))
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ValueError, match=message):
        RecordSystems.read(str(path))


def test_keys_that_cannot_be_used(tmp_path):
    path = write_settings(tmp_path)
    for keys in ("{}", '{"keys": []}', "x", json.dumps({"keys": [KEY.as_dict(private=True)]})):
        (tmp_path / "keys.json").write_text(keys)
        with pytest.raises(ValueError, match="is not a file with public keys"):
            RecordSystems.read(path)
