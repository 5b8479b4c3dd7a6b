"""Runs the study part by part, skipping finished parts."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path

from bayespatch.validation import check_choice, check_flag, check_seed
from study.figures import check_matplotlib
from study.page import write_page
from study.parts import PARTS, Context
from study.protocol import FULL, QUICK
from study.results import Results


def run(
    out: str | PathLike[str] = "docs/study",
    *,
    quick: bool = False,
    only: Iterable[str] = (),
    readmission: str | PathLike[str] | None = None,
    seed: int = 0,
    again: bool = False,
    tell: Callable[[str], object] | None = None,
) -> Path:
    """Run the paper's experiments and write tables, figures and a page that presents them.

    Parameters
    ----------
    out : path
        The folder for the results. Finished parts with the same settings and version are kept.
    quick : bool
        Run everything at a size that takes two or three minutes, only to test that it runs.
    only : names of parts
        Run only these parts; by default all.
    readmission : path, optional
        diabetic_data.csv from UCI; without it, the part on readmission is skipped.
    seed : int
        The same seed gives the same tables, except for measured times.
    again : bool
        Whether to rerun finished parts.
    tell : function, optional
        Called with progress messages; by default they go to stderr.

    Returns
    -------
    Path
        The page, README.md in `out`.
    """
    check_flag("quick", quick)
    check_flag("again", again)
    chosen = [check_choice("only", name, [part.name for part in PARTS]) for name in only]
    table = None if readmission is None else Path(readmission)
    if table is not None and not table.is_file():
        raise ValueError(
            f"readmission={str(readmission)!r} is not a file; download diabetic_data.csv from "
            "https://doi.org/10.24432/C5230J, or leave it out to skip that part"
        )
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"out={str(out)!r} is a file; pass a folder")
    results = Results(folder)
    if quick and results.holds_full_study():
        raise ValueError(f"out={str(out)!r} contains results of the full study; pass another folder for the quick one")
    check_matplotlib()
    say = tell or (lambda line: print(line, file=sys.stderr, flush=True))
    context = Context(check_seed(seed), QUICK if quick else FULL, table, _detail(tell))

    parts = [part for part in PARTS if not chosen or part.name in chosen]
    for part in [part for part in parts if part.needs_readmission and table is None]:
        say(f"{part.name}: skipped because it needs the readmission table (pass its path)")
        parts.remove(part)
    remaining = [part for part in parts if again or not results.is_finished(part, context)]
    if len(remaining) < len(parts):
        say(f"{len(parts) - len(remaining)} of {len(parts)} parts are already finished")
    if remaining and not quick:
        minutes = sum(part.seconds for part in remaining) / 60
        say(f"{len(remaining)} parts to run: about {minutes:.0f} minutes on two idle cores")
    changed: set[str] = set()
    for number, part in enumerate(remaining, start=1):
        say(f"[{number}/{len(remaining)}] {part.name}: {part.title} ({part.labels})")
        begun = time.perf_counter()
        tables = part.compute(context)
        seconds = time.perf_counter() - begun
        results.store(part, context, tables, seconds)
        changed |= {stored.name for stored in tables}
        say(f"[{number}/{len(remaining)}] {part.name}: {seconds:.1f} s")
    drawn = results.draw(changed, context)
    say(f"{len(drawn)} figures drawn")
    return write_page(results, context)


def _detail(tell: Callable[[str], object] | None) -> Callable[[str], object]:
    """Shows the current step of a part on a line that is overwritten, only on a terminal."""
    if tell is not None or not sys.stderr.isatty():
        return lambda line: None
    return lambda line: print(f"\r\x1b[K    {line[:100]}", end="\r", file=sys.stderr, flush=True)
