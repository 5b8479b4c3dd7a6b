"""The folder of the study: tables, figures and a record of each finished part, all written atomically."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from textwrap import fill
from typing import Any

from bayespatch.version import __version__
from study.figures import PICTURES, to_png
from study.parts import PARTS, Context, Part
from study.tables import Table, write_atomically

PACKAGES = ("numpy", "scipy", "scikit-learn", "numba")
MAX_MARKDOWN_ROWS = 250  # longer tables are only for programs and figures


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that the results depend on."""
    return {
        "python": platform.python_version(),
        "bayespatch": __version__,
        **{name: metadata.version(name) for name in PACKAGES},
    }


class Results(Mapping[str, Table]):
    """The tables in a folder by name, and the finished parts.

    Examples
    --------
    >>> import tempfile
    >>> len(Results(Path(tempfile.mkdtemp())))
    0
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __getitem__(self, name: str) -> Table:
        path = self.folder / "tables" / f"{name}.csv"
        if not path.exists():
            raise KeyError(name)
        return Table.from_csv(name, path.read_text(encoding="utf-8"))

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(path.stem for path in (self.folder / "tables").glob("*.csv")))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def record(self, part: Part) -> dict[str, Any] | None:
        """The record of a finished part: key, seconds, versions, tables."""
        path = self.folder / "parts" / f"{part.name}.json"
        try:
            record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return record

    def is_finished(self, part: Part, context: Context) -> bool:
        """Whether this part has been run with these settings and its tables exist."""
        record = self.record(part)
        return (
            record is not None and record["key"] == key_of(part, context) and all(n in self for n in record["tables"])
        )

    def holds_full_study(self) -> bool:
        """Whether the folder contains a part of the full study, which a quick study must not replace."""
        records = [self.record(part) for part in PARTS]
        return any(not record["key"]["quick"] for record in records if record is not None)

    def store(self, part: Part, context: Context, tables: list[Table], seconds: float) -> None:
        """Write the tables of a part and then the record that marks it as finished."""
        record = {
            "key": key_of(part, context),
            "seconds": round(seconds, 2),
            "versions": versions(),
            "tables": [table.name for table in tables],
        }
        for table in tables:
            path = self.folder / "tables" / f"{table.name}.csv"
            write_atomically(path, table.to_csv())
            if len(table.rows) <= MAX_MARKDOWN_ROWS:
                text = f"# {table.caption}\n\n{table.to_markdown()}\n\n{fill(about(record), 120)}\n"
                write_atomically(path.with_suffix(".md"), text)
        write_atomically(self.folder / "parts" / f"{part.name}.json", json.dumps(record, indent=1) + "\n")

    def draw(self, changed: set[str], context: Context) -> list[str]:
        """Draw the figures that are missing or whose tables have changed; returns their names."""
        names = []
        for picture in PICTURES:
            path = self.folder / "figures" / f"{picture.name}.png"
            if any(name not in self for name in picture.needs):
                continue
            if path.exists() and not changed & set(picture.needs):
                continue
            packages = versions()
            source = f"seed {context.seed}, bayespatch {packages['bayespatch']}"
            write_atomically(path, to_png(picture.draw({name: self[name] for name in picture.needs}), source))
            names.append(picture.name)
        return names


def key_of(part: Part, context: Context) -> dict[str, Any]:
    """Everything that the results of a part depend on; if it is unchanged, they are not recomputed."""
    from study.protocol import QUICK

    return {
        "part": part.name,
        "seed": context.seed,
        "quick": context.sizes == QUICK,
        "version": __version__,
        "sizes": asdict(context.sizes),
    }


def about(record: Mapping[str, Any]) -> str:
    """The source of a table in one line."""
    key = record["key"]
    packages = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    size = "quick" if key["quick"] else "full"
    return f"*{size} study, part {key['part']}, seed {key['seed']}, {record['seconds']} s; {packages}*"
