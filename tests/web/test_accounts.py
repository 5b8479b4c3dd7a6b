"""Accounts: what needs the password again, links, and what ends with an account."""

from __future__ import annotations

import asyncio
import re
from dataclasses import asdict
from datetime import timedelta

import pyotp
import pytest
from sqlalchemy import text, update

from bayespatch.casebase.people import ago
from bayespatch.casebase.tables import invitations
from bayespatch.web import passwords, second_factor
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
    assert steward.confirmed("/people/change", name="clinician", action="enable").status_code == 303
    assert someone.get(f"/join/{link}").status_code == 404, "a link does not outlast the account's absence"
    assert served.base.people.invitations() == []


def test_a_pending_link_is_listed_and_withdrawn(served):
    steward = served.browser("steward")
    link = served.base.people.invite("Dr. Roe", "clinician", by="steward")
    page = steward.get("/people").text
    assert "Dr. Roe" in page
    assert link not in page
    assert steward.confirmed("/people/change", name="Dr. Roe", action="withdraw").status_code == 303
    assert "Dr. Roe" not in steward.get("/people").text
    assert served.browser().get(f"/join/{link}").status_code == 404


def test_a_link_expires(served):
    link = served.base.people.invite("Dr. Roe", "clinician", by="steward")
    with served.base._database.unaudited() as connection:
        connection.execute(update(invitations).values(expires_at=ago(timedelta(seconds=1))))
    someone, data = served.browser(), {"password": PASSWORD, "again": PASSWORD}
    assert someone.get(f"/join/{link}").status_code == someone.post(f"/join/{link}", data=data).status_code == 404
    assert "Dr. Roe" not in served.browser("steward").get("/people").text


def test_a_steward_cannot_take_over_an_account_unnoticed(clinic_on_both):
    """With a link a steward signs in as somebody else; who it was stays visible, to the log and to the person."""
    served = clinic_on_both()
    doctor, steward = served.browser("clinician"), served.browser("steward")
    page = steward.confirmed("/people/invite", name="clinician", role="clinician").text
    link = re.search(r"/join/([\w-]+)", page)[1]
    other = "violet kettle arrives northward"
    assert served.browser().post(f"/join/{link}", data={"password": other, "again": other}).status_code == 303
    assert doctor.get("/account").status_code == 303  # signed out
    assert served.browser().post("/sign-in", data={"name": "clinician", "password": PASSWORD}).status_code == 401
    back = served.base.people.invite("clinician", "clinician", by="steward")
    doctor.post(f"/join/{back}", data={"password": PASSWORD, "again": PASSWORD})
    text = doctor.get("/account").text
    rows = re.findall(r"</th><td>([^<]+)</td><td>([^<]+)</td></tr>", text.partition("Changes to your account")[2])
    assert [by for by, what in rows if what == "link for a new password"] == ["steward", "steward", "tester"]
    assert [what for _, what in rows].count("password set with a link") == 3
    assert "Changes to your account" in steward.get("/account").text
    assert "clinician" not in steward.get("/account").text.partition("Changes to your account")[2]


def test_changes_of_other_people_are_not_listed(served):
    """Names that contain each other, or the wildcards of SQL."""
    people = served.base.people
    for name in ("Ann", "Ann%", 'Ann"', "An_"):
        people.invite(name, "viewer", by="tester")
    people.invite("Ann%", "viewer", by="steward")
    assert [row.by for row in people.changes("Ann%")] == ["steward", "tester"]
    for name in ("Ann", 'Ann"', "An_"):
        assert [row.details["person"] for row in people.changes(name)] == [name]
    assert people.changes("nobody") == []
    assert len(people.changes("Ann%", most=1)) == 1


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


def test_passwords_are_masked_and_password_managers_may_fill_them_in(served):
    link = served.base.people.invite("Dr. Roe", "clinician", by="steward")
    browser, steward = served.browser(), served.browser("steward")
    pages = [browser.get("/sign-in"), browser.get(f"/join/{link}"), steward.get("/account"), steward.submit("/tokens")]
    fields = [re.findall(r'<input [^>]*name="(?:own_)?(?:password|again)"[^>]*>', page.text) for page in pages]
    assert [len(found) for found in fields] == [1, 2, 3, 1]
    for field in [field for found in fields for field in found]:
        assert 'type="password"' in field
        assert re.search(r'autocomplete="(?:current|new)-password"', field)


# One's own account

NEW = "a kettle sings to northward violets"


