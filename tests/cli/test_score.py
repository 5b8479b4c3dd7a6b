"""Today's admissions from a terminal: a table, a database, FHIR as NDJSON or Bundles, on a schedule."""

import json
import shutil
import sqlite3
import warnings
from datetime import date

import pytest

from bayespatch.casebase import CaseBase
from bayespatch.casebase.refit import learn
from bayespatch.cli.casebase import admissions
from bayespatch.fhir import Mapping, read_bulk, to_frame
from tests.casebase.clinic import DICTIONARY, QUICK, table
from tests.cli.program import call, complaint, document
from tests.fhir.synthetic import MAPPING, record, write_export

QUERY = ("--query", "SELECT * FROM today", "--id", "stay", "--group", "who", "--by", "ward")
ROWS = [("S-1", "P-1", 61, 1, 130.5, "Ulm"), ("S-2", "P-2", 40, 3, None, "Jena")]
VIEW = "CREATE VIEW today AS SELECT *, 'ward 3' AS bed FROM stays"


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    path = tmp_path_factory.mktemp("score") / "clinic.db"
    words = {name: entry for name, entry in DICTIONARY.items() if name != "smokes"}  # SQLite has no booleans
    with CaseBase.open(path) as base, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        base.import_cases(table().drop(columns=["smokes", "who"]), by="t", target="outcome", dictionary=words)
        base.promote(learn(base._database, "t", QUICK).version, by="t")
    return path


@pytest.fixture
def ward(filled, tmp_path):
    """A case base, and the database of a ward whose table "today" has two admissions."""
    shutil.copy(filled, tmp_path / "clinic.db")
    with sqlite3.connect(tmp_path / "ehr.db") as connection:
        connection.execute("CREATE TABLE stays (stay, who, age, pain, bp, town)")
        connection.execute(VIEW)
        connection.executemany("INSERT INTO stays VALUES (?, ?, ?, ?, ?, ?)", ROWS)
    return tmp_path


def change(ward, statement):
    with sqlite3.connect(ward / "ehr.db") as connection:
        connection.execute(statement)


def score(ward, *words):
    return ("casebase", "score", ward / "clinic.db", f"sqlite:///{ward / 'ehr.db'}", *QUERY, *words)


def test_admissions_of_a_database(ward):
    done = document(*score(ward, "--json"))
    assert (len(done["new"]), done["updated"], done["refused"]) == (2, [], [])
    assert document(*score(ward, "--json"))["unchanged"] == 2
    change(ward, "UPDATE stays SET bp = 140 WHERE stay = 'S-2'")
    assert "0 new, 1 scored again, 1 unchanged, 0 with a known outcome, 0 refused" in call(*score(ward)).stdout
    with CaseBase.open(ward / "clinic.db") as base:
        case = base.case("S-2", by="t")
        assert (case.patient, case.values["bp"], case.values["pain"]) == ("P-2", 140, 3)
        assert {item.by for item in base.worklist(by="t").items} == {"ward"}
    change(ward, "DELETE FROM stays")
    assert document(*score(ward, "--json"))["new"] == []  # nobody was admitted


def test_an_impossible_value_refuses_its_admission_alone(ward):
    change(ward, "UPDATE stays SET age = 610 WHERE stay = 'S-1'")
    result = call(*score(ward, "--json"))
    assert result.exit_code == 1
    assert "1 admission refused: admission 'S-1': column 'age': 610 is outside the possible range" in result.stderr
    assert len(json.loads(result.stdout)["new"]) == 1


def test_a_schedule_goes_on_after_a_round_that_fails(ward, monkeypatch):
    rounds = []

    def sleep(seconds):
        assert 0 <= seconds <= 120
        rounds.append(seconds)
        if len(rounds) == 1:
            change(ward, "DROP VIEW today")
        elif len(rounds) == 2:
            change(ward, VIEW)
            change(ward, "UPDATE stays SET bp = 99 WHERE stay = 'S-1'")
        else:
            raise KeyboardInterrupt

    monkeypatch.setattr(admissions.time, "sleep", sleep)
    result = call(*score(ward, "--every", "2"))
    assert result.exit_code == 130
    assert "nothing was scored: " in result.stderr
    assert "no such table" in result.stderr
    lines = [line for line in result.stdout.splitlines() if "model version" in line]
    assert ["2 new, 0 scored again" in lines[0], "0 new, 1 scored again" in lines[1]] == [True, True]


def test_options_that_do_not_go_together(ward):
    data = (ward / "clinic.db", ward / "x.csv")
    for words, message in (
        ((), "pass --id"),
        (("--id", "stay", "--since", "today"), "--since is for health records"),
        (("--mapping", "m.yaml", "--id", "stay"), "remove --id"),
        (("--mapping", "m.yaml", "--since", "yesterday"), "is not a day"),
    ):
        result = call("casebase", "score", *data, *words)
        assert result.exit_code == 2
        assert message in " ".join(result.stderr.split())
    (ward / "x.csv").write_text("stay,age\nS-1,61\n")
    assert "the admissions have no column 'pain'" in complaint("casebase", "score", *data, "--id", "stay")


