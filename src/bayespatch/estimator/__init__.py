"""scikit-learn's face of the model: thin methods over the rooms that do the work."""

from bayespatch.estimator.classifier import PatchworkClassifier

__all__ = ["PatchworkClassifier"]
