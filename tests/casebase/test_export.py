"""Exports: what is left out, and that no cell runs in a spreadsheet."""

from __future__ import annotations

import csv

import pytest
from sqlalchemy import create_engine, text

from bayespatch.casebase import CaseBase
from tests.casebase.clinic import BY, DICTIONARY, table

SECRET = {**DICTIONARY, "outcome": {**DICTIONARY["outcome"], "sensitive": True}}
FORMULAS = ('=HYPERLINK("http://evil")', "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", " =1+1", "\t=1+1", "\uff1d1+1")


def rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize("ending", ["csv", "parquet", "db"])
def test_without_sensitive_columns_nobody_is_named(base, tmp_path, ending):
    base.define(SECRET, "outcome", by=BY)
    where = tmp_path / f"cases.{ending}"
    base.export(f"sqlite:///{where}" if ending == "db" else where, by=BY, sensitive=False)
    content = where.read_bytes()
    for word in (b"P-00", b"external_id", b"Ulm", b"K\xc3\xb6ln", b"town", b"outcome"):
        assert word not in content
    if ending == "csv":
        assert rows(where)[0] == ["case_id", "state", "age", "pain", "bp", "smokes"]


def test_everything_is_exported_by_default(base, tmp_path):
    base.export(tmp_path / "cases.csv", by=BY)
    found = rows(tmp_path / "cases.csv")
    assert found[0] == ["case_id", "external_id", "state", "age", "pain", "bp", "smokes", "town", "outcome"]
    assert len(found) == 31


def test_no_cell_runs_in_a_spreadsheet(tmp_path):
    frame = table(len(FORMULAS) * 2)
    frame["town"] = [*FORMULAS, *FORMULAS]
    frame["who"] = [f"={i}+A1" for i in range(len(frame))]
    frame = frame.rename(columns={"smokes": "=smokes()"})
    words = {("=smokes()" if name == "smokes" else name): entry for name, entry in DICTIONARY.items()}
    with CaseBase.open(tmp_path / "clinic.db") as base:
        base.import_cases(frame, by=BY, target="outcome", id_column="who", dictionary=words)
        base.export(tmp_path / "cases.csv", by=BY)
        base.export(f"sqlite:///{tmp_path}/cases.db", by=BY)
    found = rows(tmp_path / "cases.csv")
    cells = [cell for row in found for cell in row]
    assert not [cell for cell in cells if cell.lstrip().startswith(("=", "+", "@", "\uff1d"))]
    assert {row[7] for row in found[1:]} == {f"'{text}" for text in FORMULAS}
    assert found[0][6] == "'=smokes()"
    assert {cell for row in found[1:] for cell in row[4:6]} >= {"1", "2", "3"}, "numbers stay numbers"
    engine = create_engine(f"sqlite:///{tmp_path}/cases.db")
    with engine.connect() as connection:
        assert set(connection.execute(text("SELECT town FROM cases")).scalars()) == set(FORMULAS)
    engine.dispose()
