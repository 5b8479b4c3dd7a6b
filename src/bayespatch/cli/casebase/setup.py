"""Commands that begin a case base: init, import."""

from __future__ import annotations

from bayespatch.cli.app import usage_error
from bayespatch.cli.casebase.opening import Opened, Person, base_name, counted, open_base, person
from bayespatch.cli.casebase.options import (
    AllowRepeats,
    Base,
    By,
    Demo,
    DictionaryFile,
    Folder,
    MaybeTarget,
    TableArgument,
)
from bayespatch.cli.options import Delimiter, Drop, GroupColumn, IdColumn, Json, Query
from bayespatch.cli.shared import taking
from bayespatch.cli.terminal import show, working


def init(
    base: Base,
    target: MaybeTarget = None,
    dictionary: DictionaryFile = None,
    demo: Demo = False,
    by: By = None,
    folder: Folder = None,
    json: Json = False,
) -> None:
    """Create a case base. With a data dictionary it also knows its columns. An existing case base is left as it is.

    Examples
    --------
    $ bayespatch casebase init clinic.db
    $ bayespatch casebase init clinic.db --dictionary columns.csv --target outcome
    $ bayespatch casebase init demo.db --demo
    """
    from bayespatch.casebase import CaseBase

    if (target is None) != (dictionary is None):
        raise usage_error(
            "pass --dictionary and --target together: the description of the columns, and the one to predict"
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
        said = {"target": opened.target, "features": features}
    text = (
        f"the case base predicts {said['target']!r} from {len(features)} features" if features else "import cases next"
    )
    show(said, json, f"{base_name(base)} is ready; {text}")


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
    json: Json = False,
) -> None:
    """Add the cases of a table, all or none: past ones where the outcome is known, open ones where it is missing.

    Rows that repeat cases exactly are refused, unless --id tells them apart or you pass --allow-repeats.

    Examples
    --------
    $ bayespatch casebase import clinic.db patients.csv --target outcome --id patient --dictionary columns.csv
    $ bayespatch casebase import clinic.db sqlite:///ward.db --query 'SELECT * FROM stays'
    """
    with opened() as base, working("Importing"):
        ids = base.import_cases(
            data,
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
    said = {"cases": len(ids), "first": ids.start, "last": ids.stop - 1}
    show(said, json, f"{counted(len(ids), 'case')}, numbers {ids.start} to {ids.stop - 1}")
