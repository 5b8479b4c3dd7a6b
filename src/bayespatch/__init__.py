"""Bayesian Patchworks: a prediction pieced together from past cases, and from those of their features that matter.

Public names are loaded on first use, so that ``import bayespatch`` is quick and asks for no optional package.

>>> import bayespatch
>>> bayespatch.Hyperparameters(alpha=0.1).alpha
0.1
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayespatch import datasets as datasets
    from bayespatch.casebase import CaseBase as CaseBase
    from bayespatch.estimator import PatchworkClassifier as PatchworkClassifier
    from bayespatch.estimator import PatchworkRegressor as PatchworkRegressor
    from bayespatch.explain import Explanation as Explanation
    from bayespatch.model import Hyperparameters as Hyperparameters
    from bayespatch.posterior import Posterior as Posterior
    from bayespatch.sample import sample as sample
    from bayespatch.storage import load as load

__version__ = "0.2.0.dev0"

# Public name -> the room it lives in; None: the name is a room itself.
_ROOM_OF: dict[str, str | None] = {
    "CaseBase": "casebase",
    "Explanation": "explain",
    "Hyperparameters": "model",
    "PatchworkClassifier": "estimator",
    "PatchworkRegressor": "estimator",
    "Posterior": "posterior",
    "datasets": None,
    "load": "storage",
    "sample": "sample",
}

__all__ = [
    "CaseBase",
    "Explanation",
    "Hyperparameters",
    "PatchworkClassifier",
    "PatchworkRegressor",
    "Posterior",
    "__version__",
    "datasets",
    "load",
    "sample",
]


def __getattr__(name: str) -> object:
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'bayespatch' has no attribute {name!r}")
    room = _ROOM_OF[name]
    if room is None:
        return importlib.import_module(f"bayespatch.{name}")
    value: object = getattr(importlib.import_module(f"bayespatch.{room}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """Keeps ``bayespatch.sample`` the function: importing the room of that name would put the module in its place."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "sample" and isinstance(value, ModuleType):
            value = value.sample
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
