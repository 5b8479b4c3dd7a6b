"""Guards: reasons to be careful with a prediction."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bayespatch.encode import MISSING_NUMBER, Schema
from bayespatch.encode.column import number_text
from bayespatch.explain.parts import Feature, Guard, Precedent
from bayespatch.explain.words import percent
from bayespatch.subgroups import Subgroup

MARGIN = 0.05  # share of the past cases' range; values outside it by less cause no warning
FEW = 10  # a class with fewer past cases causes a warning
MOST_NAMED = 3  # number of features or classes named in a warning


class OutOfRangeWarning(UserWarning):
    """New cases have numbers far outside the range of the past cases."""


def outside(numbers: NDArray[np.float64], limits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Distance of each number outside `Fitted.ranges`, (n, P); 0 if within the margin."""
    low, high = limits[:, 0], limits[:, 1]
    with np.errstate(invalid="ignore"):
        known = np.isfinite(numbers) & (numbers > MISSING_NUMBER)
        beyond = np.where(numbers < low, numbers - low, np.where(numbers > high, numbers - high, 0.0))
        far = known & np.isfinite(low) & (np.abs(beyond) > MARGIN * (high - low))
    return np.where(far, beyond, 0.0)


def warn_out_of_range(
    schema: Schema, numbers: NDArray[np.float64], limits: NDArray[np.float64], stacklevel: int
) -> None:
    """Issue a Python warning if some of the new cases have numbers far outside the range of the past cases.

    Parameters
    ----------
    schema : Schema
    numbers : array of shape (n, P)
        The cases, as `EncodedTable.values`.
    limits : array of shape (P, 2)
        `Fitted.ranges`.
    stacklevel : int
        As in `warnings.warn`, counted from the caller.
    """
    beyond = outside(numbers, limits)
    columns = []
    for j in np.flatnonzero(beyond.any(axis=0)).tolist():
        rows = np.flatnonzero(beyond[:, j])
        worst = rows[np.abs(beyond[rows, j]).argmax()]
        low, high = (number_text(float(end)) for end in limits[j])
        columns.append(
            f"{schema.columns[j].name!r} ({len(rows)} of {len(numbers)} cases, such as "
            f"{number_text(float(numbers[worst, j]))}; past cases {low} to {high})"
        )
    if columns:
        warnings.warn(
            f"numbers far outside the range of the past cases, in columns {', '.join(columns)}; check them",
            OutOfRangeWarning,
            stacklevel=stacklevel + 1,
        )


def guard_numbers(schema: Schema, numbers: NDArray[np.float64], limits: NDArray[np.float64]) -> list[Guard]:
    """Warnings for numbers of one case, (P,), far outside the range of the past cases."""
    beyond = outside(numbers[None], limits)[0]
    return [
        Guard(
            "range",
            f"{schema.columns[j].called} is {schema.columns[j].own_value(float(numbers[j]))}, outside the range of the "
            f"past cases, "
            f"{number_text(float(limits[j, 0]))} to {number_text(float(limits[j, 1]))}, by "
            f"{number_text(float(f'{abs(beyond[j]):.4g}'))}. Check the value.",
        )
        for j in np.flatnonzero(beyond).tolist()
    ]


def guard_usual(schema: Schema, numbers: NDArray[np.float64], beyond: Sequence[str]) -> list[Guard]:
    """Warnings for numbers outside the usual range, except in the features `beyond`, which already have a warning."""
    guards = []
    for column, number in zip(schema.columns, numbers.tolist(), strict=True):
        value = column.raw_value(number) if column.usual and column.name not in beyond else None
        if isinstance(value, int | float) and not column.usual[0] <= value <= column.usual[1]:
            low, high = (number_text(end) for end in column.usual)
            text = f"{column.called} is {column.own_value(number)}, outside the usual range, {low} to {high}."
            guards.append(Guard("usual", text))
    return guards


