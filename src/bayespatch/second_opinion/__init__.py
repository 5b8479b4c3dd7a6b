"""A second opinion in addition to the precedents: an additive score without interactions.

``design`` converts values to the terms of a sum, and ``logistic`` has the mathematics of the regression. ``additive``
has the score for classes, ``mean`` for numbers and ``cox`` for times to an event; ``user`` wraps a classifier passed by
the user.
"""

from typing import TypeAlias

from bayespatch.second_opinion.additive import AdditiveScore
from bayespatch.second_opinion.cox import CoxScore
from bayespatch.second_opinion.grouped import out_of_group
from bayespatch.second_opinion.mean import AdditiveMean
from bayespatch.second_opinion.user import Classifier, LinearOpinion, UserOpinion, check_user_opinion

ClassOpinion: TypeAlias = AdditiveScore | UserOpinion | LinearOpinion
Opinion: TypeAlias = ClassOpinion | AdditiveMean | CoxScore

__all__ = [
    "AdditiveMean",
    "AdditiveScore",
    "ClassOpinion",
    "Classifier",
    "CoxScore",
    "LinearOpinion",
    "Opinion",
    "UserOpinion",
    "check_user_opinion",
    "out_of_group",
]
