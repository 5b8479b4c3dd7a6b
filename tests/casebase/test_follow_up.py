"""Follow-up in the case base: recorded with history, read by refits, exported, audited, forgotten."""

import json
import random
import warnings

import pandas
import pytest
from sqlalchemy import select, update

from bayespatch.casebase import replay
from bayespatch.casebase.errors import CaseBaseError, ConflictError
from bayespatch.casebase.refit import learn
from bayespatch.casebase.tables import follow_up
from bayespatch.dictionary import DictionaryError
from tests.casebase.clinic import BY, DICTIONARY, QUICK, table

RECORDED = {
    "drug": {"levels": ["aspirin", "none"], "role": "treatment"},
    "stay": {"kind": "number", "unit": "days", "role": "follow-up"},
    "days": {"kind": "number", "role": "follow-up", "event": "died"},
    "died": {"kind": "boolean", "role": "follow-up"},
}


def define(base):
    base.define({**DICTIONARY, **RECORDED}, "outcome", by=BY)


def refit(base, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        version = learn(base._database, BY, {**QUICK, "hyper": "auto", "draws": 20, **more}).version
    base.promote(version, by=BY)


def fill(base, n=30):
    rng = random.Random(1)
    for case in range(1, n + 1):
        values = {"drug": rng.choice(["aspirin", "none"]), "stay": rng.randint(1, 20)}
        base.record_follow_up(case, {**values, "days": rng.randint(5, 900), "died": rng.random() < 0.5}, by="ward")


def new_case():
    return {"age": 60, "pain": "none", "bp": 120.0, "smokes": True, "town": "Ulm"}


def test_values_are_recorded_again_and_all_recordings_are_kept(base):
    define(base)
    base.record_follow_up(3, {"stay": 4}, by="ward")
    base.record_follow_up("P-002", {"stay": 5, "drug": "aspirin"}, by="registry")
    found = base.follow_up(3, by=BY)
    assert [one.values for one in found] == [{"stay": 4}, {"stay": 5, "drug": "aspirin"}]
    assert [one.by for one in found] == ["ward", "registry"]
    log = base.audit(action="follow up")
    assert [entry.case_id for entry in log] == [3, 3]
    assert "aspirin" not in json.dumps([entry.details for entry in log])
    assert base.verify_audit().intact


def test_a_refit_learns_without_comparing_and_explanations_summarize(base):
    define(base)
    fill(base)
    refit(base)
    seen = base.consult(new_case(), by=BY)
    found = seen.explanation["follow_up"]
    assert list(found) == ["drug", "stay", "days"]
    assert found["stay"]["unit"] == "days"
    assert found["stay"]["n"] == 30
    assert [row["treatment"] for row in found["drug"]["treatments"]] == ["aspirin", "none"]
    assert "not assigned at random" in found["drug"]["note"]
    assert set(base.definition.features.names).isdisjoint(RECORDED)


def test_a_case_retained_later_votes_and_counts_in_summaries_after_the_next_refit(base):
    define(base)
    fill(base)
    refit(base)
    seen = base.consult(new_case(), by=BY)
    base.outcome(seen.case_id, "sick", by=BY)
    base.record_follow_up(seen.case_id, {"stay": 7}, by="ward")
    base.retain(by=BY)
    again = base.consult({**new_case(), "age": 58}, by=BY).explanation
    assert (again["about"]["past_cases"], again["follow_up"]["stay"]["n"]) == (31, 30)
    refit(base)
    assert base.consult({**new_case(), "age": 59}, by=BY).explanation["follow_up"]["stay"]["n"] == 31


def test_columns_without_values_or_events_do_not_stop_a_refit(base):
    define(base)
    for case in range(1, 31):
        base.record_follow_up(case, {"days": case, "died": False}, by="ward")
    refit(base)
    assert base.consult(new_case(), by=BY).explanation["follow_up"] is None


def test_tables_bring_follow_up_along(empty):
    rows = table(40).assign(stay=range(1, 41), days=[10.0 * k for k in range(40)], died=[k % 2 == 0 for k in range(40)])
    rows["drug"] = ["aspirin", "none"] * 20
    rows.loc[3, ["stay", "days"]] = None
    rows["died"] = rows["died"].astype(object)
    rows.loc[3, "died"] = None
    given = {**DICTIONARY, **RECORDED}
    empty.import_cases(rows, by=BY, target="outcome", id_column="who", dictionary=given)
    assert "stay" not in empty.definition.features.names
    assert empty.follow_up(1, by=BY)[0].values == {"stay": 1, "days": 0, "died": True, "drug": "aspirin"}
    assert empty.follow_up(4, by=BY)[0].values == {"drug": "none"}
    assert empty.verify_audit().intact
    with empty._database.reading() as connection:
        assert replay.problems(connection) == []


def test_forgetting_takes_the_values_and_leaves_the_log_whole(base):
    define(base)
    fill(base)
    refit(base)
    seen = base.consult(new_case(), by=BY)
    base.forget(5, "asked for it", by=BY)
    assert [one.values for one in base.follow_up(5, by=BY)] == [None]
    assert base.consultation(seen.id, by=BY)[0].explanation["follow_up"] is None
    assert base.consult({**new_case(), "age": 44}, by=BY).explanation["follow_up"]["stay"]["n"] == 29
    assert base.verify_audit().intact
    with base._database.reading() as connection:
        assert replay.problems(connection) == []
    with pytest.raises(ConflictError, match="was forgotten"):
        base.record_follow_up(5, {"stay": 3}, by=BY)


def test_an_export_has_the_values_as_they_are_now(base, tmp_path):
    define(base)
    base.record_follow_up(3, {"stay": 4}, by="ward")
    base.record_follow_up(3, {"stay": 6}, by="ward")
    base.export(str(tmp_path / "cases.csv"), by=BY)
    rows = pandas.read_csv(tmp_path / "cases.csv").set_index("case_id")
    assert rows.loc[3, "stay"] == 6
    assert rows["stay"].notna().sum() == 1


def test_changes_outside_of_the_log_are_found(base):
    define(base)
    base.record_follow_up(3, {"stay": 4}, by="ward")
    with base._database.writing(BY) as transaction:
        transaction.execute(update(follow_up).where(follow_up.c.case_id == 3).values(values={"stay": 40}))
        transaction.record("read", 3)
    with base._database.reading() as connection:
        assert replay.problems(connection) == ["follow-up of case 3 was changed after it was recorded"]
    with base._database.writing(BY) as transaction:
        transaction.execute(follow_up.delete())
        transaction.record("read", 3)
    with base._database.reading() as connection:
        assert len(connection.execute(select(follow_up)).all()) == 0
        (problem,) = replay.problems(connection)
        assert "is missing or was changed" in problem


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({}, "no values to record"),
        ({"age": 61}, "there is no column 'age'; the columns are"),
        ({"stay": "long"}, "column 'stay': 'long' is not a number"),
        ({"drug": "aspirine"}, "did you mean 'aspirin'"),
        ({"days": -3, "died": True}, "'days': -3 is a negative time"),
        ({"died": True}, "'died' says that the event happened, but 'days' has no time"),
        ({"days": 30}, "'days' has a time, but 'died' does not say how follow-up ended"),
    ],
)
def test_bad_values_are_refused(base, values, complaint):
    define(base)
    with pytest.raises((CaseBaseError, DictionaryError), match=complaint):
        base.record_follow_up(3, values, by=BY)
    assert base.follow_up(3, by=BY) == ()


