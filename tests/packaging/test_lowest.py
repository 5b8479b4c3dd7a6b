"""Lower bounds are read off pyproject.toml."""

import importlib.util
from pathlib import Path

import pytest

spec = importlib.util.spec_from_file_location("lowest", Path(__file__).with_name("lowest.py"))
lowest = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lowest)


def project(dependencies, extra=()):
    return f"[project]\nname = 'p'\ndependencies = {dependencies}\n[project.optional-dependencies]\nx = {list(extra)}\n"


def test_bounds_become_pins():
    found = lowest.constraints(project(["b>=2.0", "a[y]>=1"], ["c>=0.4.5", "p[x]"]))
    assert found == ["a==1", "b==2.0", "c==0.4.5"]


def test_every_requirement_of_this_package_has_a_bound():
    assert len(lowest.constraints(lowest.PYPROJECT.read_text(encoding="utf-8"))) > 20


@pytest.mark.parametrize(("wanted", "why"), [(["a"], "no lower bound"), (["a>=1", "a>=2"], "two lower bounds")])
def test_what_cannot_be_tested_is_refused(wanted, why):
    with pytest.raises(ValueError, match=why):
        lowest.constraints(project(wanted))
