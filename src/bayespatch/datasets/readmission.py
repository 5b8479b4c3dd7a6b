"""Diabetes in 130 US hospitals, 1999-2008: 101,766 stays of 71,518 patients, readmission within 30 days."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bayespatch.datasets.loading import Discretize, check_discretize, cut, group, import_pandas

if TYPE_CHECKING:
    from pandas import DataFrame, Series

TARGET = "readmitted"
OPENML_ID = 4541  # "Diabetes130US", the same table as UCI's
IDENTIFIERS = ["encounter_id", "patient_nbr"]
NUMBERS = [
    "time_in_hospital",
    "num_lab_procedures",
    "num_procedures",
    "num_medications",
    "number_outpatient",
    "number_emergency",
    "number_inpatient",
    "number_diagnoses",
]
CODES = ["admission_type_id", "discharge_disposition_id", "admission_source_id"]
DRUGS = ["metformin", "glimepiride", "glipizide", "glyburide", "pioglitazone", "rosiglitazone", "insulin"]
OTHER_DRUGS = [
    "repaglinide",
    "nateglinide",
    "chlorpropamide",
    "acetohexamide",
    "tolbutamide",
    "acarbose",
    "miglitol",
    "troglitazone",
    "tolazamide",
    "examide",
    "citoglipton",
    "glyburide-metformin",
    "glipizide-metformin",
    "glimepiride-pioglitazone",
    "metformin-rosiglitazone",
    "metformin-pioglitazone",
]
AGES = [f"[{low}-{low + 10})" for low in range(0, 100, 10)]

# The features of tab:read, in its order (down the left half, then down the right).
DESCRIPTIONS = {
    "race": "race",
    "gender": "gender",
    "age": "age, in decades",
    "discharge_disposition_id": "discharged to",
    "admission_source_id": "admitted from",
    "time_in_hospital": "days in hospital",
    "medical_specialty": "specialty of the admitting physician",
    "A1Cresult": "HbA1c test result",
    "diabetesMed": "any diabetic medication prescribed",
    "change": "change in diabetic medication",
    "diag_1": "primary diagnosis (ICD-9)",
    **{drug: f"change in the dosage of {drug}" for drug in DRUGS},
    "admission_type_id": "type of admission",
}
OTHER_DESCRIPTIONS = {
    "weight": "weight in pounds, in ranges",
    "payer_code": "payer",
    "num_lab_procedures": "number of laboratory tests during the stay",
    "num_procedures": "number of other procedures during the stay",
    "num_medications": "number of distinct medications during the stay",
    "number_outpatient": "outpatient visits in the year before",
    "number_emergency": "emergency visits in the year before",
    "number_inpatient": "inpatient visits in the year before",
    "diag_2": "secondary diagnosis (ICD-9)",
    "diag_3": "additional secondary diagnosis (ICD-9)",
    "number_diagnoses": "number of diagnoses entered",
    "max_glu_serum": "glucose serum test result",
    **{drug: f"change in the dosage of {drug}" for drug in OTHER_DRUGS},
}


def load_readmission(
    path: str | os.PathLike[str] | None = None, discretize: Discretize = None
) -> tuple[DataFrame, Series]:
    """Readmission of diabetic patients to 130 US hospitals: 101,766 stays, one row each.

    Rows are indexed by stay and patient. A patient may have several stays: split by
    ``X.index.get_level_values("patient_nbr")``, so that no patient is in both the training and the test set.

    Parameters
    ----------
    path : str or path, optional
        UCI's ``diabetic_data.csv`` (doi 10.24432/C5230J), optionally compressed; "?" is missing. If omitted,
        scikit-learn fetches the table from OpenML and caches it.
    discretize : None or "paper"
        None: all original columns, codes and names as categoricals. "paper": the 19 features and the bins of the
        paper's table on readmission (``tab:read``).

    Returns
    -------
    X : DataFrame
    y : Series
        "<30" (days), ">30" or "NO"; with ``discretize="paper"`` "readmitted" (within 30 days) or "otherwise".

    Notes
    -----
    Departs from the paper where its table does not assign a value to a group. It lists nine of the ten decades of age:
    80 and older are one bin here. It lists only "Up" and "Down" for drugs: "No" and "Steady", by far the most frequent
    values, form a third group. A missing specialty (half of the stays) is among the others, and a missing HbA1c is
    "none". A normal HbA1c is "other". "Final diagnosis" is ``diag_1``, grouped as in Strack et al. (2014). Missing
    values of race and ``diag_1`` remain missing, as does the gender of three patients ("Unknown/Invalid").

    Examples
    --------
    >>> from bayespatch.datasets import load_readmission
    >>> X, y = load_readmission("diabetic_data.csv.gz", discretize="paper")  # doctest: +SKIP
    >>> X.shape  # doctest: +SKIP
    (101766, 19)
    >>> load_readmission("mistyped.csv")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    FileNotFoundError: there is no file 'mistyped.csv': get diabetic_data.csv from https://doi.org/10.24432/C5230J...
    """
    check_discretize(discretize)
    table = fetch() if path is None else read(path)
    source = "OpenML" if path is None else os.fspath(path)
    wanted = DESCRIPTIONS if discretize == "paper" else {**DESCRIPTIONS, **OTHER_DESCRIPTIONS}
    missing = [name for name in [*IDENTIFIERS, *wanted, TARGET] if name not in table.columns]
    if missing:
        raise ValueError(
            f"{source} has no column {', '.join(map(repr, missing))}: it is not UCI's diabetic_data.csv, "
            "which is available from https://doi.org/10.24432/C5230J"
        )
    table = table.assign(**{name: as_numbers(table[name]) for name in IDENTIFIERS}).set_index(IDENTIFIERS)
    y = table.pop(TARGET).astype(str)
    if discretize == "paper":
        X = paper_bins(table)
        y = y.where(y != "<30", "readmitted").where(y == "<30", "otherwise")
    else:
        X = as_categories(table)
    X.attrs["descriptions"] = dict(wanted)
    y.attrs = {"description": "readmission to hospital"}
    return X, y


def read(path: str | os.PathLike[str]) -> DataFrame:
    """Read UCI's file; "?" and blanks are missing, while "None" is a test that was not performed."""
    pandas = import_pandas()
    if not os.path.exists(path):
        raise FileNotFoundError(
            f"there is no file {os.fspath(path)!r}: get diabetic_data.csv from https://doi.org/10.24432/C5230J, or "
            "omit path to fetch the table from OpenML"
        )
    return pandas.read_csv(path, keep_default_na=False, na_values=["?", ""], dtype=str)


