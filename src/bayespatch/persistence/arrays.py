"""The arrays of a model as safetensors, and their specifications."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import safetensors
import safetensors.numpy

from bayespatch.persistence.contents import STORED, Stored
from bayespatch.persistence.file_format import Part
from bayespatch.types import AnyArray
from bayespatch.validation import LARGEST_OUTCOME, MOST_WEIGHT

Arrays = dict[str, AnyArray]

LARGEST_WEIGHT = 50.0  # log weight of a comparison; no importance gives a larger one
_ROUNDING = 1e-5  # tolerance beyond 0..1 for means of shares in float32


class ArraySpec(NamedTuple):
    """Requirements for an array: type, shape in letters, range of finite values, and whether NaN is allowed."""

    dtype: str
    shape: str
    low: float = 0.0
    high: float = 1.0
    nan: bool = False
    rounding: float = 0.0  # tolerance beyond the range


# n: rows of the training table, N: cases, S: parents, P: features, M: classes, C: chains, D: draws, R: cases with
# leave-one-out votes, T: steps of the importances' separate chains (0 without such chains), Q: P + 2, s: bytes of the
# salt; A and B: cases and parents with sampled neighbors (0 for closed-form votes), K: comparisons (0 for sampled
# votes), V: rows of "shown"
SIZES = ("n", "N", "S", "P", "M", "C", "D", "R", "T", "A", "B", "K", "V")
# The specification of every array, by attribute name; `contents` states which are stored with the past cases.
ARRAYS = {
    "posterior.q": ArraySpec("float64", "CDP"),
    "posterior.steps": ArraySpec("float64", "CTQ", -math.inf, math.inf),
    "posterior.compares_missing": ArraySpec("bool", "P"),
    "posterior.efficiency": ArraySpec("float64", "e", nan=True),
    "posterior.log_weights": ArraySpec("float64", "CDK", -LARGEST_WEIGHT, LARGEST_WEIGHT),
    "posterior.q_tilde": ArraySpec("float32", "CDBP"),
    "posterior.z_mean": ArraySpec("float32", "AB", rounding=_ROUNDING),
    "posterior.votes_mean": ArraySpec("float64", "AM", rounding=_ROUNDING),
    "posterior.n_neighbors": ArraySpec("int32", "CDA", high=math.inf),
    "posterior.log_joint": ArraySpec("float64", "CD", -math.inf, math.inf),
    "posterior.kept_w_mean": ArraySpec("float32", "ABP", rounding=_ROUNDING),
    "posterior.kept_votes": ArraySpec("float32", "CDAM", rounding=_ROUNDING),
    "parents": ArraySpec("int64", "S", high=math.inf),
    "cases": ArraySpec("int64", "N", high=math.inf),
    "shown": ArraySpec("int64", "V", high=math.inf),
    "loo.rows": ArraySpec("int64", "R", high=math.inf),
    "loo.votes": ArraySpec("float64", "RM", rounding=_ROUNDING),
    "loo.familiarity": ArraySpec("float64", "R", -math.inf, math.inf),
    "x": ArraySpec("float64", "nP", -math.inf, math.inf, nan=True),
    "y": ArraySpec("int64", "n", -1, math.inf),
    "values": ArraySpec("float64", "nP", -math.inf, math.inf, nan=True),
    "rows": ArraySpec("int64", "n", high=math.inf),
    "groups": ArraySpec("int64", "n", high=math.inf),
    "sample_weight": ArraySpec("float64", "n", high=MOST_WEIGHT),
    "outcomes": ArraySpec("float64", "n", -LARGEST_OUTCOME, LARGEST_OUTCOME),
    "time": ArraySpec("float64", "n", high=math.inf),
    "event": ArraySpec("bool", "n"),
    "salt": ArraySpec("uint8", "s", high=255),
}
OF_ESTIMATOR = {"PatchworkRegressor": {"outcomes"}, "PatchworkSurvival": {"time", "event"}}
SALT_BYTES = 32
OPTIONAL = frozenset(
    {
        "posterior.kept_w_mean",
        "posterior.kept_votes",
        "posterior.steps",
        "posterior.log_weights",
        "posterior.compares_missing",
        "posterior.efficiency",
        "groups",
        "rows",
        "sample_weight",
        "shown",
    }
)
_MOST_HEADER = 2**16  # limit in bytes on the list of arrays in safetensors


def specs_of(place: Stored, estimator: str) -> dict[str, ArraySpec]:
    """The specifications of the arrays in this part of the file, for an estimator of this name."""
    kinds = {name: kind for name, kind in ARRAYS.items() if STORED[name] is place}
    foreign = set().union(*(names for name, names in OF_ESTIMATOR.items() if name != estimator))
    return {name: kind for name, kind in kinds.items() if name not in foreign}


def in_their_types(arrays: Mapping[str, AnyArray | None], kinds: Mapping[str, ArraySpec]) -> Arrays:
    """The arrays that are not None, converted to the types in which they are stored."""
    existing = {name: array for name, array in arrays.items() if array is not None}
    return {name: np.ascontiguousarray(array, dtype=kinds[name].dtype) for name, array in existing.items()}


def packed(arrays: Arrays) -> bytes:
    """Arrays as safetensors; equal arrays give equal bytes."""
    return safetensors.numpy.save(arrays)


def unpacked(part: Part) -> Arrays:
    """The inverse of `packed`."""
    if len(part) < 8 or int.from_bytes(part[:8], "little") > _MOST_HEADER:
        raise ValueError("its arrays are not safetensors, or there are too many")
    try:
        return safetensors.numpy.load(bytes(part))
    except safetensors.SafetensorError as error:
        raise ValueError(f"its arrays are not safetensors ({error})") from error


def as_bytes(texts: Sequence[str]) -> Arrays:
    """Strings as two arrays: their concatenation in UTF-8, and the end of each string."""
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    return {"ids": np.frombuffer(b"".join(encoded), dtype=np.uint8), "ids_ends": ends}


def as_texts(letters: AnyArray, ends: AnyArray, n: int) -> tuple[str, ...]:
    """The inverse of `as_bytes`, for n strings; anything else raises a ValueError."""
    if letters.dtype != np.uint8 or ends.dtype != np.int64 or letters.ndim != 1 or ends.shape != (n,):
        raise ValueError("the names of the past cases are not one string per case")
    starts = np.concatenate([[0], ends[:-1]])
    if np.any(starts > ends) or int(ends[-1]) != len(letters):
        raise ValueError("the names of the past cases overlap or have gaps")
    whole = letters.tobytes()
    return tuple(
        whole[a:b].decode("utf-8", "surrogatepass") for a, b in zip(starts.tolist(), ends.tolist(), strict=True)
    )


def check_arrays(arrays: Arrays, kinds: Mapping[str, ArraySpec], sizes: Mapping[str, int]) -> None:
    """Raise a ValueError unless exactly the expected arrays are present, with the right type, shape and range."""
    unmatched = (set(arrays) ^ set(kinds)) - (OPTIONAL & set(kinds))
    if unmatched:
        raise ValueError(f"the arrays {', '.join(sorted(unmatched))} are missing or unknown")
    for name, array in arrays.items():
        kind = kinds[name]
        lengths = {**sizes, "s": SALT_BYTES, "Q": sizes["P"] + 2, "e": 1}
        shape = tuple(lengths[letter] for letter in kind.shape)
        if array.dtype != kind.dtype or array.shape != shape:
            raise ValueError(f"{name} is {array.dtype} of shape {array.shape} instead of {kind.dtype} of {shape}")
        values = array[~np.isnan(array)] if kind.nan else array
        low, high = float(values.min(initial=0)), float(values.max(initial=0))  # NaN if any value is NaN
        if not (math.isfinite(low) and math.isfinite(high)):
            raise ValueError(f"{name} has values that are not finite")
        if not (kind.low - kind.rounding <= low and high <= kind.high + kind.rounding):
            raise ValueError(f"{name} has values outside {kind.low:g} to {kind.high:g}")
