"""A small clinic whose table has all that tables have: spaces, accents, missing values, dates, identifiers."""

from __future__ import annotations

import csv
import random
from pathlib import Path

COLUMNS = ("patient no.", "âge", "douleur thoracique", "blood pressure", "admitted on", "outcome")
SHORT = ("--hyper", "default", "--chains", "2", "--draws", "10", "--warmup", "10")  # says little, takes no time


def cases(n: int = 40, seed: int = 0) -> list[list[str]]:
    """Rows of texts as they stand in a CSV file; older patients in pain are sick."""
    rng = random.Random(seed)
    rows = []
    for i in range(n):
        age, pain = rng.randint(25, 85), rng.choice(["aucune", "à l'effort", "au repos"])
        pressure = "" if i % 9 == 4 else str(rng.randint(100, 170))
        sick = age > 55 and pain != "aucune"
        day = f"2024-{1 + i % 12:02d}-{1 + i % 28:02d}"
        rows.append([f"P-{i:03d}", str(age), pain, pressure, day, "malade" if sick else "en bonne santé"])
    return rows


def write_csv(path: Path, n: int = 40, *, delimiter: str = ",", encoding: str = "utf-8", seed: int = 0) -> Path:
    """The table as a CSV file."""
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.writer(file, delimiter=delimiter)
        writer.writerow(COLUMNS)
        writer.writerows(cases(n, seed))
    return path
