"""Self-contained HTML pages about a case and about a model.

Examples
--------
>>> import os, tempfile
>>> from bayespatch import PatchworkClassifier
>>> X = [["yes", 61], ["yes", 58], ["no", 40], ["no", 44]] * 5
>>> clf = PatchworkClassifier(draws=50, warmup=50, random_state=0).fit(X, ["sick", "sick", "well", "well"] * 5)
>>> with tempfile.TemporaryDirectory() as folder:
...     case_report(clf.explain(["yes", 60]), os.path.join(folder, "case.html"))
...     model_report(clf, os.path.join(folder, "model.html"))
...     sorted(os.listdir(folder))
['case.html', 'model.html']
"""

from bayespatch.report.governance import governance_pack
from bayespatch.report.pages import (
    case_body,
    case_page,
    case_report,
    model_body,
    model_page,
    model_report,
    script,
    style,
    templates,
    validation_page,
    validation_report,
)

__all__ = [
    "case_body",
    "case_page",
    "case_report",
    "governance_pack",
    "model_body",
    "model_page",
    "model_report",
    "script",
    "style",
    "templates",
    "validation_page",
    "validation_report",
]
