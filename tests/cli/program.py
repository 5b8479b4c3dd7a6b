"""The program, called as in a terminal."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner

from bayespatch.cli.commands import app
from tests.cli.clinic import SHORT

FIT = ("--target", "outcome", "--id", "patient no.", "--drop", "admitted on", *SHORT)


def call(*words: object) -> Any:
    """What a call leaves: exit_code, stdout, stderr."""
    return CliRunner().invoke(app, [str(word) for word in words])


def document(*words: object) -> Any:
    """The JSON document that a call prints, and nothing else."""
    result = call(*words)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def complaint(*words: object) -> str:
    """The one sentence of a call that fails."""
    result = call(*words)
    assert result.exit_code == 1, (result.exit_code, result.stderr)
    assert result.stdout == ""
    lines = [line for line in result.stderr.splitlines() if line.startswith("bayespatch: ")]
    assert len(lines) == 1, result.stderr
    assert result.stderr.rstrip().endswith(lines[0])
    return lines[0]
