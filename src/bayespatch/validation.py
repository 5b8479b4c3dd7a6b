"""Validation of the sampler's arguments, each checked once before sampling starts.

Invalid arguments raise a ``ValueError`` that names the argument, the value and the remedy. Valid arguments are
converted to the `Data` and `Model` that the engines expect, so no engine checks them again.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Integral
from typing import Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayespatch.model import (
    HIDDEN,
    KINDS,
    LARGEST,
    LIKELIHOODS,
    PER,
    SMALLEST_VOTE,
    Data,
    Hyperparameters,
    Likelihood,
    Model,
    ModelKind,
)
from bayespatch.types import AnyArray

Missing = Literal["error", "ignore"]
MISSING: tuple[Missing, ...] = ("error", "ignore")

MAX_SEED = 2**63 - 1  # a seed must fit the 64-bit integers of compiled code
LEAST_WEIGHT, MOST_WEIGHT = 1e-6, 1e6  # range of the weight of a row, unless it is 0
LARGEST_OUTCOME = 1e100  # largest numeric outcome, so that its square is a finite float
MOST_SWEEPS = 100_000  # of a chain for each prediction of a transductive model
LONGEST_CHAIN = 2**24  # sweeps; float32 counts draws exactly up to this number
MOST_THREADS = 1024
_MOST_ROWS = 6  # that a message names
_MOST_NAMED = 4  # columns or values that a message names before it says "and so on"


def closest(name: str, names: Iterable[object]) -> str | None:
    """The name that was most likely intended: one that differs only in case, otherwise one with similar spelling.

    Examples
    --------
    >>> closest("AGE", ["age", "sex"]), closest("smokr", ["smoker", "age"]), closest("weight", ["age", "sex"])
    ('age', 'smoker', None)
    """
    texts = [str(one) for one in names]
    folded = {text.casefold().strip(): text for text in reversed(texts)}
    near = get_close_matches(name.casefold().strip(), folded, n=1)
    return folded[near[0]] if near else None


def remedy(name: str, names: Iterable[object], otherwise: str) -> str:
    """The end of a message about an unknown name: the likely intended name, or other advice.

    Examples
    --------
    >>> remedy("smokr", ["smoker", "age"], "the columns are 'smoker', 'age'")
    "did you mean 'smoker'?"
    """
    near = closest(name, names)
    return f"did you mean {near!r}?" if near else otherwise


def listed(names: Iterable[object], most: int = 6) -> str:
    """A list of names for a sentence.

    >>> listed(["age", "sex", "chol"], most=2)
    "'age', 'sex' and 1 more"
    """
    all_names = list(names)
    shown = ", ".join(repr(str(name)) for name in all_names[:most])
    return shown + (f" and {len(all_names) - most} more" if len(all_names) > most else "")


def check_count(name: str, value: object, at_least: int, at_most: int | None = None) -> int:
    """Check an integer argument between `at_least` and `at_most`."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise ValueError(f"{name}={value!r} is not an integer; pass an integer of at least {at_least}")
    if value < at_least:
        raise ValueError(f"{name}={value!r} is too small; pass an integer of at least {at_least}")
    if at_most is not None and int(value) > at_most:
        raise ValueError(f"{name}={value!r} is too large; pass an integer of at most {at_most}")
    return int(value)


def check_classes(classes: AnyArray) -> AnyArray:
    """Check that the classes of an outcome are booleans, numbers or strings, which can be stored and shown."""
    if classes.dtype.kind in "biuU":
        return classes
    unsupported = [value for value in classes.tolist() if not isinstance(value, bool | int | float | str)]
    if unsupported or classes.dtype.kind not in "fO":
        example = unsupported[0] if unsupported else classes[0]
        raise ValueError(
            f"y holds classes such as {str(example)!r} ({classes.dtype}), which are not booleans, numbers or "
            f"strings; convert them, for instance with y.astype(str)"
        )
    return classes


def check_class_weights(weights: NDArray[np.float64], classes: AnyArray) -> NDArray[np.float64]:
    """Check that the weights of the classes are in the range that `Hyperparameters` allows for mu."""
    wrong = np.flatnonzero(~((weights >= SMALLEST_VOTE) & (weights <= LARGEST)))
    if wrong.size:
        raise ValueError(
            f"class_weight gives class {classes.tolist()[wrong[0]]!r} the weight {weights[wrong[0]]:g}; "
            f"pass weights between {SMALLEST_VOTE:g} and {LARGEST:g}"
        )
    return weights


