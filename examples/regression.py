"""A number as outcome: the highest heart rate of a patient, as a distribution, from patients like this one.

``python examples/regression.py``; ``--quick`` takes few patients and short chains, to see that it runs.
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
    print(f"saying the median every time: {mean_absolute_error(y_new, always.predict(new)):.1f}")

    low, high = model.predict_interval(new, level=0.8).T
    inside = np.mean((low <= y_new) & (y_new <= high))
    print(f"80 % intervals: {inside:.0%} of the patients inside, {np.mean(high - low):.0f} beats wide on average")

    print("\nquantiles of five patients (10 %, 50 %, 90 %), and the truth:")
    for quantiles, truth in zip(model.predict_quantiles(new.iloc[:5], [0.1, 0.5, 0.9]), y_new, strict=False):
        print(f"  {quantiles.round().tolist()}  {truth:.0f}")

    who = model.neighbors(new.iloc[:1], top=4)
    print("\nneighbors of the first (rows of the training table) and their heart rates:")
    print(f"  {who.rows[0].tolist()}  {y_past.iloc[who.rows[0]].tolist()}")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few patients, short chains: to see that it runs")
    return parser.parse_args()


if __name__ == "__main__":
    main()
