"""Cases on Dask workers: the draws of the CPU engine, whoever holds the cases and whatever becomes of them."""

import _thread
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from bayespatch import PatchworkClassifier, sample
from bayespatch.engine import dask as engine_dask
from bayespatch.engine.blocks import N_BLOCKS, block_edges, log_ratio_blocks, sum_blocks, sum_of_blocks
from bayespatch.engine.cpu import CpuEngine
from bayespatch.engine.dask import DaskEngine, Packed, shards_of
from bayespatch.model import KINDS, Hyperparameters, Model
from bayespatch.predict import predict_cases
from tests.interruption import ctrl_c_interrupts  # noqa: F401  (a fixture)
from tests.problems import random_data

distributed = pytest.importorskip("distributed")

HYPER = Hyperparameters(alpha=0.2)
DATA = random_data(5, 90, 12, 5, itself=True)


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as workers:
        yield workers


@pytest.fixture
def engine_of(cluster):
    """An engine for one chain; closed at the end."""
    made = []

    def make(kind="I", n_shards=None, data=DATA):
        model = Model(kind=kind, hyper=HYPER)
        made.extend(DaskEngine.for_chains(1, data, model, 1, cluster.scheduler_address, n_shards))
        return made[-1]

    yield make
    for engine in made:
        engine.close()


def drawn(engine, n_sweeps=3, state=None, meanwhile=None):
    """What is observed after each of a few sweeps, and the neighbors added up."""
    state = engine.start(7, 1) if state is None else state
    (n_cases, n_features), n_parents = engine.data.x.shape, len(engine.data.x_parents)
    z_sum, w_sum = np.zeros((n_cases, n_parents), np.float32), np.zeros((n_cases, n_parents, n_features), np.float32)
    seen = []
    for sweep in range(n_sweeps):
        engine.sweep(state, adapt=sweep < 2)
        if meanwhile is not None:
            meanwhile(sweep)
        seen.extend(engine.observe(state))
        engine.add_neighbors(state, z_sum, w_sum)
    return [*seen, z_sum, w_sum]