# Health records


@pytest.fixture(scope="module")
def hospital(tmp_path_factory):
    """A case base filled from a FHIR export, and its mapping."""
    folder = tmp_path_factory.mktemp("fhir")
    write_export(folder / "export", 24)
    (folder / "mapping.yaml").write_text(MAPPING)
    mapping = Mapping.load(MAPPING)
    past = to_frame(list(read_bulk(folder / "export", mapping)), mapping)
    with CaseBase.open(folder / "clinic.db") as base, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        base.import_cases(past, by="t", target="infarction", id_column="patient", group_column="patient")
        base.promote(learn(base._database, "t", QUICK).version, by="t")
    return folder


def test_admissions_of_a_bulk_export_and_of_bundles_are_the_same(hospital, tmp_path):
    base = tmp_path / "clinic.db"
    shutil.copy(hospital / "clinic.db", base)
    write_export(tmp_path / "today", 4, seed=7)
    (tmp_path / "bundles").mkdir()
    for number in range(4):
        entries = [{"resource": one} for one in record(number, seed=7)]
        bundle = {"resourceType": "Bundle", "type": "collection", "entry": entries}
        (tmp_path / "bundles" / f"p{number}.json").write_text(json.dumps(bundle))
    words = ("--mapping", hospital / "mapping.yaml", "--by", "ward", "--json")
    done = document("casebase", "score", base, tmp_path / "today", *words)
    assert (len(done["new"]), done["refused"]) == (4, [])
    assert document("casebase", "score", base, tmp_path / "bundles", *words)["unchanged"] == 4
    with CaseBase.open(base) as opened:
        first = opened.case(done["new"][0], by="t")
        seen, _ = opened.consultations(first.id, by="t")[0]
    assert first.patient == first.external_id.split()[0] == "p0"
    assert date.fromisoformat(first.external_id.split()[1]).year == 2023
    assert seen.explanation["about"]["own_visits"] == 1  # the past case of the same patient has no vote


def test_only_admissions_since_a_day(hospital, tmp_path):
    base = tmp_path / "clinic.db"
    shutil.copy(hospital / "clinic.db", base)
    words = ("--mapping", hospital / "mapping.yaml", "--json")
    assert document("casebase", "score", base, hospital / "export", *words, "--since", "today")["new"] == []
    days = sorted(case.at.date() for case in read_bulk(hospital / "export", Mapping.load(MAPPING)))
    later = sum(day >= days[20] for day in days)
    done = document("casebase", "score", base, hospital / "export", *words, "--since", days[20])
    assert len(done["new"]) == later
    (tmp_path / "undated.yaml").write_text(MAPPING.partition("\nat:")[0])
    undated = ("--mapping", tmp_path / "undated.yaml", "--since", "today")
    assert "does not say when a patient was admitted" in complaint(
        "casebase", "score", base, hospital / "export", *undated
    )


def test_the_latest_admission_counts_since_a_day_and_unusable_values_are_noted(hospital, tmp_path):
    base, export = tmp_path / "clinic.db", tmp_path / "today"
    shutil.copy(hospital / "clinic.db", base)
    write_export(export, 2, seed=7)
    visits = (export / "Encounter.ndjson").read_text().splitlines()
    again = json.loads(visits[1])
    period = {"start": f"{date.today()}T00:00:00Z"}
    visits.append(json.dumps({**again, "id": "again", "status": "in-progress", "period": period}))
    (export / "Encounter.ndjson").write_text("\n".join(visits))
    measured = next(one for one in record(1, seed=7) if one["resourceType"] == "Observation" and "valueQuantity" in one)
    measured |= {"id": "new", "effectiveDateTime": f"{date.today()}", "valueQuantity": {"value": 130, "unit": "Torr"}}
    with open(export / "Observation.ndjson", "a") as file:
        file.write(json.dumps(measured) + "\n")
    result = call("casebase", "score", base, export, "--mapping", hospital / "mapping.yaml", "--since", "today")
    assert "1 new" in result.stdout
    assert "unit in 1 of 1 case, such as column" in result.stderr
    assert "missing in" not in result.stderr
    with CaseBase.open(base) as opened:
        [case] = opened.search(state="open", by="t").items
    assert case.external_id == f"p1 {date.today()}"


def test_a_malformed_bundle_is_refused_with_a_pointer(hospital, tmp_path):
    (tmp_path / "p1.json").write_text('{"resourceType": "Bundle", "entry": [{"resource": {"resourceType": 3}}]}')
    said = complaint("casebase", "score", hospital / "clinic.db", tmp_path, "--mapping", hospital / "mapping.yaml")
    assert "p1.json.entry[0].resource.resourceType: 3 is not text" in said
