"""What overviews, pictures and reports ask of a fitted estimator: a protocol, as the estimators come after them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bayespatch.encode import Schema
from bayespatch.explain.overview import Overview
from bayespatch.leave_one_out import LeaveOneOutVotes
from bayespatch.model import Hyperparameters
from bayespatch.pool import Pool
from bayespatch.sampling.diagnostics import Diagnostics
from bayespatch.sampling.posterior import Posterior
from bayespatch.tune import Tuning


class FittedModel(Protocol):
    """A fitted estimator; `PatchworkClassifier` says what the attributes are."""

    schema_: Schema
    posterior_: Posterior
    parents_: NDArray[np.int64]
    cases_: NDArray[np.int64]
    x_: NDArray[np.float64]
    y_: NDArray[np.int64]
    ids_: tuple[str, ...] | None
    loo_: LeaveOneOutVotes
    class_names_: tuple[str, ...]
    hyper: str | Hyperparameters
    hyper_: Hyperparameters
    tuning_: Tuning | None
    pool_: Pool | None
    get_params: Callable[..., dict[str, Any]]

    @property
    def diagnostics_(self) -> Diagnostics:
        """Whether the chains have mixed."""

    def loo_probabilities(self) -> NDArray[np.float64]:
        """Probabilities of the past cases, each predicted from the others."""

    def loo_opinions(self) -> dict[str, NDArray[np.float64]] | None:
        """The same of each opinion alone and of the pool; None where there is no second opinion."""

    def neighbor_totals(self) -> NDArray[np.float64]:
        """Of how many past cases each parent is a neighbor, on average, (S,)."""

    def overview(self) -> Overview:
        """What the model has learned as a whole."""
