"""The cases to explain, in the user's terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayespatch.fitted import Fitted


@dataclass(frozen=True, eq=False)
class CaseTexts:
    """Cases in the user's terms.

    Attributes
    ----------
    ids : sequence of n strings, or None
        The names of the cases.
    texts : sequence of n dicts
        Their values, {feature: text}.
    values : array of shape (n, P)
        As `EncodedTable.values`.
    unseen : bool array of shape (n, P)
        Whether no past case can have the value.
    outcomes : sequence of n strings, or None
        Their outcomes, if known.
    """

    ids: Sequence[str] | None
    texts: Sequence[dict[str, str]]
    values: NDArray[np.float64]
    unseen: NDArray[np.bool_]
    outcomes: Sequence[str] | None = None

    def named(self, row: int) -> str | None:
        """The name of a case, if it has one."""
        return None if self.ids is None else self.ids[row]

    def rows_in(self, fitted: Fitted) -> NDArray[np.int64]:
        """Row of the training table that is identical to each case, (n,); -1 for a new case."""
        rows = [fitted.row_with(values, self.named(row)) for row, values in enumerate(self.values)]
        return np.array(rows, dtype=np.int64)
