"""Write the worked example in docs/casebase.md by running every command.

``make pages GENERATORS=casebase_page``
"""

from __future__ import annotations

import csv
import re
import sys
import tempfile
import textwrap
from pathlib import Path

HOME = Path(__file__).parents[1]
sys.path[:0] = [str(HOME), str(HOME / "src")]

from generators.console import install_program, printed, shown

PAGE = Path(__file__).parents[1] / "docs" / "casebase.md"
PATIENT = 20  # row of the heart data used as the new patient
ONE = '"=H-7741"'
COUNT = "find . -path './clinic.db*' -type f -exec cat {} + | grep -c -a -e 'H-7741' -e 'cousin'"

# Introductory text and commands of each step.
WALK: list[tuple[str, list[str]]] = [
    (
        "The clinic starts with 302 past patients (the bundled heart data without one patient) and a data dictionary.",
        [
            "head -4 columns.csv",
            "bayespatch casebase init clinic.db",
            "bayespatch casebase import clinic.db patients.csv --target num --id patient --dictionary columns.csv "
            "--by registry",
            "bayespatch casebase refit clinic.db --by steward",
            "bayespatch casebase promote clinic.db 1 --by steward",
        ],
    ),
    (
        "**First visit.** A new patient arrives. A mistyped blood pressure is rejected; then the model answers and "
        "lists the closest past cases by number.",
        [
            "bayespatch casebase consult clinic.db --id H-7741 --by 'Dr. Roe' --values '{mistyped}'",
            "bayespatch casebase consult clinic.db --id H-7741 --by 'Dr. Roe' --values '{values}'",
        ],
    ),
    (
        "**Override.** Dr. Roe disagrees, which requires a reason.",
        [
            "bayespatch casebase decide clinic.db {consultation} {other} --by 'Dr. Roe'",
            "bayespatch casebase decide clinic.db {consultation} {other} --by 'Dr. Roe' "
            "--reason 'his cousin, a nurse, saw the attack'",
        ],
    ),
    (
        "**Outcome.** The outcome is recorded months later. A second outcome is rejected.",
        [
            f"bayespatch casebase outcome clinic.db {ONE} {{outcome}} --by registry",
            f"bayespatch casebase outcome clinic.db {ONE} {{outcome}} --by registry",
            "bayespatch casebase drift clinic.db --every all --by steward",
        ],
    ),
    (
        "**Retain.** The patient is now a past case, and the next refit learns from 303 cases. The steward sees a "
        "comparison with the active version and promotes the new one.",
        [
            "bayespatch casebase retain clinic.db --by registry",
            "bayespatch casebase refit clinic.db --by steward",
            "bayespatch casebase promote clinic.db 2 --by steward",
            "bayespatch casebase models clinic.db",
        ],
    ),
    (
        "**Forget.** The patient asks to be forgotten. Before `forget`, the files contain the name and the reason "
        "for the override (`grep` counts the lines with either); afterwards they do not.",
        [
            COUNT,
            f"bayespatch casebase forget clinic.db {ONE} --reason 'asked for it in writing' --by steward",
            COUNT,
            "bayespatch casebase search clinic.db --where 'id=303' --by steward",
            "bayespatch casebase log clinic.db --case 303",
            "bayespatch casebase models clinic.db",
            "bayespatch casebase verify clinic.db",
            "bayespatch casebase backup clinic.db backup.db --by steward",
        ],
    ),
]


def main() -> None:
    """Create the tables, run the commands and insert their output into the page."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        values = make_tables(folder)
        steps = [f"{textwrap.fill(before, 120)}\n\n{session(lines, folder, values)}" for before, lines in WALK]
    page = PAGE.read_text(encoding="utf-8")
    begin, end = re.search(r"<!-- begin.*-->\n", page), page.index("<!-- end -->")
    assert begin is not None
    PAGE.write_text(page[: begin.end()] + "\n" + "\n".join(steps) + "\n" + page[end:], encoding="utf-8")


def session(lines: list[str], folder: Path, values: dict[str, str]) -> str:
    """The commands with their output."""
    session = []
    for line in lines:
        for name, value in values.items():
            line = line.replace(f"{{{name}}}", value)
        output = printed(line, folder)
        session.append((line, output))
        match = re.search(r"consultation +(\d+), case", output)
        if match is not None:  # later commands need these values
            values["consultation"] = match[1]
            sick = output.partition(", heart disease ")[2].partition("%")[0]
            values["other"] = "'no heart disease'" if int(sick) >= 50 else "'heart disease'"
    return shown(session)


def make_tables(folder: Path) -> dict[str, str]:
    """Write the past patients and the data dictionary, install the program, and return values for the commands."""
    import json

    from bayespatch.datasets import load_heart

    X, y = load_heart()
    table = X.astype(object).where(X.notna(), None).assign(num=y, patient=[f"P-{i:03d}" for i in range(len(X))])
    table.drop(index=table.index[PATIENT]).to_csv(folder / "patients.csv", index=False)
    labels = {**X.attrs["labels"], "num": y.attrs["labels"]}
    usual = {"age": (29, 77), "trestbps": (94, 200), "chol": (126, 564), "thalach": (71, 202), "oldpeak": (0, 6.2)}
    possible = {"age": (0, 120), "trestbps": (40, 300), "chol": (50, 1000), "thalach": (30, 250), "oldpeak": (0, 10)}
    with (folder / "columns.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "label", "kind", "levels", "usual", "possible"])
        for name in [*X.columns, "num"]:
            levels = ";".join(f"{value}={label}" for value, label in labels.get(name, {}).items())
            spans = ["..".join(map(str, span[name])) if name in span else "" for span in (usual, possible)]
            label = X.attrs["descriptions"].get(name, "heart disease")
            writer.writerow([name, label, "number", levels, *spans])
    patient = {name: None if value is None else float(value) for name, value in table[X.columns].iloc[PATIENT].items()}
    patient = {
        name: int(value) if value is not None and value.is_integer() else value for name, value in patient.items()
    }
    install_program(folder)
    return {
        "values": json.dumps(patient),
        "mistyped": json.dumps({**patient, "trestbps": 1400}),
        "outcome": f"'{y.attrs['labels'][int(y.iloc[PATIENT])]}'",
    }


if __name__ == "__main__":
    main()
