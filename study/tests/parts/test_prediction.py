import pytest

from study.metrics import MEASURES
from study.parts import Context, prediction
from study.protocol import SETTINGS
from study.tests.tiny import TINY, tables_of


@pytest.mark.parametrize("cohort", ["heart", "breast"])
def test_models_are_scored_in_all_settings(cohort):
    tables = tables_of(cohort)
    by_fold, summary = tables[f"{cohort}-folds"], tables[f"{cohort}-summary"]
    assert len(by_fold.rows) == 3 * 3 * 2 * TINY.n_folds
    assert len(summary.rows) == 18
    assert set(MEASURES) <= set(summary.columns)
    (row,) = summary.where(setting=SETTINGS[0], model="I", learning="supervised").records()
    mean = by_fold.where(setting=SETTINGS[0], model="I", learning="supervised").column("accuracy")
    assert row["accuracy"] == pytest.approx(sum(mean) / len(mean))
    assert row["paper's accuracy"] == {"heart": 0.8288, "breast": 0.7828}[cohort]
    (third,) = summary.where(setting=SETTINGS[0], model="III", learning="supervised").records()
    assert third["difference"] is None


def test_the_case_model_is_compared_with_the_paper_whatever_classifies_its_mixtures():
    summary = tables_of("others")["heart-others-summary"]
    for classifier in ("logistic regression", "SVM"):
        (row,) = summary.where(method=f"BCM (S=8, alpha=0.01), {classifier}").records()
        assert row["paper's accuracy"] == 0.63
    (unknown,) = summary.where(method="BCM (S=8, alpha=0.1), SVM").records()
    assert unknown["paper's accuracy"] is None


def test_the_printed_likelihood_is_another_one():
    table = tables_of("likelihood")["likelihood-summary"]
    assert len(table.rows) == 2 * 2 * 2
    exact, printed = (table.where(likelihood=name).column("log_loss") for name in ("exact", "as printed"))
    assert exact != printed


def test_longer_chains_are_longer():
    table = tables_of("length")["length-summary"]
    short = TINY.warmup + TINY.draws
    assert table.column("sweeps") == [str(short), str(prediction.LONGER * short)] * 2
    assert len(set(table.column("log_loss"))) == 4


def test_full_sets_keep_everybody():
    tables = tables_of("full")
    assert {"heart-full-summary", "breast-full-summary"} <= set(tables)
    methods = tables["heart-full-summary"].column("method")
    assert sum(method.startswith("Model") for method in methods) == 6


def test_readmission_without_its_table_is_an_error():
    with pytest.raises(ValueError, match="pass its path"):
        prediction.readmission(Context(seed=0, sizes=TINY))
