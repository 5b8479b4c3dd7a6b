"""Commands for a case base: ``bayespatch casebase ...``."""

from __future__ import annotations

from bayespatch.cli.casebase.admissions import score
from bayespatch.cli.casebase.audit import backup, log, purge, restore, verify
from bayespatch.cli.casebase.cases import drift, export, forget, monitor, search
from bayespatch.cli.casebase.consulting import consult, decide, outcome, retain
from bayespatch.cli.casebase.models import models, promote, refit, roll_back
from bayespatch.cli.casebase.people import invite
from bayespatch.cli.casebase.setup import import_, init

ABOUT = (
    "Past cases, consultations, decisions and models in SQLite or PostgreSQL: retrieve, reuse, revise, retain, forget. "
    "BASE is a file, sqlite:///FILE or postgresql://USER@HOST/NAME; set a PostgreSQL password in PGPASSWORD."
)

COMMANDS = (
    *(init, import_, score, consult, decide, outcome, retain, refit, models, promote, roll_back, forget),
    *(search, log, verify, backup, restore, purge, export, drift, monitor, invite),
)
