"""Work on Dask workers: the results of this process, or an error that says what to do."""

import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from bayespatch import PatchworkClassifier, sample, workers
from bayespatch.model import Hyperparameters
from bayespatch.predict import predict_cases
from tests.problems import random_data

distributed = pytest.importorskip("distributed")

DATA = random_data(5, 90, 12, 5, itself=True)


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _short_runs():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_sampled_votes_on_workers(cluster, monkeypatch):
    arrays = dict(x=DATA.x, y=DATA.y, x_parents=DATA.x_parents, y_parents=DATA.y_parents, n_values=DATA.n_values)
    arrays |= dict(n_classes=2, windows=DATA.windows, missing="ignore", hyper=Hyperparameters(alpha=0.2))
    posterior = sample(**arrays, chains=2, draws=4, warmup=3, n_threads=1)
    new = DATA._replace(own_parent=np.full(len(DATA.x), -1))
    expected = predict_cases(posterior, new, detail=True)
    monkeypatch.setattr("bayespatch.predict.sampled.CASES_PER_PART", 17)
    found = predict_cases(posterior, new, detail=True, scheduler=cluster.scheduler_address)
    for one, other in zip([*found[:3], *found.neighbors], [*expected[:3], *expected.neighbors], strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_classifier_with_workers(cluster):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (40, 3)).astype(float)
    y = (X[:, 0] > 0).astype(int)
    settings = dict(chains=2, draws=10, warmup=5, random_state=0, second_opinion=None, missing="ignore", n_jobs=1)
    expected = PatchworkClassifier(**settings).fit(X, y)
    found = PatchworkClassifier(scheduler=cluster.scheduler_address, **settings).fit(X, y)
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))


def test_addresses():
    with pytest.raises(ValueError, match="scheduler=8786 is not an address"):
        PatchworkClassifier(scheduler=8786).fit([[0], [1]], [0, 1])
    with pytest.raises(ConnectionError, match="no Dask scheduler answers at scheduler='nonsense://x'"):
        workers.computed(pow, [(2, 2)], "nonsense://x")


def killed(part):
    raise distributed.KilledWorker(part, SimpleNamespace(address="tcp://10.0.0.2:1"), 3)


def test_workers_that_die_over_a_part(cluster):
    """As Dask says it after three attempts."""
    with pytest.raises(ConnectionError, match="split the table into smaller parts"):
        workers.computed(killed, [("a.parquet",)], cluster.scheduler_address)


def test_collections_of_an_active_client_are_computed_by_it(cluster):
    delayed = pytest.importorskip("dask").delayed
    with distributed.Client(cluster) as client:
        held = client.persist(delayed(sum)([1, 2]))
        assert workers.computed(pow, [(held, 2), (2, held)], cluster.scheduler_address) == [9, 8]
        assert workers.computed(pow, [(held, 2)], None) == [9]
    assert workers.computed(pow, [(2,), (3,)], cluster.scheduler_address, shared=5) == [25, 125]


def test_a_worker_of_another_version_is_given_no_part(cluster, monkeypatch):
    here = workers._check_version
    monkeypatch.setattr(workers, "_check_version", lambda stamp: here("of other sources"))
    with pytest.raises(ValueError, match="a different version of bayespatch than this process"):
        workers.computed(pow, [(2, 2)], cluster.scheduler_address)
    with pytest.raises(ValueError, match="a different version of bayespatch than this process"):
        list(workers.over_workers(max, 1, [2], cluster.scheduler_address))


def test_without_dask(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask.delayed", None)
    with pytest.raises(ImportError, match=r"pip install \"bayespatch\[dask\]"):
        workers.computed(pow, [(2, 2)], None)