def test_without_follow_up_columns_there_is_nothing_to_record(base):
    with pytest.raises(CaseBaseError, match="with role: follow-up"):
        base.record_follow_up(3, {"stay": 4}, by=BY)


@pytest.mark.parametrize(
    ("parts", "complaint"),
    [
        ({"days": {"kind": "number", "role": "follow-up", "event": "gone"}}, "'gone' is not described"),
        ({"outcome": {**DICTIONARY["outcome"], "role": "follow-up"}}, "'outcome' is the outcome"),
    ],
)
def test_dictionaries_that_contradict_are_refused(base, parts, complaint):
    with pytest.raises(CaseBaseError, match=complaint):
        base.define({**DICTIONARY, **parts}, "outcome", by=BY)


def test_a_time_to_an_event_cannot_be_the_outcome(empty):
    rows = table(40).assign(days=[10.0 * k for k in range(40)], died=[k % 2 for k in range(40)]).drop(columns="outcome")
    with pytest.raises(CaseBaseError, match=r"'days' is a number with 40 different values.*role: follow-up"):
        empty.import_cases(rows, by=BY, target="days", id_column="who", drop=["died"])
    features = {name: entry for name, entry in DICTIONARY.items() if name != "outcome"}
    timed = {name: RECORDED[name] for name in ("days", "died")}
    with pytest.raises(CaseBaseError, match=r"'days' is a time to an event, and a case base predicts classes"):
        empty.define({**features, **timed}, "days", by=BY)
    with pytest.raises(CaseBaseError, match=r"'days' is a time to an event.*PatchworkSurvival"):
        empty.import_cases(rows, by=BY, target="days", id_column="who", dictionary={**features, **timed})
    assert empty.target is None
