"""A small clinic: what its cases are, and where its case base is, in SQLite or in PostgreSQL."""

from __future__ import annotations

import itertools
import random
import shutil
import warnings
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text

from bayespatch.casebase import CaseBase
from bayespatch.casebase.refit import learn

BY = "tester"
DICTIONARY: dict[str, Any] = {
    "age": {"kind": "number", "unit": "years", "usual": [18, 95], "possible": [0, 120]},
    "pain": {"label": "chest pain", "levels": {1: "typical", 2: "atypical", 3: "none"}},
    "bp": {"kind": "number", "label": "blood pressure", "unit": "mmHg"},
    "smokes": {"kind": "boolean"},
    "town": {"kind": "text", "sensitive": True},
    "outcome": {"label": "heart disease", "levels": {0: "well", 1: "sick"}},
}
FEATURES = tuple(name for name in DICTIONARY if name != "outcome")
QUICK = {"hyper": {}, "chains": 2, "draws": 8, "warmup": 4, "n_jobs": 1}  # says little, takes no time
_NUMBERS = itertools.count(1)
TOWNS = ("Ulm", "Jena", "Köln")


def patient(rng: random.Random) -> dict[str, Any]:
    """The values of someone."""
    return {
        "age": rng.randint(25, 85),
        "pain": rng.choice([1, 2, 3]),
        "bp": None if rng.random() < 0.2 else round(rng.uniform(95, 175), 1),
        "smokes": rng.random() < 0.4,
        "town": rng.choice(TOWNS),
    }


def outcome(values: dict[str, Any]) -> int:
    return int(values["age"] > 50 and values["pain"] != 3)


def table(n: int = 30, seed: int = 0) -> Any:
    """Past cases as a data frame, the external ids in the column "who"."""
    import pandas

    rng = random.Random(seed)
    rows = [patient(rng) for _ in range(n)]
    return pandas.DataFrame([{"who": f"P-{i:03d}", **row, "outcome": outcome(row)} for i, row in enumerate(rows)])


def fill(base: CaseBase, n: int = 30) -> None:
    """Past cases, and a model of them."""
    base.import_cases(table(n), by=BY, target="outcome", id_column="who", dictionary=DICTIONARY)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        base.promote(learn(base._database, BY, QUICK).version, by=BY)


class Places:
    """Gives out case bases, each new: empty ones, and copies of one that is filled."""

    def __init__(self, folder: Path, server: str | None) -> None:
        self.folder, self.server, self.n = folder, server, 0  # n: the last one given out
        self.filled: str | None = None
        self.made: list[str] = []

    def empty(self) -> str:
        """The URL of a database in which there is nothing."""
        self.n = next(_NUMBERS)
        if self.server is None:
            return f"sqlite:///{self.folder}/clinic-{self.n}.db"
        self._ask(f"CREATE DATABASE clinic_{self.n}")
        self.made.append(f"clinic_{self.n}")
        return self.server.replace("/postgres?", f"/clinic_{self.n}?")

    def copy(self) -> str:
        """The URL of a case base with 30 past cases and an active model."""
        if self.filled is None:
            self.filled = self.empty()
            self.made.clear()  # it stays
            with CaseBase.open(self.filled, folder=self.working) as base:
                fill(base)
        if self.server is None:
            url = self.empty()
            shutil.copy(self.filled.removeprefix("sqlite:///"), url.removeprefix("sqlite:///"))
            return url
        self.n = next(_NUMBERS)
        template = self.filled.split("?")[0].rpartition("/")[2]
        self._ask(f"CREATE DATABASE clinic_{self.n} TEMPLATE {template}")
        self.made.append(f"clinic_{self.n}")
        return self.server.replace("/postgres?", f"/clinic_{self.n}?")

    @property
    def working(self) -> Path | None:
        """The folder for files that exist for moments."""
        return None if self.server is None else self.folder / f"work-{self.n}"

    def open(self, url: str, **options: Any) -> CaseBase:
        return CaseBase.open(url, folder=self.working, **options)

    def drop(self) -> None:
        """Remove what was given out: a database takes 8 MB."""
        while self.made:
            self._ask(f"DROP DATABASE {self.made.pop()} WITH (FORCE)")

    def _ask(self, statement: str) -> None:
        assert self.server is not None
        engine = create_engine(self.server.replace("postgresql://", "postgresql+psycopg://"))
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text(statement))
        engine.dispose()
