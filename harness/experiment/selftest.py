"""The harness measured by itself: works with known answers, sent to a null server in another process."""

import contextlib
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import orjson
import uvloop

from harness.client import (
    Carriage,
    Http,
    MonotonicClock,
    Target,
    connected,
    raise_open_files,
    replay,
    replay_by_workers,
)
from harness.client.replay import Watch
from harness.experiment.engine_model import cache_dir
from harness.experiment.facts import machine_facts, versions
from harness.experiment.null_error import ClientError, claims_of, client_error, sightings_of
from harness.experiment.null_work import ITL_MS, TTFT_MS, WORKS, Work
from harness.experiment.session import journal_watch
from harness.records import Cell, RequestRecord
from harness.schedule import PassPlan
from harness.stack import Command, Process, free_ports, vllm
from harness.store import Journal
from harness.store.folder import write_json

Say = Callable[[str], None]

LATE_MS = 1.0
"""A rate is held while the 99th percentile of the send lag stays below this."""

_RATES_PER_S = (100, 200, 400, 600, 800, 1_000, 1_250, 1_500, 2_000, 2_500, 3_000, 4_000, 5_000)
_RATE_LASTS_S = 3.0
_TRIES = 2
_READY_DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class SelfTest:
    """What came of it. `highest_rate_per_s` is the highest rate of those tried that was held; None if none was."""

    measured_at: str
    kvreplay: str
    processor: str
    http: str
    workers: int
    scale: float
    errors: tuple[ClientError, ...]
    highest_rate_per_s: float | None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def stored_path() -> Path:
    """Where the last self-test of this machine is kept; every run puts it into its run.json."""
    return cache_dir() / "selftest.json"


def stored_selftest() -> dict[str, Any] | None:
    """The last self-test of this machine; None if there is none that can be read."""
    try:
        found = orjson.loads(stored_path().read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def selftest(
    works: Sequence[Work] = WORKS, *, scale: float = 1.0, http: str = "httptools", workers: int = 1, say: Say
) -> SelfTest:
    """Run `works`, `scale` times as many requests each, then look for the highest rate held; store and return it.

    Takes about two minutes at scale 1. Raises StackError when the null server does not start.
    """
    result = uvloop.run(_selftest([work.scaled(scale) for work in works], scale, Http(http), workers, say))
    stored_path().parent.mkdir(parents=True, exist_ok=True)
    write_json(stored_path(), result.to_json())
    return result


@contextlib.asynccontextmanager
async def null_server(ttft_ms: float, itl_ms: float) -> AsyncIterator[str]:
    """The URL of a null server that runs in a process of its own for as long as the context is open."""
    (port,) = free_ports(1)
    knobs = ("--port", str(port), "--ttft-ms", str(ttft_ms), "--itl-ms", str(itl_ms))
    command = Command("null server", (sys.executable, "-m", "harness.stack.null_server", *knobs))
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="kvreplay-") as folder:
        process = await Process.start(command, Path(folder) / "null_server.log")
        try:
            async with httpx.AsyncClient() as http:
                await process.ready(lambda: vllm.ready(http, url), _READY_DEADLINE_S)
            yield url
        finally:
            await process.stop()


async def send(url: str, work: Work, *, http: Http, workers: int = 1) -> tuple[tuple[RequestRecord, ...], float]:
    """Send `work` to `url` as a run would; the records, and the processor time it took (s)."""
    plan, clock = work.plan(), MonotonicClock()
    with tempfile.TemporaryDirectory(prefix="kvreplay-") as folder, Journal(Path(folder), "selftest") as journal:
        before_s = _cpu_s()
        records = await _replay(plan, Target((url,), http=http), clock, workers, journal_watch(journal, clock))
        return records, _cpu_s() - before_s


async def measure(url: str, work: Work, *, http: Http, workers: int = 1) -> ClientError:
    """Send `work` to the null server at `url` and compare what we saw with what it saw."""
    async with httpx.AsyncClient(timeout=60.0) as client:
        await client.get(f"{url}/seen")
        records, cpu_s = await send(url, work, http=http, workers=workers)
        rows = orjson.loads((await client.get(f"{url}/seen")).content)
    label = http.value if workers == 1 else f"{http.value} x {workers}"
    return client_error(label, work.name, len(records), claims_of(records), sightings_of(rows), cpu_s)


async def _selftest(works: Sequence[Work], scale: float, http: Http, workers: int, say: Say) -> SelfTest:
    raise_open_files()
    errors = []
    async with null_server(TTFT_MS, ITL_MS) as url:
        for work in works:
            say(f"{work.name}: {work.requests} requests")
            errors.append(await measure(url, work, http=http, workers=workers))
        highest = await _highest_rate(url, scale, http, workers, say)
    known, machine = versions(), machine_facts()
    return SelfTest(
        measured_at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        kvreplay=" ".join(known[name] for name in ("kvreplay", "commit") if name in known),
        processor=f"{machine['processor']}, {machine['cores']} cores",
        http=http.value,
        workers=workers,
        scale=scale,
        errors=tuple(errors),
        highest_rate_per_s=highest,
    )


async def _highest_rate(url: str, scale: float, http: Http, workers: int, say: Say) -> float | None:
    """Rising rates until one is not held in any of its tries: one late moment of the machine must not decide."""
    held: float | None = None
    for rate in _RATES_PER_S:
        say(f"{rate} requests/s")
        work = Work(f"rate-{rate}", max(100, round(rate * _RATE_LASTS_S * scale)), 512, float(rate))
        for _ in range(_TRIES):
            error = await measure(url, work, http=http, workers=workers)
            if not error.failed and error.send_lag_ms is not None and error.send_lag_ms.p99 < LATE_MS:
                held = float(rate)
                break
        if held != rate:
            break
    return held


async def _replay(
    plan: PassPlan, target: Target, clock: MonotonicClock, workers: int, watch: Watch
) -> tuple[RequestRecord, ...]:
    cell = Cell("selftest", "selftest", "null", "null", plan.name, 0, f"t{clock.now_ns()}", 0, 0)
    if workers > 1:
        return await replay_by_workers(plan, cell, target=target, clock=clock, workers=workers, watch=watch)
    async with connected(target, clock) as transport:
        return await replay(plan, cell, carriage=Carriage(transport, clock, target.timeouts), watch=watch)


def _cpu_s() -> float:
    """Processor time of this process and of the children that have ended."""
    return time.process_time() + sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
