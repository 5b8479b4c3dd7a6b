"""Cases: adding them, recording their outcomes, and searching them.

A case is *open* from its first visit until its outcome is known and someone retains it. Then it is a *past* case: it
votes on every new case, no longer changes, and the next refit learns from it. A *withdrawn* case was forgotten; only
its number remains.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, func, insert, inspect, literal_column, select, text, update

from bayespatch.casebase.audit import Transaction
from bayespatch.casebase.errors import CaseBaseError, ConflictError, NotFoundError, UnavailableError
from bayespatch.casebase.tables import Row, cases, models, settings
from bayespatch.dictionary import Dictionary, Entry, Value
from bayespatch.types import JSONObject

OPEN, PAST, WITHDRAWN = STATES = ("open", "past", "withdrawn")
OPERATORS = ("=", "!=", "<", "<=", ">", ">=")
_WHOLE, _NUMBER = re.compile(r"-?\d{1,30}", re.ASCII), re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
MOST_AT_ONCE = 1000  # cases on a page

Condition = tuple[str, str, object]  # column, operator, value


@dataclass(frozen=True)
class Case:
    """The current state of a case."""

    id: int
    external_id: str | None
    patient: str | None
    state: str
    values: dict[str, Value] | None
    outcome: Value
    outcome_at: str | None
    outcome_by: str | None
    entered_at: str
    entered_by: str


@dataclass(frozen=True)
class Page:
    """One page of the cases that match a search, and the total number of matches."""

    items: tuple[Case, ...]
    total: int
    offset: int


class Definition(NamedTuple):
    """The columns of the cases: features, outcome, identifiers and follow-up columns."""

    features: Dictionary
    target: Entry
    identifiers: tuple[str, ...] = ()  # columns of imported tables that are not stored
    follow_up: Dictionary = Dictionary()  # recorded, not compared

    @property
    def classes(self) -> dict[str, Value]:
        """Label of a class -> the outcome itself."""
        return {label: value for value, label in self.target.levels}

    def outcome(self, value: object, where: str = "") -> Value:
        """Convert an outcome, passed as a value, its label or text, to its stored form."""
        if isinstance(value, str) and value not in self.classes:
            for level, label in self.target.levels:
                if value == str(level):
                    value = label
        plain = self.target.check(value, where)
        if plain is None:
            raise CaseBaseError(f"{where}the outcome {self.target.name!r} is missing; pass one of {list(self.classes)}")
        return plain

    def class_name(self, outcome: Value) -> str:
        """The label of an outcome."""
        return self.target.labels[outcome]


# Definition


def stored_definition(connection: Connection) -> Definition | None:
    """The definition of the cases; None until cases are imported or defined."""
    stored = connection.execute(select(settings.c.value).where(settings.c.key == "definition")).scalar()
    if stored is None:
        return None
    entries = Dictionary.from_dict(stored["dictionary"])
    target = entries[stored["target"]]
    features = entries.only(name for name in entries.names if name != target.name)
    recorded = stored.get("follow_up")
    follow_up = Dictionary.from_dict(recorded) if recorded else Dictionary()
    return Definition(features, target, tuple(stored["identifiers"]), follow_up)


def required_definition(connection: Connection) -> Definition:
    """The definition of the cases; UnavailableError until cases are imported or defined."""
    definition = stored_definition(connection)
    if definition is None:
        raise UnavailableError(
            "the case base has no columns yet; import past cases, or define the columns with a data dictionary"
        )
    return definition


def not_a_class(target: str, what: str) -> str:
    """The message for an outcome that a case base cannot predict."""
    return (
        f"column {target!r} is {what}, and a case base predicts classes. Name an outcome known at a fixed time as the "
        f"target, such as relapse within two years, and describe the time in the data dictionary with role: follow-up "
        f"and its event. For survival curves, use 'bayespatch fit --time COLUMN --event COLUMN' (PatchworkSurvival)"
    )


def read_definition(dictionary: Dictionary, target: str) -> Definition:
    """A definition from a dictionary that describes features and outcome."""
    entry = dictionary[target]
    if entry.identifier:
        raise CaseBaseError(f"column {target!r} is an identifier and cannot be the outcome; name another column")
    if entry.event:
        raise CaseBaseError(not_a_class(target, "a time to an event"))
    if len(entry.levels) < 2:
        raise CaseBaseError(
            f"column {target!r} is the outcome and needs at least two levels in the data dictionary; name them"
        )
    kinds = dictionary.follow_up
    recorded = dict.fromkeys(kinds) | {kind[1]: None for kind in kinds.values() if isinstance(kind, tuple)}
    absent = [name for name in recorded if name not in dictionary]
    if absent or target in recorded:
        wrong = "is not described in it" if absent else "is the outcome"
        raise CaseBaseError(f"data dictionary: follow-up column {(absent or [target])[0]!r} {wrong}; correct it")
    others = {target, *recorded}
    features = [name for name in dictionary.names if name not in others and not dictionary[name].identifier]
    if not features:
        raise CaseBaseError(
            "the data dictionary describes no feature apart from the outcome and identifiers; add at least one"
        )
    identifiers = tuple(name for name in dictionary.names if dictionary[name].identifier)
    return Definition(dictionary.only(features), entry, identifiers, dictionary.only(recorded))


def store_definition(transaction: Transaction, new: Definition) -> None:
    """Store a definition; cases that are already stored must agree with it."""
    old = stored_definition(transaction.connection)
    if old == new:
        return
    if old is not None and transaction.execute(select(func.count()).select_from(models)).scalar():
        # Models and stored consultations name the classes.
        kept = {value: new.target.labels.get(value) for value in old.target.labels}
        if (old.target.name, old.target.labels) != (new.target.name, kept):
            raise CaseBaseError(f"the classes of {old.target.name!r} cannot be renamed or removed once a model exists")
    n_checked = 0
    live = select(cases.c.id, cases.c["values"], cases.c.outcome).where(cases.c.state != WITHDRAWN)
    for row in transaction.execute(live.execution_options(yield_per=1000)):
        where = f"case {row.id}: "
        if new.features.check_row(row.values, where) != row.values:
            raise CaseBaseError(f"{where}its values would change under the new data dictionary; keep the old kinds")
        if row.outcome is not None:
            new.outcome(json.loads(row.outcome), where)
        n_checked += 1
    entries = {**new.features.entries, new.target.name: new.target}
    value = {
        "dictionary": Dictionary(entries).to_dict(),
        "target": new.target.name,
        "identifiers": list(new.identifiers),
        **({"follow_up": new.follow_up.to_dict()} if new.follow_up.names else {}),
    }
    if old is None:
        transaction.execute(insert(settings).values(key="definition", value=value))
    else:
        transaction.execute(update(settings).where(settings.c.key == "definition").values(value=value))
    index_columns(transaction.connection)
    transaction.record("define", target=new.target.name, columns=list(new.features.names), cases_checked=n_checked)


def index_columns(connection: Connection) -> None:
    """Give each feature a computed column, so that searches do not parse JSON.

    SQLite computes the columns on reading and stores the results in an index that covers any search; PostgreSQL stores
    them in the table.
    """
    definition = stored_definition(connection)
    is_sqlite = connection.dialect.name == "sqlite"
    if is_sqlite:
        connection.execute(text("DROP INDEX IF EXISTS ix_cases_features"))
    for column in inspect(connection).get_columns("cases"):
        if column["name"].startswith("feature_"):
            connection.execute(text(f"ALTER TABLE cases DROP COLUMN {column['name']}"))
    features = () if definition is None else tuple(definition.features.entries.values())
    for number, entry in enumerate(features):
        key = json.dumps(entry.name, ensure_ascii=False)[1:-1] if is_sqlite else entry.name
        name = key.replace("'", "''").replace(":", r"\:")
        kind = "double precision" if entry.kind == "number" else "text"
        if is_sqlite:
            computed = f'GENERATED ALWAYS AS (json_extract("values", \'$."{name}"\')) VIRTUAL'
        else:
            computed = f"{kind} GENERATED ALWAYS AS ((\"values\" ->> '{name}')\\:\\:{kind}) STORED"
        connection.execute(text(f"ALTER TABLE cases ADD COLUMN feature_{number} {computed}"))
        if not is_sqlite:  # the planner must not store samples of patients' values
            connection.execute(text(f"ALTER TABLE cases ALTER COLUMN feature_{number} SET STATISTICS 0"))
    if is_sqlite and features:
        names = ", ".join(f"feature_{number}" for number in range(len(features)))
        connection.execute(text(f"CREATE INDEX ix_cases_features ON cases (state, outcome, {names})"))


# Adding cases


def add_cases(
    transaction: Transaction,
    rows: Sequence[Mapping[str, Value]],
    outcomes: Sequence[Value],
    external_ids: Sequence[str | None],
    patients: Sequence[str | None] = (),
) -> range:
    """Store checked cases: past if the outcome is known, otherwise open. Returns their ids.

    The next audit row of the transaction must record them.
    """
    first = 1 + (transaction.execute(select(func.max(cases.c.id))).scalar() or 0)
    check_external_ids(transaction.connection, [one for one in external_ids if one is not None])
    stored: list[JSONObject] = [
        {
            "id": first + i,
            "external_id": external_id,
            "state": OPEN if outcome is None else PAST,
            "values": dict(values),
            "outcome": None if outcome is None else json.dumps(outcome),
            "outcome_at": None if outcome is None else transaction.at,
            "outcome_by": None if outcome is None else transaction.by,
            "entered_at": transaction.at,
            "entered_by": transaction.by,
            "salt": secrets.token_hex(16),
            "retained": None if outcome is None else transaction.next_number,
            "patient": patients[i] if patients else None,
        }
        for i, (values, outcome, external_id) in enumerate(zip(rows, outcomes, external_ids, strict=True))
    ]
    for row in stored:
        row["entry"] = seal(row["id"], row["salt"], row["values"], row["outcome"], row["patient"])
    if stored:
        transaction.execute(insert(cases), stored)
    return range(first, first + len(stored))


def seal(case_id: int, salt: str, values: Mapping[str, Value] | None, outcome: str | None, patient: str | None) -> str:
    """A digest of a case; it reveals nothing without the case's salt."""
    parts = [case_id, salt, values, outcome] + ([] if patient is None else [patient])
    content = json.dumps(parts, sort_keys=True)
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def seal_now(transaction: Transaction, case_id: int) -> str:
    """The seal of a case after a change, for the log."""
    row = transaction.execute(select(cases).where(cases.c.id == case_id)).one()
    salt = row.salt or secrets.token_hex(16)
    if row.salt is None:
        transaction.execute(update(cases).where(cases.c.id == case_id).values(salt=salt))
    return seal(case_id, salt, row.values, row.outcome, row.patient)


