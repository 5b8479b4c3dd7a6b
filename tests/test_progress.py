"""Progress: a bar for a person, calls for a program, or silence."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from bayespatch import PatchworkClassifier
from bayespatch.progress import progress_meter


def test_false_is_silent(capsys):
    with progress_meter(False)(10) as report:
        report(10, "sampling")
    assert capsys.readouterr() == ("", "")


def test_a_function_is_told_done_total_and_phase():
    told = []
    with progress_meter(lambda *said: told.append(said))(10) as report:
        report(0, "warm-up")
        report(10, "sampling")
    assert told == [(0, 10, "warm-up"), (10, 10, "sampling")]


def test_true_is_a_bar_on_stderr_with_phase_count_speed_and_time(capsys):
    with progress_meter(True)(10) as report:
        report(0, "warm-up")
        report(5, "warm-up")
        report(10, "sampling")
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("sampling ")
    assert "10/10" in err
    assert "sweeps/s" in err
    assert "0:00:00" in err


def test_a_bar_that_is_interrupted_closes(capsys):
    def interrupted():
        with progress_meter(True)(10) as report:
            report(5, "warm-up")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert "5/10" in capsys.readouterr().err


def test_a_bar_without_rich_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich", None)
    with pytest.raises(ImportError, match=r'pip install "bayespatch\[cli\]"'):
        progress_meter(True)


@pytest.mark.parametrize("value", ["bar", 1, None])
def test_anything_else_is_refused(value):
    with pytest.raises(ValueError, match=f"progress={value!r} is neither True nor False"):
        progress_meter(value)


def test_a_fit_reports_its_second_opinion():
    rng = np.random.default_rng(0)
    X, told = rng.standard_normal((60, 2)), []
    PatchworkClassifier(random_state=0, progress=lambda *said: told.append(said)).fit(X, (X[:, 0] > 0).astype(int))
    of_opinion = [(done, total) for done, total, phase in told if phase == "second opinion"]
    assert len(of_opinion) > 5
    assert of_opinion == sorted(of_opinion)
    assert of_opinion[-1][0] == of_opinion[-1][1]
