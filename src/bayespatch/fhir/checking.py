"""Validation of resources with fhir.resources, with a pointer to the element that is wrong."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from bayespatch.fhir.errors import FhirError, refuse, shown
from bayespatch.fhir.resources import Resource, Version

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

# R4B does not change the types that mappings use.
_PACKAGES: dict[Version, str] = {"R4": "fhir.resources.R4B", "R5": "fhir.resources"}
_REMEDIES = {
    "missing": "is missing; add it",
    "extra_forbidden": "is not a FHIR element in this place; remove it",
}


def check_resource(resource: Resource, where: str, version: Version) -> None:
    """Reject a resource that does not conform to the FHIR definition of its type.

    Parameters
    ----------
    resource : dict
    where : str
        A pointer to the resource, such as ``Bundle.entry[3].resource``.
    version : {"R4", "R5"}

    Examples
    --------
    >>> patient = {"resourceType": "Patient", "birthDate": "yesterday"}
    >>> check_resource(patient, "Bundle.entry[0].resource", "R4")
    Traceback (most recent call last):
    ...
    bayespatch.fhir.errors.FhirError: Bundle.entry[0].resource.birthDate: 'yesterday' is not allowed: Date value \
string does not match spec regex.; correct it
    """
    from pydantic import ValidationError

    model = _model(resource["resourceType"], version)
    try:
        model.model_validate(resource)
    except ValidationError as error:
        raise _refusal(error.errors(include_url=False)[0], resource, where) from None
    except (TypeError, ValueError, AttributeError, KeyError, RecursionError, OverflowError) as error:
        raise refuse(where, f"is not a valid {resource['resourceType']} ({shown(str(error))}); correct it") from None


@cache
def _model(kind: str, version: Version) -> Any:  # a class that fhir.resources creates
    """The class of a resource type."""
    try:
        module = import_module(f"{_PACKAGES[version]}.{kind.lower()}")
    except ImportError as error:
        raise ImportError('FHIR mappings need fhir.resources: pip install "bayespatch[fhir]"') from error
    return getattr(module, kind)


def _refusal(detail: ErrorDetails, resource: Resource, where: str) -> FhirError:
    """Convert pydantic's first error to a FhirError."""
    pointer = where
    value: object = resource
    for part in detail["loc"]:
        pointer = f"{pointer}[{part}]" if isinstance(part, int) else f"{pointer}.{part}"
        try:
            value = cast("Resource", value)[cast("str", part)]
        except (KeyError, IndexError, TypeError):
            value = None
    if detail["type"] in _REMEDIES:
        return refuse(pointer, _REMEDIES[detail["type"]])
    reason = " ".join(str(detail["msg"]).removeprefix("Value error, ").split())
    if value is resource:
        return refuse(pointer, f"{reason[:300]}; correct it")
    return refuse(pointer, f"{shown(value)} is not allowed: {reason[:200]}; correct it")
