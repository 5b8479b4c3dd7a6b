"""The conda recipe has the version and the requirements of the package and of the command line."""

import re
import tomllib
from pathlib import Path

from bayespatch import __version__

ROOT = Path(__file__).parents[2]
RECIPE = (ROOT / "packaging" / "conda" / "meta.yaml").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_version():
    assert f'{{% set version = "{__version__}" %}}' in RECIPE


def test_the_requirements():
    extras = PROJECT["optional-dependencies"]
    required = [*PROJECT["dependencies"], *extras["cli"], *extras["report"]]
    expected = {"".join(text.split()) for text in required if not text.startswith("bayespatch[")}
    [block] = re.findall(r"^  run:\n((?:    .*\n)+)", RECIPE, re.MULTILINE)
    found = {"".join(line[6:].split()) for line in block.splitlines() if line.startswith("    - ")}
    assert found == {*expected, f"python{PROJECT['requires-python']}"}
