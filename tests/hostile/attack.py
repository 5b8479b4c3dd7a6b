"""The structured attack on model files and checkpoints: edits of content whose checksums fit.

``python tests/hostile/attack.py`` makes 10,000 forged files from honest ones (``--edits``), the same ones for the same
``--seed``. Each is opened in a process whose memory is limited. It must be refused with StorageError, or be a model
that predicts finite numbers, the same ones again after it was saved and loaded once more: what its content says. None
may take more than `SECONDS`, nor, while it is read, more than twice the memory of an honest file of its size.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from safetensors.numpy import load as unpack  # noqa: E402
from safetensors.numpy import save as pack  # noqa: E402

from tests.persistence.damage import at, leaves, put_together, taken_apart  # noqa: E402

SECONDS = 60  # for one file, its predictions included, on a busy machine
ROOM = 2**30  # bytes of address space beyond what the process has when it begins
SLACK = 2**24  # bytes that are not worth a comparison with the 200 MB of the process: JSON of 100,000 values takes them

INTEGERS = (0, -1, 1, 2, 3, 255, 2**31 - 1, 2**31, -(2**31), 2**53, 10**15, 2**63 - 1, 2**63, 2**64 - 1)
NUMBERS = (0.0, -0.0, -1.0, 1.0, 0.5, 1e-9, 1e-300, 5e-324, 1e9, 1e15, 1e100, 1e300, 1.7e308, -1e300)
TEXTS = (
    "",
    "a",
    "\0",
    "é☹",
    "\ud800",
    "nan",
    "../../etc/passwd",
    "cpu",
    "auto",
    "II",
    "III",
    "<U9999999",
    "x" * 70_000,
)
OTHERS = (None, True, False, [], {}, [[]], {"type": "pickle", "value": "cos"}, {"type": "set", "value": [1, 1]})


# Honest files


def honest(n_times: int = 200) -> dict[str, bytes]:
    """Whole files of small models, one of each sort, and of a large one: of a table so many times over."""
    from bayespatch import Hyperparameters, PatchworkClassifier, PatchworkRegressor
    from tests.persistence.fitted import NUMBERS as outcomes
    from tests.persistence.fitted import SHORT, X, Y, fit, tiny, tiny_regressor

    short = {**SHORT, "draws": 3, "warmup": 2}
    named = X.set_axis([f"patient {k}" for k in range(len(X))], axis=0)
    given = {"hyper": Hyperparameters(mu=(1.0, 2.0)), "class_weight": {"sick": 1.0, "well": 2.0}}
    models = {
        "tiny": tiny(),
        "numbers": tiny_regressor(),
        "named": fit(PatchworkClassifier(parents=9, **given, **short), named, Y),
        "windows": fit(PatchworkClassifier(model="III", windows={"chol": 20, "age": "12.5%"}, **short), X, Y),
        "together": fit(PatchworkClassifier(model="II", transductive=True, missing="ignore", **short), X, Y),
        "regressor": fit(PatchworkRegressor(transductive=True, parents=[1, 5, 9], **short), X, outcomes),
    }
    files = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, model in models.items():
            model.save(Path(folder) / name)
            files[name] = (Path(folder) / name).read_bytes()
        # The same model with many times the rows: how much memory an honest file takes for its size.
        large = models["named"].__class__(**models["named"].get_params())
        large = fit(large.set_params(parents=9), named.loc[named.index.repeat(n_times)], np.repeat(Y, n_times))
        large.save(Path(folder) / "large")
        files["large"] = (Path(folder) / "large").read_bytes()
    return files


RUN = dict(chains=2, draws=8, warmup=4, seed=3, n_threads=1, engine="cpu", n_values=[3, 3], n_classes=2)


def run_on(folder: Path) -> object:
    """The run of which the checkpoint is."""
    from bayespatch import sample

    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 3, (12, 2)), rng.integers(0, 2, 12)
    return sample(x, y, x[:6], y[:6], **RUN, checkpoint=folder)  # type: ignore[arg-type]


def honest_checkpoint(folder: Path) -> None:
    """A run of eight draws, of which six are there."""
    RUN["draws"] = 6
    run_on(folder)
    RUN["draws"] = 8


# Edits


def edited_checkpoint(rng: np.random.Generator, blob: bytes) -> tuple[bytes, str]:
    """A forged state of a run, and what was done."""
    manifest, parts = taken_apart(blob)
    manifest, parts = copy.deepcopy(manifest), dict(parts)
    if rng.random() < 0.5:
        listed = manifest.pop("parts")
        done = json_edit(rng, manifest)
        manifest["parts"] = listed
    else:
        names = sorted(parts)
        name = names[rng.integers(len(names))]
        values = np.frombuffer(parts[name], manifest["arrays"][name][0]).copy()
        pool = (*NUMBERS, np.nan, np.inf) if values.dtype.kind == "f" else INTEGERS
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            new = np.array(pool[rng.integers(len(pool))]).astype(values.dtype)
        if len(values):
            values[rng.integers(0, len(values), int(rng.choice([1, len(values)])))] = new
        parts[name], done = values.tobytes(), f"{name}: {new}"
    return put_together(manifest, parts), f"checkpoint {done}"


def edited(rng: np.random.Generator, blob: bytes) -> tuple[bytes, str]:
    """A forged file, and what was done."""
    manifest, parts = taken_apart(blob)
    manifest, parts = copy.deepcopy(manifest), dict(parts)
    done = [EDITS[rng.choice(len(EDITS), p=WEIGHTS)](rng, manifest, parts) for _ in range(rng.integers(1, 3))]
    return put_together(manifest, parts), "; ".join(done)


def json_edit(rng: np.random.Generator, data: object) -> str:
    """One place of a JSON document changed: its value, its length, its keys."""
    paths = leaves(data)
    path = paths[rng.integers(len(paths))]
    up = int(rng.integers(0, 3)) if rng.random() < 0.3 else 0
    path = path[: max(1, len(path) - up)]
    parent, key = at(data, path[:-1]), path[-1]
    before = parent[key]
    way = rng.integers(0, 10)
    if way == 0 and isinstance(parent, dict):
        del parent[key]
        return f"{path} deleted"
    if way == 1 and isinstance(parent, dict):
        parent[f"{key}_"] = parent.pop(key)
        return f"{path} renamed"
    if way == 2 and isinstance(before, list):
        parent[key] = (before or [0]) * int(rng.choice([0, 2, 1000]))
        return f"{path} repeated"
    if way == 3:
        for _ in range(int(rng.choice([1, 50, 5000]))):
            before = [before]
        parent[key] = before
        return f"{path} nested"
    if isinstance(before, bool) or before is None or isinstance(before, list | dict) or way > 7:
        new = OTHERS[rng.integers(len(OTHERS))]
    elif isinstance(before, int):
        new = (*INTEGERS, before + 1, before - 1, 10 * before)[rng.integers(len(INTEGERS) + 3)]
    elif isinstance(before, float):
        new = (*NUMBERS, 2 * before, -before, before + 1e-9)[rng.integers(len(NUMBERS) + 3)]
    else:
        new = (*TEXTS, before + before, before[::-1])[rng.integers(len(TEXTS) + 2)]
    parent[key] = copy.deepcopy(new)
    return f"{path}: {str(before)[:40]!r} became {str(new)[:40]!r}"


def in_manifest(rng: np.random.Generator, manifest: dict, parts: dict) -> str:
    kept = {key: manifest.pop(key) for key in ("parts", "cases_sha256")}
    done = json_edit(rng, manifest)
    manifest.update(cases_sha256=kept["cases_sha256"], parts=kept["parts"])
    return f"manifest {done}"


def in_bulk(rng: np.random.Generator, manifest: dict, parts: dict) -> str:
    """A parameter that asks for more than it is."""
    n = int(10 ** rng.uniform(2, 5.3))
    dtype = ["<U4096", "<U9999999", "|O", "<f8", "|b1"][rng.integers(5)]
    values = {"dtype": dtype, "shape": [n], "values": [[""], [0], [1.5], [True]][rng.integers(4)] * n}
    names = list(manifest["parameters"])
    name = names[rng.integers(len(names))]
    value = {"type": "array", "value": values}
    if rng.random() < 0.3:
        value = {"type": ["list", "tuple", "set"][rng.integers(3)], "value": [{"type": "list", "value": []}] * (n // 4)}
    manifest["parameters"][name] = value
    if rng.random() < 0.2 and manifest["classes"] is not None:
        manifest["classes"] = values
    return f"parameter {name} is {n} values of {dtype}"


def in_metadata(rng: np.random.Generator, manifest: dict, parts: dict) -> str:
    arrays = dict(unpack(parts["cases"]))
    metadata = json.loads(arrays["metadata"].tobytes())
    done = json_edit(rng, metadata)
    arrays["metadata"] = np.frombuffer(json.dumps(metadata).encode("ascii"), np.uint8)
    parts["cases"] = pack(arrays)
    return f"metadata {done}"


def in_array(rng: np.random.Generator, manifest: dict, parts: dict) -> str:
    """Values, type or shape of an array."""
    part = "arrays" if rng.random() < 0.2 else "cases"
    arrays = {name: array.copy() for name, array in unpack(parts[part]).items()}
    names = sorted(arrays)
    name = names[rng.integers(len(names))]
    array = arrays[name]
    way = int(rng.integers(0, 8))
    if way <= 3 and array.size:  # values
        pool = (*NUMBERS, np.nan, np.inf, 2.0) if array.dtype.kind == "f" else INTEGERS
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            new = np.array(pool[rng.integers(len(pool))]).astype(array.dtype)
        n = int(rng.choice([1, 2, array.size]))
        array.reshape(-1)[rng.integers(0, array.size, n)] = new
        done = f"{n} values {new}"
    elif way == 4:
        arrays[name] = array.astype(["float32", "float64", "int32", "int64", "uint8", "float16"][rng.integers(6)])
        done = "type"
    elif way == 5:
        arrays[name] = np.concatenate([array] * int(rng.choice([0, 2, 40]) or 1))[: int(rng.choice([0, 1, 10**9]))]
        done = "length"
    elif way == 6:
        arrays[name] = array[..., None] if rng.random() < 0.5 else array.reshape(-1)
        done = "shape"
    else:
        other = names[rng.integers(len(names))]
        arrays[name], arrays[other] = arrays[other], arrays[name]
        done = f"swapped with {other}"
    parts[part] = pack({key: np.ascontiguousarray(value) for key, value in arrays.items()})
    return f"array {name}: {done}"


def in_sizes(rng: np.random.Generator, manifest: dict, parts: dict) -> str:
    """A size, with all arrays that have it: a contradiction less."""
    from bayespatch.persistence.arrays import ARRAYS

    letter = "nNSPMCDR"[rng.integers(8)]
    times = int(rng.choice([0, 2, 7]))
    for part in ("arrays", "cases"):
        arrays = dict(unpack(parts[part]))
        for name, kind in ARRAYS.items():
            if name in arrays and letter in kind.shape and arrays[name].ndim == len(kind.shape):
                axis = kind.shape.index(letter)
                grown = np.repeat(arrays[name], times, axis) if times else np.take(arrays[name], [0], axis)
                arrays[name] = np.ascontiguousarray(grown)
        parts[part] = pack(arrays)
    if isinstance(manifest.get("sizes"), dict) and type(manifest["sizes"].get(letter)) is int:
        manifest["sizes"][letter] = manifest["sizes"][letter] * times or 1
    return f"size {letter} times {times or '1 / itself'}"


EDITS = (in_manifest, in_metadata, in_array, in_sizes, in_bulk)
WEIGHTS = (0.45, 0.17, 0.28, 0.08, 0.02)


# The victim


class Judge:
    """Opens files and says what is wrong with how that went."""

    def __init__(self, files: dict[str, bytes], folder: Path) -> None:
        self.folder = folder
        small, large = (self._honest(files[name]) for name in ("named", "large"))
        self.per_byte = max(0.0, (large[1] - small[1]) / (large[0] - small[0]))
        self.fixed = max(self._honest(files[name])[1] - self.per_byte * len(files[name]) for name in files)

    def _honest(self, blob: bytes) -> tuple[int, int]:
        found = self.judge(blob, limit=None)
        assert found is None, f"an honest file is refused: {found}"
        return len(blob), self.peak

    def judge(self, blob: bytes, limit: float | None = 2.0) -> str | None:
        """None: as it should be."""
        from bayespatch import load
        from bayespatch.persistence.atomic import StorageError

        path = self.folder / "forged.bpatch"
        path.write_bytes(blob)
        self.verdict, self.peak = "refused", 0
        tracemalloc.start()
        try:
            model = load(path)
        except BaseException as error:
            model, refusal = None, error
        self.peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        if limit is not None:
            most = limit * (self.fixed + self.per_byte * len(blob)) + SLACK
            if self.peak > most:
                return f"reading {len(blob)} bytes took {self.peak} bytes of memory, more than {most:.0f}"
        if model is None:
            if not isinstance(refusal, StorageError):
                return f"{type(refusal).__name__}: {refusal}"
            return None if str(path) in str(refusal) else f"the error does not name the file: {refusal}"
        self.verdict = "loaded"
        return self._predicts(model, path)

    def judge_checkpoint(self, blob: bytes) -> str | None:
        """None: refused, or a run that goes on and ends with finite numbers."""
        from bayespatch.persistence.atomic import StorageError

        folder = self.folder / "run"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder / "checkpoint", folder)
        (folder / "state.bpatch").write_bytes(blob)
        self.verdict = "refused"
        try:
            posterior = run_on(folder)
        except StorageError:
            return None
        except BaseException as error:
            return f"{type(error).__name__}: {error}"
        self.verdict = "loaded"
        found = [getattr(posterior, name) for name in ("q", "q_tilde", "z_mean", "votes_mean", "log_joint")]
        return None if all(np.isfinite(array).all() for array in found) else "draws that are not finite"

    def _predicts(self, model: object, path: Path) -> str | None:
        from bayespatch import load

        new = model.schema_  # type: ignore[attr-defined]
        rows = model.values_[:2]  # type: ignore[attr-defined]
        try:
            table = table_of(new, rows)
            first = answers(model, table)
            model.save(path, overwrite=True)  # type: ignore[attr-defined]
            second = answers(load(path), table)
        except Exception as error:
            if type(error).__name__ in ALLOWED:
                return None
            return f"accepted, and then {type(error).__name__}: {error}"
        if not all(np.isfinite(array).all() for array in first):
            return "predicts numbers that are not finite"
        if not all(np.array_equal(a, b) for a, b in zip(first, second, strict=True)):
            return "predicts other numbers when it is saved and loaded again"
        return None


ALLOWED = ("RuntimeError",)  # engine="cuda" where there is no GPU: the remedy is named


def table_of(schema: object, rows: np.ndarray) -> object:
    """Past cases as a user would write them down."""
    import pandas

    columns = {}
    for j, column in enumerate(schema.columns):  # type: ignore[attr-defined]
        values = []
        for value in rows[:, j].tolist():
            known = value == value and value != -1e30 and (not column.is_coded or value < len(column.values))
            values.append((column.values[int(value)] if column.is_coded else value) if known else None)
        missing_text = column.family == "text"
        columns[column.name] = pandas.Series(values, dtype=object if missing_text else None)
    return pandas.DataFrame(columns) if schema.named else pandas.DataFrame(columns).to_numpy()  # type: ignore[attr-defined]


def answers(model: object, table: object) -> list[np.ndarray]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if hasattr(model, "classes_"):
            return [model.predict_proba(table), model.predict_interval(table).ravel()]  # type: ignore[attr-defined]
        return [model.predict(table), model.predict_quantiles(table).ravel()]  # type: ignore[attr-defined]


def work(folder: Path, seed: int, first: int, last: int, room: int) -> None:
    """Judge edits first..last-1, and report each on a line; runs in a process of its own."""
    warnings.simplefilter("ignore")
    files = {path.stem: path.read_bytes() for path in sorted((folder / "honest").iterdir())}
    state = (folder / "checkpoint" / "state.bpatch").read_bytes()
    judge = Judge(files, folder)
    judge.judge_checkpoint(state)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + room
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    names = [name for name in files if name != "large"]
    for number in range(first, last):
        rng = np.random.default_rng([seed, number])
        name = "state" if rng.random() < 0.05 else names[rng.integers(len(names))]
        try:
            blob, done = edited_checkpoint(rng, state) if name == "state" else edited(rng, files[name])
        except Exception as error:  # an edit of what an edit before it has destroyed
            print(json.dumps({"number": number, "verdict": "not made", "done": repr(error)[:200]}), flush=True)
            continue
        print(json.dumps({"number": number, "begun": f"{name}: {done}"[:300]}), flush=True)
        began = time.perf_counter()
        wrong = judge.judge_checkpoint(blob) if name == "state" else judge.judge(blob)
        seconds = time.perf_counter() - began
        print(json.dumps({"number": number, "verdict": judge.verdict, "wrong": wrong, "seconds": seconds}), flush=True)


# The attack


def attack(n_edits: int, seed: int = 0, room: int = ROOM) -> tuple[Counter, list[str], float]:
    """How many edits were refused, loaded and not made; what went wrong; the longest that one took."""
    counts: Counter = Counter()
    failures: list[str] = []
    longest = 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "honest").mkdir()
        for kind, blob in honest().items():
            (folder / "honest" / f"{kind}.bpatch").write_bytes(blob)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            honest_checkpoint(folder / "checkpoint")
        number = made = 0
        while made < n_edits:
            last = number + max(n_edits - made, 10)
            command = [sys.executable, __file__, "--work", str(folder), str(seed), str(number), str(last), str(room)]
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "4"}
            worker = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
            begun = ""
            try:
                for line in _lines(worker):
                    told = json.loads(line)
                    if "begun" in told:
                        number, begun = told["number"], told["begun"]
                        continue
                    number = told["number"] + 1
                    counts[told["verdict"]] += 1
                    made += told["verdict"] != "not made"
                    longest = max(longest, told.get("seconds", 0.0))
                    if told.get("wrong"):
                        failures.append(f"#{told['number']} {begun}: {told['wrong']}")
            except TimeoutError:
                failures.append(f"#{number} {begun}: took more than {SECONDS} s")
                number, made = number + 1, made + 1
            else:
                if worker.wait() != 0:
                    failures.append(f"#{number} {begun}: the process ended with {worker.returncode}")
                    number, made = number + 1, made + 1
            finally:
                worker.kill()
                worker.wait()
            if len(failures) > 100:
                break
    return counts, failures, longest


def _lines(worker: subprocess.Popen):
    """Lines of a process; TimeoutError where none comes for too long."""
    import queue
    import threading

    lines: queue.Queue = queue.Queue()

    def read() -> None:
        for line in worker.stdout:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    patience = 10 * SECONDS  # to compile, once
    while True:
        try:
            line = lines.get(timeout=patience)
        except queue.Empty:
            raise TimeoutError from None
        if line is None:
            return
        patience = SECONDS
        yield line


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        folder, *numbers = sys.argv[2:]
        work(Path(folder), *map(int, numbers))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edits", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    wishes = parser.parse_args()
    began = time.perf_counter()
    counts, failures, longest = attack(wishes.edits, wishes.seed)
    told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
    print(f"{wishes.edits} edits in {time.perf_counter() - began:.0f} s: {told}; the longest took {longest:.1f} s")
    for failure in failures:
        print(failure)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
