"""Tables of growing size at default settings: time, memory and log loss of a fit.

Tables are simulated: numbers, codes and missing values; the outcome depends on a few columns, one of them nonlinearly
and two jointly. Each fit runs in a fresh process. Processor time is stated beside wall-clock time, since the machine
may be busy.

    python benchmarks/front_desk.py              # all sizes
    python benchmarks/front_desk.py 50000 10     # one of them
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import threading
import time
import warnings

import numpy as np

SIZES = (
    (300, 13, 2),
    (1_000, 10, 2),
    (2_000, 30, 2),
    (3_000, 10, 3),
    (5_000, 10, 5),
    (10_000, 40, 2),
    (20_000, 10, 2),
    (50_000, 10, 2),
    (200_000, 10, 3),
    (500_000, 20, 2),
)
N_TEST = 4_000


def table(n: int, p: int, m: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A table and its classes; 3 % of the values are missing."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, p))
    x[:, 1::3] = rng.integers(0, 4, size=x[:, 1::3].shape)
    score = 1.2 * np.sin(2 * x[:, 0]) + 0.8 * (x[:, 1] > 1) * x[:, 2] - 0.5 * x[:, 3]
    noisy = score + rng.logistic(size=n)
    cuts = np.quantile(noisy, np.linspace(0, 1, m + 1)[1:-1]) if m > 2 else [0.0]
    y = np.searchsorted(cuts, noisy)
    x[rng.random(x.shape) < 0.03] = np.nan
    return x, y


def resident() -> float:
    """MB that this process holds now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


class Peak:
    """The largest `resident` while it runs, sampled twenty times a second."""

    def __enter__(self) -> Peak:
        self.most, self.done = resident(), threading.Event()
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def _watch(self) -> None:
        while not self.done.wait(0.05):
            self.most = max(self.most, resident())

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.thread.join()


def fitted_here(n: int, p: int, m: int) -> dict[str, object]:
    """Fit one table in this process and score it on new cases."""
    from sklearn.metrics import log_loss

    from bayespatch import PatchworkClassifier

    warnings.simplefilter("ignore")
    x, y = table(200, p, m, 9)
    PatchworkClassifier(random_state=0).fit(x, y)  # loads and compiles
    x, y = table(n, p, m, 0)
    clf = PatchworkClassifier(random_state=0)
    before = resident()
    with Peak() as peak:
        wall, cpu = time.perf_counter(), time.process_time()
        clf.fit(x, y)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    x_new, y_new = table(N_TEST, p, m, 1)
    began = time.process_time()
    probabilities = clf.predict_proba(x_new)
    return {
        "n": n,
        "p": p,
        "m": m,
        "coding": clf.tuning_.coding,
        "wall": wall,
        "cpu": cpu,
        "predict": time.process_time() - began,
        "MB": peak.most - before,
        "log loss": float(log_loss(y_new, probabilities, labels=np.arange(m))),
    }


def fitted_apart(*size: int) -> dict[str, object]:
    """`fitted_here`, in a fresh process."""
    command = [sys.executable, __file__, "--child", *map(str, size)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print a table, one row for each size."""
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(fitted_here(*numbers)))
        return
    sizes = [tuple(numbers) if len(numbers) == 3 else (*numbers, 2)] if numbers else SIZES
    print("| rows | columns | classes | coding | s, wall | s, CPU | s, CPU, 4,000 predictions | MB | log loss |")
    print("| ---: " * 3 + "| --- |" + " ---: |" * 5)
    for size in sizes:
        f = fitted_apart(*size)
        print(
            f"| {f['n']:,} | {f['p']} | {f['m']} | {f['coding']} | {f['wall']:.0f} | {f['cpu']:.0f} | "
            f"{f['predict']:.0f} | {f['MB']:.0f} | {f['log loss']:.4f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
