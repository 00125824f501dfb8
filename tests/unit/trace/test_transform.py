"""Traces out of traces."""

import statistics
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import TraceError
from harness.trace import MakeSpec, Trace, TraceRequest, make_trace
from harness.trace.transform import (
    cap_gaps,
    jitter,
    keep_sessions,
    limit,
    mean_rate,
    sample_sessions,
    speedup,
    window,
    with_rate,
)
from tests.fakes.drawn_traces import traces

SMALL = make_trace(MakeSpec(requests=30, prefixes=4, prefix_tokens=1024))


def trace_of(*requests: TraceRequest, block_size: int = 512) -> Trace:
    """A trace of these requests."""
    return Trace(requests, block_size, "here", "unstated")


def at(*arrivals_us: int) -> Trace:
    """Equal requests at these times."""
    return trace_of(*(TraceRequest(i, "", 0, us, 512, 1, (0,)) for i, us in enumerate(arrivals_us)))


def test_limit_keeps_the_first() -> None:
    """The first n rows stay as they are; more than there are is all of them; none is an error."""
    assert limit(SMALL, 7).requests == SMALL.requests[:7]
    assert limit(SMALL, 99) == SMALL
    with pytest.raises(TraceError, match="limit is 0"):
        limit(SMALL, 0)


def test_window_keeps_what_arrives_in_time() -> None:
    """The window counts from the first request and holds its own end; the first is always in it."""
    trace = at(0, 500_000, 1_000_000, 2_000_000)
    assert [one.row for one in window(trace, 1_000_000).requests] == [0, 1, 2]
    assert window(trace, 10_000_000) == trace
    assert [one.row for one in window(trace, 0).requests] == [0]
    with pytest.raises(TraceError, match="window is -1 us"):
        window(trace, -1)


def test_rate_counts_gaps() -> None:
    """Three requests over two seconds are one request a second."""
    assert mean_rate(at(0, 500_000, 2_000_000)) == 1.0


@pytest.mark.parametrize("arrivals_us", [(0,), (7, 7)])
def test_no_span_no_rate(arrivals_us: tuple[int, ...]) -> None:
    """Requests that arrive at once have no rate, and none can be given to several of them."""
    assert mean_rate(at(*arrivals_us)) is None
    if len(arrivals_us) > 1:
        with pytest.raises(TraceError, match="no rate"):
            with_rate(at(*arrivals_us), 1.0)


def test_one_request_suits_every_rate() -> None:
    """A trace of one request has no gap to stretch."""
    assert with_rate(at(0), 3.0) == at(0)


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**10), min_size=2, max_size=30).map(sorted), st.floats(1e-3, 1e3))
def test_with_rate_stretches_every_gap_alike(arrivals_us: list[int], wanted: float) -> None:
    """The rate becomes the wanted one, the first request is at 0, and gaps keep their proportions (to 1 us)."""
    if arrivals_us[0] == arrivals_us[-1]:
        arrivals_us[-1] += 1
    before = at(*arrivals_us)

    after = with_rate(before, wanted)

    span_us = after.requests[-1].arrival_us
    factor = (len(arrivals_us) - 1) * 1e6 / wanted / (arrivals_us[-1] - arrivals_us[0])
    assert abs(span_us - (len(arrivals_us) - 1) * 1e6 / wanted) <= 1
    assert after.requests[0].arrival_us == 0
    for was, now in zip(before.requests, after.requests, strict=True):
        assert now.arrival_us == pytest.approx((was.arrival_us - arrivals_us[0]) * factor, abs=1, rel=1e-9)
        assert replace(now, arrival_us=was.arrival_us) == was


@pytest.mark.parametrize("wanted", [0.0, -1.0, float("nan"), float("inf")])
def test_refuses_a_rate_that_is_none(wanted: float) -> None:
    """A rate is finite and above zero."""
    with pytest.raises(TraceError, match="rate is"):
        with_rate(SMALL, wanted)


def test_a_window_may_start_later() -> None:
    """It counts from the first request, holds both its ends, and its first request arrives at 0."""
    later = window(at(5, 500_005, 1_000_005, 2_000_005), 500_000, 500_000)

    assert [(one.row, one.arrival_us) for one in later.requests] == [(1, 0), (2, 500_000)]
    with pytest.raises(TraceError, match="window leaves none of 2 requests"):
        window(at(0, 1), 1, 5)


def test_azure_s_gap_capped_and_sped_up() -> None:
    """A gap of 217 s, capped at 60 s in trace time and replayed ten times as fast, is 6 s."""
    capped = cap_gaps(at(0, 217_000_000), 60_000_000)

    assert [one.arrival_us for one in speedup(capped, 10).requests] == [0, 6_000_000]


def gaps(trace: Trace) -> list[int]:
    """Between arrivals, in us."""
    return [later.arrival_us - earlier.arrival_us for earlier, later in pairwise(trace.requests)]


def timeless(trace: Trace) -> list[TraceRequest]:
    """The requests without their times."""
    return [replace(one, arrival_us=0, delay_us=None) for one in trace.requests]


@given(traces(), st.integers(0, 10**7))
def test_a_cap_bounds_gaps_and_delays_and_leaves_shorter_ones(trace: Trace, cap_us: int) -> None:
    """Every gap is the lesser of itself and the cap, and so is every delay."""
    after = cap_gaps(trace, cap_us)

    assert gaps(after) == [min(gap, cap_us) for gap in gaps(trace)]
    assert timeless(after) == timeless(trace)
    for was, now in zip(trace.requests, after.requests, strict=True):
        assert now.delay_us == (None if was.delay_us is None else min(was.delay_us, cap_us))


