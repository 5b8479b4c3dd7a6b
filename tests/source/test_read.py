import os

import polars as pl
import pytest

from bayespatch.source import read


def test_the_beginning_of_a_file_says_what_it_is_and_not_its_name(tmp_path):
    frame = pl.DataFrame({"age": [61, 40], "sex": ["f", "m"]})
    paths = [tmp_path / name for name in ("a.csv", "b.csv", "c.csv")]
    frame.write_csv(paths[0])
    frame.write_parquet(paths[1])
    frame.write_ipc(paths[2])
    for path in paths:
        assert read(str(path)).to_dict("list") == {"age": [61, 40], "sex": ["f", "m"]}


def test_a_url_is_a_database(tmp_path):
    with pytest.raises(ValueError, match="needs a query"):
        read(f"sqlite:///{tmp_path}/a.db")


@pytest.mark.parametrize(
    ("name", "query", "complaint"),
    [
        ("none.csv", None, "no such file"),
        ("", None, "is a folder"),
        ("a.csv", "SELECT 1", "--query works only with a database"),
        ("nul\0byte", None, "cannot be read"),
    ],
)
def test_paths_that_lead_nowhere_get_one_sentence(tmp_path, name, query, complaint):
    with pytest.raises(ValueError, match=complaint):
        read(str(tmp_path / name) if name else str(tmp_path), query)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
def test_what_has_no_end_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero", "/dev/stdin"):
        with pytest.raises(ValueError, match="is a device or pipe, not a file"):
            read(str(path))


def test_a_file_larger_than_the_memory_is_not_read(tmp_path):
    with open(tmp_path / "sparse.csv", "wb") as file:
        file.truncate(2**42)
    with pytest.raises(ValueError, match=r"is 4\.4e\+03 GB, but only .* of memory are available; pass fewer rows"):
        read(str(tmp_path / "sparse.csv"))
