"""Monitoring and the rule of promotion on the pages, in the REST interface and for Prometheus."""

from __future__ import annotations

import re

import pytest
from sqlalchemy import select, update

from bayespatch.casebase import base as whole
from bayespatch.casebase.promotion import RecentComparison
from bayespatch.casebase.refit import learn
from bayespatch.casebase.tables import consultations
from bayespatch.web.metrics import Metrics, labelled
from tests.casebase.clinic import BY, DICTIONARY, QUICK
from tests.casebase.test_monitoring import as_clinic, consulted

API = "/api/v1"


@pytest.fixture
def changed(clinic):
    """A clinic whose recent patients come from another town, and are all sick."""
    served = clinic()
    as_clinic(served.base)
    consulted(served.base, 60, outcome=1, town="Trier", p_sick=0.6)
    return served


def test_alarms_are_on_the_page_and_in_the_rest_interface(changed):
    text = changed.browser("clinician").get("/monitoring").text
    assert 'role="alert"' in text
    assert "Column &#39;town&#39;: recent patients differ" in text
    assert "100% of 60 recent outcomes" in text
    assert "too few to tell" in text  # the lag
    found = changed.program("clinician").get(f"{API}/monitoring").json()
    assert (found["consultations"], len(found["alarms"]), found["version"]) == (60, 2, 1)
    assert [one["column"] for one in found["population"] if one["alarm"]] == ["town"]
    assert changed.program("clinician").get(f"{API}/monitoring", params={"days": 0}).status_code == 422


def test_without_alarms_the_page_says_so(local):
    text = local.browser().get("/monitoring").text
    assert "No alarms." in text
    assert 'role="alert"' not in text
    assert "No outcomes in this period." in text


def test_prometheus_gets_the_checks_without_sensitive_columns(changed):
    text = changed.program("viewer").get("/metrics").text
    assert 'bayespatch_alarms{check="population"} 1\n' in text
    assert 'bayespatch_alarms{check="calibration"} 1\n' in text
    assert 'bayespatch_alarms{check="outcome lag"} 0\n' in text
    assert 'bayespatch_population_stability_index{column="age"}' in text
    assert 'column="town"' not in text  # the dictionary calls it sensitive
    assert 'bayespatch_outcomes_observed{class="sick"} 60\n' in text
    assert 'bayespatch_outcomes_expected{class="sick"} 36\n' in text
    assert text.count("# TYPE bayespatch_population_stability_index gauge") == 1
    for line in text.splitlines():
        name, _, number = line.removeprefix("# TYPE ").rpartition(" ")
        assert name
        assert number in ("gauge", "counter", "histogram") or float(number) is not None


def test_a_sensitive_outcome_is_not_in_the_metrics(changed):
    words = {**DICTIONARY, "outcome": {**DICTIONARY["outcome"], "sensitive": True}}
    changed.base.define(words, "outcome", by=BY)
    text = changed.program("viewer").get("/metrics").text
    assert 'bayespatch_alarms{check="calibration"} 1\n' in text
    assert "bayespatch_outcomes" not in text


def test_checks_are_repeated_every_ten_minutes_at_most(changed, monkeypatch):
    program = changed.program("viewer")
    first = program.get("/metrics").text
    consulted(changed.base, 10, seed=3)
    assert "bayespatch_recent_consultations 60\n" in first
    assert "bayespatch_recent_consultations 60\n" in program.get("/metrics").text
    assert len(changed.base.audit(action="monitor")) == 1
    at, gauges = changed.service._monitored
    changed.service._monitored = at - 601, gauges
    assert "bayespatch_recent_consultations 70\n" in program.get("/metrics").text


def test_reading_the_metrics_is_limited_and_logged_with_the_person(clinic, caplog):
    caplog.set_level("INFO", logger="bayespatch.web")
    program = clinic(rate=2).program("viewer")
    assert [program.get("/metrics").status_code for _ in range(3)] == [200, 200, 429]
    assert [record.args["who"] for record in caplog.records if record.args["route"] == "/metrics"] == ["viewer"] * 3


def test_metrics_without_a_model(clinic):
    served = clinic(sign_in=False)
    with served.base._database.unaudited() as connection:
        connection.exec_driver_sql("UPDATE models SET state = 'retired'")
    text = served.browser().get("/metrics").text
    assert "bayespatch_queue_pending 0" in text
    assert "bayespatch_alarms" not in text


def test_labels_are_escaped():
    text = Metrics().text({labelled("x", "class", 'a"b\\c\nd'): 1.0, labelled("x", "class", "e"): 2.0})
    assert text.endswith(
        '# TYPE bayespatch_x gauge\nbayespatch_x{class="a\\"b\\\\c\\nd"} 1\nbayespatch_x{class="e"} 2\n'
    )


def test_a_worse_model_needs_a_reason(served, monkeypatch):
    version = learn(served.base._database, "steward", QUICK).version
    worse = RecentComparison(1, 40, 0.1, 0.2, 0.001)
    monkeypatch.setattr(whole, "compare_recent", lambda database, asked: worse)
    steward, program = served.browser("steward"), served.program("steward")
    refused = steward.submit(f"/model/{version}/promote")
    assert refused.status_code == 409
    assert "is worse than version 1 on recent outcomes (Brier score 0.200 instead of 0.100" in refused.text
    assert program.post(f"{API}/models/{version}/promote").status_code == 409
    assert program.post(f"{API}/models/{version}/promote", json={"reason": ""}).status_code == 409
    assert program.post(f"{API}/models/{version}/promote", json={"why": "x"}).status_code == 422
    assert steward.submit(f"/model/{version}/promote", reason="wrong unit").status_code == 303
    assert served.base.audit(action="promote", limit=1)[0].details["reason"] == "wrong unit"
    served.base.roll_back(by=BY)
    assert program.post(f"{API}/models/{version}/promote", json={"reason": "again"}).json()["state"] == "active"


def test_the_worklist_is_sorted_by_risk(local):
    consulted(local.base, 2, p_sick=0.3)
    consulted(local.base, 2, p_sick=0.9)
    consulted(local.base, 2, p_sick=0.6)
    with local.base._database.unaudited() as connection:
        for row in connection.execute(select(consultations)).all():
            shown = {**row.explanation, "precedent": {"adequate": True}}
            shown["prediction"] = {**shown["prediction"], "class": "well"}
            connection.execute(update(consultations).where(consultations.c.id == row.id).values(explanation=shown))
    browser = local.browser()
    newest, risk = (
        [int(one) for one in re.findall(r'href="/cases/(\d+)"', browser.get(f"/worklist{query}").text)]
        for query in ("", "?risk=sick")
    )
    assert newest == [36, 35, 34, 33, 32, 31]
    assert risk == [34, 33, 36, 35, 32, 31]
    assert "sick 90%" in browser.get("/worklist?risk=sick").text
    assert browser.get("/worklist?risk=dead").status_code == 200  # newest first
    found = browser.get(f"{API}/consultations", params={"risk_of": "sick", "limit": 1}).json()
    assert (found["items"][0]["case_id"], found["total"]) == (34, 6)
    assert browser.get(f"{API}/consultations", params={"risk_of": "dead"}).status_code == 422
