"""Ways to change an audit log behind its back."""

from __future__ import annotations

import random
from typing import Any

from sqlalchemy import Connection, text

KINDS = ("change", "remove", "cut", "swap", "move", "copy", "add")


def tamper(connection: Connection, kind: str, rng: random.Random) -> Any:
    """Change the log; returns what was done. It always differs from before."""
    rows = connection.execute(text("SELECT * FROM audit ORDER BY number")).all()
    row = rng.choice(rows)
    last = rows[-1].number

    def run(statement: str, **values: Any) -> None:
        connection.execute(text(statement), values)

    if kind == "change":
        column = rng.choice(("at", "by", "action", "case_id", "details", "hash"))
        old = getattr(row, column)
        if column == "case_id":
            new: Any = rng.choice([i for i in (None, 1, 2, 3, 99) if i != old])
        else:
            i = rng.randrange(len(old))
            new = old[:i] + rng.choice([c for c in "aZ09 é" if c != old[i]]) + old[i + 1 :]
        run(f'UPDATE audit SET "{column}" = :new WHERE number = :n', new=new, n=row.number)
        return kind, row.number, column, new
    if kind == "remove":
        run("DELETE FROM audit WHERE number = :n", n=row.number)
        if rng.random() < 0.5:  # and close the gap
            for number in range(row.number + 1, last + 1):
                run("UPDATE audit SET number = number - 1 WHERE number = :n", n=number)
        return kind, row.number
    if kind == "cut":
        run("DELETE FROM audit WHERE number >= :n", n=row.number)
        return kind, row.number
    if kind == "swap":
        other = rng.choice([one for one in rows if one.number != row.number])
        run("UPDATE audit SET number = -1 WHERE number = :n", n=row.number)
        run("UPDATE audit SET number = :n WHERE number = :m", n=row.number, m=other.number)
        run("UPDATE audit SET number = :m WHERE number = -1", m=other.number)
        return kind, row.number, other.number
    if kind == "move":
        run("UPDATE audit SET number = :m WHERE number = :n", n=row.number, m=last + rng.randint(1, 3))
        return kind, row.number
    copied = row if kind == "copy" else rows[-1]
    values = {**copied._mapping, "number": last + 1 if rng.random() < 0.5 else last + 2}
    if kind == "add":
        values["by"] = "nobody"
    names = ", ".join(f'"{name}"' for name in values)
    run(f"INSERT INTO audit ({names}) VALUES ({', '.join(f':{name}' for name in values)})", **values)
    return kind, values["number"]
