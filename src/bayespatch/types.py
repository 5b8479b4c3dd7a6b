"""Types shared by several layers; each has a comment on why it is not more specific."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from numpy.typing import NDArray

# A data frame that narwhals reads (pandas, polars, pyarrow, ...), an array or a list of rows: `encode.table` checks it.
TableLike: TypeAlias = object

# JSON objects: the type of a value depends on its key. A function that returns one lists the keys in its docstring.
JSONObject: TypeAlias = dict[str, Any]
JSONMapping: TypeAlias = Mapping[str, Any]
JSONValue: TypeAlias = str | int | float | bool | list["JSONValue"] | dict[str, "JSONValue"] | None

# Parameters of an estimator by name, as scikit-learn's `get_params` returns them.
Parameters: TypeAlias = dict[str, Any]

# Arrays of labels, or of several types in one dict: their type is known at run time.
AnyArray: TypeAlias = NDArray[Any]
