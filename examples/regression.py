"""A numeric outcome: predict the distribution of a patient's maximum heart rate from similar patients.

``python examples/regression.py``; ``--quick`` uses few patients and short chains for a quick test.
"""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.dummy import DummyRegressor
from sklearn.metrics import mean_absolute_error
from sklearn.model_selection import train_test_split

import bayespatch


def main() -> None:
    options = parse_options()
    settings = {"chains": 1, "draws": 20, "warmup": 20} if options.quick else {}
    X, _ = bayespatch.datasets.load_heart()
    if options.quick:
        X = X.iloc[:100]
    y = X.pop("thalach")
    past, new, y_past, y_new = train_test_split(X, y, test_size=0.2, random_state=0)

    model = bayespatch.PatchworkRegressor(random_state=0, **settings).fit(past, y_past)
    always = DummyRegressor(strategy="median").fit(past, y_past)
    print(f"mean absolute error: {mean_absolute_error(y_new, model.predict(new)):.1f} beats per minute")
    print(f"always predicting the median: {mean_absolute_error(y_new, always.predict(new)):.1f}")

    low, high = model.predict_interval(new, level=0.8).T
    inside = np.mean((low <= y_new) & (y_new <= high))
    print(f"80% intervals: cover {inside:.0%} of the patients, mean width {np.mean(high - low):.0f} beats per minute")

    print("\npredicted quantiles (10%, 50%, 90%) and observed value of five patients:")
    for quantiles, truth in zip(model.predict_quantiles(new.iloc[:5], [0.1, 0.5, 0.9]), y_new, strict=False):
        print(f"  {quantiles.round().tolist()}  {truth:.0f}")

    rows = model.neighbors(new.iloc[:1], top=4).rows[0]
    print("\nneighbors of the first patient (rows of the training table) and their heart rates:")
    print(f"  {rows.tolist()}  {y_past.iloc[rows].tolist()}")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few patients and short chains, for a quick test")
    return parser.parse_args()


if __name__ == "__main__":
    main()
