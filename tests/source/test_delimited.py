import pytest

from bayespatch.source.delimited import read_delimited
from bayespatch.source.lab_values import LabValueWarning


def table(text, encoding="utf-8", **wishes):
    return read_delimited("t.csv", text.encode(encoding), **wishes)


def test_columns_get_the_type_that_all_their_values_have():
    frame = table("n,real,flag,text\n1,1.5,true,a b\n2,,FALSE,7x\n")
    assert frame["n"].tolist() == [1, 2]
    assert frame["real"].isna().tolist() == [False, True]
    assert frame["flag"].tolist() == [True, False]
    assert frame["text"].tolist() == ["a b", "7x"]


@pytest.mark.parametrize("mark", ["", "NA", "N/A", "NaN", "null", "?", "  "])
def test_marks_of_missing_values(mark):
    frame = table(f"n,text\n{mark},{mark}\n3,b\n")
    assert frame.isna().to_numpy().tolist() == [[True, True], [False, False]]
    assert frame["n"].dtype.kind == "f"


def test_none_is_a_word_like_others():
    assert table("symptom,n\nNone,1\nsome,2\n")["symptom"].tolist() == ["None", "some"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(delimiter):
    text = delimiter.join(["âge", "a b"]) + "\n" + delimiter.join(["61", '"x, y; z"']) + "\n"
    assert table(text * 1).to_dict("list") == {"âge": [61], "a b": ["x, y; z"]}


def test_a_comma_may_be_the_decimal_point():
    with pytest.warns(LabValueWarning, match="1 with a decimal comma"):
        assert table("kg;note\n70,5;a\n80;b\n")["kg"].tolist() == [70.5, 80.0]


def test_columns_named_as_texts_stay_texts():
    frame = table("id,n\n007,1\n008,2\n", texts=["id"])
    assert frame["id"].tolist() == ["007", "008"]
    assert frame["n"].tolist() == [1, 2]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_accents_in_the_usual_encodings(encoding):
    frame = table("prénom,âge\nZoë,61\n", encoding)
    assert list(frame.columns) == ["prénom", "âge"]
    assert frame["prénom"].tolist() == ["Zoë"]


def test_line_ends_blank_lines_and_quotes():
    frame = table('a,b\r\n\r\n1,"two\r\nlines"\r\n2," ""said"" "\r\n,\r\n')
    assert frame["a"].tolist()[:2] == [1, 2]
    assert frame["b"].tolist()[:2] == ["two\r\nlines", '"said"']
    assert frame.isna().all(axis=1).tolist() == [False, False, True]


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "is empty"),
        (b"  \n \n", "is empty"),
        (b"age,sex\n", "column names but no rows"),
        (b"\x00\x01\x02" * 50, "is a binary file"),
        (bytes(range(128, 256)) * 3 + bytes(range(1, 9)) * 40, "is a binary file"),
        (b"\xd0\xcf\x11\xe0rest", "old Excel workbook"),
        (b"age sex out\n61 f 1\n", "if spaces separate the values, pass --delimiter space"),
        (b"SQLite format 3\x00", "pass it as sqlite:///PATH"),
        (b"\x89bayespatch\nrest", "is a bayespatch model"),
        (b"age:sex:out\n61:f:1\n", "single column, 'age:sex:out'; name what separates the values"),
        (b"age,sex\n61,f\n58\n", "line 3 has 1 values, but the first line names 2 columns"),
        (b"age,sex\n61,f\n58,m,1\n", "line 3 has 3 values"),
        (b"age,age\n61,f\n", "more than one column is named 'age'"),
        (b",age\n0,61\n", "column 1 has no name"),
        (b"1,2.5\n3,4\n", "put a line of column names before it"),
        (b'age,sex\n61,"f\n58,m\n', "unclosed quotation mark"),
    ],
)
def test_bad_files_get_one_sentence(data, complaint):
    with pytest.raises(ValueError, match=complaint) as refused:
        read_delimited("t.csv", data)
    assert str(refused.value).startswith("t.csv: ")
    assert "\n" not in str(refused.value)


def test_a_million_columns_are_counted_and_refused():
    names = ",".join(f"c{j}" for j in range(1_000_000))
    with pytest.raises(ValueError, match="1000000 columns, more than 10000"):
        read_delimited("t.csv", f"{names}\n{'1,' * 999_999}1\n".encode())


def test_a_delimiter_is_one_character():
    assert table("a:b\n1:2\n", delimiter=":").to_dict("list") == {"a": [1], "b": [2]}
    assert table("a   b\n1 2 \n3    4\n", delimiter="space").to_dict("list") == {"a": [1, 3], "b": [2, 4]}
    assert table("a\tb\n1\t2\n", delimiter="tab").to_dict("list") == {"a": [1], "b": [2]}
    with pytest.raises(ValueError, match="'::' is not a single character"):
        table("a::b\n1::2\n", delimiter="::")
