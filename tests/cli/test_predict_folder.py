"""Tables that lie in many Parquet files: fitted as one, predicted into as many files, here and on workers."""

from itertools import pairwise

import pandas as pd
import pytest

from bayespatch import load
from bayespatch.source import read
from tests.cli.program import FIT, call, complaint, document

pytest.importorskip("pyarrow")
pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def registry(clinic, tmp_path_factory):
    """The clinic's tables in parts; one has no rows."""
    folder = tmp_path_factory.mktemp("registry")
    for name, ends in {"patients": (0, 11, 11, 40), "new": (0, 2, 5)}.items():
        frame = read(str(clinic / f"{name}.csv"))
        (folder / name).mkdir()
        for k, (low, high) in enumerate(pairwise(ends)):
            frame[low:high].to_parquet(folder / name / f"{k}.parquet")
    return folder


@pytest.fixture(scope="module")
def model(registry, scheduler):
    out = registry / "model.bpatch"
    result = call(
        *("fit", registry / "patients" / "*.parquet", *FIT, "--out", out),
        *("--scheduler", scheduler),
    )
    assert result.exit_code == 0, result.stderr
    assert "files           3\nrows            40" in result.stdout
    return out


def test_the_model_of_the_same_table_in_one_file(clinic, model):
    one, other = load(clinic / "model.bpatch"), load(model)
    assert other.schema_ == one.schema_
    assert other.ids_ == one.ids_
    new = read(str(clinic / "new.csv"))[list(one.schema_.names)]
    assert (other.predict_proba(new) == one.predict_proba(new)).all()


@pytest.mark.parametrize("where", ["*.parquet", ""])
def test_predictions_are_those_of_the_same_table_in_one_file(clinic, registry, model, scheduler, tmp_path, where):
    workers = ("--scheduler", scheduler) if where else ()
    wanted = ("--intervals", "--votes", "--abstain")
    result = call("predict", model, registry / "new" / where, *wanted, "--out", tmp_path / "found", *workers)
    assert result.exit_code == 0, result.stderr
    assert f"5 predictions written to {tmp_path / 'found'}" in result.stderr
    assert "of 5 cases have no adequate precedent" in result.stderr
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["found", "part-00000.parquet", "part-00001.parquet"]
    found = pd.concat([pd.read_parquet(path) for path in sorted((tmp_path / "found").glob("*"))])
    assert [path[-9:] for path in found["file"]] == ["0.parquet"] * 2 + ["1.parquet"] * 3
    assert found["row"].tolist() == [0, 1, 0, 1, 2]
    expected = tmp_path / "expected.csv"
    assert call("predict", model, clinic / "new.csv", *wanted, "--out", expected).exit_code == 0
    expected = pd.read_csv(expected)
    assert list(found.columns) == ["file", *expected.columns]
    columns = list(expected.columns[1:])
    pd.testing.assert_frame_equal(
        found[columns].reset_index(drop=True), expected[columns], rtol=1e-5, check_dtype=False
    )


def test_a_large_file_is_cut_between_its_row_groups(clinic, model, tmp_path, monkeypatch):
    from bayespatch.source import parquet_parts

    (tmp_path / "data").mkdir()
    for name in ("patients", "new"):
        read(str(clinic / f"{name}.csv")).to_parquet(tmp_path / "data" / f"{name}.parquet", row_group_size=2)
    assert len(parquet_parts.parts_of([str(tmp_path / "data" / "patients.parquet")])) == 1
    monkeypatch.setattr(parquet_parts, "MOST_BYTES", 1)
    pieces = parquet_parts.parts_of([str(tmp_path / "data" / "patients.parquet")])
    assert [(piece.groups, piece.first) for piece in pieces[:3]] == [((0,), 0), ((1,), 2), ((2,), 4)]
    out = tmp_path / "model.bpatch"
    assert call("fit", tmp_path / "data" / "p*.parquet", *FIT, "--out", out).exit_code == 0
    assert load(out).ids_ == load(model).ids_
    assert (load(out).posterior_.q == load(model).posterior_.q).all()
    assert call("predict", model, tmp_path / "data" / "n*.parquet", "--out", tmp_path / "found").exit_code == 0
    found = pd.read_parquet(tmp_path / "found")
    assert len(list((tmp_path / "found").iterdir())) == 3
    assert found["row"].tolist() == [0, 1, 2, 3, 4]


def test_identifiers_and_replacing(registry, model, tmp_path):
    new, out = registry / "new", tmp_path / "found"
    words = ("predict", model, new, "--out", out, "--id", "patient no.")
    assert call(*words).exit_code == 0
    assert pd.read_parquet(out / "part-00000.parquet")["patient no."].tolist() == ["P-000", "P-001"]
    assert "already exists; pass --force" in complaint(*words)
    assert call(*words, "--force").exit_code == 0
    (out / "notes.txt").write_text("mine")
    assert "contains 'notes.txt', which is not a predictions file" in complaint(*words, "--force")
    assert (out / "notes.txt").exists()


