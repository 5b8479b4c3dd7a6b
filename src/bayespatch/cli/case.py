"""The model and the cases that a command works on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from bayespatch.cli.app import usage_error
from bayespatch.cli.estimators import Estimator
from bayespatch.cli.files import write
from bayespatch.cli.options import (
    Cases,
    Delimiter,
    HideIds,
    Identifier,
    IdentifierColumn,
    JsonRow,
    MaybeData,
    ModelFile,
    Query,
    Row,
)
from bayespatch.cli.shared import json_object
from bayespatch.cli.terminal import as_json, say, visible, width, working
from bayespatch.decisions import DecisionThreshold, read_decision
from bayespatch.source import features_of, read
from bayespatch.types import JSONObject, TableLike

if TYPE_CHECKING:
    from bayespatch.encode.table import DataFrame
    from bayespatch.fitted import Fitted


class CommandResult(Protocol):
    """The result of a command for one case."""

    def to_dict(self) -> JSONObject:
        """Plain data."""

    def to_text(self, width: int) -> str:
        """Text for a terminal."""


class ChosenCase(NamedTuple):
    """The case that a command works on.

    Attributes
    ----------
    model : estimator
        The loaded model.
    row : table with one row, or dict
        The case itself.
    past_row : int or None
        Its row of the training table, if it is a past case.
    """

    model: Estimator
    row: TableLike
    past_row: int | None


def find_case(
    model: ModelFile,
    data: MaybeData = None,
    row: Row = None,
    identifier: Identifier = None,
    json_row: JsonRow = None,
    query: Query = None,
    delimiter: Delimiter = None,
    id_column: IdentifierColumn = None,
    cases: Cases = None,
    hide_ids: HideIds = False,
) -> ChosenCase:
    """The model, and the case selected with --row, --id or --json-row."""
    if sum(one is not None for one in (row, identifier, json_row)) != 1:
        raise usage_error("select the case with one of --row, --id and --json-row")
    loaded = load_model(model, cases)
    fitted = loaded.fitted_
    if hide_ids:
        loaded.fitted_ = replace(loaded.fitted_, ids=None)
    if json_row is not None:
        return ChosenCase(loaded, json_object(json_row, "--json-row"), None)
    if data is not None:
        X = read_cases(loaded, data, query, delimiter, id_column)
        place = _place(X, row, identifier, id_column)
        return ChosenCase(loaded, (X.reset_index(drop=True) if hide_ids else X).iloc[[place]], None)
    place = _past_row(fitted, row, identifier)
    columns, past = loaded.schema_.columns, fitted.past_cases(np.array([place]))
    values = {column.name: column.raw_value(float(v)) for column, v in zip(columns, past.values[0], strict=True)}
    return ChosenCase(loaded, values, place)


def check_no_times(model: Estimator, command: str) -> None:
    """Raise a ValueError if the model predicts a time to an event, which the command does not support."""
    from bayespatch.estimator import PatchworkSurvival

    if isinstance(model, PatchworkSurvival):
        raise ValueError(
            f"bayespatch {command} does not support survival models, and this one predicts {model.target_!r}, a time "
            f"to an event. Use bayespatch explain or bayespatch predict --intervals"
        )


def decision_of(model: Estimator, threshold: str | None, cost: str | None) -> DecisionThreshold | None:
    """The decision from the options, or the one stored with the model."""
    from bayespatch.estimator import PatchworkClassifier

    if not isinstance(model, PatchworkClassifier):
        if threshold or cost:
            raise ValueError("--threshold and --cost apply to classes, but this model predicts a number; remove them")
        return None
    requested = read_decision(threshold, cost, model.class_names_, model.classes_.tolist())
    return model.fitted_.decision if requested is None else requested


def load_model(path: Path, cases: Path | None) -> Estimator:
    """A model loaded with its past cases."""
    from bayespatch.estimator import load

    with working(f"Loading {path}"):
        model = load(path, cases=cases)
    if not model.fitted_.has_cases:
        raise ValueError(
            f"{str(path)!r} was saved without its past cases; pass the file that contains them: --cases FILE"
        )
    return model


def answer(result: CommandResult, json: bool, out: Path | None) -> None:
    """Write the result for a case to a file or to stdout, as JSON or as text that fits the terminal."""
    write(as_json(result.to_dict()) if json else visible(result.to_text(width())), out)
    if out is not None:
        say(f"wrote the answer to {out}")


def read_cases(
    model: Estimator, data: str, query: str | None, delimiter: str | None, id_column: str | None
) -> DataFrame:
    """The features of the cases of a table, read with the types of the training table."""
    schema, frame = model.schema_, read_frame(model, data, query, delimiter, [id_column] if id_column else [])
    return features_of(frame, schema.names if schema.named else list(frame.columns), id_column=id_column)


def read_frame(
    model: Estimator, data: str, query: str | None, delimiter: str | None, more_texts: list[str]
) -> DataFrame:
    """A raw table, read with the types of the training table."""
    schema = model.schema_
    texts = [column.name for column in schema.columns if column.family == "text"]
    numbers = {c.name: c.unit for c in schema.columns if c.family == "number" and not c.values}
    return read(data, query, delimiter=delimiter, texts=[*texts, *more_texts], numbers=numbers)


def _place(X: DataFrame, row: int | None, identifier: str | None, id_column: str | None) -> int:
    """The requested row of a table."""
    if identifier is not None:
        if id_column is None:
            raise usage_error("--id with DATA needs --id-column, the column of identifiers")
        return _found([str(name) for name in X.index], identifier)
    return _in_range(row, len(X), "the table")


def _past_row(fitted: Fitted, row: int | None, identifier: str | None) -> int:
    """The requested row of the training table."""
    n_rows = len(fitted.x) if fitted.elsewhere is None else fitted.n_past_cases
    if identifier is None:
        return _in_range(row, n_rows, "the training table")
    if fitted.ids is None:
        raise ValueError("the past cases have no identifiers; pass --row, or fit with --id COLUMN")
    rows = fitted.rows_named(identifier).tolist()
    if not rows:
        raise ValueError(f"--id {identifier!r} is not among the {n_rows} identifiers; correct it")
    return int(rows[0])


def _found(ids: list[str], identifier: str) -> int:
    if identifier not in ids:
        raise ValueError(f"--id {identifier!r} is not among the {len(ids)} identifiers; correct it")
    return ids.index(identifier)


def _in_range(row: int | None, n_rows: int, where: str) -> int:
    assert row is not None
    if row >= n_rows:
        raise ValueError(f"--row {row} is beyond the {n_rows} rows of {where}; pass a number from 0 to {n_rows - 1}")
    return row
