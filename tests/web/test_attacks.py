"""Each attack of which we know, tried."""

from __future__ import annotations

import json
import logging
import re
import socket
import threading
import time

import pytest
import uvicorn
from argon2 import Type

from bayespatch.casebase import CaseBase
from bayespatch.casebase import people as people_module
from bayespatch.web import guard, passwords
from bayespatch.web.access import COOKIE, local_path
from tests.casebase.clinic import DICTIONARY, table
from tests.web.conftest import FORM, HOST, PASSWORD, VALUES

SCRIPT = "\"><script>alert(1)</script><img src=x onerror=alert(1)>'{{31337*3}}"


def harmless(text):
    """Whether what was sent stands in a page only as text."""
    return "<script>alert" not in text and "<img src=x" not in text and str(31337 * 3) not in text


# Sessions


def test_session_fixation(served):
    browser = served.browser()
    browser.cookies.set(COOKIE, "chosen-by-the-attacker", domain="127.0.0.1")
    response = browser.post("/sign-in", data={"name": "clinician", "password": PASSWORD})
    given = response.headers["set-cookie"]
    assert "chosen-by-the-attacker" not in given
    assert "HttpOnly" in given
    assert "SameSite=lax" in given
    fresh = served.browser()
    fresh.cookies.set(COOKIE, "chosen-by-the-attacker", domain="127.0.0.1")
    assert fresh.get("/worklist").status_code == 303


def test_signing_in_again_ends_the_session_before(served):
    browser = served.browser("clinician")
    before = browser.cookies.get(COOKIE)
    browser.post("/sign-in", data={"name": "clinician", "password": PASSWORD})
    assert served.base.people.of_session(before) is None


def test_a_session_ends_with_signing_out(served):
    browser = served.browser("clinician")
    secret = browser.cookies.get(COOKIE)
    assert browser.submit("/sign-out").status_code == 303
    browser.cookies.set(COOKIE, secret, domain="127.0.0.1")
    assert browser.get("/worklist").status_code == 303


@pytest.mark.parametrize("limit", ["IDLE", "ABSOLUTE"])
def test_a_session_ends_by_itself(served, monkeypatch, limit):
    browser = served.browser("clinician")
    assert browser.get("/worklist").status_code == 200
    monkeypatch.setattr(people_module, limit, people_module.timedelta(seconds=-1))
    assert browser.get("/worklist").status_code == 303


def test_whoever_is_shut_out_is_out_at_once(served):
    browser, program = served.browser("clinician"), served.program("clinician")
    served.base.people.disable("clinician", by="steward")
    assert browser.get("/worklist").status_code == 303
    assert program.get("/api/v1/cases").status_code == 401
    assert served.browser().post("/sign-in", data={"name": "clinician", "password": PASSWORD}).status_code == 401


def test_cookies_are_secure_over_tls(served):
    browser = served.browser()
    browser.base_url = HOST.replace("http:", "https:")
    response = browser.post("/sign-in", data={"name": "clinician", "password": PASSWORD})
    assert re.search("__Host-.*; HttpOnly; Path=/; SameSite=lax; Secure$", response.headers["set-cookie"])
    assert response.headers["strict-transport-security"] == "max-age=31536000"


# Requests from other sites


def test_a_form_needs_its_token(served):
    browser = served.browser("steward")
    assert browser.post("/retain").status_code in (400, 403, 415)
    assert browser.post("/retain", data={"csrf": "0" * 64}).status_code == 403
    other = served.browser("steward").csrf()
    assert browser.post("/retain", data={"csrf": other}).status_code == 403
    assert browser.submit("/retain").status_code == 303


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
@pytest.mark.parametrize("path", ["/retain", "/sign-in", "/api/v1/retentions"])
def test_another_site_cannot_send_anything(shared, headers, path):
    browser = shared.browser()
    data = {"csrf": browser.csrf()}
    assert browser.post(path, data=data, headers=headers).status_code == 403


HOSTS = ["evil.example", "127.0.0.1.evil.example", "evil.example:8000", "", "[::2]"]
HOSTS += ["localhost:80@evil.example", "localhost:[", "localhost:x", "[::1]evil.example", "[::1"]


@pytest.mark.parametrize("host", HOSTS)
def test_another_host_name_is_refused(shared, host):
    response = shared.browser().get("/cases", headers={"Host": host})
    assert response.status_code == 400
    assert "evil" not in response.text


