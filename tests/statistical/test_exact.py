"""Every engine against the exactly enumerated posterior: models x likelihoods x supervision x problems."""

import zlib

import pytest

from bayespatch.engine.base import Engine
from bayespatch.engine.paper import PaperEngine
from bayespatch.model import KINDS, LIKELIHOODS, Data, Model
from tests.montecarlo import check_against_exact
from tests.problems import PROBLEMS, unsupervised


def make_cpu(data: Data, model: Model) -> Engine:
    from bayespatch.engine.cpu import CpuEngine

    return CpuEngine(data, model)


ENGINES = {"paper": (PaperEngine, 2500), "cpu": (make_cpu, 4000)}  # and how many draws a chain


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("supervised", [True, False], ids=["supervised", "unsupervised"])
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", ENGINES)
def test_means_are_those_of_the_exact_posterior(engine, kind, likelihood, supervised, name):
    data, hyper = PROBLEMS[name]()
    if not supervised:
        data = unsupervised(data)
    make_engine, n_draws = ENGINES[engine]
    seed = zlib.crc32(f"{kind}-{likelihood}-{supervised}-{name}".encode())  # fixed, and another for every test
    check_against_exact(make_engine, data, Model(kind, likelihood, hyper), n_draws, seed)
