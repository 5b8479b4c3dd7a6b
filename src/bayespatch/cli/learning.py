"""Commands that learn from a table: fit, compare."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bayespatch.cli.files import check_new
from bayespatch.cli.options import (
    AgeOf,
    AsOf,
    Cases,
    Categorical,
    Chains,
    Checkpoint,
    Data,
    DaysOf,
    Delimiter,
    DictionaryFile,
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
    Keep,
    Labels,
    Missing,
    MissingRule,
    Model,
    ModelOption,
    ModelOut,
    NParents,
    ParentsRule,
    ParentsWay,
    Query,
    Regression,
    Scheduler,
    Seed,
    Target,
    Warmup,
)
from bayespatch.cli.tables import Wishes, read_training
from bayespatch.cli.terminal import counting, facts_text, say, show, table_text
from bayespatch.source import Training

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
    keep: Keep = None,
    age: AgeOf = None,
    days: DaysOf = None,
    as_of: AsOf = "today",
    dictionary: DictionaryFile = None,
    labels: Labels = None,
    categorical: Categorical = None,
    missing: MissingRule = Missing.auto,
    regression: Regression = False,
    model: ModelOption = Model.I,
    parents: ParentsRule = ParentsWay.auto,
    n_parents: NParents = None,
    hyper: HyperRule = Hyper.auto,
    engine: Engine = "auto",
    scheduler: Scheduler = None,
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
    $ bayespatch fit patients.csv --target outcome --labels 0=absent,1=present --dictionary dictionary.csv
    $ bayespatch fit patients.csv --target outcome --age born --as-of admitted
    $ bayespatch fit stays.parquet --target days --regression --drop admitted
    $ bayespatch fit sqlite:///clinic.db --query 'SELECT * FROM patients' --target outcome
    $ bayespatch fit registry.parquet --target outcome --draws 2000 --checkpoint run
    $ bayespatch fit registry.parquet --target outcome --engine dask --scheduler tcp://10.0.0.1:8786
    """
    check_new(force, out, cases)
    wishes = _wishes(target, regression, query, delimiter, id_column, drop, keep, age, days, as_of, dictionary)
    table, coded = read_training(data, wishes._replace(labels=labels))
    if hide_ids:
        X = table.X.reset_index(drop=True)
        X.attrs = table.X.attrs
        table = table._replace(X=X)
    settings = _settings(
        [*(categorical or ()), *coded],
        missing,
        model,
        parents,
        n_parents,
        hyper,
        engine,
        scheduler,
        chains,
        draws,
        warmup,
        seed,
        jobs,
    )
    try:
        estimator = fitted(new_estimator(regression, **settings, checkpoint=checkpoint), table.X, table.y)
    except KeyboardInterrupt:
        if checkpoint is not None:
            say(f"note: the same command goes on with what is in {checkpoint}")
        raise
    estimator.save(out, cases_path=cases, overwrite=force)
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
    keep: Keep = None,
    age: AgeOf = None,
    days: DaysOf = None,
    as_of: AsOf = "today",
    dictionary: DictionaryFile = None,
    categorical: Categorical = None,
    missing: MissingRule = Missing.auto,
    regression: Regression = False,
    model: ModelOption = Model.I,
    parents: ParentsRule = ParentsWay.auto,
    n_parents: NParents = None,
    hyper: HyperRule = Hyper.auto,
    engine: Engine = "auto",
    scheduler: Scheduler = None,
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

    table, coded = read_training(
        data, _wishes(target, regression, query, delimiter, id_column, drop, keep, age, days, as_of, dictionary)
    )
    settings = _settings(
        [*(categorical or ()), *coded],
        missing,
        model,
        parents,
        n_parents,
        hyper,
        engine,
        scheduler,
        chains,
        draws,
        warmup,
        seed,
        jobs,
    )
    if not regression:
        counts = table.y.value_counts()
        few = [f"{label} ({n})" for label, n in counts.items() if n < folds]
        if few:
            say(
                f"note: fewer cases than the {folds} folds: {', '.join(few[:6])}{' and more' if len(few) > 6 else ''}; "
                f"in some folds no method has seen such a class"
            )
    with counting("patchwork") as tell:
        estimator = new_estimator(regression, **settings)
        found = cross_validate(table.X, table.y, estimator, regression=regression, folds=folds, seed=seed, tell=tell)
    methods = [{"method": one.method, "scores": one.summary(), "seconds": one.seconds} for one in found]
    show({"target": target, "folds": folds, "methods": methods}, json, _standings(found, folds))


def _wishes(
    target: str,
    regression: bool,
    query: str | None,
    delimiter: str | None,
    id_column: str | None,
    drop: list[str] | None,
    keep: list[str] | None,
    age: list[str] | None,
    days: list[str] | None,
    as_of: str,
    dictionary: Path | None,
) -> Wishes:
    """What was said about the table."""
    return Wishes(
        target=target,
        regression=regression,
        query=query,
        delimiter=delimiter,
        id_column=id_column,
        drop=drop or (),
        keep=keep or (),
        age=age or (),
        days=days or (),
        as_of=as_of,
        dictionary=dictionary,
    )


def _settings(
    categorical: list[str] | None,
    missing: Missing,
    model: Model,
    parents: ParentsWay,
    n_parents: float | None,
    hyper: Hyper,
    engine: str,
    scheduler: str | None,
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
        "scheduler": scheduler,
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
    from bayespatch.sampling.diagnostics import MixingWarning

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
    called = [column.called for column in estimator.schema_.columns]
    importance = sorted(zip(estimator.feature_importances_, called, strict=True), reverse=True)
    return {
        "model": str(out),
        "cases": len(table.X),
        "features": table.X.shape[1],
        "outcome": estimator.target_ or str(table.y.name),
        "parents": len(estimator.parents_),
        "classes": list(estimator.class_names_) if hasattr(estimator, "classes_") else None,
        "rare_classes": _rare(estimator),
        "most_important": [str(name) for _, name in importance[:5]],
        "mixed": bool(estimator.diagnostics_.converged),
        "seconds": round(estimator.posterior_.timing.seconds, 2),
    }


def _rare(estimator: Any) -> list[str]:
    """Classes with one or two cases, and classes without a parent."""
    if not hasattr(estimator, "classes_"):
        return []
    counts = np.bincount(estimator.y_, minlength=len(estimator.class_names_))
    voting = np.bincount(estimator.y_[estimator.parents_], minlength=len(counts))
    return [
        f"{name} ({n}{'' if votes else ', no parent'})"
        for name, n, votes in zip(estimator.class_names_, counts.tolist(), voting.tolist(), strict=True)
        if n < 3 or not votes
    ]


def _said(value: Any) -> str:
    """A finding in words."""
    if value is None:
        return "none, the outcome is a number"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (", ".join(value) or "none") if isinstance(value, list) else str(value)


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
