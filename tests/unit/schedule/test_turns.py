"""Turns of a session that wait for the one before."""

from hypothesis import given

from harness.schedule import PlannedRequest, Prompting, describe, plan_trace
from harness.trace import Trace, TraceRequest
from tests.fakes.drawn_traces import traces

PROMPTING = Prompting("model", "salt", 10, 32_000)


def planned(trace: Trace, *, wait: bool = True) -> tuple[PlannedRequest, ...]:
    """The requests of its replay."""
    return plan_trace("t", trace, PROMPTING, prewarm=False, turns_wait=wait).passes[0].requests


def turn(row: int, session: str, arrival_us: int, delay_us: int | None) -> TraceRequest:
    """A row of a session."""
    return TraceRequest(row, session, 0, arrival_us, 16, 1, (row,), delay_us)


def test_a_turn_waits_for_the_one_before_and_its_delay() -> None:
    """Across other sessions; a first turn, and one without a delay, goes at its arrival."""
    rows = (
        turn(0, "a", 0, None),
        turn(1, "b", 5, None),
        turn(2, "a", 10, 700),
        turn(3, "", 15, None),
        turn(4, "b", 20, 0),
        turn(5, "a", 25, None),
        turn(6, "a", 30, 9),
    )
    requests = planned(Trace(rows, 16, "here", "unstated"))

    assert [(one.due_ns, one.after, one.gap_ns) for one in requests] == [
        (0, None, 0),
        (5_000, None, 0),
        (None, 0, 700_000),
        (15_000, None, 0),
        (None, 1, 0),
        (25_000, None, 0),
        (None, 5, 9_000),
    ]


def test_a_turn_whose_predecessor_was_left_out_goes_at_its_arrival() -> None:
    """There is nothing in the plan that it could wait for."""
    (only,) = planned(Trace((turn(4, "a", 0, 700),), 16, "here", "unstated"))

    assert (only.due_ns, only.after, only.gap_ns) == (0, None, 0)


@given(traces())
def test_every_request_is_due_at_a_time_or_after_another(trace: Trace) -> None:
    """Exactly one of the two, the other being an earlier turn of its session; without waiting, all have times."""
    requests = planned(trace)
    for one, row in zip(requests, trace.requests, strict=True):
        assert (one.due_ns is None) != (one.after is None)
        if one.after is not None:
            assert one.after < one.seq
            assert requests[one.after].session == one.session != ""
            assert not any(other.session == one.session for other in requests[one.after + 1 : one.seq])
            assert one.gap_ns == (row.delay_us or 0) * 1000
    assert [one.due_ns for one in planned(trace, wait=False)] == [row.arrival_us * 1000 for row in trace.requests]


def test_waiting_is_in_the_plan_s_hash_and_figures() -> None:
    """Another delay, or none, is another plan."""
    plans = [
        plan_trace("t", Trace((turn(0, "a", 0, None), turn(1, "a", 5, delay)), 16, "h", "u"), PROMPTING, prewarm=False)
        for delay in (None, 5, 6)
    ]

    assert len({plan.hash for plan in plans}) == 3
    assert [describe(plan).turns_that_wait for plan in plans] == [0, 1, 1]
    assert describe(plans[1]).span_s == 0.0
