"""Compiled kernels live as long as all sources of the engines, and no longer; nothing is deleted."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

from bayespatch.engine import compiling

PROGRAM = "import one; print(one.outer(1)); print(sum(one.outer.stats.cache_hits.values()))"
ONE = """
from bayespatch.engine import compiling
compiling.STAMP = {stamp!r}
import two
@compiling.compiled
def outer(v):
    return two.inner(v)
"""
TWO = """
from bayespatch.engine import compiling
@compiling.inlined
def inner(v):
    return v + {step}
"""


def run(folder, stamp, step):
    (folder / "one.py").write_text(ONE.format(stamp=stamp))
    (folder / "two.py").write_text(TWO.format(step=step))
    os.utime(folder / "one.py", (0, 0))  # as if only the other file had changed
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path]), "NUMBA_CACHE_DIR": ""}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    value, hits = map(int, done.stdout.split())
    return value, hits


def test_a_kernel_is_compiled_anew_when_another_source_changes(tmp_path):
    assert run(tmp_path, "first", 1) == (2, 0)
    assert run(tmp_path, "first", 1) == (2, 1)
    before = set(tmp_path.rglob("*.nb?"))
    assert run(tmp_path, "other", 5) == (6, 0)
    assert before <= set(tmp_path.rglob("*.nb?"))


def test_an_index_that_names_a_class_that_is_gone_is_no_obstacle(tmp_path):
    assert run(tmp_path, "first", 1) == (2, 0)
    (index,) = tmp_path.rglob("one.outer*.nbi")
    whole = index.read_bytes()
    index.write_bytes(
        pickle.dumps(pickle.loads(whole)) + b"cone\nGone\n."
    )  # Numba's version, then a pickled `one.Gone`
    assert run(tmp_path, "first", 1) == (2, 0)
    assert run(tmp_path, "first", 1) == (2, 1)


def test_every_planted_bug_has_its_place():
    """What slow tests will replace stands in the sources, once: whoever changes them finds out here."""
    from tests.statistical.test_planted_bugs_in_kernels import BUGS

    package = Path(compiling.__file__).parents[1]
    paths = [*(package / "engine").rglob("*.py"), *(package / "retrieval").glob("*.py")]
    sources = [path.read_text() for path in paths]
    assert {name for name, bug in BUGS.items() if sum(text.count(bug.old) for text in sources) != 1} == set()
