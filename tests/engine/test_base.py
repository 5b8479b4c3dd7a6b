"""What an engine's state is as arrays, and how it comes back."""

import numpy as np
import pytest

from bayespatch.engine.cpu import CpuEngine
from bayespatch.engine.paper import PaperEngine
from bayespatch.model import KINDS, Model
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
@pytest.mark.parametrize("kind", KINDS)
def test_a_thawed_chain_goes_on_as_the_frozen_one(engine_class, kind):
    engine, state = chain(engine_class, kind)
    other = engine_class(DATA, Model(kind=kind)).thaw(copied(engine.freeze(state)), 11, 2)
    for adapt in (True, True, False, False):
        engine.sweep(state, adapt=adapt)
        engine.sweep(other, adapt=adapt)
        for one, two in zip(engine.observe(state), engine.observe(other), strict=True):
            np.testing.assert_array_equal(one, two)
    frozen, again = engine.freeze(state), engine.freeze(other)
    for name, array in frozen.items():
        np.testing.assert_array_equal(array, again[name])


@pytest.mark.parametrize("engine_class", ENGINES)
def test_all_of_a_state_is_frozen(engine_class):
    """Each field, so that one that is added is not forgotten: a chain that loses it would go on differently."""
    engine, state = chain(engine_class)
    names = {name.partition(".")[0] for name in engine.freeze(state)}
    assert names == set(vars(state))


@pytest.mark.parametrize("engine_class", ENGINES)
def test_what_cannot_be_a_state(engine_class):
    engine, state = chain(engine_class)
    good = engine.freeze(state)
    with pytest.raises(ValueError, match="a state has"):
        engine.thaw({**good, "more": np.zeros(1)}, 11, 2)
    with pytest.raises(ValueError, match="a state has"):
        engine.thaw({name: array for name, array in good.items() if name != "logit_q"}, 11, 2)
    with pytest.raises(ValueError, match=r"logit_q is float64 of shape \(3,\), and should be float64 of \(4,\)"):
        engine.thaw({**good, "logit_q": good["logit_q"][:3]}, 11, 2)
    with pytest.raises(ValueError, match="logit_q is float32"):
        engine.thaw({**good, "logit_q": good["logit_q"].astype(np.float32)}, 11, 2)
    with pytest.raises(ValueError, match="the state is of chain 2 with seed 11"):
        engine.thaw(good, 11, 3)


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
