"""Sends a pass: open loop at the due times, or closed loop with a fixed number in flight."""

import asyncio
import gc
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager

from harness.client.clock import Clock
from harness.client.request import Watch, one_request
from harness.client.timeouts import Timeouts
from harness.client.transport import Transport
from harness.records import Cell, Outcome, RequestRecord
from harness.schedule import PassPlan, PlannedRequest

_Send = Callable[[PlannedRequest, int], Coroutine[None, None, RequestRecord]]


async def replay(
    plan: PassPlan,
    cell: Cell,
    *,
    transport: Transport,
    clock: Clock,
    timeouts: Timeouts,
    start_ns: int | None = None,
    watch: Watch | None = None,
    stop: asyncio.Event | None = None,
) -> tuple[RequestRecord, ...]:
    """Replay one pass and return exactly one record for every planned request, in order of `seq`.

    Open loop (`concurrency` None): each request goes out at `start_ns` (on the clock; now if None) plus its `due_ns`,
    whatever has become of the others; one that is late goes out at once and delays no other. Closed loop: `concurrency`
    requests in flight, in plan order, each due when its predecessor ends and the first ones at `start_ns`.

    `watch` gets each record as its request ends. Setting `stop` ends the pass early: requests in flight become
    `cancelled`, the rest `not_sent`, and all records are returned. Cancelling the task does the same, except that the
    records then reach `watch` only. Raises ValueError, before anything is sent, where a request of an open loop has no
    due time. Garbage collection pauses meanwhile.
    """
    if plan.concurrency is None and any(request.due_ns is None for request in plan.requests):
        raise ValueError(f"pass {plan.name!r} is an open loop, but has requests without a due time")
    begin_ns = clock.now_ns() if start_ns is None else start_ns
    records: dict[int, RequestRecord] = {}

    def keep(record: RequestRecord) -> None:
        records[record.seq] = record
        if watch is not None:
            watch(record)

    def send(request: PlannedRequest, due_ns: int) -> Coroutine[None, None, RequestRecord]:
        return one_request(request, cell, due_ns, transport=transport, clock=clock, timeouts=timeouts, watch=keep)

    loop = _open_loop if plan.concurrency is None else _closed_loop
    try:
        with _garbage_collection_paused():
            await _until_stopped(loop(plan, begin_ns, clock, send), stop or asyncio.Event())
    finally:
        end_ns = clock.now_ns()
        for request in plan.requests:
            if request.seq not in records:
                keep(_not_sent(request, cell, end_ns if request.due_ns is None else begin_ns + request.due_ns))
    return tuple(records[seq] for seq in sorted(records))


async def _open_loop(plan: PassPlan, start_ns: int, clock: Clock, send: _Send) -> None:
    async with asyncio.TaskGroup() as in_flight:
        for request in sorted(plan.requests, key=lambda request: (request.due_ns or 0, request.seq)):
            due_ns = start_ns + (request.due_ns or 0)
            await clock.sleep_until(due_ns)
            in_flight.create_task(send(request, due_ns))


async def _closed_loop(plan: PassPlan, start_ns: int, clock: Clock, send: _Send) -> None:
    waiting = iter(plan.requests)

    async def lane() -> None:
        due_ns = start_ns
        for request in waiting:  # one iterator for all lanes: the next request goes to the lane that is free first
            record = await send(request, due_ns)
            due_ns = record.cell.t0_ns + (record.done_ns or 0)

    await clock.sleep_until(start_ns)
    async with asyncio.TaskGroup() as lanes:
        for _ in range(plan.concurrency or 0):
            lanes.create_task(lane())


async def _until_stopped(sending: Coroutine[None, None, None], stop: asyncio.Event) -> None:
    """Run `sending` to its end, or until `stop` is set or this task is cancelled; nothing runs on afterwards."""
    work, stopped = asyncio.create_task(sending), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({work, stopped}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        work.cancel()
        stopped.cancel()
        await asyncio.wait({work, stopped})
    if not work.cancelled():
        work.result()  # a bug in a request is raised here


def _not_sent(request: PlannedRequest, cell: Cell, due_ns: int) -> RequestRecord:
    return RequestRecord(
        cell=cell,
        seq=request.seq,
        row=request.row,
        session=request.session,
        prompt_tokens_planned=len(request.tokens),
        max_tokens=request.max_tokens,
        due_ns=due_ns - cell.t0_ns,
        outcome=Outcome.NOT_SENT,
        error="the pass ended before this request was sent",
    )


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
