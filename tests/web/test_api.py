"""The REST interface: what programs do, how it refuses, and what happens when too many come."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from bayespatch.casebase import CaseBase
from bayespatch.casebase.refit import learn
from bayespatch.dictionary import Dictionary
from tests.casebase.clinic import DICTIONARY, QUICK
from tests.web.conftest import VALUES

API = "/api/v1"


@pytest.fixture
def program(served):
    return served.program("steward")


def is_problem(response, status):
    said = response.json()
    assert response.status_code == status, said
    assert response.headers["content-type"] == "application/problem+json"
    assert said["status"] == status
    assert said["type"] == "about:blank"
    assert said["detail"].endswith(".")
    return said["detail"]


def test_the_cycle(program):
    about = program.get(f"{API}/dictionary").json()
    assert about["classes"] == {"well": 0, "sick": 1}
    response = program.post(f"{API}/consultations", json={"values": VALUES, "external_id": "H-1"})
    assert response.status_code == 201
    seen = response.json()
    assert program.get(response.headers["location"]).json() == seen
    assert set(seen["explanation"]) >= {"case", "prediction", "opinions", "precedent", "groups", "features"}
    waiting = program.get(f"{API}/consultations", params={"waiting_for": "decision"}).json()
    assert [item["id"] for item in waiting["items"]] == [seen["id"]]
    place = f"{API}/consultations/{seen['id']}/decision"
    decided = program.post(place, json={"decided": "well", "reason": "because"})
    assert decided.status_code == 201
    is_problem(program.post(place, json={"decided": "well", "reason": "because"}), 409)
    outcome = program.post(f"{API}/cases/{seen['case_id']}/outcome", json={"outcome": "sick"})
    assert outcome.json()["outcome"] == 1
    assert program.post(f"{API}/retentions", json={}).json() == {"cases": [seen["case_id"]]}
    assert program.get(f"{API}/cases/{seen['case_id']}").json()["state"] == "past"
    retained = program.get(f"{API}/cases/{seen['case_id']}/explanation").json()
    assert retained["explanation"]["about"]["retained"] == 1  # it is a past case at once
    assert program.get(f"{API}/cases/3/explanation").json()["version"] == 1
    forgotten = program.post(f"{API}/cases/3/forget", json={"reason": "asked for it"}).json()
    assert forgotten["versions"] == [1]
    assert program.get(f"{API}/models").json()["items"][0]["refit_due"]
    assert program.get(f"{API}/drift", params={"every": "all"}).json()["items"][0]["outcomes"] == 1
    assert program.get(f"{API}/audit", params={"case": 3}).json()["items"][0]["action"] == "forget"
    assert program.get(f"{API}/audit/verification").json()["intact"]


def test_explain_keeps_nothing(served, program):
    said = program.post(f"{API}/answers", json={"values": VALUES}).json()
    assert said["explanation"]["neighbors"]
    assert served.base.search(state="open", by="t").total == 0


def test_answers_in_memory_are_for_who_asked_and_go_with_the_past_cases(served, program):
    kept, body = served.service._answers, {"values": VALUES}
    first = program.post(f"{API}/answers", json=body).json()
    assert program.post(f"{API}/answers", json=body).json() == first
    served.program("clinician").post(f"{API}/answers", json=body)
    again = [entry.details.get("again", False) for entry in served.base.audit(action="ask")]
    assert (again, len(kept)) == ([False, True, False], 2)
    shown = first["explanation"]["neighbors"][0]["id"]
    served.base.forget(int(shown), "asked for it", by="steward")
    second = program.post(f"{API}/answers", json=body).json()
    assert shown not in [one["id"] for one in second["explanation"]["neighbors"]]
    assert [answer[1] for answer in kept.values()] == [second["explanation"]]


def test_a_consultation_is_what_the_estimator_explains(served, program):
    """To the last digit, in however many threads; the case base adds the case's number and who voted."""
    seen = program.post(f"{API}/consultations", json={"values": VALUES}).json()["explanation"]
    clf = served.base.model()
    assert clf.n_jobs == 1
    clf.n_jobs = 2
    why = json.loads(json.dumps(clf.explain(VALUES, exclude_self=False, error=served.settings.error).to_dict()))
    why["case"]["id"] = seen["case"]["id"]
    why["about"] |= {"version": 1, "past_cases": 30, "own_visits": 0, "retained": 0, "waiting": 0}
    assert seen == why


