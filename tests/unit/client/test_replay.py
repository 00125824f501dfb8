"""Replaying a pass, in virtual time."""

import asyncio
import gc
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.client import Carriage, Timeouts, TransportTrouble, replay
from harness.records import Outcome, RequestRecord
from harness.schedule import PassPlan
from tests.fakes.clock import FakeClock, run_virtual
from tests.fakes.passes import cell, closed_loop, open_loop, planned
from tests.fakes.transport import FakeTransport, Script, answers, token

LIMITS = Timeouts(connect_s=5, first_byte_s=50, between_bytes_s=20, total_s=90)
SECOND_NS = 1_000_000_000
MS = 1_000_000

scripts = st.sampled_from(
    [
        answers(ttft_ns=30 * MS, tokens=3, itl_ns=7 * MS),
        answers(ttft_ns=10 * SECOND_NS),
        Script(chunks=((5, token("a")),)),
        Script(status=500, chunks=((5, b"dead"),)),
        Script(connects=False, trouble=TransportTrouble(Outcome.REFUSED, "refused")),
        Script(chunks=((5, token("a")),), trouble=TransportTrouble(Outcome.TRUNCATED, "reset")),
        Script(headers_after_ns=1000 * SECOND_NS),
        Script(connect_ns=1000 * SECOND_NS),
    ]
)


def _replayed(
    plan: PassPlan,
    script: Callable[[str], Script],
    stop_at_ns: int | None = None,
    start_ns: int | None = None,
) -> tuple[tuple[RequestRecord, ...], list[RequestRecord], FakeTransport]:
    """Records returned, records in the order in which they were watched, and the transport."""

    async def main(clock: FakeClock) -> tuple[tuple[RequestRecord, ...], list[RequestRecord], FakeTransport]:
        watched: list[RequestRecord] = []
        transport, stop = FakeTransport(clock, script), asyncio.Event()
        if stop_at_ns is not None:
            asyncio.get_running_loop().call_later(stop_at_ns / 1e9, stop.set)
        records = await replay(
            plan,
            cell(),
            carriage=Carriage(transport, clock, LIMITS),
            start_ns=start_ns,
            watch=watched.append,
            stop=stop,
        )
        return records, watched, transport

    return run_virtual(main)


def _seq(request_id: str) -> int:
    return int(request_id.rpartition("-")[2])


def test_a_slow_server_never_shifts_the_schedule() -> None:
    """Every request goes out at its due time to the nanosecond, though no answer comes before the last one is sent."""
    due_ns = [0, 0, 1, 1_000_003, 250 * MS, 250 * MS + 1, 3 * SECOND_NS]
    records, _, transport = _replayed(open_loop(due_ns), lambda _: answers(ttft_ns=40 * SECOND_NS))
    assert [record.sent_ns for record in records] == due_ns
    assert [record.due_ns for record in records] == due_ns
    assert transport.most_in_flight == len(due_ns)
    assert {record.outcome for record in records} == {Outcome.OK}


def test_requests_carry_their_body_and_id() -> None:
    """The bytes sent are the plan's, under the id that the cell gives."""
    plan = open_loop([0, 5])
    _, _, transport = _replayed(plan, lambda _: answers(ttft_ns=1))
    assert transport.sent == [
        (0, "kvr-run-s0-0", plan.requests[0].body),
        (5, "kvr-run-s0-1", plan.requests[1].body),
    ]


def test_due_times_count_from_the_start() -> None:
    """A start in the future moves every request; due times stay those of the plan from that start."""
    records, _, _ = _replayed(open_loop([0, 7]), lambda _: answers(ttft_ns=1), start_ns=1_000)
    assert [(record.due_ns, record.sent_ns) for record in records] == [(1_000, 1_000), (1_007, 1_007)]


def test_a_late_request_goes_out_at_once_and_keeps_its_due_time() -> None:
    """What was due before now is sent now, still in order of due times, and the lag shows."""

    async def main(clock: FakeClock) -> tuple[RequestRecord, ...]:
        await clock.sleep_until(100)
        transport = FakeTransport(clock, lambda _: answers(ttft_ns=1))
        return await replay(open_loop([0, 50, 200]), cell(), carriage=Carriage(transport, clock, LIMITS), start_ns=0)

    assert [(r.due_ns, r.sent_ns) for r in run_virtual(main)] == [(0, 100), (50, 100), (200, 200)]


def test_records_come_back_in_order_of_seq_and_are_watched_as_they_end() -> None:
    """The order of the plan for those who read the result, the order of events for those who watch."""
    records, watched, _ = _replayed(open_loop([30, 20, 10]), lambda name: answers(ttft_ns=100 + 90 * _seq(name)))
    assert [record.seq for record in records] == [0, 1, 2]
    assert [record.seq for record in watched] == [0, 1, 2]
    _, watched, _ = _replayed(open_loop([30, 20, 10]), lambda _: answers(ttft_ns=100))
    assert [record.seq for record in watched] == [2, 1, 0]


@pytest.mark.parametrize("concurrency", [1, 2, 5])
def test_a_closed_loop_keeps_its_number_in_flight(concurrency: int) -> None:
    """Requests go out in plan order, never more than asked for at once, and no slot stays idle."""
    _, _, transport = _replayed(closed_loop(7, concurrency), lambda name: answers(ttft_ns=100 * (1 + _seq(name) % 3)))
    assert [_seq(name) for _, name, _ in transport.sent] == list(range(7))
    assert transport.most_in_flight == concurrency


