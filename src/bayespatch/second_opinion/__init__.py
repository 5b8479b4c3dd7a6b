"""A second opinion beside the precedents: an additive score, in which every feature speaks for itself."""

from bayespatch.second_opinion.additive import AdditiveScore

__all__ = ["AdditiveScore"]
