"""One patient's record as the values of columns: selection, units, absence, time, and every message."""

import json
from datetime import UTC, datetime

import pytest

from bayespatch.dictionary import Dictionary
from bayespatch.fhir import FhirError, Mapping, read_bulk
from bayespatch.language import stored_text, using
from tests.fhir.records import bundle, concept, condition, observation, patient, quantity

AT = datetime(2024, 5, 2, 12, tzinfo=UTC)
MAPPING = """
columns:
  age: {resource: Patient, path: birthDate, unit: a}
  sex: {resource: Patient, path: gender, values: {female: 0, male: 1}}
  sbp: {resource: Observation, codes: ["loinc|8480-6", "loinc|85354-9"], unit: "mm[Hg]", within_days: 365}
  chol: {resource: Observation, codes: ["loinc|2093-3"], unit: mg/dL, molar_mass: 386.65}
  fbs:
    {resource: Observation, codes: ["loinc|1558-6"], unit: mg/dL, above: 120, values: {true: 1, false: 0}}
  diabetes: {resource: Condition, codes: ["snomed|44054006", "icd-10|E11*"], absent: no, values: {true: 1, false: 0}}
  pain:
    resource: Observation
    codes: ["loinc|72514-3"]
    values: {"snomed|29857009": pain, none: none}
"""
DICTIONARY = Dictionary.from_dict(
    {
        "age": {"kind": "number", "possible": [0, 120]},
        "sex": {"levels": {0: "female", 1: "male"}},
        "sbp": {"kind": "number", "possible": [40, 300]},
        "chol": {"kind": "number", "possible": [50, 1000]},
        "fbs": {"levels": {0: "no", 1: "yes"}},
        "diabetes": {"levels": {0: "no", 1: "yes"}},
        "pain": {"kind": "text"},
    }
)


@pytest.fixture(scope="module")
def mapping():
    return Mapping.load(MAPPING, DICTIONARY)


def sbp(value=140, unit="mm[Hg]", name="o1", time="2024-05-01T08:00:00Z", **more):
    return observation(name, "8480-6", time, valueQuantity=quantity(value, unit), **more)


def warning(case, column):
    return [problem.text for problem in case.problems if problem.column == column]


def test_a_patient_becomes_a_case(mapping):
    case = mapping.case(
        bundle(
            patient(),
            observation(
                "bp",
                "85354-9",
                component=[{"code": concept("8480-6"), "valueQuantity": quantity(16, "kPa")}],
            ),
            observation("c1", "2093-3", valueQuantity=quantity(6, "mmol/L")),
            observation("g1", "1558-6", valueQuantity=quantity(7, "g/L")),
            condition("d1", "E11.9", "http://hl7.org/fhir/sid/icd-10"),
            observation("pain", "72514-3", valueCodeableConcept=concept("29857009", "http://snomed.info/sct")),
        ),
        at=AT,
    )
    assert case.values == {
        "age": 63,
        "sex": 1,
        "sbp": pytest.approx(120.01, abs=0.005),
        "chol": pytest.approx(231.99),
        "fbs": 1,
        "diabetes": 1,
        "pain": "pain",
    }
    assert case.patient == "p1"
    assert case.sources["sbp"] == "Observation/bp"
    assert case.sources["diabetes"] == "Condition/d1"
    assert case.warnings == ()


def test_absence_is_missing_or_no_as_the_mapping_says(mapping):
    case = mapping.case(bundle(patient()), at=AT)
    assert case.values["diabetes"] == 0
    assert case.values["sbp"] is None
    assert warning(case, "diabetes") == []
    assert warning(case, "sbp") == [
        "column 'sbp': no Observation with code http://loinc.org|8480-6, http://loinc.org|85354-9 up to 2024-05-02; "
        "enter the value by hand if you know it"
    ]


@pytest.mark.parametrize(("select", "value"), [("latest", 150), ("first", 130), ("max", 160), ("min", 130)])
def test_one_of_several_values_counts(select, value):
    mapping = Mapping.load(f"""
columns:
  sbp: {{resource: Observation, codes: ["loinc|8480-6"], unit: "mm[Hg]", select: {select}}}
""")
    values = {"2024-01-01": 130, "2024-02-01": 160, "2024-03-01": 150, "2024-06-01": 170}
    case = mapping.case([patient(), *(sbp(v, name=f"o{v}", time=t) for t, v in values.items())], at=AT)
    assert case.values["sbp"] == value  # the last one is later than the prediction
    assert case.sources["sbp"] == f"Observation/o{value}"