def test_what_is_fixed_does_not_change_unless_it_is_asked_for(served, program):
    words = {**DICTIONARY, **{name: {**DICTIONARY[name], "fixed": True} for name in ("age", "bp", "smokes", "town")}}
    served.base.define(Dictionary.from_dict(words), "outcome", by="t")
    assert program.get(f"{API}/dictionary").json()["features"]["age"]["fixed"]
    found = program.post(f"{API}/counterfactuals", json={"values": VALUES}).json()["counterfactual"]
    assert found["changeable"] == ["pain"]
    assert set(found["values"]) <= {"pain"}
    asked = {"values": VALUES, "change": ["age"]}
    assert program.post(f"{API}/counterfactuals", json=asked).json()["counterfactual"]["changeable"] == ["age"]


def test_the_smallest_change(program):
    asked = {"values": VALUES, "change": ["pain", "age"], "most": 2}
    found = program.post(f"{API}/counterfactuals", json=asked).json()["counterfactual"]
    assert set(found["values"]) == set(found["changes"]) <= {"pain", "age"}
    before, after = (found[when]["prediction"]["class"] for when in ("before", "after"))
    assert found["found"] == (before != after)
    answer = program.post(f"{API}/answers", json={"values": {**VALUES, **found["values"]}}).json()
    assert answer["explanation"]["prediction"] == found["after"]["prediction"]
    refused = [({"change": ["height"]}, "no feature 'height'"), ({"change": []}, ""), ({"to": before}, "already")]
    for wrong, text in [*refused, ({"to": "ill"}, "'ill'"), ({"most": 4}, "")]:
        assert text in is_problem(program.post(f"{API}/counterfactuals", json={"values": VALUES, **wrong}), 422)


def test_problems(program):
    assert "no column 'height'" in is_problem(program.post(f"{API}/answers", json={"values": {"height": 3}}), 422)
    assert "outside the possible range" in is_problem(
        program.post(f"{API}/answers", json={"values": {**VALUES, "age": 610}}), 422
    )
    is_problem(program.post(f"{API}/answers", json={"values": VALUES, "more": 1}), 422)
    is_problem(program.post(f"{API}/answers", content=b"{", headers={"Content-Type": "application/json"}), 422)
    is_problem(program.get(f"{API}/cases/99999"), 404)
    is_problem(program.get(f"{API}/nowhere"), 404)
    is_problem(program.put(f"{API}/cases"), 405)
    is_problem(program.get(f"{API}/cases", params={"where": "age ? 3"}), 422)
    is_problem(program.post(f"{API}/models/1/promote"), 409)
    is_problem(program.get(f"{API}/cases", headers={"Authorization": "Bearer x"}), 401)


def test_pages(program):
    first = program.get(f"{API}/cases", params={"limit": 20, "where": "age>=0"})
    assert first.json()["total"] == 30
    onward = first.headers["link"].partition(">")[0].removeprefix("<")
    second = program.get(onward)
    assert "link" not in second.headers
    ids = [case["id"] for page in (first, second) for case in page.json()["items"]]
    assert sorted(ids) == list(range(1, 31))


