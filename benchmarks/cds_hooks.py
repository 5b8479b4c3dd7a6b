"""CDS Hooks under load: cards at a steady rate, each for a different patient, user and encounter.

``python benchmarks/cds_hooks.py`` imports an export of synthetic patients (`tests/fhir/synthetic.py`), fits a model,
starts ``bayespatch serve --record-systems`` on the loopback address and sends `--rate` hooks a second for `--seconds`,
each with a signed token and the prefetched resources, whether or not earlier ones were answered. Latency is
measured from the scheduled time of a hook. Target: 95% of the cards within half a second.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from serve import Server

sys.path.insert(0, str(Path(__file__).parents[1]))

WANTED = 0.5  # seconds, for 95 of 100
PATH = "/cds-services/patient-view"


class HookServer(Server):
    """A running server that answers record systems."""

    def _ask(self, number: int) -> None:
        content, headers = request(self.address, 10**6 + number)
        httpx.post(f"{self.address}{PATH}", content=content, headers=headers, timeout=120).raise_for_status()


def request(address: str, number: int) -> tuple[str, dict[str, str]]:
    """A hook about a patient, and its headers."""
    from tests.fhir.synthetic import record, search
    from tests.web.record_system import hook, token

    resources = record(number, seed=1, since=(datetime.now(UTC) - timedelta(days=300)).date())
    prefetch = {key: search(resources, template) for key, template in templates().items()}
    body = hook(who=f"p{number}", prefetch=prefetch, encounterId=f"e{number}")
    body["context"]["userId"] = f"Practitioner/{number % 50}"
    headers = {"Authorization": f"Bearer {token('', aud=f'{address}{PATH}')}", "Content-Type": "application/json"}
    return json.dumps(body), headers


@cache
def templates() -> dict[str, str]:
    """The prefetch templates of the service."""
    from bayespatch.fhir import Mapping
    from tests.fhir.synthetic import MAPPING

    return Mapping.load(MAPPING).prefetch()


async def load(address: str, rate: float, seconds: float, first: int) -> dict[str, Any]:
    """Hooks at a steady rate; how they were answered."""
    requests = [request(address, first + i) for i in range(int(rate * seconds))]
    statuses: Counter[int] = Counter()
    times: list[float] = []
    async with httpx.AsyncClient(timeout=60) as client:
        begin = time.perf_counter()

        async def one(i: int) -> None:
            due = begin + i / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            content, headers = requests[i]
            answer = await client.post(f"{address}{PATH}", content=content, headers=headers)
            statuses[answer.status_code] += 1
            times.append(time.perf_counter() - due)
            assert answer.status_code != 200 or len(answer.json()["cards"]) == 1

        await asyncio.gather(*(one(i) for i in range(len(requests))))
    quantiles = {f"p{q}": round(float(np.percentile(times, q)), 3) for q in (50, 95, 99, 100)}
    return {"sent": len(requests), "answers": dict(statuses), "seconds": quantiles}


def fill(folder: Path, n: int) -> None:
    """A case base with the records of past patients, and a model of them."""
    from bayespatch.casebase import CaseBase
    from bayespatch.casebase.refit import learn
    from bayespatch.fhir import Mapping, read_bulk, to_frame
    from bayespatch.web.demo import QUICK
    from tests.fhir.synthetic import MAPPING, write_export

    write_export(folder / "export", n)
    mapping = Mapping.load(MAPPING)
    frame = to_frame(read_bulk(folder / "export", mapping), mapping)
    with CaseBase.open(folder / "clinic.db") as base:
        base.import_cases(frame, by="benchmark", target="infarction", id_column="patient", group_column="patient")
        base.promote(learn(base._database, "benchmark", QUICK).version, by="benchmark")
        base.people.accept(base.people.invite("load", "clinician", by="benchmark"), "no password")


def main() -> None:
    from tests.fhir.synthetic import MAPPING
    from tests.web.record_system import write_settings

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=20.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--patients", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        print("learning", file=sys.stderr)
        fill(folder, options.patients)
        systems = write_settings(folder, mapping=MAPPING)
        settings = ("--record-systems", systems, "--workers", str(options.workers), "--threads", "1")
        result: dict[str, Any] = {"cores": os.cpu_count(), "load_before": os.getloadavg()[0], **vars(options)}
        server = HookServer(str(folder / "clinic.db"), "", *settings)
        try:
            asyncio.run(load(server.address, options.rate, 5, 10_000))
            result["steady"] = asyncio.run(load(server.address, options.rate, options.seconds, 20_000))
        finally:
            server.stop()
    result["within"] = result["steady"]["seconds"]["p95"] <= WANTED and set(result["steady"]["answers"]) == {200}
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
