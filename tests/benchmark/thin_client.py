"""The floor: a client with no features at all, to see what Python on this machine can do.

    python -m tests.benchmark.thin_client URL WORK SCALE      (prints its claims as one JSON document)

uvloop, requests encoded and connections opened beforehand, sleep then spin, a scan for `"text"` in place of a parser.
No deadlines, no records, no errors: never a client to measure with.
"""

import asyncio
import gc
import json
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import uvloop

from harness.client import raise_open_files
from harness.experiment.null_work import WORKS, Work

_SPIN_NS = 1_500_000
_BEGIN_AFTER_NS = 100_000_000
_SENDS_A_TURN = 16


class Connection(asyncio.Protocol):
    """One connection: raw bytes with their times."""

    def __init__(self, idle: "deque[Connection]") -> None:
        self.idle = idle
        self.chunks: list[tuple[int, bytes]] = []
        self.ended: Callable[[], None]
        self.transport: Any

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """What is written goes out at once."""
        self.transport = transport
        self.transport.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        """Note the time; an answer of a null server ends with an empty chunk."""
        self.chunks.append((time.perf_counter_ns(), data))
        if data.endswith(b"0\r\n\r\n"):
            self.idle.append(self)
            self.ended()


async def _send(url: str, work: Work) -> list[list[Any]]:
    plan = work.plan()
    host, port = url.removeprefix("http://").split(":")
    whole = [
        b"POST /v1/completions HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\nX-Request-Id: thin-%d\r\n"
        b"Content-Length: %d\r\n\r\n" % (f"{host}:{port}".encode(), request.seq, len(request.body)) + request.body
        for request in plan.requests
    ]
    loop = asyncio.get_running_loop()
    idle: deque[Connection] = deque()

    async def connect() -> Connection:
        return (await loop.create_connection(lambda: Connection(idle), host, int(port)))[1]

    at_once = work.wave or (work.requests if work.rate_per_s is None else int(10 + work.rate_per_s / 4))
    for _ in range(min(work.requests, at_once)):
        idle.append(await connect())
    rows: list[tuple[int, int, int, list[tuple[int, bytes]]]] = []
    left, done = len(plan.requests), loop.create_future()

    def ended() -> None:
        nonlocal left
        left -= 1
        if not left:
            done.set_result(None)

    start_ns = time.perf_counter_ns() + _BEGIN_AFTER_NS
    in_a_row = 0
    for request, data in zip(plan.requests, whole, strict=True):
        due_ns = start_ns + (request.due_ns or 0)
        while (left_ns := due_ns - time.perf_counter_ns()) > 0:
            in_a_row = 0
            await asyncio.sleep(max(0, left_ns - _SPIN_NS) / 1e9)
        if in_a_row >= _SENDS_A_TURN:
            in_a_row = 0
            await asyncio.sleep(0)
        in_a_row += 1
        connection = idle.popleft() if idle else await connect()
        connection.chunks, connection.ended = [], ended
        sent_ns = time.perf_counter_ns()
        connection.transport.write(data)
        rows.append((request.seq, due_ns, sent_ns, connection.chunks))
    await done
    return [
        [f"thin-{seq}", due_ns, sent_ns, [t for t, d in chunks for _ in range(d.count(b'"text"'))], chunks[-1][0]]
        for seq, due_ns, sent_ns, chunks in rows
    ]


def main(url: str, work_name: str, scale: float) -> None:
    """Send the work and print what was seen."""
    raise_open_files()
    work = next(work for work in WORKS if work.name == work_name).scaled(scale)
    gc.disable()
    before_s = time.process_time()
    claims = uvloop.run(_send(url, work))
    json.dump({"claims": claims, "cpu_s": time.process_time() - before_s}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
