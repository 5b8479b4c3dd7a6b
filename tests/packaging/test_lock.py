"""The files in requirements pin what the service and its build need, with hashes, on every supported Python."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements" / "service.txt").read_text(encoding="utf-8")
BUILD = (ROOT / "requirements" / "build.txt").read_text(encoding="utf-8")
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
EXTRAS = ("web", "casebase", "cli", "sql", "fhir")  # what `make lock` names
PYTHONS = ("3.11", "3.12", "3.13")
ITSELF = "bayespatch (pyproject.toml)"


def entries(lock):
    """Requirement, hashes and origins ("via") of every package of a lock file."""
    blocks = re.split(r"\n(?=[A-Za-z0-9])", "\n" + lock)[1:]
    for block in blocks:
        lines = [line.strip().removesuffix("\\").strip() for line in block.splitlines()]
        hashes = [line.removeprefix("--hash=") for line in lines if line.startswith("--hash=")]
        via = [line.removeprefix("#").strip().removeprefix("via").strip() for line in lines if line.startswith("#")]
        yield Requirement(lines[0]), hashes, [origin for origin in via if origin]


def pins(lock, python):
    """name -> version, as pip takes them on this Python on Linux."""
    environment = default_environment() | {"python_version": python, "python_full_version": f"{python}.1"}
    result = {}
    for requirement, _, _ in entries(lock):
        if requirement.marker is None or requirement.marker.evaluate(environment):
            name = canonicalize_name(requirement.name)
            assert name not in result, f"{name} has two versions on Python {python}"
            [only] = requirement.specifier
            assert only.operator == "=="
            result[name] = only.version
    return result


def wanted(pyproject, extras=EXTRAS):
    """The requirements of the package with these extras, and with the extras that they name."""
    project = tomllib.loads(pyproject)["project"]
    waiting, result = [*project["dependencies"], f"{project['name']}[{','.join(extras)}]"], []
    while waiting:
        requirement = Requirement(waiting.pop())
        if requirement.name == project["name"]:
            waiting += [text for extra in requirement.extras for text in project["optional-dependencies"][extra]]
        else:
            result.append(requirement)
    return result


def uncovered(requirements, pinned):
    """Requirements that the pins do not meet."""
    return sorted(
        {
            str(requirement)
            for requirement in requirements
            if not requirement.specifier.contains(pinned.get(canonicalize_name(requirement.name), "0"))
        }
    )


@pytest.mark.parametrize("python", PYTHONS)
def test_every_requirement_is_pinned(python):
    assert uncovered(wanted(PYPROJECT), pins(LOCK, python)) == [], "run make lock"


def test_a_new_requirement_or_a_higher_bound_is_noticed():
    changed = PYPROJECT.replace('"pyotp>=2.9"', '"pyotp>=99.0", "brotli>=1.1"')
    assert changed != PYPROJECT
    assert uncovered(wanted(changed), pins(LOCK, "3.12")) == ["brotli>=1.1", "pyotp>=99.0"]


def test_dependencies_of_dependencies_are_pinned():
    """Of each package that is installed here in the pinned version."""
    version = "{0.major}.{0.minor}".format(__import__("sys").version_info)
    pinned, checked = pins(LOCK, version), 0
    for name, locked in pinned.items():
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        if distribution.version != locked:
            continue
        needs = [Requirement(text) for text in distribution.requires or ()]
        needs = [need for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
        assert uncovered(needs, pinned) == [], name
        checked += 1
    assert checked > 10


def test_every_pin_has_a_reason():
    """Each package is needed by this one, or by another of the file."""
    names = {canonicalize_name(requirement.name) for requirement, _, _ in entries(LOCK)}
    direct = {canonicalize_name(requirement.name) for requirement in wanted(PYPROJECT)}
    for requirement, _, via in entries(LOCK):
        origins = {re.sub(r"\[.*", "", origin) for origin in via} - {ITSELF}
        name = canonicalize_name(requirement.name)
        assert via, name
        assert (ITSELF in via) == (name in direct), f"{name}: run make lock"
        assert {canonicalize_name(origin) for origin in origins} <= names, name


@pytest.mark.parametrize("python", PYTHONS)
def test_the_build_is_pinned(python):
    needed = tomllib.loads(PYPROJECT)["build-system"]["requires"]
    assert uncovered(map(Requirement, needed), pins(BUILD, python)) == [], "run make lock"


@pytest.mark.parametrize("lock", [LOCK, BUILD], ids=["service", "build"])
def test_every_pin_has_hashes(lock):
    for requirement, hashes, _ in entries(lock):
        assert hashes, requirement
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", value) for value in hashes), requirement


@pytest.mark.parametrize("lock", [LOCK, BUILD], ids=["service", "build"])
def test_no_address_of_an_index_is_in_the_file(lock):
    assert "://" not in lock
    assert not re.search(r"^\s*-(?!-hash=)", lock, re.MULTILINE), "an option other than --hash"


def test_the_make_target_covers_these_extras():
    target = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nlock:")[2].partition("\n\n")[0]
    assert tuple(re.findall(r"--extra (\w+)", target)) == EXTRAS
