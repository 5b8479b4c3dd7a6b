"""The consulting page opened from a patient's record, in a real browser.

``make test-browser`` runs these; see test_pages.py for what is needed.
"""

from urllib.parse import urlencode

import pytest

from tests.browser.test_consulting import CHROMIUM, PASSWORD, browser, look, opened, running  # noqa: F401

pytest.importorskip("uvicorn")

from bayespatch.web import Settings, create_app, passwords
from tests.casebase.clinic import Places
from tests.fhir.records import quantity
from tests.web.record_system import resources
from tests.web.smart_server import serving
from tests.web.test_smart import settings


@pytest.fixture(scope="module")
def fhir():
    with serving() as started:
        sent = resources()
        started.found = {"Patient": sent["patient"], "Observation": sent["observation"]["entry"], "Condition": []}
        started.found["Observation"][1]["resource"]["valueQuantity"] = quantity(150, "kg")
        yield started


@pytest.fixture(scope="module")
def served(fhir, tmp_path_factory):
    """A clinic whose page opens from records."""
    folder = tmp_path_factory.mktemp("clinic")
    systems = settings(folder, fhir.address)
    app = create_app(Settings(Places(folder, None).copy(), rate=100_000, record_systems=systems))
    base = app.state.service.base
    base.people.accept(base.people.invite("Ann", "clinician", by="tester"), passwords.hashed(PASSWORD))
    with running(app):
        yield app


def launch(page, fhir):
    page.goto(f"/smart/launch?{urlencode({'iss': fhir.address, 'launch': 'opaque-17'})}")
    page.fill("#name", "Ann")
    page.fill("#password", PASSWORD)
    page.click("button.main")
    page.wait_for_url("**/smart/callback?*")


def test_what_the_record_lacks_is_listed_in_german(browser, served, fhir):  # noqa: F811
    page = opened(browser, served, width=390, locale="de-DE")
    launch(page, fhir)
    assert "'kg' lässt sich nicht in 'mm[Hg]' umrechnen; korrigieren Sie die Einheit" in page.inner_text(".notes")
    look(page, 390)
    page.context.close()


@pytest.mark.parametrize("width", [390, 1280])
def test_a_launch_from_the_record_after_signing_in(browser, served, fhir, width):  # noqa: F811
    page = opened(browser, served, width=width)
    launch(page, fhir)
    assert page.input_value('[name="v:town"]') == "Ulm"
    assert page.input_value('[name="v:bp"]') == ""
    assert "'kg' cannot be converted to 'mm[Hg]'" in page.inner_text(".notes")
    look(page, width)
    page.fill('[name="v:bp"]', "150")
    page.get_by_role("button", name="Get prediction").click()
    page.wait_for_selector("#answer h1:has-text('%')")
    assert page.input_value('[name="patient"]') == "p1"
    assert page.errors == []
