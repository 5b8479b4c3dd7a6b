"""Commands that ask a model: predict, explain; and how every such command finds its case."""

from __future__ import annotations

import json as json_text
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from bayespatch.cli.app import usage_error
from bayespatch.cli.files import check_new, write
from bayespatch.cli.options import (
    Abstain,
    Cases,
    Change,
    Data,
    Delimiter,
    Force,
    Form,
    Format,
    HideIds,
    IdColumn,
    Identifier,
    IdentifierColumn,
    Intervals,
    Json,
    JsonRow,
    Level,
    MaybeData,
    MaybeOut,
    ModelFile,
    Query,
    Raw,
    Row,
    Scheduler,
    Top,
    Votes,
    Worklist,
)
from bayespatch.cli.predictions import as_csv, predictions
from bayespatch.cli.terminal import as_json, say, show, visible, width, working
from bayespatch.cli.worklist import flat_line, worklist_of
from bayespatch.source import features_of, read


def predict(
    model: ModelFile,
    data: Data,
    out: MaybeOut = None,
    intervals: Intervals = False,
    votes: Votes = False,
    worklist: Worklist = False,
    level: Level = 0.9,
    abstain: Abstain = False,
    query: Query = None,
    delimiter: Delimiter = None,
    id_column: IdColumn = None,
    cases: Cases = None,
    hide_ids: HideIds = False,
    raw: Raw = False,
    scheduler: Scheduler = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Predict the cases of a table, which may have other columns beside those that the model knows.

    With --abstain, a case that resembles the past less than 95 % of the past cases do gets no prediction: empty cells,
    or null in JSON. Their number is printed on stderr.

    With --worklist every case has its interval, both opinions, its nearest exemplar and its warnings, and those that
    deserve attention come first: no precedent, opinions that differ, values to check, undecided cases.

    Examples
    --------
    $ bayespatch predict model.bpatch new.csv --out predictions.csv --intervals
    $ bayespatch predict model.bpatch new.csv --id patient --json
    $ bayespatch predict model.bpatch new.csv --abstain
    $ bayespatch predict model.bpatch new.csv --id patient --worklist --out worklist.csv
    $ zcat new.csv.gz | bayespatch predict model.bpatch -
    $ bayespatch predict model.bpatch new.parquet --scheduler tcp://10.0.0.1:8786 --out predictions.csv
    """
    check_new(force, out)
    loaded = load_model(model, cases)
    if scheduler is not None:
        loaded.set_params(engine="dask", scheduler=scheduler)
    X = _read(loaded, data, query, delimiter, id_column)
    if hide_ids:
        X = X.reset_index(drop=True)
    if worklist and (intervals or votes or abstain):
        raise usage_error(
            "--worklist has intervals and precedents already; leave --intervals, --votes and --abstain out"
        )
    if worklist:
        with working(f"Explaining {len(X)} cases"):
            listed = worklist_of(loaded, X, level)
        if json:
            write(as_json({"model": str(model), "level": level, "worklist": listed}), None)
        if out is not None or not json:
            write(as_csv([flat_line(one) for one in listed], named=id_column, raw=raw), out)
        if out is not None:
            say(f"{len(listed)} cases are in {out}, those that deserve attention first")
        return
    with working(f"Predicting {len(X)} cases"):
        found = predictions(loaded, X, intervals=intervals, votes=votes, level=level, abstain=abstain)
    if abstain:
        n_refused = sum(one["class"] is None for one in found)
        say(f"note: {n_refused} of {len(found)} cases have no adequate precedent, and so no prediction")
    if json:
        write(as_json({"model": str(model), "level": level, "predictions": found}), None)
    if out is not None or not json:
        write(as_csv(found, named=id_column, raw=raw), out)
    if out is not None:
        say(f"{len(found)} predictions are in {out}")


def explain(
    model: ModelFile,
    data: MaybeData = None,
    row: Row = None,
    identifier: Identifier = None,
    json_row: JsonRow = None,
    form: Form = None,
    out: MaybeOut = None,
    change: Change = None,
    top: Top = 4,
    level: Level = 0.9,
    query: Query = None,
    delimiter: Delimiter = None,
    id_column: IdentifierColumn = None,
    cases: Cases = None,
    hide_ids: HideIds = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Show the patchwork of one case: which past cases vote on it, through which features, and how far to trust it.

    What comes out, the ending of --out says: .txt, .json, .html, .png or .pdf. With --change a page (.html) also says
    which smallest change of these features would change the prediction.

    Examples
    --------
    $ bayespatch explain model.bpatch new.csv --row 0
    $ bayespatch explain model.bpatch new.csv --id-column patient --id P-17 --out P-17.html
    $ bayespatch explain model.bpatch --id P-03 --format json
    $ bayespatch explain model.bpatch --json-row '{"age": 61, "pain": "none"}' --out case.png
    """
    chosen = _format(form, out, json)
    if change and chosen is not Format.html:
        raise usage_error("--change is for a page: --out case.html; or use 'bayespatch counterfactual'")
    check_new(force, out)
    case = find_case(model, data, row, identifier, json_row, query, delimiter, id_column, cases, hide_ids)
    loaded, wishes = case.model, {"top": top, "level": level}
    if case.past_row is not None:
        why = loaded.explain_past(case.past_row, known=False, **wishes)
    else:
        why = loaded.explain(case.row, **wishes)
    other = loaded.counterfactual(case.row, change, **wishes).to_dict() if change else None
    write(_rendered(why, chosen, other), out)
    if out is not None:
        show({"explanation": str(out)}, json, f"the explanation is in {out}")


class Case(NamedTuple):
    """The case that a command is about.

    Attributes
    ----------
    model : estimator
        That was loaded.
    row : table with one row, or dict
        The case itself.
    past_row : int or None
        Its row of the training table, where it is a past case.
    """

    model: Any
    row: Any
    past_row: int | None


def find_case(
    model: Path,
    data: str | None,
    row: int | None,
    identifier: str | None,
    json_row: str | None,
    query: str | None,
    delimiter: str | None,
    id_column: str | None,
    cases: Path | None,
    hide_ids: bool,
) -> Case:
    """The model, and the case that was named by one of --row, --id and --json-row."""
    if sum(one is not None for one in (row, identifier, json_row)) != 1:
        raise usage_error("name the case by one of --row, --id and --json-row")
    loaded = load_model(model, cases)
    ids = loaded.ids_
    if hide_ids:
        loaded.ids_ = None
    if json_row is not None:
        return Case(loaded, _object(json_row), None)
    if data is not None:
        X = _read(loaded, data, query, delimiter, id_column)
        place = _place(X, row, identifier, id_column)
        return Case(loaded, (X.reset_index(drop=True) if hide_ids else X).iloc[[place]], None)
    place = _past_row(loaded, ids, row, identifier)
    columns = loaded.schema_.columns
    values = {column.name: column.raw_value(float(v)) for column, v in zip(columns, loaded.values_[place], strict=True)}
    return Case(loaded, values, place)


def load_model(path: Path, cases: Path | None) -> Any:
    """A model that has its past cases."""
    from bayespatch.estimator import load
    from bayespatch.persistence.model_file import LeftOut

    with working(f"Loading {path}"):
        model = load(path, cases=cases)
    if isinstance(model.x_, LeftOut):
        raise ValueError(
            f"{str(path)!r} was written without its past cases; pass the file that holds them: --cases FILE"
        )
    return model


def _read(model: Any, data: str, query: str | None, delimiter: str | None, id_column: str | None) -> Any:
    """The features of the cases of a table, texts as texts where the model has learned them as such."""
    schema = model.schema_
    texts = [column.name for column in schema.columns if column.family == "text"]
    frame = read(data, query, delimiter=delimiter, texts=[*texts, *([id_column] if id_column else [])])
    return features_of(frame, schema.names if schema.named else list(frame.columns), id_column=id_column)


def _format(form: Format | None, out: Path | None, json: bool) -> Format:
    endings = {
        ".json": Format.json,
        ".html": Format.html,
        ".htm": Format.html,
        ".png": Format.png,
        ".pdf": Format.pdf,
        ".txt": Format.text,
        "": Format.text,
    }
    by_name = None if out is None else endings.get(out.suffix.lower())
    if out is not None and form is None and by_name is None:
        known = ", ".join(ending for ending in endings if ending)
        raise usage_error(f"--out {str(out)!r}: {out.suffix!r} is no kind of explanation; end it in {known}")
    if form is not None and by_name is not None and out is not None and out.suffix and form is not by_name:
        raise usage_error(
            f"--format {form.value} does not go into {str(out)!r}; give the file the ending .{form.value}"
        )
    chosen = form or by_name or (Format.json if json else Format.text)
    if chosen in (Format.png, Format.pdf) and out is None:
        raise usage_error(f"a picture needs a file: --out case.{chosen.value}")
    return chosen


def _object(text: str) -> dict[str, Any]:
    try:
        found = json_text.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"--json-row is not JSON ({error}); pass an object such as '{{\"age\": 61}}'") from error
    if not isinstance(found, dict):
        raise ValueError(f"--json-row is {text[:40]}, which is no object; pass one such as '{{\"age\": 61}}'")
    return found


