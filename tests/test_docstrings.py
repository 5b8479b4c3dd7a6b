"""Every public name has a docstring with an example, and every example in the package runs."""

import ast
import doctest
import importlib
import inspect
import pkgutil
import re
import shutil
import sqlite3
import tempfile
import warnings
from contextlib import closing

import numpy as np
import pytest

import bayespatch
import study
from bayespatch import datasets

pytest.importorskip("matplotlib").use("Agg")

PACKAGES = (bayespatch, study)
MODULES = [
    found.name for package in PACKAGES for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
]
MODULES = ["bayespatch", *(name for name in MODULES if not name.startswith("study.tests") and "__main__" not in name)]


def public():
    """What a user meets: public names by what they are called, and the methods of classes among them."""
    found = {name: getattr(bayespatch, name) for name in bayespatch.__all__ if name not in ("__version__", "datasets")}
    found |= {f"datasets.{name}": getattr(datasets, name) for name in datasets.__all__}
    for name, thing in list(found.items()):
        if inspect.isclass(thing):
            found |= {f"{name}.{method}": value for method, value in members(thing)}
    return found


def members(kind):
    """Methods and properties that this package, not a base class from elsewhere, has given to a class."""
    for name, value in inspect.getmembers(kind):
        function = value.fget if isinstance(value, property) else value
        if not name.startswith("_") and getattr(function, "__module__", "").startswith("bayespatch."):
            yield name, value


PUBLIC = public()


def test_the_public_names_are_found():
    assert {"sample", "PatchworkClassifier.explain", "PatchworkClassifier.predict", "Posterior.n_draws"} <= set(PUBLIC)
    assert "PatchworkClassifier.get_params" not in PUBLIC  # scikit-learn's own


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_is_documented(name):
    said = inspect.getdoc(PUBLIC[name]) or ""
    assert said, f"{name} has no docstring"
    if not isinstance(PUBLIC[name], property):  # what an attribute is, a sentence says
        assert ">>> " in said, f"{name} has no example"
    if inspect.isroutine(PUBLIC[name]):
        assert f"{name.rpartition('.')[2]}(" in said.partition(">>> ")[2], f"the example of {name} does not call it"


@pytest.fixture(scope="module")
def fitted():
    """The models of the examples: those that the docstrings of the estimators' `fit` and of `Posterior` make."""
    X = [["yes", 61], ["yes", 58], ["no", 40], ["no", 44]] * 5
    short = dict(draws=50, warmup=50, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = bayespatch.PatchworkClassifier(**short).fit(X, ["sick", "sick", "well", "well"] * 5)
        regressor = bayespatch.PatchworkRegressor(**short).fit(X, [7.0, 6.0, 1.0, 2.0] * 5)
        past = dict(x_parents=[[0], [1], [1]], y_parents=[0, 1, 1], n_values=[2], n_classes=2)
        posterior = bayespatch.sample([[0], [1]], [0, 1], **past, draws=50, warmup=50, keep_votes=True)
        rng = np.random.default_rng(0)
        days = np.where([row[0] == "yes" for row in X], 20.0, 200.0) * rng.exponential(size=len(X))
        times = np.array(
            list(zip(days < 300, np.minimum(days, 300), strict=True)), dtype=[("died", bool), ("days", float)]
        )
        survival = bayespatch.PatchworkSurvival(draws=20, random_state=0).fit(X, times)
    models = {"clf": clf, "regressor": regressor, "posterior": posterior, "survival": survival, "times": times}
    return {**models, "past": past, "X": X, "y": ["sick", "sick", "well", "well"] * 5}


@pytest.fixture(scope="module", autouse=True)
def one_demo(tmp_path_factory):
    """Most examples of the case base begin with its demo: it is filled once, and copied for each of them."""
    file = tmp_path_factory.mktemp("demo") / "clinic.db"
    with warnings.catch_warnings(), bayespatch.CaseBase.demo() as base:
        warnings.simplefilter("ignore")
        with (
            closing(sqlite3.connect(f"{base._temporary.name}/clinic.db")) as made,
            closing(sqlite3.connect(file)) as kept,
        ):
            made.backup(kept)  # not the base's own, which writes into the audit log

    def copied(cls):
        folder = tempfile.TemporaryDirectory()
        base = cls.open(shutil.copy(file, folder.name))
        base._temporary = folder
        return base

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bayespatch.CaseBase, "demo", classmethod(copied))
        yield


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name, tmp_path, monkeypatch, fitted):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    said = []
    runner = doctest.DocTestRunner(verbose=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # chains of examples are short
        for test in doctest.DocTestFinder(exclude_empty=True).find(module, module.__name__):
            if test.examples:
                test.globs = {**fitted, **test.globs}
                runner.run(test, out=said.append)
    assert not runner.failures, "".join(said)


LISTS = ("Attributes", "Parameters", "Raises", "Returns", "Yields")
ENTRY = re.compile(r"\w : \w")


def merged_lines(docstring):
    """Lines of numpydoc sections in which an entry, or the underline of a heading, has run into its neighbor."""
    lines, section = docstring.split("\n"), ""
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if after.startswith("---"):
            section = line
        if re.search(r"\S -{4,}", line):
            yield line
        elif section in LISTS:
            indented = line.startswith(" ")
            if ENTRY.search(line) if indented else line.count(" : ") > 1 or (ENTRY.search(line) and line.endswith(".")):
                yield line


@pytest.mark.parametrize("name", MODULES)
def test_each_entry_of_a_docstring_has_its_own_line(name):
    tree = ast.parse(inspect.getsource(importlib.import_module(name)))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = [ast.get_docstring(node) or "" for node in ast.walk(tree) if isinstance(node, documented)]
    assert not [line for docstring in found for line in merged_lines(docstring)]


def test_merged_lines_are_found():
    text = "Read.\n\nParameters\n----------\nx : int\n    One. y : int\nz : dict The values.\n\nNotes ----- None."
    assert list(merged_lines(text)) == ["    One. y : int", "z : dict The values.", "Notes ----- None."]
