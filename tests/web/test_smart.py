"""SMART on FHIR: the page opened from a record, what it reads, and launches that are forged, stolen or refused."""

from __future__ import annotations

import re
from html import escape, unescape
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from bayespatch.web.record_systems import RecordSystems
from tests.fhir.records import concept
from tests.web.conftest import HOST, PASSWORD
from tests.web.record_system import MAPPING, RecordSystem, resources, write_settings
from tests.web.smart_server import CLIENT, SECRET, serving

SERVER = """
[[server]]
address = "{address}"
client_id = "bayespatch"
client_secret_file = "secret"
"""


def settings(folder, address, mapping=MAPPING):
    path = Path(write_settings(folder, mapping=mapping))
    (folder / "secret").write_text(f"{SECRET}\n")
    path.write_text(path.read_text() + SERVER.format(address=address))
    return str(path)


@pytest.fixture
def fhir():
    with serving() as started:
        sent = resources()
        started.found = {"Patient": sent["patient"], "Observation": sent["observation"]["entry"], "Condition": []}
        yield started


@pytest.fixture
def served(clinic, fhir, tmp_path):
    return clinic(record_systems=settings(tmp_path, fhir.address))


def start(fhir, **more):
    return f"/smart/launch?{urlencode({'iss': fhir.address, 'launch': 'opaque-17', **more})}"


def leave(browser, fhir):
    """The launch: the address of the authorization server."""
    page = browser.get(start(fhir))
    assert page.status_code == 200, page.text
    address = unescape(re.search(r'<meta http-equiv="refresh" content="0; url=([^"]+)">', page.text)[1])
    assert f'href="{escape(address)}"' in page.text
    return address


def come_back(browser, fhir, address, **more):
    return browser.get(fhir.authorize(address, **more).removeprefix(HOST))


def filled(page):
    """What stands in the form."""
    found = dict(re.findall(r'<input id="[^"]+" name="([^"]+)" value="([^"]*)"', page))
    return found | dict(re.findall(r'<input type="radio" name="(v:[^"]+)" value="([^"]+)" checked>', page))


def reasons(served):
    return [row.details.get("reason", "") for row in served.base.audit(action="refuse")]


def test_the_form_is_filled_from_the_record_of_the_launched_patient(served, fhir):
    browser = served.browser("clinician")
    address = leave(browser, fhir)
    query = dict(parse_qsl(urlsplit(address).query))
    assert address.startswith(f"{fhir.origin}/authorize?")
    assert query["redirect_uri"] == f"{HOST}/smart/callback"
    assert query["scope"] == "launch patient/Condition.read patient/Observation.read patient/Patient.read"
    response = come_back(browser, fhir, address)
    assert response.status_code == 200
    values = filled(response.text)
    assert values | {"v:age": "66"} == values | {"v:age": "66", "v:pain": "1", "v:bp": "150", "v:smokes": "false"}
    assert int(values["v:age"]) >= 66
    assert (values["v:town"], values["patient"]) == ("Ulm", "p1")
    assert "Check the values from the record" in response.text
    assert [(row.by, row.details) for row in served.base.audit(action="launch")] == [
        ("clinician", {"server": fhir.address})
    ]
    form = {name: value for name, value in values.items() if name.startswith("v:")} | {"patient": "p1"}
    saved = browser.submit("/consult", **form, action="save", key="k")
    assert saved.status_code == 303
    assert served.base.search(state="open", by="tester").items[0].patient == "p1"
    assert served.base.verify_audit().intact


def test_what_the_record_lacks_is_listed(served, fhir):
    fhir.found["Observation"].pop()
    browser = served.browser("clinician")
    page = come_back(browser, fhir, leave(browser, fhir)).text
    assert "column &#39;bp&#39;: no Observation with code http://loinc.org|8480-6" in page
    assert filled(page)["v:bp"] == ""


def test_medications_come_with_the_statements_that_name_them(clinic, fhir, tmp_path):
    rule = 'smokes: {resource: MedicationStatement, codes: ["rxnorm|636671"], absent: no}'
    mapping = re.sub("smokes: .*", rule, MAPPING)
    statement = {
        "resourceType": "MedicationStatement",
        "id": "s1",
        "status": "active",
        "subject": {"reference": "Patient/p1"},
        "effectiveDateTime": "2024-01-01",
        "medicationReference": {"reference": "Medication/m1"},
    }
    code = concept("636671", "http://www.nlm.nih.gov/research/umls/rxnorm")
    tablet = {"resourceType": "Medication", "id": "m1", "code": code}
    fhir.found["MedicationStatement"], fhir.size = [{"resource": statement}, {"resource": tablet}], 2
    browser = clinic(record_systems=settings(tmp_path, fhir.address, mapping)).browser("clinician")
    address = leave(browser, fhir)
    assert "patient/Medication.read" in dict(parse_qsl(urlsplit(address).query))["scope"].split()
    values = filled(come_back(browser, fhir, address).text)
    assert values["v:smokes"] == "true"
    [searched] = [one for one in fhir.searches if "/MedicationStatement" in one]
    assert searched.endswith("?patient=p1&_include=MedicationStatement:medication")


