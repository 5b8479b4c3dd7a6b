"""``python -m bayespatch.study``: the paper's experiments from the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from bayespatch.study.parts import PARTS
from bayespatch.study.runner import run


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the arguments, run the study, say where its page is."""
    parser = argparse.ArgumentParser(prog="python -m bayespatch.study", description="The paper's experiments.")
    parser.add_argument("--out", default="docs/study", help="folder for the results (default: %(default)s)")
    parser.add_argument("--quick", action="store_true", help="everything at a size that takes minutes")
    parser.add_argument("--only", nargs="+", metavar="PART", default=(), help=", ".join(part.name for part in PARTS))
    parser.add_argument("--readmission", metavar="PATH", help="UCI's diabetic_data.csv, also compressed")
    parser.add_argument("--seed", type=int, default=0, help="default: %(default)s")
    parser.add_argument("--again", action="store_true", help="run finished parts again")
    options = parser.parse_args(arguments)
    try:
        page = run(**vars(options))
    except (ValueError, ImportError) as error:
        print(f"bayespatch.study: {error}", file=sys.stderr)
        return 2
    print(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
