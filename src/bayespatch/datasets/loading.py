"""Common parts of the loaders: reading a bundled table, binning numbers, grouping values."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from importlib import resources
from types import ModuleType
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pandas import DataFrame, Series

Discretize = Literal["paper"] | None


def import_pandas() -> ModuleType:
    """pandas, or an ImportError with the install command."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "the datasets are pandas data frames and pandas is not installed: pip install 'bayespatch[datasets]'"
        ) from error
    return pandas


def check_discretize(discretize: object) -> None:
    """Reject anything but None and "paper"."""
    if discretize not in (None, "paper"):
        raise ValueError(f'discretize must be None (original values) or "paper" (its bins), not {discretize!r}')


def read_bundled(name: str) -> DataFrame:
    """A bundled table; blank cells are missing values."""
    pandas = import_pandas()
    with (resources.files("bayespatch.datasets") / "data" / name).open("rb") as file:
        return pandas.read_csv(file, keep_default_na=False, na_values=[""])


def cut(values: Series, edges: Sequence[float], labels: Sequence[str], closed: Literal["left", "right"]) -> Series:
    """Divide numbers into consecutive bins that cover the whole line; `closed` is the side on which a bin includes its
    edge.

    Examples
    --------
    >>> import pandas as pd
    >>> list(cut(pd.Series([44, 45, 55]), [45, 55], ["<45", "[45,55)", ">=55"], closed="left"))
    ['<45', '[45,55)', '>=55']
    """
    pandas = import_pandas()
    bounds = [float("-inf"), *edges, float("inf")]
    return pandas.cut(values, bounds, labels=list(labels), right=closed == "right")


def group(
    values: Series, groups: Mapping[str, Sequence[Hashable]], otherwise: str | None = None, ordered: bool = False
) -> Series:
    """Assign values to named groups, in the order of `groups`.

    A value in no group becomes `otherwise` (the last group) or, without such a group, missing. Missing values remain
    missing.

    Examples
    --------
    >>> import pandas as pd
    >>> list(group(pd.Series([1, 2, 3]), {"1 or 2": [1, 2]}, otherwise="other"))
    ['1 or 2', '1 or 2', 'other']
    """
    pandas = import_pandas()
    name_of = {value: name for name, members in groups.items() for value in members}
    names = values.astype(object).map(name_of)
    categories = list(groups)
    if otherwise is not None:
        names = names.where(names.notna() | values.isna(), otherwise)
        categories.append(otherwise)
    return pandas.Series(pandas.Categorical(names, categories, ordered=ordered), index=values.index, name=values.name)
