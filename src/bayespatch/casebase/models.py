"""Models: stored in the database in parts, checked by their SHA-256, one of them active.

A model contains past cases. It is stored in the database, so that a case and the models that contain it change in
one transaction, one backup contains everything, and all processes see the same model. Files exist only while a model is
read or written (`bayespatch.load` and `save` need one), in a folder that only its owner can open; the next process
deletes the files that killed ones left behind.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from sqlalchemy import Connection, delete, func, insert, select, update

from bayespatch.casebase.audit import Transaction
from bayespatch.casebase.errors import CaseBaseError, ConflictError, DatabaseError, NotFoundError
from bayespatch.casebase.tables import model_parts, models, training
from bayespatch.estimator import PatchworkClassifier, load
from bayespatch.types import JSONMapping, JSONObject

OFFERED, ACTIVE, RETIRED, REMOVED = "offered", "active", "retired", "removed"
PART = 2**20  # bytes in one row
_STALE = 600  # seconds after which any file counts as left over


@dataclass(frozen=True)
class ModelVersion:
    """A version of the model."""

    version: int
    state: str  # offered, active, retired, or removed (if too few of its past cases are left)
    sha256: str | None
    n_cases: int
    n_forgotten: int  # number of its past cases that were forgotten; a refit is due
    known_at: int  # it learned from the past cases as of this audit row
    based_on: int | None
    metrics: JSONObject | None  # comparison with the model that was active then
    made_at: str
    made_by: str
    promoted_at: str | None
    promoted_by: str | None
    refit_due: bool = field(init=False, default=False)  # whether past cases that it learned from were forgotten

    def __post_init__(self) -> None:
        object.__setattr__(self, "refit_due", self.n_forgotten > 0)


def listed(connection: Connection) -> list[ModelVersion]:
    """All versions, newest first."""
    return [
        ModelVersion(**row._mapping) for row in connection.execute(select(models).order_by(models.c.version.desc()))
    ]


def active(connection: Connection) -> ModelVersion | None:
    """The active version."""
    row = connection.execute(select(models).where(models.c.state == ACTIVE)).first()
    return None if row is None else ModelVersion(**row._mapping)


def find(connection: Connection, version: int) -> ModelVersion:
    """A version by its number."""
    row = None
    if isinstance(version, int) and not isinstance(version, bool) and 0 < version < 2**31:
        row = connection.execute(select(models).where(models.c.version == version)).first()
    if row is None:
        raise NotFoundError(f"there is no model version {version!r}; list them: bayespatch casebase models")
    return ModelVersion(**row._mapping)


# Bytes and files


@contextmanager
def working_file(folder: Path) -> Iterator[Path]:
    """The path of a temporary file that is deleted afterwards."""
    make_folder(folder)
    place = folder / f"moment-{os.getpid()}-{secrets.token_hex(4)}"
    place.mkdir(mode=0o700)
    try:
        yield place / "model.bpatch"
    finally:
        shutil.rmtree(place, ignore_errors=True)


def make_folder(folder: Path) -> None:
    """The working folder, accessible only to its owner."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseError(
            f"the folder {str(folder)!r} cannot be created ({error.strerror}); pass folder=...",
            "the server cannot write its temporary files; contact its operator",
            f"working folder: {error.strerror}",
        ) from error
    check_own(folder)


def check_own(folder: Path) -> None:
    """Reject a working folder that another user owns or can open: its files contain patient data."""
    if os.name == "nt":
        return
    status = os.lstat(folder)
    if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077:
        return
    raise DatabaseError(
        f"the working folder {str(folder)!r} must be a folder that only you can open; remove it, run "
        f"chmod 700 on it, or pass folder=...",
        "the server's working folder is not private; contact its operator",
        "working folder: not private",
    )


def drop_left_over(folder: Path) -> None:
    """Delete the files of dead processes from the working folder."""
    try:
        check_own(folder)
    except (OSError, DatabaseError):
        return  # the folder does not exist or belongs to another user
    for place in folder.glob("moment-*"):
        owner = place.name.split("-")[1]
        try:
            old = time.time() - place.stat().st_mtime > _STALE
        except OSError:
            continue
        if old or not (owner.isdecimal() and _runs(int(owner))):
            shutil.rmtree(place, ignore_errors=True)


def _runs(process: int) -> bool:
    if sys.platform == "win32":  # on Windows, os.kill would end the process
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def write_parts(transaction: Transaction, version: int, clf: PatchworkClassifier, folder: Path) -> str:
    """Store a fitted model in place of the earlier bytes; returns its SHA-256."""
    with working_file(folder) as path:
        clf.save(path, overwrite=True)
        content = path.read_bytes()
    transaction.execute(delete(model_parts).where(model_parts.c.version == version))
    for number, start in enumerate(range(0, len(content), PART)):
        part = content[start : start + PART]
        transaction.execute(insert(model_parts).values(version=version, part=number, bytes=part))
    return hashlib.sha256(content).hexdigest()


def read_model(connection: Connection, version: int, sha256: str | None, folder: Path) -> PatchworkClassifier:
    """Read a fitted model from the database and check its checksum."""
    digest = hashlib.sha256()
    with working_file(folder) as path:
        with path.open("wb") as file:
            for part in _parts(connection, version):
                digest.update(part)
                file.write(part)
        if digest.hexdigest() != sha256:
            raise CaseBaseError(f"model version {version} is damaged: its checksum differs; restore a backup")
        return load(path)


