r"""The file: a manifest that a person can read and parts of bytes, all under checksums.

Layout, without gaps and with nothing after the last part::

    12 bytes   b"\x89bayespatch\n"
     4 bytes   the format's version, little-endian
     8 bytes   length of the manifest, little-endian
    32 bytes   SHA-256 of the manifest
               the manifest: JSON in ASCII, one key per line; its last, "parts", lists each part's name, length in bytes
               and SHA-256
               the parts, in the order of that list

Every byte is checked when a file is read: the first three fields are compared, the manifest and the parts have
checksums, and the lengths add up to that of the file. The manifest must be written exactly as this file writes it, so
that there is one way to say a thing. The same content gives the same bytes. Nothing is executed.
A checksum finds damage; it is no signature: who can write the file can also write its checksums.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any, BinaryIO, NamedTuple

MAGIC = b"\x89bayespatch\n"
FORMAT = 1  # what is written
OLDEST = 1  # the first format that is still read
HEADER = struct.Struct("<12sIQ32s")
_TEMPORARY_END = re.compile(r"\.[0-9a-f]{16}\.tmp")  # of the name of a file that is not complete

ANOTHER_COPY = "take another copy of the file, or save the model again"


Part = bytes | memoryview  # of bytes


class StorageError(ValueError):
    """Something cannot be saved or loaded; the message names the file, what is `wrong` with it and the remedy."""

    wrong = ""


class File(NamedTuple):
    """What a file holds: a manifest, ready for JSON, and parts of bytes by name."""

    manifest: dict[str, Any]
    parts: Mapping[str, Part]


def refuse(path: object, wrong: str, remedy: str = ANOTHER_COPY) -> StorageError:
    """The error that names file, fault and remedy."""
    error = StorageError(f"{(str(path) if isinstance(path, os.PathLike) else path)!r}: {wrong}; {remedy}")
    error.wrong = wrong
    return error


def package_version() -> str:
    """The version of bayespatch, which every file names."""
    try:
        return version("bayespatch")
    except PackageNotFoundError:  # run from a folder
        return "unknown"


def check_path(path: str | os.PathLike[str]) -> str:
    """A path that the system can have."""
    try:
        name = os.fspath(path)
        if isinstance(name, str) and name and b"\0" not in os.fsencode(name):
            return name
    except (TypeError, UnicodeEncodeError):
        pass
    raise refuse(path, "is not a path", "pass the name of a file")


def digest(part: Part) -> str:
    """The checksum of a part."""
    return hashlib.sha256(part).hexdigest()


# Writing


def write(files: Sequence[tuple[str | os.PathLike[str], File]]) -> None:
    """Write files, each to a temporary name beside its own, and move them into place when all are complete.

    All of them or none: whatever happens before, Ctrl-C and a full disk included, leaves the files that were there as
    they were and no temporary ones.
    """
    heads = [_head(path, file) for path, file in files]
    with replacing_all([path for path, _ in files]) as targets:
        for target, head, (_, file) in zip(targets, heads, files, strict=True):
            for chunk in (head, *file.parts.values()):
                target.write(chunk)


def _head(path: object, file: File) -> bytes:
    """Everything before the parts."""
    listed = [{"name": name, "bytes": len(part), "sha256": digest(part)} for name, part in file.parts.items()]
    manifest = {"format": FORMAT, **file.manifest, "parts": listed}
    try:
        text = _text(manifest)
        same = _loaded(text) == manifest
    except (ValueError, TypeError, RecursionError) as error:
        raise refuse(path, f"the model cannot be written as JSON ({error})", "pass simpler parameters") from error
    if not same:
        raise refuse(path, "the model is not the same once it is written as JSON", "pass simpler parameters")
    return HEADER.pack(MAGIC, FORMAT, len(text), hashlib.sha256(text).digest()) + text


def _text(manifest: Mapping[str, Any]) -> bytes:
    """The one way in which a manifest is written: a line for each key."""
    lines = [f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in manifest.items()]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("ascii")


def _loaded(text: bytes) -> Any:
    """JSON whose integers are of a size that occurs."""
    return json.loads(text.decode("ascii"), parse_int=_integer)


def _integer(digits: str) -> int:
    number = int(digits)
    if abs(number) >= 2**64:
        raise ValueError(f"an integer of {len(digits)} digits is too large")
    return number


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write to, which takes the place of `path` once it is complete and on disk."""
    with replacing_all([path]) as (file,):
        yield file


