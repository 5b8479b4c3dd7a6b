"""Regular requests to ``bayespatch serve`` during floods: slow headers, idle connections, other charsets.

``python benchmarks/floods.py`` starts a server on the heart data on the loopback address and sends consultations, past
cases and health checks at a steady rate, first without and then during each flood. A flood keeps `--connections` open
(the server allows 800) for `--seconds`. Target: 99% of the regular requests answered within a second.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from serve import Server, patient

from bayespatch.casebase import CaseBase
from bayespatch.web import demo

WANTED = 1.0  # seconds, for 99 of 100
Flood = Callable[[int, asyncio.Event], Awaitable[None]]


async def slow_heads(port: int, end: asyncio.Event) -> None:
    """Send a header that never ends, a byte at a time; reconnect when the connection is closed."""
    while not end.is_set():
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")
                while not end.is_set() and not writer.is_closing():
                    writer.write(b"x")
                    await writer.drain()
                    await asyncio.sleep(1.0)
            finally:
                writer.close()
        await asyncio.sleep(1.0)


async def idle(port: int, end: asyncio.Event) -> None:
    """A connection that sends nothing; again when it is closed."""
    while not end.is_set():
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                await reader.read()
            finally:
                writer.close()
        await asyncio.sleep(1.0)


async def charsets(port: int, end: asyncio.Event) -> None:
    """Forms in a charset whose decoder takes time quadratic in the body; 20 of the connections at once send them."""
    body = b"--xyz" + b"-a" * 200_000
    head = b"POST /sign-in HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; charset=punycode; "
    head += b"boundary=xyz\r\nContent-Length: %d\r\n\r\n" % len(body)
    while not end.is_set():
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head + body)
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(reader.read(1000), 5.0)
            writer.close()
        await asyncio.sleep(0.2)


FLOODS: dict[str, tuple[Flood | None, int]] = {  # and how many connections at most
    "none": (None, 0),
    "slow heads": (slow_heads, 10_000),
    "idle connections": (idle, 10_000),
    "charsets": (charsets, 20),
}


async def honest(server: Server, rate: float, seconds: float) -> dict[str, Any]:
    """Requests at a steady rate, each on a separate connection; seconds are measured from the scheduled time."""
    kinds: list[dict[str, Any]] = [
        {"method": "POST", "url": "/api/v1/consultations"},
        {"method": "GET", "url": "/api/v1/cases?limit=20"},
        {"method": "GET", "url": "/health"},
    ]
    times, statuses = [], []
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=server.address, timeout=30, limits=limits) as client:
        begin = time.perf_counter()

        async def one(i: int) -> None:
            due, kind = begin + i / rate, kinds[i % len(kinds)]
            body = {"values": patient(i)} if kind["method"] == "POST" else None
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            try:
                answer = await client.request(**kind, json=body, headers=server.headers)
                statuses.append(f"{answer.status_code}{answer.text[:60] if answer.status_code >= 400 else ''}")
            except httpx.HTTPError as error:
                statuses.append(type(error).__name__)
            times.append(time.perf_counter() - due)

        await asyncio.gather(*(one(i) for i in range(int(rate * seconds))))
    found = {status: statuses.count(status) for status in sorted(set(statuses))}
    quantiles = {f"p{q}": round(float(np.percentile(times, q)), 3) for q in (50, 99, 100)}
    return {"answers": found, **quantiles}


async def beside(server: Server, flood: Flood | None, n: int, rate: float, seconds: float) -> dict[str, Any]:
    """Regular requests during a flood of n connections."""
    end = asyncio.Event()
    tasks = [asyncio.create_task(flood(server.port, end)) for _ in range(n)] if flood is not None else []
    await asyncio.sleep(2.0 if tasks else 0.0)
    found = await honest(server, rate, seconds)
    end.set()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return {"connections": n, **found}


def main() -> None:
    """Print the results as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=400)
    parser.add_argument("--rate", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = str(Path(folder) / "heart.db")
        with CaseBase.open(url) as base:
            demo.fill(base, "benchmark")
            base.people.accept(base.people.invite("benchmark", "steward", by="benchmark"), "no password")
            token = base.people.new_token("benchmark", label="x", scope="clinician", days=1, by="benchmark")
        server = Server(url, token)
        try:
            for name, (flood, most) in FLOODS.items():
                n = min(wanted.connections, most)
                found = asyncio.run(beside(server, flood, n, wanted.rate, wanted.seconds))
                print(json.dumps({"flood": name, **found, "within": found["p99"] < WANTED}), flush=True)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
