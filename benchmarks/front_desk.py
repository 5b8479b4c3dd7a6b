"""Large tables at default settings: how long a fit takes, how much memory, and what was said before it began.

Tables are simulated: numbers, codes and gaps, an outcome that depends on a few columns, one of them not in line and two
together. Each fit runs in a fresh process. The machine may be busy with other things, so processor time stands beside
wall-clock time.

    python benchmarks/front_desk.py                     # the ten sizes
    python benchmarks/front_desk.py 50000 10            # one of them
    python benchmarks/front_desk.py 50000 10 --random   # with 1,000 parents at random, for comparison
    python benchmarks/front_desk.py --said              # only what is said before the work begins
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import threading
import time
import warnings
from contextlib import suppress

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


class SaidEnoughError(Exception):
    """Ends a fit when it has said what it will take."""


class Peak:
    """The largest `resident` while it runs, looked at twenty times a second."""

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


def fitted_here(n: int, p: int, m: int, random: bool, only_said: bool) -> dict[str, object]:
    """In a process of its own: one fit, and what it said about new cases."""
    from bayespatch.workload import Work
    from sklearn.metrics import log_loss

    import bayespatch.estimator.base as base
    from bayespatch import PatchworkClassifier

    warnings.simplefilter("ignore")
    announced: list[Work] = []
    estimated = base.estimate_work

    def estimate(**sizes: object) -> Work:
        announced.append(estimated(**sizes))
        return announced[-1]

    phases: dict[str, list[float]] = {}

    def tell(done: int, total: int, phase: str) -> None:
        now = time.perf_counter(), time.process_time()
        begun = phases.setdefault(phase, [*now, *now])
        begun[2:] = now

    x, y = table(200, p, m, 9)
    PatchworkClassifier(random_state=0, draws=10, warmup=5).fit(x, y)  # loads and compiles
    x, y = table(n, p, m, 0)
    clf = PatchworkClassifier(random_state=0, progress=tell)
    if random:
        clf.set_params(parents="random", n_parents=1000)
    base.estimate_work = estimate
    original = base.Patchwork._announce

    def announce(self: object, *args: object) -> None:
        self.progress = True
        base.announce = lambda *_: None
        original(self, *args)
        self.progress = tell
        if only_said:
            raise SaidEnoughError

    base.Patchwork._announce = announce
    if only_said:
        with suppress(SaidEnoughError):
            clf.fit(x, y)
        return {"n": n, "p": p, "m": m, "said": announced[0].total, "MB said": announced[0].n_bytes / 1e6}
    before = resident()
    with Peak() as peak:
        wall, cpu = time.perf_counter(), time.process_time()
        clf.fit(x, y)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    x_new, y_new = table(N_TEST, p, m, 1)
    probabilities = clf.predict_proba(x_new)
    (work,) = announced
    return {
        "n": n,
        "p": p,
        "m": m,
        "parents": len(clf.parents_),
        "cases": len(clf.cases_),
        "way": max((t for t in clf.tuning_.trials if "parents" in t.coding), key=lambda t: t.evidence, default=["all"])[
            0
        ],
        "wall": wall,
        "cpu": cpu,
        "said": work.total,
        "phases said": work.seconds,
        "phases": {name: [t[2] - t[0], t[3] - t[1]] for name, t in phases.items()},
        "steps": int(clf.posterior_.steps.shape[1]),
        "MB": peak.most - before,
        "MB said": work.n_bytes / 1e6,
        "log loss": float(log_loss(y_new, probabilities, labels=np.arange(m))),
    }


def fitted_apart(*size: int, flags: list[str]) -> dict[str, object]:
    """`fitted_here`, in a fresh process."""
    command = [sys.executable, __file__, "--child", *map(str, size), *flags]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """A table, a row for each size."""
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()]
    flags = [flag for flag in ("--random", "--said") if flag in sys.argv]
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(fitted_here(*numbers, random="--random" in flags, only_said="--said" in flags)))
        return
    sizes = [tuple(numbers) if len(numbers) == 3 else (*numbers, 2)] if numbers else SIZES
    if "--said" in flags:
        for size in sizes:
            f = fitted_apart(*size, flags=flags)
            print(f"{f['n']:,} x {f['p']}, {f['m']} classes: {f['said']:.0f} s, {f['MB said']:.0f} MB", flush=True)
        return
    print("| rows | columns | classes | parents | chosen | s, said | s, wall | s, CPU | MB, said | MB | log loss |")
    print("| ---: " * 4 + "| --- |" + " ---: |" * 6)
    for size in sizes:
        f = fitted_apart(*size, flags=flags)
        print(
            f"| {f['n']:,} | {f['p']} | {f['m']} | {f['parents']:,} | {f['way']} | {f['said']:.0f} | {f['wall']:.0f} | "
            f"{f['cpu']:.0f} | {f['MB said']:.0f} | {f['MB']:.0f} | {f['log loss']:.4f} |",
            flush=True,
        )
        print(json.dumps(f), file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