@pytest.mark.parametrize(
    "path",
    ["//evil.example", "https://evil.example", "/\\evil.example", "\\\\evil", "javascript:alert(1)", "/%0d%0aX: y"],
)
def test_no_open_redirect(served, path):
    response = served.browser().post("/sign-in", data={"name": "viewer", "password": PASSWORD, "next": path})
    assert response.status_code == 303
    assert response.headers["location"] in ("/", "/%0d%0aX:%20y", "/%250d%250aX:%20y")
    assert local_path(path).startswith("/")
    assert not local_path(path).startswith(("//", "/\\"))


# Scripts in texts


def test_stored_scripts_stay_texts(clinics, clinic):
    """In every text field, and in every imported value and label."""
    served = clinic(sign_in=False)
    browser = served.browser()
    pages = [browser.post("/consult", data={**FORM, "csrf": browser.csrf(), "action": "ask", "v:town": SCRIPT}).text]
    sent = {**FORM, "csrf": browser.csrf(), "action": "save", "v:town": SCRIPT, "external_id": SCRIPT}
    response = browser.post("/consult", data=sent)
    place = response.headers["location"]
    decide = browser.submit(f"{place}/decide", decided="well", code="other", reason=SCRIPT)
    assert decide.status_code == 303, decide.text
    number = served.base.worklist(by="t").items[0].case_id
    assert browser.submit(f"/cases/{number}/outcome", outcome="well").status_code == 303
    pages += [browser.get(path).text for path in (place, "/worklist", f"/cases/{number}", "/cases?state=any", "/audit")]
    pages.append(browser.get(f"/consult?from={place.rpartition('/')[2]}").text)
    live = browser.post("/consult/answer", data={**FORM, "csrf": browser.csrf(), "v:town": SCRIPT})
    pages.append(live.json()["html"])
    sent = {**FORM, "csrf": browser.csrf(), "action": "counterfactual", "v:town": SCRIPT}
    pages.append(browser.post("/consult", data=sent).text)
    sent |= {"has_choice": "1", "may_change": SCRIPT, "to": SCRIPT, "c:town": SCRIPT}
    pages += [browser.post("/consult", data={**sent, "action": action}).text for action in ("counterfactual", "try")]
    pages.append(browser.submit(f"/cases/{number}/forget", reason=SCRIPT, sure="yes").text)
    pages.append(browser.get("/audit").text)
    assert all(harmless(page) for page in pages)
    assert sum("&lt;script&gt;" in page for page in pages) >= 6


def test_scripts_in_names_stay_texts(served):
    """Of people and of tokens, and in what is typed to sign in."""
    steward = served.browser("steward")
    pages = [steward.confirmed("/people/invite", name=SCRIPT, role="clinician").text, steward.get("/people").text]
    secret = served.base.people.invite(SCRIPT, "clinician", by="steward")
    pages.append(steward.get(f"/join/{secret}").text)
    pages.append(steward.confirmed("/tokens", label=SCRIPT, scope="viewer", days="1").text)
    pages += [steward.get(path).text for path in ("/tokens", "/audit")]
    pages.append(served.browser().post("/sign-in", data={"name": SCRIPT, "password": SCRIPT}).text)
    assert all(harmless(page) for page in pages)
    assert sum("&lt;script&gt;" in page for page in pages) >= 4


def test_scripts_in_an_imported_table_stay_texts(tmp_path):
    from bayespatch.web import Settings, create_app
    from tests.web.conftest import Browser

    frame = table(20)
    frame["town"] = SCRIPT
    frame["who"] = [f"{SCRIPT}{i}" for i in range(20)]
    words = {
        **DICTIONARY,
        "town": {"kind": "text", "label": SCRIPT, "unit": ""},
        "outcome": {"label": SCRIPT, "levels": {0: "<b>loud</b>", 1: SCRIPT}},
    }
    with CaseBase.open(tmp_path / "hostile.db") as base:
        base.import_cases(frame, by=SCRIPT, target="outcome", id_column="who", dictionary=words)
        from bayespatch.casebase.refit import learn
        from tests.casebase.clinic import QUICK

        base.promote(learn(base._database, SCRIPT, QUICK).version, by=SCRIPT)
    app = create_app(Settings(str(tmp_path / "hostile.db"), sign_in=False))
    browser = Browser(app)
    pages = [browser.get(path) for path in ("/consult", "/cases", "/cases/3", "/model", "/audit", "/worklist")]
    pages.append(browser.post("/consult", data={"csrf": browser.csrf(), "action": "ask", "v:town": SCRIPT}))
    app.state.service.close()
    assert [page.status_code for page in pages] == [200] * 7
    assert all(harmless(page.text) and "<b>loud" not in page.text for page in pages)


