"""The choice of the value of each column, for one patient at one time, from the candidates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from bayespatch.dictionary import Dictionary, DictionaryError, Value, plain_value
from bayespatch.fhir.errors import shown
from bayespatch.fhir.extract import Candidate, ProblemKind
from bayespatch.fhir.rules import Rule
from bayespatch.fhir.times import Span, elapsed


class MappingProblem(NamedTuple):
    """Why a value of the record is missing or was not used.

    Attributes
    ----------
    column : str
    kind : {"missing", "outdated", "conflict", "unit", "value", "range", "status", "undated", "unresolved"}
    text : str
        The message: column, resource, element, value and remedy.
    """

    column: str
    kind: ProblemKind
    text: str


@dataclass(frozen=True)
class MappedCase:
    """The values of one patient's record at one time.

    Attributes
    ----------
    values : dict of str to value
        Value of each column of the mapping; None if missing.
    patient : str
        The id of the Patient.
    at : datetime
        The time of the prediction: later information was not used, except for the outcome.
    sources : dict of str to str
        Column -> the resource with its value, such as ``Observation/o17``; columns without a resource are absent.
    problems : tuple of Problem
        Missing, outdated, conflicting and unusable values.
    outcome : value
        The outcome of a past case; None if unknown.
    """

    values: Mapping[str, Value]
    patient: str
    at: datetime
    sources: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[MappingProblem, ...] = ()
    outcome: Value = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """The problems as text."""
        return tuple(problem.text for problem in self.problems)


class Chosen(NamedTuple):
    """The value of one column, the resource that contains it, and any problems."""

    value: Value
    source: str
    problems: tuple[MappingProblem, ...]


def choose(
    rule: Rule, candidates: Sequence[Candidate], at: datetime, dictionary: Dictionary | None, *, after: bool = False
) -> Chosen:
    """The value of a column, from the candidates of its rule.

    Parameters
    ----------
    rule : Rule
    candidates : sequence of Candidate
        Candidates of this rule for one patient.
    at : datetime
        Only information known by then is used.
    dictionary : Dictionary or None
        Data dictionary whose levels and ranges are checked.
    after : bool
        For outcomes: only information known from `at` on is used.
    """
    problems: list[MappingProblem] = []
    eligible = []
    outdated: Candidate | None = None
    for one in candidates:
        if rule.resource == "Patient":
            eligible.append(one)
            continue
        if not rule.undated and (one.time is None or one.time.straddles(at)):
            problems.append(_problem(rule, "undated", _undated(one, at)))
            continue
        timing = _timing(rule, one, at, after)
        if timing == "eligible":
            eligible.append(one)
        elif timing == "outdated" and (outdated is None or _start(one) > _start(outdated)):
            outdated = one
    if not eligible:
        is_event = rule.evaluate is None and rule.absent_is_no  # an old one means that there is no recent one
        if outdated is not None and not is_event:
            problems.append(_problem(rule, "outdated", _outdated(rule, outdated)))
        undated = any(problem.kind == "undated" for problem in problems)
        value = rule.level(False) if rule.absent_is_no and not undated else None
        if value is None and not problems and not after:
            problems.append(_problem(rule, "missing", _missing(rule, at)))
        return Chosen(value, "", tuple(problems))
    chosen, more = _selected(rule, eligible)
    problems += more
    if chosen is None:
        return Chosen(None, "", tuple(problems))
    value, wrong = _checked(rule, chosen, at, dictionary)
    problems += wrong
    return Chosen(value, "" if value is None else chosen.reference, tuple(problems))


def _start(candidate: Candidate) -> float:
    """The time of a candidate; undated ones count as the oldest."""
    return candidate.time.start.timestamp() if candidate.time is not None else float("-inf")


def _timing(rule: Rule, one: Candidate, at: datetime, after: bool) -> str:
    """Whether a candidate is from the relevant time: "eligible", "outdated" or "other"."""
    limit = timedelta(days=rule.within_days or 0)
    if one.time is not None:
        if after:
            started = one.time.end > at or one.time.start == at
            return "eligible" if started and (not limit or one.time.start - at <= limit) else "other"
        if one.time.start > at:
            return "other"
        if limit and at - one.time.start > limit:
            return "outdated"
    if rule.current:
        over = one.end is not None and one.end.end <= at
        return "other" if over or (one.begin is not None and one.begin.start > at) else "eligible"
    return "eligible"


def _selected(rule: Rule, eligible: Sequence[Candidate]) -> tuple[Candidate | None, list[MappingProblem]]:
    """The selected candidate, and the problems of unusable ones."""
    usable = [one for one in eligible if one.problem is None]
    if usable:  # another medication does not matter
        eligible = [one for one in eligible if one.problem is None or one.problem[0] != "unresolved"]
    if rule.select in ("max", "min"):
        problems = [_problem(rule, *one.problem) for one in eligible if one.problem is not None]
        extreme = max if rule.select == "max" else min
        numbers = [one for one in usable if isinstance(one.value, int | float)]
        return (extreme(numbers, key=lambda one: one.value) if numbers else None), problems  # type: ignore[arg-type, return-value]
    moments = [_start(one) for one in eligible]
    moment = max(moments) if rule.select == "latest" else min(moments)
    tied = [one for one, start in zip(eligible, moments, strict=True) if start == moment]
    unusable = [one for one in tied if one.problem is not None]
    if unusable:
        return None, [_problem(rule, *one.problem) for one in unusable if one.problem is not None]
    first = tied[0]
    other = next((one for one in tied if one.value != first.value), None)
    if other is not None:
        text = (
            f"{first.reference} has {_text(first)} ({first.where}) and {other.reference} has {_text(other)} "
            f"({other.where}) at the same time; enter the correct value by hand"
        )
        return None, [_problem(rule, "conflict", text)]
    return first, []


def _checked(
    rule: Rule, chosen: Candidate, at: datetime, dictionary: Dictionary | None
) -> tuple[Value, list[MappingProblem]]:
    """The value in the form of the data dictionary; None if the dictionary does not allow it."""
    value = chosen.value
    if isinstance(value, Span):
        if value.start > at:
            text = f"{chosen.where}: {value.start:%Y-%m-%d} is after {at:%Y-%m-%d}; correct the date"
            return None, [_problem(rule, "range", text)]
        if elapsed(value, at, rule.unit) - elapsed(Span(value.end, value.end), at, rule.unit) > 1:
            text = (
                f"{chosen.where}: {value.text} is not precise enough for the unit {rule.unit}; enter the value by hand"
            )
            return None, [_problem(rule, "value", text)]
        value = elapsed(value, at, rule.unit)
    try:
        if dictionary is not None and rule.column in dictionary:
            return dictionary[rule.column].check(value), []
        return plain_value(value, rule.column), []
    except DictionaryError as error:
        wrong = str(error).removeprefix(f"column {rule.column!r}: ")
        text = f"{chosen.where} of {chosen.reference}: {wrong}; or enter the correct value by hand"
        return None, [_problem(rule, "range", text)]


def _problem(rule: Rule, kind: ProblemKind, text: str) -> MappingProblem:
    return MappingProblem(rule.column, kind, f"column {rule.column!r}: {text}")


def _text(candidate: Candidate) -> str:
    value = candidate.value
    return f"{value.start:%Y-%m-%d}" if isinstance(value, Span) else shown(value)


def _missing(rule: Rule, at: datetime) -> str:
    if rule.resource == "Patient":
        return f"the Patient has no {rule.path}; enter it by hand"
    if rule.codes:
        codes = rule.code_text
        return f"no {rule.resource} with code {codes} up to {at:%Y-%m-%d}; enter the value by hand if you know it"
    return f"no {rule.resource} up to {at:%Y-%m-%d}; enter the value by hand if you know it"


def _outdated(rule: Rule, one: Candidate) -> str:
    day = f"{one.time.start:%Y-%m-%d}" if one.time is not None else ""
    return (
        f"the latest value, {one.reference} ({one.where}), is from {day} and older than {rule.within_days:g} days; "
        f"measure it again"
    )


def _undated(one: Candidate, at: datetime) -> str:
    day = f"{at:%Y-%m-%d}"
    if one.time is None:
        return f"{one.where} of {one.reference} has no date, so it may be from before or after {day}; add its date"
    known = one.time.text
    return f"{one.where} of {one.reference} is from {known}, so it may be from before or after {day}; add the day"
