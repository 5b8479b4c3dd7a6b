"""Why: the patchwork of a case, and what the model as a whole has learned, as plain data.

``parts`` is the data, ``words`` says it in sentences that every rendering shares, ``text`` and ``notebook`` render it,
and ``explanation`` is all of this together. ``build`` makes it from a posterior: ``ballot`` has the votes as arrays,
``exemplars`` groups the voters, ``evidence`` says what counts, ``like_this`` what votes are worth, ``guards`` what to
be careful with. ``what_if`` compares two explanations, ``counterfactual`` finds what would have to change;
``overview`` is a whole model, and ``summarize`` makes it.
"""

from bayespatch.explain.build import explain_cases
from bayespatch.explain.cases import CaseTexts, TrainingCases
from bayespatch.explain.counterfactual import Counterfactual
from bayespatch.explain.explanation import Explanation
from bayespatch.explain.guards import OutOfRangeWarning, warn_out_of_range
from bayespatch.explain.parts import (
    Exemplar,
    Feature,
    Guard,
    LikeThis,
    Member,
    Neighbor,
    Opinions,
    Patch,
    Precedent,
    Stability,
)
from bayespatch.explain.what_if import WhatIf

__all__ = [
    "CaseTexts",
    "Counterfactual",
    "Exemplar",
    "Explanation",
    "Feature",
    "Guard",
    "LikeThis",
    "Member",
    "Neighbor",
    "Opinions",
    "OutOfRangeWarning",
    "Patch",
    "Precedent",
    "Stability",
    "TrainingCases",
    "WhatIf",
    "explain_cases",
    "warn_out_of_range",
]
