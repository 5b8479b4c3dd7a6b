"""The command that predicts the cases of a table."""

from __future__ import annotations

from bayespatch.cli.app import usage_error
from bayespatch.cli.case import load_model, read_cases
from bayespatch.cli.files import check_new, write
from bayespatch.cli.options import (
    Abstain,
    Cases,
    Data,
    Delimiter,
    Force,
    HideIds,
    IdColumn,
    Intervals,
    Json,
    Level,
    MaybeOut,
    ModelFile,
    Query,
    Raw,
    Scheduler,
    Votes,
    Worklist,
)
from bayespatch.cli.predictions import as_csv, predictions
from bayespatch.cli.terminal import as_json, say, working
from bayespatch.cli.worklist import flat_line, worklist_of


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

    With --abstain, a case gets no prediction where 5 % of the past cases or fewer are as atypical as it: empty cells,
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
    X = read_cases(loaded, data, query, delimiter, id_column)
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
