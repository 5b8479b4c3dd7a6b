import numpy as np
import pytest

from study import claims
from study.claims import CLAIMS, FALSE, TRUE, UNDECIDED, Difference
from study.protocol import BALANCED, SETTINGS
from study.tables import Table
from study.tests.tiny import tables_of

FOLDS = range(1, 6)


def scores(name, rows, **levels):
    """A table over five folds, each with a level of its own; `rows` are (columns of the method, accuracy, AUC)."""
    records = []
    for cohort in levels.get("cohorts", ("heart", "breast")):
        level = {fold: 0.02 * fold for fold in FOLDS}
        for k, (columns, accuracy, auc) in enumerate(rows):
            for fold in FOLDS:
                jitter = 0.002 * np.sin(7 * k + 3 * fold)
                records.append(
                    {"cohort": cohort, **columns, "fold": fold}
                    | {"accuracy": accuracy + level[fold] + jitter, "auc": auc + level[fold] + jitter}
                )
    return Table.of_records(name, "", records)


def of_models(accuracies, supervised_gain=0.0):
    rows = [
        (
            dict(setting=setting, model=model, learning=learning),
            accuracy + (supervised_gain if learning == "supervised" else 0.0),
            accuracy,
        )
        for setting in SETTINGS
        for model, accuracy in accuracies.items()
        for learning in ("supervised", "unsupervised")
    ]
    return {f"{c}-folds": scores(f"{c}-folds", rows, cohorts=(c,)) for c in ("heart", "breast")}


def test_a_difference_is_paired():
    level = np.array([0.6, 0.7, 0.8, 0.9])  # folds differ by far more than the methods
    better = Difference.between((level + np.array([0.01, 0.011, 0.009, 0.01])).tolist(), level.tolist())
    assert better.sign == 1
    assert better.mean == pytest.approx(0.01)
    assert Difference.between([0.6, 0.9], [0.7, 0.8]).sign == 0
    with pytest.raises(ValueError, match="cannot be paired"):
        Difference.between([0.5, 0.6], [0.5])


def test_the_limit_is_student_s():
    differences = np.array([0.1, 0.3, 0.2, 0.4, 0.0])
    found = Difference.between(differences.tolist(), [0.0] * 5)
    assert found.error == pytest.approx(differences.std(ddof=1) / np.sqrt(5))
    assert found.limit == pytest.approx(2.776 * found.error, rel=1e-3)


def test_not_worse_allows_for_a_margin():
    assert Difference(-0.01, 0.001, 10).verdict_of_not_worse(0.02) == TRUE
    assert Difference(-0.05, 0.001, 10).verdict_of_not_worse(0.02) == FALSE
    assert Difference(-0.01, 0.05, 10).verdict_of_not_worse(0.02) == UNDECIDED


@pytest.mark.parametrize(
    ("accuracies", "verdict"),
    [
        ({"I": 0.70, "II": 0.75, "III": 0.5}, TRUE),
        ({"I": 0.75, "II": 0.70, "III": 0.5}, FALSE),
        ({"I": 0.7, "II": 0.7, "III": 0.5}, UNDECIDED),
    ],
)
def test_model_two_against_model_one(accuracies, verdict):
    found, evidence = claims.second_better_than_first(of_models(accuracies))
    assert found == verdict
    assert f"{BALANCED}: accuracy" in evidence


def test_supervised_and_model_three():
    tables = of_models({"I": 0.7, "II": 0.7, "III": 0.6}, supervised_gain=0.03)
    assert claims.supervised_better(tables)[0] == TRUE
    assert claims.third_is_bad(tables)[0] == TRUE
    tables = of_models({"I": 0.7, "II": 0.7, "III": 0.8}, supervised_gain=-0.03)
    assert claims.supervised_better(tables)[0] == FALSE
    assert claims.third_is_bad(tables)[0] == FALSE


def scan(name, accuracies):
    rows = [(dict(value=v, model=m), a, a) for v, a in accuracies.items() for m in ("I", "II")]
    return {f"sensitivity-{name}": scores("", rows)}


