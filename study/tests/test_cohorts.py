import numpy as np
import pytest

from study import cohorts
from tests.datasets.test_readmission import write as write  # a fixture


def test_sizes_are_those_of_the_paper_where_they_can_be():
    heart, breast = cohorts.heart(), cohorts.breast(seed=0)
    assert heart.X.shape == (297, 13)
    assert breast.X.shape == (162, 9)
    assert breast.y.sum() == 81
    assert not heart.X.isna().any(axis=None)
    assert cohorts.full_heart().X.shape == (303, 13)
    assert cohorts.full_breast().X.shape == (286, 9)


def test_the_balanced_sample_depends_on_the_seed_and_on_nothing_else():
    first, same, other = (cohorts.breast(seed).X.index.tolist() for seed in (1, 1, 2))
    assert first == same
    assert first != other
    assert len(set(first)) == 162


def test_folds_share_nobody_and_are_the_same_for_every_method():
    heart = cohorts.heart()
    folds = heart.folds(5, seed=3)
    everyone = np.concatenate([fold.test for fold in folds])
    np.testing.assert_array_equal(np.sort(everyone), np.arange(297))
    for fold, again in zip(folds, heart.folds(5, seed=3), strict=True):
        assert not set(fold.train) & set(fold.test)
        np.testing.assert_array_equal(fold.test, again.test)
        assert abs(fold.y_test.mean() - heart.y.mean()) < 0.02
    assert len({fold.method_seed for fold in folds}) == 5


@pytest.mark.parametrize("load", [cohorts.full_heart, cohorts.full_breast])
def test_methods_get_complete_numbers_learned_from_training_alone(load):
    fold = load().folds(5, seed=0)[0]
    for train, test in (fold.numbers, fold.codes):
        assert train.shape[1] == test.shape[1]
        assert np.isfinite(train).all()
        assert np.isfinite(test).all()
    assert (fold.codes[0] >= 0).all()
    amounts = fold.numbers[0][:, : (0 if load is cohorts.full_breast else 5)]
    np.testing.assert_allclose(amounts.mean(axis=0), 0.0, atol=1e-12)


def test_a_cohort_can_be_narrowed():
    narrowed = cohorts.heart().only(["sex", "age"])
    assert list(narrowed.X.columns) == ["sex", "age"]
    assert len(narrowed.y) == 297


def test_readmission_samples_are_balanced_and_share_no_patient(write):
    n = 300
    rng = np.random.default_rng(0)
    patients = [str(k) for k in range(200)] + [str(k) for k in range(100)]  # a hundred of them come twice
    first_outcomes = ["<30" if k % 2 else "NO" for k in range(200)]
    path = write(
        encounter_id=[str(k) for k in range(n)],
        patient_nbr=patients,
        age=[f"[{10 * k}-{10 * k + 10})" for k in rng.integers(10, size=n)],
        race=["?" if k in (3, 4) else "Caucasian" for k in range(n)],
        readmitted=first_outcomes + [">30"] * 100,
    )
    one, two = cohorts.readmission(path, seed=0, size=40)
    for sample in (one, two):
        assert sample.X.shape == (40, 19)
        assert sample.y.sum() == 20
        assert sample.n_parents == 60
        assert not sample.X.isna().any(axis=None)
    assert not set(one.X.index) & set(two.X.index)
    with pytest.raises(ValueError, match="size=3 is too small"):
        cohorts.readmission(path, seed=0, size=3)
