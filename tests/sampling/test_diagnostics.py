"""Have the chains mixed? The table of R-hat and effective sample sizes, and its words."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from bayespatch.sampling.diagnostics import Diagnostics, diagnose


@pytest.fixture
def table() -> Diagnostics:
    """Two quantities drawn independently: what perfect mixing looks like."""
    return diagnose(["a", "b"], np.random.default_rng(0).normal(size=(4, 300, 2)))


def test_a_slow_chain_is_told_how_many_draws_it_needs():
    rng = np.random.default_rng(1)
    walk = np.zeros((2, 400, 1))
    for t in range(1, 400):
        walk[:, t] = 0.95 * walk[:, t - 1] + rng.normal(size=(2, 1))
    table = diagnose(["slow"], walk)
    assert table.ess[0] < 200
    wanted = int(table.warning().split("roughly ")[1].split()[0])
    assert wanted >= 400 * 200 / table.ess[0]


def test_chains_that_agree_and_are_short_are_not_called_unmixed():
    # The same numbers in each chain, in another order: nothing sets the chains apart.
    draws = np.random.default_rng(0).permuted(np.tile(np.linspace(0, 1, 60)[:, None], (4, 1, 2)), axis=1)
    table = diagnose(["q[0]", "q[1]"], draws)
    assert (table.rhat <= 1.01).all()
    assert table.verdict == "too few draws"
    said = table.with_features(["age", "pain"]).warning()
    assert said.startswith("too few draws: the chains agree")
    assert "importance of age (ESS " in said
    apart = np.random.default_rng(0).normal(size=(4, 60, 1)) + 5 * np.arange(4)[:, None, None]
    assert diagnose(["q[0]"], apart).verdict == "not mixed"
    assert diagnose(["a"], np.random.default_rng(0).normal(size=(4, 3, 1))).verdict == "too few draws"


def test_the_warning_names_the_worst_five_and_counts_the_rest():
    stuck = np.random.default_rng(0).normal(size=(4, 100, 8)) + 10 * np.arange(4)[:, None, None]
    said = diagnose([f"q[{j}]" for j in range(8)], stuck).warning()
    assert said.count("R-hat 1") + said.count("R-hat 2") + said.count("R-hat 3") == 5
    assert "and 3 more" in said


def test_a_constant_that_rounding_blurs_is_still_constant():
    table = diagnose(["third"], np.full((4, 50, 1), 1 / 3))
    assert table.constant.all()
    assert table.converged


def test_chains_stuck_at_different_constants_are_not_constant():
    stuck = np.ones((4, 100, 1)) * np.arange(4)[:, None, None]
    table = diagnose(["stuck"], stuck)
    assert table.rhat[0] > 1e9
    assert not table.converged
    short = f"{table.rhat[0]:.1e}"
    assert f"stuck (R-hat {short}, ESS 4)" in table.warning()
    assert short in str(table)


def test_a_nan_is_not_taken_for_convergence():
    values = np.random.default_rng(0).normal(size=(4, 200, 2))
    values[0, 0, 0] = np.nan
    table = diagnose(["broken", "fine"], values)
    assert table.poor.tolist() == [True, False]
    assert "broken (R-hat nan, ESS nan)" in table.warning()


def test_the_table_is_aligned_text(table):
    lines = str(table).splitlines()
    assert lines[0].split() == ["mean", "sd", "mcse", "ess_bulk", "ess_tail", "rhat"]
    assert lines[2].split()[0] == "b"
    assert len({len(line) for line in lines}) == 1
    assert repr(table) == str(table)


def test_the_table_is_html_and_escapes_names():
    shown = diagnose(["<b>", "c"], np.random.default_rng(0).normal(size=(2, 50, 2)))._repr_html_()
    assert shown.count("<tr>") == 3
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown


def test_the_table_is_a_data_frame(table):
    frame = table.to_frame()
    assert list(frame.columns) == ["mean", "sd", "mcse", "ess_bulk", "ess_tail", "rhat"]
    assert list(frame.index) == list(table.names)
    assert frame.loc["b", "rhat"] == table.rhat[1]


def test_to_frame_without_pandas_names_it(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        table.to_frame()


def test_diagnostics_need_neither_xarray_nor_pandas(tmp_path):
    code = (
        "import sys\n"
        "for name in ('xarray', 'pandas', 'arviz_base'): sys.modules[name] = None\n"
        "import numpy as np\n"
        "from bayespatch.sampling.diagnostics import diagnose\n"
        "print(diagnose(['a'], np.random.default_rng(0).normal(size=(4, 300, 1))).converged)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stdout.strip() == "True", done.stderr
