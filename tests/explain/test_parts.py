from bayespatch.explain import Patch
from tests.explain.fitted import explained


def test_a_value_stands_out_where_it_agrees_and_matters():
    assert Patch("58", True, 0.5).marked
    assert not Patch("58", True, 0.49).marked
    assert not Patch("58", False, 0.9).marked


def test_the_dissenting_ones_are_shown_once():
    why = explained()
    indices = [neighbor.index for neighbor in why.shown]
    assert len(set(indices)) == len(indices)
    assert set(indices) == {neighbor.index for neighbor in (*why.neighbors, *why.dissenting)}
