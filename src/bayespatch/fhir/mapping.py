"""The public interface: a mapping file applied to the record of one patient."""

from __future__ import annotations

import collections.abc
import os
from dataclasses import dataclass, field, replace
from datetime import datetime

from bayespatch.dictionary import Dictionary, Value
from bayespatch.fhir.choose import MappedCase, MappingProblem, choose
from bayespatch.fhir.errors import FhirError, refuse, shown
from bayespatch.fhir.extract import Candidate, Extractor
from bayespatch.fhir.medications import KINDS, medications
from bayespatch.fhir.reading import BundleEntry, entries
from bayespatch.fhir.rules import Rules, read_rules
from bayespatch.fhir.times import aware
from bayespatch.types import JSONMapping
from bayespatch.validation import closest

Records = JSONMapping | collections.abc.Iterable[JSONMapping | BundleEntry]


@dataclass(frozen=True)
class Mapping:
    """Mapping of each column of a table to health records.

    Attributes
    ----------
    rules : Rules
        The mapping file.
    dictionary : Dictionary or None
        The data dictionary, whose levels and ranges the values must meet.

    Examples
    --------
    >>> mapping = Mapping.load('''
    ... columns:
    ...   age: {resource: Patient, path: birthDate, unit: a}
    ...   sex: {resource: Patient, path: gender, values: {female: 0, male: 1}}
    ... ''')
    >>> patient = {"resourceType": "Patient", "id": "p1", "birthDate": "1960-05-01", "gender": "female"}
    >>> mapping.case([patient], at=datetime(2024, 5, 2)).values
    {'age': 64, 'sex': 0}
    """

    rules: Rules
    dictionary: Dictionary | None = None
    extractor: Extractor = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.dictionary is not None:
            for rule in self.rules.all:
                if rule.column not in self.dictionary and rule not in (self.rules.outcome, self.rules.at):
                    near = closest(rule.column, self.dictionary.names)
                    meant = f"did you mean {near!r}?" if near else f"its columns are {', '.join(self.dictionary.names)}"
                    raise FhirError(f"mapping: the data dictionary has no column {rule.column!r}; {meant}")
        object.__setattr__(self, "extractor", Extractor(self.rules))

    @classmethod
    def load(cls, path_or_text: str | os.PathLike[str], dictionary: Dictionary | None = None) -> Mapping:
        """Read a mapping file (YAML), or its text if it has several lines."""
        return cls(read_rules(path_or_text), dictionary)

    def with_dictionary(self, dictionary: Dictionary) -> Mapping:
        """The same rules, with values checked against a data dictionary that has the columns."""
        return replace(self, dictionary=dictionary)

    @property
    def columns(self) -> tuple[str, ...]:
        """The features, in the order of the file."""
        return tuple(self.rules.columns)

    def case(self, resources: Records, at: datetime | None = None) -> MappedCase:
        """The values of one patient.

        Parameters
        ----------
        resources : dict, or sequence of dicts
            A Bundle, or resources and Bundles, or entries such as those that `labeled` returns for data prefetched by
            CDS
        Hooks.
        at : datetime, optional
            The time of the prediction: later information is not used. Default: now.
        """
        moment = aware(at)
        patient, collected = self.candidates(entries(resources), moment)
        candidates: dict[str, list[Candidate]] = {}
        for one in collected:
            candidates.setdefault(one.column, []).append(one)
        return self.choose(patient, candidates, moment)

    def candidates(
        self, collected: collections.abc.Sequence[BundleEntry], moment: datetime
    ) -> tuple[str, list[Candidate]]:
        """The patient of a bundle, and the values that the rules find in its resources."""
        patient, belongs = _patient(collected)
        codes = medications(collected)
        candidates: list[Candidate] = []
        for entry in collected:
            if self.extractor.uses(entry.resource["resourceType"]) and belongs(entry):
                candidates += self.extractor.candidates(entry, moment.tzinfo, codes)
        return patient, candidates

    def choose(
        self, patient: str, candidates: collections.abc.Mapping[str, list[Candidate]], at: datetime
    ) -> MappedCase:
        """The values of one patient, from the candidates of each column."""
        values: dict[str, Value] = {}
        sources: dict[str, str] = {}
        problems: list[MappingProblem] = []
        for column, rule in self.rules.columns.items():
            chosen = choose(rule, candidates.get(column, ()), at, self.dictionary)
            values[column] = chosen.value
            problems += chosen.problems
            if chosen.source:
                sources[column] = chosen.source
        outcome: Value = None
        if self.rules.outcome is not None:
            chosen = choose(
                self.rules.outcome, candidates.get(self.rules.outcome.column, ()), at, self.dictionary, after=True
            )
            outcome = chosen.value
            problems += chosen.problems
            if chosen.source:
                sources[self.rules.outcome.column] = chosen.source
        return MappedCase(values, patient, at, sources, tuple(problems), outcome)

    def prefetch(self) -> dict[str, str]:
        """FHIR searches for the resources of the features, as CDS Hooks prefetch templates.

        Examples
        --------
        >>> Mapping.load('''
        ... columns:
        ...   sbp: {resource: Observation, codes: ["loinc|8480-6"], unit: "mm[Hg]"}
        ... ''').prefetch()["observation"]
        'Observation?patient={{context.patientId}}&code=http://loinc.org|8480-6'
        """
        templates = {"patient": "Patient/{{context.patientId}}"}
        for kind in dict.fromkeys(rule.resource for rule in self.rules.columns.values() if rule.resource != "Patient"):
            rules = [rule for rule in self.rules.columns.values() if rule.resource == kind]
            codes = dict.fromkeys("|".join(coding) for rule in rules for coding in rule.codes)
            search = f"{kind}?patient={{{{context.patientId}}}}"
            searchable = kind not in ("Encounter", *KINDS)  # a search by code leaves out references to Medications
            if searchable and all(rule.codes for rule in rules) and not any("*" in code for code in codes):
                search += f"&code={','.join(codes)}"
            templates[kind.lower()] = search
        return templates


