"""Monitoring: what is checked, on both databases, and that only a change raises an alarm."""

import random
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from scipy.stats import binom, chi2
from sqlalchemy import func, insert, select

from bayespatch.casebase import CaseBaseError, monitoring
from bayespatch.casebase.monitoring import (
    DAYS,
    LEAST,
    LEVEL,
    ClassBalance,
    ColumnShift,
    OutcomeLag,
    balance_p,
    judged,
    stability,
)
from bayespatch.casebase.tables import cases, consultations, training
from bayespatch.dictionary import Dictionary
from tests.casebase.clinic import BY, DICTIONARY, patient, table

ENTRIES = Dictionary.from_dict({"age": {"kind": "number"}, "town": {"kind": "text"}})
NOBODY = OutcomeLag(0, 0, 0, None, None, None)


def consulted(base, n, seed=1, outcome=None, age=1, lasted=0.5, p_sick=0.4, **changes):
    """Consultations about people like the past cases but for the changes, `age` days ago.

    `outcome`, or its result for the values, became known after `lasted` days.
    """
    rng = random.Random(seed)
    explanation = {"prediction": {"probabilities": {"well": 1 - p_sick, "sick": p_sick}}}
    begun = datetime.now(UTC) - timedelta(days=age)
    at, known = (one.strftime("%Y-%m-%dT%H:%M:%S.%fZ") for one in (begun, begun + timedelta(days=lasted)))
    with base._database.unaudited() as connection:
        first = 1 + connection.execute(select(func.max(cases.c.id))).scalar()
        for number in range(first, first + n):
            values = {**patient(rng), **changes}
            result = outcome(values) if callable(outcome) else outcome
            entered = {"id": number, "state": "open", "values": values, "entered_at": at, "entered_by": BY}
            ended = {} if outcome is None else {"outcome": str(result), "outcome_at": known, "outcome_by": BY}
            connection.execute(insert(cases).values(**entered, **ended))
            row = {"id": 10_000 + number, "case_id": number, "version": 1, "values": values, "at": at, "by": BY}
            connection.execute(insert(consultations).values(**row, explanation=explanation))
    return range(first, first + n)


def as_clinic(base, n=120):
    """More past cases, of which the model knows; the model itself stays."""
    ids = base.import_cases(table(n, seed=9), by=BY, id_column=None, drop=["who"], allow_repeats=True)
    with base._database.unaudited() as connection:
        connection.execute(insert(training), [{"version": 1, "case_id": number} for number in ids])
        connection.exec_driver_sql(f"UPDATE models SET n_cases = {30 + n}")


def test_a_change_of_the_patients_raises_an_alarm_and_none_is_raised_without_one(base):
    as_clinic(base)
    consulted(base, 60)
    found = base.monitor(by=BY)
    assert (found.version, found.days, found.consultations, found.alarms) == (1, DAYS, 60, ())
    assert [shift.column for shift in found.population] == list(base.dictionary.names)
    assert all(shift.p is not None for shift in found.population)
    consulted(base, 60, seed=2, town="Trier")
    found = base.monitor(by=BY)
    [alarm] = [shift for shift in found.population if shift.alarm]
    assert alarm.column == "town"
    assert alarm.index > 0.1
    assert found.alarms[0].startswith("Column 'town': recent patients differ from the past cases")
    assert base.audit(action="monitor", limit=1)[0].details == {"days": DAYS, "alarms": 1}


def test_outcomes_that_the_model_does_not_expect_raise_an_alarm(base):
    consulted(base, 60, outcome=1, p_sick=0.6)
    found = base.monitor(by=BY)
    [one] = found.calibration
    assert (one.label, one.n, one.observed, one.alarm) == ("sick", 60, 1.0, True)
    assert one.expected == pytest.approx(0.6)
    assert one.low < 1.0 == one.high
    assert "sick: 100% of 60 recent outcomes, but 60% were expected" in found.alarms[0]


def test_outcomes_that_stop_coming_raise_an_alarm(base):
    for week in range(1, 12):
        consulted(base, 5, seed=week, outcome=1, age=7 * week + 10, lasted=7)
        consulted(base, 5, seed=week, outcome=1, age=7 * week + 100, lasted=7)
    lag = base.monitor(by=BY).lag
    assert (lag.n, lag.n_known, lag.n_before, lag.alarm) == (55, 55, 55, False)
    assert (lag.median, lag.median_before) == pytest.approx((7, 7))
    for week in range(1, 11):
        consulted(base, 5, seed=week, age=7 * week)
    found = base.monitor(by=BY)
    assert (found.lag.n, found.lag.n_known, found.lag.alarm) == (105, 55, True)
    assert "more slowly than in the year before" in found.alarms[-1]


