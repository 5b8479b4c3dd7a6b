"""The command that predicts a case with different values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bayespatch.cli.case import ChosenCase, answer, check_no_times, find_case
from bayespatch.cli.files import check_new
from bayespatch.cli.options import Force, Json, Level, MaybeOut, Set, Top
from bayespatch.cli.shared import taking
from bayespatch.types import JSONObject
from bayespatch.validation import closest, remedy

if TYPE_CHECKING:
    from bayespatch.encode import Schema
    from bayespatch.encode.column import Column


@taking(find=find_case)
def what_if(
    find: Callable[[], ChosenCase],
    set: Set = [],  # noqa: B006  # read by typer and never changed
    out: MaybeOut = None,
    top: Top = 5,
    level: Level = 0.9,
    force: Force = False,
    json: Json = False,
) -> None:
    """Show what the model would predict if some values of a case were different.

    The result describes past cases with these values, not the effect of a treatment.

    Examples
    --------
    $ bayespatch what-if model.bpatch new.csv --row 0 --set age=50
    $ bayespatch what-if model.bpatch --id P-03 --set age=50 --set pain=none --json
    """
    if not set:
        raise ValueError("nothing to change; pass --set FEATURE=VALUE, such as --set age=50")
    check_new(force, out)
    case = find()
    check_no_times(case.model, "what-if")
    result = case.model.what_if(case.row, parsed_changes(case.model.schema_, set), top=top, level=level)
    answer(result, json, out)


def parsed_changes(schema: Schema, texts: list[str]) -> JSONObject:
    """Parse FEATURE=VALUE: values are labels, numbers, true or false, or text; empty values are missing."""
    called = {column.called: column.name for column in schema.columns}
    changes: JSONObject = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = called.get(name.strip(), name.strip())
        if not equals:
            raise ValueError(f"--set {text!r} is not FEATURE=VALUE; pass, for example, --set age=50")
        if name not in schema.names:
            meant = remedy(name, [*schema.names, *called], f"the features are {', '.join(schema.names)}")
            raise ValueError(f"--set {text!r}: there is no feature {name!r}; {meant}")
        if name in changes:
            raise ValueError(f"--set names {name!r} twice; keep one")
        changes[name] = _value(schema.column(name), value.strip())
    return changes


def _value(column: Column, text: str) -> object:
    if text in ("", "missing") and "missing" not in column.values:
        return None
    if text in column.labels:
        return text
    if column.family == "text":
        near = closest(text, [*column.values, *column.labels])
        if text not in column.values and near is not None:
            raise ValueError(f"--set {column.name}={text}: no past case has {text!r}; did you mean {near!r}?")
        return text
    if column.family == "boolean":
        if text.lower() in ("true", "false", "yes", "no", "1", "0"):
            return text.lower() in ("true", "yes", "1")
        raise ValueError(f"--set {column.name}={text}: {text!r} is neither true nor false")
    try:
        return float(text)
    except ValueError:
        labels = f", or one of {', '.join(column.labels)}" if column.labels else ""
        raise ValueError(f"--set {column.name}={text}: {text!r} is not a number; pass one{labels}") from None
