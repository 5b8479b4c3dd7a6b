"""The command that runs the paper's experiments."""

from __future__ import annotations

from pathlib import Path

from bayespatch.cli.options import Again, FolderOut, Json, Only, Quick, Readmission, Seed
from bayespatch.cli.terminal import show


def study(
    out: FolderOut = Path("study"),
    quick: Quick = False,
    only: Only = None,
    readmission: Readmission = None,
    again: Again = False,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Run the paper's experiments; what is finished is not run again.

    Examples
    --------
    $ bayespatch study --quick --out study-quick
    $ bayespatch study --readmission diabetic_data.csv
    """
    from bayespatch.study import run

    page = run(out, quick=quick, only=only or (), readmission=readmission, seed=seed, again=again)
    show({"page": str(page)}, json, f"the study is in {page}")
