import os

import pytest

from bayespatch.report.file import check_path, write_page


def test_a_page_is_written_whole(tmp_path):
    path = tmp_path / "page.html"
    write_page(path, "é ☹")
    assert path.read_text(encoding="utf-8") == "é ☹"
    write_page(str(path), "again")
    assert path.read_text() == "again"
    assert os.listdir(tmp_path) == ["page.html"]


def test_what_was_there_stays_where_writing_fails(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("before")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(ValueError, match="No space left"):
        write_page(path, "after")
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["page.html"]


@pytest.mark.parametrize("path", ["", None, 7])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(ValueError, match="is not a path"):
        check_path(path)


def test_folders_are_refused(tmp_path):
    with pytest.raises(ValueError, match="is a folder"):
        check_path(tmp_path)
    with pytest.raises(ValueError, match="there is no folder"):
        check_path(tmp_path / "nowhere" / "page.html")
