"""Commands that learn from a table: fit, compare."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayespatch.cli.files import check_new
from bayespatch.cli.options import (
    Cases,
    Categorical,
    Chains,
    Checkpoint,
    Data,
    Delimiter,
    Draws,
    Drop,
    Engine,
    Folds,
    Force,
    HideIds,
    Hyper,
    HyperRule,
    IdColumn,
    Jobs,
    Json,
    Kind,
    Missing,
    MissingRule,
    Model,
    ModelOut,
    NParents,
    Parents,
    ParentsRule,
    Query,
    Regression,
    Seed,
    Target,
    Warmup,
)
from bayespatch.cli.terminal import counting, facts_text, say, show, table_text, working
from bayespatch.source import Training, read, training_table
from bayespatch.source.frame import listed
from bayespatch.source.roles import nearly_unique

if TYPE_CHECKING:
    from bayespatch.compare import Standing


def fit(
    data: Data,
    target: Target,
    out: ModelOut = Path("model.bpatch"),
    query: Query = None,
    delimiter: Delimiter = None,
    id_column: IdColumn = None,
    drop: Drop = None,
    categorical: Categorical = None,
    missing: MissingRule = Missing.auto,
    regression: Regression = False,
    model: Kind = Model.I,
    parents: ParentsRule = Parents.all,
    n_parents: NParents = None,
    hyper: HyperRule = Hyper.auto,
    engine: Engine = "auto",
    chains: Chains = 4,
    draws: Draws = 100,
    warmup: Warmup = 20,
    seed: Seed = 0,
    jobs: Jobs = None,
    checkpoint: Checkpoint = None,
    cases: Cases = None,
    hide_ids: HideIds = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Learn from a table of past cases, and write a model.

    Blank, NA, N/A, NaN, null and ? are missing values. The model holds the past cases, with their identifiers unless
    you pass --hide-ids: keep it as you keep them, or put them into a file of their own with --cases.

    Examples
    --------
    $ bayespatch fit patients.csv --target outcome --id patient --out model.bpatch
    $ bayespatch fit stays.parquet --target days --regression --drop admitted
    $ bayespatch fit sqlite:///clinic.db --query 'SELECT * FROM patients' --target outcome
    $ bayespatch fit registry.parquet --target outcome --draws 2000 --checkpoint run
    """
    check_new(force, out, cases)
    table = _read(data, query, delimiter, target, regression, id_column, drop)
    if hide_ids:
        table = table._replace(X=table.X.reset_index(drop=True))
    settings = _settings(
        categorical, missing, model, parents, n_parents, hyper, engine, chains, draws, warmup, seed, jobs
    )
    try:
        estimator = fitted(new_estimator(regression, **settings, checkpoint=checkpoint), *table)
    except KeyboardInterrupt:
        if checkpoint is not None:
            say(f"note: the same command goes on with what is in {checkpoint}")
        raise
    estimator.save(out, cases_path=cases)
    found = _findings(estimator, table, out)
    show(found, json, facts_text({name.replace("_", " "): _said(value) for name, value in found.items()}))


def compare(
    data: Data,
    target: Target,
    folds: Folds = 5,
    query: Query = None,
    delimiter: Delimiter = None,
    id_column: IdColumn = None,
    drop: Drop = None,
    categorical: Categorical = None,
    missing: MissingRule = Missing.auto,
    regression: Regression = False,
    model: Kind = Model.I,
    parents: ParentsRule = Parents.all,
    n_parents: NParents = None,
    hyper: HyperRule = Hyper.auto,
    engine: Engine = "auto",
    chains: Chains = 4,
    draws: Draws = 100,
    warmup: Warmup = 20,
    seed: Seed = 0,
    jobs: Jobs = None,
    json: Json = False,
) -> None:
    """Cross-validate a patchwork beside the usual methods, on the same folds of a table.

    Examples
    --------
    $ bayespatch compare patients.csv --target outcome --id patient
    $ bayespatch compare stays.parquet --target days --regression --folds 10 --json
    """
    from bayespatch.compare import compare as cross_validate

    table = _read(data, query, delimiter, target, regression, id_column, drop)
    settings = _settings(
        categorical, missing, model, parents, n_parents, hyper, engine, chains, draws, warmup, seed, jobs
    )
    with counting("patchwork") as tell:
        estimator = new_estimator(regression, **settings)
        found = cross_validate(*table, estimator, regression=regression, folds=folds, seed=seed, tell=tell)
    methods = [{"method": one.method, "scores": one.summary(), "seconds": one.seconds} for one in found]
    show({"target": target, "folds": folds, "methods": methods}, json, _standings(found, folds))


