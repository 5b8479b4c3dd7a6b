"""What a hostile table, path or terminal can do to the program: nothing."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import bayespatch
from bayespatch.cli.predictions import as_csv
from bayespatch.cli.terminal import as_json, table_text, visible, width, working
from bayespatch.persistence import atomic
from tests.cli.clinic import SHORT, write_csv
from tests.cli.program import FIT, call, complaint, document
from tests.persistence.damage import put_together, taken_apart

PROGRAM = [sys.executable, "-c", "from bayespatch.cli import main; main()"]
ESCAPE, TITLE, BIDI, C1 = "\x1b[31m", "\x1b]0;owned\x07", "\u202e", "\x9b2J"
ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A model of a table whose names, values, identifiers and classes try everything."""
    folder = tmp_path_factory.mktemp("hostile")
    pain, age = f"pain{ESCAPE}", f"=age{BIDI}"
    rows = [[f"=cmd|{k}{TITLE}", 40 + k % 30, f"{'severe' if k % 2 else 'none'}{C1}", f"@{'sick' if k % 2 else 'well'}"]
            for k in range(24)]  # fmt: skip
    lines = [["+id", age, pain, "outcome"], *rows]
    (folder / "t.csv").write_text("\n".join(",".join(map(str, line)) for line in lines) + "\n", encoding="utf-8")
    words = ["--target", "outcome", "--id", "+id", "--keep", age, *SHORT, "--out", folder / "m.bpatch"]
    result = call("fit", folder / "t.csv", *words)
    assert result.exit_code == 0, result.stderr
    assert not ACTS.search(result.stdout + result.stderr)
    return folder


# The terminal


def test_nothing_acts_on_the_terminal(hostile):
    for words in (
        ["info", hostile / "m.bpatch"],
        ["info", hostile / "m.bpatch", "--json"],
        ["explain", hostile / "m.bpatch", "--row", "0"],
        ["explain", hostile / "m.bpatch", "--row", "0", "--format", "json"],
        ["predict", hostile / "m.bpatch", hostile / "t.csv", "--id", "+id"],
        ["predict", hostile / "m.bpatch", hostile / "t.csv", "--id", "+id", "--json"],
        ["explain", hostile / "m.bpatch", "--id", f"nobody{ESCAPE}{BIDI}"],
        ["fit", hostile / "t.csv", "--target", f"outcom{ESCAPE}{BIDI}", *SHORT],
    ):
        result = call(*words)
        assert not ACTS.search(result.stdout + result.stderr), words
    found = document("predict", hostile / "m.bpatch", hostile / "t.csv", "--id", "+id", "--json")
    assert found["predictions"][0]["id"] == f"=cmd|0{TITLE}"  # programs get it as it is


def test_what_is_hidden_is_made_visible():
    assert visible(f"a{ESCAPE}b{BIDI}c\n\ud800") == r"a\x1b[31mb\u202ec" + "\n" + r"\ud800"
    assert visible("é ☹ 日本 \U0001f600") == "é ☹ 日本 \U0001f600"
    value = f"{ESCAPE}\x7f{C1}{BIDI}\U000e0041"
    assert not ACTS.search(as_json({"a": value}))
    assert json.loads(as_json({value: value})) == {value: value}
    assert "[/b]" in table_text(["[/b]"], [["[/b]", "[red]"]])


