"""Pages in the language of the browser or of the person's choice; programs and stored texts stay in English."""

from __future__ import annotations

import re
from html import unescape

import pytest

from bayespatch.language import using
from bayespatch.web import forms
from tests.test_language import catalogs, entries
from tests.web.conftest import FORM, PASSWORD, VALUES

GERMAN = {"Accept-Language": "de-DE,de;q=0.9,en;q=0.5"}


@pytest.fixture(scope="module")
def served(clinics, password_hash):
    from tests.web.conftest import making

    with making(clinics, password_hash) as make:
        yield make(rate=100_000)


def language_of(page):
    return re.search(r'<html lang="(\w+)">', page.text)[1]


@pytest.mark.parametrize(
    ("header", "code"),
    [("de-AT,de;q=0.8", "de"), ("fr,de;q=0.4,en;q=0.9", "en"), ("fr", "en"), ("", "en"), ("*", "en")],
)
def test_the_browser_s_preference(served, header, code):
    assert language_of(served.browser().get("/sign-in", headers={"Accept-Language": header})) == code


def test_a_person_s_choice_beats_the_browser(served):
    browser = served.browser("clinician")
    chosen = browser.submit("/language", language="de", next="/cases?c0=age&o0==&w0=61")
    assert (chosen.status_code, chosen.headers["location"]) == (303, "/cases?c0=age&o0==&w0=61")
    cookie = chosen.headers["set-cookie"]
    assert "bayespatch_language=de" in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    page = browser.get("/cases", headers={"Accept-Language": "en"})
    assert language_of(page) == "de"
    assert "Frühere Fälle" in page.text
    browser.submit("/language", language="en", next="/cases")
    assert language_of(browser.get("/cases", headers=GERMAN)) == "en"
    browser.cookies.set("bayespatch_language", "../../etc")
    assert language_of(browser.get("/cases", headers=GERMAN)) == "de"


def test_a_choice_is_checked(served):
    browser = served.browser("clinician")
    assert browser.submit("/language", language="xx", next="/").status_code == 422
    assert browser.submit("/language", language="de", next="//evil.example/").headers["location"] == "/"
    forged = browser.post("/language", data={"language": "de"}, headers={"Origin": "https://evil.example"})
    assert forged.status_code == 403


def visible(page):
    text = re.sub(r"<(script|style).*?</\1>", "", page.text, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", text)).split())


def test_no_page_mixes_languages(served):
    """No English text of the catalogs is left on a German page."""
    base, steward = served.base, served.browser("steward")
    seen = base.consult(VALUES, by="steward", external_id="H-1")
    base.consult({**VALUES, "age": 119, "bp": None}, by="steward")
    base.decide(seen.id, "well", by="steward", reason="test")
    case, past = seen.case_id, 3
    addresses = ["/consult", f"/consult?from={seen.id}", "/worklist", f"/consultations/{seen.id}", "/cases"]
    addresses += [
        f"/cases/{case}",
        f"/cases/{past}",
        "/model",
        "/monitoring",
        "/people",
        "/audit?verify=1",
        "/account",
        "/tokens",
    ]
    addresses += ["/cases/99999", "/cases?c0=nonsense&o0==&w0=1", "/sign-in"]
    pages = {address: steward.get(address, headers=GERMAN) for address in addresses}
    csrf = {"csrf": steward.csrf()}
    pages["change"] = steward.post(
        "/consult",
        data={**csrf, **FORM, **{f"f{key[1:]}": value for key, value in FORM.items()}, "has_first": "1", "v:age": "50"},
        headers=GERMAN,
    )
    pages["counterfactual"] = steward.post(
        "/consult", data={**csrf, **FORM, "action": "counterfactual", "may_change": ["pain", "smokes"]}, headers=GERMAN
    )
    pages["wrong"] = steward.post("/consult", data={**csrf, **FORM, "v:age": "610"}, headers=GERMAN)
    pages["confirm"] = steward.post(
        "/people/change", data={**csrf, "name": "viewer", "action": "disable"}, headers=GERMAN
    )
    pages["factor"] = steward.post("/account/second-factor", data={**csrf, "action": "begin"}, headers=GERMAN)
    pages["token"] = steward.post(
        "/tokens", data={**csrf, "label": "x", "scope": "viewer", "days": "9", "own_password": PASSWORD}, headers=GERMAN
    )
    english = {
        text
        for (context, ids), message in entries(catalogs.catalog("de")).items()
        for text in (ids if isinstance(ids, tuple) else (ids,))
        if context is None
        and len(text) > 8
        and " " in text
        and "{" not in text
        and "<" not in text
        and message.string != text
    }
    assert len(english) > 200
    for address, page in pages.items():
        assert page.status_code < 500, address
        assert language_of(page) == "de", address
        text = visible(page)
        left = {one for one in english if re.search(rf"(?<!\w){re.escape(one)}(?!\w)", text)}
        assert left == set(), address
    assert "610 ist nicht möglich (erlaubt: 0 bis 120); korrigieren Sie den Wert" in visible(pages["wrong"])
    assert "Konto von viewer sperren?" in visible(pages["confirm"])
    assert "Wirkung Ihrer Änderungen" in visible(pages["change"])
    assert "130,5" in pages[f"/consult?from={seen.id}"].text


def test_what_is_stored_and_sent_to_programs_is_english(served):
    doctor, program = served.browser("clinician"), served.program("clinician")
    doctor.headers.update(GERMAN)
    program.headers.update(GERMAN)
    place = doctor.submit("/consult", **{**FORM, "v:age": "119"}, action="save").headers["location"]
    seen, _, _ = served.base.consultation(int(place.rpartition("/")[2]), by="clinician")
    assert any("outside the" in text for text in seen.explanation["case"]["warnings"])
    assert "außerhalb des" in visible(doctor.get(place))
    answer = program.post("/api/v1/answers", json={"values": {**VALUES, "age": 119}}).json()
    assert any("outside the" in text for text in answer["explanation"]["case"]["warnings"])
    assert program.get("/api/v1/cases/99999").json()["detail"] == "There is no case 99999; search for it."


def test_numbers_are_typed_as_people_write_them(served):
    dictionary = served.base.definition.features
    filled = {"age": "61", "pain": "1", "bp": "130,5", "smokes": "true", "town": "Ulm"}
    with using("de"):
        assert forms.filled(dictionary, VALUES) == filled
        assert forms.read(dictionary, filled) == (VALUES, {})
        values, problems = forms.read(dictionary, {**filled, "bp": "1.130"})
        assert "bp" not in values
        assert problems == {"bp": "1.130 ist nicht eindeutig; schreiben Sie die Zahl ohne Tausendertrennzeichen"}
    assert forms.read(dictionary, {**filled, "bp": "1,130"})[1] == {
        "bp": "1,130 is ambiguous; write it without a thousands separator"
    }


def test_the_script_says_what_the_page_tells_it(served):
    doctor = served.browser("clinician")
    page = doctor.get("/consult", headers=GERMAN).text
    assert 'data-notice="Die Antwort unten ist nicht mehr aktuell."' in page
    assert 'data-changed="geändert"' in page
    script = doctor.get(re.search(r'src="(/static/\w+/web\.js)"', page)[1]).text
    assert re.findall(r'"[A-Z][a-z]+ [a-z ]+\.?"', script) == []
