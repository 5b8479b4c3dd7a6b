"""The tutorials work: every command runs, in order, as a reader would run them."""

import os
import subprocess
import sys

import pytest

from generators.console import ROOT, install_program
from generators.tutorials import BLOCK, INSTALL, PAGES, commands_of


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_tutorial_succeeds(page, tmp_path):
    install_program(tmp_path)
    path = os.pathsep.join([str(tmp_path / "bin"), os.path.dirname(sys.executable), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "118"}
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    commands = [line for block in BLOCK.findall(text) for line in commands_of(block) if not line.startswith(INSTALL)]
    assert len(commands) > 2
    for line in commands:
        run = subprocess.run(line, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert run.returncode == 0, f"{line}\n{run.stdout}\n{run.stderr}"