def test_who_is_not_signed_in_signs_in_first_and_the_launch_goes_on(served, fhir):
    browser = served.browser()
    left = browser.get(start(fhir))
    assert left.headers["location"].startswith("/sign-in?next=/smart/launch%3Fiss%3D")
    onward = re.search(r'name="next" value="([^"]+)"', browser.get(left.headers["location"]).text)[1]
    onward = onward.replace("&amp;", "&")
    signed_in = browser.post("/sign-in", data={"name": "clinician", "password": PASSWORD, "next": onward})
    assert signed_in.headers["location"] == start(fhir)
    assert come_back(browser, fhir, leave(browser, fhir)).status_code == 200


def test_cards_offer_the_launch(served, fhir):
    links = RecordSystem(served.app).fire().json()["cards"][0]["links"]
    assert links[1] == {"label": "Try other values", "url": f"{HOST}/smart/launch", "type": "smart"}


def test_a_public_client_needs_no_secret(clinic, fhir, tmp_path):
    path = Path(settings(tmp_path, fhir.address))
    path.write_text(path.read_text().replace('client_secret_file = "secret"\n', 'scopes = "launch"\n'))
    served = clinic(record_systems=str(path))
    browser = served.browser("clinician")
    address = leave(browser, fhir)
    assert dict(parse_qsl(urlsplit(address).query))["scope"] == "launch"
    assert come_back(browser, fhir, address).status_code == 403  # this server knows confidential clients only
    assert fhir.requests[-1]["client_id"] == CLIENT


# Refused launches


def test_other_servers_cannot_launch(served, fhir):
    browser = served.browser("clinician")
    for address in ("https://evil.example/fhir", "", f"{fhir.address}/x", fhir.origin):
        response = browser.get(start(fhir, iss=address))
        assert (response.status_code, "not in the settings" in response.text) == (403, True)
    assert browser.get(f"/smart/launch?iss={fhir.address}").status_code == 400
    assert browser.get(start(fhir, launch="x" * 4001)).status_code == 400
    assert browser.get(start(fhir, iss=f"{fhir.address}/")).status_code == 200


def test_a_state_is_for_one_launch_of_the_session_that_began_it(served, fhir):
    browser, other = served.browser("clinician"), served.browser("clinician")
    back = fhir.authorize(leave(browser, fhir)).removeprefix(HOST)
    for someone in (other, served.browser("steward")):
        assert "expired or was used before" in someone.get(back).text
    assert fhir.requests == []
    assert browser.get(back).status_code == 200
    assert browser.get(back).status_code == 403
    assert len(fhir.requests) == 1
    assert browser.get("/smart/callback?code=x&state=forged").status_code == 403
    assert browser.get("/smart/callback").status_code == 403


def test_a_state_of_a_sign_in_opens_no_record(served, fhir):
    browser = served.browser("clinician")
    session = browser.cookies["bayespatch_session"]
    state, _ = served.base.identities.begin(session, fhir.address, "confirm", "clinician")
    assert browser.get(f"/smart/callback?code=x&state={state}").status_code == 403
    assert fhir.requests == []


def test_a_code_of_another_launch_is_refused_by_its_challenge(served, fhir):
    browser = served.browser("clinician")
    first, second = (fhir.authorize(leave(browser, fhir)) for _ in range(2))
    code = dict(parse_qsl(urlsplit(first).query))["code"]
    state = dict(parse_qsl(urlsplit(second).query))["state"]
    response = browser.get(f"/smart/callback?{urlencode({'code': code, 'state': state})}")
    assert (response.status_code, "did not grant access" in response.text) == (403, True)
    assert "the authorization server refused the code (status 400)" in reasons(served)


@pytest.mark.parametrize(
    ("grant", "reason"),
    [
        ({"access_token": None}, "sent no access token"),
        ({"access_token": "a\r\nHost: evil"}, "sent no access token"),
        ({"token_type": "mac"}, "is not a bearer token"),
        ({"patient": None}, "did not name a patient"),
        ({"patient": "p1/../../x"}, "did not name a patient"),
    ],
)
def test_grants_that_are_not_enough(served, fhir, grant, reason):
    fhir.grant = grant
    browser = served.browser("clinician")
    assert come_back(browser, fhir, leave(browser, fhir)).status_code == 403
    assert any(reason in one for one in reasons(served))
    assert served.base.audit(action="launch") == []


