import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import polars as pl
import pytest

import bayespatch
from bayespatch.sampling.checkpoint import Checkpoint
from tests.cli.clinic import COLUMNS, SHORT, cases, write_csv
from tests.cli.program import FIT, call, complaint, document
from tests.cli.visits import visits


def test_a_model_of_a_table_with_spaces_accents_missing_values_and_dates(clinic):
    model = bayespatch.load(clinic / "model.bpatch")
    assert model.schema_.names == ("âge", "douleur thoracique", "blood pressure")
    assert model.classes_.tolist() == ["en bonne santé", "malade"]
    assert model.ids_[3] == "P-003"
    assert model.target_ == "outcome"
    assert model.schema_.missing == "ignore"
    assert not model.schema_.column("blood pressure").missing_is_value
    assert (model.posterior_.n_chains, model.posterior_.n_draws, model.progress) == (2, 10, False)


def test_what_a_fit_says(clinic, tmp_path):
    found = document("fit", clinic / "patients.csv", *FIT, "--out", tmp_path / "m.bpatch", "--json")
    assert found["model"] == str(tmp_path / "m.bpatch")
    assert (found["cases"], found["features"], found["outcome"]) == (40, 3, "outcome")
    assert sorted(found["most_important"]) == sorted(["âge", "douleur thoracique", "blood pressure"])


def test_the_same_model_from_other_sources(clinic, tmp_path):
    bytes_of = {}
    frame = pl.read_csv(clinic / "patients.csv")
    frame.write_parquet(tmp_path / "p.parquet")
    frame.write_ipc(tmp_path / "p.arrow")
    write_csv(tmp_path / "p.txt", delimiter=";", encoding="cp1252")
    with closing(sqlite3.connect(tmp_path / "p.db")) as connection:
        names = ", ".join(f'"{name}"' for name in COLUMNS)
        connection.execute(f"CREATE TABLE p ({names})")
        typed = [[c or None if j != 1 and j != 3 else int(c) if c else None for j, c in enumerate(r)] for r in cases()]
        connection.executemany(f"INSERT INTO p VALUES ({', '.join('?' * len(COLUMNS))})", typed)
        connection.commit()
    sources = {"p.parquet": (), "p.arrow": (), "p.txt": (), "p.db": ("--query", "SELECT * FROM p")}
    for name, more in sources.items():
        where = f"sqlite:///{tmp_path}/p.db" if more else tmp_path / name
        result = call("fit", where, *more, *FIT, "--out", tmp_path / f"{name}.bpatch")
        assert result.exit_code == 0, result.stderr
        bytes_of[name] = bayespatch.load(tmp_path / f"{name}.bpatch")
    wanted = bayespatch.load(clinic / "model.bpatch")
    for model in bytes_of.values():
        assert model.schema_ == wanted.schema_
        assert (model.posterior_.q == wanted.posterior_.q).all()


def test_a_regression_with_cases_apart(clinic, tmp_path):
    words = ["fit", clinic / "patients.csv", "--target", "âge", "--drop", "admitted on", "--id", "patient no.", *SHORT]
    words += ["--regression", "--model", "II", "--parents", "random", "--n-parents", "12", "--missing", "ignore"]
    found = document(*words, "--out", tmp_path / "m.bpatch", "--cases", tmp_path / "m.cases", "--json")
    assert found["classes"] is None
    model = bayespatch.load(tmp_path / "m.bpatch", cases=tmp_path / "m.cases")
    assert (model.model, model.n_parents, model.missing, len(model.parents_)) == ("II", 12, "ignore", 12)
    assert "--cases FILE" in complaint("predict", tmp_path / "m.bpatch", clinic / "new.csv")
    words = ["predict", tmp_path / "m.bpatch", clinic / "new.csv", "--cases", tmp_path / "m.cases", "--intervals"]
    assert len(document(*words, "--json")["predictions"][0]["interval"]) == 2


