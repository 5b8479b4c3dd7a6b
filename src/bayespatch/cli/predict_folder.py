"""Predictions or a worklist for a table in many Parquet files, written as Parquet files in one folder."""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bayespatch.cli.estimators import Estimator
from bayespatch.cli.predictions import flat, predictions
from bayespatch.cli.terminal import say
from bayespatch.cli.worklist import flat_line, worklist_of
from bayespatch.persistence.atomic import refuse, replacing_folder
from bayespatch.source import features_of
from bayespatch.source.parquet_parts import FilePart, parts_of, read_part, write_part
from bayespatch.types import Parameters

_TEXTS = ("file", "label", "closest", "outcome_of_closest", "attention", "warnings")
_PART = re.compile(r"part-\d{5,}\.parquet")


class _Request(NamedTuple):
    """What to compute for each case."""

    id_column: str | None
    hide_ids: bool
    worklist: bool
    wanted: Parameters  # arguments of `predictions`


class _Done(NamedTuple):
    """The result of one part."""

    path: str  # file with its predictions
    n_bytes: int
    n_cases: int
    n_refused: int
    n_unseen: dict[str, int]  # number of cases, by column
    n_outside: dict[str, int]


def check_new_folder(force: bool, path: Path | None) -> Path:
    """Check that a folder can be created, or replaced with --force, before any work is done."""
    if path is None:
        raise ValueError("predictions for several files need an output folder; pass it as --out")
    real = Path(os.path.realpath(path))
    if not real.parent.is_dir():
        raise refuse(path, f"there is no folder {real.parent}", "create it first, or correct the path")
    if not os.path.lexists(path):
        return path
    if not force:
        raise ValueError(f"{str(path)!r} already exists; pass --force to replace it, or choose another name")
    others = [] if real.is_dir() else [real.name]
    others = others or [name for name in os.listdir(real) if not _PART.fullmatch(name)]
    if others:
        raise ValueError(
            f"{str(path)!r} would be replaced but contains {others[0]!r}, which is not a predictions "
            f"file; choose another name"
        )
    return path


def predict_files(
    model: Estimator,
    files: Sequence[str],
    out: Path,
    *,
    id_column: str | None,
    hide_ids: bool,
    worklist: bool,
    scheduler: str | None,
    **wanted: Any,
) -> int:
    """Predict the cases of all files, in this process or on the workers at `scheduler`; returns their number.

    The folder appears once all files are complete. A case is identified by its identifier, or by file and row. Each
    part of a worklist is sorted by risk, highest first.
    """
    from bayespatch.explain.guards import OutOfRangeWarning
    from bayespatch.predict import UnseenValueWarning
    from bayespatch.workers import over_workers

    request = _Request(id_column, hide_ids, worklist, wanted)
    with replacing_folder(out) as folder:
        tasks = [(part, os.path.join(folder, f"part-{k:05d}.parquet")) for k, part in enumerate(parts_of(files))]
        if scheduler is None:
            with warnings.catch_warnings():
                for said_once_for_all in (UnseenValueWarning, OutOfRangeWarning):
                    warnings.simplefilter("ignore", said_once_for_all)
                done = [_predict_part((model, request), task) for task in tasks]
        else:
            model.set_params(engine="cpu", scheduler=None, n_jobs=1)
            done = list(over_workers(_predict_part, (model, request), tasks, scheduler))
        for part in done:
            if part.n_cases and not (os.path.exists(part.path) and os.path.getsize(part.path) == part.n_bytes):
                raise refuse(
                    out,
                    "a worker wrote its part to a different place",
                    "choose a folder that this machine shares with all workers",
                )
    n_cases = sum(part.n_cases for part in done)
    _say_notes(done, n_cases, bool(wanted.get("abstain")))
    return n_cases


def _say_notes(done: Sequence[_Done], n_cases: int, abstain: bool) -> None:
    """Print the notes about all parts together."""
    unseen: Counter[str] = sum((Counter(part.n_unseen) for part in done), Counter())
    beyond: Counter[str] = sum((Counter(part.n_outside) for part in done), Counter())
    if unseen:
        counts = ", ".join(f"{name!r} ({count})" for name, count in unseen.items())
        say(f"note: values that no past case has, in columns (number of cases): {counts}")
    if beyond:
        counts = ", ".join(f"{name!r} ({count})" for name, count in beyond.items())
        say(
            f"note: numbers far outside the range of the past cases, in columns (number of cases): {counts}; check them"
        )
    if abstain:
        n_refused = sum(part.n_refused for part in done)
        say(f"note: {n_refused} of {n_cases} cases have no adequate precedent and were not predicted")


def _predict_part(shared: tuple[Estimator, _Request], task: tuple[FilePart, str], n_threads: int = 1) -> _Done:
    """Read, predict and write one part, in the process that does the work."""
    from bayespatch.explain.guards import outside

    model, request = shared
    part, target = task
    frame = read_part(part)
    if not len(frame):
        return _Done(target, 0, 0, 0, {}, {})
    schema = model.schema_
    try:
        X = features_of(frame, schema.names if schema.named else list(frame.columns), id_column=request.id_column)
        encoded = schema.encode(X)
    except ValueError as error:
        raise ValueError(f"{part.label}: {error}") from None
    if request.hide_ids or request.id_column is None:
        X = X.set_axis(range(part.first, part.first + len(X)), axis=0)
    far = (outside(encoded.values, model.fitted_.ranges) != 0).sum(axis=0).tolist()
    if request.worklist:
        rows = [flat_line(one) for one in worklist_of(model, X, request.wanted["level"], request.wanted["decision"])]
    else:
        rows = [dict(flat(one)) for one in predictions(model, X, **request.wanted)]
    if "row" in rows[0]:
        rows = [{"file": part.file, **row} for row in rows]
    elif request.id_column:
        rows = [{request.id_column if name == "id" else name: value for name, value in row.items()} for row in rows]
    texts = {*_TEXTS, str(request.id_column), *(["predicted"] if hasattr(model, "classes_") else [])}
    texts |= {name for row in rows for name, value in row.items() if isinstance(value, str)}
    kinds = {name: "string" if name in texts else "int64" if name == "row" else "float64" for name in rows[0]}
    write_part(target, kinds, rows)
    n_refused = sum(row.get("predicted", "") is None for row in rows)
    n_outside = {name: count for name, count in zip(schema.names, far, strict=True) if count}
    return _Done(target, os.path.getsize(target), len(rows), n_refused, encoded.n_unseen, n_outside)