def read_sample_weight(sample_weight: object, n_rows: int) -> NDArray[np.float64] | None:
    """The weight of each row, (n,); None if all weights are 1.

    Examples
    --------
    >>> read_sample_weight([1, 0, 2.5], 3), read_sample_weight([1, 1, 1], 3)
    (array([1. , 0. , 2.5]), None)
    """
    if sample_weight is None:
        return None
    try:
        weights = np.array(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("sample_weight is not numeric; pass one number for each row") from None
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has shape {weights.shape}, but there are {n_rows} rows; pass one weight for each row"
        )
    wrong = np.flatnonzero(~((weights == 0.0) | ((weights >= LEAST_WEIGHT) & (weights <= MOST_WEIGHT))))
    if wrong.size:
        raise ValueError(
            f"sample_weight is {weights[wrong[0]]:g} in row {wrong[0]}; pass 0 for rows to be left out, and numbers "
            f"between {LEAST_WEIGHT:g} and {MOST_WEIGHT:g} for the others"
        )
    if not weights.any():
        raise ValueError(
            "sample_weight is 0 in all rows, so no case votes; sample weights must contain at least one non-zero number"
        )
    if weights.sum() < 2.0:
        raise ValueError(
            f"sample_weight adds up to {weights.sum():g}, but a fit needs a total weight of at least 2; multiply the "
            f"weights, for example so that their mean is 1"
        )
    return None if np.all(weights == 1.0) else weights


def check_finite(name: str, array: NDArray[np.float64]) -> NDArray[np.float64]:
    """Check that all results are finite numbers."""
    if not np.isfinite(array).all():
        wrong = int(np.flatnonzero(~np.isfinite(array).reshape(len(array), -1).all(axis=1))[0])
        raise FloatingPointError(
            f"{name} of row {wrong} is not a finite number; the model's constants or the row's values are out of the "
            "computable range: check hyper_ and the row"
        )
    return array


def refuse_masked(name: str, array: object) -> None:
    """Reject masked values, which are missing regardless of the underlying data."""
    n_masked = int(np.ma.getmaskarray(array).sum()) if isinstance(array, np.ma.MaskedArray) else 0
    if n_masked:
        raise ValueError(f"{name} has {n_masked} masked values; pass known values, or leave these rows out")


def refuse_missing_outcomes(y: AnyArray) -> None:
    """Every training case needs an outcome.

    Examples
    --------
    >>> refuse_missing_outcomes(np.array(["sick", None], dtype=object))
    Traceback (most recent call last):
    ...
    ValueError: y has 1 missing outcome (row 1); drop the rows without an outcome
    """
    if y.dtype.kind == "f":
        rows = np.flatnonzero(np.isnan(y))
    elif y.dtype.kind == "O":  # None, NaN, and pandas' NA, which is not comparable
        rows = np.flatnonzero([one is None or str(one) in ("nan", "<NA>", "NaT") for one in y])
    else:
        return
    if len(rows):
        named = f"{', '.join(map(str, rows[:_MOST_ROWS]))}{', ...' if len(rows) > _MOST_ROWS else ''}"
        plural = "s" if len(rows) > 1 else ""
        raise ValueError(
            f"y has {len(rows)} missing outcome{plural} (row{plural} {named}); drop the rows without an outcome"
        )


def check_sweeps(warmup: int, draws: int, thin: int) -> None:
    """Check the length of the chains that a transductive model runs for each prediction."""
    n_sweeps = warmup + draws * thin
    if n_sweeps > MOST_SWEEPS:
        raise ValueError(
            f"transductive=True takes warmup + draws*thin = {n_sweeps} sweeps per chain for every prediction; pass "
            f"smaller numbers, for at most {MOST_SWEEPS} sweeps"
        )


