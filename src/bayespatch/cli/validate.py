"""The command that validates a model on new cases with known outcomes."""

from __future__ import annotations

from bayespatch.cli.case import check_no_times, decision_of, load_model, read_frame
from bayespatch.cli.files import check_new
from bayespatch.cli.options import (
    ByPeriod,
    Cases,
    Cost,
    Data,
    DateColumn,
    Delimiter,
    Force,
    Json,
    ModelFile,
    OutcomeColumn,
    Query,
    Since,
    Threshold,
    Until,
    ValidationOut,
)
from bayespatch.cli.terminal import say, show, table_text, working
from bayespatch.cli.training_table import chosen_rows
from bayespatch.source import features_of
from bayespatch.source.dates import dates_of
from bayespatch.source.roles import check_column
from bayespatch.types import JSONObject

_FORMATS = {"day": "%Y-%m-%d", "month": "%Y-%m", "year": "%Y", "all": "all"}


def validate(
    model: ModelFile,
    data: Data,
    target: OutcomeColumn = None,
    query: Query = None,
    delimiter: Delimiter = None,
    date: DateColumn = None,
    since: Since = None,
    until: Until = None,
    every: ByPeriod = "year",
    threshold: Threshold = None,
    cost: Cost = None,
    out: ValidationOut = None,
    cases: Cases = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Validate a model on new cases with known outcomes: from another hospital, or from a later period.

    Reports discrimination and calibration with 95% intervals, drift between the past cases and the new ones, and
    performance by subgroup and, with --date, by period; with --threshold or --cost, it also reports the effects of
    flagging a class. For a temporal validation, fit with --until and validate with --since.

    Examples
    --------
    $ bayespatch validate model.bpatch new.csv --out validation.html
    $ bayespatch fit patients.csv --target outcome --date admitted --until 2024-01-01
    $ bayespatch validate model.bpatch patients.csv --date admitted --since 2024-01-01 --every month
    """
    from bayespatch.estimator import PatchworkClassifier
    from bayespatch.evaluation import validate as evaluate
    from bayespatch.report import validation_report

    check_new(force, out)
    loaded = load_model(model, cases)
    check_no_times(loaded, "validate")
    is_text = isinstance(loaded, PatchworkClassifier) and loaded.classes_.dtype.kind not in "biuf"
    named = target if target is not None else loaded.target_
    frame = read_frame(loaded, data, query, delimiter, [named] if is_text else [])
    if target is None and named not in frame.columns:
        raise ValueError(f"the table has no column {named!r}, which the model predicts; pass --target COLUMN")
    check_column(frame, named, "--target")
    frame = chosen_rows(frame, date, since, until)
    has_outcome = frame[named].notna()
    if not has_outcome.all():
        say(f"note: {int((~has_outcome).sum())} rows without {named!r} were dropped")
        frame = frame[has_outcome].reset_index(drop=True)
    periods = None if date is None else dates_of(frame[date]).dt.strftime(_FORMATS[every]).tolist()
    X = features_of(frame, loaded.schema_.names)
    with working(f"Validating on {len(X)} cases"):
        decision = decision_of(loaded, threshold, cost)
        result = evaluate(loaded, X, frame[named].tolist(), periods=periods, decision=decision).to_dict()
    if result["n_copies"]:
        say(
            f"note: {result['n_copies']} of {result['n']} new cases have all values of a past case; if these are the "
            f"same patients, the scores are too good: validate on patients that the model does not know"
        )
    if out is not None:
        validation_report(result, out, overwrite=force)
        say(f"wrote the page to {out}")
    show(result, json, _summary(result))


def _summary(result: JSONObject) -> str:
    """The results of a validation as text tables."""
    lines = [f"{result['n']} new cases; the model was trained on {result['n_past']} past cases", ""]
    rows = [
        [name, _number(score), _interval(result["intervals"][name]), _number(result["past_scores"].get(name))]
        for name, score in result["scores"].items()
    ]
    lines += [table_text(["score", "new cases", "95% interval", "past cases, leave-one-out"], rows), ""]
    rows = []
    for name, one in result["classes"].items():
        line = one["line"] or {"intercept": None, "slope": None}
        counts = f"{one['balance']['expected']:.1f} / {one['balance']['observed']}"
        precision = _number(one["average_precision"])
        rows.append([name, counts, _estimate(line["intercept"]), _estimate(line["slope"]), precision])
    headings = ["class", "expected / observed", "calibration intercept", "calibration slope", "average precision"]
    lines += [table_text(headings, rows), ""]
    if result["decision"] is not None:
        lines += [_decision_text(result["decision"]), ""]
    lines += [f"{100 * result['without_precedent']:.0f}% of the new cases have no adequate precedent (past cases: 5%)."]
    drifted = [one for one in result["drift"] if one["drifted"]]
    lines += [
        f"Drift: {one['feature']} ({one['past']} -> {one['new']}; missing {100 * one['missing_past']:.0f}% -> "
        f"{100 * one['missing_new']:.0f}%)"
        for one in drifted
    ] or ["No feature has drifted."]
    lines += [
        f"Poorly calibrated if {one['feature']} is {one['value']} ({one['n']} cases)"
        for one in result["subgroups"]
        if one["off"]
    ]
    if result["periods"]:
        names = ["AUC", "log loss", "Brier score"]
        rows = [
            [
                one["value"],
                str(one["n"]),
                *(_number(one["scores"][name]) for name in names),
            ]
            + [f"{100 * one['stated'][name]:.0f}% / {100 * one['observed'][name]:.0f}%" for name in one["stated"]]
            for one in result["periods"]
        ]
        headings = ["period", "cases", *names]
        headings += [f"{name}: predicted / observed" for name in result["classes"]]
        lines += ["", table_text(headings, rows)]
    return "\n".join(lines)


def _decision_text(one: JSONObject) -> str:
    """The effects of flagging a class at a threshold."""
    at = one["at"]
    names = {"sensitivity": "sensitivity", "specificity": "specificity", "PPV": "ppv", "NPV": "npv"}
    shares = ", ".join(f"{name} {'–' if at[key] is None else f'{100 * at[key]:.0f}%'}" for name, key in names.items())
    return (
        f"{one['label']} flagged at {100 * at['at']:.3g}% or more: {100 * at['called']:.0f}% of the cases; {shares}; "
        f"net benefit {at['net_benefit']:.3f} (flagging all cases {at['net_benefit_all']:.3f}, none 0)"
    )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _interval(ends: tuple[float, float] | None) -> str:
    return "–" if ends is None else f"{ends[0]:.3f} to {ends[1]:.3f}"


def _estimate(line: tuple[float, float, float] | None) -> str:
    return "–" if line is None else f"{line[1]:.2f} ({line[0]:.2f} to {line[2]:.2f})"
