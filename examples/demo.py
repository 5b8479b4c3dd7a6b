"""Fit the bundled heart data, show one patient's patchwork, and write a page about the patient and one about the model.

Run it with ``make demo``, or ``python examples/demo.py --patient 20 --neighbors 6``.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import bayespatch
from bayespatch.diagnostics import MixingWarning
from bayespatch.report import case_report


def main() -> None:
    options = parse_options()
    X, y = bayespatch.datasets.load_heart()
    if not 0 <= options.patient < len(X):
        sys.exit(f"--patient must be a row of the table, 0 to {len(X) - 1}")
    others = X.index != options.patient

    print(f"Learning from {len(X) - 1} patients; patient {options.patient} is not among them ...", flush=True)
    warnings.simplefilter("ignore", MixingWarning)  # the model's page says whether the chains have mixed
    clf = bayespatch.PatchworkClassifier(draws=options.draws, random_state=0, progress=sys.stderr.isatty())
    clf.fit(X[others], y[others])

    explanation = clf.explain(X.loc[options.patient], top=options.neighbors)
    truth = y.attrs["labels"][int(y[options.patient])]
    print(f"\n{explanation.to_text()}\n\nIn truth: {truth}.")

    options.out.mkdir(parents=True, exist_ok=True)
    case, model = options.out / f"patient-{options.patient}.html", options.out / "model.html"
    case_report(explanation, case)
    clf.report(model)
    print(f"\nPages to open in a browser or to print:\n  the patient: {case}\n  the model:   {model}")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patient", type=int, default=20, help="row of the heart table (default: 20)")
    parser.add_argument("--neighbors", type=int, default=4, help="how many neighbors to show (default: 4)")
    parser.add_argument("--draws", type=int, default=250, help="draws per chain (default: 250)")
    parser.add_argument(
        "--out", type=Path, default=Path("build/demo"), help="folder of the pages (default: build/demo)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
