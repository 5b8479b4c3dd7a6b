import inspect
from pathlib import Path

import pytest

from study import __main__ as program


def test_the_options_reach_the_study(monkeypatch, tmp_path, capsys):
    received = {}
    signature = inspect.signature(program.run)

    def run(*args, **options):
        received.update(signature.bind(*args, **options).arguments)
        return Path(received["out"]) / "README.md"

    monkeypatch.setattr(program, "run", run)
    program.main(["--out", str(tmp_path), "--quick", "--only", "heart", "--only", "breast", "--seed", "3"])
    assert capsys.readouterr().out == f"{tmp_path / 'README.md'}\n"
    options = dict(quick=True, only=["heart", "breast"], readmission=None, seed=3, again=False)
    assert received == dict(out=str(tmp_path), **options)


def test_a_bad_option_is_an_error_without_a_traceback(tmp_path):
    with pytest.raises(SystemExit, match="error: only"):
        program.main(["--out", str(tmp_path), "--only", "spleen"])