def assert_equal(one, two):
    for first, second in zip(one, two, strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("kind", KINDS)
def test_the_draws_of_the_cpu_on_any_number_of_shards(engine_of, kind):
    expected = drawn(CpuEngine(DATA, Model(kind=kind, hyper=HYPER), 1))
    assert_equal(drawn(CpuEngine(DATA, Model(kind=kind, hyper=HYPER), 2)), expected)
    for n_shards in (1, 2, 5):
        assert_equal(drawn(engine_of(kind, n_shards)), expected)


def test_more_shards_than_blocks(engine_of):
    engine = engine_of("I", n_shards=N_BLOCKS + 40)
    assert len(engine.spread.shards) == N_BLOCKS


def test_given_q(engine_of):
    q = np.linspace(0.2, 0.8, 5)
    cpu, dask = CpuEngine(DATA, Model(hyper=HYPER)), engine_of()
    states = cpu.start(3, 0), dask.start(3, 0)
    for engine, state in zip((cpu, dask), states, strict=True):
        engine.sweep_given_q(state, q)
        engine.sweep_given_q(state, q[::-1])
    assert_equal(cpu.observe(states[0]), dask.observe(states[1]))


@pytest.mark.parametrize("kind", ["I", "III"])
def test_a_frozen_chain_goes_on_here_and_on_the_cpu(engine_of, kind):
    cpu, dask = CpuEngine(DATA, Model(kind=kind, hyper=HYPER)), engine_of(kind)
    state = dask.start(7, 1)
    dask.sweep(state, adapt=True)
    frozen = {name: array.copy() for name, array in dask.freeze(state).items()}
    later = drawn(dask, 2, state)
    for engine in (dask, cpu):
        again = {name: array.copy() for name, array in frozen.items()}
        assert_equal(drawn(engine, 2, engine.thaw(again, 7, 1)), later)
    with pytest.raises(ValueError, match="the state is of chain 1 with seed 7"):
        dask.thaw(frozen, 7, 2)


@pytest.mark.parametrize("kind", ["I", "II"])
def test_a_shard_that_is_lost_is_rebuilt(engine_of, cluster, kind):
    """Once from the beginning of the chain, in the middle of sweeps from there on, and from snapshots."""
    expected = drawn(CpuEngine(DATA, Model(kind=kind, hyper=HYPER)))
    engine = engine_of(kind)

    def forget(sweep):
        worker = list(cluster.workers.values())[sweep % 3]
        for key in [key for key in worker.bayespatch if key != "lock"]:
            del worker.bayespatch[key]

    assert_equal(drawn(engine, meanwhile=forget), expected)
    assert engine.spread.n_replaced >= 3


def test_a_worker_that_leaves_for_good(monkeypatch):
    """Its shard moves in with another, in mid-sweep."""
    monkeypatch.setattr(engine_dask, "POLL_SECONDS", 0.2)
    monkeypatch.setattr(engine_dask, "REPLACEMENT_SECONDS", 0.5)
    expected = drawn(CpuEngine(DATA, Model(hyper=HYPER)))
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as workers:
        (engine,) = DaskEngine.for_chains(1, DATA, Model(hyper=HYPER), 1, workers.scheduler_address)

        def leave(sweep):
            if sweep == 1:
                gone = next(iter(workers.workers.values()))
                workers.sync(gone.close)

        assert_equal(drawn(engine, meanwhile=leave), expected)
        assert len(set(engine.spread.address)) == 1
        assert engine.spread.n_replaced == 1
        engine.close()


def test_errors_on_a_worker_are_raised_here(engine_of):
    engine = engine_of()
    state = engine.start(0, 0)
    with pytest.raises(AttributeError, match="no_such_command"):
        engine._ask(state, "no_such_command")


def test_what_travels_does_not_depend_on_the_number_of_cases(engine_of):
    travelled = []
    for n_cases in (256, 1024):
        engine = engine_of(data=random_data(1, n_cases, 12, 5))
        state = engine.start(0, 0)
        engine.sweep(state)
        before = engine.spread.bytes_sent, engine.spread.bytes_received
        engine.sweep(state)
        # Of commands, what is accepted varies: a number per feature.
        sent = engine.spread.bytes_sent - before[0]
        travelled.append((sent // 1000, engine.spread.bytes_received - before[1]))
    assert travelled[0] == travelled[1]


def problem(**more):
    arrays = dict(x=DATA.x, y=DATA.y, x_parents=DATA.x_parents, y_parents=DATA.y_parents, n_values=DATA.n_values)
    arrays |= dict(n_classes=2, windows=DATA.windows, missing="ignore", hyper=HYPER, chains=2, draws=4, warmup=3)
    return arrays | more


def quietly(**arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sample(**problem(**arguments))


KEPT = ("q", "q_tilde", "z_mean", "w_mean", "n_neighbors", "log_joint", "votes_mean")


def test_sample(cluster, tmp_path):
    """Also from a checkpoint, and interrupted in between."""
    expected = quietly(keep_w=True, n_threads=1)
    run = dict(engine="dask", scheduler=cluster.scheduler_address, keep_w=True)

    pressed = []

    def interrupt(done, total, phase):
        # At 10 sweeps of two chains one has kept a draw; before, nothing is kept. A second one would end the tests.
        if phase == "sampling" and done >= 10 and not pressed:
            pressed.append(done)
            _thread.interrupt_main()

    short = quietly(**run, checkpoint=tmp_path / "run", checkpoint_every=0, progress=interrupt, draws=400)
    assert short.interrupted
    found = quietly(**run)
    for name in KEPT:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    longer = quietly(**run, checkpoint=tmp_path / "run", draws=short.n_draws + 2)
    np.testing.assert_array_equal(longer.q[:, : short.n_draws], short.q)
    np.testing.assert_array_equal(longer.q, quietly(keep_w=True, draws=short.n_draws + 2).q)


def test_arguments(cluster):
    with pytest.raises(ValueError, match="scheduler='tcp://x:1' is for engine='dask', not 'cpu'"):
        sample(**problem(scheduler="tcp://x:1"))
    with pytest.raises(ValueError, match="scheduler=8786 is not an address"):
        sample(**problem(engine="dask", scheduler=8786))
    with pytest.raises(ConnectionError, match="no Dask scheduler answers at scheduler='nonsense://x'"):
        sample(**problem(engine="dask", scheduler="nonsense://x"))


def test_no_worker(monkeypatch):
    monkeypatch.setattr(engine_dask, "WORKER_SECONDS", 0.1)
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as nobody,
        pytest.raises(RuntimeError, match="has had no worker for 0 seconds; start some with `dask worker"),
    ):
        sample(**problem(engine="dask", scheduler=nobody.scheduler_address))


def test_predictions_on_workers(cluster, monkeypatch):
    posterior = quietly(n_threads=1)
    new = DATA._replace(own_parent=np.full(len(DATA.x), -1))
    expected = predict_cases(posterior, new, detail=True)
    monkeypatch.setattr("bayespatch.predict.sampled.CASES_PER_PART", 17)
    found = predict_cases(posterior, new, detail=True, scheduler=cluster.scheduler_address)
    assert_equal(found[:3], expected[:3])
    assert_equal(found.neighbors, expected.neighbors)


def test_a_classifier(cluster):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (40, 3)).astype(float)
    y = (X[:, 0] > 0).astype(int)
    settings = dict(chains=2, draws=10, warmup=5, random_state=0, second_opinion=None, missing="ignore", n_jobs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = PatchworkClassifier(engine="cpu", **settings).fit(X, y)
        found = PatchworkClassifier(engine="dask", scheduler=cluster.scheduler_address, **settings).fit(X, y)
        np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))


def test_blocks():
    edges = block_edges(1000)
    assert edges[0] == 0
    assert edges[-1] == 1000
    assert (np.diff(edges) >= 0).all()
    values = np.random.default_rng(0).normal(size=(1000, 3))
    whole = sum_blocks(values, edges)
    parts = [
        sum_blocks(values[shard.first : shard.first + shard.edges[-1]], shard.edges)
        for shard in shards_of(1000, [2, 1, 4])
    ]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    np.testing.assert_allclose(sum_of_blocks(whole), values.sum(axis=0), rtol=1e-12)


@pytest.mark.parametrize("kind", ["I", "III"])
def test_packing(kind):
    engine = CpuEngine(DATA, Model(kind=kind, hyper=HYPER))
    state = engine.start(0, 0)
    engine.sweep(state)
    before = engine.latent(state)
    packed = Packed.of(state.neighbors, kind == "III")
    state.neighbors = packed.unpacked(engine.start(0, 0).neighbors)
    assert_equal(engine.latent(state), before)


def killed(part):
    raise distributed.KilledWorker(part, SimpleNamespace(address="tcp://10.0.0.2:1"), 3)


def test_workers_that_die_over_a_part(cluster):
    """As Dask says it after three attempts."""
    with pytest.raises(ConnectionError, match="cut the table into smaller parts"):
        engine_dask.computed(killed, [("a.parquet",)], cluster.scheduler_address)


def test_collections_of_an_active_client_are_computed_by_it(cluster):
    delayed = pytest.importorskip("dask").delayed
    with distributed.Client(cluster) as client:
        held = client.persist(delayed(sum)([1, 2]))
        assert engine_dask.computed(pow, [(held, 2), (2, held)], cluster.scheduler_address) == [9, 8]
        assert engine_dask.computed(pow, [(held, 2)], None) == [9]
    assert engine_dask.computed(pow, [(2,), (3,)], cluster.scheduler_address, shared=5) == [25, 125]


def test_a_worker_of_another_version_is_given_no_part(cluster, monkeypatch):
    here = engine_dask._check_version
    monkeypatch.setattr(engine_dask, "_check_version", lambda stamp: here("of other sources"))
    with pytest.raises(ValueError, match="another version of bayespatch's engines"):
        engine_dask.computed(pow, [(2, 2)], cluster.scheduler_address)
    with pytest.raises(ValueError, match="another version of bayespatch's engines"):
        list(engine_dask.over_workers(max, 1, [2], cluster.scheduler_address))


def test_without_dask(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask.delayed", None)
    with pytest.raises(ImportError, match=r"pip install \"bayespatch\[dask\]"):
        engine_dask.computed(pow, [(2, 2)], None)


@pytest.mark.parametrize("n_cases", [3, 700, 20_000])
def test_log_ratios_are_sums_of_logarithms_also_of_the_most_extreme(n_cases):
    rng = np.random.default_rng(n_cases)
    before, after = 10.0 ** -rng.uniform(0.0, 19.0, (2, n_cases, 3))
    before[:, 0], after[:, 0] = 1e-19, 1.0  # all one way
    edges = block_edges(n_cases)
    expected = sum_blocks(np.log(after) - np.log(before), edges)
    np.testing.assert_allclose(log_ratio_blocks(after, before, edges), expected, rtol=1e-11, atol=1e-10)
