import random

import pytest

from bayespatch.dictionary import Dictionary
from tests.cli.program import call, complaint, document
from tests.cli.test_fit import dirty
from tests.cli.visits import visits


def test_a_table_is_shown_before_anything_is_fitted(tmp_path):
    result = call("describe", dirty(tmp_path), "--target", "sick")
    assert result.exit_code == 0, result.stderr
    assert "40 rows, 9 columns" in result.stdout
    assert "sick (target)" in result.stdout
    for remark in (
        "'born' contains dates",
        "3 rows have no 'sick'",
        "'no' looks like an identifier",
        "'site' is A in every row",
        "'copy' duplicates 'cp'",
        "'late' on its own predicts 'sick'",
        "'empty' is empty",
    ):
        assert remark in result.stdout


def test_the_same_for_programs_and_a_draft_of_the_dictionary(tmp_path):
    draft = tmp_path / "draft.csv"
    found = document("describe", dirty(tmp_path), "--dictionary", draft, "--json")
    assert found["rows"] == 40
    by_name = {column["name"]: column for column in found["columns"]}
    assert by_name["cp"]["levels"] == {"1": 10, "2": 10, "3": 10, "4": 10}
    assert (by_name["sick"]["missing"], by_name["born"]["kind"], by_name["empty"]["kind"]) == (3, "date", "empty")
    said = Dictionary.read(draft)
    assert said["no"].identifier
    assert said["cp"].labels == {1: "1", 2: "2", 3: "3", 4: "4"}
    assert "already exists; pass --force" in complaint("describe", tmp_path / "dirty.csv", "--dictionary", draft)
    assert "--target 'x' is not a column" in complaint("describe", tmp_path / "dirty.csv", "--target", "x")


@pytest.mark.parametrize("target", [[], ["--target", "outcome"]])
def test_repeated_patients_are_noticed(tmp_path, target):
    remarks = document("describe", visits(tmp_path), *target, "--json")["remarks"]
    assert "'patient' identifies patients, and 480 rows share a value with another row: pass --group" in remarks[0]
    n_repeats = int(remarks[1].split()[0])
    assert n_repeats > 200
    assert f"{n_repeats} of 480 rows repeat an earlier row or nearly do (such as rows 0" in remarks[1]


def test_texts_with_gaps_are_described_without_a_target(tmp_path):
    rows = "\n".join(f"{'' if i % 7 == 0 else 'abc'[i % 3]},{i % 5},{'' if i % 3 else 'x'}" for i in range(40))
    (tmp_path / "gaps.csv").write_text(f"pain,grade,note\n{rows}\n")
    columns = document("describe", tmp_path / "gaps.csv", "--dictionary", tmp_path / "draft.csv", "--json")["columns"]
    assert [column["missing"] for column in columns] == [6, 0, 26]


def test_the_draft_of_a_dictionary_warns_of_no_value_in_the_table(tmp_path):
    rng = random.Random(0)
    numbers = [rng.gauss(0.0, 10.0) * 10 ** rng.randint(-6, 6) for _ in range(200)]
    rows = "\n".join(f"{x!r},{rng.choice('ab')},{100.0001 + i}" for i, x in enumerate(numbers))
    (tmp_path / "t.csv").write_text(f"x,group,y\n{rows}\n")
    assert call("describe", tmp_path / "t.csv", "--dictionary", tmp_path / "draft.csv").exit_code == 0
    said = Dictionary.read(tmp_path / "draft.csv")
    low, high = said["x"].usual
    assert low <= min(numbers) <= max(numbers) <= high
    assert said["y"].usual == (100.0, 299.1)
    assert "did you mean 'group'?" in complaint("describe", tmp_path / "t.csv", "--target", "GROUP")
