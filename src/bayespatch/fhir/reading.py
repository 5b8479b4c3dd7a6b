"""Reads JSON health records within limits, and the resources in a bundle."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from bayespatch.fhir.errors import FhirError, refuse, shown
from bayespatch.fhir.resources import Resource
from bayespatch.types import JSONMapping

MOST_BYTES = 20_000_000  # maximum size of a bundle, or of a line of NDJSON
MOST_RESOURCES = 20_000  # maximum number of resources of one patient
_DEEPEST = 40  # levels of objects and lists; resources of FHIR have fewer than 20


class BundleEntry(NamedTuple):
    """A resource, a pointer to it, and the URL by which other resources refer to it."""

    resource: Resource
    where: str
    url: str = ""


def parse_bundle(data: bytes | str, where: str = "Bundle") -> Resource:
    """A FHIR resource from JSON; anything else, or anything too large or too deep, is rejected.

    Parameters
    ----------
    data : bytes or str
        JSON of a Bundle or of a single resource.
    where : str
        Prefix of error messages.

    Examples
    --------
    >>> parse_bundle('{"resourceType": "Bundle", "type": "collection"}')["type"]
    'collection'
    >>> parse_bundle('{"resourceType": "Bundle"')
    Traceback (most recent call last):
    ...
    bayespatch.fhir.errors.FhirError: Bundle: is not JSON (Expecting ',' delimiter: line 1 column 26 (char 25)); \
correct it
    """
    return check_object(parse_json(data, where), where)


def parse_json(data: bytes | str, where: str) -> object:
    """Any JSON value; too large or too deep input is rejected."""
    if len(data) > MOST_BYTES:
        raise refuse(where, f"is longer than {MOST_BYTES:,} bytes; send fewer resources")
    try:
        value = json.loads(data, parse_constant=_no_constant)
    except RecursionError as error:
        raise refuse(where, "is nested too deeply; correct it") from error
    except ValueError as error:  # also raised for bytes that are not UTF-8, and for integers with thousands of digits
        raise refuse(where, f"is not JSON ({error}); correct it") from error
    check_depth(value, where)
    return value


def check_depth(value: object, where: str) -> None:
    """Reject input that is nested more deeply than any FHIR resource."""
    level: list[object] = [value]
    for _ in range(_DEEPEST):
        level = [
            part
            for one in level
            if isinstance(one, dict | list)
            for part in (one.values() if isinstance(one, dict) else one)
            if isinstance(part, dict | list)
        ]
        if not level:
            return
    raise refuse(where, f"is nested more than {_DEEPEST} levels deep; correct it")


def check_object(value: object, where: str) -> Resource:
    """A resource: a JSON object that names its type."""
    if not isinstance(value, dict):
        raise refuse(where, f"{shown(value)} is not a resource; pass a JSON object with resourceType")
    kind = value.get("resourceType")
    if not isinstance(kind, str) or not kind:
        wrong = "is missing" if kind is None else f"{shown(kind)} is not text"
        raise refuse(f"{where}.resourceType", f"{wrong}; pass the type of the resource, such as Observation")
    return value


def labeled(resources: JSONMapping, where: str) -> list[BundleEntry]:
    """The resources in the values of an object and in its bundles, such as the prefetched data of CDS Hooks.

    Examples
    --------
    >>> [entry.where for entry in labeled({"patient": {"resourceType": "Patient"}}, "prefetch")]
    ['prefetch.patient']
    """
    return [
        entry
        for name, one in resources.items()
        for entry in _entries(check_object(one, f"{where}.{name}"), f"{where}.{name}")
    ]


def next_page(bundle: JSONMapping) -> str | None:
    """The address of the next page of a search; None on the last one.

    Examples
    --------
    >>> next_page({"resourceType": "Bundle", "link": [{"relation": "next", "url": "https://ehr.example/fhir?page=2"}]})
    'https://ehr.example/fhir?page=2'
    """
    links = bundle.get("link")
    for link in links if isinstance(links, list) else ():
        if isinstance(link, dict) and link.get("relation") == "next":
            return str(link.get("url", ""))
    return None


def entries(data: JSONMapping | Iterable[JSONMapping | BundleEntry]) -> list[BundleEntry]:
    """The resources of a bundle, or of several bundles and resources."""
    if isinstance(data, Mapping) or not isinstance(data, Iterable) or isinstance(data, str | bytes):
        check_depth(data, "Bundle")
        collected = list(_entries(check_object(data, "Bundle"), None))
    else:
        collected = []
        for j, one in enumerate(data):
            if isinstance(one, BundleEntry):
                collected.append(one)
                continue
            check_depth(one, f"[{j}]")
            collected += _entries(check_object(one, f"[{j}]"), f"[{j}]")
    if len(collected) > MOST_RESOURCES:
        raise FhirError(
            f"Bundle.entry: has {len(collected):,} resources, but the limit is {MOST_RESOURCES:,}; send fewer"
        )
    return collected


def _entries(resource: Resource, where: str | None) -> Iterator[BundleEntry]:
    where = where or resource["resourceType"]
    if resource["resourceType"] != "Bundle":
        yield BundleEntry(resource, where)
        return
    listed = resource.get("entry", [])
    if not isinstance(listed, list):
        raise refuse(f"{where}.entry", f"{shown(listed)} is not a list; pass a list of entries")
    for j, entry in enumerate(listed):
        pointer = f"{where}.entry[{j}]"
        if not isinstance(entry, dict):
            raise refuse(pointer, f"{shown(entry)} is not an entry; pass an object with 'resource'")
        if "resource" not in entry:
            if "response" in entry:  # the entry belongs to a transaction or a batch
                continue
            raise refuse(f"{pointer}.resource", "is missing; pass a resource, or remove the entry")
        url = entry.get("fullUrl", "")
        if not isinstance(url, str):
            raise refuse(f"{pointer}.fullUrl", f"{shown(url)} is not text; pass a URL")
        part = check_object(entry["resource"], f"{pointer}.resource")
        if part["resourceType"] == "Bundle":
            raise refuse(f"{pointer}.resource", "is a Bundle inside a Bundle; send its entries")
        yield BundleEntry(part, f"{pointer}.resource", url)


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not a JSON number")
