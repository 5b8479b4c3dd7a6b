"""What the system says there is: memory that a process may take."""

from __future__ import annotations

from bayespatch.available_memory import available_memory


def system(root, meminfo=None, cgroup=None, **groups):
    """A machine's /proc and /sys, as far as they are read."""
    (root / "proc/self").mkdir(parents=True)
    if meminfo is not None:
        (root / "proc/meminfo").write_text(f"MemTotal:  99 kB\nMemAvailable:   {meminfo} kB\n")
    if cgroup is not None:
        (root / "proc/self/cgroup").write_text(cgroup)
    for place, files in groups.items():
        folder = root / "sys/fs/cgroup" / place.replace("__", "/")
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (folder / name).write_text(text)
    return root


def test_memory_that_is_available(tmp_path):
    assert available_memory(system(tmp_path, meminfo=4000)) == 4_096_000


def test_a_limit_of_a_control_group(tmp_path):
    inner = {"memory.max": "max\n", "memory.current": "500\n", "memory.stat": "anon 3\ninactive_file 20\n"}
    outer = {"memory.max": "10000\n", "memory.current": "7000\n", "memory.stat": "anon 3\ninactive_file 50\n"}
    root = system(tmp_path, meminfo=4000, cgroup="0::/job/step\n", job__step=inner, job=outer)
    assert available_memory(root) == 3050
    (root / "sys/fs/cgroup/job/step/memory.max").write_text("800\n")
    assert available_memory(root) == 320
    (root / "sys/fs/cgroup/job/step/memory.current").write_text("900\n")
    assert available_memory(root) == 0


def test_a_limit_of_a_control_group_of_version_1(tmp_path):
    files = {
        "memory.limit_in_bytes": "9000\n",
        "memory.usage_in_bytes": "1000\n",
        "memory.stat": "cache 1\ntotal_inactive_file 10\n",
    }
    cgroup = "5:cpu,memory:/job\n4:pids:/job\n0::/\n"
    assert available_memory(system(tmp_path, meminfo=4000, cgroup=cgroup, memory__job=files)) == 8010


def test_without_proc_all_memory_that_is_built_in(tmp_path, monkeypatch):
    assert available_memory(tmp_path) > 2**20
    monkeypatch.delattr("os.sysconf")
    assert available_memory(tmp_path) is None


def test_here():
    found = available_memory()
    assert found is None or 2**20 < found < 2**50
