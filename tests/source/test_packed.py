import gzip
import io
import sys
import zipfile

import openpyxl
import pytest

import bayespatch.source.packed as packed
from bayespatch.source import read

TEXT = b"age,sex\n61,f\n58,m\n?,f\n"


def workbook(rows):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


def test_compressed_text(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(TEXT[:10]) + gzip.compress(TEXT[10:]))
    frame = read(str(tmp_path / "t.csv.gz"))
    assert frame["sex"].tolist() == ["f", "m", "f"]
    assert frame["age"].isna().sum() == 1


def test_damaged_or_endless_compressed_text_is_refused(tmp_path, monkeypatch):
    (tmp_path / "t.gz").write_bytes(gzip.compress(TEXT)[:-9])
    with pytest.raises(ValueError, match="ends too early; use another copy"):
        read(str(tmp_path / "t.gz"))
    (tmp_path / "t.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 10**6))
    monkeypatch.setattr(packed, "available_memory", lambda: 10**6)
    with pytest.raises(ValueError, match="holds more than 333 kB when it is unpacked"):
        read(str(tmp_path / "t.gz"))


def test_a_workbook(tmp_path):
    rows = [["age", "sex", "code", None], [61, "f", 1, None], [58.5, "m", "x", None], ["?", "f", 2.0, None]]
    (tmp_path / "t.xlsx").write_bytes(workbook(rows))
    frame = read(str(tmp_path / "t.xlsx"))
    assert list(frame.columns) == ["age", "sex", "code"]
    assert frame["age"].tolist()[:2] == [61, 58.5]
    assert frame["age"].isna().tolist() == [False, False, True]
    assert frame["code"].tolist() == ["1", "x", "2"]


def test_only_the_first_sheet_of_a_workbook_is_read(tmp_path):
    book = openpyxl.load_workbook(io.BytesIO(workbook([["age"], [61], [58]])))
    book.active.title = "Patients"
    book.create_sheet("Notes").append(["text"])
    book.save(tmp_path / "t.xlsx")
    with pytest.warns(packed.SheetWarning, match="only the first of 2 sheets, 'Patients', is read"):
        assert list(read(str(tmp_path / "t.xlsx")).columns) == ["age"]


def test_what_is_no_workbook_is_refused(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("t.csv", "a,b")
    with pytest.raises(ValueError, match="is a zip archive; unpack it"):
        read(str(tmp_path / "t.zip"))
    (tmp_path / "t.xlsx").write_bytes(workbook([["a", "b"]]))
    with pytest.raises(ValueError, match="column names but no rows"):
        read(str(tmp_path / "t.xlsx"))
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ImportError, match=r'pip install "bayespatch\[excel\]"'):
        read(str(tmp_path / "t.xlsx"))


class Piped(io.TextIOWrapper):
    def isatty(self):
        return False


def test_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", Piped(io.BytesIO(gzip.compress(TEXT))))
    assert read("-").shape == (3, 2)
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ValueError, match="nothing is piped into the program"):
        read("-")