def entry_seals(transaction: Transaction, ids: range) -> str:
    """The common seal of cases that were added together, for the log."""
    wanted = select(cases.c.entry).where(cases.c.id >= ids.start, cases.c.id < ids.stop).order_by(cases.c.id)
    return common_seal(list(transaction.execute(wanted).scalars()))


def common_seal(entries: list[str | None]) -> str:
    """One digest of many seals."""
    return hashlib.sha256(json.dumps(entries).encode()).hexdigest()


def check_external_id(external_id: object) -> str | None:
    """A valid external id, or None."""
    if external_id is None:
        return None
    return _checked_name("external id", external_id)


def check_patient(patient: object, where: str = "") -> str | None:
    """A valid patient ID, or None."""
    if patient is None:
        return None
    return _checked_name(f"{where}patient", patient)


def _checked_name(what: str, given: object) -> str:
    """An identifier as a text."""
    name = str(given)
    if not name.strip() or len(name) > 200 or not name.isprintable():
        raise CaseBaseError(f"{what} {name[:40]!r} is empty, too long, or not printable; correct it")
    return name


def check_external_ids(connection: Connection, external_ids: Sequence[str]) -> None:
    """Reject external ids that are already in use or occur twice."""
    if len(set(external_ids)) < len(external_ids):
        seen: set[str] = set()
        twice = next(one for one in external_ids if one in seen or seen.add(one))  # type: ignore[func-returns-value]
        raise CaseBaseError(f"external id {twice!r} occurs in more than one row; external ids must be unique")
    for start in range(0, len(external_ids), 500):
        part = external_ids[start : start + 500]
        query = select(cases.c.external_id, cases.c.id).where(cases.c.external_id.in_(part)).limit(1)
        taken = connection.execute(query).first()
        if taken is not None:
            raise ConflictError(
                f"external id {taken.external_id!r} already belongs to case {taken.id}; omit it, or pass another id"
            )