def test_brackets_in_a_path_are_no_markup(tmp_path, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    with working(f"Loading {tmp_path}/[/b]{ESCAPE}"):
        pass


def test_a_terminal_of_one_column(monkeypatch, clinic):
    monkeypatch.setenv("COLUMNS", "1")
    assert width() == 60
    assert call("explain", clinic / "model.bpatch", "--row", "0").exit_code == 0
    assert call("info", clinic / "model.bpatch").exit_code == 0
    assert call("--help").exit_code == 0


def test_a_terminal_that_knows_no_such_letter(clinic):
    words = ["describe", clinic / "patients.csv", "--target", "outcome"]
    result = run(*words, env={**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"})
    assert (result.returncode, r"\xe2ge" in result.stdout) == (0, True)


# Tables for spreadsheets


def test_cells_that_a_spreadsheet_would_run_are_quoted(hostile, tmp_path):
    words = ["predict", hostile / "m.bpatch", hostile / "t.csv", "--id", "+id", "--out", tmp_path / "p.csv"]
    assert call(*words).exit_code == 0
    head, first = (tmp_path / "p.csv").read_text(encoding="utf-8").splitlines()[:2]
    assert head.startswith("'+id,predicted,probability_@")
    assert first.startswith(r"'=cmd|0\x1b]0;owned\x07,'@")
    assert call(*words, "--raw", "--force").exit_code == 0
    head, first = (tmp_path / "p.csv").read_bytes().decode().split("\n")[:2]
    assert head.startswith("+id,predicted")
    assert first.startswith(f"=cmd|0{TITLE},@")


def test_numbers_are_no_formulas():
    found = [{"id": name, "predicted": -1.5} for name in ("-5", "+3.5", "=1", "-", "a=b", " @x", "\uff1dx")]
    lines = as_csv(found).splitlines()[1:]
    assert lines == ["-5,-1.5", "+3.5,-1.5", "'=1,-1.5", "'-,-1.5", "a=b,-1.5", "' @x,-1.5", "'\uff1dx,-1.5"]


# Identifiers


def test_identifiers_can_be_hidden(clinic, tmp_path):
    model, new = clinic / "model.bpatch", clinic / "new.csv"
    told = [
        call("explain", model, "--row", "0", "--hide-ids").stdout,
        call("explain", model, "--id", "P-003", "--hide-ids", "--format", "json").stdout,
        call("explain", model, new, "--id-column", "patient no.", "--id", "P-001", "--hide-ids").stdout,
        call("predict", model, new, "--id", "patient no.", "--hide-ids").stdout,
    ]
    for name in ("case.html", "model.html"):
        words = ["explain", model, "--row", "3"] if name == "case.html" else ["report", model]
        assert call(*words, "--hide-ids", "--out", tmp_path / name).exit_code == 0
        told.append((tmp_path / name).read_text())
    assert all(told)
    assert not any(re.search(r"P-\d\d\d", text) for text in told)


def test_identifiers_need_not_be_kept(clinic, tmp_path):
    assert call("fit", clinic / "patients.csv", *FIT, "--hide-ids", "--out", tmp_path / "m.bpatch").exit_code == 0
    assert b"P-001" not in (tmp_path / "m.bpatch").read_bytes()
    assert bayespatch.load(tmp_path / "m.bpatch").ids_ is None
    assert "have no identifiers" in complaint("explain", tmp_path / "m.bpatch", "--id", "P-001")


def test_a_wrong_identifier_tells_no_right_one(clinic):
    assert "P-0" not in complaint("explain", clinic / "model.bpatch", "--id", "nobody")


# Tracebacks


def run(*words, **how):
    return subprocess.run([*PROGRAM, *map(str, words)], capture_output=True, text=True, check=False, **how)


def test_a_manifest_that_makes_no_sense_is_one_sentence(clinic, tmp_path):
    manifest, parts = taken_apart((clinic / "model.bpatch").read_bytes())
    path = tmp_path / "forged.bpatch"
    for change in (
        {"sizes": []},
        {"columns": [1]},
        {"model": None},
        {"holds": 3},
        {"parameters": [1]},
        {"classes": {}},
    ):
        path.write_bytes(put_together({**manifest, **change}, parts))
        assert str(path) in complaint("info", path)
    path.write_bytes(put_together({"format": 3, "holds": "soup", "parts": []}, {}))
    assert "does not state what the file contains" in complaint("info", path)


@pytest.mark.parametrize("row", ["[" * 100_000, '{"a":' * 100_000, '{"âge": ' + "[" * 900 + "]" * 900 + "}"])
def test_a_row_that_is_nested_deeply_is_one_sentence(clinic, row):
    complaint("explain", clinic / "model.bpatch", "--json-row", row)


def test_a_closed_stdout(clinic):
    closed = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *PROGRAM, "info", clinic / "model.bpatch"], capture_output=True, check=False
    )
    assert closed.returncode == 1
    assert closed.stderr.decode().startswith("bayespatch: standard output is closed")
    assert b"Traceback" not in closed.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_or_a_broken_stdout(clinic):
    words = [*PROGRAM, "describe", str(clinic / "patients.csv"), "--target", "outcome", "--json"]
    before = f"Reading {clinic / 'patients.csv'} ...\n"
    with open("/dev/full", "wb") as full:
        found = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, check=False)
    assert (found.returncode, found.stderr.decode()) == (1, f"{before}bayespatch: [Errno 28] No space left on device\n")
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "wb") as broken:
        found = subprocess.run(words, stdout=broken, stderr=subprocess.PIPE, check=False)
    assert (found.returncode, found.stderr.decode()) == (1, before)


