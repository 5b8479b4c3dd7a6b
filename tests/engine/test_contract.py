"""All engines that need no GPU keep the contract of ``engine/base.py``."""

from pathlib import Path

import numpy as np
import pytest

from bayespatch.engine.base import Engine, GivenEngine
from bayespatch.engine.cpu import CpuEngine
from bayespatch.engine.paper import PaperEngine
from bayespatch.model import KINDS, Model
from bayespatch.sampling.posterior import PredictiveDraws, SamplingSettings
from bayespatch.sampling.sampler import run_chains
from tests.engine import contract
from tests.engine.contract import CHAINS, DATA, GIVEN, P


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
    settings = SamplingSettings("paper", 1, 2, 0, 1, 0, True, False, "error")
    given = PredictiveDraws(np.full((1, 2, P), 0.5), 1)
    with pytest.raises(ValueError, match="engine='paper' samples the importances itself and cannot use given ones"):
        run_chains(DATA, Model(), settings, predictive=given)


@pytest.mark.parametrize("kind", [Engine, GivenEngine])
def test_the_contract_is_documented_and_checked(kind):
    """CONTRIBUTING names every method that an engine must have, and the checks call it."""
    page = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    recipe = page.partition("## How to add an engine")[2].partition("\n## ")[0]
    checks = Path(contract.__file__).read_text(encoding="utf-8")
    for name in kind.__abstractmethods__:
        assert f"`{name}`" in recipe, name
        assert f".{name}(" in checks, name