def fetch() -> DataFrame:
    """OpenML's copy of the same table, fetched by scikit-learn and cached in its data folder."""
    from sklearn.datasets import fetch_openml

    table = fetch_openml(data_id=OPENML_ID, as_frame=True, parser="auto").frame
    text = table.astype(object).where(table.notna(), None)
    return text.map(lambda value: None if value is None or value == "?" else str(value).strip("'"))


def as_categories(table: DataFrame) -> DataFrame:
    """Counts as numbers, ages as ordered categories, everything else as categories."""
    pandas = import_pandas()
    columns = {}
    for name in table.columns:
        if name in NUMBERS:
            columns[name] = as_numbers(table[name])
        elif name in CODES:
            columns[name] = as_numbers(table[name]).astype("category")
        elif name == "age":
            columns[name] = table[name].astype(pandas.CategoricalDtype(AGES, ordered=True))
        else:
            columns[name] = table[name].astype("category")
    return pandas.DataFrame(columns)


def as_numbers(column: Series) -> Series:
    """Convert text to numbers, to integers if none is missing."""
    pandas = import_pandas()
    try:
        return pandas.to_numeric(column)
    except ValueError as error:
        raise ValueError(f"column {column.name!r} must contain numbers: {error}") from error


def paper_bins(table: DataFrame) -> DataFrame:
    """The features and bins of ``tab:read``, in its order."""
    pandas = import_pandas()
    ages = {age: [age] for age in AGES[:8]} | {"[80-100)": AGES[8:]}
    specialty = table["medical_specialty"].fillna("")
    specialties = {
        "InternalMedicine": ["InternalMedicine"],
        "Family/GeneralPractice": ["Family/GeneralPractice"],
        "Cardiology": ["Cardiology"],
    }
    columns = {
        "race": group(
            table["race"], {"Caucasian": ["Caucasian"], "AfricanAmerican": ["AfricanAmerican"]}, otherwise="others"
        ),
        "gender": group(table["gender"], {"male": ["Male"], "female": ["Female"]}),
        "age": group(table["age"], ages, ordered=True),
        "discharge_disposition_id": group(
            as_numbers(table["discharge_disposition_id"]), {"home": [1]}, otherwise="otherwise"
        ),
        "admission_source_id": group(
            as_numbers(table["admission_source_id"]),
            {"emergency room": [7], "physician/clinic referral": [1, 2]},
            otherwise="otherwise",
        ),
        "time_in_hospital": cut(as_numbers(table["time_in_hospital"]), [1, 7], ["<2", "2-7", ">7"], closed="right"),
        "medical_specialty": group(specialty, specialties, otherwise="others"),
        "A1Cresult": group(
            table["A1Cresult"].fillna("None"), {">7": [">7"], ">8": [">8"], "none": ["None"]}, otherwise="other"
        ),
        "diabetesMed": group(table["diabetesMed"], {"yes": ["Yes"], "no": ["No"]}),
        "change": group(table["change"], {"yes": ["Ch"], "no": ["No"]}),
        "diag_1": diagnosis_groups(table["diag_1"]),
        **{drug: group(table[drug], {"Up": ["Up"], "Down": ["Down"]}, otherwise="No or Steady") for drug in DRUGS},
        "admission_type_id": group(as_numbers(table["admission_type_id"]), {"emergency": [1]}, otherwise="other"),
    }
    return pandas.DataFrame(columns)


def diagnosis_groups(codes: Series) -> Series:
    """ICD-9 codes in the groups of Strack et al. (2014); codes beginning with E or V are among the others.

    Examples
    --------
    >>> import pandas as pd
    >>> list(diagnosis_groups(pd.Series(["250.83", "410", "786", "V27"])))
    ['diabetes', 'circulatory system', 'respiratory system', 'other']
    """
    pandas = import_pandas()
    chapter = pandas.to_numeric(codes, errors="coerce") // 1
    chapter = chapter.mask(chapter.isna() & codes.notna(), -1)  # codes with a letter are in none of the chapters below
    groups = {
        "diabetes": [250],
        "circulatory system": [*range(390, 460), 785],
        "respiratory system": [*range(460, 520), 786],
        "digestive system": [*range(520, 580), 787],
        "injury and poisoning": list(range(800, 1000)),
    }
    return group(chapter, groups, otherwise="other")
