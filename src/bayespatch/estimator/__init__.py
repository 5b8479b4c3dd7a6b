"""The estimators, following scikit-learn's conventions: thin methods over the modules that do the work.

`load` is here because a model file is loaded as one of these classes (`persistence.registry`).
"""

from bayespatch.estimator.classifier import PatchworkClassifier
from bayespatch.estimator.regressor import PatchworkRegressor
from bayespatch.estimator.survival import PatchworkSurvival
from bayespatch.persistence.model_file import load

__all__ = ["PatchworkClassifier", "PatchworkRegressor", "PatchworkSurvival", "load"]
