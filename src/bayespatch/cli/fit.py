"""The command that trains a model on a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bayespatch.cli.estimators import Estimator, estimator_settings, fitted, new_estimator, new_survival
from bayespatch.cli.files import check_new
from bayespatch.cli.options import Cases, Checkpoint, Force, HideIds, Json, Labels, ModelOut
from bayespatch.cli.shared import taking
from bayespatch.cli.terminal import facts_text, say, show
from bayespatch.cli.training_table import TableOptions, read_training, read_training_files
from bayespatch.persistence.checkpoint_folder import STATE
from bayespatch.source import Training
from bayespatch.source.parquet_parts import parquet_files
from bayespatch.types import JSONObject

if TYPE_CHECKING:
    from bayespatch.encode.table import DataFrame, Series


@taking(read_options=TableOptions, settings=estimator_settings)
def fit(
    read_options: Callable[[], TableOptions],
    settings: Callable[[], JSONObject],
    out: ModelOut = Path("model.bpatch"),
    labels: Labels = None,
    checkpoint: Checkpoint = None,
    cases: Cases = None,
    hide_ids: HideIds = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Train a model on a table of past cases.

    Blank, NA, N/A, NaN, null and ? are missing values. The model file contains the past cases, with their identifiers
    unless you pass --hide-ids. Protect it like the table, or write the cases to a separate file with --cases.

    DATA may be a table in many Parquet files: pass a folder, or a pattern in quotes. The files are read one at a time,
    or by the workers at --scheduler. With more than 100,000 rows, the rows are stored in a folder next to the
    model, and all of them vote.

    Examples
    --------
    $ bayespatch fit patients.csv --target outcome --id patient --out model.bpatch
    $ bayespatch fit patients.csv --target outcome --labels 0=absent,1=present --dictionary dictionary.csv
    $ bayespatch fit patients.csv --target outcome --age born --as-of admitted
    $ bayespatch fit patients.csv --target outcome --date admitted --until 2024-01-01
    $ bayespatch fit stays.parquet --target days --regression --drop admitted
    $ bayespatch fit patients.csv --time days --event died
    $ bayespatch fit patients.csv --target outcome --follow-up therapy=treatment --follow-up days=time:died
    $ bayespatch fit sqlite:///clinic.db --query 'SELECT * FROM patients' --target outcome
    $ bayespatch fit registry.parquet --target outcome --votes sampled --checkpoint run
    $ bayespatch fit 'registry/*.parquet' --target outcome --scheduler tcp://10.0.0.1:8786
    """
    check_new(force, out, cases)
    options, given = read_options(), settings()
    files, sample = parquet_files(options.data), None
    if files is None:
        table, coded, follow_up = read_training(options, labels)
    else:
        how = {"categorical": given["categorical"], "seed": given["random_state"], "scheduler": given["scheduler"]}
        (table, coded, follow_up), sample = read_training_files(options, files, labels, **how)
    if hide_ids:
        X = table.X.reset_index(drop=True)
        X.attrs = table.X.attrs
        table = table._replace(X=X)
    y: DataFrame | Series = table.y
    if table.event is not None:
        y = table.y.to_frame().assign(**{str(table.event.name): table.event})[[table.event.name, table.y.name]]
        y.attrs["unit"] = table.y.attrs.get("unit", "")
        estimator = new_survival(coded, checkpoint=checkpoint, **given)
    else:
        estimator = new_estimator(options.regression, coded, checkpoint=checkpoint, **given)
    try:
        if sample is None:
            fitted(estimator, table.X, y, table.groups, follow_up or None)
        else:
            fitted(estimator, replace(sample, X=table.X), None)
    except KeyboardInterrupt:
        if checkpoint is not None and (checkpoint / STATE).exists():
            say(f"note: run the same command again to continue from {checkpoint}")
        raise
    estimator.save(out, cases_path=cases, overwrite=force)
    facts = _findings(estimator, table, out)
    if sample is not None:
        facts |= {"files": len(files or ()), "rows": sample.summary.n_rows}
    show(facts, json, facts_text({name.replace("_", " "): _fact_text(value) for name, value in facts.items()}))


def _findings(estimator: Estimator, table: Training, out: Path) -> JSONObject:
    """The summary of a fit."""
    from bayespatch.estimator import PatchworkClassifier

    columns, importance = estimator.schema_.columns, estimator.fitted_.importance
    if not importance.certain.any():
        say(
            "note: no feature clearly improves the predictions (all intervals of importance include 0); see the "
            "intervals with bayespatch report"
        )
    ranked = np.argsort(-importance.gains, kind="stable")
    return {
        "model": str(out),
        "cases": estimator.fitted_.n_past_cases,
        "features": len(columns),
        "outcome": estimator.target_ or str(table.y.name),
        "voting_cases": estimator.fitted_.n_voting,
        "classes": list(estimator.class_names_) if isinstance(estimator, PatchworkClassifier) else None,
        "rare_classes": _rare(estimator),
        "most_important": [columns[j].called for j in ranked[:5] if importance.gains[j] > 0.0],
        "converged": bool(estimator.diagnostics_.converged),
        "seconds": round(estimator.posterior_.timing.seconds, 2),
    }


def _rare(estimator: Estimator) -> list[str]:
    """Classes with one or two cases, and classes without a parent."""
    from bayespatch.estimator import PatchworkClassifier

    if not isinstance(estimator, PatchworkClassifier):
        return []
    counts = np.bincount(estimator.y_, minlength=len(estimator.class_names_))
    voting = np.bincount(estimator.y_[estimator.parents_], minlength=len(counts))
    return [
        f"{name} ({n}{'' if votes else ', none votes'})"
        for name, n, votes in zip(estimator.class_names_, counts.tolist(), voting.tolist(), strict=True)
        if n < 3 or not votes
    ]


def _fact_text(value: object) -> str:
    """A value of the summary as text."""
    if value is None:
        return "none (the outcome is a number or a time)"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return (", ".join(value) or "none") if isinstance(value, list) else str(value)