def test_the_same_key_does_it_once(served, program):
    headers = {"Idempotency-Key": "5e1f"}
    body = {"values": VALUES}
    one, two = (program.post(f"{API}/consultations", json=body, headers=headers).json() for _ in range(2))
    assert one == two
    assert served.base.search(state="open", by="t").total == 1
    other = {"values": {**VALUES, "age": 62}}
    assert "a different request" in is_problem(program.post(f"{API}/consultations", json=other, headers=headers), 409)
    place, said = f"{API}/consultations/{one['id']}/decision", {"decided": "well", "reason": "so"}
    assert (
        program.post(place, json=said, headers=headers).json() == program.post(place, json=said, headers=headers).json()
    )
    place, said = f"{API}/cases/{one['case_id']}/outcome", {"outcome": "well"}
    answers = [program.post(place, json=said, headers=headers) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    log = served.base.audit(by="steward", case=one["case_id"])
    assert [row.action for row in reversed(log)] == ["consult", "read", "decide", "read", "outcome", "read"]
    anybody = served.program("clinician").post(f"{API}/consultations", json=body, headers=headers).json()
    assert anybody["id"] != one["id"], "a key is its owner's"
    assert served.base.verify_audit().intact


def test_the_same_key_at_the_same_moment(served, program):
    send = {"json": {"values": VALUES}, "headers": {"Idempotency-Key": "race"}}
    with program, ThreadPoolExecutor(4) as pool:  # one event loop, as in a server
        found = list(pool.map(lambda _: program.post(f"{API}/consultations", **send), range(4)))
    assert {answer.status_code for answer in found} == {201}
    assert len({answer.json()["id"] for answer in found}) == 1
    assert served.base.search(state="open", by="t").total == 1


def test_too_many_requests(clinic):
    program = clinic(rate=5).program("viewer")
    found = [program.get(f"{API}/models") for _ in range(7)]
    assert [answer.status_code for answer in found] == [200] * 5 + [429] * 2
    assert int(found[-1].headers["retry-after"]) >= 1
    is_problem(found[-1], 429)


def test_a_full_queue_refuses_and_recovers(clinic, monkeypatch):
    served = clinic(sign_in=False, threads=1, waiting=1)
    begun, go_on = threading.Event(), threading.Event()
    ask = CaseBase.ask

    def slow(self, *args, **kwargs):
        begun.set()
        assert go_on.wait(20)
        return ask(self, *args, **kwargs)

    monkeypatch.setattr(CaseBase, "ask", slow)
    program = served.browser()

    def question(age):
        return program.post(f"{API}/answers", json={"values": {**VALUES, "age": age}})

    with program, ThreadPoolExecutor(2) as pool:
        first = pool.submit(question, 50)
        assert begun.wait(20)
        second = pool.submit(question, 51)
        while served.service.queue.pending < 2:
            time.sleep(0.01)
        refused = question(52)
        is_problem(refused, 503)
        assert int(refused.headers["retry-after"]) >= 1
        assert program.get("/health").status_code == 200, "others go on"
        go_on.set()
        assert [one.result().status_code for one in (first, second)] == [200, 200]
        assert question(52).status_code == 200
        assert served.service.queue.pending == 0
        assert served.service.queue.refused == 1


def test_what_takes_too_long_is_given_up(clinic, monkeypatch):
    served = clinic(sign_in=False, seconds=0.2)
    done = threading.Event()
    ask = CaseBase.ask

    def slow(self, *args, **kwargs):
        done.wait(5)
        return ask(self, *args, **kwargs)

    monkeypatch.setattr(CaseBase, "ask", slow)
    with served.browser() as program:
        is_problem(program.post(f"{API}/answers", json={"values": VALUES}), 503)
        assert served.service.queue.pending == 1, "it still holds its thread"
        done.set()
        while served.service.queue.pending:
            time.sleep(0.01)
        assert program.post(f"{API}/answers", json={"values": VALUES}).status_code == 200


def test_a_new_model_is_taken_without_dropping_a_request(served, program):
    version = learn(served.base._database, "steward", {**QUICK, "draws": 12}).version
    seen, stop = [], threading.Event()

    def asking():
        while not stop.is_set():
            seen.append(program.post(f"{API}/consultations", json={"values": VALUES}))

    thread = threading.Thread(target=asking)
    thread.start()
    while len(seen) < 3:
        time.sleep(0.01)
    assert program.post(f"{API}/models/{version}/promote").status_code == 200
    before = len(seen)
    while len(seen) < before + 3:
        time.sleep(0.01)
    stop.set()
    thread.join()
    assert {answer.status_code for answer in seen} == {201}
    versions = [answer.json()["version"] for answer in seen]
    assert versions == sorted(versions)
    assert set(versions) == {1, version}


def test_the_description(program):
    said = program.get(f"{API}/openapi.json").json()
    assert said["openapi"].startswith("3.1")
    assert said["servers"] == [{"url": API}]
    for path, methods in said["paths"].items():
        for method, about in methods.items():
            assert about["summary"], (method, path)
            assert {"401", "403", "422", "503"} <= set(about["responses"]), (method, path)


def test_follow_up_is_recorded_and_listed(program, served):
    parts = {"stay": {"kind": "number", "role": "follow-up"}}
    served.base.define({**DICTIONARY, **parts}, "outcome", by="tester")
    assert list(program.get(f"{API}/dictionary").json()["follow_up"]) == ["stay"]
    place = f"{API}/cases/3/follow-up"
    recorded = program.post(place, json={"values": {"stay": 4}})
    assert recorded.status_code == 201
    assert recorded.json()["values"] == {"stay": 4}
    assert [one["values"] for one in program.get(place).json()["items"]] == [{"stay": 4}]
    assert "is not a number" in is_problem(program.post(place, json={"values": {"stay": "long"}}), 422)
    assert served.program("viewer").get(place).status_code == 403
