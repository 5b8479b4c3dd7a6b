"""Known vulnerabilities are found in advisories on disk, by the rules of the OSV format."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]


def record(name, *, versions=(), events=(), **other):
    ranges = [{"type": "ECOSYSTEM", "events": list(events)}] if events else []
    affected = [{"package": {"name": name, "ecosystem": "PyPI"}, "ranges": ranges, "versions": list(versions)}]
    base = {
        "id": "PYSEC-2021-66",
        "aliases": ["CVE-2020-28493"],
        "details": "Slow pattern.\nMore.",
        "affected": affected,
    }
    return {**base, "modified": "2021-03-22T16:34:00Z", **other}


def audit(tmp_path, requirements, *records, suffix=".yaml"):
    folder = tmp_path / "vulns" / "package"
    folder.mkdir(parents=True)
    for i, content in enumerate(records):
        text = json.dumps(content) if suffix == ".json" else yaml.safe_dump(content)
        (folder / f"{i}{suffix}").write_text(text)
    (tmp_path / "requirements.txt").write_text(requirements)
    command = [sys.executable, ROOT / "packaging" / "advisories.py", tmp_path / "vulns", tmp_path / "requirements.txt"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


SINCE_2_BEFORE_2_11_3 = ({"introduced": "2.0"}, {"fixed": "2.11.3"})


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_a_vulnerable_pin_is_reported(tmp_path, suffix):
    lock = "jinja2==2.11.2 ; python_version < '3.12' \\\n    --hash=sha256:" + "0" * 64 + "\n    # via fastapi\n"
    result = audit(tmp_path, lock, record("Jinja2", events=SINCE_2_BEFORE_2_11_3), suffix=suffix)
    assert result.returncode == 1
    assert "jinja2 2.11.2: PYSEC-2021-66, CVE-2020-28493: Slow pattern. (fixed in 2.11.3)" in result.stdout
    assert "1 packages, 1 advisories (newest of 2021-03-22), 1 apply" in result.stdout


@pytest.mark.parametrize(
    ("version", "events", "affected"),
    [
        ("2.11.3", SINCE_2_BEFORE_2_11_3, False),
        ("2.10", SINCE_2_BEFORE_2_11_3, True),
        ("1.9", SINCE_2_BEFORE_2_11_3, False),
        ("2.11.3rc1", SINCE_2_BEFORE_2_11_3, True),
        ("0.1a1", ({"introduced": "0"}, {"fixed": "1"}), True),
        ("1.4", ({"introduced": "1"}, {"last_affected": "1.4"}), True),
        ("1.4.1", ({"introduced": "1"}, {"last_affected": "1.4"}), False),
        ("3.1", ({"introduced": "0"}, {"fixed": "2"}, {"introduced": "3"}, {"fixed": "3.2"}), True),
        ("2.5", ({"introduced": "3"}, {"fixed": "3.2"}, {"introduced": "0"}, {"fixed": "2"}), False),
        ("9", ({"introduced": "0"},), True),
    ],
)
def test_ranges(tmp_path, version, events, affected):
    assert audit(tmp_path, f"jinja2=={version}\n", record("jinja2", events=events)).returncode == affected


def test_listed_versions(tmp_path):
    listed = record("jinja2", versions=["1.0", "not a version", "1.1"])
    result = audit(tmp_path, "jinja2==1.1.0\nmako==1.1\n", listed)
    assert result.returncode == 1
    assert "mako" not in result.stdout


@pytest.mark.parametrize(
    "other",
    [{"withdrawn": "2022-01-01T00:00:00Z"}, {"affected": [{"package": {"name": "jinja2", "ecosystem": "npm"}}]}],
)
def test_withdrawn_and_foreign_advisories_do_not_count(tmp_path, other):
    relevant = record("mako", events=({"introduced": "0"},))
    assert audit(tmp_path, "jinja2==1.0\n", record("jinja2", versions=["1.0"], **other), relevant).returncode == 0


@pytest.mark.parametrize(
    ("requirements", "records", "message"),
    [
        ("jinja2>=2\n", [record("jinja2", versions=["1"])], "'jinja2>=2' is not pinned"),
        ("jinja2==2\n", [], "has no advisories"),
        ("# nothing\n", [record("jinja2", versions=["1"])], "name no packages"),
    ],
)
def test_nothing_checked_is_no_success(tmp_path, requirements, records, message):
    result = audit(tmp_path, requirements, *records)
    assert result.returncode == 2
    assert message in result.stderr


def test_a_damaged_record_is_named(tmp_path):
    (tmp_path / "vulns").mkdir()
    (tmp_path / "vulns" / "damaged.json").write_text("{")
    (tmp_path / "requirements.txt").write_text("jinja2==2\n")
    command = [sys.executable, ROOT / "packaging" / "advisories.py", tmp_path / "vulns", tmp_path / "requirements.txt"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.returncode == 2
    assert "damaged.json is not readable as JSON" in result.stderr
