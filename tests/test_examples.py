"""The examples run, with short chains on few patients, and say what they should."""

import runpy
import sys
import warnings
from pathlib import Path

import pytest

from bayespatch.sampling.diagnostics import MixingWarning

EXAMPLES = Path(__file__).parents[1] / "examples"

# Example -> its arguments, {} being a folder, and words in what it prints.
RUNS = {
    "heart": (["--quick", "--out", "{}"], ["auc", "patient.html", "model.html", "patchwork.png", "heart.bpatch"]),
    "own_csv": (["--quick", "--out", "{}"], ["fièvre: categorical", "known outcome", "saved"]),
    "pipeline": (["--quick"], ["log_loss", "auto", "ignore"]),
    "what_if": (["--quick"], ["what if: chest pain", "one value at a time"]),
    "regression": (["--quick"], ["mean absolute error", "80% intervals", "neighbors of the first"]),
}


def run(name, arguments, monkeypatch, capsys):
    """What the example prints."""
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixingWarning)
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return capsys.readouterr().out


def test_every_example_is_run():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(RUNS)


@pytest.mark.parametrize("name", RUNS)
def test_an_example_runs(name, tmp_path, monkeypatch, capsys, few_patients):
    monkeypatch.chdir(tmp_path)
    arguments, words = RUNS[name]
    said = run(name, [word.format(tmp_path / "out") for word in arguments], monkeypatch, capsys)
    assert not [word for word in words if word not in said.casefold()], said


def test_a_file_of_ones_own_can_be_given(tmp_path, monkeypatch, capsys):
    path = tmp_path / "mine.csv"
    lines = ["who,sex,age,outcome", *(f"P{k:02d},{'fm'[k % 2]},{30 + k},{'ab'[k % 2]}" for k in range(40))]
    path.write_text("\n".join(lines))
    said = run("own_csv", [str(path), "--id", "who", "--quick", "--out", str(tmp_path / "out")], monkeypatch, capsys)
    assert "P39" in said
    assert "Known outcome: b." in said
