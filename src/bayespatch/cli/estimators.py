"""The estimator that a command fits: its options, and fitting with progress and warnings."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from bayespatch.cli.options import (
    Categorical,
    Chains,
    Draws,
    Engine,
    Hyper,
    HyperRule,
    Jobs,
    MissingRule,
    ModelOption,
    NParents,
    ParentsRule,
    Scheduler,
    Seed,
    VotesRule,
    Warmup,
)
from bayespatch.cli.terminal import say
from bayespatch.types import JSONObject, TableLike

if TYPE_CHECKING:
    from bayespatch.encode.table import DataFrame, Series
    from bayespatch.estimator import PatchworkClassifier, PatchworkRegressor, PatchworkSurvival
    from bayespatch.follow_up import FollowUpColumns
    from bayespatch.model import Hyperparameters

Estimator: TypeAlias = "PatchworkClassifier | PatchworkRegressor | PatchworkSurvival"
E = TypeVar("E", bound="Estimator")


def estimator_settings(
    categorical: Categorical = None,
    missing: MissingRule = "auto",
    model: ModelOption = "I",
    parents: ParentsRule = "auto",
    n_parents: NParents = None,
    hyper: HyperRule = "auto",
    votes: VotesRule = "auto",
    engine: Engine = "auto",
    scheduler: Scheduler = None,
    chains: Chains = 4,
    draws: Draws = 100,
    warmup: Warmup = 20,
    seed: Seed = 0,
    jobs: Jobs = None,
) -> JSONObject:
    """The options, renamed to the estimators' parameters."""
    return {
        "categorical": tuple(categorical or ()),
        "missing": missing,
        "model": model,
        "parents": parents,
        "n_parents": int(n_parents) if n_parents is not None and n_parents >= 1 else n_parents,
        "hyper": hyper,
        "votes": votes,
        "engine": engine,
        "scheduler": scheduler,
        "chains": chains,
        "draws": draws,
        "warmup": warmup,
        "random_state": seed,
        "n_jobs": jobs,
    }


def new_estimator(
    regression: bool, coded: Sequence[str] = (), *, hyper: Hyper, categorical: Sequence[str] = (), **settings: Any
) -> PatchworkClassifier | PatchworkRegressor:
    """An unfitted estimator; `coded` are further columns of numeric category codes."""
    from bayespatch.estimator import PatchworkClassifier, PatchworkRegressor

    return (PatchworkRegressor if regression else PatchworkClassifier)(
        hyper=_constants(hyper), categorical=(*categorical, *coded), **settings
    )


def new_survival(
    coded: Sequence[str] = (), *, hyper: Hyper, categorical: Sequence[str] = (), **settings: Any
) -> PatchworkSurvival:
    """An unfitted survival model; settings that do not apply to it must have their defaults."""
    from bayespatch.estimator import PatchworkSurvival

    fixed = {"model": ("I",), "votes": ("auto", "closed"), "scheduler": (None,), "warmup": (20,), "checkpoint": (None,)}
    for name, choices in fixed.items():
        if settings.pop(name, choices[0]) not in choices:
            raise ValueError(f"--{name} does not apply to survival models, whose votes are in closed form; remove it")
    return PatchworkSurvival(hyper=_constants(hyper), categorical=(*categorical, *coded), **settings)


def _constants(hyper: Hyper) -> str | Hyperparameters:
    """The model's constants by the name of their source."""
    from bayespatch.model import Hyperparameters

    return hyper if hyper == "auto" else Hyperparameters() if hyper == "default" else Hyperparameters.paper()


def fitted(
    estimator: E,
    X: TableLike,
    y: Series | DataFrame | None,
    groups: Series | None = None,
    follow_up: FollowUpColumns = None,
) -> E:
    """Fit the estimator, showing progress; Ctrl-C ends the command instead of shortening the run."""
    from bayespatch.sampling.diagnostics import MixingWarning

    given = {name: part for name, part in {"groups": groups, "follow_up": follow_up}.items() if part is not None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixingWarning)  # reported below in fewer words
        warnings.filterwarnings(
            "ignore", "interrupted: "
        )  # it says that the draws were kept, but a command discards them
        estimator.set_params(progress=True).fit(X, y, **given)
    if estimator.posterior_.interrupted:
        raise KeyboardInterrupt
    if not estimator.diagnostics_.converged:
        trouble = {
            "too few draws": "too few draws; increase --draws",
            "not mixed": "the chains have not mixed; increase --draws and --warmup",
            "rough": "the normal approximation of the importances is rough; pass --votes sampled",
        }[estimator.diagnostics_.verdict]
        say(f"note: {trouble} before you rely on the importances")
    return estimator.set_params(progress=False)
