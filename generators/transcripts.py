"""Write docs/cli-transcripts.md by running sessions at a terminal.

``make pages GENERATORS=transcripts`` runs all sessions; ``python generators/transcripts.py TITLE`` runs only the named
ones. It needs the programs of a PostgreSQL server, psycopg and pyarrow.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

HOME = Path(__file__).parents[1]
sys.path.insert(0, str(HOME))

from generators.console import install_program, printed, shown
from tests.cli.clinic import write_csv
from tests.source.server import postgresql_server, why_no_server

PAGE = Path(__file__).parents[1] / "docs" / "cli-transcripts.md"
SHORT = "--chains 2 --draws 100 --warmup 50"
FIT = f"--target outcome --id 'patient no.' --drop 'admitted on' {SHORT}"

BEFORE = """# Sessions at a terminal

<!-- Written by generators/transcripts.py, which runs every command. -->

The demo uses default settings. The other sessions use short chains to save time; for real use, keep the defaults.
"""
SERVER = "A PostgreSQL server"

# Title -> commands.
SESSIONS: dict[str, list[str]] = {
    "The bundled data": ["bayespatch demo"],
    "A CSV file with spaces, accents, missing values and dates": [
        "head -4 patients.csv",
        "bayespatch fit patients.csv --target outcom",
        f"bayespatch fit patients.csv --target outcome --id 'patient no.' {SHORT}",
        f"bayespatch fit patients.csv {FIT}",
        "bayespatch info model.bpatch",
        "bayespatch predict model.bpatch new.csv --id 'patient no.' --out predictions.csv --intervals",
        "cat predictions.csv",
        "printf 'âge,douleur thoracique,blood pressure\\n70,au repos,130\\n4,inconnue,250\\n' > odd-one.csv; "
        "bayespatch predict model.bpatch odd-one.csv --abstain",
        "bayespatch explain model.bpatch new.csv --row 2 --top 3",
        "bayespatch explain model.bpatch --id P-003 --out P-003.html",
        'bayespatch explain model.bpatch --json-row \'{"âge": 70, "douleur thoracique": "au repos", '
        '"blood pressure": null}\' --json | python -c \'import json, sys; print(json.load(sys.stdin)["prediction"])\'',
        "bayespatch report model.bpatch --out model.html",
        f'bayespatch fit patients.csv {FIT}; echo "exit code $?"',
    ],
    "A Parquet file": [f"bayespatch fit patients.parquet {FIT} --out parquet.bpatch"],
    "A SQLite file": [
        f"bayespatch fit sqlite:///clinic.db --query 'SELECT * FROM patients' {FIT} --out sqlite.bpatch",
        "bayespatch predict sqlite.bpatch sqlite:///clinic.db --query 'SELECT * FROM patients LIMIT 3'",
    ],
    SERVER: [
        f"bayespatch fit \"$CLINIC\" --query 'SELECT * FROM patients' {FIT} --out postgresql.bpatch",
        "bayespatch predict postgresql.bpatch \"$CLINIC\" --query 'SELECT * FROM patients LIMIT 3'",
    ],
    "Comparison with other methods": [
        f"bayespatch compare patients.csv {FIT} --hyper default --folds 3",
    ],
    "A table with dates, identifiers and missing values": [
        "head -3 wine.csv",
        "bayespatch describe wine.csv --target cultivar --dictionary wine-dictionary.csv",
        "bayespatch fit wine.csv --target cultivar",
        "bayespatch fit wine.csv --target cultivar --days bottled --as-of tasted",
        "sed -i 's/^alcohol,,number,,/alcohol,alcohol by volume,number,%,/; s/^cultivar,,number,,0;1;2/"
        "cultivar,grape,number,,0=Barolo;1=Grignolino;2=Barbera/' wine-dictionary.csv; grep '^alcohol,\\|^cultivar' "
        "wine-dictionary.csv",
        f"bayespatch fit wine.csv --target cultivar --days bottled --as-of tasted --dictionary wine-dictionary.csv "
        f"--drop cellar --drop grape_code {SHORT} --out wine.bpatch",
        "gzip -c new-wine.csv | bayespatch predict wine.bpatch - --id sample_no --worklist",
        "bayespatch what-if wine.bpatch new-wine.csv --row 0 --set 'alcohol by volume=12' --set proline=400 | head -8",
        "bayespatch counterfactual wine.bpatch new-wine.csv --row 0 --change proline --change alcohol | head -5",
        "bayespatch explain wine.bpatch new-wine.csv --row 0 --out wine.pdf; head -c 8 wine.pdf",
        "bayespatch explain wine.bpatch new-wine.csv --row 0 --out wine.docx",
    ],
    "From a table to a page with two commands": [
        f"bayespatch fit tumors.csv.gz --target diagnosis --id patient_id --labels 0=malignant,1=benign {SHORT} "
        f"--out tumors.bpatch",
        "bayespatch explain tumors.bpatch --row 7 --out tumor.html",
        f"bayespatch fit iris.xlsx --target species {SHORT} --out iris.bpatch",
        "bayespatch explain iris.bpatch --row 7 --out iris.html",
        "bayespatch explain wine.bpatch --row 7 --out wine.html",
    ],
    "Unreadable files": [
        "bayespatch fit nothing.csv --target outcome --out none.bpatch",
        ": > empty.csv; bayespatch fit empty.csv --target outcome --out none.bpatch",
        "bayespatch fit /bin/sh --target outcome --out none.bpatch",
        "printf 'a,b,outcome\\n1,2,yes\\n3,no\\n' > ragged.csv; "
        "bayespatch fit ragged.csv --target outcome --out none.bpatch",
        "printf 'a:b:outcome\\n1:2:yes\\n' > odd.csv; bayespatch fit odd.csv --target outcome --out none.bpatch",
    ],
}


def main(only: list[str]) -> None:
    """Create the tables, run all sessions or only the named ones, and write the page."""
    sections = (
        {part.partition("\n")[0]: part for part in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]} if only else {}
    )
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder = Path(temporary)
        make_tables(folder)
        for title, lines in SESSIONS.items():
            if only and title not in only:
                continue
            more = {}
            if title == SERVER:
                if (missing := why_no_server()) is not None:
                    sys.exit(f"{title} cannot be shown: {missing}")
                more["CLINIC"] = stack.enter_context(postgresql_server())
                fill(more["CLINIC"], folder / "patients.csv")
            sections[title] = session(title, lines, folder, more)
    PAGE.write_text("\n## ".join([BEFORE, *(sections[title] for title in SESSIONS)]), encoding="utf-8")


def session(title: str, lines: list[str], folder: Path, more: dict[str, str]) -> str:
    """A title and commands with their output."""
    return f"{title}\n\n{shown([(line, printed(line, folder, **more)) for line in lines])}"


def make_tables(folder: Path) -> None:
    """Write the tables and install the program."""
    import sqlite3

    from bayespatch.source import read

    write_csv(folder / "patients.csv", 60)
    newcomers(folder)
    write_csv(folder / "new.csv", 5, seed=9)
    frame = read(str(folder / "patients.csv"))
    frame.to_parquet(folder / "patients.parquet", index=False)
    connection = sqlite3.connect(folder / "clinic.db")
    frame.to_sql("patients", connection, index=False)
    connection.close()
    install_program(folder)


def newcomers(folder: Path) -> None:
    """Write UCI tables that are not bundled, with realistic identifiers, dates, missing values and codes."""
    import numpy as np
    import pandas as pd
    from sklearn import datasets

    rng = np.random.default_rng(0)
    wine = datasets.load_wine(as_frame=True)
    frame = wine.data.iloc[:, [0, 1, 5, 6, 9, 12]].copy()
    frame.insert(0, "sample_no", 1000 + np.arange(len(frame)))
    bottled = pd.Timestamp("1985-01-01") + pd.to_timedelta(rng.integers(0, 900, len(frame)), unit="D")
    tasted = bottled + pd.to_timedelta(rng.integers(100, 900, len(frame)), unit="D")
    frame["bottled"], frame["tasted"] = bottled.strftime("%d.%m.%Y"), tasted.strftime("%d.%m.%Y")
    frame["cellar"] = "A"
    frame["proline"] = frame["proline"].mask(rng.random(len(frame)) < 0.05)
    frame["grape_code"] = wine.target.map({0: "B1", 1: "G1", 2: "B2"})
    frame["cultivar"] = wine.target.astype("Int64").mask(rng.random(len(frame)) < 0.02)
    shuffled = frame.sample(frac=1.0, random_state=0)
    shuffled.iloc[6:].to_csv(folder / "wine.csv", index=False, na_rep="?")
    shuffled.iloc[:6].drop(columns=["cultivar", "grape_code"]).to_csv(folder / "new-wine.csv", index=False, na_rep="?")
    tumors = datasets.load_breast_cancer(as_frame=True)
    frame = tumors.data.iloc[:, :6].copy()
    frame.insert(0, "patient_id", 842000 + 13 * np.arange(len(frame)))
    frame = frame.mask((rng.random(frame.shape) < 0.03) & (frame.columns != "patient_id"))
    frame.assign(diagnosis=tumors.target).to_csv(folder / "tumors.csv.gz", index=False)
    iris = datasets.load_iris(as_frame=True)
    species = iris.target.map(dict(enumerate(iris.target_names)))
    iris.data.mask(rng.random(iris.data.shape) < 0.03).assign(species=species).to_excel(
        folder / "iris.xlsx", index=False
    )


def fill(url: str, table: Path) -> None:
    """Copy a table to the server."""
    import psycopg

    from bayespatch.source import read

    frame = read(str(table))
    names = ", ".join(f'"{name}" {"integer" if frame[name].dtype.kind in "if" else "text"}' for name in frame.columns)
    rows = frame.astype(object).where(frame.notna(), None).to_numpy().tolist()
    with psycopg.connect(url) as connection:
        connection.execute(f"CREATE TABLE patients ({names})".encode())
        places = ", ".join(["%s"] * frame.shape[1])
        connection.cursor().executemany(f"INSERT INTO patients VALUES ({places})".encode(), rows)


if __name__ == "__main__":
    main(sys.argv[1:])
