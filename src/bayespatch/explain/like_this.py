"""Evidence for a probability: past cases with similar votes, and their outcomes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayespatch.explain.parts import LikeThis

WIDTH = 0.05  # largest difference in the share of the votes; extended if fewer past cases are that close
FEWEST = 30  # number of past cases to include at least, or all if there are fewer


def like_this(
    votes: float, votes_past: NDArray[np.float64], has_class: NDArray[np.bool_], label: str
) -> LikeThis | None:
    """Past cases with about this share of the votes for a class, and how many of them had the class.

    Parameters
    ----------
    votes : float
        Share of the votes for the class.
    votes_past : array of shape (R,)
        The same share for past cases, each predicted from all the others.
    has_class : bool array of shape (R,)
        Whether they had the class.
    label : str
        Its label.

    Examples
    --------
    >>> found = like_this(0.6, np.linspace(0, 1, 101), np.linspace(0, 1, 101) > 0.5, "ill")
    >>> found.n, found.n_class, round(found.low, 2), round(found.high, 2)
    (31, 25, 0.45, 0.75)
    """
    if not len(votes_past):
        return None
    distance = np.abs(votes_past - votes)
    width = max(WIDTH, float(np.sort(distance)[min(FEWEST, len(distance)) - 1]))
    low, high = max(0.0, votes - width), min(1.0, votes + width)
    near = distance <= width + 1e-12
    return LikeThis(label, low, high, int(near.sum()), int(has_class[near].sum()))
