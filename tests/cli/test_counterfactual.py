from tests.cli.program import call, complaint, document


def test_the_smallest_change(clinic):
    words = ["counterfactual", clinic / "model.bpatch", "--id", "P-003"]
    found = document(*words, "--json")
    assert set(found["changeable"]) == {"âge", "douleur thoracique", "blood pressure"}
    before, after = (found[when]["prediction"]["class"] for when in ("before", "after"))
    assert found["found"] == (before != after)
    assert found["n_tried"] > 0
    text = call(*words, "--change", "âge").stdout
    assert "The changed case: " in text
    assert "not the effect of a treatment" in text
    assert "there is no feature 'poids'" in complaint(*words, "--change", "poids")


def test_on_the_page(clinic, tmp_path):
    words = ["explain", clinic / "model.bpatch", "--id", "P-003", "--change", "âge"]
    assert call(*words, "--out", tmp_path / "case.html").exit_code == 0
    assert "What would change the prediction" in (tmp_path / "case.html").read_text()
    assert call(*words, "--out", tmp_path / "case.txt").exit_code == 2


def test_a_file_is_what_its_ending_says(clinic, tmp_path):
    words = ["explain", clinic / "model.bpatch", "--id", "P-003"]
    assert call(*words, "--out", tmp_path / "case.pdf").exit_code == 0
    assert (tmp_path / "case.pdf").read_bytes().startswith(b"%PDF")
    for refused in (("--out", tmp_path / "case.docx"), ("--out", tmp_path / "x.pdf", "--format", "text")):
        assert call(*words, *refused).exit_code == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["case.pdf"]
