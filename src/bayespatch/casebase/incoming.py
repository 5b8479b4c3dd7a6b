"""Cases of an imported table: their definition, their checked values, and repeated rows."""

from __future__ import annotations

import json
import warnings
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from sqlalchemy import Connection, select

from bayespatch.casebase.cases import Definition, check_external_id, check_patient, not_a_class, read_definition
from bayespatch.casebase.errors import CaseBaseError, ConflictError
from bayespatch.casebase.follow_up import checked
from bayespatch.casebase.tables import cases
from bayespatch.dictionary import Dictionary, Value
from bayespatch.duplicates import duplicate_groups
from bayespatch.encode.table import DataFrame
from bayespatch.source.roles import MOST_NUMBERED_CLASSES


class RepeatedCasesWarning(UserWarning):
    """Imported cases repeat others, or nearly do, more often than chance explains."""


def read_cases(
    table: DataFrame,
    definition: Definition | None,
    given: Dictionary | None,
    target: str | None,
    id_column: str | None,
    drop: set[str],
    group_column: str | None = None,
) -> tuple[Definition, list[dict[str, Value]], list[Value], list[str | None], list[str | None], list[dict[str, Value]]]:
    """The definition of a table's cases, and their values, outcomes, external ids, patients and follow-up."""
    drop = drop | ({group_column} if group_column else set())
    names = [str(name) for name in table.columns]
    for option, wanted in {"id_column": id_column, "target": target, "group_column": group_column}.items():
        if wanted is not None and wanted not in names:
            raise CaseBaseError(f"{option}={wanted!r} is not a column of the table, which has {', '.join(names)}")
    rows = table.astype(object).where(table.notna(), None).to_numpy().tolist()
    if definition is None:
        if target is None:
            raise CaseBaseError("the case base is new; pass target, the column to predict")
        definition = _new_definition(names, rows, given or Dictionary(), target, id_column, drop)
    else:
        if target not in (None, definition.target.name):
            raise CaseBaseError(f"the case base predicts {definition.target.name!r}, not {target!r}; omit target")
        if given is not None:
            raise CaseBaseError(
                "the case base already has a data dictionary; omit it here, or change it with "
                "'bayespatch casebase init BASE --dictionary FILE --target COLUMN' (CaseBase.define in Python)"
            )
    place = {name: j for j, name in enumerate(names)}
    absent = [name for name in definition.features.names if name not in place]
    if absent:
        raise CaseBaseError(
            f"the table has no column {absent[0]!r}, which the case base requires; its columns are {names}"
        )
    features, later_columns = definition.features, definition.follow_up.names
    own = {*features.names, *later_columns, definition.target.name, id_column, *drop, *definition.identifiers}
    strange = [name for name in names if name not in own]
    if strange:
        raise CaseBaseError(f"the table has a column {strange[0]!r}, which is not in the case base; list it in drop")
    values, outcomes, external_ids, patients, recorded = [], [], [], [], []
    for number, row in enumerate(rows, start=1):
        where = f"row {number}, "
        values.append({name: entry.check(row[place[name]], where) for name, entry in features.entries.items()})
        outcome = row[place[definition.target.name]] if definition.target.name in place else None
        outcomes.append(None if outcome is None else definition.outcome(outcome, where))
        external_id = None if id_column is None else row[place[id_column]]
        if id_column is not None and external_id is None:
            raise CaseBaseError(f"row {number}, column {id_column!r}: the identifier is missing; add one")
        external_ids.append(check_external_id(external_id))
        patients.append(None if group_column is None else check_patient(row[place[group_column]], where))
        later = {name: row[place[name]] for name in later_columns if name in place}
        later = {name: value for name, value in later.items() if value is not None}
        recorded.append(checked(definition, later, {}, where) if later else {})
    return definition, values, outcomes, external_ids, patients, recorded


