"""Cases from health records: HL7 FHIR resources (R4, R5) and OMOP CDM tables provide the values of table columns.

A mapping file states for each column which resources contain its value. ``rules`` reads the file, ``mapping`` is the
public interface, ``resources`` describes the resource types, ``checking`` validates resources, ``extract`` evaluates
FHIRPath, ``units`` converts UCUM units, ``medications`` follows references to Medications, ``choose`` selects one of
several values, ``bulk`` reads NDJSON exports, ``omop`` reads OMOP tables.
"""

from bayespatch.fhir.bulk import read_bulk, to_frame
from bayespatch.fhir.choose import MappedCase, MappingProblem
from bayespatch.fhir.errors import FhirError
from bayespatch.fhir.mapping import Mapping
from bayespatch.fhir.omop import read_omop
from bayespatch.fhir.reading import BundleEntry, labeled, next_page, parse_bundle, parse_json

__all__ = [
    "BundleEntry",
    "FhirError",
    "MappedCase",
    "Mapping",
    "MappingProblem",
    "labeled",
    "next_page",
    "parse_bundle",
    "parse_json",
    "read_bulk",
    "read_omop",
    "to_frame",
]
