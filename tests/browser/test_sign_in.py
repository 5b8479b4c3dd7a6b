"""Signing in with a second factor, and at an OpenID provider, in a real browser.

``make test-browser`` runs these; see test_pages.py for what is needed.
"""

import pyotp
import pytest

from bayespatch.web import Settings, create_app, passwords
from tests.browser.test_consulting import CHROMIUM, PASSWORD, browser, opened, running  # noqa: F401
from tests.casebase.clinic import Places
from tests.web.provider import serving, write_settings


@pytest.fixture(scope="module")
def provider():
    with serving() as started:
        yield started


@pytest.fixture(scope="module")
def served(provider, tmp_path_factory):
    """A clinic whose people sign in with a password or at a provider."""
    folder = tmp_path_factory.mktemp("clinic")
    app = create_app(
        Settings(Places(folder, None).copy(), rate=100_000, single_sign_on=write_settings(folder, provider.issuer))
    )
    base = app.state.service.base
    base.people.accept(base.people.invite("Ann", "clinician", by="tester"), passwords.hashed(PASSWORD))
    with running(app):
        yield app


def path(page, served):
    return page.url.removeprefix(served.state.address)


def test_single_sign_on(browser, served, provider):  # noqa: F811
    page = opened(browser, served)
    assert path(page, served).startswith("/sign-in")
    page.get_by_role("link", name="Sign in with Clinic ID").click()
    assert page.url.startswith(provider.issuer)
    page.get_by_role("button", name="roe").click()
    page.wait_for_url(f"{served.state.address}/consult")
    assert page.get_by_text("Dr. Roe").count() >= 1
    page.goto("/account")
    assert provider.issuer in page.content()
    assert page.locator("input[type=password]").count() == 0
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url("**/sign-in?ended=provider")
    page.get_by_role("link", name="Sign out of Clinic ID too").click()
    page.wait_for_url(f"{provider.issuer}/end*")
    page.goto("/consult")
    assert path(page, served).startswith("/sign-in")
    assert page.errors == []


def test_a_person_without_a_role_is_told_why(browser, served):  # noqa: F811
    page = opened(browser, served)
    page.get_by_role("link", name="Sign in with Clinic ID").click()
    page.get_by_role("button", name="guest").click()
    assert "no role here" in page.get_by_role("alert").inner_text()


def test_an_account_is_linked(browser, served, provider):  # noqa: F811
    provider.people["ann"] = {"sub": "1", "preferred_username": "ann@clinic", "groups": ["doctors"]}
    page = opened(browser, served, "Ann")
    page.goto("/account")
    page.get_by_role("button", name="Link to Clinic ID").click()
    page.fill("#own_password", PASSWORD)
    page.get_by_role("button", name="Confirm").click()
    page.get_by_role("link", name="Continue to Clinic ID").click()
    page.get_by_role("button", name="ann").click()
    page.wait_for_url("**/account")
    page.context.clear_cookies()
    page.goto("/sign-in")
    page.get_by_role("link", name="Sign in with Clinic ID").click()
    page.get_by_role("button", name="ann").click()
    page.wait_for_url("**/consult")
    assert "Ann" in page.content()
    assert [error for error in page.errors if "422" not in error] == []  # the page that asks for the password


def test_a_second_factor_is_set_up_and_asked_for(browser, served):  # noqa: F811
    page = opened(browser, served, "Ann")
    page.goto("/account")
    page.get_by_role("button", name="Set up").click()
    secret = page.locator("code").first.inner_text()
    code = pyotp.TOTP(secret)
    page.fill("input[name=code]", code.now())
    page.locator('form[action="/account/second-factor"] input[name=own_password]').fill(PASSWORD)
    page.get_by_role("button", name="Turn on").click()
    recovery = page.get_by_role("status").locator("code").first.inner_text()
    page.get_by_role("button", name="Sign out").click()
    for given, right in (("", False), ("000000", False), (recovery, True)):
        page.goto("/sign-in")
        page.fill("#name", "Ann")
        page.fill("#password", PASSWORD)
        page.fill("#code", given)
        page.get_by_role("button", name="Sign in").click()
        if right:
            page.wait_for_url("**/consult")
        else:
            page.get_by_role("alert").wait_for()
    page.goto("/account")
    page.locator('form[action="/account/second-factor"] input[name=own_password]').fill(PASSWORD)
    page.get_by_role("button", name="Turn off").click()
    page.get_by_role("button", name="Set up").wait_for()