def test_conflicting_values_are_left_out(mapping):
    case = mapping.case(bundle(patient(), sbp(140), sbp(150, name="o2")), at=AT)
    assert case.values["sbp"] is None
    assert warning(case, "sbp") == [
        "column 'sbp': Observation/o1 has 140 (Bundle.entry[1].resource.valueQuantity) and Observation/o2 has 150 "
        "(Bundle.entry[2].resource.valueQuantity) at the same time; enter the correct value by hand"
    ]
    again = mapping.case(bundle(patient(), sbp(140), sbp(140, name="o2")), at=AT)
    assert again.values["sbp"] == 140


def test_an_outdated_value_is_left_out(mapping):
    case = mapping.case(bundle(patient(), sbp(time="2022-01-31")), at=AT)
    assert case.values["sbp"] is None
    assert warning(case, "sbp") == [
        "column 'sbp': the latest value, Observation/o1 (Bundle.entry[1].resource.valueQuantity), is from 2022-01-31 "
        "and older than 365 days; measure it again"
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            quantity(140, "mg/dL"),
            "Bundle.entry[1].resource.valueQuantity.code: 'mg/dL' cannot be converted to 'mm[Hg]'; correct the unit",
        ),
        (
            quantity(140, "mmHgg"),
            "Bundle.entry[1].resource.valueQuantity.code: 'mmHgg' is not a UCUM unit; correct the unit",
        ),
        (quantity(140, "[pH]"), "Bundle.entry[1].resource.valueQuantity.code: '[pH]' "),
        (quantity(140, "mm[Hg].10*4000000"), "has a power of more than two digits, which is not supported"),
        (quantity(140, "mm[Hg]/[pi]9999"), "has a power of more than two digits, which is not supported"),
        (quantity(140, "mm[Hg].10*99.10*99.10*99.10*99"), "cannot be converted to 'mm[Hg]'; correct the unit"),
        (quantity(140, "mm[Hg].10*-99.10*-99.10*-99.10*-99"), "cannot be converted to 'mm[Hg]'; correct the unit"),
        ({"value": 140}, "Bundle.entry[1].resource.valueQuantity.unit: is missing; add it (the column is in mm[Hg])"),
        (
            {"value": 140, "unit": "mmHg"},
            "Bundle.entry[1].resource.valueQuantity.unit: 'mmHg' is not a UCUM code; list it under units",
        ),
        (
            {**quantity(140, "mm[Hg]"), "comparator": ">"},
            "Bundle.entry[1].resource.valueQuantity.comparator: is '>': >140 is a bound; enter a number",
        ),
        ("140 mmHg", "Bundle.entry[1].resource.valueString: '140 mmHg' is not a number with a unit; enter it by hand"),
        (quantity(10**400, "mm[Hg]"), "Bundle.entry[1].resource.valueQuantity.value: is too large; correct it"),
        (quantity(1400, "mm[Hg]"), "1400 is outside the possible range, 40 to 300; correct it"),
    ],
)
def test_unusable_numbers_are_left_out(mapping, value, message):
    given = {"valueString" if isinstance(value, str) else "valueQuantity": value}
    case = mapping.case(bundle(patient(), observation("o1", "8480-6", **given)), at=AT)
    assert case.values["sbp"] is None
    assert message in warning(case, "sbp")[0]


@pytest.mark.parametrize("unit", ["%", "1"])
def test_amounts_of_substance_are_not_percentages(unit):
    text = f"\ncolumns:\n  a1c: {{resource: Observation, codes: ['loinc|4548-4'], unit: '{unit}'}}"
    ifcc = observation("o1", "4548-4", valueQuantity=quantity(48, "mmol/mol"))  # 6.5% of the hemoglobin
    case = Mapping.load(text).case([patient(), ifcc], at=AT)
    assert case.values["a1c"] is None
    assert f"'mmol/mol' cannot be converted to '{unit}'; correct the unit" in case.warnings[0]


