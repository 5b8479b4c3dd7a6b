"""A model that is worse on recent outcomes is not promoted, unless a steward gives a reason."""

import random
import warnings

import numpy as np
import pytest

from bayespatch.casebase import promotion
from bayespatch.casebase.errors import CaseBaseError, ConflictError
from bayespatch.casebase.promotion import LEAST, LEVEL, paired
from bayespatch.casebase.refit import learn
from tests.casebase.clinic import BY, DICTIONARY, QUICK, outcome, patient
from tests.casebase.test_monitoring import consulted


@pytest.fixture
def clinic(sqlite_places):
    with sqlite_places.open(sqlite_places.copy()) as opened:
        yield opened


def with_outcomes(base, n, seed=1):
    """Consultations whose outcome became known, by the rule that the past cases follow."""
    consulted(base, n, seed, outcome)


def worse_version(base, monkeypatch):
    """A version that learned from shuffled outcomes."""
    table_of = promotion_table = learn.__globals__["table_of"]

    def shuffled(definition, case_ids, rows, outcomes):
        return promotion_table(definition, case_ids, rows, random.Random(0).sample(outcomes, len(outcomes)))

    monkeypatch.setitem(learn.__globals__, "table_of", shuffled)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        version = learn(base._database, BY, QUICK).version
    monkeypatch.setitem(learn.__globals__, "table_of", table_of)
    return version


def test_a_model_that_is_worse_on_recent_outcomes_is_not_promoted(base, monkeypatch):
    version = worse_version(base, monkeypatch)
    with_outcomes(base, 40)
    n = base.verify_audit().n_entries
    with pytest.raises(ConflictError, match=r"version 2 is worse than version 1 on recent outcomes \(Brier score 0"):
        base.promote(version, by="steward")
    assert [model.state for model in base.models()] == ["offered", "active"]
    with pytest.raises(ConflictError, match="give a reason"):
        base.promote(version, by="steward", reason="  ")
    assert base.verify_audit().n_entries == n
    assert base.promote(version, by="steward", reason="  version 1 has a wrong unit ").state == "active"
    details = base.audit(action="promote", limit=1)[0].details
    assert (details["reason"], details["recent"]["n"]) == ("version 1 has a wrong unit", 40)
    assert details["recent"]["p"] < LEVEL
    assert details["recent"]["new_brier"] > details["recent"]["old_brier"]
    base.promote(1, by="steward")  # the better one needs none
    assert not [problem for problem in base.verify_audit().problems if "model" in problem]


def test_a_roll_back_is_never_held_up(clinic, monkeypatch):
    version = worse_version(clinic, monkeypatch)
    with_outcomes(clinic, 40)
    clinic.promote(version, by="steward", reason="an emergency")
    assert clinic.roll_back(by="steward").version == 1


def test_few_outcomes_and_old_outcomes_hold_nothing_up(clinic, monkeypatch):
    version = worse_version(clinic, monkeypatch)
    with_outcomes(clinic, LEAST - 1)
    assert clinic.promote(version, by="steward").state == "active"
    details = clinic.audit(action="promote", limit=1)[0].details
    assert details["recent"] == {"active": 1, "n": LEAST - 1, "old_brier": None, "new_brier": None, "p": None}
    clinic.roll_back(by="steward")
    with_outcomes(clinic, 20, seed=2)
    with clinic._database.unaudited() as connection:
        connection.exec_driver_sql("UPDATE cases SET outcome_at = '2001-01-01T00:00:00.000000Z' WHERE id <= 50")
    assert promotion.compare_recent(clinic._database, version).n == LEAST - 1 + 20 - 20


def test_cases_of_the_training_table_are_predicted_without_themselves(clinic):
    """Two refits on the same cases, one with the recent cases and one without, are compared on even terms."""
    with_outcomes(clinic, 35)
    clinic.retain(by="registry")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        version = learn(clinic._database, BY, QUICK).version
    found = promotion.compare_recent(clinic._database, version)
    assert found.n == 35
    with clinic._database.reading() as connection:
        model = promotion._answering(connection, clinic.models()[0], clinic._database)
        rows = promotion.recent_outcomes(connection)
        p = promotion._probabilities(connection, clinic.definition, model, rows)
    left_out = dict(zip(model.clf.ids_, model.clf.loo_probabilities().tolist(), strict=True))
    for row, one in zip(rows, p, strict=True):
        assert list(one.values()) == pytest.approx(left_out[str(row.case_id)])
    voting = [one["sick"] for one in p]
    in_sample = model.clf.predict_proba(
        [[row.values[name] for name in DICTIONARY if name in row.values] for row in rows]
    )
    assert np.abs(np.array(voting) - in_sample[:, 1]).max() > 0.01


def test_a_visit_of_the_same_patient_does_not_vote(clinic):
    rng = random.Random(3)
    values = patient(rng)
    first = clinic.consult(values, by=BY, external_id="A-1", patient="A")
    clinic.outcome(first.case_id, "sick", by="registry")
    clinic.retain(by="registry")
    second = clinic.consult(values, by=BY, external_id="A-2", patient="A")
    clinic.outcome(second.case_id, "sick", by="registry")
    with clinic._database.reading() as connection:
        model = promotion._answering(connection, clinic.models()[0], clinic._database)
        row = promotion.recent_outcomes(connection)[0]
        [p] = promotion._probabilities(connection, clinic.definition, model, [row])
    assert row.case_id == second.case_id
    assert p == pytest.approx(second.explanation["prediction"]["probabilities"], abs=1e-9)


def test_equally_good_models_are_refused_as_rarely_as_stated():
    """The new model errs as the old one does: refused in 5 % of comparisons, within 4 standard errors."""
    rng = np.random.default_rng(0)
    n_runs, n, n_refused = 2000, 60, 0
    for _ in range(n_runs):
        truth = rng.beta(2, 3, n)
        happened = np.where(rng.random(n) < truth, "sick", "well").tolist()
        guesses = [np.clip(truth + rng.normal(0, 0.1, n), 0.01, 0.99) for _ in range(2)]
        old, new = ([{"sick": p, "well": 1 - p} for p in guess.tolist()] for guess in guesses)
        n_refused += paired(1, old, new, happened).worse
    error = np.sqrt(LEVEL * (1 - LEVEL) / n_runs)
    assert abs(n_refused / n_runs - LEVEL) < 4 * error


def test_a_class_that_a_model_does_not_know_counts_as_impossible():
    old = [{"a": 0.5, "b": 0.5}] * 40
    new = [{"a": 0.4, "b": 0.4, "c": 0.2}] * 40
    found = paired(1, old, new, ["c"] * 40)
    assert (found.old_brier, found.new_brier) == (pytest.approx(0.75), pytest.approx(0.48))
    assert not found.worse
    assert paired(1, new, old, ["c"] * 40).worse
    assert paired(1, old, old, ["c"] * 40).p == 1.0
    assert paired(1, [None] * 40, old, ["c"] * 40).n == 0


def test_a_reason_is_a_text(clinic):
    for reason in (3, "x" * 1001, "a\0b"):
        with pytest.raises(CaseBaseError, match="at most 1,000 characters"):
            clinic.promote(1, by="steward", reason=reason)