def test_out_of_memory_is_said(clinic, monkeypatch):
    def too_much(*_, **__):
        raise MemoryError

    monkeypatch.setattr("bayespatch.estimator.PatchworkClassifier.explain_past", too_much)
    assert "out of memory; pass fewer cases" in complaint("explain", clinic / "model.bpatch", "--row", "0")


def test_devices_and_pipes_are_no_tables(clinic, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in ("/dev/zero", tmp_path / "pipe"):
        assert "is a device or pipe" in complaint("fit", path, "--target", "y")
        assert "is a device or pipe" in complaint("predict", clinic / "model.bpatch", path)


def test_a_prediction_that_is_no_number_is_an_error(clinic, monkeypatch):
    monkeypatch.setattr("bayespatch.calibrate.Calibration.apply", lambda self, votes: np.asarray(votes) * np.nan)
    assert "is not a finite number" in complaint("predict", clinic / "model.bpatch", clinic / "new.csv")


# Full disks


@pytest.mark.parametrize(
    ("command", "step"),
    [
        *(("fit", step) for step in ("open", "write", "fsync", "replace")),
        *(("predict", step) for step in ("open", "write", "fsync", "replace")),
        *(("explain", step) for step in ("open", "write", "fsync", "replace")),
        *(("report", step) for step in ("write", "replace")),
    ],
)
def test_a_full_disk_leaves_the_old_file(clinic, tmp_path, monkeypatch, command, step):
    out = tmp_path / "out"
    model = clinic / "model.bpatch"
    words = {
        "fit": ["fit", clinic / "patients.csv", *FIT],
        "predict": ["predict", model, clinic / "new.csv"],
        "report": ["report", model],
        "explain": ["explain", model, "--row", "0", "--format", "html"],
    }[command]
    out.write_bytes(b"the old file")
    real = getattr(os, step) if step != "write" else None

    def full(*args, **kwargs):
        if step == "open" and not str(args[0]).endswith(".tmp"):
            return real(*args, **kwargs)
        raise OSError(28, "No space left on device")

    if step == "write":
        created = atomic._created

        class Full:
            def __init__(self, *args):
                self.context = created(*args)

            def __enter__(self):
                file = self.context.__enter__()
                self.file = file
                return self

            def __exit__(self, *how):
                return self.context.__exit__(*how)

            def write(self, chunk):
                self.file.write(chunk[:7])
                raise OSError(28, "No space left on device")

        monkeypatch.setattr(atomic, "_created", Full)
    else:
        monkeypatch.setattr(os, step, full)
    assert "No space left on device" in complaint(*words, "--out", out, "--force")
    monkeypatch.undo()
    assert out.read_bytes() == b"the old file"
    assert list(tmp_path.iterdir()) == [out]


# Signals


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_sigterm_writes_a_last_checkpoint(tmp_path):
    """Long before the first checkpoint would be due."""
    write_csv(tmp_path / "t.csv")
    slowly = (
        "import time; from bayespatch.sampling.chains import Run; keep = Run._keep\n"
        "Run._keep = lambda self, chain: (time.sleep(0.05), keep(self, chain))\n"
        "from bayespatch.cli import main; main()"
    )
    words = ["fit", tmp_path / "t.csv", *FIT, "--votes", "sampled", "--draws", "600", "--out", tmp_path / "m"]
    words += ["--checkpoint", tmp_path / "run"]
    fit = subprocess.Popen([sys.executable, "-c", slowly, *map(str, words)], stderr=subprocess.PIPE, text=True)
    try:
        began = time.monotonic()
        while not (tmp_path / "run" / "lock").exists():
            assert fit.poll() is None
            assert time.monotonic() - began < 120
            time.sleep(0.05)
        time.sleep(0.3)
        assert not (tmp_path / "run" / "state.bpatch").exists()
        fit.send_signal(signal.SIGTERM)
        _, told = fit.communicate(timeout=60)
    finally:
        fit.kill()
        fit.wait()
    assert fit.returncode == 143
    assert "run the same command again to continue from" in told
    assert (tmp_path / "run" / "state.bpatch").exists()
    assert not (tmp_path / "m").exists()