def test_nothing_is_overwritten_without_force(clinic):
    before = (clinic / "model.bpatch").read_bytes()
    said = complaint("fit", clinic / "patients.csv", *FIT, "--out", clinic / "model.bpatch")
    assert "already exists; pass --force" in said
    assert (clinic / "model.bpatch").read_bytes() == before


def test_a_fit_that_was_stopped_goes_on_with_the_same_command(clinic, tmp_path, monkeypatch):
    out, run = tmp_path / "m.bpatch", tmp_path / "run"
    words = ["fit", clinic / "patients.csv", *FIT, "--votes", "sampled", "--out", out, "--checkpoint", run]

    def ctrl_c(self, _):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "meet", ctrl_c)
        result = call(*words)
    assert (result.exit_code, out.exists()) == (130, False)
    assert result.stderr.splitlines()[-2:] == [
        f"note: run the same command again to continue from {run}",
        "bayespatch: interrupted; no incomplete file was left behind",
    ]
    assert (run / "state.bpatch").exists()
    assert call(*words).exit_code == 0
    plain = tmp_path / "plain.bpatch"
    assert call("fit", clinic / "patients.csv", *FIT, "--votes", "sampled", "--out", plain).exit_code == 0
    wanted = bayespatch.load(plain).posterior_
    assert (bayespatch.load(out).posterior_.q == wanted.q).all()
    assert "another run: seed was" in complaint(*words, "--seed", "1", "--force")


def test_nothing_is_said_to_continue_without_a_checkpoint(clinic, tmp_path, monkeypatch):
    def ctrl_c(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("bayespatch.cli.fit.fitted", ctrl_c)
    words = ["fit", clinic / "patients.csv", *FIT, "--out", tmp_path / "m.bpatch", "--checkpoint", tmp_path / "run"]
    result = call(*words)
    assert result.exit_code == 130
    assert "continue" not in result.stderr


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        (None, (), "no such file"),
        ("", (), "the file is empty"),
        ("a,b,outcome\n1,2\n", (), "line 2 has 2 values"),
        ("a:b:outcome\n1:2:x\n", (), "--delimiter"),
        ("a,b,outcome\n1,2,x\n3,4,x\n", (), "'outcome' is x in every row"),
        ("a,b,outcome\n1,2,x\n3,4,\n", (), "'outcome' is x in every row"),
        ("a b outcome\n1 2 x\n", (), "--delimiter space"),
        ("a,b,outcom\n1,2,x\n3,4,y\n", (), "did you mean 'outcom'?"),
        ("a,a,outcome\n1,2,x\n3,4,y\n", (), "more than one column is named 'a'"),
        ("b,outcome\n,x\n,y\n", (), "column 'b' has only missing values"),
        ("a,b,outcome\n1,2,x\n3,4,y\n", ("--engine", "steam"), "engine='steam' is not valid"),
        ("a,b,outcome\n1,,x\n3,4,y\n", ("--missing", "error"), "column 'b' has 1 missing values"),
        ("a,b,outcome\n1,2,x\n3,4,y\n", ("--query", "SELECT 1"), "--query works only with a database"),
    ],
)
def test_bad_tables_get_one_sentence(tmp_path, text, words, said):
    if text is not None:
        (tmp_path / "t.csv").write_text(text)
    out = tmp_path / "m.bpatch"
    assert said in complaint("fit", tmp_path / "t.csv", "--target", "outcome", *words, *SHORT, "--out", out)
    assert not out.exists()


def test_what_looks_like_an_identifier_is_asked_about(clinic, tmp_path):
    words = ["fit", clinic / "patients.csv", "--target", "outcome", "--drop", "admitted on", *SHORT]
    said = complaint(*words, "--out", tmp_path / "m.bpatch")
    assert "column 'patient no.' looks like an identifier" in said
    assert "--id 'patient no.' to identify cases by it, --drop 'patient no.'" in said
    result = call(*words, "--votes", "sampled", "--keep", "patient no.", "--out", tmp_path / "m.bpatch")
    assert result.exit_code == 0
    assert "before you rely on the importances" in result.stderr  # ten draws: too few, or not mixed


