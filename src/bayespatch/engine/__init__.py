"""Samplers. All engines implement the contract in ``base``; each module is an engine or code that engines share."""

from __future__ import annotations

import hashlib
from pathlib import Path


def digest_of_sources(folder: Path) -> str:
    """A digest of the names and contents of all sources in `folder` and its packages."""
    digest = hashlib.sha256()
    for source in sorted(folder.rglob("*.py")):
        content = source.read_bytes()
        digest.update(f"{source.relative_to(folder).as_posix()} {len(content)} ".encode() + content)
    return digest.hexdigest()
