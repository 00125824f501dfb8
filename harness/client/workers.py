"""Sends one pass from several processes when one is not enough: one time zero, one set of records."""

import asyncio
import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from harness.client import frames
from harness.client.clock import Clock
from harness.client.replay import PREPARE_AHEAD_NS, Watch, refuse_what_cannot_be_due
from harness.client.request import Ended
from harness.client.target import Target
from harness.records import Cell, Outcome, RequestRecord
from harness.schedule import PassPlan, PlannedRequest

_START_AFTER_NS = 100_000_000
"""From the moment when all workers are ready to the first due time: enough to tell them."""

_LOAD_OF_ONE = {"requests_per_s": 800.0, "tokens_per_s": 8_000.0, "bytes_per_s": 100e6}
"""What one process is trusted with: a guess, from the processor time of a request (docs/adr/0002) and room to spare."""

_WINDOW_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Share:
    """What one worker is told: its requests, whose run they belong to, and where they go."""

    plan: PassPlan
    cell: Cell
    target: Target

    def first_burst(self) -> int:
        """How many requests are due at the very start."""
        if self.plan.concurrency is not None:
            return self.plan.concurrency
        due = [request.due_ns for request in self.plan.requests if request.due_ns is not None]
        return sum(due_ns <= min(due) + PREPARE_AHEAD_NS for due_ns in due)


def workers_for(plan: PassPlan, cores: int) -> int:
    """How many processes a pass needs: its busiest second in requests, tokens and bytes over what one can carry.

    A core stays free for the server or the rest of this machine. A closed loop needs one: its order is one queue.
    """
    if plan.concurrency is not None:
        return 1
    need = max((load / _LOAD_OF_ONE[name] for name, load in _busiest_second(plan).items()), default=0.0)
    return max(1, min(int(-(-need // 1)), cores - 1))


def _busiest_second(plan: PassPlan) -> dict[str, float]:
    """The highest requests, answered tokens and bytes sent within a second; turns count when their session begins."""
    by_window: dict[int, list[PlannedRequest]] = {}
    for request in plan.requests:
        by_window.setdefault((request.due_ns or 0) // _WINDOW_NS, []).append(request)
    return {
        "requests_per_s": max((len(part) for part in by_window.values()), default=0),
        "tokens_per_s": max((sum(one.max_tokens for one in part) for part in by_window.values()), default=0),
        "bytes_per_s": max((sum(len(one.body) for one in part) for part in by_window.values()), default=0),
    }


def shares(plan: PassPlan, workers: int) -> tuple[PassPlan, ...]:
    """`plan` cut into at most `workers` parts, none empty; a session stays in one part, a closed loop in one piece."""
    if plan.concurrency is not None or workers == 1:
        return (plan,)
    parts: list[list[PlannedRequest]] = [[] for _ in range(workers)]
    part_of: dict[int, int] = {}
    turns = 0
    for request in sorted(plan.requests, key=lambda one: (one.due_ns is None, one.due_ns or 0, one.seq)):
        if request.after in part_of:
            part = part_of[request.after]
        else:
            part, turns = turns % workers, turns + 1
        part_of[request.seq] = part
        parts[part].append(request)
    return tuple(PassPlan(plan.name, tuple(part), None) for part in parts if part)


async def replay_by_workers(
    plan: PassPlan,
    cell: Cell,
    *,
    target: Target,
    clock: Clock,
    workers: int,
    watch: Watch | None = None,
    stop: asyncio.Event | None = None,
    drain: asyncio.Event | None = None,
) -> tuple[RequestRecord, ...]:
    """As `replay`, by `workers` processes (fewer where the plan has fewer parts) that share this machine's clock.

    Each process opens its own connections; all are told the same time zero once all are ready. A worker that dies costs
    its own requests only: `cancelled` if they were due, else `not_sent`, with its exit status as the reason.
    """
    refuse_what_cannot_be_due(plan)
    crew = [_Worker(part, cell, target) for part in shares(plan, workers)]
    records: dict[int, RequestRecord] = {}

    def keep(record: RequestRecord) -> None:
        records[record.seq] = record
        if watch is not None:
            watch(record)

    orders = [asyncio.create_task(_pass_on(event, word, crew)) for event, word in ((drain, "drain"), (stop, "stop"))]
    start_ns = clock.now_ns()
    try:
        await asyncio.gather(*(worker.begin() for worker in crew))
        start_ns = clock.now_ns() + _START_AFTER_NS
        await asyncio.gather(*(worker.send(start_ns, keep) for worker in crew))
    finally:
        for order in orders:
            order.cancel()
        await asyncio.gather(*(worker.end() for worker in crew))
        _account_for_the_dead(crew, cell, start_ns, clock.now_ns(), records, keep)
    return tuple(records[seq] for seq in sorted(records))


class _Worker:
    """One process and the share it has been given."""

    def __init__(self, plan: PassPlan, cell: Cell, target: Target) -> None:
        self.plan = plan
        self._share = Share(plan, cell, target)
        self._child: asyncio.subprocess.Process | None = None

    @property
    def status(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        return None if self._child is None else self._child.returncode

    async def begin(self) -> None:
        """Start it, hand it its share, and wait until its connections are open."""
        self._child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "harness.client.worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in a terminal is for the process that gives the orders
        )
        self.tell(self._share)
        with contextlib.suppress(EOFError):
            await self._hear()

    async def send(self, start_ns: int, keep: Watch) -> None:
        """Let it send, and keep what it hands on until it is done or dead."""
        self.tell(start_ns)
        with contextlib.suppress(EOFError):
            while isinstance(lot := await self._hear(), list):
                for record in lot:
                    keep(record)

    def tell(self, message: object) -> None:
        """Give it an order; one to a worker that is not there is lost."""
        if self._child is not None and self._child.stdin is not None and not self._child.stdin.is_closing():
            self._child.stdin.write(frames.encode(message))

    async def end(self) -> None:
        """Close its orders, upon which it ends, and wait for that."""
        if self._child is None:
            return
        if self._child.stdin is not None:
            self._child.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._child.wait(), 10.0)
        if self._child.returncode is None:
            self._child.kill()
            await self._child.wait()

    async def _hear(self) -> object:
        assert self._child is not None and self._child.stdout is not None  # noqa: S101, PT018 - begun, with a pipe
        return await frames.read(self._child.stdout)


async def _pass_on(event: asyncio.Event | None, word: str, crew: Sequence[_Worker]) -> None:
    if event is not None:
        await event.wait()
        for worker in crew:
            worker.tell(word)


def _account_for_the_dead(
    crew: Sequence[_Worker], cell: Cell, start_ns: int, now_ns: int, records: dict[int, RequestRecord], keep: Watch
) -> None:
    """A row for every request of which no worker gave one."""
    for worker in crew:
        for request in worker.plan.requests:
            if request.seq not in records:
                due_ns = now_ns if request.due_ns is None else start_ns + request.due_ns
                outcome = Outcome.CANCELLED if due_ns < now_ns else Outcome.NOT_SENT
                why = f"its worker process ended with status {worker.status}"
                keep(Ended.lost(request, due_ns, outcome, why).record(cell))
