"""The original values of past cases before coding, for display in explanations."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayespatch.encode.schema import Schema
from bayespatch.encode.table import PlainColumn


def describe_values(schema: Schema, values: ArrayLike) -> dict[str, str]:
    """A row of `EncodedTable.values` as text, {feature: text}: for example the age, not its bin.

    Examples
    --------
    >>> schema = Schema.learn([[52, "male"], [61, "female"], [40, "male"]], bins={"x0": [45, 55]})
    >>> describe_values(schema, schema.encode([[50, "male"]]).values[0])
    {'x0': '50', 'x1': 'male'}
    """
    row = np.asarray(values, dtype=np.float64).tolist()
    return {column.name: column.own_value(value) for column, value in zip(schema.columns, row, strict=True)}


def codes_of(schema: Schema, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The codes x of `EncodedTable.values`, (n, P)."""
    x = values.copy()
    for j, column in enumerate(schema.columns):
        if column.keeps_numbers:
            numbers = PlainColumn(column.name, "number", values[:, j], [])
            x[:, j], _ = column.encode(numbers, schema.missing == "ignore")
        if not column.is_compared:
            x[:, j] = np.nan
    return x