def test_a_path_converts_what_units_cannot():
    text = """
columns:
  a1c:
    resource: Observation
    codes: ["loinc|4548-4", "loinc|59261-8"]
    path: iif(value.code = 'mmol/mol', value.value * 0.09148 + 2.152, value.value)
"""
    mapping = Mapping.load(text)
    for value, unit in ((48, "mmol/mol"), (6.5, "%")):
        measured = observation("o1", "4548-4", valueQuantity=quantity(value, unit))
        assert mapping.case([patient(), measured], at=AT).values["a1c"] == pytest.approx(6.5, abs=0.05)


def test_acidity_has_a_unit(mapping):
    ph = observation("o1", "2744-1", valueQuantity=quantity(7.31, "[pH]"))
    text = "\ncolumns:\n  ph: {resource: Observation, codes: ['loinc|2744-1'], unit: '%s'}"
    assert Mapping.load(text % "[pH]").case([patient(), ph], at=AT).values["ph"] == 7.31
    assert "'[pH]' cannot be converted to 'mmol/L'" in Mapping.load(text % "mmol/L").case([patient(), ph]).warnings[0]


@pytest.mark.parametrize(
    ("unit", "value"), [("mm[Hg]", 140), ("(10.mm[Hg])", 14), ("cm[Hg]", 14), ("mm[Hg].10*-1", 1400)]
)
def test_factors_of_a_unit_count(mapping, unit, value):
    case = mapping.case(bundle(patient(), observation("o1", "8480-6", valueQuantity=quantity(value, unit))), at=AT)
    assert case.values["sbp"] == 140


def test_warnings_quote_little_of_the_record(mapping):
    long = observation("o1", "72514-3", valueCodeableConcept=concept("1" * 100_000, "http://snomed.info/sct"))
    (text,) = warning(mapping.case(bundle(patient(), long), at=AT), "pain")
    assert len(text) < 1000


def test_units_without_ucum_codes_can_be_declared():
    mapping = Mapping.load(MAPPING + "units: {mmHg: 'mm[Hg]'}\n")
    case = mapping.case([patient(), observation("o1", "8480-6", valueQuantity={"value": 140, "unit": "mmHg"})], at=AT)
    assert case.values["sbp"] == 140


def test_a_code_without_a_level_is_left_out(mapping):
    other = observation("o1", "72514-3", valueCodeableConcept=concept("1", "http://snomed.info/sct"))
    case = mapping.case(bundle(patient(), other), at=AT)
    assert warning(case, "pain") == [
        "column 'pain': Bundle.entry[1].resource.valueCodeableConcept: http://snomed.info/sct|1 is not among the "
        "values of column 'pain'; add it to values"
    ]


@pytest.mark.parametrize("status", ["preliminary", "unknown"])
def test_only_final_values_count(mapping, status):
    case = mapping.case(bundle(patient(), sbp(status=status)), at=AT)
    assert f"Bundle.entry[1].resource.status: is '{status}', so the value was not used" in warning(case, "sbp")[0]


def test_erroneous_and_refuted_resources_do_not_count(mapping):
    refuted = condition("d1", "44054006", verificationStatus=concept("refuted", "x"))
    case = mapping.case(bundle(patient(), sbp(status="entered-in-error"), refuted), at=AT)
    assert case.values["sbp"] is None
    assert case.values["diabetes"] is None  # said to be untrue, so that absence does not speak for itself


@pytest.mark.parametrize("status", ["registered", "cancelled", "entered-in-error"])
def test_what_was_never_measured_hides_no_earlier_value(mapping, status):
    case = mapping.case([patient(), sbp(130, time="2024-04-01"), sbp(name="o2", status=status)], at=AT)
    assert case.values["sbp"] == 130
    assert warning(case, "sbp") == []


def test_a_canceled_admission_is_no_moment_of_prediction(tmp_path):
    text = """
columns:
  sex: {resource: Patient, path: gender}
at: {resource: Encounter, path: period.start, select: first}
"""
    lines = [patient()]
    for status, day in (("cancelled", "2024-01-01"), ("planned", "2024-02-01"), ("finished", "2024-03-01")):
        visit = {"resourceType": "Encounter", "id": status, "status": status, "class": {"code": "IMP"}}
        lines.append({**visit, "subject": {"reference": "Patient/p1"}, "period": {"start": day}})
    (tmp_path / "export.ndjson").write_text("\n".join(map(json.dumps, lines)))
    [case] = read_bulk(tmp_path, Mapping.load(text))
    assert case.at == datetime(2024, 3, 1, tzinfo=UTC)


