"""Retrieve: define, add and find cases."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from bayespatch.casebase import cases as case_rows
from bayespatch.casebase import consultations, follow_up
from bayespatch.casebase.audit import check_by
from bayespatch.casebase.cases import Case, Condition, Definition, Page
from bayespatch.casebase.consultations import Consultation, Decision, Worklist
from bayespatch.casebase.database import Database
from bayespatch.casebase.errors import CaseBaseError
from bayespatch.casebase.incoming import check_repeats, read_cases
from bayespatch.dictionary import Dictionary, Value
from bayespatch.encode.table import DataFrame
from bayespatch.source import read
from bayespatch.types import JSONMapping

DictionaryLike: TypeAlias = Dictionary | JSONMapping | str | os.PathLike[str]


class Retrieve:
    """The part of a `CaseBase` that stores cases and finds them."""

    _database: Database

    # Definition of the cases

    @property
    def dictionary(self) -> Dictionary | None:
        """The data dictionary of the features; None until cases are imported or defined."""
        definition = self._definition()
        return None if definition is None else definition.features

    @property
    def target(self) -> str | None:
        """The column that is predicted; None until cases are imported or defined."""
        definition = self._definition()
        return None if definition is None else definition.target.name

    @property
    def classes(self) -> dict[str, Value]:
        """Label of an outcome -> the outcome itself; empty until cases are imported or defined."""
        definition = self._definition()
        return {} if definition is None else definition.classes

    @property
    def definition(self) -> Definition:
        """Features and outcome; raises UnavailableError until cases are imported or defined."""
        with self._database.reading() as connection:
            return case_rows.required_definition(connection)

    def _definition(self) -> Definition | None:
        with self._database.reading() as connection:
            return case_rows.stored_definition(connection)

    def define(self, dictionary: DictionaryLike, target: str, *, by: str) -> None:
        """Define features and outcome; cases that are already stored must agree with the definition.

        Parameters
        ----------
        dictionary : Dictionary, dict, or path
            The data dictionary of features and outcome, each with its kind; or the path of its file.
        target : str
            The column to predict. Its levels are the classes.
        by : str
            Name of the user, for the audit log.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     words = {"age": {"kind": "number", "unit": "years"}, "pain": {"kind": "text", "label": "chest pain"}}
        ...     base.define({**words, "outcome": {"levels": ["sick", "well", "unclear"]}}, "outcome", by="data manager")
        ...     list(base.classes)
        ['sick', 'well', 'unclear']
        """
        given = _dictionary(dictionary)
        unsaid = [name for name in given.names if given[name].kind == "any" and not given[name].identifier]
        if unsaid:
            raise CaseBaseError(
                f"data dictionary, column {unsaid[0]!r}: the kind is missing; set it to number, text or boolean"
            )
        new = case_rows.read_definition(given, target)
        with self._database.writing(by) as transaction:
            if case_rows.stored_definition(transaction.connection) == new:
                transaction.record("define", unchanged=True)
            case_rows.store_definition(transaction, new)

    # Adding and finding cases

    def import_cases(
        self,
        table: DataFrame,
        *,
        by: str,
        target: str | None = None,
        id_column: str | None = None,
        group_column: str | None = None,
        dictionary: DictionaryLike | None = None,
        drop: Iterable[str] = (),
        query: str | None = None,
        delimiter: str | None = None,
        allow_repeats: bool = False,
    ) -> range:
        """Add the cases of a table, all or none: past cases if the outcome is known, open ones if it is missing.

        The first import defines the features: the columns of the table, described by the dictionary or, if it lacks a
        column, by their values. Later tables must have the same features. Columns that the dictionary marks
        as identifiers are left out.

        Parameters
        ----------
        table : data frame, or str
            A CSV, Parquet or Arrow file, or the URL of a database with a `query`, as in `bayespatch.source.read`.
        by : str
            Name of the user, for the audit log.
        target : str, optional
            The column to predict; required for the first import.
        id_column : str, optional
            The column with the external ids.
        group_column : str, optional
            The column that names the patient, if patients have several visits. Visits of one patient do not vote on
            each other, and are forgotten together.
        dictionary : Dictionary, dict or path, optional
            The data dictionary; for the first import only.
        drop : names
            Columns to leave out.
        query, delimiter
            As in `bayespatch.source.read`.
        allow_repeats : bool
            Whether rows may repeat cases exactly. By default, a ConflictError rejects a table that was imported before
            and, without `id_column`, more exact repeats than chance explains. Near repeats are imported with a
            `RepeatedCasesWarning`.

        Returns
        -------
        range
            The numbers of the new cases.

        Examples
        --------
        >>> import pandas
        >>> from bayespatch import CaseBase
        >>> table = pandas.DataFrame({"age": [44, 61], "pain": ["rest", None], "outcome": ["well", None]})
        >>> with CaseBase.demo() as base:
        ...     base.import_cases(table, by="registry")
        range(25, 27)
        """
        check_by(by)
        before = self._definition()
        given = None if dictionary is None else _dictionary(dictionary)
        name = "a table"
        if isinstance(table, str | os.PathLike):
            name = os.fspath(table)
            name = name.partition("://")[0] if "://" in name else os.path.basename(name)
            entries = {} if before is None else dict(before.features.entries)
            described = Dictionary(entries | ({} if given is None else dict(given.entries)))
            names = [column for column in (id_column, group_column) if column]
            table = read_described(os.fspath(table), described, names, query, delimiter)
        read_table = read_cases(table, before, given, target, id_column, set(drop), group_column)
        definition, rows, outcomes, external_ids, patients, recorded = read_table
        with self._database.writing(by) as transaction:
            if case_rows.stored_definition(transaction.connection) != before:
                raise CaseBaseError("the definition of the cases has changed in the meantime; import again")
            case_rows.store_definition(transaction, definition)
            ids = case_rows.add_cases(transaction, rows, outcomes, external_ids, patients)
            if not allow_repeats:
                named = id_column is not None or group_column is not None
                check_repeats(transaction.connection, definition, ids, named=named)
            n_past = sum(outcome is not None for outcome in outcomes)
            seals = case_rows.entry_seals(transaction, ids)
            transaction.record("import", source=name, cases=len(ids), past=n_past, first=ids.start, seals=seals)
            follow_up.record_all(transaction, {one: row for one, row in zip(ids, recorded, strict=True) if row})
        return ids

    def add(self, rows: Sequence[Mapping[str, object]], *, by: str) -> range:
        """Add cases given as dicts of values by column; a known outcome has the name of the target as its key.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     base.add([{"age": 70, "pain": "rest", "outcome": "sick"}], by="registry")
        range(25, 26)
        """
        with self._database.writing(by) as transaction:
            definition = case_rows.required_definition(transaction.connection)
            target = definition.target.name
            values, outcomes = [], []
            for number, row in enumerate(rows, start=1):
                where = f"row {number}, "
                values.append(definition.features.check_row({n: v for n, v in row.items() if n != target}, where))
                outcome = row.get(target)
                outcomes.append(None if outcome is None else definition.outcome(outcome, where))
            if not values:
                raise CaseBaseError("no cases to add; pass at least one")
            ids = case_rows.add_cases(transaction, values, outcomes, [None] * len(values))
            transaction.record("add", cases=len(ids), first=ids.start, seals=case_rows.entry_seals(transaction, ids))
        return ids

    def case(self, case: int | str, *, by: str) -> Case:
        """One case, by its number or, as a string, its external id.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     base.case(3, by="Dr. Roe").values
        {'age': 45, 'pain': 'rest'}
        """
        with self._database.writing(by) as transaction:
            row = case_rows.find(transaction.connection, case)
            transaction.record("read", row.id)
            return case_rows.as_case(row)

    def consultations(self, case: int | str, *, by: str) -> list[tuple[Consultation, Decision | None]]:
        """The consultations of a case, oldest first, each with its decision.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     seen = base.consult({"age": 58, "pain": "rest"}, by="Dr. Roe")
        ...     [(one.predicted, decision) for one, decision in base.consultations(seen.case_id, by="Dr. Roe")]
        [('sick', None)]
        """
        with self._database.writing(by) as transaction:
            row = case_rows.find_live(transaction.connection, case)
            transaction.record("read", row.id, consultations=True)
            return consultations.of_case(transaction.connection, row.id)

    def search(
        self,
        where: Iterable[Condition] = (),
        *,
        by: str,
        state: str | None = None,
        order: str = "id",
        descending: bool = False,
        offset: int = 0,
        limit: int = 50,
    ) -> Page:
        """Cases that meet all conditions, page by page.

        Parameters
        ----------
        where : list of (column, operator, value)
            Operators are ``= != < <= > >=``; None stands for a missing value. Columns are the features, "outcome",
            "id", "external_id", "entered_at", "entered_by" and "outcome_at".
        by : str
            Name of the user, for the audit log.
        state : {"open", "past", "withdrawn"}, optional
            Only cases in this state.
        order : str
            The column to sort by.
        descending : bool
            Sort from the largest to the smallest.
        offset, limit : int
            Number of cases to skip, and maximum number of cases to return.

        Returns
        -------
        Page
            The cases, and their total number.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     page = base.search([("age", ">=", 70), ("pain", "=", "rest")], order="age", by="Dr. Roe")
        ...     page.total, [case.values["age"] for case in page.items]
        (2, [71, 79])
        """
        conditions = list(where)
        with self._database.writing(by) as transaction:
            page = case_rows.search(
                transaction.connection,
                conditions,
                state=state,
                order=order,
                descending=descending,
                offset=offset,
                limit=limit,
            )
            compared = [f"{name} {operator}" for name, operator, _ in conditions]
            shown = [case.id for case in page.items]
            transaction.record("search", where=compared, state=state, found=page.total, shown=shown)
        return page

    def worklist(
        self,
        *,
        by: str,
        waiting_for: str | None = None,
        offset: int = 0,
        limit: int = 50,
        risk_of: str | None = None,
    ) -> Worklist:
        """The last consultation of each open case, newest first, with its decision.

        Parameters
        ----------
        by : str
            Name of the user, for the audit log.
        waiting_for : {"decision", "outcome", "retention"}, optional
            Only cases waiting for this step.
        offset, limit : int
            Number of cases to skip, and maximum number of cases to return.
        risk_of : str, optional
            A class; cases are sorted by its probability, highest first.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     _ = base.consult({"age": 58, "pain": "rest"}, by="Dr. Roe")
        ...     [item.waiting_for for item in base.worklist(by="Dr. Roe").items]
        ['decision']
        """
        with self._database.writing(by) as transaction:
            page = consultations.worklist(transaction.connection, waiting_for, offset, limit, risk_of)
            transaction.record("search", worklist=waiting_for or "all", shown=[item.case_id for item in page.items])
        return page

    def consultation(self, consultation: int, *, by: str) -> tuple[Consultation, Decision | None, Case]:
        """A consultation by its number as shown, with its decision and case.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     seen = base.consult({"age": 58, "pain": "rest"}, by="Dr. Roe")
        ...     base.consultation(seen.id, by="Dr. Roe")[0] == seen
        True
        """
        with self._database.writing(by) as transaction:
            stored = consultations.find(transaction.connection, consultation)
            decision = consultations.decision_of(transaction.connection, stored.id)
            case = case_rows.as_case(case_rows.find(transaction.connection, stored.case_id))
            transaction.record("read", stored.case_id, consultation=stored.id)
        return stored, decision, case


def _dictionary(given: DictionaryLike) -> Dictionary:
    if isinstance(given, Dictionary):
        return given
    return Dictionary.from_dict(given) if isinstance(given, Mapping) else Dictionary.read(given)


def read_described(
    where: str, described: Dictionary, names: Sequence[str], query: str | None = None, delimiter: str | None = None
) -> DataFrame:
    r"""Read a table from a file or a database, its columns as the dictionary describes them and `names` as text.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "stays.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("stay,age\n007,61\n008,58\n")
    ...     read_described(path, Dictionary(), ["stay"])["stay"].tolist()
    ['007', '008']
    """
    texts = [column for column, entry in described.entries.items() if entry.kind == "text"]
    texts += names
    numbers = {name: unit for name, unit in described.measured.items() if name not in texts}
    return read(where, query, delimiter=delimiter, texts=texts, numbers=numbers)
