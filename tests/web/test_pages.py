"""What people do on the pages: consult, change a value, save, decide, record, retain, promote, forget."""

from __future__ import annotations

import re

import pytest

from bayespatch.casebase import CaseBase
from bayespatch.casebase.people import VIEWER, Person
from bayespatch.casebase.refit import learn
from bayespatch.explain import words
from bayespatch.web import Settings, create_app
from bayespatch.web.visibility import shown_case
from tests.casebase.clinic import DICTIONARY, QUICK
from tests.casebase.test_visits import fill, visits
from tests.web.conftest import FORM, VALUES, Browser


def hidden(text):
    return dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', text))


def ask(browser, path="/consult", **fields):
    return browser.post(path, data={"csrf": browser.csrf(), "action": "ask", **FORM, **fields})


def test_without_signing_in_it_listens_on_this_machine_alone():
    with pytest.raises(ValueError, match="without sign-in"):
        Settings("x.db", sign_in=False, host="0.0.0.0")
    with pytest.raises(ValueError, match="sent unencrypted"):
        Settings("x.db", host="0.0.0.0")
    assert Settings("x.db", host="0.0.0.0", proxies="10.0.0.2", hosts=("clinic.example",)).names >= {"clinic.example"}
    assert Settings.from_json(Settings("x.db", hosts=("a", "b")).to_json()) == Settings("x.db", hosts=("a", "b"))


def test_the_form_has_every_column_of_the_dictionary(shared):
    text = shared.browser().get("/consult").text
    for name in FORM:
        assert f'name="{name}"' in text
    assert "usually 18 to 95" in text
    assert "typical" in text
    assert "has_first" not in text


def test_an_answer_is_what_the_model_says(shared):
    version, why = shared.base.ask(VALUES, by="t", error=0.01)
    text = ask(shared.browser()).text.replace("\u2060", "")  # word joiners keep intervals on one line
    assert words.figure(why) in text
    assert words.sentence(words.within(why)) in text
    for part in why["neighbors"]:
        assert f'href="/cases/{part["id"]}"' in text
    assert f"Model version {version}" in text
    assert shared.base.search(state="open", by="t").total == 0, "nothing is kept"


def test_wrong_values_are_named_where_they_stand(shared):
    response = ask(shared.browser(), **{"v:age": "610", "v:bp": "high"})
    assert response.status_code == 422
    assert "610 is outside the possible range, 0 to 120" in response.text
    assert "is not a number" in response.text
    assert response.text.count('aria-invalid="true"') == 2


def test_empty_is_not_known(shared):
    text = ask(shared.browser(), **dict.fromkeys(FORM, "")).text
    assert "Only 0 of 5 findings known" in text
    assert "Adequate precedent" not in text


def test_what_if_without_scripts(shared):
    browser = shared.browser()
    first = hidden(ask(browser).text)
    assert first["has_first"] == "1"
    text = ask(browser, **{**first, "v:pain": "3", "v:age": "30"}).text
    assert "Effect of your changes" in text
    assert re.search(r"<td>61 years</td>\s*<td>30 years</td>", text)
    assert re.search(r"<td>typical</td>\s*<td>none</td>", text)
    shifts = [float(one) for one in re.findall(r'class="n (?:up|down)">([+-][\d.]+)<', text)]
    assert sum(shifts) == pytest.approx(0.0, abs=0.11)
    back = ask(browser, **{**first, "v:pain": "3", "action": "back"}).text
    assert "Effect of your changes" not in back
    anew = ask(browser, **{**first, "v:pain": "3", "action": "first"}).text
    assert hidden(anew)["f:pain"] == "3"


def test_the_points_of_both_opinions_add_up(shared):
    from bayespatch.web.changes import compare

    other = {**VALUES, "age": 30, "pain": 3}
    one, two = (shared.base.ask(values, by="t")[1] for values in (VALUES, other))
    change = compare(shared.base.dictionary, VALUES, other, one, two)
    shift = next(part["shift"] for part in change["classes"] if part["name"] == change["class"])
    assert [value["label"] for value in change["values"]] == ["age", "chest pain"]
    if change["opinions"]:
        assert sum(part["moved"] for part in change["opinions"]) == pytest.approx(shift, abs=1e-9)