def test_an_old_event_is_no_recent_one():
    text = "\ncolumns:\n  mi: {resource: Condition, codes: ['snomed|22298006'], within_days: 365, absent: no}"
    case = Mapping.load(text).case([patient(), condition("d1", "22298006", time="2021-01-01")], at=AT)
    assert case.values["mi"] is False
    assert case.warnings == ()


def test_an_undated_condition_is_not_absent(mapping):
    undated = condition("d1", "44054006")
    del undated["recordedDate"]
    case = mapping.case(bundle(patient(), undated), at=AT)
    assert case.values["diabetes"] is None
    assert "has no date" in warning(case, "diabetes")[0]


@pytest.mark.parametrize("time", ["2024", "2024-05"])
def test_a_date_that_may_be_later_does_not_count(mapping, time):
    case = mapping.case(bundle(patient(), sbp(time=time), condition("d1", "44054006", time=time)), at=AT)
    assert (case.values["sbp"], case.values["diabetes"]) == (None, None)
    assert warning(case, "sbp") == [
        f"column 'sbp': Bundle.entry[1].resource.valueQuantity of Observation/o1 is from {time}, so it may be "
        "from before or after 2024-05-02; add the day"
    ]
    earlier = {"2024": "2023", "2024-05": "2024-04"}[time]
    case = mapping.case(bundle(patient(), sbp(time=earlier)), at=AT)
    assert (case.values["sbp"] == 140) == (time == "2024-05")  # the first of January 2023 is outdated


def test_an_outcome_that_may_be_earlier_is_unknown():
    text = """
columns:
  sex: {resource: Patient, path: gender}
outcome:
  mi: {resource: Condition, codes: ["snomed|22298006"], absent: no}
"""
    mapping = Mapping.load(text)
    for time, outcome in {"2024": None, "2024-05": None, "2024-06": True, "2024-05-02": True, "2023": False}.items():
        case = mapping.case([patient(), condition("d1", "22298006", time=time)], at=AT)
        assert case.outcome is outcome, time
    case = mapping.case([patient(), condition("d1", "22298006", time="2024")], at=AT)
    assert "Condition/d1 is from 2024, so it may be from before or after 2024-05-02; add the day" in case.warnings[0]


@pytest.mark.parametrize(
    ("birth", "unit", "value"),
    [("1960", "a", 64), ("2023-11", "mo", 6), ("2023", "mo", None), ("2024-04", "d", None), ("2024-04-30", "d", 2)],
)
def test_an_age_is_only_as_precise_as_the_date_of_birth(birth, unit, value):
    text = f"\ncolumns:\n  age: {{resource: Patient, path: birthDate, unit: {unit}}}"
    case = Mapping.load(text).case([patient(birth=birth)], at=AT)
    assert case.values["age"] == value
    if value is None:
        expected = (
            f"column 'age': [0].birthDate: {birth} is not precise enough for the unit {unit}; enter the value by hand"
        )
        assert case.warnings == (expected,)


def test_messages_about_a_record_are_translated(mapping):
    cases = [
        mapping.case(bundle(patient(birth="2030-01-01"), one), at=AT)
        for one in (
            sbp(unit="mg/dL"),
            sbp(unit="mmHgg"),
            sbp(status="preliminary"),
            sbp(time="2022-01-31"),
            sbp(time="2024"),
            sbp(value=1400),
            observation("o1", "8480-6", valueQuantity={"value": 140}),
            observation("o1", "8480-6", valueQuantity={"value": 140, "unit": "mmHg"}),
            observation("o1", "8480-6", valueQuantity={**quantity(140, "mm[Hg]"), "comparator": ">"}),
            observation("o1", "8480-6", valueString="140"),
            observation("o1", "72514-3", valueCodeableConcept=concept("1", "http://snomed.info/sct")),
            observation("o1", "72514-3", valueString="severe"),
        )
    ]
    messages = {problem.text for case in cases for problem in case.problems}
    assert {problem.kind for case in cases for problem in case.problems} >= {"unit", "value", "status", "undated"}
    with using("de"):
        assert [text for text in messages if not stored_text(text).startswith("Spalte")] == []
        [outdated] = [text for text in messages if "measure it again" in text]
        assert "ist vom 31.01.2022 und älter als 365 Tage" in stored_text(outdated)


