import csv

from tests.cli.clinic import COLUMNS, SHORT, cases
from tests.cli.program import call, complaint, document


def test_new_cases_and_a_page(clinic, tmp_path):
    rows = cases(120, seed=5)
    for row in rows[::6]:  # some outcomes that no model could know
        row[5] = "malade" if row[5] != "malade" else "en bonne santé"
    with (tmp_path / "later.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    words = ["validate", clinic / "model.bpatch", tmp_path / "later.csv"]
    found = document(*words, "--out", tmp_path / "page.html", "--json")
    assert found["n"] == 120
    assert 0.7 < found["scores"]["AUC"] <= 1.0
    assert found["classes"]["malade"]["balance"]["observed"] == found["counts"]["malade"]
    assert found["periods"] == []
    assert "Validation: outcome" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "already exists; pass --force" in complaint(*words, "--out", tmp_path / "page.html")
    text = call(*words, "--date", "admitted on", "--every", "month").stdout
    assert "120 new cases; the model was trained on 40 past cases" in text
    assert "2024-05" in text
    assert "slope" in text


def test_the_training_table_is_not_new(clinic):
    words = ["validate", clinic / "model.bpatch", clinic / "patients.csv"]
    assert "40 of 40 new cases have all values of a past case" in call(*words).stderr


def test_a_split_by_date(tmp_path):
    rows = cases(80)
    for i, row in enumerate(rows):
        row[4] = f"{2021 + i // 20}-06-15"
    with (tmp_path / "all.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows])
    model = tmp_path / "early.bpatch"
    words = ["--target", "outcome", "--id", "patient no.", "--date", "admitted on", *SHORT, "--out", model]
    fit = document("fit", tmp_path / "all.csv", *words, "--until", "2023-06-15", "--json")
    assert (fit["cases"], fit["features"]) == (40, 3)
    words = ["validate", model, tmp_path / "all.csv", "--date", "admitted on"]
    found = document(*words, "--since", "2023-06-15", "--json")
    assert [(one["value"], one["n"]) for one in found["periods"]] == [("2023", 20), ("2024", 20)]
    assert "no row has a date in the period" in complaint(*words, "--since", "2030-01-01")
    assert "--since 'tomorrow' is not a date" in complaint(*words, "--since", "tomorrow")
    assert "need --date" in complaint("validate", model, tmp_path / "all.csv", "--since", "2023-01-01")
    assert "did you mean 'admitted on'?" in complaint(*words[:-1], "Admitted on")


def test_outcomes_that_are_not_there(clinic, tmp_path):
    (tmp_path / "x.csv").write_text("âge,douleur thoracique,blood pressure\n60,aucune,120\n", encoding="utf-8")
    wrong = complaint("validate", clinic / "model.bpatch", tmp_path / "x.csv")
    assert "has no column 'outcome', which the model predicts; pass --target COLUMN" in wrong
    wrong = complaint("validate", clinic / "model.bpatch", clinic / "new.csv", "--target", "âge")
    assert "is not a class of the model" in wrong
