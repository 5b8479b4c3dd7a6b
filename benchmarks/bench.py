"""All benchmarks in one run: writes measurements and figures to results/, and generates the page README.md from them.

``python benchmarks/bench.py`` takes about 20 minutes on an otherwise idle machine. ``--quick`` only checks within a
minute that everything runs, and writes to a temporary folder. ``--only speed memory`` repeats these parts and keeps
earlier results of the others; quantities are only compared within a part.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import casebase
import explaining
import fitting
import gpu_findings
import memory
import mixing
import plots
import prediction
import report
import scale
import speed
import startup
from measure import Say, Section, as_text, say

BENCHMARKS: dict[str, Callable[[bool, Say], Section]] = {
    "startup": startup.main,
    "memory": memory.main,
    "scale": scale.main,
    "speed": speed.main,
    "prediction": prediction.main,
    "explaining": explaining.main,
    "fitting": fitting.main,
    "mixing": mixing.main,
    "casebase": casebase.main,
}
ORDER = (
    "speed",
    "fitting",
    "prediction",
    "explaining",
    "mixing",
    "memory",
    "scale",
    "startup",
    "casebase",
)  # on the page


def main() -> None:
    options = parse_options()
    home = Path(__file__).parent
    out = options.out or (Path(tempfile.mkdtemp(prefix="bench-")) if options.quick else home)
    results = out / "results"
    results.mkdir(parents=True, exist_ok=True)

    began = time.perf_counter()
    for name in options.only:
        say(f"[{time.perf_counter() - began:6.0f} s] {name}")
        section = BENCHMARKS[name](options.quick, say)
        (results / f"{name}.json").write_text(section.to_json())
    sections = [Section.from_json(path.read_text()) for name in ORDER if (path := results / f"{name}.json").exists()]
    if (results / "gpu.json").exists():
        sections.append(gpu_findings.read(results / "gpu.json", scale.seconds_a_sweep(sections)))
    if not sections:
        raise SystemExit(f"there are no results in {results} yet; name the parts to run after --only")
    minutes = (time.perf_counter() - began) / 60

    plots.plot_all(sections, results)
    findings = [finding.row() for section in sections for finding in section.findings]
    (out / "README.md").write_text(report.page(sections, results.name, options.quick).rstrip() + "\n")
    say(f"\n{as_text(findings)}\n\n{minutes:.1f} minutes; the page is {out / 'README.md'}")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes, for a quick test without meaningful results")
    parser.add_argument("--only", nargs="*", choices=list(BENCHMARKS), default=list(BENCHMARKS), metavar="NAME",
                        help=f"run only these ({', '.join(BENCHMARKS)}); no names: only the page")  # fmt: skip
    parser.add_argument("--out", type=Path, help="folder to write to (default: this one; if quick, a temporary one)")
    return parser.parse_args()


if __name__ == "__main__":
    main()