def check_chain_lengths(chains: object, draws: object, warmup: object, thin: object) -> None:
    """Check the number and length of the chains before sampling starts.

    Examples
    --------
    >>> check_chain_lengths(4, 500, 10**12, 1)
    Traceback (most recent call last):
        ...
    ValueError: warmup=1000000000000 is too large; pass an integer of at most 16777216
    """
    n_chains = check_count("chains", chains, at_least=1, at_most=LONGEST_CHAIN)
    n_draws = check_count("draws", draws, at_least=1, at_most=LONGEST_CHAIN)
    n_warmup = check_count("warmup", warmup, at_least=0, at_most=LONGEST_CHAIN)
    n_thin = check_count("thin", thin, at_least=1, at_most=LONGEST_CHAIN)
    if n_chains * n_draws > LONGEST_CHAIN:
        raise ValueError(f"chains*draws={n_chains * n_draws} is above 2**24; pass fewer draws")
    n_sweeps = n_warmup + n_draws * n_thin
    if n_sweeps > LONGEST_CHAIN:
        raise ValueError(f"warmup + draws*thin = {n_sweeps} sweeps of each chain exceed 2**24; pass a smaller thin")


def check_seed(value: object) -> int:
    """Check the seed, a non-negative integer."""
    seed = check_count("seed", value, at_least=0)
    if seed > MAX_SEED:
        raise ValueError(f"seed={seed} is too large; pass an integer of at most 2**63 - 1")
    return seed


def check_level(level: object) -> float:
    """Check the probability of an interval."""
    if isinstance(level, bool | str) or not isinstance(level, int | float | np.number) or not 0.0 < float(level) < 1.0:
        raise ValueError(f"level={level!r} is not a probability; pass a number between 0 and 1, such as 0.9")
    return float(level)


