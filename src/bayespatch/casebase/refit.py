"""Refitting the model to the past cases, in a separate process: ``python -m bayespatch.casebase.refit``.

The process reads the job as JSON from stdin (a URL may contain a password, and other users can see the arguments of a
process) and prints the new version. The fit starts from the active model and writes checkpoints to the working folder,
so that a killed refit can resume. The new model is stored in one transaction and not used until someone promotes it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray
from sqlalchemy import select

from bayespatch.casebase import cases as case_rows
from bayespatch.casebase import follow_up, models
from bayespatch.casebase.audit import check_by
from bayespatch.casebase.cases import Definition
from bayespatch.casebase.comparison import leave_one_out, metrics, without_change
from bayespatch.casebase.database import Database, json_text
from bayespatch.casebase.errors import CaseBaseError, ConflictError
from bayespatch.casebase.tables import cases, chain
from bayespatch.casebase.visits import groups_of
from bayespatch.casebase.without import without_case
from bayespatch.dictionary import Dictionary, Value
from bayespatch.encode.table import DataFrame, Series
from bayespatch.estimator import PatchworkClassifier
from bayespatch.follow_up import KindOf
from bayespatch.model import Hyperparameters
from bayespatch.source.frame import frame_of
from bayespatch.types import JSONObject, Parameters


class Snapshot(NamedTuple):
    """Input of a refit: the past cases at one moment, and the active model."""

    case_ids: list[int]  # those of the active model first, in its order
    rows: list[dict[str, Value]]
    outcomes: list[Value]
    definition: Definition
    version: int | None
    clf: PatchworkClassifier | None
    known_at: int  # the last audit row
    groups: NDArray[np.int64] | None  # number of each case's patient; None if every patient has one visit
    follow_up: list[dict[str, Value]]  # of each case, as it is now


def snapshot(database: Database) -> Snapshot:
    """The past cases and the active model."""
    with database.reading() as connection:
        definition = case_rows.required_definition(connection)
        known_at = connection.execute(select(chain.c.number)).scalar_one()
        past = select(cases.c.id, cases.c["values"], cases.c.outcome, cases.c.patient)
        past = past.where(cases.c.state == case_rows.PAST)
        rows_by_id = {row.id: row for row in connection.execute(past.order_by(cases.c.id))}
        recorded = follow_up.merged(connection) if definition.follow_up.names else {}
        active = models.active(connection)
        clf = None
        order = list(rows_by_id)
        if active is not None:
            clf = models.read_model(connection, active.version, active.sha256, database.folder)
            first = [int(name) for name in models.ids_of(clf) if int(name) in rows_by_id]
            order = [*first, *sorted(set(rows_by_id) - set(first))]
    classes = {rows_by_id[case].outcome for case in order}
    if len(classes) < 2:
        raise CaseBaseError(
            f"there are {len(order)} past cases with {len(classes)} different outcomes; a model needs two or more"
        )
    rows = [dict(rows_by_id[case].values) for case in order]
    outcomes = [json.loads(rows_by_id[case].outcome) for case in order]
    groups = groups_of([rows_by_id[case].patient for case in order])
    version = None if active is None else active.version
    recorded_of = [recorded.get(case, {}) for case in order]
    return Snapshot(order, rows, outcomes, definition, version, clf, known_at, groups, recorded_of)


def table_of(
    definition: Definition, case_ids: list[int], rows: list[dict[str, Value]], outcomes: list[Value]
) -> tuple[DataFrame, Series]:
    """Features and outcomes as a data frame and a series, with labels, units and usual ranges of the dictionary."""
    names = definition.features.names
    X = frame_of("the case base", names, [[row[name] for name in names] for row in rows])
    X.index = [str(case) for case in case_ids]
    target = definition.target
    y = frame_of("the case base", [target.name], [[outcome] for outcome in outcomes])[target.name]
    return Dictionary({**definition.features.entries, target.name: target}).describe(X, y)


def with_follow_up(
    X: DataFrame, definition: Definition, rows: list[dict[str, Value]], kinds: Mapping[str, KindOf]
) -> DataFrame:
    """The features, the follow-up columns of these kinds, and their events."""
    events = [kind[1] for kind in kinds.values() if isinstance(kind, tuple)]
    names = list(dict.fromkeys([*kinds, *events]))
    if not names:
        return X
    recorded = frame_of("the case base", names, [[row.get(name) for name in names] for row in rows])
    recorded.index = X.index
    recorded, _ = definition.follow_up.only(names).describe(recorded)
    both = X.join(recorded)
    both.attrs = {part: {**X.attrs.get(part, {}), **recorded.attrs.get(part, {})} for part in recorded.attrs}
    return both


def new_estimator(parameters: Mapping[str, object], start: Snapshot) -> PatchworkClassifier:
    """The estimator to fit: the active model, for a warm start, or a new one."""
    given: Parameters = dict(parameters)
    if isinstance(given.get("hyper"), Mapping):
        given["hyper"] = Hyperparameters(**given["hyper"])
    entries = start.definition.features.entries
    coded = [name for name, entry in entries.items() if entry.kind == "number" and entry.levels]
    given.setdefault("categorical", coded)
    try:
        if start.clf is not None and given.get("chains", start.clf.chains) == start.clf.chains:
            return start.clf.set_params(**given, warm_start=True)
        return PatchworkClassifier(**{"random_state": 0, **given})
    except (TypeError, ValueError) as error:
        raise CaseBaseError(f"these are not parameters of the classifier ({error})") from error


def learn(database: Database, by: str, parameters: Mapping[str, object] | None = None) -> models.ModelVersion:
    """Fit on the past cases in this process, and offer the result."""
    check_by(by)
    with _alone(database.folder):
        return _learn(database, by, parameters or {})


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Allow one refit at a time; the operating system releases the lock whenever a process ends."""
    models.make_folder(folder)
    try:
        with FileLock(folder / "refit.lock", timeout=0, mode=0o600):
            yield
    except Timeout as error:
        raise ConflictError("another refit is running; wait for it, or cancel it") from error


