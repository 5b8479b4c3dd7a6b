from tests.cli.program import call, complaint, document


def test_other_values_of_a_new_case_and_of_a_past_case(clinic):
    words = ["what-if", clinic / "model.bpatch"]
    found = document(*words, clinic / "new.csv", "--row", 0, "--set", "âge=80", "--json")
    assert found["changes"]["âge"][1] == "80"
    assert sum(found["shift"].values()) < 1e-9
    text = call(*words, "--id", "P-003", "--set", "âge=80", "--set", "douleur thoracique=aucune").stdout
    assert "What if: " in text
    assert "âge from" in text


def test_what_makes_no_sense_gets_one_sentence(clinic):
    words = ["what-if", clinic / "model.bpatch", clinic / "new.csv", "--row", 0]
    assert "nothing to change" in complaint(*words)
    assert "'âge' is not FEATURE=VALUE" in complaint(*words, "--set", "âge")
    assert "there is no feature 'poids'" in complaint(*words, "--set", "poids=80")
    assert "there is no feature 'Âge'; did you mean 'âge'?" in complaint(*words, "--set", "Âge=80")
    wrong = complaint(*words, "--set", "douleur thoracique=Aucune")
    assert "no past case has 'Aucune'; did you mean 'aucune'?" in wrong
    assert "'old' is not a number" in complaint(*words, "--set", "âge=old")
    assert "names 'âge' twice" in complaint(*words, "--set", "âge=3", "--set", "âge=4")


def test_a_value_that_nobody_had_is_still_one(clinic):
    words = ["what-if", clinic / "model.bpatch", clinic / "new.csv", "--row", 0]
    assert call(*words, "--set", "douleur thoracique=xyz").exit_code == 0