def check_flag(name: str, value: object) -> bool:
    """Check an argument that must be True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name}={value!r} is neither True nor False; pass one of them")
    return bool(value)


def check_choice(name: str, value: object, choices: Iterable[str]) -> str:
    """Check an argument that must be one of several strings."""
    words = tuple(choices)
    if not isinstance(value, str) or value not in words:
        raise ValueError(f"{name}={value!r} is not valid; choose one of {listed(words, len(words))}")
    return value


def check_model(model: object, likelihood: object, hyper: object, n_classes: int, n_features: int) -> Model:
    """Create the model. `hyper` has checked its values; this function compares its shapes with the data."""
    kind = cast(ModelKind, check_choice("model", model, KINDS))
    form = cast(Likelihood, check_choice("likelihood", likelihood, LIKELIHOODS))
    if hyper is None:
        hyper = Hyperparameters()
    if not isinstance(hyper, Hyperparameters):
        raise ValueError(f"hyper={hyper!r} is not a Hyperparameters object; pass hyper=Hyperparameters(alpha=..., ...)")
    for name, per in PER.items():
        values, n = getattr(hyper, name), n_classes if per == "class" else n_features
        if np.ndim(values) > 0 and np.size(values) != n:
            raise ValueError(
                f"hyper.{name}={values!r} has {np.size(values)} numbers, one per {per} would be {n}; "
                f"pass one number, or one per {per}"
            )
    return Model(kind=kind, likelihood=form, hyper=hyper)


def check_data(
    x: ArrayLike,
    y: ArrayLike,
    x_parents: ArrayLike,
    y_parents: ArrayLike,
    *,
    n_values: ArrayLike,
    n_classes: int,
    windows: ArrayLike | None = None,
    missing: str = "error",
    supervised: bool = True,
    exclude_self: bool = False,
) -> Data:
    """Check the observed arrays for consistency and convert them to the types that the engines expect.

    Parameters
    ----------
    x, x_parents : array of shape (N, P) and (S, P)
        Values of the cases and of the parents; codes 0..V_j-1 if the window of the column is 0. NaN is a missing value.
    y, y_parents : array of shape (N,) and (S,)
        Classes 0..M-1; -1 for a case with an unknown class.
    n_values : sequence of length P
        V_j, the number of values of each feature (for a window r_j: range_j / (2 r_j)).
    n_classes : int
        M.
    windows : sequence of length P, optional
        r_j: the values of a case and a parent agree if they differ by at most r_j. None: 0 for all features.
    missing : {"error", "ignore"}
        Whether NaN is rejected, or left out of comparisons.
    supervised : bool
        If False, the classes of all cases are hidden.
    exclude_self : bool
        If True, case i is parent i and never its own neighbor.

    Returns
    -------
    Data
    """
    check_choice("missing", missing, MISSING)
    n_classes = check_count("n_classes", n_classes, at_least=1)
    supervised = check_flag("supervised", supervised)
    exclude_self = check_flag("exclude_self", exclude_self)

    x_cases, x_past = _table("x", x, "case"), _table("x_parents", x_parents, "parent")
    n_features = x_cases.shape[1]
    if x_past.shape[1] != n_features:
        raise ValueError(
            f"x has {n_features} columns and x_parents has {x_past.shape[1]}; pass the same features in the same order"
        )
    y_cases = _classes("y", y, ("x", len(x_cases)), n_classes, may_hide=True)
    y_past = _classes("y_parents", y_parents, ("x_parents", len(x_past)), n_classes, may_hide=False)
    if exclude_self and len(x_cases) != len(x_past):
        raise ValueError(
            f"exclude_self=True means that case i is parent i, but there are {len(x_cases)} cases and {len(x_past)} "
            f"parents; pass the same rows as x and x_parents, or exclude_self=False"
        )

    radii = _windows(windows, n_features)
    sizes = _n_values(n_values, n_features, radii)
    for name, table in (("x", x_cases), ("x_parents", x_past)):
        _refuse_infinite(name, table)
        if missing == "error":
            _refuse_missing(name, table)
        _refuse_wrong_codes(name, table, sizes, radii)

    if not supervised:
        y_cases = np.full_like(y_cases, HIDDEN)
    own_parent = np.arange(len(x_cases)) if exclude_self else np.full(len(x_cases), -1)
    return Data(
        x=x_cases,
        y=y_cases,
        x_parents=x_past,
        y_parents=y_past,
        n_values=sizes,
        n_classes=n_classes,
        windows=radii,
        own_parent=own_parent.astype(np.int64),
    )


def _numbers(name: str, value: ArrayLike, remedy: str) -> NDArray[np.float64]:
    """`value` as an array of floats; a copy, so that later changes to `value` have no effect."""
    if isinstance(value, np.ma.MaskedArray):
        value = np.where(np.ma.getmaskarray(value), np.nan, value.data.astype(np.float64))
    try:
        array = np.asarray(value)
    except ValueError as error:  # rows of different lengths
        raise ValueError(f"{name} is not a rectangular array ({error}); {remedy}") from None
    if array.dtype == object:  # for example a list of numbers and None, or a table with mixed columns
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"{name} holds values that are not numbers (dtype object); {remedy}") from None
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} holds values that are not numbers (dtype {array.dtype}); {remedy}")
    return np.array(array, dtype=np.float64, order="C")


def _table(name: str, value: ArrayLike, row: str) -> NDArray[np.float64]:
    """A two-dimensional array with at least one row and one column."""
    array = _numbers(name, value, f"pass an array of codes of shape ({row}s, features)")
    if array.ndim != 2:
        raise ValueError(f"{name} has shape {array.shape}; pass a two-dimensional array of shape ({row}s, features)")
    if array.shape[0] == 0:
        raise ValueError(f"{name} has shape {array.shape}: there are no {row}s; pass at least one row")
    if array.shape[1] == 0:
        raise ValueError(f"{name} has shape {array.shape}: there are no features; pass at least one column")
    return array


def _classes(
    name: str, value: ArrayLike, table: tuple[str, int], n_classes: int, *, may_hide: bool
) -> NDArray[np.int64]:
    """Check the class of each row of a table, as integers."""
    hidden = " (-1 if the class is not known)" if may_hide else ""
    remedy = f"pass integers from 0 to n_classes - 1 = {n_classes - 1}{hidden}"
    array = _numbers(name, value, remedy)
    table_name, n_rows = table
    if array.shape != (n_rows,):
        raise ValueError(f"{name} has shape {array.shape} for {n_rows} rows of {table_name}; pass one class per row")
    lowest = HIDDEN if may_hide else 0
    with np.errstate(invalid="ignore"):
        wrong = ~((array >= lowest) & (array < n_classes) & (array == np.floor(array)))
    if wrong.any():
        where = np.flatnonzero(wrong)
        raise ValueError(f"{name} holds {_values_at(array, where)} (row {where[0]} first); {remedy}")
    return array.astype(np.int64)


def _windows(windows: ArrayLike | None, n_features: int) -> NDArray[np.float64]:
    if windows is None:
        return np.zeros(n_features)
    radii = _numbers("windows", windows, "pass one number per feature, 0 for codes of categories")
    if radii.shape != (n_features,):
        raise ValueError(
            f"windows has shape {radii.shape} for {n_features} features; pass one number per feature, or None"
        )
    wrong = np.flatnonzero(~(np.isfinite(radii) & (radii >= 0)))
    if wrong.size:
        raise ValueError(
            f"windows[{wrong[0]}]={_plain(radii[wrong[0]])} is not a distance; pass finite numbers of at least 0"
        )
    return radii


def _n_values(n_values: ArrayLike, n_features: int, radii: NDArray[np.float64]) -> NDArray[np.float64]:
    sizes = _numbers("n_values", n_values, "pass the number of values of each feature")
    if sizes.shape != (n_features,):
        raise ValueError(
            f"n_values has shape {sizes.shape} for {n_features} features; pass one number of values per feature"
        )
    wrong = np.flatnonzero(~(np.isfinite(sizes) & (sizes >= 1)))
    if wrong.size:
        j = wrong[0]
        remedy = "pass a smaller window" if radii[j] > 0 else "a feature has at least one value"
        raise ValueError(f"n_values[{j}]={_plain(sizes[j])} is not a finite number of at least 1; {remedy}")
    wrong = np.flatnonzero((radii == 0) & (sizes != np.floor(sizes)))
    if wrong.size:
        j = wrong[0]
        raise ValueError(
            f"n_values[{j}]={_plain(sizes[j])} is not an integer; pass how many codes column {j} has, or windows"
        )
    return sizes


def _refuse_infinite(name: str, table: NDArray[np.float64]) -> None:
    n_infinite = np.isinf(table).sum(axis=0)
    if n_infinite.any():
        raise ValueError(
            f"{name} has infinite values in {_columns(n_infinite)}; pass finite codes (NaN for a missing value)"
        )


def _refuse_missing(name: str, table: NDArray[np.float64]) -> None:
    n_missing = np.isnan(table).sum(axis=0)
    if n_missing.any():
        raise ValueError(
            f"{name} has missing values (NaN) in {_columns(n_missing)}; pass missing='ignore' to leave them out of the "
            f"comparison, or give them a separate code"
        )


def _refuse_wrong_codes(
    name: str, table: NDArray[np.float64], sizes: NDArray[np.float64], radii: NDArray[np.float64]
) -> None:
    """Check that values are codes 0..V_j-1 if the window is 0."""
    with np.errstate(invalid="ignore"):
        wrong = ((table < 0) | (table >= sizes) | (table != np.floor(table))) & (radii == 0) & ~np.isnan(table)
    n_wrong = wrong.sum(axis=0)
    if n_wrong.any():
        j = int(np.flatnonzero(n_wrong)[0])
        values = _values_at(table[:, j], np.flatnonzero(wrong[:, j]))
        raise ValueError(
            f"{name} column {j} holds {values}, but its codes are the integers from 0 to n_values[{j}] - 1 = "
            f"{_plain(sizes[j] - 1)}; pass codes, or a larger n_values[{j}], or a window for a continuous column"
        )


def _columns(counts: NDArray[np.int64]) -> str:
    """``column 2 (3 of them), column 5 (1 of them)``."""
    where = np.flatnonzero(counts)
    named = [f"column {j} ({counts[j]} of them)" for j in where[:_MOST_NAMED]]
    return ", ".join(named) + (f" and {where.size - _MOST_NAMED} more columns" if where.size > _MOST_NAMED else "")


def _values_at(values: NDArray[np.float64], where: NDArray[np.intp]) -> str:
    distinct = list(dict.fromkeys(_plain(v) for v in values[where]))
    return ", ".join(distinct[:_MOST_NAMED]) + (", ..." if len(distinct) > _MOST_NAMED else "")


def _plain(value: float) -> str:
    """A number as a person would write it: 3, not 3.0."""
    return f"{float(value):.6g}"
