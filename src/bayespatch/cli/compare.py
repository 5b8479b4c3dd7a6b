"""The command that compares a patchwork with standard methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bayespatch.cli.app import usage_error
from bayespatch.cli.estimators import estimator_settings, new_estimator
from bayespatch.cli.options import Cost, Folds, Json, Threshold
from bayespatch.cli.shared import taking
from bayespatch.cli.terminal import counting, say, show, table_text
from bayespatch.cli.training_table import TableOptions, read_training
from bayespatch.decisions import read_decision
from bayespatch.types import JSONObject, Parameters

if TYPE_CHECKING:
    from bayespatch.compare import Standing
    from bayespatch.encode.table import Series


@taking(read_options=TableOptions, settings=estimator_settings)
def compare(
    read_options: Callable[[], TableOptions],
    settings: Callable[[], JSONObject],
    folds: Folds = 5,
    threshold: Threshold = None,
    cost: Cost = None,
    json: Json = False,
) -> None:
    """Cross-validate the classifier and tuned standard methods on the same folds.

    Standard methods are tuned in each fold, by cross-validation within its training cases. With --group, all rows of a
    patient are in the same fold.

    Examples
    --------
    $ bayespatch compare patients.csv --target outcome --id patient
    $ bayespatch compare visits.csv --target outcome --group patient --threshold 0.1
    $ bayespatch compare stays.parquet --target days --regression --folds 10 --json
    """
    from bayespatch.compare import compare as cross_validate

    options, given = read_options(), settings()
    if options.event is not None:
        raise usage_error("compare does not support --time; pass a class or a number to predict with --target")
    learned = read_training(options)
    table, coded = learned.table, learned.categorical
    at = None
    if not options.is_number:
        at = _threshold(table.y, threshold, cost)
        counts = table.y.value_counts()
        few = [f"{label} ({n})" for label, n in counts.items() if n < folds]
        if few:
            say(
                f"note: classes with fewer cases than the {folds} folds: {', '.join(few[:6])}"
                f"{' and more' if len(few) > 6 else ''}; the training data of some folds lack them"
            )
    with counting("patchwork") as tell:
        estimator = new_estimator(options.is_number, coded, **given)
        how: Parameters = {"groups": table.groups, "threshold": at, "tell": tell}
        standings = cross_validate(learned.features, table.y, estimator, folds=folds, seed=given["random_state"], **how)
    methods = [{"method": one.method, "scores": one.summary(), "seconds": one.seconds} for one in standings]
    shown = {"target": options.outcome, "folds": folds, "group": options.group, "methods": methods}
    show(shown, json, _standings(standings, folds, at, table.y.nunique()))


def _threshold(y: Series, threshold: str | None, cost: str | None) -> float | None:
    """The probability at which the rarer of two classes, or each of several, is flagged; None: its share of cases."""
    if not threshold and not cost:
        threshold, cost = y.attrs.get("threshold"), y.attrs.get("cost")
    for text in (threshold, cost):
        if text and "=" in text:
            raise ValueError(f"compare flags the rarer class; remove {text.rpartition('=')[0]!r} from {text!r}")
    decision = read_decision(threshold, cost, ("", "the class"))
    return None if decision is None else decision.threshold


def _standings(standings: list[Standing], folds: int, threshold: float | None, n_classes: int) -> str:
    """A table of the results, with the best value of each measure marked."""
    from bayespatch.compare import MORE_IS_BETTER

    measures = list(standings[0].scores)
    best = {m: (max if MORE_IS_BETTER[m] else min)(one.mean(m) for one in standings) for m in measures}
    rows = []
    for one in standings:
        cells = [f"{one.mean(m):.3f}±{one.deviation(m):.3f}{'*' if one.mean(m) == best[m] else ' '}" for m in measures]
        rows.append([one.method, *cells, "" if one.seconds is None else f"{one.seconds:.1f}"])
    directions = ", ".join(f"{m} ({'higher' if MORE_IS_BETTER[m] else 'lower'} is better)" for m in measures)
    shown = (
        f"{table_text(['method', *measures, 'seconds'], rows)}\n\nMean ± SD over {folds} folds; *: best. {directions}"
    )
    shown += "\nAll methods except the patchwork are tuned within each fold."
    if "net benefit" in measures:
        called = "the rarer class" if n_classes == 2 else "each class (means over the classes)"
        at = "its share of the cases" if threshold is None else f"{threshold:g}"
        shown += f" Average precision and net benefit are for {called}, flagged at a probability of at least {at}."
    if any(one.seconds is None for one in standings):
        shown += " Precedents and second opinion come from one fit, so they are not timed separately."
    return shown
