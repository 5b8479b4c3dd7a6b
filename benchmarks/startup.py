"""The time until the first sweep; kernels are compiled once and cached on disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from statistics import median

from measure import Finding, Row, Say, Section, run_alone

# In a fresh process, everything after the interpreter's own start is on the clock, NumPy too.
CHILD = """
import time
began = time.perf_counter()
import bayespatch
imported = time.perf_counter()
import warnings
warnings.simplefilter("ignore")
import numpy as np
rng = np.random.default_rng(0)
x, y = rng.integers(0, 3, (300, 13)), rng.integers(0, 2, 300)
swept = []
def watch(done, in_all, phase):
    if done > 0 and not swept:
        swept.append(time.perf_counter())
bayespatch.sample(
    x, y, x, y, n_values=[3] * 13, n_classes=2, exclude_self=True, draws=1, warmup=1, model={model!r}, progress=watch
)
import json
print(json.dumps([imported - began, swept[0] - began]))
"""


def start(model: str, cache: str | None) -> tuple[float, float, float]:
    """Seconds for the import, until the first sweep, and for the whole process."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", CHILD.format(model=model)],
        env={**os.environ, "NUMBA_CACHE_DIR": cache} if cache else None,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    imported, swept = json.loads(done.stdout)
    return imported, swept, time.perf_counter() - began


def main(quick: bool, tell: Say) -> Section:
    """First with an empty temporary cache, then with the cache that the first process wrote."""
    section = Section("startup")
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as cache:
        # A quick run has no time to compile, and takes the kernels that are there.
        runs = {} if quick else {"first process (compiles)": [start("I", cache)]}
        for model in ("I", "II", "III"):
            found = None if quick else cache
            runs[f"later process, Model {model}"] = [start(model, found) for _ in range(1 if quick else 5)]
    for what, times in runs.items():
        imported, swept, whole = (median(column) for column in zip(*times, strict=True))
        rows.append(
            {
                "what": what,
                "import bayespatch, s": imported,
                "import to first sweep, s": swept,
                "whole process, s": whole,
            }
        )
        tell(f"    {what}: {swept:.2f} s")
    section.tables["startup"] = rows
    slowest = max(float(row["import to first sweep, s"]) for row in rows[-3:])
    section.findings.append(
        Finding(
            "later process: from `import bayespatch` to the end of the first sweep", slowest, 2, at_most=True, unit=" s"
        )
    )
    return section


if __name__ == "__main__":
    run_alone(main, __doc__)
