"""Sends a pass: open loop at the due times, sessions with think time, or closed loop with a fixed number in flight."""

import asyncio
import gc
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress

from harness.client.read_later import ReadLater
from harness.client.request import Carriage, Ended, Flight
from harness.records import Cell, Outcome, RequestRecord
from harness.schedule import PassPlan, PlannedRequest

Watch = Callable[[RequestRecord], None]

STOPPED = "stopped before its response was complete"
NEVER_SENT = "the pass ended before this request was sent"

PREPARE_AHEAD_NS = 250_000_000
"""Connections for what is due within this time are opened before it is due."""

_SENDS_A_TURN = 16
"""Requests that are late go out at once, but after so many the event loop gets to read what has arrived."""


async def replay(
    plan: PassPlan,
    cell: Cell,
    *,
    carriage: Carriage,
    start_ns: int | None = None,
    watch: Watch | None = None,
    stop: asyncio.Event | None = None,
    drain: asyncio.Event | None = None,
) -> tuple[RequestRecord, ...]:
    """Replay one pass and return exactly one record for every planned request, in order of `seq`.

    Open loop (`concurrency` None): each request goes out at `start_ns` (on the clock; now if None) plus its `due_ns`,
    whatever has become of the others; one that is late goes out at once and delays no other. A turn of a session is due
    `gap_ns` after the turn before it ended, however it ended. Closed loop: `concurrency` requests in flight, in plan
    order, each due when its predecessor ends and the first ones at `start_ns`.

    `watch` gets each record some time after its request ends, in order of their ends: responses are read when nothing
    is due. Setting `drain` ends the pass early: nothing more is sent, and what is in flight may end. Setting `stop`
    ends it at once: requests in flight become `cancelled`. What was never sent is `not_sent` in both cases, and all
    records are returned. Cancelling the task is a stop, except that the records then reach `watch` only. Raises
    ValueError, before anything is sent, where a request can never be due. Garbage collection pauses meanwhile.
    """
    refuse_what_cannot_be_due(plan)
    sending = _Pass(plan, cell, carriage, watch)
    with _garbage_collection_paused():
        try:
            await sending.run(start_ns, stop or asyncio.Event(), drain or asyncio.Event())
        finally:
            await sending.end()
    return sending.records()


def refuse_what_cannot_be_due(plan: PassPlan) -> None:
    """Raises ValueError for an open loop in which a request has neither a due time nor a request that it follows."""
    if plan.concurrency is None:
        known = {request.seq for request in plan.requests}
        lost = [one.seq for one in plan.requests if one.due_ns is None and one.after not in known]
        if lost:
            raise ValueError(f"pass {plan.name!r} is an open loop, but request {lost[0]} is without a due time")


