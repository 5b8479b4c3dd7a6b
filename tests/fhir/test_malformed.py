"""More than 500 malformed bundles: each is refused with a pointer to the element, and nothing else is raised."""

import json
from datetime import UTC, datetime

import pytest

from bayespatch.fhir import FhirError, Mapping, parse_bundle
from tests.fhir.records import bundle
from tests.fhir.synthetic import MAPPING, record

AT = datetime(2023, 12, 1, tzinfo=UTC)
TYPES = {"Patient", "Encounter", "Observation", "MedicationStatement", "Condition"}
WHOLE = next(
    bundle(*(one for one in resources if one.get("code", {}).get("coding", [{}])[0].get("code") != "8302-2"))
    for resources in map(record, range(1000))
    if {one["resourceType"] for one in resources} == TYPES
)
WRONG = (7.5, True, "?", "", ["?"], [[1]], {"?": 1})
REQUIRED = ("resourceType", "status", "subject", "reference")


def elements(value, pointer="Bundle", path=()):
    """Every element with its pointer and its path."""
    yield pointer, path, value
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from elements(part, f"{pointer}[{key}]" if isinstance(key, int) else f"{pointer}.{key}", (*path, key))


def changed(path, change):
    """The bundle, with one element changed by a function of its parent and its key."""
    whole = json.loads(json.dumps(WHOLE))
    parent = whole
    for key in path[:-1]:
        parent = parent[key]
    change(parent, path[-1])
    return json.dumps(whole)


def variations():
    """Pointer and JSON of malformed bundles: elements of a wrong type, required ones removed, unknown ones added."""
    for pointer, path, value in elements(WHOLE):
        if path[:1] != ("entry",):
            continue
        for wrong in WRONG:
            if not isinstance(value, type(wrong)) and not (isinstance(value, int) and isinstance(wrong, float)):
                yield pointer, changed(path, lambda parent, key, new=wrong: parent.__setitem__(key, new))
        if path[-1] in REQUIRED:
            yield pointer, changed(path, lambda parent, key: parent.pop(key))
        if isinstance(value, dict) and len(path) > 2:
            yield f"{pointer}.colour", changed(path, lambda parent, key: parent[key].update(colour="red"))
        if str(path[-1]).endswith(("DateTime", "Date", "start", "end")):
            for date in ("2023-02-30", "1 May", "2023-05-01T25:00:00Z", "23"):
                yield pointer, changed(path, lambda parent, key, new=date: parent.__setitem__(key, new))


@pytest.fixture(scope="module")
def mapping():
    mapping = Mapping.load(MAPPING)
    assert None not in mapping.case(WHOLE, AT).values.values()  # without the change, everything is read
    return mapping


def test_malformed_bundles_are_refused_with_a_pointer(mapping):
    wrong, every = [], list(variations())
    assert len(every) > 500
    for pointer, text in every:
        try:
            mapping.case(parse_bundle(text), AT)
        except FhirError as error:
            named = str(error).partition(": ")[0]
            if named.startswith("Bundle.entry") and (pointer.startswith(named) or named.startswith(pointer)):
                continue
            wrong.append((pointer, str(error)))
        else:
            wrong.append((pointer, "accepted"))
    assert wrong == []


@pytest.mark.parametrize("text", ["", "[]", "null", "7", '"Bundle"', '{"resourceType": ["Bundle"]}', "{" * 100_000])
def test_what_is_no_resource_is_refused(text):
    with pytest.raises(FhirError, match=r"^Bundle"):
        parse_bundle(text)
