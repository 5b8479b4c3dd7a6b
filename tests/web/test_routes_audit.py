"""Every route × role: the status, and the rows of the audit log that the request leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from generators.routes_page import page
from tests.web.conftest import FORM, PASSWORD, ROLES, VALUES
from tests.web.record_system import RecordSystem, write_settings
from tests.web.test_routes import BODIES, TABLE

PAGE = Path(__file__).parents[2] / "docs" / "routes.md"
CASE, PAST = 31, 3  # an open case, and a past one
FIELDS = {
    "/consult": {**FORM, "action": "save"},
    "/consult/answer": FORM,
    "/cases/{id:int}/outcome": {"outcome": "well"},
    "/cases/{id:int}/forget": {"reason": "test", "sure": "yes"},
    "/consultations/{id:int}/decide": {"decided": "well", "reason": "test"},
    "/people/invite": {"name": "New", "role": "viewer"},
    "/people/change": {"name": "viewer", "action": "role", "role": "viewer"},
    "/tokens": {"label": "x", "scope": "viewer", "days": "1"},
    "/sign-in": {"name": "viewer", "password": PASSWORD},
}

AUDIT = {  # what a steward's request leaves in the log; routes for everybody are below
    ("GET", "/metrics"): (200, ("monitor",)),
    ("GET", "/consult"): (200, ()),
    ("POST", "/consult"): (303, ("consult",)),
    ("POST", "/consult/answer"): (200, ("ask",)),
    ("GET", "/cases"): (200, ("search",)),
    ("POST", "/cases/find"): (404, ()),
    ("GET", "/cases/{id:int}"): (200, ("read",)),
    ("POST", "/cases/{id:int}/outcome"): (303, ("outcome",)),
    ("POST", "/cases/{id:int}/retain"): (409, ()),
    ("POST", "/cases/{id:int}/forget"): (200, ("erase", "forget")),
    ("POST", "/retain"): (303, ("retain",)),
    ("GET", "/worklist"): (200, ("search",)),
    ("GET", "/consultations/{id:int}"): (200, ("read",)),
    ("POST", "/consultations/{id:int}/decide"): (303, ("decide",)),
    ("GET", "/model"): (200, ("drift", "read")),
    ("GET", "/monitoring"): (200, ("monitor",)),
    ("POST", "/model/{id:int}/promote"): (409, ()),
    ("POST", "/model/roll-back"): (409, ()),
    ("POST", "/model/refit"): (303, ()),
    ("POST", "/model/refit/cancel"): (404, ()),
    ("POST", "/sign-out"): (303, ("sign out",)),
    ("GET", "/people"): (200, ()),
    ("POST", "/people/invite"): (200, ("invite",)),
    ("POST", "/people/change"): (303, ("role",)),
    ("GET", "/account"): (200, ()),
    ("POST", "/account/password"): (422, ()),
    ("POST", "/account/session"): (404, ()),
    ("POST", "/account/second-factor"): (422, ()),
    ("POST", "/account/provider"): (422, ()),
    ("GET", "/tokens"): (200, ()),
    ("POST", "/tokens"): (200, ("token",)),
    ("POST", "/tokens/revoke"): (404, ()),
    ("GET", "/audit"): (200, ("audit",)),
    ("POST", "/cds-services/{service}"): (200, ("consult",)),
    ("POST", "/cds-services/{service}/feedback"): (200, ("decide", "read")),
    ("GET", "/smart/launch"): (404, ()),
    ("GET", "/smart/callback"): (404, ()),
    ("GET", "/api/v1/dictionary"): (200, ()),
    ("POST", "/api/v1/answers"): (200, ("ask",)),
    ("POST", "/api/v1/counterfactuals"): (200, ("ask",)),
    ("POST", "/api/v1/consultations"): (201, ("consult",)),
    ("GET", "/api/v1/consultations"): (200, ("search",)),
    ("GET", "/api/v1/consultations/{number}"): (200, ("read",)),
    ("POST", "/api/v1/consultations/{number}/decision"): (201, ("decide",)),
    ("GET", "/api/v1/cases"): (200, ("search",)),
    ("GET", "/api/v1/cases/{number}"): (200, ("read",)),
    ("GET", "/api/v1/cases/{number}/explanation"): (200, ("read",)),
    ("POST", "/api/v1/cases/{number}/outcome"): (201, ("outcome",)),
    ("POST", "/api/v1/retentions"): (201, ("retain",)),
    ("POST", "/api/v1/cases/{number}/forget"): (200, ("erase", "forget")),
    ("GET", "/api/v1/models"): (200, ()),
    ("POST", "/api/v1/models/{version}/promote"): (409, ()),
    ("POST", "/api/v1/models/roll-back"): (409, ()),
    ("GET", "/api/v1/refit"): (200, ()),
    ("POST", "/api/v1/refit"): (202, ()),
    ("DELETE", "/api/v1/refit"): (404, ()),
    ("GET", "/api/v1/drift"): (200, ("drift",)),
    ("GET", "/api/v1/monitoring"): (200, ("monitor",)),
    ("GET", "/api/v1/audit"): (200, ("audit",)),
    ("GET", "/api/v1/audit/verification"): (200, ("audit",)),
    ("POST", "/cases/{id:int}/follow-up"): (422, ()),
    ("GET", "/api/v1/cases/{number}/follow-up"): (200, ("read",)),
    ("POST", "/api/v1/cases/{number}/follow-up"): (422, ()),
}


def is_api(path):
    return path.startswith(("/api/", "/cds-services")) or path == "/metrics"


def address(path, seen):
    number = CASE if path.endswith("/outcome") else PAST
    number = seen if "consultations" in path else 1 if path.startswith(("/model", "/api/v1/models")) else number
    for name in ("{id:int}", "{number}", "{version}"):
        path = path.replace(name, str(number))
    return path.replace("{secret}", "forged").replace("{hash}", "x").replace("{name}", "style.css")


def asked(served, monkeypatch, role, method, path):
    """The status of one request of a role, and the actions in the log that it leaves."""
    seen = served.base.consult(VALUES, by="tester")
    assert seen.case_id == CASE
    monkeypatch.setattr(type(served.service), "start_refit", lambda self, by: None)
    if is_api(path):
        asker, options = served.program(role), {"json": BODIES.get(path)}
    else:
        asker = served.browser(role)
        fields = {"csrf": asker.csrf("/account"), "own_password": PASSWORD, **FIELDS.get(path, {})}
        options = {"data": fields if method == "POST" else None}
    before = served.base.audit(limit=1)[0].number
    status = asker.request(method, address(path, seen.id), **options).status_code
    rows = served.base.audit(after=before, limit=100)
    assert all(row.by in (role, "bayespatch") for row in rows)
    return status, [row.action for row in rows]


def asked_by_record_system(served, path):
    """The same of a request of a record system."""
    system = RecordSystem(served.app)
    card = system.fire().json()["cards"][0] if path.endswith("/feedback") else None
    before = served.base.audit(limit=1)[0].number
    status = (system.fire() if card is None else system.feedback(card)).status_code
    rows = served.base.audit(after=before, limit=100)
    assert all(row.by in ("ehr", "ehr Practitioner/roe") for row in rows)
    return status, [row.action for row in rows]


@pytest.mark.parametrize(("method", "path"), AUDIT)
def test_a_request_leaves_its_rows(clinic, monkeypatch, tmp_path, method, path):
    served = clinic(rate=100_000, record_systems=write_settings(tmp_path))
    if TABLE[method, path] == "record system":
        status, rows = asked_by_record_system(served, path)
    else:
        status, rows = asked(served, monkeypatch, "steward", method, path)
    assert (status, tuple(sorted(set(rows)))) == AUDIT[method, path]


@pytest.mark.parametrize("role", ["viewer", "clinician"])
def test_a_refused_request_leaves_a_row(clinic, role):
    served = clinic(rate=100_000)
    served.service.refusals.most = 10**6
    served.service.refusals.per_second = 10.0**6
    browser, program, wrong = served.browser(role), served.program(role), []
    csrf = browser.csrf("/account")
    for (method, path), least in TABLE.items():
        if least not in ROLES or ROLES.index(role) >= ROLES.index(least):
            continue
        before = served.base.audit(limit=1)[0].number
        if is_api(path):
            response = program.request(method, address(path, 1), json=BODIES.get(path))
        else:
            response = browser.request(method, address(path, 1), data={"csrf": csrf} if method == "POST" else None)
        rows = [(row.action, row.by, row.details["route"]) for row in served.base.audit(after=before)]
        if response.status_code != 403 or rows != [("refuse", role, path)]:
            wrong.append((method, path, response.status_code, rows))
    assert wrong == []


def test_no_route_is_missing():
    assert set(AUDIT) == {route for route, least in TABLE.items() if least != "everybody"}


def test_the_page_is_what_the_generator_writes():
    assert PAGE.read_text(encoding="utf-8") == page(TABLE, {route: rows for route, (_, rows) in AUDIT.items()})
