"""A demo clinic: the bundled heart data, with one patient as a new arrival."""

from __future__ import annotations

from bayespatch.casebase import CaseBase
from bayespatch.casebase.errors import CaseBaseError
from bayespatch.casebase.refit import learn
from bayespatch.datasets import load_heart
from bayespatch.types import JSONObject, Parameters

PATIENT = 20  # the new patient: a row of the heart data
QUICK = {"draws": 250, "warmup": 250, "random_state": 0}
NUMBERS: dict[str, JSONObject] = {
    "age": {"label": "age", "unit": "years", "usual": [29, 77], "possible": [0, 120], "coarse": 10, "fixed": True},
    "trestbps": {"label": "resting blood pressure", "unit": "mm Hg", "usual": [94, 200], "possible": [40, 300]},
    "chol": {"label": "serum cholesterol", "unit": "mg/dl", "usual": [126, 564], "possible": [50, 1000]},
    "thalach": {"label": "highest heart rate", "unit": "/min", "usual": [71, 202], "possible": [30, 250]},
    "oldpeak": {"label": "ST depression", "unit": "mm", "usual": [0, 6.2], "possible": [0, 10]},
    "ca": {"label": "major vessels colored", "usual": [0, 3], "possible": [0, 4]},
}
LABELS = {
    "sex": "sex",
    "cp": "chest pain",
    "fbs": "fasting sugar > 120 mg/dl",
    "restecg": "resting ECG",
    "exang": "angina on exercise",
    "slope": "slope of ST on exercise",
    "thal": "thallium scan",
    "num": "heart disease",
}


def dictionary() -> JSONObject:
    """The data dictionary of the heart data.

    Examples
    --------
    >>> dictionary()["sex"]["levels"]
    {0: 'female', 1: 'male'}
    """
    X, y = load_heart()
    levels = {**X.attrs["labels"], "num": y.attrs["labels"]}
    coded = {name: {"kind": "number", "label": LABELS[name], "levels": levels[name]} for name in LABELS}
    coded["sex"]["fixed"] = True
    entries = {
        name: coded[name] if name in coded else {"kind": "number", **NUMBERS[name]} for name in [*X.columns, "num"]
    }
    return {name: {**entry, "phrases": X.attrs["phrases"].get(name)} for name, entry in entries.items()}


def fill(base: CaseBase, by: str, parameters: Parameters | None = None) -> int:
    """Import past cases, fit a model and consult it once; returns the number of the consultation.

    Cases imported by an interrupted call are kept. A case base with different columns is rejected.
    """
    X, y = load_heart()
    table = X.astype(object).where(X.notna(), None).assign(num=y.astype(object))
    if base.dictionary is None:
        base.import_cases(table.drop(index=X.index[PATIENT]), by=by, target="num", dictionary=dictionary())
    elif base.target != "num" or list(base.dictionary.names) != list(X.columns):
        raise CaseBaseError("the case base has different columns; create another one for the demo data")
    base.promote(learn(base._database, by, QUICK if parameters is None else parameters).version, by=by)
    values = {name: None if value is None else float(value) for name, value in table.iloc[PATIENT][X.columns].items()}
    return base.consult(values, by=by, external_id="example").id
