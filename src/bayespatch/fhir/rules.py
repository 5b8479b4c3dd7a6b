"""Mapping files: one rule per column, read from YAML and checked before any resource is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from bayespatch.dictionary import Value, plain_value
from bayespatch.fhir.errors import FhirError, shown
from bayespatch.fhir.resources import TYPES, VERSIONS, Coding, Resource, Version
from bayespatch.fhir.times import TIME_UNITS
from bayespatch.fhir.units import UnitError, unit
from bayespatch.validation import closest

Select = Literal["latest", "first", "max", "min"]
SELECTS: tuple[Select, ...] = ("latest", "first", "max", "min")
SYSTEMS = {
    "loinc": "http://loinc.org",
    "snomed": "http://snomed.info/sct",
    "icd-10": "http://hl7.org/fhir/sid/icd-10",
    "icd-10-cm": "http://hl7.org/fhir/sid/icd-10-cm",
    "icd-10-gm": "http://fhir.de/CodeSystem/bfarm/icd-10-gm",
    "rxnorm": "http://www.nlm.nih.gov/research/umls/rxnorm",
    "atc": "http://www.whocc.no/atc",
    "cpt": "http://www.ama-assn.org/go/cpt",
    "omop": "https://fhir-terminology.ohdsi.org",
    "act": "http://terminology.hl7.org/CodeSystem/v3-ActCode",
}
_PARTS = (
    *("resource", "codes", "omop", "path", "select", "within_days", "unit", "molar_mass", "above"),
    *("values", "absent", "current", "undated"),
)
_TOP = ("fhir", "columns", "outcome", "at", "systems", "units")
_DEFAULT_PATHS = {"Observation": "value"}
_LARGEST_FILE = 1_000_000  # characters
_DEEPEST = 10


@dataclass(frozen=True)
class Rule:
    """Source of the value of one column.

    Attributes
    ----------
    column : str
    resource : str
        The resource type.
    codes : tuple of Coding
        Codes of the resource, or of a component of an Observation; a code that ends in ``*`` stands for all codes with
        this prefix; empty: every resource of the type.
    omop : tuple of int
        Standard concept ids of the OMOP CDM.
    path : str
        A FHIRPath expression for the value; if empty, the value is true if there is such a resource.
    evaluate : callable
        The compiled expression.
    select : {"latest", "first", "max", "min"}
        Which of several values is used.
    within_days : float or None
        Older values are outdated.
    unit : str
        The UCUM unit of the column, or one of a, mo, wk, d for the time since a date.
    molar_mass : float or None
        Molar mass in g/mol, to convert between mass and amount of substance.
    above : float or None
        Threshold in `unit`; the value of the column is whether the number is above it.
    values : dict
        Codes (``system|code`` or the code alone), strings, numbers, true and false -> values of the column.
    absent_is_no : bool
        Whether the value is false, not missing, if there is no such resource.
    current : bool
        Whether only resources that are still valid at the time of the prediction are used.
    undated : bool
        Whether resources without a date are used.
    """

    column: str
    resource: str
    codes: tuple[Coding, ...] = ()
    omop: tuple[int, ...] = ()
    path: str = ""
    evaluate: Callable[[Resource], list[object]] | None = field(default=None, compare=False, repr=False)
    select: Select = "latest"
    within_days: float | None = None
    unit: str = ""
    molar_mass: float | None = None
    above: float | None = None
    values: Mapping[str, Value] = field(default_factory=dict)
    absent_is_no: bool = False
    current: bool = False
    undated: bool = False

    @property
    def code_text(self) -> str:
        """The codes as shown in messages."""
        shown_codes = ", ".join("|".join(coding) for coding in self.codes[:3])
        return f"{shown_codes}, ..." if len(self.codes) > 3 else shown_codes

    def level(self, value: Value) -> Value:
        """The value of the column for a value of the record; KeyError if the rule lists other values only."""
        return self.values[value_key(value)] if self.values else value


@dataclass(frozen=True)
class Rules:
    """A whole mapping file.

    Attributes
    ----------
    version : {"R4", "R5"}
    columns : dict of str to Rule
        The features.
    outcome : Rule or None
        The column that is predicted, for past cases.
    at : Rule or None
        The time of the prediction of a past case, for bulk imports.
    units : dict of str to str
        Units as written in the record -> UCUM codes.
    """

    version: Version
    columns: Mapping[str, Rule]
    outcome: Rule | None = None
    at: Rule | None = None
    units: Mapping[str, str] = field(default_factory=dict)

    @property
    def all(self) -> tuple[Rule, ...]:
        """Every rule of the file."""
        return (*self.columns.values(), *(rule for rule in (self.outcome, self.at) if rule is not None))


def value_key(value: object) -> str:
    """Convert a value to the form of the keys of ``values``.

    Examples
    --------
    >>> value_key(True), value_key(3.0), value_key("male")
    ('true', '3', 'male')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def read_rules(path_or_text: str | os.PathLike[str]) -> Rules:
    """The rules of a mapping file, or of its text."""
    name, text = "mapping", str(path_or_text)
    if not isinstance(path_or_text, str) or "\n" not in path_or_text:
        name = os.path.basename(os.fspath(path_or_text))
        try:
            with open(path_or_text, encoding="utf-8-sig") as file:
                text = file.read(_LARGEST_FILE + 1)
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise FhirError(
                f"mapping file {os.fspath(path_or_text)!r} cannot be read ({reason}); correct it"
            ) from error
    return _Reader(name).rules(_yaml(name, text))


