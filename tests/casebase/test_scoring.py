"""Scoring admissions: all or none, each only if it changed, on both databases."""

import os
import random

import pytest

from bayespatch.casebase import CaseBaseError, consultations
from bayespatch.casebase.refit import learn
from bayespatch.casebase.scoring import Admission
from bayespatch.dictionary import DictionaryError
from tests.casebase.clinic import BY, QUICK, patient
from tests.casebase.invariants import check
from tests.casebase.test_database import in_a_process


def today(n, seed=1, **changes):
    rng = random.Random(seed)
    return [Admission(f"A-{i}", {**patient(rng), **changes}, f"patient {i}") for i in range(n)]


def test_a_run_that_is_repeated_stores_nothing(base):
    done = base.score(today(4), by="ward")
    assert (done.version, done.new, done.updated, done.unchanged, done.closed) == (1, (31, 32, 33, 34), (), 0, 0)
    page = base.worklist(by=BY)
    assert [item.external_id for item in page.items] == ["A-3", "A-2", "A-1", "A-0"]
    assert {item.waiting_for for item in page.items} == {"decision"}
    [(seen, _)] = base.consultations("A-2", by=BY)
    assert seen.explanation["case"]["id"] == "33"
    alone = base.ask(today(4)[2].values, by=BY)[1]
    assert seen.explanation["prediction"]["probabilities"] == pytest.approx(alone["prediction"]["probabilities"])
    again = base.score(today(4), by="ward")
    assert (again.new, again.updated, again.unchanged) == ((), (), 4)
    assert len(base.consultations("A-2", by=BY)) == 1
    assert [row.details for row in base.audit(action="score")] == [
        {"version": 1, "new": 0, "updated": 0, "unchanged": 4, "closed": 0},
        {"version": 1, "new": 4, "updated": 0, "unchanged": 0, "closed": 0},
    ]
    assert {row.by for row in base.audit(action="consult")} == {"ward"}
    check(base)


def test_what_changed_is_scored_again_and_what_is_closed_is_left_alone(base):
    base.score(today(5), by="ward")
    base.outcome("A-0", "sick", by="registry")
    base.outcome("A-1", "sick", by="registry")
    base.retain(["A-1"], by="registry")
    base.decide(base.consultations("A-2", by=BY)[0][0].id, "sick", by="Dr. Roe", reason="seen")
    base.decide(base.consultations("A-3", by=BY)[0][0].id, "sick", by="Dr. Roe", reason="seen")
    rows = today(5)
    rows[3].values["bp"] = 151.5
    done = base.score(rows, by="ward")
    assert (done.new, done.updated, done.unchanged, done.closed) == ((), (34,), 2, 2)
    waiting = [item.external_id for item in base.worklist(by=BY, waiting_for="decision").items]
    assert waiting == ["A-3", "A-4"]  # new values ask for a new decision
    version = learn(base._database, BY, QUICK).version
    base.promote(version, by=BY)
    done = base.score(rows, by="ward")
    assert (done.version, done.updated, done.unchanged) == (version, (34, 35), 1)  # A-2 is decided
    assert base.verify_audit().intact


def test_a_case_that_a_person_entered_is_the_same_case(base):
    values = today(1)[0].values
    seen = base.consult(values, by="Dr. Roe", external_id="A-0", patient="patient 0")
    assert base.score(today(1), by="ward").unchanged == 1
    with pytest.raises(CaseBaseError, match="admission 'A-0' is case 31 of another patient"):
        base.score([Admission("A-0", values, "somebody else")], by="ward")
    assert len(base.consultations(seen.case_id, by=BY)) == 1


def test_past_visits_of_the_patient_do_not_vote(base):
    first = Admission("A-1", today(1)[0].values, "A")
    base.score([first], by="ward")
    base.outcome("A-1", "sick", by="registry")
    base.retain(by="registry")
    base.score([Admission("A-2", first.values, "A"), Admission("B-1", first.values, "B")], by="ward")
    own, other = (base.consultations(name, by=BY)[0][0].explanation["about"] for name in ("A-2", "B-1"))
    assert (own["own_visits"], own["past_cases"]) == (1, 30)
    assert (other["own_visits"], other["past_cases"]) == (0, 31)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ([Admission("A-1", {"age": 610})], DictionaryError, "admission 'A-1': column 'pain' has no value"),
        ([Admission("", {})], CaseBaseError, "external id '' is empty"),
        (today(1) + today(1), CaseBaseError, "admission 'A-0' occurs 2 times"),
    ],
)
def test_what_is_refused_changes_nothing(sqlite_places, wrong, error, message):
    with sqlite_places.open(sqlite_places.copy()) as base:
        n = base.verify_audit().n_entries
        with pytest.raises(error, match=message):
            base.score([*today(1, seed=2)[:0], *wrong], by="ward")
        assert base.verify_audit().n_entries == n
        assert base.score([], by="ward").unchanged == 0


def test_a_model_that_is_promoted_meanwhile_scores_everybody(sqlite_places, monkeypatch):
    with sqlite_places.open(sqlite_places.copy()) as base:
        version = learn(base._database, BY, QUICK).version
        explain = consultations.explain

        def promoting(*args):
            if base.models()[0].state == "offered":
                base.promote(version, by=BY)
            return explain(*args)

        monkeypatch.setattr(consultations, "explain", promoting)
        assert base.score(today(3), by="ward").version == version
        assert {base.consultations(one, by=BY)[0][0].version for one in ("A-0", "A-1", "A-2")} == {version}


def test_two_runs_at_once_store_each_admission_once(base, places):
    url = base._database.url.render_as_string(hide_password=False).replace("+psycopg", "")

    def work():
        with places.open(url) as other:
            other.score(today(6), by="other")

    child, _ = in_a_process(work), base.score(today(6), by="ward")
    _, status = os.waitpid(child, 0)
    assert status == 0
    page = base.worklist(by=BY)
    assert page.total == 6
    assert all(len(base.consultations(item.case_id, by=BY)) == 1 for item in page.items)
    check(base)


def test_a_run_that_fails_half_way_stores_nothing(sqlite_places, monkeypatch):
    with sqlite_places.open(sqlite_places.copy()) as base:
        store, n = consultations.store, []

        def failing(*args):
            n.append(1)
            if len(n) == 3:
                raise OSError("the power is gone")
            return store(*args)

        monkeypatch.setattr(consultations, "store", failing)
        with pytest.raises(OSError, match="the power is gone"):
            base.score(today(5), by="ward")
        assert base.worklist(by=BY).total == 0
        assert base.score(today(5), by="ward").new == (31, 32, 33, 34, 35)


def test_the_worklist_by_risk(base):
    base.score(today(6), by="ward")
    page = base.worklist(by=BY, risk_of="sick")
    risks = [item.probabilities["sick"] for item in page.items]
    assert risks == sorted(risks, reverse=True)
    assert len(set(risks)) > 2
    second = base.worklist(by=BY, risk_of="sick", offset=3, limit=2)
    assert [item.probabilities["sick"] for item in second.items] == risks[3:5]
    with pytest.raises(CaseBaseError, match="risk_of='dead' is not a class; choose one of well, sick"):
        base.worklist(by=BY, risk_of="dead")