def dirty(folder):
    """A table with everything that newcomers' tables have."""
    lines = ["no,born,seen,cp,copy,site,late,empty,sick"]
    for i in range(40):
        sick = "" if i < 3 else str(int(i % 5 > 2))
        cp = 1 + i % 4
        late = "" if i < 3 else f"L{sick}"
        lines.append(f"{i},{1940 + i}-03-01,2020-{1 + i % 12:02d}-01,{cp},{'abcd'[cp - 1]},A,{late},,{sick}")
    (folder / "dirty.csv").write_text("\n".join(lines) + "\n")
    (folder / "dictionary.csv").write_text(
        "name,label,levels,unit,identifier\nno,,,,yes\ncp,chest pain,1=typical;2=atypical;3=other;4=none,,\n"
        "sick,heart disease,0=absent;1=present,,\n"
    )
    return folder / "dirty.csv"


def test_a_dirty_table_with_its_dictionary(tmp_path):
    table, out = dirty(tmp_path), tmp_path / "m.bpatch"
    words = ["fit", table, "--target", "sick", "--age", "born", "--as-of", "seen", *SHORT, "--out", out]
    result = call(*words, "--dictionary", tmp_path / "dictionary.csv")
    assert result.exit_code == 0, result.stderr
    for note in (
        "note: 3 rows without 'sick' were dropped",
        "note: column 'empty' is empty and was dropped",
        "note: column 'site' is A in every row",
        "note: column 'copy' duplicates 'cp'",
        "note: column 'late' predicts 'sick' on its own (100% of the cases)",
    ):
        assert note in result.stderr
    model = bayespatch.load(out)
    assert model.class_names_ == ("absent", "present")
    assert model.target_ == "heart disease"
    assert model.ids_[0] == "3"
    assert model.schema_.column("cp").labels == ("typical", "atypical", "other", "none")
    assert model.schema_.column("cp").kind == "categorical"
    assert "years from born to seen" in model.schema_.names
    predicted = document("predict", out, table, "--id", "no", "--json")["predictions"]
    assert {one["label"] for one in predicted} <= {"absent", "present"}
    assert set(predicted[0]["probabilities"]) == {"0", "1"}


def test_labels_the_short_way(tmp_path):
    table, out = dirty(tmp_path), tmp_path / "m.bpatch"
    words = [
        "fit",
        table,
        "--target",
        "sick",
        "--id",
        "no",
        "--drop",
        "born",
        "--drop",
        "seen",
        "--drop",
        "late",
        *SHORT,
    ]
    assert "'2' is not a class; the classes are '0', '1'" in complaint(*words, "--labels", "2=x", "--out", out)
    assert "'0' is not VALUE=LABEL" in complaint(*words, "--labels", "0", "--out", out)
    found = document(*words, "--labels", "0=absent,1=present", "--out", out, "--json")
    assert found["classes"] == ["absent", "present"]


def test_repeated_patients_are_grouped_or_kept_on_purpose(tmp_path):
    words = ["fit", visits(tmp_path, 80), "--target", "outcome", *SHORT]
    assert "pass --group 'patient', so that no patient is predicted from their own rows, or --keep" in complaint(*words)
    for role, n_features in (("--group", 3), ("--keep", 4)):
        assert document(*words, role, "patient", "--out", tmp_path / role, "--json")["features"] == n_features


def test_a_comparison_of_repeated_patients(tmp_path):
    words = ["compare", visits(tmp_path, 80), "--target", "outcome", *SHORT, "--folds", "2"]
    assert "'patient' identifies patients, and 80 rows share" in complaint(*words)
    found = document(*words, "--group", "patient", "--threshold", "0.3", "--json")
    assert found["group"] == "patient"
    forest = next(one for one in found["methods"] if one["method"] == "random forest")
    assert forest["scores"]["AUC"]["mean"] < 0.7
    assert forest["scores"]["net benefit"]["mean"] <= 0.6
    text = call(*words, "--group", "patient").stdout
    assert "for the rarer class, flagged at a probability of at least its share of the cases" in " ".join(text.split())