# Outcomes


def find(connection: Connection, case: int | str) -> Row:
    """The row of a case by its id (a number) or its external id (a string)."""
    if isinstance(case, bool) or not isinstance(case, int | str):
        raise CaseBaseError(f"case={case!r} is neither a case number nor an external id; pass one of them")
    condition = cases.c.id == case if isinstance(case, int) else cases.c.external_id == case
    if isinstance(case, int) and abs(case) >= 2**63:
        raise NotFoundError(f"there is no case {case}; search for it")
    row = connection.execute(select(cases).where(condition)).first()
    if row is None:
        raise NotFoundError(f"there is no case {case!r}; search for it")
    return row


def find_live(connection: Connection, case: int | str) -> Row:
    """`find`, for a case that was not forgotten."""
    row = find(connection, case)
    if row.state == WITHDRAWN:
        raise ConflictError(f"case {row.id} was forgotten; only its number remains")
    return row


def as_case(row: Row) -> Case:
    """Convert a row of the table to a `Case`."""
    outcome = None if row.outcome is None else json.loads(row.outcome)
    return Case(**{**{name: row._mapping[name] for name in Case.__dataclass_fields__}, "outcome": outcome})


def record_outcome(transaction: Transaction, case: int | str, outcome: object) -> Case:
    """Record the outcome of an open case; a second outcome is rejected."""
    row = find_live(transaction.connection, case)
    if row.outcome is not None:
        raise ConflictError(f"case {row.id} already has an outcome, recorded by {row.outcome_by} at {row.outcome_at}")
    plain = required_definition(transaction.connection).outcome(outcome)
    new = {"outcome": json.dumps(plain), "outcome_at": transaction.at, "outcome_by": transaction.by}
    transaction.execute(update(cases).where(cases.c.id == row.id).values(**new))
    transaction.record("outcome", row.id, seal=seal_now(transaction, row.id))
    return as_case(find(transaction.connection, row.id))


