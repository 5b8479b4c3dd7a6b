"""The order of the classes, where the outcome is a column of ordered categories."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray


def class_order(y: Any, classes: NDArray[Any]) -> NDArray[np.int64] | None:
    """The places in `classes` of the classes from the first to the last, (M,); None where they have no order.

    The order is that of an ordered categorical of pandas, or of an Enum of polars; categories that do not occur are
    left out.

    Examples
    --------
    >>> import pandas as pd
    >>> stages = pd.CategoricalDtype(["none", "mild", "severe"], ordered=True)
    >>> class_order(pd.Series(["mild", "severe", "none"], dtype=stages), np.array(["mild", "none", "severe"]))
    array([1, 0, 2])
    >>> class_order(["mild", "severe"], np.array(["mild", "severe"])) is None
    True
    """
    dtype: Any = getattr(y, "dtype", None)
    if hasattr(dtype, "ordered") and hasattr(dtype, "categories"):  # pandas: a Series, an Index or a Categorical
        categories = list(dtype.categories) if dtype.ordered else None
    else:
        series = nw.from_native(y, series_only=True, pass_through=True)
        is_enum = isinstance(series, nw.Series) and isinstance(series.dtype, nw.Enum)
        categories = list(series.dtype.categories) if is_enum else None
    if categories is None:
        return None
    places = {value: k for k, value in enumerate(classes.tolist())}
    return np.array([places[value] for value in categories if value in places], dtype=np.int64)
