"""Random requests to every route, by people of every role and programs, give no fault on either database."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.casebase.clinic import BY, DICTIONARY
from tests.casebase.test_follow_up import RECORDED
from tests.web.conftest import PASSWORD, ROLES
from tests.web.forged import SKIPPED, Forger
from tests.web.record_system import write_settings
from tests.web.test_routes import TABLE

EXAMPLES = int(os.environ.get("EXAMPLES", "200"))  # for each database


def test_no_route_is_left_out(shared):
    assert {(method, path) for method, path, _ in Forger(shared.app, seed=1).routes} == set(TABLE) - SKIPPED


def test_forged_requests_give_no_fault(clinic_on_both, monkeypatch, tmp_path):
    served = clinic_on_both(rate=10**9, record_systems=write_settings(tmp_path))
    served.base.define({**DICTIONARY, **RECORDED}, "outcome", by=BY)
    monkeypatch.setattr(type(served.service), "start_refit", lambda self, by: None)
    forger = Forger(served.app, seed=EXAMPLES)
    browsers = [served.browser(role) for role in ROLES]
    askers = [(browser, browser.csrf()) for browser in browsers]
    askers += [(served.program(role), "") for role in ROLES] + [(served.browser(), "")]
    statuses, faults = Counter(), []
    for _ in range(EXAMPLES):
        asker, csrf = forger.rng.choice(askers)
        method, path, address, headers, body = forger.request(csrf)
        response = asker.request(method, address, content=body, headers=headers)
        statuses[response.status_code] += 1
        deliberate = response.status_code == 503 and "retry-after" in response.headers
        if response.status_code >= 500 and not deliberate:
            faults.append((response.status_code, method, path, address[:200], str(body)[:300]))
    assert faults == []
    assert served.base.verify_audit().intact
    assert sum(n for status, n in statuses.items() if status < 400) > EXAMPLES / 20, statuses


@pytest.mark.parametrize("role", ROLES)
def test_people_still_sign_in_after_forged_requests(clinic, role):
    served = clinic(rate=10**9)
    forger, browser = Forger(served.app, seed=1), served.browser(role)
    for _ in range(20):
        method, _, address, headers, body = forger.request("")
        browser.request(method, address, content=body, headers=headers)
    assert served.browser().post("/sign-in", data={"name": role, "password": PASSWORD}).status_code == 303
