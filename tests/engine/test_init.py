from bayespatch.engine import drop_stale_kernels


def test_compiled_kernels_live_as_long_as_all_the_sources(tmp_path):
    (tmp_path / "one.py").write_text("a = 1")
    (tmp_path / "two.py").write_text("b = 2")
    cache = tmp_path / "__pycache__"
    assert drop_stale_kernels(tmp_path)  # of unknown age: none is kept
    compiled = [cache / "one.f-1.py311.1.nbc", cache / "one.f-1.py311.nbi"]
    bytecode = cache / "one.cpython-311.pyc"
    for path in [*compiled, bytecode]:
        path.touch()
    assert not drop_stale_kernels(tmp_path)
    assert all(path.exists() for path in compiled)
    (tmp_path / "two.py").write_text("b = 3")  # `one` may contain code of `two`
    assert drop_stale_kernels(tmp_path)
    assert not any(path.exists() for path in compiled)
    assert bytecode.exists()
    assert not drop_stale_kernels(tmp_path)
    (tmp_path / "three.py").write_text("c = 4")
    assert drop_stale_kernels(tmp_path)