def test_in_a_closed_loop_a_request_is_due_when_its_predecessor_ends() -> None:
    """The first ones are due at the start, each later one at the end of the one whose slot it takes."""
    records, _, _ = _replayed(closed_loop(4, 2), lambda name: answers(ttft_ns=(50, 10, 10, 10)[_seq(name)], tokens=1))
    assert [(r.due_ns, r.sent_ns, r.done_ns) for r in records] == [(0, 0, 50), (0, 0, 10), (10, 10, 20), (20, 20, 30)]


def test_a_failed_request_frees_its_slot() -> None:
    """In a closed loop a request that fails is followed by the next."""
    refused = Script(connects=False, trouble=TransportTrouble(Outcome.REFUSED, "refused"))
    records, _, _ = _replayed(closed_loop(3, 1), lambda name: refused if _seq(name) == 0 else answers(ttft_ns=1))
    assert [record.outcome for record in records] == [Outcome.REFUSED, Outcome.OK, Outcome.OK]


def test_stop_ends_an_open_loop() -> None:
    """After a stop, what is done is ok, what is in flight is cancelled, and the rest is not_sent with its due time."""
    plan = open_loop([0, 10, 20, 900])
    records, watched, transport = _replayed(
        plan, lambda name: answers(ttft_ns=(5, 500, 500, 1)[_seq(name)], tokens=1), stop_at_ns=100
    )
    assert [record.outcome for record in records] == [
        Outcome.OK,
        Outcome.CANCELLED,
        Outcome.CANCELLED,
        Outcome.NOT_SENT,
    ]
    assert [record.done_ns for record in records] == [5, 100, 100, None]
    assert (records[3].due_ns, records[3].sent_ns, records[3].error) == (
        900,
        None,
        "the pass ended before this request was sent",
    )
    assert sorted(watched, key=lambda record: record.seq) == list(records)
    assert transport.in_flight == 0


def test_stop_ends_a_closed_loop() -> None:
    """A stop in a closed loop sends nothing more; the requests that were waiting are not_sent."""
    records, _, transport = _replayed(closed_loop(5, 2), lambda _: answers(ttft_ns=80, tokens=1), stop_at_ns=100)
    assert [record.outcome for record in records] == [
        Outcome.OK,
        Outcome.OK,
        Outcome.CANCELLED,
        Outcome.CANCELLED,
        Outcome.NOT_SENT,
    ]
    assert len(transport.sent) == 4


def test_cancelling_the_task_loses_no_record() -> None:
    """Ctrl-C in the middle of a pass: every planned request has reached watch before the cancellation goes on."""

    async def main(clock: FakeClock) -> tuple[list[RequestRecord], bool]:
        watched: list[RequestRecord] = []
        transport = FakeTransport(clock, lambda _: answers(ttft_ns=50, tokens=1))
        task = asyncio.create_task(
            replay(
                open_loop([0, 40, 900]),
                cell(),
                carriage=Carriage(transport, clock, LIMITS),
                watch=watched.append,
            )
        )
        await clock.sleep_until(60)
        task.cancel()
        await asyncio.wait([task])
        return watched, task.cancelled()

    watched, cancelled = run_virtual(main)
    assert cancelled
    assert [record.outcome for record in watched] == [Outcome.OK, Outcome.CANCELLED, Outcome.NOT_SENT]


def test_a_bug_is_not_a_record() -> None:
    """An exception that is neither trouble nor cancellation ends the pass with its traceback."""

    def buggy(_: str) -> Script:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        _replayed(open_loop([0]), buggy)


def test_an_open_loop_needs_due_times() -> None:
    """A plan that contradicts itself is refused before anything is sent."""
    with pytest.raises(ValueError, match="without a due time"):
        _replayed(PassPlan("replay", (planned(0, None),), None), lambda _: answers(ttft_ns=1))


def test_an_empty_pass_has_no_records() -> None:
    """Nothing planned, nothing done."""
    assert _replayed(open_loop([]), lambda _: answers(ttft_ns=1))[0] == ()


def test_garbage_collection_pauses_during_the_pass_only() -> None:
    """No collection can stop the loop in mid-pass; afterwards all is as before."""
    during: list[tuple[bool, int]] = []

    def script(_: str) -> Script:
        during.append((gc.isenabled(), gc.get_freeze_count()))
        return answers(ttft_ns=1)

    before = (gc.isenabled(), gc.get_freeze_count())
    _replayed(open_loop([0]), script)
    assert before == (True, 0)
    assert during[0][0] is False
    assert during[0][1] > 0
    assert (gc.isenabled(), gc.get_freeze_count()) == before


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_rows_in_are_rows_out(data: st.DataObject) -> None:
    """Whatever the server does, however the pass ends, each planned request has exactly one record, watched once."""
    gaps_ns = data.draw(st.lists(st.integers(0, 20 * SECOND_NS), max_size=6), label="gaps")
    played = data.draw(st.lists(scripts, min_size=len(gaps_ns), max_size=len(gaps_ns)), label="scripts")
    concurrency = data.draw(st.none() | st.integers(1, 4), label="concurrency")
    stop_at_ns = data.draw(st.none() | st.integers(0, 100 * SECOND_NS), label="stop")
    plan = open_loop(gaps_ns) if concurrency is None else closed_loop(len(gaps_ns), concurrency)

    records, watched, transport = _replayed(plan, lambda name: played[_seq(name)], stop_at_ns)

    assert [record.seq for record in records] == list(range(len(plan.requests)))
    assert sorted(watched, key=lambda record: record.seq) == list(records)
    assert all((record.error is None) == (record.outcome is Outcome.OK) for record in records)
    assert len(transport.sent) == sum(record.sent_ns is not None for record in records)
    if concurrency is None:
        assert all(record.sent_ns in (None, record.due_ns) for record in records if record.status is not None)
