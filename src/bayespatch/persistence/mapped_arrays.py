"""Arrays in a safetensors file, read from disk on access."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import safetensors.numpy

from bayespatch.persistence.atomic import replacing
from bayespatch.types import AnyArray

_MOST_HEADER = 2**20  # limit in bytes on the list of arrays in safetensors
_TYPES = {"U8": np.uint8, "U16": np.uint16, "U32": np.uint32, "I64": np.int64, "F64": np.float64}


def write_arrays(path: str, arrays: Mapping[str, AnyArray]) -> str:
    """Write a file atomically; returns its SHA-256."""
    data = safetensors.numpy.save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    with replacing(path) as file:
        file.write(data)
    return hashlib.sha256(data).hexdigest()


def file_digest(path: str) -> str:
    """SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def map_arrays(path: str) -> dict[str, AnyArray]:
    """The arrays of a file written by `write_arrays`; any other file raises a ValueError or LookupError."""
    size = os.path.getsize(path)
    with Path(path).open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(_MOST_HEADER, size - 8):
            raise ValueError("it does not begin with a list of arrays")
        try:
            described = json.loads(file.read(length))
        except RecursionError as error:
            raise ValueError("its list of arrays is nested too deeply") from error
    if not isinstance(described, dict):
        raise ValueError("it does not begin with a list of arrays")
    data = np.empty(0, np.uint8)
    if size > 8 + length:
        # Copy-on-write ("c"), because the kernels would have to be compiled separately for read-only arrays.
        data = np.asarray(np.memmap(path, np.uint8, mode="c", offset=0))[8 + length :]
    arrays = {}
    for name, entry in described.items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            arrays[name] = data[first:last].view(_TYPES[entry["dtype"]]).reshape(entry["shape"])
    return arrays
