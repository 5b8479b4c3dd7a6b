"""The whole cycle on both databases, and what is refused."""

import random
import warnings
from operator import eq, ge, gt, le, lt, ne

import pandas
import pytest

from bayespatch.casebase import CaseBaseError
from bayespatch.casebase.errors import ConflictError
from bayespatch.casebase.incoming import RepeatedCasesWarning
from bayespatch.casebase.refit import learn
from bayespatch.dictionary import DictionaryError
from tests.casebase.clinic import BY, DICTIONARY, FEATURES, outcome, patient, table
from tests.casebase.invariants import check

SOMEONE = {"age": 61, "pain": "typical", "bp": None, "smokes": True, "town": "Ulm"}


def refit(base, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return learn(base._database, BY, parameters)


def test_a_patient_comes_is_decided_about_and_becomes_a_past_case(base):
    seen = base.consult(SOMEONE, by="Dr. Roe", external_id="N-1")
    assert seen.values["pain"] == 1
    assert seen.explanation["case"]["id"] == str(seen.case_id) == "31"
    assert set(seen.explanation["prediction"]["probabilities"]) == {"well", "sick"}
    assert {one["id"] for one in seen.explanation["neighbors"]} <= {str(i) for i in range(1, 31)}
    again = base.consult({**SOMEONE, "bp": 150}, by="Dr. Roe", external_id="N-1")
    assert again.case_id == seen.case_id
    assert base.case("N-1", by=BY).values["bp"] == 150
    with pytest.raises(CaseBaseError, match="give a reason for overriding"):
        base.decide(again.id, "sick" if again.predicted == "well" else "well", by="Dr. Roe")
    decision = base.decide(again.id, again.predicted, by="Dr. Roe")
    assert decision.agrees
    [first, second] = base.consultations("N-1", by=BY)
    assert (first[0].values["bp"], first[1]) == (None, None)
    assert second == (again, decision)
    assert second[0].explanation == again.explanation
    with pytest.raises(CaseBaseError, match="has no outcome yet"):
        base.retain([again.case_id], by=BY)
    case = base.outcome(again.case_id, "sick", by="registry")
    assert (case.state, case.outcome, case.outcome_by) == ("open", 1, "registry")
    assert base.retain(by="registry") == [again.case_id]
    assert base.case(again.case_id, by=BY).state == "past"

    model = refit(base)
    assert (model.version, model.state, model.n_cases, model.based_on) == (2, "offered", 31, 1)
    both = model.metrics["both"]
    assert both["n"] == 30
    assert both["gain"] == pytest.approx(both["new"]["log_score"] - both["old"]["log_score"])
    assert base.consult(SOMEONE, by=BY).version == 1  # it is only offered
    base.promote(2, by=BY)
    assert base.consult(SOMEONE, by=BY).version == 2
    assert base.roll_back(by=BY).version == 1
    with pytest.raises(CaseBaseError, match="no version before 1"):
        base.roll_back(by=BY)
    [row] = base.drift(by=BY, every="all")
    assert (row["consultations"], row["decisions"], row["agreement"], row["outcomes"]) == (4, 1, 1.0, 1)
    assert row["classes"]["sick"]["expected"] == pytest.approx(
        second[0].explanation["prediction"]["probabilities"]["sick"]
    )
    assert row["classes"]["sick"]["observed"] == 1
    log = check(base)
    assert [entry.by for entry in log if entry.action == "consult"] == ["Dr. Roe", "Dr. Roe", BY, BY]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"age": 610}, "column 'age': 610 is outside the possible range, 0 to 120"),
        ({"age": "61"}, "column 'age': '61' is not a number"),
        ({"age": True}, "column 'age': True is not a number"),
        ({"pain": 7}, r"column 'pain': 7 is not one of its values; pass one of 1 \(typical\), 2"),
        ({"smokes": 1}, "column 'smokes': 1 is neither true nor false"),
        ({"town": 5}, "column 'town': 5 is not text; put it in quotes"),
        ({"aeg": 5}, "there is no column 'aeg'; did you mean 'age'"),
    ],
)
def test_a_value_outside_the_dictionary_is_refused(sqlite_places, change, complaint):
    with sqlite_places.open(sqlite_places.copy()) as base:
        n = base.verify_audit().n_entries
        with pytest.raises(DictionaryError, match=complaint):
            base.consult({**SOMEONE, **change}, by=BY)
        assert base.verify_audit().n_entries == n