def test_ones_own_password_is_changed(clinic_on_both):
    served = clinic_on_both()
    browser, other, program = served.browser("clinician"), served.browser("clinician"), served.program("clinician")
    for wrong in (
        {"own_password": "wrong", "password": NEW, "again": NEW},
        {"own_password": PASSWORD, "password": NEW, "again": f"{NEW}s"},
        {"own_password": PASSWORD, "password": "P@ssw0rd1234", "again": "P@ssw0rd1234"},
    ):
        assert browser.submit("/account/password", **wrong).status_code == 422
    assert browser.submit("/account/password", own_password=PASSWORD, password=NEW, again=NEW).status_code == 303
    assert browser.get("/worklist").status_code == 200
    assert other.get("/worklist").status_code == 303
    assert program.get("/api/v1/cases").status_code == 401
    assert served.browser().post("/sign-in", data={"name": "clinician", "password": PASSWORD}).status_code == 401
    assert served.browser().post("/sign-in", data={"name": "clinician", "password": NEW}).status_code == 303
    assert served.base.verify_audit().intact


def test_passwords_are_judged_beside_other_requests(served, monkeypatch):
    """Some passwords take seconds, so only their owner may have them judged, and others are answered meanwhile."""
    judged = []

    def complaint(password, name):
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        judged.append(name)

    link = served.base.people.invite("Dr. Roe", "clinician", by="steward")
    browser = served.browser("viewer")
    monkeypatch.setattr(passwords, "complaint", complaint)
    assert served.browser().post(f"/join/{link}", data={"password": NEW, "again": NEW}).status_code == 303
    assert browser.submit("/account/password", own_password="stolen", password=NEW, again=NEW).status_code == 422
    assert browser.submit("/account/password", own_password=PASSWORD, password=NEW, again=NEW).status_code == 303
    assert judged == ["Dr. Roe", "viewer"]


def test_the_strength_is_stated_in_the_language_of_the_page(served):
    browser = served.browser("viewer")
    browser.cookies.set("bayespatch_language", "de")
    wrong = {"password": "P@ssw0rd1234", "again": "P@ssw0rd1234"}
    page = browser.submit("/account/password", own_password=PASSWORD, **wrong)
    assert (page.status_code, "innerhalb von 2 Sekunden" in page.text) == (422, True)


def test_ones_sessions_are_listed_and_ended(clinic_on_both):
    served = clinic_on_both()
    browser, lost = served.browser("clinician"), served.browser("clinician")
    page = browser.get("/account").text
    assert page.count("this session") == 1
    [old] = re.findall(r'name="session" value="([0-9a-f]{16})"', page)
    assert served.browser("viewer").confirmed("/account/session", session=old).status_code == 404
    assert browser.submit("/account/session", session=old).status_code == 422, "the password is asked for"
    assert lost.get("/worklist").status_code == 200
    assert browser.confirmed("/account/session", session=old).status_code == 303
    assert lost.get("/worklist").status_code == 303
    assert browser.get("/worklist").status_code == 200
    assert served.base.verify_audit().intact


@pytest.fixture
def clock(monkeypatch):
    """The time, which a test moves."""
    now = [1_800_000_000.0]
    monkeypatch.setattr(second_factor.time, "time", lambda: now[0])
    return now


def enroll(browser, clock):
    """Turn the second factor on; returns its secret and the recovery codes."""
    page = browser.submit("/account/second-factor", action="begin").text
    secret = re.search(r'name="secret" value="([A-Z2-7]{32})"', page)[1]
    code = pyotp.TOTP(secret).at(clock[0])
    done = browser.submit("/account/second-factor", action="confirm", secret=secret, code=code, own_password=PASSWORD)
    assert done.status_code == 200
    codes = re.findall(r"<code>([a-z2-7]{4}(?:-[a-z2-7]{4}){5})</code>", done.text)
    assert len(set(codes)) == 10
    return secret, codes


def sign_in(served, code, password=PASSWORD):
    data = {"name": "clinician", "password": password, "code": code}
    return served.browser().post("/sign-in", data=data).status_code


