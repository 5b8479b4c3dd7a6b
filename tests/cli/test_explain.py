import csv
import json

import pytest

from tests.cli.program import call, complaint, document

CASE = {"âge": 70, "douleur thoracique": "au repos", "blood pressure": None}


def test_predictions_as_csv_and_as_json_are_the_same(clinic, tmp_path):
    out = tmp_path / "p.csv"
    words = ["predict", clinic / "model.bpatch", clinic / "new.csv", "--id", "patient no.", "--intervals", "--votes"]
    assert call(*words, "--out", out).stdout == ""
    found = document(*words, "--json")["predictions"]
    with out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["patient no."] for row in rows] == [one["id"] for one in found] == [f"P-{i:03d}" for i in range(5)]
    for row, one in zip(rows, found, strict=True):
        assert row["predicted"] == one["class"] == max(one["probabilities"], key=one["probabilities"].get)
        assert float(row["probability_malade"]) == pytest.approx(one["probabilities"]["malade"], rel=1e-5)
        assert sum(one["probabilities"].values()) == pytest.approx(1.0)
        low, high = one["intervals"]["malade"]
        assert low <= high
        assert float(row["votes_malade"]) == pytest.approx(one["votes"]["malade"], rel=1e-5)
    assert "already exists" in complaint(*words, "--out", out)
    assert call(*words, "--out", out, "--force").exit_code == 0


def test_predictions_on_stdout_are_a_table_and_nothing_else(clinic):
    result = call("predict", clinic / "model.bpatch", clinic / "new.csv")
    assert result.stdout.startswith("row,predicted,")
    assert len(result.stdout.splitlines()) == 6
    assert "Predicting 5 cases" in result.stderr


def test_cases_without_precedent_are_left_empty_on_request(clinic, tmp_path):
    rows = ["âge,douleur thoracique,blood pressure", "70,au repos,130", "4,inconnue,999"]
    (tmp_path / "t.csv").write_text("\n".join(rows), encoding="utf-8")
    words = ["predict", clinic / "model.bpatch", tmp_path / "t.csv"]
    plain = call(*words).stdout.splitlines()
    result = call(*words, "--abstain")
    assert result.stdout.splitlines() == [*plain[:2], "1,,,"]
    assert "note: 1 of 2 cases have no adequate precedent" in result.stderr
    found = document(*words, "--abstain", "--json")["predictions"]
    assert found[0]["class"] is not None
    assert found[1] == {"row": 1, "class": None, "probabilities": {"en bonne santé": None, "malade": None}}


def test_whatever_is_asked_for_cases_are_sampled_once(clinic, monkeypatch):
    from bayespatch.estimator import base

    real, asked = base.predict_batches, []

    def counted(posterior, new, **options):
        asked.append(len(new.x))
        return real(posterior, new, **options)

    monkeypatch.setattr(base, "predict_batches", counted)
    words = ["predict", clinic / "model.bpatch", clinic / "new.csv", "--intervals", "--votes", "--abstain", "--json"]
    assert len(document(*words)["predictions"]) == 5
    assert asked == [5]


def test_a_table_that_the_model_does_not_know(clinic, tmp_path):
    (tmp_path / "t.csv").write_text("age,outcome\n61,x\n")
    said = complaint("predict", clinic / "model.bpatch", tmp_path / "t.csv")
    assert "no column 'âge', 'douleur thoracique', 'blood pressure', which the model needs" in said
    assert "is not a bayespatch file" in complaint("predict", tmp_path / "t.csv", clinic / "new.csv")
    assert "no such file" in complaint("predict", tmp_path / "none", clinic / "new.csv")


def test_texts_that_look_like_numbers_stay_texts(clinic, tmp_path):
    (tmp_path / "t.csv").write_text("âge,douleur thoracique,blood pressure\n61,3,120\n", encoding="utf-8")
    result = call("predict", clinic / "model.bpatch", tmp_path / "t.csv")
    assert result.exit_code == 0, result.stderr
    assert "note: " in result.stderr  # nobody in the past had a 3 there


def test_one_case_in_four_ways_is_the_same_case(clinic):
    model, new = clinic / "model.bpatch", clinic / "new.csv"
    by_row = document("explain", model, new, "--row", "1", "--json")
    by_id = document("explain", model, new, "--id", "P-001", "--id-column", "patient no.", "--format", "json")
    values = by_row["case"]["values"]
    given = {"âge": int(values["âge"]), "douleur thoracique": values["douleur thoracique"]}
    given["blood pressure"] = int(values["blood pressure"])
    by_value = document("explain", model, "--json-row", json.dumps(given), "--json")
    assert by_row["prediction"] == by_id["prediction"] == by_value["prediction"]
    assert by_id["case"]["id"] == "P-001"
    assert all(neighbor["id"].startswith("P-") for neighbor in by_row["neighbors"])


def test_a_past_case_is_not_its_own_neighbor(clinic):
    by_row = document("explain", clinic / "model.bpatch", "--row", "7", "--json", "--top", "40")
    assert by_row == document("explain", clinic / "model.bpatch", "--id", "P-007", "--json", "--top", "40")
    assert by_row["case"]["id"] == "P-007"
    assert "P-007" not in [neighbor["id"] for neighbor in by_row["neighbors"]]


def test_the_forms_of_an_explanation(clinic, tmp_path):
    words = ["explain", clinic / "model.bpatch", "--json-row", json.dumps(CASE)]
    text = call(*words).stdout
    assert "au repos" in text
    for name, beginning in {"a.html": b"<!doctype html>", "a.png": b"\x89PNG", "a.json": b"{", "a.txt": b""}.items():
        result = call(*words, "--out", tmp_path / name)
        assert result.exit_code == 0, result.stderr
        assert (tmp_path / name).read_bytes().lower().startswith(beginning.lower())
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))["case"]["values"]["âge"] == "70"
    assert (tmp_path / "a.txt").read_text(encoding="utf-8").splitlines()[0] == text.splitlines()[0]
    assert document(*words, "--out", tmp_path / "b.html", "--json") == {"explanation": str(tmp_path / "b.html")}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--json-row", "{age: 3}"), "--json-row is not JSON"),
        (("--json-row", "[1, 2]"), "which is not an object"),
        (("--json-row", '{"âge": 61}'), "row has no value for 'douleur thoracique', 'blood pressure'"),
        (("--row", "40"), "--row 40 is beyond the 40 rows of the training table; pass a number from 0 to 39"),
        (("--id", "nobody"), "--id 'nobody' is not among the 40 identifiers; correct it"),
        (("--row", "0", "--top", "2", "--level", "3"), "level=3.0"),
    ],
)
def test_cases_that_are_none_get_one_sentence(clinic, words, said):
    assert said in complaint("explain", clinic / "model.bpatch", *words)


def test_calls_that_make_no_sense(clinic):
    model = clinic / "model.bpatch"
    assert call("explain", model, "--row", "0", "--id", "P-001").exit_code == 2
    assert call("explain", model, "--row", "0", "--format", "png").exit_code == 2
    assert call("explain", model, clinic / "new.csv", "--id", "P-001").exit_code == 2
    assert call("explain", model, "--row", "0", "--format", "pdf").exit_code == 2
