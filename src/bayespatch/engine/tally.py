"""What the neighbors of one draw tell of each case, added to sums over the draws.

It is counted on the host, whichever engine found the neighbors: their lists are short, and a GPU copies them once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayespatch.engine import cases, layout
from bayespatch.engine.layout import Neighbors
from bayespatch.model import Data, Model


class Tally:
    """Adds up draws of the neighbors of N cases among S parents, with P features and M classes."""

    def __init__(self, data: Data, model: Model) -> None:
        self.constants = layout.constants_of(data, model)
        self.tables = layout.tables_of(data, model)
        self.work = layout.blank_work(self.constants, self.tables)

    def add_neighbors(self, neighbors: Neighbors, z_sum: NDArray[np.float32], w_sum: NDArray[np.float32]) -> None:
        """Add z (N, S) and z*w (N, S, P); where w_sum has no features, z alone."""
        cases.add_z(neighbors, z_sum)
        cases.add_w(neighbors, w_sum)

    def add_influence(
        self, neighbors: Neighbors, kappa_sum: NDArray[np.float32], share_sum: NDArray[np.float32]
    ) -> None:
        """Add kappa and the shares of the votes, both (N, S)."""
        t = self.tables
        cases.add_kappa(self.constants, t.y_parents, t.mu, neighbors, kappa_sum, share_sum)

    def add_explained(self, neighbors: Neighbors, explained_sum: NDArray[np.float32]) -> None:
        """Add the probability of each value of the cases given their neighbors, (N, P)."""
        cases.add_explained(self.constants, self.tables, neighbors, self.work, explained_sum)
