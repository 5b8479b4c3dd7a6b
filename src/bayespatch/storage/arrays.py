"""The arrays of a model as safetensors, and what each of them must be."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from bayespatch.container import Part

Arrays = dict[str, NDArray[Any]]

_ROUNDING = 1e-5  # by how much a mean of shares in float32 may leave 0..1


class Kind(NamedTuple):
    """What an array must be: its type, its shape in letters, the range of its finite values, and may it have NaN."""

    dtype: str
    shape: str
    low: float = 0.0
    high: float = 1.0
    nan: bool = False


# n: rows of the training table, N: cases, S: parents, P: features, M: classes, C: chains, D: draws, R: cases reviewed
SIZES = ("n", "N", "S", "P", "M", "C", "D", "R")
POSTERIOR = {
    "q": Kind("float64", "CDP"),
    "q_tilde": Kind("float32", "CDSP"),
    "z_mean": Kind("float32", "NS"),
    "votes_mean": Kind("float64", "NM"),
    "n_neighbors": Kind("int32", "CDN", high=math.inf),
    "log_joint": Kind("float64", "CD", -math.inf, math.inf),
    "kept_w_mean": Kind("float32", "NSP"),
    "kept_votes": Kind("float32", "CDNM"),
}
ARRAYS = {
    **POSTERIOR,
    "parents": Kind("int64", "S", high=math.inf),
    "cases": Kind("int64", "N", high=math.inf),
    "review_rows": Kind("int64", "R", high=math.inf),
    "review_votes": Kind("float64", "RM"),
    "review_familiarity": Kind("float64", "R", -math.inf, math.inf),
}
CASES = {
    "x": Kind("float64", "nP", -math.inf, math.inf, nan=True),
    "y": Kind("int64", "n", -1, math.inf),
    "values": Kind("float64", "nP", -math.inf, math.inf, nan=True),
}
CASES_OF_REGRESSORS = {**CASES, "outcomes": Kind("float64", "n", -math.inf, math.inf)}
_OPTIONAL = frozenset({"kept_w_mean", "kept_votes"})


def in_their_types(arrays: Mapping[str, NDArray[Any] | None], kinds: Mapping[str, Kind]) -> Arrays:
    """The arrays that are there, in the types in which they are kept."""
    there = {name: array for name, array in arrays.items() if array is not None}
    return {name: np.ascontiguousarray(array, dtype=kinds[name].dtype) for name, array in there.items()}


def packed(arrays: Arrays) -> bytes:
    """Arrays as safetensors; the same arrays give the same bytes."""
    return safetensors.numpy.save(arrays)


def unpacked(part: Part) -> Arrays:
    """The arrays that `packed` was given."""
    try:
        return safetensors.numpy.load(bytes(part))
    except safetensors.SafetensorError as error:
        raise ValueError(f"its arrays are not safetensors ({error})") from error


def as_bytes(texts: Sequence[str]) -> NDArray[np.uint8]:
    """Texts as an array: their JSON."""
    return np.frombuffer(json.dumps(list(texts)).encode("ascii"), dtype=np.uint8)


def as_texts(array: NDArray[Any], n: int) -> tuple[str, ...]:
    """The n texts that `as_bytes` was given; anything else is a ValueError."""
    if array.dtype == np.uint8 and array.ndim == 1:
        texts = json.loads(array.tobytes().decode("ascii"))
        is_list = isinstance(texts, list) and len(texts) == n and all(type(text) is str for text in texts)
        if is_list and as_bytes(texts).tobytes() == array.tobytes():
            return tuple(texts)
    raise ValueError("the names of the past cases are not a list of texts, one for each")


def check_arrays(arrays: Arrays, kinds: Mapping[str, Kind], sizes: Mapping[str, int]) -> None:
    """All arrays that are wanted and no others, of the right type, shape and range; else a ValueError."""
    strange = (set(arrays) ^ set(kinds)) - (_OPTIONAL & set(kinds))
    if strange:
        raise ValueError(f"the arrays {', '.join(sorted(strange))} are missing, or are not known")
    for name, array in arrays.items():
        kind = kinds[name]
        shape = tuple(sizes[letter] for letter in kind.shape)
        if array.dtype != kind.dtype or array.shape != shape:
            raise ValueError(f"{name} is {array.dtype} of shape {array.shape}, and should be {kind.dtype} of {shape}")
        values = array[~np.isnan(array)] if kind.nan else array
        low, high = float(values.min(initial=0)), float(values.max(initial=0))  # NaN where there is one
        if not (math.isfinite(low) and math.isfinite(high)):
            raise ValueError(f"{name} has values that are not finite")
        if not (kind.low - _ROUNDING <= low and high <= kind.high + _ROUNDING):
            raise ValueError(f"{name} has values outside {kind.low:g} to {kind.high:g}")