@pytest.mark.parametrize(
    ("check", "name", "true", "false"),
    [
        (claims.more_parents_help, "parents", {20: 0.6, 60: 0.65, 100: 0.7}, {20: 0.7, 60: 0.65, 100: 0.6}),
        (claims.half_half_is_best, "shape", {"(0.5, 0.5)": 0.8, "(1, 1)": 0.7}, {"(0.5, 0.5)": 0.7, "(1, 1)": 0.8}),
        (
            claims.others_do_not_matter,
            "rest",
            {"as in the paper": 0.7, "mu = 4": 0.71},
            {"as in the paper": 0.7, "mu = 4": 0.6},
        ),
    ],
)
def test_sensitivity_claims_can_be_true_and_false(check, name, true, false):
    assert check(scan(name, true))[0] == TRUE
    assert check(scan(name, false))[0] == FALSE


def test_guessing_is_judged_by_the_order_of_cases():
    flat = {0: 0.44, 0.4: 0.7, 1: 0.44}  # the folds' own levels add .06 on average
    assert claims.extremes_are_guesses(scan("alpha", flat))[0] == TRUE
    assert claims.extremes_are_guesses(scan("alpha", {0: 0.44, 0.4: 0.7, 1: 0.6}))[0] == "partly true"


def test_ratios_of_time():
    def table(ours):
        rows = [("S", 20, 20, 13, m, t) for m, t in {"BCM": 1.0, **ours}.items()]
        return {"time": Table("time", "", ("varied", "value", "S", "P", "method", "ms per sweep"), rows)}

    names = ("Model I", "Model II", "Model III")
    assert claims.slower_than_case_model(table(dict.fromkeys(names, 2.0)))[0] == TRUE
    assert claims.slower_than_case_model(table(dict.fromkeys(names, 0.5)))[0] == FALSE
    verdict, evidence = claims.slower_than_case_model(table(dict(zip(names, (0.5, 2.0, 3.0), strict=True))))
    assert verdict == "partly true"
    assert "Model II / BCM: 2.0 (S=20)" in evidence


def readmission(rivals):
    methods = {f"Model II ({BALANCED})": 0.65, **rivals}
    rows = [(dict(method=method), accuracy, accuracy) for method, accuracy in methods.items()]
    return {"readmission-folds": scores("readmission-folds", rows, cohorts=("readmission-1", "readmission-2"))}


def test_a_place_in_the_middle_is_one_that_chance_does_not_explain():
    assert claims.in_the_middle(readmission({"SVM": 0.7, "KNN (5)": 0.8, "tree": 0.6}))[0] == TRUE
    assert claims.in_the_middle(readmission({"SVM": 0.5, "KNN (5)": 0.4, "tree": 0.6}))[0] == FALSE
    assert claims.in_the_middle(readmission({"SVM": 0.6501, "KNN (5)": 0.6499, "tree": 0.65}))[0] == UNDECIDED


def test_one_of_many_differences_may_be_large_by_chance():
    found = Difference(0.05, 0.02, 10)  # t = 2.5, p = .034
    assert (found.sign, found.sign_among(2), Difference(-0.1, 0.02, 10).sign_among(20)) == (1, 0, -1)
    assert (Difference(0.0, 0.0, 5).sign, Difference(0.1, 0.0, 5).sign) == (0, 1)


def test_every_claim_is_checked_on_tables_that_parts_make():
    tables = {}
    for part in ("heart", "breast", "others", "ranked-features", "knn", "trees", "time"):
        tables |= tables_of(part)
    for name in ("parents", "alpha", "shape", "rest"):
        tables |= tables_of(f"sensitivity-{name}")
    tables |= readmission({"KNN (5)": 0.6, "SVM": 0.7, "logistic regression": 0.8})
    again = {name: Table.from_csv(name, table.to_csv()) for name, table in tables.items()}  # as the page reads them
    for claim in CLAIMS:
        verdict, evidence = claim.check({name: again[name] for name in claim.needs})
        assert verdict in (TRUE, FALSE, UNDECIDED, "partly true")
        assert evidence
