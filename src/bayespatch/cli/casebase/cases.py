"""Commands for cases: search, export, forget, drift, monitor."""

from __future__ import annotations

from bayespatch.cli.casebase.opening import Opened, Person, case_of, counted, open_base, person, value_text
from bayespatch.cli.casebase.options import (
    CaseName,
    Descending,
    Every,
    Limit,
    Offset,
    Order,
    Reason,
    StateOption,
    TableName,
    Target,
    Where,
    Window,
    WithoutSensitive,
)
from bayespatch.cli.options import Json
from bayespatch.cli.shared import taking
from bayespatch.cli.terminal import say, show, table_text, working


@taking(opened=open_base, by=person)
def search(
    opened: Opened,
    by: Person,
    where: Where = None,
    state: StateOption = None,
    order: Order = "id",
    descending: Descending = False,
    offset: Offset = 0,
    limit: Limit = 20,
    json: Json = False,
) -> None:
    """Search for cases. The value 'null' matches missing values.

    Examples
    --------
    $ bayespatch casebase search clinic.db --where 'age>=60' --where 'pain=rest' --state past
    $ bayespatch casebase search clinic.db --where 'external_id=P-17' --json
    """
    from bayespatch.casebase.cases import read_condition

    with opened() as base:
        definition = base.definition
        page = base.search(
            [read_condition(one, definition) for one in where or ()],
            by=by(),
            state=state,
            order=order,
            descending=descending,
            offset=offset,
            limit=limit,
        )
    rows = [
        [
            str(one.id),
            one.external_id or "",
            one.state,
            value_text(one.outcome),
            *map(value_text, (one.values or {}).values()),
        ]
        for one in page.items
    ]
    names = ["case", "external id", "state", "outcome", *definition.features.names]
    rows = [row + [""] * (len(names) - len(row)) for row in rows]
    shown = counted(page.total, "case") + (f", from {page.offset + 1}" if rows and page.offset else "")
    show(page, json, f"{table_text(names, rows)}\n\n{shown}" if rows else shown)


@taking(opened=open_base, by=person)
def export(
    opened: Opened,
    to: Target,
    by: Person,
    state: StateOption = None,
    without_sensitive: WithoutSensitive = False,
    table: TableName = "cases",
    json: Json = False,
) -> None:
    """Write the cases to a CSV or Parquet file, or into a new table of a database.

    Examples
    --------
    $ bayespatch casebase export clinic.db past.csv --state past
    $ bayespatch casebase export clinic.db sqlite:///research.db --table cases --without-sensitive
    """
    with opened() as base, working("Writing"):
        n = base.export(to, by=by(), state=state, sensitive=not without_sensitive, table=table)
    show({"cases": n}, json, f"{counted(n, 'case')} written")


@taking(opened=open_base, by=person)
def forget(opened: Opened, case: CaseName, reason: Reason, by: Person, json: Json = False) -> None:
    """Forget a patient: delete the values from all tables, all models and the disk.

    The log records who forgot the case, when and why.

    Examples
    --------
    $ bayespatch casebase forget clinic.db 304 --reason 'asked for it on 3 May'
    """
    with opened() as base:
        done = base.forget(case_of(case), reason, by=by())
    if done.note is not None:
        say(f"note: {done.note}; it runs the next time the case base is opened")
    n = len(done.versions) + len(done.removed)
    gone = (
        f"removed from {counted(n, 'version')} of the model; a refit is recommended"
        if n
        else "no model had learned from it"
    )
    also = f", with {counted(len(done.visits), 'other visit')} of this patient" if done.visits else ""
    show(done, json, f"case {done.case_id} is forgotten{also}; {gone}")


@taking(opened=open_base, by=person)
def drift(opened: Opened, by: Person, every: Every = "month", json: Json = False) -> None:
    """Compare predictions with outcomes over time.

    Examples
    --------
    $ bayespatch casebase drift clinic.db
    $ bayespatch casebase drift clinic.db --every year --json
    """
    with opened() as base:
        periods = base.drift(by=by(), every=every)
    names = ["consultations", "without_precedent", "decisions", "agreement", "outcomes", "log_score", "accuracy"]
    rows = [[one["period"], *(value_text(one[name]) for name in names)] for one in periods]
    headings = ["period", *(name.replace("_", " ") for name in names)]
    show({"periods": periods}, json, table_text(headings, rows) if rows else "no consultations yet")


@taking(opened=open_base, by=person)
def monitor(opened: Opened, by: Person, window: Window = 90, json: Json = False) -> None:
    """Check whether recent patients, outcomes and outcome lag differ from earlier ones; exit code 1 on an alarm.

    Examples
    --------
    $ bayespatch casebase monitor clinic.db
    $ bayespatch casebase monitor clinic.db --days 30 --json
    """
    with opened() as base:
        checks = base.monitor(by=by(), days=window)
    rows = [
        *([f"stability of {one.column}", _figure(one.index), "", _figure(one.p)] for one in checks.population),
        *([one.label, f"{one.observed:.0%}", f"{one.expected:.0%}", _figure(one.p)] for one in checks.calibration),
        [
            "median days to outcome",
            _figure(checks.lag.median),
            _figure(checks.lag.median_before),
            _figure(checks.lag.p),
        ],
    ]
    table = table_text(["", "recent", "before or expected", "p"], rows)
    cases = f"{counted(checks.consultations, 'case')} in {checks.days} days, model version {checks.version}"
    show(checks, json, f"{table}\n\n{cases}")
    if checks.alarms:
        raise ValueError(" ".join(checks.alarms))


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"
