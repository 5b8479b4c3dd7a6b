"""Whoever is forgotten is found nowhere: not in a table, not in a model, not in a byte on disk."""

import random
import struct
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import text, update

from bayespatch.casebase import CaseBaseError
from bayespatch.casebase.cases import WITHDRAWN
from bayespatch.casebase.forget import WITHDRAWN_WARNING, finish, redacted
from bayespatch.casebase.tables import models
from bayespatch.casebase.without import without_case
from tests.casebase.clinic import BY, DICTIONARY, fill, patient
from tests.casebase.invariants import check
from tests.casebase.test_cycle import refit

# Values that nobody else has, so that a trace of them is one of this patient.
PATIENT = {"age": 118.71828125, "pain": 2, "bp": 131.41421356, "smokes": True, "town": "Xyrbqvillé-am-Zqolk"}
NAME, REASON = "MRN-7730915264", "her cousin Zebulonqx saw it"


def traces():
    """The patient's values as bytes: texts, and numbers in both orders of bytes and as they are written."""
    for word in (PATIENT["town"], NAME, REASON, repr(PATIENT["age"]), repr(PATIENT["bp"])):
        yield word.encode()
        yield word.encode("unicode_escape")  # as JSON has it in ASCII
    for number in (PATIENT["age"], PATIENT["bp"]):
        yield f"{number:.6g}".encode()  # as an explanation states the end of a range
        yield struct.pack("<d", number)
        yield struct.pack(">d", number)


