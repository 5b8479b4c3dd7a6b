"""The public interface of the case base."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

from sqlalchemy import delete, insert

from bayespatch.casebase import backup as backups
from bayespatch.casebase import cases as case_rows
from bayespatch.casebase import drift as drifts
from bayespatch.casebase import export, models, monitoring, retention
from bayespatch.casebase import forget as forgetting
from bayespatch.casebase import refit as refitting
from bayespatch.casebase.audit import LogEntry, Verification, entries, now
from bayespatch.casebase.database import TIMEOUT, Database
from bayespatch.casebase.errors import ConflictError
from bayespatch.casebase.forget import Forgotten
from bayespatch.casebase.identities import Identities
from bayespatch.casebase.models import ModelVersion
from bayespatch.casebase.monitoring import DAYS, Monitoring
from bayespatch.casebase.people import People
from bayespatch.casebase.promotion import check_reason, compare_recent
from bayespatch.casebase.refit import Refit
from bayespatch.casebase.retention import Purged
from bayespatch.casebase.retrieve import Retrieve
from bayespatch.casebase.reuse import Reuse
from bayespatch.casebase.revise import Revise
from bayespatch.casebase.tables import settings
from bayespatch.types import JSONObject

SYSTEM = "bayespatch"  # the actor of automatic changes


class CaseBase(Retrieve, Reuse, Revise):
    """Past cases, consultations, decisions and models in a database: retrieve, reuse, revise, retain, forget.

    `CaseBase.open` opens or creates one. Every method that reads or changes cases takes the name of the user (`by`),
    runs in one transaction, and writes a row to the audit log. A `CaseBaseError` means that nothing was changed.

    Attributes
    ----------
    dictionary : Dictionary or None
        The data dictionary of the features; None until cases are imported or defined.
    target : str or None
        The column that is predicted.
    people : People
        Accounts and their roles, used by the web service.
    identities : Identities
        Identities of a single sign-on, linked to accounts.

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
        """Open a case base; create it if it does not exist.

        Parameters
        ----------
        url : str or path
            ``sqlite:///clinic.db``, or the path of the file; ``postgresql://user@host/name``.
        create : bool
            Whether to create a missing case base. If False, a missing case base raises an error.
        folder : path, optional
            Directory for temporary files and a refit's checkpoints; only its owner may open it (mode 700). By default
            next to the SQLite file; with PostgreSQL in $STATE_DIRECTORY, $XDG_STATE_HOME or ~/.local/state.
        timeout : float
            Seconds to wait while another process writes.
        n_jobs : int, optional
            Threads for one consultation; by default as many as the model was fitted with. Use one thread each if your
            program runs several consultations at the same time.
        key : bytes, optional
            The key of the audit log, if it was created with one; by default the content of the file that the
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
        """A small fictitious clinic in a temporary folder, with a model of 24 past cases; `close` deletes it.

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
        """Close all connections.

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
        """Clean up after killed processes: delete their files, and erase deleted values that are still on disk."""
        if "mode=ro" not in str(self._database.url):
            models.drop_left_over(self._database.folder)
            forgetting.finish(self._database, SYSTEM)

    def check_writable(self) -> None:
        """Write the time to the database; raises an error if that fails, for example on a full disk.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     base.check_writable()
        """
        with self._database.unaudited() as connection:
            connection.execute(delete(settings).where(settings.c.key == "written"))
            connection.execute(insert(settings).values(key="written", value=now()))

    def refit(self, *, by: str, wait: bool = True, **parameters: object) -> ModelVersion | Refit:
        """Fit a new model to all past cases in a separate process, starting from the active model.

        The new version is not used until someone promotes it: check its `metrics`, then `promote` it. A killed refit
        resumes if you start it again with the same cases, parameters and active model.

        Parameters
        ----------
        by : str
            Name of the user, for the audit log.
        wait : bool
            False returns at once with a `Refit`: `running`, `wait()`, `cancel()`.
        parameters
            Parameters of `PatchworkClassifier`, numbers and strings; by default those of the active model.

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
        """All versions of the model, newest first.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     [(model.version, model.state, model.n_cases) for model in base.models()]
        [(1, 'active', 24)]
        """
        with self._database.reading() as connection:
            return models.listed(connection)

    def promote(self, version: int, *, by: str, reason: str = "") -> ModelVersion:
        """Make a version the active model, unless it is worse than the active one on recent outcomes.

        `bayespatch.casebase.promotion` states the rule. With a `reason`, the version is promoted anyway; the audit log
        records the comparison and the reason.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     base.promote(1, by="steward")
        Traceback (most recent call last):
        ...
        bayespatch.casebase.errors.ConflictError: model version 1 is already active
        """
        reason = check_reason(reason)
        recent = compare_recent(self._database, version)
        if recent is not None and recent.worse and not reason:
            raise ConflictError(
                f"model version {version} is worse than version {recent.active} on recent outcomes ({recent.text}); "
                f"keep version {recent.active}, or give a reason for promoting version {version} anyway"
            )
        details = {} if recent is None else {"recent": asdict(recent)}
        with self._database.writing(by) as transaction:
            active = models.active(transaction.connection)
            if recent is not None and (active is None or active.version != recent.active):
                raise ConflictError("another version was promoted in the meantime; review it, then promote again")
            return models.promote(transaction, version, details=details | ({"reason": reason} if reason else {}))

    def roll_back(self, *, by: str) -> ModelVersion:
        """Reactivate the version that was active before.

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
        """Forget a patient: delete the values from every table, every model and the disk.

        Predictions are then exactly those without this past case, given the same importances. A refit is due, because
        the importances were learned with the case. The case number remains, and the log records who forgot it,
        when and why. Other visits of the same patient are forgotten as well.

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
        """Delete data older than the retention periods, and expired sessions, tokens and links.

        Parameters
        ----------
        by : str
            Name of the user, for the audit log.
        consultations : int, optional
            Retention period in days of past cases' consultations and decisions.
        open_cases : int, optional
            Days after the last consultation until an open case is forgotten.
        past_cases : int, optional
            Days after the outcome until a past case is forgotten.

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
        """After a restore, repeat what the lost case base did after the backup: forget patients and end access.

        Parameters
        ----------
        log : path
            The audit log of the lost base with all rows after the backup, from ``casebase log --json`` or a log
            collector. It must continue the log of the backup, hash by hash.
        by : str
            Name of the user, for the audit log.

        Returns
        -------
        list of int
            The forgotten cases.

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

    # Audit, backup, export

    def drift(self, *, by: str, every: str = "month") -> list[JSONObject]:
        """Predictions compared with outcomes, by "year", "month", "day" or "all".

        Returns
        -------
        list of dict
            One for each period, earliest first, with the keys that `bayespatch.casebase.drift.drift` lists.

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

    def monitor(self, *, by: str, days: int = DAYS) -> Monitoring:
        """Check whether recent patients, outcomes and outcome lag differ from earlier ones.

        `bayespatch.casebase.monitoring` states the checks and how rare false alarms are.

        Parameters
        ----------
        by : str
            Name of the user, for the audit log.
        days : int
            Length of the window: the number of days before now.

        Examples
        --------
        >>> from bayespatch import CaseBase
        >>> with CaseBase.demo() as base:
        ...     _ = base.consult({"age": 58, "pain": "rest"}, by="Dr. Roe")
        ...     found = base.monitor(by="steward")
        ...     found.consultations, [shift.index for shift in found.population], found.alarms
        (1, [None, None], ())
        """
        with self._database.reading() as connection:
            definition = case_rows.required_definition(connection)
            results = monitoring.monitor(connection, definition, days)
        with self._database.writing(by) as transaction:
            transaction.record("monitor", days=days, alarms=len(results.alarms))
        return results

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
        """Rows of the audit log, newest first; optionally only those of one case, person or action.

        With `before`, only rows before this number; with `after`, only rows after this number, oldest first.

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
        """Record that someone read the log: which rows were `chosen`, as in `audit`, and whether it was verified.

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
        """Check the log against its hashes, and cases, models and accounts against the log.

        `head` is an end of the log that you recorded earlier.

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
        """Copy the whole case base to one SQLite file, which is itself a case base, while others keep working.

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
        """Fill this case base, which must be empty, from a backup.

        This brings back patients who were forgotten after the backup: call `forget_again`.

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
        """Write the cases to a CSV or Parquet file, or into a new table of a database; returns their number.

        In CSV, an apostrophe is put before text that a spreadsheet would run as a formula.

        Parameters
        ----------
        where : path or URL
            A file that ends in .csv or .parquet; ``sqlite:///FILE`` or ``postgresql://...``.
        by : str
            Name of the user, for the audit log.
        state : {"open", "past"}, optional
            Only cases in this state.
        sensitive : bool
            Whether to write external ids and the columns that the dictionary marks as sensitive.
        table : str
            The name of the new table in a database.

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
