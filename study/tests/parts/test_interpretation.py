import numpy as np

from study import paper
from study.parts import interpretation
from study.tests.tiny import CONTEXT, tables_of


def test_neighbors_come_from_training_and_agree_where_they_say_so():
    table = tables_of("patients")["patients"]
    heart = CONTEXT.both[0]
    for record in table.where(cohort="heart").records():
        value = heart.X[record["feature"]]
        assert str(value.iloc[record["row"]]) == record["value"]
        assert record["agrees"] == (value.iloc[record["row"]] == value.iloc[record["patient"]])
        assert record["outcome"] == heart.y[record["row"]]
        assert (record["rank"] == 0) == (record["row"] == record["patient"])
        assert record["matters"] is None or 0 <= record["matters"] <= 1
    for patient in set(table.where(cohort="heart").column("patient")):
        shown = table.where(cohort="heart", patient=patient, feature="age")
        influence = shown.column("similarity")[1:]
        assert influence == sorted(influence, reverse=True)


def test_importance_has_ordered_quantiles():
    for record in tables_of("importance")["importance"].records():
        values = [record[name] for name in ("5 %", "25 %", "50 %", "75 %", "95 %")]
        assert values == sorted(values)
        assert 0 <= values[0] <= record["mean"] + 1
        assert values[-1] <= 1


def test_groups_of_features_do_not_overlap():
    table = tables_of("ranked-features")["ranked-features"]
    for cohort in ("heart", "breast"):
        shown = table.where(cohort=cohort, fold=1)
        used = {record["features"]: record["used"].split() for record in shown.records()}
        assert [len(used[group]) for group in ("top 3", "next 3", "3 after these")] == [3, 3, 3]
        assert used["all"][:9] == used["top 3"] + used["next 3"] + used["3 after these"]


def test_the_sample_patient_is_the_closest_ill_one():
    codes = np.array([paper.SAMPLE_PATIENT, paper.SAMPLE_PATIENT, np.ones(13, int)])
    assert interpretation._nearest_patient(codes, np.array([0, 1, 1])) == 1
    assert interpretation._nearest_patient(codes, np.array([0, 0, 1])) == 2


def test_the_sample_patient_is_not_among_its_own_prototypes_and_parents():
    table = tables_of("sample-patient")["sample-patient"]
    (patient,) = set(table.column("patient"))
    others = [row for row, rank in zip(table.column("row"), table.column("rank"), strict=True) if rank > 0]
    assert patient not in others
    assert table.where(model="Model II", rank=1).column("similarity")[0] == 1.0
