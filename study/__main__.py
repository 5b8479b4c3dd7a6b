"""Run the paper's experiments: ``python -m study --out docs/study``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from study.runner import run


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the selected experiments and print the path of the page."""
    parser = argparse.ArgumentParser(prog="python -m study", description="Run the paper's experiments.")
    parser.add_argument("--out", default="study-results", metavar="FOLDER", help="folder for the results")
    parser.add_argument("--quick", action="store_true", help="run all experiments at a size that takes minutes")
    parser.add_argument("--only", action="append", default=[], metavar="PART", help="run only this part (repeatable)")
    parser.add_argument("--readmission", metavar="FILE", help="diabetic_data.csv from UCI, plain or compressed")
    parser.add_argument("--again", action="store_true", help="rerun finished parts")
    parser.add_argument("--seed", type=int, default=0, metavar="NUMBER", help="random seed")
    options = parser.parse_args(arguments)
    try:
        page = run(**vars(options))
    except ValueError as error:
        sys.exit(f"error: {error}")
    print(page)


if __name__ == "__main__":
    main()
