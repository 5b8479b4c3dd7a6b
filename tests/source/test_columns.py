import numpy as np
import pandas as pd
import pytest

from bayespatch.source.columns import notice

N = 60
RNG = np.random.default_rng(0)
Y = pd.Series(np.where(np.arange(N) % 3 == 0, "sick", "well"))


def found(**columns):
    return notice(pd.DataFrame(columns), Y)


@pytest.mark.parametrize(
    ("name", "values", "is_one"),
    [
        ("patient_id", RNG.permutation(10**6)[:N], True),
        ("MRN", [f"M{i}" for i in range(N)], True),
        ("anything", range(100, 100 + N), True),
        ("weight", RNG.normal(70, 10, N), False),
        ("cholesterol", RNG.permutation(400)[:N], False),
        ("notes", [f"n{i}" for i in range(N)], False),
        ("patient_age", RNG.integers(20, 90, N), False),
    ],
)
def test_identifiers(name, values, is_one):
    assert (name in found(**{name: values}).identifiers) == is_one


def test_texts_that_nobody_shares_constants_and_copies():
    sex = ["f", "m"] * (N // 2)
    both = found(
        name=[f"n{i}" for i in range(N)], site=["A"] * N, sex=sex, gender=[s == "f" for s in sex], gap=[None] * N
    )
    assert both.unique == ["name"]
    assert both.constant == {"site": "A", "gap": "missing"}
    assert both.copies == {"gender": "sex"}


def test_leaks():
    code = Y.map({"sick": "X9", "well": "Z0"})
    late = np.where(Y == "sick", RNG.normal(10, 1, N), RNG.normal(-10, 1, N))
    noise = RNG.normal(size=N)
    assert sorted(found(code=code, late=late, noise=noise).leaks) == ["code", "late"]
    number = pd.Series(RNG.normal(size=N))
    assert list(notice(pd.DataFrame({"same": 2 * number + 1, "noise": noise}), number).leaks) == ["same"]


def test_a_class_that_nearly_all_have_makes_no_leak():
    y = pd.Series(["well"] * (N - 1) + ["sick"])
    assert notice(pd.DataFrame({"x": ["a"] * (N - 1) + ["b"]}), y).leaks == {}
