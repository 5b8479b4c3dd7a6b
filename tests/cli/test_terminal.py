import json

import pytest

from bayespatch.cli.terminal import as_json, counting, facts_text, show, table_text, working


def test_documents_are_json_that_every_program_reads():
    assert json.loads(as_json({"âge": [1, None, 0.5]})) == {"âge": [1, None, 0.5]}
    with pytest.raises(ValueError):
        as_json({"p": float("nan")})


def test_a_result_is_a_document_or_a_text(capsys):
    show({"a": 1}, True, "one")
    show({"a": 1}, False, "one")
    assert capsys.readouterr().out == '{\n  "a": 1\n}\none\n'


def test_progress_is_on_stderr(capsys):
    with working("Reading"), counting("work") as tell:
        tell(1, 2, "first")
    found = capsys.readouterr()
    assert found.out == ""
    assert "Reading ..." in found.err


def test_tables_and_facts():
    text = table_text(["method", "AUC"], [["[red] patchwork", "0.9"], ["b", "10.0"]])
    assert [line.split() for line in text.splitlines()][2:] == [["[red]", "patchwork", "0.9"], ["b", "10.0"]]
    assert facts_text({"a": "1", "long": "2"}) == "a     1\nlong  2"
