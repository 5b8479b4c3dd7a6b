"""What if: change a patient's values, and see how the prediction and the closest past patients change.

This shows the model's prediction for a different patient; it does not show the effect of a treatment on this one.
``python examples/what_if.py``; ``--quick`` uses short chains for a quick test.
"""

from __future__ import annotations

import argparse

import bayespatch


def main() -> None:
    options = parse_options()
    settings = {"chains": 1, "draws": 20, "warmup": 20} if options.quick else {}
    X, y = bayespatch.datasets.load_heart()
    clf = bayespatch.PatchworkClassifier(random_state=0, **settings).fit(X.iloc[:-1], y.iloc[:-1])

    patient = X.iloc[-1].to_dict()
    one = clf.what_if(patient, {"cp": 4})
    print("\n".join(one.sentences()))

    print("\nOne value at a time:")
    for changes in ({"cp": 1}, {"thal": 7}, {"age": 70}, {"chol": 350}, {"cp": 4, "thal": 7, "ca": 2}):
        shift = clf.what_if(patient, changes).shift
        text = ", ".join(f"{name} {100 * points:+.0f} points" for name, points in shift.items())
        print(f"  {changes}: {text}")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="short chains, for a quick test")
    return parser.parse_args()


if __name__ == "__main__":
    main()