def found_on_disk(folder: Path) -> set[tuple[str, bytes]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    contents = {path: path.read_bytes() for path in files}
    return {(path.name, trace) for path, content in contents.items() for trace in set(traces()) if trace in content}


def places_of(base, places):
    """Every folder that has something of this base."""
    own = base._database
    if places.server is None:
        return [own.path.parent]
    data = Path(places.server.partition("host=")[2]) / "data"
    with own.reading() as connection:
        number = connection.execute(text("SELECT oid FROM pg_database WHERE datname = current_database()")).scalar()
    return [data / "base" / str(number), data / "pg_wal", data / "global", own.folder]


def search_disk(base, places):
    return set().union(*(found_on_disk(folder) for folder in places_of(base, places) if folder.exists()))


@pytest.fixture
def alone(places, tmp_path):
    """A base in a folder of its own, with the patient as case 31, a neighbor of others, and in two models."""
    url = places.copy()
    if places.server is None:
        new = tmp_path / "clinic.db"
        Path(url.removeprefix("sqlite:///")).rename(new)
        url = f"sqlite:///{new}"
    with places.open(url) as base:
        seen = base.consult(PATIENT, by="Dr. Roe", external_id=NAME)
        base.decide(seen.id, "sick" if seen.predicted == "well" else "well", by="Dr. Roe", reason=REASON)
        base.outcome(seen.case_id, "sick", by="registry")
        base.retain(by="registry")
        base.promote(refit(base, windows="20%").version, by=BY)
        refit(base)
        others = [base.consult({**PATIENT, "town": "Ulm", "bp": 131.0, "age": 100}, by=BY, top=31) for _ in range(2)]
        assert any(one["id"] == "31" for one in others[0].explanation["neighbors"])
        young = base.consult({**PATIENT, "town": "Ulm", "bp": 131.0, "age": 3}, by=BY)
        assert any("118.71828125" in text for text in young.explanation["case"]["warnings"])  # an end of a range
        close = [one["close"] for why in (*others, young) for one in why.explanation["features"]]
        assert any("118.718" in text for text in close if text), close
        yield base, others[0]
    places.drop()


def test_the_patient_is_found_nowhere(alone, places, tmp_path):
    base, other = alone
    before = search_disk(base, places)
    assert len({trace for _, trace in before}) >= 6  # or the search would show nothing
    backup = base.backup(tmp_path / "before.db", by=BY)
    assert found_on_disk(tmp_path) >= {("before.db", PATIENT["town"].encode())}
    backup.unlink()

    done = base.forget(NAME, "asked for it", by="steward")
    assert (done.case_id, done.consultations, done.redacted, done.versions, done.erased) == (31, 1, 3, (2, 3), True)
    assert search_disk(base, places) == set()
    base.backup(tmp_path / "after.db", by=BY)
    assert found_on_disk(tmp_path) == set()

    case = base.case(31, by=BY)
    assert (case.state, case.values, case.outcome, case.external_id) == (WITHDRAWN, None, None, None)
    with pytest.raises(CaseBaseError, match="case 31 was forgotten"):
        base.forget(31, "again", by=BY)
    with pytest.raises(CaseBaseError, match="there is no case"):
        base.case(NAME, by=BY)
    shown = base.consultations(other.case_id, by=BY)[0][0].explanation
    young = base.search(by=BY, order="id", descending=True, limit=1).items[0].id
    assert WITHDRAWN_WARNING in base.consultations(young, by=BY)[0][0].explanation["case"]["warnings"]
    gone = [one for one in shown["neighbors"] if one.get("forgotten")]
    assert len(gone) == 1
    assert gone[0]["id"] is None
    assert gone[0]["vote_share"] > 0
    assert shown["prediction"] == other.explanation["prediction"]
    entry = base.audit(action="forget")[0]
    assert (entry.by, entry.case_id, entry.details["reason"]) == ("steward", 31, "asked for it")
    assert [model.refit_due for model in base.models()] == [True, True, False]
    check(base)
    assert refit(base).n_forgotten == 0
    base.close()
    assert search_disk(base, places) == set()


def test_its_outcome_in_a_comparison_of_models_is_found_nowhere(alone, places, monkeypatch):
    base, _ = alone
    mark = "outcome-Vqzkwj"
    monkeypatch.setattr("tests.casebase.test_forget.traces", lambda: [mark.encode()])
    metrics = {"new": {}, "both": {"changes": [{"case": 31, "old": "sick", "new": "well", "outcome": mark}]}}
    with base._database.unaudited() as connection:
        connection.execute(update(models).where(models.c.version == 3).values(metrics=metrics))
    if places.server is not None:
        with base._database.outside() as connection:
            connection.execute(text("ANALYZE"))
    assert search_disk(base, places)
    assert base.forget(31, "asked for it", by="steward").erased
    assert search_disk(base, places) == set()


def test_predictions_are_at_once_those_without_the_case(alone):
    base, _ = alone
    clf, rng = base.model(), random.Random(8)
    people = [patient(rng) for _ in range(6)]
    expected = without_case(clf, clf.ids_.index("31"), {"pain": [1, 2, 3]})
    base.forget(31, "asked for it", by=BY)
    for one in people:
        shown = base.consult(one, by=BY).explanation
        assert shown["prediction"] == expected.explain(one, exclude_self=False).to_dict()["prediction"]
        assert shown["prediction"] != clf.explain(one, exclude_self=False).to_dict()["prediction"]
    assert np.array_equal(base.model().x_, expected.x_, equal_nan=True)


def test_a_base_that_was_killed_before_the_disk_was_overwritten_does_it_when_it_is_opened(alone, places, monkeypatch):
    base, _ = alone
    monkeypatch.setattr("bayespatch.casebase.forget.finish", lambda *_: "killed")
    done = base.forget(31, "asked for it", by=BY)
    assert (done.erased, done.note) == (False, "killed")
    monkeypatch.undo()
    assert search_disk(base, places)  # still there, and it is known to be
    left = base._database.folder / "moment-999999999-abcd"
    left.mkdir(parents=True)
    (left / "model.bpatch").write_bytes(PATIENT["town"].encode())
    url = base._database.url.render_as_string(hide_password=False)
    folder = base._database.folder
    base.close()
    with type(base).open(url, folder=folder) as again:
        assert search_disk(again, places) == set()
        assert again.audit(limit=1)[0].action == "erase"
        assert finish(again._database, BY) is None


def test_forgetting_nearly_everyone(empty):
    """Models that too few cases would be left of are removed, and there is no model any more."""
    base = empty
    fill(base, 6)
    for case in range(1, 7):
        base.forget(case, "asked for it", by=BY)
    [model] = base.models()
    assert (model.state, model.sha256) == ("removed", None)
    with pytest.raises(CaseBaseError, match="no model is active"):
        base.consult(PATIENT, by=BY)
    with pytest.raises(CaseBaseError, match="was removed"):
        base.promote(1, by=BY)
    check(base)


def test_only_warnings_that_may_hold_its_values_go():
    def left(*warnings):
        return redacted({"case": {"warnings": list(warnings)}, "features": []}, "31")["case"]["warnings"]

    ends = "age is 3, outside the range of the past cases, 26 to 118.5, by 23. Check the value."
    assert left(ends, "age is 99 years, outside the usual range, 18 to 95.") == [
        WITHDRAWN_WARNING,
        "age is 99 years, outside the usual range, 18 to 95.",
    ]
    assert left("All values match those of past case #31, and so on.") == [WITHDRAWN_WARNING]
    assert left("All values match those of past case #312, and so on.") != [WITHDRAWN_WARNING]


def test_nothing_in_other_explanations_tells_its_values_or_its_outcome(alone):
    """Two bases that differ only in the forgotten patient's outcome and values keep the same of that patient."""
    base, other = alone
    before = base.consultation(other.id, by=BY)[0].explanation
    mine = next(one for one in before["neighbors"] if one["id"] == "31")
    agreeing = [one["name"] for one in before["features"] if mine["index"] in one["neighbors"]]
    assert agreeing  # or the test would show nothing
    base.forget(31, "asked for it", by=BY)
    after = base.consultation(other.id, by=BY)[0].explanation
    gone = next(one for one in after["neighbors"] if one.get("forgotten"))
    assert set(gone) == {"id", "forgotten", "probability", "influence", "vote_share"}
    assert not [one["name"] for one in after["features"] if mine["index"] in one["neighbors"]]
    assert {one["close"] for one in after["features"]} == {None}


def test_values_that_only_it_may_have_go_from_groups_and_phrases():
    why = {
        "case": {"warnings": []},
        "groups": [{"differs": [{"feature": "sex", "value": "female"}], "closest": None}],
        "features": [{"value": "male", "phrases": {"male": "men", "female": "women"}, "neighbors": []}],
    }
    after = redacted(why, "31")
    assert after["groups"][0]["differs"] == [{"feature": "sex", "value": None}]
    assert after["features"][0]["phrases"] == {"male": "men"}


FOLLOW_UP = {
    "drug": {"levels": ["aspirin", "none"], "role": "treatment"},
    "note": {"kind": "text", "role": "follow-up"},
    "stay": {"kind": "number", "unit": "days", "role": "follow-up"},
    "days": {"kind": "number", "role": "follow-up", "event": "died"},
    "died": {"kind": "boolean", "role": "follow-up"},
}
RECORDED = {"drug": "aspirin", "note": "Wexfordia-Qzm", "stay": 2718.28182845, "days": 3141.59265359, "died": True}
GROUP = "Family-Bjqwxtz-91"


def all_traces(own=traces):
    yield from own()
    yield from (RECORDED["note"].encode(), GROUP.encode())
    for number in (RECORDED["stay"], RECORDED["days"]):
        yield from (
            repr(number).encode(),
            f"{number:.6g}".encode(),
            struct.pack("<d", number),
            struct.pack(">d", number),
        )


def test_follow_up_and_the_name_of_the_patient_are_found_nowhere(places, tmp_path, monkeypatch):
    """Follow-up recorded twice, in two models and in a summary; a patient with two visits; statistics of the server."""
    monkeypatch.setattr("tests.casebase.test_forget.traces", all_traces)
    url = places.copy()
    if places.server is None:
        Path(url.removeprefix("sqlite:///")).rename(tmp_path / "clinic.db")
        url = f"sqlite:///{tmp_path / 'clinic.db'}"
    with places.open(url) as base:
        base.define({**DICTIONARY, **FOLLOW_UP}, "outcome", by=BY)
        rng = random.Random(3)
        for case in range(1, 31):
            base.record_follow_up(case, {"stay": rng.randint(1, 20), "days": 9, "died": True, "note": "no"}, by="ward")
        seen = base.consult(PATIENT, by="Dr. Roe", patient=GROUP)
        base.outcome(seen.case_id, "sick", by="registry")
        base.record_follow_up(seen.case_id, {**RECORDED, "stay": 1.0}, by="ward")
        base.record_follow_up(seen.case_id, RECORDED, by="ward")
        base.retain(by="registry")
        again = base.consult({**PATIENT, "age": 100}, by="Dr. Roe", patient=GROUP)
        base.record_follow_up(again.case_id, RECORDED, by="ward")
        base.promote(refit(base).version, by=BY)
        refit(base)
        other = base.consult({**PATIENT, "town": "Ulm", "age": 99, "bp": 131.0}, by=BY)
        assert other.explanation["follow_up"]["stay"]["n"] == 31
        if places.server is not None:
            with base._database.outside() as connection:
                connection.execute(text("ANALYZE"))
        before = {trace for _, trace in search_disk(base, places)}
        assert {RECORDED["note"].encode(), GROUP.encode(), PATIENT["town"].encode()} <= before
        assert len(before) >= 8  # or the search would show nothing

        done = base.forget(seen.case_id, "asked for it", by="steward")
        assert (done.visits, done.erased) == ((again.case_id,), True)
        assert search_disk(base, places) == set()
        base.backup(tmp_path / "after.db", by=BY)
        assert found_on_disk(tmp_path) == set()
        assert [one.values for one in base.follow_up(seen.case_id, by=BY)] == [None, None]
        assert base.search([("patient", "=", GROUP)], by=BY).total == 0
        assert base.consultation(other.id, by=BY)[0].explanation["follow_up"] is None
        check(base)
    assert search_disk(base, places) == set()
    places.drop()
