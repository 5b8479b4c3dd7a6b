import json

import pytest

from study.parts import Context, Part
from study.protocol import FULL, QUICK
from study.results import Results, about, key_of
from study.tables import Table

PART = Part("knn", "A title", "fig:comp3", lambda context: [], 1.0)
TABLE = Table("tiny", "A caption", ("a",), [(0.5,)])


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path)


@pytest.fixture
def context():
    return Context(seed=3, sizes=QUICK)


def test_a_part_is_finished_once_its_record_is_written(results, context):
    assert not results.is_finished(PART, context)
    results.store(PART, context, [TABLE], seconds=1.234)
    assert results.is_finished(PART, context)
    assert results["tiny"].rows == [(0.5,)]
    text = (results.folder / "tables" / "tiny.md").read_text()
    assert "| 0.500 |" in text
    assert "seed 3, 1.23 s; python" in text


def test_other_settings_are_another_result(results, context):
    results.store(PART, context, [TABLE], seconds=1.0)
    assert not results.is_finished(PART, Context(seed=4, sizes=QUICK))
    assert not results.is_finished(PART, Context(seed=3, sizes=FULL))
    path = results.folder / "parts" / "knn.json"
    record = json.loads(path.read_text())
    record["key"]["version"] = "0.0.1"
    path.write_text(json.dumps(record))
    assert not results.is_finished(PART, context)


@pytest.mark.parametrize("damage", ["table", "record"])
def test_what_is_damaged_is_not_finished(results, context, damage):
    results.store(PART, context, [TABLE], seconds=1.0)
    if damage == "table":
        (results.folder / "tables" / "tiny.csv").unlink()
    else:
        (results.folder / "parts" / "knn.json").write_text("{")
    assert not results.is_finished(PART, context)


def test_quick_results_are_not_full_ones(results, context):
    results.store(PART, context, [TABLE], seconds=1.0)
    assert not results.holds_full_study()
    results.store(PART, Context(seed=3, sizes=FULL), [TABLE], seconds=1.0)
    assert results.holds_full_study()
    assert key_of(PART, context)["quick"]
    assert about(results.record(PART)).startswith("*full study, part knn, seed 3")


def test_long_tables_are_for_programs(results, context):
    long = Table("long", "", ("a",), [(k,) for k in range(1000)])
    results.store(PART, context, [long], seconds=1.0)
    assert "long" in results
    assert not (results.folder / "tables" / "long.md").exists()


def test_an_unknown_table_is_a_key_error(results):
    with pytest.raises(KeyError):
        results["nothing"]
    assert list(results) == []
