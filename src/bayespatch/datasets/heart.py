"""Cleveland heart disease: 303 patients, 13 features, presence of disease (164 without, 139 with)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayespatch.datasets.loading import Discretize, check_discretize, cut, group, import_pandas, read_bundled

if TYPE_CHECKING:
    from pandas import DataFrame, Series

TARGET = "num"

DESCRIPTIONS = {
    "age": "age",
    "sex": "sex",
    "cp": "chest pain",
    "trestbps": "resting blood pressure",
    "chol": "cholesterol",
    "fbs": "fasting sugar above 120 mg/dl",
    "restecg": "resting ECG",
    "thalach": "maximum heart rate",
    "exang": "angina on exercise",
    "oldpeak": "ST depression on exercise",
    "slope": "ST slope on exercise",
    "ca": "major vessels colored",
    "thal": "thallium scan",
}

UNITS = {"trestbps": "mm Hg", "chol": "mg/dl", "thalach": "/min", "oldpeak": "mm"}

# Meanings of UCI's codes; these columns are categorical, the others are numbers.
LABELS = {
    "sex": {0: "female", 1: "male"},
    "cp": {1: "typical angina", 2: "atypical angina", 3: "non-anginal pain", 4: "asymptomatic"},
    "fbs": {0: "no", 1: "yes"},
    "restecg": {0: "normal", 1: "ST-T wave abnormality", 2: "left ventricular hypertrophy"},
    "exang": {0: "no", 1: "yes"},
    "slope": {1: "upsloping", 2: "flat", 3: "downsloping"},
    "thal": {3: "normal", 6: "fixed defect", 7: "reversible defect"},
}
ORDERED = ("slope",)

# Phrases for patients with a value, for sentences.
PHRASES = {
    "sex": {0: "women", 1: "men"},
    "cp": {
        1: "with typical angina",
        2: "with atypical angina",
        3: "with non-anginal chest pain",
        4: "without chest pain",
    },
    "restecg": {
        0: "with a normal resting ECG",
        1: "with an ST-T wave abnormality",
        2: "with left ventricular hypertrophy",
    },
    "slope": {1: "with an upsloping ST segment", 2: "with a flat ST segment", 3: "with a downsloping ST segment"},
    "ca": {
        0: "without colored vessels",
        1: "with one colored vessel",
        2: "with two colored vessels",
        3: "with three colored vessels",
    },
    "thal": {
        3: "with a normal thallium scan",
        6: "with a fixed thallium defect",
        7: "with a reversible thallium defect",
    },
}

OUTCOMES = {0: "no heart disease", 1: "heart disease"}


def load_heart(discretize: Discretize = None) -> tuple[DataFrame, Series]:
    """Cleveland heart disease: 303 patients, 13 features, 6 patients with a missing ``ca`` or ``thal``.

    Parameters
    ----------
    discretize : None or "paper"
        None: UCI's values; numbers, and categoricals for coded columns, with the meanings of codes in
        ``X.attrs["labels"]``. "paper": the bins of the paper's table on heart disease (``tab:heart``), with every
        column as a categorical (``X["age"].cat.codes`` are its codes; missing values have code -1).

    Returns
    -------
    X : DataFrame (303, 13)
    y : Series (303,)
        0: no heart disease, 1: heart disease.

    Notes
    -----
    Departs from the paper: its bins leave gaps, which are closed here by widening the nearest bin. ``oldpeak`` = 0 (99
    patients) joins (0, 0.5]; ``oldpeak`` = 6.2, ``thalach`` = 202 and ``chol`` of 400 and more join the last bin. Chest
    pain has the three groups that the table lists, not the two that it counts. No ``thalach`` is below 71, so only the
    last of its three bins occurs; it keeps three categories, as printed.

    Examples
    --------
    >>> from bayespatch.datasets import load_heart
    >>> X, y = load_heart()
    >>> X.shape, int(y.sum())
    ((303, 13), 139)
    >>> X, y = load_heart(discretize="paper")
    >>> list(X["age"].cat.categories)
    ['<45', '[45,55)', '>=55']
    """
    check_discretize(discretize)
    table = read_bundled("heart.csv")
    y = table.pop(TARGET)
    y.attrs = {"description": "heart disease", "labels": dict(OUTCOMES)}
    if discretize == "paper":
        X = paper_bins(table)
    else:
        X = table.assign(**{name: as_codes(table[name], name) for name in LABELS})
        X.attrs["labels"] = {name: dict(labels) for name, labels in LABELS.items()}
        X.attrs["phrases"] = {name: dict(phrases) for name, phrases in PHRASES.items()}
        X.attrs["units"] = dict(UNITS)
    X.attrs["descriptions"] = dict(DESCRIPTIONS)
    return X, y


def as_codes(column: Series, name: str) -> Series:
    """Convert a coded column to a categorical of UCI's integers."""
    pandas = import_pandas()
    dtype = pandas.CategoricalDtype(list(LABELS[name]), ordered=name in ORDERED)
    return column.astype("Int64").astype(object).astype(dtype)


def paper_bins(table: DataFrame) -> DataFrame:
    """The bins of ``tab:heart``, in its order."""
    pandas = import_pandas()
    return pandas.DataFrame(
        {
            "age": cut(table["age"], [45, 55], ["<45", "[45,55)", ">=55"], closed="left"),
            "sex": group(table["sex"], {"male": [1], "female": [0]}),
            "cp": group(
                table["cp"], {"typical or atypical angina": [1, 2], "non-anginal pain": [3], "asymptomatic": [4]}
            ),
            "trestbps": cut(table["trestbps"], [120, 140], ["<=120", "(120,140]", ">140"], closed="right"),
            "chol": cut(table["chol"], [240, 260], ["<=240", "(240,260]", ">260"], closed="right"),
            "fbs": group(table["fbs"], {"<=120 mg/dl": [0], ">120 mg/dl": [1]}),
            "restecg": group(table["restecg"], {"normal": [0], "abnormal": [1, 2]}),
            "thalach": cut(table["thalach"], [50, 65], ["<=50", "(50,65]", ">65"], closed="right"),
            "exang": group(table["exang"], {"no": [0], "yes": [1]}),
            "oldpeak": cut(table["oldpeak"], [0.5], ["<=0.5", ">0.5"], closed="right"),
            "slope": group(table["slope"], {"upsloping": [1], "flat or downsloping": [2, 3]}),
            "ca": group(table["ca"], {"0": [0], "1 to 3": [1, 2, 3]}),
            "thal": group(table["thal"], {"normal": [3], "defect": [6, 7]}),
        }
    )
