"""Why: the patchwork of a case, and what the model as a whole has learned, as plain data.

``parts`` is the data, ``words`` says it in sentences that every rendering shares, ``text`` and ``notebook`` render it,
``explanation`` is all of this together, ``build`` makes it from a posterior, ``what_if`` compares two, ``overview``
looks at the whole model.
"""

from bayespatch.explain.build import Past, explain_cases
from bayespatch.explain.explanation import Explanation
from bayespatch.explain.parts import MARKED, Feature, Neighbor, Patch, Precedent, Stability
from bayespatch.explain.what_if import WhatIf

__all__ = [
    "MARKED",
    "Explanation",
    "Feature",
    "Neighbor",
    "Past",
    "Patch",
    "Precedent",
    "Stability",
    "WhatIf",
    "explain_cases",
]
