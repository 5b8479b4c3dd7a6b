"""Cases from an OMOP common data model: concepts and their descendants, units, dates, and the messages."""

import sqlite3
from datetime import UTC, datetime

import pytest

from bayespatch.fhir import FhirError, Mapping, read_omop
from bayespatch.fhir.bulk import to_frame

MAPPING = """
columns:
  age: {resource: Patient, path: birthDate, unit: a}
  sex: {resource: Patient, path: gender}
  sbp: {resource: Observation, omop: [3004249], unit: "mm[Hg]", within_days: 365}
  smoker: {resource: Observation, omop: [43054909], values: {"omop|45884037": "yes", "omop|45883458": "no"}}
  diabetes: {resource: Condition, omop: [201820], absent: no, values: {true: "yes", false: "no"}}
  statin: {resource: MedicationStatement, omop: [1539403], absent: no, current: true}
outcome:
  died: {resource: Observation, omop: [4306655], path: "", absent: no, values: {true: 1, false: 0}}
at: {resource: Encounter, omop: [9201], path: period.start, select: first}
"""
TABLES = """
CREATE TABLE person (person_id INT, gender_concept_id INT, year_of_birth INT, month_of_birth INT, day_of_birth INT);
CREATE TABLE measurement (measurement_id INT, person_id INT, measurement_concept_id INT, measurement_date TEXT,
    value_as_number REAL, value_as_concept_id INT, unit_concept_id INT);
CREATE TABLE observation (observation_id INT, person_id INT, observation_concept_id INT, observation_date TEXT,
    value_as_number REAL, value_as_concept_id INT, unit_concept_id INT);
CREATE TABLE condition_occurrence (condition_occurrence_id INT, person_id INT, condition_concept_id INT,
    condition_start_date TEXT, condition_end_date TEXT);
CREATE TABLE drug_exposure (drug_exposure_id INT, person_id INT, drug_concept_id INT, drug_exposure_start_date TEXT,
    drug_exposure_end_date TEXT);
CREATE TABLE visit_occurrence (visit_occurrence_id INT, person_id INT, visit_concept_id INT, visit_start_date TEXT,
    visit_end_date TEXT);
CREATE TABLE concept (concept_id INT, vocabulary_id TEXT, concept_code TEXT);
CREATE TABLE concept_ancestor (ancestor_concept_id INT, descendant_concept_id INT);
INSERT INTO concept VALUES (8876, 'UCUM', 'mm[Hg]'), (44777602, 'UCUM', 'kPa'), (3004249, 'LOINC', '8480-6');
INSERT INTO concept_ancestor VALUES (3004249, 3004249), (43054909, 43054909), (201820, 201820), (201820, 201826),
    (1539403, 1539403), (4306655, 4306655), (9201, 9201);
INSERT INTO person VALUES (1, 8507, 1960, 5, 17), (2, 8532, 1971, NULL, NULL), (3, 8507, 1950, 1, 1);
INSERT INTO visit_occurrence VALUES (1, 1, 9201, '2023-05-01', '2023-05-04'), (2, 2, 9201, '2023-06-01', NULL),
    (3, 1, 9201, '2023-09-01', NULL);
INSERT INTO measurement VALUES (1, 1, 3004249, '2023-04-30', 16, NULL, 44777602),
    (2, 1, 3004249, '2023-07-30', 180, NULL, 8876), (3, 2, 3004249, '2023-05-30', 133, NULL, NULL);
INSERT INTO observation VALUES (1, 1, 43054909, '2023-04-30', NULL, 45884037, NULL),
    (2, 2, 4306655, '2024-01-01', NULL, NULL, NULL);
INSERT INTO condition_occurrence VALUES (1, 1, 201826, '2019-01-01', NULL), (2, 2, 201826, '2023-06-30', NULL);
INSERT INTO drug_exposure VALUES (1, 1, 1539403, '2023-01-01', '2023-02-01'), (2, 2, 1539403, '2023-01-01', NULL);
"""


@pytest.fixture
def url(tmp_path):
    with sqlite3.connect(tmp_path / "omop.db") as connection:
        connection.executescript(TABLES)
    return f"sqlite:///{tmp_path / 'omop.db'}"


def test_events_become_cases(url):
    first, second = read_omop(url, Mapping.load(MAPPING))  # the third person has no visit
    assert first.at == datetime(2023, 5, 1, tzinfo=UTC)
    assert first.values == {
        "age": 62,
        "sex": "male",
        "sbp": 120.009852135,  # kPa, before the visit and not after it
        "smoker": "yes",
        "diabetes": "yes",  # a descendant of the concept
        "statin": False,  # ended
    }
    assert first.sources["sbp"] == "measurement/1"
    assert (first.outcome, second.outcome) == (0, 1)
    assert second.values == {"age": 52, "sex": "female", "sbp": None, "smoker": None, "diabetes": "no", "statin": True}
    assert [problem[:2] for problem in second.problems] == [("sbp", "unit"), ("smoker", "missing")]
    assert second.problems[0].text.startswith("column 'sbp': measurement/3.unit: is missing; add it")


def test_cases_become_a_table(url):
    mapping = Mapping.load(MAPPING)
    frame = to_frame(read_omop(url, mapping), mapping)
    assert list(frame) == ["patient", "age", "sex", "sbp", "smoker", "diabetes", "statin", "died"]
    assert frame["patient"].tolist() == ["1", "2"]
    assert frame["died"].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("omop: [3004249], ", "", "column 'sbp': the mapping names no OMOP concept; add omop: [CONCEPT_ID]"),
        ("path: gender", "path: active", "column 'sex': path 'active' is not in OMOP; use birthDate or gender"),
    ],
)
def test_a_mapping_without_concepts_is_refused(url, old, new, message):
    with pytest.raises(FhirError) as error:
        read_omop(url, Mapping.load(MAPPING.replace(old, new)))
    assert str(error.value) == message
