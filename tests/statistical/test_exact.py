"""Every engine against the exactly enumerated posterior: models x likelihoods x supervision x problems."""

import zlib

import numpy as np
import pytest

from bayespatch.engine.base import Engine, Neighbors
from bayespatch.engine.cpu import CpuEngine, CpuState
from bayespatch.engine.paper import PaperEngine
from bayespatch.model import KINDS, LIKELIHOODS, Data, Model, may_be_neighbors
from tests.enumeration import enumerate_posterior
from tests.montecarlo import check_against_exact
from tests.problems import PROBLEMS, unsupervised


def make_cpu(data: Data, model: Model) -> Engine:
    return CpuEngine(data, model)


def by_logarithms(data: Data, model: Model) -> Engine:
    """A logarithm is taken of every factor, as if there were hundreds of features."""
    engine = CpuEngine(data, model)
    engine.constants = engine.constants._replace(chunk=1)
    return engine


class Tight(CpuEngine):
    """Lists of neighbors begin with room for one, and grow; two threads."""

    def __init__(self, data: Data, model: Model) -> None:
        super().__init__(data, model, n_threads=2)

    def start(self, seed: int, chain: int) -> CpuState:
        state = super().start(seed, chain)
        state.neighbors = Neighbors(state.neighbors.n, *(part[:, :1].copy() for part in state.neighbors[1:]))
        return state


SETTINGS = [(likelihood, supervised) for likelihood in LIKELIHOODS for supervised in (True, False)]
ONCE = ("equal_cases", "small_shapes", "crowd", "rare_influence")  # about the sampler more than about the likelihood
CPU_PROBLEMS = {
    setting: [name for name in PROBLEMS if name not in ONCE or setting == ("exact", True)] for setting in SETTINGS
}
# The oracle is slow and plain: several problems for each setting, each problem in one setting or another.
PAPER_PROBLEMS = {
    ("exact", True): [
        "binary",
        "many_values",
        "exclude_self",
        "windows",
        "missing",
        "hidden_label",
        "one_case",
        "crowd",
        "rare_influence",
    ],
    ("exact", False): ["many_values", "missing", "one_parent", "small_shapes"],
    ("paper", True): ["binary", "windows", "one_class", "hidden_label", "missing"],
    ("paper", False): ["exclude_self", "one_parent", "equal_cases"],
}
ENGINES = {"cpu": (make_cpu, CPU_PROBLEMS, 2000), "paper": (PaperEngine, PAPER_PROBLEMS, 2000)}  # and draws a chain
COMBINATIONS = [
    (engine, kind, *setting, name)
    for engine, (_, problems, _) in ENGINES.items()
    for kind in KINDS
    for setting in SETTINGS
    for name in problems[setting]
]


def check(make_engine, kind, likelihood, supervised, name, n_draws):
    data, hyper = PROBLEMS[name]()
    if not supervised:
        data = unsupervised(data)
    seed = zlib.crc32(f"{kind}-{likelihood}-{supervised}-{name}".encode())  # fixed, and another for every test
    check_against_exact(make_engine, data, Model(kind, likelihood, hyper), n_draws, seed)


@pytest.mark.parametrize(
    ("engine", "kind", "likelihood", "supervised", "name"),
    COMBINATIONS,
    ids=["-".join([e, k, lik, "supervised" if s else "unsupervised", n]) for e, k, lik, s, n in COMBINATIONS],
)
def test_means_are_those_of_the_exact_posterior(engine, kind, likelihood, supervised, name):
    make_engine, _, n_draws = ENGINES[engine]
    check(make_engine, kind, likelihood, supervised, name, n_draws)


SELDOM = [(make, kind) for make in (by_logarithms, Tight) for kind in KINDS]


@pytest.mark.parametrize("name", ["crowd", "exclude_self", "missing"])
@pytest.mark.parametrize(("make_engine", "kind"), SELDOM)
def test_paths_that_are_seldom_taken(make_engine, kind, name):
    check(make_engine, kind, "exact", True, name, n_draws=2000)


def test_every_problem_is_put_to_the_oracle():
    assert {name for names in PAPER_PROBLEMS.values() for name in names} == set(PROBLEMS)


def test_all_problems_are_worth_solving():
    for name, problem in PROBLEMS.items():
        data, hyper = problem()
        for kind in KINDS:
            z = enumerate_posterior(data, Model(kind, "exact", hyper)).z[may_be_neighbors(data)]
            assert np.all((z > 0.05) & (z < 0.95)), (name, kind)
            assert np.abs(z - hyper.alpha).max() > 0.05, (name, kind)
