"""Who is a parent."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bayespatch.parents import SAMPLED, choose_parents, medoids

Y = np.array([0] * 14 + [1] * 4 + [2] * 2)
X = np.arange(20.0)[:, None] % 7
RNG = np.random.default_rng


def choose(parents, seed=0, x=X, y=Y, **options):
    return choose_parents(parents, x, y, RNG(seed), **options)


def test_all_are_parents_and_cases():
    chosen = choose("all")
    assert chosen.parents.tolist() == chosen.cases.tolist() == list(range(20))


@pytest.mark.parametrize("way", ["random", "balanced", "medoids"])
@pytest.mark.parametrize("n", [1, 7, 19])
def test_some_are_parents_and_the_others_are_cases(way, n):
    chosen = choose(way, n_parents=n)
    assert len(chosen.parents) == n
    assert sorted([*chosen.parents, *chosen.cases]) == list(range(20))
    assert chosen.parents.tolist() == sorted(chosen.parents)
    assert choose(way, n_parents=n).parents.tolist() == chosen.parents.tolist()


def test_the_draw_depends_on_the_seed():
    for way in ("random", "balanced"):
        assert len({tuple(choose(way, seed, n_parents=7).parents) for seed in range(10)}) > 5


def test_a_number_alone_is_drawn_at_random():
    assert choose(7).parents.tolist() == choose("random", n_parents=7).parents.tolist()
    assert len(choose("random", n_parents=0.33).parents) == 7


def test_every_row_is_drawn_equally_often():
    counts = np.zeros(20)
    for seed in range(500):
        counts[choose("random", seed, n_parents=5).parents] += 1
    assert np.all(np.abs(counts - 125) < 5 * np.sqrt(500 * 0.25 * 0.75))


@pytest.mark.parametrize(
    ("n", "expected"), [(3, [1, 1, 1]), (6, [2, 2, 2]), (8, [3, 3, 2]), (10, [4, 4, 2]), (15, [9, 4, 2])]
)
def test_balanced_takes_what_there_is_and_fills_up(n, expected):
    assert np.bincount(Y[choose("balanced", n_parents=n).parents], minlength=3).tolist() == expected


def test_balanced_leaves_the_odd_one_to_chance():
    odd = [np.bincount(Y[choose("balanced", seed, n_parents=4).parents], minlength=3).argmax() for seed in range(60)]
    assert set(odd) == {0, 1, 2}


def test_given_rows_and_masks():
    assert choose([5, 2]).parents.tolist() == [2, 5]
    assert choose(np.arange(20) < 3).parents.tolist() == [0, 1, 2]
    assert choose([True] * 2 + [False] * 18).cases.tolist() == list(range(2, 20))


def test_only_cases_with_a_class_can_be_parents():
    y = np.where(np.arange(20) < 15, -1, Y)
    for way in ("random", "balanced", "medoids"):
        chosen = choose(way, y=y, n_parents=5)
        assert chosen.parents.tolist() == [15, 16, 17, 18, 19]
        assert len(chosen.cases) == 15


@pytest.mark.parametrize(
    ("parents", "options", "complaint"),
    [
        ("some", {}, "parents='some' is not valid; choose one of 'all', 'random', 'balanced', 'medoids'"),
        ("random", {}, "parents='random' needs the number of parents; pass n_parents"),
        ("all", {"n_parents": 5}, "n_parents=5 is not used with parents='all'"),
        ([1], {"n_parents": 5}, "n_parents=5 is not used with explicit rows"),
        (5, {"n_parents": 5}, "both set the number of parents"),
        (
            "random",
            {"n_parents": 20},
            r"n_parents=20 is too large or too small for 20 cases.*pass a number from 1 to 19, or parents='all'",
        ),
        (0, {}, "n_parents=0 is too large or too small for 20 cases"),
        ("random", {"n_parents": 1.5}, "n_parents=1.5 is not a share"),
        ("random", {"n_parents": True}, "n_parents=True is not a number"),
        ("random", {"n_parents": "80"}, "n_parents='80' is not a number"),
        (None, {}, "parents=None is not valid"),
        (True, {}, "parents=True is not valid"),
        ([], {}, r"parents=\[\] is not valid"),
        ([[1]], {}, "is not valid"),
        ([0.5], {}, "is not valid"),
        ([20], {}, "parents names row 20, but rows are numbered from 0 to 19"),
        ([-1], {}, "parents names row -1"),
        ([3, 3], {}, "parents names row 3 more than once"),
        ([True, False], {}, "a mask over 2 rows, but the table has 20"),
        ([False] * 20, {}, "without a single True"),
        ([True] * 20, {}, "no case remains for training; pass parents='all'"),
        ([0], {"y": np.full(20, -1)}, "row 0, whose class is not known"),
        ("all", {"y": np.where(Y == 1, -1, Y)}, "needs the class of every case, but 4 are not known"),
        ("random", {"y": np.where(Y == 0, -1, Y), "n_parents": 7}, "6 with a known class"),
    ],
)
def test_what_cannot_be_is_refused(parents, options, complaint):
    with pytest.raises(ValueError, match=complaint):
        choose(parents, **options)


# Medoids


def distances(x, windows, rows):
    agree = np.abs(x[:, None] - x[rows][None]) <= windows
    return (x.shape[1] - agree.sum(axis=2)).min(axis=1)


def clustered(n_rows, n_groups, seed=0):
    rng = RNG(seed)
    prototypes = rng.integers(0, 4, (n_groups, 12))
    noise = rng.random((n_rows, 12)) < 0.1
    x = np.where(noise, rng.integers(0, 4, (n_rows, 12)), prototypes[rng.integers(0, n_groups, n_rows)])
    return x.astype(np.float64)


def test_medoids_find_the_groups():
    x = clustered(600, 6)
    found = medoids(x, np.zeros(12), 6, RNG(0))
    at_random = [distances(x, 0, RNG(s).choice(600, 6, replace=False)).mean() for s in range(20)]
    assert distances(x, 0, found).mean() < 0.6 * np.mean(at_random)


def test_medoids_of_one_group_are_the_best_row_exactly():
    rng = RNG(3)
    x = np.column_stack([rng.integers(0, 3, (80, 3)), rng.normal(size=80)]).astype(float)
    x[rng.random((80, 4)) < 0.1] = np.nan
    windows = np.array([0, 0, 0, 0.5])
    agree = (np.abs(x[:, None] - x[None]) <= windows).sum(axis=(1, 2))
    (found,) = medoids(x, windows, 1, RNG(0))
    assert agree[found] == agree.max()


def test_medoids_of_many_cases_come_from_the_whole_table():
    x = clustered(100_000, 50)
    found = medoids(x, np.zeros(12), 1000, RNG(0))
    assert len(set(found)) == 1000
    assert found.max() > SAMPLED  # from all over the table


def test_medoids_of_a_sample_stand_for_the_whole_table():
    x = clustered(SAMPLED + 2000, 6)
    found = medoids(x, np.zeros(12), 6, RNG(0))
    assert found.tolist() == medoids(x, np.zeros(12), 6, RNG(0)).tolist()
    at_random = np.mean([distances(x, 0, RNG(s).choice(len(x), 6, replace=False)).mean() for s in range(20)])
    assert distances(x, 0, found).mean() < 0.6 * at_random


@given(st.integers(0, 1000), st.integers(1, 30), st.integers(1, 4), st.booleans(), st.data())
def test_medoids_are_distinct_rows_whatever_the_table(seed, n_rows, n_features, missing, data):
    rng = RNG(seed)
    x = rng.integers(0, 2, (n_rows, n_features)).astype(float)  # many copies
    if missing:
        x[rng.random(x.shape) < 0.5] = np.nan
    n = data.draw(st.integers(1, n_rows))
    found = medoids(x, rng.integers(0, 2, n_features).astype(float), n, rng)
    assert len(set(found.tolist())) == n
    assert found.tolist() == sorted(found)
    assert found.min() >= 0
    assert found.max() < n_rows
