"""What a viewer may not see cannot be found out: not by filtering, not on the page about the model, not by REST."""

from __future__ import annotations

import pytest

from bayespatch.casebase.cases import read_definition
from bayespatch.casebase.people import Person
from bayespatch.casebase.refit import learn
from bayespatch.dictionary import Dictionary
from bayespatch.web.refusals import Refusal
from bayespatch.web.visibility import check_column
from tests.casebase.clinic import BY, DICTIONARY, QUICK

HIDDEN = {**DICTIONARY, "age": {**DICTIONARY["age"], "coarse": 10}, "bp": {**DICTIONARY["bp"], "sensitive": True}}


@pytest.fixture
def hidden(clinic_on_both):
    """A clinic in which ages are coarse, and towns and blood pressures are sensitive."""
    served = clinic_on_both()
    served.base.define(HIDDEN, "outcome", by=BY)
    return served


@pytest.mark.parametrize(
    ("column", "operator", "value"),
    [
        ("town", "=", "Ulm"),
        (" town", "=", "Ulm"),
        ("town ", "=", "Ulm"),
        ("to", "wn=", "Ulm"),
        ("town=Ul", "", "m"),
        ("external", "_id=", "P-007"),
        ("external_id=P-0", "", "07"),
        (" external_id", "=", "P-007"),
        ("age", ">", "50"),
        (" age", ">", "50"),
        ("\tage", ">=", "50"),
        ("ag", "e<", "50"),
        ("entered_by ", "=", "tester"),
    ],
)
def test_hidden_columns_cannot_be_searched(hidden, column, operator, value):
    viewer = hidden.browser("viewer")
    response = viewer.get("/cases", params={"c0": column, "o0": operator, "w0": value})
    assert response.status_code in (403, 422)
    assert 'href="/cases/' not in response.text
    where = {"where": f"{column}{operator}{value}"}
    assert hidden.program("viewer").get("/api/v1/cases", params=where).status_code in (403, 422)


@pytest.mark.parametrize("column", ["town", " town", "age", " age", "external_id", "outcome_at", "bp desc"])
def test_hidden_columns_cannot_be_sorted_by(hidden, column):
    assert hidden.browser("viewer").get("/cases", params={"order": column}).status_code in (403, 422)
    assert hidden.program("viewer").get("/api/v1/cases", params={"order": column}).status_code in (403, 422)


@pytest.mark.parametrize("name", ["id", "outcome"])
def test_hidden_features_may_be_called_like_other_columns(name):
    """Searches look for a feature first."""
    entries = {name: {"kind": "number", "sensitive": True}, "relapse": {"levels": [0, 1]}}
    definition = read_definition(Dictionary.from_dict(entries), "relapse")
    check_column(definition, Person("roe", "clinician", None, "", None), name)
    viewer = Person("guest", "viewer", None, "", None)
    check_column(definition, viewer, "relapse")
    with pytest.raises(Refusal, match="You may not filter or sort"):
        check_column(definition, viewer, name)


def test_nobody_is_named_to_a_viewer(hidden):
    base = hidden.base
    seen = base.consult({"age": 61, "pain": 1, "bp": 130, "smokes": True, "town": "Ulm"}, by="Dr. Roe", patient="P-1")
    base.outcome(seen.case_id, "sick", by="Dr. Roe")
    base.retain([seen.case_id], by=BY)
    program = hidden.program("viewer")
    items = [*program.get("/api/v1/cases").json()["items"], program.get(f"/api/v1/cases/{seen.case_id}").json()]
    names = ("external_id", "patient", "entered_by", "outcome_by")
    assert {tuple(one[name] for name in names) for one in items} == {(None, None, "", None)}
    viewer = hidden.browser("viewer")
    for text in (viewer.get("/cases").text, viewer.get(f"/cases/{seen.case_id}").text, viewer.get("/cases/3").text):
        assert not [name for name in ("P-1", "P-002", "Dr. Roe") if name in text]


def test_open_columns_can_be_searched(hidden):
    viewer, n = hidden.browser("viewer"), hidden.base.search([("pain", "=", 1)], by=BY).total
    assert f"{n} cases" in viewer.get("/cases", params={"c0": "pain", "o0": "=", "w0": "typical"}).text
    clinician = hidden.browser("clinician")
    assert clinician.get("/cases", params={"c0": "external_id", "o0": "=", "w0": "P-007"}).text.count("#8</a>") == 1


# The page about the model