def test_a_real_consultation_counts_and_what_is_forgotten_or_old_does_not(base):
    seen = base.consult(patient(random.Random(0)), by="Dr. Roe")
    base.outcome(seen.case_id, "sick", by="registry")
    base.forget(base.consult(patient(random.Random(1)), by="Dr. Roe").case_id, "asked for it", by=BY)
    consulted(base, 1, age=1000)
    found = base.monitor(by=BY)
    assert (found.consultations, found.lag.n, found.lag.n_known, found.lag.n_before) == (1, 1, 1, 0)
    assert all(shift.index is None for shift in found.population)
    [row] = [row for row in base.drift(by=BY, every="year") if row["outcomes"]]
    assert found.calibration[0].expected == pytest.approx(row["classes"]["sick"]["expected"])


def test_a_window_that_makes_no_sense(base):
    for days in (0, 4000, True, 1.5):
        with pytest.raises(CaseBaseError, match="not a valid number of days; pass a number from 1 to 3650"):
            base.monitor(by=BY, days=days)


def test_without_a_model_there_is_nothing_to_monitor(empty):
    empty.define(DICTIONARY, "outcome", by=BY)
    with pytest.raises(CaseBaseError, match="no active model"):
        empty.monitor(by=BY)


def test_the_index_is_that_of_the_definition():
    """Shares .5 and .8: (.8 - .5) ln(.8 / .5) + (.2 - .5) ln(.2 / .5), up to the half that is added to counts."""
    before, after = ["a", "b"] * 5000, ["a"] * 8000 + ["b"] * 2000
    index, p = stability(before, after, ENTRIES["town"])
    assert index == pytest.approx(0.3 * np.log(0.8 / 0.5) - 0.3 * np.log(0.2 / 0.5), rel=1e-3)
    counts = np.array([[5000, 5000], [8000, 2000]])
    expected = counts.sum(axis=0) * counts.sum(axis=1)[:, None] / counts.sum()
    assert p == pytest.approx(chi2.sf(((counts - expected) ** 2 / expected).sum(), 1))


def test_missing_values_constants_and_small_samples():
    numbers = [float(i) for i in range(200)]
    lost = [None if i % 2 else float(i) for i in range(200)]
    assert stability(numbers, lost, ENTRIES["age"])[1] < 1e-9
    assert stability(numbers, numbers, ENTRIES["age"]) == (pytest.approx(0.0), pytest.approx(1.0))
    assert stability([3.0] * 60, [3.0] * 60, ENTRIES["age"]) == (0.0, 1.0)
    assert stability([None] * 60, [None] * 60, ENTRIES["age"]) == (0.0, 1.0)
    assert stability(["a"] * 60, ["a"] * 59 + ["b"], ENTRIES["town"]) == (0.0, 1.0)  # one strange value is no shift
    assert stability(numbers, numbers[: LEAST - 1], ENTRIES["age"]) is None
    assert stability(numbers[: LEAST - 1], numbers, ENTRIES["age"]) is None


def test_with_endless_training_the_p_value_is_the_binomial_one():
    p = np.full(80, 0.3)
    for n in (10, 24, 45):
        exact = min(1.0, 2 * min(binom.cdf(n, 80, 0.3), binom.sf(n - 1, 80, 0.3)))
        assert balance_p(p, n, 10**9) == pytest.approx(exact, rel=1e-3)
    assert balance_p(p, 40, 50) > balance_p(p, 40, 10**9)  # a model of few cases may be off by itself
    assert balance_p(np.array([]), 0, 50) is None


def test_every_check_shares_the_level():
    def at(p, index=0.5, checks=10):
        shifts = [ColumnShift(str(i), index, p if i == 0 else 0.5) for i in range(checks - 1)]
        found = judged([*shifts, ColumnShift("rare", None, None)], [ClassBalance("x", 60, 0.1, 0.2, 0, 1, 0.5)], NOBODY)
        return found[0][0].alarm

    assert at(0.99 * LEVEL / 10)
    assert not at(1.01 * LEVEL / 10)
    assert not at(1e-9, index=0.09)  # significant, but small
    _, _, lag = judged([], [], OutcomeLag(60, 9, 60, 20.0, 5.0, LEVEL / 2))
    assert lag.alarm
    assert monitoring.alarms([], [], lag)
