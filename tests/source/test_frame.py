import pytest

from bayespatch.source.frame import MOST_COLUMNS, check_names, frame_of, refuse


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        ([], "no columns"),
        ([f"c{j}" for j in range(MOST_COLUMNS + 1)], "10001 columns, more than 10000"),
        (["age", ""], "column 2 has no name"),
        (["age", "sex", "age"], "more than one column is named 'age'"),
    ],
)
def test_names_that_are_none_are_refused(names, complaint):
    with pytest.raises(ValueError, match=complaint) as refused:
        check_names("t.csv", names)
    assert str(refused.value).startswith("t.csv: ")


def test_rows_of_a_database_become_a_frame():
    frame = frame_of("db", ["n", "text"], [(1, "a"), (None, None)])
    assert frame["n"].isna().tolist() == [False, True]
    assert frame["text"].tolist()[0] == "a"
    with pytest.raises(ValueError, match="no rows"):
        frame_of("db", ["n"], [])


def test_an_error_names_the_source():
    assert str(refuse("a.csv", "is empty")) == "a.csv: is empty"
