"""Retained cases vote at once: exactly, in every process, after a restart, and no more once they are forgotten."""

import multiprocessing
import random
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy import select, text

from bayespatch import Hyperparameters, PatchworkClassifier
from bayespatch.casebase import CaseBase
from bayespatch.casebase.refit import learn
from bayespatch.casebase.retained import with_cases
from bayespatch.casebase.tables import audit, cases
from bayespatch.predict import ClosedForm
from tests.casebase.clinic import BY, QUICK, outcome, patient
from tests.casebase.invariants import check
from tests.casebase.test_without import people
from tests.persistence.fitted import SHORT, fit

NOVEL = {"age": 61, "pain": 1, "bp": None, "smokes": True, "town": "Ulm"}


def retain(base, values, what):
    seen = base.consult(values, by=BY)
    base.outcome(seen.case_id, what, by=BY)
    base.retain([seen.case_id], by=BY)
    return seen.case_id


def probabilities(base, values):
    return base.ask(values, by=BY)[1]["prediction"]["probabilities"]


def test_a_retained_case_votes_in_the_next_consultation(base):
    first = base.consult(NOVEL, by=BY)
    assert (
        first.explanation["about"] | {"version": 1, "past_cases": 30, "retained": 0, "waiting": 0}
        == (first.explanation["about"])
    )
    base.outcome(first.case_id, 0, by=BY)
    assert base.ask(NOVEL, by=BY)[1]["about"]["past_cases"] == 30  # an outcome alone makes no past case
    base.retain([first.case_id], by=BY)
    second = base.consult(NOVEL, by=BY)
    assert second.explanation["about"] | {"past_cases": 31, "retained": 1} == second.explanation["about"]
    assert second.explanation["neighbors"][0]["id"] == str(first.case_id)
    before, after = (seen.explanation["prediction"]["probabilities"]["well"] for seen in (first, second))
    assert after > before
    own = base.explain_past(first.case_id, by=BY)
    assert own["prediction"]["probabilities"]["well"] == pytest.approx(before)  # it does not vote on itself
    check(base)


def test_every_process_knows_the_same_past_cases(places):
    url = places.copy()
    rng = random.Random(3)
    with places.open(url) as one, places.open(url) as other:
        other.model()  # loaded before anything is retained
        for _ in range(3):
            values = patient(rng)
            retain(one, values, outcome(values))
            here, there = probabilities(one, NOVEL), probabilities(other, NOVEL)
            assert here == there
        with places.open(url) as restarted:  # has never seen the model without them
            assert probabilities(restarted, NOVEL) == here
            for mine, others in ((one, restarted), (other, restarted)):
                assert np.array_equal(mine.model().x_, others.model().x_, equal_nan=True)
                assert mine.model().ids_ == others.model().ids_
    places.drop()


def _killed(url, folder, pipe):
    with CaseBase.open(url, folder=folder) as base:
        retain(base, NOVEL, 0)
        pipe.send(probabilities(base, NOVEL))
        pipe.recv()  # until it is killed


def test_a_kill_loses_no_vote(places):
    url = places.copy()
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    child = context.Process(target=_killed, args=(url, places.working, there))
    child.start()
    assert here.poll(120)
    said = here.recv()
    child.kill()
    child.join()
    with places.open(url) as base:
        assert probabilities(base, NOVEL) == said
        assert base.state().n_retained == 1
        check(base)
    places.drop()


def test_imported_past_cases_vote_too(base):
    before = probabilities(base, NOVEL)
    base.add([{**NOVEL, "outcome": 0}] * 3, by=BY)
    assert probabilities(base, NOVEL)["well"] > before["well"]


def test_a_forgotten_retained_case_votes_no_more(base):
    before = probabilities(base, NOVEL)
    case = retain(base, NOVEL, 0)
    seen = base.consult(NOVEL, by=BY)
    assert f'"id": "{case}"' in str(seen.explanation).replace("'", '"')
    done = base.forget(case, "asked for it", by=BY)
    assert (done.versions, done.redacted) == ((), 1)
    assert probabilities(base, NOVEL) == before
    assert f'"id": "{case}"' not in str(base.consultation(seen.id, by=BY)[0].explanation).replace("'", '"')
    check(base)


def past_cases_at(connection, number):
    """The past cases as of an audit row: those retained before it, minus those forgotten before it."""
    retained = connection.execute(select(cases.c.id).where(cases.c.retained < number).order_by(cases.c.id))
    gone = connection.execute(select(audit.c.case_id).where(audit.c.action == "forget", audit.c.number < number))
    forgotten = set(gone.scalars())
    return [case for case in retained.scalars() if case not in forgotten]