def retain(transaction: Transaction, which: Iterable[int | str] | None) -> list[int]:
    """Turn open cases into past cases: the named ones, or all with an outcome."""
    if which is None:
        ready = select(cases.c.id).where(and_(cases.c.state == OPEN, cases.c.outcome.is_not(None)))
        ids = [row.id for row in transaction.execute(ready.order_by(cases.c.id))]
    else:
        rows = [find_live(transaction.connection, case) for case in which]
        for row in rows:
            if row.state == PAST:
                raise ConflictError(f"case {row.id} is already a past case")
            if row.outcome is None:
                raise ConflictError(f"case {row.id} has no outcome yet; record it first, then retain the case")
        ids = sorted({row.id for row in rows})
    for case_id in ids:
        new = {"state": PAST, "retained": transaction.record("retain", case_id)}
        transaction.execute(update(cases).where(cases.c.id == case_id).values(**new))
    if not ids:
        transaction.record("retain", cases=0)
    return ids


# Search


def search(
    connection: Connection,
    where: Iterable[Condition],
    *,
    state: str | None,
    order: str,
    descending: bool,
    offset: int,
    limit: int,
) -> Page:
    """The cases that meet all conditions, page by page."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_AT_ONCE:
        raise CaseBaseError(f"limit={limit!r} is not a valid number of cases; pass a number from 1 to {MOST_AT_ONCE}")
    if isinstance(offset, bool) or not isinstance(offset, int) or not 0 <= offset < 2**31:
        raise CaseBaseError(f"offset={offset!r} is not a valid number of cases; pass 0 or more")
    definition = stored_definition(connection)
    conditions_given = list(where)
    conditions = [_condition(connection, definition, one) for one in conditions_given]
    if state is not None:
        if state not in STATES:
            raise CaseBaseError(f"state={state!r} is not known; choose one of {', '.join(STATES)}")
        conditions.append(literal_column("state") == state)
    key = _column(definition, order)[0]
    source = text(_source(connection, definition, [*(one[0] for one in conditions_given), order]))
    total = connection.execute(select(func.count()).select_from(source).where(*conditions)).scalar() or 0
    number: ColumnElement[int] = literal_column("id")
    by_key = key.desc() if descending else key.asc()
    if connection.dialect.name != "sqlite":  # SQLite sorts missing values first
        by_key = by_key.nulls_last() if descending else by_key.nulls_first()
    by_id = number.desc() if descending else number.asc()
    ids = select(number).select_from(source).where(*conditions).order_by(by_key, by_id).offset(offset).limit(limit)
    page = connection.execute(ids).scalars().all()
    rows = {row.id: as_case(row) for row in connection.execute(select(cases).where(cases.c.id.in_(page)))}
    return Page(tuple(rows[one] for one in page), total, offset)


def _source(connection: Connection, definition: Definition | None, names: Sequence[str]) -> str:
    """The table to search; SQLite needs a hint to use the index of the features."""
    if connection.dialect.name != "sqlite" or definition is None:
        return "cases"
    features = [name for name in names if name in definition.features]
    inside = {*definition.features.names, definition.target.name, "outcome", "id"}
    return "cases INDEXED BY ix_cases_features" if features and set(names) <= inside else "cases"


def read_condition(typed: str, definition: Definition) -> Condition:
    """Parse a condition as typed by a user: ``age>=60``, ``chest pain=none``, ``chol=null``.

    Examples
    --------
    >>> from bayespatch.dictionary import Dictionary
    >>> target = Dictionary.from_dict({"y": {"levels": ["sick", "well"]}})["y"]
    >>> known = Definition(Dictionary.from_dict({"age": {"kind": "number"}}), target)
    >>> read_condition("age>=60", known)
    ('age', '>=', 60)
    """
    for operator in sorted(OPERATORS, key=len, reverse=True):
        name, operator_found, value = typed.partition(operator)
        if operator_found:
            break
    else:
        raise CaseBaseError(f"{typed!r} is not a condition; write COLUMN, one of {' '.join(OPERATORS)}, and a value")
    return condition(name.strip(), operator, value.strip(), definition)


def condition(name: str, operator: str, value: str, definition: Definition) -> Condition:
    """Parse a condition from its three parts, with the value as typed by a user.

    Examples
    --------
    >>> from bayespatch.dictionary import Dictionary
    >>> target = Dictionary.from_dict({"y": {"levels": ["sick", "well"]}})["y"]
    >>> condition("age", ">=", "60", Definition(Dictionary.from_dict({"age": {"kind": "number"}}), target))
    ('age', '>=', 60)
    """
    if operator not in OPERATORS:
        raise CaseBaseError(f"operator {operator!r} is not known; choose one of {' '.join(OPERATORS)}")
    plain: Value = value
    kind = definition.features[name].kind if name in definition.features else "number" if name == "id" else "text"
    if value == "null":
        plain = None
    elif kind == "number":
        if _WHOLE.fullmatch(value):
            plain = int(value)
        elif _NUMBER.fullmatch(value):
            plain = float(value)  # anything else may be a label
    elif kind == "boolean":
        plain = {"true": True, "yes": True, "false": False, "no": False}.get(value.lower(), value)
    return name, operator, plain


def _column(definition: Definition | None, name: str) -> tuple[ColumnElement[object], Entry | None]:
    """The SQL of a column to search by: a feature, the outcome, or a column of every case."""
    if definition is not None and name in definition.features:
        number = definition.features.names.index(name)
        return literal_column(f"feature_{number}"), definition.features[name]
    if definition is not None and name in ("outcome", definition.target.name):
        return literal_column("outcome"), definition.target
    own = ("id", "external_id", "patient", "entered_at", "entered_by", "outcome_at")
    if name in own:
        return literal_column(name), None
    features = () if definition is None else definition.features.names
    raise CaseBaseError(f"there is no column {name!r} to search by; choose one of {', '.join((*own, *features))}")


def _condition(connection: Connection, definition: Definition | None, condition: Condition) -> ColumnElement[bool]:
    try:
        name, operator, value = condition
    except (TypeError, ValueError):
        raise CaseBaseError(
            f"{condition!r} is not a condition; pass (column, operator, value), as in ('age', '>=', 60)"
        ) from None
    if operator not in OPERATORS:
        raise CaseBaseError(f"operator {operator!r} is not known; choose one of {' '.join(OPERATORS)}")
    column, entry = _column(definition, name)
    if value is None:
        if operator not in ("=", "!="):
            raise CaseBaseError(f"column {name!r}: missing values have no order; use = or !=")
        return column.is_(None) if operator == "=" else column.is_not(None)
    if entry is not None:
        value = definition.outcome(value) if definition and entry is definition.target else entry.check(value)
        if definition and entry is definition.target:
            value = json.dumps(value)
        elif entry.kind == "boolean" and connection.dialect.name != "sqlite":
            value = "true" if value else "false"
        elif entry.kind == "number" and not isinstance(value, bool | str | None):
            value = float(value)  # an integer may be too large for the database
    elif name == "id" and (isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 2**63):
        raise CaseBaseError(f"column 'id': {value!r} is not a case number; pass an integer")
    elif name != "id" and not isinstance(value, str):
        raise CaseBaseError(f"column {name!r}: {value!r} is not text; put it in quotes")
    return column.op(operator, is_comparison=True)(value)