@pytest.mark.parametrize(
    "path",
    [
        "/cases?c0=town&o0==&w0={}",
        "/cases?order={}",
        "/cases?state={}",
        "/audit?by={}",
        "/audit?verify=1&head={}",
        "/model?every={}",
        "/worklist?waiting={}",
        "/consult?from={}",
        "/{}",
        "/join/{}",
    ],
)
def test_reflected_scripts_stay_texts(shared, path):
    from urllib.parse import quote

    response = shared.browser().get(path.format(quote(SCRIPT)))
    assert response.status_code != 500
    assert harmless(response.text)


def test_every_answer_forbids_scripts_from_elsewhere(served):
    browser = served.browser("steward")
    for path in ("/consult", "/cases", "/sign-in", "/nowhere", "/health", "/api/v1/openapi.json", "/api/v1/cases"):
        headers = browser.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert all(f"{name} 'none'" in policy for name in ("frame-ancestors", "object-src", "base-uri"))
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cross-origin-resource-policy"] == "same-origin"
    for path in ("/consult", "/cases/3", "/model"):
        text = browser.get(path).text
        assert not re.search(r"<script(?![^>]* src=\"/static/)", text), "inline code"
        assert not re.search(r"\son[a-z]+=|\sstyle=|href=\"javascript:|(?:src|href)=\"(?:https?:)?//", text)


def test_every_answer_states_its_type_and_charset(served):
    browser = served.browser("steward")
    files = re.findall(r'(?:href|src)="(/static/[^"]+)"', browser.get("/consult").text)
    for path in ("/consult", "/nowhere", "/health", "/api/v1/cases", "/api/v1/openapi.json", *files):
        kind = browser.get(path).headers["content-type"]
        assert kind in ("application/json", "application/problem+json") or kind.endswith("; charset=utf-8"), path
    assert len(files) == 4


def test_scripts_keep_nothing_and_listen_to_nobody(served):
    browser = served.browser("clinician")
    for address in re.findall(r'src="(/static/[^"]+\.js)"', browser.get("/consult").text):
        script = browser.get(address).text
        assert script.startswith('"use strict";')
        for word in ("localStorage", "sessionStorage", "indexedDB", "document.cookie", "postMessage", '"message"'):
            assert word not in script


# SQL, paths, sizes


@pytest.mark.parametrize(
    "text", ["' OR 1=1 --", "1; DROP TABLE cases; --", "x') UNION SELECT name FROM users --", "\0", "%", "é" * 300]
)
def test_sql_in_every_filter(shared, text):
    browser, program = shared.browser(), shared.browser()
    n = shared.base.search(by="t").total
    for query in (
        {"c0": "town", "o0": "=", "w0": text},
        {"c0": text, "o0": "=", "w0": "1"},
        {"c0": "age", "o0": text, "w0": "1"},
        {"order": text},
        {"state": text},
        {"page": text},
    ):
        response = browser.get("/cases", params=query)
        assert response.status_code in (200, 422)
    for query in (
        {"where": f"town={text}"},
        {"where": f"{text}=1"},
        {"order": text},
        {"state": text},
        {"offset": text},
    ):
        response = program.get("/api/v1/cases", params=query)
        assert response.status_code in (200, 403, 422), response.text
        if response.status_code == 200:
            assert response.json()["total"] == 0
    for query in ({"by": text}, {"action": text}, {"case": text}):
        assert browser.get("/audit", params=query).status_code in (200, 422)
    assert browser.submit("/cases/find", case=text).status_code in (404, 422)
    assert shared.base.search(by="t").total == n
    assert shared.base.verify_audit().intact


@pytest.mark.parametrize(
    "path",
    [
        "/static/../app.py",
        "/static/x/..%2f..%2fapp.py",
        "/static/%2e%2e/%2e%2e/etc/passwd",
        "/static//etc/passwd",
        "/..%2f..%2fetc/passwd",
        "/static/x/web.js%00.css",
    ],
)
def test_path_traversal(shared, path):
    response = shared.browser().get(path)
    assert response.status_code == 404
    assert "root:" not in response.text
    assert "import" not in response.text


