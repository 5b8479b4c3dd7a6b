import numpy as np
import pytest

from bayespatch.engine import auto
from bayespatch.engine.cuda import layout as cuda_layout
from bayespatch.sampling.sampler import chosen_engine, sample
from tests.problems import random_data

LARGE = (100_000, 1_000, 19)


def test_without_a_gpu_it_is_the_cpu(monkeypatch):
    monkeypatch.setattr(auto, "gpu_is_present", lambda: False)
    assert auto.fastest_engine(*LARGE) == "cpu"


def test_a_gpu_is_taken_where_it_pays_and_the_problem_fits(monkeypatch):
    monkeypatch.setattr(auto, "gpu_is_present", lambda: True)
    monkeypatch.setattr(cuda_layout, "free_bytes", lambda: 1e11)
    assert auto.fastest_engine(*LARGE) == "cuda"
    assert auto.fastest_engine(300, 80, 13) == "cpu"
    monkeypatch.setattr(cuda_layout, "free_bytes", lambda: 1e8)
    assert auto.fastest_engine(*LARGE) == "cpu"


def test_a_driver_that_fails_is_no_gpu(monkeypatch):
    monkeypatch.setattr(auto, "find_spec", lambda name: name)
    monkeypatch.setattr(cuda_layout.cuda, "is_available", lambda: True)
    assert auto.gpu_is_present()
    monkeypatch.setattr(cuda_layout.cuda, "is_available", lambda: 1 / 0)
    assert not auto.gpu_is_present()


def test_the_name_is_resolved_before_the_run():
    assert chosen_engine("auto", random_data(0, 3, 4, 2)) == "cpu"
    assert chosen_engine("paper", random_data(0, 3, 4, 2)) == "paper"
    with pytest.raises(ValueError, match="engine"):
        chosen_engine("gpu", random_data(0, 3, 4, 2))
    posterior = sample([[0]], [0], [[0]], [0], n_values=[2], n_classes=2, engine="auto", draws=20, warmup=5)
    assert posterior.settings.engine == "cpu"
    assert np.isfinite(posterior.q).all()
