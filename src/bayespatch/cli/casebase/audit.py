"""Commands for the audit log, backups and retention: log, verify, backup, restore, purge."""

from __future__ import annotations

from bayespatch.cli.casebase.opening import Opened, Person, base_name, counted, open_base, person
from bayespatch.cli.casebase.options import (
    Backup,
    Base,
    By,
    Days,
    Folder,
    Head,
    LaterLog,
    Limit,
    LogAction,
    LogAfter,
    LogBy,
    LogCase,
    OpenDays,
    Out,
    PastDays,
)
from bayespatch.cli.options import Json
from bayespatch.cli.shared import taking
from bayespatch.cli.terminal import show, table_text, working


@taking(opened=open_base)
def log(
    opened: Opened,
    case: LogCase = None,
    person: LogBy = None,
    action: LogAction = None,
    after: LogAfter = 0,
    limit: Limit = 20,
    json: Json = False,
) -> None:
    """Show the audit log, newest first: who did what and when.

    Examples
    --------
    $ bayespatch casebase log clinic.db
    $ bayespatch casebase log clinic.db --case 304 --json
    """
    with opened() as base:
        entries = base.audit(case=case, by=person, action=action, after=after, limit=limit)
    rows = [
        [str(one.number), one.at[:19], one.by, one.action, "" if one.case_id is None else str(one.case_id)]
        for one in entries
    ]
    text = table_text(["row", "at", "by", "action", "case"], rows) if rows else "nothing yet"
    show({"log": entries}, json, text)


def verify(base: Base, head: Head = None, folder: Folder = None, json: Json = False) -> None:
    """Check the log, the cases and the models against their hashes. The exit code is 1 if anything was changed.

    To detect even a completely rewritten log, keep a copy of the end of the log elsewhere and pass it as --head next
    time.

    Examples
    --------
    $ bayespatch casebase verify clinic.db
    $ bayespatch casebase verify clinic.db --head 1204:5d41402a...
    """
    with open_base(base, folder) as opened:
        verification = opened.verify_audit(head)
    result = {
        "intact": verification.intact,
        "entries": verification.n_entries,
        "head": verification.head,
        "problems": list(verification.problems),
    }
    if verification.intact:
        show(result, json, f"intact: {verification.n_entries} rows; the log ends with {verification.head}")
        return
    if json:
        show(result, json, "")
    raise ValueError(f"{base_name(base)}: {'; '.join(verification.problems)}")


@taking(opened=open_base, by=person)
def backup(opened: Opened, out: Out, by: Person, json: Json = False) -> None:
    """Copy the whole case base into one SQLite file without interrupting other users.

    Examples
    --------
    $ bayespatch casebase backup clinic.db backups/2025-03-01.db
    """
    with opened() as base, working("Copying"):
        path = base.backup(out, by=by())
        head = base.verify_audit().head
    show({"backup": str(path), "head": head}, json, f"the backup is in {path}; the log ends with {head}")


def restore(
    base: Base, file: Backup, log: LaterLog = None, by: By = None, folder: Folder = None, json: Json = False
) -> None:
    """Fill a new, empty case base from a backup.

    The backup contains patients who were forgotten later. Pass the later audit log (casebase log --after N --json) to
    forget them again.

    Examples
    --------
    $ bayespatch casebase restore postgresql://steward@db/clinic backups/2025-03-01.db --log log.json
    """
    from bayespatch.casebase import CaseBase

    with CaseBase.open(base, folder=folder) as opened, working("Copying"):
        opened.restore(file, by=person(by))
        again = [] if log is None else opened.forget_again(log, by=person(by))
        verification = opened.verify_audit()
    text = f"{base_name(base)} is restored from the backup"
    text += "" if log is None else f"; {counted(len(again), 'case')} forgotten again"
    show({"entries": verification.n_entries, "head": verification.head, "forgotten": again}, json, text)


@taking(opened=open_base, by=person)
def purge(
    opened: Opened,
    by: Person,
    consultations: Days = None,
    open_cases: OpenDays = None,
    past_cases: PastDays = None,
    json: Json = False,
) -> None:
    """Delete data older than the retention periods, and expired sessions, tokens and links.

    Examples
    --------
    $ bayespatch casebase purge clinic.db --consultations 3650 --open-cases 365
    """
    with opened() as base:
        done = base.purge(by=by(), consultations=consultations, open_cases=open_cases, past_cases=past_cases)
    expired = sum(done.expired.values())
    text = (
        f"deleted: {counted(done.consultations, 'consultation')}, {counted(expired, 'expired row')}; "
        f"forgotten: {counted(len(done.open_cases), 'open case')}, {counted(len(done.past_cases), 'past case')}"
    )
    show(done, json, text)
