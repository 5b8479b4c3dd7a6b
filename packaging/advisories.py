"""Looks up the packages of requirements files in security advisories on disk; ``make audit ADVISORIES=folder``.

``python packaging/advisories.py FOLDER FILE...`` needs no network. FOLDER has records in the OSV format, as YAML or
JSON: a clone of the PyPA advisory database, or the unpacked PyPI export of osv.dev. The exit status is 1 where an
advisory applies, and 2 where nothing could be checked.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

Record = Mapping[str, Any]  # JSON of the OSV schema
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Finding:
    """An advisory that applies to a pinned package."""

    package: str
    version: Version
    advisory: str
    summary: str
    fixed: tuple[str, ...]

    def __str__(self) -> str:
        remedy = f"fixed in {', '.join(self.fixed)}" if self.fixed else "no fixed version is named"
        return f"{self.package} {self.version}: {self.advisory}: {self.summary} ({remedy})"


def pins(text: str) -> set[tuple[str, Version]]:
    """Every ``name==version`` of a requirements file, whatever its marker says."""
    lines = text.replace("\\\n", " ").splitlines()
    pinned = set()
    for line in lines:
        requirement = line.split(" --hash")[0].split(" #")[0].strip()
        if not requirement or requirement.startswith("#"):
            continue
        try:
            parsed = Requirement(requirement)
            [only] = parsed.specifier
            if only.operator != "==":
                raise ValueError
            pinned.add((canonicalize_name(parsed.name), Version(only.version)))
        except (InvalidRequirement, InvalidVersion, ValueError):
            raise ValueError(f"{requirement!r} is not pinned; write it as 'name==version'") from None
    return pinned


def records(folder: Path) -> Iterator[Record]:
    """The advisories of the folder that were not withdrawn."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".yaml", ".yml", ".json"):
            text = path.read_text(encoding="utf-8")
            try:
                record = json.loads(text) if path.suffix == ".json" else yaml.load(text, Loader=_Loader)
            except (ValueError, yaml.YAMLError) as error:
                raise ValueError(f"{path} is not readable as {path.suffix[1:].upper()}: {error}") from None
            if isinstance(record, dict) and "affected" in record and not record.get("withdrawn"):
                yield record


def applies(affected: Record, version: Version) -> bool:
    """Whether the version is listed, or lies in a range, as the OSV schema defines it."""
    ranges = [r for r in affected.get("ranges", ()) if r["type"] == "ECOSYSTEM"]
    listed = affected.get("versions", ())
    if not ranges and not listed:
        return True  # nothing tells which versions are safe
    return any(_parsed(text) == version for text in listed) or any(_within(r["events"], version) for r in ranges)


def _within(events: list[dict[str, str]], version: Version) -> bool:
    """Events in the order of their versions; the last one at or before this version decides."""
    turns = []
    for event in events:
        [(kind, text)] = event.items()
        if kind != "limit":
            turns.append((Version("0.dev0") if text == "0" else Version(text), kind))
    inside = False
    for at, kind in sorted(turns, key=lambda turn: (turn[0], turn[1] != "introduced")):
        if kind == "introduced" and version >= at:
            inside = True
        elif (kind == "fixed" and version >= at) or (kind == "last_affected" and version > at):
            inside = False
    return inside


def _parsed(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:  # old releases have versions that no pin can have
        return None


def findings(packages: set[tuple[str, Version]], advisories: list[Record]) -> list[Finding]:
    """The advisories that apply, by package."""
    result = set()
    for record in advisories:
        for affected in record["affected"]:
            of = affected.get("package", {})
            if of.get("ecosystem") == "PyPI":
                name = canonicalize_name(of["name"])
                result |= {_finding(p, v, record, affected) for p, v in packages if p == name and applies(affected, v)}
    return sorted(result, key=lambda finding: (finding.package, finding.version, finding.advisory))


def _finding(package: str, version: Version, record: Record, affected: Record) -> Finding:
    events = [event for r in affected.get("ranges", ()) if r["type"] == "ECOSYSTEM" for event in r["events"]]
    advisory = ", ".join([record["id"], *record.get("aliases", ())])
    summary = record.get("summary") or (record.get("details") or "no summary").strip().splitlines()[0]
    return Finding(package, version, advisory, summary, tuple(event["fixed"] for event in events if "fixed" in event))


def main() -> None:
    """Print every advisory that applies to a pinned package."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    folder, files = Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]]
    try:
        packages = set().union(*(pins(file.read_text(encoding="utf-8")) for file in files))
        advisories = list(records(folder))
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    if not advisories or not packages:
        empty = f"{folder} has no advisories" if packages else "The files name no packages"
        print(f"{empty}: nothing was checked", file=sys.stderr)
        raise SystemExit(2)
    result = findings(packages, advisories)
    for finding in result:
        print(finding)
    newest = max(str(record.get("modified", "")) for record in advisories)
    print(f"{len(packages)} packages, {len(advisories)} advisories (newest of {newest[:10]}), {len(result)} apply")
    raise SystemExit(1 if result else 0)


if __name__ == "__main__":
    main()