def test_undated_resources_do_not_count_unless_the_mapping_says_so():
    undated = condition("d1", "44054006")
    del undated["recordedDate"]
    text = "\ncolumns:\n  dm: {resource: Condition, codes: ['snomed|44054006'], undated: %s}"
    assert Mapping.load(text % "true").case([patient(), undated], at=AT).values["dm"] is True
    case = Mapping.load(text % "false").case([patient(), undated], at=AT)
    assert case.values["dm"] is None
    assert (
        "[1] of Condition/d1 has no date, so it may be from before or after 2024-05-02; add its date"
        in case.warnings[0]
    )


def test_current_conditions_have_not_ended():
    text = "\ncolumns:\n  flu: {resource: Condition, codes: ['snomed|6142004'], current: true, absent: no}"
    mapping = Mapping.load(text)
    flu = condition("d1", "6142004", time="2024-01-10", onsetDateTime="2024-01-01", abatementDateTime="2024-01-09")
    assert mapping.case([patient(), flu], at=datetime(2024, 1, 5)).values["flu"] is False  # not yet recorded
    flu["recordedDate"] = "2024-01-02"
    assert mapping.case([patient(), flu], at=datetime(2024, 1, 5)).values["flu"] is True
    assert mapping.case([patient(), flu], at=AT).values["flu"] is False


def test_r5_is_read_by_its_own_elements():
    mapping = Mapping.load("""
fhir: R5
columns:
  aspirin: {resource: MedicationStatement, codes: ["rxnorm|1191"], absent: no}
  bypass: {resource: Procedure, codes: ["snomed|232717009"], path: occurrence, unit: mo}
""")
    statement = {
        "resourceType": "MedicationStatement",
        "id": "m1",
        "status": "recorded",
        "medication": {"concept": concept("1191", "http://www.nlm.nih.gov/research/umls/rxnorm")},
        "subject": {"reference": "Patient/p1"},
        "effectiveDateTime": "2024-01",
    }
    procedure = {
        "resourceType": "Procedure",
        "id": "x1",
        "status": "completed",
        "code": concept("232717009", "http://snomed.info/sct"),
        "subject": {"reference": "Patient/p1"},
        "occurrenceDateTime": "2023-05-03",
    }
    case = mapping.case([patient(), statement, procedure], at=AT)
    assert case.values == {"aspirin": True, "bypass": 11}


def test_two_patients_in_a_bundle_are_refused(mapping):
    with pytest.raises(FhirError, match=r"entry\[1\]\.resource\.id: 'p2' is a second patient in addition to 'p1'"):
        mapping.case(bundle(patient(), patient("p2")), at=AT)
    with pytest.raises(FhirError, match=r"entry\[1\]\.resource\.subject\.reference: 'Patient/p2' is not the patient"):
        mapping.case(bundle(patient(), sbp(who="p2")), at=AT)


def test_references_are_urls_uuids_or_relative(mapping):
    entries = [
        {"fullUrl": "urn:uuid:1f", "resource": patient()},
        {"fullUrl": "urn:uuid:2f", "resource": sbp() | {"subject": {"reference": "urn:uuid:1f"}}},
    ]
    assert mapping.case({"resourceType": "Bundle", "entry": entries}, at=AT).values["sbp"] == 140
    entries[1]["resource"]["subject"] = {"reference": "https://hospital.example/fhir/Patient/p1/_history/2"}
    assert mapping.case({"resourceType": "Bundle", "entry": entries}, at=AT).values["sbp"] == 140


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("columns: {}\n", "mapping: columns: is empty"),
        ("columns:\n  a: {resource: Patiant, path: id}", "columns.a.resource: 'Patiant' is not a supported resource"),
        ("columns:\n  a: {resource: Patient}", "columns.a.path: is missing"),
        ("columns:\n  a: {resource: Patient, path: 'birthDate('}", "columns.a.path: 'birthDate(' is not FHIRPath"),
        ("columns:\n  a: {resource: Observation, codes: ['lionc|1']}", "'lionc' has no URL; did you mean 'loinc'?"),
        ("columns:\n  a: {resource: Observation, codes: [1558-6]}", "'1558-6' is not a code; write system|code"),
        ("columns:\n  a: {resource: Observation, units: 'x'}", "columns.a.units: is not a part of a mapping; did you"),
        ("columns:\n  a: {resource: Observation, unit: mmhg}", "columns.a.unit: 'mmhg' is not a UCUM unit"),
        ("columns:\n  a: {resource: Observation, select: last}", "columns.a.select: 'last' is not supported"),
        ("columns:\n  a: {resource: Condition, absent: none}", "columns.a.absent: 'none' is not supported"),
        ("columns:\n  a: {resource: Condition, within_days: -1}", "columns.a.within_days: -1 is not positive"),
        ("fhir: R3\ncolumns:\n  a: {}", "fhir: 'R3' is not supported"),
        ("columns: [\n", "mapping: is not YAML"),
        ("columns: !!bool x\n", "mapping: is not YAML"),
        ("columns: !!timestamp x\nfhir: R4", "mapping: is not YAML"),
        ("columns: &x\n  a: *x", "has an alias"),
    ],
)
def test_a_wrong_mapping_is_refused_with_the_place(text, message):
    with pytest.raises(FhirError) as error:
        Mapping.load(text)
    assert message in str(error.value)


