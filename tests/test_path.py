"""`fit`, `explain` and `consult` enter the layers in the documented order, and no layer calls a later one."""

import re
import sys
import threading
import warnings

import numpy as np
import pandas
import pytest

from bayespatch import CaseBase, PatchworkClassifier, validation
from bayespatch.cli import terminal
from tests.test_layers import LAYERS, ROOT, layer_of, modules_of

MODULES = {str(path): name for name, path in modules_of(ROOT).items()}


def trace(function):
    """The layers in the order in which they are entered, and calls from a layer into a later one."""
    entered, upward = [], set()

    def watch(frame, event, _):
        callee = MODULES.get(frame.f_code.co_filename)
        if event != "call" or not callee:
            return
        layer = layer_of(callee)
        if layer not in entered:
            entered.append(layer)
        caller = frame.f_back
        while caller is not None and caller.f_code.co_filename not in MODULES:  # through NumPy, a thread pool, ...
            caller = caller.f_back
        if caller is not None:
            other = layer_of(MODULES[caller.f_code.co_filename])
            if other and layer and LAYERS.index(layer) > LAYERS.index(other):
                upward.add(f"{other} calls {callee}.{frame.f_code.co_qualname}")

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return entered, upward


@pytest.fixture(scope="module")
def walks():
    rng = np.random.default_rng(0)
    X = pandas.DataFrame({"pain": rng.choice(["rest", "effort"], 60), "age": rng.integers(30, 80, 60)})
    y = np.where(X["pain"] == "rest", "sick", "well")
    clf = PatchworkClassifier(draws=20, warmup=20, random_state=0, n_jobs=1)
    found = {
        "fit": trace(lambda: clf.fit(X, y)),
        "explain": trace(lambda: clf.explain(X.iloc[[0]]).to_dict()),
    }
    with CaseBase.demo() as base:
        base.consult({"age": 58, "pain": "rest"}, by="Dr. Roe")  # which reads the model
        found["consult"] = trace(lambda: base.consult({"age": 57, "pain": "rest"}, by="Dr. Roe"))
    return found


def documented():
    """The layers that CONTRIBUTING names for each call, in their order."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = page.partition("### Call order")[2].partition("\n###")[0]
    names = {
        item[1]: [name for name in re.findall(r"`([a-z_]+)`", item[2]) if name in LAYERS]
        for item in re.finditer(r"^- `(\w+)`: (.*?)(?=^- |^$)", section, re.DOTALL | re.MULTILINE)
    }
    assert set(names) == {"fit", "explain", "consult"}
    return names


@pytest.mark.parametrize("call", ["fit", "explain", "consult"])
def test_layers_are_entered_in_the_documented_order(walks, call):
    entered, _ = walks[call]
    names = documented()[call]
    assert len(names) >= 5
    assert [layer for layer in entered if layer in names] == names


@pytest.mark.parametrize("call", ["fit", "explain", "consult"])
def test_calls_go_forward(walks, call):
    """A later layer is called only through a function that it has passed on."""
    _, upward = walks[call]
    assert [line for line in upward if "<locals>" not in line] == []


def test_an_upward_call_is_found(monkeypatch):
    monkeypatch.setattr(validation, "listed", lambda words, most: terminal.as_json(words))

    def refuse():
        with pytest.raises(ValueError, match="is not valid"):
            validation.check_choice("model", "IV", ("I", "II"))

    assert trace(refuse)[1] == {"validation calls cli.terminal.as_json"}
