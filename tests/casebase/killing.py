"""A process that works on a case base and is killed (SIGKILL) at a random moment; what it acknowledged is there."""

from __future__ import annotations

import json
import os
import random
import signal
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

from bayespatch.casebase import CaseBase
from bayespatch.casebase.refit import learn
from tests.casebase.clinic import BY, DICTIONARY, Places, patient, table
from tests.casebase.invariants import check

ACTIONS = ("import", "consult", "decide", "outcome", "refit", "promote", "forget")
# Which rows of the log show that an operation was done.
SHOWN = {"promote": ("promote", "roll back"), "forget": ("erase",), "outcome": ("outcome", "retain")}


def work(base: CaseBase, rng: random.Random, pipe: int) -> None:
    """Operations without end; each is announced, and acknowledged when it has returned."""
    n = 0
    while True:
        action = rng.choice(ACTIONS)
        _say(pipe, {"begins": action})
        _do(base, action, rng, n)
        _say(pipe, {"done": action, "number": base.audit(limit=1)[0].number})
        n += 1


def _say(pipe: int, message: dict[str, Any]) -> None:
    os.write(pipe, f"{json.dumps(message)}\n".encode())


def _do(base: CaseBase, action: str, rng: random.Random, n: int) -> None:
    if action == "import":
        rows = table(20, rng.randrange(10**6)).drop(columns="who")
        base.import_cases(rows, by=BY)
    elif action in ("consult", "decide", "outcome"):
        seen = base.consult(patient(rng), by=BY)
        if action == "decide":
            base.decide(seen.id, "sick", by=BY, reason="so it is")
        elif action == "outcome":
            base.outcome(seen.case_id, rng.choice([0, 1]), by=BY)
            base.retain(by=BY)
    elif action == "forget":
        base.forget(rng.choice([case.id for case in base.search(by=BY, state="past").items]), "asked for it", by=BY)
    else:
        model = learn(base._database, BY) if action == "refit" else None
        if action == "promote":
            retired = [one.version for one in base.models() if one.state in ("offered", "retired")]
            version = max(retired) if retired else learn(base._database, BY).version
            base.promote(version, by=BY)
        assert model is None or model.state == "offered"


def killed_once(url: str, folder: Path | None, seed: int, longest: float) -> str | None:
    """Let a process work and kill it; returns what it was at. Everything that it acknowledged is there and whole."""
    rng = random.Random(seed)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reader)
            warnings.simplefilter("ignore")
            base = CaseBase.open(url, folder=folder)
            base.model()
            _say(writer, {"ready": True})
            work(base, random.Random(seed + 1), writer)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        pipe.readline()  # ready
        time.sleep(rng.uniform(0.0, longest))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "it ended by itself"
        said = [json.loads(line) for line in pipe.read().splitlines()]
    with CaseBase.open(url, folder=folder) as base:
        log = check(base)
        for message in said:
            if "done" in message:
                shown = SHOWN.get(message["done"], (message["done"],))
                assert log[message["number"] - 1].action in shown, message
        left = list(base._database.folder.glob("moment-*")) if base._database.folder.exists() else []
        assert not left
        base.model()
    return said[-1].get("begins") if said else None


def killed_often(places: Places, times: int, longest: float = 0.5, seed: int = 0) -> Counter[str | None]:
    """Kill again and again, on the same base for a while; counts in what."""
    found: Counter[str | None] = Counter()
    url, folder = "", None
    for i in range(times):
        if i % 20 == 0:
            places.drop()
            url, folder = places.copy(), places.working
            with CaseBase.open(url, folder=folder) as base:
                assert base.dictionary is not None
                assert set(base.dictionary.names) | {"outcome"} == set(DICTIONARY)
        found[killed_once(url, folder, seed + 1000 * i, longest)] += 1
    places.drop()
    return found
