"""Conversion of UCUM units with pint; ucumvert reads the codes."""

from __future__ import annotations

import math
import re
from functools import cache, lru_cache
from typing import Any, NamedTuple

_NAMED = re.compile(r"\[[^]]*]|{[^}]*}")  # parts of a code that are names and comments
_LARGE_POWER = re.compile(r"[^\d./(+-][+-]?\d{3}")
_PH = "pH_value"


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
    (n, first), (m, second) = unit(source), unit(target)
    if source == target:
        return Conversion(1.0, 0.0)
    if first.dimensionless and _counts_particles(first) != _counts_particles(second):
        raise UnitError(f"{source!r} cannot be converted to {target!r}")
    registry = _registry()
    import pint

    ends = []
    try:
        for value in (0.0, 1.0):
            quantity = registry.Quantity(value * n, first)
            if molar_mass is None:
                ends.append(float(quantity.to(second).magnitude) / m)
            else:
                mass = registry.Quantity(molar_mass, "g/mol")
                ends.append(float(quantity.to(second, "chemistry", mw=mass).magnitude) / m)
    except (pint.PintError, ArithmeticError) as error:
        raise UnitError(f"{source!r} cannot be converted to {target!r}") from error
    scale = ends[1] - ends[0]
    if scale == 0.0 or not math.isfinite(scale):
        raise UnitError(f"{source!r} cannot be converted to {target!r}")
    return Conversion(scale, ends[0])


class Unit(NamedTuple):
    """A unit of pint and how many of them a UCUM code stands for, such as 24 hours."""

    factor: float
    unit: Any  # pint's units have no public class


@lru_cache(maxsize=1024)
def unit(code: str) -> Unit:
    """Convert a UCUM code to a pint unit.

    Powers of more than two digits are rejected: records name units, and computing ``10*4000000`` would hold up every
    other request.

    Examples
    --------
    >>> str(unit("mg/dL").unit), unit("(24.h)").factor
    ('milligram / deciliter', 24.0)
    """
    if not code or len(code) > 100:
        raise UnitError("a unit is missing" if not code else f"{code[:40]!r}... is not a UCUM unit")
    registry = _registry()
    if _LARGE_POWER.search(_NAMED.sub("x", code)):
        raise UnitError(f"{code!r} has a power of more than two digits, which is not supported")
    try:
        parsed = registry.Quantity(1, _PH) if code == "[pH]" else registry.from_ucum(code)
        factor = float(getattr(parsed, "magnitude", 1.0))
    except Exception as error:  # ucumvert, lark and pint raise many kinds
        raise UnitError(f"{code!r} is not a UCUM unit") from error
    if factor == 0.0:
        raise UnitError(f"{code!r} is not a UCUM unit")
    return Unit(factor, getattr(parsed, "units", registry.dimensionless))


def _counts_particles(parsed: Any) -> bool:  # a unit of pint
    """Whether a unit contains amounts of substance: mmol/mol of HbA1c is no percentage of it."""
    return "mole" in str(parsed)


@cache
def _registry() -> Any:  # a class that pint builds at run time
    """The units of UCUM; building them takes a second."""
    try:
        from ucumvert import PintUcumRegistry
    except ImportError as error:
        raise ImportError('FHIR mappings need ucumvert: pip install "bayespatch[fhir]"') from error
    registry = PintUcumRegistry()
    registry.define(f"{_PH} = [acidity]")  # ucumvert does not define [pH]
    return registry
