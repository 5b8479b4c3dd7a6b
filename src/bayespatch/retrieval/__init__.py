"""Votes of every past case, in closed form.

With exactly one neighbor a draw, past case b is that neighbor of a case with probability proportional to a product over
features: one factor where the two agree, another where they differ. So the vote of every past case is known exactly
given the importances, without sampling.

`CaseIndex` holds the past cases column by column, one or two bytes a value. A *comparison* asks whether a past case's
code lies in a range around the case's own; the weight of a past case is ``exp`` of the summed log weights of the
comparisons that hold.
"""

from __future__ import annotations

from bayespatch.retrieval.index import CaseIndex, Ranges
from bayespatch.retrieval.partitions import LargestShares, PartitionedIndex, PartsInFiles
from bayespatch.retrieval.past_part import PastCases
from bayespatch.retrieval.sums import LeaveOneOutScores, LeftOut, VoteSums
from bayespatch.retrieval.votes import leave_one_out, vote, vote_shares

__all__ = [
    "CaseIndex",
    "LargestShares",
    "LeaveOneOutScores",
    "LeftOut",
    "PartitionedIndex",
    "PartsInFiles",
    "PastCases",
    "Ranges",
    "VoteSums",
    "leave_one_out",
    "vote",
    "vote_shares",
]
