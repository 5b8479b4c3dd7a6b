"""Ten thousand damaged model files, from three models: each must be refused with our error."""

import time

import numpy as np
import pytest

from bayespatch import PatchworkClassifier, load
from bayespatch.persistence.atomic import StorageError
from tests.persistence.damage import by_accident, refused_all
from tests.persistence.fitted import SHORT, X, Y, fit, tiny

N_DAMAGED = 10_000


@pytest.fixture(scope="module")
def models():
    windows = {"chol": 20, "age": "10%"}
    mixed = PatchworkClassifier(model="III", windows=windows, missing="ignore", parents=4, **SHORT)
    paper = PatchworkClassifier.paper("II", n_parents=5, class_weight={"sick": 2.0, "well": 1.0}, **SHORT)
    return {"tiny": tiny(), "mixed": fit(mixed, X, Y), "paper": fit(paper, X, Y)}


@pytest.mark.parametrize("name", ["tiny", "mixed", "paper"])
def test_every_damaged_file_is_refused(models, name, tmp_path):
    models[name].save(tmp_path / "whole")
    blob = (tmp_path / "whole").read_bytes()
    began = time.perf_counter()
    assert refused_all(load, StorageError, tmp_path / "damaged", blob, N_DAMAGED, seed=2) == []
    assert time.perf_counter() - began < 0.05 * N_DAMAGED  # none hangs


def test_every_damaged_file_of_cases_is_refused(models, tmp_path):
    models["mixed"].save(tmp_path / "model", cases_path=tmp_path / "cases")
    blob = (tmp_path / "cases").read_bytes()

    rng = np.random.default_rng(3)
    for _ in range(1000):
        (tmp_path / "damaged").write_bytes(by_accident(rng, blob))
        with pytest.raises(StorageError, match="damaged"):
            load(tmp_path / "model", cases=tmp_path / "damaged")
