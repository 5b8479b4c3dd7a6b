"""Writes a page: all of it or nothing."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress

Path = str | os.PathLike[str]


def write_page(path: Path, page: str) -> None:
    """Write a page to a temporary file beside its place, and move it there when it is complete."""
    target = os.path.realpath(check_path(path))
    temporary = os.path.join(os.path.dirname(target), f".{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "x", encoding="utf-8") as file:
            file.write(page)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        raise ValueError(f"path={str(path)!r} cannot be written ({error.strerror}); choose another place") from error
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def check_path(path: Path) -> str:
    """A path that can be written to, before any work is done."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise ValueError(f"path={path!r} is not a path; pass the name of a file, such as 'case.html'")
    name = str(os.fspath(path))
    if os.path.isdir(name):
        raise ValueError(f"path={name!r} is a folder; pass the name of a file in it, such as 'case.html'")
    folder = os.path.dirname(os.path.realpath(name))
    if not os.path.isdir(folder):
        raise ValueError(f"path={name!r}: there is no folder {folder!r}; make it first, or correct the path")
    return name
