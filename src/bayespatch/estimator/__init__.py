"""The estimators follow scikit-learn's conventions; their methods are thin layers over the modules that do the work.

`load` is here because it returns an instance of one of these classes (`persistence.registry`).
"""

from bayespatch.estimator.classifier import PatchworkClassifier
from bayespatch.estimator.regressor import PatchworkRegressor
from bayespatch.estimator.survival import PatchworkSurvival
from bayespatch.persistence.model_file import load

__all__ = ["PatchworkClassifier", "PatchworkRegressor", "PatchworkSurvival", "load"]
