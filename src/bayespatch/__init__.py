"""Bayesian Patchworks: predictions from the past cases, and the features, that matter for a new case.

Public names are loaded on first use, so that ``import bayespatch`` is fast and needs no optional package.

>>> import bayespatch
>>> bayespatch.Hyperparameters(alpha=0.1).alpha
0.1
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from bayespatch.version import __version__

if TYPE_CHECKING:
    from bayespatch import datasets as datasets
    from bayespatch.casebase import CaseBase as CaseBase
    from bayespatch.estimator import PatchworkClassifier as PatchworkClassifier
    from bayespatch.estimator import PatchworkRegressor as PatchworkRegressor
    from bayespatch.estimator import PatchworkSurvival as PatchworkSurvival
    from bayespatch.estimator import load as load
    from bayespatch.explain import Explanation as Explanation
    from bayespatch.model import Hyperparameters as Hyperparameters
    from bayespatch.sampling.posterior import Posterior as Posterior
    from bayespatch.sampling.sampler import sample as sample


# Public name -> the module that defines it; None: the name is itself a module.
_MODULE_OF: dict[str, str | None] = {
    "CaseBase": "casebase",
    "Explanation": "explain",
    "Hyperparameters": "model",
    "PatchworkClassifier": "estimator",
    "PatchworkRegressor": "estimator",
    "PatchworkSurvival": "estimator",
    "Posterior": "sampling.posterior",
    "datasets": None,
    "plot": None,
    "report": None,
    "load": "estimator",
    "sample": "sampling.sampler",
}

__all__ = [
    "CaseBase",
    "Explanation",
    "Hyperparameters",
    "PatchworkClassifier",
    "PatchworkRegressor",
    "PatchworkSurvival",
    "Posterior",
    "__version__",
    "datasets",
    "load",
    "sample",
]


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'bayespatch' has no attribute {name!r}")
    module = _MODULE_OF[name]
    if module is None:
        return importlib.import_module(f"bayespatch.{name}")
    value: object = getattr(importlib.import_module(f"bayespatch.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