def test_oversized_bodies(clinic):
    served = clinic(sign_in=False, most_bytes=20_000)
    browser = served.browser()
    assert browser.post("/consult", data={"csrf": "x", "v:town": "x" * 30_000}).status_code == 413
    assert browser.post("/api/v1/answers", json={"values": {"town": "x" * 30_000}}).status_code == 413

    def chunks():
        for _ in range(10):
            yield b'{"values": "' + b"x" * 5_000

    found = browser.post("/api/v1/answers", content=chunks(), headers={"Content-Type": "application/json"})
    assert found.status_code == 413
    assert found.headers["content-type"] == "application/problem+json"
    many = "&".join(f"v{i}=1" for i in range(3_500))
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert browser.post("/consult", content=many[:19_000], headers=headers).status_code in (400, 403)
    deep = "[" * 9_000 + "]" * 9_000
    found = browser.post(
        "/api/v1/answers", content=f'{{"values": {deep}}}', headers={"Content-Type": "application/json"}
    )
    assert found.status_code in (400, 422)


def test_files_are_refused(shared):
    browser = shared.browser()
    assert browser.post("/consult", data={"csrf": "x"}, files={"v:age": b"61"}).status_code == 415


@pytest.fixture
def listening(local, monkeypatch):
    """A real server on a port of its own."""
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.5)
    config = uvicorn.Config(local.app, host="127.0.0.1", port=0, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(10)


def test_slow_bodies(listening):
    with socket.create_connection(("127.0.0.1", listening), timeout=10) as wire:
        wire.sendall(
            b"POST /api/v1/answers HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Content-Type: application/json\r\nContent-Length: 500\r\n\r\n{"
        )
        begin = time.monotonic()
        answer = wire.recv(4096)
        assert time.monotonic() - begin < 5
        assert b" 408 " in answer.partition(b"\r\n")[0]


# Tokens


def test_forged_and_expired_tokens(served, monkeypatch):
    program = served.program("clinician")
    assert program.get("/api/v1/cases").status_code == 200
    real = program.headers["Authorization"]
    for forged in (
        "Bearer",
        "Bearer x",
        real[:-1],
        real + "x",
        real.replace("Bearer", "Basic"),
        "Bearer " + "x" * 5000,
        "Bearer \xff",
    ):
        response = program.get("/api/v1/cases", headers={"Authorization": forged.encode("latin-1")})
        assert response.status_code == 401
        assert response.json()["title"] == "Unauthorized"
    later = people_module.now().replace("20", "30", 1)
    monkeypatch.setattr(people_module, "now", lambda: later)
    assert program.get("/api/v1/cases").status_code == 401


def test_a_token_may_do_no_more_than_its_scope(served):
    secret = served.base.people.new_token("steward", label="read", scope="viewer", days=1, by="steward")
    browser = served.browser()
    headers = {"Authorization": f"Bearer {secret}"}
    assert browser.get("/api/v1/cases", headers=headers).status_code == 200
    assert browser.post("/api/v1/retentions", json={}, headers=headers).status_code == 403
    assert browser.confirmed("/tokens", label="x", scope="steward", days="1").status_code == 401
    viewer = served.browser("viewer")
    assert viewer.confirmed("/tokens", label="x", scope="steward", days="1").status_code == 422


def test_a_cookie_opens_no_api_and_a_token_no_page(served):
    assert served.browser("steward").get("/api/v1/cases").status_code == 401
    assert served.program("steward").get("/people", follow_redirects=False).status_code == 303


def test_others_tokens_cannot_be_revoked(served):
    served.program("steward")
    [token] = served.base.people.tokens("steward")
    assert served.browser("viewer").submit("/tokens/revoke", token=token.id).status_code == 404
    assert served.base.people.tokens("steward") == [token]


# Signing in


def test_names_cannot_be_found_out_by_time(served, monkeypatch):
    """For somebody and for nobody the same work is done: one verification of a hash with the same parameters."""
    seen = []
    verify = passwords._hasher.verify

    class Counting:
        def verify(self, kept, password):
            seen.append(kept.rpartition("$")[0].rpartition("$")[0])
            return verify(kept, password)

        def __getattr__(self, name):
            return getattr(passwords.PasswordHasher(), name)

    monkeypatch.setattr(passwords, "_hasher", Counting())
    answers = [
        served.browser().post("/sign-in", data={"name": name, "password": "wrong password"})
        for name in ("clinician", "nobody at all")
    ]
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert [answer.status_code for answer in answers] == [401, 401]
    pages = [answer.text.replace("clinician", "").replace("nobody at all", "") for answer in answers]
    assert pages[0] == pages[1]


def test_passwords_are_hashed_as_owasp_asks(quick_passwords):
    """Argon2id with at least 19 MiB and two passes; the other tests here hash faster."""
    real, nobody = quick_passwords
    assert nobody.startswith("$argon2id$")
    assert real.type is Type.ID
    assert real.memory_cost >= 19 * 1024
    assert real.time_cost >= 2
    assert real.salt_len >= 16


def test_passwords_cannot_be_tried_for_long(served):
    browser = served.browser()
    found = [browser.post("/sign-in", data={"name": "steward", "password": f"guess {i}"}) for i in range(12)]
    assert [one.status_code for one in found] == [401] * 6 + [429] * 6
    assert int(found[-1].headers["retry-after"]) > 0
    assert browser.post("/sign-in", data={"name": "steward", "password": PASSWORD}).status_code == 429
    assert [entry.details["why"] for entry in served.base.audit(action="refuse")].count("password") == 6


def test_a_link_can_be_used_once(served):
    secret = served.base.people.invite("Dr. Roe", "clinician", by="steward")
    browser = served.browser()
    assert "Dr. Roe" in browser.get(f"/join/{secret}").text
    weak = browser.post(f"/join/{secret}", data={"password": "Dr. Roe Dr. Roe", "again": "Dr. Roe Dr. Roe"})
    assert weak.status_code == 422
    assert browser.post(f"/join/{secret}", data={"password": PASSWORD, "again": PASSWORD}).status_code == 303
    assert browser.get("/worklist").status_code == 200
    assert served.browser().post(f"/join/{secret}", data={"password": PASSWORD, "again": PASSWORD}).status_code == 404


# What is left behind


def test_nobody_sees_a_case_without_a_row_in_the_log(served):
    """Each way to a case's values leaves a row that names who, and the case."""
    browser, program = served.browser("clinician"), served.program("clinician")
    seen = served.base.consult(VALUES, by="clinician")
    ways = {
        "/cases/3": 3,
        f"/consultations/{seen.id}": seen.case_id,
        f"/consult?from={seen.id}": seen.case_id,
        "/cases": None,
        "/worklist": None,
    }
    for path, case in ways.items():
        before = served.base.audit(limit=1)[0].number
        assert browser.get(path).status_code == 200
        new = served.base.audit(after=before)
        assert new
        assert {entry.by for entry in new} == {"clinician"}
        assert case is None or case in {entry.case_id for entry in new}
    for path in ("/answers", "/consultations", "/counterfactuals"):
        before = served.base.audit(limit=1)[0].number
        assert program.post(f"/api/v1{path}", json={"values": VALUES}).status_code in (200, 201)
        assert served.base.audit(after=before)
    for path in ("/cases", "/cases/3", "/cases/3/explanation", "/consultations", f"/consultations/{seen.id}"):
        before = served.base.audit(limit=1)[0].number
        assert program.get(f"/api/v1{path}").status_code == 200
        assert served.base.audit(after=before)
    shown = [entry.details["shown"] for entry in served.base.audit(action="ask")]
    assert shown
    assert all(shown)
    assert browser.submit("/audit").status_code in (403, 405)
    assert served.base.verify_audit().intact


def test_no_values_names_or_secrets_in_logs(served, caplog):
    caplog.set_level(logging.DEBUG, logger="bayespatch.web")
    browser, program = served.browser("clinician"), served.program("clinician")
    secret = program.headers["Authorization"].partition(" ")[2]
    browser.post(
        "/consult",
        data={**FORM, "csrf": browser.csrf(), "action": "save", "v:town": "Schilda", "external_id": "H-7741"},
    )
    browser.post("/consult", data={**FORM, "csrf": browser.csrf(), "action": "ask", "v:bp": "4711"})
    browser.get("/cases?c0=town&o0==&w0=Schilda")
    browser.submit("/cases/find", case="H-7741")
    program.post("/api/v1/consultations", json={"values": {**VALUES, "town": "Schilda", "age": "Schilda"}})
    browser.get(f"/join/{secret}")
    said = caplog.text
    assert "/consult " in said
    assert "/cases " in said
    for text in ("Schilda", "4711", "H-7741", PASSWORD, secret, browser.cookies.get(COOKIE)):
        assert text not in said


def test_a_fault_says_nothing_about_itself(served, monkeypatch, caplog):
    def fail(*_, **__):
        raise RuntimeError("patient Schilda has 4711")

    browser, program = served.browser("clinician"), served.program("clinician")
    monkeypatch.setattr(CaseBase, "search", fail)
    for response in (browser.get("/cases"), program.get("/api/v1/cases")):
        assert response.status_code == 500
        assert "Schilda" not in response.text
        assert "Traceback" not in response.text
    assert "Schilda" not in caplog.text
    assert "RuntimeError" in caplog.text
    assert json.loads(program.get("/api/v1/cases").text)["status"] == 500
