"""Single sign-on: the flow, what a token must hold, whose account it opens, and attacks on each of these."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import time
from datetime import timedelta
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from joserfc import jws
from joserfc.jwk import ECKey, RSAKey
from sqlalchemy import text

from bayespatch.casebase import identities, people
from bayespatch.web.single_sign_on import SingleSignOn
from tests.web.conftest import HOST, PASSWORD
from tests.web.provider import CLIENT, SECRET, serving, write_settings

START = "/sign-in/provider"


@pytest.fixture
def provider():
    with serving() as started:
        yield started


@pytest.fixture
def served(clinic, provider, tmp_path):
    return clinic(single_sign_on=write_settings(tmp_path, provider.issuer))


def path_of(address):
    assert address.startswith(f"{HOST}/")
    return address.removeprefix(HOST)


def sign_in(browser, provider, person="roe", start=START):
    """Through the provider and back."""
    left = browser.get(start)
    assert left.status_code == 303, left.text
    return browser.get(path_of(provider.authorize(left.headers["location"], person)))


def reasons(served):
    rows = served.base.audit(action="refuse")
    return [row.details.get("reason", "") for row in rows if row.details["why"] == "single sign-on"]


# The flow


@pytest.mark.parametrize(
    ("person", "name", "role"), [("roe", "Dr. Roe", "clinician"), ("sam", "Sam Steward", "steward")]
)
def test_a_person_signs_in_and_gets_the_role_of_their_group(clinic_on_both, provider, tmp_path, person, name, role):
    served = clinic_on_both(single_sign_on=write_settings(tmp_path, provider.issuer))
    browser = served.browser()
    assert "Sign in with Clinic ID" in browser.get("/sign-in").text
    response = sign_in(browser, provider, person, f"{START}?next=/cases")
    assert (response.status_code, response.headers["location"]) == (303, "/cases")
    found = served.base.people.find(name)
    assert (found.role, found.password_hash) == (role, None)
    assert name in browser.get("/cases").text
    assert browser.get("/people").status_code == (200 if role == "steward" else 403)
    rows = [(row.action, row.by) for row in served.base.audit() if row.action in ("link", "sign in")]
    assert rows[:2] == [("sign in", name), ("link", name)]
    assert served.base.verify_audit().intact
    again = served.browser()
    assert sign_in(again, provider, person).status_code == 303
    assert [one.name for one in served.base.people.listed()].count(name) == 1


def test_the_request_has_pkce_state_and_nonce_and_all_are_new_each_time(served, provider):
    seen = []
    for _ in range(2):
        address = served.browser().get(START).headers["location"]
        seen.append(dict(parse_qsl(urlsplit(address).query)))
        assert seen[-1]["redirect_uri"] == f"{HOST}/sign-in/provider/callback"
        assert seen[-1]["scope"] == "openid profile"
    assert all(seen[0][name] != seen[1][name] for name in ("state", "nonce", "code_challenge"))


def test_cookies_of_a_sign_in_are_out_of_reach_of_scripts(served):
    cookie = served.browser().get(START).headers["set-cookie"].lower()
    assert all(part in cookie for part in ("httponly", "samesite=lax", "path=/", "max-age=600"))


def test_a_session_that_was_there_before_ends(served, provider):
    browser = served.browser("viewer")
    before = browser.cookies["bayespatch_session"]
    assert sign_in(browser, provider).status_code == 303
    assert served.base.people.of_session(before) is None
    assert served.base.people.of_session(browser.cookies["bayespatch_session"]).name == "Dr. Roe"


def test_signing_out_ends_the_session_and_offers_to_sign_out_of_the_provider(served, provider):
    browser = served.browser()
    sign_in(browser, provider)
    session = browser.cookies["bayespatch_session"]
    response = browser.submit("/sign-out")
    assert response.headers["location"] == "/sign-in?ended=provider"
    assert served.base.people.of_session(session) is None
    page = browser.get("/sign-in?ended=provider").text
    assert f'href="{provider.issuer}/end?client_id={CLIENT}&amp;post_logout_redirect_uri=' in page


def test_a_key_that_the_provider_has_changed_is_fetched(served, provider, monkeypatch):
    assert sign_in(served.browser(), provider).status_code == 303
    provider.key = RSAKey.generate_key(2048, {"kid": "three", "use": "sig"})
    provider.sign = lambda claims: provider.signed(claims, {"kid": "three"})
    monkeypatch.setattr("bayespatch.web.single_sign_on._KEYS_AGAIN", 0.0)
    assert sign_in(served.browser(), provider).status_code == 303


@pytest.mark.parametrize("change", [{"aud": [CLIENT]}, {"aud": [CLIENT, "other"], "azp": CLIENT}, {"azp": CLIENT}])
def test_tokens_that_are_valid_in_other_forms(served, provider, change):
    provider.change = lambda claims: claims | change
    assert sign_in(served.browser(), provider).status_code == 303


def test_signatures_by_elliptic_curves(served, provider):
    provider.key = ECKey.generate_key("P-256", {"kid": "one", "use": "sig"})
    provider.sign = lambda claims: provider.signed(claims, {"alg": "ES256"})
    assert sign_in(served.browser(), provider).status_code == 303


# Forged tokens


def unsigned(claims, header):
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (header, claims)]
    return f"{parts[0]}.{parts[1]}."


def signed_with(claims, header, secret):
    """A token whose signature is an HMAC; joserfc would not make some of these."""
    text = unsigned(claims, {"alg": "HS256", **header})[:-1]
    signature = hmac.new(secret, text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def forgeries(provider):
    later, now = timedelta(hours=1).total_seconds(), int(time.time())
    claims = {
        "wrong nonce": {"nonce": "another"},
        "no nonce": {"nonce": None},
        "wrong issuer": {"iss": "https://evil.example"},
        "no issuer": {"iss": None},
        "wrong audience": {"aud": "another"},
        "wrong audiences": {"aud": ["another", "third"]},
        "no audience": {"aud": None},
        "several audiences and no party": {"aud": [CLIENT, "another"]},
        "another party": {"aud": [CLIENT, "another"], "azp": "another"},
        "expired": {"exp": now - 120},
        "no expiry": {"exp": None},
        "expiry that is no number": {"exp": "tomorrow"},
        "issued later": {"iat": now + later},
        "not valid yet": {"nbf": now + later},
        "no subject": {"sub": None},
        "empty subject": {"sub": ""},
        "subject that is no text": {"sub": 4712},
        "endless subject": {"sub": "4" * 300},
        "no name": {"preferred_username": None},
        "name with a line break": {"preferred_username": "Dr.\nRoe"},
        "no role": {"groups": ["staff"]},
        "groups that are no list": {"groups": {"doctors": True}},
    }
    other = RSAKey.generate_key(2048, {"kid": "one"})
    signs = {
        "alg none": lambda claims: unsigned(claims, {"alg": "none"}),
        "alg None": lambda claims: unsigned(claims, {"alg": "None", "kid": "one"}),
        "another key of this name": lambda claims: provider.signed(claims, key=other),
        "an unknown key": lambda claims: provider.signed(claims, {"kid": "nine"}, other),
        "the public key as a secret": lambda claims: signed_with(
            claims, {"kid": "one"}, provider.key.as_pem(private=False)
        ),
        "the client's secret": lambda claims: signed_with(claims, {}, SECRET.encode()),
        "a shared key that the provider publishes": lambda claims: signed_with(claims, {"kid": "two"}, b"secret"),
        "its own key in the header": lambda claims: provider.signed(
            claims, {"jwk": other.as_dict(private=False)}, other
        ),
        "nested claims": lambda claims: jws.serialize_compact(
            {"alg": "RS256", "kid": "one"}, b"[" * 5000, provider.key
        ),
        "no token": lambda claims: None,
        "no text": lambda claims: ["a", "b", "c"],
        "a text that is no token": lambda claims: "a.b.c",
        "no signature": lambda claims: provider.signed(claims).rpartition(".")[0] + ".",
        "other claims under the signature": lambda claims: ".".join(
            (
                provider.signed(claims).split(".")[0],
                unsigned({**claims, "sub": "4712"}, {}).split(".")[1],
                provider.signed(claims).split(".")[2],
            )
        ),
    }
    return claims, signs


NAMES = [name for part in forgeries(None) for name in part]


@pytest.mark.parametrize("name", NAMES)
def test_forged_tokens_are_refused(served, provider, name):
    claims, signs = forgeries(provider)
    if name in claims:
        provider.change = lambda said: {k: v for k, v in (said | claims[name]).items() if v is not None}
    else:
        provider.sign = signs[name]
    browser, before = served.browser(), served.base.people.listed()
    response = sign_in(browser, provider)
    assert response.status_code == 401
    assert 'role="alert"' in response.text
    assert "bayespatch_session" not in browser.cookies
    assert served.base.people.listed() == before
    assert len(reasons(served)) == 1


# Forged answers


def test_a_state_is_for_the_browser_that_began(served, provider):
    """An attacker cannot make a victim's browser finish the attacker's sign-in."""
    attacker, victim = served.browser(), served.browser()
    answer = path_of(provider.authorize(attacker.get(START).headers["location"], "sam"))
    victim.get(START)
    assert victim.get(answer).status_code == 401
    assert "bayespatch_session" not in victim.cookies
    assert served.browser().get(answer).status_code == 401
    assert attacker.get(answer).status_code == 303


def test_a_state_counts_once_and_not_for_long(served, provider, monkeypatch):
    browser = served.browser()
    answer = path_of(provider.authorize(browser.get(START).headers["location"], "roe"))
    assert browser.get(answer).status_code == 303
    assert browser.get(answer).status_code == 401
    answer = path_of(provider.authorize(browser.get(START).headers["location"], "roe"))
    monkeypatch.setattr(identities, "UNDER_WAY", timedelta(seconds=-1))
    assert browser.get(answer).status_code == 401


@pytest.mark.parametrize("state", ["forged", "", "x" * 3000, "\u00e4"])
def test_a_forged_state_is_refused(served, provider, state):
    browser = served.browser()
    answer = path_of(provider.authorize(browser.get(START).headers["location"], "roe"))
    query = dict(parse_qsl(urlsplit(answer).query)) | {"state": state}
    assert browser.get(f"{urlsplit(answer).path}?{urlencode(query)}").status_code == 401
    assert provider.requests == []  # the code did not travel on


def test_a_code_counts_once(served, provider):
    """A code that was overheard is of no use, whoever began a sign-in of their own."""
    victim, attacker = served.browser(), served.browser()
    answer = path_of(provider.authorize(victim.get(START).headers["location"], "sam"))
    stolen = dict(parse_qsl(urlsplit(answer).query))["code"]
    own = path_of(provider.authorize(attacker.get(START).headers["location"], "guest"))
    query = dict(parse_qsl(urlsplit(own).query)) | {"code": stolen}
    assert attacker.get(f"{urlsplit(own).path}?{urlencode(query)}").status_code == 401  # another verifier
    assert victim.get(answer).status_code == 401  # the provider has used the code up
    assert "the provider refused the code" in reasons(served)[0]


@pytest.mark.parametrize("query", [{"error": "access_denied"}, {"code": ""}, {"iss": "https://evil.example"}])
def test_answers_that_are_errors_or_come_from_elsewhere(served, provider, query):
    browser = served.browser()
    answer = path_of(provider.authorize(browser.get(START).headers["location"], "roe"))
    changed = dict(parse_qsl(urlsplit(answer).query)) | query
    assert browser.get(f"{urlsplit(answer).path}?{urlencode(changed)}").status_code == 401


def test_a_provider_that_promises_to_name_itself_must(served, provider):
    provider.about = {"authorization_response_iss_parameter_supported": True}
    browser = served.browser()
    answer = path_of(provider.authorize(browser.get(START).headers["location"], "roe"))
    assert browser.get(answer).status_code == 401
    answer = path_of(provider.authorize(browser.get(START).headers["location"], "roe"))
    assert browser.get(f"{answer}&{urlencode({'iss': provider.issuer})}").status_code == 303


@pytest.mark.parametrize(
    "answer",
    [
        (302, {"Location": "/keys"}, b""),  # where there is JSON
        (500, {}, b"no"),
        (200, {}, b"not JSON"),
        (200, {}, b"[1]"),
        (200, {}, b"[" * 100_000),
        (200, {}, b"{" + b" " * 2_000_000 + b"}"),
    ],
    ids=["moves", "fails", "no JSON", "no object", "nested", "large"],
)
def test_a_provider_that_answers_badly(served, provider, answer):
    provider.answer = answer
    browser = served.browser()
    response = sign_in(browser, provider)
    assert response.status_code == 503
    assert "bayespatch_session" not in browser.cookies


@pytest.mark.parametrize("about", [{"issuer": "https://evil.example"}, {"token_endpoint": "http://evil.example/token"}])
def test_a_description_that_leads_elsewhere(served, provider, about):
    provider.about = about
    assert served.browser().get(START).status_code == 503
    assert len(reasons(served)) == 1


def test_a_provider_that_is_away(clinic, tmp_path):
    served = clinic(single_sign_on=write_settings(tmp_path, "http://127.0.0.1:9"))
    assert served.browser().get(START).status_code == 503
    assert served.browser("viewer").get("/cases").status_code == 200


@pytest.mark.parametrize("onward", ["//evil.example", "https://evil.example", "/\\evil.example"])
def test_no_open_redirect(served, provider, onward):
    response = sign_in(served.browser(), provider, "roe", f"{START}?{urlencode({'next': onward})}")
    assert response.headers["location"] == "/"


def test_a_flood_of_sign_ins_is_slowed_down(served):
    browser = served.browser()
    codes = [browser.get(START).status_code for _ in range(130)]
    assert codes[0] == 303
    assert codes[-1] == 429


# Accounts


def test_a_name_leads_to_no_account(served, provider):
    """Whoever can choose a name at the provider cannot become the steward of that name."""
    provider.people["roe"]["preferred_username"] = "steward"
    assert sign_in(served.browser(), provider).status_code == 401
    served.base.people.invite("Expected", "steward", by="steward")
    provider.people["roe"]["preferred_username"] = "Expected"
    assert sign_in(served.browser(), provider).status_code == 401
    for name in ("bayespatch", " Dr. Roe", "  "):
        provider.people["roe"]["preferred_username"] = name
        assert sign_in(served.browser(), provider).status_code == 401
    assert len(served.base.people.listed()) == 3


def test_a_person_is_known_by_the_subject_and_not_by_the_name(served, provider):
    sign_in(served.browser(), provider)
    provider.people["guest"] |= {"preferred_username": "Dr. Roe", "groups": ["data-managers"]}
    assert sign_in(served.browser(), provider, "guest").status_code == 401
    provider.people["roe"]["preferred_username"] = "Dr. Roe-Smith"
    browser = served.browser()
    assert sign_in(browser, provider).status_code == 303
    assert served.base.people.of_session(browser.cookies["bayespatch_session"]).name == "Dr. Roe"


def test_the_role_follows_the_provider(served, provider):
    sign_in(served.browser(), provider, "sam")
    provider.people["sam"]["groups"] = ["doctors"]
    browser = served.browser()
    assert sign_in(browser, provider, "sam").status_code == 303
    assert browser.get("/people").status_code == 403
    assert served.base.people.find("Sam Steward").role == "clinician"
    assert served.base.audit(action="role")[0].details == {
        "person": "Sam Steward",
        "role": "clinician",
        "provider": True,
    }
    provider.people["sam"]["groups"] = []
    assert sign_in(served.browser(), provider, "sam").status_code == 401
    assert served.base.verify_audit().intact


def test_a_disabled_account_stays_out(served, provider):
    browser = served.browser()
    sign_in(browser, provider)
    assert served.browser("steward").confirmed("/people/change", name="Dr. Roe", action="disable").status_code == 303
    assert browser.get("/cases").status_code == 303
    assert sign_in(served.browser(), provider).status_code == 401
    assert served.browser("steward").confirmed("/people/change", name="Dr. Roe", action="enable").status_code == 303
    assert sign_in(served.browser(), provider).status_code == 303


def test_an_account_is_linked_with_its_password_and_unlinked(served, provider):
    browser = served.browser("clinician")
    assert browser.submit("/account/provider", action="link").status_code == 422  # asks for the password
    page = browser.confirmed("/account/provider", action="link").text
    address = page.split('class="button" href="')[1].split('"')[0].replace("&amp;", "&")
    pending = served.base.people.invite("clinician", "clinician", by="steward")
    response = browser.get(path_of(provider.authorize(address, "roe")))
    assert response.headers["location"] == "/account"
    assert served.base.people.invited(pending) is None
    assert provider.issuer in browser.get("/account").text
    other = served.browser()
    assert sign_in(other, provider).status_code == 303
    assert served.base.people.of_session(other.cookies["bayespatch_session"]).name == "clinician"
    assert browser.confirmed("/account/provider", action="unlink").headers["location"] == "/sign-in"
    assert other.get("/cases").status_code == 303  # sessions have ended
    assert [row.action for row in served.base.audit(limit=20)].count("unlink") == 1
    assert served.base.verify_audit().intact


def test_an_identity_is_linked_by_the_person_who_began(served, provider):
    browser, other = served.browser("clinician"), served.browser("viewer")
    page = browser.confirmed("/account/provider", action="link").text
    address = page.split('class="button" href="')[1].split('"')[0].replace("&amp;", "&")
    answer = path_of(provider.authorize(address, "roe"))
    other.cookies.set("bayespatch_provider", browser.cookies["bayespatch_provider"])
    assert other.get(answer).status_code == 401
    assert served.base.identities.of("clinician") == served.base.identities.of("viewer") == []


def test_an_identity_belongs_to_one_account(served, provider):
    sign_in(served.browser(), provider)
    browser = served.browser("clinician")
    page = browser.confirmed("/account/provider", action="link").text
    address = page.split('class="button" href="')[1].split('"')[0].replace("&amp;", "&")
    assert browser.get(path_of(provider.authorize(address, "roe"))).status_code == 401
    assert served.base.identities.of("clinician") == []


def test_a_steward_unlinks_an_account(served, provider):
    sign_in(served.browser(), provider)
    assert served.browser("steward").confirmed("/people/change", name="Dr. Roe", action="unlink").status_code == 303
    assert served.base.identities.of("Dr. Roe") == []
    assert sign_in(served.browser(), provider).status_code == 401  # the name is taken


def test_a_link_is_no_second_way_into_an_account_with_single_sign_on(served, provider):
    """The person would sign in at the provider as ever and not notice that a steward has set a password."""
    browser, steward = served.browser(), served.browser("steward")
    sign_in(browser, provider)
    page = steward.confirmed("/people/invite", name="Dr. Roe", role="clinician")
    assert page.status_code == 409
    assert "/join/" not in page.text
    assert browser.get("/cases").status_code == 200
    assert steward.get("/people").text.count('value="unlink"') == 1
    assert steward.confirmed("/people/change", name="Dr. Roe", action="unlink").status_code == 303
    assert "/join/" in steward.confirmed("/people/invite", name="Dr. Roe", role="clinician").text
    assert browser.get("/cases").status_code == 303
    assert sign_in(browser, provider).status_code == 401, "the person notices"


def test_without_a_password_one_confirms_at_the_provider(served, provider, monkeypatch):
    browser = served.browser()
    sign_in(browser, provider, "sam")
    provider.signed_in["sam"] = time.time() - 3600
    page = browser.submit("/people/invite", name="Mallory", role="steward", own_password="")
    assert page.status_code == 422
    assert f"{START}?confirm=1" in page.text
    assert served.base.people.invitations() == []
    address = browser.get(f"{START}?confirm=1").headers["location"]
    asked = dict(parse_qsl(urlsplit(address).query))
    assert (asked["prompt"], asked["max_age"]) == ("login", "0")
    assert browser.get(path_of(provider.authorize(address, "sam"))).status_code == 303
    assert browser.submit("/people/invite", name="New", role="viewer").status_code == 200
    monkeypatch.setattr(people, "CONFIRMED", timedelta(seconds=-1))
    assert browser.submit("/people/invite", name="Mallory", role="steward").status_code == 422


def test_a_provider_that_does_not_ask_again_confirms_nothing(served, provider):
    browser = served.browser()
    sign_in(browser, provider, "sam")
    provider.change = lambda claims: claims | {"auth_time": int(time.time()) - 3600}
    assert sign_in(browser, provider, "sam", f"{START}?confirm=1").status_code == 401
    provider.change = lambda claims: {k: v for k, v in claims.items() if k != "auth_time"}
    assert sign_in(browser, provider, "sam", f"{START}?confirm=1").status_code == 401
    assert browser.submit("/people/invite", name="Mallory", role="steward").status_code == 422


def test_passwords_can_be_turned_off(clinic, provider, tmp_path):
    settings = write_settings(tmp_path, provider.issuer, "local_passwords = false")
    served = clinic(single_sign_on=settings)
    link = served.base.people.invite("Late", "steward", by="tester")
    someone = served.browser()
    assert 'name="password"' not in someone.get("/sign-in").text
    assert someone.post("/sign-in", data={"name": "steward", "password": PASSWORD}).status_code == 403
    assert someone.get(f"/join/{link}").status_code == 403
    assert someone.post(f"/join/{link}", data={"password": PASSWORD, "again": PASSWORD}).status_code == 403
    assert sign_in(someone, provider).status_code == 303


def test_a_required_second_factor_is_the_providers(clinic, provider, tmp_path):
    served = clinic(
        single_sign_on=write_settings(tmp_path, provider.issuer, 'require_amr = ["mfa"]'), require_second_factor=True
    )
    for methods in (None, [], ["pwd"], "mfa", [{"mfa": 1}]):
        provider.people["roe"]["amr"] = methods
        assert sign_in(served.browser(), provider).status_code == 401
    provider.people["roe"]["amr"] = ["pwd", "mfa"]
    browser = served.browser()
    assert sign_in(browser, provider).status_code == 303
    assert browser.get("/cases").status_code == 200
    local = served.browser("viewer")
    assert local.get("/cases").headers["location"] == "/account"


def test_tokens_rest_when_the_provider_has_not_vouched_for_a_month(served, provider, monkeypatch):
    sign_in(served.browser(), provider)
    program = served.program("clinician")
    secret = served.base.people.new_token("Dr. Roe", label="x", scope="clinician", days=90, by="Dr. Roe")
    headers = {"Authorization": f"Bearer {secret}"}
    assert program.get("/api/v1/cases", headers=headers).status_code == 200
    monkeypatch.setattr(people, "PROVIDER_SEEN", timedelta(seconds=-1))
    assert program.get("/api/v1/cases", headers=headers).status_code == 401
    assert program.get("/api/v1/cases").status_code == 200  # of somebody with a password


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE identities SET subject = '666'", "linked without a log entry"),
        ("DELETE FROM identities", "is missing"),
        ("UPDATE identities SET \"user\" = 'steward'", "linked without a log entry"),
        ("UPDATE users SET password_hash = 'x' WHERE name = 'Dr. Roe'", "the password of 'Dr. Roe' was changed"),
    ],
)
def test_a_change_outside_of_the_log_is_found(served, provider, statement, problem):
    sign_in(served.browser(), provider)
    with served.base._database.unaudited() as connection:
        connection.execute(text(statement))
    assert any(problem in found for found in served.base.verify_audit().problems)


def test_nothing_secret_is_logged(served, provider, caplog):
    caplog.set_level("INFO", "bayespatch.web")
    provider.people["roe"]["sub"] = "subject of Dr. Roe"
    browser = served.browser()
    answer = path_of(provider.authorize(browser.get(START).headers["location"], "roe"))
    browser.get(answer)
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("bayespatch")]
    assert any("/sign-in/provider/callback" in line for line in lines)
    kept = str(served.base.audit()) + str(lines)
    query = dict(parse_qsl(urlsplit(answer).query))
    secrets = (*query.values(), SECRET, "subject of Dr. Roe", browser.cookies["bayespatch_session"])
    assert all(secret not in kept for secret in secrets)


def test_a_provider_from_pypi(clinic, tmp_path):
    """oidc-provider-mock, written by others, on Authlib's server."""
    mock = pytest.importorskip("oidc_provider_mock")
    claims = {"preferred_username": "Dr. Poe", "groups": ["doctors"]}
    with mock.run_server_in_thread(user_claims=[mock.User(sub="poe", claims=claims)]) as started:
        served = clinic(single_sign_on=write_settings(tmp_path, f"http://localhost:{started.server_port}"))
        browser = served.browser()
        address = urlsplit(browser.get(START).headers["location"])
        connection = http.client.HTTPConnection("localhost", started.server_port, timeout=10)
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        connection.request("POST", f"{address.path}?{address.query}", urlencode({"sub": "poe"}), form)
        back = connection.getresponse().getheader("location")
        assert browser.get(path_of(back)).status_code == 303
        assert served.base.people.of_session(browser.cookies["bayespatch_session"]).name == "Dr. Poe"


