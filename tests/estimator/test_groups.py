"""Several rows of one patient: none of them may vote on, or be learned beside, another."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import bayespatch
from bayespatch import PatchworkClassifier, PatchworkRegressor, metrics
from bayespatch.casebase.without import without_case
from bayespatch.duplicates import RepeatedRowsWarning

SMALL = dict(chains=2, draws=24, warmup=5, random_state=0)
N_PATIENTS, N_VISITS = 120, 4


def visits(seed=0, noise=0.002):
    """Nearly identical rows of each patient, whose outcome is a coin: the same at all visits."""
    rng = np.random.default_rng(seed)
    patients = rng.normal(size=(N_PATIENTS, 6))
    X = np.repeat(patients, N_VISITS, axis=0) + rng.normal(0, noise, (N_PATIENTS * N_VISITS, 6))
    return X, np.repeat(rng.integers(0, 2, N_PATIENTS), N_VISITS), np.repeat(np.arange(N_PATIENTS), N_VISITS)


def auc(p, y):
    return metrics.auc(p, y)


def error_of_auc():
    """Standard error of an AUC of 0.5 of so many patients: outcomes are constant within a patient."""
    n = N_PATIENTS / 2
    return np.sqrt((2 * n + 1) / (12 * n * n))


@pytest.mark.parametrize("opinion", ["auto", LogisticRegression()])
def test_random_outcomes_of_repeated_patients_cannot_be_predicted(opinion):
    """Three tables: the mean AUC of leave-one-out probabilities is .5 within four standard errors, for all opinions."""
    found = {"precedents": [], "additive": [], "pool": []}
    for seed in range(3):
        X, y, patient = visits(seed)
        clf = PatchworkClassifier(**SMALL, second_opinion=opinion).fit(X, y, groups=patient)
        for name, p in clf.loo_opinions().items():
            found[name].append(auc(p, y[clf.loo_.rows]))
    for name, values in found.items():
        assert abs(np.mean(values) - 0.5) < 4 * error_of_auc() / np.sqrt(3), name


def test_without_groups_repeats_are_found_and_said():
    X, y, patient = visits()
    with pytest.warns(RepeatedRowsWarning, match="of 480 rows repeat .*groups= in Python, --group COLUMN"):
        clf = PatchworkClassifier(**SMALL).fit(X, y)
    assert abs(auc(clf.loo_probabilities(), y[clf.loo_.rows]) - 0.5) < 4 * error_of_auc()
    agree = (clf.groups_[:, None] == clf.groups_) == (patient[:, None] == patient)
    assert agree.mean() > 0.999


def test_visits_with_errors_of_measurement_are_found_without_groups():
    """A blood pressure and a laboratory value that differ by a few units from visit to visit: in most rows by more than
    the smallest tolerance."""
    rng = np.random.default_rng(0)
    patients = pd.DataFrame({"age": rng.integers(30, 80, N_PATIENTS), "bp": rng.normal(130, 15, N_PATIENTS),
                             "chol": rng.normal(220, 40, N_PATIENTS), "sex": rng.choice(["m", "f"], N_PATIENTS),
                             "smoker": rng.choice(["yes", "no"], N_PATIENTS)})  # fmt: skip
    X = patients.loc[patients.index.repeat(N_VISITS)].reset_index(drop=True)
    X["bp"] = (X["bp"] + rng.normal(0, 1, len(X))).round()
    X["chol"] = (X["chol"] + rng.normal(0, 1.5, len(X))).round()
    y = np.repeat(rng.integers(0, 2, N_PATIENTS), N_VISITS)
    with pytest.warns(RepeatedRowsWarning):
        clf = PatchworkClassifier(**SMALL).fit(X, y)
    for p in clf.loo_opinions().values():
        assert auc(p, y[clf.loo_.rows]) < 0.5 + 4 * error_of_auc()


def test_a_table_appended_to_itself():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 4)), rng.integers(0, 2, 80)
    with pytest.warns(RepeatedRowsWarning):
        clf = PatchworkClassifier(**SMALL).fit(np.vstack([X, X]), np.tile(y, 2))
    n = 40
    error = np.sqrt((2 * n + 1) / (12 * n * n))
    assert abs(auc(clf.loo_probabilities(), clf.y_[clf.loo_.rows]) - 0.5) < 4 * error


def test_sampled_votes_cannot_keep_them_apart_and_say_so():
    X, y, patient = visits()
    with pytest.warns(RepeatedRowsWarning, match="leave-one-out scores are too optimistic"):
        PatchworkClassifier(**SMALL, votes="sampled").fit(X[:200], y[:200])
    with pytest.raises(ValueError, match="groups= needs closed-form votes"):
        PatchworkClassifier(**SMALL, votes="sampled").fit(X, y, groups=patient)


def test_nobody_is_explained_by_their_own_other_visit(tmp_path):
    X, y, patient = visits()
    clf = PatchworkClassifier(**SMALL).fit(X, y, groups=patient)
    path = tmp_path / "m.bpatch"
    clf.save(path)
    for model in (clf, bayespatch.load(path)):
        why = model.explain_past(8, known=False, top=30)
        assert not {8, 9, 10, 11} & {neighbor.index for neighbor in why.neighbors}
    gone = without_case(clf, 8)
    assert len(gone.groups_) == len(X) - 1


def test_numbers_of_repeated_patients():
    X, _, patient = visits()
    outcome = np.repeat(np.random.default_rng(5).normal(size=N_PATIENTS), N_VISITS)
    model = PatchworkRegressor(**SMALL).fit(X, outcome, groups=patient)
    rows = model.loo_.rows
    correlation = np.corrcoef(model.opinion_.loo[rows], outcome[rows])[0, 1]
    assert abs(correlation) < 4 / np.sqrt(N_PATIENTS)


def test_a_table_without_repeats_is_quiet():
    X, y = bayespatch.datasets.load_heart()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RepeatedRowsWarning)
        clf = PatchworkClassifier(**SMALL).fit(X.iloc[:120], y.iloc[:120])
    assert clf.groups_ is None


def test_rows_that_may_not_vote_still_have_a_group():
    """A row outside of the parents is left out together with the parents of its group."""
    X, y, patient = visits()
    voters = np.arange(0, len(X), 2)
    clf = PatchworkClassifier(**SMALL, parents=voters).fit(X, y, groups=patient)
    assert abs(auc(clf.loo_probabilities(), y[clf.loo_.rows]) - 0.5) < 4 * error_of_auc()


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([1, 2], r"groups has shape \(2,\), but there are 480 rows"),
        ([None] + ["a"] * 479, "groups has no value in row 0"),
        (["a"] * 480, "only one group"),
    ],
)
def test_groups_that_cannot_be(groups, message):
    X, y, _ = visits()
    with pytest.raises(ValueError, match=message):
        PatchworkClassifier(**SMALL).fit(X, y, groups=groups)
