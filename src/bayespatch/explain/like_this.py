"""Evidence for a probability: past cases with similar votes, and their outcomes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayespatch.explain.parts import LikeThis

WIDTH = 0.05  # largest difference in the share of the votes, if there are at least FEWEST past cases that close
FEWEST = 30
WIDEST = 0.1  # largest difference otherwise


def like_this(
    votes: float, votes_past: NDArray[np.float64], has_class: NDArray[np.bool_], label: str
) -> LikeThis | None:
    """Past cases with about this share of the votes for a class, and how many of them had the class; None without any.

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
    (21, 20, 0.5, 0.7)
    """
    if not len(votes_past):
        return None
    distance = np.abs(votes_past - votes)
    width = float(np.clip(np.sort(distance)[min(FEWEST, len(distance)) - 1], WIDTH, WIDEST))
    low, high = max(0.0, votes - width), min(1.0, votes + width)
    near = distance <= width + 1e-12
    if not near.any():
        return None
    return LikeThis(label, low, high, int(near.sum()), int(has_class[near].sum()))