def test_a_worklist_in_parts(clinic, registry, model, scheduler, tmp_path):
    words = ("predict", model, registry / "new", "--worklist", "--id", "patient no.", "--out", tmp_path / "found")
    result = call(*words, "--scheduler", scheduler)
    assert result.exit_code == 0, result.stderr
    found = pd.concat([pd.read_parquet(path) for path in sorted((tmp_path / "found").glob("*"))])
    whole = tmp_path / "whole.csv"
    assert call("predict", model, clinic / "new.csv", *words[3:6], "--out", whole).exit_code == 0
    expected = pd.read_csv(whole, keep_default_na=False)
    assert list(found.columns) == list(expected.columns)
    lines = [frame.set_index("patient no.").sort_index() for frame in (found, expected)]
    assert lines[0]["attention"].tolist() == lines[1]["attention"].tolist()
    assert lines[0]["closest"].tolist() == lines[1]["closest"].tolist()
    assert lines[0]["probability"].to_numpy() == pytest.approx(lines[1]["probability"].to_numpy(), rel=1e-5)


def test_nothing_is_left_where_a_file_fails(registry, model, tmp_path, scheduler):
    new = tmp_path / "new"
    new.mkdir()
    pd.read_parquet(registry / "new" / "0.parquet").to_parquet(new / "a.parquet")
    pd.read_parquet(registry / "new" / "1.parquet").drop(columns="âge").to_parquet(new / "b.parquet")
    for workers in ((), ("--scheduler", scheduler)):
        said = complaint("predict", model, new, "--out", tmp_path / "found", *workers)
        assert "b.parquet': the table has no column 'âge'" in said
    (new / "b.parquet").write_text("a,b\n1,2\n")
    assert "b.parquet': is not Parquet" in complaint("predict", model, new, "--out", tmp_path / "found")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new"]


def test_what_is_refused(registry, model, tmp_path):
    patients = registry / "patients"
    assert "no file matches" in complaint("fit", tmp_path / "*.parquet", *FIT)
    assert "there is no file *.parquet in the folder" in complaint("fit", tmp_path, *FIT)
    assert "--query works with one table" in complaint("fit", patients, *FIT, "--query", "SELECT 1")
    assert "pass it as --out" in complaint("predict", model, registry / "new")
    assert call("predict", model, registry / "new", "--json", "--out", tmp_path / "found").exit_code == 2
    said = complaint("fit", patients, "--target", "outcom", "--out", tmp_path / "m.bpatch")
    assert "0.parquet': --target 'outcom' is not a column of the table; did you mean 'outcome'?" in said
    frame = pd.read_parquet(patients / "2.parquet")
    (tmp_path / "twice").mkdir()
    for name in ("0", "1"):
        frame.to_parquet(tmp_path / "twice" / f"{name}.parquet")
    assert "'P-011', 'P-012', 'P-013' and 26 more occurs in more than one row" in complaint(
        "fit", tmp_path / "twice", *FIT, "--out", tmp_path / "m.bpatch"
    )
    for name in ("0", "1"):
        (tmp_path / f"{name}.parquet").write_bytes((patients / f"{name}.parquet").read_bytes())
    frame.assign(âge="old").to_parquet(tmp_path / "2.parquet")
    said = complaint("fit", tmp_path, *FIT, "--out", tmp_path / "m.bpatch")
    assert "column 'âge' holds text values in" in said
    assert "2.parquet' and number values in" in said


def test_all_rows_of_many_files_vote(registry, clinic, monkeypatch, tmp_path):
    """With room for 25 rows here, all 40 vote from files beside the model."""
    monkeypatch.setattr("bayespatch.encode.partitions.MOST_ROWS", 25)
    out = tmp_path / "model.bpatch"
    result = call("fit", registry / "patients" / "*.parquet", *FIT, "--out", out)
    assert result.exit_code == 0, result.stderr
    assert "cases           40" in result.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.bpatch", "model.bpatch.parts"]
    model = load(out)
    assert len(model.x_) < 40
    absent = next(f"P-{k:03d}" for k in range(1, 41) if f"P-{k:03d}" not in model.ids_)  # from the sample
    found = document("explain", out, "--id", absent, "--json")
    assert absent not in [neighbor["id"] for neighbor in found["neighbors"]]
    assert any(neighbor["id"] not in model.ids_ for neighbor in found["neighbors"])
    hidden = document("explain", out, "--row", "39", "--hide-ids", "--json")
    assert "P-" not in str(hidden["neighbors"])
    result = call("predict", out, registry / "new", "--worklist", "--out", tmp_path / "found")
    assert result.exit_code == 0, result.stderr
    listed = pd.concat([pd.read_parquet(path) for path in sorted((tmp_path / "found").glob("*"))])
    assert all(name.startswith("P-") for name in listed["closest"])
    result = call("predict", out, clinic / "new.csv", "--intervals", "--out", tmp_path / "found.csv")
    assert result.exit_code == 0, result.stderr
