r"""The file format: a readable manifest and binary parts, all with checksums.

The layout has no gaps, and nothing follows the last part::

    12 bytes   b"\x89bayespatch\n"
     4 bytes   version of the format, little-endian
     8 bytes   length of the manifest, little-endian
    32 bytes   SHA-256 of the manifest
               the manifest: JSON in ASCII, one key per line; the last key, "parts", lists the name, length in bytes
               and SHA-256 of each part
               the parts, in the order of that list

Reading checks every byte: the first three fields are compared, the manifest and the parts have checksums, and the
lengths must add up to the file size. The manifest must be written exactly as in this module, so the same content always
gives the same bytes. Nothing is executed. A checksum detects damage; it is not a signature, because anyone who can
write the file can also write its checksums.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

from bayespatch.available_memory import shortage, shown_bytes
from bayespatch.persistence.atomic import check_path, refuse, replacing_all
from bayespatch.types import JSONObject
from bayespatch.version import __version__

MAGIC = b"\x89bayespatch\n"
FORMAT = 3  # the format of new files
OLDEST = 3  # the oldest format that can be read
MOST_JSON = 2**24  # limit in bytes on a manifest and on any other JSON in a file
MOST_VALUES = 1_000_000  # limit on the values in JSON, including
MOST_LISTS = 100_000  # lists and objects; an empty one takes twenty times the memory of its three characters
_TIMES = 3  # memory needed for reading, as a multiple of the file size
HEADER = struct.Struct("<12sIQ32s")


Part = bytes | memoryview


class File(NamedTuple):
    """The content of a file: a JSON-ready manifest and binary parts by name."""

    manifest: JSONObject
    parts: Mapping[str, Part]


def digest(part: Part) -> str:
    """The checksum of a part."""
    return hashlib.sha256(part).hexdigest()


# Writing


def write(files: Sequence[tuple[str | os.PathLike[str], File]]) -> None:
    """Write files under temporary names, and move them into place when all are complete.

    Either all files are written or none. If anything fails before, including Ctrl-C or a full disk, existing files
    remain unchanged, and temporary files are removed.
    """
    heads = [_head(path, file) for path, file in files]
    with replacing_all([path for path, _ in files]) as targets:
        for target, head, (_, file) in zip(targets, heads, files, strict=True):
            for chunk in (head, *file.parts.values()):
                target.write(chunk)


def _head(path: object, file: File) -> bytes:
    """The bytes before the parts."""
    listed = [{"name": name, "bytes": len(part), "sha256": digest(part)} for name, part in file.parts.items()]
    manifest = {"format": FORMAT, **file.manifest, "parts": listed}
    try:
        text = _text(manifest)
        same = load_json(text) == manifest
    except (ValueError, TypeError, RecursionError) as error:
        raise refuse(path, f"the model cannot be written as JSON ({error})", "pass simpler parameters") from error
    if not same:
        raise refuse(path, "the model changes when it is written as JSON", "pass simpler parameters")
    return HEADER.pack(MAGIC, FORMAT, len(text), hashlib.sha256(text).digest()) + text


def _text(manifest: Mapping[str, object]) -> bytes:
    """A manifest as JSON with one line per key."""
    lines = [f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in manifest.items()]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("ascii")


def dump_json(value: object) -> bytes:
    """A value as JSON in ASCII."""
    return json.dumps(value, allow_nan=False).encode("ascii")


def load_json(text: bytes) -> object:
    """Parse JSON; a ValueError if the text, or an integer in it, is too large."""
    n_lists = text.count(b"[") + text.count(b"{")
    if len(text) > MOST_JSON or n_lists > MOST_LISTS or text.count(b",") > MOST_VALUES:
        raise ValueError(f"JSON of {len(text)} bytes is too large")
    return json.loads(text.decode("ascii"), parse_int=_integer)


def _integer(digits: str) -> int:
    number = int(digits)
    if abs(number) >= 2**64:
        raise ValueError(f"an integer of {len(digits)} digits is too large")
    return number


# Reading


def read(path: str | os.PathLike[str]) -> File:
    """Read a file and check every byte."""
    with _opened(path) as (file, size):
        manifest = _read_manifest(path, file, size)
        parts = {}
        for entry in manifest["parts"]:
            part = file.read(entry["bytes"])
            if digest(part) != entry["sha256"]:
                raise refuse(path, f"part {entry['name']!r} is damaged: its checksum differs")
            parts[entry["name"]] = part
    return File(manifest, parts)


def read_manifest(path: str | os.PathLike[str]) -> JSONObject:
    """Read the manifest of a model file, without its arrays.

    Returns
    -------
    dict
        Format and package version, kind, parameters, schema, hyperparameters, settings, sizes, diagnostics, parts.
    """
    with _opened(path) as (file, size):
        return _read_manifest(path, file, size)


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[tuple[BinaryIO, int]]:
    """Open a file and get its size; only regular files are allowed, because pipes and devices could block."""
    check_path(path)
    try:
        if os.path.isdir(path):
            raise refuse(path, "is a folder", "pass the name of a model file")
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise refuse(path, "is not a regular file", "pass the name of a model file")
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if (available := shortage(_TIMES * size)) is not None:
                wrong = f"needs {shown_bytes(size)} of memory, but only {available} is available"
                raise refuse(path, wrong, "load it on a larger machine, or use another copy of the file")
            yield file, size
    except MemoryError as error:
        raise refuse(path, "there is not enough memory to read it", "read it on a larger machine") from error
    except FileNotFoundError as error:
        raise refuse(path, "no such file", "correct the path") from error
    except PermissionError as error:
        raise refuse(path, "may not be read", "ask its owner for permission") from error
    except OSError as error:
        raise refuse(path, f"cannot be read ({error})", "correct the path, or use another copy of the file") from error


def _read_manifest(path: object, file: BinaryIO, size: int) -> JSONObject:
    head = file.read(HEADER.size)
    if head[: len(MAGIC)] != MAGIC:
        raise refuse(path, "is not a bayespatch file", "pass a file written by save()")
    if len(head) < HEADER.size:
        raise refuse(path, "the file is truncated")
    _, version, length, checksum = HEADER.unpack(head)
    if version > FORMAT:
        raise refuse(
            path,
            f"is written in format {version}, and this bayespatch reads formats up to {FORMAT}",
            "install a newer bayespatch, or save the model again with this one",
        )
    if length > size - HEADER.size:
        raise refuse(path, "the file is truncated, or damaged at its beginning")
    if length > MOST_JSON:
        raise refuse(
            path,
            f"the size of the manifest is {shown_bytes(length)}, which is above the limit of {shown_bytes(MOST_JSON)}",
        )
    text = file.read(length)
    if hashlib.sha256(text).digest() != checksum:
        raise refuse(path, "the manifest is damaged: its checksum differs")
    manifest = _parsed(path, text)
    if version < OLDEST:
        raise refuse(
            path,
            f"was written by bayespatch {str(manifest.get('package'))[:40]!r} in format {version}, but this version "
            f"({__version__!r}) reads formats from {OLDEST} on",
            "fit the model again",
        )
    if type(manifest.get("format")) is not int or manifest["format"] != version:
        raise refuse(path, f"the manifest does not state format {version}")
    _check_parts(path, manifest.get("parts"), size - HEADER.size - length)
    return manifest


def _parsed(path: object, text: bytes) -> JSONObject:
    try:
        manifest = load_json(text)
        if isinstance(manifest, dict) and _text(manifest) == text:
            return manifest
    except (ValueError, RecursionError) as error:
        raise refuse(path, f"the manifest is not valid JSON ({error})") from error
    raise refuse(path, "the manifest is not valid JSON")


def _check_parts(path: object, parts: object, n_left: int) -> None:
    """Check that the list of parts accounts for every remaining byte."""
    well_formed = isinstance(parts, list) and all(
        isinstance(part, dict)
        and list(part) == ["name", "bytes", "sha256"]
        and isinstance(part["name"], str)
        and type(part["bytes"]) is int
        and part["bytes"] >= 0
        for part in parts
    )
    if not isinstance(parts, list) or not well_formed or len({part["name"] for part in parts}) < len(parts):
        raise refuse(path, "the manifest does not list the parts of the file")
    n_listed = sum(part["bytes"] for part in parts)
    if n_listed > n_left:
        raise refuse(path, f"the file is truncated: {n_listed - n_left} bytes are missing")
    if n_listed < n_left:
        raise refuse(path, f"{n_left - n_listed} extra bytes follow the last part")