@given(traces(), st.floats(0.01, 100))
def test_speedup_divides_every_time(trace: Trace, factor: float) -> None:
    """Arrivals and delays, to the nearest us; 2 is twice as fast, and 1 changes nothing."""
    after = speedup(trace, factor)

    assert speedup(trace, 1.0) == trace
    assert timeless(after) == timeless(trace)
    for was, now in zip(trace.requests, after.requests, strict=True):
        assert now.arrival_us == pytest.approx(was.arrival_us / factor, abs=0.51, rel=1e-12)
        assert (now.delay_us is None) == (was.delay_us is None)
        if was.delay_us is not None:
            assert now.delay_us == pytest.approx(was.delay_us / factor, abs=0.51, rel=1e-12)


@pytest.mark.parametrize("factor", [0.0, -2.0, float("nan"), float("inf")])
def test_refuses_a_speed_that_is_none(factor: float) -> None:
    """A factor is finite and above zero."""
    with pytest.raises(TraceError, match="speedup is"):
        speedup(SMALL, factor)


def key(request: TraceRequest) -> object:
    """Its session, or itself."""
    return request.session or request.row


@given(traces(), st.integers(1, 5))
def test_first_sessions_are_kept_whole(trace: Trace, count: int) -> None:
    """Those that arrive first, every row of them and of no other, in order, the first at 0."""
    after = keep_sessions(trace, count)

    wanted = list(dict.fromkeys(map(key, trace.requests)))[:count]
    assert [one.row for one in after.requests] == [one.row for one in trace.requests if key(one) in wanted]
    assert after.requests[0].arrival_us == 0
    first = next(one for one in trace.requests if one.row == after.requests[0].row)
    assert [one.arrival_us + first.arrival_us for one in after.requests] == [
        one.arrival_us for one in trace.requests if key(one) in wanted
    ]


def test_named_sessions_are_kept() -> None:
    """By name, wherever they are; a name that is not there is an error."""
    trace = trace_of(*(TraceRequest(i, name, 0, i, 512, 1, (0,)) for i, name in enumerate(["a", "b", "", "a"])))

    assert [one.row for one in keep_sessions(trace, ["a"]).requests] == [0, 3]
    with pytest.raises(TraceError, match="keep_sessions names 'c'"):
        keep_sessions(trace, ["a", "c"])
    with pytest.raises(TraceError, match="keep_sessions is 0"):
        keep_sessions(trace, 0)


MANY = trace_of(*(TraceRequest(i, f"s{i % 1000}", i // 1000, i, 512, 1, (0,)) for i in range(3000)))


@settings(max_examples=15)
@given(st.floats(0.05, 1), st.floats(0.05, 1), st.integers(0, 9))
def test_sampled_sessions_are_whole_and_nested(one: float, other: float, seed: int) -> None:
    """A larger share keeps all that a smaller one kept; every session is there with all its rows or not at all."""
    small, large = sorted((one, other))
    few, many = sample_sessions(MANY, small, seed), sample_sessions(MANY, large, seed)

    assert {one.row for one in few.requests} <= {one.row for one in many.requests}
    sessions = {one.session for one in few.requests}
    assert len(few.requests) == 3 * len(sessions)
    assert abs(len(sessions) - 1000 * small) <= 6 * (1000 * small * (1 - small)) ** 0.5


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5, float("nan")])
def test_refuses_a_share_that_is_none(share: float) -> None:
    """A share is above 0 and at most 1; one that leaves nothing is an error too."""
    with pytest.raises(TraceError, match="sample_sessions is"):
        sample_sessions(SMALL, share, 0)
    with pytest.raises(TraceError, match="leaves none"):
        sample_sessions(at(0), 1e-9, 0)


@given(traces(), st.integers(0, 10**6), st.integers(0, 9))
def test_jitter_moves_within_a_step_and_keeps_the_order_of_one_time(trace: Trace, step_us: int, seed: int) -> None:
    """No arrival moves by a step or more against another's; rows of one time stay in order; nothing else changes."""
    after = jitter(trace, step_us, seed)

    was = {one.row: one for one in trace.requests}
    now = {one.row: one for one in after.requests}
    assert now.keys() == was.keys()
    shift = min(now[row].arrival_us - was[row].arrival_us for row in was)
    assert all(0 <= now[row].arrival_us - was[row].arrival_us - shift <= step_us for row in was)
    assert gaps(after) == sorted(gaps(after), key=lambda gap: gap < 0)
    for one, other in pairwise(after.requests):
        if was[one.row].arrival_us == was[other.row].arrival_us:
            assert one.row < other.row
    assert after.requests[0].arrival_us == 0


def test_jitter_spreads_a_tick() -> None:
    """Rows of one tick are spread over it evenly."""
    spread = jitter(at(*[0] * 1000), 3_000_000, 1)

    assert statistics.fmean(one.arrival_us for one in spread.requests) == pytest.approx(1_500_000, rel=0.1)
    assert len({one.arrival_us for one in spread.requests}) > 900


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda trace: cap_gaps(trace, -1), "gap_cap is -1 us"),
        (lambda trace: jitter(trace, -1, 0), "jitter is -1 us"),
        (lambda trace: window(trace, 0, -1), "the window's start is -1 us"),
    ],
)
def test_refuses_times_below_zero(change: Callable[[Trace], Trace], words: str) -> None:
    """A time is zero or above."""
    with pytest.raises(TraceError, match=words):
        change(SMALL)
