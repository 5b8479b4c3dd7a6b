"""Atomic replacement of one or more files, and an error that names the file.

While a file is being written, it is next to its final location, under a name that begins with a dot; it is locked and
readable only by its owner. When all files of a call are complete and on disk, they are moved into place. If a process
was killed, the next process that replaces the same file removes the temporary files.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import BinaryIO

PRIVATE = 0o600  # files contain patient data
PUBLIC = 0o666
ANOTHER_COPY = "use another copy of the file, or save the model again"
_TEMPORARY_END = re.compile(r"\.[0-9a-f]{16}\.tmp")  # end of the name of an incomplete file


class StorageError(ValueError):
    """A file cannot be saved or loaded; the message names the file, the problem (`wrong`) and the remedy."""

    wrong = ""


def refuse(path: object, wrong: str, remedy: str = ANOTHER_COPY) -> StorageError:
    """An error that names the file, the problem and the remedy."""
    error = StorageError(f"{(str(path) if isinstance(path, os.PathLike) else path)!r}: {wrong}; {remedy}")
    error.wrong = wrong
    return error


def check_path(path: str | os.PathLike[str]) -> str:
    """Check a path and convert it to a string."""
    try:
        name = os.fspath(path)
        if isinstance(name, str) and name and b"\0" not in os.fsencode(name):
            return name
    except (TypeError, UnicodeEncodeError):
        pass
    raise refuse(path, "is not a path", "pass the name of a file")


@contextmanager
def replacing(path: str | os.PathLike[str], mode: int = PRIVATE) -> Iterator[BinaryIO]:
    """A temporary file that replaces `path` once it is complete and on disk."""
    with replacing_all([path], mode) as (file,):
        yield file


@contextmanager
def replacing_all(paths: Sequence[str | os.PathLike[str]], mode: int = PRIVATE) -> Iterator[list[BinaryIO]]:
    """Temporary files that replace `paths`, all or none, once all are complete and on disk.

    New and unfinished files are readable only by their owner, unless `mode` allows more (subject to the user's umask);
    a replaced file keeps its mode. The last path is moved first, and the new state is valid from that moment on. If a
    process is killed between two moves, the other files keep their temporary names (`unfinished`).
    """
    places = [os.path.realpath(check_path(path)) for path in paths]  # symbolic links are preserved
    if len(set(places)) < len(places):
        raise refuse(paths[0], "two files would have this name", "choose different names")
    for path in paths:
        check_writable(path)
    temporaries = [_temporary(place) for place in places]
    with _naming(*paths), ExitStack() as stack:
        stack.callback(_remove, temporaries)
        files = [stack.enter_context(_created(temporary, mode)) for temporary in temporaries]
        yield files
        for file, temporary, place in zip(files, temporaries, places, strict=True):
            file.flush()
            if os.path.exists(place):
                os.chmod(temporary, stat.S_IMODE(os.stat(place).st_mode))
            os.fsync(file.fileno())
        if os.name == "nt":  # Windows cannot move an open file
            for file in files:
                file.close()
        _move_all(temporaries, places)
        for folder in {os.path.dirname(place) for place in places}:
            _flush_folder(folder)
        for place in places:
            _drop_unfinished_of(place)


@contextmanager
def _created(temporary: str, mode: int = PRIVATE) -> Iterator[BinaryIO]:
    """Create a locked file, so that other processes can tell that it is in use."""
    while True:
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), mode)
        with open(descriptor, "wb") as file:
            with suppress(OSError):  # the file system may lack locks
                lock(descriptor, wait=True)  # for a process that has locked it as an abandoned file
            if not os.path.exists(temporary):
                continue  # that process has removed it
            yield file
            return


def _move_all(temporaries: Sequence[str], places: Sequence[str]) -> None:
    """Rename all files, the last one first; if a rename fails, restore the others."""
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
    """A second name for an existing file; None if there is no such file."""
    if not os.path.exists(place):
        return None
    aside = _temporary(place)
    try:
        os.link(place, aside)
    except OSError:  # the file system lacks links
        with open(place, "rb") as old, _created(aside) as copy:
            shutil.copyfileobj(old, copy)
    return aside


def _temporary(place: str) -> str:
    """A unique name in the same folder that shows the file's owner."""
    folder, name = os.path.split(place)
    return os.path.join(folder, f".{_short(name)}.{secrets.token_hex(8)}.tmp")


def _short(name: str) -> str:
    """The name, shortened if it would be too long for the system."""
    return name if len(os.fsencode(name)) <= 200 else hashlib.sha256(os.fsencode(name)).hexdigest()


def unfinished(place: str | os.PathLike[str]) -> list[str]:
    """Temporary files next to `place`, left by a killed process or in use by a running one."""
    folder, name = os.path.split(os.path.realpath(place))
    start = f".{_short(name)}"
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    matching = [n for n in names if n.startswith(start) and _TEMPORARY_END.fullmatch(n[len(start) :])]
    return sorted(os.path.join(folder, n) for n in matching)


def _drop_unfinished_of(place: str) -> None:
    """Delete temporary files of killed processes next to `place`, but not locked files, which are in use."""
    for path in unfinished(place):
        with suppress(OSError), open(path, "rb") as file:
            lock(file.fileno())
            os.unlink(path)


def _remove(paths: Iterable[str]) -> None:
    for path in paths:
        with suppress(OSError):
            os.unlink(path)


# filelock would create a separate lock file and leave it behind. This lock is on the unfinished file itself, so that
# other processes can tell whether it is still being written.
if sys.platform == "win32":
    import msvcrt

    def lock(descriptor: int, wait: bool = False) -> None:
        """Lock a file for this process, or raise OSError; the system releases the lock when the process ends."""
        msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def lock(descriptor: int, wait: bool = False) -> None:
        """Lock a file for this process, or raise OSError; the system releases the lock when the process ends."""
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise an error if the path is not writable; call this before long computations."""
    real = os.path.realpath(check_path(path))
    if os.path.isdir(real):
        raise refuse(path, "is a folder", "pass the name of a file in it")
    if os.path.exists(real) and not os.path.isfile(real):
        raise refuse(path, "is not a file", "pass the name of a file")
    if not os.path.isdir(os.path.dirname(real)):
        raise refuse(path, f"there is no folder {os.path.dirname(real)}", "create it first, or correct the path")
    if os.path.exists(real) and not os.access(real, os.W_OK):
        raise refuse(path, "the file exists and is read-only", "choose another name, or make it writable")


def drop_unfinished(folder: str | os.PathLike[str]) -> None:
    """Delete unfinished files in a folder that no other process writes to."""
    for name in os.listdir(folder):
        if name.startswith(".") and _TEMPORARY_END.fullmatch(name[-len(".0123456789abcdef.tmp") :]):
            os.unlink(os.path.join(folder, name))


def _flush_folder(folder: str) -> None:
    """Sync the folder, if the system supports it, so that the new name survives a power failure."""
    with suppress(OSError):  # not supported on Windows
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def replacing_folder(path: str | os.PathLike[str]) -> Iterator[str]:
    """A temporary folder, accessible only by its owner, that is renamed to `path` once it is complete.

    An existing folder of that name is replaced. A killed process leaves its temporary folder next to `path`, under a
    name that begins with a dot and ends with ``.tmp``.
    """
    place = os.path.realpath(check_path(path))
    new, old = _temporary(place), _temporary(place)
    try:
        with _naming(path):
            os.mkdir(new, 0o700)
        yield new
        with _naming(path):
            _flush_folder(new)
            if os.path.exists(place):
                os.rename(place, old)
            try:
                os.rename(new, place)
            except OSError:
                if os.path.exists(old):
                    os.rename(old, place)
                raise
            _flush_folder(os.path.dirname(place))
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(new, ignore_errors=True)


@contextmanager
def _naming(*paths: str | os.PathLike[str]) -> Iterator[None]:
    """Convert errors of the system to an error that names the paths."""
    try:
        yield
    except OSError as error:
        wrong = f"cannot be written ({error.strerror or error})"
        raise refuse(" and ".join(map(str, paths)), wrong, "choose a writable folder with free space") from error