def test_the_report_hides_what_the_dictionary_hides(hidden):
    viewer, clinician = (hidden.browser(role).get("/model").text for role in ("viewer", "clinician"))
    overview = hidden.base.model().overview()
    for feature in overview.features:
        texts = [text for text in feature.values if any(mark.isdigit() for mark in text)]
        if feature.name in ("age", "bp"):
            assert texts
            assert all(escaped(text) in clinician for text in texts)
            assert not [text for text in texts if escaped(text) in viewer]
    groups = [group for group in overview.subgroups if group.feature in ("town", "age", "bp", "blood pressure")]
    assert {group.feature for group in groups} >= {"town"}
    assert all(f"<td>{escaped(group.value)}</td>" in clinician for group in groups)
    assert not [group for group in groups if f"<td>{escaped(group.value)}</td>" in viewer]
    assert "<td>typical</td>" in viewer, "an open column makes subgroups"
    assert 'href="/cases/' in clinician
    assert 'href="/cases/' not in viewer
    assert "Ulm" not in viewer


def escaped(text):
    from markupsafe import escape

    return str(escape(text))


def test_the_report_is_audited(hidden):
    for role, shows in (("viewer", False), ("clinician", True)):
        hidden.browser(role).get("/model")
        [entry] = [one for one in hidden.base.audit(by=role, action="read") if "report" in one.details]
        assert bool(entry.details["shown"]) is shows


def test_comparisons_of_models_name_no_case(hidden):
    learn(hidden.base._database, "steward", {**QUICK, "windows": "20%"})
    seen, all_of_it = (hidden.program(role).get("/api/v1/models").json()["items"] for role in ("viewer", "clinician"))
    assert [model["metrics"] for model in seen] == [None, None]
    assert all_of_it[0]["metrics"]["both"]["changes"] is not None
    assert 'href="/cases/' not in hidden.browser("viewer").get("/model").text


# Patients who are still being treated


def test_viewers_see_no_open_case(hidden):
    seen = hidden.base.consult({"age": 61, "pain": 1, "bp": 130.5, "smokes": True, "town": "Ulm"}, by=BY)
    viewer, program = hidden.browser("viewer"), hidden.program("viewer")
    for state in ("open", "any", "withdrawn", "nonsense"):
        found = viewer.get("/cases", params={"state": state})
        assert found.status_code == 403
        assert f"/cases/{seen.case_id}" not in found.text
    assert program.get("/api/v1/cases", params={"state": "open"}).status_code == 403
    assert program.get("/api/v1/cases").json()["total"] == 30
    missing = [viewer.get(f"/cases/{number}") for number in (seen.case_id, 99999)]
    assert [one.status_code for one in missing] == [404, 404]
    assert missing[0].text.replace(f"case {seen.case_id};", "case 99999;") == missing[1].text
    assert program.get(f"/api/v1/cases/{seen.case_id}").status_code == 404
    assert program.get("/api/v1/cases/3").status_code == 200
    clinician = hidden.program("clinician")
    assert clinician.get("/api/v1/cases", params={"state": "open"}).json()["total"] == 1
    assert clinician.get(f"/api/v1/cases/{seen.case_id}").status_code == 200


# A sensitive outcome


@pytest.fixture
def secret(clinic_on_both):
    """A clinic in which the outcome is sensitive."""
    served = clinic_on_both()
    served.base.define({**HIDDEN, "outcome": {**DICTIONARY["outcome"], "sensitive": True}}, "outcome", by=BY)
    return served


def test_a_sensitive_outcome_is_withheld(secret):
    viewer, program = secret.browser("viewer"), secret.program("viewer")
    pages = [viewer.get("/cases").text, viewer.get("/cases/3").text]
    for page in pages:
        assert "withheld" in page
        assert "<td>sick</td>" not in page
        assert "<td>well</td>" not in page
        assert "<strong>sick" not in page
        assert "<strong>well" not in page
    items = [*program.get("/api/v1/cases").json()["items"], program.get("/api/v1/cases/3").json()]
    assert {(one["outcome"], one["outcome_at"]) for one in items} == {("withheld", None)}
    assert {one["outcome"] for one in secret.program("clinician").get("/api/v1/cases").json()["items"]} == {0, 1}


def test_a_sensitive_outcome_cannot_be_searched(secret):
    viewer, program = secret.browser("viewer"), secret.program("viewer")
    assert viewer.get("/cases", params={"c0": "outcome", "o0": "=", "w0": "sick"}).status_code == 403
    assert viewer.get("/cases", params={"order": "outcome"}).status_code == 403
    assert program.get("/api/v1/cases", params={"where": "outcome=sick"}).status_code == 403
    assert program.get("/api/v1/cases", params={"order": "outcome"}).status_code == 403


def test_an_open_outcome_can_be_searched(hidden):
    assert hidden.browser("viewer").get("/cases", params={"c0": "outcome", "o0": "=", "w0": "sick"}).status_code == 200