@contextmanager
def replacing_all(paths: Sequence[str | os.PathLike[str]]) -> Iterator[list[BinaryIO]]:
    """Files to write to, which take the places of `paths`, all of them or none, once all are complete and on disk.

    A new file is for its owner alone (mode 0600), as is an unfinished one; a file that is replaced keeps its mode.
    The last path is moved first: the moment when it has its name is the moment when the new state is the valid one.
    A process that is killed between two moves leaves the others under their temporary names (`unfinished`).
    """
    places = [os.path.realpath(check_path(path)) for path in paths]  # a link stays a link
    if len(set(places)) < len(places):
        raise refuse(paths[0], "two files would get this name", "choose two names")
    for path in paths:
        check_writable(path)
    temporaries = [_temporary(place) for place in places]
    try:
        with ExitStack() as stack:
            stack.callback(_remove, temporaries)
            files = [stack.enter_context(_created(temporary)) for temporary in temporaries]
            yield files
            for file, temporary, place in zip(files, temporaries, places, strict=True):
                file.flush()
                if os.path.exists(place):
                    os.chmod(temporary, stat.S_IMODE(os.stat(place).st_mode))
                os.fsync(file.fileno())
            if os.name == "nt":  # where an open file cannot be moved
                for file in files:
                    file.close()
            _move_all(temporaries, places)
            for folder in {os.path.dirname(place) for place in places}:
                _flush_folder(folder)
            for place in places:
                _drop_unfinished_of(place)
    except OSError as error:
        wrong = f"cannot be written ({error.strerror or error})"
        named = " and ".join(map(str, paths))
        raise refuse(named, wrong, "choose a folder with space where you may write") from error


@contextmanager
def _created(temporary: str) -> Iterator[BinaryIO]:
    """A new file for its owner alone; locked, so that others can tell a file in the making from one that was left."""
    while True:
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o600)
        with open(descriptor, "wb") as file:
            try:
                lock(descriptor)
            except BlockingIOError:
                continue  # somebody takes it for one that was left, and is about to remove it
            except OSError:
                pass  # a file system without locks
            if not os.path.exists(temporary):
                continue  # and somebody has
            yield file
            return


def _move_all(temporaries: Sequence[str], places: Sequence[str]) -> None:
    """Give all files their names, the last one first; where one cannot have it, the others get the old ones back."""
    steps = list(zip(temporaries, places, strict=True))[::-1]
    before: list[tuple[str, str | None]] = []
    try:
        for temporary, place in steps:
            if len(steps) > 1:
                before.append((place, _kept_aside(place)))
            os.replace(temporary, place)
    except BaseException:
        for place, kept in reversed(before):
            with suppress(OSError):
                if kept is not None:
                    os.replace(kept, place)
                elif not any(os.path.exists(temporary) for temporary, moved in steps if moved == place):
                    os.unlink(place)
        raise
    finally:
        _remove(kept for _, kept in before if kept is not None)


def _kept_aside(place: str) -> str | None:
    """A second name for what is there now; None where there is nothing."""
    if not os.path.exists(place):
        return None
    aside = _temporary(place)
    try:
        os.link(place, aside)
    except OSError:  # a file system without links
        with open(place, "rb") as old, _created(aside) as copy:
            shutil.copyfileobj(old, copy)
    return aside


def _temporary(place: str) -> str:
    """A name beside the place that says whose it is and that nobody else has."""
    folder, name = os.path.split(place)
    return os.path.join(folder, f".{_short(name)}.{secrets.token_hex(8)}.tmp")


def _short(name: str) -> str:
    """The name, or what stands for it where more letters would be too long for the system."""
    return name if len(os.fsencode(name)) <= 200 else hashlib.sha256(os.fsencode(name)).hexdigest()


def unfinished(place: str | os.PathLike[str]) -> list[str]:
    """Files that a killed process has left beside `place` when it was about to replace it, or that one is writing."""
    folder, name = os.path.split(os.path.realpath(place))
    start = f".{_short(name)}"
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    left = [n for n in names if n.startswith(start) and _TEMPORARY_END.fullmatch(n[len(start) :])]
    return sorted(os.path.join(folder, n) for n in left)


def _drop_unfinished_of(place: str) -> None:
    """Delete what a killed process has left beside `place`; what another one has locked is in the making."""
    for path in unfinished(place):
        with suppress(OSError), open(path, "rb") as file:
            lock(file.fileno())
            os.unlink(path)


def _remove(paths: Iterable[str]) -> None:
    for path in paths:
        with suppress(OSError):
            os.unlink(path)


