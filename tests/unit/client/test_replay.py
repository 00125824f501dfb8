"""Replaying a pass, in virtual time."""

import asyncio
import gc
from collections.abc import Callable
from dataclasses import replace

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
    drain_at_ns: int | None = None,
    retries: int = 0,
) -> tuple[tuple[RequestRecord, ...], list[RequestRecord], FakeTransport]:
    """Records returned, records in the order in which they were watched, and the transport."""

    async def main(clock: FakeClock) -> tuple[tuple[RequestRecord, ...], list[RequestRecord], FakeTransport]:
        watched: list[RequestRecord] = []
        transport, stop, drain = FakeTransport(clock, script), asyncio.Event(), asyncio.Event()
        for event, at_ns in ((stop, stop_at_ns), (drain, drain_at_ns)):
            if at_ns is not None:
                asyncio.get_running_loop().call_later(at_ns / 1e9, event.set)
        records = await replay(
            plan,
            cell(),
            carriage=Carriage(transport, clock, LIMITS, retries),
            start_ns=start_ns,
            watch=watched.append,
            stop=stop,
            drain=drain,
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


def test_a_turn_follows_its_predecessor_and_its_gap() -> None:
    """A turn is due its think time after the turn before ended, however that ended; the schedule of others stands."""
    refused = Script(connects=False, trouble=TransportTrouble(Outcome.REFUSED, "refused"))
    first, second, third = planned(0, 100), planned(1, None), planned(2, None)
    turns = (first, replace(second, after=0, gap_ns=1_000), replace(third, after=1, gap_ns=7), planned(3, 130))
    records, _, transport = _replayed(
        PassPlan("replay", turns, None), lambda name: refused if _seq(name) == 1 else answers(ttft_ns=50, tokens=1)
    )
    assert [(r.due_ns, r.sent_ns, r.done_ns) for r in records] == [
        (100, 100, 150),
        (1_150, None, 1_150),
        (1_157, 1_157, 1_207),
        (130, 130, 180),
    ]
    assert [_seq(name) for _, name, _ in transport.sent] == [0, 3, 2]


def test_a_turn_without_a_beginning_is_refused() -> None:
    """A turn that follows a request which is not in the pass can never be due: nothing is sent."""
    with pytest.raises(ValueError, match="without a due time"):
        _replayed(PassPlan("replay", (replace(planned(0, None), after=9),), None), lambda _: answers(ttft_ns=1))


def test_drain_lets_what_is_in_flight_end_and_sends_no_more() -> None:
    """After a drain, requests in flight end as what they are, turns and later requests are not_sent."""
    plan = PassPlan("replay", (planned(0, 0), replace(planned(1, None), after=0), planned(2, 900)), None)
    records, watched, _ = _replayed(plan, lambda _: answers(ttft_ns=500, tokens=1), drain_at_ns=100)
    assert [record.outcome for record in records] == [Outcome.OK, Outcome.NOT_SENT, Outcome.NOT_SENT]
    assert records[0].done_ns == 500
    assert len(watched) == 3


def test_a_stop_cuts_a_drain_short() -> None:
    """The second interrupt ends at once what the first one let go on."""
    records, _, _ = _replayed(
        closed_loop(3, 1), lambda _: answers(ttft_ns=10 * SECOND_NS), stop_at_ns=300, drain_at_ns=100
    )
    assert [(r.outcome, r.done_ns) for r in records] == [
        (Outcome.CANCELLED, 300),
        (Outcome.NOT_SENT, None),
        (Outcome.NOT_SENT, None),
    ]


def test_a_retry_waits_longer_each_time_and_its_row_is_that_of_the_last_send() -> None:
    """Refused twice, then answered: sent after 0.5 s and another 1 s, still due when it was due."""
    sends: list[str] = []

    def script(name: str) -> Script:
        sends.append(name)
        trouble = TransportTrouble(Outcome.REFUSED, "refused")
        return Script(connects=False, trouble=trouble) if len(sends) < 3 else answers(ttft_ns=5, tokens=1)

    (record,), _, _ = _replayed(open_loop([7]), script, retries=4)
    assert (record.outcome, record.attempts) == (Outcome.OK, 3)
    assert (record.due_ns, record.sent_ns) == (7, 7 + 1_500 * MS)


def test_a_request_that_waits_for_its_retry_can_be_stopped() -> None:
    """A stop between two sends ends the request as cancelled, at once."""
    refused = Script(connects=False, trouble=TransportTrouble(Outcome.REFUSED, "refused"))
    (record,), _, _ = _replayed(open_loop([0]), lambda _: refused, retries=9, stop_at_ns=200 * MS)
    assert (record.outcome, record.attempts, record.done_ns) == (Outcome.CANCELLED, 1, 200 * MS)


def test_connections_are_asked_for_ahead_of_their_requests() -> None:
    """What is due within a quarter of a second is prepared before it: the first at the start, the others in time."""
    _, _, transport = _replayed(open_loop([0, 100 * MS, 5 * SECOND_NS]), lambda _: answers(ttft_ns=1))
    assert transport.prepared == [(0, 2), (4_750 * MS, 1)]


def test_responses_are_read_when_nothing_is_due() -> None:
    """A response that ends just before a send is read after it, so that reading delays no send."""
    read_at: list[tuple[int, int]] = []

    async def main(clock: FakeClock) -> None:
        transport = FakeTransport(clock, lambda _: answers(ttft_ns=500_000, tokens=1))
        await replay(
            open_loop([0, 1_000_000, 2_000_000]),
            cell(),
            carriage=Carriage(transport, clock, LIMITS),
            watch=lambda record: read_at.append((record.seq, clock.now_ns())),
        )

    run_virtual(main)
    assert [seq for seq, _ in read_at] == [0, 1, 2]
    assert all(at_ns >= 2_000_000 for _, at_ns in read_at)


def test_a_whole_hour_of_a_trace() -> None:
    """An hour at 20 requests a minute, every answer slower than the next arrival: each is sent when it is due."""
    due_ns = [minute * 60 * SECOND_NS + (minute * 7919 % 97) * MS + nth * 3 * SECOND_NS
              for minute in range(60) for nth in range(20)]  # fmt: skip
    records, _, transport = _replayed(open_loop(due_ns), lambda _: answers(ttft_ns=8 * SECOND_NS))
    assert [record.sent_ns for record in records] == due_ns
    assert {record.outcome for record in records} == {Outcome.OK}
    assert transport.most_in_flight > 1


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_rows_in_are_rows_out(data: st.DataObject) -> None:
    """Whatever the server does, however the pass ends, each planned request has exactly one record, watched once."""
    gaps_ns = data.draw(st.lists(st.integers(0, 20 * SECOND_NS), max_size=6), label="gaps")
    played = data.draw(st.lists(scripts, min_size=len(gaps_ns), max_size=len(gaps_ns)), label="scripts")
    concurrency = data.draw(st.none() | st.integers(1, 4), label="concurrency")
    stop_at_ns = data.draw(st.none() | st.integers(0, 100 * SECOND_NS), label="stop")
    drain_at_ns = data.draw(st.none() | st.integers(0, 100 * SECOND_NS), label="drain")
    retries = data.draw(st.integers(0, 2), label="retries")
    plan = open_loop(gaps_ns) if concurrency is None else closed_loop(len(gaps_ns), concurrency)
    if concurrency is None:
        follows = data.draw(st.lists(st.booleans(), min_size=len(gaps_ns), max_size=len(gaps_ns)), label="turns")
        turns = tuple(
            replace(one, due_ns=None, after=one.seq - 1, gap_ns=gaps_ns[one.seq]) if follow and one.seq else one
            for one, follow in zip(plan.requests, follows, strict=True)
        )
        plan = PassPlan("replay", turns, None)

    records, watched, transport = _replayed(
        plan, lambda name: played[_seq(name)], stop_at_ns, drain_at_ns=drain_at_ns, retries=retries
    )

    assert [record.seq for record in records] == list(range(len(plan.requests)))
    assert sorted(watched, key=lambda record: record.seq) == list(records)
    assert all((record.error is None) == (record.outcome is Outcome.OK) for record in records)
    assert all((record.attempts == 0) == (record.outcome is Outcome.NOT_SENT) for record in records)
    assert transport.in_flight == 0
    if not retries:
        assert len(transport.sent) == sum(record.sent_ns is not None for record in records)
        if concurrency is None:
            assert all(record.sent_ns in (None, record.due_ns) for record in records if record.status is not None)
