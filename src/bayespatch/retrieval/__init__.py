"""Votes of every past case, in closed form.

With exactly one neighbor per draw, past case b is the neighbor of a case with probability proportional to a product
over features, with one factor if the two agree and another if they differ. So given the importances, the vote of every
past case is computed exactly, without sampling.

`CaseIndex` stores the past cases by column, with one or two bytes per value. A *comparison* tests whether a past case's
code lies in a range around the case's code; the weight of a past case is ``exp`` of the summed log weights of the
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
