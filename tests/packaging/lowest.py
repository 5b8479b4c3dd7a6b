"""The oldest versions that pyproject.toml allows, as constraints for pip; used by ``make test-lowest``."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
_BOUND = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)(\[[^\]]*\])?\s*>=\s*(?P<version>[0-9][0-9.]*)$")


def constraints(pyproject: str) -> list[str]:
    """``name==version`` for the lower bound of every requirement; one without a bound is an error."""
    project = tomllib.loads(pyproject)["project"]
    extras = [requirement for extra in project["optional-dependencies"].values() for requirement in extra]
    found = {}
    for requirement in [*project["dependencies"], *extras]:
        if requirement.startswith(f"{project['name']}["):
            continue
        bound = _BOUND.match(requirement)
        if bound is None:
            raise ValueError(f"{requirement!r} in pyproject.toml has no lower bound; write it as 'name>=version'")
        if found.setdefault(bound["name"], bound["version"]) != bound["version"]:
            raise ValueError(f"{bound['name']} has two lower bounds in pyproject.toml; keep one")
    return [f"{name}=={version}" for name, version in sorted(found.items())]


if __name__ == "__main__":
    print("\n".join(constraints(PYPROJECT.read_text(encoding="utf-8"))))
