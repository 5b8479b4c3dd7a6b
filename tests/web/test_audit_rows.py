"""Who was refused, and who has read the log, stands in the log; every request in the request log."""

from __future__ import annotations

import io
import json
import logging

import pytest

from bayespatch.web import Settings, app, connections, logs
from tests.web.conftest import HOST, PASSWORD, Browser


def refusals(served, n_before=0):
    return served.base.audit(action="refuse")[: len(served.base.audit(action="refuse")) - n_before]


def test_requests_beyond_ones_role_are_logged(clinic_on_both):
    served = clinic_on_both()
    viewer = served.browser("viewer")
    assert viewer.get("/people").status_code == 403
    assert served.program("viewer").post("/api/v1/retentions", json={}).status_code == 403
    newest, older = refusals(served)
    assert (older.by, older.details) == (
        "viewer",
        {"why": "not allowed", "route": "/people", "method": "GET", "address": "127.0.0.1"},
    )
    assert (newest.by, newest.details["route"]) == ("viewer", "/api/v1/retentions")


def test_forms_without_their_token_are_logged(served):
    steward = served.browser("steward")
    assert steward.post("/retain", data={"csrf": "0" * 64}).status_code == 403
    assert served.browser().post("/sign-in", data={}, headers={"Origin": "https://evil.example"}).status_code == 403
    newest, older = refusals(served)
    assert (older.by, older.details["why"]) == ("steward", "not allowed")
    assert newest.by == "bayespatch"


def test_forged_tokens_are_logged(served):
    browser = served.browser()
    assert browser.get("/api/v1/cases").status_code == 401
    assert refusals(served) == []  # nothing was forged
    assert browser.get("/api/v1/cases", headers={"Authorization": "Bearer forged-secret"}).status_code == 401
    [row] = refusals(served)
    assert (row.details["why"], row.details["address"]) == ("token", "127.0.0.1")
    assert "forged-secret" not in str(row)


def test_failed_sign_ins_are_logged_with_name_and_address(served):
    outsider = Browser(served.app, "203.0.113.9")
    for name in ("clinician", "my secret typed here", "my secret typed here", "nobody"):
        outsider.post("/sign-in", data={"name": name, "password": "wrong"})
    rows = [row.details for row in refusals(served)][::-1]
    assert {row["address"] for row in rows} == {"203.0.113.9"}
    assert rows[0]["person"] == "clinician"
    assert "secret" not in str(rows)
    assert rows[1]["name_hash"] == rows[2]["name_hash"] != rows[3]["name_hash"]


def test_throttling_is_logged(served):
    browser = served.browser()
    for _ in range(7):
        browser.post("/sign-in", data={"name": "clinician", "password": "wrong"})
    assert [row.details["why"] for row in refusals(served)] == ["throttled", *["password"] * 6]


def test_a_flood_of_refusals_does_not_fill_the_log(served):
    browser = served.browser()
    for _ in range(200):
        browser.get("/api/v1/cases", headers={"Authorization": "Bearer forged"})
    assert 20 <= len(served.base.audit(action="refuse", limit=1000)) <= 25
    other = Browser(served.app, "203.0.113.9")
    other.get("/api/v1/cases", headers={"Authorization": "Bearer forged"})
    assert refusals(served)[0].details["address"] == "203.0.113.9"


@pytest.mark.parametrize("path", ["/audit?case=3", "/audit?verify=1&case=3"])
def test_reading_the_log_is_logged(clinic_on_both, path):
    served = clinic_on_both()
    assert served.browser("steward").get(path).status_code == 200
    row = served.base.audit(limit=1)[0]
    assert (row.by, row.action, row.details["chosen"]) == ("steward", "audit", {"case": 3})
    assert row.details["verified"] is ("verify" in path)


def test_reading_the_log_by_rest_is_logged(served):
    program = served.program("steward")
    program.get("/api/v1/audit", params={"by": "viewer"})
    row = served.base.audit(limit=1)[0]
    assert (row.action, row.details["chosen"]) == ("audit", {"by": "viewer"})
    program.get("/api/v1/audit/verification")
    assert served.base.audit(limit=1)[0].details == {"chosen": {}, "verified": True}


def test_a_collector_goes_on_where_it_was(served):
    program = served.program("steward")
    first = program.get("/api/v1/audit", params={"after": 1, "limit": 2}).json()["items"]
    assert [row["number"] for row in first] == [2, 3]
    more = program.get("/api/v1/audit", params={"after": 3, "limit": 2}).json()["items"]
    assert [row["number"] for row in more] == [4, 5]


def test_the_request_log_has_the_address(served, caplog):
    caplog.set_level(logging.INFO, logger="bayespatch.web")
    Browser(served.app, "203.0.113.9").get("/cases?c0=town&o0==&w0=Ulm")
    line = caplog.messages[-1]
    assert line.endswith("- 203.0.113.9")
    assert "Ulm" not in line


def test_nobody_states_an_address_of_their_own(served):
    """Headers of proxies do not count; uvicorn reads those of the proxy that is named."""
    said = {"X-Forwarded-For": "203.0.113.9", "X-Real-IP": "203.0.113.9", "Forwarded": "for=203.0.113.9"}
    browser = Browser(served.app, "198.51.100.7")
    browser.post("/sign-in", data={"name": "viewer", "password": "wrong"}, headers=said)
    assert refusals(served)[0].details["address"] == "198.51.100.7"


@pytest.mark.parametrize(("proxies", "options"), [("", (False, None)), ("10.0.0.2", (True, "10.0.0.2"))])
def test_the_named_proxy_alone_is_trusted(monkeypatch, proxies, options):
    given = {}
    monkeypatch.setattr(app.uvicorn, "run", lambda *_, **more: given.update(more))
    monkeypatch.setattr(app, "configure", lambda _: None)
    monkeypatch.setattr(app, "create_app", lambda _: None)
    app.serve(Settings("clinic.db", proxies=proxies))
    assert (given["proxy_headers"], given["forwarded_allow_ips"]) == options
    connections.trust("")


def test_a_setting_chooses_json_lines(monkeypatch):
    formats = []
    monkeypatch.setattr(logging, "basicConfig", lambda **options: formats.append(options["handlers"][0].formatter))
    for json_lines in (True, False):
        logs.configure(json_lines)
    assert [isinstance(one, logs.JsonLines) for one in formats] == [True, False]


def test_the_request_log_as_json_lines(served):
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.JsonLines())
    log = logging.getLogger("bayespatch.web")
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        served.browser("clinician").get("/cases")
        log.error("broken\nline %s", "\x1b[31m")
    finally:
        log.removeHandler(handler)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["route"] for line in lines[:-1]] == ["/sign-in", "/cases"]
    assert {key: lines[1][key] for key in ("status", "who", "address", "method", "level")} == {
        "status": 200,
        "who": "clinician",
        "address": "127.0.0.1",
        "method": "GET",
        "level": "INFO",
    }
    assert lines[1]["time"].endswith("Z")
    assert HOST not in stream.getvalue()
    assert PASSWORD not in stream.getvalue()
    assert len(lines) == 3, "a line break in a message breaks no line"
