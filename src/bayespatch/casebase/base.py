"""The case base as a user meets it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeAlias

from sqlalchemy import delete, insert

from bayespatch.casebase import backup as backups
from bayespatch.casebase import cases as case_rows
from bayespatch.casebase import consultations, export, follow_up, models, repeats, retention
from bayespatch.casebase import drift as drifts
from bayespatch.casebase import forget as forgetting
from bayespatch.casebase import refit as refitting
from bayespatch.casebase.audit import LogEntry, Verification, check_by, entries, now
from bayespatch.casebase.cases import Case, Condition, Definition, Page
from bayespatch.casebase.consultations import Consultation, Decision, Worklist
from bayespatch.casebase.database import TIMEOUT, Database
from bayespatch.casebase.errors import CaseBaseError, NotFoundError
from bayespatch.casebase.forget import Forgotten
from bayespatch.casebase.identities import Identities
from bayespatch.casebase.incoming import check_repeats, read_cases
from bayespatch.casebase.models import ModelVersion
from bayespatch.casebase.people import People
from bayespatch.casebase.refit import Refit
from bayespatch.casebase.retention import Purged
from bayespatch.casebase.reuse import Reuse
from bayespatch.casebase.tables import settings
from bayespatch.dictionary import Dictionary, Value
from bayespatch.source import read
from bayespatch.types import JSONMapping, JSONObject, TableLike

SYSTEM = "bayespatch"  # who does what no person has asked for

DictionaryLike: TypeAlias = Dictionary | JSONMapping | str | os.PathLike[str]


class CaseBase(Reuse):
    """Past cases, consultations, decisions and models in a database: retrieve, reuse, revise, retain, forget.

    Made by `CaseBase.open`. Everything that is done says by whom (`by`), is one transaction, and leaves a row in the
    audit log. A `CaseBaseError` means that nothing was changed.

    Attributes
    ----------
    dictionary : Dictionary or None
        What the features are; None until cases were imported or defined.
    target : str or None
        The column that is predicted.
    people : People
        Who may do what, where a program serves the base to several people.
    identities : Identities
        Whose accounts belong to which identities of a single sign-on.

    Examples
    --------
    >>> from bayespatch import CaseBase
    >>> with CaseBase.demo() as base:
    ...     seen = base.consult({"age": 58, "pain": "rest"}, by="Dr. Roe")
    ...     decision = base.decide(seen.id, "sick", by="Dr. Roe")
    ...     case = base.outcome(seen.case_id, "sick", by="registry")
    ...     base.retain([case.id], by="registry")
    ...     base.verify_audit().intact
    [25]
    True
    """

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database
        self.people = People(database)
        self.identities = Identities(database)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    # Opening and closing

    @classmethod
    def open(
        cls,
        url: str | os.PathLike[str],
        *,
        create: bool = True,
        folder: str | os.PathLike[str] | None = None,
        timeout: float = TIMEOUT,
        n_jobs: int | None = None,
        key: bytes | None = None,
    ) -> CaseBase:
        """Open a case base, and make it where there is none.

        Parameters
        ----------
        url : str or path
            ``sqlite:///clinic.db``, or the path of the file; ``postgresql://user@host/name``.
        create : bool
            False refuses a place where there is no case base.
        folder : path, optional
            Directory for temporary files, and for a refit while it runs; yours alone (mode 700). By default beside the
            SQLite file; with PostgreSQL in $STATE_DIRECTORY, $XDG_STATE_HOME or ~/.local/state.
        timeout : float
            Seconds to wait while another process writes.
        n_jobs : int, optional
            Threads that answer one question; by default as many as the model was fitted with. Who asks several
            questions at a time has more of one thread for each.
        key : bytes, optional
            The key of the audit log, for a base that was begun with one; by default what is in the file that the
            environment variable BAYESPATCH_AUDIT_KEY_FILE names.

        Examples
        --------
        >>> import os, tempfile
        >>> from bayespatch import CaseBase
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with CaseBase.open(os.path.join(folder, "clinic.db")) as base:
        ...         base.dictionary is None
        True
        """
        database = Database(os.fspath(url), folder, timeout, key)
        try:
            database.open(create)
            base = cls(database)
            base._n_jobs = n_jobs
            base._tidy()
        except BaseException:
            database.close()
            raise
        return base

    @classmethod
    def demo(cls) -> CaseBase:
        """A small invented clinic in a temporary folder, with a model of 24 past cases; closing it deletes it.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     base.target, base.dictionary.names
        ('outcome', ('age', 'pain'))
        """
        folder = tempfile.TemporaryDirectory()
        base = cls.open(Path(folder.name) / "clinic.db")
        base._temporary = folder
        base.define(
            {
                "age": {"kind": "number", "unit": "years", "usual": [18, 95], "possible": [0, 120]},
                "pain": {"label": "chest pain", "levels": ["none", "effort", "rest"]},
                "outcome": {"levels": ["sick", "well"]},
            },
            "outcome",
            by=SYSTEM,
        )
        pains = ("none", "effort", "rest")
        rows = [(31 + (7 * i) % 50, pains[i % 3]) for i in range(24)]
        sick = ["sick" if age > 50 and pain != "none" else "well" for age, pain in rows]
        cases = [{"age": row[0], "pain": row[1], "outcome": outcome} for row, outcome in zip(rows, sick, strict=True)]
        base.add(cases, by=SYSTEM)
        quick = {"hyper": {}, "chains": 2, "draws": 20, "warmup": 20, "n_jobs": 1}
        model = refitting.learn(base._database, SYSTEM, quick)
        base.promote(model.version, by=SYSTEM)
        return base

    def close(self) -> None:
        """Give all connections back.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> base = CaseBase.demo()
        >>> base.close()
        """
        self._database.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def __enter__(self) -> CaseBase:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"CaseBase({self._database.name!r})"

    def _tidy(self) -> None:
        """Finish what a process that was killed has left: files, and values that are deleted but still on disk."""
        if "mode=ro" not in str(self._database.url):
            models.drop_left_over(self._database.folder)
            forgetting.finish(self._database, SYSTEM)

    def check_writable(self) -> None:
        """Write a time into the database; an error where that fails, as on a full disk.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     base.check_writable()
        """
        with self._database.unaudited() as connection:
            connection.execute(delete(settings).where(settings.c.key == "written"))
            connection.execute(insert(settings).values(key="written", value=now()))

    # What the cases are

    @property
    def dictionary(self) -> Dictionary | None:
        """What the features are; None until cases were imported or defined."""
        definition = self._definition()
        return None if definition is None else definition.features

    @property
    def target(self) -> str | None:
        """The column that is predicted; None until cases were imported or defined."""
        definition = self._definition()
        return None if definition is None else definition.target.name

    @property
    def classes(self) -> dict[str, Value]:
        """What an outcome is called -> the outcome itself; empty until cases were imported or defined."""
        definition = self._definition()
        return {} if definition is None else definition.classes

    @property
    def definition(self) -> Definition:
        """What the features and the outcome are; an error where nobody has said so yet."""
        with self._database.reading() as connection:
            return case_rows.required_definition(connection)

    def _definition(self) -> Definition | None:
        with self._database.reading() as connection:
            return case_rows.stored_definition(connection)

    def define(self, dictionary: DictionaryLike, target: str, *, by: str) -> None:
        """Say what the cases are; cases that are there already have to agree.

        Parameters
        ----------
        dictionary : Dictionary, dict, or path
            The data dictionary, features and outcome, each with its kind; or the file that has it.
        target : str
            The column that is predicted. Its levels are the classes.
        by : str
            Who says so.

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
            raise CaseBaseError(f"data dictionary, column {unsaid[0]!r}: no kind; say number, text or boolean")
        new = case_rows.read_definition(given, target)
        with self._database.writing(by) as transaction:
            if case_rows.stored_definition(transaction.connection) == new:
                transaction.record("define", unchanged=True)
            case_rows.store_definition(transaction, new)

    # Retrieve: cases come in and are found again

    def import_cases(
        self,
        table: TableLike,
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
        """Add the cases of a table, all or none: past ones where the outcome is known, open ones where it is missing.

        The first import says what the cases are: the columns of the table, described by the dictionary where it has
        them, and by their values where not. Later tables must have the same features; columns that the dictionary calls
        identifiers are left out.

        Parameters
        ----------
        table : data frame, or str
            What `bayespatch.source.read` reads: a CSV, Parquet or Arrow file, or the URL of a database with a `query`.
        by : str
            Who does it.
        target : str, optional
            The column that is predicted; needed the first time.
        id_column : str, optional
            The column with the external ids.
        group_column : str, optional
            The column that names the patient, where patients come several times. Visits of one patient do not vote on
            each other, and are forgotten together.
        dictionary : Dictionary, dict or path, optional
            The data dictionary; the first time only.
        drop : names
            Columns to leave out.
        query, delimiter
            As in `bayespatch.source.read`.
        allow_repeats : bool
            Whether rows may repeat cases exactly. By default they are refused with a ConflictError: a table that was
            imported before, or, without `id_column`, more rows that equal a case than chance explains. Rows that
            nearly repeat a case are imported with a `RepeatedCasesWarning`.

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
            texts = [column for column, entry in described.entries.items() if entry.kind == "text"]
            texts += [column for column in (id_column, group_column) if column]
            numbers = {name: unit for name, unit in described.measured.items() if name not in texts}
            table = read(os.fspath(table), query, delimiter=delimiter, texts=texts, numbers=numbers)
        read_table = read_cases(table, before, given, target, id_column, set(drop), group_column)
        definition, rows, outcomes, external_ids, patients, recorded = read_table
        with self._database.writing(by) as transaction:
            if case_rows.stored_definition(transaction.connection) != before:
                raise CaseBaseError("what the cases are was changed meanwhile; import again")
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
        """Add cases given as dicts: values by column, the outcome under the name of the target where it is known.

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
                raise CaseBaseError("there are no cases to add; pass at least one")
            ids = case_rows.add_cases(transaction, values, outcomes, [None] * len(values))
            transaction.record("add", cases=len(ids), first=ids.start, seals=case_rows.entry_seals(transaction, ids))
        return ids

    def case(self, case: int | str, *, by: str) -> Case:
        """One case by its number, or by its external id if a text is given.

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
        """The consultations of a case, with what was decided, in their order.

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
            Operators are ``= != < <= > >=``; the value None is a missing one. Columns are the features, "outcome",
            "id", "external_id", "entered_at", "entered_by" and "outcome_at".
        by : str
            Who looks.
        state : {"open", "past", "withdrawn"}, optional
            Only these.
        order : str
            The column to sort by.
        descending : bool
            The largest first.
        offset, limit : int
            Which page.

        Returns
        -------
        Page
            The cases, and how many there are in all.

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

    # What waits for somebody

    def worklist(self, *, by: str, waiting_for: str | None = None, offset: int = 0, limit: int = 50) -> Worklist:
        """The last consultation of each open case, the newest first, with what was decided.

        Parameters
        ----------
        by : str
            Who looks.
        waiting_for : {"decision", "outcome", "retention"}, optional
            Only those.
        offset, limit : int
            Which page.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     _ = base.consult({"age": 58, "pain": "rest"}, by="Dr. Roe")
        ...     [item.waiting_for for item in base.worklist(by="Dr. Roe").items]
        ['decision']
        """
        with self._database.writing(by) as transaction:
            page = consultations.worklist(transaction.connection, waiting_for, offset, limit)
            transaction.record("search", worklist=waiting_for or "all", shown=[item.case_id for item in page.items])
        return page

    def consultation(self, consultation: int, *, by: str) -> tuple[Consultation, Decision | None, Case]:
        """A consultation by its number, as it was shown, with what was decided, and its case.

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

    # Revise: the person decides

    def decide(
        self, consultation: int, decided: object, *, by: str, reason: str = "", code: str = "", key: str | None = None
    ) -> Decision:
        """Write down what was decided after a consultation; to override the model needs a reason or a code.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     seen = base.consult({"age": 58, "pain": "rest"}, by="Dr. Roe")
        ...     base.decide(seen.id, "well", by="Dr. Roe", reason="the pain is from a broken rib").agrees
        False
        """
        once = None if key is None else repeats.Once("decide", key, by, [consultation, decided, reason, code])
        with self._database.writing(by) as transaction:
            if once is not None and (earlier := repeats.earlier(transaction.connection, once)) is not None:
                decision = consultations.decision_of(transaction.connection, earlier)
                if decision is None:
                    raise NotFoundError(f"consultation {earlier} is not there any more")
                transaction.record("read", consultations.find(transaction.connection, earlier).case_id)
                return decision
            decision = consultations.decide(transaction, consultation, decided, reason, code)
            if once is not None:
                repeats.keep(transaction, once, consultation)
            return decision

    # Retain: the outcome is known

    def outcome(self, case: int | str, outcome: object, *, by: str, key: str | None = None) -> Case:
        """Write down what became of a case; a second outcome is refused.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     seen = base.consult({"age": 58, "pain": "rest"}, by="Dr. Roe")
        ...     base.outcome(seen.case_id, "sick", by="registry").state
        'open'
        """
        once = None if key is None else repeats.Once("outcome", key, by, [case, outcome])
        with self._database.writing(by) as transaction:
            if once is not None and (earlier := repeats.earlier(transaction.connection, once)) is not None:
                transaction.record("read", earlier)
                return case_rows.as_case(case_rows.find(transaction.connection, earlier))
            case_now = case_rows.record_outcome(transaction, case, outcome)
            if once is not None:
                repeats.keep(transaction, once, case_now.id)
            return case_now

    def record_follow_up(self, case: int | str, values: Mapping[str, object], *, by: str) -> follow_up.Recording:
        """Record what became of a case: values of follow-up columns, which replace earlier ones.

        The data dictionary names the columns (`role: follow-up` or `treatment`). They are never compared. The next
        refit reads them; explanations then summarize them among the past cases that vote.

        Parameters
        ----------
        case : int or str
            Its number, or its external id.
        values : dict
            By column; columns that are not named keep their values, None means not known.
        by : str
            Who does it.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     words = {name: entry.to_dict() for name, entry in base.definition.features.entries.items()}
        ...     words |= {"outcome": {"levels": ["sick", "well"]}, "stay": {"kind": "number", "role": "follow-up"}}
        ...     base.define(words, "outcome", by="data manager")
        ...     _ = base.record_follow_up(3, {"stay": 4}, by="ward")
        ...     _ = base.record_follow_up(3, {"stay": 5}, by="ward")
        ...     [recording.values for recording in base.follow_up(3, by="Dr. Roe")]
        [{'stay': 4}, {'stay': 5}]
        """
        with self._database.writing(by) as transaction:
            return follow_up.record(transaction, case, values)

    def follow_up(self, case: int | str, *, by: str) -> tuple[follow_up.Recording, ...]:
        """What was recorded about a case after it came in, the first recording first.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     base.follow_up(1, by="Dr. Roe")
        ()
        """
        with self._database.writing(by) as transaction:
            row = case_rows.find(transaction.connection, case)
            transaction.record("read", row.id)
            return follow_up.history(transaction.connection, row.id)

    def retain(self, which: Iterable[int | str] | None = None, *, by: str) -> list[int]:
        """Make open cases past ones: those named, or all whose outcome is known.

        They vote from the next consultation on; the next refit learns from them.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     seen = base.consult({"age": 58, "pain": "rest"}, by="Dr. Roe")
        ...     _ = base.outcome(seen.case_id, "sick", by="registry")
        ...     base.retain(by="registry")
        [25]
        """
        with self._database.writing(by) as transaction:
            return case_rows.retain(transaction, which)

    def refit(self, *, by: str, wait: bool = True, **parameters: object) -> ModelVersion | Refit:
        """Learn anew from all past cases, in a process of its own, beginning where the active model ended.

        The new version is only offered: look at its `metrics` and `promote` it. A refit that is killed goes on where it
        was when it is started again, as long as cases, parameters and the active model are the same.

        Parameters
        ----------
        by : str
            Who does it.
        wait : bool
            False returns at once with a `Refit`: `running`, `wait()`, `cancel()`.
        parameters
            Of `PatchworkClassifier`, numbers and texts; those of the active model where nothing is said.

        Returns
        -------
        ModelVersion or Refit

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     model = base.refit(by="steward", draws=10)
        ...     model.version, model.state, model.metrics["both"]["n"]
        (2, 'offered', 24)
        """
        process = Refit(self._database, by, parameters)
        if not wait:
            return process
        try:
            version = process.wait()
        except KeyboardInterrupt:
            process.cancel()
            raise
        with self._database.reading() as connection:
            return models.find(connection, version)

    def models(self) -> list[ModelVersion]:
        """All versions of the model, the newest first.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     [(model.version, model.state, model.n_cases) for model in base.models()]
        [(1, 'active', 24)]
        """
        with self._database.reading() as connection:
            return models.listed(connection)

    def promote(self, version: int, *, by: str) -> ModelVersion:
        """Make a version the active one.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     base.promote(1, by="steward")
        Traceback (most recent call last):
        ...
        bayespatch.casebase.errors.ConflictError: model version 1 is the active one already
        """
        with self._database.writing(by) as transaction:
            return models.promote(transaction, version)

    def roll_back(self, *, by: str) -> ModelVersion:
        """Go back to the version that was active before.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     base.roll_back(by="steward")
        Traceback (most recent call last):
        ...
        bayespatch.casebase.errors.ConflictError: no version before 1 was ever active; promote one by its number
        """
        with self._database.writing(by) as transaction:
            return models.roll_back(transaction)

    # Forget

    def forget(self, case: int | str, reason: str, *, by: str) -> Forgotten:
        """Forget a patient: the values go from every table and every model at once, and from the disk.

        Predictions are from now on exactly those without that past case, given the same importances; these have learned
        from it, so that a refit is due. The number of the case stays, and in the log who forgot it, when and why. Other
        visits of the same patient are forgotten as well.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     done = base.forget(3, "asked for it", by="steward")
        ...     done.versions, done.erased, len(base.model().parents_), base.models()[0].refit_due
        ((1,), True, 23, True)
        """
        done = forgetting.forget(self._database, case, reason, by)
        self._model = None  # the values must not stay in memory
        return done

    def purge(
        self,
        *,
        by: str,
        consultations: int | None = None,
        open_cases: int | None = None,
        past_cases: int | None = None,
    ) -> Purged:
        """Delete what is older than the retention periods, and sessions, tokens and links that have expired.

        Parameters
        ----------
        by : str
            Who does it.
        consultations : int, optional
            Days for which consultations of past cases and their decisions are kept.
        open_cases : int, optional
            Days after their last consultation for which open cases are kept; then they are forgotten.
        past_cases : int, optional
            Days after their outcome for which past cases are kept; then they are forgotten.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     _ = base.consult({"age": 58, "pain": "rest"}, by="Dr. Roe")
        ...     base.purge(by="steward", open_cases=365).open_cases
        ()
        """
        periods = {"consultations_days": consultations, "open_days": open_cases, "past_days": past_cases}
        done = retention.purge(self._database, by, **periods)
        self._model = None  # the values must not stay in memory
        return done

    def forget_again(self, log: str | os.PathLike[str], *, by: str) -> list[int]:
        """After a restore: forget whom the lost base forgot after the backup was made.

        Parameters
        ----------
        log : path
            The audit log of the lost base, with all rows after the backup: ``casebase log --json``, or what a collector
            has kept. It must continue the log of the backup, hash by hash.
        by : str
            Who does it.

        Returns
        -------
        list of int
            The cases that were forgotten.

        Examples
        --------
        >>> import dataclasses, json, os, tempfile
        >>> from bayespatch import CaseBase
        >>> with tempfile.TemporaryDirectory() as folder, CaseBase.demo() as base:
        ...     backup = base.backup(os.path.join(folder, "backup.db"), by="steward")
        ...     _ = base.forget(3, "asked for it", by="steward")
        ...     log = os.path.join(folder, "log.json")
        ...     with open(log, "w") as file:
        ...         json.dump({"log": [dataclasses.asdict(row) for row in base.audit(after=1)]}, file)
        ...     with CaseBase.open(os.path.join(folder, "new.db")) as other:
        ...         other.restore(backup, by="steward")
        ...         other.forget_again(log, by="steward")
        [3]
        """
        done = retention.forget_again(self._database, log, by)
        self._model = None
        return done

    # Looking after it

    def drift(self, *, by: str, every: str = "month") -> list[JSONObject]:
        """What the model said against what happened, by "year", "month", "day" or "all".

        Returns
        -------
        list of dict
            One for each period, the earliest first; `bayespatch.casebase.drift.drift` says what is in it.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     seen = base.consult({"age": 58, "pain": "rest"}, by="Dr. Roe")
        ...     _ = base.outcome(seen.case_id, "sick", by="registry")
        ...     [row] = base.drift(by="steward", every="all")
        ...     row["consultations"], row["outcomes"], row["accuracy"]
        (1, 1, 1.0)
        """
        with self._database.writing(by) as transaction:
            definition = case_rows.required_definition(transaction.connection)
            periods = drifts.drift(transaction.connection, definition, every)
            transaction.record("drift", every=every)
        return periods

    def audit(
        self,
        *,
        case: int | None = None,
        by: str | None = None,
        action: str | None = None,
        after: int = 0,
        before: int | None = None,
        limit: int = 100,
    ) -> list[LogEntry]:
        """The log: the newest rows first, or the oldest first from the row `after` on; of a case, a person, an action.

        `before` is the number of a row: only those before it.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     [entry.action for entry in base.audit()]
        ['promote', 'refit', 'add', 'define']
        """
        with self._database.reading() as connection:
            return list(
                entries(connection, case_id=case, by=by, action=action, after=after, before=before, limit=limit)
            )

    def record_audit(self, chosen: Mapping[str, object], *, by: str, verified: bool = False) -> None:
        """Note that someone has read the log: which rows were `chosen`, as in `audit`, and whether it was verified.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     base.record_audit({"case": 3, "by": None}, by="steward")
        ...     base.audit(limit=1)[0].details
        {'chosen': {'case': 3}, 'verified': False}
        """
        with self._database.writing(by) as transaction:
            given = {name: value for name, value in chosen.items() if value}
            transaction.record("audit", chosen=given, verified=verified)

    def verify_audit(self, head: str | None = None) -> Verification:
        """Hold the log against its hashes, and cases, models and accounts against the log.

        `head` is an end of the log that was noted earlier.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     found = base.verify_audit()
        ...     found.intact, found.n_entries
        (True, 4)
        """
        with self._database.reading() as connection:
            return backups.verify_all(self._database, connection, head)

    def backup(self, path: str | os.PathLike[str], *, by: str) -> Path:
        """Copy the whole base into one SQLite file, which is a case base itself, while others go on working.

        Examples
        --------
        >>> import os, tempfile
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base, tempfile.TemporaryDirectory() as folder:
        ...     path = base.backup(os.path.join(folder, "backup.db"), by="steward")
        ...     with CaseBase.open(path) as copy:
        ...         len(copy.model().parents_)
        24
        """
        return backups.backup(self._database, path, by)

    def restore(self, path: str | os.PathLike[str], *, by: str) -> None:
        """Fill this base, which must be empty, from a backup.

        Who was forgotten after the backup was made is in it again, and has to be forgotten again.

        Examples
        --------
        >>> import os, tempfile
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base, tempfile.TemporaryDirectory() as folder:
        ...     path = base.backup(os.path.join(folder, "backup.db"), by="steward")
        ...     with CaseBase.open(os.path.join(folder, "new.db")) as other:
        ...         other.restore(path, by="steward")
        ...         other.verify_audit().intact
        True
        """
        backups.restore(path, self._database, by)

    def export(
        self,
        where: str | os.PathLike[str],
        *,
        by: str,
        state: str | None = None,
        sensitive: bool = True,
        table: str = "cases",
    ) -> int:
        """Write the cases to a CSV or Parquet file, or into a new table of a database; returns how many.

        In CSV a text that a spreadsheet would run begins with an apostrophe; Parquet and databases keep it as it is.

        Parameters
        ----------
        where : path or URL
            A file that ends in .csv or .parquet; ``sqlite:///FILE`` or ``postgresql://...``.
        by : str
            Who does it.
        state : {"open", "past"}, optional
            Only these.
        sensitive : bool
            Whether columns that the dictionary calls sensitive, and the external ids, are written.
        table : str
            The name of the new table of a database.

        Examples
        --------
        >>> import os, tempfile
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base, tempfile.TemporaryDirectory() as folder:
        ...     base.export(os.path.join(folder, "cases.csv"), by="steward")
        24
        """
        with self._database.writing(by) as transaction:
            definition = case_rows.required_definition(transaction.connection)
            name = os.fspath(where)
            n = export.write(transaction.connection, definition, name, table=table, state=state, sensitive=sensitive)
            destination = name.partition("://")[0] if "://" in name else os.path.basename(name)
            transaction.record("export", to=destination, cases=n, state=state, sensitive=sensitive)
        return n


def _dictionary(given: DictionaryLike) -> Dictionary:
    if isinstance(given, Dictionary):
        return given
    return Dictionary.from_dict(given) if isinstance(given, Mapping) else Dictionary.read(given)