def test_the_second_factor(clinic_on_both, clock):
    served = clinic_on_both()
    browser = served.browser("clinician")
    assert sign_in(served, "") == 303
    secret, codes = enroll(browser, clock)
    totp = pyotp.TOTP(secret)
    served.service.by_name.free = 100
    assert sign_in(served, "") == 401
    assert sign_in(served, "000000") == 401
    assert sign_in(served, totp.at(clock[0])) == 401, "the code that turned it on was used"
    clock[0] += 30
    assert sign_in(served, totp.at(clock[0]), "wrong password") == 401
    assert sign_in(served, totp.at(clock[0])) == 303
    assert sign_in(served, totp.at(clock[0])) == 401, "each code is right once"
    assert sign_in(served, totp.at(clock[0] - 30)) == 401, "nor one before it"
    clock[0] += 300
    assert sign_in(served, totp.at(clock[0] - 90)) == 401, "too old"
    assert sign_in(served, codes[0].upper()) == 303
    assert sign_in(served, codes[0]) == 401, "a recovery code is right once"
    assert sign_in(served, codes[1]) == 303
    assert browser.submit("/account/second-factor", action="remove", own_password="wrong").status_code == 422
    assert browser.submit("/account/second-factor", action="remove", own_password=PASSWORD).status_code == 303
    assert sign_in(served, "") == 303
    assert sign_in(served, codes[2]) == 303, "a code that nobody asks for does no harm"
    log = str([asdict(entry) for entry in served.base.audit(limit=1000)])
    assert not [text for text in (secret, *codes) if text in log]
    assert served.base.verify_audit().intact


def test_the_second_factor_needs_the_password_and_a_right_code(served, clock):
    browser = served.browser("clinician")
    secret = pyotp.random_base32()
    code = pyotp.TOTP(secret).at(clock[0])
    form = {"action": "confirm", "secret": secret, "code": code, "own_password": PASSWORD}
    for wrong in ({"own_password": "wrong"}, {"code": "000000"}, {"secret": "A" * 31}, {"action": "nonsense"}):
        assert browser.submit("/account/second-factor", **{**form, **wrong}).status_code == 422
    assert sign_in(served, "") == 303


def test_a_link_does_not_replace_the_second_factor(served, clock):
    """A steward who makes a link for somebody else needs a second, logged step to get in."""
    enroll(served.browser("clinician"), clock)
    link = served.base.people.invite("clinician", "clinician", by="steward")
    thief = served.browser()
    assert thief.post(f"/join/{link}", data={"password": NEW, "again": NEW}).headers["location"] == "/sign-in"
    assert thief.get("/worklist").status_code == 303
    assert sign_in(served, "", NEW) == 401
    steward = served.browser("steward")
    assert steward.submit("/people/change", name="clinician", action="remove_factor").status_code == 422
    assert steward.confirmed("/people/change", name="clinician", action="remove_factor").status_code == 303
    assert (served.base.audit(limit=1)[0].by, served.base.audit(limit=1)[0].details["person"]) == (
        "steward",
        "clinician",
    )
    assert sign_in(served, "", NEW) == 303


def test_a_second_factor_can_be_required(clinic, clock):
    served = clinic(require_second_factor=True)
    browser = served.browser("clinician")
    assert browser.get("/worklist").headers["location"] == "/account"
    csrf = browser.csrf("/account")
    assert browser.post("/consult", data={"csrf": csrf}).status_code == 403
    page = browser.post("/account/second-factor", data={"csrf": csrf, "action": "begin"}).text
    secret = re.search(r'name="secret" value="([A-Z2-7]{32})"', page)[1]
    form = {"csrf": csrf, "action": "confirm", "secret": secret, "own_password": PASSWORD}
    browser.post("/account/second-factor", data={**form, "code": pyotp.TOTP(secret).at(clock[0])})
    assert browser.get("/worklist").status_code == 200


def test_every_character_of_a_password_counts(served):
    """Also those beyond the longest one that can be chosen."""
    long = "a kettle sings to the northward violets " * 25
    served.base.people.accept(served.base.people.invite("Dr. Roe", "viewer", by="steward"), passwords.hashed(long))
    assert len(long) == passwords.MOST
    for extra, status in (("", 303), ("x", 401)):
        data = {"name": "Dr. Roe", "password": f"{long}{extra}"}
        assert served.browser().post("/sign-in", data=data).status_code == status


def test_every_page_has_a_button_to_sign_out(served):
    steward = served.browser("steward")
    for path in (
        "/consult",
        "/worklist",
        "/cases",
        "/cases/3",
        "/model",
        "/monitoring",
        "/people",
        "/audit",
        "/account",
    ):
        assert steward.get(path).text.count('action="/sign-out"') == 1, path


def test_signing_out_clears_the_browser(served):
    response = served.browser("clinician").submit("/sign-out")
    assert response.headers["clear-site-data"] == '"cache", "storage"'


def test_a_second_factor_that_was_removed_behind_the_log_is_found(clinic_on_both, clock):
    served = clinic_on_both()
    enroll(served.browser("clinician"), clock)
    with served.base._database.unaudited() as connection:
        connection.execute(text("UPDATE users SET totp_secret = NULL"))
    assert served.base.verify_audit().problems == ("the second factor of 'clinician' was changed without a log entry",)
