"""Your own CSV file: read it, choose the coding of its columns, fit, explain a row, save the model.

``python examples/own_csv.py patients.csv --target outcome --id patient``. Without a file, the example creates a small
one with spaces, accents and missing values.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import bayespatch


def main() -> None:
    options = parse_options()
    settings = {"chains": 1, "draws": 20, "warmup": 20} if options.quick else {}
    options.out.mkdir(parents=True, exist_ok=True)
    if options.csv is None:
        options.csv, options.target, options.id = options.out / "patients.csv", "état à la sortie", "patient"
        made_up().to_csv(options.csv, index=False)

    table = pd.read_csv(options.csv)
    if options.id:
        table = table.set_index(options.id)  # the index names the cases; it is not a feature
    table = table[table[options.target].notna()]
    X, y = table.drop(columns=options.target), table[options.target]

    # Numbers are binned or compared by rank, text is categorical, and missing values are not compared here.
    # Pass bins={"age": [40, 60]} or windows={"weight (kg)": 10} to choose the coding of individual columns.
    clf = bayespatch.PatchworkClassifier(missing="ignore", random_state=0, **settings)
    clf.fit(X.iloc[:-1], y.iloc[:-1])
    for column in clf.schema_.columns:
        print(f"{column.name}: {column.kind}, {column.n_values:g} values")

    print(f"\n{clf.explain(X.iloc[-1])}\n\nKnown outcome: {y.iloc[-1]}.")
    model = options.out / "model.bpatch"
    clf.save(model, overwrite=True)
    assert (bayespatch.load(model).predict_proba(X) == clf.predict_proba(X)).all()
    print(f"\nSaved with the past cases: {model}")


def made_up(n: int = 80) -> pd.DataFrame:
    """Fictitious patients."""
    rng = np.random.default_rng(0)
    age = rng.integers(20, 90, n)
    fever = rng.choice(["oui", "non"], n)
    ill = rng.random(n) < np.where(fever == "oui", 0.75, 0.2)
    weight = pd.Series(rng.normal(72, 12, n).round(1)).mask(rng.random(n) < 0.1)
    return pd.DataFrame(
        {
            "patient": [f"P{k:03d}" for k in range(n)],
            "age": age,
            "fièvre": fever,
            "weight (kg)": weight,
            "service d'entrée": rng.choice(["médecine", "chirurgie", None], n, p=[0.5, 0.4, 0.1]),
            "état à la sortie": np.where(ill, "malade", "guéri"),
        }
    )


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("csv", type=Path, nargs="?", help="file with column names in row 1 (default: create one)")
    parser.add_argument("--target", default="outcome", help="column to predict (default: outcome)")
    parser.add_argument("--id", help="column with the names of the cases")
    parser.add_argument("--out", type=Path, default=Path("build/own_csv"), help="folder (default: build/own_csv)")
    parser.add_argument("--quick", action="store_true", help="short chains, for a quick test")
    return parser.parse_args()


if __name__ == "__main__":
    main()
