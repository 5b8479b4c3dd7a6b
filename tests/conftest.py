"""How the tests are shared out among the processes of ``make test``, and what several folders need."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# How long an example takes depends on what else the machine does.
settings.register_profile("any time", deadline=None)
settings.load_profile("any time")

# Folders whose files share what is slow to make: a part of the study, a database server, a fitted model.
TOGETHER = ("tests/casebase/", "tests/cli/", "tests/explain/", "study/tests/", "tests/web/")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With --dist loadfile: a file is run by one process, and so are these folders."""
    from xdist.scheduler import LoadFileScheduling

    config.option.loadscopereorder = False  # folders with few tests may be the slowest: they are not to come last

    class ByFolder(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return next((folder for folder in TOGETHER if nodeid.startswith(folder)), super()._split_scope(nodeid))

    return ByFolder(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session", autouse=True)
def _kernels(request, tmp_path_factory):
    if hasattr(request.config, "workerinput"):  # of several processes
        from tests.kernels import compile_kernels

        compile_kernels(
            tmp_path_factory.getbasetemp().parent, int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
        )


@pytest.fixture
def few_patients(monkeypatch):
    """The heart data have 120 patients: enough to see that what is written about them runs."""
    from bayespatch import datasets

    whole = datasets.load_heart
    monkeypatch.setattr(
        datasets, "load_heart", lambda **how: tuple(p.iloc[-120:].reset_index(drop=True) for p in whole(**how))
    )


@pytest.fixture(scope="module")
def scheduler():
    """The address of two Dask workers in this process."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster:
        yield cluster.scheduler_address
