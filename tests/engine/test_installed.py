import numpy as np
import pytest
from bayespatch_cuda import engine as cuda_engine
from bayespatch_cuda import layout as cuda_layout

from bayespatch.engine import installed
from bayespatch.engine.cpu import CpuEngine
from bayespatch.sampling.sampler import chosen_engine, sample
from tests.problems import random_data

LARGE = (100_000, 1_000, 19)
SMALL = dict(x=[[0]], y=[0], x_parents=[[0]], y_parents=[0], n_values=[2], n_classes=2, draws=20, warmup=5)


def test_without_a_gpu_it_is_the_cpu(monkeypatch):
    monkeypatch.setattr(installed, "gpu_is_present", lambda: False)
    assert installed.fastest_engine(*LARGE) == "cpu"


def test_a_gpu_is_taken_where_it_pays_and_the_problem_fits(monkeypatch):
    monkeypatch.setattr(installed, "gpu_is_present", lambda: True)
    monkeypatch.setattr(cuda_layout, "free_bytes", lambda: 1e11)
    assert installed.fastest_engine(*LARGE) == "cuda"
    assert installed.fastest_engine(300, 80, 13) == "cpu"
    monkeypatch.setattr(cuda_layout, "free_bytes", lambda: 1e8)
    assert installed.fastest_engine(*LARGE) == "cpu"


def test_a_driver_that_fails_is_no_gpu(monkeypatch):
    monkeypatch.setattr(cuda_engine, "find_spec", lambda name: name)
    monkeypatch.setattr(cuda_layout.cuda, "is_available", lambda: True)
    assert installed.gpu_is_present()
    monkeypatch.setattr(cuda_layout.cuda, "is_available", lambda: 1 / 0)
    assert not installed.gpu_is_present()


def test_the_name_is_resolved_before_the_run():
    assert chosen_engine("auto", random_data(0, 3, 4, 2)) == "cpu"
    assert chosen_engine("paper", random_data(0, 3, 4, 2)) == "paper"
    with pytest.raises(ValueError, match="engine"):
        chosen_engine("gpu", random_data(0, 3, 4, 2))
    posterior = sample(**SMALL, engine="auto")
    assert posterior.settings.engine == "cpu"
    assert np.isfinite(posterior.q).all()


def test_a_missing_engine_names_the_install_command(monkeypatch):
    monkeypatch.setattr(installed, "added", lambda group: {})
    for load in (installed.load_engine, installed.load_votes):
        with pytest.raises(ImportError, match="pip install bayespatch-cuda, or pass engine='cpu'"):
            load("cuda")
    with pytest.raises(ImportError, match="pip install bayespatch-cuda"):
        sample(**SMALL, engine="cuda")
    assert not installed.gpu_is_present()


def test_another_package_can_add_an_engine(monkeypatch):
    class Point:
        def load(self):
            return CpuEngine

    monkeypatch.setattr(installed, "added", lambda group: {"abacus": Point()})
    assert sample(**SMALL, engine="abacus").settings.engine == "abacus"
    with pytest.raises(ValueError, match=r"engine='sundial' is not valid; choose one of 'cpu', .*'abacus'"):
        installed.load_engine("sundial")


def test_the_digest_of_an_engine_covers_its_own_package():
    assert installed.digest_of_engine("cpu") == installed.digest_of_engine("paper")
    assert installed.digest_of_engine("cuda").startswith(installed.digest_of_engine("cpu"))
    assert len(installed.digest_of_engine("cuda")) == 128
