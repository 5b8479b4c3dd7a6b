"""The command that finds the smallest change that would change a prediction."""

from __future__ import annotations

from collections.abc import Callable

from bayespatch.cli.case import ChosenCase, answer, check_no_times, find_case
from bayespatch.cli.files import check_new
from bayespatch.cli.options import Change, Force, Json, Level, MaybeOut, MostChanges, Top, Wanted
from bayespatch.cli.shared import taking
from bayespatch.cli.terminal import working


@taking(find=find_case)
def counterfactual(
    find: Callable[[], ChosenCase],
    change: Change = None,
    to: Wanted = None,
    most: MostChanges = 3,
    out: MaybeOut = None,
    top: Top = 5,
    level: Level = 0.9,
    force: Force = False,
    json: Json = False,
) -> None:
    """Find the smallest change that changes the prediction, using only values that past cases have.

    Examples
    --------
    $ bayespatch counterfactual model.bpatch new.csv --row 0 --change pressure --change weight
    $ bayespatch counterfactual model.bpatch --id P-03 --to well --json
    """
    check_new(force, out)
    case = find()
    check_no_times(case.model, "counterfactual")
    with working("Trying changes"):
        result = case.model.counterfactual(case.row, change, to=to, most=most, top=top, level=level)
    answer(result, json, out)
