import pytest

from bayespatch.cli.files import check_new, write


def test_a_file_that_is_there_is_kept_unless_asked(tmp_path):
    path = tmp_path / "a.csv"
    check_new(False, path, None)
    path.write_text("old")
    with pytest.raises(ValueError, match="already exists; pass --force"):
        check_new(False, path)
    check_new(True, path)
    assert path.read_text() == "old"


def test_places_where_no_file_can_be_are_refused_before_the_work(tmp_path):
    with pytest.raises(ValueError, match="is a folder"):
        check_new(True, tmp_path)
    with pytest.raises(ValueError, match="there is no folder"):
        check_new(False, tmp_path / "none" / "a.csv")


def test_a_file_is_written_whole_and_stdout_ends_with_a_line(tmp_path, capsys):
    write("é", tmp_path / "a.txt")
    write(b"\x89PNG", tmp_path / "a.png")
    assert (tmp_path / "a.txt").read_text(encoding="utf-8") == "é"
    assert (tmp_path / "a.png").read_bytes() == b"\x89PNG"
    assert len(list(tmp_path.iterdir())) == 2
    write("one", None)
    write("two\n", None)
    assert capsys.readouterr().out == "one\ntwo\n"
