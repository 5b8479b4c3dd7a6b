"""The folder of a checkpoint, with files of arrays written by a single process.

::

    state.bpatch                      identity and progress of the run, the chains and the sums over their draws
    draws-00000000-00000040.bpatch    draws 0 to 39 of every chain (and so on), written once and never changed
    lock                              locked by the process that writes to the folder

Each file (in the layout of `file_format`) is complete before it gets its final name. Arrays are written directly from
memory, without another copy. Reading executes nothing. A checkpoint contains the state of a run, including the
neighbors of each case and their votes. Only its owner can read it; protect it like the table.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np

from bayespatch.persistence.atomic import StorageError, check_path, drop_unfinished, lock, refuse
from bayespatch.persistence.file_format import File, Part, read, write
from bayespatch.types import AnyArray, JSONObject
from bayespatch.version import __version__

STATE, LOCK = "state.bpatch", "lock"
START_ANEW = "pass another path, or delete the folder to start again"
_DRAWS = re.compile(r"draws-\d{8}-\d{8}\.bpatch")
_DTYPE = re.compile(r"[|<>][biuf][1248]")

Arrays = dict[str, AnyArray]


def draws_name(first: int, last: int) -> str:
    """The name of the file with the draws from `first` to `last` - 1."""
    return f"draws-{first:08d}-{last:08d}.bpatch"


# Files of arrays


def write_arrays(path: Path, manifest: JSONObject, arrays: Arrays) -> None:
    """Write a file of arrays with a manifest."""
    parts: dict[str, Part] = {name: _bytes_of(array) for name, array in arrays.items()}
    types = {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}
    write([(path, File({"package": __version__, **manifest, "arrays": types}, parts))])


def read_arrays(path: Path, holds: str, keys: tuple[str, ...]) -> tuple[JSONObject, Arrays]:
    """Read the manifest and arrays of a file, without validating the values."""
    manifest, parts = read(path)
    if tuple(manifest) != keys or manifest["holds"] != holds or set(parts) != set(manifest["arrays"]):
        raise ValueError(f"it does not hold {holds}")
    arrays = {}
    for name, (dtype, shape) in manifest["arrays"].items():
        if not _DTYPE.fullmatch(dtype):
            raise ValueError(f"{name} has type {dtype}")
        arrays[name] = np.frombuffer(parts[name], dtype).reshape(shape)
    return manifest, arrays


def checksum(*arrays: AnyArray) -> str:
    """A single checksum of the values, types and shapes of all arrays, which does not reveal individual values."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str} {array.shape} ".encode())
        digest.update(_bytes_of(array))
    return digest.hexdigest()


def _bytes_of(array: AnyArray) -> memoryview:
    """The bytes of an array, without a copy if it is contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


@contextmanager
def reported(folder: Path, name: str) -> Iterator[None]:
    """Convert errors about the content to an error that names the file and the remedy."""
    try:
        yield
    except StorageError as error:
        raise refuse(folder, f"{name} {error.wrong}", START_ANEW) from error
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise refuse(folder, f"{name} was not written by a run ({error})", START_ANEW) from error


# The folder


def check_folder(path: str | os.PathLike[str]) -> Path:
    """Check that a checkpoint's folder exists or can be created."""
    folder = Path(check_path(path))
    with _usable(path):
        if folder.exists() and not folder.is_dir():
            raise refuse(path, "is a file", "a checkpoint is a folder: pass the name of an existing or new one")
        if not folder.parent.is_dir():
            raise refuse(path, f"there is no folder {folder.parent}", "create it first, or correct the path")
        other_files = [entry.name for entry in folder.iterdir() if not _is_ours(entry.name)] if folder.exists() else []
    if other_files:
        raise refuse(
            path,
            f"contains something other than a checkpoint, such as {other_files[0]!r}",
            "pass the name of a new folder",
        )
    return folder


@contextmanager
def open_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Open the folder at `path`, created if missing, and lock it for this process."""
    folder = _made(path)
    with _locked(folder):
        drop_unfinished(folder)
        yield folder


def drop_unnamed_draws(folder: Path, named: set[str]) -> None:
    """Delete files of draws that the state does not name."""
    for path in folder.iterdir():
        if _DRAWS.fullmatch(path.name) and path.name not in named:
            path.unlink()


def _made(path: str | os.PathLike[str]) -> Path:
    """Create the folder of a checkpoint if it is missing."""
    folder = check_folder(path)
    with _usable(path):
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@contextmanager
def _usable(path: str | os.PathLike[str]) -> Iterator[None]:
    """Convert errors of the system about a folder to a StorageError."""
    try:
        yield
    except OSError as error:
        wrong = f"cannot be used ({error.strerror or error})"
        raise refuse(path, wrong, "choose a folder that you can write to") from error


def _is_ours(name: str) -> bool:
    return name in (STATE, LOCK) or name.endswith(".tmp") or _DRAWS.fullmatch(name) is not None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder. The system releases the lock when the process ends.

    This uses the lock of `atomic` because the core does not depend on filelock.
    """
    with ExitStack() as stack:
        try:
            descriptor = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
            file = stack.enter_context(open(descriptor, "ab"))
            lock(file.fileno())
        except OSError as error:
            wrong = "another process is writing there, or you have no permission to write"
            raise refuse(
                folder, f"{wrong} ({error.strerror or error})", "wait until it finishes, or pass another path"
            ) from error
        yield
