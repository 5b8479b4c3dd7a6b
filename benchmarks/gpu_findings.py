"""The results of ``gpu.py`` for the page; `make bench` does not include it, because it runs without a GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from measure import Finding, Row, Section


def read(path: Path, on_two_cores: dict[tuple[int, int], float]) -> Section:
    """The tables of a ``gpu.json``, with seconds per sweep on two cores, by cases and parents, if known."""
    found = json.loads(path.read_text())
    full = found["speed"][0]
    models = {row["model"]: row for row in found["models"]}
    size = f"N={full['N']}, S={full['S']}, P={full['P']}"
    end = found.get("end")
    return Section(
        "gpu",
        [
            Finding(f"{found['device']}, {size}, Model I: one sweep", models["I"]["gpu_ms"], 6, True, " ms"),
            Finding(f"the same, speedup over one core of its host, {size}", full["ratio"], 1000, False),
            Finding(f"{found['device']}, Model II / Model I, {size}", models["II"]["times_model_i"], 10, True),
            *([Finding("the readmission file, end to end", end["total_seconds"], 180, True, " s")] if end else []),
        ],
        {
            "gpu_sizes": [size_row(row, on_two_cores) for row in found["speed"]],
            "gpu_models": [
                {"model": row["model"], "a sweep, ms": row["gpu_ms"], "times Model I": row["times_model_i"]}
                for row in found["models"]
            ],
        },
    )


def size_row(row: dict[str, Any], on_two_cores: dict[tuple[int, int], float]) -> Row:
    """The results for one size."""
    two = on_two_cores.get((row["N"], row["S"])) if row["P"] == 19 else None
    return {
        "cases": row["N"],
        "parents": row["S"],
        "features": row["P"],
        "GPU, ms": row["gpu_ms"],
        "arithmetic limit, ms": row["limit_ms"],
        "times the limit": row["times_limit"],
        "one core of its host, ms": row["core_ms"],
        "speedup": row["ratio"],
        "two cores here, ms": "" if two is None else 1e3 * two,
    }
