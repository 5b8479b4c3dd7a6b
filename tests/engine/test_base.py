"""What an engine's state is as arrays, and how it comes back."""

import pytest

from bayespatch.engine.cpu import CpuEngine
from bayespatch.engine.paper import PaperEngine
from bayespatch.model import Model
from tests.problems import random_data

DATA = random_data(3, 7, 5, 4)
ENGINES = [CpuEngine, PaperEngine]


def chain(engine_class, kind="I", n_sweeps=5):
    engine = engine_class(DATA, Model(kind=kind))
    state = engine.start(11, 2)
    for _ in range(n_sweeps):
        engine.sweep(state, adapt=True)
    return engine, state


def copied(arrays):
    return {name: array.copy() for name, array in arrays.items()}


@pytest.mark.parametrize("engine_class", ENGINES)
def test_all_of_a_state_is_frozen(engine_class):
    """Each field, so that one that is added is not forgotten: a chain that loses it would go on differently."""
    engine, state = chain(engine_class)
    names = {name.partition(".")[0] for name in engine.freeze(state)}
    assert names == set(vars(state))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda good: {"neighbors.parent": good["neighbors.parent"] - 6},
        lambda good: {"neighbors.parent": good["neighbors.parent"] + 5},
        lambda good: {"neighbors.n": good["neighbors.n"] - 7},
        lambda good: {"neighbors.n": good["neighbors.n"] + 7},
        lambda good: {"neighbors.bits": good["neighbors.bits"][:, :1]},
        lambda good: {"neighbors.kappa": good["neighbors.kappa"][:, :1]},
    ],
)
def test_neighbors_that_would_lead_a_kernel_astray(wrong):
    engine, state = chain(CpuEngine, "III")
    good = engine.freeze(state)
    with pytest.raises(ValueError, match="not a list of parents"):
        engine.thaw({**good, **wrong(good)}, 11, 2)
