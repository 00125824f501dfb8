"""Traces out of traces."""

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import TraceError
from harness.trace import MakeSpec, Trace, TraceRequest, limit, make_trace, rate, scale_lengths, window, with_rate

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
    trace = at(5, 500_000, 1_000_005, 2_000_000)
    assert [one.row for one in window(trace, 1_000_000).requests] == [0, 1, 2]
    assert window(trace, 10_000_000) == trace
    assert [one.row for one in window(trace, 0).requests] == [0]
    with pytest.raises(TraceError, match="window is -1 us"):
        window(trace, -1)


def test_rate_counts_gaps() -> None:
    """Three requests over two seconds are one request a second."""
    assert rate(at(0, 500_000, 2_000_000)) == 1.0


@pytest.mark.parametrize("arrivals_us", [(0,), (7, 7)])
def test_no_span_no_rate(arrivals_us: tuple[int, ...]) -> None:
    """Requests that arrive at once have no rate, and none can be given to several of them."""
    with pytest.raises(TraceError, match="no rate"):
        rate(at(*arrivals_us))
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


def test_scale_of_the_shipped_config() -> None:
    """1/12.8 makes a prefix of 16,384 tokens 1,280 long, in blocks of 40."""
    scaled = scale_lengths(make_trace(MakeSpec(requests=5)), Fraction(10, 128))

    assert scaled.block_size == 40
    assert all(1280 + 3 <= request.input_tokens <= 1280 + 19 for request in scaled.requests)


@settings(deadline=None)
@given(
    st.integers(1, 96).map(lambda k: Fraction(k, 32)),
    st.lists(st.tuples(st.integers(1, 400), st.integers(1, 99)), min_size=1, max_size=9),
)
def test_scaling_keeps_what_is_shared(ratio: Fraction, drawn: list[tuple[int, int]]) -> None:
    """Whole blocks scale exactly, tails and outputs to the nearest token but at least one, and ids stay."""
    before = trace_of(
        *(TraceRequest(i, "", 0, i, n, out, tuple(range(-(-n // 32)))) for i, (n, out) in enumerate(drawn)),
        block_size=32,
    )

    after = scale_lengths(before, ratio)

    assert after.block_size == 32 * ratio
    for was, now in zip(before.requests, after.requests, strict=True):
        whole = was.input_tokens // 32
        tail, tail_was = now.input_tokens - whole * after.block_size, was.input_tokens % 32
        assert abs(tail - tail_was * ratio) <= Fraction(1, 2) or tail == 1
        assert (tail > 0) == (tail_was > 0)
        assert tail <= after.block_size
        assert now.output_tokens >= 1
        assert abs(now.output_tokens - was.output_tokens * ratio) <= Fraction(1, 2) or now.output_tokens == 1
        assert replace(now, input_tokens=was.input_tokens, output_tokens=was.output_tokens) == was


def test_halves_are_rounded_up() -> None:
    """A tail of 5 tokens at 1/2 is 3, and an output of 1 stays 1."""
    scaled = scale_lengths(trace_of(TraceRequest(0, "", 0, 0, 517, 1, (0, 1))), Fraction(1, 2))

    assert (scaled.requests[0].input_tokens, scaled.requests[0].output_tokens) == (256 + 3, 1)


@pytest.mark.parametrize(
    ("ratio", "remedy"),
    [
        (Fraction(1, 13), "use 39/512 or 40/512"),
        (Fraction(1, 1000), "use 1/512"),
        (Fraction(0), "use 1/512"),
        (Fraction(-1), "use 1/512"),
    ],
)
def test_a_ratio_that_splits_blocks_is_refused(ratio: Fraction, remedy: str) -> None:
    """A block must stay a whole number of tokens; the error names the nearest ratios that do."""
    with pytest.raises(TraceError) as caught:
        scale_lengths(SMALL, ratio)

    assert caught.value.remedy == remedy
