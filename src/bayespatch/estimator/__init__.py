"""scikit-learn's face of the model: thin methods over the rooms that do the work."""

from bayespatch.estimator.classifier import PatchworkClassifier
from bayespatch.estimator.regressor import PatchworkRegressor

__all__ = ["PatchworkClassifier", "PatchworkRegressor"]
