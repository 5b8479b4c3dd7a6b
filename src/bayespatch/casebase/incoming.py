"""Cases that come in as a table: what they are, where that is not known yet, and each of them checked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bayespatch.casebase.cases import Definition, check_external_id, read_definition
from bayespatch.casebase.errors import CaseBaseError
from bayespatch.dictionary import Dictionary, Value


def read_cases(
    table: Any,
    known: Definition | None,
    given: Dictionary | None,
    target: str | None,
    id_column: str | None,
    drop: set[str],
) -> tuple[Definition, list[dict[str, Value]], list[Value], list[str | None]]:
    """What the cases of a table are, and the cases: their values, outcomes and external ids."""
    names = [str(name) for name in table.columns]
    for option, wanted in {"id_column": id_column, "target": target}.items():
        if wanted is not None and wanted not in names:
            raise CaseBaseError(f"{option}={wanted!r} is not a column of the table, which has {', '.join(names)}")
    rows = table.astype(object).where(table.notna(), None).to_numpy().tolist()
    if known is None:
        if target is None:
            raise CaseBaseError("the case base is new; pass target, the column that is predicted")
        known = _new_definition(names, rows, given or Dictionary(), target, id_column, drop)
    else:
        if target not in (None, known.target.name):
            raise CaseBaseError(f"the case base predicts {known.target.name!r}, and not {target!r}; leave target out")
        if given is not None:
            raise CaseBaseError("the case base has a data dictionary already; change it with define")
    place = {name: j for j, name in enumerate(names)}
    absent = [name for name in known.features.names if name not in place]
    if absent:
        raise CaseBaseError(f"the table has no column {absent[0]!r}, which the cases have; its columns are {names}")
    own = {*known.features.names, known.target.name, id_column, *drop, *known.identifiers}
    strange = [name for name in names if name not in own]
    if strange:
        raise CaseBaseError(f"the table has a column {strange[0]!r}, which the cases do not have; pass it as drop")
    values, outcomes, external_ids = [], [], []
    for number, row in enumerate(rows, start=1):
        where = f"row {number}, "
        values.append({name: entry.check(row[place[name]], where) for name, entry in known.features.entries.items()})
        outcome = row[place[known.target.name]] if known.target.name in place else None
        outcomes.append(None if outcome is None else known.outcome(outcome, where))
        external_id = None if id_column is None else row[place[id_column]]
        if id_column is not None and external_id is None:
            raise CaseBaseError(f"row {number}, column {id_column!r}: has no identifier; fill it in")
        external_ids.append(check_external_id(external_id))
    return known, values, outcomes, external_ids


def _new_definition(
    names: list[str],
    rows: list[list[Any]],
    given: Dictionary,
    target: str,
    id_column: str | None,
    drop: set[str],
) -> Definition:
    """What the first table says about the cases."""
    left_out = {id_column, *drop} | {name for name in given.names if given[name].identifier}
    chosen = [j for j, name in enumerate(names) if name not in left_out]
    used = [names[j] for j in chosen]
    described = given.only(name for name in given.names if name not in left_out)
    identifiers = tuple(name for name in given.names if given[name].identifier)
    complete = described.completed(used, [[row[j] for j in chosen] for row in rows])
    entry = complete[target]
    if not entry.levels:
        place = names.index(target)
        found = {entry.check(row[place]) for row in rows} - {None}
        levels = tuple((value, str(value)) for value in sorted(found, key=lambda v: (isinstance(v, str), v)))
        complete = Dictionary({**complete.entries, target: replace(entry, levels=levels)})
    return read_definition(complete, target)._replace(identifiers=identifiers)
