import os
import signal
import subprocess
import sys
import warnings

import pytest
from typer.testing import CliRunner

from bayespatch.cli.app import new_app
from tests.cli.clinic import write_csv
from tests.cli.program import call
from tests.interruption import ctrl_c_interrupts  # noqa: F401  # the fixture serves every test here


def program_of(command):
    return new_app([command, lambda: None], "About.", "1.2.3")


def invoke(command, *words):
    return CliRunner().invoke(program_of(command), [*words, command.__name__])


@pytest.mark.parametrize("error", [ValueError, ImportError, OSError, MemoryError])
def test_what_is_wrong_with_the_input_is_one_sentence_and_1(error):
    def fail():
        raise error("the table\n  is not there")

    result = invoke(fail)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "bayespatch: the table is not there\n"


def test_a_traceback_where_it_is_asked_for():
    def fail():
        raise ValueError("no")

    assert isinstance(invoke(fail, "--traceback").exception, ValueError)


def test_an_error_of_ours_is_not_hidden():
    def fail():
        raise ZeroDivisionError

    assert isinstance(invoke(fail).exception, ZeroDivisionError)


def test_ctrl_c_is_130():
    def fail():
        raise KeyboardInterrupt

    result = invoke(fail)
    assert result.exit_code == 130
    assert "no incomplete file was left behind" in result.stderr


def test_warnings_are_notes_on_stderr():
    def warn():
        warnings.warn("chains\nare short", UserWarning, stacklevel=1)
        warnings.warn("chains are short", UserWarning, stacklevel=1)  # from elsewhere: once is enough
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        print("done")

    result = invoke(warn)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "done\n", "note: chains are short\n")


def test_the_examples_of_a_docstring_stand_below_the_options():
    def work():
        """Work hard.

        Examples
        --------
        $ program work
        """

    text = CliRunner().invoke(program_of(work), ["work", "--help"]).stdout
    assert text.index("Work hard.") < text.index("--help") < text.index("$ program work")


def test_a_call_that_makes_no_sense_is_2():
    assert call("fit").exit_code == 2
    assert call("nonsense").exit_code == 2
    assert call("fit", "a.csv", "--target", "y", "--draws", "-3").exit_code == 2
    assert call("explain", "m.bpatch").exit_code == 2


def test_the_version():
    def work():
        pass

    result = CliRunner().invoke(program_of(work), ["--version"])
    assert (result.exit_code, result.stdout) == (0, "1.2.3\n")


def test_python_runs_the_package():
    command = [sys.executable, "-m", "bayespatch", "info", "nothing.bpatch"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (1, "")
    assert "'nothing.bpatch': no such file" in result.stderr


MAIN = [sys.executable, "-c", "from bayespatch.cli import main; main()"]


def test_without_the_extra_one_line_names_the_install_command():
    hide = "import sys; sys.modules['typer'] = None; "
    result = subprocess.run([*MAIN[:2], hide + MAIN[2]], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == 'bayespatch: the command line needs typer and rich: pip install "bayespatch[cli]"\n'


def test_help_and_completion_do_not_load_the_slow_modules():
    code = "import sys, bayespatch.cli.commands; print([m for m in ('numba', 'sklearn', 'pandas') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
    completion = {"_TYPER_COMPLETE_ARGS": "bayespatch inf", "_BAYESPATCH_COMPLETE": "complete_zsh"}
    started = "import sys; sys.argv[0] = 'bayespatch'; "
    result = subprocess.run(
        [*MAIN[:2], started + MAIN[2]], capture_output=True, text=True, check=False, env={**os.environ, **completion}
    )
    assert "info" in result.stdout


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for another process")
def test_ctrl_c_in_a_fit_leaves_nothing_behind(tmp_path):
    table = write_csv(tmp_path / "patients.csv")
    words = ["fit", str(table), "--target", "outcome", "--drop", "admitted on", "--id", "patient no."]
    words += ["--out", str(tmp_path / "m.bpatch")]
    words += ["--votes", "sampled", "--hyper", "default", "--chains", "1", "--warmup", "0", "--draws", "100000"]
    with subprocess.Popen([*MAIN, *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert "Reading" in running.stderr.readline()
        try:
            running.wait(timeout=4)  # now it learns
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGINT)
        stdout, stderr = running.communicate(timeout=120)
    assert running.returncode == 130, stderr
    assert stdout == ""
    assert "no incomplete file was left behind" in stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["patients.csv"]