def _patient(
    collected: collections.abc.Sequence[BundleEntry],
) -> tuple[str, collections.abc.Callable[[BundleEntry], bool]]:
    """The patient of a bundle, and a test whether a resource is about the patient; two patients are rejected."""
    patients = [entry for entry in collected if entry.resource["resourceType"] == "Patient"]
    names: dict[str, str] = {}  # reference -> id
    first = ""
    for entry in patients:
        name = entry.resource.get("id") or entry.url
        if not isinstance(name, str) or not name:
            raise refuse(f"{entry.where}.id", "is missing; pass the id of the patient")
        names[name] = name
        if entry.url:
            names[entry.url] = name
        if first and name != first:
            raise refuse(
                f"{entry.where}.id", f"{shown(name)} is a second patient in addition to {shown(first)}; send one"
            )
        first = name
    state = {"patient": first}

    def belongs(entry: BundleEntry) -> bool:
        if entry.resource["resourceType"] == "Patient":
            return True
        reference = subject(entry)
        if reference is None:
            return False
        name = names.get(reference, reference.rpartition("/")[2] if "Patient/" in reference else reference)
        if not state["patient"]:
            state["patient"] = name
        if name != state["patient"]:
            wrong = f"{shown(reference)} is not the patient of the bundle, {shown(state['patient'])}; send one patient"
            raise refuse(f"{entry.where}.subject.reference", wrong)
        return True

    if not first:
        for entry in collected:
            if "subject" in entry.resource and belongs(entry):
                break
    if not state["patient"]:
        raise refuse("Bundle", "has no Patient; add the Patient resource")
    return state["patient"], belongs


def subject(entry: BundleEntry) -> str | None:
    """The reference to the patient of a resource, without its version; None if it is about something else."""
    data = entry.resource.get("subject")
    reference = data.get("reference") if isinstance(data, dict) else None
    if not isinstance(reference, str) or not reference:
        wrong = "is missing" if data is None or reference is None else f"{shown(reference)} is not a reference"
        if data is not None and not isinstance(data, dict):
            raise refuse(f"{entry.where}.subject", f"{shown(data)} is not a Reference; pass an object with reference")
        raise refuse(f"{entry.where}.subject.reference", f"{wrong}; pass a reference, such as Patient/123")
    reference = reference.partition("/_history/")[0]
    kind = reference.rpartition("/")[0].rpartition("/")[2]
    return None if kind not in ("", "Patient") else reference
