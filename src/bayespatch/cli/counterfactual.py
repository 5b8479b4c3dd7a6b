"""The command that finds the smallest change that would change a prediction."""

from __future__ import annotations

from bayespatch.cli.asking import find_case
from bayespatch.cli.files import check_new, write
from bayespatch.cli.options import (
    Cases,
    Change,
    Delimiter,
    Force,
    HideIds,
    Identifier,
    IdentifierColumn,
    Json,
    JsonRow,
    Level,
    MaybeData,
    MaybeOut,
    ModelFile,
    MostChanges,
    Query,
    Row,
    Top,
    Wanted,
)
from bayespatch.cli.terminal import as_json, say, visible, width, working


def counterfactual(
    model: ModelFile,
    data: MaybeData = None,
    change: Change = None,
    to: Wanted = None,
    most: MostChanges = 3,
    row: Row = None,
    identifier: Identifier = None,
    json_row: JsonRow = None,
    out: MaybeOut = None,
    top: Top = 4,
    level: Level = 0.9,
    query: Query = None,
    delimiter: Delimiter = None,
    id_column: IdentifierColumn = None,
    cases: Cases = None,
    hide_ids: HideIds = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Find the smallest change of some features that would change the prediction, to values that past cases have.

    Examples
    --------
    $ bayespatch counterfactual model.bpatch new.csv --row 0 --change pressure --change weight
    $ bayespatch counterfactual model.bpatch --id P-03 --to well --json
    """
    check_new(force, out)
    case = find_case(model, data, row, identifier, json_row, query, delimiter, id_column, cases, hide_ids)
    with working("Trying changes"):
        found = case.model.counterfactual(case.row, change, to=to, most=most, top=top, level=level)
    write(as_json(found.to_dict()) if json else visible(found.to_text(width())), out)
    if out is not None:
        say(f"the answer is in {out}")
