"""Commands for cases: search, export, forget, drift."""

from __future__ import annotations

from bayespatch.cli.casebase.opening import case_of, counted, open_base, person, value_text
from bayespatch.cli.casebase.options import (
    Base,
    By,
    CaseName,
    Descending,
    Every,
    Folder,
    Limit,
    Offset,
    Order,
    Period,
    Reason,
    StateOption,
    TableName,
    Target,
    Where,
    WithoutSensitive,
)
from bayespatch.cli.options import Json
from bayespatch.cli.terminal import say, show, table_text, working


def search(
    base: Base,
    where: Where = None,
    state: StateOption = None,
    order: Order = "id",
    descending: Descending = False,
    offset: Offset = 0,
    limit: Limit = 20,
    by: By = None,
    folder: Folder = None,
    json: Json = False,
) -> None:
    """Find cases; a value may be 'null', which is a missing one.

    Examples
    --------
    $ bayespatch casebase search clinic.db --where 'age>=60' --where 'pain=rest' --state past
    $ bayespatch casebase search clinic.db --where 'external_id=P-17' --json
    """
    from bayespatch.casebase.cases import read_condition

    with open_base(base, folder) as opened:
        known = opened.definition
        page = opened.search(
            [read_condition(one, known) for one in where or ()],
            by=person(by),
            state=None if state is None else state.value,
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
        for one in page.cases
    ]
    names = ["case", "external id", "state", "outcome", *known.features.names]
    rows = [row + [""] * (len(names) - len(row)) for row in rows]
    shown = counted(page.total, "case") + (f", from {page.offset + 1}" if rows and page.offset else "")
    show(page.to_dict(), json, f"{table_text(names, rows)}\n\n{shown}" if rows else shown)


def export(
    base: Base,
    to: Target,
    state: StateOption = None,
    without_sensitive: WithoutSensitive = False,
    table: TableName = "cases",
    by: By = None,
    folder: Folder = None,
    json: Json = False,
) -> None:
    """Write the cases to a CSV or Parquet file, or into a new table of a database.

    Examples
    --------
    $ bayespatch casebase export clinic.db past.csv --state past
    $ bayespatch casebase export clinic.db sqlite:///research.db --table cases --without-sensitive
    """
    with open_base(base, folder) as opened, working("Writing"):
        chosen = None if state is None else state.value
        n = opened.export(to, by=person(by), state=chosen, sensitive=not without_sensitive, table=table)
    show({"cases": n}, json, f"{counted(n, 'case')} written")


def forget(
    base: Base, case: CaseName, reason: Reason, by: By = None, folder: Folder = None, json: Json = False
) -> None:
    """Forget a patient: the values go from every table and every model at once, and from the disk.

    The log keeps who forgot the case, when and why.

    Examples
    --------
    $ bayespatch casebase forget clinic.db 304 --reason 'asked for it on 3 May'
    """
    with open_base(base, folder) as opened:
        done = opened.forget(case_of(case), reason, by=person(by))
    if done.note is not None:
        say(f"note: {done.note}; it will be done when the case base is opened next")
    n = len(done.versions) + len(done.removed)
    gone = f"gone from {counted(n, 'version')} of the model, a refit is due" if n else "it was in no model"
    show(done.to_dict(), json, f"case {done.case_id} is forgotten; {gone}")


def drift(base: Base, every: Every = Period.month, by: By = None, folder: Folder = None, json: Json = False) -> None:
    """Hold what the model said against what happened since.

    Examples
    --------
    $ bayespatch casebase drift clinic.db
    $ bayespatch casebase drift clinic.db --every year --json
    """
    with open_base(base, folder) as opened:
        found = opened.drift(by=person(by), every=every.value)
    names = ["consultations", "without_precedent", "decisions", "agreement", "outcomes", "log_score", "accuracy"]
    rows = [[one["period"], *(value_text(one[name]) for name in names)] for one in found]
    headings = ["period", *(name.replace("_", " ") for name in names)]
    show({"periods": found}, json, table_text(headings, rows) if rows else "no consultations yet")
