import sys

import pandas as pd
import polars as pl
import pytest

from bayespatch.source.columnar import read_columnar


@pytest.fixture(params=["pyarrow", "polars"])
def library(request, monkeypatch):
    if request.param == "polars":
        for name in [name for name in sys.modules if name.partition(".")[0] == "pyarrow"] or ["pyarrow"]:
            monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    return request.param


@pytest.mark.parametrize("layout", ["Parquet", "Arrow"])
def test_a_file_is_read_with_whatever_is_there(tmp_path, library, layout):
    frame = pl.DataFrame({"âge": [61, None], "a b": ["x", "y"], "flag": [True, False]})
    path = tmp_path / "t"
    frame.write_parquet(path) if layout == "Parquet" else frame.write_ipc(path)
    found = read_columnar("t", str(path), layout)
    assert list(found.columns) == ["âge", "a b", "flag"]
    assert found["âge"].tolist()[0] == 61
    assert found["âge"].isna().tolist() == [False, True]
    assert found["a b"].tolist() == ["x", "y"]
    assert found["flag"].tolist() == [True, False]


def test_damaged_and_empty_files_get_one_sentence(tmp_path, library):
    path = tmp_path / "t"
    path.write_bytes(b"PAR1 and nothing else")
    with pytest.raises(ValueError, match="t: cannot be read as Parquet"):
        read_columnar("t", str(path), "Parquet")
    pl.DataFrame({"a": pl.Series([], dtype=pl.Int64)}).write_parquet(path)
    with pytest.raises(ValueError, match="t: there are columns but no rows"):
        read_columnar("t", str(path), "Parquet")


def test_the_index_of_a_pandas_frame_is_a_column_where_it_has_a_name(tmp_path):
    path = str(tmp_path / "t")
    pd.DataFrame({"age": [61, 40]}, index=pd.Index(["a", "b"], name="who")).to_parquet(path)
    assert list(read_columnar("t", path, "Parquet").columns) == ["who", "age"]


def test_without_either_library_the_install_command_is_named(tmp_path, monkeypatch):
    for name in ("pyarrow", "polars"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r'pip install "bayespatch\[parquet\]"'):
        read_columnar("t", str(tmp_path / "t"), "Parquet")
