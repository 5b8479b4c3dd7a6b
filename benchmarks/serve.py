"""The service under load: consultations at a steady rate, at three times that rate, and a server that is killed.

``python benchmarks/serve.py`` starts ``bayespatch serve`` on a case base with the heart data and sends consultations
(with a Monte Carlo error of one point, each for a different patient) at scheduled times, whether or not earlier ones
were answered. Latency is measured from the scheduled time.

* steady: `--rate` per second for `--seconds`; target: 99% below 500 ms, no error, constant memory
* flood: three times that rate; excess requests get 503 and Retry-After; then the steady rate again
* kill: the server is killed with SIGKILL under load; every acknowledged consultation is in the case base
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from bayespatch.casebase import CaseBase
from bayespatch.datasets import load_heart
from bayespatch.web import demo

WANTED = 0.5  # seconds, for 99 of 100
RUN = [sys.executable, "-c", "from bayespatch.cli import main; main()", "serve"]


class Server:
    """A server in a separate process, and a token for it."""

    def __init__(self, url: str, token: str, *options: str) -> None:
        self.url, self.token = url, token
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        command = [*RUN, "--casebase", url, "--port", str(self.port), "--rate", "1000000", *options]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                if httpx.get(f"{self.address}/health", timeout=2).status_code == 200:
                    break
            except httpx.HTTPError:
                time.sleep(0.1)
        with ThreadPoolExecutor(4) as pool:  # every worker loads the model and its kernels
            list(pool.map(self._ask, range(16)))

    def _ask(self, number: int) -> None:
        body = {"values": patient(number)}
        httpx.post(f"{self.address}/api/v1/answers", json=body, headers=self.headers, timeout=120)

    @property
    def headers(self) -> dict[str, str]:
        """The headers of every request."""
        return {"Authorization": f"Bearer {self.token}"}

    def gauges(self) -> dict[str, float]:
        """Memory in MiB and processor seconds of the server and its workers together."""
        stats = {}  # of every process: who began it, processor time in ticks, memory in pages
        for file in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it has ended
                fields = file.read_text().rpartition(")")[2].split()
                stats[int(file.parent.name)] = int(fields[1]), int(fields[11]) + int(fields[12]), int(fields[21])
        own = {self.process.pid}
        while more := {pid for pid, (parent, _, _) in stats.items() if parent in own} - own:
            own |= more
        ticks, pages = (sum(stats[pid][k] for pid in own if pid in stats) for k in (1, 2))
        return {
            "mib": round(pages * os.sysconf("SC_PAGE_SIZE") / 2**20, 1),
            "cpu": ticks / os.sysconf("SC_CLK_TCK"),
        }

    def stop(self) -> None:
        """Stop it as an operator would."""
        self.process.terminate()
        self.process.wait(30)


def patient(number: int) -> dict[str, Any]:
    """A simulated patient: each value is drawn at random from the heart data."""
    X, _ = load_heart()
    rng = random.Random(number)
    row = {name: X[name].iloc[rng.randrange(len(X))] for name in X.columns}
    return {name: None if value != value else float(value) for name, value in row.items()}


async def load(server: Server, rate: float, seconds: float, first: int, shared: bool = False) -> dict[str, Any]:
    """Consultations at a steady rate; how they were answered."""
    n = int(rate * seconds)
    bodies = [json.dumps({"values": patient(first + i)}) for i in range(n)]
    statuses: Counter[str] = Counter()
    times: list[float] = []
    polite, ids, slow = 0, [], []
    headers = {**server.headers, "Content-Type": "application/json"}
    # Each comes from a different user, on a separate connection; or through a proxy that keeps some open.
    limits = httpx.Limits(max_connections=400, max_keepalive_connections=20 if shared else 0)
    async with httpx.AsyncClient(timeout=60, limits=limits) as client:
        begin = time.perf_counter()

        async def one(i: int) -> None:
            nonlocal polite
            due = begin + i / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            try:
                answer = await client.post(f"{server.address}/api/v1/consultations", content=bodies[i], headers=headers)
            except httpx.HTTPError as error:
                statuses[type(error).__name__] += 1
                return
            statuses[str(answer.status_code)] += 1
            if answer.status_code == 201:
                times.append(time.perf_counter() - due)
                if times[-1] > WANTED:
                    slow.append(int(due - begin))
                ids.append(answer.json()["id"])
            elif answer.status_code == 503 and "retry-after" in answer.headers:
                polite += 1

        await asyncio.gather(*(one(i) for i in range(n)))
    quantiles = {f"p{q}": round(float(np.percentile(times, q)), 3) for q in (50, 95, 99, 100)} if times else {}
    found = {"sent": n, "answers": dict(statuses), "refused_politely": polite, "seconds": quantiles, "ids": ids}
    return {**found, "slow_in_seconds": sorted(set(slow))[:20]}


async def kill(server: Server, rate: float, first: int) -> set[int]:
    """Load, and SIGKILL after some seconds; returns the consultations that were acknowledged."""
    running = asyncio.create_task(load(server, rate, 8.0, first))
    await asyncio.sleep(4.0)
    server.process.send_signal(signal.SIGKILL)
    return set((await running)["ids"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=20.0)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--shared", action="store_true", help="send all requests over a few persistent connections")
    parser.add_argument("--casebase", help="case base from an earlier run, or where to create it")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = wanted.casebase or str(Path(folder) / "heart.db")
        new = not Path(url).exists()
        with CaseBase.open(url) as base:
            if new:
                print("learning", file=sys.stderr)
                demo.fill(base, "benchmark")
                base.people.accept(base.people.invite("load", "clinician", by="benchmark"), "no password")
            token = base.people.new_token("load", label="load", scope="clinician", days=1, by="benchmark")
        options = ("--workers", str(wanted.workers), "--threads", str(wanted.threads))
        found: dict[str, Any] = {"cores": os.cpu_count(), "load_before": os.getloadavg()[0], **vars(wanted)}
        server = Server(url, token, *options)
        asyncio.run(load(server, wanted.rate, 5, 0, wanted.shared))
        before = server.gauges()
        found["mib_at_start"] = before["mib"]
        for name, rate, seconds in (
            ("steady", wanted.rate, wanted.seconds),
            ("flood", 3 * wanted.rate, min(30.0, wanted.seconds)),
            ("afterwards", wanted.rate, min(20.0, wanted.seconds)),
        ):
            said = asyncio.run(load(server, rate, seconds, 1000 + int(rate), wanted.shared))
            n = len(said.pop("ids"))
            after = server.gauges()
            said |= {"mib": after["mib"], "cpu_per_answer": round((after["cpu"] - before["cpu"]) / max(1, n), 4)}
            before = after
            found[name] = said
            print(name, json.dumps(said), file=sys.stderr)
        server.stop()
        lost, acknowledged = 0, 0
        for k in range(wanted.kills):
            server = Server(url, token, *options)
            ids = asyncio.run(kill(server, wanted.rate, 50_000 + 1000 * k))
            server.process.wait()
            with CaseBase.open(url) as base:
                kept = {entry.number for entry in base.audit(action="consult", limit=10**6)}
                for number in list(ids)[:20]:
                    base.consultation(number, by="benchmark")
                assert base.verify_audit().intact
            acknowledged += len(ids)
            lost += len(ids - kept)
        found["kill"] = {"kills": wanted.kills, "acknowledged": acknowledged, "lost": lost}
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
