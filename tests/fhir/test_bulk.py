"""Bulk exports: cases at their own moment, files and lines that are refused, and the import from a terminal."""

import json
import tracemalloc
from datetime import UTC, datetime

import pytest

from bayespatch.casebase import CaseBase
from bayespatch.fhir import FhirError, Mapping, read_bulk, to_frame
from tests.cli.program import call, complaint, document
from tests.fhir.records import patient
from tests.fhir.synthetic import MAPPING, record, write_export


@pytest.fixture(scope="module")
def mapping():
    return Mapping.load(MAPPING)


def test_every_patient_becomes_a_case_at_the_admission(tmp_path, mapping):
    write_export(tmp_path, 20)
    progress = []
    cases = {case.patient: case for case in read_bulk(tmp_path, mapping, progress=progress.append)}
    assert set(cases) == {f"p{number}" for number in range(20)}
    assert progress[-1].bytes_read == progress[-1].bytes_total
    for number in range(20):
        case, resources = cases[f"p{number}"], record(number)
        admitted = next(one["period"]["start"] for one in resources if one["resourceType"] == "Encounter")
        codes = {one["code"]["coding"][0]["code"] for one in resources if "code" in one}
        assert case.at == datetime.fromisoformat(admitted)
        assert case.outcome == ("yes" if "22298006" in codes else "no")
        assert case.values["diabetes"] == ("yes" if "44054006" in codes else "no")
        assert (case.values["chol"] is None) == ("2093-3" not in codes)
        alone = mapping.case(resources, case.at)
        assert dict(alone.values) == dict(case.values)


def test_without_a_moment_of_its_own_the_argument_counts(tmp_path):
    write_export(tmp_path, 3)
    rules = MAPPING.partition("outcome:")[0]
    for case in read_bulk(tmp_path, Mapping.load(rules), datetime(2022, 1, 1, tzinfo=UTC)):
        assert case.values["sbp"] is None
        assert ("sbp", "missing") in [problem[:2] for problem in case.problems]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"resourceType": "Observation"', "Z.ndjson:2: is not JSON"),
        ("[1]", "Z.ndjson:2: [1] is not a resource"),
        ('{"resourceType": "Patient"}', "Z.ndjson:2 Patient.id: is missing"),
        (json.dumps({**patient("p9"), "birthDate": "May"}), "Z.ndjson:2 Patient.birthDate: 'May' is not allowed"),
        ('{"resourceType": "Condition", "code": {}}', "Z.ndjson:2 Condition.subject: is missing"),
    ],
)
def test_a_malformed_line_refuses_the_whole_export(tmp_path, mapping, line, message):
    write_export(tmp_path, 3)
    (tmp_path / "Z.ndjson").write_text(json.dumps(patient("p8")) + "\n" + line + "\n")
    with pytest.raises(FhirError) as error:
        next(read_bulk(tmp_path, mapping))
    assert str(error.value).startswith(message)


def test_a_bundle_that_is_too_long_is_not_read_whole(tmp_path, mapping):
    with open(tmp_path / "p1.json", "wb") as file:
        file.truncate(200_000_000)
    tracemalloc.start()
    with pytest.raises(FhirError, match=r"p1\.json: is longer than 20,000,000 bytes"):
        next(read_bulk(tmp_path, mapping))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50_000_000


def test_a_column_of_the_mapping_cannot_be_called_like_the_patients(mapping):
    same = Mapping.load("columns:\n  patient: {resource: Patient, path: gender}")
    with pytest.raises(FhirError, match="a column is named 'patient'"):
        to_frame([same.case([patient()])], same)


def test_an_export_is_imported_from_a_terminal(tmp_path):
    write_export(tmp_path / "export", 30)
    (tmp_path / "mapping.yaml").write_text(MAPPING)
    base = tmp_path / "clinic.db"
    call("casebase", "init", base)
    options = ("--mapping", tmp_path / "mapping.yaml")
    result = call("casebase", "import", base, tmp_path / "export", *options, "--by", "registry", "--json")
    assert json.loads(result.stdout) == {"cases": 30, "first": 1, "last": 30}
    n = sum(
        all(one.get("code", {}).get("coding", [{}])[0].get("code") != "2093-3" for one in record(i)) for i in range(30)
    )
    assert f"note: column 'chol': missing in {n} of 30 cases, such as column 'chol': no Observation" in result.stderr
    with CaseBase.open(base) as opened:
        assert opened.target == "infarction"
        assert opened.case("p3", by="tester").values["sex"] == record(3)[0]["gender"]
    wrong = call("casebase", "import", base, tmp_path / "export", *options, "--id", "who")
    assert (wrong.exit_code, "--mapping already identifies the patients" in wrong.stderr) == (2, True)
    again = complaint("casebase", "import", base, tmp_path / "export", *options)
    assert "p0" in again


def test_patients_without_a_moment_are_counted(tmp_path):
    write_export(tmp_path / "export", 10)
    encounters, rules = tmp_path / "export" / "Encounter.ndjson", tmp_path / "mapping.yaml"
    encounters.write_text("".join(encounters.read_text().splitlines(keepends=True)[:7]))
    rules.write_text(MAPPING)
    call("casebase", "init", tmp_path / "clinic.db")
    command = ("casebase", "import", tmp_path / "clinic.db", tmp_path / "export", "--mapping", rules)
    assert "note: 3 patients skipped, without the date that 'at' of the mapping names" in call(*command).stderr
    rules.write_text(MAPPING.replace("path: period.start", "path: location.period.start"))
    assert "no patient has the date that 'at' of the mapping names; correct 'at'" in complaint(*command)


def test_a_second_source_agrees_with_the_definition(tmp_path):
    write_export(tmp_path / "one", 30)
    (tmp_path / "mapping.yaml").write_text(MAPPING)
    (tmp_path / "more.yaml").write_text(MAPPING.replace("  statin:", "  statins:"))
    base = tmp_path / "clinic.db"
    call("casebase", "init", base)
    document("casebase", "import", base, tmp_path / "one", "--mapping", tmp_path / "mapping.yaml", "--json")
    wrong = complaint("casebase", "import", base, tmp_path / "one", "--mapping", tmp_path / "more.yaml")
    assert "the data dictionary has no column 'statins'; did you mean 'statin'?" in wrong