def test_a_missing_key_is_not_a_missing_value(sqlite_places):
    with sqlite_places.open(sqlite_places.copy()) as base:
        with pytest.raises(DictionaryError, match="column 'town' has no value; pass a value, or null"):
            base.consult({name: SOMEONE[name] for name in FEATURES if name != "town"}, by=BY)
        with pytest.raises(CaseBaseError, match="is not a valid name"):
            base.consult(SOMEONE, by=" ")


def test_what_cannot_be_done_is_refused_and_changes_nothing(base):
    seen = base.consult(SOMEONE, by=BY)
    base.decide(seen.id, seen.predicted, by=BY)
    base.outcome(seen.case_id, 1, by=BY)
    other = base.consult(SOMEONE, by=BY)
    n = base.verify_audit().n_entries
    for refused, complaint in {
        lambda: base.outcome(seen.case_id, 0, by=BY): "already has an outcome, recorded by tester",
        lambda: base.outcome(99, 0, by=BY): "there is no case 99",
        lambda: base.outcome(2**70, 0, by=BY): "there is no case",
        lambda: base.outcome("nobody", 0, by=BY): "there is no case 'nobody'",
        lambda: base.outcome(other.case_id, "dead", by=BY): "'dead' is not one of its values",
        lambda: base.decide(seen.id, 1, by=BY): "already has a decision, by tester",
        lambda: base.decide(10**6, 1, by=BY): "there is no consultation 1000000",
        lambda: base.retain([1], by=BY): "case 1 is already a past case",
        lambda: base.consult(SOMEONE, case=1, by=BY): "would be its own precedent",
        lambda: base.consult(SOMEONE, external_id="P-001", by=BY): "would be its own precedent",
        lambda: base.promote(1, by=BY): "is already active",
        lambda: base.promote(9, by=BY): "there is no model version 9",
        lambda: base.forget(99, "asked", by=BY): "there is no case 99",
        lambda: base.forget(1, " ", by=BY): "requires a reason",
        lambda: base.search([("agee", "=", 1)], by=BY): "there is no column 'agee'",
        lambda: base.search([("age", "~", 1)], by=BY): "operator '~' is not known",
        lambda: base.search(limit=0, by=BY): "limit=0",
        lambda: base.import_cases(table(3), id_column="who", by=BY): "external id 'P-000' already belongs to case 1",
        lambda: base.import_cases(table(3).drop(columns="bp"), drop=["who"], by=BY): "has no column 'bp'",
        lambda: base.import_cases(table(3), by=BY): "has a column 'who'",
        lambda: base.import_cases(table(3).assign(age=200), id_column="who", by=BY): "row 1, column 'age': 200",
        lambda: base.add([], by=BY): "no cases to add",
        lambda: base.define({**DICTIONARY, "age": {"kind": "text"}}, "outcome", by=BY): "case 1: column 'age'",
        lambda: base.define({**DICTIONARY, "outcome": {"levels": [0, 1]}}, "outcome", by=BY): "cannot be renamed",
    }.items():
        with pytest.raises((CaseBaseError, DictionaryError), match=complaint):
            refused()
    assert base.verify_audit().n_entries == n


def test_a_base_that_knows_nothing_yet(empty):
    for refused in (
        lambda: empty.consult(SOMEONE, by=BY),
        lambda: empty.add([SOMEONE], by=BY),
        lambda: empty.drift(by=BY),
        lambda: learn(empty._database, BY),
    ):
        with pytest.raises(CaseBaseError, match="has no columns yet"):
            refused()
    with pytest.raises(CaseBaseError, match="pass target"):
        empty.import_cases(table(), by=BY)
    assert empty.search(by=BY).total == 0
    empty.define(DICTIONARY, "outcome", by=BY)
    with pytest.raises(CaseBaseError, match="no model is active"):
        empty.consult(SOMEONE, by=BY)
    with pytest.raises(CaseBaseError, match="0 past cases with 0 different outcomes"):
        learn(empty._database, BY)
    check(empty)