def _read(
    data: str,
    query: str | None,
    delimiter: str | None,
    target: str,
    regression: bool,
    id_column: str | None,
    drop: list[str] | None,
) -> Training:
    """The table, with a word about columns that will not help."""
    with working(f"Reading {data.partition('://')[0] if '://' in data else data}"):
        frame = read(data, query, delimiter=delimiter, texts=[id_column] if id_column else [])
    table = training_table(frame, target, regression=regression, id_column=id_column, drop=drop or ())
    useless = nearly_unique(table.X)
    if useless:
        say(f"note: hardly any two cases share a value of {listed(useless)}; leave it out with --drop, or name it --id")
    return table


def _settings(
    categorical: list[str] | None,
    missing: Missing,
    model: Model,
    parents: Parents,
    n_parents: float | None,
    hyper: Hyper,
    engine: str,
    chains: int,
    draws: int,
    warmup: int,
    seed: int,
    jobs: int | None,
) -> dict[str, Any]:
    """The options by the names of the estimators' parameters."""
    return {
        "categorical": tuple(categorical or ()),
        "missing": missing.value,
        "model": model.value,
        "parents": parents.value,
        "n_parents": int(n_parents) if n_parents is not None and n_parents >= 1 else n_parents,
        "hyper": hyper,
        "engine": engine,
        "chains": chains,
        "draws": draws,
        "warmup": warmup,
        "random_state": seed,
        "n_jobs": jobs,
    }


def new_estimator(regression: bool, hyper: Hyper, **settings: Any) -> Any:
    """An estimator, not fitted."""
    from bayespatch.estimator import PatchworkClassifier, PatchworkRegressor
    from bayespatch.model import Hyperparameters

    constants: dict[Hyper, Any] = {
        Hyper.auto: "auto",
        Hyper.default: Hyperparameters(),
        Hyper.paper: Hyperparameters.paper(),
    }
    return (PatchworkRegressor if regression else PatchworkClassifier)(hyper=constants[hyper], **settings)


def fitted(estimator: Any, X: Any, y: Any) -> Any:
    """The estimator, fitted in full view; Ctrl-C ends the command and does not shorten the run."""
    from bayespatch.diagnostics import MixingWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MixingWarning)  # said below in fewer words
        warnings.filterwarnings("ignore", "interrupted: ")  # of draws that are kept: not here
        estimator.set_params(progress=True).fit(X, y)
    if estimator.posterior_.interrupted:
        raise KeyboardInterrupt
    if not estimator.diagnostics_.converged:
        say("note: the chains have not mixed; pass more --draws and --warmup before you rely on what they say")
    return estimator.set_params(progress=False)


def _findings(estimator: Any, table: Training, out: Path) -> dict[str, Any]:
    """What a fit has to say in a few lines."""
    importance = sorted(zip(estimator.feature_importances_, table.X.columns, strict=True), reverse=True)
    return {
        "model": str(out),
        "cases": len(table.X),
        "features": table.X.shape[1],
        "outcome": str(table.y.name),
        "classes": [str(label) for label in getattr(estimator, "classes_", ())] or None,
        "most_important": [str(name) for _, name in importance[:5]],
        "mixed": bool(estimator.diagnostics_.converged),
        "seconds": round(estimator.posterior_.timing.seconds, 2),
    }


def _said(value: Any) -> str:
    """A finding in words."""
    if value is None:
        return "none, the outcome is a number"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list) else str(value)


def _standings(found: list[Standing], folds: int) -> str:
    """A table with the best of each measure marked."""
    from bayespatch.compare import MORE_IS_BETTER

    measures = list(found[0].scores)
    best = {m: (max if MORE_IS_BETTER[m] else min)(one.mean(m) for one in found) for m in measures}
    rows = []
    for one in found:
        cells = [
            f"{one.mean(m):.3f} ± {one.deviation(m):.3f}{'*' if one.mean(m) == best[m] else ' '}" for m in measures
        ]
        rows.append([one.method, *cells, f"{one.seconds:.1f}"])
    said = ", ".join(f"{m} ({'more' if MORE_IS_BETTER[m] else 'less'} is better)" for m in measures)
    return f"{table_text(['method', *measures, 'seconds'], rows)}\n\nMean ± sd of {folds} folds; * the best: {said}"
