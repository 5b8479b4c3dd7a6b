from bayespatch.engine import digest_of_sources


def test_the_digest_changes_with_every_source(tmp_path):
    (tmp_path / "cpu").mkdir()
    (tmp_path / "one.py").write_text("a = 1")
    (tmp_path / "cpu" / "two.py").write_text("b = 2")
    seen = {digest_of_sources(tmp_path)}
    (tmp_path / "cpu" / "two.py").write_text("b = 3")
    seen.add(digest_of_sources(tmp_path))
    (tmp_path / "cpu" / "two.py").rename(tmp_path / "cpu" / "three.py")
    seen.add(digest_of_sources(tmp_path))
    (tmp_path / "four.py").touch()
    seen.add(digest_of_sources(tmp_path))
    assert len(seen) == 4
    (tmp_path / "kernels.nbi").touch()
    assert digest_of_sources(tmp_path) in seen
