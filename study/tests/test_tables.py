import os

import numpy as np
import pytest

from study.tables import Table, summary, write_atomically

TABLE = Table(
    "t",
    "A caption",
    ("method", "fold", "accuracy", "auc"),
    [("a", 1, 0.1 + 0.2, 0.5), ("a", 2, 0.5, None), ("b, c", 1, 1.0, 0.25), ("b, c", 2, 0.0, 0.75)],
)


def test_csv_loses_nothing():
    again = Table.from_csv("t", TABLE.to_csv())
    assert again.columns == TABLE.columns
    assert again.rows == TABLE.rows


def test_words_numbers_truths_and_nothing_come_back_as_what_they_are():
    table = Table("t", "", ("a", "b", "c", "d"), [("I", 3, True, None)])
    assert Table.from_csv("t", table.to_csv()).rows == table.rows


def test_markdown_is_short():
    lines = TABLE.to_markdown().splitlines()
    assert lines[0] == "| method | fold | accuracy | auc |"
    assert lines[2] == "| a | 1 | 0.300 | 0.500 |"
    assert lines[3] == "| a | 2 | 0.500 |  |"
    assert "0.0001" in Table("t", "", ("p",), [(0.0001,)]).to_markdown()


def test_rows_are_chosen_by_value():
    assert TABLE.where(method="a", fold=2).column("accuracy") == [0.5]
    assert TABLE.where(method="d").rows == []


def test_a_summary_has_means_spreads_and_the_difference_to_the_paper():
    found = summary(
        TABLE,
        ("method",),
        ("accuracy", "auc"),
        "s",
        "",
        lambda method: {"accuracy": 0.6, "auc": 0.9} if method == "a" else {},
    )
    first, second = found.records()
    assert first["accuracy"] == pytest.approx(0.4)
    assert first["accuracy SD"] == pytest.approx(np.std([0.3, 0.5], ddof=1))
    assert (first["auc"], first["auc SD"]) == (0.5, None)
    assert first["difference"] == pytest.approx(-0.2)
    assert first["paper's auc"] == 0.9
    assert second["paper's accuracy"] is None
    assert second["difference"] is None


def test_numpy_numbers_become_plain_ones():
    table = Table.of_records("t", "", [{"a": np.float64(0.5), "b": np.int64(2), "c": float("nan")}])
    assert table.rows == [(0.5, 2, None)]
    assert [type(cell) for cell in table.rows[0][:2]] == [float, int]


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match="does not have the columns"):
        Table("t", "", ("a",), [(1, 2)])


def test_a_file_is_written_entirely_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "new" / "file.csv"
    write_atomically(path, "first")
    for step in ("fsync", "replace", "open"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, lambda *_, **__: (_ for _ in ()).throw(OSError(28, "disk full")))
            with pytest.raises(ValueError, match="disk full"):
                write_atomically(path, "second")
        assert path.read_text() == "first"
        assert list(path.parent.iterdir()) == [path]
