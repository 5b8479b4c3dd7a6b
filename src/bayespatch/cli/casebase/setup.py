"""Commands that create and fill a case base: init, import."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bayespatch.cli.app import usage_error
from bayespatch.cli.casebase.opening import Opened, Person, base_name, counted, open_base, person
from bayespatch.cli.casebase.options import (
    AllowRepeats,
    Base,
    By,
    Demo,
    DictionaryFile,
    Folder,
    MappingFile,
    MaybeTarget,
    TableArgument,
)
from bayespatch.cli.options import Delimiter, Drop, GroupColumn, IdColumn, Json, Query
from bayespatch.cli.shared import taking
from bayespatch.cli.terminal import say, show, working
from bayespatch.types import TableLike

if TYPE_CHECKING:
    from bayespatch.casebase import CaseBase
    from bayespatch.fhir import MappedCase


def init(
    base: Base,
    target: MaybeTarget = None,
    dictionary: DictionaryFile = None,
    demo: Demo = False,
    by: By = None,
    folder: Folder = None,
    json: Json = False,
) -> None:
    """Create a case base. A data dictionary defines its columns. An existing case base is not changed.

    Examples
    --------
    $ bayespatch casebase init clinic.db
    $ bayespatch casebase init clinic.db --dictionary columns.csv --target outcome
    $ bayespatch casebase init demo.db --demo
    """
    from bayespatch.casebase import CaseBase

    if (target is None) != (dictionary is None):
        raise usage_error(
            "pass --dictionary and --target together: the description of the columns and the column to predict"
        )
    if demo and dictionary is not None:
        raise usage_error("pass either --demo or --dictionary: the demo data have their own dictionary")
    with CaseBase.open(base, folder=folder) as opened:
        if demo and not opened.models():
            from bayespatch.web.demo import fill

            with working("Importing the demo data and fitting a model"):
                fill(opened, person(by))
        if dictionary is not None and target is not None:
            opened.define(dictionary, target, by=person(by))
        features = [] if opened.dictionary is None else list(opened.dictionary.names)
        result = {"target": opened.target, "features": features}
    text = (
        f"the case base predicts {result['target']!r} from {len(features)} features"
        if features
        else "import cases next"
    )
    show(result, json, f"{base_name(base)} is ready; {text}")


@taking(opened=open_base, by=person)
def import_(
    opened: Opened,
    data: TableArgument,
    by: Person,
    target: MaybeTarget = None,
    id_column: IdColumn = None,
    group_column: GroupColumn = None,
    dictionary: DictionaryFile = None,
    drop: Drop = None,
    query: Query = None,
    delimiter: Delimiter = None,
    allow_repeats: AllowRepeats = False,
    mapping: MappingFile = None,
    json: Json = False,
) -> None:
    """Add all cases of a table, or none on an error. Cases with an outcome become past cases, the others open cases.

    Exact repeats of cases are rejected, unless --id distinguishes them or you pass --allow-repeats.

    Examples
    --------
    $ bayespatch casebase import clinic.db patients.csv --target outcome --id patient --dictionary columns.csv
    $ bayespatch casebase import clinic.db sqlite:///ward.db --query 'SELECT * FROM stays'
    $ bayespatch casebase import clinic.db export/ --mapping mapping.yaml
    """
    if mapping is not None and (id_column or group_column or query or delimiter):
        raise usage_error("--mapping already identifies the patients; remove --id, --group, --query and --delimiter")
    with opened() as base, working("Importing"):
        table: TableLike = data
        if mapping is not None:
            table, outcome = _health_records(data, mapping, dictionary, base)
            id_column = group_column = "patient"
            target = target or (outcome if base.target is None else None)
        ids = base.import_cases(
            table,
            by=by(),
            target=target,
            id_column=id_column,
            group_column=group_column,
            dictionary=dictionary,
            drop=drop or (),
            query=query,
            delimiter=delimiter,
            allow_repeats=allow_repeats,
        )
    result = {"cases": len(ids), "first": ids.start, "last": ids.stop - 1}
    show(result, json, f"{counted(len(ids), 'case')}, numbers {ids.start} to {ids.stop - 1}")


def note_problems(cases: Sequence[MappedCase], without: tuple[str, ...] = ()) -> None:
    """Notes on the values of health records that were not used, except for some kinds of problems."""
    problems = [problem for case in cases for problem in case.problems if problem.kind not in without]
    counts = Counter(problem[:2] for problem in problems)
    for (column, kind), n in counts.most_common():
        example = next(one.text for one in problems if one[:2] == (column, kind))
        say(f"note: column {column!r}: {kind} in {n} of {counted(len(cases), 'case')}, such as {example}")


def _health_records(data: str, file: Path, dictionary: Path | None, base: CaseBase) -> tuple[TableLike, str | None]:
    """The cases of a FHIR bulk export or of an OMOP database, with a note on what was missing, and their outcome."""
    from bayespatch.dictionary import Dictionary
    from bayespatch.fhir import Mapping, read_bulk, read_omop, to_frame

    mapping = Mapping.load(file, base.dictionary if dictionary is None else Dictionary.read(dictionary))
    skipped: list[str] = []
    read = read_omop if "://" in data else read_bulk
    cases = list(read(data, mapping, skipped=skipped.append))
    if skipped:
        say(f"note: {counted(len(skipped), 'patient')} skipped, without the date that 'at' of the mapping names")
    if not cases:
        raise ValueError("no patient has the date that 'at' of the mapping names; correct 'at'")
    note_problems(cases)
    return to_frame(cases, mapping), None if mapping.rules.outcome is None else mapping.rules.outcome.column
