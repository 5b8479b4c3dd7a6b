"""The CUDA engine on a real GPU: correctness, speed, and the time for a complete study.

    python benchmarks/gpu.py --parts updates exact speed models end --data FOLDER --out FOLDER

Every speed is a ratio of two measurements from the same run. Results go to ``gpu.json`` in --out (the
variable OUT, or benchmarks/results), where results of other parts from the same GPU are kept. Install the engine first:
``pip install ./cuda``.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
import warnings
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

vars(np)["row_stack"] = np.vstack  # numba-cuda 0.30 asks for it when it first compiles; NumPy 2.5 has dropped it

from numba import cuda  # noqa: E402
from numba.core.errors import NumbaPerformanceWarning  # noqa: E402

warnings.simplefilter("ignore", NumbaPerformanceWarning)  # small grids: the problems that can be enumerated are tiny

from bayespatch_cuda.engine import CudaEngine  # noqa: E402

from bayespatch.engine.cpu import CpuEngine  # noqa: E402
from bayespatch.model import KINDS, Hyperparameters, Model  # noqa: E402
from bayespatch.validation import check_data  # noqa: E402
from benchmarks.problems import simulated_arrays  # noqa: E402

FULL = (101_766, 1_000, 19)  # N, S, P of the readmission file with 1,000 parents
SIZES = [FULL, (10_000, 1_000, 19), (101_766, 200, 19), (101_766, 1_000, 40), (1_000, 1_000, 19)]
N_NEIGHBORS = 5.0  # expected
EXACT = ["crowd", "exclude_self", "missing", "windows", "many_values", "hidden_label", "small_shapes", "rare_influence"]
UPDATED = (6, 70, 34)  # N, S, P: several batches of parents, the last not full, and two words of features
WARM_SECONDS = 1.0  # a GPU that has been idle runs at a fraction of its clock
IN_DETAIL = 600  # held-out cases whose neighbors are asked for
CPU_CASES = 2_000  # on which one core is timed; its time is proportional to the number of cases


def seconds_a_sweep(engine: Any, at_least: float, n_settling: int = 15) -> float:
    """Seconds per sweep of a chain in its stationary phase: the median of five runs on a warm GPU."""
    state = engine.start(0, 0)
    for _ in range(n_settling):
        engine.sweep(state, adapt=True)
    if isinstance(engine, CudaEngine):
        began = time.perf_counter()
        while time.perf_counter() - began < WARM_SECONDS:
            engine.sweep(state)
    runs = []
    for _ in range(5 if at_least > 0 else 1):
        n = 0
        began = time.perf_counter()
        while n == 0 or time.perf_counter() - began < at_least:
            engine.sweep(state)
            n += 1
        if isinstance(engine, CudaEngine):
            state.stream.synchronize()
        runs.append((time.perf_counter() - began) / n)
    return float(np.median(runs))


def arithmetic_limit(n_cases: int, n_parents: int, n_features: int) -> float:
    """Seconds for only two operations (a fused multiply-add and a product) per case, parent and feature."""
    device = cuda.get_current_device()
    lanes = device.MULTIPROCESSOR_COUNT * 128
    return 2.0 * n_cases * n_parents * n_features / (lanes * device.CLOCK_RATE * 1e3)


def problem(n_cases: int, n_parents: int, n_features: int) -> Any:
    return check_data(**simulated_arrays(n_cases, n_parents, n_features))


def model(kind: Any, n_parents: int) -> Model:
    return Model(kind, "exact", Hyperparameters(alpha=N_NEIGHBORS / n_parents))


def speed(kinds: tuple[str, ...] = ("I",), sizes: Any = SIZES) -> list[dict[str, Any]]:
    """Milliseconds per sweep on the GPU and on one core of this machine."""
    rows = []
    for kind in kinds:
        for size in sizes:
            n_cases, n_parents, n_features = size
            data = problem(*size)
            fast = seconds_a_sweep(CudaEngine(data, model(kind, n_parents)), at_least=0.2)
            some = min(n_cases, CPU_CASES)
            part = data._replace(x=data.x[:some], y=data.y[:some], own_parent=data.own_parent[:some])
            slow = seconds_a_sweep(CpuEngine(part, model(kind, n_parents)), at_least=0.0, n_settling=3)
            slow *= n_cases / some
            limit = arithmetic_limit(*size)
            rows.append(
                dict(model=kind, N=n_cases, S=n_parents, P=n_features, gpu_ms=1e3 * fast, core_ms=1e3 * slow,
                     ratio=slow / fast, limit_ms=1e3 * limit, times_limit=fast / limit)
            )  # fmt: skip
            show(rows[-1])
    return rows


def models() -> list[dict[str, Any]]:
    """Models II and III compared with Model I, at full size."""
    rows = []
    data = problem(*FULL)
    for kind in KINDS:
        seconds = seconds_a_sweep(CudaEngine(data, model(kind, FULL[1])), at_least=0.2)
        first = rows[0]["gpu_ms"] if rows else 1e3 * seconds
        rows.append(dict(model=kind, gpu_ms=1e3 * seconds, times_model_i=1e3 * seconds / first))
        show(rows[-1])
    return rows


def updates(n_updates: int = 3) -> list[dict[str, Any]]:
    """Neighbors from the GPU compared with those computed from the definitions with the same random numbers."""
    from tests.cuda.update_at_hand import update
    from tests.problems import random_data

    rows = []
    for kind in KINDS:
        data, began, n_same, n_found = random_data(1, *UPDATED, itself=True), time.perf_counter(), 0, 0
        engine = CudaEngine(data, Model(kind, "exact", Hyperparameters(alpha=0.3)))
        state = engine.start(1, 0)
        for key in np.arange(n_updates, dtype=np.uint64):
            expected = update(data, engine.model, engine.latent(state), engine.observe(state).q_tilde, key)
            engine.update_cases(state, key)
            found = engine.latent(state)
            n_same += int((found.z == expected.z).all() and (found.w == expected.w)[found.z].all())
            n_found += int(found.z.sum())
        verdict = "agrees" if n_same == n_updates else f"differs in {n_updates - n_same} of {n_updates} updates"
        rows.append(dict(model=kind, verdict=verdict, neighbors=n_found, seconds=time.perf_counter() - began))
        show(rows[-1])
    return rows


def exact(n_draws: int) -> list[dict[str, Any]]:
    """Means of z, z*w, q and kappa compared with the enumerated posterior, as in the tests of other engines."""
    from tests.montecarlo import check_against_exact
    from tests.problems import PROBLEMS

    rows = []
    for kind in KINDS:
        for name in EXACT:
            data, hyper = PROBLEMS[name]()
            began, verdict = time.perf_counter(), "agrees"
            try:
                check_against_exact(CudaEngine, data, Model(kind, "exact", hyper), n_draws, seed=1)
            except AssertionError as error:
                verdict = f"differs: {error}"
            rows.append(dict(model=kind, problem=name, verdict=verdict, seconds=time.perf_counter() - began))
            show(rows[-1])
    return rows


def given(n_draws: int) -> list[dict[str, Any]]:
    """Means of z and z*w given q, compared with sums over all settings; the largest difference in errors."""
    from tests.enumeration import enumerate_posterior
    from tests.montecarlo import batch_means
    from tests.problems import PROBLEMS

    rows = []
    for kind in KINDS:
        for name in ("many_values", "missing", "exclude_self"):
            data, hyper = PROBLEMS[name]()
            chosen = Model(kind, "exact", hyper)
            engine, q = CudaEngine(data, chosen), np.linspace(0.25, 0.8, data.x.shape[1])
            truth = enumerate_posterior(data, chosen, q)
            kept: dict[str, list[Any]] = {"z": [], "zw": []}
            for chain in range(4):
                state = engine.start(1, chain)
                draws: dict[str, list[Any]] = {"z": [], "zw": []}
                for sweep in range(100 + n_draws):
                    engine.sweep_given_q(state, q)
                    if sweep >= 100:
                        latent = engine.latent(state)
                        draws["z"].append(latent.z)
                        draws["zw"].append(latent.z[:, :, None] & latent.w)
                for what, part in draws.items():
                    kept[what].append(part)
            off = 0.0
            for what, exactly in (("z", truth.z), ("zw", truth.zw)):
                estimate = batch_means(np.asarray(kept[what], dtype=np.float64))
                varies = estimate.error > 0
                off = max(off, float((np.abs(estimate.mean - exactly)[varies] / estimate.error[varies]).max()))
            rows.append(dict(model=kind, problem=name, errors_off=off))
            show(rows[-1])
    return rows


def end_to_end(folder: Path) -> dict[str, Any]:
    """Load, encode, 4 chains x 500 sweeps, predict 20,000 held-out cases, find the neighbors of some.

    The neighbors are also found on all cores of the machine, which replace one neighbor at a time.
    """
    from sklearn.metrics import log_loss, roc_auc_score

    from bayespatch.datasets.readmission import load_readmission
    from bayespatch.estimator import PatchworkClassifier
    from bayespatch.sampling.posterior import Posterior

    if importlib.util.find_spec("arviz_stats") is None:  # then the run goes without its diagnostics
        Posterior.diagnostics = lambda self: SimpleNamespace(warning=lambda: None)
    marks = [("begin", time.perf_counter())]
    table, outcome = load_readmission(folder / "diabetic_data.csv.gz", discretize="paper")
    marks.append(("load", time.perf_counter()))
    _, patients = np.unique(table.index.get_level_values("patient_nbr").to_numpy(), return_inverse=True)
    order = np.argsort(np.random.default_rng(0).permutation(patients.max() + 1)[patients], kind="stable")
    test, train = order[:20_000], order[20_000:]
    train = train[patients[train] != patients[test[-1]]]  # nobody is in both parts
    classifier = PatchworkClassifier(
        model="I", parents="balanced", n_parents=FULL[1], hyper=model("I", FULL[1]).hyper, engine="cuda", chains=4,
        draws=250, warmup=250, random_state=0,
    )  # fmt: skip
    classifier.fit(table.iloc[train], outcome.iloc[train])
    marks.append(("encode, sample and leave-one-out", time.perf_counter()))
    probabilities = classifier.predict_proba(table.iloc[test])
    marks.append(("predict 20,000", time.perf_counter()))
    seconds = {name: at - before for (_, before), (name, at) in pairwise(marks)}
    truth = outcome.iloc[test].to_numpy()
    found = dict(
        seconds=seconds,
        total_seconds=sum(seconds.values()),
        log_loss=log_loss(truth, probabilities, labels=classifier.classes_),
    )
    some = table.iloc[test[:IN_DETAIL]]
    for engine in ("cuda", "cpu"):
        classifier.engine = engine
        classifier.neighbors(some.iloc[:8])  # compiled
        began = time.perf_counter()
        classifier.neighbors(some)
        found[f"seconds for the neighbors of {IN_DETAIL}, {engine}"] = time.perf_counter() - began
    if len(classifier.classes_) == 2:
        found["auc"] = roc_auc_score(truth == classifier.classes_[1], probabilities[:, 1])
    show(found)
    return found


def show(row: dict[str, Any]) -> None:
    print("  ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in row.items()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--parts",
        nargs="+",
        default=["updates", "exact", "speed", "models"],
        choices=["updates", "exact", "given", "speed", "models", "end"],
    )
    parser.add_argument(
        "--draws", type=int, default=2000, help="draws of each of four chains, for the exact posteriors"
    )
    parser.add_argument("--data", type=Path, default=ROOT / "shared" / "data" / "readmission")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ROOT / "benchmarks" / "results")))
    options = parser.parse_args()
    device = cuda.get_current_device()
    name = device.name if isinstance(device.name, str) else device.name.decode()
    results: dict[str, Any] = {"device": name, "multiprocessors": device.MULTIPROCESSOR_COUNT}
    results["clock_kHz"] = device.CLOCK_RATE
    before = options.out / "gpu.json"
    if before.exists() and (kept := json.loads(before.read_text()))["device"] == name:
        results = kept | results  # other parts stay
    todo = {
        "updates": updates,
        "exact": lambda: exact(options.draws),
        "given": lambda: given(options.draws),
        "speed": speed,
        "models": models,
        "end": lambda: end_to_end(options.data),
    }
    for part in options.parts:
        print(f"-- {part}", flush=True)
        results[part] = todo[part]()
        options.out.mkdir(parents=True, exist_ok=True)
        fresh = options.out / "gpu.json.new"
        fresh.write_text(json.dumps(results, indent=1))
        fresh.replace(options.out / "gpu.json")


if __name__ == "__main__":
    main()
