"""Why: the patchwork of a case, and what the model as a whole has learned, as plain data.

``parts`` is the data, ``words`` has the sentences that all renderings share, ``text`` and ``html`` render it, and
``explanation`` is all of this together. ``build`` makes it: ``ballot`` has the votes, ``reading`` turns them into
probabilities, ``attribution`` says what each value adds to these, ``groups`` groups the voters, ``evidence`` compares
them with the case, ``like_this`` finds past cases with similar votes, ``guards`` has the warnings. ``what_if`` compares
two explanations, ``counterfactual`` finds what would have to change; ``overview`` is a whole model, and ``summarize``
makes it.
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