def _new_definition(
    names: list[str],
    rows: list[list[object]],
    given: Dictionary,
    target: str,
    id_column: str | None,
    drop: set[str],
) -> Definition:
    """The definition of the cases from the first table."""
    left_out = {id_column, *drop} | {name for name in given.names if given[name].identifier}
    chosen = [j for j, name in enumerate(names) if name not in left_out]
    used = [names[j] for j in chosen]
    described = given.only(name for name in given.names if name not in left_out)
    identifiers = tuple(name for name in given.names if given[name].identifier)
    complete = described.completed(used, [[row[j] for j in chosen] for row in rows])
    entry = complete[target]
    if not entry.levels and not entry.event:
        place = names.index(target)
        outcomes = {entry.check(row[place]) for row in rows} - {None}
        if entry.kind == "number" and len(outcomes) > MOST_NUMBERED_CLASSES:
            raise CaseBaseError(not_a_class(target, f"a number with {len(outcomes)} different values"))
        levels = tuple((value, str(value)) for value in sorted(outcomes, key=lambda v: (isinstance(v, str), v)))
        complete = Dictionary({**complete.entries, target: replace(entry, levels=levels)})
    return read_definition(complete, target)._replace(identifiers=identifiers)


def check_repeats(connection: Connection, definition: Definition, new: range, *, named: bool) -> None:
    """Reject new cases that repeat others; if identifiers distinguish the rows, only warn.

    Rejected are a table that was imported before, and rows that equal a case in all values and in the outcome if there
    are more of them than chance explains (`duplicate_groups`).
    """
    query = select(cases.c.id, cases.c["values"], cases.c.outcome, cases.c.entered_at).order_by(cases.c.id)
    rows = [row for row in connection.execute(query) if row.values is not None]
    keys = [(json.dumps(row.values, sort_keys=True), row.outcome) for row in rows]
    first: dict[tuple[str, str | None], int] = {}
    earlier = [first.setdefault(key, row.id) for key, row in zip(keys, rows, strict=True)]
    imports: dict[str, Counter[tuple[str, str | None]]] = defaultdict(Counter)
    for key, row in zip(keys, rows, strict=True):
        imports["new" if row.id in new else row.entered_at][key] += 1
    again = len(new) > 1 and any(imports["new"] == batch for at, batch in imports.items() if at != "new")
    groups = duplicate_groups(*_coded([row.values for row in rows], definition.features))
    close = {int(i) for group in groups for i in group if rows[i].id in new and len(group) > 1}
    equal = [i for i, row in enumerate(rows) if row.id in new and earlier[i] != row.id and (again or i in close)]
    if equal and not named:
        row, case = 1 + rows[equal[0]].id - new.start, earlier[equal[0]]
        same = f"row {row} equals " + (f"row {1 + case - new.start}" if case in new else f"case {case}")
        what = (
            "all rows of the table were already imported" if again else f"{len(equal)} of {len(new)} rows are repeats"
        )
        raise ConflictError(
            f"{what} ({same} in all values and in the outcome); remove them, name a column of identifiers with --id, "
            f"or pass --allow-repeats to add them again (allow_repeats=True in Python)"
        )
    if close:
        warnings.warn(
            f"{len(close)} of {len(new)} rows repeat another case or nearly do, more than chance explains (such as row "
            f"{1 + rows[min(close)].id - new.start}); check that no patient was entered twice",
            RepeatedCasesWarning,
            stacklevel=3,
        )


def _coded(rows: Sequence[dict[str, Value]], features: Dictionary) -> tuple[np.ndarray, np.ndarray]:
    """Values of cases as numbers, categories by codes, and which columns are numbers."""
    columns, is_number = [], []
    for name, entry in features.entries.items():
        is_number.append(entry.kind == "number" and not entry.levels)
        codes: dict[Value, float] = {}
        column = [row.get(name) for row in rows]
        columns.append(
            [
                np.nan if value is None else value if is_number[-1] else codes.setdefault(value, float(len(codes)))
                for value in column
            ]
        )
    return np.array(columns, dtype=np.float64).T, np.array(is_number, dtype=np.bool_)