def test_what_if_with_scripts(shared):
    browser = shared.browser()
    fields = {"csrf": browser.csrf(), **FORM, **{name.replace("v:", "f:"): value for name, value in FORM.items()}}
    said = browser.post("/consult/answer", data={**fields, "has_first": "1", "v:age": "30"}).json()
    assert "Effect of your changes" in said["html"]
    assert "<html" not in said["html"]
    wrong = browser.post("/consult/answer", data={**fields, "v:age": "x"})
    assert list(wrong.json()["problems"]) == ["v:age"]


def test_what_would_have_to_be_different(local):
    """Only what was chosen changes, the page says what the case base finds, and trying it gives the other answer."""
    browser = local.browser()
    page = ask(browser).text
    assert set(re.findall(r'name="may_change" value="([^"]+)" checked', page)) == {
        "age",
        "pain",
        "bp",
        "smokes",
        "town",
    }
    chosen = {"may_change": ["pain", "bp", "smokes"], "action": "counterfactual"}
    text = ask(browser, **hidden(page), **chosen).text
    _, found = local.base.counterfactual(VALUES, ["pain", "bp", "smokes"], by="t", error=0.01)
    assert found["found"], "otherwise this test shows nothing"
    assert set(found["values"]) <= {"pain", "bp", "smokes"}
    fields = dict(re.findall(r'form="patient" name="c:([^"]+)" value="([^"]*)"', text))
    assert set(fields) == set(found["values"])
    assert set(re.findall(r'name="may_change" value="([^"]+)" checked', text)) == {"pain", "bp", "smokes"}
    again = ask(browser, **hidden(text), **{f"c:{name}": value for name, value in fields.items()}, action="try").text
    assert "Effect of your changes" in again
    before, after = (found[when]["prediction"] for when in ("before", "after"))
    assert before["class"] != after["class"]
    for when in ("before", "after"):
        assert words.figure(found[when]) in again
    asked = [entry.details for entry in local.base.audit(action="ask") if entry.details.get("counterfactual")]
    assert len(asked) == 2
    assert all(details["shown"] for details in asked)


def test_a_counterfactual_of_nothing_is_refused_in_words(shared):
    browser = shared.browser()
    text = ask(browser, has_choice="1", action="counterfactual").text
    assert "No feature may change; choose at least one." in text


def test_saving_twice_keeps_one(local):
    browser = local.browser()
    page = ask(browser).text
    sent = {**hidden(page), "external_id": "H-1", "action": "save"}
    places = {ask(browser, **sent).headers["location"] for _ in range(2)}
    assert len(places) == 1
    assert local.base.search(state="open", by="t").total == 1
    assert ask(browser, **{**sent, "v:age": "62"}).headers["location"] not in places


def test_a_patient_s_life(served, monkeypatch):
    """Consult, override, outcome, retained, refit, promoted, forgotten."""
    doctor, steward = served.browser("clinician"), served.browser("steward")
    place = ask(doctor, action="save", external_id="H-7741").headers["location"]
    seen, _, case = served.base.consultation(int(place.rpartition("/")[2]), by="t")
    assert seen.by == "clinician"
    other = "well" if seen.predicted == "sick" else "sick"
    refused = doctor.submit(f"{place}/decide", decided=other)
    assert refused.status_code == 422
    assert "give a reason for overriding" in refused.text
    assert doctor.submit(f"{place}/decide", decided=other, code="history").status_code == 303
    assert "override" in doctor.get("/worklist?waiting=outcome").text
    assert doctor.submit(f"{place}/decide", decided=other, code="history").status_code == 409
    assert doctor.submit(f"/cases/{case.id}/outcome", outcome="sick").status_code == 303
    assert doctor.submit(f"/cases/{case.id}/outcome", outcome="sick").status_code == 409
    assert steward.submit(f"/cases/{case.id}/retain").status_code == 303
    assert (
        "Prediction for this case from all other cases" in doctor.get(f"/cases/{case.id}").text
    )  # it votes before the refit
    now = doctor.get(ask(doctor, action="save").headers["location"]).text
    assert "31 past cases were compared" in now
    assert "1 of them was retained after the model was fitted" in " ".join(now.split())
    learn(served.base._database, "steward", QUICK)
    assert "offered" in steward.get("/model").text
    assert steward.submit("/model/2/promote").status_code == 303
    assert "Prediction for this case from all other cases" in doctor.get(f"/cases/{case.id}").text
    assert "case 7" not in doctor.submit("/cases/find", case="H-7741").headers["location"]
    unsure = steward.submit(f"/cases/{case.id}/forget", reason="asked for it")
    assert unsure.status_code == 422
    done = steward.confirmed(f"/cases/{case.id}/forget", reason="asked for it", sure="yes")
    assert "was forgotten" in done.text
    assert "The disk space was overwritten" in done.text
    assert doctor.get(place).status_code == 404
    assert "Only its number remains" in doctor.get(f"/cases/{case.id}").text
    assert "refit due" in steward.get("/model").text
    assert steward.submit("/model/roll-back").status_code == 303
    assert served.base.models()[1].state == "active"
    assert "Intact" in steward.get("/audit?verify=1").text