def test_answers_of_another_issuer_and_errors(served, fhir):
    browser = served.browser("clinician")
    assert come_back(browser, fhir, leave(browser, fhir), iss="https://evil.example").status_code == 403
    assert come_back(browser, fhir, leave(browser, fhir), error="access_denied").status_code == 403
    assert fhir.requests == []
    assert come_back(browser, fhir, leave(browser, fhir), iss=fhir.origin).status_code == 200


@pytest.mark.parametrize(
    "about",
    [
        {"authorization_endpoint": None},
        {"authorization_endpoint": "http://evil.example/authorize"},
        {"token_endpoint": "ftp://x"},
        {"code_challenge_methods_supported": ["plain"]},
        {"code_challenge_methods_supported": None},
    ],
)
def test_a_configuration_that_is_not_enough(served, fhir, about):
    fhir.about = about
    assert served.browser("clinician").get(start(fhir)).status_code == 503
    assert any("SMART configuration" in one for one in reasons(served))


def test_a_secret_that_is_gone(served, fhir, tmp_path):
    browser = served.browser("clinician")
    address = leave(browser, fhir)
    (tmp_path / "secret").unlink()
    response = come_back(browser, fhir, address)
    assert (response.status_code, str(tmp_path) in response.text) == (503, False)
    assert "client_secret_file cannot be read" in reasons(served)[-1]


def test_a_token_goes_to_its_server_only(served, fhir):
    fhir.next_pages = "http://localhost:1"
    browser = served.browser("clinician")
    assert come_back(browser, fhir, leave(browser, fhir)).status_code == 503
    assert "the next page of a search is on another server" in reasons(served)


def test_an_address_of_a_page_that_is_none(served, fhir):
    fhir.next_pages = "http://["
    browser = served.browser("clinician")
    assert come_back(browser, fhir, leave(browser, fhir)).status_code == 503
    assert served.base.audit(action="launch") == []


def test_records_that_cannot_be_used(served, fhir):
    browser = served.browser("clinician")
    fhir.found["Patient"] = resources("p2")["patient"]
    assert come_back(browser, fhir, leave(browser, fhir)).status_code == 503  # the server has no such patient
    honest, fhir.read = fhir.read, lambda *_: (200, resources("p2")["patient"])
    assert come_back(browser, fhir, leave(browser, fhir)).status_code == 503
    assert "the FHIR server sent a different patient" in reasons(served)
    fhir.read = honest
    fhir.found["Patient"] = resources()["patient"] | {"birthDate": "once"}
    page = come_back(browser, fhir, leave(browser, fhir))
    assert (page.status_code, f"{fhir.address}.patient.birthDate" in page.text) == (422, True)
    fhir.found["Patient"] = resources()["patient"]
    fhir.found["Observation"] = resources("p9")["observation"]["entry"]
    page = come_back(browser, fhir, leave(browser, fhir))
    assert (page.status_code, "is not the patient of the bundle" in page.text) == (422, True)
    assert served.base.audit(action="launch") == []


def test_searches_without_end_are_given_up(served, fhir, monkeypatch):
    monkeypatch.setattr("bayespatch.web.smart._MOST_PAGES", 1)
    browser = served.browser("clinician")
    assert come_back(browser, fhir, leave(browser, fhir)).status_code == 503
    assert "a search has more than 1 pages" in reasons(served)


def test_nothing_secret_is_logged(served, fhir, caplog):
    caplog.set_level("DEBUG", "bayespatch.web")
    browser = served.browser("clinician")
    back = fhir.authorize(leave(browser, fhir))
    assert browser.get(back.removeprefix(HOST)).status_code == 200
    texts = caplog.text + str(served.base.audit(limit=1000))
    query = dict(parse_qsl(urlsplit(back).query))
    for secret in (query["code"], query["state"], *fhir.tokens, SECRET, "opaque-17", "Ulm"):
        assert secret not in texts


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('address = "http', 'address = "ftp', r"server\[0\].address='ftp.*' is not an https address"),
        ('/fhir"', '/fhir/"', "without a final slash"),
        ('client_id = "bayespatch"\n', "", r"server\[0\].client_id is missing"),
        ('"secret"', '"none"', "client_secret_file cannot be read"),
    ],
)
def test_settings_that_cannot_be_used(tmp_path, old, new, message):
    path = Path(settings(tmp_path, "http://127.0.0.1:1/fhir"))
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ValueError, match=message):
        RecordSystems.read(str(path))
