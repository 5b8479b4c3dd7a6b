from pathlib import Path

from tests.cli.program import call, complaint, document


def test_what_is_in_a_model(clinic):
    text = call("info", clinic / "model.bpatch").stdout
    assert "âge, douleur thoracique, blood pressure" in text
    assert "2 chains of 10 draws after 10" in text
    manifest = document("info", clinic / "model.bpatch", "--json")
    assert manifest["sizes"]["n"] == 40
    assert "P-003" not in str(manifest)  # nothing about who the past cases are
    assert "is not a bayespatch file" in complaint("info", clinic / "new.csv")


def test_a_report(clinic, tmp_path):
    out = tmp_path / "m.html"
    words = ["report", clinic / "model.bpatch", "--out", out, "--intended-use", "Triage & <more>"]
    assert document(*words, "--json") == {"report": str(out)}
    page = out.read_text(encoding="utf-8")
    assert "Triage &amp; &lt;more&gt;" in page
    assert "already exists" in complaint(*words)


def test_the_demo(tmp_path, few_patients):
    out = tmp_path / "pages"
    words = ["demo", "--draws", "5", "--warmup", "5", "--hyper", "default", "--patient", "7", "--out", out]
    found = document(*words, "--json")
    assert found["truth"] in found["explanation"]["prediction"]["probabilities"]
    assert [Path(page).is_file() for page in found["pages"].values()] == [True, True]
    assert "already exists" in complaint(*words)


def test_the_demo_fits_on_one_screen(tmp_path, few_patients, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    words = [
        "demo",
        "--draws",
        "5",
        "--warmup",
        "5",
        "--hyper",
        "default",
        "--patient",
        "7",
        "--out",
        tmp_path / "pages",
    ]
    lines = call(*words).stdout.replace(str(tmp_path), "").splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    assert not [line for line in lines if "…" in line]