def test_a_consultation_that_named_a_forgotten_case_is_still_shown(local):
    seen = local.base.consult(VALUES, by="t")
    gone = int(seen.explanation["neighbors"][0]["id"])
    local.base.forget(gone, "asked for it", by="t")
    page = local.browser().get(f"/consultations/{seen.id}")
    assert page.status_code == 200
    assert "was forgotten later" in page.text
    assert f'href="/cases/{gone}"' not in page.text


def test_past_cases_are_filtered_sorted_and_paged(shared):
    browser = shared.browser()
    text = browser.get("/cases?c0=age&o0=>=&w0=60&order=age&down=1").text
    ages = [int(age) for age in re.findall(r"<td>(\d+) years</td>", text)]
    expected = shared.base.search([("age", ">=", 60)], state="past", by="t").total
    assert len(ages) == expected
    assert ages == sorted(ages, reverse=True)
    assert browser.get("/cases?c0=age&o0=>=&w0=old").status_code == 422
    assert browser.get("/cases?page=99999999999").status_code == 200


def test_a_viewer_sees_as_little_as_the_dictionary_says(served):
    from bayespatch.dictionary import Dictionary
    from tests.casebase.clinic import DICTIONARY

    words = {**DICTIONARY, "age": {**DICTIONARY["age"], "coarse": 10}}
    served.base.define(Dictionary.from_dict(words), "outcome", by="t")
    viewer, program = served.browser("viewer"), served.program("viewer")
    case = served.base.case(3, by="t")
    low = case.values["age"] // 10 * 10
    for text in (viewer.get("/cases").text, viewer.get("/cases/3").text):
        assert f"{low} to {low + 10} years" in text
        assert "withheld" in text
        assert case.external_id not in text
        assert case.values["town"] not in text
    said = program.get("/api/v1/cases/3").json()
    assert said["values"]["age"] == f"{low} to {low + 10} years"
    assert said["values"]["town"] == "withheld"
    assert said["external_id"] is None
    for query in ("c0=age&o0=>&w0=60", "c0=town&o0==&w0=Ulm", "order=age", "order=external_id"):
        assert viewer.get(f"/cases?{query}").status_code == 403
    for where in ("age>60", "town=Ulm", "external_id=P-003"):
        assert program.get("/api/v1/cases", params={"where": where}).status_code == 403
    assert f'href="/cases/{3}"' in viewer.get("/cases").text
    assert "Prediction for this case from all other cases" not in viewer.get("/cases/3").text


def test_people_are_invited_changed_and_shut_out(served):
    steward = served.browser("steward")
    page = steward.confirmed("/people/invite", name="Dr. Roe", role="clinician").text
    link = re.search(r"/join/([\w-]+)", page)[1]
    served.browser().post(f"/join/{link}", data={"password": "four words in it", "again": "four words in it"})
    assert "Dr. Roe" in steward.get("/people").text
    assert steward.confirmed("/people/change", name="Dr. Roe", action="role", role="viewer").status_code == 303
    assert served.base.people.find("Dr. Roe").role == "viewer"
    assert steward.confirmed("/people/change", name="Dr. Roe", action="disable").status_code == 303
    assert steward.confirmed("/people/change", name="steward", action="disable").status_code == 409
    assert steward.confirmed("/people/change", name="steward", action="role", role="viewer").status_code == 409
    token = steward.confirmed("/tokens", label="monitor", scope="viewer", days="30").text
    secret = re.search(r"bayespatch_[\w-]+", token)[0]
    assert served.browser().get("/metrics", headers={"Authorization": f"Bearer {secret}"}).status_code == 200
    assert secret not in steward.get("/tokens").text