def _parts(connection: Connection, version: int) -> Iterable[bytes]:
    numbers = connection.execute(
        select(model_parts.c.part).where(model_parts.c.version == version).order_by(model_parts.c.part)
    )
    for number in numbers.scalars().all():
        chosen = (model_parts.c.version == version) & (model_parts.c.part == number)
        yield bytes(connection.execute(select(model_parts.c.bytes).where(chosen)).scalar_one())


def problems(connection: Connection) -> list[str]:
    """A problem for each model whose bytes have changed."""
    wrong = []
    for model in listed(connection):
        digest = hashlib.sha256()
        n_parts = 0
        for part in _parts(connection, model.version):
            digest.update(part)
            n_parts += 1
        if (model.sha256 is not None and digest.hexdigest() != model.sha256) or (model.sha256 is None and n_parts):
            wrong.append(f"model version {model.version} was changed after it was stored")
    return wrong


def ids_of(clf: PatchworkClassifier) -> tuple[str, ...]:
    """The numbers of the past cases, as strings."""
    assert clf.ids_ is not None
    return clf.ids_


def neighbor_of(clf: PatchworkClassifier, case: int, most: int) -> list[tuple[int, float]]:
    """Past cases that have this past case as a neighbor and may be shown, most likely first."""
    if str(case) not in ids_of(clf):
        return []
    place = np.flatnonzero(clf.parents_ == ids_of(clf).index(str(case)))
    if not len(place):
        return []
    rows, probability = clf.has_as_neighbor(int(place[0]))
    neighbors: list[tuple[int, float]] = []
    for i in np.argsort(-probability, kind="stable").tolist():
        row = int(rows[i])
        if len(neighbors) == most or probability[i] <= 0.0:
            break
        if clf.may_be_shown(row):
            neighbors.append((int(ids_of(clf)[row]), float(probability[i])))
    return neighbors


# Versions


def offer(
    transaction: Transaction,
    clf: PatchworkClassifier,
    case_ids: list[int],
    known_at: int,
    based_on: int | None,
    metrics: JSONObject | None,
    folder: Path,
) -> ModelVersion:
    """Store a fitted model as the next version; it is not used until someone promotes it."""
    version = 1 + (transaction.execute(select(func.max(models.c.version))).scalar() or 0)
    row = {
        "version": version,
        "state": OFFERED,
        "n_cases": len(case_ids),
        "n_forgotten": 0,
        "known_at": known_at,
        "based_on": based_on,
        "metrics": metrics,
        "made_at": transaction.at,
        "made_by": transaction.by,
    }
    transaction.execute(insert(models).values(**row))
    sha256 = write_parts(transaction, version, clf, folder)
    transaction.execute(update(models).where(models.c.version == version).values(sha256=sha256))
    transaction.execute(insert(training), [{"version": version, "case_id": case_id} for case_id in case_ids])
    transaction.record(
        "refit", version=version, sha256=sha256, cases=len(case_ids), known_at=known_at, based_on=based_on
    )
    return find(transaction.connection, version)


def promote(
    transaction: Transaction, version: int, action: str = "promote", details: JSONMapping | None = None
) -> ModelVersion:
    """Make a version the active model; `details` are for the audit log."""
    model = find(transaction.connection, version)
    if model.state == REMOVED:
        raise ConflictError(
            f"model version {version} was removed because too few of its past cases are left; refit instead"
        )
    if model.state == ACTIVE:
        raise ConflictError(f"model version {version} is already active")
    before = active(transaction.connection)
    transaction.execute(update(models).where(models.c.state == ACTIVE).values(state=RETIRED))
    new = {"state": ACTIVE, "promoted_at": transaction.at, "promoted_by": transaction.by}
    transaction.execute(update(models).where(models.c.version == version).values(**new))
    was = None if before is None else before.version
    transaction.record(action, version=version, sha256=model.sha256, before=was, **(details or {}))
    return find(transaction.connection, version)


def roll_back(transaction: Transaction) -> ModelVersion:
    """Promote the newest version that is older than the active one and was active before."""
    now = active(transaction.connection)
    if now is None:
        raise ConflictError("no model is active, so there is nothing to roll back; promote a version")
    older = [
        model.version
        for model in listed(transaction.connection)
        if model.version < now.version and model.promoted_at is not None and model.state == RETIRED
    ]
    if not older:
        raise ConflictError(f"no version before {now.version} was ever active; promote one by its number")
    return promote(transaction, max(older), "roll back")


def trained_on(connection: Connection, case_id: int) -> list[ModelVersion]:
    """The versions that learned from a case."""
    query = select(models).join(training, training.c.version == models.c.version).where(training.c.case_id == case_id)
    return [ModelVersion(**row._mapping) for row in connection.execute(query.order_by(models.c.version))]


def mark_forgotten(transaction: Transaction, version: int, n: int) -> ModelVersion:
    """Record that past cases of a version were forgotten: a refit is due."""
    more = models.c.n_forgotten + n
    transaction.execute(update(models).where(models.c.version == version).values(n_forgotten=more))
    return find(transaction.connection, version)