def test_a_comparison(clinic):
    words = ["compare", clinic / "patients.csv", *FIT, "--folds", "2"]
    found = document(*words, "--json")
    assert found["methods"][0]["method"] == "patchwork"
    assert all(0 <= one["scores"]["AUC"]["mean"] <= 1 for one in found["methods"])
    assert found["methods"][-1]["scores"]["AUC"]["mean"] == 0.5


def test_laboratory_values_are_numbers(tmp_path):
    rows = [f"{30 + i % 50},{0.5 + 0.1 * (i % 37):.1f},{'ny'[i % 37 > 18]}" for i in range(120)]
    rows += ["61,<0.3,n", "62,>10,y", "63,haemolytic,y"]
    (tmp_path / "lab.csv").write_text("\n".join(["age,crp,sick", *rows]) + "\n")
    remarks = document("describe", tmp_path / "lab.csv", "--target", "sick", "--json")["remarks"]
    assert "column 'crp': 123 values are read as numbers: 2 at a detection limit" in remarks[0]
    words = ["fit", tmp_path / "lab.csv", "--target", "sick", *SHORT]
    result = call(*words, "--out", tmp_path / "m.bpatch")
    assert "1 text as missing ('haemolytic')" in result.stderr
    model = bayespatch.load(tmp_path / "m.bpatch")
    assert model.schema_.column("crp").family == "number"
    # Of a few new cases their values alone would not say it.
    (tmp_path / "new.csv").write_text("age,crp\n50,<0.3\n51,lost\n")
    result = call("predict", tmp_path / "m.bpatch", tmp_path / "new.csv", "--json")
    assert result.exit_code == 0, result.stderr
    assert "1 text as missing ('lost')" in result.stderr
    # The dictionary keeps them as texts.
    (tmp_path / "words.csv").write_text("name,kind\ncrp,text\n")
    result = call(*words, "--dictionary", tmp_path / "words.csv", "--out", tmp_path / "t.bpatch")
    assert bayespatch.load(tmp_path / "t.bpatch").schema_.column("crp").family == "text"


def follow_up_table(path):
    rows = ["age,pain,drug,days,died,outcome"]
    for k in range(40):
        sick = k % 3 == 0
        feature = f"{40 + 7 * k % 31},{'yes' if sick else 'no'}"
        rows.append(f"{feature},{'ab'[k % 2]},{10 + 7 * k},{int(k % 4 == 1)},{'sick' if sick else 'well'}")
    path.write_text("\n".join(rows) + "\n")
    return path


def test_follow_up_columns_are_recorded_and_not_compared(tmp_path):
    table, model = follow_up_table(tmp_path / "p.csv"), tmp_path / "m.bpatch"
    words = ["--follow-up", "drug=treatment", "--follow-up", "days=time:died"]
    found = document("fit", table, "--target", "outcome", *SHORT, *words, "--out", model, "--json")
    assert (found["features"], found["most_important"]) == (2, ["pain"])
    why = document("explain", model, table, "--row", "3", "--format", "json")
    assert [row["treatment"] for row in why["follow_up"]["drug"]["treatments"]] == ["a", "b"]
    assert why["follow_up"]["days"]["event"] == "died"


def test_the_dictionary_says_what_is_follow_up(tmp_path):
    table, model = follow_up_table(tmp_path / "p.csv"), tmp_path / "m.bpatch"
    dictionary = tmp_path / "d.csv"
    dictionary.write_text("name,role,event,unit\ndrug,treatment,,\ndays,follow-up,died,days\n")
    words = ["fit", table, "--target", "outcome", *SHORT, "--dictionary", dictionary, "--out", model, "--json"]
    assert document(*words)["features"] == 2
    why = document("explain", model, table, "--row", "3", "--format", "json")
    assert (list(why["follow_up"]), why["follow_up"]["days"]["unit"]) == (["drug", "days"], "days")


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ("dryg", "'dryg', which is not in the table; did you mean 'drug'"),
        ("days=time", "is a time without an event"),
        ("days=length", "'length' is not valid; choose one of"),
        ("outcome", "'outcome' is both --target and --follow-up"),
    ],
)
def test_follow_up_columns_that_cannot_be(given, wrong, tmp_path):
    table = follow_up_table(tmp_path / "p.csv")
    said = complaint("fit", table, "--target", "outcome", "--follow-up", given, "--out", tmp_path / "m.bpatch")
    assert wrong in said
    assert not (tmp_path / "m.bpatch").exists()


