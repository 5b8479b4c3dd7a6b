"""Predictions of new cases from a `Posterior`.

By default every past case votes, in closed form (`closed`). The paper's joint posterior, Models II and III, and
``votes="sampled"`` sample the neighbors of a case, which can have several at once (`sampled`).
"""

from __future__ import annotations

from bayespatch.predict.closed import ClosedForm
from bayespatch.predict.results import (
    Detail,
    Neighborhood,
    NeighborStatistics,
    PrecisionWarning,
    Prediction,
    UnseenValueWarning,
)
from bayespatch.predict.sampled import (
    ERROR,
    MAX_PASSES,
    PREDICTING,
    blank_votes,
    predict_batches,
    predict_cases,
    row_numbers,
    sample_together,
    votes_by_place,
)
from bayespatch.predict.subsets import SubsetVoter, SubsetVotes, all_subsets

__all__ = [
    "ERROR",
    "MAX_PASSES",
    "PREDICTING",
    "ClosedForm",
    "Detail",
    "NeighborStatistics",
    "Neighborhood",
    "PrecisionWarning",
    "Prediction",
    "SubsetVoter",
    "SubsetVotes",
    "UnseenValueWarning",
    "all_subsets",
    "blank_votes",
    "predict_batches",
    "predict_cases",
    "row_numbers",
    "sample_together",
    "votes_by_place",
]
