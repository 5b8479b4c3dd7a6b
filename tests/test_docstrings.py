"""Every public name has a docstring with an example, and every example in the package runs."""

import doctest
import importlib
import inspect
import pkgutil
import warnings

import pytest

import bayespatch
from bayespatch import datasets

pytest.importorskip("matplotlib").use("Agg")

MODULES = ["bayespatch", *(found.name for found in pkgutil.walk_packages(bayespatch.__path__, "bayespatch."))]
MODULES = [name for name in MODULES if not name.endswith("__main__")]


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
    """The models of the examples: those that the docstrings of the estimators' `fit` make."""
    X = [["yes", 61], ["yes", 58], ["no", 40], ["no", 44]] * 5
    short = dict(draws=50, warmup=50, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = bayespatch.PatchworkClassifier(**short).fit(X, ["sick", "sick", "well", "well"] * 5)
        regressor = bayespatch.PatchworkRegressor(**short).fit(X, [7.0, 6.0, 1.0, 2.0] * 5)
    return {"clf": clf, "regressor": regressor, "X": X, "y": ["sick", "sick", "well", "well"] * 5}


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
