"""Every route × method × role answers as this table says, and no route is missing from it."""

from __future__ import annotations

import pytest
from starlette.routing import Mount, Route
from starlette.testclient import TestClient

from tests.web.conftest import HOST, ROLES, VALUES
from tests.web.record_system import write_settings

# (method, route) -> the least role, "everybody", or "record system": nobody but a record system with its token
TABLE = {
    ("GET", "/"): "everybody",
    ("GET", "/health"): "everybody",
    ("GET", "/metrics"): "token",
    ("GET", "/static/{hash}/{name}"): "everybody",
    ("GET", "/.well-known/security.txt"): "everybody",
    ("GET", "/consult"): "clinician",
    ("POST", "/consult"): "clinician",
    ("POST", "/consult/answer"): "clinician",
    ("GET", "/cases"): "viewer",
    ("POST", "/cases/find"): "clinician",
    ("GET", "/cases/{id:int}"): "viewer",
    ("POST", "/cases/{id:int}/outcome"): "clinician",
    ("POST", "/cases/{id:int}/follow-up"): "clinician",
    ("POST", "/cases/{id:int}/retain"): "steward",
    ("POST", "/cases/{id:int}/forget"): "steward",
    ("POST", "/retain"): "steward",
    ("GET", "/worklist"): "clinician",
    ("GET", "/consultations/{id:int}"): "clinician",
    ("POST", "/consultations/{id:int}/decide"): "clinician",
    ("GET", "/model"): "viewer",
    ("GET", "/monitoring"): "clinician",
    ("POST", "/model/{id:int}/promote"): "steward",
    ("POST", "/model/roll-back"): "steward",
    ("POST", "/model/refit"): "steward",
    ("POST", "/model/refit/cancel"): "steward",
    ("GET", "/sign-in"): "everybody",
    ("POST", "/sign-in"): "everybody",
    ("GET", "/sign-in/provider"): "everybody",
    ("GET", "/sign-in/provider/callback"): "everybody",
    ("POST", "/sign-out"): "viewer",
    ("GET", "/join/{secret}"): "everybody",
    ("POST", "/join/{secret}"): "everybody",
    ("POST", "/language"): "everybody",
    ("GET", "/people"): "steward",
    ("POST", "/people/invite"): "steward",
    ("POST", "/people/change"): "steward",
    ("GET", "/account"): "viewer",
    ("POST", "/account/password"): "viewer",
    ("POST", "/account/session"): "viewer",
    ("POST", "/account/second-factor"): "viewer",
    ("POST", "/account/provider"): "viewer",
    ("GET", "/tokens"): "viewer",
    ("POST", "/tokens"): "viewer",
    ("POST", "/tokens/revoke"): "viewer",
    ("GET", "/audit"): "steward",
    ("GET", "/cds-services"): "everybody",
    ("POST", "/cds-services/{service}"): "record system",
    ("POST", "/cds-services/{service}/feedback"): "record system",
    ("GET", "/smart/launch"): "clinician",
    ("GET", "/smart/callback"): "clinician",
    ("GET", "/api/v1/openapi.json"): "everybody",
    ("GET", "/api/v1/dictionary"): "viewer",
    ("POST", "/api/v1/answers"): "clinician",
    ("POST", "/api/v1/counterfactuals"): "clinician",
    ("POST", "/api/v1/consultations"): "clinician",
    ("GET", "/api/v1/consultations"): "clinician",
    ("GET", "/api/v1/consultations/{number}"): "clinician",
    ("POST", "/api/v1/consultations/{number}/decision"): "clinician",
    ("GET", "/api/v1/cases"): "viewer",
    ("GET", "/api/v1/cases/{number}"): "viewer",
    ("GET", "/api/v1/cases/{number}/explanation"): "clinician",
    ("POST", "/api/v1/cases/{number}/outcome"): "clinician",
    ("GET", "/api/v1/cases/{number}/follow-up"): "clinician",
    ("POST", "/api/v1/cases/{number}/follow-up"): "clinician",
    ("POST", "/api/v1/retentions"): "steward",
    ("POST", "/api/v1/cases/{number}/forget"): "steward",
    ("GET", "/api/v1/models"): "viewer",
    ("POST", "/api/v1/models/{version}/promote"): "steward",
    ("POST", "/api/v1/models/roll-back"): "steward",
    ("GET", "/api/v1/refit"): "steward",
    ("POST", "/api/v1/refit"): "steward",
    ("DELETE", "/api/v1/refit"): "steward",
    ("GET", "/api/v1/drift"): "clinician",
    ("GET", "/api/v1/monitoring"): "clinician",
    ("GET", "/api/v1/audit"): "steward",
    ("GET", "/api/v1/audit/verification"): "steward",
}
BODIES = {
    "/api/v1/answers": {"values": VALUES},
    "/api/v1/counterfactuals": {"values": VALUES},
    "/api/v1/consultations": {"values": VALUES},
    "/api/v1/consultations/{number}/decision": {"decided": "well", "reason": "test"},
    "/api/v1/cases/{number}/outcome": {"outcome": "well"},
    "/api/v1/cases/{number}/follow-up": {"values": {"stay": 4}},
    "/api/v1/retentions": {},
    "/api/v1/cases/{number}/forget": {"reason": "test"},
}
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def walk(routes, prefix=""):
    for route in routes:
        if isinstance(route, Mount):
            yield from walk(route.routes, prefix + route.path)
        elif isinstance(route, Route):
            yield from ((method, prefix + route.path) for method in route.methods - {"HEAD"})
        elif hasattr(route, "original_router"):  # newer versions of FastAPI keep included routers apart
            yield from walk(route.original_router.routes, prefix)
        else:
            raise AssertionError(f"{route!r} is not looked at")