def _yaml(name: str, text: str) -> object:
    """Parse a YAML file; aliases, too large files and too deep nesting are rejected."""
    try:
        import yaml
    except ImportError as error:
        raise ImportError('FHIR mappings need PyYAML: pip install "bayespatch[fhir]"') from error
    if len(text) > _LARGEST_FILE:
        raise FhirError(f"{name}: is longer than {_LARGEST_FILE:,} characters; shorten it")
    try:
        depth = 0
        for event in yaml.parse(text, yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise FhirError(f"{name}: has an alias (*name); write out the value")
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                raise FhirError(f"{name}: is nested too deeply; correct it")
        return yaml.safe_load(text)
    except (yaml.YAMLError, AttributeError, LookupError, ValueError) as error:  # tags raise any of these
        if isinstance(error, FhirError):
            raise
        raise FhirError(f"{name}: is not YAML ({' '.join(str(error).split())}); correct it") from error


@dataclass
class _Reader:
    """Reads one mapping file; its messages begin with `name`."""

    name: str
    systems: dict[str, str] = field(default_factory=lambda: dict(SYSTEMS))
    version: Version = "R4"

    def rules(self, data: object) -> Rules:
        """The whole file."""
        top = self._mapping(data, "", _TOP)
        version = top.get("fhir", "R4")
        if version not in VERSIONS:
            raise self._wrong("fhir", f"{shown(version)} is not supported; choose one of {', '.join(VERSIONS)}")
        self.version = version
        self.systems |= self._texts(top.get("systems"), "systems")
        columns = self._mapping(top.get("columns"), "columns")
        if not columns:
            raise self._wrong("columns", "is empty; describe at least one column")
        rules = {str(name): self._rule(str(name), rule, f"columns.{name}") for name, rule in columns.items()}
        outcomes = self._mapping(top.get("outcome") or {}, "outcome")
        if len(outcomes) > 1:
            raise self._wrong("outcome", f"has {len(outcomes)} columns; describe one")
        outcome = next((self._rule(str(n), rule, f"outcome.{n}") for n, rule in outcomes.items()), None)
        if outcome is not None and outcome.column in rules:
            raise self._wrong("outcome", f"column {outcome.column!r} is also a feature; remove one of them")
        at = self._rule("@at", top["at"], "at") if top.get("at") is not None else None
        if at is not None and not at.path:
            raise self._wrong("at", "needs a path to a date, such as period.start")
        units = self._texts(top.get("units"), "units")
        for text, code in units.items():
            self._unit(code, f"units.{text}")
        return Rules(version, rules, outcome, at, units)

    def _rule(self, column: str, data: object, where: str) -> Rule:
        """One column."""
        parts = self._mapping(data, where, _PARTS)
        resource = str(parts.get("resource"))
        if resource not in TYPES[self.version]:
            names = ", ".join(TYPES[self.version])
            raise self._wrong(
                f"{where}.resource", f"{shown(parts.get('resource'))} is not a supported resource type; use {names}"
            )
        path = self._text(parts.get("path", _DEFAULT_PATHS.get(resource, "")), f"{where}.path")
        if resource == "Patient" and not path:
            raise self._wrong(f"{where}.path", "is missing; pass a FHIRPath expression, such as gender")
        rule = Rule(
            column=column,
            resource=resource,
            codes=self._codes(parts.get("codes"), f"{where}.codes"),
            omop=self._concepts(parts.get("omop"), f"{where}.omop"),
            path=path,
            evaluate=self._compiled(path, f"{where}.path") if path else None,
            select=self._select(parts.get("select", "latest"), f"{where}.select"),
            within_days=self._positive(parts.get("within_days"), f"{where}.within_days"),
            unit=self._unit(parts.get("unit"), f"{where}.unit"),
            molar_mass=self._positive(parts.get("molar_mass"), f"{where}.molar_mass"),
            above=self._number(parts.get("above"), f"{where}.above"),
            values=self._values(parts.get("values"), f"{where}.values"),
            absent_is_no=self._absent(parts.get("absent", "missing"), f"{where}.absent"),
            current=self._flag(parts.get("current", False), f"{where}.current"),
            undated=self._flag(parts.get("undated", False), f"{where}.undated"),
        )
        self._check_rule(rule, where)
        return rule

    def _check_rule(self, rule: Rule, where: str) -> None:
        """Reject parts that contradict each other."""
        if rule.absent_is_no and rule.values and "false" not in rule.values:
            raise self._wrong(f"{where}.values", "absent: no needs a value for false; add it, such as false: 0")
        if rule.above is not None and not rule.unit:
            raise self._wrong(f"{where}.above", "needs the unit of the threshold; add unit, such as mg/dL")
        if rule.current and not TYPES[self.version][rule.resource].period:
            raise self._wrong(f"{where}.current", f"{rule.resource} has no period; remove current")
        if rule.codes and rule.resource == "Patient":
            raise self._wrong(f"{where}.codes", "a Patient has no code; remove codes")

    def _codes(self, data: object, where: str) -> tuple[Coding, ...]:
        """Codes, each written as ``system|code``."""
        return tuple(self._coding(text, f"{where}[{j}]") for j, text in enumerate(self._list(data, where)))

    def _coding(self, text: object, where: str) -> Coding:
        system, bar, code = self._text(text, where).rpartition("|")
        system, code = system.strip(), code.strip()
        if not bar or not code or code == "*":
            raise self._wrong(where, f"{shown(text)} is not a code; write system|code, such as loinc|8480-6")
        if "/" not in system and ":" not in system and system not in self.systems:
            near = closest(system, list(self.systems))
            meant = f"did you mean {near!r}?" if near else f"use a URL or one of {', '.join(self.systems)}"
            raise self._wrong(where, f"code system {system!r} has no URL; {meant} (or add it under systems)")
        return Coding(self.systems.get(system, system), code)

    def _concepts(self, data: object, where: str) -> tuple[int, ...]:
        concepts = []
        for j, one in enumerate(self._list(data, where)):
            if not isinstance(one, int) or isinstance(one, bool) or not 0 < one < 2**31:
                raise self._wrong(f"{where}[{j}]", f"{shown(one)} is not a concept id; pass a positive whole number")
            concepts.append(one)
        return tuple(concepts)

    def _compiled(self, path: str, where: str) -> Callable[[Resource], list[object]]:
        """Compile a FHIRPath expression and try it once."""
        try:
            import fhirpathpy
            from fhirpathpy.models import models
        except ImportError as error:
            raise ImportError('FHIR mappings need fhirpathpy: pip install "bayespatch[fhir]"') from error
        try:
            evaluate = fhirpathpy.compile(path, models[self.version.lower()])
            evaluate({"resourceType": where}, None)
        except Exception as error:  # fhirpathpy raises plain exceptions
            raise self._wrong(where, f"{shown(path)} is not FHIRPath ({error}); correct it") from error
        return partial(_evaluated, evaluate)

    def _unit(self, data: object, where: str) -> str:
        code = "" if data is None else self._text(data, where)
        try:
            if code:
                unit(code)
        except UnitError as error:
            raise self._wrong(where, f"{error}; write the unit in UCUM, such as mm[Hg], mg/dL or /min") from error
        return code

    def _values(self, data: object, where: str) -> dict[str, Value]:
        """Values of the record -> values of the column."""
        values: dict[str, Value] = {}
        for key, value in self._mapping({} if data is None else data, where).items():
            text = value_key(key)
            if "|" in text:
                text = "|".join(self._coding(text, f"{where}.{text}"))
            try:
                values[text] = plain_value(value, where)
            except ValueError as error:
                raise self._wrong(f"{where}.{text}", f"{shown(value)} is not a value; pass a number or text") from error
        return values

    def _absent(self, data: object, where: str) -> bool:
        if data not in ("missing", "no", False):  # YAML reads no as false
            raise self._wrong(where, f"{shown(data)} is not supported; choose missing or no")
        return data != "missing"

    def _select(self, data: object, where: str) -> Select:
        for select in SELECTS:
            if data == select:
                return select
        raise self._wrong(where, f"{shown(data)} is not supported; choose one of {', '.join(SELECTS)}")

    def _flag(self, data: object, where: str) -> bool:
        if not isinstance(data, bool):
            raise self._wrong(where, f"{shown(data)} is neither true nor false; correct it")
        return data

    def _number(self, data: object, where: str) -> float | None:
        if data is not None and (isinstance(data, bool) or not isinstance(data, int | float) or data != data):
            raise self._wrong(where, f"{shown(data)} is not a number; pass a number")
        return None if data is None else float(data)

    def _positive(self, data: object, where: str) -> float | None:
        number = self._number(data, where)
        if number is not None and not 0 < number < float("inf"):
            raise self._wrong(where, f"{shown(data)} is not positive; pass a number above 0")
        return number

    def _text(self, data: object, where: str) -> str:
        if not isinstance(data, str):
            raise self._wrong(where, f"{shown(data)} is not text; put it in quotes")
        return data

    def _texts(self, data: object, where: str) -> dict[str, str]:
        pairs = self._mapping({} if data is None else data, where)
        return {str(key): self._text(value, f"{where}.{key}") for key, value in pairs.items()}

    def _list(self, data: object, where: str) -> Sequence[object]:
        if data is None:
            return ()
        if not isinstance(data, list):
            raise self._wrong(where, f"{shown(data)} is not a list; write it in brackets")
        return data

    def _mapping(self, data: object, where: str, parts: Sequence[str] = ()) -> Mapping[object, object]:
        if not isinstance(data, dict):
            raise self._wrong(where, f"{shown(data)} is not a mapping; write name: value")
        for key in data:
            if parts and key not in parts:
                near = closest(str(key), list(parts))
                meant = f"did you mean {near!r}?" if near else f"the parts are {', '.join(parts)}"
                raise self._wrong(f"{where}.{key}" if where else str(key), f"is not a part of a mapping; {meant}")
        return data

    def _wrong(self, where: str, text: str) -> FhirError:
        return FhirError(f"{self.name}: {where + ': ' if where else ''}{text}")


def _evaluated(evaluate: Callable[[Resource, None], list[object]], resource: Resource) -> list[object]:
    """The results of an expression for a resource."""
    return evaluate(resource, None)


def is_interval(rule: Rule) -> bool:
    """Whether the column is the time since a date."""
    return rule.unit in TIME_UNITS