def test_columns_are_those_of_the_dictionary():
    with pytest.raises(FhirError, match="the data dictionary has no column 'sbp'"):
        Mapping.load(MAPPING, DICTIONARY.only(["age", "sex"]))


def test_prefetch_searches_for_the_codes(mapping):
    assert mapping.prefetch() == {
        "patient": "Patient/{{context.patientId}}",
        "observation": "Observation?patient={{context.patientId}}&code=http://loinc.org|8480-6,"
        "http://loinc.org|85354-9,http://loinc.org|2093-3,http://loinc.org|1558-6,http://loinc.org|72514-3",
        "condition": "Condition?patient={{context.patientId}}",
    }


STATIN = """
fhir: %s
columns:
  statin: {resource: MedicationStatement, codes: ["atc|C10AA*"], absent: no}
"""
ATC = "http://www.whocc.no/atc"


def statement(reference, name="s1", version="R4", **more):
    data = {"reference": reference}
    return {
        "resourceType": "MedicationStatement",
        "id": name,
        "status": "active" if version == "R4" else "recorded",
        "subject": {"reference": "Patient/p1"},
        "effectiveDateTime": "2024-01-01",
        **({"medicationReference": data} if version == "R4" else {"medication": {"reference": data}}),
        **more,
    }


def medication(code, name="m1"):
    return {"resourceType": "Medication", "id": name, "code": concept(code, ATC)}


@pytest.mark.parametrize("version", ["R4", "R5"])
@pytest.mark.parametrize(("code", "taken"), [("C10AA05", True), ("N02BA01", False)])
def test_the_code_of_a_medication_may_be_in_a_resource_of_its_own(version, code, taken):
    mapping = Mapping.load(STATIN % version)
    references = ("Medication/m1", "https://ehr.example/fhir/Medication/m1/_history/2")
    for reference in references:
        case = mapping.case(bundle(patient(), statement(reference, version=version), medication(code)), at=AT)
        assert (case.values["statin"], case.warnings) == (taken, ())
    inside = statement("#m1", version=version, contained=[medication(code)])
    assert mapping.case([patient(), inside], at=AT).values["statin"] is taken


def test_a_medication_that_is_not_in_the_record_is_not_absent():
    mapping = Mapping.load(STATIN % "R4")
    case = mapping.case([patient(), statement("Medication/m2"), medication("C10AA05")], at=AT)
    assert case.values["statin"] is None
    assert case.warnings == ("column 'statin': [1]: 'Medication/m2' is not in the record; include this Medication",)
    both = [statement("Medication/m2"), statement("Medication/m1", "s2"), medication("C10AA05")]
    case = mapping.case([patient(), *both], at=AT)
    assert (case.values["statin"], case.warnings) == (True, ())


def test_an_export_has_medications_in_any_file(tmp_path):
    (tmp_path / "a.ndjson").write_text("\n".join(map(json.dumps, [patient(), statement("Medication/m1")])))
    (tmp_path / "b.ndjson").write_text(json.dumps(medication("C10AA05")))
    [case] = read_bulk(tmp_path, Mapping.load(STATIN % "R4"), AT)
    assert (case.values["statin"], case.warnings) == (True, ())


def test_prefetch_does_not_search_medications_by_code():
    exact = (STATIN % "R4").replace("C10AA*", "C10AA05")
    assert Mapping.load(exact).prefetch()["medicationstatement"] == "MedicationStatement?patient={{context.patientId}}"
