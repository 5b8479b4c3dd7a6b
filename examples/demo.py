"""Fit Model I to the bundled heart data and show one patient's patchwork in the terminal.

Run it with ``make demo``, or ``python examples/demo.py --patient 20 --neighbors 6``.
"""

from __future__ import annotations

import argparse
import sys
import warnings

import numpy as np

import bayespatch
from bayespatch.diagnostics import MixingWarning

HIDDEN = -1  # the class of a case whose outcome the sampler may not see


def main() -> None:
    options = parse_options()
    X, y = bayespatch.datasets.load_heart(discretize="paper")
    if not 0 <= options.patient < len(X):
        sys.exit(f"--patient must be a row of the table, 0 to {len(X) - 1}")
    codes = X.apply(lambda column: column.cat.codes).to_numpy(float)
    codes = np.where(codes < 0, np.nan, codes)  # missing
    outcomes = y.to_numpy()
    known = outcomes.copy()
    known[options.patient] = HIDDEN

    print(f"Sampling {len(X)} patients, each with all {len(X) - 1} others as candidate neighbors ...", flush=True)
    # The summary below says whether the chains have mixed.
    warnings.simplefilter("ignore", MixingWarning)
    posterior = bayespatch.sample(
        codes,
        known,
        codes,
        outcomes,
        n_values=[len(X[name].cat.categories) for name in X.columns],
        n_classes=2,
        hyper=bayespatch.Hyperparameters(alpha=5 / (len(X) - 1), lam0=0.5),
        exclude_self=True,
        missing="ignore",
        draws=options.draws,
        warmup=options.draws // 2,
        keep_w=True,
        progress=sys.stderr.isatty(),
    )
    print(posterior.summary())
    show_importances(X, posterior)
    show_patchwork(X, outcomes, codes, posterior, options.patient, options.neighbors)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patient", type=int, default=20, help="row of the heart table (default: 20)")
    parser.add_argument("--neighbors", type=int, default=5, help="how many neighbors to show (default: 5)")
    parser.add_argument(
        "--draws", type=int, default=1000, help="draws per chain, after half as many for warm-up (default: 1000)"
    )
    return parser.parse_args()


def show_importances(X, posterior) -> None:
    """How much each feature matters over all patients, with a 90 % interval."""
    print("\nImportance of the features (posterior mean, 90 % interval)")
    draws = posterior.q.reshape(-1, len(X.columns))
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    for j in np.argsort(-draws.mean(axis=0)):
        bar = "█" * round(20 * draws[:, j].mean())
        print(f"  {X.columns[j]:<9} {draws[:, j].mean():.2f}  [{low[j]:.2f}, {high[j]:.2f}]  {bar}")


def show_patchwork(X, outcomes, codes, posterior, patient: int, n_neighbors: int) -> None:
    """The patient's most probable neighbors, and which of their features speak for the patient."""
    words = {0: "absent", 1: "present"}
    votes = posterior.votes_mean[patient]
    print(f"\nPatient {patient}, whose outcome was hidden")
    print(f"  the neighbors vote: disease {words[1]} {votes[1]:.0%}, {words[0]} {votes[0]:.0%}")
    print(f"  in truth: disease {words[int(outcomes[patient])]}")

    probability = posterior.z_mean[patient]
    shown = np.argsort(-probability, kind="stable")[:n_neighbors]
    # How probably a feature matters, given that its patient is a neighbor.
    matters = posterior.w_mean[patient, shown] / np.maximum(probability[shown, None], np.finfo(np.float32).tiny)
    agrees = codes[shown] == codes[patient]
    marks = np.where(agrees & (matters >= 0.5), "●", np.where(agrees, "○", "·"))

    values = ["?" if code != code else str(value) for code, value in zip(codes[patient], X.iloc[patient], strict=True)]
    width = max(map(len, values))
    print(f"\n  {'its neighbors':<{12 + width}}" + "".join(f"{f'#{b}':>9}" for b in shown))
    print(f"  {'P(neighbor)':<{12 + width}}" + "".join(f"{probability[b]:>9.2f}" for b in shown))
    print(f"  {'disease':<{12 + width}}" + "".join(f"{words[int(outcomes[b])]:>9}" for b in shown))
    for name, value, row in zip(X.columns, values, marks.T, strict=True):
        print(f"  {name:<11} {value:<{width}}" + "".join(f"{mark:>9}" for mark in row))
    print("\n  ● has the patient's value and probably matters   ○ has it, probably does not matter   · differs")


if __name__ == "__main__":
    main()