def _learn(database: Database, by: str, parameters: Mapping[str, object]) -> models.ModelVersion:
    start = snapshot(database)
    clf = new_estimator(parameters, start)
    old = None if start.clf is None else leave_one_out(start.clf.fitted_)
    folder = _checkpoint_folder(database, start, clf)
    X, y = table_of(start.definition, start.case_ids, start.rows, start.outcomes)
    kinds = follow_up.usable_kinds(start.definition, start.follow_up)
    X = with_follow_up(X, start.definition, start.follow_up, kinds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the model's diagnostics state whether the chains mixed
        clf.set_params(checkpoint=folder)
        try:
            clf.fit(X, y, groups=start.groups, follow_up=kinds or None)
        except ValueError as error:
            raise CaseBaseError(str(error)) from error
    clf.set_params(checkpoint=None, warm_start=False)
    comparison: JSONObject | None = metrics(leave_one_out(clf.fitted_), old)
    with database.writing(by) as transaction:
        # Cases that were forgotten during the fit are removed before anything is stored.
        left = {row.id for row in transaction.execute(select(cases.c.id).where(cases.c.state == case_rows.PAST))}
        gone = [case for case in start.case_ids if case not in left]
        for case in gone:
            clf = without_case(clf, models.ids_of(clf).index(str(case)), public_levels(start.definition))
            comparison = without_change(comparison, case)
        case_ids = [case for case in start.case_ids if case in left]
        model = models.offer(transaction, clf, case_ids, start.known_at, start.version, comparison, database.folder)
        if gone:
            model = models.mark_forgotten(transaction, model.version, len(gone))
    shutil.rmtree(folder, ignore_errors=True)
    return model


def public_levels(definition: Definition) -> dict[str, list[Value]]:
    """Values listed in the data dictionary, by column."""
    return {name: [value for value, _ in entry.levels] for name, entry in definition.features.entries.items()}


def _checkpoint_folder(database: Database, start: Snapshot, clf: PatchworkClassifier) -> Path:
    """The folder for checkpoints: one for each set of cases, parameters and active model."""
    digest = hashlib.sha256()
    settings = {name: repr(value) for name, value in clf.get_params(deep=False).items() if name != "checkpoint"}
    groups = None if start.groups is None else start.groups.tolist()
    for part in (start.case_ids, start.rows, start.outcomes, groups, start.version, sorted(settings.items())):
        digest.update(json_text(part).encode())
    folder = database.folder / f"refit-{digest.hexdigest()[:16]}"
    for other in database.folder.glob("refit-*"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
    return folder


def drop_checkpoints(folder: Path) -> None:
    """Delete the checkpoints of refits, unless one is running: it deletes them itself."""
    if folder.is_dir():
        with suppress(CaseBaseError), _alone(folder):
            for other in folder.glob("refit-*"):
                shutil.rmtree(other, ignore_errors=True)


class Refit:
    """A refit in a separate process; see `CaseBase.refit`."""

    def __init__(self, database: Database, by: str, parameters: Mapping[str, object]) -> None:
        check_by(by)
        try:
            job = json.dumps(
                {
                    "url": database.url.render_as_string(hide_password=False),
                    "folder": str(database.folder),
                    "timeout": database.timeout,
                    "key": None if database.key is None else database.key.hex(),
                    "by": by,
                    "parameters": dict(parameters),
                }
            )
        except TypeError as error:
            raise CaseBaseError(
                f"the parameters of a refit must be strings or numbers ({error}); correct them"
            ) from error
        command = [sys.executable, "-m", "bayespatch.casebase.refit"]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(job)
            self.process.stdin.close()
        self.process.stdin = None

    @property
    def running(self) -> bool:
        """Whether it is still running."""
        return self.process.poll() is None

    def wait(self) -> int:
        """Wait for the end; returns the new version, or raises a CaseBaseError with the reason."""
        out, problem = self.process.communicate()
        if self.process.returncode == 0:
            return int(json.loads(out)["version"])
        if self.process.returncode == 1 and problem.strip():
            raise CaseBaseError(problem.strip().splitlines()[-1])
        raise CaseBaseError(
            f"the refit ended early (exit status {self.process.returncode}); nothing was changed; refit again "
            "to continue"
        )

    def cancel(self) -> None:
        """Stop without changes; the same refit can resume from here."""
        self.process.terminate()
        self.process.communicate()


def main() -> None:
    """Run the refit in this process."""
    job = json.load(sys.stdin)
    key = None if job["key"] is None else bytes.fromhex(job["key"])
    database = Database(job["url"], job["folder"], job["timeout"], key)
    try:
        database.open(create=False)
        model = learn(database, job["by"], job["parameters"])
    except (ValueError, OSError, ImportError, MemoryError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        raise SystemExit(1) from None
    finally:
        database.close()
    print(json.dumps({"version": model.version}))


if __name__ == "__main__":
    main()