def test_health_and_metrics(local):
    browser = local.browser()
    assert browser.get("/health").json()["status"] == "ok"
    browser.get("/cases/3")
    text = browser.get("/metrics").text
    assert 'bayespatch_requests_total{route="/cases/{id:int}",method="GET",status="200"} 1' in text
    assert "bayespatch_queue_pending 0" in text


def test_static_files_may_be_kept(local):
    browser = local.browser()
    for path in re.findall(r'(?:src|href)="(/static/[^"]+)"', browser.get("/consult").text):
        response = browser.get(path)
        assert response.status_code == 200
        assert "immutable" in response.headers["cache-control"]


def test_follow_up_is_recorded_on_the_page_of_a_case(served):
    doctor = served.browser("clinician")
    assert "Record follow-up" not in doctor.get("/cases/3").text
    parts = {
        "stay": {"kind": "number", "unit": "days", "role": "follow-up"},
        "drug": {"levels": ["<b>aspirin</b>", "none"], "role": "treatment"},
    }
    served.base.define({**DICTIONARY, **parts}, "outcome", by="tester")
    place = "/cases/3/follow-up"
    assert doctor.submit(place, **{"v:stay": "4", "v:drug": "<b>aspirin</b>"}).status_code == 303
    assert doctor.submit(place, **{"v:stay": "5,5", "v:drug": ""}).status_code == 303
    page = doctor.get("/cases/3").text
    assert "5.5 days" in page
    assert "&lt;b&gt;aspirin" in page
    assert "2 recordings in total" in page
    assert doctor.submit(place, **{"v:stay": "long"}).status_code == 422
    assert doctor.submit(place, **{"v:stay": ""}).status_code == 422
    assert "5.5 days" not in served.browser("viewer").get("/cases/3").text
    assert served.browser("viewer").submit(place, **{"v:stay": "4"}).status_code == 403


# Several visits of one patient


@pytest.fixture(scope="module")
def returning(tmp_path_factory):
    """A clinic whose past cases are four visits each of twenty patients."""
    path = tmp_path_factory.mktemp("visits") / "clinic.db"
    with CaseBase.open(path) as base:
        fill(base, visits(), group_column="patient")
    app = create_app(Settings(str(path), sign_in=False))
    yield Browser(app), app.state.service.base
    app.state.service.close()


def of_patient(base, patient):
    return base.search([("patient", "=", patient)], by="t").items


def test_earlier_visits_of_the_patient_have_no_vote(returning):
    browser, base = returning
    earlier = of_patient(base, "P3")
    sent = {"csrf": browser.csrf(), **{f"v:{name}": str(value) for name, value in earlier[0].values.items()}}
    said = "4 earlier visits of this patient were not used. 76 past cases were compared"
    answers = [browser.post("/consult/answer", data={**sent, "patient": who}).json()["html"] for who in ("P3", "P99")]
    assert said in answers[0]
    assert said.partition(".")[0] not in answers[1]
    links = [{f'/cases/{case.id}"' for case in earlier if f'/cases/{case.id}"' in answer} for answer in answers]
    assert not links[0]
    assert links[1]
    page = browser.post("/consult", data={**sent, "patient": "P3", "action": "counterfactual"}).text
    assert said in page
    assert 'name="patient" value="P3"' in page
    place = browser.post("/consult", data={**sent, "patient": "P3", "action": "save"}).headers["location"]
    assert said in browser.get(place).text
    assert len(of_patient(base, "P3")) == 5
    again = browser.get(f"/consult?from={place.rpartition('/')[2]}").text
    assert 'name="patient" value="P3"' in again
    assert said in again


def test_the_same_form_for_another_patient_is_kept_again(returning):
    browser, base = returning
    sent = {"csrf": browser.csrf(), "v:a": "1", "v:b": "2", "key": "k" * 20, "action": "save"}
    places = [browser.post("/consult", data={**sent, "patient": who}).headers["location"] for who in ("Q1", "Q1", "Q2")]
    assert places[0] == places[1] != places[2]
    assert [len(of_patient(base, who)) for who in ("Q1", "Q2")] == [1, 1]


def test_viewers_see_no_patient_id(returning):
    browser, base = returning
    case = of_patient(base, "P5")[0]
    assert '<th scope="row">Patient ID</th><td>P5</td>' in browser.get(f"/cases/{case.id}").text
    assert shown_case(base.definition, case, Person("viewer", VIEWER, None, "", None)).patient is None
