"""Explanations as plain data: the patchwork of a case, and the overview of a model.

``parts`` defines the data, ``words`` has the sentences that all renderings share, ``text`` and ``html`` render them,
and ``explanation`` combines all of this. ``build`` creates explanations: ``ballot`` has the votes, ``reading`` converts
them to probabilities, ``attribution`` computes the contribution of each value, ``groups`` groups the voters,
``evidence`` compares past cases with the case, ``like_this`` finds past cases with similar votes, and ``guards`` has
the warnings. ``what_if`` compares two explanations. ``smallest_change`` finds the smallest change that changes a
prediction, and ``counterfactual`` describes it. ``overview`` describes a whole model, and ``summarize`` creates the
overview.
"""

from bayespatch.explain.build import ExplanationOptions, explain_cases
from bayespatch.explain.cases import CaseTexts
from bayespatch.explain.counterfactual import Counterfactual
from bayespatch.explain.explanation import Explanation
from bayespatch.explain.guards import OutOfRangeWarning, warn_out_of_range
from bayespatch.explain.parts import (
    Attribution,
    Feature,
    FeaturePoints,
    Group,
    Guard,
    LikeThis,
    Neighbor,
    Opinions,
    Patch,
    Precedent,
    Stability,
)
from bayespatch.explain.what_if import WhatIf

__all__ = [
    "Attribution",
    "CaseTexts",
    "Counterfactual",
    "Explanation",
    "ExplanationOptions",
    "Feature",
    "FeaturePoints",
    "Group",
    "Guard",
    "LikeThis",
    "Neighbor",
    "Opinions",
    "OutOfRangeWarning",
    "Patch",
    "Precedent",
    "Stability",
    "WhatIf",
    "explain_cases",
    "warn_out_of_range",
]
