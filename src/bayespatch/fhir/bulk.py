"""Cases from a FHIR bulk data export: NDJSON files with one resource per line, or one Bundle file per patient."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, NamedTuple

from bayespatch.fhir.choose import MappedCase, choose
from bayespatch.fhir.errors import FhirError, refuse
from bayespatch.fhir.extract import Candidate
from bayespatch.fhir.mapping import Mapping, subject
from bayespatch.fhir.medications import medications
from bayespatch.fhir.reading import MOST_BYTES, BundleEntry, labeled, parse_bundle
from bayespatch.fhir.times import aware, read_time
from bayespatch.types import TableLike

PATIENT = "patient"  # the column of `to_frame` with the patient's id
_ENDINGS = (".ndjson", ".jsonl", ".json")
_BUNDLE = ".json"
Records = dict[str, dict[str, list[Candidate]]]  # patient -> column -> candidates
Files = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class BulkProgress(NamedTuple):
    """Progress of reading an export."""

    bytes_read: int
    bytes_total: int


def read_bulk(
    folder_or_files: Files,
    mapping: Mapping,
    at: datetime | None = None,
    progress: Callable[[BulkProgress], None] | None = None,
    skipped: Callable[[str], None] | None = None,
) -> Iterator[MappedCase]:
    """The cases of a bulk data export, one for each patient.

    Every file is read and checked before the first case is returned, so a malformed line stops the whole import.

    Parameters
    ----------
    folder_or_files : path, or sequence of paths
        NDJSON files, Bundles (.json) of one patient each, or a folder that contains such files.
    mapping : Mapping
        Mapping of the columns. If it has ``at``, this is the time of each patient's prediction, and patients without
        such a resource are skipped.
    at : datetime, optional
        The time of the prediction if the mapping has none. Default: now.
    progress : callable, optional
        Called regularly with a `BulkProgress`.
    skipped : callable, optional
        Called with the id of each patient who is skipped.
    """
    moment = aware(at)
    records: Records = {}
    for patient, candidates in _read(_files(folder_or_files), mapping, moment, progress):
        columns = records.setdefault(patient, {})
        for one in candidates:
            columns.setdefault(one.column, []).append(one)
    if not records:
        raise FhirError("the export has no resource that the mapping uses; check its files and the codes")
    return cases_of(records, mapping, moment, skipped)


def to_frame(cases: Iterable[MappedCase], mapping: Mapping) -> TableLike:
    r"""A data frame with one row per case: the patient's id, the features, and the outcome if the mapping has one.

    Examples
    --------
    >>> mapping = Mapping.load("columns:\n  sex: {resource: Patient, path: gender}")
    >>> to_frame([mapping.case([{"resourceType": "Patient", "id": "p1", "gender": "male"}])], mapping)
      patient   sex
    0      p1  male
    """
    from pandas import DataFrame

    outcome = mapping.rules.outcome
    rows = []
    for case in cases:
        row = {PATIENT: case.patient, **case.values}
        rows.append(row if outcome is None else {**row, outcome.column: case.outcome})
    names = [PATIENT, *mapping.columns, *([outcome.column] if outcome is not None else [])]
    if len(set(names)) < len(names):
        raise FhirError(f"mapping: a column is named {PATIENT!r}, which is reserved for the patient's id; rename it")
    return DataFrame(rows, columns=names, dtype=object)


def cases_of(
    records: Records, mapping: Mapping, moment: datetime, skipped: Callable[[str], None] | None = None
) -> Iterator[MappedCase]:
    """The case of each patient, from the candidates of each column."""
    index = mapping.rules.at
    for patient in list(records):
        columns = records.pop(patient)
        when: datetime | None = moment
        if index is not None:
            chosen = choose(index, columns.get(index.column, ()), aware(None), None)
            span = read_time(chosen.value, moment.tzinfo)
            when = span.start if span is not None else None
        if when is not None:
            yield mapping.choose(patient, columns, when)
        elif skipped is not None:
            skipped(patient)


def _files(folder_or_files: Files) -> list[Path]:
    """The NDJSON files of an export."""
    if isinstance(folder_or_files, str | os.PathLike):
        place = Path(folder_or_files)
        if place.is_dir():
            files = sorted(path for path in place.iterdir() if path.suffix.lower() in _ENDINGS and path.is_file())
            if not files:
                raise FhirError(f"folder {str(place)!r} has no file that ends in {' or '.join(_ENDINGS)}; correct it")
            return files
        folder_or_files = [place]
    files = [Path(path) for path in folder_or_files]
    for path in files:
        if not path.is_file():
            raise FhirError(
                f"{str(path)!r} is not a file; pass NDJSON files or Bundles, or the folder that contains them"
            )
    return files


def _read(
    files: Sequence[Path],
    mapping: Mapping,
    moment: datetime,
    progress: Callable[[BulkProgress], None] | None,
) -> Iterator[tuple[str, list[Candidate]]]:
    """The patient and the candidates of every line."""
    total, n_read = sum(path.stat().st_size for path in files), 0
    extractor = mapping.extractor
    codes = _medications(files) if extractor.reads_medications else {}
    for path in files:
        if path.suffix.lower() == _BUNDLE:
            with open(path, "rb") as file:
                content = parse_bundle(file.read(MOST_BYTES + 1), path.name)
            yield mapping.candidates(labeled({path.name: content}, path.parent.name), moment)
            continue
        with open(path, "rb") as file:
            for number, line in enumerate(_lines(file, path.name), start=1):
                n_read += len(line)
                if progress is not None and number % 1000 == 0:
                    progress(BulkProgress(n_read, total))
                if not line.strip():
                    continue
                place = f"{path.name}:{number}"
                resource = parse_bundle(line, place)
                kind = resource["resourceType"]
                if not extractor.uses(kind) and kind != "Patient":
                    continue
                entry = BundleEntry(resource, f"{place} {kind}")
                if kind == "Patient":
                    name = resource.get("id")
                    if not isinstance(name, str) or not name:
                        raise refuse(f"{entry.where}.id", "is missing; pass the id of the patient")
                    yield name, extractor.candidates(entry, moment.tzinfo, codes)
                    continue
                candidates = extractor.candidates(entry, moment.tzinfo, codes)
                reference = subject(entry) if candidates else None
                if reference is not None:
                    yield reference.rpartition("/")[2], candidates
    if progress is not None:
        progress(BulkProgress(total, total))


def _medications(files: Sequence[Path]) -> dict[str, object]:
    """The codes of the Medications in NDJSON files, by reference."""
    codes: dict[str, object] = {}
    for path in files:
        if path.suffix.lower() == _BUNDLE:
            continue
        with open(path, "rb") as file:
            for number, line in enumerate(_lines(file, path.name), start=1):
                if b'"Medication"' in line:
                    place = f"{path.name}:{number}"
                    codes |= medications([BundleEntry(parse_bundle(line, place), place)])
    return codes


def _lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    """The lines of a file; a line that is too long is rejected before it fills the memory."""
    number = 0
    while line := file.readline(MOST_BYTES + 1):
        number += 1
        if len(line) > MOST_BYTES:
            raise refuse(f"{name}:{number}", f"is longer than {MOST_BYTES:,} bytes; split the resource")
        yield line