# Settings


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("issuer = 1", "wrong type"),
        ('issuer = "https://id.example"', "client_id is missing"),
        ('issuer = "http://id.example"\nclient_id = "x"\nroles = {a = "viewer"}', "is not an https address"),
        ('issuer = "https://id.example/"\nclient_id = "x"\nroles = {a = "viewer"}', "final slash"),
        ('issuer = "https://id.example"\nclient_id = "x"', "roles is empty"),
        ('issuer = "https://id.example"\nclient_id = "x"\nroles = {a = "root"}', "is not a role"),
        ('issuer = "https://id.example"\nclient_id = "x"\nrolls = {a = "viewer"}', "'rolls' is not a setting"),
        ('issuer = "https://id.example"\nclient_id = "x"\nscopes = ["profile"]\nroles = {a = "viewer"}', "openid"),
        ("issuer = ", "cannot be read"),
    ],
)
def test_settings_that_cannot_be_used(tmp_path, content, problem):
    path = tmp_path / "provider.toml"
    path.write_text(content)
    with pytest.raises(ValueError, match=problem):
        SingleSignOn.read(str(path))


def test_roles_within_objects_and_a_missing_secret(clinic, tmp_path):
    settings = SingleSignOn("https://id.example", "x", role_claim="realm_access.roles", roles={"a": "viewer"})
    assert settings.role_of({"realm_access": {"roles": ["a"]}}) == "viewer"
    assert settings.role_of({"realm_access": ["a"]}) is None
    path = write_settings(tmp_path, "https://id.example")
    (tmp_path / "secret").unlink()
    with pytest.raises(ValueError, match="client_secret_file cannot be read"):
        clinic(single_sign_on=path)