def test_which_past_cases_were_known_is_told_from_the_database(base):
    case = retain(base, NOVEL, 0)
    seen = base.consult(NOVEL, by=BY)
    later = retain(base, {**NOVEL, "age": 30}, 0)
    base.forget(3, "asked for it", by=BY)
    last = base.consult(NOVEL, by=BY)
    with base._database.reading() as connection:
        then, now = (past_cases_at(connection, one.id) for one in (seen, last))
    assert then == [*range(1, 31), case]
    assert now == [1, 2, *range(4, 31), case, later]
    for known, one in ((then, seen), (now, last)):
        assert len(known) == one.explanation["about"]["past_cases"]
    assert {int(name) for name in base.model().ids_} == set(now)


def test_a_changed_time_of_retention_is_found(base):
    case = retain(base, NOVEL, 0)
    base.consult(NOVEL, by=BY)
    assert base.verify_audit().intact
    with base._database.outside() as connection:
        connection.execute(text(f"UPDATE cases SET retained = retained + 1 WHERE id = {case}"))
    assert f"case {case} has been a past case since row" in base.verify_audit().problems[0]
    with base._database.outside() as connection:
        connection.execute(text(f"UPDATE cases SET retained = retained - 1 WHERE id = {case}"))
        connection.execute(text("UPDATE models SET known_at = 0"))
    assert "learned from different cases than the log says" in base.verify_audit().problems[0]


def test_after_a_refit_nothing_is_counted_twice(base):
    retain(base, NOVEL, 0)
    assert len(base.model().parents_) == 31
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = learn(base._database, BY, QUICK)
    base.promote(model.version, by=BY)
    about = base.ask(NOVEL, by=BY)[1]["about"]
    assert about | {"version": 2, "past_cases": 31, "retained": 0, "waiting": 0} == about
    base.roll_back(by=BY)
    about = base.ask(NOVEL, by=BY)[1]["about"]
    assert about | {"version": 1, "past_cases": 31, "retained": 1} == about


def test_sampled_neighbors_wait_for_the_refit(base):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        base.promote(learn(base._database, BY, {**QUICK, "votes": "sampled"}).version, by=BY)
    before = probabilities(base, NOVEL)
    retain(base, NOVEL, 0)
    shown = base.ask(NOVEL, by=BY)[1]
    assert shown["about"] | {"past_cases": 30, "retained": 0, "waiting": 1} == shown["about"]
    assert shown["prediction"]["probabilities"] == before


@pytest.mark.parametrize("settings", [{}, {"windows": "10%"}, {"windows": "10%", "missing": "ignore"}])
def test_the_votes_are_those_of_an_index_of_all_past_cases(settings):
    X, y = people(60)
    clf = fit(PatchworkClassifier(hyper=Hyperparameters(), **SHORT, **settings), X[:40], y[:40])
    rows = X[40:].astype(object).where(X[40:].notna(), None).to_dict("records")
    rows[0] |= {"pain": "unknown", "level": None}
    more = with_cases(clf, rows, np.searchsorted(clf.classes_, y[40:]), list(X.index[40:]))
    past = more.fitted_.past
    appended, rebuilt = (ClosedForm.of(one, past) for one in (more.posterior_, replace(more.posterior_)))
    assert appended is not rebuilt
    for name in ("codes", "start", "rows", "columns", "reach"):
        assert np.array_equal(getattr(appended.index, name), getattr(rebuilt.index, name), equal_nan=name == "reach")
    assert all(map(np.array_equal, appended.index.levels, rebuilt.index.levels))
    assert not np.array_equal(more.predict_proba(X[:40]), clf.predict_proba(X[:40]))
    assert len(clf.parents_) == 40  # it was not changed


def test_values_that_the_model_does_not_know_agree_with_nobody():
    X, y = people(60)
    clf = fit(PatchworkClassifier(hyper=Hyperparameters(), **SHORT), X[:40], y[:40])
    row = X[40:41].to_dict("records")[0]
    more = with_cases(clf, [{**row, "pain": "new"}, {**row, "pain": None}], np.array([0, 0]), ["a", "b"])
    column = more.schema_.names.index("pain")
    for value in ("new", "other", None):
        code = more.schema_.encode(X[40:41].assign(pain=value)).x[0, column]
        assert not (more.x_[40:, column] == code).any()
    shown = [more.fitted_.texts_of(40 + i)["pain"] for i in range(2)]
    assert shown == ["not seen before", "missing"]