def test_a_table_says_itself_what_its_cases_are(empty):
    rows = table(6)
    rows.loc[2, "outcome"] = None
    ids = empty.import_cases(rows, by=BY, target="outcome", id_column="who", drop=["town"])
    assert ids == range(1, 7)
    assert {name: empty.dictionary[name].kind for name in empty.dictionary.names} == {
        "age": "number",
        "pain": "number",
        "bp": "number",
        "smokes": "boolean",
    }
    assert empty.classes == {"0": 0, "1": 1}
    assert [case.state for case in empty.search(by=BY).items] == ["past", "past", "open", "past", "past", "past"]


def test_repeats_are_refused_unless_allowed(empty):
    rows = table(30).drop(columns="who")
    empty.import_cases(rows, by=BY, target="outcome", dictionary=DICTIONARY)
    with pytest.raises(ConflictError, match=r"all rows of the table were already imported \(row 1 equals case 1 "):
        empty.import_cases(rows.sample(frac=1.0, random_state=0).sort_index(), by=BY)
    some = pandas.concat([table(20, seed=5).drop(columns="who"), rows.iloc[3:9]])
    with pytest.raises(ConflictError, match=r"6 of 26 rows are repeats \(row 21 equals case 4 .* --allow-repeats"):
        empty.import_cases(some, by=BY)
    with pytest.raises(ConflictError, match=r"20 of 40 rows are repeats \(row 21 equals row 1 "):
        empty.import_cases(pandas.concat([table(20, seed=6).drop(columns="who")] * 2), by=BY)
    assert empty.search(by=BY).total == 30
    assert empty.import_cases(some, by=BY, allow_repeats=True) == range(31, 57)
    near = rows.dropna().assign(bp=lambda rows: rows["bp"] + 0.1, outcome=1 - rows["outcome"])
    with pytest.warns(RepeatedCasesWarning, match=f"{len(near)} of {len(near)} rows repeat another case or nearly do"):
        empty.import_cases(near, by=BY)


def test_equal_rows_are_no_repeats_where_chance_explains_them_or_an_identifier_tells_them_apart(empty):
    rng = random.Random(0)
    few = pandas.DataFrame([[rng.randint(0, 1) for _ in range(3)] for _ in range(60)], columns=["a", "b", "outcome"])
    empty.import_cases(few.iloc[:40], by=BY, target="outcome")
    empty.import_cases(few.iloc[40:], by=BY)
    with pytest.raises(ConflictError, match="were already imported"):
        empty.import_cases(few.iloc[40:], by=BY)
    empty.import_cases(few.iloc[40:].assign(who=[f"Q-{i}" for i in range(20)]), by=BY, id_column="who")
    assert empty.search(by=BY).total == 80


def test_identifiers_are_not_kept(empty):
    rows = table(6).assign(name="Zebulonqx")
    dictionary = {**DICTIONARY, "name": {"identifier": True}, "who": {"identifier": True}}
    for external_ids in ("who", None):
        empty.import_cases(
            rows,
            by=BY,
            target="outcome",
            id_column=external_ids,
            dictionary=dictionary if external_ids else None,
            allow_repeats=external_ids is None,
        )
    assert set(empty.dictionary.names) == set(FEATURES)
    assert [case.external_id for case in empty.search(by=BY).items][4:8] == ["P-004", "P-005", None, None]


COMPARE = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def meets(value, operator, wanted):
    """What a condition means; a missing value meets none but that it is missing."""
    if wanted is None:
        return (value is None) == (operator == "=")
    return value is not None and COMPARE[operator](value, wanted)


def key_of(order):
    """Missing values first."""
    if order == "id":
        return lambda case: case.id
    return lambda case: (case.values[order] is not None, case.values[order] or 0, case.id)


def test_search_finds_what_a_plain_loop_finds(base):
    rng = random.Random(5)
    everyone = base.search(by=BY, limit=1000).items
    assert [case.id for case in everyone] == list(range(1, 31))
    for _ in range(60):
        someone = rng.choice(everyone).values
        conditions = []
        for name in rng.sample(FEATURES, rng.randint(1, 3)):
            ordered = name in ("age", "pain", "bp") and someone[name] is not None
            conditions.append((name, rng.choice(list(COMPARE) if ordered else ["=", "!="]), someone[name]))
        order, descending = rng.choice(("id", "age", "bp")), rng.random() < 0.5
        found = [case for case in everyone if all(meets(case.values[n], op, v) for n, op, v in conditions)]
        found.sort(key=key_of(order), reverse=descending)
        page = base.search(conditions, by=BY, order=order, descending=descending, offset=1, limit=5)
        assert page.total == len(found), conditions
        assert [case.id for case in page.items] == [case.id for case in found[1:6]], (conditions, order)


