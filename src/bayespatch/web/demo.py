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
    "age": {"unit": "years", "usual": [29, 77], "possible": [0, 120], "coarse": 10, "fixed": True},
    "trestbps": {"unit": "mm Hg", "usual": [94, 200], "possible": [40, 300]},
    "chol": {"unit": "mg/dl", "usual": [126, 564], "possible": [50, 1000]},
    "thalach": {"unit": "/min", "usual": [71, 202], "possible": [30, 250]},
    "oldpeak": {"unit": "mm", "usual": [0, 6.2], "possible": [0, 10]},
    "ca": {"usual": [0, 3], "possible": [0, 4]},
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
    labels, phrases = {**X.attrs["descriptions"], "num": "heart disease"}, X.attrs["phrases"]
    details = {name: {"levels": levels[name]} if name in levels else NUMBERS[name] for name in labels}
    details["sex"]["fixed"] = True
    return {
        name: {"kind": "number", "label": labels[name], **details[name], "phrases": phrases.get(name)}
        for name in [*X.columns, "num"]
    }


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
