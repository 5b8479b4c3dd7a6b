"""A coded table: what `Schema.encode` makes of a table."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class EncodedTable(NamedTuple):
    """A coded table, and the values in it that no past case can share.

    Attributes
    ----------
    x : array of shape (n, P)
        Codes; NaN is a missing value and occurs under ``missing="ignore"`` alone.
    unseen : bool array of shape (n, P)
        Where a value was not seen in training. It has a code that matches no past case.
    names : tuple of length P
        The columns.
    values : array of shape (n, P)
        The same as `x`, but in binned and ranked columns the numbers themselves, NaN where missing: what explanations
        show.
    ids : tuple of length n, or None
        What the rows are called, where the table has an index.
    """

    x: NDArray[np.float64]
    unseen: NDArray[np.bool_]
    names: tuple[str, ...]
    values: NDArray[np.float64]
    ids: tuple[str, ...] | None = None

    @property
    def n_unseen(self) -> dict[str, int]:
        """How many unseen values each column has; columns without any are left out."""
        counts = self.unseen.sum(axis=0).tolist()
        return {name: count for name, count in zip(self.names, counts, strict=True) if count}
