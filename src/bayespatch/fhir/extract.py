"""Extraction of candidates: each value that a rule finds in a resource, with its time and origin."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import tzinfo
from decimal import Decimal
from typing import Literal, NamedTuple

from bayespatch.dictionary import Value
from bayespatch.fhir import medications
from bayespatch.fhir.checking import check_resource
from bayespatch.fhir.errors import refuse, shown
from bayespatch.fhir.reading import BundleEntry
from bayespatch.fhir.resources import (
    TYPES,
    VOID,
    Coding,
    Resource,
    codings,
    codings_in,
    period_of,
    time_of,
    unusable_status,
)
from bayespatch.fhir.rules import Rule, Rules, is_interval
from bayespatch.fhir.times import Span, read_time
from bayespatch.fhir.units import UnitError, conversion

ProblemKind = Literal["missing", "outdated", "conflict", "unit", "value", "range", "status", "undated", "unresolved"]

UCUM = "http://unitsofmeasure.org"
_MOST_CHARACTERS = 500  # of a warning, which may quote the record


class Candidate(NamedTuple):
    """A value that may become the value of a column, or the reason why it cannot.

    Attributes
    ----------
    column : str
    value : number, text, bool, or Span
        A Span is a date, for a column with the time since then.
    time : Span or None
        When it was measured, recorded or done.
    begin, end : Span or None
        The period in which it is valid.
    reference : str
        The resource, such as ``Observation/o17``.
    where : str
        A pointer to the element that has the value.
    problem : (kind, text) or None
        Why the value is unusable.
    """

    column: str
    value: Value | Span
    time: Span | None
    begin: Span | None
    end: Span | None
    reference: str
    where: str
    problem: tuple[ProblemKind, str] | None = None


class Unusable(Exception):
    """A value of the record cannot be used: the kind of problem, the element, and what is wrong."""

    def __init__(self, kind: ProblemKind, element: str, wrong: str) -> None:
        super().__init__(wrong)
        self.kind, self.element = kind, element
        self.wrong = wrong if len(wrong) <= _MOST_CHARACTERS else f"{wrong[: _MOST_CHARACTERS - 3]}..."


class _Target(NamedTuple):
    """What a rule applies to: a resource, or a component of an Observation written as one."""

    rule: Rule
    resource: Resource
    where: str
    unknown: str = ""  # reference to the Medication that has the code but is not in the record


@dataclass(frozen=True)
class Extractor:
    """Applies the rules of a mapping to resources, one at a time."""

    rules: Rules
    _by_code: dict[str, dict[Coding, list[Rule]]] = field(init=False, repr=False, default_factory=dict)
    _by_prefix: dict[str, list[tuple[Coding, Rule]]] = field(init=False, repr=False, default_factory=dict)
    _any: dict[str, list[Rule]] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        for rule in self.rules.all:
            exact = self._by_code.setdefault(rule.resource, defaultdict(list))
            prefixes = self._by_prefix.setdefault(rule.resource, [])
            without = self._any.setdefault(rule.resource, [])
            for coding in rule.codes:
                if coding.code.endswith("*"):
                    prefixes.append((coding._replace(code=coding.code[:-1]), rule))
                else:
                    exact[coding].append(rule)
            if not rule.codes:
                without.append(rule)

    def uses(self, kind: str) -> bool:
        """Whether any rule reads this resource type."""
        return kind in self._any

    @property
    def reads_medications(self) -> bool:
        """Whether codes of Medications matter."""
        return any(self._by_code.get(kind) or self._by_prefix.get(kind) for kind in medications.KINDS)

    def candidates(
        self, entry: BundleEntry, zone: tzinfo | None, codes: medications.Medications | None = None
    ) -> list[Candidate]:
        """Values that the rules find in a resource.

        A malformed resource is rejected if a rule applies to it, or if it has no code.
        """
        resource, where = entry.resource, entry.where
        kind = resource["resourceType"]
        if not self.uses(kind):
            return []
        targets = list(self._targets(resource, where, codes or {}))
        kinds = TYPES[self.rules.version][kind]
        if targets or (kinds.codes and not any(codings(resource, kinds.codes, where))):
            check_resource(resource, where, self.rules.version)
        if not targets:
            return []
        reference = reference_of(entry)
        status = unusable_status(resource, kind, kinds, where)
        if status in VOID:
            return []
        time = time_of(resource, kinds.times, where, zone)
        begin, end = period_of(resource, kind, kinds, where, zone)
        made = []
        for target in targets:
            base = Candidate(target.rule.column, None, time, begin, end, reference, target.where)
            if status is not None:
                made.append(base._replace(problem=("status", _status_text(kind, status, target.where))))
                continue
            if target.unknown:
                wrong = f"{shown(target.unknown)} is not in the record; include this Medication"
                made.append(base._replace(problem=("unresolved", f"{target.where}: {wrong}")))
                continue
            try:
                value, element = _value(target, self.rules, zone)
            except Unusable as error:
                text = f"{error.element}: {error.wrong}"
                made.append(base._replace(where=error.element, problem=(error.kind, text)))
                continue
            if value is not None:
                made.append(base._replace(value=value, where=element))
        return made

    def _targets(self, resource: Resource, where: str, codes: medications.Medications) -> Iterator[_Target]:
        """Each rule that applies to a resource, once for each element to which it applies."""
        kind = resource["resourceType"]
        for rule in self._any[kind]:
            yield _Target(rule, resource, where)
        names = TYPES[self.rules.version][kind].codes
        yield from self._coded(resource, codings(resource, names, where), kind, where)
        if kind in medications.KINDS:
            yield from self._medication(resource, kind, where, codes)
        if kind != "Observation" or resource.get("component") is None:
            return
        components = resource["component"]
        if not isinstance(components, list):
            raise refuse(f"{where}.component", f"{shown(components)} is not a list; pass a list of components")
        for j, component in enumerate(components):
            pointer = f"{where}.component[{j}]"
            if not isinstance(component, dict):
                raise refuse(pointer, f"{shown(component)} is not a component; pass an object with code and value")
            alone = {**component, "resourceType": "Observation"}
            yield from self._coded(alone, codings(component, ("code",), pointer), kind, pointer)

    def _medication(
        self, resource: Resource, kind: str, where: str, codes: medications.Medications
    ) -> Iterator[_Target]:
        """The rules that apply to the Medication to which a resource refers: all of them if its code is unknown."""
        pointer = medications.reference_of(resource, self.rules.version)
        if pointer is None:
            return
        element, reference = pointer
        code = medications.code_of(resource, reference, codes)
        if code is not None:
            yield from self._coded(resource, codings_in(code, f"{where}.{element}"), kind, where)
            return
        rules = [rule for rules in self._by_code[kind].values() for rule in rules]
        rules += [rule for _, rule in self._by_prefix[kind]]
        for column in dict.fromkeys(rule.column for rule in rules):
            rule = next(rule for rule in rules if rule.column == column)
            yield _Target(rule, resource, where, reference or element)

    def _coded(self, resource: Resource, codes: Iterator[Coding], kind: str, where: str) -> Iterator[_Target]:
        exact, prefixes = self._by_code[kind], self._by_prefix[kind]
        seen: set[str] = set()
        for coding in codes:
            rules = list(exact.get(coding, ()))
            rules += [
                rule
                for prefix, rule in prefixes
                if coding.system == prefix.system and coding.code.startswith(prefix.code)
            ]
            for rule in rules:
                if rule.column not in seen:
                    seen.add(rule.column)
                    yield _Target(rule, resource, where)


def reference_of(entry: BundleEntry) -> str:
    """Reference to a resource: type and id, or a pointer if it has no id."""
    name = entry.resource.get("id")
    return f"{entry.resource['resourceType']}/{name}" if isinstance(name, str) else entry.where


def _status_text(kind: str, status: str, where: str) -> str:
    element = "verificationStatus" if kind == "Condition" else "status"
    wrong = f"is {status!r}, so the value was not used; wait for the final one, or enter it by hand"
    return f"{where}.{element}: {wrong}"


def _value(target: _Target, rules: Rules, zone: tzinfo | None) -> tuple[Value | Span, str]:
    """The value of a column in a resource (None if there is none), and a pointer to the element."""
    rule, where = target.rule, target.where
    if rule.evaluate is None:
        return rule_level(rule, True, where), where
    try:
        results = rule.evaluate(target.resource)
    except Exception as error:  # fhirpathpy raises plain exceptions
        raise Unusable("value", where, f"the path {rule.path!r} fails ({error}); correct the mapping") from error
    element = _element(target)
    values = []
    for result in results:
        value = plain_result(result, rule, rules, element, zone)
        if value not in values:
            values.append(value)
    if len(values) > 1:
        listed = ", ".join(shown(value) for value in values[:3])
        raise Unusable("conflict", element, f"the path {rule.path!r} gives {listed}; narrow the path with where(...)")
    return (values[0] if values else None), element


def _element(target: _Target) -> str:
    """A pointer to the value."""
    rule, where = target.rule, target.where
    if rule.path == "value":
        name = next((name for name in target.resource if name.startswith("value")), "value")
        return f"{where}.{name}"
    return f"{where}.{rule.path}"


def plain_result(result: object, rule: Rule, rules: Rules, element: str, zone: tzinfo | None) -> Value | Span:
    """Convert a result of FHIRPath to a value of the column."""
    if is_interval(rule) and isinstance(result, str):
        span = read_time(result, zone)
        if span is None:
            raise Unusable("value", element, f"{shown(result)} is not a date; correct it")
        return span
    if isinstance(result, dict):
        if "coding" in result or ("code" in result and "value" not in result):
            return _coded_level(result, rule, element)
        if isinstance(result.get("value"), str | bool | dict | list | None):
            raise Unusable("value", element, "has neither a number nor a code; correct the path, or the resource")
        return _limited(_quantity(result, rule, rules, element), rule, element)
    if isinstance(result, Decimal):
        result = float(result)
    if isinstance(result, str) and rule.unit:
        raise Unusable("value", element, f"{shown(result)} is not a number with a unit; enter it by hand")
    if isinstance(result, bool) or not isinstance(result, int | float):
        return rule_level(rule, result if isinstance(result, bool) else str(result), element)
    if rule.unit:
        wrong = f"{shown(result)} has no unit, but the column is in {rule.unit}; use a path to a Quantity"
        raise Unusable("unit", element, wrong)
    return _limited(_finite(result, element), rule, element)


def _finite(number: float | Decimal, element: str) -> float:
    """Convert a number to a finite float."""
    with suppress(OverflowError):
        return float(number)
    raise Unusable("value", element, "is too large; correct it")


def _quantity(quantity: Resource, rule: Rule, rules: Rules, element: str) -> float:
    """Convert a Quantity to the unit of the column."""
    number = _finite(quantity["value"], f"{element}.value")
    comparator = quantity.get("comparator")
    if comparator is not None:
        raise Unusable(
            "value", f"{element}.comparator", f"is {comparator!r}: {comparator}{number:g} is a bound; enter a number"
        )
    code = quantity.get("code") if quantity.get("system") == UCUM else None
    part = "code" if code is not None else "unit"
    text = code if code is not None else quantity.get("unit")
    code = code if code is not None else rules.units.get(str(text), "")
    if not rule.unit:
        if text in (None, "", "1") or str(text).startswith("{"):
            return number
        raise Unusable("unit", f"{element}.{part}", f"is {text!r}, but the mapping names no unit; add unit: {text!r}")
    if text is None:
        raise Unusable("unit", f"{element}.{part}", f"is missing; add it (the column is in {rule.unit})")
    if not code:
        raise Unusable(
            "unit", f"{element}.{part}", f"{shown(text)} is not a UCUM code; list it under units in the mapping"
        )
    try:
        return conversion(code, rule.unit, rule.molar_mass)(number)
    except UnitError as error:
        wrong = f"{error}; correct the unit"
        with suppress(UnitError):
            conversion(code, rule.unit, molar_mass=1.0)
            wrong = f"{error} without the molar mass; add molar_mass to the mapping"
        raise Unusable("unit", f"{element}.{part}", wrong) from error


def _limited(number: float, rule: Rule, element: str) -> Value:
    """A number, or whether it is above the threshold of the rule."""
    if rule.above is not None:
        return rule_level(rule, number > rule.above, element)
    whole = number.is_integer() and abs(number) < 2**53
    return rule_level(rule, int(number) if whole else number, element)


def _coded_level(concept: Resource, rule: Rule, element: str) -> Value:
    """The value of the column for a CodeableConcept or a Coding."""
    keys: list[str] = []
    for coding in codings_in(concept, element):
        keys += [f"{coding.system}|{coding.code}", coding.code]
    levels: list[Value] = []
    for key in keys:
        if key in rule.values and rule.values[key] not in levels:
            levels.append(rule.values[key])
    if len(levels) == 1:
        return levels[0]
    codes = ", ".join(keys[::2]) or shown(concept.get("text"))
    if levels:
        raise Unusable("conflict", element, f"{codes} stand for {', '.join(map(shown, levels))}; correct one")
    raise Unusable("value", element, f"{codes} is not among the values of column {rule.column!r}; add it to values")


def rule_level(rule: Rule, value: Value, element: str) -> Value:
    """The value of the column for a plain value of the record."""
    try:
        return rule.level(value)
    except KeyError:
        options = ", ".join(list(rule.values)[:12])
        wrong = f"{shown(value)} is not among the values of column {rule.column!r} ({options}); add it to values"
        raise Unusable("value", element, wrong) from None
