"""Conversion of UCUM units with pint; ucumvert reads the codes."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any, NamedTuple


class UnitError(ValueError):
    """A unit is not UCUM, or cannot be converted to another."""


class Conversion(NamedTuple):
    """Conversion from one unit to another: ``scale * value + offset``."""

    scale: float
    offset: float

    def __call__(self, value: float) -> float:
        """The value in the other unit, without spurious digits from binary arithmetic."""
        return float(f"{self.scale * value + self.offset:.12g}")


@lru_cache(maxsize=1024)
def conversion(source: str, target: str, molar_mass: float | None = None) -> Conversion:
    """Conversion of a number between UCUM units; a molar mass (g/mol) converts between mass and amount of substance.

    Examples
    --------
    >>> conversion("kPa", "mm[Hg]")(16)
    120.009852135
    >>> conversion("mmol/L", "mg/dL", molar_mass=386.65)(6)
    231.99
    >>> conversion("mm[Hg]", "mg/dL")
    Traceback (most recent call last):
    ...
    bayespatch.fhir.units.UnitError: 'mm[Hg]' cannot be converted to 'mg/dL'
    """
    first, second = unit(source), unit(target)
    if source == target:
        return Conversion(1.0, 0.0)
    registry = _registry()
    import pint

    ends = []
    try:
        for value in (0.0, 1.0):
            quantity = registry.Quantity(value, first)
            if molar_mass is None:
                ends.append(float(quantity.to(second).magnitude))
            else:
                mass = registry.Quantity(molar_mass, "g/mol")
                ends.append(float(quantity.to(second, "chemistry", mw=mass).magnitude))
    except pint.PintError as error:
        raise UnitError(f"{source!r} cannot be converted to {target!r}") from error
    return Conversion(ends[1] - ends[0], ends[0])


@lru_cache(maxsize=1024)
def unit(code: str) -> Any:  # pint's units have no public class
    """Convert a UCUM code to a pint unit.

    Examples
    --------
    >>> str(unit("mg/dL"))
    'milligram / deciliter'
    """
    from ucumvert import InvalidUcumError

    if not code or len(code) > 100:
        raise UnitError("a unit is missing" if not code else f"{code[:40]!r}... is not a UCUM unit")
    registry = _registry()
    try:
        parsed = registry.from_ucum(code)
        return getattr(parsed, "units", registry.dimensionless)
    except (InvalidUcumError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise UnitError(f"{code!r} is not a UCUM unit") from error


@cache
def _registry() -> Any:  # a class that pint builds at run time
    """The units of UCUM; building them takes a second."""
    try:
        from ucumvert import PintUcumRegistry
    except ImportError as error:
        raise ImportError('FHIR mappings need ucumvert: pip install "bayespatch[fhir]"') from error
    return PintUcumRegistry()
