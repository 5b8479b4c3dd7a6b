"""Output files of commands: written atomically, and replaced only on request."""

from __future__ import annotations

import sys
from pathlib import Path

from bayespatch.persistence.atomic import check_writable, replacing


def check_new(force: bool, *paths: Path | None) -> None:
    """Reject a path that is not writable or already exists, before any work is done."""
    for path in paths:
        if path is None:
            continue
        check_writable(path)
        if path.exists() and not force:
            raise ValueError(f"{str(path)!r} already exists; pass --force to replace it, or choose another name")


def write(content: str | bytes, path: Path | None) -> None:
    """Write to the file once the content is complete, or to stdout."""
    if path is None and isinstance(content, str):
        sys.stdout.write(content if content.endswith("\n") else content + "\n")
        return
    assert path is not None
    with replacing(path) as file:
        file.write(content if isinstance(content, bytes) else content.encode())
