"""Accounts: what needs the password again, links, and what ends with an account."""

from __future__ import annotations

import pytest

from bayespatch.web import passwords
from tests.casebase.clinic import BY
from tests.web.conftest import PASSWORD

CRITICAL = {
    "/tokens": {"label": "x", "scope": "viewer", "days": "1"},
    "/people/invite": {"name": "Mallory", "role": "steward"},
    "/people/change": {"name": "viewer", "action": "role", "role": "steward"},
    "/cases/3/forget": {"reason": "asked for it", "sure": "yes"},
}


def state(served):
    people = served.base.people
    return people.listed(), people.tokens(), people.invitations(), served.base.case(3, by=BY).state


@pytest.mark.parametrize("path", CRITICAL)
def test_a_session_alone_is_not_enough(clinic_on_both, path):
    served = clinic_on_both()
    steward, fields = served.browser("steward"), CRITICAL[path]
    before = state(served)
    for wrong in ({}, {"own_password": ""}, {"own_password": "not the password"}, {"own_password": "x" * 100_000}):
        response = steward.submit(path, **fields, **wrong)
        assert response.status_code == 422
        assert 'name="own_password"' in response.text
        assert all(f'name="{name}" value="{value}"' in response.text for name, value in fields.items())
    assert state(served) == before
    assert steward.confirmed(path, **fields).status_code in (200, 303)
    assert state(served) != before


def test_the_confirmation_page_keeps_no_password_and_escapes_what_was_sent(served):
    steward = served.browser("steward")
    page = steward.submit("/people/invite", name="<b>x</b>", role="viewer", own_password="hunter2 hunter2").text
    assert "hunter2" not in page
    assert "<b>x" not in page


def test_wrong_confirmations_are_logged_and_throttled(served):
    steward = served.browser("steward")
    n = len(served.base.audit(action="refuse"))
    codes = [steward.submit("/tokens", **CRITICAL["/tokens"], own_password="wrong").status_code for _ in range(20)]
    assert codes[0] == 422
    assert codes[-1] == 429
    assert len(served.base.audit(action="refuse")) > n


def test_a_pending_link_ends_with_the_account(served):
    """A person who knows that the account will be disabled cannot keep a way back."""
    steward = served.browser("steward")
    link = served.base.people.invite("clinician", "clinician", by="steward")
    assert "clinician" in steward.get("/people").text
    assert steward.confirmed("/people/change", name="clinician", action="disable").status_code == 303
    someone = served.browser()
    assert someone.get(f"/join/{link}").status_code == 404
    data = {"password": PASSWORD, "again": PASSWORD}
    assert someone.post(f"/join/{link}", data=data).status_code == 404
    assert someone.post("/sign-in", data={"name": "clinician", "password": PASSWORD}).status_code == 401


def test_a_pending_link_is_listed_and_withdrawn(served):
    steward = served.browser("steward")
    link = served.base.people.invite("Dr. Roe", "clinician", by="steward")
    page = steward.get("/people").text
    assert "Dr. Roe" in page
    assert link not in page
    assert steward.confirmed("/people/change", name="Dr. Roe", action="withdraw").status_code == 303
    assert "Dr. Roe" not in steward.get("/people").text
    assert served.browser().get(f"/join/{link}").status_code == 404


# Passwords

BREACHED = (
    *(
        "password1234",
        "passwordpassword",
        "123456789012",
        "1q2w3e4r5t6y",
        "qwertyuiop12",
        "iloveyou1234",
        "letmein12345",
    ),
    *("P@ssw0rd1234", "Welcome12345", "Password2026!", "Summer2026!!", "administrator", "qwerty123456", "abc123abc123"),
    *("aaaaaaaaaaaa", "abcdefghijkl", "bayespatch1234", "monkeymonkey", "1qaz2wsx3edc", "football1234", "zaq12wsxcde3"),
)


@pytest.mark.parametrize("password", BREACHED)
def test_passwords_known_from_breaches_are_refused(password):
    assert passwords.complaint(password, "Dr. Roe")


@pytest.mark.parametrize("password", ["Dr. Roe Dr. Roe", "Roe Roe Roe Roe", "dr. roe 1234", "eoR .rD eoR .rD"])
def test_a_name_is_no_password(password):
    assert passwords.complaint(password, "Dr. Roe")


@pytest.mark.parametrize(
    "password",
    [
        "violet kettle arrives northward",
        "xk2!vQz9pLm4",
        "Überraschung am Dönerstand",
        "語学の勉強は楽しいですよね毎日",
        "so it goes " * 60,
    ],
)
def test_pass_phrases_are_accepted(password):
    assert passwords.complaint(password, "Dr. Roe") is None


def test_a_long_pass_phrase_signs_in(served):
    """Every character of it counts."""
    phrase = "a kettle sings to the northward violets " * 20
    link = served.base.people.invite("Dr. Roe", "clinician", by="steward")
    browser = served.browser()
    assert browser.post(f"/join/{link}", data={"password": phrase, "again": phrase}).status_code == 303
    assert browser.post("/sign-in", data={"name": "Dr. Roe", "password": phrase[:-2]}).status_code == 401
    assert browser.post("/sign-in", data={"name": "Dr. Roe", "password": phrase}).status_code == 303


def test_the_strength_is_shown(served):
    link = served.base.people.invite("Dr. Roe", "clinician", by="steward")
    page = served.browser().post(f"/join/{link}", data={"password": "P@ssw0rd1234", "again": "P@ssw0rd1234"})
    assert page.status_code == 422
    assert "within 2 seconds" in page.text
    assert "P@ssw0rd1234" not in page.text
