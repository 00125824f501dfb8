"""A pass sent by several processes."""

import asyncio
import os
import signal
from collections.abc import Callable

import psutil
import pytest

from harness.client import MonotonicClock, Target, Timeouts, replay_by_workers
from harness.records import Outcome, RequestRecord
from harness.schedule import PassPlan
from tests.fakes.null_server import Behaviour, NullServer
from tests.fakes.passes import cell, open_loop

pytestmark = pytest.mark.integration

PATIENT = Timeouts(connect_s=60, first_byte_s=60, between_bytes_s=60, total_s=60)
HOUR_NS = 3_600_000_000_000


def _workers() -> list[psutil.Process]:
    return [
        child
        for child in psutil.Process().children()
        if child.status() != psutil.STATUS_ZOMBIE and "harness.client.worker" in child.cmdline()
    ]


def _sent(
    plan: PassPlan, behaviour: Behaviour, then: Callable[[asyncio.Event, asyncio.Event], None] | None = None
) -> tuple[tuple[RequestRecord, ...], list[RequestRecord], list[int]]:
    """The records, those watched, and the server's arrival times; `then` acts (drain, stop) when 4 have arrived."""

    async def main() -> tuple[tuple[RequestRecord, ...], list[RequestRecord], list[int]]:
        watched: list[RequestRecord] = []
        drain, stop = asyncio.Event(), asyncio.Event()
        async with NullServer(behaviour) as server:
            sending = asyncio.create_task(
                replay_by_workers(
                    plan,
                    cell(),
                    target=Target((server.url,), timeouts=PATIENT),
                    clock=MonotonicClock(),
                    workers=2,
                    watch=watched.append,
                    stop=stop,
                    drain=drain,
                )
            )
            while then is not None and len(server.arrivals) < 4:  # noqa: ASYNC110 - no event to wait for
                await asyncio.sleep(0.01)
            if then is not None:
                then(drain, stop)
            records = await sending
            return records, watched, [arrival.arrived_ns for arrival in server.arrivals]

    result = asyncio.run(main())
    assert not _workers()
    return result


def test_two_processes_are_one_pass() -> None:
    """One time zero: due times are the plan's from one start; every record is there, by seq, and was watched."""
    gap_ns = 20_000_000
    records, watched, arrivals = _sent(open_loop([seq * gap_ns for seq in range(20)]), Behaviour(ttft_s=0.01))
    assert [record.seq for record in records] == list(range(20))
    assert sorted(watched, key=lambda record: record.seq) == list(records)
    assert {record.outcome for record in records} == {Outcome.OK}
    assert [record.due_ns - records[0].due_ns for record in records] == [seq * gap_ns for seq in range(20)]
    assert all(record.sent_ns is not None and record.sent_ns >= record.due_ns for record in records)
    assert len(arrivals) == 20


def test_a_drain_and_a_stop_reach_every_process() -> None:
    """After a drain what is in flight is answered; after a stop it is cancelled; the rest is not_sent."""
    plan = open_loop([0] * 4 + [HOUR_NS] * 4)
    drained, _, _ = _sent(plan, Behaviour(ttft_s=0.5), lambda drain, _: drain.set())
    assert [record.outcome for record in drained] == [Outcome.OK] * 4 + [Outcome.NOT_SENT] * 4
    stopped, _, _ = _sent(plan, Behaviour(mode="hang"), lambda _, stop: stop.set())
    assert [record.outcome for record in stopped] == [Outcome.CANCELLED] * 4 + [Outcome.NOT_SENT] * 4


def test_a_worker_that_dies_costs_its_own_requests_only() -> None:
    """Its requests that were due are cancelled and say by which status, later ones not_sent; others are answered."""

    def kill_one(drain: asyncio.Event, _: asyncio.Event) -> None:
        os.kill(_workers()[0].pid, signal.SIGKILL)
        drain.set()

    records, watched, _ = _sent(open_loop([0] * 4 + [HOUR_NS] * 4), Behaviour(ttft_s=2.0), kill_one)
    assert len(records) == len(watched) == 8
    assert sorted(record.outcome for record in records[:4]) == [Outcome.CANCELLED] * 2 + [Outcome.OK] * 2
    assert {record.outcome for record in records[4:]} == {Outcome.NOT_SENT}
    assert sum("status -9" in (record.error or "") for record in records) == 4
