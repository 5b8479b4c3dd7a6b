"""What a viewer may not see cannot be found out: not by filtering, not on the page about the model, not by REST."""

from __future__ import annotations

import pytest

from tests.casebase.clinic import BY, DICTIONARY

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


def test_open_columns_can_be_searched(hidden):
    viewer, n = hidden.browser("viewer"), hidden.base.search([("pain", "=", 1)], by=BY).total
    assert f"{n} cases" in viewer.get("/cases", params={"c0": "pain", "o0": "=", "w0": "typical"}).text
    clinician = hidden.browser("clinician")
    assert clinician.get("/cases", params={"c0": "external_id", "o0": "=", "w0": "P-007"}).text.count("#8</a>") == 1
