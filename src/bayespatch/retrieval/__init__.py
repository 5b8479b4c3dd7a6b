"""Closed-form votes of every past case.

With exactly one neighbor per draw, past case b is the neighbor of a case with probability proportional to a product
over features, with one factor if the values agree and another if they differ. So given the importances, the vote of
every past case is computed exactly, without sampling.

`CaseIndex` stores the past cases by column, with one or two bytes per value. A *comparison* tests whether the code of a
past case is within a range around the code of the case; the weight of a past case is ``exp`` of the sum of the log
weights of the comparisons that hold.
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