def test_times_to_an_event_are_fitted_and_predicted(tmp_path):
    table, model = follow_up_table(tmp_path / "p.csv"), tmp_path / "m.bpatch"
    words = ["--time", "days", "--event", "died", "--drop", "outcome", "--follow-up", "drug=treatment"]
    found = document("fit", table, *words, "--draws", "10", "--out", model, "--json")
    assert (found["features"], found["outcome"], found["cases"]) == (2, "days", 40)
    loaded = bayespatch.load(model)
    assert loaded.fitted_.event.sum() == 10
    rows = document("predict", model, table, "--intervals", "--json")["predictions"]
    first = rows[0]
    assert set(first) == {"row", "risk", "median", "event_free", "intervals"}
    for time, share in first["event_free"].items():
        low, high = first["intervals"][time]
        assert low <= share <= high
    text = call("predict", model, table)
    assert text.stdout.splitlines()[0].startswith("row,risk,median,event_free_at_")
    assert "times" in complaint("predict", model, table, "--votes")
    chosen = document("predict", model, table, "--at", "150", "--at", "90", "--json")["predictions"]
    assert list(chosen[0]["event_free"]) == ["90", "150"]
    assert "beyond the follow-up" in complaint("predict", model, table, "--at", "1e9")
    why = document("explain", model, table, "--row", "0", "--at", "90", "--json")
    assert 0.0 < why["prediction"]["probability"] == pytest.approx(1.0 - chosen[0]["event_free"]["90"], rel=1e-5)
    call("explain", model, table, "--row", "0", "--out", tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    for words in (
        ["what-if", model, table, "--row", "0", "--set", "age=50"],
        ["counterfactual", model, table, "--row", "0"],
        ["validate", model, table],
        ["report", model, "--out", tmp_path / "report.html"],
        ["governance", model, "--out", tmp_path / "documents"],
    ):
        said = complaint(*words)
        assert f"bayespatch {words[0]} does not support survival models" in said
        assert "'days', a time to an event" in said
    assert not (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["--time", "days"], "pass --time and --event together"),
        (["--time", "days", "--event", "died", "--target", "outcome"], "--time replaces --target"),
        ([], "pass the column to predict"),
    ],
)
def test_outcomes_that_contradict_each_other_are_usage_errors(words, wrong, tmp_path):
    result = call("fit", follow_up_table(tmp_path / "p.csv"), *words)
    assert result.exit_code == 2
    assert wrong in " ".join(result.stderr.replace("│", " ").split())


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["--event", "sick"], "--event 'sick' is not a column"),
        (["--event", "age"], "'age' has 40 in row 0. Use 1"),
        (["--event", "died", "--model", "II"], "--model does not apply to survival models"),
    ],
)
def test_times_that_cannot_be_are_refused(words, wrong, tmp_path):
    table = follow_up_table(tmp_path / "p.csv")
    said = complaint("fit", table, "--time", "days", "--drop", "outcome", *words, "--out", tmp_path / "m.bpatch")
    assert wrong in said


def test_columns_of_noise_are_not_important(tmp_path):
    rng = np.random.default_rng(0)
    columns = {"pulse": rng.integers(50, 100, 80), "ward": rng.choice(["A", "B"], 80), "y": rng.choice(["s", "w"], 80)}
    pd.DataFrame(columns).to_csv(tmp_path / "noise.csv", index=False)
    result = call("fit", tmp_path / "noise.csv", "--target", "y", *SHORT, "--out", tmp_path / "m.bpatch")
    assert "no feature clearly improves the predictions" in result.stderr
