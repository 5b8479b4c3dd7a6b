import time

import numpy as np
import pandas as pd
import pytest

from bayespatch import datasets
from bayespatch.duplicates import duplicate_groups, duplicates_text
from bayespatch.encode import Schema
from bayespatch.source.columns import notice, repeated_rows


def visits(noise, n_columns=8, seed=0, patients=120, each=4):
    """Several nearly identical rows of each patient, a yes/no among them, in a random order; and whose they are."""
    rng = np.random.default_rng(seed)
    x = np.repeat(rng.normal(size=(patients, n_columns)), each, axis=0)
    x += rng.normal(0.0, 1.0, x.shape) * noise
    x[:, 0] = np.repeat(rng.integers(0, 2, patients), each)
    order = rng.permutation(len(x))
    return x[order], np.repeat(np.arange(patients), each)[order], np.arange(n_columns) > 0


@pytest.mark.parametrize("noise", [0.0, 0.002, 0.01])
@pytest.mark.parametrize("n_columns", [4, 8, 20])
def test_nearly_identical_rows_of_one_patient_are_found(noise, n_columns):
    x, patient, is_number = visits(noise, n_columns)
    groups = duplicate_groups(x, is_number)
    assert sum(len(group) - 1 for group in groups) > 0.98 * 360
    shared = [len(set(patient[group])) == 1 for group in groups]
    assert np.mean(shared) > 0.95
    # A random outcome among the columns does not hide them.
    outcome = np.random.default_rng(1).integers(0, 2, len(x))
    assert len(duplicate_groups(np.column_stack([x, outcome]), np.append(is_number, False))) > 100


@pytest.mark.parametrize(("noise", "n_columns"), [(0.05, 5), (0.05, 8), (0.07, 8)])
def test_visits_that_differ_more_are_found_with_those_that_hardly_differ(noise, n_columns):
    """Few visits differ by less than the smallest tolerance in every column, but these show that there are visits."""
    x, patient, is_number = visits(noise, n_columns)
    groups = duplicate_groups(x, is_number)
    assert sum(len(group) - 1 for group in groups) > 0.95 * 360
    assert np.mean([len(set(patient[group])) == 1 for group in groups]) > 0.95


def test_missing_values_match_missing_values_alone():
    x, _, is_number = visits(0.0, patients=40, each=1)
    gaps = x.copy()
    gaps[:, 3] = np.nan
    assert len(duplicate_groups(np.concatenate([gaps, gaps]), is_number)) == 40
    assert duplicate_groups(np.concatenate([x, gaps]), is_number) == ()


@pytest.mark.parametrize(("n_columns", "share"), [(3, 0.5), (3, 0.05), (6, 0.5), (10, 0.1), (15, 0.3), (20, 0.05)])
@pytest.mark.parametrize("seed", range(5))
def test_equal_rows_by_chance_are_not_flagged(n_columns, share, seed):
    rng = np.random.default_rng(seed)
    x = (rng.random((300, n_columns)) < share).astype(float)
    assert duplicate_groups(x, np.full(n_columns, False)) == ()


@pytest.mark.parametrize("n_columns", [5, 10, 20])
@pytest.mark.parametrize("seed", range(5))
def test_equal_rows_of_columns_that_depend_on_each_other_are_not_flagged(n_columns, seed):
    rng = np.random.default_rng(seed)
    chances = rng.uniform(0.05, 0.95, (3, n_columns))  # three kinds of patients
    x = (rng.random((400, n_columns)) < chances[rng.integers(0, 3, 400)]).astype(float)
    x = np.column_stack([x, x[:, 0], rng.integers(0, 5, 400)])  # with a copy of a column
    assert duplicate_groups(x, np.full(n_columns + 2, False)) == ()


@pytest.mark.parametrize("load", [datasets.load_heart, datasets.load_breast])
def test_real_tables_are_silent_until_they_are_appended_to_themselves(load):
    X, _ = load()
    assert repeated_rows(X) == ()
    twice = pd.concat([X, X], ignore_index=True)
    assert sum(len(group) for group in repeated_rows(twice)) == len(twice)
    for windows in (None, "10%", 0.5):
        schema = Schema.learn(twice, windows=windows)
        assert sum(len(group) for group in schema.duplicates(schema.encode(twice))) == len(twice)
        schema = Schema.learn(X, windows=windows)
        assert schema.duplicates(schema.encode(X)) == ()


def test_a_table_of_few_combinations_appended_to_itself_is_found_by_even_numbers():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3, (400, 4)).astype(float)
    assert duplicate_groups(x, np.full(4, False)) == ()
    assert len(duplicate_groups(np.concatenate([x, x]), np.full(4, False))) == len(np.unique(x, axis=0))


def test_a_single_pair_among_many_numbers_is_found_and_told():
    x, _, is_number = visits(0.0, patients=200, each=1)
    x[150] = x[7]
    groups = duplicate_groups(x, is_number)
    assert [group.tolist() for group in groups] == [[7, 150]]
    assert duplicates_text(groups, 200) == ("1 of 200 rows repeat an earlier row or nearly do (such as rows 7 and 150)")


def test_time_grows_nearly_linearly():
    def seconds(n):
        rng = np.random.default_rng(0)
        x = np.column_stack([rng.normal(size=(n, 5)), rng.integers(0, 4, (n, 5))])
        begun = time.process_time()
        assert duplicate_groups(x, np.arange(10) < 5) == ()
        return time.process_time() - begun

    seconds(2000)
    assert seconds(40_000) < 60 * max(seconds(2000), 0.002)  # quadratic: 400


def test_shapes_are_checked():
    with pytest.raises(ValueError, match=r"\(n, P\)"):
        duplicate_groups(np.zeros((3, 2)), [True])
    assert duplicate_groups(np.zeros((1, 2)), [True, False]) == ()


@pytest.mark.parametrize(
    ("name", "values", "n"),
    [
        ("patient", np.repeat(np.arange(30), 2), 60),
        ("Patient no.", np.arange(60) // 2, 60),
        ("mrn", [f"M{i}" for i in [*range(50), *range(10)]], 20),
        ("patient_age", np.repeat(np.arange(30), 2), 0),
        ("case", np.arange(60) % 2, 0),
        ("age", np.repeat(np.arange(30), 2), 0),
        ("id", np.arange(60), 0),
    ],
)
def test_identifiers_that_repeat(name, values, n):
    assert notice(pd.DataFrame({name: values})).repeated == ({name: n} if n else {})
