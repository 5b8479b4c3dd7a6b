"""All engines that need no GPU keep the contract of ``engine/base.py``."""

import inspect

import numpy as np
import pytest

from bayespatch.engine.base import Engine
from bayespatch.engine.cpu import CpuEngine
from bayespatch.engine.paper import PaperEngine
from bayespatch.model import KINDS
from tests.engine.contract import CHAINS, GIVEN, begun


@pytest.mark.parametrize("check", CHAINS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine_class", [CpuEngine, PaperEngine])
def test_chains(engine_class, kind, check):
    check(engine_class, kind)


@pytest.mark.parametrize("check", GIVEN)
@pytest.mark.parametrize("kind", KINDS)
def test_given_importances(kind, check):
    check(CpuEngine, kind)


def test_the_papers_engine_refuses_given_importances():
    engine, state = begun(PaperEngine, "I")
    calls = {
        "sweep_given_q": (np.full(3, 0.5),),
        "update_given": (np.full((1, 5, 3), 0.5), np.uint64(1), np.arange(4)),
        "summarise": (),
        "neighbors": (),
        "tally": (),
    }
    for name, arguments in calls.items():
        with pytest.raises(ValueError, match="cannot take them as given; pass engine='cpu'"):
            getattr(engine, name)(state, *arguments)


def test_no_engine_has_methods_that_callers_need_and_the_contract_lacks():
    """What ``sample``, ``chains`` and ``predict`` call of an engine is declared in the base class."""
    from bayespatch.predict import sampled as predict
    from bayespatch.sampling import chains

    declared = {name for name in dir(Engine) if not name.startswith("_")} | {"data", "model", "n_threads"}
    for module in (chains, predict):
        called = {word.split("(")[0] for word in inspect.getsource(module).split("engine.")[1:]}
        called = {name.split(")")[0].split(",")[0].split()[0].rstrip(":.`") for name in called if name[:1].isalpha()}
        called = {name.split(".")[0] for name in called} - {"base", "streams", "installed"}
        assert called <= declared, called - declared