@pytest.mark.parametrize(
    "name", ["a\\b", "\\", r"a\:b", "a'b", "%s", "a:b :c", "$.x", "a\tb", "a'); DROP TABLE cases; --"]
)
def test_search_finds_columns_of_every_name(empty, name):
    sizes, outcomes = [1.5, 2.5, 3.5, 4.5], ["s", "w", "s", "w"]
    empty.import_cases(pandas.DataFrame({name: sizes, "outcome": outcomes}), by=BY, target="outcome")
    found = empty.search([(name, ">", 2.0)], order=name, descending=True, by=BY)
    assert [case.values[name] for case in found.items] == [4.5, 3.5, 2.5]


def test_searching_by_what_is_not_a_feature(base):
    assert base.search([("external_id", "=", "P-004")], by=BY).items[0].id == 5
    sick = base.search([("outcome", "=", "sick")], by=BY, limit=1000)
    assert sick.total == sum(case.outcome for case in base.search(by=BY, limit=1000).items)
    assert base.search([("id", ">", 28)], by=BY, state="past").total == 2
    assert base.search(by=BY, state="open").total == 0
    shown = base.audit(action="search")[0]
    assert shown.details["found"] == 0  # who looked for what is written down, and no value
    assert base.audit(action="search")[-1].details["where"] == ["external_id ="]


def test_what_goes_out_comes_in_again(base, places, tmp_path):
    base.consult(SOMEONE, by=BY, external_id="N-1")
    n = base.export(tmp_path / "cases.csv", by=BY)
    assert n == 31
    with pytest.raises(CaseBaseError, match="already exists"):
        base.export(tmp_path / "cases.csv", by=BY)
    base.export(tmp_path / "cases.parquet", by=BY, state="past", sensitive=False)
    base.export(f"sqlite:///{tmp_path}/out.db", by=BY)
    there = base.search(by=BY, limit=1000).items
    with places.open(places.empty()) as other:
        other.define(DICTIONARY, "outcome", by=BY)
        other.import_cases(str(tmp_path / "cases.csv"), by=BY, id_column="external_id", drop=["case_id", "state"])
        here = other.search(by=BY, limit=1000).items
    for name in ("values", "state", "outcome", "external_id"):
        assert [getattr(case, name) for case in here] == [getattr(case, name) for case in there]
    import pandas

    frame = pandas.read_parquet(tmp_path / "cases.parquet")
    assert list(frame.columns) == ["case_id", "state", "age", "pain", "bp", "smokes", "outcome"]
    assert len(frame) == 30
    assert len(pandas.read_sql("SELECT * FROM cases", f"sqlite:///{tmp_path}/out.db")) == 31


def test_a_backup_is_a_case_base_and_can_be_restored(base, places, tmp_path):
    seen = base.consult(SOMEONE, by=BY)
    path = base.backup(tmp_path / "backup.db", by=BY)
    with pytest.raises(CaseBaseError, match="already exists"):
        base.backup(path, by=BY)
    with places.open(f"sqlite:///{path}") as copy:
        check(copy)
        assert copy.case(seen.case_id, by=BY).values == seen.values
        assert copy.search([("age", ">=", 60)], by=BY).total == base.search([("age", ">=", 60)], by=BY).total
    with places.open(places.empty()) as other:
        other.restore(path, by="steward")
        assert other.consultations(seen.case_id, by=BY)[0][0] == seen
        assert [entry.action for entry in other.audit(action="restore")] == ["restore"]
        assert other.consult(SOMEONE, by=BY).explanation["prediction"] == seen.explanation["prediction"]
        assert other.verify_audit().intact
        with pytest.raises(CaseBaseError, match="is not empty"):
            other.restore(path, by="steward")


def test_random_patients_are_all_kept_as_they_came(base):
    rng = random.Random(3)
    people = [patient(rng) for _ in range(5)]
    ids = base.add([{**one, "outcome": outcome(one)} for one in people], by=BY)
    assert [base.case(i, by=BY).values for i in ids] == people