class _Pass:
    """A pass while it is sent: who is in flight, who waits for whom, and what is over."""

    def __init__(self, plan: PassPlan, cell: Cell, carriage: Carriage, watch: Watch | None) -> None:
        self._plan, self._cell, self._carriage, self._clock = plan, cell, carriage, carriage.clock
        self._flights: dict[int, Flight] = {}
        self._turns: dict[int, list[PlannedRequest]] = {}
        self._waiting = iter(plan.requests)  # of a closed loop: the next request goes to the lane that is free first
        self._tasks: set[asyncio.Task[None]] = set()
        self._left = len(plan.requests)
        self._over = asyncio.Event()  # nothing is left to send, and nothing in flight
        self._closing = False
        self._bug: BaseException | None = None
        self._begin_ns = self._clock.now_ns()
        self._read = ReadLater(cell, self._clock, watch)

    async def run(self, start_ns: int | None, stop: asyncio.Event, drain: asyncio.Event) -> None:
        """Send everything and wait for its end, or for `stop`; `drain` cuts the sending short."""
        if self._plan.concurrency is None:
            due = [one for one in self._plan.requests if one.after is None]
            due.sort(key=lambda request: (request.due_ns or 0, request.seq))
            for request in self._plan.requests:
                if request.after is not None:
                    self._turns.setdefault(request.after, []).append(request)
            prepared = await self._prepare(due, 0)
        else:
            due, prepared = [], 0
            await self._connect_ahead(min(self._plan.concurrency, self._left))
        self._begin_ns = self._clock.now_ns() if start_ns is None else start_ns
        self._later(self._read.forever())
        if not self._left:
            return
        if self._plan.concurrency is None:
            self._later(self._prepare_ahead(due, prepared))
            self._later(self._open_loop(due))
        else:
            self._later(self._closed_loop(self._plan.concurrency))
        await self._until(stop, drain)

    async def end(self) -> None:
        """Stop what goes on, read what is over, account for what was never sent. Raises a bug met on the way."""
        self._closing = True
        for task in self._tasks:
            task.cancel()
        for flight in list(self._flights.values()):
            flight.cancel(STOPPED)
        self._over.clear()
        if self._flights:
            await self._over.wait()
        self._read.rest()
        end_ns = self._clock.now_ns()
        for request in self._plan.requests:
            if request.seq not in self._read.records:
                due_ns = end_ns if request.due_ns is None else self._begin_ns + request.due_ns
                self._read.add(Ended.lost(request, due_ns, Outcome.NOT_SENT, NEVER_SENT))
        self._read.rest()
        if self._bug is not None:
            raise self._bug

    def records(self) -> tuple[RequestRecord, ...]:
        """All of them, by `seq`."""
        return tuple(self._read.records[seq] for seq in sorted(self._read.records))

    async def _until(self, stop: asyncio.Event, drain: asyncio.Event) -> None:
        waits = [asyncio.create_task(event.wait()) for event in (self._over, stop, drain)]
        over, stopped, drained = waits
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if drained.done() and not stopped.done() and not over.done():
                self._closing = True
                for task in self._tasks:
                    task.cancel()
                self._read.next_due_ns = None
                self._later(self._read.forever())
                if self._flights:
                    await asyncio.wait([over, stopped], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _open_loop(self, due: list[PlannedRequest]) -> None:
        in_a_row = 0
        for request in due:
            due_ns = self._begin_ns + (request.due_ns or 0)
            self._read.next_due_ns = due_ns
            if self._clock.now_ns() < due_ns:
                in_a_row = 0
                await self._clock.sleep_until(due_ns)
            elif in_a_row >= _SENDS_A_TURN:
                in_a_row = 0
                await asyncio.sleep(0)
            in_a_row += 1
            self._fly(request, due_ns)
        self._read.next_due_ns = None

    async def _closed_loop(self, concurrency: int) -> None:
        await self._clock.sleep_until(self._begin_ns)
        for _ in range(concurrency):
            self._fly_next(self._begin_ns)

    async def _turn(self, request: PlannedRequest, due_ns: int) -> None:
        await self._clock.sleep_until(due_ns)
        self._fly(request, due_ns)

    def _fly_next(self, due_ns: int) -> None:
        request = next(self._waiting, None)
        if request is not None:
            self._fly(request, due_ns)

    def _fly(self, request: PlannedRequest, due_ns: int) -> None:
        self._flights[request.seq] = Flight(
            request, self._cell.request_id(request.seq), due_ns, self._carriage, self._landed, self._crashed
        )

    def _landed(self, ended: Ended) -> None:
        del self._flights[ended.request.seq]
        self._left -= 1
        self._read.add(ended)
        if not self._closing:
            done_ns = self._clock.now_ns() if ended.done_ns is None else ended.done_ns
            if self._plan.concurrency is not None:
                self._fly_next(done_ns)
            for turn in self._turns.get(ended.request.seq, ()):
                self._later(self._turn(turn, done_ns + turn.gap_ns))
        if not self._left or (self._closing and not self._flights):
            self._over.set()

    def _crashed(self, bug: BaseException) -> None:
        self._bug = bug
        self._over.set()

    async def _prepare_ahead(self, due: list[PlannedRequest], at: int) -> None:
        """Well before each request from position `at` on is due, see to it that a connection is open for it."""
        while at < len(due):
            await self._clock.sleep_until(self._begin_ns + (due[at].due_ns or 0) - PREPARE_AHEAD_NS)
            at = await self._prepare(due, at)

    async def _prepare(self, due: list[PlannedRequest], at: int) -> int:
        """Have connections for what is due soon after position `at`; the first position that is not."""
        first, end_ns = at, (due[at].due_ns or 0) + PREPARE_AHEAD_NS if at < len(due) else 0
        while at < len(due) and (due[at].due_ns or 0) <= end_ns:
            at += 1
        await self._connect_ahead(at - first)
        return at

    async def _connect_ahead(self, requests: int) -> None:
        """Have so many connections open; where the server does not accept them in time, the requests will say so."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._carriage.timeouts.connect_s):
                await self._carriage.transport.prepare(requests)

    def _later(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)

    def _task_ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (bug := task.exception()) is not None:
            self._crashed(bug)


@contextmanager
def _garbage_collection_paused() -> Iterator[None]:
    """No collection may stop the event loop in mid-pass; what exists is set aside from later ones until the end."""
    was_enabled = gc.isenabled()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()
