"""The command that scores today's admissions, once or on a schedule."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, cast

from bayespatch.cli.app import usage_error
from bayespatch.cli.casebase.opening import Opened, Person, counted, open_base, person
from bayespatch.cli.casebase.options import AdmissionId, AdmissionSource, MappingFile, Minutes, SinceDay
from bayespatch.cli.casebase.setup import note_problems
from bayespatch.cli.options import Delimiter, GroupColumn, Json, Query
from bayespatch.cli.shared import taking
from bayespatch.cli.terminal import say, show, working

if TYPE_CHECKING:
    from bayespatch.casebase.cases import Definition
    from bayespatch.casebase.scoring import Admission
    from bayespatch.encode.table import DataFrame

_STAY = "admission"  # the column of admission ids taken from health records
TODAY = "today"


@dataclass(frozen=True)
class _Source:
    """The source of the admissions, read in each round."""

    data: str
    mapping: Path | None
    since: str | None
    id_column: str | None
    group_column: str | None
    query: str | None
    delimiter: str | None

    def check(self) -> None:
        """Reject options that cannot be combined."""
        table_options = (self.id_column, self.group_column, self.query, self.delimiter)
        if self.mapping is None and self.id_column is None:
            raise usage_error("pass --id, the column that identifies the admission, or --mapping for health records")
        if self.mapping is not None and any(table_options):
            raise usage_error(
                "--mapping already identifies the admissions; remove --id, --group, --query and --delimiter"
            )
        if self.since is not None and self.mapping is None:
            raise usage_error("--since is for health records (--mapping); select the day in --query instead")
        self.day()

    def day(self) -> date | None:
        """The first day of admissions; "today" is evaluated at each run."""
        if self.since in (None, TODAY):
            return None if self.since is None else date.today()
        try:
            return date.fromisoformat(str(self.since))
        except ValueError:
            raise usage_error(f"--since {self.since!r} is not a day; pass one such as 2024-12-31, or today") from None

    def read(self, definition: Definition) -> tuple[list[Admission], list[str]]:
        """The admissions, and messages about the rejected ones."""
        from bayespatch.casebase.retrieve import read_described
        from bayespatch.casebase.scoring import read_admissions
        from bayespatch.source.frame import EmptyTableError

        if self.mapping is not None:
            return self._from_records(definition, self.mapping)
        assert self.id_column is not None
        names = [name for name in (self.id_column, self.group_column) if name]
        try:
            table = read_described(self.data, definition.features, names, self.query, self.delimiter)
        except EmptyTableError:
            return [], []
        return read_admissions(table, definition, self.id_column, self.group_column)

    def _from_records(self, definition: Definition, file: Path) -> tuple[list[Admission], list[str]]:
        """Admissions from FHIR or OMOP, identified by patient and, if the mapping dates them, by day."""
        from bayespatch.casebase.scoring import read_admissions
        from bayespatch.fhir import Mapping, read_bulk, read_omop, to_frame
        from bayespatch.fhir.bulk import PATIENT

        mapping, day = Mapping.load(file, definition.features), self.day()
        dated = mapping.rules.at is not None
        if day is not None and not dated:
            raise ValueError("--since: the mapping does not say when a patient was admitted; add an 'at:' entry to it")
        if day is not None and mapping.rules.at is not None:  # earlier admissions of the same patients do not matter
            latest = replace(mapping.rules.at, select="latest")
            mapping = replace(mapping, rules=replace(mapping.rules, at=latest))
        cases = list(read_omop(self.data, mapping) if "://" in self.data else read_bulk(self.data, mapping))
        cases = [case for case in cases if day is None or case.at.date() >= day]
        if not cases:
            return [], []
        note_problems(cases, without=("missing",))
        names = [f"{case.patient} {case.at.date()}" if dated else case.patient for case in cases]
        table = cast("DataFrame", to_frame(cases, mapping)).assign(**{_STAY: names})
        return read_admissions(table, definition, _STAY, PATIENT)


@taking(opened=open_base, by=person)
def score(
    opened: Opened,
    data: AdmissionSource,
    by: Person,
    mapping: MappingFile = None,
    since: SinceDay = None,
    id_column: AdmissionId = None,
    group_column: GroupColumn = None,
    query: Query = None,
    delimiter: Delimiter = None,
    every: Minutes = None,
    json: Json = False,
) -> None:
    """Score admissions and put them on the worklist, all in one transaction; exit code 1 if some were rejected.

    An admission is scored again only if its values or the model changed; repeating the command changes nothing.

    Examples
    --------
    $ bayespatch casebase score clinic.db postgresql://ehr/ward --query 'SELECT * FROM admitted_today' --id stay
    $ bayespatch casebase score clinic.db export/ --mapping mapping.yaml --since today --every 15
    """
    source = _Source(data, mapping, since, id_column, group_column, query, delimiter)
    source.check()
    if every is None:
        refused = _round(opened, source, by(), json)
        if refused:
            raise ValueError(f"{counted(len(refused), 'admission')} refused: {'; '.join(refused[:3])}")
        return
    while True:
        begun = time.monotonic()
        try:
            for message in _round(opened, source, by(), json):
                say(f"refused: {message}")
        except (ValueError, OSError) as error:
            say(f"{datetime.now():%Y-%m-%d %H:%M}: nothing was scored: {error}")
        time.sleep(max(0.0, 60.0 * every - (time.monotonic() - begun)))


def _round(opened: Opened, source: _Source, by: str, json: bool) -> list[str]:
    """Read and score the admissions once; returns messages about the rejected ones."""
    with opened() as base, working("Scoring"):
        admissions, refused = source.read(base.definition)
        done = base.score(admissions, by=by)
    text = (
        f"model version {done.version}: {len(done.new)} new, {len(done.updated)} scored again, "
        f"{done.unchanged} unchanged, {done.closed} with a known outcome, {len(refused)} refused"
    )
    show({**vars(done), "refused": refused}, json, text)
    return refused