def address(path):
    for name in ("{id:int}", "{number}", "{version}"):
        path = path.replace(name, "99999")
    path = path.replace("{service}", "patient-view")
    return path.replace("{secret}", "forged").replace("{hash}", "x").replace("{name}", "style.css")


def test_no_route_is_missing_from_the_table(shared):
    assert set(walk(shared.app.routes)) == set(TABLE)


@pytest.mark.parametrize("role", [None, *ROLES])
def test_every_route_answers_as_the_table_says(clinic, monkeypatch, tmp_path, role):
    served = clinic(rate=100_000, record_systems=write_settings(tmp_path))
    monkeypatch.setattr(type(served.service), "start_refit", lambda self, by: None)
    browser = served.browser(role)
    csrf = browser.csrf() if role else ""
    program = served.program(role) if role else TestClient(served.app, base_url=HOST, raise_server_exceptions=False)
    wrong = []
    for (method, path), least in TABLE.items():
        if path == "/sign-out":
            continue
        api = path.startswith(("/api/", "/cds-services")) or path == "/metrics"
        if api:
            response = program.request(method, address(path), json=BODIES.get(path))
        else:
            response = browser.request(method, address(path), data={"csrf": csrf} if method == "POST" else None)
        enough = least == "everybody" or (
            role is not None
            and least != "record system"
            and (least == "token" or ROLES.index(role) >= ROLES.index(least))
        )
        if enough:
            right = response.status_code not in (401, 403, 500) or path == "/sign-in"
        elif role is None and not api and method == "GET":
            right = response.status_code == 303 and response.headers["location"].startswith("/sign-in")
        else:
            right = response.status_code == (401 if role is None or least == "record system" else 403)
        if not right:
            wrong.append((method, path, role, response.status_code))
    assert wrong == []


def test_no_other_method_is_answered(shared):
    browser = shared.browser()
    known = set(TABLE)
    paths = {path for _, path in TABLE}
    for path in paths:
        for method in METHODS:
            if (method, path) not in known:
                found = browser.request(method, address(path)).status_code
                assert found in (404, 405), (method, path, found)
