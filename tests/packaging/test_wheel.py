"""The wheel is reproducible: the same sources give the same bytes, whenever and wherever it is built."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("hatchling", reason="pip install hatchling to build a wheel without an index")
ROOT = Path(__file__).parents[2]


def built(folder: Path) -> Path:
    """A wheel of a copy of the sources, whose files are as new as the copy."""
    folder.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, folder / name)
    shutil.copytree(
        ROOT / "src", folder / "src", copy_function=shutil.copyfile, ignore=shutil.ignore_patterns("__pycache__")
    )
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1735689600"}
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    [wheel] = (folder / "dist").glob("*.whl")
    return wheel


def test_two_builds_are_identical(tmp_path):
    first = built(tmp_path / "first")
    time.sleep(2.1)  # the resolution of times in a zip file
    second = built(tmp_path / "second")
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (first, second)]
    assert digests[0] == digests[1]
    with zipfile.ZipFile(first) as content:
        assert {info.date_time for info in content.infolist()} == {(2025, 1, 1, 0, 0, 0)}
        names = {name.split("/")[0] for name in content.namelist()}
    assert {name for name in names if not name.endswith(".dist-info")} == {"bayespatch"}