if sys.platform == "win32":
    import msvcrt

    def lock(descriptor: int) -> None:
        """Lock a file for this process, or raise OSError; the system gives the lock back however a process ends."""
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def lock(descriptor: int) -> None:
        """Lock a file for this process, or raise OSError; the system gives the lock back however a process ends."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Say what is wrong before the work, in plainer words than the system."""
    real = os.path.realpath(check_path(path))
    if os.path.isdir(real):
        raise refuse(path, "is a folder", "pass the name of a file in it")
    if os.path.exists(real) and not os.path.isfile(real):
        raise refuse(path, "is not a file", "pass the name of a file")
    if not os.path.isdir(os.path.dirname(real)):
        raise refuse(path, f"there is no folder {os.path.dirname(real)}", "make it first, or correct the path")
    if os.path.exists(real) and not os.access(real, os.W_OK):
        raise refuse(path, "the file is there and may not be changed", "choose another name, or allow writing")


def drop_unfinished(folder: str | os.PathLike[str]) -> None:
    """Delete what a killed process has left half written, in a folder to which nobody else writes."""
    for name in os.listdir(folder):
        if name.startswith(".") and _TEMPORARY_END.fullmatch(name[-len(".0123456789abcdef.tmp") :]):
            os.unlink(os.path.join(folder, name))


def _flush_folder(folder: str) -> None:
    """Make the new name survive a loss of power, where the system can."""
    with suppress(OSError):  # Windows has no such thing
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


# Reading


def read(path: str | os.PathLike[str]) -> File:
    """Read a file and check every byte of it."""
    with _opened(path) as (file, size):
        manifest = _read_manifest(path, file, size)
        parts = {}
        for entry in manifest["parts"]:
            part = file.read(entry["bytes"])
            if digest(part) != entry["sha256"]:
                raise refuse(path, f"part {entry['name']!r} is damaged: its checksum differs")
            parts[entry["name"]] = part
    return File(manifest, parts)


def read_manifest(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a model file says about itself, without its arrays; these are not looked at.

    Returns
    -------
    dict
        Format and package version, kind, parameters, schema, hyperparameters, settings, sizes, diagnostics, parts.
    """
    with _opened(path) as (file, size):
        return _read_manifest(path, file, size)


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[tuple[BinaryIO, int]]:
    """A regular file and its size; anything else could keep us waiting."""
    check_path(path)
    try:
        if os.path.isdir(path):
            raise refuse(path, "is a folder", "pass the name of a model file")
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise refuse(path, "is not a regular file", "pass the name of a model file")
        with open(path, "rb") as file:
            yield file, os.fstat(file.fileno()).st_size
    except FileNotFoundError as error:
        raise refuse(path, "there is no such file", "correct the path") from error
    except PermissionError as error:
        raise refuse(path, "may not be read", "ask its owner for permission") from error
    except OSError as error:
        raise refuse(path, f"cannot be read ({error})", "correct the path, or take another copy of the file") from error


def _read_manifest(path: object, file: BinaryIO, size: int) -> dict[str, Any]:
    head = file.read(HEADER.size)
    if head[: len(MAGIC)] != MAGIC:
        raise refuse(path, "is not a file of bayespatch", "pass a file that save() has written")
    if len(head) < HEADER.size:
        raise refuse(path, "the file is truncated")
    _, version, length, checksum = HEADER.unpack(head)
    if version > FORMAT:
        raise refuse(
            path,
            f"is written in format {version}, and this bayespatch reads formats up to {FORMAT}",
            "install a newer bayespatch, or save the model again with this one",
        )
    if version < OLDEST:
        raise refuse(path, f"is written in format {version}, and formats before {OLDEST} are not known")
    if length > size - HEADER.size:
        raise refuse(path, "the file is truncated, or damaged at its beginning")
    text = file.read(length)
    if hashlib.sha256(text).digest() != checksum:
        raise refuse(path, "the manifest is damaged: its checksum differs")
    manifest = _parsed(path, text)
    if type(manifest.get("format")) is not int or manifest["format"] != version:
        raise refuse(path, f"the manifest does not say format {version}")
    _check_parts(path, manifest.get("parts"), size - HEADER.size - length)
    return manifest


def _parsed(path: object, text: bytes) -> dict[str, Any]:
    try:
        manifest = _loaded(text)
        if isinstance(manifest, dict) and _text(manifest) == text:
            return manifest
    except (ValueError, RecursionError) as error:
        raise refuse(path, f"the manifest is not JSON as save() writes it ({error})") from error
    raise refuse(path, "the manifest is not JSON as save() writes it")


def _check_parts(path: object, parts: object, n_left: int) -> None:
    """The list of parts must account for every byte that is left."""
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
        raise refuse(path, f"{n_left - n_listed} bytes too many follow the last part")
