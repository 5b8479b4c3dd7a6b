import numpy as np
import pytest

from study.parts import closeness
from study.tests.tiny import TINY, tables_of


def test_weights_are_equal_given_or_those_of_the_first_few():
    weights = np.array([0.1, 0.6, 0.3, 0.2])
    np.testing.assert_array_equal(closeness._chosen(weights, "all, equal"), np.ones(4))
    np.testing.assert_array_equal(closeness._chosen(weights, "all, weighted"), weights)
    np.testing.assert_array_equal(closeness._chosen(weights, "top 3"), [0, 1, 1, 1])


def test_rankings_are_shares_and_ranks():
    table = tables_of("trees")["tree-ranking"]
    for source in ("Model II", "decision tree"):
        shown = table.where(cohort="heart", source=source, fold=1)
        assert sum(shown.column("share")) == pytest.approx(1.0)
        assert sorted(shown.column("rank")) == list(range(1, 14))


def test_equal_weights_do_not_depend_on_where_weights_come_from():
    table = tables_of("trees")["tree-knn"].where(choice="all, equal")
    ours, trees = (table.where(source=source).column("auc") for source in ("Model II", "decision tree"))
    assert ours == trees


def test_five_methods_with_as_many_neighbors():
    table = tables_of("knn")["knn"]
    assert len(table.rows) == 5 * 2 * 2 * TINY.n_folds
    assert set(table.column("neighbors")) == {20, 40}
