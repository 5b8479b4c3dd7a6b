"""Ljubljana breast cancer: 286 patients, 9 features, recurrence of the disease (201 without, 85 with)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayespatch.datasets.loading import Discretize, check_discretize, cut, group, import_pandas, read_bundled

if TYPE_CHECKING:
    from pandas import DataFrame, Series

TARGET = "class"

DESCRIPTIONS = {
    "age": "age",
    "menopause": "menopause",
    "tumor-size": "tumor size, mm",
    "inv-nodes": "positive axillary nodes",
    "node-caps": "capsule penetration",
    "deg-malig": "tumor grade",
    "breast": "breast",
    "breast-quad": "quadrant",
    "irradiat": "radiation therapy",
}

LABELS = {
    "menopause": {"lt40": "before 40", "ge40": "at 40 or later", "premeno": "premenopausal"},
    "breast-quad": {
        "left_up": "left upper",
        "left_low": "left lower",
        "right_up": "right upper",
        "right_low": "right lower",
        "central": "central",
    },
}

# Phrases for patients with a value, for sentences.
PHRASES: dict[str, dict[str | int, str]] = {
    "menopause": {
        "lt40": "with menopause before 40",
        "ge40": "with menopause at 40 or later",
        "premeno": "premenopausal women",
    },
    "deg-malig": {grade: f"with a grade {grade} tumor" for grade in (1, 2, 3)},
    "breast": {side: f"with a tumor of the {side} breast" for side in ("left", "right")},
    "breast-quad": {
        "left_up": "with a tumor in the left upper quadrant",
        "left_low": "with a tumor in the left lower quadrant",
        "right_up": "with a tumor in the right upper quadrant",
        "right_low": "with a tumor in the right lower quadrant",
        "central": "with a central tumor",
    },
}

OUTCOMES = {"no-recurrence-events": "no recurrence", "recurrence-events": "recurrence"}

# The values that occur, in their natural order, if any.
RANGES = ("age", "tumor-size", "inv-nodes")
NAMES = {
    "menopause": ["lt40", "ge40", "premeno"],
    "node-caps": ["no", "yes"],
    "breast": ["left", "right"],
    "breast-quad": ["left_up", "left_low", "right_up", "right_low", "central"],
    "irradiat": ["no", "yes"],
}


def load_breast(discretize: Discretize = None) -> tuple[DataFrame, Series]:
    """Ljubljana breast cancer recurrence: 286 patients, 9 features, 9 patients with a missing value.

    Parameters
    ----------
    discretize : None or "paper"
        None: UCI's values, all categorical; ages, sizes, node counts and grades are ordered. "paper": the bins of the
        paper's table on breast cancer (``tab:breast``).

    Returns
    -------
    X : DataFrame (286, 9)
    y : Series (286,)
        "no-recurrence-events" or "recurrence-events".

    Notes
    -----
    Departs from the paper: it prints the second age bin as [50,59) and the first node bin as (0,2]; the data have
    decades and the range 0-2, so these bins are 50-59 and 0-2 here. The right quadrants are one group, as printed.

    Examples
    --------
    >>> from bayespatch.datasets import load_breast
    >>> X, y = load_breast()
    >>> X.shape, int((y == "recurrence-events").sum())
    ((286, 9), 85)
    >>> X, y = load_breast(discretize="paper")
    >>> list(X["tumor-size"].cat.categories)
    ['0-19', '20-29', '30-39', '40-59']
    """
    check_discretize(discretize)
    table = read_bundled("breast.csv")
    y = table.pop(TARGET)
    y.attrs = {"description": "recurrence", "labels": dict(OUTCOMES)}
    if discretize == "paper":
        X = paper_bins(table)
    else:
        X = as_categories(table)
        X.attrs["labels"] = {name: dict(labels) for name, labels in LABELS.items()}
        X.attrs["phrases"] = {
            **PHRASES,
            "tumor-size": {size: f"with a tumor of {dashed(size)} mm" for size in X["tumor-size"].cat.categories},
            "inv-nodes": {n: f"with {dashed(n)} positive nodes" for n in X["inv-nodes"].cat.categories},
        }
    X.attrs["descriptions"] = dict(DESCRIPTIONS)
    return X, y


def dashed(span: str) -> str:
    """A range with an en dash, for sentences."""
    return span.replace("-", "–")


def lower_end(ranges: Series) -> Series:
    """The lower end of ranges such as "15-19"."""
    return ranges.str.split("-").str[0].astype(int)


def as_categories(table: DataFrame) -> DataFrame:
    """Convert every column to a categorical, in its natural order."""
    pandas = import_pandas()
    columns = {}
    for name in table.columns:
        if name in RANGES:
            in_order = table[name].iloc[lower_end(table[name]).argsort(kind="stable")].unique()
            dtype = pandas.CategoricalDtype(list(in_order), ordered=True)
        elif name in NAMES:
            dtype = pandas.CategoricalDtype(NAMES[name])
        else:  # deg-malig
            dtype = pandas.CategoricalDtype([1, 2, 3], ordered=True)
        columns[name] = table[name].astype(dtype)
    return pandas.DataFrame(columns)


def paper_bins(table: DataFrame) -> DataFrame:
    """The bins of ``tab:breast``, in its order."""
    pandas = import_pandas()
    sizes = ["0-19", "20-29", "30-39", "40-59"]
    return pandas.DataFrame(
        {
            "age": cut(lower_end(table["age"]), [50, 60], ["<50", "50-59", ">=60"], closed="left"),
            "menopause": group(table["menopause"], {"<40": ["lt40"], ">=40": ["ge40"], "premenopausal": ["premeno"]}),
            "tumor-size": cut(lower_end(table["tumor-size"]), [20, 30, 40], sizes, closed="left"),
            "inv-nodes": cut(lower_end(table["inv-nodes"]), [3], ["0-2", ">2"], closed="left"),
            "node-caps": group(table["node-caps"], {"yes": ["yes"], "no": ["no"]}),
            "deg-malig": group(table["deg-malig"], {"1": [1], "2": [2], "3": [3]}, ordered=True),
            "breast": group(table["breast"], {"left": ["left"], "right": ["right"]}),
            "breast-quad": group(
                table["breast-quad"],
                {
                    "left upper": ["left_up"],
                    "left lower": ["left_low"],
                    "right": ["right_up", "right_low"],
                    "central": ["central"],
                },
            ),
            "irradiat": group(table["irradiat"], {"yes": ["yes"], "no": ["no"]}),
        }
    )
