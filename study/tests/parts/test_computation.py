from study.tests.tiny import tables_of


def test_every_method_is_timed_over_parents_and_features():
    table = tables_of("time")["time"]
    assert len(table.rows) == 4 * (2 + 2)
    assert sorted(set(table.where(varied="P").column("P"))) == [10, 13]
    assert {*table.column("method")} == {"Model I", "Model II", "Model III", "BCM"}
    assert {*table.where(varied="P").column("S")} == {10}
    assert {*table.where(varied="S").column("P")} == {13}
