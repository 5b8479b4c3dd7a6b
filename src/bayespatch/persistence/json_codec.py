"""Conversion of parameters and classes to JSON and back, with their types.

None, booleans, integers, strings and finite numbers are stored directly; everything else becomes a dict with a "type".
Objects without a JSON equivalent are stored as follows:

- NumPy numbers become Python numbers; array-like objects (a pandas Index, a polars Series) become arrays;
- a progress function is stored as False, and a random generator as None: a loaded model gives the same predictions, but
  a refit gets a new seed;
- a user's classifier as the second opinion is stored as None, and its coefficients are stored if it is linear;
- the folder of a checkpoint and the address of a scheduler are stored as None, because they belong to a fit on a
  particular machine;
- anything else is rejected.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields
from itertools import pairwise
from typing import cast

import numpy as np

from bayespatch.model import PER, Hyperparameters
from bayespatch.types import AnyArray, JSONObject, JSONValue

_DTYPE = re.compile(r"\|O|\|b1|[|<>][iu][1248]|[<>]f[248]|[<>]U[1-9][0-9]{0,6}")
_WIDEST = 256  # maximum width of a string type
_MOST_BYTES = 2**20  # limit on arrays of strings, whose type may be far wider than the strings
_SEQUENCES: dict[str, Callable[[Iterable[object]], Collection[object]]] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
}
_KEYS = (type(None), bool, int, float, str)  # types of the keys of a dict
_NOT_FINITE = ("nan", "inf", "-inf")
_CONSTANTS = tuple(part.name for part in fields(Hyperparameters))


# Parameters


def parameters_to_json(parameters: Mapping[str, object]) -> JSONObject:
    """The parameters of an estimator, ready for JSON."""
    stored = {}
    for name, value in parameters.items():
        if name == "progress" and callable(value):
            value = False
        seeds_anew = name == "random_state" and isinstance(value, np.random.RandomState | np.random.Generator)
        own_opinion = name == "second_opinion" and hasattr(value, "fit")
        if seeds_anew or own_opinion or name in ("checkpoint", "scheduler"):
            value = None
        try:
            stored[name] = to_json(value)
        except TypeError as error:
            raise ValueError(f"parameter {name}={value!r} cannot be stored ({error})") from None
    return stored


def to_json(value: object) -> JSONValue:
    """A value, ready for JSON; a TypeError if it cannot be stored."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool) or type(value) in (int, str):
        return cast("JSONValue", value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"type": "float", "value": str(float(value))}
    if isinstance(value, Hyperparameters):
        return {"type": "Hyperparameters", "value": hyper_to_json(value)}
    if isinstance(value, Mapping):
        if not all(type(key.item() if isinstance(key, np.generic) else key) in _KEYS for key in value):
            raise TypeError("a dict has keys that are neither numbers nor strings")
        return {"type": "dict", "value": [[to_json(key), to_json(part)] for key, part in value.items()]}
    if isinstance(value, set | frozenset):
        return {"type": type(value).__name__, "value": [to_json(part) for part in sorted(value, key=repr)]}
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return {"type": type(value).__name__, "value": [to_json(part) for part in value]}
    if hasattr(value, "__array__"):
        return {"type": "array", "value": array_to_json(np.asarray(value))}
    raise TypeError(f"{type(value).__name__} is not a number, string, list, dict or array")


def from_json(data: object) -> object:
    """The inverse of `to_json`; any other input is a ValueError."""
    if data is None or type(data) in (bool, int, float, str):
        return data
    if not isinstance(data, dict) or list(data) != ["type", "value"]:
        raise ValueError("the format of a parameter is invalid")
    kind, value = data["type"], data["value"]
    if kind == "float" and value in _NOT_FINITE:
        return float(value)
    if kind == "Hyperparameters":
        return hyper_from_json(value)
    if kind == "array":
        return array_from_json(value)
    if kind == "dict" and isinstance(value, list):
        pairs = {from_json(key): from_json(part) for key, part in value}
        if len(pairs) == len(value) and all(type(key) in _KEYS for key in pairs):
            return pairs
    if kind in _SEQUENCES and isinstance(value, list):
        return _SEQUENCES[kind](from_json(part) for part in value)
    raise ValueError(f"a parameter has the unknown type {kind!r}")


# The constants of the model


def hyper_to_json(hyper: Hyperparameters) -> JSONObject:
    """The constants by name; constants with one number per class or feature become lists."""
    return {name: np.asarray(getattr(hyper, name)).tolist() for name in _CONSTANTS}


def hyper_from_json(data: object) -> Hyperparameters:
    """The inverse of `hyper_to_json`."""
    if not isinstance(data, dict) or tuple(data) != _CONSTANTS:
        raise ValueError("the hyperparameters are not those of the model")
    for name, value in data.items():
        numbers = value if name in PER and isinstance(value, list) else [value]
        if not all(type(number) in (int, float) for number in numbers):
            raise ValueError(f"the hyperparameter {name} is not a number")
    several = {name: tuple(value) for name, value in data.items() if isinstance(value, list)}
    return Hyperparameters(**{**data, **several})


# Arrays of a few values, with their type


def array_to_json(array: AnyArray) -> JSONObject:
    """An array of booleans, numbers or strings: its type, its shape and its values in order."""
    if array.dtype.kind == "T":
        array = array.astype(object)
    if array.dtype.kind == "U":
        widest = max([_WIDEST, *map(len, array.ravel().tolist())])
        array = array.astype(f"U{min(array.dtype.itemsize // 4, widest)}")
    if not _DTYPE.fullmatch(array.dtype.str):
        raise TypeError(f"an array of type {array.dtype} does not hold booleans, numbers or strings")
    values = [to_json(value) for value in array.ravel().tolist()]
    if any(isinstance(value, dict) and value["type"] != "float" for value in values):
        raise TypeError("an array holds lists or other objects that are neither numbers nor strings")
    return {"dtype": array.dtype.str, "shape": list(array.shape), "values": values}


def array_from_json(data: object) -> AnyArray:
    """The inverse of `array_to_json`; the type must fit the values without being much wider."""
    if not isinstance(data, dict) or list(data) != ["dtype", "shape", "values"]:
        raise ValueError("the format of an array is invalid")
    name, shape, values = data["dtype"], data["shape"], data["values"]
    if not isinstance(name, str) or not _DTYPE.fullmatch(name) or not isinstance(values, list):
        raise ValueError(f"an array has the unknown type {name!r}")
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"an array has the invalid shape {shape}")
    if math.prod(shape) != len(values) or len(shape) > 4:
        raise ValueError(f"an array of shape {shape} has {len(values)} values")
    kept = [from_json(value) for value in values]
    dtype = np.dtype(name)
    if dtype.kind == "U" and dtype.itemsize * len(kept) > _MOST_BYTES:  # before memory is allocated
        raise ValueError(f"an array of {len(kept)} values of the type {name!r} is far larger than its values need")
    array = np.empty(len(kept), dtype=dtype)
    array[:] = kept
    same_types = all(type(a) is type(b) for a, b in zip(array.tolist(), kept, strict=True))
    if not same_types or array_to_json(array)["values"] != values:
        raise ValueError(f"an array of type {name!r} holds values of another type")
    return array.reshape(shape)


def classes_from_json(data: object) -> AnyArray:
    """The classes of an estimator: at least one, sorted and distinct."""
    classes = array_from_json(data)
    if classes.ndim != 1 or not len(classes):
        raise ValueError("the classes are not a list")
    if not all(low < high for low, high in pairwise(classes.tolist())):
        raise ValueError("the classes are not sorted and distinct")
    return classes
