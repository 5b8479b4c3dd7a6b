"""The command that predicts the cases of a table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bayespatch.cli.app import usage_error
from bayespatch.cli.case import decision_of, load_model, read_cases
from bayespatch.cli.files import check_new, write
from bayespatch.cli.options import (
    Abstain,
    Cases,
    Cost,
    Data,
    Delimiter,
    FileOrFolderOut,
    Force,
    HideIds,
    IdColumn,
    Intervals,
    Json,
    Level,
    ModelFile,
    Query,
    Raw,
    Scheduler,
    Threshold,
    Times,
    Votes,
    Worklist,
)
from bayespatch.cli.predict_folder import check_new_folder, predict_files
from bayespatch.cli.predictions import as_csv, predictions
from bayespatch.cli.terminal import as_json, counting, say, working
from bayespatch.cli.worklist import flat_line, worklist_of
from bayespatch.source.parquet_parts import parquet_files


def predict(
    model: ModelFile,
    data: Data,
    out: FileOrFolderOut = None,
    intervals: Intervals = False,
    votes: Votes = False,
    worklist: Worklist = False,
    level: Level = 0.9,
    at: Times = [],  # noqa: B006  # read by typer and never changed
    abstain: Abstain = False,
    threshold: Threshold = None,
    cost: Cost = None,
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
    """Predict the cases of a table. Columns that are not in the model are ignored.

    With --abstain, cases without adequate precedent (at most 5% of the past cases are as unusual) get no prediction:
    empty cells, or null in JSON. Their number is printed on stderr.

    With --worklist, each case is listed with its interval, both opinions, the closest past case, warnings and the
    reasons why it deserves attention. The case with the highest risk relative to the base rate comes first.

    With --threshold or --cost, on the command line or in the data dictionary of fit, each case is flagged or not. A
    case is undecided if the interval of its probability includes the threshold; without a threshold, if the interval of
    the predicted class includes the probability of another class.

    DATA may be a table in many Parquet files: pass a folder, or a pattern in quotes. The files are predicted one at a
    time, or by the workers at --scheduler. --out is then a folder of Parquet files, which is created once all are
    complete.

    Examples
    --------
    $ bayespatch predict model.bpatch new.csv --out predictions.csv --intervals
    $ bayespatch predict model.bpatch new.csv --id patient --json
    $ bayespatch predict model.bpatch new.csv --abstain
    $ bayespatch predict model.bpatch new.csv --id patient --worklist --out worklist.csv
    $ bayespatch predict model.bpatch new.csv --cost 10:1
    $ bayespatch predict relapse.bpatch new.csv --at 365 --at 1825 --intervals
    $ zcat new.csv.gz | bayespatch predict model.bpatch -
    $ bayespatch predict model.bpatch 'new/*.parquet' --scheduler tcp://10.0.0.1:8786 --out predictions
    """
    if worklist and (intervals or votes or abstain):
        raise usage_error(
            "--worklist already includes intervals and precedents; remove --intervals, --votes and --abstain"
        )
    files = parquet_files(data)
    if files is not None:
        for option, given in {
            "--json": json,
            "--query": query,
            "--delimiter": delimiter,
        }.items():
            if given:
                raise usage_error(f"{option} works with one table, but {data!r} names several files; remove it")
        folder = check_new_folder(force, out)
        with working(f"Predicting the cases of {len(files)} files"):
            loaded = load_model(model, cases)
            n_cases = predict_files(
                loaded,
                files,
                folder,
                id_column=id_column,
                hide_ids=hide_ids,
                worklist=worklist,
                scheduler=scheduler,
                intervals=intervals,
                votes=votes,
                level=level,
                at=at,
                abstain=abstain,
                decision=decision_of(loaded, threshold, cost),
            )
        say(f"{n_cases} predictions written to {folder}")
        return
    check_new(force, out)
    loaded = load_model(model, cases)
    decision = decision_of(loaded, threshold, cost)
    if scheduler is not None:
        loaded.set_params(scheduler=scheduler)
    X = read_cases(loaded, data, query, delimiter, id_column)
    if hide_ids:
        X = X.reset_index(drop=True)
    if worklist:
        with counting("worklist") as tell:
            listed = worklist_of(loaded, X, level, decision, tell)
        document = {"model": str(model), "level": level, "worklist": listed} if json else None
        _deliver(document, lambda: as_csv([flat_line(one) for one in listed], named=id_column, raw=raw), out)
        if out is not None:
            say(f"{len(listed)} cases are in {out}, highest risk first")
        return
    with working(f"Predicting {len(X)} cases"):
        records = predictions(
            loaded, X, intervals=intervals, votes=votes, level=level, abstain=abstain, decision=decision, at=at
        )
    if abstain:
        n_refused = sum(one["class"] is None for one in records)
        say(f"note: {n_refused} of {len(records)} cases have no adequate precedent and were not predicted")
    document = {"model": str(model), "level": level, "predictions": records} if json else None
    _deliver(document, lambda: as_csv(records, named=id_column, raw=raw), out)
    if out is not None:
        say(f"{len(records)} predictions written to {out}")


def _deliver(document: object, table: Callable[[], str], out: Path | None) -> None:
    """Print the JSON document if requested; write the CSV table to `out`, or print it if there is no other output."""
    if document is not None:
        write(as_json(document), None)
    if out is not None or document is None:
        write(table(), out)
