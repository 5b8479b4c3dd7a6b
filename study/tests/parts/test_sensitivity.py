from dataclasses import replace

import pytest

from study.parts import Context, sensitivity
from study.tests.tiny import TINY, tables_of


def test_without_neighbors_every_case_has_the_same_probability():
    table = tables_of("sensitivity-alpha")["sensitivity-alpha"]
    for model in ("I", "II"):
        assert set(table.where(value="0", model=model).column("auc")) == {0.5}
        assert set(table.where(value="0.4", model=model).column("auc")) != {0.5}


def test_all_values_are_scanned_in_the_full_study(monkeypatch):
    seen = []
    monkeypatch.setattr(sensitivity, "evaluate", lambda cohort, methods, *_: (seen.extend(methods), ([], []))[1])
    for scan in (
        sensitivity.number_of_parents,
        sensitivity.number_of_neighbors,
        sensitivity.shape_of_importance,
        sensitivity.other_constants,
    ):
        scan(Context(seed=0, sizes=replace(TINY, scan_all=True)))
    labels = {label for label, _ in seen}
    assert len(labels) == 5 + 5 + 5 + 12
    assert {"20", "100", "0", "0.7", "(0.5, 0.5)", "(5, 2)", "lam0 = 0.01", "sigma2 = 25"} <= labels


@pytest.mark.parametrize("name", ["parents", "shape", "rest"])
def test_the_quick_study_takes_three_values(name):
    table = tables_of(f"sensitivity-{name}")[f"sensitivity-{name}"]
    assert len(set(table.column("value"))) == 3
    assert len(table.rows) == 3 * 2 * 2 * TINY.n_folds
