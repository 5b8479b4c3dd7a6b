"""The order of the classes, if the outcome is a column of ordered categories."""

from __future__ import annotations

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from bayespatch.types import AnyArray


def class_order(y: object, classes: AnyArray) -> NDArray[np.int64] | None:
    """The positions in `classes` of the ordered classes, from first to last, (M,); None if they have no order.

    The order comes from an ordered pandas categorical or a polars Enum; categories that do not occur are left out.

    Examples
    --------
    >>> import pandas as pd
    >>> stages = pd.CategoricalDtype(["none", "mild", "severe"], ordered=True)
    >>> class_order(pd.Series(["mild", "severe", "none"], dtype=stages), np.array(["mild", "none", "severe"]))
    array([1, 0, 2])
    >>> class_order(["mild", "severe"], np.array(["mild", "severe"])) is None
    True
    """
    dtype = getattr(y, "dtype", None)
    series = nw.from_native(y, series_only=True, pass_through=True)
    if dtype is not None and hasattr(dtype, "ordered") and hasattr(dtype, "categories"):  # pandas
        if not dtype.ordered:
            return None
        categories = list(dtype.categories)
    elif isinstance(series, nw.Series) and isinstance(series.dtype, nw.Enum):
        categories = list(series.dtype.categories)
    else:
        return None
    places = {value: k for k, value in enumerate(classes.tolist())}
    return np.array([places[value] for value in categories if value in places], dtype=np.int64)
