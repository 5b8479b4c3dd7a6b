"""A table with several rows of each patient."""

import random


def visits(folder, n=480):
    """Four nearly identical rows of each of 120 patients, with random outcomes."""
    rng = random.Random(0)
    patients = [[rng.gauss(60, 10), rng.gauss(130, 15), rng.choice(["f", "m"])] for _ in range(n // 4)]
    lines = ["patient,age,pressure,sex,outcome"]
    for i in range(n):
        age, pressure, sex = patients[i // 4]
        lines.append(f"{i // 4},{age:.1f},{pressure + rng.gauss(0, 0.1):.2f},{sex},{rng.choice(['well', 'sick'])}")
    (folder / "visits.csv").write_text("\n".join(lines) + "\n")
    return folder / "visits.csv"
