"""The whole cycle from a terminal."""

import json
import shutil
import warnings

import pytest

from bayespatch.casebase import CaseBase
from bayespatch.casebase.refit import learn
from bayespatch.cli.casebase import COMMANDS
from tests.casebase.clinic import DICTIONARY, QUICK, table
from tests.casebase.test_monitoring import consulted
from tests.cli.program import call, complaint, document

SOMEONE = '{"age": 61, "pain": "typical", "bp": null, "smokes": true, "town": "Ulm"}'


@pytest.fixture(scope="module")
def clinic(tmp_path_factory):
    """A case base with a model, made from the terminal but for the refit, which is tested elsewhere."""
    folder = tmp_path_factory.mktemp("clinic")
    table().to_csv(folder / "patients.csv", index=False)
    (folder / "columns.json").write_text(json.dumps(DICTIONARY))
    base = folder / "clinic.db"
    assert document("casebase", "init", base, "--json") == {"target": None, "features": []}
    words = ("--target", "outcome", "--id", "who", "--dictionary", folder / "columns.json", "--by", "registry")
    said = document("casebase", "import", base, folder / "patients.csv", *words, "--json")
    assert said == {"cases": 30, "first": 1, "last": 30}
    with CaseBase.open(base) as opened, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learn(opened._database, "steward", QUICK)
    assert document("casebase", "promote", base, 1, "--json")["state"] == "active"
    return folder


def test_one_patient_from_a_terminal(clinic, tmp_path):
    base = clinic / "clinic.db"
    by = ("--by", "Dr. Roe", "--json")
    seen = document("casebase", "consult", base, "--values", SOMEONE, "--id", "N-1", *by)
    assert seen["case_id"] == 31
    text = call("casebase", "consult", base, "--values", SOMEONE, "--case", "N-1", "--by", "Dr. Roe").stdout
    assert "prediction" in text
    assert "weight" in text
    other = {"well": "sick", "sick": "well"}[seen["explanation"]["prediction"]["class"]]
    assert "give a reason" in complaint("casebase", "decide", base, seen["id"], other)
    assert not document("casebase", "decide", base, seen["id"], other, "--reason", "looks it", *by)["agrees"]
    assert document("casebase", "outcome", base, "N-1", "sick", *by)["outcome"] == 1
    assert "already has an outcome" in complaint("casebase", "outcome", base, "31", "sick")
    assert document("casebase", "retain", base, *by) == {"retained": [31]}
    assert document("casebase", "search", base, "--where", "age>=61", "--where", "pain=typical", *by)["total"] >= 1
    assert "31" in call("casebase", "search", base, "--where", "external_id=N-1").stdout
    assert document("casebase", "drift", base, "--every", "all", *by)["periods"][0]["outcomes"] == 1
    assert "agree" in call("casebase", "drift", base).stdout
    assert document("casebase", "export", base, tmp_path / "cases.csv", *by) == {"cases": 31}
    done = document("casebase", "forget", base, "=N-1", "--reason", "asked for it", *by)
    assert (done["case_id"], done["erased"]) == (31, True)
    assert "was forgotten" in complaint("casebase", "forget", base, 31, "--reason", "again")
    log = document("casebase", "log", base, "--case", 31, "--json")["log"]
    assert [entry["action"] for entry in log] == ["forget", "retain", "outcome", "decide", "consult", "consult"]
    assert log[0]["by"] == "Dr. Roe"
    assert "forget" in call("casebase", "log", base).stdout
    assert "active" in call("casebase", "models", base).stdout
    assert "no version before 1" in complaint("casebase", "roll-back", base)
    assert "/join/" in call("casebase", "invite", base, "Sam", "--role", "steward").stdout


def test_backup_verify_restore_and_a_log_that_was_changed(clinic, tmp_path):
    base = clinic / "clinic.db"
    said = document("casebase", "backup", base, tmp_path / "backup.db", "--json")
    assert document("casebase", "verify", base, "--head", said["head"], "--json")["intact"]
    restored = call("casebase", "restore", tmp_path / "new.db", tmp_path / "backup.db")
    assert "is restored from the backup" in restored.stdout
    with CaseBase.open(tmp_path / "new.db") as opened, opened._database.outside() as connection:
        connection.execute("UPDATE audit SET \"by\" = 'nobody' WHERE number = 2")
    assert "row 2 was changed after it was written" in complaint("casebase", "verify", tmp_path / "new.db")
    result = call("casebase", "verify", tmp_path / "new.db", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["problems"] == ["row 2 was changed after it was written"]


def test_calls_that_make_no_sense(tmp_path, clinic):
    assert "no such case base" in complaint("casebase", "log", tmp_path / "nothing.db")
    assert call("casebase", "init", tmp_path / "x.db", "--target", "y").exit_code == 2
    assert call("casebase", "refit", clinic / "clinic.db", "--set", "draws").exit_code == 2
    assert "--values is not JSON" in complaint("casebase", "consult", clinic / "clinic.db", "--values", "{")
    assert "is not a condition" in complaint("casebase", "search", clinic / "clinic.db", "--where", "age")


def test_every_command_has_help_with_examples():
    for command in COMMANDS:
        name = command.__name__.rstrip("_").replace("_", "-")
        result = call("casebase", name, "--help")
        assert result.exit_code == 0
        assert f"$ bayespatch casebase {name}" in " ".join(result.stdout.split())


def test_monitoring_from_a_terminal(clinic, tmp_path):
    base = tmp_path / "clinic.db"
    shutil.copy(clinic / "clinic.db", base)
    assert document("casebase", "monitor", base, "--json")["alarms"] == []
    assert "0 cases in 30 days" in call("casebase", "monitor", base, "--days", "30").stdout
    with CaseBase.open(base) as opened:
        consulted(opened, 60, outcome=1, p_sick=0.6)
    result = call("casebase", "monitor", base, "--json")
    assert result.exit_code == 1
    assert "recent outcomes, but 60% were expected" in result.stderr
    assert json.loads(result.stdout)["calibration"][0]["alarm"]
    assert "at most 1,000 characters" in complaint("casebase", "promote", base, 1, "--reason", "x" * 1001)