def _place(X: Any, row: int | None, identifier: str | None, id_column: str | None) -> int:
    """The row of a table that was asked for."""
    if identifier is not None:
        if id_column is None:
            raise usage_error("--id with DATA needs --id-column: the column that has the identifiers")
        return _found([str(name) for name in X.index], identifier)
    return _in_range(row, len(X), "the table")


def _past_row(model: Any, ids: tuple[str, ...] | None, row: int | None, identifier: str | None) -> int:
    """The row of the training table that was asked for."""
    if identifier is None:
        return _in_range(row, len(model.x_), "the training table")
    if ids is None:
        raise ValueError("the past cases have no identifiers; pass --row, or name the column with --id when you fit")
    return _found(list(ids), identifier)


def _found(ids: list[str], identifier: str) -> int:
    if identifier not in ids:
        raise ValueError(f"--id {identifier!r} is none of the {len(ids)} identifiers; correct it")
    return ids.index(identifier)


def _in_range(row: int | None, n_rows: int, where: str) -> int:
    assert row is not None
    if row >= n_rows:
        raise ValueError(f"--row {row} is beyond the {n_rows} rows of {where}; pass a number from 0 to {n_rows - 1}")
    return row


def _rendered(why: Any, form: Format, counterfactual: dict[str, Any] | None = None) -> str | bytes:
    """An explanation in one of its forms."""
    if form is Format.text:
        return visible(why.to_text(width()))
    if form is Format.json:
        return as_json(why.to_dict())
    if form is Format.html:
        from bayespatch.report import case_page

        return case_page(why, counterfactual)
    from bayespatch.plot import patchwork

    picture = BytesIO()
    figure: Any = patchwork(why).figure
    figure.savefig(picture, format=form.value, dpi=150, bbox_inches="tight")
    return picture.getvalue()