def guard_unseen(
    schema: Schema, texts: Mapping[str, str], unseen: NDArray[np.bool_], beyond: Sequence[str]
) -> list[Guard]:
    """Warnings for values that no past case has, except in the features `beyond`, whose numbers are out of range."""
    return [
        Guard(
            "unseen",
            f"{column.called} is missing, but is known for all past cases, so none can agree with it."
            if texts[column.name] == "missing"
            else f"No past case has {column.called} = {texts[column.name]}, so none can agree with it.",
        )
        for column, is_unseen in zip(schema.columns, unseen.tolist(), strict=True)
        if is_unseen and column.name not in beyond
    ]


def guard_values(
    schema: Schema,
    numbers: NDArray[np.float64],
    texts: Mapping[str, str],
    unseen: NDArray[np.bool_],
    limits: NDArray[np.float64],
) -> list[Guard]:
    """All warnings about individual values of one case, each (P,)."""
    beyond = outside(numbers[None], limits)[0]
    far = [column.name for column, by in zip(schema.columns, beyond.tolist(), strict=True) if by]
    return [
        *guard_numbers(schema, numbers, limits),
        *guard_usual(schema, numbers, far),
        *guard_unseen(schema, texts, unseen, far),
    ]


def guard_itself(past: str, id: str | None) -> Guard:
    """The warning that the case is a past case, judged by name and values, or by values alone if it has no name."""
    return Guard(
        "itself",
        f"This is past case #{past}. It does not vote on itself."
        if id is not None
        else f"All values match those of past case #{past}, which is assumed to be the same case. It does not vote on "
        f"itself.",
    )


def guard_combination(precedent: Precedent, features: Sequence[Feature]) -> list[Guard]:
    """The warning about a combination of values that is unusual among the past cases."""
    if precedent.adequate or precedent.percentile is None:
        return []
    least = sorted((f for f in features if f.value != "missing"), key=lambda feature: feature.explained)[:MOST_NAMED]
    named = ", ".join(f"{feature.called} = {feature.value} ({percent(feature.explained)})" for feature in least)
    return [
        Guard(
            "combination",
            f"This combination of values is unusual. Least expected given the past cases most like this one: {named}.",
        )
    ]


def guard_subgroups(groups: Sequence[Subgroup], overall: float) -> list[Guard]:
    """Warnings for subgroups that contain the case and have worse predictions."""
    guards = []
    for group in groups:
        if group.worse == "accuracy":
            right, all_right = percent(group.accuracy), percent(overall)
            text = (
                f"Of {group.n} past cases with {group.label}: {group.value}, {right} were predicted correctly, "
                f"compared with {all_right} of all past cases."
            )
            guards.append(Guard("subgroup", text))
        elif group.worse == "calibration":
            name = max(group.stated, key=lambda m: abs(group.stated[m] - group.actual[m]))
            stated, actual = percent(group.stated[name]), percent(group.actual[name])
            text = (
                f"Among {group.n} past cases with {group.label}: {group.value}, the mean predicted probability of "
                f"{name} was {stated}, but it occurred in {actual}."
            )
            guards.append(Guard("subgroup", text))
    return guards


def guard_rare(counts: dict[str, int], absent: Sequence[str] = ()) -> list[Guard]:
    """A warning for classes with few past cases, and one for classes without any past case that may vote."""
    few = {name: count for name, count in counts.items() if count < FEW}
    guards = []
    if few:
        fewest = sorted(few, key=lambda name: few[name])
        named = ", ".join(f"{name} ({few[name]})" for name in fewest[:MOST_NAMED])
        others = len(few) - MOST_NAMED
        named += f" (+{others})" if others > 0 else ""
        guards.append(Guard("rare", f"Too few past cases had {named} for reliable predictions."))
    if absent:
        named = ", ".join(absent[:MOST_NAMED]) + (f" (+{len(absent) - MOST_NAMED})" * (len(absent) > MOST_NAMED))
        guards.append(
            Guard(
                "absent",
                f"No past case that can vote had {named}, so the answer rests on base rates and risk factors alone.",
            )
        )
    return guards
