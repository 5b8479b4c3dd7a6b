"""Timing for the benchmarks, and their results: rows of tables, and findings with a target."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Row = dict[str, float | int | str]
Say = Callable[[str], None]


class Finding(NamedTuple):
    """A measured value and its target."""

    what: str
    value: float
    limit: float
    at_most: bool  # False: at least
    unit: str = ""

    @property
    def met(self) -> bool:
        """Whether the target is met."""
        return bool(self.value <= self.limit if self.at_most else self.value >= self.limit)

    def row(self) -> Row:
        """The finding as a row of a table."""
        target = f"{'at most' if self.at_most else 'at least'} {shown(self.limit)}{self.unit}"
        verdict = "yes" if self.met else "NO"
        return {"what": self.what, "measured": shown(self.value) + self.unit, "target": target, "met": verdict}


@dataclass
class Section:
    """Results of a benchmark."""

    name: str
    findings: list[Finding] = field(default_factory=list)
    tables: dict[str, list[Row]] = field(default_factory=dict)

    def show(self) -> None:
        """Print everything."""
        for name, rows in {f"{self.name}: targets": [f.row() for f in self.findings], **self.tables}.items():
            print(f"\n{name.replace('_', ' ')}\n{as_text(rows)}", flush=True)

    def to_json(self) -> str:
        """The section as JSON, which `from_json` reads."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Section:
        """Read the JSON written by `to_json`."""
        parts = json.loads(text)
        return cls(parts["name"], [Finding(*finding) for finding in parts["findings"]], parts["tables"])


def interleaved(
    tasks: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float]
) -> dict[str, NDArray[np.float64]]:
    """Seconds per task and round; each round runs every task once, so all run under the same conditions."""
    seconds = {name: np.empty(rounds) for name in tasks}
    for r in range(rounds):
        for name, task in tasks.items():
            began = clock()
            task()
            seconds[name][r] = clock() - began
    return seconds


def ratio(above: NDArray[np.float64], below: NDArray[np.float64]) -> float:
    """The median over the rounds of the ratio within a round."""
    return float(np.median(above / below))


def shown(value: float | int | str) -> str:
    """A number to three or four digits."""
    if isinstance(value, str):
        return value
    if not np.isfinite(value):
        return str(value)
    if float(value).is_integer() and abs(value) < 1e6:
        return f"{int(value)}"
    if 0.9 < value < 1.2:
        return f"{value:.4f}"  # an R-hat, or an R²
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def write(path: Path, text: str) -> None:
    """Write a file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def as_text(rows: Sequence[Row]) -> str:
    """A table for a terminal."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [names, *([shown(row[name]) if name in row else "" for name in names] for row in rows)]
    widths = [max(len(line[k]) for line in cells) for k in range(len(names))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells)


def as_markdown(rows: Sequence[Row]) -> str:
    """A table for a page."""
    lines = [list(rows[0]), ["---"] * len(rows[0]), *([shown(value) for value in row.values()] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def environment() -> dict[str, str]:
    """Hardware and versions that affect the measurements."""
    packages = {name: version(name) for name in ("numpy", "scipy", "scikit-learn", "numba", "llvmlite", "arviz-stats")}
    return {
        "processor": cpu_name(),
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "system": platform.system(),
        "python": platform.python_version(),
        **packages,
    }


def cpu_name() -> str:
    """The name of the processor, if the system provides it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def run_alone(benchmark: Callable[[bool, Say], Section], about: str | None) -> None:
    """Run one benchmark from the command line."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="use small sizes, to check that everything runs")
    benchmark(parser.parse_args().quick, say).show()


def say(line: str) -> None:
    """Print a line of progress without buffering."""
    print(line, flush=True)
