"""Several visits of one patient: they do not vote on each other, and they are forgotten together."""

from __future__ import annotations

import shutil

import numpy as np
import pandas as pd
import pytest
from sqlalchemy import text

from bayespatch.casebase import CaseBase
from bayespatch.casebase.errors import CaseBaseError, ConflictError
from bayespatch.casebase.refit import learn
from bayespatch.casebase.visits import groups_of, without_votes
from tests.casebase.clinic import BY

QUICK = {"hyper": {}, "chains": 2, "draws": 20, "warmup": 20, "n_jobs": 1}
DICTIONARY = {
    "a": {"kind": "number"},
    "b": {"kind": "number"},
    "outcome": {"levels": ["sick", "well"]},
}


def visits(n_patients: int = 20, each: int = 4, seed: int = 0) -> pd.DataFrame:
    """Nearly identical visits: the nearest past cases are the patient's own."""
    rng = np.random.default_rng(seed)
    rows = []
    for patient in range(n_patients):
        place = rng.uniform(-10, 10, 2)
        outcome = "sick" if place[0] > 0 else "well"
        rows += [[f"P{patient}", *(place + rng.normal(size=2) * 0.01).round(4), outcome] for _ in range(each)]
    return pd.DataFrame(rows, columns=["patient", "a", "b", "outcome"])


def fill(base, table, **options):
    base.define(DICTIONARY, "outcome", by=BY)
    base.import_cases(table, by=BY, **options)
    base.promote(learn(base._database, BY, QUICK).version, by=BY)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    path = tmp_path_factory.mktemp("visits") / "clinic.db"
    with CaseBase.open(path) as made:
        fill(made, visits(), group_column="patient")
    return path


@pytest.fixture
def base(filled, tmp_path):
    path = shutil.copy(filled, tmp_path / "clinic.db")
    with CaseBase.open(path) as made:
        yield made


def ids_of(base, patient):
    return {case.id for case in base.search([("patient", "=", patient)], by=BY).items}


def named(shown):
    parts = [*shown["neighbors"], *(group["closest"] for group in shown["groups"] if group["closest"])]
    return {int(part["id"]) for part in parts}


def like(base, case):
    return dict(base.case(case, by=BY).values)


def test_visits_do_not_vote_on_each_other(base):
    own = ids_of(base, "P3")
    assert len(own) == 4
    case = min(own)
    assert not named(base.explain_past(case, by=BY)) & own
    anyone, same = (base.ask(like(base, case), by=BY, patient=patient)[1] for patient in (None, "P3"))
    assert not named(same) & own
    assert anyone["prediction"]["probabilities"] != same["prediction"]["probabilities"]
    whole = base.model()
    fitted = without_votes(whole, sorted(own)).fitted_
    assert fitted.importance is whole.fitted_.importance  # not measured again for each patient
    assert fitted.subgroups is whole.fitted_.subgroups
    assert {int(fitted.ids[row]) for row in fitted.parents} == set(range(1, 81)) - own
    assert np.isfinite(fitted.posterior.log_weights).all()
    assert not named(base.consult(like(base, case), by=BY, patient="P3").explanation) & own
    _, found = base.counterfactual(like(base, case), by=BY, patient="P3")
    assert not (named(found["before"]) | named(found["after"])) & own
    for other, _ in base.neighbor_of(case, by=BY):
        assert other not in own


def test_a_refit_knows_the_visits(base):
    fitted = base.model().fitted_
    assert len(set(fitted.groups.tolist())) == 20
    assert groups_of([None, None]) is None


def test_on_postgresql(places):
    with CaseBase.open(places.empty()) as made:
        fill(made, visits(8, 3), group_column="patient")
        own = ids_of(made, "P3")
        assert not named(made.ask(like(made, min(own)), by=BY, patient="P3")[1]) & own
        assert {*made.forget(min(own), "asked for it", by=BY).visits} == own - {min(own)}
        assert made.verify_audit().intact


def test_a_visit_that_was_retained_joins_the_others(base):
    own = ids_of(base, "P3")
    seen = base.consult(like(base, min(own)), by=BY, patient="P3")
    base.outcome(seen.case_id, "sick", by=BY)
    base.retain([seen.case_id], by=BY)
    assert ids_of(base, "P3") == own | {seen.case_id}
    assert not named(base.explain_past(seen.case_id, by=BY)) & own
    assert seen.case_id not in named(base.explain_past(min(own), by=BY))
    assert seen.case_id not in named(base.ask(like(base, min(own)), by=BY, patient="P3")[1])
    fitted = base.model().fitted_
    assert str(seen.case_id) in {fitted.ids[row] for row in fitted.parents}
    numbers = {fitted.groups[fitted.ids.index(str(case))] for case in (*own, seen.case_id)}
    assert len(numbers) == 1


def test_a_new_patient_comes_twice(base):
    values = {"a": 500.0, "b": 500.0}
    cases = []
    for outcome in ("sick", "sick"):
        seen = base.consult(values, by=BY, patient="new")
        assert not set(cases) & named(seen.explanation)
        base.outcome(seen.case_id, outcome, by=BY)
        base.retain([seen.case_id], by=BY)
        cases.append(seen.case_id)
    assert cases[1] not in named(base.explain_past(cases[0], by=BY))
    assert cases[0] not in named(base.explain_past(cases[1], by=BY))


def test_a_case_that_comes_again_keeps_its_patient(base):
    seen = base.consult({"a": 1.0, "b": 1.0}, by=BY, patient="P3")
    again = base.consult(like(base, min(ids_of(base, "P3"))), by=BY, case=seen.case_id)
    assert not named(again.explanation) & ids_of(base, "P3")
    with pytest.raises(ConflictError, match="belongs to a different patient"):
        base.consult({"a": 1.0, "b": 1.0}, by=BY, case=seen.case_id, patient="P4")


def test_a_patient_is_forgotten_with_all_visits(base):
    own = ids_of(base, "P3")
    seen = base.consult({"a": 1.0, "b": 1.0}, by=BY, patient="P3")
    done = base.forget(min(own), "asked for it", by=BY)
    assert {done.case_id, *done.visits} == own | {seen.case_id}
    assert ids_of(base, "P3") == set()
    assert len(base.model().fitted_.x) == 76
    assert all(base.case(case, by=BY).values is None for case in own)
    assert base.verify_audit().intact


def test_a_patient_changed_outside_of_the_log_is_found(base):
    with base._database.unaudited() as connection:
        connection.execute(text("UPDATE cases SET patient = 'P4' WHERE id = 3"))
    assert base.verify_audit().problems


def test_names_of_patients_are_checked(base):
    for wrong in ("", " ", "x" * 201, "a\nb"):
        with pytest.raises(CaseBaseError, match="patient"):
            base.consult({"a": 1.0, "b": 1.0}, by=BY, patient=wrong)
    table = visits(2, 2).assign(patient=["A\n1", "A", "B", "B"])
    with pytest.raises(CaseBaseError, match="row 1, patient"):
        base.import_cases(table, by=BY, group_column="patient")
    with pytest.raises(CaseBaseError, match="group_column='nobody' is not a column"):
        base.import_cases(table, by=BY, group_column="nobody")


def test_a_refit_that_samples_neighbors_is_refused(base):
    with pytest.raises(CaseBaseError, match="groups= needs closed-form votes"):
        learn(base._database, BY, {**QUICK, "votes": "sampled"})
